"""Robust planning: what a reward is worth at least and at most, over all models that the data allow."""

from __future__ import annotations

import numpy as np

from .. import kernels
from ..data.counts import Counts
from ..rewards.forms import ArrivalReward


class Robust:
    """Robust planning for one reward, (H, S, A) or on arrival, over the KL balls around the empirical laws of counts."""

    def __init__(self, counts: Counts, radii: np.ndarray, most: int, reward: np.ndarray | ArrivalReward) -> None:
        """`radii` and `most` are the KL radii and the largest number of successors of a bound (`bounds.Bound`)."""
        self.radii, self.most = radii, most
        self.setting, self.table = counts.setting, counts.table
        setting = counts.setting
        if isinstance(reward, ArrivalReward):
            base = np.zeros((setting.horizon, setting.n_outcomes, setting.n_actions))
            self.reward = base, reward.pointer, reward.target, reward.pay
        else:  # an array of our own: the kernels are compiled for writable ones
            self.reward = np.array(reward), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)

    def _values(self, side: float, whose: int, policy: np.ndarray) -> tuple[np.ndarray, float]:
        setting = self.setting
        Q, V = kernels.robust.values(
            self.table, setting.n_actions, self.radii, self.most, *self.reward, setting.discount, side, whose, policy
        )
        start = -1 if setting.initial_state is None else setting.initial_state
        return Q, float(kernels.robust.start(self.table, self.radii, start, V[0, : setting.n_states], side))

    def best(self, side: float) -> tuple[np.ndarray, float]:
        """Q and the value from the start of acting best against the extreme models."""
        return self._values(side, kernels.robust.BEST, np.zeros((0, 0, 0)))

    def of(self, policy: np.ndarray, side: float) -> float:
        """The extreme value of a policy from the start."""
        if policy.ndim == 2:
            policy = (policy[..., None] == np.arange(self.setting.n_actions)).astype(float)
        return self._values(side, kernels.robust.GIVEN, np.ascontiguousarray(policy))[1]

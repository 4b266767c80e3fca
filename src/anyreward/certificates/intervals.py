"""Robust planning: the smallest and the largest value of a reward over all models that the data allow."""

from __future__ import annotations

from math import fsum, inf
from typing import Any

import numpy as np

from .. import kernels
from ..data.counts import Counts
from ..rewards.forms import ArrivalReward


class Robust:
    """Robust planning for one reward over all models whose transition distributions lie in KL balls around the empirical ones.

    Let c be the radius of a state-action pair's ball. On the event that every true distribution p satisfies KL(p_hat, p) <= c,
    the smallest and the largest value over these models enclose the true value (`docs/theory.md`, 6). With a declared structure
    each draw of a pair has a ball (15).
    """

    def __init__(
        self,
        counts: Counts,
        radii: np.ndarray,
        most: int,
        reward: np.ndarray | ArrivalReward,
        base: float = 0.0,
        ends: tuple[float, float] = (-inf, inf),
    ) -> None:
        """Prepares robust planning.

        Parameters
        ----------
        counts : Counts
        radii : ndarray
            The KL radius of each row of the table of counts or, with a structure, of each draw of a row: `Bound.kl_radii`.
        most : int
            The largest possible number of successors of a state-action pair, `Bound.most_successors`.
        reward : ndarray, (H, n_outcomes, A), or ArrivalReward
        base : float, default 0
            A constant that is added to the reward at every step.
        ends : (float, float)
            Between which the value from every step and state that can be reached is known to lie: values are cut off there.
        """
        self.radii, self.most = radii, most
        self.setting, self.table = counts.setting, counts.model_table
        self.draws = None if counts.setting.structure is None else counts.shared.draws
        self.beyond = base * counts.setting.sigma[::-1]  # what `base` adds up to from each step on, (H + 1,)
        self.limits = ends[0] - self.beyond[:-1], ends[1] - self.beyond[:-1]
        setting = counts.setting
        if isinstance(reward, ArrivalReward):
            nothing = np.zeros((setting.horizon, setting.n_outcomes, setting.n_actions))
            self.reward: Any = nothing, (reward.pointer, reward.target, reward.pay)
        else:  # a copy, because the kernels are compiled for writable arrays in C order
            self.reward = np.array(reward, order="C"), None

    def _values(self, side: float, whose: int, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Q and V, without `base`, of the best actions or of a policy (`whose`) in the extreme models (`side`)."""
        A, discount = self.setting.n_actions, self.setting.discount
        return kernels.robust.values(
            self.table, self.draws, A, self.radii, self.most, *self.reward, discount, side, whose, policy, *self.limits
        )

    def _start(self, V: np.ndarray, side: float) -> float:
        """The extreme value from the start, from the values of all steps and outcomes."""
        setting = self.setting
        if setting.estimates_start:
            radius = float(self.radii.flat[0])  # of the first draw of the first row
            return float(kernels.robust.start(self.table, radius, V[0, : setting.n_states], side)) + float(self.beyond[0])
        states, p = setting.starts
        return fsum(p * V[0, states]) + float(self.beyond[0])

    def best(self, side: float) -> tuple[np.ndarray, float]:
        """Q (H, n_outcomes, A), without `base`, and the value from the start, of the actions that are best in the extreme models.

        `side` is `kernels.robust.UPPER` for the largest values over the models, or `LOWER` for the smallest.
        """
        Q, V = self._values(side, kernels.robust.BEST, np.zeros((0, 0, 0)))
        return Q, self._start(V, side)

    def of(self, policy: np.ndarray, side: float) -> float:
        """The largest (`UPPER`) or smallest (`LOWER`) value over the models of a policy, (H, S) or (H, S, A)."""
        return self._start(self._of(side, policy), side)

    def state_values(self, side: float, policy: np.ndarray | None = None) -> np.ndarray:
        """The extreme value from each step and outcome, (H+1, n_outcomes), of a policy or, without one, of the best actions."""
        V = self._values(side, kernels.robust.BEST, np.zeros((0, 0, 0)))[1] if policy is None else self._of(side, policy)
        return V + self.beyond[:, None]

    def ahead(self, h: int, f: np.ndarray, side: float) -> np.ndarray:
        """The extreme expectation of f(s'), f (n_outcomes,), over the ball of each state and action at step h, (n_outcomes, A).

        It is -inf for illegal actions. The reward and the discount of this object play no part.
        """
        N, A, layers = self.setting.n_outcomes, self.setting.n_actions, len(self.table.head)
        steps = slice(h, h + 2) if layers > 1 else slice(0, 1)
        table = self.table._replace(node_of=self.table.node_of[steps], head=self.table.head[steps])
        reward = np.zeros((2, N, A))
        reward[1] = f[:, None]  # what is earned in a second step, whatever its action, is f of where the first one led
        free = np.full(2, -inf), np.full(2, inf)
        Q, _ = kernels.robust.values(
            table, self.draws, A, self.radii, self.most, reward, None, 1.0, side, kernels.robust.BEST, np.zeros((0, 0, 0)), *free
        )
        return np.asarray(Q[0])

    def start(self, V: np.ndarray, side: float) -> float:
        """The extreme expectation of V (n_outcomes,) over the initial state."""
        return self._start(V[None], side) - float(self.beyond[0])

    def _of(self, side: float, policy: np.ndarray) -> np.ndarray:
        """V of a policy in the extreme models, without `base`."""
        if policy.ndim == 2:
            policy = (policy[..., None] == np.arange(self.setting.n_actions)).astype(float)
        return self._values(side, kernels.robust.GIVEN, np.ascontiguousarray(policy))[1]

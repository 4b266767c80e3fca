"""Robust planning: the smallest and the largest value of a reward over all models that the data allow."""

from __future__ import annotations

from copy import copy
from math import fsum, inf
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from ..cancellation import blocks
from ..data.counts import Counts
from ..planning import block, chosen_in, nothing_chosen, room
from ..rewards.forms import ArrivalReward, paid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..data.empirical import EmpiricalModel
    from ..kernels.planning import Choice, Found, Places
    from ..kernels.table import Table

BLOCK = 2**19  # sums over balls after which it is time to ask whether a pass is still wanted: some 20 ms


class Robust:
    """Robust planning for one reward over all models whose laws lie in KL balls around the empirical ones.

    Let c be the radius of a state-action pair's ball. On the event that every true distribution p satisfies KL(p_hat, p) <= c,
    the smallest and the largest value over these models enclose the true value (`docs/theory.md`, 6.1). With a declared
    structure each draw of a pair has a ball (`docs/theory.md`, 15.3). Where masks are hidden, any action may be the only legal
    one of a state that was never visited (`docs/theory.md`, 9.2).
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
        self.radii, self.most, self.model = radii, most, counts.model()
        self.setting, self.table = counts.setting, counts.model_table
        self.draws = None if counts.setting.structure is None else counts.shared.draws
        self.beyond = base * counts.setting.sigma[::-1]  # what `base` adds up to from each step on, (H + 1,)
        self.limits = ends[0] - self.beyond[:-1], ends[1] - self.beyond[:-1]
        if isinstance(reward, ArrivalReward):
            self.reward: Any = paid(np.zeros((1, 1, 1))), (reward.pointer, reward.target, reward.pay)
        else:
            self.reward = paid(reward), None

    def sweep(self, side: float, policy: np.ndarray | Choice | None = None, V: int = 2, Q: int = 0) -> Found:
        """V and Q, without `base`, of the best actions or of a policy in the extreme models (`side`).

        That many rows of V and Q are kept.
        """
        setting, places = self.setting, self.model.places
        mixed = policy if isinstance(policy, np.ndarray) and policy.ndim == 3 else np.zeros((0, 0, 0))
        given = None if len(mixed) else kernels.planning.as_choice(policy) if isinstance(policy, np.ndarray) else policy
        found = room(places, setting.n_outcomes, setting.n_actions, setting.horizon, V, Q)
        self._sweep(places, self.reward, setting.discount, side, given, mixed, self.limits, found)
        return found

    def each(self, side: float, policy: Choice | None = None) -> Iterator[tuple[int, np.ndarray]]:
        """`state_values` step by step, from the last: each step with the values of all outcomes."""
        setting, places, mixed = self.setting, self.model.places, np.zeros((0, 0, 0))
        found = room(places, setting.n_outcomes, setting.n_actions, setting.horizon)
        for h in range(setting.horizon - 1, -1, -1):
            self._sweep(places, self.reward, setting.discount, side, policy, mixed, self.limits, found, (h, h))
            yield h, found.V[h % 2] + self.beyond[h]

    def _sweep(
        self, places: Places, reward: Any, discount: float, side: float, given: Choice | None, mixed: np.ndarray,
        limits: tuple[np.ndarray, np.ndarray], found: Found, steps: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        """Calls the compiled pass, for all steps unless the last and the first one are given."""
        for few in blocks(*(steps or (len(limits[0]) - 1, 0)), block(self.model, BLOCK)):
            kernels.robust.values(
                self.table, self.draws, places, self.model.nodes, self.setting.n_actions, self.radii, self.most, *reward,
                discount, side, nothing_chosen(given), np.ascontiguousarray(mixed), *limits, found, *few,
            )  # fmt: skip

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
        found = self.sweep(side, Q=self.setting.horizon)
        return found.Q, self._start(found.V, side)

    def of(self, policy: np.ndarray | Choice | None, side: float) -> float:
        """The largest (`UPPER`) or smallest (`LOWER`) value over the models of a policy, or of the best actions without one.

        A policy is (H, S), (H, S, A) or a `Choice`.
        """
        return self._start(self.sweep(side, policy).V, side)

    def chosen(self, side: float) -> Choice:
        """The actions that are best in the extreme models, as a policy; of equals, one that was seen."""
        places = self.model.places
        if self.reward[1] is None:
            return chosen_in(places, self.reward[0], self.sweep(side), *self.limits)
        setting, mixed = self.setting, np.zeros((0, 0, 0))  # where nothing was seen, the best action depends on where it is paid
        found = room(places, setting.n_outcomes, setting.n_actions, setting.horizon, Q=1)
        policy = np.empty((setting.horizon, setting.n_outcomes), np.int32)
        for h in range(setting.horizon - 1, -1, -1):
            self._sweep(places, self.reward, setting.discount, side, None, mixed, self.limits, found, (h, h))
            layer = min(h, len(places.begin) - 2)
            at = slice(places.begin[layer], places.begin[layer + 1])
            policy[h] = found.Q[0].argmax(axis=1)
            policy[h, places.state[at]] = found.chosen[h % len(found.chosen), at]
        return kernels.planning.as_choice(policy)

    def state_values(self, side: float, policy: np.ndarray | Choice | None = None) -> np.ndarray:
        """The extreme value from each step and outcome, (H+1, n_outcomes), of a policy or, without one, of the best actions."""
        return self.sweep(side, policy, V=self.setting.horizon + 1).V + self.beyond[:, None]

    def ahead(self, h: int, f: np.ndarray, side: float) -> np.ndarray:
        """The extreme expectation of f(s'), f (n_outcomes,), over the ball of each state and action at step h, (n_outcomes, A).

        It is -inf for illegal actions. The reward and the discount of this object play no part.
        """
        places, A = self.model.places, self.setting.n_actions
        layer = min(h, len(places.begin) - 2)
        begin = places.begin[[layer, layer + 1, layer + 1]]  # in a second step, whatever is done, f is earned where one is
        reward = np.zeros((2, len(f), 1))
        reward[1, :, 0] = f
        two = places._replace(begin=begin)
        found, free = room(two, len(f), A, 2, Q=2), (np.full(2, -inf), np.full(2, inf))
        self._sweep(two, (paid(reward), None), 1.0, side, None, np.zeros((0, 0, 0)), free, found)
        return found.Q[0]

    def start(self, V: np.ndarray, side: float) -> float:
        """The extreme expectation of V (n_outcomes,) over the initial state."""
        return self._start(V[None], side) - float(self.beyond[0])

    def of_fewer(self, table: Table, model: EmpiricalModel) -> Robust:
        """The same balls where the outcomes have other numbers and many are one: for `ahead` alone."""
        fewer = copy(self)
        fewer.table, fewer.model = table, model
        return fewer

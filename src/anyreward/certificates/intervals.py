"""Robust planning: the smallest and the largest value of a reward over all models that the data allow."""

from __future__ import annotations

from copy import copy
from functools import partial
from math import fsum, inf
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from ..cancellation import in_blocks
from ..data.counts import Counts
from ..planning import chosen_in, prepared
from ..rewards.forms import ArrivalReward, paid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..data.empirical import EmpiricalModel
    from ..kernels.planning import Choice
    from ..kernels.table import Table
    from ..planning import Pass

NOTHING = np.zeros((1, 1, 1))  # the reward that pays nothing
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
        reward: np.ndarray | ArrivalReward | None = None,
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
        reward : ndarray, (H, n_outcomes, A), or ArrivalReward, optional
            None: for balls alone, which may be given rewards later (`paying`).
        base : float, default 0
            A constant that is added to the reward at every step.
        ends : (float, float)
            Between which the value from every step and state that can be reached is known to lie: values are cut off there.
        """
        self.radii, self.most, self.model = radii, most, counts.model()
        self.setting, self.table = counts.setting, counts.model_table
        self.draws = None if counts.setting.structure is None else counts.shared.draws
        self._pay(NOTHING if reward is None else reward, base, ends)

    def _pay(self, reward: np.ndarray | ArrivalReward, base: float, ends: tuple[float, float]) -> None:
        """Takes up a reward; arguments as above."""
        self.beyond = base * self.setting.sigma[::-1]  # what `base` adds up to from each step on, (H + 1,)
        self.limits = ends[0] - self.beyond[:-1], ends[1] - self.beyond[:-1]
        if isinstance(reward, ArrivalReward):
            self.reward: Any = paid(NOTHING), (reward.pointer, reward.target, reward.pay)
        else:
            self.reward = paid(reward), None

    def paying(self, reward: np.ndarray | ArrivalReward, base: float = 0.0, ends: tuple[float, float] = (-inf, inf)) -> Robust:
        """Robust planning over the same balls for another reward; arguments as for the class."""
        other = copy(self)
        other._pay(reward, base, ends)
        return other

    def sweep(self, side: float, policy: np.ndarray | Choice | None = None, V: int = 2, Q: int = 0) -> Pass:
        """V and Q, without `base`, of the best actions or of a policy in the extreme models (`side`).

        That many rows of V and Q are kept.
        """
        made = prepared(self.model, self.model.places, self.setting.horizon, policy, V, Q)
        self._sweep(made, self.reward, self.setting.discount, side, self.limits, len(self.limits[0]) - 1, 0)
        return made

    def each(self, side: float, policy: Choice | None = None) -> Iterator[tuple[int, np.ndarray]]:
        """`state_values` step by step, from the last: each step with the values of all outcomes."""
        setting = self.setting
        made = prepared(self.model, self.model.places, setting.horizon, policy)
        for h in range(setting.horizon - 1, -1, -1):
            self._sweep(made, self.reward, setting.discount, side, self.limits, h, h)
            yield h, made.found.V[h % 2] + self.beyond[h]

    def _sweep(
        self, made: Pass, reward: Any, discount: float, side: float, limits: tuple[np.ndarray, np.ndarray], last: int, first: int
    ) -> None:
        """Makes the compiled pass over some steps, from the last one."""
        compiled = partial(
            kernels.robust.values,
            self.table, self.draws, made.places, self.model.nodes, self.setting.n_actions, self.radii, self.most, *reward,
            discount, side, made.given, made.mixed, *limits, made.found,
        )  # fmt: skip
        in_blocks(compiled, last, first, BLOCK // made.size)

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
        found = self.sweep(side, Q=self.setting.horizon).found
        return found.Q, self._start(found.V, side)

    def of(self, policy: np.ndarray | Choice | None, side: float) -> float:
        """The largest (`UPPER`) or smallest (`LOWER`) value over the models of a policy, or of the best actions without one.

        A policy is (H, S), (H, S, A) or a `Choice`.
        """
        return self._start(self.sweep(side, policy).found.V, side)

    def chosen(self, side: float) -> Choice:
        """The actions that are best in the extreme models, as a policy; of equals, one that was seen."""
        if self.reward[1] is None:
            return chosen_in(self.sweep(side), self.reward[0], *self.limits)
        setting = self.setting  # where nothing was seen, the best action depends on where it is paid
        made = prepared(self.model, self.model.places, setting.horizon, None, Q=1)
        places, found = made.places, made.found
        policy = np.empty((setting.horizon, setting.n_outcomes), np.int32)
        for h in range(setting.horizon - 1, -1, -1):
            self._sweep(made, self.reward, setting.discount, side, self.limits, h, h)
            layer = min(h, len(places.begin) - 2)
            at = slice(places.begin[layer], places.begin[layer + 1])
            policy[h] = found.Q[0].argmax(axis=1)
            policy[h, places.state[at]] = found.chosen[h % len(found.chosen), at]
        return kernels.planning.as_choice(policy)

    def state_values(self, side: float, policy: np.ndarray | Choice | None = None) -> np.ndarray:
        """The extreme value from each step and outcome, (H+1, n_outcomes), of a policy or, without one, of the best actions."""
        return self.sweep(side, policy, V=self.setting.horizon + 1).found.V + self.beyond[:, None]

    def ahead(self, h: int, f: np.ndarray, side: float) -> np.ndarray:
        """The extreme expectation of f(s'), f (n_outcomes,), over the ball of each state and action at step h, (n_outcomes, A).

        It is -inf for illegal actions. The reward and the discount of this object play no part.
        """
        places = self.model.places
        layer = min(h, len(places.begin) - 2)
        begin = places.begin[[layer, layer + 1, layer + 1]]  # in a second step, whatever is done, f is earned where one is
        reward = np.zeros((2, len(f), 1))
        reward[1, :, 0] = f
        made = prepared(self.model, places._replace(begin=begin), 2, None, Q=2)
        self._sweep(made, (paid(reward), None), 1.0, side, (np.full(2, -inf), np.full(2, inf)), 1, 0)
        return made.found.Q[0]

    def start(self, V: np.ndarray, side: float) -> float:
        """The extreme expectation of V (n_outcomes,) over the initial state."""
        return self._start(V[None], side) - float(self.beyond[0])

    def of_fewer(self, table: Table, model: EmpiricalModel) -> Robust:
        """The same balls where the outcomes have other numbers and many are one: for `ahead` alone."""
        fewer = copy(self)
        fewer.table, fewer.model = table, model
        return fewer

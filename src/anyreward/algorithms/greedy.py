"""Explorers that are greedy for an error index, under one of three replanning schedules.

The index has the form E_h(s,a) = min(cap_h, weight_h radius(n) + discount sum_s' p_hat(s'|s,a) max_b E_{h+1}(s',b)); what the
weights and radii are makes the algorithm.

Why the schedule does not matter for correctness. The certificate is a function of the counts, and the event it needs speaks of
all counts that any sampling rule can produce. Stale or unclipped indices change which episodes are played, never what is
concluded from them: `error_bound` is computed afresh from the counts.
"""

from __future__ import annotations

from abc import abstractmethod
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from .._checks import checked_array
from ..certificates.error_index import ErrorIndex
from ..data.counts import Counts
from ..setting import Setting, shown
from .explorer import NOTHING, IndexExplorer, Learning, Repeated, Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..kernels.rf import ErrorLearner, Rule

FEW = 4_000  # pairs of step and state up to which a whole policy is cheaper than asking for its entries one by one
SCHEDULES = ("every", "path", "geometric")


class GreedyExplorer(IndexExplorer):
    """Plays the greedy policy of an error index; a subclass gives the constants of the index, `rule`.

    Parameters
    ----------
    replan
        When the index is brought up to date. `"every"`: a full backward pass after each episode, as in the paper.
        `"path"`: after each episode, only the entries that it visited, backwards; the cost does not depend on the number
        of states. `"geometric"`: a full pass whenever the number of episodes has grown by the factor `growth`; the policy
        is fixed in between, so on a known model a whole stretch is played at once, exactly in law (`kernels.simulate.walk`).
        A fixed policy goes on where enough was seen long ago. With `growth` 1.03 that takes up to a tenth more episodes than
        `"path"` on the double chain and on random models, but 1.3 to 2.5 times as many on grids of 8 x 8 and 21 x 21 fields;
        with 1.01 it is none on the former, and 1.1 to 1.6 times as many on the grid of 8 x 8.
    setting, delta, bounds, clip, max_successors, transfer, seed, growth, ties
        See `Explorer` and `IndexExplorer`.
    """

    continues, steady = True, True
    per_call = 10_000

    def __init__(self, setting: Setting, *, replan: str = "path", **options: Any) -> None:
        super().__init__(setting, **options)
        if replan not in SCHEDULES:
            raise ValueError(f"replan is {shown(replan)}: it has to be one of {', '.join(map(repr, SCHEDULES))}.")
        self.replan = replan
        self._index = ErrorIndex(self.counts, self.rule())
        self._planned_at = 0

    @abstractmethod
    def rule(self) -> Rule:
        """The constants of the index."""

    @property
    def formulas(self) -> Any:
        return self._index.rule.radius

    def learner(self) -> ErrorLearner:
        index = self._index
        index.fit()
        schedule = SCHEDULES.index(self.replan)
        return kernels.rf.ErrorLearner(index.greedy, NOTHING, self.setting.n_actions, index.rows, index.rule, schedule)

    @property
    def follows_its_bound(self) -> bool:
        """Whether the index at the start is the error bound itself, so that exploration can end at the very episode."""
        return False

    @property
    def episode_key(self) -> np.uint64:
        return np.uint64(kernels.greedy.episode_key(self.seed_key, self._index_at))

    def actor(self) -> Callable[[int, int], int]:
        if self.setting.horizon * self.setting.n_outcomes <= FEW:
            return super().actor()
        greedy, A, node_of, key = self.learner().index, self.setting.n_actions, self.counts.table.node_of, self.episode_key
        Q, settled, act = greedy.Q, greedy.settled, kernels.greedy.act
        return lambda h, s: act(Q, settled, NOTHING, A, node_of, h, s, key)

    def ask_many(self, episodes: int, goal: float) -> Request:
        if self.replan != "geometric":
            return Learning(self, min(episodes, self.per_call), goal if self.follows_its_bound else -1.0, until=self.due)
        episodes, node_of = min(episodes, self._next_pass - self.episodes), self.counts.table.node_of
        return Repeated(self.learner().index, node_of, self.episode_key, self.setting.horizon, episodes)

    def tell_many(self, request: Request, *outcome: np.ndarray) -> None:
        if isinstance(request, Repeated):
            self.counts.add_flows(outcome[0])
            self.counts.book_if_due()
        self._keep_up()
        self._plan_if_due()

    def _learn(self, states: np.ndarray, actions: np.ndarray, payments: np.ndarray | None = None) -> None:
        super()._learn(states, actions)
        self._plan_if_due()

    def _plan_if_due(self) -> None:
        if self.replan == "geometric" and self.episodes >= self._next_pass:
            self._plan()

    def _plan(self) -> None:
        self._index.plan()
        self._planned_at = self.episodes

    @property
    def _index_at(self) -> int:
        """The number of episodes that the index was last brought up to date for; the learner does it after each one."""
        return self._planned_at if self.replan == "geometric" else self.episodes

    @property
    def _next_pass(self) -> int:
        return max(self._planned_at + 1, ceil(self._planned_at * self.growth))

    def reached(self, goal: float) -> bool:
        if self.replan == "geometric" or not self.follows_its_bound or self._index.value() > goal:
            return False
        if self.error_bound <= goal:
            return True
        self._plan()  # by a stale entry, or by the last bit: not there yet
        return False

    def state(self) -> dict[str, np.ndarray]:
        return {**super().state(), **self._index.state(), "planned_at": np.array([self._index_at])}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        self._index.counts = self.counts
        self._index.restore(state)
        self._planned_at = int(checked_array(state["planned_at"], np.int64, (1,), "its schedule is", 0, self.episodes)[0])

    def go_on_from(self, counts: Counts) -> None:
        super().go_on_from(counts)
        self._index.counts = counts
        self._plan()

    @property
    def index(self) -> np.ndarray:
        """E of every pair as the sampling rule sees it, (H, S, A): exact under "every", as stale as it is otherwise."""
        return self._index.dense()

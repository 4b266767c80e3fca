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
from ..setting import Setting, shown
from .explorer import Explorer

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..data.tabular import TabularMDP
    from ..kernels.rf import Rule

FEW = 4_000  # pairs of step and state up to which a whole policy is cheaper than asking for its entries one by one
SCHEDULES = ("every", "path", "geometric")


class GreedyExplorer(Explorer):
    """Plays the greedy policy of an index; a subclass gives the constants of the index, `rule`.

    Parameters
    ----------
    replan
        When the index is brought up to date. `"every"`: a full backward pass after each episode, as in the paper.
        `"path"`: after each episode, only the entries that it visited, backwards; the cost does not depend on the number
        of states. `"geometric"`: a full pass whenever the number of episodes has grown by the factor `growth`; the policy
        is fixed in between, so on a known model a whole stretch is played at once, exactly in law (`kernels.simulate.walk`).
    ties
        `"random"`: one of the maximisers, drawn anew whenever the index is brought up to date; or `"first"`.
    setting, delta, bounds, clip, max_successors, transfer, seed, growth
        See `Explorer`.
    """

    def __init__(self, setting: Setting, *, replan: str = "path", ties: str = "random", **options: Any) -> None:
        super().__init__(setting, **options)
        if replan not in SCHEDULES:
            raise ValueError(f"replan is {shown(replan)}: it has to be one of {', '.join(map(repr, SCHEDULES))}.")
        if ties not in ("random", "first"):
            raise ValueError(f"ties is {shown(ties)}: it has to be 'random' or 'first'.")
        self.replan, self.ties = replan, ties
        self._schedule = SCHEDULES.index(replan)
        self._index = ErrorIndex(self.counts, self.rule())
        self._planned_at = 0
        self._seed_key = self._tie_key(ties)

    @abstractmethod
    def rule(self) -> Rule:
        """The constants of the index."""

    @property
    def follows_its_bound(self) -> bool:
        """Whether the index at the start is the error bound itself, so that exploration can end at the very episode."""
        return False

    def ask(self) -> np.ndarray:
        """The greedy policy of the index, (H, S)."""
        return self._index.policy(self._episode_key)

    def actor(self) -> Callable[[int, int], int]:
        if self.setting.horizon * self.setting.n_outcomes <= FEW:
            return super().actor()
        return self._index.act(self._episode_key)

    def state(self) -> dict[str, np.ndarray]:
        return {**super().state(), **self._index.state(), "planned_at": np.array([self._planned_at])}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        self._index.counts = self.counts
        self._index.restore(state)
        self._planned_at = int(checked_array(state["planned_at"], np.int64, (1,), "its schedule is", 0, self.episodes)[0])

    def _learn(self, states: np.ndarray, actions: np.ndarray) -> None:
        self._index.learn(states, actions, self._schedule)
        if self.replan != "geometric":
            self._planned_at = self.episodes
        elif self.episodes >= self._next_pass:
            self._pass()

    def advance(self, mdp: TabularMDP, rng: np.random.Generator, episodes: int, goal: float) -> bool:
        """Plays on a known model at compiled speed; under "every", the same decisions as with `ask` and `tell`."""
        if self.replan == "geometric":
            self._index.walk(mdp, rng, min(episodes, self._next_pass - self.episodes), self._episode_key)
            if self.episodes >= self._next_pass:
                self._pass()
            return False
        arrived = self._index.run(mdp, rng, episodes, goal if self.follows_its_bound else -1.0, self._schedule, self._seed_key)
        self._planned_at = self.episodes
        return arrived and self.reached(goal)

    def reached(self, goal: float) -> bool:
        if self.replan == "geometric" or not self.follows_its_bound or self._index.value() > goal:
            return False
        if self.error_bound <= goal:
            return True
        self._pass()  # by a stale entry, or by the last bit: not there yet
        return False

    def _pass(self) -> None:
        self._index.plan()
        self._planned_at = self.episodes

    @property
    def _next_pass(self) -> int:
        return max(self._planned_at + 1, ceil(self._planned_at * self.growth))

    @property
    def _episode_key(self) -> int:
        return kernels.greedy.episode_key(np.uint64(self._seed_key), self._planned_at)

    @property
    def index(self) -> np.ndarray:
        """E of every pair as the sampling rule sees it, (H, S, A): exact under "every", as stale as it is otherwise."""
        return self._index.dense()

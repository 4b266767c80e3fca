"""Explorers that plan for a reward of their own making, on the empirical model, in ordinary NumPy.

    policy = backward induction on p_hat for pays(counts), computed anew whenever the episodes have grown by `growth`

A subclass says what the counts make worth visiting, `pays`. Nothing is compiled for it. Pairs without data have uniform
successors, as everywhere in the empirical model; ties are broken at random, by a reward that is too small to matter. (`maxent`,
`info-gain`, `coverage`, `psrl`.)"""

from __future__ import annotations

from abc import abstractmethod
from math import ceil
from typing import Any

import numpy as np

from .._checks import checked_array
from ..data.counts import Counts
from ..planning import induct
from ..setting import Setting
from .explorer import CHUNK, Explorer, Policies, Request

TINY = 1e-9  # relative size of the rewards that break ties


class PlannedExplorer(Explorer):
    """Plays the optimal policy of the empirical model for an intrinsic reward; see `Explorer` for options."""

    continues = True

    def __init__(self, setting: Setting, *args: Any, **options: Any) -> None:
        super().__init__(setting, *args, **options)
        self._plan()

    @abstractmethod
    def pays(self) -> np.ndarray:
        """What it is worth to visit each pair, (1 or H, n_outcomes, A), from the counts."""

    def visits(self) -> np.ndarray:
        """n, (1 or H, n_outcomes, A); 1 if stationary."""
        setting, c = self.setting, self.counts.columns()
        n = np.zeros((1 if setting.stationary else setting.horizon, setting.n_outcomes, setting.n_actions))
        move = c["h"] >= 0
        np.add.at(n, (c["h"][move], c["s"][move], c["a"][move]), c["count"][move])
        return n

    @property
    def _next_plan(self) -> int:
        """After so many episodes the policy is computed anew."""
        return max(self._planned_at + 1, ceil(self._planned_at * self.growth))

    def _plan(self) -> None:
        self._planned_at, self._declared = self.episodes, self.counts.outdating_declarations
        self._policy = self._planned(np.random.default_rng([self.seed, 17, self.episodes])).astype(np.int64)

    def _planned(self, rng: np.random.Generator) -> np.ndarray:
        """The policy, (H, n_outcomes), from the counts."""
        pays = self.pays()
        r = np.broadcast_to(pays, (self.setting.horizon, *pays.shape[1:]))
        r = r + TINY * max(1e-300, float(np.abs(pays).max())) * rng.random(r.shape)
        return induct(self.counts.model(), r, self.setting.horizon, self.setting.discount).policy

    def _catch_up(self) -> None:
        if self._declared != self.counts.outdating_declarations:
            self._plan()

    def ask(self) -> np.ndarray:
        self._catch_up()
        return self._policy.copy()

    def ask_many(self, episodes: int, goal: float) -> Request:
        self._catch_up()
        count = min(episodes, self._next_plan - self.episodes, CHUNK, self.counts.until_booking)
        return Policies(np.broadcast_to(self._policy, (count, *self._policy.shape)))

    def tell_many(self, request: Request, *outcome: np.ndarray) -> None:
        self._learn(*outcome)

    def _learn(self, states: np.ndarray, actions: np.ndarray) -> None:
        super()._learn(states, actions)
        if self.episodes >= self._next_plan:
            self._plan()

    def go_on_from(self, counts: Counts) -> None:
        super().go_on_from(counts)
        self._plan()

    def state(self) -> dict[str, np.ndarray]:
        self._catch_up()
        return {**super().state(), "policy": self._policy.copy(), "planned_at": np.array([self._planned_at])}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        shape, most = self._policy.shape, self.setting.n_actions - 1
        self._policy = checked_array(state["policy"], np.int64, shape, "its policy is", 0, most).copy()
        at = checked_array(state["planned_at"], np.int64, (1,), "its schedule is", 0, self.episodes)
        self._planned_at, self._declared = int(at[0]), self.counts.outdating_declarations

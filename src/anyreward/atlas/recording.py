"""Episodes as they were played, kept with an atlas if that was asked for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._checks import checked_array
from ..data.counts import COLUMNS, Counts
from ..rewards.observed import Paid
from ..setting import Setting

DAMAGED = "its recording is"
MOST_PAID = float(np.finfo(float).max)


class Recording(NamedTuple):
    """Episodes as they were played, one a row; after an early end, they stay where they ended."""

    states: np.ndarray  # (B, H+1) int32
    actions: np.ndarray  # (B, H) int32
    rewards: np.ndarray  # (B, H) float64: what was paid, 0 after the end
    lengths: np.ndarray  # (B,) int32: steps that were played
    terminated: np.ndarray  # (B,) uint8: 1 if the episode ended of itself

    def check(self, setting: Setting, episodes: int) -> None:
        """Raises if this is no recording of that many episodes of a setting."""
        B, H = episodes, setting.horizon
        states = checked_array(self.states, np.int32, (B, H + 1), DAMAGED, 0, setting.n_outcomes - 1)
        checked_array(self.actions, np.int32, (B, H), DAMAGED, 0, setting.n_actions - 1)
        checked_array(self.rewards, float, (B, H), DAMAGED, -MOST_PAID, MOST_PAID)
        lengths = checked_array(self.lengths, np.int32, (B,), DAMAGED, 1, H)
        checked_array(self.terminated, np.uint8, (B,), DAMAGED, 0, 1)
        after = states[np.arange(B)[:, None], np.minimum(np.arange(H + 1)[None], lengths[:, None])]
        if not (states == after).all():  # it stays where it ended
            raise ValueError(f"{DAMAGED} damaged.")

    def check_counts(self, counts: Counts, runs: tuple[int, ...]) -> None:
        """Raises if counting these episodes, run by run, does not give these counts and their evidence."""
        if sum(runs) != len(self.states) or min(runs, default=1) < 1 - (len(runs) == 1):
            raise ValueError(f"{DAMAGED} damaged.")
        again = Counts(counts.setting, counts.transfer)
        again.declare(counts.told())
        again.runs = 0
        empty, begin = again.copy(), 0
        for run in runs:
            part = empty.copy()
            rows = slice(begin, begin + run)
            part.add_episodes(*part.checked(self.states[rows].astype(np.int64), self.actions[rows].astype(np.int64)))
            again, begin = again + part, begin + run
        mine, theirs = again.columns(), counts.columns()
        same = all(np.array_equal(mine[name], theirs[name]) for name in COLUMNS)
        if not same or not np.allclose(mine.get("evidence", 0.0), theirs.get("evidence", 0.0), rtol=1e-9, atol=1e-9):
            raise ValueError("its counts are not those of its recording.")

    def check_paid(self, paid: Paid, setting: Setting) -> None:
        """Raises if what was paid is not what these episodes were paid."""
        again = Paid()
        for b, n in enumerate(self.lengths.tolist()):
            for h in range(n):
                s, a, s_next = int(self.states[b, h]), int(self.actions[b, h]), int(self.states[b, h + 1])
                again.add(0 if paid.pooled else h, s, a, s_next, float(self.rewards[b, h]))
        mine, theirs = again._table, paid._table
        if mine.keys() != theirs.keys() or any(not np.allclose(mine[key], theirs[key], rtol=1e-9, atol=1e-12) for key in mine):
            raise ValueError("the table of observed rewards is not that of its recording.")

"""What an environment paid, kept beside the counts: its own reward, to plan for like any other."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np

from . import kernels
from .rewards import ArrivalReward
from .setting import Setting

PAID = ("payments", "paid", "least", "most")  # of each transition: how often, in all, the least and the most


class Paid:
    """Rewards that were observed, by (h, s, a, s'), with h = 0 when the steps are pooled."""

    def __init__(self) -> None:
        self._table: dict[tuple[int, int, int, int], list[float]] = {}

    def add(self, h: int, s: int, a: int, s_next: int, reward: float) -> None:
        """Takes in one payment, a finite number."""
        entry = self._table.get((h, s, a, s_next))
        if entry is None:
            self._table[h, s, a, s_next] = [1, reward, reward, reward]
            return
        entry[0] += 1
        entry[1] += reward
        if reward < entry[2]:
            entry[2] = reward
        elif reward > entry[3]:
            entry[3] = reward

    def __len__(self) -> int:
        return len(self._table)

    @property
    def range(self) -> tuple[float, float]:
        """The least and the most that was ever paid, and 0, which is paid after the end."""
        least = min((entry[2] for entry in self._table.values()), default=0.0)
        return min(0.0, least), max(0.0, max((entry[3] for entry in self._table.values()), default=0.0))

    @property
    def random(self) -> bool:
        """Whether the same transition was seen to pay different rewards."""
        return any(entry[2] < entry[3] for entry in self._table.values())

    @property
    def depends_on_arrival(self) -> bool:
        """Whether a step, state and action was seen to pay differently depending on where it led."""
        means: dict[tuple[int, ...], float] = {}
        return any(means.setdefault(key[:3], entry[1] / entry[0]) != entry[1] / entry[0] for key, entry in self._table.items())

    def reward(
        self, setting: Setting, absorbing: np.ndarray, within: tuple[float, float], side: int, delta: float
    ) -> ArrivalReward:
        """The mean payment of each transition: at least (side -1), on average (0) or at most (1), less what unseen ones pay.

        Unseen transitions pay the least of `within` for sides -1 and 0, the most for side 1: the reward is the result plus that.
        If rewards are random, the means lie between sides -1 and 1 with probability 1 - delta, for all transitions and times at
        once. Staying in an absorbing state is known to pay 0.
        """
        low, high = within
        steps = 1 if setting.stationary else setting.horizon
        elsewhere = high if side > 0 else low
        table = {key: entry[1] / entry[0] for key, entry in self._table.items()}
        if side and self.random:
            level = log(steps * setting.n_states**2 * setting.n_actions / delta)
            for key, (times, paid, _, _) in self._table.items():
                mean = min(1.0, max(0.0, (paid / times - low) / (high - low)))
                ends = kernels.radii.kl_interval(mean, float(times), level)
                table[key] = low + (high - low) * float(ends[side > 0])
        for h in range(steps):
            for s in absorbing:
                for a in range(setting.n_actions):
                    table.setdefault((h, int(s), a, int(s)), 0.0)
        S, A = setting.n_states, setting.n_actions
        keys = np.array(list(table), dtype=np.int64).reshape(-1, 4)
        pair = (keys[:, 0] * S + keys[:, 1]) * A + keys[:, 2]
        order = np.lexsort((keys[:, 3], pair))
        pointer = np.concatenate([[0], np.cumsum(np.bincount(pair, minlength=steps * S * A))]).astype(np.int64)
        pay = np.array(list(table.values()), dtype=float)[order] - elsewhere
        return ArrivalReward((steps, S, A, setting.horizon), pointer, keys[order, 3], pay)

    def columns(self, h: np.ndarray, s: np.ndarray, a: np.ndarray, s_next: np.ndarray) -> dict[str, np.ndarray]:
        """What was paid on each of the given transitions: arrays payments, paid, least and most, 0 where nothing was."""
        nothing = [0, 0.0, 0.0, 0.0]
        rows = [self._table.get(key, nothing) for key in zip(*(x.tolist() for x in (h, s, a, s_next)), strict=True)]
        return dict(zip(PAID, np.array(rows, dtype=float).reshape(-1, 4).T, strict=True))

    @classmethod
    def from_columns(cls, columns: dict[str, Any]) -> Paid:
        """What `columns` gave, with the transitions h, s, a and next beside it."""
        self = cls()
        values = np.stack([np.asarray(columns[name], dtype=float) for name in PAID], axis=1)
        if not (np.isfinite(values).all() and (values[:, 0] >= 0).all() and (values[:, 2] <= values[:, 3]).all()):
            raise ValueError("the table of observed rewards is damaged.")
        keys = np.stack([np.asarray(columns[name], dtype=np.int64) for name in ("h", "s", "a", "next")], axis=1)
        for key, entry in zip(keys.tolist(), values.tolist(), strict=True):
            if entry[0] > 0:
                self._table[tuple(key)] = entry
        return self

    def __add__(self, other: Paid) -> Paid:
        total = Paid()
        total._table = {key: list(entry) for key, entry in self._table.items()}
        for key, (times, paid, least, most) in other._table.items():
            mine = total._table.setdefault(key, [0, 0.0, least, most])
            total._table[key] = [mine[0] + times, mine[1] + paid, min(mine[2], least), max(mine[3], most)]
        return total

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Paid) and self._table == other._table

    __hash__ = None  # type: ignore[assignment]  # it grows

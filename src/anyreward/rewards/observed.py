"""What an environment paid, kept beside the counts: its own reward, to plan for like any other."""

from __future__ import annotations

from math import log
from typing import Any, NamedTuple

import numpy as np

from .. import kernels
from .._checks import checked_array
from ..setting import Setting
from .forms import ArrivalReward

FALSE_ALARM = 1e-6  # the probability that data are said to contradict an assumption that is true
DAMAGED = "the table of observed rewards is"
PAID = ("payments", "paid", "least", "most")  # of each transition: how often, in all, the least and the most


class Bracket(NamedTuple):
    """A reward that is known to lie between two others: at least, on average and at most, each to be added to `base`."""

    least: np.ndarray | ArrivalReward
    average: np.ndarray | ArrivalReward
    most: np.ndarray | ArrivalReward
    base: tuple[float, float, float]  # what each of the three pays at every step beside that


class Paid:
    """Rewards that were observed, by (h, s, a, s').

    `pooled` says that the steps were not kept apart, as by earlier versions where transitions were pooled: h is then 0.
    """

    def __init__(self, pooled: bool = False) -> None:
        self.pooled = pooled
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

    def contradiction(self, stationary_rewards: bool = False) -> tuple[int, ...] | None:
        """A transition (h, s, a, s') that was seen to pay different rewards; with `stationary_rewards`, at whatever steps."""
        before: dict[tuple[int, ...], float] = {}
        for key, entry in self._table.items():
            same = key[1:] if stationary_rewards else key
            if entry[2] < entry[3] or before.setdefault(same, entry[2]) != entry[2]:
                return key
        return None

    def drift(self, setting: Setting, within: tuple[float, float]) -> tuple[int, ...] | None:
        """A transition (s, a, s') whose mean payment cannot be the same at every step, if there is one.

        The KL intervals of its steps have no number in common. If rewards do not depend on the step, that happens to any
        transition at any time with probability at most `FALSE_ALARM`.
        """
        laws = setting.horizon * setting.n_states * setting.n_actions * setting.n_outcomes
        ends: dict[tuple[int, ...], tuple[float, float]] = {}
        for (_, *key), (n, paid, _, _) in self._table.items():
            least, _, most = _mean_within(n, paid, within, log(laws / FALSE_ALARM))
            low, high = ends.get(tuple(key), within)
            ends[tuple(key)] = max(low, least), min(high, most)
        return next((key for key, (low, high) in ends.items() if low > high), None)

    def deterministic(
        self, setting: Setting, stays: np.ndarray, within: tuple[float, float], stationary_rewards: bool
    ) -> Bracket:
        """What each transition pays if it always pays the same: known where it was seen, anything within a range elsewhere.

        With `stationary_rewards` it pays the same at every step. Staying where an episode has ended (`stays`) pays 0. On average,
        what was never seen is taken to pay the least.
        """
        table: dict[tuple[int, ...], tuple[float, float, float]] = {}
        for (h, *key), entry in self._table.items():
            table[(0 if stationary_rewards else h, *key)] = (entry[2], entry[2], entry[2])
        return _on_arrival(table, setting, stays, within, 1 if stationary_rewards else setting.horizon)

    def random(
        self, setting: Setting, stays: np.ndarray, within: tuple[float, float], stationary_rewards: bool, delta: float
    ) -> Bracket:
        """The mean of what is paid, if rewards are random: within a KL interval of the average, anything where nothing was seen.

        All means lie between the two ends at once, at all times, with probability 1 - delta (`docs/theory.md`, 8), which they
        share. They are those of each (h, s, a). With `stationary_rewards` they are those of (s, a), if the transitions do not
        depend on the step either; if they may, those of (s, a, s'), since where a step leads then changes what it pays on
        average.
        """
        low, high = within
        steps = 1 if stationary_rewards else setting.horizon
        arrival = stationary_rewards and not setting.stationary
        sums: dict[tuple[int, ...], list[float]] = {}
        for (h, *key), (n, paid, _, _) in self._table.items():
            entry = sums.setdefault((min(h, steps - 1), *(key if arrival else key[:2])), [0.0, 0.0])
            entry[0] += n
            entry[1] += paid
        laws = steps * setting.n_states * setting.n_actions * (setting.n_outcomes if arrival else 1)
        means = {key: _mean_within(n, paid, within, log(laws / delta)) for key, (n, paid) in sums.items()}
        if arrival:
            return _on_arrival(means, setting, stays, within, steps)
        shape = (steps, setting.n_outcomes, setting.n_actions)
        ends = [np.full(shape, low), np.full(shape, low), np.full(shape, high)]
        for reward, k in zip(ends, range(3), strict=True):
            for where, values in means.items():
                reward[where] = values[k]
            reward[:, stays] = 0.0
        least, average, most = (np.broadcast_to(reward, (setting.horizon, *shape[1:])) for reward in ends)
        return Bracket(least, average, most, (0.0, 0.0, 0.0))

    def columns(self, edges: list[np.ndarray], pooled: bool) -> dict[str, np.ndarray]:
        """What was paid on transitions, columns h, s, a and next, over all steps if these are pooled: the columns `PAID`.

        0 where nothing was. For whoever reads the table of counts; `arrays` has everything.
        """
        table = self._table
        if pooled:
            total = Paid(pooled=True)
            for (_, *key), entry in self._table.items():
                total._merge((0, *key), entry)  # type: ignore[arg-type]
            table = total._table
        nothing = [0, 0.0, 0.0, 0.0]
        rows = [table.get(key, nothing) for key in zip(*(x.tolist() for x in edges), strict=True)]
        return dict(zip(PAID, np.array(rows, dtype=float).reshape(-1, 4).T, strict=True))

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything, for `from_arrays`: keys (M, 4) and values (M, 4)."""
        keys = np.array(list(self._table), dtype=np.int64).reshape(-1, 4)
        return {"keys": keys, "values": np.array(list(self._table.values()), dtype=float).reshape(-1, 4)}

    @classmethod
    def from_arrays(cls, keys: np.ndarray, values: np.ndarray, setting: Setting, pooled: bool = False) -> Paid:
        """What `arrays` gave. What cannot be that is refused."""
        S, A, H = setting.n_outcomes, setting.n_actions, setting.horizon
        keys = checked_array(keys, np.int64, (None, 4), DAMAGED, 0, np.array([H, S, A, S]) - 1)
        values = checked_array(values, float, keys.shape, DAMAGED)
        if len(np.unique(keys, axis=0)) < len(keys):
            raise ValueError(f"{DAMAGED} damaged.")
        return cls._checked(keys, values, pooled)

    @classmethod
    def from_columns(cls, columns: dict[str, Any], pooled: bool = False) -> Paid:
        """What an earlier version kept beside the transitions h, s, a and next."""
        values = np.stack([np.asarray(columns[name], dtype=float) for name in PAID], axis=1)
        keys = np.stack([np.asarray(columns[name], dtype=np.int64) for name in ("h", "s", "a", "next")], axis=1)
        if (values[keys[:, 0] < 0] != 0).any():  # nothing is paid for a start
            raise ValueError(f"{DAMAGED} damaged.")
        return cls._checked(keys[keys[:, 0] >= 0], values[keys[:, 0] >= 0], pooled)

    @classmethod
    def _checked(cls, keys: np.ndarray, values: np.ndarray, pooled: bool = False) -> Paid:
        times, paid, least, most = values.T
        right = np.isfinite(values).all() and (times >= 0).all() and (times == np.floor(times)).all() and (least <= most).all()
        slack = 1e-9 * times * np.maximum(np.abs(least), np.abs(most))
        if not right or ((paid < least * times - slack) | (paid > most * times + slack))[times > 0].any():
            raise ValueError(f"{DAMAGED} damaged.")
        self = cls(pooled)
        for key, entry in zip(keys.tolist(), values.tolist(), strict=True):
            if entry[0] > 0:
                self._table[tuple(key)] = entry
        return self

    def check(self, counts: dict[str, np.ndarray], pooled: bool, stays: np.ndarray) -> None:
        """Raises if more was paid for than happened, or after an end; `counts` are the columns of the transitions."""
        if {key[1] for key in self._table} & set(stays.tolist()):
            raise ValueError("the table of observed rewards has some that were paid after an end.")
        happened = dict(
            zip(
                zip(*(counts[name].tolist() for name in ("h", "s", "a", "next")), strict=True),
                counts["count"].tolist(),
                strict=True,
            )
        )
        paid: dict[tuple[int, ...], float] = {}
        for (h, *key), entry in self._table.items():
            where = (0 if pooled else h, *key)
            paid[where] = paid.get(where, 0.0) + entry[0]
        if any(times > happened.get(where, 0) for where, times in paid.items()):
            raise ValueError("the table of observed rewards is not that of its counts.")

    def _merge(self, key: tuple[int, int, int, int], entry: list[float]) -> None:
        times, paid, least, most = entry
        mine = self._table.get(key, [0, 0.0, least, most])
        self._table[key] = [mine[0] + times, mine[1] + paid, min(mine[2], least), max(mine[3], most)]

    def __add__(self, other: Paid) -> Paid:
        total = Paid(self.pooled or other.pooled)
        for part in (self, other):
            for (h, *key), entry in part._table.items():
                total._merge((0 if total.pooled else h, *key), list(entry))  # type: ignore[arg-type]
        return total

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Paid) and (self.pooled, self._table) == (other.pooled, other._table)

    __hash__ = None  # type: ignore[assignment]  # it grows


def _mean_within(n: float, paid: float, within: tuple[float, float], level: float) -> tuple[float, float, float]:
    """The mean of n payments, at least, on average and at most."""
    low, high = within
    average = min(high, max(low, paid / n))
    ends = kernels.radii.kl_interval((average - low) / (high - low), float(n), level)
    return low + (high - low) * float(ends[0]), average, low + (high - low) * float(ends[1])


def _on_arrival(
    table: dict[tuple[int, ...], tuple[float, float, float]],
    setting: Setting,
    stays: np.ndarray,
    within: tuple[float, float],
    steps: int,
) -> Bracket:
    """Rewards on arrival from (h, s, a, s') and what it pays at least, on average and at most; all others pay within a range."""
    low, high = within
    S, A, H = setting.n_outcomes, setting.n_actions, setting.horizon
    h, s, a = (index.reshape(-1) for index in np.meshgrid(np.arange(steps), stays, np.arange(A), indexing="ij"))
    keys = np.concatenate([np.array(list(table), dtype=np.int64).reshape(-1, 4), np.column_stack([h, s, a, s])])
    values = np.concatenate([np.array(list(table.values())).reshape(-1, 3), np.zeros((len(h), 3))])  # staying pays nothing
    pair = (keys[:, 0] * S + keys[:, 1]) * A + keys[:, 2]
    order = np.lexsort((keys[:, 3], pair))
    pointer = np.concatenate([[0], np.cumsum(np.bincount(pair, minlength=steps * S * A))]).astype(np.int64)
    base = (low, low, high)
    least, average, most = (
        ArrivalReward((steps, S, A, H), pointer, keys[order, 3], values[order, k] - base[k]) for k in range(3)
    )
    return Bracket(least, average, most, base)

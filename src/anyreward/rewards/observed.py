"""The rewards that an environment paid during exploration, so that its own reward can be planned for: `Atlas.plan("own")`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log
from typing import Any, NamedTuple

import numpy as np

from .. import kernels
from .._checks import checked_array
from ..setting import Setting
from .forms import ArrivalReward

FALSE_ALARM = 1e-6  # the probability of refusing an assumption that is true
PAID_ONCE = "at most one reward of an episode is not zero"  # an assumption that is printed
DAMAGED = "the table of observed rewards is"  # the beginning of error messages about a damaged file
UNKNOWN = -1  # in place of the next state, if it is not known where a transition led
PAID = ("payments", "paid", "least", "most")  # columns of a file: number of rewards, sum, smallest, largest


class RewardBounds(NamedTuple):
    """A reward that is only known to lie between bounds: a lower bound, an estimate and an upper bound.

    Each of the three is a reward (H, S, A), or on arrival, to which the constant `base` is added at every step.
    """

    least: np.ndarray | ArrivalReward
    average: np.ndarray | ArrivalReward
    most: np.ndarray | ArrivalReward
    base: tuple[float, float, float]


class ObservedRewards:
    """Observed rewards, by transition (h, s, a, s'): how many, their sum, the smallest and the largest.

    A log may tell what was paid, but not where it led: s' is then `UNKNOWN`. Such rewards count where s' does not matter.

    Parameters
    ----------
    pooled : bool, default False
        Whether the rewards of all steps were added up, with h = 0. Earlier versions did so in stationary settings.

    Attributes
    ----------
    paid_again : int or None
        The number of episodes in which more than one reward was not zero. None if it is not known: a single payment (`add`) does
        not tell, nor do files of earlier versions.
    """

    def __init__(self, pooled: bool = False) -> None:
        self.pooled = pooled
        self.paid_again: int | None = 0
        self._table: dict[tuple[int, int, int, int], list[float]] = {}

    def add_episode(self, states: Sequence[int], actions: Sequence[int], rewards: Sequence[float]) -> None:
        """Records the rewards of an episode of n steps: n + 1 states, n actions and n finite numbers."""
        table, by_step, s = self._table, not self.pooled, states[0]
        for h, a, s_next, reward in zip(range(len(actions)), actions, states[1:], rewards, strict=True):
            key = (h if by_step else 0, s, a, s_next)
            entry = table.get(key)
            if entry is not None and entry[2] <= reward <= entry[3]:  # as nearly all are
                entry[0] += 1
                entry[1] += reward
            else:
                self._add(*key, reward)
            s = s_next
        if self.paid_again is not None:
            self.paid_again += len(rewards) - rewards.count(0.0) > 1

    def add(self, h: int, s: int, a: int, s_next: int, reward: float) -> None:
        """Records one observed reward, a finite number, of which it is not known to which episode it belongs."""
        self.paid_again = None
        self._add(h, s, a, s_next, reward)

    def _add(self, h: int, s: int, a: int, s_next: int, reward: float) -> None:
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

    def add_many(self, episode: np.ndarray, keys: np.ndarray, rewards: np.ndarray) -> None:
        """Records the rewards of whole episodes: the number of the episode, (M,), the transition (h, s, a, s'), (M, 4), in which
        s' may be `UNKNOWN`, and the reward, (M,).
        """
        if not len(keys):
            return
        if self.paid_again is not None:
            self.paid_again += int((np.unique(episode[rewards != 0.0], return_counts=True)[1] > 1).sum())
        order = np.lexsort(keys.T[::-1])
        keys, rewards = keys[order], rewards[order]
        first = np.flatnonzero(np.append(True, (keys[1:] != keys[:-1]).any(axis=1)))
        times = np.diff(np.append(first, len(keys)))
        parts = (times, *(function.reduceat(rewards, first) for function in (np.add, np.minimum, np.maximum)))
        for key, entry in zip(keys[first].tolist(), np.stack(parts, axis=1).astype(float).tolist(), strict=True):
            self._merge(tuple(key), entry)

    def __len__(self) -> int:
        """The number of different transitions with observed rewards."""
        return len(self._table)

    def _arrivals(self) -> Iterator[tuple[tuple[int, int, int, int], list[float]]]:
        """The rewards of transitions of which it is known where they led."""
        return ((key, entry) for key, entry in self._table.items() if key[3] != UNKNOWN)

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest reward, 0 included, since 0 is paid after an episode has terminated."""
        least = min((entry[2] for entry in self._table.values()), default=0.0)
        return min(0.0, least), max(0.0, max((entry[3] for entry in self._table.values()), default=0.0))

    def contradiction(self, stationary_rewards: bool = False) -> tuple[int, ...] | None:
        """A transition (h, s, a, s') that paid different rewards, or None.

        With `stationary_rewards`, rewards that differ between steps count as different too.
        """
        before: dict[tuple[int, ...], float] = {}
        for key, entry in self._arrivals():
            same = key[1:] if stationary_rewards else key
            if entry[2] < entry[3] or before.setdefault(same, entry[2]) != entry[2]:
                return key
        return None

    def drift(self, setting: Setting, within: tuple[float, float]) -> tuple[int, ...] | None:
        """A transition (s, a, s') whose mean reward cannot be the same at every step, or None.

        The KL intervals for its steps then have no number in common. If rewards do not depend on the step, the
        probability that this ever happens to any transition is at most `FALSE_ALARM`.
        """
        laws = setting.horizon * setting.n_states * setting.n_actions * setting.n_outcomes
        ends: dict[tuple[int, ...], tuple[float, float]] = {}
        for (_, *key), (n, paid, _, _) in self._arrivals():
            least, _, most = _mean_within(n, paid, within, log(laws / FALSE_ALARM))
            low, high = ends.get(tuple(key), within)
            ends[tuple(key)] = max(low, least), min(high, most)
        return next((key for key, (low, high) in ends.items() if low > high), None)

    def deterministic(
        self, setting: Setting, stays: np.ndarray, within: tuple[float, float], stationary_rewards: bool
    ) -> RewardBounds:
        """Bounds on the reward of each transition if rewards are deterministic.

        A transition that was observed pays what it paid; one that was not may pay anything within the range, and the estimate is
        the lower end of the range. Absorbing outcomes (`stays`) pay 0.

        Parameters
        ----------
        setting : Setting
        stays : ndarray of int
            The absorbing outcomes, `Counts.stays`.
        within : (float, float)
            The range of the rewards.
        stationary_rewards : bool
            Whether a transition pays the same at every step.
        """
        table: dict[tuple[int, ...], tuple[float, float, float]] = {}
        for (h, *key), entry in self._arrivals():
            table[(0 if stationary_rewards else h, *key)] = (entry[2], entry[2], entry[2])
        return _on_arrival(table, setting, stays, within, 1 if stationary_rewards else setting.horizon)

    def random(
        self, setting: Setting, stays: np.ndarray, within: tuple[float, float], stationary_rewards: bool, delta: float
    ) -> RewardBounds:
        """Bounds on the mean rewards if rewards are random.

        Each mean lies in a KL interval around the average of its observed rewards, or anywhere in the range if there
        are none. All intervals hold at once, at all times, with probability at least 1 - delta, which they share
        (`docs/theory.md`, 8.1).

        The means are those of each (h, s, a). With `stationary_rewards` they are those of (s, a) if the transitions are
        stationary too; otherwise those of (s, a, s'), because the distribution of the successor then changes with the step, and
        the mean of (s, a) with it.

        Parameters
        ----------
        setting : Setting
        stays : ndarray of int
            The absorbing outcomes, which pay 0.
        within : (float, float)
            The range of the rewards.
        stationary_rewards : bool
            Whether the mean reward of a transition is the same at every step.
        delta : float
        """
        low, high = within
        steps = 1 if stationary_rewards else setting.horizon
        arrival = stationary_rewards and not setting.stationary
        sums: dict[tuple[int, ...], list[float]] = {}
        for (h, *key), (n, paid, _, _) in self._arrivals() if arrival else self._table.items():
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
        return RewardBounds(least, average, most, (0.0, 0.0, 0.0))

    def columns(self, edges: list[np.ndarray], pooled: bool) -> dict[str, np.ndarray]:
        """The observed rewards of given transitions, as the columns `PAID`, for readers of the table of counts; 0 where there are
        none.

        Parameters
        ----------
        edges : list of ndarray
            The columns h, s, a and next of the transitions.
        pooled : bool
            Whether to add up the rewards of all steps.
        """
        table = self._table
        if pooled:
            total = ObservedRewards(pooled=True)
            for (_, *key), entry in self._table.items():
                total._merge((0, *key), entry)  # type: ignore[arg-type]
            table = total._table
        nothing = [0, 0.0, 0.0, 0.0]
        rows = [table.get(key, nothing) for key in zip(*(x.tolist() for x in edges), strict=True)]
        return dict(zip(PAID, np.array(rows, dtype=float).reshape(-1, 4).T, strict=True))

    def arrays(self) -> dict[str, np.ndarray]:
        """All observed rewards as arrays, for `from_arrays`: keys (M, 4) and values (M, 4)."""
        keys = np.array(list(self._table), dtype=np.int64).reshape(-1, 4)
        return {"keys": keys, "values": np.array(list(self._table.values()), dtype=float).reshape(-1, 4)}

    @classmethod
    def from_arrays(
        cls, keys: np.ndarray, values: np.ndarray, setting: Setting, pooled: bool = False, paid_again: int | None = None
    ) -> ObservedRewards:
        """The observed rewards that `arrays` returned. Arrays that cannot be such are refused."""
        S, A, H = setting.n_outcomes, setting.n_actions, setting.horizon
        keys = checked_array(keys, np.int64, (None, 4), DAMAGED, np.array([0, 0, 0, UNKNOWN]), np.array([H, S, A, S]) - 1)
        values = checked_array(values, float, keys.shape, DAMAGED)
        if len(np.unique(keys, axis=0)) < len(keys):
            raise ValueError(f"{DAMAGED} damaged.")
        if paid_again is not None and (type(paid_again) is not int or paid_again < 0):
            raise ValueError(f"{DAMAGED} damaged.")
        return cls._checked(keys, values, pooled, paid_again)

    @classmethod
    def from_columns(cls, columns: dict[str, Any], pooled: bool = False) -> ObservedRewards:
        """Observed rewards from the columns that earlier versions saved beside the transitions h, s, a and next."""
        values = np.stack([np.asarray(columns[name], dtype=float) for name in PAID], axis=1)
        keys = np.stack([np.asarray(columns[name], dtype=np.int64) for name in ("h", "s", "a", "next")], axis=1)
        if (values[keys[:, 0] < 0] != 0).any():  # initial states pay nothing
            raise ValueError(f"{DAMAGED} damaged.")
        return cls._checked(keys[keys[:, 0] >= 0], values[keys[:, 0] >= 0], pooled)

    @classmethod
    def _checked(
        cls, keys: np.ndarray, values: np.ndarray, pooled: bool = False, paid_again: int | None = None
    ) -> ObservedRewards:
        """Observed rewards from keys (M, 4) and values (M, 4). Raises if the values of a row contradict each other."""
        times, paid, least, most = values.T
        right = np.isfinite(values).all() and (times >= 0).all() and (times == np.floor(times)).all() and (least <= most).all()
        slack = 1e-9 * times * np.maximum(np.abs(least), np.abs(most))
        if not right or ((paid < least * times - slack) | (paid > most * times + slack))[times > 0].any():
            raise ValueError(f"{DAMAGED} damaged.")
        self = cls(pooled)
        self.paid_again = paid_again
        for key, entry in zip(keys.tolist(), values.tolist(), strict=True):
            if entry[0] > 0:
                self._table[tuple(key)] = entry
        return self

    def check(self, counts: dict[str, np.ndarray], pooled: bool, stays: np.ndarray) -> None:
        """Raises if there are more rewards than transitions, rewards after a termination, or more than `paid_again` allows.

        Where it is not known where transitions led, there are no more of them at a step than episodes.

        Parameters
        ----------
        counts : dict of str to ndarray
            The columns of the counts, with h = 0 for all transitions if `pooled`.
        pooled : bool
        stays : ndarray of int
            The absorbing outcomes.
        """
        if {key[1] for key in self._table} & set(stays.tolist()):
            raise ValueError("the table of observed rewards has rewards after a termination.")
        happened = dict(
            zip(
                zip(*(counts[name].tolist() for name in ("h", "s", "a", "next")), strict=True),
                counts["count"].tolist(),
                strict=True,
            )
        )
        paid: dict[tuple[int, ...], float] = {}
        for (h, *key), entry in self._table.items():
            where = (h, UNKNOWN) if key[2] == UNKNOWN else (0 if pooled else h, *key)
            paid[where] = paid.get(where, 0.0) + entry[0]
        episodes = int(counts["count"][counts["h"] < 0].sum())
        if any(times > (episodes if len(where) == 2 else happened.get(where, 0)) for where, times in paid.items()):
            raise ValueError("its observed rewards do not match its counts.")
        if self.paid_again is not None:
            # An episode pays at most once, or H times if it paid again, so not every count of payments that are not zero fits.
            steps = 1 + max((key[0] for key in self._table), default=0)
            sure = sum(entry[0] for entry in self._table.values() if entry[2] > 0 or entry[3] < 0)
            if self.paid_again > episodes or (not self.pooled and sure > episodes + self.paid_again * (steps - 1)):
                raise ValueError("its observed rewards do not match its counts.")

    def _merge(self, key: tuple[int, int, int, int], entry: list[float]) -> None:
        """Adds an entry (number, sum, smallest, largest) to that of a transition."""
        times, paid, least, most = entry
        mine = self._table.get(key, [0, 0.0, least, most])
        self._table[key] = [mine[0] + times, mine[1] + paid, min(mine[2], least), max(mine[3], most)]

    def __add__(self, other: ObservedRewards) -> ObservedRewards:
        """The observed rewards of both; pooled over the steps if one of them is."""
        total = ObservedRewards(self.pooled or other.pooled)
        again = self.paid_again, other.paid_again
        total.paid_again = None if None in again else sum(again)  # type: ignore[arg-type]
        for part in (self, other):
            for (h, *key), entry in part._table.items():
                total._merge((0 if total.pooled else h, *key), list(entry))  # type: ignore[arg-type]
        return total

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObservedRewards):
            return NotImplemented
        return (self.pooled, self.paid_again, self._table) == (other.pooled, other.paid_again, other._table)

    __hash__ = None  # type: ignore[assignment]  # it is mutable


def _mean_within(n: float, paid: float, within: tuple[float, float], level: float) -> tuple[float, float, float]:
    """A lower confidence bound on the mean of n rewards with sum `paid`, their average, and an upper confidence bound."""
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
) -> RewardBounds:
    """Bounds for a reward on arrival.

    `table` maps (h, s, a, s') to a lower bound, an estimate and an upper bound. Transitions that are not in it may pay anything
    within the range, and absorbing outcomes pay 0.
    """
    low, high = within
    S, A, H = setting.n_outcomes, setting.n_actions, setting.horizon
    h, s, a = (index.reshape(-1) for index in np.meshgrid(np.arange(steps), stays, np.arange(A), indexing="ij"))
    keys = np.concatenate([np.array(list(table), dtype=np.int64).reshape(-1, 4), np.column_stack([h, s, a, s])])
    values = np.concatenate([np.array(list(table.values())).reshape(-1, 3), np.zeros((len(h), 3))])  # absorbing outcomes pay 0
    pair = (keys[:, 0] * S + keys[:, 1]) * A + keys[:, 2]
    order = np.lexsort((keys[:, 3], pair))
    pointer = np.concatenate([[0], np.cumsum(np.bincount(pair, minlength=steps * S * A))]).astype(np.int64)
    base = (low, low, high)
    least, average, most = (
        ArrivalReward((steps, S, A, H), pointer, keys[order, 3], values[order, k] - base[k]) for k in range(3)
    )
    return RewardBounds(least, average, most, base)

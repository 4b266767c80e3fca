"""Rewards: of a state, of a pair, of a step and a pair, or of a transition.

A reward is given as an array (S,), (S, A) or (H, S, A), or as a function (h, s, a) -> float. A reward *on arrival* depends on the
successor as well: an array (S, A, S) or (H, S, A, S), a function (h, s, a, s_next) -> float, or a sparse table, a mapping of
columns `s`, `a`, `next`, `reward` and, if it depends on the step, `h`; transitions that it does not name pay 0. (An array whose
shape could be read both ways, when H = S = A, is taken as (H, S, A).) A text is an expression (`expressions`) or the
name of a file (`reward_files`).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..setting import Setting, shown

Reward = Any  # one of the forms above
MOST_CALLS = 10**8


@dataclass(frozen=True)
class ArrivalReward:
    """r(h, s, a, s') as a sparse table: for each pair of each step, the successors that pay something.

    T is 1 if it does not depend on the step. The entries of pair i = (t S + s) A + a are those from pointer[i] to pointer[i + 1],
    by increasing successor; a successor that is not among them pays 0.
    """

    shape: tuple[int, int, int, int]  # (T, S, A, H)
    pointer: np.ndarray  # (T * S * A + 1,) int64
    target: np.ndarray  # (M,) int64
    pay: np.ndarray  # (M,) float64

    def at(self, h: int, pairs: np.ndarray, successors: np.ndarray) -> np.ndarray:
        """What transitions of step h pay; a pair is s A + a."""
        T, S, A, _ = self.shape
        keys = np.repeat(np.arange(T * S * A), np.diff(self.pointer)) * S + self.target
        wanted = (min(h, T - 1) * S * A + pairs) * S + successors
        place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        return np.where(keys[place] == wanted, self.pay[place], 0.0) if len(keys) else np.zeros(np.shape(wanted))

    def mean(self, h: int) -> np.ndarray:
        """What a uniformly drawn successor pays, (S, A)."""
        T, S, A, _ = self.shape
        t = min(h, T - 1)
        sums = np.add.reduceat(np.append(self.pay, 0.0), self.pointer[:-1]) * (np.diff(self.pointer) > 0)
        return sums.reshape(T, S, A)[t] / S

    def extremes(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the most that any transition of a step pays, (H,) each."""
        T, S, A, H = self.shape
        step = np.repeat(np.arange(T * S * A), np.diff(self.pointer)) // (S * A)
        low, high = np.full(T, np.inf), np.full(T, -np.inf)
        np.minimum.at(low, step, self.pay)
        np.maximum.at(high, step, self.pay)
        named = np.bincount(step, minlength=T) == S * A * S  # else some transition pays 0
        low, high = np.where(named, low, np.minimum(low, 0.0)), np.where(named, high, np.maximum(high, 0.0))
        steps = np.minimum(np.arange(H), T - 1)
        return low[steps], high[steps]


def as_reward(
    reward: Reward, n_states: int, n_actions: int, horizon: int, within: tuple[float, float] | None = None
) -> np.ndarray | ArrivalReward:
    """A reward as (H, S, A), or on arrival, checked to lie within a range if one is given. An array is not copied."""
    S, A, H = n_states, n_actions, horizon
    if isinstance(reward, ArrivalReward):
        return reward
    if isinstance(reward, Mapping):
        return _from_table(reward, S, A, H, within)
    if isinstance(reward, str):
        from .expressions import reward_of
        from .files import read_reward

        given = read_reward(reward, Setting(n_states=S, n_actions=A, horizon=H))
        if not isinstance(given, str):
            return as_reward(given, S, A, H, within)
        r = reward_of(given, S, A, H)
    elif callable(reward):
        r = _from_function(reward, S, A, H)
    else:
        try:
            r = np.asarray(reward, dtype=float)
        except (TypeError, ValueError):
            raise ValueError(
                f"reward is a {type(reward).__name__}: it has to be an array, a table or a function (h, s, a) or (h, s, a, next)."
            ) from None
    plain, arrival = ((S,), (S, A), (H, S, A)), ((S, A, S), (H, S, A, S))
    if r.shape not in plain + arrival:
        raise ValueError(
            f"reward has shape {r.shape}: it has to be ({S},), ({S}, {A}) or ({H}, {S}, {A}), "
            f"or on arrival ({S}, {A}, {S}) or ({H}, {S}, {A}, {S})."
        )
    _check_range(r, within)
    if r.shape in plain:
        return np.broadcast_to(r[:, None] if r.ndim == 1 else r, (H, S, A))
    r = r if r.ndim == 4 else r[None]
    pairs = np.arange(r[..., 0].size + 1)
    return ArrivalReward((len(r), S, A, H), pairs * S, np.tile(np.arange(S), r[..., 0].size), r.reshape(-1).astype(float))


def reward_of_setting(reward: Reward, setting: Setting, within: tuple[float, float] | None = None) -> np.ndarray | ArrivalReward:
    """A reward for everything that can be reached in a setting, n_outcomes in all.

    Where to end in a state is an outcome of its own (`terminal="outcome"`), a reward of the states alone goes on paying in an
    episode that has ended what it pays in the state in which it ended. An array or a table of all outcomes may say otherwise.
    """
    S, N, A, H = setting.n_states, setting.n_outcomes, setting.n_actions, setting.horizon
    if N == S or isinstance(reward, ArrivalReward):
        return as_reward(reward, N, A, H, within)
    if isinstance(reward, Mapping):
        columns = [np.asarray(reward.get(name, ())) for name in ("s", "next")]
        full = any(column.dtype.kind in "iu" and column.max(initial=0) >= S for column in columns)
    else:
        full = isinstance(reward, np.ndarray | list | tuple) and _shape(reward) in (
            (N,),
            (N, A),
            (H, N, A),
            (N, A, N),
            (H, N, A, N),
        )
    if full:
        return as_reward(reward, N, A, H, within)
    r = as_reward(reward, S, A, H, within)
    if not isinstance(r, ArrivalReward):
        return np.concatenate([r, r], axis=1)
    T, size = r.shape[0], S * A
    t, pair = np.divmod(np.repeat(np.arange(T * size), np.diff(r.pointer)), size)
    pairs = np.concatenate([t * 2 * size + pair + ended * size for ended in (0, 0, 1, 1)])
    targets = np.concatenate([r.target + ended * S for ended in (0, 1, 0, 1)])
    order = np.lexsort((targets, pairs))
    pointer = np.concatenate([[0], np.cumsum(np.bincount(pairs, minlength=T * 2 * size))]).astype(np.int64)
    return ArrivalReward((T, N, A, H), pointer, targets[order], np.tile(r.pay, 4)[order])


def _shape(values: Any) -> tuple[int, ...]:
    try:
        return np.shape(values)
    except ValueError:  # of no shape
        return ()


def _from_function(reward: Any, S: int, A: int, H: int) -> np.ndarray:
    shape = (H, S, A, S) if _takes(reward) == 4 else (H, S, A)
    if np.prod(shape, dtype=float) > MOST_CALLS:
        raise ValueError(f"reward is a function of {len(shape)} arguments with too many values, {shape}: give it as a table.")
    try:
        return np.array([float(reward(*map(int, index))) for index in np.ndindex(*shape)], dtype=float).reshape(shape)
    except (TypeError, ValueError, LookupError, ArithmeticError) as problem:
        kind = type(problem).__name__
        raise ValueError(f"reward is a function that does not give a number everywhere: {kind}, {problem}.") from None


def _takes(reward: Any) -> int:
    """Whether a function is one of (h, s, a) or of (h, s, a, s_next): parameters with a default do not count."""
    try:
        signature = inspect.signature(reward)
    except (TypeError, ValueError):  # some built-in functions do not tell
        return 3
    for arguments in (3, 4):
        try:
            signature.bind(*range(arguments))
        except TypeError:
            continue
        return arguments
    raise ValueError(f"reward is a function of {signature}: it has to take (h, s, a), or (h, s, a, s_next) if paid on arrival.")


def _from_table(table: Mapping[str, Any], S: int, A: int, H: int, within: tuple[float, float] | None) -> ArrivalReward:
    missing = [name for name in ("s", "a", "next", "reward") if name not in table]
    if missing:
        raise ValueError(
            f"the column {shown(missing[0])} of the reward table is missing: it needs s, a, next, reward and perhaps h."
        )
    T = H if "h" in table else 1
    columns = {name: np.asarray(table[name]) for name in ("h", "s", "a", "next", "reward") if name in table}
    if any(values.ndim != 1 or len(values) != columns["reward"].size for values in columns.values()):
        raise ValueError("the columns of the reward table have to be lists of equal length.")
    for name, bound in (("h", H), ("s", S), ("a", A), ("next", S)):
        if name in columns:
            values = columns[name]
            if not np.issubdtype(values.dtype, np.integer) or ((values < 0) | (values >= bound)).any():
                raise ValueError(f"the column {shown(name)} of the reward table has to hold whole numbers from 0 to {bound - 1}.")
    try:
        pay = columns["reward"].astype(float)
    except (TypeError, ValueError):
        raise ValueError("the column 'reward' of the reward table has to hold numbers.") from None
    _check_range(pay, within)
    if within is not None and not within[0] <= 0.0 <= within[1]:
        raise ValueError(f"transitions that the reward table does not name pay 0, which is outside {within}.")
    h = columns.get("h", np.zeros(len(pay), np.int64))
    pair = (h.astype(np.int64) * S + columns["s"]) * A + columns["a"]
    key = pair * S + columns["next"]
    if len(np.unique(key)) < len(key):
        raise ValueError("the reward table names a transition twice: each may appear once.")
    order = np.argsort(key)
    pointer = np.concatenate([[0], np.cumsum(np.bincount(pair, minlength=T * S * A))])
    return ArrivalReward((T, S, A, H), pointer, columns["next"][order].astype(np.int64), pay[order])


def _check_range(r: np.ndarray, within: tuple[float, float] | None) -> None:
    low, high = (-np.inf, np.inf) if within is None else within
    wrong = np.argwhere(~(np.isfinite(r) & (r >= low) & (r <= high)))
    if len(wrong):
        at = tuple(int(i) for i in wrong[0])
        place = f"reward[{', '.join(map(str, at))}] is {r[at]:g}"
        if not np.isfinite(r[at]):
            raise ValueError(f"{place}: it has to be a finite number.")
        raise ValueError(f"{place}, outside [{low:g}, {high:g}]: rescale it, or pass reward_range=(lowest, highest).")

"""The forms in which a reward can be given, turned into arrays.

A reward of step, state and action is one of

- an array (S,), (S, A) or (H, S, A);
- a function (h, s, a) -> float;
- a text: an expression such as `"state == 30"` (`expressions`), or the name of a file (`files`);
- a sum of named terms (`terms`).

A reward *on arrival* depends on the successor s' of a transition as well. It is one of

- an array (S, A, S) or (H, S, A, S);
- a function (h, s, a, s_next) -> float;
- a sparse table: a mapping with columns `s`, `a`, `next`, `reward` and, if it depends on the step, `h`. Transitions that it does
  not name pay 0;
- an expression that contains `next`, or a file with a column `next`.

If H = S = A, an array of shape (S, A, S) = (H, S, A) is taken as (H, S, A).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import kernels
from ..data.numbering import Numbering
from ..setting import Setting, real_number, shown

if TYPE_CHECKING:
    from ..kernels.planning import Pay

Reward = Any  # one of the forms above
OWN = "own"  # stands for the environment's own reward
MAX_CALLS = 10**8  # of a reward function


@dataclass(frozen=True)
class ArrivalReward:
    """A reward on arrival, r(h, s, a, s'), as a sparse table: for each step, state and action, the successors that pay something.

    Let T be H, or 1 if the reward does not depend on the step. The entries of state-action pair i = (t S + s) A + a are at the
    positions pointer[i], ..., pointer[i + 1] - 1, ordered by successor. A successor that is not among them pays 0.

    Attributes
    ----------
    shape : (int, int, int, int)
        (T, S, A, H).
    pointer : ndarray of int64, (T * S * A + 1,)
    target : ndarray of int64, (M,)
        The successor of each entry.
    pay : ndarray of float64, (M,)
        The reward of each entry.
    """

    shape: tuple[int, int, int, int]
    pointer: np.ndarray
    target: np.ndarray
    pay: np.ndarray

    def at(self, h: int | np.ndarray, pairs: np.ndarray, successors: np.ndarray) -> np.ndarray:
        """The rewards of transitions at step h, or each at its own, in the shape of `successors`; a pair is given as s A + a."""
        (T, S, A, _), keys = self.shape, self._keys
        wanted = (np.minimum(h, T - 1) * S * A + pairs) * S + successors
        place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        return np.where(keys[place] == wanted, self.pay[place], 0.0) if len(keys) else np.zeros(np.shape(wanted))

    @cached_property
    def _keys(self) -> np.ndarray:
        """Each entry as one number, in order."""
        T, S, A, _ = self.shape
        return np.repeat(np.arange(T * S * A), np.diff(self.pointer)) * S + self.target

    def mean(self, h: int) -> np.ndarray:
        """The mean reward of a uniformly drawn successor at step h, (S, A)."""
        T, S, A, _ = self.shape
        t = min(h, T - 1)
        sums = np.add.reduceat(np.append(self.pay, 0.0), self.pointer[:-1]) * (np.diff(self.pointer) > 0)
        return sums.reshape(T, S, A)[t] / S

    def least(self, h: int) -> np.ndarray:
        """The smallest reward of any successor at step h, (S, A)."""
        T, S, A, _ = self.shape
        named = np.diff(self.pointer)
        least = np.where(named > 0, np.minimum.reduceat(np.append(self.pay, np.inf), self.pointer[:-1]), 0.0)
        return np.where(named == S, least, np.minimum(least, 0.0)).reshape(T, S, A)[min(h, T - 1)]

    def extremes(self) -> tuple[np.ndarray, np.ndarray]:
        """The smallest and the largest reward of any transition at each step, (H,) each."""
        T, S, A, H = self.shape
        step = np.repeat(np.arange(T * S * A), np.diff(self.pointer)) // (S * A)
        low, high = np.full(T, np.inf), np.full(T, -np.inf)
        np.minimum.at(low, step, self.pay)
        np.maximum.at(high, step, self.pay)
        named = np.bincount(step, minlength=T) == S * A * S  # otherwise some transition pays 0
        low, high = np.where(named, low, np.minimum(low, 0.0)), np.where(named, high, np.maximum(high, 0.0))
        steps = np.minimum(np.arange(H), T - 1)
        return low[steps], high[steps]


def core(reward: np.ndarray) -> np.ndarray:
    """A view of a reward in which every axis on which it does not depend, as after `np.broadcast_to`, has length 1."""
    return reward[tuple(slice(1) if stride == 0 else slice(None) for stride in reward.strides)]


def own_copy(reward: np.ndarray | ArrivalReward) -> np.ndarray | ArrivalReward:
    """The reward itself, or a copy of an array, which nobody else can change; it takes no more memory than its `core`."""
    return reward if isinstance(reward, ArrivalReward) else np.broadcast_to(core(reward).copy(), reward.shape)


def paid(reward: np.ndarray) -> Pay:
    """A reward (H, S, A) as compiled passes take it. They are compiled for writable arrays in C order, and write to none."""
    few = core(reward).view()
    with suppress(ValueError):  # of somebody who may not write to it either
        few.flags.writeable = True
    return kernels.planning.Pay(np.require(few, float, ["C", "W"]), np.zeros((0, 0)))


def extremes_of(reward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest reward at each step, (H,) each."""
    few = core(reward)
    low, high = (np.broadcast_to(ends, len(reward)) for ends in (few.min(axis=(1, 2)), few.max(axis=(1, 2))))
    return low, high


class Composite:
    """A reward that is made of others (`terms.Terms`)."""

    def total(
        self, as_array: Callable[[Reward], np.ndarray | ArrivalReward], shape: tuple[int, int, int]
    ) -> np.ndarray | ArrivalReward:
        """The reward as an array of that shape (H, S, A), or on arrival; `as_array` makes such of each part."""
        raise NotImplementedError


def as_reward(
    reward: Reward,
    n_states: int,
    n_actions: int,
    horizon: int,
    within: tuple[float, float] | None = None,
    numbering: Numbering | None = None,
) -> np.ndarray | ArrivalReward:
    """A reward of any form as an array (H, S, A), or as an `ArrivalReward`.

    Parameters
    ----------
    reward : array_like, callable, mapping, str or ArrivalReward
        See the module's docstring. An array is not copied.
    n_states, n_actions, horizon : int
        S, A and H.
    within : (float, float), optional
        The range in which all values have to lie.
    numbering : Numbering, optional
        The names of states and actions, for expressions.
    """
    S, A, H = n_states, n_actions, horizon
    if isinstance(reward, ArrivalReward):
        return reward
    if isinstance(reward, Composite):
        return checked(reward.total(lambda r: as_reward(r, S, A, H, None, numbering), (H, S, A)), within)
    if isinstance(reward, Mapping):
        return _from_table(reward, S, A, H, within)
    if isinstance(reward, str):
        from .expressions import reward_of
        from .files import read_reward

        given = read_reward(reward, Setting(n_states=S, n_actions=A, horizon=H), numbering)
        if not isinstance(given, str):
            return as_reward(given, S, A, H, within)
        r = reward_of(given, S, A, H, numbering)
    elif callable(reward):
        r = _from_function(reward, S, A, H)
    else:
        try:
            if np.iscomplexobj(reward):
                raise TypeError  # NumPy would leave out the imaginary part
            r = np.asarray(reward, dtype=float)
        except OverflowError:
            raise ValueError("reward has a number that is too large for a float: its values have to be finite.") from None
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


UNIT = (0.0, 1.0)  # the range of a reward unless another one is given
WIDTHS = (1e-100, 1e100)  # how wide a range may be: values in it can be rescaled without loss


def checked_range(reward_range: Any) -> tuple[float, float]:
    """`reward_range` as two floats. Raises if they are not finite, or the first is not below the second by at least 1e-100."""
    try:
        low, high = (real_number(x, "reward_range") for x in reward_range)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"reward_range is {shown(reward_range)}: it has to be two numbers, (lowest, highest).") from None
    if not (isfinite(low) and isfinite(high) and low < high):
        raise ValueError(f"reward_range is {reward_range}: the first number has to be below the second, both finite.")
    if not WIDTHS[0] <= high - low <= WIDTHS[1]:
        raise ValueError(f"reward_range is {reward_range}: its width has to be between {WIDTHS[0]:g} and {WIDTHS[1]:g}.")
    return low, high


def to_unit(rewards: np.ndarray, reward_range: tuple[float, float]) -> np.ndarray:
    """Rewards on the scale on which their range is [0, 1]."""
    low, high = reward_range
    return rewards if reward_range == UNIT else np.clip((rewards - low) / (high - low), 0.0, 1.0)


def from_unit(lower: float, upper: float, reward_range: tuple[float, float], total: float) -> tuple[float, float]:
    """Bounds on a value, on the scale on which rewards lie in [0, 1], in the units of the rewards; rounded outward.

    `total` is the sum of the discounts of all steps: a reward of r at every step has the value r times `total`.
    """
    low, high = reward_range
    if reward_range == UNIT:
        return lower, upper
    least = low * total
    margin = 1e-15 * (abs(least) + (high - low) * upper)  # for the rounding of these sums
    return least + (high - low) * lower - margin, least + (high - low) * upper + margin


def reward_of_setting(
    reward: Reward, setting: Setting, within: tuple[float, float] | None = None, numbering: Numbering | None = None
) -> np.ndarray | ArrivalReward:
    """A reward of any form for all outcomes of a setting: (H, n_outcomes, A), or an `ArrivalReward`.

    With `terminal="outcome"` there are twice as many outcomes as states. A reward that is given for the states alone then
    continues to pay, after an episode has terminated, what it pays in the state in which it terminated. To have it otherwise,
    give an array or a table of all outcomes.
    """
    S, N, A, H = setting.n_states, setting.n_outcomes, setting.n_actions, setting.horizon
    if isinstance(reward, Composite):
        return checked(reward.total(lambda r: reward_of_setting(r, setting, None, numbering), (H, N, A)), within)
    if N == S or isinstance(reward, ArrivalReward):
        return as_reward(reward, N, A, H, within, numbering)
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
    r = as_reward(reward, S, A, H, within, numbering)
    if not isinstance(r, ArrivalReward):
        few = core(r)
        return np.broadcast_to(few if few.shape[1] == 1 else np.concatenate([few, few], axis=1), (H, N, A))
    T, size = r.shape[0], S * A
    t, pair = np.divmod(np.repeat(np.arange(T * size), np.diff(r.pointer)), size)
    pairs = np.concatenate([t * 2 * size + pair + ended * size for ended in (0, 0, 1, 1)])
    targets = np.concatenate([r.target + ended * S for ended in (0, 1, 0, 1)])
    order = np.lexsort((targets, pairs))
    pointer = np.concatenate([[0], np.cumsum(np.bincount(pairs, minlength=T * 2 * size))]).astype(np.int64)
    return ArrivalReward((T, N, A, H), pointer, targets[order], np.tile(r.pay, 4)[order])


class Known(NamedTuple):
    """A reward that is known in full, which nobody else can change."""

    reward: np.ndarray | ArrivalReward  # for all outcomes, as from `reward_of_setting`
    within: tuple[float, float]  # the range of the reward
    least: np.ndarray  # (H,): the smallest reward at each step
    most: np.ndarray  # (H,)


def known_reward(reward: Reward, setting: Setting, reward_range: Any = UNIT, numbering: Numbering | None = None) -> Known:
    """A reward of any form with what it can pay. Raises if it does not lie in `reward_range`, or if that is not a range."""
    within = UNIT if reward_range is UNIT else checked_range(reward_range)
    r = reward_of_setting(reward, setting, within, numbering)
    r = r if isinstance(reward, str) else own_copy(r)  # passes read it again later, when the user may have changed an array
    return Known(r, within, *(r.extremes() if isinstance(r, ArrivalReward) else extremes_of(r)))


def _shape(values: Any) -> tuple[int, ...]:
    """The shape of an array or of nested lists, or () if the lists are ragged."""
    try:
        return np.shape(values)
    except ValueError:  # ragged lists have no shape
        return ()


def _from_function(reward: Any, S: int, A: int, H: int) -> np.ndarray:
    """The values of a reward that is a function, as an array, (H, S, A) or (H, S, A, S)."""
    shape = (H, S, A, S) if _takes(reward) == 4 else (H, S, A)
    if np.prod(shape, dtype=float) > MAX_CALLS:
        raise ValueError(f"reward is a function of {len(shape)} arguments with too many values, {shape}: give it as a table.")
    try:
        return np.array([float(reward(*map(int, index))) for index in np.ndindex(*shape)], dtype=float).reshape(shape)
    except (TypeError, ValueError, LookupError, ArithmeticError) as problem:
        kind = type(problem).__name__
        raise ValueError(f"reward is a function that does not give a number everywhere: {kind}, {problem}.") from None


def _takes(reward: Any) -> int:
    """The number of arguments of such a function: 3 for (h, s, a), 4 for (h, s, a, s_next). Defaults do not count."""
    try:
        signature = inspect.signature(reward)
    except (TypeError, ValueError):  # some built-in functions have no signature
        return 3
    for arguments in (3, 4):
        try:
            signature.bind(*range(arguments))
        except TypeError:
            continue
        return arguments
    raise ValueError(f"reward is a function of {signature}: it has to take (h, s, a), or (h, s, a, s_next) if paid on arrival.")


def _from_table(table: Mapping[str, Any], S: int, A: int, H: int, within: tuple[float, float] | None) -> ArrivalReward:
    """A reward on arrival from a sparse table, checked."""
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


def checked(reward: np.ndarray | ArrivalReward, within: tuple[float, float] | None) -> np.ndarray | ArrivalReward:
    """The reward itself. Raises if it is not within the range."""
    _check_range(np.array(reward.extremes()) if isinstance(reward, ArrivalReward) else reward, within)
    return reward


def _check_range(r: np.ndarray, within: tuple[float, float] | None) -> None:
    """Raises if a value is not finite or outside the range."""
    r, (low, high) = core(r), (-np.inf, np.inf) if within is None else within
    least, most = r.min(initial=high), r.max(initial=low)
    if low <= least and most <= high and np.isfinite(r.min(initial=0.0)) and np.isfinite(r.max(initial=0.0)):
        return
    at = tuple(int(i) for i in np.argwhere(~(np.isfinite(r) & (r >= low) & (r <= high)))[0])
    place = f"reward[{', '.join(map(str, at))}] is {r[at]:g}"
    if not np.isfinite(r[at]):
        raise ValueError(f"{place}: it has to be a finite number.")
    raise ValueError(f"{place}, outside [{low:g}, {high:g}]: rescale it, or pass reward_range=(lowest, highest).")

"""Goals as automata that read the states of an episode: reach, avoid, one after the other, and automata of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import called
from ..rewards.forms import ArrivalReward, core, reward_of_setting
from ..setting import as_list, real_number, shown, whole_number

if TYPE_CHECKING:
    from .atlas import Atlas

MOST = 64  # memories of an automaton


@dataclass(frozen=True, eq=False)
class Automaton:
    """A finite memory q that reads every state of an episode, the initial one included: q becomes step(q, s).

        # pass through state 3 twice, and never through state 5 in between
        anyreward.Automaton(3, step=lambda q, s: min(q + (s == 3), 2) if s != 5 or q == 2 else 0, accepting=[2])

    With `accepting`, `Atlas.reach` maximises the probability that the memory is an accepting one when the episode ends. With
    `pays`, it is a reward machine: it maximises the expected sum of what is paid.

    Attributes
    ----------
    size : int
        The number of memories, 0 to size - 1.
    step : callable (q, s) -> int
    accepting : iterable of int
    pays : callable (q, s) -> float, optional
        What is paid when memory q reads state s, before it changes.
    start : int, default 0
        The memory before the initial state is read.
    """

    size: int
    step: Callable[[int, int], int]
    accepting: Iterable[int] = ()
    pays: Callable[[int, int], float] | None = None
    start: int = 0

    def __post_init__(self) -> None:
        if not 1 <= whole_number(self.size, "size") <= MOST:
            raise ValueError(f"size is {self.size}: an automaton has from 1 to {MOST} memories.")
        for name, call in (("step", self.step), ("pays", self.step if self.pays is None else self.pays)):
            if not callable(call):
                raise ValueError(f"{name} is {shown(call)}: it has to be a function of a memory and a state.")
        accepting = tuple(whole_number(q, "accepting") for q in as_list(self.accepting, "accepting"))
        for name, whole in (("accepting", accepting), *((n, whole_number(getattr(self, n), n)) for n in ("size", "start"))):
            object.__setattr__(self, name, whole)
        for q in (*accepting, self.start):
            if not 0 <= q < self.size:
                raise ValueError(f"there is no memory {q}: they go from 0 to {self.size - 1}.")
        if (self.pays is None) == (not self.accepting):
            raise ValueError("an automaton needs either accepting memories, or pays.")

    def table(self, n_states: int) -> tuple[np.ndarray, np.ndarray]:
        """The next memory and what is paid, (size, n_states) each.

        Example:

            twice = anyreward.Automaton(3, step=lambda q, s: min(q + (s == 3), 2), accepting=[2])
            next_memory, paid = twice.table(n_states=31)
        """
        if isinstance(self.step, Reading) and self.pays is None:
            return self.step.ahead, np.zeros((self.size, n_states))
        ahead, pays = np.zeros((self.size, n_states), np.int64), np.zeros((self.size, n_states))
        for q, s in np.ndindex(self.size, n_states):
            where = f"memory {q} and state {s}"
            then = whole_number(called(f"step fails for {where}", self.step, q, s), f"the next memory after {q} in state {s}")
            if not 0 <= then < self.size:
                raise ValueError(f"the next memory after {q} in state {s} is {then}: memories go from 0 to {self.size - 1}.")
            ahead[q, s] = then
            if self.pays is not None:
                paid = called(f"pays fails for {where}", self.pays, q, s)
                pays[q, s] = real_number(paid, f"what memory {q} is paid in state {s}")
        if not np.isfinite(pays).all():
            q, s = np.argwhere(~np.isfinite(pays))[0]
            raise ValueError(f"what memory {q} is paid in state {s} is {pays[q, s]}: it has to be a finite number.")
        return ahead, pays

    def tabulated(self, n_states: int) -> Automaton:
        """The same automaton on so many states, with arrays in place of functions.

        Example:

            twice = anyreward.Automaton(3, step=lambda q, s: min(q + (s == 3), 2), accepting=[2])
            twice.tabulated(n_states=31).step(0, 3)         # 1
        """
        ahead, pays = self.table(n_states)
        return replace(self, step=Reading(ahead), pays=None if self.pays is None else Paying(pays))


@dataclass(frozen=True, eq=False)
class Reading:
    """The step of an automaton whose next memories are known as an array, (size, n_states)."""

    ahead: np.ndarray

    def __call__(self, q: int, s: int) -> int:
        return int(self.ahead[q, s])


@dataclass(frozen=True, eq=False)
class Paying:
    """What an automaton pays, if that is known as an array, (size, n_states)."""

    pays: np.ndarray

    def __call__(self, q: int, s: int) -> float:
        return float(self.pays[q, s])


def reaching(goals: Sequence[np.ndarray], avoided: np.ndarray) -> Automaton:
    """All goals, (S,) booleans each, one after the other, before any state that is avoided."""
    done, failed = len(goals), len(goals) + 1
    ahead = np.repeat(np.arange(done + 2)[:, None], len(avoided), axis=1)
    for q, goal in enumerate(goals):
        ahead[q] = np.where(avoided, failed, q + goal)
    return Automaton(done + 2, Reading(ahead), (done,))


def avoiding(avoided: np.ndarray) -> Automaton:
    """Never in a state that is avoided, (S,) booleans."""
    return Automaton(2, Reading(np.stack([avoided.astype(int), np.ones(len(avoided), int)])), (0,))


def states_of(atlas: Atlas, given: Any, name: str) -> np.ndarray:
    """A set of states as (S,) booleans: from a number, a list of numbers, booleans, or an expression of the state."""
    S = atlas.counts.setting.n_states
    if isinstance(given, str):
        r = reward_of_setting(given, atlas.counts.setting, None, atlas.numbering)
        few = np.zeros(0) if isinstance(r, ArrivalReward) else core(r)  # an axis on which it does not depend has length 1
        if isinstance(r, ArrivalReward) or (few != few[:1, :, :1]).any() or not np.isin(few, (0.0, 1.0)).all():
            raise ValueError(f"{name} is {shown(given)}: it has to be a condition on the state alone, such as 'state == 30'.")
        found = r[0, :S, 0] == 1.0
    else:
        array = np.asarray(given)
        if array.dtype == bool and array.shape == (S,):
            found = array
        elif array.dtype.kind in "iu" and array.ndim <= 1 and array.size and 0 <= array.min() <= array.max() < S:
            found = np.isin(np.arange(S), array)
        else:
            raise ValueError(
                f"{name} is {shown(given)}: it has to be states from 0 to {S - 1}, {S} truth values, or an expression."
            )
    if not found.any():
        raise ValueError(f"{name} is {shown(given)}: no state is so.")
    return found

"""The rows of a log, sorted and linked: each knows its step, and where it led. Anything out of order is refused and named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..setting import shown
from .columns import MISSING, Column, check_lengths, column, several
from .numbering import Numbering
from .spaces import Codec, Indexed


@dataclass
class Log:
    """The rows of a log, sorted by episode and step.

    States and actions are positions in `states` and `actions` until `number` replaces them by their numbers. `MISSING` stands for
    an action that was not taken, and for a next state that nothing tells.
    """

    who: Column  # the episode of each row of the table
    row: np.ndarray  # (n,) the position of each row in the table
    episode: np.ndarray  # (n,) the number of its episode
    h: np.ndarray  # (n,) its step
    s: np.ndarray  # (n,) its state
    a: np.ndarray  # (n,) its action
    to: np.ndarray  # (n,) the state that it led to
    over: np.ndarray  # (n,) whether it terminated the episode
    states: list[Any]
    actions: list[Any]
    reordered: int = 0  # the number of episodes whose rows were not in the order of their steps

    @property
    def acts(self) -> np.ndarray:
        """Which rows are decisions, (n,) booleans: a last row may only say where the row before it led."""
        return self.a != MISSING

    @property
    def alive(self) -> np.ndarray:
        """Which rows are in a state of an episode that has not terminated, (n,) booleans."""
        return self.acts | (self.h == 0) | ~np.append(False, self.over[:-1])

    def at(self, i: int) -> str:
        """Where row i is, for messages."""
        return f"row {self.row[i]} of the log (episode {shown(self.who.values[self.episode[i]])}, step {self.h[i]})"

    def check_terminations(self, terminal: str | None) -> None:
        """Raises if the log contradicts what is said about terminations."""
        if terminal not in ("outcome", "state"):
            return
        nowhere = self.over & (self.to == MISSING)
        if nowhere.any():
            raise ValueError(
                f"{self.at(int(nowhere.argmax()))} terminates the episode, but nothing tells in which state: "
                "fill in the next state, or pass terminal='end'."
            )
        if terminal == "state":
            ends = np.unique(self.to[self.over])
            goes_on, arrives = self.acts & np.isin(self.s, ends), ~self.over & np.isin(self.to, ends)
            if (goes_on | arrives).any():
                i = int((goes_on | arrives).argmax())
                s, does = (self.s[i], "goes on from there") if goes_on[i] else (self.to[i], "arrives there without terminating")
                raise ValueError(
                    f"episodes terminate in the state {shown(self.states[s])}, but {self.at(i)} {does}: leave out "
                    "terminal='state'."
                )

    def states_by_row(self, terminal: str | None) -> dict[Any, int]:
        """The states of the process that appear, with a row for each. With `terminal="end"`, episodes terminate in none."""
        leads = (self.to != MISSING) & ~(self.over & (terminal == "end"))
        return first_rows(self.states, self.to, leads) | first_rows(self.states, self.s, self.alive)

    def actions_by_row(self) -> dict[Any, int]:
        """The actions that were taken, with a row for each."""
        return first_rows(self.actions, self.a, self.acts)

    def number(self, numbering: Numbering) -> None:
        """Replaces states and actions by their numbers; states in which episodes only terminate have none if they need none."""
        states = np.array([*(known_number(numbering.observations, value) for value in self.states), MISSING])
        actions = np.array([*(known_number(numbering.actions, value) for value in self.actions), MISSING])
        self.s, self.to, self.a = states[self.s], states[self.to], actions[self.a]

    def check_legal(self, allowed: Mapping[int, np.ndarray], numbering: Numbering, by_column: bool) -> None:
        """Raises if an illegal action was taken or, if a column tells the legal ones, if it does not tell them for a state."""
        told = np.zeros(numbering.observations.size, bool)
        legal = np.ones((len(told), numbering.actions.size), bool)
        for s, row in allowed.items():
            told[s], legal[s] = True, row
        wrong = self.acts & ~legal[self.s, self.a]
        if wrong.any():
            i = int(wrong.argmax())
            action = shown(numbering.action(self.a[i]))
            raise ValueError(
                f"{self.at(i)} takes the action {action}, which is not legal there: correct the row, or the legal actions."
            )
        here, there = self.alive & ~told[self.s], (self.to != MISSING) & ~self.over & ~told[self.to]
        if by_column and (here | there).any():
            i = int((here | there).argmax())
            state = shown(numbering.observation(self.s[i] if here[i] else self.to[i]))
            raise ValueError(
                f"{self.at(i)} {'is in' if here[i] else 'leads to'} the state {state}, of which no row tells the legal actions: "
                "fill them in, or give the legal actions of all states as a dictionary."
            )

    def checked_start(self, state: Any, numbering: Numbering) -> int:
        """The number of the initial state. Raises if an episode starts elsewhere."""
        s = known_number(numbering.observations, state)
        wrong = (self.h == 0) & (self.s != s)
        if s == MISSING or wrong.any():
            raise ValueError(
                f"initial_state is {shown(state)}, but {self.at(int(wrong.argmax()))} is in the state "
                f"{shown(numbering.observations.decode(self.s[wrong.argmax()]))}: correct it, or leave it out."
            )
        return s

    def lacks(self, amounts: Column) -> np.ndarray:
        """Which rows of the sorted log have no value in a column, (n,) booleans."""
        check_lengths([self.who, amounts])
        return amounts.codes[self.row] == MISSING

    def rewards(self, amounts: Column, chosen: np.ndarray) -> np.ndarray:
        """The rewards of the chosen rows of the sorted log (booleans). Raises if one is missing."""
        needed = np.zeros(len(self.row), bool)
        needed[self.row[chosen]] = True
        amounts.check_complete(needed)
        return amounts.numbers()[self.row[chosen]]

    def facts(self, horizon: int, transitions: int) -> dict[str, int]:
        """What was found, for reports."""
        decisions = np.bincount(self.episode[self.acts], minlength=len(self.who.values))
        ended = np.unique(self.episode[self.over])
        cut = decisions < horizon
        cut[ended] = False
        return {
            "rows": len(self.row),
            "episodes": len(self.who.values),
            "transitions": transitions,
            "states": len(np.unique(np.concatenate([self.s[self.alive], self.to[(self.to != MISSING) & ~self.over]]))),
            "actions": len(np.unique(self.a[self.acts])),
            "terminated": len(ended),
            "cut_off": int(cut.sum()),
            "reordered": self.reordered,
        }


def first_rows(values: Sequence[Any], codes: np.ndarray, chosen: np.ndarray) -> dict[Any, int]:
    """The values that appear in the chosen rows, with the first row of each."""
    used, first = np.unique(codes[chosen], return_index=True)
    return {values[code]: int(i) for code, i in zip(used, np.flatnonzero(chosen)[first], strict=True)}


def known_number(codec: Codec, value: Any) -> int:
    """The number of a state or action, or `MISSING` if it has none."""
    try:
        if isinstance(codec, Indexed):
            number = codec.known(value)
            return number if number < len(codec.values) else MISSING
        return codec.encode(value)
    except (TypeError, ValueError, LookupError):
        return MISSING


def values_of(table: Any, names: Any) -> Column:
    """One column, or several as one (a list of names)."""
    if isinstance(names, list) and not names:
        raise ValueError("a list of columns is empty: name at least one.")
    return several(table, names) if isinstance(names, list) else column(table, names)


def read_log(
    table: Any, episode: Any, state: Any, action: Any, next: Any, step: Any, time: Any, terminated: Any, order: bool
) -> Log:
    """The rows of a log, sorted and linked: each knows its step and where it led."""
    who, where, what = column(table, episode), values_of(table, state), values_of(table, action)
    then = None if next is None else values_of(table, next)
    ends = None if terminated is None else column(table, terminated)
    key = column(table, step if time is None else time) if (step, time) != (None, None) else None
    check_lengths([who, *(part for part in (where, what, then, ends, key) if part is not None)])
    if not len(who.codes):
        raise ValueError("the log has no rows: there is nothing to count.")
    for part in (who, where, *([] if key is None else [key])):
        part.check_complete()

    rank = np.arange(len(who.codes)) if key is None else steps_of(key) if time is None else ranks_of(key)
    if order and time is not None:
        order_episodes(who, rank, key)
    row = np.lexsort((rank, who.codes))
    e = who.codes[row]
    first = np.flatnonzero(np.append(True, e[1:] != e[:-1]))
    h = np.arange(len(row)) - np.repeat(first, np.diff(np.append(first, len(row))))
    if key is not None:
        check_steps(who, row, e, h, rank[row], key, counts=time is None)
    moved = np.unique(e[1:][(np.diff(row) < 0) & (e[1:] == e[:-1])])

    states = list(dict.fromkeys([*where.values, *(() if then is None else then.values)]))
    places = {value: i for i, value in enumerate(states)}
    s, a = where.codes[row], what.codes[row]
    over = np.zeros(len(row), bool) if ends is None else ends.booleans()[row]
    follows = np.append(e[1:] == e[:-1], False)  # whether the next row is of the same episode
    log = Log(who, row, e, h, s, a, np.full(len(row), MISSING), over, states, what.values, len(moved))
    if then is None:
        log.to[:-1] = np.where(follows[:-1], s[1:], MISSING)
    else:
        log.to = np.array([*(places[value] for value in then.values), MISSING])[then.codes[row]]
    link(log, follows, then is not None, what.name)
    return log


def link(log: Log, follows: np.ndarray, told: bool, action: str) -> None:
    """Checks that rows follow from each other, and takes the last rows without an action into the rows before them.

    `told` says whether the log has a column for the next state.
    """
    acts, over, after = log.acts, log.over, np.append(log.s[1:], MISSING)
    idle = ~acts & (follows | told)
    if idle.any():
        i = int(idle.argmax())
        raise ValueError(f"{log.at(i)} has no value in the column {shown(action)}: only the last row of an episode may lack it.")
    before = np.append(~acts[1:] & follows[:-1], False)  # the rows whose next row only says where they led
    if (over & ~acts & (log.h == 0)).any():
        i = int((over & ~acts & (log.h == 0)).argmax())
        raise ValueError(f"{log.at(i)} terminates the episode before an action was taken: leave the episode out, or fill it in.")
    over |= before & np.append(over[1:], False)
    log.over = over & acts
    late = log.over & follows & ~before
    if late.any():
        i = int(late.argmax())
        raise ValueError(f"{log.at(i)} terminates the episode, but {log.at(i + 1)} goes on with it: split the episode there.")
    if not told:
        return
    wrong = follows & (log.to != MISSING) & (log.to != after)
    if wrong.any():
        i = int(wrong.argmax())
        raise ValueError(
            f"{log.at(i)} leads to {shown(log.states[log.to[i]])}, but {log.at(i + 1)} is in {shown(log.states[after[i]])}: "
            "a row is missing, or the rows are not in order."
        )
    lacking = acts & ~log.over & (log.to == MISSING)
    if lacking.any():
        raise ValueError(f"{log.at(int(lacking.argmax()))} has no next state, and does not terminate the episode: fill it in.")


def steps_of(key: Column) -> np.ndarray:
    """The numbers of the steps, (n,)."""
    numbers = []
    for i, value in enumerate(key.values):
        whole = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53 and value == int(value)
        if not whole:
            raise ValueError(
                f"row {key.row_of(i)} of the log has {shown(value)} in the column {shown(key.name)}: steps have to be whole "
                "numbers. Pass a column that only orders the rows, such as a date, as time=."
            )
        numbers.append(int(value))
    return np.array(numbers, np.int64)[key.codes]


def ranks_of(key: Column) -> np.ndarray:
    """The rank of each row's time among all times, (n,)."""
    try:
        place = {value: i for i, value in enumerate(sorted(key.values))}
    except TypeError:
        raise ValueError(
            f"the column {shown(key.name)} of the log has values that cannot be compared: it gives no order."
        ) from None
    return np.array([place[value] for value in key.values], np.int64)[key.codes]


def check_steps(who: Column, row: np.ndarray, e: np.ndarray, h: np.ndarray, rank: np.ndarray, key: Column, counts: bool) -> None:
    """Raises if a step or a time of an episode occurs twice or, if steps are counted, is missing. All arrays are sorted, (n,)."""
    same, names = e[1:] == e[:-1], who.values
    twice = same & (rank[1:] == rank[:-1])
    if twice.any():
        i = int(twice.argmax())
        value = shown(key.values[key.codes[row[i]]])
        raise ValueError(
            f"rows {row[i]} and {row[i + 1]} of the log have the same {key.name} = {value} in episode {shown(names[e[i]])}: "
            "each may have one row."
        )
    if not counts:
        return
    gap = same & (rank[1:] != rank[:-1] + 1)
    if gap.any():
        i = int(gap.argmax())
        raise ValueError(
            f"episode {shown(names[e[i]])} has no {key.name} = {rank[i] + 1}: it goes from {rank[i]} (row {row[i]} of the log) "
            f"to {rank[i + 1]} (row {row[i + 1]}). Add the row; or leave the whole episode out, if the row was lost for reasons "
            "that have nothing to do with what happened."
        )
    start, begins = rank[h == 0].min(), h == 0
    late = begins & (rank != start)
    if late.any():
        i = int(late.argmax())
        raise ValueError(
            f"episode {shown(names[e[i]])} begins with {key.name} = {rank[i]} (row {row[i]} of the log), others with {start}: "
            "its beginning is missing. Pass a column that only orders the rows as time=."
        )


def order_episodes(who: Column, rank: np.ndarray, key: Column | None) -> None:
    """Numbers the episodes by their first times. Raises if two overlap in time, and so have no order."""
    begin, end = np.full(len(who.values), np.iinfo(np.int64).max), np.full(len(who.values), -1)
    np.minimum.at(begin, who.codes, rank)
    np.maximum.at(end, who.codes, rank)
    by = np.argsort(begin, kind="stable")
    overlap = begin[by][1:] < end[by][:-1]
    if overlap.any():
        one, two = (shown(who.values[by[int(overlap.argmax()) + k]]) for k in (0, 1))
        raise ValueError(
            f"order is True, but episode {two} begins before episode {one} ends, by the column "
            f"{shown('' if key is None else key.name)}: leave out order=True."
        )
    place = np.empty(len(by), np.int64)
    place[by] = np.arange(len(by))
    who.codes, who.values = place[who.codes], [who.values[i] for i in by]

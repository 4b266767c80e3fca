"""Counts from logs: tables with a row for each step of an episode, with states and actions of any kind.

Use `Counts.from_dataframe`; `counts_from_log` does its work.

**What a row is.** A row is one decision: the state in which it was made, the action and, if they are known, the reward and the
next state. Without a column for the next state, the state of the next row of the same episode is the next state. The last row of
an episode then has none, and its transition is not counted. A last row without an action is no decision: it only says where the
row before it led.

**How an episode ends.** An episode *terminates* where the column `terminated` says so. It is *cut off* if it is shorter than the
horizon and does not terminate: its transitions are counted, and nothing is invented after them. Certificates stay valid if
whoever cut it off knew only the past (`docs/theory.md`, 9.3). Where every log ends with step H, no transition of that step is
counted: what follows would be known only if it terminates. Of an episode that is longer than the horizon, the first H steps are
counted, and a warning says how many rows are not; if the setting is stationary all of them are counted, since each is a sample of
its law whatever the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..rewards.observed import UNKNOWN, ObservedRewards
from ..setting import Setting, as_list, boolean, shown, whole_number
from ..words import plain
from .columns import MISSING, cells, column
from .importers import outcomes, recorded, warn_of_rows_beyond
from .log_rows import Log, known_number, read_log
from .numbering import Numbering
from .spaces import Codec, Indexed, Whole, as_key

if TYPE_CHECKING:
    from .counts import Counts

CUT_OFF = "where the log does not tell what an action led to, that had nothing to do with what it led to"
IN_ORDER = "the episodes are in the order in which they were played, each after the one before it"
NOWHERE = -1  # the row of an action that was never taken, but is legal somewhere
SEPARATOR = "|"  # between legal actions that are written as one text


def counts_from_log(
    table: Any,
    horizon: int,
    *,
    episode: Any,
    state: Any,
    action: Any,
    next: Any = None,
    step: Any = None,
    time: Any = None,
    reward: Any = None,
    terminated: Any = None,
    legal: Any = None,
    states: Any = None,
    actions: Any = None,
    max_states: int | None = None,
    terminal: str | None = None,
    initial_state: Any = None,
    initial: Mapping[Any, float] | None = None,
    stationary: bool = False,
    discount: float = 1.0,
    arrival_rewards: bool = False,
    order: bool = False,
) -> Counts:
    """Counts from a log; see `Counts.from_dataframe`."""
    H, stationary, order = whole_number(horizon, "horizon"), boolean(stationary, "stationary"), boolean(order, "order")
    if step is not None and time is not None:
        raise ValueError("step and time are both given: give step if it numbers the steps, time if it only orders them.")
    if states is not None and max_states is not None:
        raise ValueError("states and max_states are both given: leave one of them out.")
    if terminal is not None and terminated is None:
        raise ValueError("terminal is given, but terminated is not: name the column that says where episodes terminate.")
    if terminated is not None and terminal is None:
        terminal = "end" if next is None else "outcome"

    log = read_log(table, episode, state, action, next, step, time, terminated, order)
    log.check_terminations(terminal)
    rules = legal_actions(table, legal, log)
    elsewhere = {a: NOWHERE for rule in rules.values() if not isinstance(rule, Mask) for a in rule}
    numbering = Numbering(
        numbered(log.states_by_row(terminal), "states", states, max_states, column_names(state), log),
        numbered(elsewhere | log.actions_by_row(), "actions", actions, None, column_names(action), log),
    )
    log.number(numbering)
    allowed = legal_rows(rules, numbering, actions is not None)
    by_column = legal is not None and not isinstance(legal, Mapping)
    log.check_legal(allowed, numbering, by_column)

    in_scope = log.acts & (stationary | (log.h < H))
    unknown = in_scope & ~log.over & (log.to == MISSING)  # nothing tells where these actions led
    counted = in_scope & ~unknown
    if (unknown & (log.h == H - 1)).any() and not (log.acts & (log.h >= H)).any():
        # Episodes end with step H, whatever it leads to. It would only be known of those that terminate: so none is counted.
        counted &= log.h < H - 1
        unknown &= log.h < H - 1
    assumed = assumed_complete(numbering, states, actions, max_states)
    if order and not stationary:
        assumed.append(IN_ORDER)
    if unknown.any():
        assumed.append(CUT_OFF)
    illegal = {s: np.flatnonzero(~row).tolist() for s, row in allowed.items()}
    setting = Setting(
        n_states=numbering.observations.size + (terminal == "end"),
        n_actions=numbering.actions.size,
        horizon=H,
        discount=discount,
        stationary=stationary,
        initial_state=None if initial_state is None else log.checked_start(initial_state, numbering),
        initial=known_start(initial, numbering),
        arrival_rewards=arrival_rewards,
        illegal_actions=() if by_column else tuple((s, a) for s, forbidden in illegal.items() for a in forbidden),
        hidden_masks=by_column,
        terminal=terminal,
        assumed=tuple(assumed),
    )
    late = log.episode[log.acts & ~in_scope]
    warn_of_rows_beyond(len(late), len(np.unique(late)), len(log.who.values), H)
    to = outcomes(log.to, log.over, setting)
    moves = np.stack([log.episode, log.h, log.s, log.a, to], axis=1)[counted]
    counts = recorded(setting, log.s[log.h == 0], moves, log.over[counted], order, illegal if by_column else None, numbering)
    counts.source = {"env": "a log", "log": log.facts(H, len(moves))}
    silent = in_scope & ~counted
    places, times = np.unique(np.stack([log.h * (not stationary), log.s, log.a], axis=1)[silent], axis=0, return_counts=True)
    counts.taken = np.column_stack([places, times]).astype(np.int64)
    if reward is not None:
        amounts = column(table, reward)
        pays = log.acts & (log.h < H) & ~(unknown & log.lacks(amounts))
        keys = np.stack([log.h, log.s, log.a, np.where(counted, to, UNKNOWN)], axis=1)[pays]
        counts.paid = ObservedRewards()
        counts.paid.add_many(log.episode[pays], keys, log.rewards(amounts, pays))
    return counts


# --- Numbering states and actions ---


def column_names(names: Any) -> tuple[str, ...]:
    """The names of several columns, or () if it is one."""
    return tuple(plain(str(name)) for name in names) if isinstance(names, list) else ()


def numbered(rows: dict[Any, int], kind: str, given: Any, most: int | None, columns: tuple[str, ...], log: Log) -> Codec:
    """The numbering of states or actions (`kind`): of those that are `given`, or of those that appear.

    Those that appear are sorted, if they can be, so that numbers do not depend on the order of rows.

    Parameters
    ----------
    rows : dict
        The values that appear, with a row for each.
    given : list, optional
        All values that there are.
    most : int, optional
        The largest number of different values.
    columns : tuple of str
        The names of the columns, if there are several.
    """
    if given is None:
        try:
            values = sorted(rows)
        except TypeError:
            values = list(rows)
        if most is not None and whole_number(most, "max_states") < len(values):
            raise ValueError(f"the log has {len(values)} different states, more than max_states = {most}: raise it.")
    else:
        values = as_list(given, kind)
    codec = Indexed(max(1, len(values)) if most is None else most, columns)
    for value in values:
        try:
            before = len(codec.values)
            codec.encode(value)
        except (TypeError, ValueError, LookupError):
            raise ValueError(f"{kind} has {shown(value)}: it is not hashable, or not a row of the columns.") from None
        if len(codec.values) == before:
            raise ValueError(f"{kind} has {shown(value)} twice: each may appear once.")
    unknown = [(i, value) for value, i in rows.items() if known_number(codec, value) == MISSING]
    if unknown:
        i, value = min(unknown, key=lambda pair: pair[0])
        place = "legal" if i == NOWHERE else log.at(i)
        raise ValueError(
            f"{place} has {shown(value)}, which is not in {kind}=, the list of all: add it there, or correct the row."
        )
    if not values:
        raise ValueError(f"the log has no {kind}: name them with {kind}=.")
    plain_numbers = not columns and all(type(x) is int and x == i for i, x in enumerate(codec.values))
    return Whole(len(values), 0) if plain_numbers and most is None else codec


def assumed_complete(numbering: Numbering, states: Any, actions: Any, max_states: int | None) -> list[str]:
    """What is assumed about states and actions that do not appear, if the user did not say which there are."""
    said, S = [], numbering.observations.size
    if states is None:
        many = (
            f"no other states than the {S:,} that appear in the data" if max_states is None else f"at most {S:,} different states"
        )
        said.append(f"there are {many}")
    if actions is None:
        said.append(f"there are no other actions than the {numbering.actions.size:,} that appear in the data")
    return said


def known_start(initial: Any, numbering: Numbering) -> tuple[tuple[int, float], ...]:
    """A known distribution of the initial state as pairs of a number and a probability."""
    if initial is None:
        return ()
    if not isinstance(initial, Mapping) or not initial:
        raise ValueError(f"initial is {shown(initial)}: it has to be a dictionary from states to probabilities.")
    law = {state: known_number(numbering.observations, state) for state in initial}
    unknown = next((state for state, s in law.items() if s == MISSING), None)
    if unknown is not None:
        raise ValueError(
            f"initial names the state {shown(unknown)}, which does not appear in the log: list all states in states=."
        )
    return tuple((law[state], p) for state, p in initial.items())


# --- Legal actions ---


class Mask(tuple[bool, ...]):
    """Which of the given actions are legal."""


def legal_actions(table: Any, legal: Any, log: Log) -> dict[Any, Any]:
    """For each state of which the log or the user tells it, its legal actions: a tuple of actions, or a `Mask`."""
    if legal is None:
        return {}
    if isinstance(legal, Mapping):
        return {as_key(s): as_rule(actions, log.actions, f"legal[{shown(s)}]") for s, actions in legal.items()}
    told = cells(table, legal)
    found: dict[int, tuple[Any, int]] = {}
    read: dict[str, Any] = {}
    if len(told) != len(log.row):
        raise ValueError(f"the column {shown(legal)} of the log has {len(told)} rows, not {len(log.row)} as the others.")
    for i, (row, s) in enumerate(zip(log.row.tolist(), log.s.tolist(), strict=True)):
        if told[row] is None:
            continue
        text = repr(told[row]) if not isinstance(told[row], str) else told[row]
        rule = read.get(text) or as_rule(told[row], log.actions, f"{log.at(i)}, column {shown(legal)},")
        read[text] = rule
        before, where = found.setdefault(s, (rule, i))
        if before != rule:
            raise ValueError(
                f"{log.at(where)} and {log.at(i)} are in the same state, but tell different legal actions: they have to depend "
                "on the state alone."
            )
    return {log.states[s]: rule for s, (rule, _) in found.items()}


def as_rule(cell: Any, actions: list[Any], place: str) -> Any:
    """The legal actions in a cell, in a fixed order, or a `Mask`.

    A cell is a list of actions, a text with actions between bars, or a list of booleans with one for each action.
    """
    if isinstance(cell, str):
        by_text = {str(a): a for a in actions}
        texts = [part.strip() for part in cell.split(SEPARATOR)]
        numbers = bool(actions) and all(isinstance(a, int) for a in actions)
        cell = [by_text.get(text, int(text) if numbers and text.lstrip("-").isdecimal() else text) for text in texts]
    if not isinstance(cell, Iterable) or isinstance(cell, bytes | Mapping):
        raise ValueError(f"{place} is {shown(cell)}: it has to be a list of the legal actions.")
    parts = list(cell)
    if not parts:
        raise ValueError(f"{place} is empty: at least one action has to be legal.")
    if all(isinstance(part, bool | np.bool_) for part in parts):
        return Mask(map(bool, parts))
    keys = dict.fromkeys(as_key(part) for part in parts)
    return tuple(sorted(keys, key=repr))


def legal_rows(rules: Mapping[Any, Any], numbering: Numbering, given: bool) -> dict[int, np.ndarray]:
    """Which actions are legal, (A,) booleans, by the number of a state. `given` says whether the user listed all actions."""
    rows, A = {}, numbering.actions.size
    for state, rule in rules.items():
        s = known_number(numbering.observations, state)
        if s == MISSING:
            raise ValueError(
                f"legal names the state {shown(state)}, which does not appear in the log: list all states in states=."
            )
        if isinstance(rule, Mask) and (not given or len(rule) != A):
            raise ValueError(
                f"the legal actions of the state {shown(state)} are a mask of {len(rule)} truth values: list all actions, "
                "in the order of the mask, in actions=."
            )
        rows[s] = np.array(rule) if isinstance(rule, Mask) else np.zeros(A, bool)
        if not isinstance(rule, Mask):
            rows[s][[known_number(numbering.actions, a) for a in rule]] = True
        if not rows[s].any():
            raise ValueError(f"no action is legal in the state {shown(state)}: at least one has to be.")
    return rows

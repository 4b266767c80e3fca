"""`watch`: whether an environment is still the one that was explored, law by law; `Drift` is what was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import exp, log
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..data.counts import COLUMNS, Counts
from ..data.drift import combined, log_evidence, log_evidence_against_known
from ..data.spaces import Indexed, as_key
from ..setting import probability, shown
from ..words import assumed, exact, up

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..data.numbering import Numbering
    from ..data.spaces import Codec
    from .atlas import Atlas

LATER = "the new data were collected after those of the atlas, and each action was chosen by somebody who knew only the past"
SHOWN = 5  # laws that are printed


class LawDrift(NamedTuple):
    """The evidence that one law has changed.

    Attributes
    ----------
    name : str
        Which law it is, such as "state 3 with action wait at step 2".
    log_e : float
        The logarithm of its e-value. If this law has not changed, it ever reaches log(1/x) with probability at most x.
    certain : bool
        Whether this law has certainly changed: with probability at least 1 - alpha, no law is ever called so that has not
        (`docs/theory.md`, 16.3).
    old, new : dict of str to int
        How often each outcome was observed before and now.
    """

    name: str
    log_e: float
    certain: bool
    old: dict[str, int]
    new: dict[str, int]

    def __str__(self) -> str:
        n, m = sum(self.old.values()), sum(self.new.values())
        moved = max(self.old | self.new, key=lambda x: abs(self.old.get(x, 0) / max(n, 1) - self.new.get(x, 0) / max(m, 1)))
        shares = [f"{100 * counts.get(moved, 0) / max(many, 1):.3g}%" for counts, many in ((self.old, n), (self.new, m))]
        sure = "certainly changed" if self.certain else "not certain on its own"
        return f"{self.name}: {moved} in {shares[0]} of {n:,} before, {shares[1]} of {m:,} now (log e = {self.log_e:.3g}; {sure})"


@dataclass(frozen=True)
class Drift:
    """Whether an environment is still the one that was explored: what `Atlas.watch` found.

        drift = atlas.watch(new_counts)
        drift.changed, drift.p
        drift.laws[0]                                   # the law with the most evidence

    **What is certain.** If no law has changed, `changed` is ever true with probability at most `alpha`, however often one looks
    at more and more new data, and whatever actions are chosen. That it is false proves nothing.

    Attributes
    ----------
    changed : bool
        Whether the evidence has reached 1/alpha.
    p : float
        A p-value that holds at all times: if no law has changed, it is ever below x with probability at most x.
    log_e : float
        The logarithm of the e-value of all laws together.
    alpha : float
        The probability of a false alarm.
    laws : tuple of LawDrift
        The laws of which there are new data, those with most evidence first.
    old_episodes, new_transitions : int
        How much was compared.
    assumptions : tuple of str
        What this assumes.
    """

    changed: bool
    p: float
    log_e: float
    alpha: float
    laws: tuple[LawDrift, ...] = field(repr=False)
    old_episodes: int
    new_transitions: int
    assumptions: tuple[str, ...]

    def _repr_html_(self) -> str:
        from ..pages import result_card

        return result_card(self)

    def __str__(self) -> str:
        head = "the environment has changed" if self.changed else "no evidence that the environment has changed"
        said = [
            f"{head}: p = {up(self.p, 3)}, {self.new_transitions:,} new transitions against {self.old_episodes:,} episodes; "
            f"a false alarm has probability at most {exact(self.alpha)}{assumed(self.assumptions)}"
        ]
        told = [law for law in self.laws if law.certain or (self.changed and law.log_e > 0)][:SHOWN]
        return "\n".join([*said, *map(str, told)])


def watch(atlas: Atlas, new_data: Any, alpha: float, how: Mapping[str, Any]) -> Drift:
    """See `Atlas.watch`."""
    alpha = probability(alpha, "alpha")
    new, old = counts_of(atlas, new_data, how), atlas.counts
    for counts in (old, new):
        if counts.selected:
            raise ValueError("these data leave out samples because of what they showed: they cannot be watched.")
    try:
        if new.setting.hidden_masks != old.setting.hidden_masks:  # then the new data do not say what is legal
            marks = old.declarations()
            old = Counts.from_columns(new.setting, old.columns(), marks[marks[:, 1] > 0])
        old + new
    except ValueError as problem:
        raise ValueError(
            f"the new data contradict what is declared of the environment: it has changed, or that was wrong ({problem})"
        ) from None
    structure = old.setting.structure
    if structure is not None and old.shared.refuted:
        raise ValueError("the data of this atlas contradict its structure: explore or certify again without it.")
    laws = compared_laws(atlas, new) if structure is None else declared_laws(old, new)
    log_e = log_evidence(laws.law, laws.old, laws.new, len(laws.names))
    for g, q in laws.known.items():
        here = laws.law == g
        log_e[g] = log_evidence_against_known(q, np.bincount(laws.code[here], laws.new[here], len(q)))
    total = combined(log_e[laws.comparable])
    fresh = np.bincount(laws.law, laws.new, len(laws.names)) > 0
    certain = log_e >= log(laws.declared / alpha)
    order = np.argsort(laws.law, kind="stable")
    begin = np.searchsorted(laws.law[order], np.arange(len(laws.names) + 1))
    found = []
    for g in sorted(np.flatnonzero(fresh & laws.comparable).tolist(), key=lambda g: (-log_e[g], g)):
        edges = order[begin[g] : begin[g + 1]].tolist()
        seen = [{laws.called(i): int(column[i]) for i in edges if column[i] > 0} for column in (laws.old, laws.new)]
        found.append(LawDrift(laws.names[g](), float(log_e[g]), bool(certain[g]), *seen))
    said = tuple(dict.fromkeys((*atlas.certificate.assumptions, *new.source["assumed"], LATER)))
    p = max(exp(-total), 1e-300) if total > 0 else 1.0  # nothing smaller, which could not be told from 0, is claimed
    return Drift(total >= -log(alpha), p, total, alpha, tuple(found), atlas.episodes, new.transitions, said)


# --- The laws of which there are old or new data ---


@dataclass(frozen=True)
class Laws:
    """Counts of laws, before and now: one entry for each outcome of a law that was observed.

    Attributes
    ----------
    law, code : ndarray of int, (E,)
        The law, and the number of the outcome.
    old, new : ndarray, (E,)
    names : sequence of callable
        What each law is called.
    called : callable
        What the outcome of an entry is called.
    comparable : ndarray of bool
        Which laws have old data, or are declared to be known.
    declared : int
        How many laws there are by what was declared, seen or not.
    known : dict of int to ndarray
        The probabilities of laws that are declared to be known.
    """

    law: np.ndarray
    code: np.ndarray
    old: np.ndarray
    new: np.ndarray
    names: Sequence[Callable[[], str]]
    called: Callable[[int], str]
    comparable: np.ndarray
    declared: int
    known: dict[int, np.ndarray]


def compared_laws(atlas: Atlas, new: Counts) -> Laws:
    """The laws of steps, states and actions and, if it is estimated, of the initial state."""
    setting, marks = atlas.counts.setting, atlas.counts.table.known.reshape(-1, atlas.counts.setting.n_actions)
    parts = []
    for i, counts in enumerate((atlas.counts, new)):
        c = counts.columns()
        flows = np.stack([c[name] for name in COLUMNS], axis=1)
        start = flows[:, 0] < 0
        keep = start & setting.estimates_start
        keep[~start] = marks[flows[~start, 1], flows[~start, 2]] == 0 if len(marks) else True  # what is known is not compared
        flows[start, 1:3] = 0
        parts.append(np.column_stack([flows[keep], np.full(keep.sum(), i)]))
    rows = np.concatenate(parts)
    edges, edge = np.unique(rows[:, :4], axis=0, return_inverse=True)
    keys, law = np.unique(edges[:, :3], axis=0, return_inverse=True)
    edge, law = edge.reshape(-1), law.reshape(-1)
    old, fresh = (np.bincount(edge[rows[:, 5] == i], rows[rows[:, 5] == i, 4], len(edges)) for i in range(2))

    def name(h: int, s: int, a: int) -> str:
        if h < 0:
            return "the initial state"
        return f"{atlas.called(s)} with {atlas.action_name(a)}" + ("" if setting.stationary else f" at step {h}")

    names = [partial(name, *key) for key in keys.tolist()]
    comparable = np.bincount(law, old, len(keys)) > 0
    return Laws(
        law, edges[:, 3], old, fresh, names, lambda i: atlas.state_name(int(edges[i, 3])), comparable, setting.n_distributions, {}
    )


def declared_laws(old: Counts, new: Counts) -> Laws:
    """The laws of a declared structure; an initial state that is estimated is not compared."""
    structure, shared = old.setting.structure, old.shared
    assert structure is not None
    sizes = np.array(structure.sizes)
    law = np.repeat(np.arange(len(sizes)), sizes)
    code = np.arange(len(law)) - shared.tables.offset[law]
    known = {g: shared.known_laws[g] for g, _ in structure.known}
    estimated = np.array(structure.estimated) & (shared.n > 0)
    comparable = estimated | np.isin(np.arange(len(sizes)), list(known))
    names = [partial(str, f"law {name}") for name in structure.names]
    return Laws(
        law, code, shared.seen, new.shared.seen, names, lambda i: f"outcome number {code[i]}", comparable, len(sizes), known
    )


# --- New data in any form ---


def counts_of(atlas: Atlas, data: Any, how: Mapping[str, Any]) -> Counts:
    """New data of any form as counts in the setting of the atlas."""
    from .atlas import Atlas, shared_runs

    setting, numbering = atlas.counts.setting, atlas.numbering
    if isinstance(data, Counts | Atlas):
        if how:
            raise ValueError(f"{next(iter(how))} is for a log: leave it out, since the new data are counts already.")
        if isinstance(data, Atlas) and shared_runs(atlas.runs, data.runs):
            raise ValueError("the new data share a run with the atlas: they have to be data that it does not contain.")
        counts = data if isinstance(data, Counts) else data.counts
        if not alike(numbering, data.numbering or numbering):
            raise ValueError("the new data cannot be compared: their states or actions were numbered or named differently.")
    elif isinstance(data, tuple):
        if how or len(data) != 2:
            raise ValueError("the new data are a tuple: it has to be (states, actions), of shape (B, H+1) and (B, H).")
        counts = Counts(setting)
        counts.numbering = numbering
        counts.declare(atlas.counts.declarations())
        counts.add_episodes(*counts.checked(*data))
    elif not hasattr(data, "__getitem__"):
        raise ValueError(f"the new data are {shown(data)}: counts, an atlas, (states, actions) or a table is needed.")
    else:
        counts = counts_of_table(atlas, data, how)
    if not counts.setting.hidden_masks:  # the new data need not say what was legal, since laws of transitions are compared
        setting = replace(setting, hidden_masks=False)
    theirs, mine = (asdict(replace(s, assumed=(), structure=None)) for s in (counts.setting, setting))
    if counts.setting.structure is None and setting.structure is not None:
        theirs["stationary"] = mine["stationary"]  # `with_structure` pools the steps, or refuses
    elif counts.setting.structure != setting.structure:
        raise ValueError("the new data have another structure than the atlas: give counts with the same one, or without any.")
    differ = [f"{name} ({shown(mine[name])} and {shown(theirs[name])})" for name in mine if mine[name] != theirs[name]]
    if differ:
        raise ValueError(f"the new data cannot be compared: their setting differs from that of the atlas in {', '.join(differ)}.")
    if counts.setting.structure != setting.structure:
        counts = counts.with_structure(setting.structure)  # type: ignore[arg-type]
    columns = {name: column for name, column in counts.columns().items() if name in COLUMNS}
    same = Counts.from_columns(setting, columns, counts.declarations())
    same.numbering, same.selected = numbering, counts.selected
    same.source["assumed"] = counts.setting.assumed
    return same


def alike(one: Numbering, other: Numbering) -> bool:
    """Whether two numberings are the same, and so are the names that both of them give."""
    mine, theirs = one.to_dict(), other.to_dict()
    return all(mine[part] == theirs[part] or (part.endswith("names") and not (mine[part] and theirs[part])) for part in mine)


def counts_of_table(atlas: Atlas, table: Any, how: Mapping[str, Any]) -> Counts:
    """The counts of a data frame: a log whose states and actions are those of the atlas, or a table of numbered transitions."""
    setting, numbering = atlas.counts.setting, atlas.numbering
    if not how:
        return Counts.from_dataframe(table, replace(setting, structure=None))
    states, actions = (values_of(codec) for codec in (numbering.observations, numbering.actions))
    known: dict[str, Any] = {
        "horizon": setting.horizon, "discount": setting.discount, "stationary": setting.stationary, "states": states,
        "actions": actions, "arrival_rewards": setting.arrival_rewards,
    }  # fmt: skip
    if setting.initial_state is not None:
        known["initial_state"] = states[setting.initial_state]
    if setting.initial:
        known["initial"] = {states[s]: p for s, p in setting.initial}
    if setting.illegal_actions:
        known["legal"] = {
            state: [a for i, a in enumerate(actions) if (s, i) not in setting.illegal_actions] for s, state in enumerate(states)
        }
    if setting.terminal is not None and "terminated" not in how:
        raise ValueError("the log does not say which transitions terminated an episode: name the column that does by terminated.")
    if setting.terminal is not None:
        known["terminal"] = setting.terminal
    twice = next((name for name in how if name in known), None)
    if twice is not None:
        raise ValueError(f"{twice} is given, but the atlas knows it: leave it out.")
    return Counts.from_dataframe(table, **known, **how)


def values_of(codec: Codec) -> list[Any]:
    """All values that are numbered, in order; places that no value has taken yet have a value that does not occur."""
    met = len(codec.values) if isinstance(codec, Indexed) else codec.size
    decoded = [codec.decode(i) for i in range(met)]
    if not isinstance(codec, Indexed):
        decoded = [as_key(value) for value in decoded]
    elif codec.columns:
        decoded = list(codec.values)
    return decoded + [f"value number {i}, not met yet" for i in range(met, codec.size)]

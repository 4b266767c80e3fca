"""`SharedLaws`: a declared structure as tables, part of a `Setting`. They are plain values, which are checked and kept in files.

`Structure` (`structure.py`) is how people write a declaration; `Structure.tabulate` makes these tables of it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

MOST_EDGES = 2**26  # possible transitions of all pairs: beyond, neither time nor memory suffice
MOST_DRAWS = 60  # of a transition
TOLERANCE = 1e-9  # how far the probabilities of a known law may be from summing to one
LONGEST = 60  # characters of a law's name that are kept
NAMED = 4  # laws up to which assumptions name them, if their names are texts


class Tables(NamedTuple):
    """What follows from the tables of `SharedLaws`. P pairs (h, s, a), m draws, E edges (pair, successor), each once."""

    offset: np.ndarray  # (laws + 1,): where the outcomes of a law begin among all outcomes of all laws
    pointer: np.ndarray  # (P + 1,): where the combinations of outcomes of a pair begin
    target: np.ndarray  # the successor of each combination
    code: np.ndarray  # (combinations, m): the outcome of each draw, counted through all laws; -1 if there is no such draw
    edge_of: np.ndarray  # (combinations,): the edge of each combination; 0 if a known law makes it impossible
    edge_first: np.ndarray  # (P + 1,): where the edges of a pair begin
    edge_target: np.ndarray  # (E,)
    edge_code: np.ndarray  # (E, m): the outcome that an edge reveals, -1 where it does not
    revealed: np.ndarray  # (P, m) booleans: whether a draw follows from the successor, whichever that is


class Layout(NamedTuple):
    """All pairs and edges as a table of counts has them (`kernels.table.Table`). Node 1 + layer * S + s is state s."""

    node_of: np.ndarray
    state: np.ndarray
    following: np.ndarray
    head: np.ndarray
    first: np.ndarray
    size: np.ndarray
    target: np.ndarray


@dataclass(frozen=True)
class SharedLaws:
    """A structure as tables, part of a `Setting`: which law each draw of each pair has, and where its outcomes lead.

    Everything is a plain value, so that settings can be compared, hashed, printed and saved. Made by `Structure.tabulate`; what
    comes from a file is checked.

    Attributes
    ----------
    n_states, n_actions : int
    steps : int
        1, or H if laws depend on the step.
    draws : int
        m, the largest number of draws of a transition.
    sizes : tuple of int
        The number of outcomes of each law.
    names : tuple of str
        What laws are called.
    known : tuple of (int, tuple of float)
        The laws whose probabilities are given.
    keys, targets : str
        The law of each draw, (steps, S, A, m), and the successors of each pair, as packed integers.
    """

    n_states: int
    n_actions: int
    steps: int
    draws: int
    sizes: tuple[int, ...]
    names: tuple[str, ...]
    known: tuple[tuple[int, tuple[float, ...]], ...]
    keys: str
    targets: str

    def __post_init__(self) -> None:
        numbers = (self.n_states, self.n_actions, self.steps, self.draws, *self.sizes)
        if not all(type(n) is int and 1 <= n <= MOST_EDGES for n in numbers) or self.draws > MOST_DRAWS:
            raise ValueError("its structure is damaged.")
        if sum(self.sizes) > MOST_EDGES:
            raise ValueError("its structure is damaged.")
        object.__setattr__(self, "sizes", tuple(self.sizes))
        object.__setattr__(self, "names", tuple(self.names))
        known = tuple((int(g), tuple(float(x) for x in p)) for g, p in self.known)
        object.__setattr__(self, "known", known)
        right = len(self.names) == len(self.sizes) and all(isinstance(n, str) and n.isprintable() for n in self.names)
        right = right and all(0 <= g < len(self.sizes) and len(p) == self.sizes[g] for g, p in known)
        if not right or len({g for g, _ in known}) < len(known):
            raise ValueError("its structure is damaged.")
        for g, p in known:
            distribution(p, f"the known law {self.names[g]}")
        keys, targets = self.law_of, self._targets
        if keys.min(initial=0) < -1 or not np.array_equal(np.unique(keys[keys >= 0]), np.arange(len(self.sizes))):
            raise ValueError("its structure is damaged.")  # every law is drawn from somewhere
        if len(targets) and not 0 <= targets.min() <= targets.max() < self.n_states:
            raise ValueError("its structure is damaged.")
        if int(self._combinations.sum()) != len(targets) or len(targets) > MOST_EDGES:
            raise ValueError("its structure is damaged.")

    @cached_property
    def law_of(self) -> np.ndarray:
        """The law of each draw of each pair, (P, m); -1 if there is none."""
        pairs = self.steps * self.n_states * self.n_actions
        keys = unpacked(self.keys, pairs * self.draws)
        if len(keys) != pairs * self.draws:
            raise ValueError("its structure is damaged.")
        return keys.reshape(pairs, self.draws)

    @cached_property
    def _targets(self) -> np.ndarray:
        return unpacked(self.targets, MOST_EDGES)

    @cached_property
    def _sizes_of(self) -> np.ndarray:
        """The number of outcomes of each draw of each pair, (P, m); 1 if there is no such draw."""
        return np.append(np.array(self.sizes, np.int64), 1)[self.law_of]

    @cached_property
    def _combinations(self) -> np.ndarray:
        """The number of combinations of outcomes of each pair, (P,); 0 if it has no law."""
        return np.where((self.law_of >= 0).any(axis=1), np.prod(self._sizes_of.astype(float), axis=1), 0.0)

    def check_that_all_laws_are_revealed(self) -> None:
        """Raises if the outcome of some law that has to be estimated can be told at no pair."""
        told = np.zeros(len(self.sizes), bool)
        told[self.law_of[self.tables.revealed]] = True
        hidden = np.flatnonzero(self.estimated & ~told)
        if len(hidden):
            raise ValueError(
                f"the draws of the law {self.names[hidden[0]]} can be told at no state and action, because some of its outcomes "
                "lead to the same state everywhere: make those one outcome, or give the law as a known one."
            )

    @property
    def widest(self) -> float:
        """The largest number of combinations of outcomes of a pair."""
        return float(self._combinations.max(initial=0.0))

    @cached_property
    def tables(self) -> Tables:
        """What follows from the declaration, computed once."""
        P, m, S = len(self.law_of), self.draws, self.n_states
        offset = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        many = self._combinations.astype(np.int64)
        pointer = np.concatenate([[0], np.cumsum(many)])
        pair = np.repeat(np.arange(P), many)
        place = np.arange(len(pair)) - pointer[pair]
        code = np.full((len(pair), m), -1, np.int64)
        for i in range(m - 1, -1, -1):
            law, size = self.law_of[pair, i], self._sizes_of[pair, i]
            code[:, i] = np.where(law >= 0, offset[law] + place % size, -1)
            place = place // size
        never = np.zeros(int(offset[-1]) + 1, bool)  # outcomes that a known law gives probability 0; -1 is the last entry
        for g, p in self.known:
            never[offset[g] : offset[g + 1]] = np.array(p) == 0.0
        able = ~never[code].any(axis=1)
        edges, of_able = np.unique((pair * S + self._targets)[able], return_inverse=True)
        edge_of = np.zeros(len(code), np.int64)
        edge_of[able] = of_able.reshape(-1)
        low, high = (np.full((len(edges), m), fill, np.int64) for fill in (len(code) + offset[-1], -1))
        np.minimum.at(low, edge_of[able], code[able])
        np.maximum.at(high, edge_of[able], code[able])
        edge_pair = edges // S
        revealed = np.ones((P, m), bool)
        np.logical_and.at(revealed, edge_pair, low == high)
        revealed &= self.law_of >= 0
        edge_first = np.searchsorted(edge_pair, np.arange(P + 1))
        edge_code = np.where(revealed[edge_pair], low, -1)
        return Tables(offset, pointer, self._targets, code, edge_of, edge_first, edges % S, edge_code, revealed)

    @cached_property
    def layout(self) -> Layout:
        """The pairs and edges in the order of a table of counts, computed once. The row of the initial states is empty."""
        t, S, A, pairs = self.tables, self.n_states, self.n_actions, len(self.law_of)
        layers = self.steps + 1 if self.steps > 1 else 1
        N, edges = layers * S + 1, np.diff(t.edge_first)
        rows = np.zeros((2, N * A), np.uint32)
        rows[:, A : A + pairs] = t.edge_first[:-1], edges
        ahead = np.minimum(np.repeat(np.arange(pairs) // (S * A), edges) + 1, layers - 1)
        following = np.zeros(N, np.uint32)
        following[1:] = np.arange(2, N + 1)
        following[S::S] = 0  # the last state of each layer
        return Layout(
            node_of=np.arange(1, N, dtype=np.uint32).reshape(layers, S),
            state=np.append(0, np.tile(np.arange(S), layers)).astype(np.uint32),
            following=following,
            head=(1 + S * np.arange(layers)).astype(np.uint32),
            first=rows[0],
            size=rows[1],
            target=(1 + ahead * S + t.edge_target).astype(np.uint32),
        )

    @cached_property
    def edge_keys(self) -> np.ndarray:
        """pair * S + successor of each edge, sorted: where to look up a transition."""
        t = self.tables
        return np.repeat(np.arange(len(self.law_of)), np.diff(t.edge_first)) * self.n_states + t.edge_target

    @cached_property
    def estimated(self) -> np.ndarray:
        """Which laws have to be estimated, (laws,) booleans: those that are not known and have more than one outcome."""
        unknown = np.array(self.sizes, np.int64).reshape(-1) > 1
        unknown[[g for g, _ in self.known]] = False
        return unknown

    @cached_property
    def apart(self) -> bool:
        """Whether nothing is shared: each pair has one draw, which always shows, of a law of its own that has to be estimated."""
        drawn = self.law_of >= 0
        return self.draws == 1 and bool(
            len(self.sizes) == drawn.sum() and self.estimated.all() and (self.tables.revealed == drawn).all()
        )

    def by_law(self, numbers: Mapping[Hashable, int], what: str = "quotas") -> tuple[int, ...]:
        """Numbers by law, 0 for those that are left out, from a mapping with laws as the structure calls them."""
        from . import setting  # which imports this module

        if not isinstance(numbers, Mapping):
            raise ValueError(
                f"{what} is {shown(numbers)}: with a structure it has to be a mapping from laws to numbers of draws."
            )
        found = [0] * len(self.sizes)
        for law, n in numbers.items():
            called = shown(law)[:LONGEST]
            same = [g for g, name in enumerate(self.names) if name == called]
            if len(same) != 1:
                laws = ", ".join(self.names[:NAMED]) + (", ..." if len(self.names) > NAMED else "")
                why = "there is no such law" if not same else "several laws begin with this name"
                raise ValueError(f"{what} has the law {called}, but {why}: the laws are {laws}.")
            found[same[0]] = setting.whole_number(n, f"{what} of the law {called}")
            if found[same[0]] < 0:
                raise ValueError(f"{what} of the law {called} is {n}: it cannot be negative.")
        return tuple(found)

    @property
    def step_dependent(self) -> bool:
        """Whether laws depend on the step."""
        return self.steps > 1

    @cached_property
    def digest(self) -> str:
        """A short fingerprint of the declaration."""
        text = repr((self.n_states, self.n_actions, self.steps, self.draws, self.sizes, self.known, self.keys, self.targets))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def in_words(self) -> str:
        """What is assumed, as a phrase."""
        laws, pairs = len(self.sizes), int((self.law_of >= 0).any(axis=1).sum())
        kinds = f"{laws:,} laws" if laws != 1 else "one law"
        if laws <= NAMED and all(name[0] in "'\"" for name in self.names):
            kinds += f" ({', '.join(self.names)})"
        drawn = f"{kinds} of {self.draws} independent draws each" if self.draws > 1 else kinds
        known = f", {len(self.known)} of them known" if self.known else ""
        per = "steps, states and actions" if self.step_dependent else "states and actions"
        return f"{pairs:,} {per} share {drawn}{known}, as declared (structure {self.digest})"


def distribution(p: Sequence[Any], what: str) -> tuple[float, ...]:
    """Probabilities as floats that sum to one."""
    try:
        values = tuple(float(x) for x in p)
    except (TypeError, ValueError):
        raise ValueError(f"{what} is {shown(p)}: it has to be a list of probabilities.") from None
    if not all(0.0 <= x <= 1.0 for x in values) or abs(sum(values) - 1.0) > TOLERANCE:
        raise ValueError(f"{what} is {shown(p)}: probabilities are from 0 to 1 and sum to one.")
    return values


def draws_before(law: np.ndarray) -> np.ndarray:
    """For draws in the order in which they were drawn, given by their laws (T,): how many of the same law came before each."""
    order = np.argsort(law, kind="stable")
    before = np.empty(len(law), np.int64)
    before[order] = np.arange(len(law)) - np.searchsorted(law[order], law[order])
    return before


def packed(array: np.ndarray) -> str:
    """Integers as text."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array, "<i4").tobytes(), 6)).decode()


def unpacked(text: str, most: int) -> np.ndarray:
    """The integers that `_packed` wrote, at most so many."""
    try:
        stream = zlib.decompressobj()
        data = stream.decompress(base64.b64decode(text.encode(), validate=True), 4 * most + 1)
        if stream.unconsumed_tail or len(data) > 4 * most or len(data) % 4 or not stream.eof:
            raise ValueError
    except (ValueError, AttributeError, zlib.error, binascii.Error):
        raise ValueError("its structure is damaged.") from None
    array = np.frombuffer(data, "<i4").astype(np.int64)
    array.flags.writeable = False
    return array


def shown(value: Any) -> str:
    """The representation of a value for an error message."""
    from . import setting  # which imports this module

    return setting.shown(value)

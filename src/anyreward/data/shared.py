"""Counts of shared laws: what transitions tell about the laws of a declared structure, and the model that follows.

`counts.shared` is a `Shared`. It has the counts of each law, from all pairs that reveal its draws, and a table in which every
pair has the estimates of its laws, whether or not the pair itself was visited: p_hat(s'|s,a) is the probability of all
combinations of outcomes that lead to s', where each draw has the empirical distribution of its law. As long as a law has no
data, that is uniform over its outcomes. Certificates, robust intervals and plans work on that table as they work on the table
of counts (`docs/theory.md`, 15.1 and 15.2).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from .. import kernels
from .._checks import checked_array
from .alarm import log_evidence_against

if TYPE_CHECKING:
    from ..kernels.robust import Draws
    from ..kernels.table import Table
    from .counts import Counts

FALSE_ALARM = 1e-6  # the probability of ever withdrawing a structure that is true


class Shared:
    """What counts tell about the laws of their structure. It belongs to one revision of the counts.

    Attributes
    ----------
    told : ndarray, (outcomes of all laws,)
        How often each outcome of each law was revealed; a law's outcomes are together, `SharedLaws.tables.offset`.
    seen : ndarray, (outcomes of all laws,)
        How often it was counted: `told`, unless the counts say which draws of each law count (`Counts.drawn`).
    n : ndarray, (laws,)
        How often each law was counted.
    """

    def __init__(self, counts: Counts) -> None:
        setting = counts.setting
        assert setting.structure is not None
        self.counts, self.laws, self.tables = counts, setting.structure, setting.structure.tables
        self.edge, self.times = self._observed()
        self.told = np.zeros(int(self.tables.offset[-1]))
        for i in range(self.laws.draws):
            code = self.tables.edge_code[self.edge, i]
            np.add.at(self.told, code[code >= 0], self.times[code >= 0])
        self.seen = self.told
        if counts.drawn is not None:
            drawn = checked_array(counts.drawn, np.int64, self.told.shape, "its draws of laws are", 0)
            if (drawn > self.told).any():
                raise ValueError("its draws of laws are more than its transitions reveal.")
            self.seen = drawn.astype(float)
        self.n = np.add.reduceat(self.seen, self.tables.offset[:-1]) if len(self.seen) else np.zeros(0)

    def _observed(self) -> tuple[np.ndarray, np.ndarray]:
        """The edge and the number of each observed transition of a pair that has a law. Raises if one is impossible."""
        c = self.counts.columns()
        h, s, a, then, times = (c[name] for name in ("h", "s", "a", "next", "count"))
        which, edge = edges_of(self.counts, h, s, a, then)
        return edge, times[which].astype(float)

    def revealed(self, states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The draws of episodes that are revealed, in the order in which they were drawn: the episode, and the outcome, of each.

        Parameters
        ----------
        states, actions : ndarray, (B, H+1) and (B, H)
        """
        B, H = actions.shape
        steps, played = np.tile(np.arange(H), B), actions.reshape(-1)
        which, edge = edges_of(self.counts, steps, states[:, :-1].reshape(-1), played, states[:, 1:].reshape(-1))
        code = self.tables.edge_code[edge]
        return np.repeat(which // H, self.laws.draws)[code.reshape(-1) >= 0], code[code >= 0]

    @cached_property
    def log_evidence(self) -> float:
        """The logarithm of the e-value against the structure (`data.alarm`); -inf if it claims nothing that could be tested."""
        return -np.inf if self.laws.apart else log_evidence_against(self)

    @property
    def refuted(self) -> bool:
        """Whether the data contradict the structure. If it is true, this is ever so with probability at most `FALSE_ALARM`."""
        return bool(self.log_evidence >= -np.log(FALSE_ALARM))

    @cached_property
    def known_laws(self) -> dict[int, np.ndarray]:
        """The probabilities of the laws that are given or have one outcome."""
        certain = {g: np.ones(1) for g, size in enumerate(self.laws.sizes) if size == 1}
        return {**certain, **{g: np.array(p) / sum(p) for g, p in self.laws.known}}

    @cached_property
    def estimated_outcomes(self) -> np.ndarray:
        """The empirical probability of each outcome of each law, (outcomes,); uniform for laws without data."""
        K = np.diff(self.tables.offset)
        n = np.repeat(self.n, K)
        p = np.where(n > 0, self.seen / np.maximum(n, 1.0), np.repeat(1.0 / K, K))
        for g, law in self.known_laws.items():
            p[self.tables.offset[g] : self.tables.offset[g + 1]] = law
        return p

    @property
    def smoothed_outcomes(self) -> np.ndarray:
        """The probability of each outcome of each law, (outcomes,), (N + 1/2) / (n + K/2): none that is possible is 0."""
        K = np.diff(self.tables.offset)
        p = (self.seen + 0.5) / np.repeat(self.n + K / 2, K)
        for g, law in self.known_laws.items():
            p[self.tables.offset[g] : self.tables.offset[g + 1]] = law
        return p

    @cached_property
    def has_data(self) -> np.ndarray:
        """Which laws are known or have data, (laws,) booleans."""
        return (self.n > 0) | ~self.laws.estimated

    @cached_property
    def known_pairs(self) -> np.ndarray:
        """Which pairs have an estimate of every draw, (P,) booleans."""
        law = self.laws.law_of
        drawn = law >= 0
        return (np.append(self.has_data, True)[law] | ~drawn).all(axis=1) & drawn.any(axis=1)

    def edge_probabilities(self, outcomes: np.ndarray) -> np.ndarray:
        """The probability of each edge, (E,), if the outcomes of all laws have these probabilities."""
        t = self.tables
        p = np.append(outcomes, 1.0)[t.code].prod(axis=1)  # -1 is the last entry: no such draw
        return np.bincount(t.edge_of, p, len(t.edge_target))  # edges are in the order of their successors

    @cached_property
    def draws(self) -> Draws:
        """The draws of every pair with the estimates of their laws, for robust planning."""
        t = self.tables
        return kernels.robust.Draws(
            self.laws.law_of.astype(np.int64), t.pointer, t.target, t.offset, self.estimated_outcomes, ~self.has_data
        )

    @cached_property
    def table(self) -> Table:
        """A table like that of counts in which every pair has the estimates of its laws, as if from one observation.

        Node 1 + layer * S + s is state s. Edges that were never observed have weight 0: their successor is possible. A pair with
        a law of which there are no data has n = 0, and its edges have the weights of the empirical model all the same. If the
        structure is refuted, no pair has any edges.
        """
        own, plan = self.counts.table, self.laws.layout
        starts = slice(int(own.first[0]), int(own.first[0]) + int(own.size[0]))
        A, E = self.laws.n_actions, len(plan.target)
        pairs = slice(A, A + len(self.known_pairs))
        n, first, size = np.zeros(len(plan.first), np.int64), plan.first.copy(), plan.size.copy()
        n[pairs] = self.known_pairs
        if self.refuted:
            n[:], size[:] = 0, 0
        n[0], first[0], size[0] = own.n[0], E, own.size[0]
        zeros = np.zeros(E + int(own.size[0]))
        return own._replace(
            node_of=plan.node_of,
            state=plan.state,
            following=plan.following,
            head=plan.head,
            n=n,
            first=first,
            size=size,
            room=size,
            target=np.append(plan.target, 1 + own.state[own.target[starts]]),
            seen=np.append(self.edge_probabilities(self.estimated_outcomes), own.seen[starts]),
            booked=zeros,
            evidence=zeros,
            used=np.array([len(plan.state), len(zeros), own.used[2], own.used[3]], np.int64),
        )


def edges_of(counts: Counts, h: np.ndarray, s: np.ndarray, a: np.ndarray, then: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of some transitions are draws of laws, as numbers, and the edge of each. Raises if one is impossible.

    Steps below 0 are initial states; what happens in absorbing states is known.
    """
    laws = counts.setting.structure
    assert laws is not None
    S, A, draws = laws.n_states, laws.n_actions, h >= 0
    if len(counts.table.known):
        marks = counts.table.known.reshape(-1, A)[s, a]
        draws = draws & (marks & (kernels.table.STAYS | kernels.table.ILLEGAL) == 0)
    which = np.flatnonzero(draws)
    h, s, a, then = (column[which] for column in (h, s, a, then))
    key = (((h if laws.step_dependent else 0) * S + s) * A + a) * S + then
    edge = np.searchsorted(laws.edge_keys, key)
    impossible = np.append(laws.edge_keys, -1)[edge] != key
    if impossible.any():
        i = int(impossible.argmax())
        raise ValueError(counts.named(impossible_transition(s[i], a[i], then[i])))
    return which, edge


def impossible_transition(s: int, a: int, then: int) -> str:
    """The error message about a transition that contradicts the structure."""
    return (
        f"a transition leads from state {s} with action {a} to state {then}, which the structure says is impossible: "
        "correct its successors, or leave it out."
    )

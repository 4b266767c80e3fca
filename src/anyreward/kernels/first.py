"""The bounds of BPI-UCRL (`bpi`) with another rule at the first step: what MDP-GapE plays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .bpi import BoundsLearner
from .compiled import inlined, loop
from .loop import bound_of, pay_of, plan_of, take_in
from .several import Played
from .table import NODES, row_of


@inlined
def candidates(Q, Q_lo, A, plane, node):
    """b, c and U(c) - L(b): the action with the smallest max U(others) - L(b), and the one of the others with the largest U.

    The first of several; illegal actions, whose U is -inf, are none. Without another action c is b, and the gap is -inf.
    """
    best, other, least = 0, 0, np.inf
    for b in range(A):
        if Q[plane, row_of(node, A, b)] == -np.inf:
            continue
        c, top = b, -np.inf
        for a in range(A):
            q = Q[plane, row_of(node, A, a)]
            if a != b and q > top:
                c, top = a, q
        gap = top - Q_lo[plane, row_of(node, A, b)]
        if gap < least:
            best, other, least = b, c, gap
    return best, other, least


@loop
def choose_first(learner, table):
    """Lets the index that is played be Q_up, and at the first step that of the wider of the two candidates."""
    values, A = learner.values.index, learner.n_actions
    Q, Q_lo, nodes = values.Q, values.Q_lo, table.used[NODES]
    for plane in range(len(Q)):
        for row in range(nodes * A):
            learner.index.Q[plane, row] = Q[plane, row]
        for node in range(nodes):
            learner.index.settled[plane, node] = values.settled[plane, node]
    node = table.head[0]
    while node != 0:
        b, c, _ = candidates(Q, Q_lo, A, 0, node)
        at_b, at_c = row_of(node, A, b), row_of(node, A, c)
        wider = c if Q[0, at_c] - Q_lo[0, at_c] > Q[0, at_b] - Q_lo[0, at_b] else b
        for a in range(A):
            learner.index.Q[0, row_of(node, A, a)] = 1.0 if a == wider else 0.0
        node = table.following[node]


@loop
def first_action(Q, Q_lo, A, node):
    """b and U(c) - L(b) of a node at the first step, called from Python."""
    b, _, gap = candidates(Q, Q_lo, A, 0, node)
    return b, gap


class FirstActionLearner(NamedTuple):
    """Upper and lower values of one reward, played by the rule for the first action: a learner for `loop`."""

    index: Played
    prior: np.ndarray  # (H', S, A) float64: the reward if it is known, otherwise empty
    n_actions: int
    values: BoundsLearner

    def take_in(self, table, nodes, actions, payments, met):
        take_in(self.values, table, nodes, actions, payments, met)

    def plan(self, table):
        plan_of(self.values, table)
        choose_first(self, table)

    def pay(self, table, nodes, actions, rng, payments):
        pay_of(self.values, table, nodes, actions, rng, payments)

    def bound(self, table):
        return bound_of(self.values, table)

"""Optimistic indices on visited nodes, updated by a full backward pass after every episode.

The formulas belong to the algorithm. It keeps its constants in a named tuple, in its own file, with the methods

    bonus(n)                 two numbers that depend only on the visits of a row; they are stored until the row is visited again
    blank(h, r)              the index of a pair without data: upper, lower, and how much the policy can lose
    entry(h, r, row, ahead)  the same for a pair with data: r is its reward, row a `formulas.Row`, ahead a `formulas.Ahead`

An algorithm that does not learn by full passes has a method update(...) in place of all three; see `pass_over`.
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import numpy as np

from .compiled import inner, loop, method
from .formulas import Ahead, Row
from .greedy import Greedy, initialise_new, settle
from .table import NODES, error_without_data, is_illegal, row_of


class Indices(NamedTuple):
    """What some algorithms need in addition to the upper index (`greedy.Greedy`). P is 1, or H + 1 if stationary."""

    Q_lo: np.ndarray  # (P, N * A) float64: a lower index; for Q-learning, how often a row was visited at a step
    V_lo: np.ndarray  # (P, N) float64
    G: np.ndarray  # (P, N) float64: how much the policy can lose
    met: np.ndarray  # (P, N) float64: how often a node was visited at a step


class Rows(NamedTuple):
    """What depends only on the visits of a row, as computed by the algorithm's `bonus`."""

    bonus: np.ndarray  # (N * A,) float64
    root: np.ndarray  # (N * A,) float64


class Problem(NamedTuple):
    """What every index has to know about the problem."""

    horizon: int
    n_states: int
    n_actions: int
    reward: np.ndarray  # (H', S, A) float64; empty for an error index, which needs no reward
    lower_at_policy: bool  # whether V_lo is that of the greedy action, instead of the largest over all actions


bonus_of, blank_of, entry_of = method("bonus"), method("blank"), method("entry")


@inner
def renew(bonus, root, row, n, rule):
    """Updates what depends on the visits n >= 1 of a row."""
    bonus[row], root[row] = bonus_of(rule, n)


@inner
def sweep(table, greedy, indices, rows, problem, rule):
    """The full backward pass."""
    _, state, following, head, n, first, size, _, target, seen, _, _, _, known, _, _ = table
    Q, V, settled, unvisited = greedy
    Q_lo, V_lo, G, met = indices
    bonus, root = rows
    H, A, reward = problem.horizon, problem.n_actions, problem.reward
    is_error = len(reward) == 0
    for h in range(H - 1, -1, -1):
        plane, plane_next, layer, t = min(h, len(V) - 1), min(h + 1, len(V) - 1), min(h, len(head) - 1), min(h, len(reward) - 1)
        unvisited[h] = blank_of(rule, h, 0.0)[0]
        V_next, V_lo_next, G_next, met_next = V[plane_next], V_lo[plane_next], G[plane_next], met[plane_next]
        node = head[layer]
        while node != 0:
            s = state[node]
            top, lowest, lo_at, g_at = -inf, -inf, 0.0, 0.0
            row = row_of(node, A, 0)
            for a in range(A):
                r = 0.0 if is_error else reward[t, s, a]
                if size[row] == 0:
                    q, lo, g = blank_of(rule, h, r)
                    if is_error:
                        q = error_without_data(known, A, s, a, q)
                    elif is_illegal(known, A, s, a):
                        q = lo = -inf
                else:
                    begin = np.int64(first[row])
                    ahead = Ahead(
                        target, seen, begin, begin + np.int64(size[row]), 1.0 / n[row], V_next, V_lo_next, G_next, met_next
                    )
                    q, lo, g = entry_of(rule, h, r, Row(bonus[row], root[row], Q[plane, row]), ahead)
                Q[plane, row] = q
                Q_lo[plane, row] = lo
                lowest = max(lowest, lo)
                if q > top:
                    lo_at, g_at = lo, g
                top = max(q, top)
                row += np.uint64(1)
            V[plane, node], settled[plane, node] = top, 1
            V_lo[plane, node] = lo_at if problem.lower_at_policy else lowest
            G[plane, node] = g_at
            node = following[node]


@loop
def begin(greedy, table, A, nodes, before, is_error):
    """Gives the nodes that an episode has just discovered the index of pairs without data, in each of their planes.

    Nodes from number `before` on are new.
    """
    if is_error:  # absorbing and illegal pairs have no error, which `initialise_new` takes into account
        initialise_new(greedy, table, A, nodes, before)
        return
    planes = len(greedy.V)
    for h in range(len(nodes)):
        if nodes[h] >= before:
            for plane in range(planes):
                for a in range(A):
                    legal = not is_illegal(table.known, A, table.state[nodes[h]], a)
                    greedy.Q[plane, row_of(nodes[h], A, a)] = greedy.unvisited[plane if planes > 1 else h] if legal else -inf
                settle(greedy.Q, greedy.V, greedy.settled, A, plane, nodes[h])


def pass_over(rule, problem, table, greedy, indices, rows, nodes, actions):
    """Learns from an episode of (H+1) nodes and (H) actions that is already in the table: updates its rows, then a full pass.

    This is the default for algorithms without a method `update`.
    """
    A, pooled = problem.n_actions, len(indices.met) > 1
    for h in range(len(nodes)):
        indices.met[h if pooled else 0, nodes[h]] += 1.0
    for h in range(len(actions)):
        row = row_of(nodes[h], A, actions[h])
        renew(rows.bonus, rows.root, row, float(table.n[row]), rule)
    sweep(table, greedy, indices, rows, problem, rule)


def all_rows(rule, problem, table, greedy, indices, rows):
    """Updates what depends on visits alone, for every row with data. The default for algorithms without a method `renew`."""
    A = problem.n_actions
    for row in range(A, table.used[NODES] * A):
        if table.n[row] > 0:
            renew(rows.bonus, rows.root, row, float(table.n[row]), rule)


def from_the_counts(rule, problem, table, greedy, indices, rows):
    """Computes everything from the present counts. The default for algorithms without a method `begin`.

    The minimum with earlier indices, which some algorithms take, is not restored.
    """
    renew_rows(rule, problem, table, greedy, indices, rows)
    sweep(table, greedy, indices, rows, problem, rule)


update, renew_rows, begin_with = method("update", pass_over), method("renew", all_rows), method("begin", from_the_counts)


@loop
def renew_all(table, greedy, indices, rows, problem, rule):
    """Updates what depends on visits alone, for every row with data."""
    renew_rows(rule, problem, table, greedy, indices, rows)


@loop
def refresh(table, greedy, indices, rows, problem, rule):
    """Computes everything from the present counts, except for the minimum with earlier indices."""
    begin_with(rule, problem, table, greedy, indices, rows)


class OptimisticLearner(NamedTuple):
    """An optimistic index with the formulas of its algorithm: a learner for `loop`."""

    index: Greedy
    prior: np.ndarray  # (H', S, A) float64, or empty
    n_actions: int
    indices: Indices
    rows: Rows
    problem: Problem
    rule: Any  # the algorithm's named tuple of constants and formulas

    def take_in(self, table, nodes, actions, payments, met):
        begin(self.index, table, self.n_actions, nodes, met, len(self.problem.reward) == 0)
        update(self.rule, self.problem, table, self.index, self.indices, self.rows, nodes, actions)

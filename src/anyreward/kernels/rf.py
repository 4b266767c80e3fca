"""An error index on visited nodes: one entry, one path, one full backward pass.

    E_h(s,a) = min( cap_h, weight_h * radius(n) + discount * sum_s' p_hat(s'|s,a) max_b E_{h+1}(s',b) )

The radius belongs to the algorithm: a named tuple of constants with a method radius(n), sqrt(2 beta(n) / n) for RF-UCRL and 1/n
for RF-trajectory. With a method charge(n, k) it may depend on the number k of observed successors, too. The formulas and their
guarantees are in `algorithms/` and `certificates/`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .compiled import inlined, inner, loop, method
from .greedy import Greedy, initialise_new, settle
from .table import NODES, error_without_data, expected_error, is_known, row_of

EVERY, PATH, GEOMETRIC = 0, 1, 2  # schedules: what is brought up to date after an episode, everything, its path or nothing


class Rule(NamedTuple):
    """The constants of the recursion."""

    weight: np.ndarray  # (H,) float64: the value at stake at step h if p_hat is entirely wrong
    cap: np.ndarray  # (H,) float64: the trivial bound at step h; inf without clipping
    discount: float
    start_weight: float  # the weight of an estimated distribution of the initial state; 0 if it is known
    start_cap: float
    n_states: int
    n_actions: int
    radius: Any  # a named tuple with the method radius(n): the bonus of a row with n visits is proportional to it


class Rows(NamedTuple):
    """What the recursion needs of a row in addition to its edges; stored, because it changes only when the row is visited."""

    radius: np.ndarray  # (N * A,) float64
    scale: np.ndarray  # (N * A,) float64: discount / n


radius_of = method("radius")


def _by_visits(constants, n, size):
    """For rules that charge rows by their visits alone."""
    return radius_of(constants, n)


charge_of = method("charge", _by_visits)


@inlined
def total_ahead(first, size, target, seen, V, row):
    """sum_s' n(s,a,s') V(s')."""
    begin, total = np.uint64(first[row]), 0.0
    end = begin + np.uint64(size[row])
    while begin + np.uint64(1) < end:  # two at a time, because most rows have few successors
        second = begin + np.uint64(1)
        total += seen[begin] * V[target[begin]] + seen[second] * V[target[second]]
        begin += np.uint64(2)
    if begin < end:
        total += seen[begin] * V[target[begin]]
    return total


@inlined
def steps_that_matter(weights):
    """H, or H - 1 if the last transition does not matter: its weight is then 0 and its index is never computed."""
    return len(weights) if weights[len(weights) - 1] > 0.0 else len(weights) - 1


@inlined
def sweep_node(table, rows, A, node, weight, cap, empty, ahead_of, Q, V, settled):
    """The index of one node at one step: writes Q, V and settled of that step, and returns V.

    `ahead_of` is V at the next step, `empty` the index of a pair without data.
    """
    top, row = -2.0, row_of(node, A, 0)
    for a in range(A):
        if table.size[row] == 0:
            q = error_without_data(table.known, A, table.state[node], a, empty)
        else:
            ahead = total_ahead(table.first, table.size, table.target, table.seen, ahead_of, row)
            q = min(cap, weight * rows.radius[row] + rows.scale[row] * ahead)
        Q[row] = q
        top = max(q, top)
        row += np.uint64(1)
    V[node], settled[node] = top, 1
    return top


@inner
def sweep(table, rows, greedy, rule):
    """The paper's backward pass over all visited nodes."""
    following, head, used = table.following, table.head, table.used
    Q, V, settled, unvisited = greedy
    weights, caps, discount, _, _, S, A, _ = rule
    blank = charge_of(rule.radius, 0.0, 0.0)
    mean = 0.0  # the mean of V over all states of the next step, including unvisited ones
    for h in range(steps_that_matter(weights) - 1, -1, -1):
        plane, weight, cap = min(h, len(V) - 1), weights[h], caps[h]
        ahead_of, Q_h, V_h, settled_h = V[min(h + 1, len(V) - 1)], Q[plane], V[plane], settled[plane]
        # For a pair without data, the paper sets p_hat = 1/S. With clipping this makes no difference.
        empty = min(cap, weight * blank + discount * mean)
        unvisited[h] = empty
        total, count = 0.0, 0
        if len(head) == 1:  # pooled steps: all nodes but s_0, in memory order, which is 10% faster than following links
            for node in range(np.uint64(1), np.uint64(used[NODES])):
                total += sweep_node(table, rows, A, node, weight, cap, empty, ahead_of, Q_h, V_h, settled_h)
                count += 1
        else:
            node = head[h]
            while node != 0:
                total += sweep_node(table, rows, A, np.uint64(node), weight, cap, empty, ahead_of, Q_h, V_h, settled_h)
                count += 1
                node = following[node]
        mean = (total + (S - count) * empty) / S


@inner
def refresh(table, rows, greedy, rule, nodes, actions, indices):
    """Updates the radius and the scale of the rows that an episode visited and, if `indices`, their index, backwards."""
    state, n, first, size, target, seen, known = (
        table.state, table.n, table.first, table.size, table.target, table.seen, table.known,
    )  # fmt: skip
    Q, V, settled, _ = greedy
    radius, scale = rows
    weights, caps, discount, _, _, _, A, _ = rule
    radius[0] = charge_of(rule.radius, float(n[0]), float(size[0]))
    steps = steps_that_matter(weights)
    pooled = len(V) > 1  # then the rows of the last step matter at earlier steps
    for h in range(len(actions) if pooled else steps):  # a separate loop, so that the logarithms are computed in parallel
        row = row_of(nodes[h], A, actions[h])
        visits = float(n[row])
        radius[row] = 0.0 if is_known(known, A, state[nodes[h]], actions[h]) else charge_of(rule.radius, visits, float(size[row]))
        scale[row] = discount * (1.0 / visits)
    if indices:
        for h in range(steps - 1, -1, -1):
            plane, plane_next = min(h, len(V) - 1), min(h + 1, len(V) - 1)
            row = row_of(nodes[h], A, actions[h])
            ahead = total_ahead(first, size, target, seen, V[plane_next], row)
            Q[plane, row] = min(caps[h], weights[h] * radius[row] + scale[row] * ahead)
            settle(Q, V, settled, A, plane, nodes[h])


@inner
def start_index(table, rows, greedy, rule):
    """The index before the first step: its expectation over a known distribution of the initial state, or an estimated one."""
    if len(table.starts) > 0:
        return expected_error(table, rule.n_actions, greedy.V[0], greedy.unvisited[0])
    if table.n[0] == 0:
        blank = charge_of(rule.radius, 0.0, 0.0)
        return min(rule.start_cap, rule.start_weight * blank + greedy.unvisited[0])
    ahead = total_ahead(table.first, table.size, table.target, table.seen, greedy.V[0], np.uint64(0))
    return min(rule.start_cap, rule.start_weight * rows.radius[0] + ahead / table.n[0])


@loop
def start_value(table, rows, greedy, rule):
    """The index before the first step, called from Python."""
    return start_index(table, rows, greedy, rule)


@loop
def plan(table, rows, greedy, rule):
    """Computes everything from the counts alone; returns the index before the first step."""
    n, A = table.n, rule.n_actions
    for row in range(table.used[NODES] * A):
        if n[row] > 0:
            certain = row >= A and is_known(table.known, A, table.state[row // A], row % A)
            rows.radius[row] = 0.0 if certain else charge_of(rule.radius, float(n[row]), float(table.size[row]))
            rows.scale[row] = rule.discount * (1.0 / n[row])
    sweep(table, rows, greedy, rule)
    return start_index(table, rows, greedy, rule)


class ErrorLearner(NamedTuple):
    """An error index with its schedule of updates: a learner for `loop`."""

    index: Greedy
    prior: np.ndarray  # empty
    n_actions: int
    rows: Rows
    rule: Rule
    schedule: int  # EVERY, PATH or GEOMETRIC

    def take_in(self, table, nodes, actions, payments, met):
        if table.used[NODES] > met:
            initialise_new(self.index, table, self.n_actions, nodes, met)
        refresh(table, self.rows, self.index, self.rule, nodes, actions, self.schedule == PATH)

    def plan(self, table):
        if self.schedule == EVERY:
            sweep(table, self.rows, self.index, self.rule)

    def bound(self, table):
        return start_index(table, self.rows, self.index, self.rule)

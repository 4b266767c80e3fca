"""An error index on visited nodes: one entry, one path, one full backward pass, and the loop over episodes.

    E_h(s,a) = min( cap_h, weight_h * radius(n) + discount * sum_s' p_hat(s'|s,a) max_b E_{h+1}(s',b) )

For RF-UCRL weight_h = discount * sigma_{H-1-h} (steps from 0) and radius(n) = sqrt(2 beta(n) / n); for RF-trajectory
weight_h = kappa_h and radius(n) = 1/n. The formulas and what they guarantee are in `algorithms/`.
"""

from __future__ import annotations

from math import log, sqrt
from typing import NamedTuple

import numpy as np

from .compiled import allocates, inlined, loop
from .episode import play
from .greedy import begin_new, episode_key, settle
from .simulate import start
from .table import EPISODES, NODES, error_without_data, has_room, is_known, record_episode, row_of

EVERY, PATH = 0, 1  # schedules of `run`
PINSKER, INVERSE = 0, 1  # radii: sqrt(2 beta(n) / n), or 1 / n


class Rule(NamedTuple):
    """The constants of the recursion."""

    weight: np.ndarray  # (H,) float64: what a total error in p_hat at step h can cost
    cap: np.ndarray  # (H,) float64: the trivial bound at step h; inf without clipping
    discount: float
    start_weight: float  # the same for an estimated start distribution; 0 when the start is known
    start_cap: float
    n_states: int
    n_actions: int
    kind: int  # PINSKER or INVERSE: what a radius is
    m: float  # S - 1
    level: float  # log(2 N / delta) + m (1 - log m), N laws being estimated; log(2 N / delta) for S = 1


class Rows(NamedTuple):
    """What the recursion needs of a row beside its edges; kept because it changes only when the row is visited."""

    radius: np.ndarray  # (N * A,) float64: sqrt(2 beta(n) / n)
    scale: np.ndarray  # (N * A,) float64: discount / n


@inlined
def beta(n, m, level):
    """log(2N/delta) + m log(e (1 + n/m)) with m = S-1, as level + m log(m + n): one logarithm and no division."""
    return level + m * log(max(1.0, m + n))


@inlined
def radius_of(n, kind, m, level):
    """What a row's charge is proportional to.

    PINSKER: sqrt(2 beta(n) / max(1, n)), the L1 radius; at n = 0 a number above any L1 distance there can be.
    INVERSE: 1 / max(0.1, n).
    """
    if kind == INVERSE:
        return 1.0 / max(0.1, n)
    return sqrt(2.0 * beta(n, m, level) * (1.0 / max(1.0, n)))


@inlined
def total_ahead(first, size, target, seen, V, row):
    """sum_s' n(s,a,s') V(s')."""
    begin, total = np.uint64(first[row]), 0.0
    end = begin + np.uint64(size[row])
    while begin + np.uint64(1) < end:  # two at a time: most rows have two successors or hardly more
        second = begin + np.uint64(1)
        total += seen[begin] * V[target[begin]] + seen[second] * V[target[second]]
        begin += np.uint64(2)
    if begin < end:
        total += seen[begin] * V[target[begin]]
    return total


@inlined
def steps_that_matter(weights):
    """H, or H - 1 if the last transition cannot matter: its weight is 0 and its index is never touched."""
    return len(weights) if weights[len(weights) - 1] > 0.0 else len(weights) - 1


@inlined
def sweep_node(state, known, first, size, target, seen, radius, scale, A, node, weight, cap, empty, ahead_of, Q, V, settled):
    """The index of one node at one step, whose Q, V and marks these are; `ahead_of` is V at the step after it."""
    top, row = -2.0, row_of(node, A, 0)
    for a in range(A):
        if size[row] == 0:
            q = error_without_data(known, A, state[node], a, empty)
        else:
            ahead = total_ahead(first, size, target, seen, ahead_of, row)
            q = min(cap, weight * radius[row] + scale[row] * ahead)
        Q[row] = q
        top = max(q, top)
        row += np.uint64(1)
    V[node], settled[node] = top, 1
    return top


@inlined
def sweep(
    state, known, following, head, first, size, target, seen, used, Q, V, settled, unvisited, radius, scale, weights, caps, rule
):
    """The paper's backward pass over all visited nodes."""
    S, A, discount, level = rule.n_states, rule.n_actions, rule.discount, rule.level
    blank = radius_of(0.0, rule.kind, rule.m, level)
    mean = 0.0  # of V over all states of the next step, unvisited ones included
    for h in range(steps_that_matter(weights) - 1, -1, -1):
        plane, weight, cap = min(h, len(V) - 1), weights[h], caps[h]
        ahead_of, Q_h, V_h, settled_h = V[min(h + 1, len(V) - 1)], Q[plane], V[plane], settled[plane]
        # The paper's filler for a pair without data is p_hat = 1/S. Clipped, it cannot matter.
        empty = min(cap, weight * blank + discount * mean)
        unvisited[h] = empty
        total, count = 0.0, 0
        if len(head) == 1:  # pooled: all nodes but s_0, in their order in memory, 10% faster than following them
            for node in range(np.uint64(1), np.uint64(used[NODES])):
                total += sweep_node(
                    state, known, first, size, target, seen, radius, scale, A, node, weight, cap, empty,
                    ahead_of, Q_h, V_h, settled_h,
                )  # fmt: skip
                count += 1
        else:
            node = head[h]
            while node != 0:
                total += sweep_node(
                    state, known, first, size, target, seen, radius, scale, A, node, weight, cap, empty,
                    ahead_of, Q_h, V_h, settled_h,
                )  # fmt: skip
                count += 1
                node = following[node]
        mean = (total + (S - count) * empty) / S


@inlined
def refresh(
    state, known, n, first, size, target, seen, Q, V, settled, radius, scale, weights, caps, rule,
    nodes, actions, indices,
):  # fmt: skip
    """The rows that an episode visited, backwards: their radius and scale and, if asked for, their index."""
    A, kind, m, level, discount = rule.n_actions, rule.kind, rule.m, rule.level, rule.discount
    radius[0] = radius_of(float(n[0]), kind, m, level)
    steps = steps_that_matter(weights)
    pooled = len(V) > 1  # then rows count at every step
    for h in range(len(actions) if pooled else steps):  # a loop of its own: the logarithms overlap
        row = row_of(nodes[h], A, actions[h])
        visits = float(n[row])
        radius[row] = 0.0 if is_known(known, A, state[nodes[h]], actions[h]) else radius_of(visits, kind, m, level)
        scale[row] = discount * (1.0 / visits)
    if indices:
        for h in range(steps - 1, -1, -1):
            plane, plane_next = min(h, len(V) - 1), min(h + 1, len(V) - 1)
            row = row_of(nodes[h], A, actions[h])
            ahead = total_ahead(first, size, target, seen, V[plane_next], row)
            Q[plane, row] = min(caps[h], weights[h] * radius[row] + scale[row] * ahead)
            settle(Q, V, settled, A, plane, nodes[h])


@inlined
def start_index(n, first, size, target, seen, V, unvisited, radius, rule):
    """The index before the first step: of the known start state, or of the estimated start distribution."""
    if n[0] == 0:
        blank = radius_of(0.0, rule.kind, rule.m, rule.level)
        return min(rule.start_cap, rule.start_weight * blank + unvisited[0])
    ahead = total_ahead(first, size, target, seen, V[0], 0)
    return min(rule.start_cap, rule.start_weight * radius[0] + ahead / n[0])


@loop
def start_value(table, rows, greedy, rule):
    """The index before the first step, as it stands."""
    return start_index(table.n, table.first, table.size, table.target, table.seen, greedy.V, greedy.unvisited, rows.radius, rule)


@loop
def plan(table, rows, greedy, rule):
    """Rows, full backward pass and start value, from the counts alone."""
    _, state, following, head, n, first, size, _, target, seen, _, _, used, known = table
    Q, V, settled, unvisited = greedy
    radius, scale = rows
    weights, caps, discount, _, _, _, A, kind, m, level = rule
    for row in range(used[NODES] * A):
        if n[row] > 0:
            certain = row >= A and is_known(known, A, state[row // A], row % A)
            radius[row] = 0.0 if certain else radius_of(float(n[row]), kind, m, level)
            scale[row] = discount * (1.0 / n[row])
    sweep(
        state, known, following, head, first, size, target, seen, used, Q, V, settled, unvisited, radius, scale,
        weights, caps, rule,
    )  # fmt: skip
    return start_index(n, first, size, target, seen, V, unvisited, radius, rule)


@allocates
def learn(table, rows, greedy, rule, schedule, states, actions):
    """Takes in episodes that were played elsewhere, (B, H+1) states and (B, H) actions."""
    _, state, following, head, n, first, size, _, target, seen, _, _, used, known = table
    Q, V, settled, unvisited = greedy
    radius, scale = rows
    weights, caps, _, _, _, _, A, _, _, _ = rule
    nodes = np.empty(states.shape[1], np.uint32)
    for b in range(len(states)):
        met = used[NODES]
        record_episode(table, A, states[b], actions[b], nodes)
        begin_new(greedy, table, A, nodes, met)
        refresh(
            state, known, n, first, size, target, seen, Q, V, settled, radius, scale, weights, caps, rule,
            nodes, actions[b], schedule == PATH,
        )  # fmt: skip
    if schedule == EVERY:
        sweep(
            state, known, following, head, first, size, target, seen, used, Q, V, settled, unvisited, radius, scale,
            weights, caps, rule,
        )  # fmt: skip


@loop
def run(model, table, rows, greedy, prior, rule, schedule, seed_key, rng, episodes, goal, nodes, actions):
    """Explores a known model until `episodes` more are done, the start value is at most `goal`, or the table is full.

    Returns the number of episodes done. Each one is played with the greedy policy of what the episodes before it left.
    """
    node_of, state, following, head, n, first, size, _, target, seen, _, _, used, known = table
    Q, V, settled, unvisited = greedy
    radius, scale = rows
    weights, caps, _, _, _, _, A, _, _, _ = rule
    shape, successors, _, cumulative, _, _, _ = model
    for done in range(episodes):
        if not has_room(len(state), len(target), node_of.size, used, len(nodes)):
            return done
        met, key, s = used[NODES], episode_key(seed_key, used[EPISODES]), start(model, rng)
        play(
            table, state, n, first, size, target, seen, used, Q, settled, prior, A,
            shape, successors, cumulative, s, key, rng, nodes, actions,
        )  # fmt: skip
        if used[NODES] > met:
            begin_new(greedy, table, A, nodes, met)
        refresh(
            state, known, n, first, size, target, seen, Q, V, settled, radius, scale, weights, caps, rule,
            nodes, actions, schedule == PATH,
        )  # fmt: skip
        if schedule == EVERY:
            sweep(
                state, known, following, head, first, size, target, seen, used, Q, V, settled, unvisited, radius, scale,
                weights, caps, rule,
            )  # fmt: skip
        if start_index(n, first, size, target, seen, V, unvisited, radius, rule) <= goal:
            return done + 1
    return episodes

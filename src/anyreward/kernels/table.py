"""What was visited, in compact form, and how a transition is recorded.

Every visited (step, state) is a *node*, numbered in the order of discovery; every (node, action) is a *row*, numbered
node * A + action, with its visit count n; every successor seen from a row is an *edge* with its count. An edge points to
the *node* of the successor, so that following or averaging over successors never touches an array of the size of the
state space.

Node 0 is s_0, the extra state of the paper's random-start reduction: its first row holds the start states that were
seen. Since nothing leads to s_0, "node 0" also serves as "not visited" wherever a node is looked up.

With stationary transitions the steps are pooled: there is one layer of nodes, whatever the step.

The edges of a row lie side by side in a pool; a row that is full moves to the end of the pool with twice the room, so
memory stays proportional to what was seen. Nothing here allocates: the caller makes room first (`Counts.reserve`).

Two habits of these kernels are for speed and were measured: what is used as an index is stored unsigned (Numba then
skips the test for negative indices; a pass is twice as fast), and loops unpack the named tuples once, at the top
(reading an array out of a tuple costs an atomic reference count).
"""

from __future__ import annotations

from math import lgamma, log, log1p
from typing import NamedTuple

import numpy as np

from .compiled import allocates, inlined, loop

NODES, EDGES, EPISODES, WIDEST = 0, 1, 2, 3  # positions in Table.used
STAYS, ILLEGAL, UNSURE = 1, 2, 4  # marks of a pair: it stays where it is; it must not be played; it may be illegal
FIRST_ROOM = 2  # edges a row starts with
NONE = np.uint64(2**63)  # no such edge


class Table(NamedTuple):
    """The visited part of the problem; L layers are H + 1 steps, or 1 when stationary."""

    node_of: np.ndarray  # (L, S) uint32: the node of a state, 0 if not visited
    state: np.ndarray  # (N,) uint32: the state of a node
    following: np.ndarray  # (N,) uint32: the next node of the same layer, 0 at the end
    head: np.ndarray  # (L,) uint32: the first node of a layer
    n: np.ndarray  # (N * A,) int64: visits of a row
    first: np.ndarray  # (N * A,) uint32: where the edges of a row begin
    size: np.ndarray  # (N * A,) uint32: how many edges a row has
    room: np.ndarray  # (N * A,) uint32: how many it can have where it lies
    target: np.ndarray  # (M,) uint32: the node an edge leads to
    seen: np.ndarray  # (M,) float64: how often it was taken, a whole number (exact up to 2^53)
    booked: np.ndarray  # (M,) float64: how many of these have been scored by a prediction
    evidence: np.ndarray  # (M,) float64: the sum of their scores, log(predicted probability)
    used: np.ndarray  # (4,) int64: nodes, edges, episodes, room of the widest row
    known: np.ndarray  # (S * A,) uint8: marks of pairs, 0 for none; empty if no pair has any. A node has no UNSURE pairs


@inlined
def row_of(node, A, a):
    """The row of a node and an action."""
    return np.uint64(node) * np.uint64(A) + np.uint64(a)


@inlined
def is_known(known, A, s, a):
    """Whether nothing is left to learn about a pair: it stays where it is, or it must not be played."""
    return len(known) > 0 and known[row_of(s, A, a)] & (STAYS | ILLEGAL) != 0


@inlined
def is_illegal(known, A, s, a):
    """Whether a pair must not be played."""
    return len(known) > 0 and known[row_of(s, A, a)] == ILLEGAL


@inlined
def is_unsure(known, A, s):
    """Whether it is not known yet which actions are legal in a state, which then was never met."""
    return len(known) > 0 and known[row_of(s, A, 0)] == UNSURE


@inlined
def error_without_data(known, A, s, a, unknown):
    """The error index of a pair without data: `unknown`, or 0 if it is known to stay, or below all others if it is illegal."""
    if not is_known(known, A, s, a):
        return unknown
    return -1.0 if is_illegal(known, A, s, a) else 0.0


@inlined
def find(state, first, size, target, row, s):
    """The edge from a row to state s, or NONE."""
    begin = first[row]
    for e in range(begin, begin + size[row]):
        if state[target[e]] == s:
            return e
    return NONE


@loop
def node_at(table, layer, s):
    """The node of state s in a layer, made if it is new. Needs room for one node."""
    node = table.node_of[layer, s]
    if node == 0:
        node = np.uint32(table.used[NODES])
        table.used[NODES] += 1
        table.node_of[layer, s] = node
        table.state[node] = s
        table.following[node] = table.head[layer]
        table.head[layer] = node
    return node


@loop
def add_edge(table, row, layer, s):
    """A new edge from a row to state s of a layer, not taken yet. Needs room for a node and a row."""
    node = node_at(table, layer, s)
    begin, size = np.int64(table.first[row]), np.int64(table.size[row])
    if size == table.room[row]:
        room, moved = max(FIRST_ROOM, 2 * size), table.used[EDGES]
        for k in range(size):
            table.target[moved + k] = table.target[begin + k]
            table.seen[moved + k] = table.seen[begin + k]
            table.booked[moved + k] = table.booked[begin + k]
            table.evidence[moved + k] = table.evidence[begin + k]
        table.used[EDGES] += room
        table.used[WIDEST] = max(table.used[WIDEST], room)
        table.first[row], table.room[row] = moved, room
        begin = moved
    table.target[begin + size] = node
    table.seen[begin + size] = table.booked[begin + size] = table.evidence[begin + size] = 0.0
    table.size[row] = size + 1
    return np.uint64(begin + size)


@loop
def record(table, row, layer, s, times):
    """Counts `times` transitions from a row to state s of a layer; returns the node of s. Needs room for both."""
    e = find(table.state, table.first, table.size, table.target, row, s)
    if e == NONE:
        e = add_edge(table, row, layer, s)
    table.n[row] += times
    table.seen[e] += times
    return table.target[e]


@inlined
def edges_needed(used, records):
    """Pool space that suffices for that many records.

    A row of size w that gains x edges moves to rooms that sum to less than 4 (w + x); at most `records` rows gain any, and
    together they are no larger than all that is used.
    """
    return 4 * (min(records * used[WIDEST], used[EDGES]) + records)


@inlined
def has_room(table, records):
    """Whether a table can take that many records without having to grow."""
    used, nodes, edges = table.used, len(table.state), len(table.target)
    most = table.node_of.size + 1
    return min(used[NODES] + 2 * records, most) <= nodes and used[EDGES] + edges_needed(used, records) <= edges


@loop
def record_flows(table, A, layer, s, a, s_next, times):
    """Records many transitions at once; layer -1 is the start draw, whose s and a are ignored. Arrays of equal length.

    A table with one layer pools the steps.
    """
    last = table.node_of.shape[0] - 1
    for i in range(len(layer)):
        if layer[i] < 0:
            record(table, np.uint64(0), 0, s_next[i], times[i])
            table.used[EPISODES] += times[i]
        else:
            node = node_at(table, min(layer[i], last), s[i])
            record(table, row_of(node, A, a[i]), min(layer[i] + 1, last), s_next[i], times[i])


@loop
def record_episode(table, A, states, actions, nodes):
    """Records one episode of H+1 states and H actions and writes the nodes it went through into `nodes` (H+1)."""
    last = table.node_of.shape[0] - 1
    nodes[0] = record(table, np.uint64(0), 0, states[0], 1)
    table.used[EPISODES] += 1
    for h in range(len(actions)):
        row = row_of(nodes[h], A, actions[h])
        nodes[h + 1] = record(table, row, min(h + 1, last), states[h + 1], 1)


@allocates
def record_episodes(table, A, states, actions):
    """Records episodes given as rows."""
    nodes = np.empty(states.shape[1], np.uint32)
    for b in range(len(states)):
        record_episode(table, A, states[b], actions[b], nodes)


@allocates
def flows(table, A):
    """All that was recorded, as (M, 5) rows of layer, s, a, s_next, times; layer -1 is the start draw."""
    total = 0
    for row in range(table.used[NODES] * A):
        total += np.int64(table.size[row])
    out = np.empty((total, 5), np.int64)
    i = 0
    for layer in range(-1, len(table.head)):
        node = np.uint32(0) if layer < 0 else table.head[layer]
        while node != 0 or layer < 0:
            for a in range(A):
                row = row_of(node, A, a)
                for e in range(table.first[row], table.first[row] + table.size[row]):
                    out[i, 0], out[i, 1], out[i, 2] = layer, table.state[node], a
                    out[i, 3], out[i, 4] = table.state[table.target[e]], np.int64(table.seen[e])
                    i += 1
            if layer < 0:
                break
            node = table.following[node]
    return out


@inlined
def log_ratio(part, whole, more, most):
    """log((part + more) / (whole + most)), to full precision also where the ratio is next to 1."""
    if 2.0 * part > whole:
        return log1p(((part - whole) + (more - most)) / (whole + most))
    return log((part + more) / (whole + most))


@inlined
def prediction(pool, A, S, s, a, s_next):
    """log of the probability that pooled counts give to s_next after (s, a): (N(s,a,s') + 1/(2S)) / (n(s,a) + 1/2)."""
    node, times, n = pool.node_of[0, s], 0.0, 0.0
    if node != 0:
        row = row_of(node, A, a)
        n = float(pool.n[row])
        e = find(pool.state, pool.first, pool.size, pool.target, row, s_next)
        if e != NONE:
            times = pool.seen[e]
    return log_ratio(times, n, 0.5 / S, 0.5)


@loop
def scores(table, pool, A, S, out):
    """The evidence of every edge, with what has not been booked yet scored by the pool as it stands; out (M,)."""
    for row in range(A, table.used[NODES] * A):
        s, a = table.state[row // A], row % A
        for e in range(table.first[row], table.first[row] + table.size[row]):
            out[e] = table.evidence[e]
            fresh = table.seen[e] - table.booked[e]
            if fresh > 0.0:
                out[e] += fresh * prediction(pool, A, S, s, a, table.state[table.target[e]])


@allocates
def book(table, pool, A, S):
    """Scores what came since the last booking and returns it, as pooled rows for `record_flows`."""
    out = np.empty((table.used[EDGES], 5), np.int64)
    scored = np.empty(len(table.seen))
    scores(table, pool, A, S, scored)
    i = 0
    for row in range(A, table.used[NODES] * A):
        for e in range(table.first[row], table.first[row] + table.size[row]):
            fresh = table.seen[e] - table.booked[e]
            if fresh > 0.0:
                table.evidence[e] = scored[e]
                table.booked[e] = table.seen[e]
                out[i, 0], out[i, 1], out[i, 2] = 0, table.state[row // A], row % A
                out[i, 3], out[i, 4] = table.state[table.target[e]], np.int64(fresh)
                i += 1
    return out[:i]


@inlined
def log_gamma_ratio(x, a, b):
    """log(Gamma(x + a) / Gamma(x + b)), for 0 < a, b <= 1/2 to about 1e-9, without cancellation for large x."""
    if x < 1e4:
        return lgamma(x + a) - lgamma(x + b)
    return (a - b) * log(x + 0.5 * (a + b - 1.0))


@loop
def most_evidence(total, count, S):
    """The largest evidence that `count` of the `total` transitions of (s, a, s') over all steps can have, whatever their order.

    The i-th of them (from 0) is predicted from at most i earlier ones, and from no others at best, so its score is at most
    log((i + 1/(2S)) / (i + 1/2)), which grows with i: the most is the sum over the last `count` of i = 0 ... total - 1.
    Runs that were merged have predictions of their own, which only lowers it.
    """
    a = 0.5 / S
    return log_gamma_ratio(total, a, 0.5) - log_gamma_ratio(total - count, a, 0.5)


@allocates
def impossible_evidence(order, group, count, value, S):
    """The first flow, in the given order, whose evidence no order of the data could have produced, or -1.

    `group` numbers the (s, a, s') of each flow; flows of a group come one after the other in `order`, the largest evidence per
    transition first. Each flow alone, and each beginning of a group together, is compared with `most_evidence`.
    """
    totals = np.zeros(len(group) + 1)
    for i in range(len(group)):
        totals[group[i]] += count[i]
    last, some, sum_value = -1, 0.0, 0.0
    for i in order:
        if group[i] != last:
            last, some, sum_value = group[i], 0.0, 0.0
        some += count[i]
        sum_value += value[i]
        total = totals[group[i]]
        slack = 1e-7 * (1.0 + abs(value[i]))
        if value[i] > most_evidence(total, float(count[i]), S) + slack or sum_value > most_evidence(total, some, S) + slack:
            return i
    return -1


@loop
def add_evidence(table, A, layer, s, a, s_next, value):
    """Adds evidence to edges that exist and marks all that was seen on them as booked; start draws have none."""
    for i in range(len(layer)):
        if layer[i] >= 0:
            row = row_of(table.node_of[layer[i], s[i]], A, a[i])
            e = find(table.state, table.first, table.size, table.target, row, s_next[i])
            table.evidence[e] += value[i]
            table.booked[e] = table.seen[e]


@loop
def flow_evidence(table, A, scored, layer, s, a, s_next, out):
    """The evidence of given edges, out (M,); 0 for start draws."""
    for i in range(len(layer)):
        out[i] = 0.0
        if layer[i] >= 0:
            row = row_of(table.node_of[layer[i], s[i]], A, a[i])
            out[i] = scored[find(table.state, table.first, table.size, table.target, row, s_next[i])]


@allocates
def layout(table, A):
    """The order of discovery: (layer, state) of each node but s_0; (row, target) and (seen, booked, evidence) of each edge."""
    N = table.used[NODES]
    nodes = np.zeros((N - 1, 2), np.int64)
    for layer in range(len(table.head)):
        node = table.head[layer]
        while node != 0:
            nodes[node - 1, 0], nodes[node - 1, 1] = layer, table.state[node]
            node = table.following[node]
    total = 0
    for row in range(N * A):
        total += np.int64(table.size[row])
    edges, values = np.empty((total, 2), np.int64), np.empty((total, 3))
    i = 0
    for row in range(N * A):
        for e in range(table.first[row], table.first[row] + table.size[row]):
            edges[i, 0], edges[i, 1] = row, table.target[e]
            values[i, 0], values[i, 1], values[i, 2] = table.seen[e], table.booked[e], table.evidence[e]
            i += 1
    return nodes, edges, values


@loop
def rebuild(table, A, nodes, edges, values):
    """Fills an empty table with what `layout` gave; False if that is not a layout. Needs room for all of it."""
    L, S = table.node_of.shape
    for i in range(len(nodes)):
        layer, s = nodes[i]
        if not (0 <= layer < L and 0 <= s < S) or node_at(table, layer, s) != i + 1:
            return False
    for i in range(len(edges)):
        row, target = edges[i]
        seen, booked, evidence = values[i]
        if not (0 <= row < (len(nodes) + 1) * A and 1 <= target <= len(nodes)) or 0 < row < A:
            return False
        if not (1.0 <= seen <= 2.0**53 and seen == np.floor(seen) and 0.0 <= booked <= seen and -np.inf < evidence <= 0.0):
            return False
        ahead = 0 if row < A else min(nodes[row // A - 1, 0] + 1, L - 1)
        layer, s = nodes[target - 1]
        known = find(table.state, table.first, table.size, table.target, np.uint64(row), s)
        if layer != ahead or known != NONE:
            return False
        e = add_edge(table, np.uint64(row), layer, s)
        table.seen[e], table.booked[e], table.evidence[e] = seen, booked, evidence
        table.n[row] += np.int64(seen)
    table.used[EPISODES] = table.n[0]
    return True

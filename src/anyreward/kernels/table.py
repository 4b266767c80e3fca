"""The visited part of a problem in compact form, and how a transition is recorded.

Every visited (step, state) is a *node*, numbered in the order of discovery. Every (node, action) is a *row*, numbered
node * A + action, with its visit count n. Every successor observed from a row is an *edge* with its count. An edge points to the
*node* of the successor, so that following edges and averaging over successors never touches an array of the size of the state
space.

Node 0 is s_0, the extra state that the paper puts before a random initial state: its first row holds the initial states that were
observed. Nothing leads to s_0, so "node 0" also means "not visited" wherever a node is looked up. If the distribution of the
initial state is known (`starts`), values at the start are expectations over it, and the row of s_0 is not used.

If transitions are stationary, the steps are pooled: there is one layer of nodes for all steps.

The edges of a row lie side by side in a pool. A row that is full moves to the end of the pool, with twice the room, so memory
stays proportional to what was observed. Nothing here allocates: the caller makes room first (`Counts.reserve`).

A state-action pair can have a *mark*: STAYS if it is absorbing, ILLEGAL if the action is illegal, UNSURE if it is not known yet
whether it is legal.

*Transfer evidence* (`Counts`): transitions are "booked" when they have been scored by the predictions of the pooled counts.

Two habits of these kernels are for speed, and were measured. Indices are stored as unsigned numbers, because Numba then omits the
test for negative indices, which makes a pass twice as fast. And loops unpack named tuples once, at the top, because reading an
array from a tuple costs an atomic reference count.
"""

from __future__ import annotations

from math import lgamma, log, log1p
from typing import NamedTuple

import numpy as np

from .compiled import allocates, inlined, loop

NODES, EDGES, EPISODES, WIDEST = 0, 1, 2, 3  # positions in Table.used
STAYS, ILLEGAL, UNSURE = 1, 2, 4  # marks of a state-action pair: absorbing; illegal; not known yet whether it is legal
FIRST_ROOM = 2  # the number of edges that a row has room for at first
NONE = np.uint64(2**63)  # no such edge


class Table(NamedTuple):
    """The arrays of the visited part. L is the number of layers: H + 1, or 1 if stationary."""

    node_of: np.ndarray  # (L, S) uint32: the node of a state, 0 if not visited
    state: np.ndarray  # (N,) uint32: the state of a node
    following: np.ndarray  # (N,) uint32: the next node of the same layer, 0 at the end
    head: np.ndarray  # (L,) uint32: the first node of a layer
    n: np.ndarray  # (N * A,) int64: the visits of a row
    first: np.ndarray  # (N * A,) uint32: where the edges of a row begin
    size: np.ndarray  # (N * A,) uint32: how many edges a row has
    room: np.ndarray  # (N * A,) uint32: how many edges a row has room for in its present place
    target: np.ndarray  # (M,) uint32: the node that an edge leads to
    seen: np.ndarray  # (M,) float64: how often an edge was observed, a whole number (exact up to 2^53)
    booked: np.ndarray  # (M,) float64: how many of these observations have been scored by a prediction
    evidence: np.ndarray  # (M,) float64: the sum of their scores, log(predicted probability)
    used: np.ndarray  # (4,) int64: nodes, edges, episodes, room of the widest row
    known: np.ndarray  # (S * A,) uint8: marks of pairs, 0 for none; empty if no pair has any. Visited states are never UNSURE
    starts: np.ndarray  # (K,) uint32: the states in which episodes can start, if their distribution is known; otherwise empty
    start_p: np.ndarray  # (K,) float64: their probabilities


@inlined
def row_of(node, A, a):
    """The row of a node and an action."""
    return np.uint64(node) * np.uint64(A) + np.uint64(a)


@inlined
def is_known(known, A, s, a):
    """Whether nothing has to be estimated for a pair, because it is absorbing or illegal."""
    return len(known) > 0 and known[row_of(s, A, a)] & (STAYS | ILLEGAL) != 0


@inlined
def is_illegal(known, A, s, a):
    """Whether an action is illegal in a state."""
    return len(known) > 0 and known[row_of(s, A, a)] == ILLEGAL


@inlined
def is_unsure(known, A, s):
    """Whether it is not known yet which actions are legal in a state. Such a state was never visited."""
    return len(known) > 0 and known[row_of(s, A, 0)] == UNSURE


@inlined
def error_without_data(known, A, s, a, unknown):
    """The error index of a pair without data: `unknown`; 0 if it is absorbing; -1, below all others, if it is illegal."""
    if not is_known(known, A, s, a):
        return unknown
    return -1.0 if is_illegal(known, A, s, a) else 0.0


@inlined
def largest_error_without_data(known, A, s, unknown):
    """The largest `error_without_data` over the actions of a state."""
    top = -1.0
    for a in range(A):
        top = max(top, error_without_data(known, A, s, a, unknown))
    return top


@inlined
def expected_error(table, A, V, unknown):
    """The expectation of an error index V (N,) over the known distribution of the initial state.

    `unknown` is the index of a state that was not visited.
    """
    total = 0.0
    for k in range(len(table.starts)):
        s = table.starts[k]
        node = table.node_of[0, s]
        total += table.start_p[k] * (V[node] if node != 0 else largest_error_without_data(table.known, A, s, unknown))
    return total


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
    """The node of state s in a layer, created if it is new. Needs room for one node."""
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
    """Creates an edge, with count 0, from a row to state s of a layer, and returns it. Needs room for a node and a row."""
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


@inlined
def record(table, row, layer, s, times):
    """Counts `times` transitions from a row to state s of a layer; returns the node of s. Needs room for a node and a row."""
    e = find(table.state, table.first, table.size, table.target, row, s)
    if e == NONE:
        e = add_edge(table, row, layer, s)
    table.n[row] += times
    table.seen[e] += times
    return table.target[e]


@inlined
def edges_needed(used, records):
    """An amount of room in the pool that suffices for that many records.

    A row of size w that gains x edges moves to rooms that sum to less than 4 (w + x). At most `records` rows gain any, and
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
    """Records many transitions at once, given as arrays of equal length.

    Layer -1 stands for initial states, where s and a are ignored. A table with one layer pools the steps.
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
    """Records one episode of H+1 states and H actions, and writes the nodes that it visited into `nodes` (H+1)."""
    last = table.node_of.shape[0] - 1
    nodes[0] = record(table, np.uint64(0), 0, states[0], 1)
    table.used[EPISODES] += 1
    for h in range(len(actions)):
        row = row_of(nodes[h], A, actions[h])
        nodes[h + 1] = record(table, row, min(h + 1, last), states[h + 1], 1)


@allocates
def record_episodes(table, A, states, actions):
    """Records episodes, (B, H+1) states and (B, H) actions."""
    nodes = np.empty(states.shape[1], np.uint32)
    for b in range(len(states)):
        record_episode(table, A, states[b], actions[b], nodes)


@allocates
def flows(table, A):
    """All recorded transitions, as (M, 5) rows of layer, s, a, s_next, times; layer -1 stands for initial states."""
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


@allocates
def nodes_of(table, layers):
    """The nodes of the first `layers` layers, one layer after the other, and where each begins (layers + 1,)."""
    begin = np.zeros(layers + 1, np.int64)
    out = np.empty(table.used[NODES], np.uint32)
    i = 0
    for layer in range(layers):
        node = table.head[layer]
        while node != 0:
            out[i] = node
            i += 1
            node = table.following[node]
        begin[layer + 1] = i
    return out[:i], begin


@allocates
def transitions_of(table, A, nodes):
    """The transitions of some nodes: where the edges of each row begin, their successors in order, and their probabilities.

    Rows without data have no edges.
    """
    first = np.zeros(len(nodes) * A + 1, np.int64)
    for i in range(len(nodes)):
        for a in range(A):
            row = row_of(nodes[i], A, a)
            first[i * A + a + 1] = first[i * A + a] + (np.int64(table.size[row]) if table.n[row] > 0 else 0)
    target, p = np.empty(first[-1], np.int32), np.empty(first[-1])
    for i in range(len(nodes)):
        for a in range(A):
            row = row_of(nodes[i], A, a)
            begin, n = first[i * A + a], table.n[row]
            for k in range(first[i * A + a + 1] - begin):
                e, at = table.first[row] + np.uint64(k), begin + k
                s = np.int32(table.state[table.target[e]])
                while at > begin and target[at - 1] > s:
                    target[at], p[at] = target[at - 1], p[at - 1]
                    at -= 1
                target[at], p[at] = s, table.seen[e] / n
    return first, target, p


@loop
def put_in_order(table, A):
    """Puts the edges of each row into the order of their successors, by insertion."""
    target, seen, booked, evidence = table.target, table.seen, table.booked, table.evidence
    for row in range(np.int64(table.used[NODES]) * A):
        first = np.int64(table.first[row])
        for e in range(first + 1, first + np.int64(table.size[row])):
            to, many, scored, score = target[e], seen[e], booked[e], evidence[e]
            at, s = e, table.state[to]
            while at > first and table.state[target[at - 1]] > s:
                target[at], seen[at], booked[at], evidence[at] = target[at - 1], seen[at - 1], booked[at - 1], evidence[at - 1]
                at -= 1
            target[at], seen[at], booked[at], evidence[at] = to, many, scored, score


@inlined
def log_ratio(part, whole, more, most):
    """log((part + more) / (whole + most)), to full precision even if the ratio is close to 1."""
    if 2.0 * part > whole:
        return log1p(((part - whole) + (more - most)) / (whole + most))
    return log((part + more) / (whole + most))


@inlined
def prediction(pool, A, S, s, a, s_next):
    """The log probability of s_next after (s, a) according to pooled counts: (N(s,a,s') + 1/(2S)) / (n(s,a) + 1/2)."""
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
    """The evidence of every edge, with unscored transitions scored by the present pool; out (M,)."""
    for row in range(A, table.used[NODES] * A):
        s, a = table.state[row // A], row % A
        for e in range(table.first[row], table.first[row] + table.size[row]):
            out[e] = table.evidence[e]
            fresh = table.seen[e] - table.booked[e]
            if fresh > 0.0:
                out[e] += fresh * prediction(pool, A, S, s, a, table.state[table.target[e]])


@allocates
def book(table, A, scored):
    """Books the transitions since the last booking, and returns them as pooled rows for `record_flows`.

    `scored` (M,) is the present evidence of every edge, as written by `scores`.
    """
    out = np.empty((table.used[EDGES], 5), np.int64)
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
    """log(Gamma(x + a) / Gamma(x + b)) for 0 < a, b <= 1/2, accurate to about 1e-9, without cancellation for large x."""
    if x < 1e4:
        return lgamma(x + a) - lgamma(x + b)
    return (a - b) * log(x + 0.5 * (a + b - 1.0))


@loop
def most_evidence(total, count, S):
    """The largest possible evidence of `count` out of the `total` transitions of one (s, a, s') over all steps, in any order.

    The i-th of them (from 0) is predicted from at most i earlier ones and, at best, from no transitions to other successors. So
    its score is at most log((i + 1/(2S)) / (i + 1/2)), which grows with i, and the largest sum is that over the last `count` of i
    = 0, ..., total - 1. In merged runs each run has its own predictions, which only lowers the evidence.
    """
    a = 0.5 / S
    return log_gamma_ratio(total, a, 0.5) - log_gamma_ratio(total - count, a, 0.5)


@allocates
def impossible_evidence(order, group, count, value, S):
    """The first transition, in the given order, whose evidence no order of the data could have produced, or -1.

    `group` numbers the (s, a, s') of each transition. Transitions of a group are consecutive in `order`, with the largest
    evidence per observation first. Each of them alone, and each beginning of a group together, is compared with `most_evidence`.
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
    """Adds evidence to existing edges and marks all their transitions as booked. Initial states have no evidence."""
    for i in range(len(layer)):
        if layer[i] >= 0:
            row = row_of(table.node_of[layer[i], s[i]], A, a[i])
            e = find(table.state, table.first, table.size, table.target, row, s_next[i])
            table.evidence[e] += value[i]
            table.booked[e] = table.seen[e]


@loop
def flow_evidence(table, A, scored, layer, s, a, s_next, out):
    """The evidence of given transitions, out (M,); 0 for initial states."""
    for i in range(len(layer)):
        out[i] = 0.0
        if layer[i] >= 0:
            row = row_of(table.node_of[layer[i], s[i]], A, a[i])
            out[i] = scored[find(table.state, table.first, table.size, table.target, row, s_next[i])]


@allocates
def layout(table, A):
    """The table in the order of discovery, for `rebuild`.

    Returns (layer, state) of each node except s_0, (row, target) of each edge, and (seen, booked, evidence) of each edge.
    """
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
    """Fills an empty table with what `layout` returned. Returns False if that is not a layout. Needs room for all of it."""
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

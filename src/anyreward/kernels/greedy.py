"""The greedy policy of an index on visited nodes, with reproducible tie-breaking.

An index keeps a value Q for every row and V = max_a Q for every node. Which one of several maximising actions is taken is a pure
function of (key, step, state): the compiled loop evaluates it only where an episode passes, `policy` evaluates it everywhere, and
both get the same answer without drawing random numbers. The backward pass does not store maximisers, because an episode needs
only a few of them.

In step-dependent settings an index has one plane of nodes, because a node belongs to one step. In stationary settings it has one
plane for each step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .compiled import allocates, inlined, loop
from .table import error_without_data, row_of


class Greedy(NamedTuple):
    """An index over visited nodes. P is 1, or H + 1 if stationary."""

    Q: np.ndarray  # (P, N * A) float64
    V: np.ndarray  # (P, N) float64: max_a Q
    settled: np.ndarray  # (P, N) uint8: 0 for a node that is new since the last pass
    unvisited: np.ndarray  # (H + 1,) float64: the index of an unvisited pair at each step; 0 at H


@inlined
def mix(x):
    """A bijection of 64-bit words that looks random (the finaliser of SplitMix64)."""
    x = np.uint64(x)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@inlined
def episode_key(seed_key, t):
    """The key with which episode t breaks its ties; 0 means that the first maximising action is taken."""
    if seed_key == np.uint64(0):
        return np.uint64(0)
    return mix(np.uint64(seed_key) + np.uint64(t) * np.uint64(0x9E3779B97F4A7C15)) | np.uint64(1)


@inlined
def which(key, h, s, ties):
    """Which one of `ties` maximising actions is taken in state s at step h: uniform over keys, and 0 for key 0."""
    if key == np.uint64(0):
        return 0
    word = mix(key + (np.uint64(h) << np.uint64(32)) + np.uint64(s))
    return np.int64(((word >> np.uint64(32)) * np.uint64(ties)) >> np.uint64(32))


@inlined
def choose_without_data(prior, A, h, s, key):
    """The action in a state without data: a maximiser of `prior` (H', S, A), or any action if `prior` is empty.

    Or `prior` is the policy itself, (H, S).
    """
    if prior.ndim == 2:  # Numba compiles one side
        return prior[h, s]
    if len(prior) == 0:
        return which(key, h, s, A)
    t = min(h, len(prior) - 1)
    top, equal = prior[t, s, 0], 1
    for a in range(1, A):
        equal = 1 if prior[t, s, a] > top else equal + (prior[t, s, a] == top)
        top = max(top, prior[t, s, a])
    left, a = which(key, h, s, equal), 0
    while left > 0 or prior[t, s, a] != top:
        left -= prior[t, s, a] == top
        a += 1
    return a


@inlined
def choose(Q, settled, prior, A, plane, node, h, s, key):
    """The greedy action at a visited node."""
    if settled[plane, node] == 0:
        return choose_without_data(prior, A, h, s, key)
    row = row_of(node, A, 0)
    top, a, equal = Q[plane, row], 0, 1
    for b in range(1, A):
        q = Q[plane, row + np.uint64(b)]
        better = q > top
        equal = 1 if better else equal + (q == top)
        a = b if better else a
        top = max(q, top)
    if equal == 1:
        return a
    left = which(key, h, s, equal)
    if equal == A:  # frequent while the index is at its upper limit: no search is needed
        return left
    while left > 0:
        a += 1
        left -= Q[plane, row_of(node, A, a)] == top
    return a


@inlined
def settle(Q, V, settled, A, plane, node):
    """Updates V of a node from its Q."""
    row = row_of(node, A, 0)
    top = Q[plane, row]
    for a in range(1, A):
        top = max(Q[plane, row + np.uint64(a)], top)
    V[plane, node], settled[plane, node] = top, 1


@loop
def initialise_new(greedy, table, A, nodes, met):
    """Gives the nodes that an episode has just discovered the index of unvisited pairs, in each of their planes.

    Nodes from number `met` on are new.
    """
    planes = len(greedy.V)
    for h in range(len(nodes)):
        if nodes[h] >= met:
            for plane in range(planes):
                value = greedy.unvisited[plane if planes > 1 else h]
                for a in range(A):
                    s, row = table.state[nodes[h]], row_of(nodes[h], A, a)
                    greedy.Q[plane, row] = error_without_data(table.known, A, s, a, value)
                settle(greedy.Q, greedy.V, greedy.settled, A, plane, nodes[h])


@loop
def write_policy(index, prior, A, node_of, key, out):
    """Writes the greedy policy in all states into out (H, S); `index` is a named tuple with Q and settled."""
    Q, settled = index.Q, index.settled
    for h in range(len(out)):
        layer, plane = min(h, len(node_of) - 1), min(h, len(Q) - 1)
        for s in range(out.shape[1]):
            node = node_of[layer, s]
            if node == 0:
                out[h, s] = choose_without_data(prior, A, h, s, key)
            else:
                out[h, s] = choose(Q, settled, prior, A, plane, node, h, s, key)


def policy(index: Any, prior: np.ndarray, A: int, node_of: np.ndarray, H: int, key: np.uint64) -> np.ndarray:
    """The greedy policy in all states, (H, S). It is not compiled itself: that would only make the call slower."""
    out = np.empty((H, node_of.shape[1]), np.int64)
    write_policy(index, prior, A, node_of, key, out)
    return out


@allocates
def dense(greedy, A, node_of, H):
    """The index of all steps, states and actions, (H, S, A). New nodes have the index of unvisited ones until the next pass."""
    planes = len(greedy.V)
    layers, S = node_of.shape
    out = np.empty((H, S, A), np.float64)
    for h in range(H):
        plane = min(h, planes - 1)
        for s in range(S):
            node = node_of[min(h, layers - 1), s]
            known = node != 0 and greedy.settled[plane, node] != 0
            for a in range(A):
                out[h, s, a] = greedy.Q[plane, row_of(node, A, a)] if known else greedy.unvisited[h]
    return out


@allocates
def greedy_of(Q, key):
    """The greedy policy, (H, S), of a dense index (H, S, A)."""
    H, S, A = Q.shape
    out = np.empty((H, S), np.int64)
    for h in range(H):
        for s in range(S):
            out[h, s] = choose_without_data(Q, A, h, s, key)
    return out


@loop
def act(Q, settled, prior, A, node_of, h, s, key):
    """The greedy action in one state at one step, an entry of `policy`."""
    node = node_of[min(h, len(node_of) - 1), s]
    if node == 0:
        return choose_without_data(prior, A, h, s, key)
    return choose(Q, settled, prior, A, min(h, len(Q) - 1), node, h, s, key)


@loop
def settle_all(Q, V, settled, A, nodes, marks):
    """Updates V from Q for the marked nodes, (P, N), in every plane; the others count as new since the last pass."""
    for plane in range(len(V)):
        for node in range(nodes):
            if marks[plane, node]:
                settle(Q, V, settled, A, plane, node)
            else:
                settled[plane, node] = 0

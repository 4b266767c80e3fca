"""The greedy policy of an index on visited nodes, with ties broken the same way wherever it is asked.

An index keeps, for every row, its value Q and, for every node, V = max_a Q, the first maximiser and how many there are.
Which of several maximisers is taken is a pure function of (key, step, state): the compiled loop asks only where it comes
by, `policy` asks everywhere, and both get the same answer without having drawn anything.

Step-dependent transitions have one plane of nodes (a node knows its step); stationary ones have a plane for each step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compiled import allocates, inlined, loop
from .table import row_of


class Greedy(NamedTuple):
    """An index and its greedy actions; P planes are 1, or H + 1 when stationary."""

    Q: np.ndarray  # (P, N * A) float64
    V: np.ndarray  # (P, N) float64: max_a Q
    best: np.ndarray  # (P, N) uint32: the first maximiser
    ties: np.ndarray  # (P, N) uint32: how many maximisers there are
    unvisited: np.ndarray  # (H + 1,) float64: the index of an unvisited pair at each step; 0 at H


@inlined
def mix(x):
    """A bijection of 64-bit words without visible structure (the finaliser of SplitMix64)."""
    x = np.uint64(x)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@inlined
def episode_key(seed_key, t):
    """The key under which episode t breaks its ties; 0 means: take the first maximiser."""
    if seed_key == np.uint64(0):
        return np.uint64(0)
    return mix(np.uint64(seed_key) + np.uint64(t) * np.uint64(0x9E3779B97F4A7C15)) | np.uint64(1)


@inlined
def which(key, h, s, ties):
    """Which of `ties` maximisers is taken in state s at step h: uniform over keys, 0 for key 0."""
    if key == np.uint64(0):
        return 0
    word = mix(key + (np.uint64(h) << np.uint64(32)) + np.uint64(s))
    return np.int64(((word >> np.uint64(32)) * np.uint64(ties)) >> np.uint64(32))


@inlined
def choose(Q, V, best, ties, A, plane, node, h, s, key):
    """The greedy action at a visited node."""
    equal, a = np.int64(ties[plane, node]), np.int64(best[plane, node])
    if equal == 1:
        return a
    if equal == 0 or equal == A:  # a node that is new since the last pass, or all at the cap: nothing to search
        return which(key, h, s, A)
    left = which(key, h, s, equal)
    while left > 0:
        a += 1
        left -= Q[plane, row_of(node, A, a)] == V[plane, node]
    return a


@inlined
def settle(Q, V, best, ties, A, plane, node):
    """Brings V, best and ties of a node up to date with its Q."""
    row = row_of(node, A, 0)
    top, first, equal = Q[plane, row], 0, 1
    for a in range(1, A):
        row += np.uint64(1)
        q = Q[plane, row]
        better = q > top
        equal = 1 if better else equal + (q == top)
        first = a if better else first
        top = max(q, top)
    V[plane, node] = top
    best[plane, node] = first
    ties[plane, node] = equal


@loop
def begin(greedy, A, node, h):
    """Gives a node that was just discovered at step h the index of unvisited pairs, in every plane it has."""
    planes = len(greedy.V)
    row = np.int64(row_of(node, A, 0))
    for plane in range(planes):
        value = greedy.unvisited[plane if planes > 1 else h]
        greedy.Q[plane, row : row + A] = value
        greedy.V[plane, node] = value
        greedy.best[plane, node] = 0
        greedy.ties[plane, node] = A


@allocates
def policy(greedy, A, node_of, H, key):
    """The greedy policy everywhere, (H, S): unvisited states take any of their equally unknown actions."""
    Q, V, best, ties, _ = greedy
    planes = len(V)
    layers, S = node_of.shape
    out = np.empty((H, S), np.int64)
    for h in range(H):
        plane, layer = min(h, planes - 1), min(h, layers - 1)
        for s in range(S):
            node = node_of[layer, s]
            out[h, s] = which(key, h, s, A) if node == 0 else choose(Q, V, best, ties, A, plane, node, h, s, key)
    return out


@allocates
def dense(greedy, A, node_of, H):
    """The index everywhere, (H, S, A)."""
    planes = len(greedy.V)
    layers, S = node_of.shape
    out = np.empty((H, S, A), np.float64)
    for h in range(H):
        for s in range(S):
            node = node_of[min(h, layers - 1), s]
            for a in range(A):
                out[h, s, a] = greedy.Q[min(h, planes - 1), row_of(node, A, a)] if node else greedy.unvisited[h]
    return out

"""Planning over KL balls: the largest or smallest value that any model in the balls can have."""

from __future__ import annotations

import numpy as np

from .ball import gap
from .compiled import allocates, loop
from .table import row_of

UPPER, LOWER = 1.0, -1.0  # which side
BEST, GIVEN = 0, 1  # whose value: the best action's, or a given policy's


@loop
def ahead(table, A, c, most, layer, s, a, V, far, sign, g):
    """The extreme expectation of V(s') over the ball of (s, a); `far` is the extreme of V over all states.

    A row without data has no ball: any successor is possible. A row that shows as many successors as there can be (`most`)
    has no unseen ones.
    """
    node = table.node_of[layer, s]
    row = row_of(node, A, a)
    if node == 0 or table.size[row] == 0:
        return far
    begin, size = np.int64(table.first[row]), np.int64(table.size[row])
    if size >= most:
        far = V[table.state[table.target[begin]]]
        for e in range(begin + 1, begin + size):
            far = sign * max(sign * far, sign * V[table.state[table.target[e]]])
    for k in range(size):
        g[k] = sign * (far - V[table.state[table.target[begin + k]]])
    smaller, _ = gap(table.seen, begin, size, table.n[row], g, c[row], 0.0)
    return far - sign * smaller


@allocates
def values(table, A, c, most, reward, discount, sign, whose, policy):
    """Q (H, S, A) and V (H+1, S) of the best actions or of a policy (H, S, A), in the extreme models of the balls.

    Where the policy never takes an action its Q is not computed and left at 0.
    """
    H, S, _ = reward.shape
    layers = len(table.head)
    Q, V, g = np.zeros((H, S, A)), np.zeros((H + 1, S)), np.empty(S)
    for h in range(H - 1, -1, -1):
        far = sign * (sign * V[h + 1]).max()
        for s in range(S):
            total, top = 0.0, 0.0
            for a in range(A):
                if whose == GIVEN and policy[h, s, a] == 0.0:
                    continue
                q = reward[h, s, a] + discount * ahead(table, A, c, most, min(h, layers - 1), s, a, V[h + 1], far, sign, g)
                Q[h, s, a] = q
                if whose == GIVEN:
                    total += policy[h, s, a] * q
                elif a == 0 or q > top:
                    top = q
            V[h, s] = total if whose == GIVEN else top
    return Q, V


@allocates
def start(table, c, initial_state, V, sign):
    """The extreme value from the start: of the known start state, or over the ball of the start distribution."""
    if initial_state >= 0:
        return V[initial_state]
    far = sign * (sign * V).max()
    if table.n[0] == 0:
        return far
    begin, size = np.int64(table.first[0]), np.int64(table.size[0])
    g = np.empty(size)
    for k in range(size):
        g[k] = sign * (far - V[table.state[table.target[begin + k]]])
    smaller, _ = gap(table.seen, begin, size, table.n[0], g, c[0], 0.0)
    return far - sign * smaller

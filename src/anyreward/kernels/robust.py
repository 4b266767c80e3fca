"""Robust planning: the largest or the smallest value over all models whose distributions lie in KL balls."""

from __future__ import annotations

import numpy as np

from .ball import gap
from .compiled import allocates, loop
from .table import is_illegal, is_known, is_unsure, row_of

UPPER, LOWER = 1.0, -1.0  # the largest or the smallest value over the models
BEST, GIVEN = 0, 1  # the value of the best actions, or of a given policy


@loop
def extreme_of(f, sign):
    """The largest (sign 1) or the smallest (sign -1) entry."""
    top = sign * f[0]
    for s in range(1, len(f)):
        top = max(top, sign * f[s])
    return sign * top


@loop
def ahead(table, A, c, most, layer, s, a, f, extreme, sign, g):
    """The extreme expectation of f(s') over the ball of (s, a); `extreme` is the extreme of f over all states.

    A row without data has no ball: any successor is possible. A row with as many observed successors as there can be (`most`) has
    no unobserved ones. An absorbing state is its own successor.
    """
    if is_known(table.known, A, s, a):  # absorbing; callers skip illegal pairs
        return f[s]
    node = table.node_of[layer, s]
    row = row_of(node, A, a)
    if node == 0 or table.size[row] == 0:
        return extreme
    begin, size = np.int64(table.first[row]), np.int64(table.size[row])
    if size >= most:
        extreme = f[table.state[table.target[begin]]]
        for e in range(begin + 1, begin + size):
            extreme = sign * max(sign * extreme, sign * f[table.state[table.target[e]]])
    for k in range(size):
        g[k] = sign * (extreme - f[table.state[table.target[begin + k]]])
    shift, _ = gap(table.seen, begin, size, float(table.n[row]), g, c[row], 0.0)
    return extreme - sign * shift


@loop
def with_pay(f, order, sign, target, pay, begin, end, paid):
    """Adds the rewards on arrival of a pair to f, and returns the extreme of the sum over all states.

    Only the successors with rewards change, so the extreme is among them or is the best of the others in `order`.
    """
    for i in range(begin, end):
        f[target[i]] += pay[i]
        paid[target[i]] = True
    i = len(order) - 1
    while i >= 0 and paid[order[i]]:
        i -= 1
    extreme = f[order[i]] if i >= 0 else f[target[begin]]
    for i in range(begin, end):
        extreme = sign * max(sign * extreme, sign * f[target[i]])
    return extreme


@loop
def without_pay(f, V, discount, target, begin, end, paid):
    """Undoes `with_pay`."""
    for i in range(begin, end):
        f[target[i]] = discount * V[target[i]]
        paid[target[i]] = False


@allocates
def values(table, A, c, most, base, arrival, discount, sign, whose, policy, floor, ceiling):
    """Q (H, S, A) and V (H+1, S) of the best actions or of a policy (H, S, A), in the extreme models of the balls.

    Values at step h are cut off at floor[h] and ceiling[h].

    The reward is `base` (H, S, A) plus, unless `arrival` is None, a reward on arrival, given by the three arrays of an
    `ArrivalReward` (`rewards.forms`). With None, what such a reward needs is not compiled. Q is left at 0 for actions that the
    policy never takes.

    In a state whose legal actions are unknown, any non-empty set of actions may be the legal one, and any of its actions may
    replace the one that was chosen. There the extreme over all actions is taken, both for a policy and for the best actions.
    """
    H, S, _ = base.shape
    layers = len(table.head)
    Q, V, f, g = np.zeros((H, S, A)), np.zeros((H + 1, S)), np.empty(S), np.empty(S)
    if arrival is not None:
        pointer, target, pay = arrival
        steps, paid = (len(pointer) - 1) // (S * A), np.zeros(S, np.bool_)
    for h in range(H - 1, -1, -1):
        for s in range(S):
            f[s] = discount * V[h + 1, s]
        extreme = extreme_of(f, sign)
        if arrival is not None:
            order = np.argsort(sign * f)
        for s in range(S):
            total, top, extreme_top = 0.0, -np.inf, -np.inf
            unsure = is_unsure(table.known, A, s)
            for a in range(A):
                if whose == GIVEN and policy[h, s, a] == 0.0 and not unsure:
                    continue
                if is_illegal(table.known, A, s, a):
                    Q[h, s, a] = -np.inf
                    continue
                extreme_here = extreme
                if arrival is not None:
                    pair = (min(h, steps - 1) * S + s) * A + a
                    begin, end = pointer[pair], pointer[pair + 1]
                    if end > begin:
                        extreme_here = with_pay(f, order, sign, target, pay, begin, end, paid)
                q = base[h, s, a] + ahead(table, A, c, most, min(h, layers - 1), s, a, f, extreme_here, sign, g)
                if arrival is not None:
                    without_pay(f, V[h + 1], discount, target, begin, end, paid)
                q = min(ceiling[h], max(floor[h], q))
                Q[h, s, a] = q
                if whose == GIVEN:
                    total += policy[h, s, a] * q
                else:
                    top = max(top, q)
                extreme_top = max(extreme_top, sign * q)
            V[h, s] = sign * extreme_top if unsure else total if whose == GIVEN else top
    return Q, V


@allocates
def start(table, c, V, sign):
    """The extreme value from the start over the ball around the estimated distribution of the initial state.

    V holds the values of all states in which an episode can start.
    """
    extreme = extreme_of(V, sign)
    if table.n[0] == 0:
        return extreme
    begin, size = np.int64(table.first[0]), np.int64(table.size[0])
    g = np.empty(size)
    for k in range(size):
        g[k] = sign * (extreme - V[table.state[table.target[begin + k]]])
    shift, _ = gap(table.seen, begin, size, float(table.n[0]), g, c[0], 0.0)
    return extreme - sign * shift

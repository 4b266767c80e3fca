"""Robust planning: the largest or the smallest value over all models whose distributions lie in KL balls.

With a declared structure each transition is a sequence of `Draws`, and each draw has a ball. From the last draw to the first,

    v_m(x_1, ..., x_m) = f(s'),     v_{i-1}(x_1, ..., x_{i-1}) = max { sum_x q(x) v_i(..., x) : KL(q_hat_i, q) <= c_i }

(`docs/theory.md`, 6.1 and 15.3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .ball import gap
from .compiled import allocates, loop, threaded
from .planning import act, is_given, pay_of, worth
from .table import is_illegal, is_known, is_unsure, row_of

UPPER, LOWER = 1.0, -1.0  # the largest or the smallest value over the models


@loop
def extreme_of(f, sign):
    """The largest (sign 1) or the smallest (sign -1) entry."""
    top = sign * f[0]
    for s in range(1, len(f)):
        top = max(top, sign * f[s])
    return sign * top


class Draws(NamedTuple):
    """The draws of every pair of a declared structure; pair i is row A + i of the table (`shared_laws.Tables`)."""

    law: np.ndarray  # (pairs, m): the law of each draw; -1 if there is no such draw
    pointer: np.ndarray  # (pairs + 1,): where the combinations of outcomes of a pair begin; the last draw changes fastest
    target: np.ndarray  # the successor of each combination
    offset: np.ndarray  # (laws + 1,): where the outcomes of a law begin
    p: np.ndarray  # the estimate of the probability of each outcome
    free: np.ndarray  # (laws,) booleans: without data, so that a law can be anything on its outcomes


@loop
def nested(draws, c, row, pair, f, sign, g, v):
    """The extreme expectation of f(s') for a pair whose draws each have a ball of their own, c[row, i].

    Writes to v, which has room for all combinations of outcomes, and to g, which has room for twice the outcomes of a law.
    """
    begin, half = draws.pointer[pair], len(g) // 2
    many = draws.pointer[pair + 1] - begin
    for k in range(many):
        v[k] = f[draws.target[begin + k]]
    for i in range(draws.law.shape[1] - 1, -1, -1):
        law = draws.law[pair, i]
        if law < 0:
            continue
        first = draws.offset[law]
        K = draws.offset[law + 1] - first
        many //= K
        for block in range(many):
            at = block * K
            extreme = v[at]
            for x in range(1, K):
                extreme = sign * max(sign * extreme, sign * v[at + x])
            if draws.free[law]:
                v[block] = extreme
                continue
            seen = 0
            for x in range(K):
                if draws.p[first + x] > 0.0:
                    g[seen] = sign * (extreme - v[at + x])
                    g[half + seen] = draws.p[first + x]
                    seen += 1
            shift, _ = gap(g, half, seen, 1.0, g, c[row, i], 0.0)
            v[block] = extreme - sign * shift
    return v[0]


@loop
def in_ball(table, c, most, row, f, extreme, sign, g):
    """The extreme expectation of f(s') over the ball of a row with data, whose radius is c."""
    begin, size = np.int64(table.first[row]), np.int64(table.size[row])
    if size >= most:
        extreme = f[table.state[table.target[begin]]]
        for e in range(begin + 1, begin + size):
            extreme = sign * max(sign * extreme, sign * f[table.state[table.target[e]]])
    for k in range(size):
        g[k] = sign * (extreme - f[table.state[table.target[begin + k]]])
    shift, _ = gap(table.seen, begin, size, float(table.n[row]), g, c, 0.0)
    return extreme - sign * shift


@loop
def ahead(table, draws, A, c, most, node, s, a, f, extreme, sign, g, v):
    """The extreme expectation of f(s') over the ball of (s, a); `extreme` is the extreme of f over all states.

    `node` is that of s, 0 if it was not visited. A row without data has no ball: any successor is possible. A row with as many
    observed successors as there can be (`most`) has no unobserved ones. An absorbing state is its own successor. `draws` is None
    without a structure.
    """
    if is_known(table.known, A, s, a):  # absorbing; callers skip illegal pairs
        return f[s]
    row = row_of(node, A, a)
    if node == 0 or table.size[row] == 0:
        return extreme
    if c.ndim == 1:  # a condition of which Numba compiles one side
        return in_ball(table, c[row], most, row, f, extreme, sign, g)
    return nested(draws, c, row, row - np.uint64(A), f, sign, g, v)


@loop
def has_data(table, draws, A, c, row):
    """Whether a row has data; with a structure, whether each law that it draws from has."""
    if c.ndim == 2:
        for law in draws.law[row - np.uint64(A)]:
            if law >= 0 and draws.free[law]:
                return False
    return table.size[row] > 0


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


@threaded
def values(
    table, draws, places, node, A, c, most, pay, arrival, discount, sign, choice, mixed, floor, ceiling, found, last, first
):
    """V and Q (`planning.Found`) of the best actions or of a policy, in the extreme models of the balls.

    The steps go from `last` to `first`. Values at step h are cut off at floor[h] and ceiling[h].

    Of actions that are equally good, one that was seen is chosen, if there is one.

    The policy is a `planning.Choice` or, if `mixed` is not empty, (H, S, A) probabilities. The reward is `pay` plus, unless
    `arrival` is None, a reward on arrival, given by the three arrays of an `ArrivalReward` (`rewards.forms`); `node` are the
    nodes of the places; `draws` are those of a declared structure, or None, and then c is (rows, m) in place of (rows,). With
    None, what they need is not compiled. Q is left at 0 for actions that the policy never takes.

    In a state whose legal actions are unknown, any non-empty set of actions may be the legal one, and any of its actions may
    replace the one that was chosen. There the extreme over all actions is taken, both for a policy and for the best actions.
    """
    H, S, everywhere, visited, known = len(floor), found.V.shape[1], pay.everywhere, pay.visited, table.known
    f, g, v, few = np.empty(S), np.empty(S), np.empty(0), np.empty(A)
    given = is_given(choice)
    if draws is not None:
        g, v = np.empty(2 * np.diff(draws.offset).max()), np.empty(np.diff(draws.pointer).max())
    if arrival is not None:
        pointer, target, paying = arrival
        steps, paid = (len(pointer) - 1) // (S * A), np.zeros(S, np.bool_)
    every = arrival is not None or len(found.Q) > 0 or len(mixed) > 0  # whether states without a place need a closer look
    for h in range(last, first - 1, -1):
        V_next, V = found.V[(h + 1) % len(found.V)], found.V[h % len(found.V)]
        for s in range(S):
            f[s] = discount * V_next[s]
        extreme = extreme_of(f, sign)
        if arrival is not None:
            order = np.argsort(sign * f)
        if given:
            act(choice, h, A, found.actions)
        found.ahead[h], layer, by_row = extreme, min(h, len(places.begin) - 2), min(h, len(visited) - 1)
        begin, end = places.begin[layer], places.begin[layer + 1]
        if not every:
            if given or h == H - 1 or len(everywhere) > 1:
                worth(everywhere, known, h, A, given, sign, found.actions, found.pays)
            for s in range(S):
                V[s] = min(ceiling[h], max(floor[h], found.pays[s] + extreme))
        i = begin
        for k in range(S if every else end - begin + len(places.stays)):
            s = k if every else np.int64(places.state[begin + k] if begin + k < end else places.stays[begin + k - end])
            while i < end and places.state[i] < s:
                i += 1
            here = i < end and places.state[i] == s
            unsure, total, best, top, extreme_top = is_unsure(known, A, s), 0.0, 0, -np.inf, -np.inf
            best_is_seen = False
            for a in range(A):
                few[a] = 0.0
                if not unsure and (a != found.actions[s] if given else len(mixed) > 0 and mixed[h, s, a] == 0.0):
                    continue
                if is_illegal(known, A, s, a):
                    few[a] = -np.inf
                    continue
                extreme_here = extreme
                if arrival is not None:
                    pair = (min(h, steps - 1) * S + s) * A + a
                    low, high = pointer[pair], pointer[pair + 1]
                    if high > low:
                        extreme_here = with_pay(f, order, sign, target, paying, low, high, paid)
                q = visited[by_row, i * A + a] if here and by_row >= 0 else pay_of(everywhere, h, s, a)
                q += ahead(table, draws, A, c, most, node[i] if here else np.uint32(0), s, a, f, extreme_here, sign, g, v)
                if arrival is not None:
                    without_pay(f, V_next, discount, target, low, high, paid)
                q = min(ceiling[h], max(floor[h], q))
                few[a] = q
                if given:
                    total = q
                elif len(mixed) > 0:
                    total += mixed[h, s, a] * q
                else:
                    is_seen = here and has_data(table, draws, A, c, row_of(node[i], A, a))
                    if q > top or (q == top and is_seen and not best_is_seen):
                        best, top, best_is_seen = a, q, is_seen
                extreme_top = max(extreme_top, sign * q)
            V[s] = sign * extreme_top if unsure else total if given or len(mixed) > 0 else top
            if here and len(found.chosen) > 0:
                found.chosen[h % len(found.chosen), i] = best
            if len(found.Q) > 0:
                for a in range(A):
                    found.Q[h % len(found.Q), s, a] = few[a]


@allocates
def start(table, c, V, sign):
    """The extreme value from the start over the ball around the estimated distribution of the initial state, of radius c.

    V holds the values of all states in which an episode can start.
    """
    extreme = extreme_of(V, sign)
    if table.n[0] == 0:
        return extreme
    begin, size = np.int64(table.first[0]), np.int64(table.size[0])
    g = np.empty(size)
    for k in range(size):
        g[k] = sign * (extreme - V[table.state[table.target[begin + k]]])
    shift, _ = gap(table.seen, begin, size, float(table.n[0]), g, c, 0.0)
    return extreme - sign * shift

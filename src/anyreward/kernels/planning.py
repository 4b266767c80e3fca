"""Backward induction: one step of a model, for the best actions or for those of a policy.

Q(s,a) = r(s,a) + gamma sum_s' p(s'|s,a) V'(s'),     V(s) = Q(s, chosen(s))
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from .compiled import inlined, loop, threaded


class Rows(NamedTuple):
    """The transitions of a model. Row i = (t S + s) A + a has the edges first[i], ..., first[i+1] - 1; t is the step or 0."""

    first: np.ndarray  # (T S A + 1,) int64
    target: np.ndarray  # the successor of each edge
    p: np.ndarray  # its probability
    blank: np.ndarray  # (T S A,) booleans: a uniform successor, because there are no data; or empty, if there is no such row
    stays: np.ndarray  # (S,) booleans: absorbing, whatever the edges; or empty


class Task(NamedTuple):
    """What to plan for. Arrays of booleans, and the policy, may be empty."""

    reward: np.ndarray  # (1 or H, S, A)
    discount: float
    low: np.ndarray  # (H,): values are cut off there
    high: np.ndarray  # (H,)
    illegal: np.ndarray  # (S, A) booleans
    seen: np.ndarray  # (1 or H, S, A) booleans: preferred among equals
    only_seen: np.ndarray  # (H,) booleans: whether no other action is chosen in states that have any
    policy: np.ndarray  # (H, S): what is chosen, in place of the best


@inlined
def expectation(first, target, p, blank, stays, row, s, V, mean):
    """The expectation of V at the successor of a row; `mean` is that of a uniform one."""
    if len(stays) > 0 and stays[s]:
        return V[s]
    if len(blank) > 0 and blank[row]:
        return mean
    total = 0.0
    for e in range(np.uint64(first[row]), np.uint64(first[row + np.uint64(1)])):
        total += p[e] * V[np.uint64(target[e])]
    return total


@loop
def expect(rows, t, V, mean, out):
    """Writes the expectation of V, whose mean is given, at the successors of all rows of time t, out (S, A)."""
    first, target, p, blank, stays = rows
    S, A = out.shape
    row = np.uint64(t * S * A)
    for s in range(S):
        for a in range(A):
            out[s, a] = expectation(first, target, p, blank, stays, row, s, V, mean)
            row += np.uint64(1)


@loop
def best_seen(values, seen, only):
    """The best of actions that were seen or, unless `only`, of all: then among equals one that was seen."""
    best, top, is_seen, some = -1, -inf, False, False
    for a in range(len(values)):
        some = some or seen[a]
    for a in range(len(values)):
        if only and some and not seen[a]:
            continue
        if best < 0 or values[a] > top or (values[a] == top and seen[a] and not is_seen):
            best, top, is_seen = a, values[a], seen[a]
    return best


@loop
def step(rows, task, h, mean, Q, V, chosen, begin, end):
    """Writes Q (H, S, A), V (H+1, S) and the chosen actions (H, S) of step h, for the states from `begin` to `end`.

    Of the actions that are equally good, the smallest number is taken.
    """
    first, target, p, blank, stays = rows
    reward, discount, low, high, illegal, seen, only_seen, policy = task
    _, S, A = Q.shape
    t = min(h, (len(first) - 1) // (S * A) - 1)
    pay, ahead, values = reward[min(h, len(reward) - 1)], V[h + 1], Q[h]
    least, most, row = low[h], high[h], np.uint64((t * S + begin) * A)
    for s in range(begin, end):
        best, top = 0, -inf
        for a in range(A):
            q = pay[s, a] + discount * expectation(first, target, p, blank, stays, row, s, ahead, mean)
            q = min(most, max(least, q))
            if len(illegal) > 0 and illegal[s, a]:
                q = -inf
            values[s, a] = q
            if q > top:
                best, top = a, q
            row += np.uint64(1)
        if len(policy) > 0:
            best = policy[h, s]
        elif len(seen) > 0:
            best = best_seen(values[s], seen[min(h, len(seen) - 1), s], only_seen[h])
        chosen[h, s], V[h, s] = best, values[s, best]


@threaded
def part(rows, task, h, mean, Q, V, chosen, begin, end):
    """`step`, for several threads."""
    step(rows, task, h, mean, Q, V, chosen, begin, end)


@loop
def induct(rows, task, Q, V, chosen):
    """All steps, from the last to the first."""
    H, S, _ = Q.shape
    for h in range(H - 1, -1, -1):
        total = 0.0
        for s in range(S if len(rows.blank) > 0 else 0):
            total += V[h + 1, s]
        step(rows, task, h, total / S, Q, V, chosen, 0, S)

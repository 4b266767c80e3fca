"""Backward induction over the visited part of a problem, for the best actions or for those of a policy.

Q(s,a) = r(s,a) + gamma sum_s' p(s'|s,a) V'(s'),     V(s) = Q(s, chosen(s))

Only what was visited has transitions of its own. In all other states every action leads to the same distribution, so that a step
adds one number, `ahead`, to the rewards there: gamma times the mean of V' in the empirical model, and the extreme of gamma V' in
robust planning (`robust`). What a policy does there follows from the rewards and from that number, and is not stored (`Choice`).
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from .compiled import allocates, inlined, loop, threaded
from .greedy import mix
from .table import is_illegal, is_unsure


class Places(NamedTuple):
    """The visited states of each step: the places begin[t], ..., begin[t+1] - 1, ordered by state; t is the step or 0."""

    begin: np.ndarray  # (T + 1,) int64
    state: np.ndarray  # (M,) int32: the state of each place
    known: np.ndarray  # (S * A,) uint8: marks of pairs (`table`), or empty
    stays: np.ndarray  # (K,) int32: the absorbing states, whatever their transitions


class Rows(NamedTuple):
    """The transitions of a model. The row of place i and action a is i A + a; it has the edges first[row], ..., first[row+1] - 1.

    A row without edges has no data: its successor is uniform.
    """

    first: np.ndarray  # (M A + 1,) int64
    target: np.ndarray  # int32: the successor of each edge, a state
    p: np.ndarray  # its probability
    seen: np.ndarray  # (M A,) booleans: which rows have data; empty if all have, or if it does not matter


class Pay(NamedTuple):
    """The rewards. An axis on which they do not depend has length 1."""

    everywhere: np.ndarray  # (T, S, A)
    visited: np.ndarray  # (T, M A): those of the visited rows, where they are other ones; or (0, 0)


class Task(NamedTuple):
    """What to plan for."""

    pay: Pay
    discount: float
    low: np.ndarray  # (H,): values are cut off there
    high: np.ndarray  # (H,)
    prefers_seen: bool  # whether actions that were seen are preferred among equals ...
    only_seen: np.ndarray  # (H,) booleans: ... and no other action is chosen in states that have any
    worst: bool  # whether a pair without data leads to the worst state, in place of a uniform one


class Choice(NamedTuple):
    """A policy that names one action for each step and state: an array or, if that is empty, what planning chose.

    In a state without a place that is the best of the rewards plus `ahead`, cut off at `low` and `high`; among equals the first.
    """

    array: np.ndarray  # (H, S) int32, or (0, 0)
    chosen: np.ndarray  # (1 or H, M) int32: at each place, for all steps at which it may be visited
    begin: np.ndarray  # as in `Places`
    state: np.ndarray
    known: np.ndarray
    everywhere: np.ndarray  # as in `Pay`
    ahead: np.ndarray  # (H,)
    low: np.ndarray  # (H,)
    high: np.ndarray  # (H,)
    ended: np.ndarray  # (T, S'): the actions of the last S' states, whatever was chosen; or (0, S'): those of the first S'


def as_choice(policy: np.ndarray) -> Choice:
    """A policy (H, S) as a `Choice`."""
    none, chosen, begin = np.zeros(0), np.zeros((0, 0), np.int32), np.zeros(1, np.int64)
    state, known, ended = np.zeros(0, np.int32), np.zeros(0, np.uint8), np.zeros((0, 0), np.int64)
    array = np.require(policy, np.int32, ["C", "W"])  # compiled for writable arrays in C order
    return Choice(array, chosen, begin, state, known, np.zeros((0, 0, 0)), none, none, none, ended)


@inlined
def pay_of(everywhere, h, s, a):
    """The reward of an action where it does not depend on the place."""
    T, S, A = everywhere.shape
    return everywhere[min(h, T - 1), s if S > 1 else 0, a if A > 1 else 0]


@loop
def best_elsewhere(choice, h, s, A):
    """What planning chose in a state without a place."""
    best, top, known = 0, -inf, choice.known
    for a in range(A):
        if is_illegal(known, A, s, a):
            continue
        q = min(choice.high[h], max(choice.low[h], pay_of(choice.everywhere, h, s, a) + choice.ahead[h]))
        if q > top:
            best, top = a, q
    return best


@loop
def action(choice, h, s, S, A):
    """The action of a policy in one of S states at step h."""
    steps, last = choice.ended.shape
    if s >= S - last:
        if steps > 0:
            return choice.ended[min(h, steps - 1), s - (S - last)]
        s -= last
    if len(choice.array) > 0:
        return np.int64(choice.array[h, s])
    layer = min(h, len(choice.begin) - 2)
    low, end = choice.begin[layer], choice.begin[layer + 1]
    high = end
    while low < high:
        middle = (low + high) // 2
        if choice.state[middle] < s:
            low = middle + 1
        else:
            high = middle
    if low < end and choice.state[low] == s:
        return np.int64(choice.chosen[min(h, len(choice.chosen) - 1), low])
    return best_elsewhere(choice, h, s, A)


def action_of(choice: Choice, h: int, s: int, S: int, A: int) -> int:
    """`action`, for single calls from Python: to call a compiled function takes longer."""
    if len(choice.array) and not choice.ended.shape[1]:
        return int(choice.array[h, s])
    if not len(choice.array) and s < S - choice.ended.shape[1]:
        layer = min(h, len(choice.begin) - 2)
        begin, end = int(choice.begin[layer]), int(choice.begin[layer + 1])
        i = begin + int(choice.state[begin:end].searchsorted(np.int32(s)))
        if i < end and choice.state[i] == s:
            return int(choice.chosen[min(h, len(choice.chosen) - 1), i])
    return int(action(choice, h, s, S, A))


@loop
def act(choice, h, A, out):
    """Writes the actions of a policy in all states at step h, out (S,)."""
    S = len(out)
    if len(choice.array) > 0:
        for s in range(min(S, choice.array.shape[1])):
            out[s] = choice.array[h, s]
    else:
        pay, known = choice.everywhere[min(h, len(choice.everywhere) - 1)], choice.known
        ahead, lowest, highest = choice.ahead[h], choice.low[h], choice.high[h]
        for s in range(S):
            best, top = 0, -inf
            for a in range(A if pay.shape[1] > 1 or len(known) > 0 else 0):
                q = pay[s if pay.shape[0] > 1 else 0, a if pay.shape[1] > 1 else 0] + ahead
                q = min(highest, max(lowest, q))
                if q > top and not is_illegal(known, A, s, a):
                    best, top = a, q
            out[s] = best
        layer = min(h, len(choice.begin) - 2)
        chosen = choice.chosen[min(h, len(choice.chosen) - 1)]
        for i in range(choice.begin[layer], choice.begin[layer + 1]):
            out[choice.state[i]] = chosen[i]
    steps, last = choice.ended.shape
    for i in range(last):
        out[S - last + i] = choice.ended[min(h, steps - 1), i] if steps > 0 else out[i]


@loop
def act_always(choice, A, out):
    """Writes the actions of a policy at all steps, out (H, S)."""
    for h in range(len(out)):
        act(choice, h, A, out[h])


@loop
def worth(everywhere, known, h, A, given, sign, actions, out):
    """Writes what a state without a place is paid at step h, out (S,): the most of all actions or, if `given`, for its action.

    With a `sign`, where the legal actions are unknown it is the extreme of all (`robust`).
    """
    for s in range(len(out)):
        if sign != 0.0 and is_unsure(known, A, s):
            top = -inf
            for a in range(A):
                top = max(top, sign * pay_of(everywhere, h, s, a))
            out[s] = sign * top
        elif given:
            out[s] = pay_of(everywhere, h, s, actions[s])
        else:
            top = -inf
            for a in range(everywhere.shape[2] if len(known) == 0 else A):
                if not is_illegal(known, A, s, a):
                    top = max(top, pay_of(everywhere, h, s, a))
            out[s] = top


class Found(NamedTuple):
    """What a pass over the steps writes. V and Q of step h are in place h modulo their length: all of them, or the last few."""

    V: np.ndarray  # (H + 1 or 2, S); the last row is 0
    Q: np.ndarray  # (H, 1 or 0, S, A)
    chosen: np.ndarray  # as in `Choice`
    ahead: np.ndarray  # as in `Choice`
    actions: np.ndarray  # (S,) int64: those of the policy at the present step
    pays: np.ndarray  # (S,): `worth` at the present step


@inlined
def is_given(choice):
    """Whether there is a policy to follow; otherwise the best actions are wanted."""
    return len(choice.array) > 0 or len(choice.chosen) > 0


@loop
def is_in(states, s):
    """Whether a state is among some that are in order."""
    low, high = 0, len(states)
    while low < high:
        middle = (low + high) // 2
        if states[middle] < s:
            low = middle + 1
        else:
            high = middle
    return low < len(states) and states[low] == s


@loop
def best_seen(values, seen, first, only):
    """The best of actions that were seen or, unless `only`, of all: then among equals one that was seen."""
    best, top, is_seen, some = -1, -inf, False, False
    for a in range(len(values)):
        some = some or seen[first + a]
    for a in range(len(values)):
        if only and some and not seen[first + a]:
            continue
        if best < 0 or values[a] > top or (values[a] == top and seen[first + a] and not is_seen):
            best, top, is_seen = a, values[a], seen[first + a]
    return best


@loop
def mean_ahead(places, rows, task, h, V):
    """What follows a pair without data: the mean of V (S,) of the next step, or its minimum (`Task.worst`).

    0 if it is not needed since every state has a place and every row has data.
    """
    layer = min(h, len(places.begin) - 2)
    if len(rows.seen) == 0 and places.begin[layer + 1] - places.begin[layer] == len(V):
        return 0.0
    if task.worst:
        least = inf
        for s in range(len(V)):
            least = min(least, V[s])
        return least
    total = 0.0
    for s in range(len(V)):
        total += V[s]
    return total / len(V)


@loop
def outside(places, task, choice, h, mean, found):
    """Step h in the states without a place and in absorbing ones; `mean` is what follows there (`mean_ahead`)."""
    V_next, V = found.V[(h + 1) % len(found.V)], found.V[h % len(found.V)]
    everywhere, known, discount, low, high = task.pay.everywhere, places.known, task.discount, task.low[h], task.high[h]
    S, A, given = len(V), found.Q.shape[2], is_given(choice)
    if given:
        act(choice, h, A, found.actions)
    layer = min(h, len(places.begin) - 2)
    found.ahead[h] = discount * mean
    if given or h + 1 == len(task.low) or len(everywhere) > 1:
        worth(everywhere, known, h, A, given, 0.0, found.actions, found.pays)
    if places.begin[layer + 1] - places.begin[layer] == S and len(places.stays) == 0:
        return
    for s in range(S):
        V[s] = min(high, max(low, found.pays[s] + discount * mean))
    if len(found.Q) > 0:
        for s in range(S):
            for a in range(A):
                q = min(high, max(low, pay_of(everywhere, h, s, a) + discount * mean))
                found.Q[h % len(found.Q), s, a] = -inf if is_illegal(known, A, s, a) else q
    for s in places.stays:
        top = -inf
        for a in range(A):
            q = min(high, max(low, pay_of(everywhere, h, s, a) + discount * V_next[s]))
            q = -inf if is_illegal(known, A, s, a) else q
            if a == found.actions[s] if given else q > top:
                top = q
            if len(found.Q) > 0:
                found.Q[h % len(found.Q), s, a] = q
        V[s] = top


@loop
def inside_plainly(state, first, target, p, pay, discount, mean, V_next, V, chosen, A, begin, end):
    """`inside` for the best of all actions, where nothing is cut off and nothing else is asked for: twice as fast.

    `pay` is (S or 1, A or 1).
    """
    one, two = np.uint64(1), np.uint64(2)
    by_state, by_action = np.uint64(pay.shape[0] > 1), np.uint64(pay.shape[1] > 1)
    row = np.uint64(begin * A)
    e = np.uint64(first[row])
    for i in range(begin, end):
        s, best, top = np.uint64(state[i]), 0, -inf
        for a in range(A):
            row += one
            stop = np.uint64(first[row])
            total = mean if e == stop else 0.0
            while e + one < stop:  # two at a time, because most rows have few successors
                total = (total + p[e] * V_next[np.uint64(target[e])]) + p[e + one] * V_next[np.uint64(target[e + one])]
                e += two
            if e < stop:
                total += p[e] * V_next[np.uint64(target[e])]
                e += one
            q = pay[s * by_state, np.uint64(a) * by_action] + discount * total
            if q > top:
                best, top = a, q
        chosen[i], V[s] = best, top


@loop
def inside(places, rows, task, choice, h, mean, found, values, begin, end):
    """Step h in the states of the places from `begin` to `end`; `values` is scratch space for one number per action.

    Of the actions that are equally good, the smallest number is taken.
    """
    first, target, p, seen = rows
    V_next, V, Q, keeps = found.V[(h + 1) % len(found.V)], found.V[h % len(found.V)], found.Q, len(found.Q) > 0
    chosen, actions, known, stays, state = (
        found.chosen[h % len(found.chosen)],
        found.actions,
        places.known,
        places.stays,
        places.state,
    )
    everywhere, visited, discount, low, high = task.pay.everywhere, task.pay.visited, task.discount, task.low[h], task.high[h]
    A, given, only, prefers = len(values), is_given(choice), task.only_seen[h], task.prefers_seen
    pay, by_row = everywhere[min(h, len(everywhere) - 1)], min(h, len(visited) - 1)
    by_state, by_action = np.uint64(pay.shape[0] > 1), np.uint64(pay.shape[1] > 1)
    doubts = task.worst and len(seen) > 0  # a row may have transitions without having data of its own
    simple = not (given or prefers or keeps or doubts) and low == -inf and high == inf
    if simple and by_row < 0 and len(known) == 0 and len(stays) == 0:
        inside_plainly(state, first, target, p, pay, discount, mean, V_next, V, chosen, A, begin, end)
        return
    row = np.uint64(begin * A)
    for i in range(begin, end):
        s, best, top = np.uint64(state[i]), 0, -inf
        ends = len(stays) > 0 and is_in(stays, state[i])
        for a in range(A):
            e, stop = np.uint64(first[row]), np.uint64(first[row + np.uint64(1)])
            if doubts and not seen[row]:
                e = stop
            total = 0.0 if e < stop else mean
            while e < stop:
                total += p[e] * V_next[np.uint64(target[e])]
                e += np.uint64(1)
            if ends:
                total = V_next[s]
            q = pay[s * by_state, np.uint64(a) * by_action] + discount * total
            if by_row >= 0:
                q = visited[by_row, row] + discount * total
            q = min(high, max(low, q))
            if is_illegal(known, A, s, a):
                q = -inf
            values[a] = q
            if q > top:
                best, top = a, q
            row += np.uint64(1)
        if given:
            best = actions[s]
        elif prefers and not ends:
            best = best_seen(values, seen, i * A, only)
        chosen[i], V[s] = best, values[best]
        if keeps:
            for a in range(A):
                Q[h % len(Q), s, a] = values[a]


class Kinds(NamedTuple):
    """The transitions of a model in which many states in a row have rows that are alike: they go equally far equally often.

    Run j of action a, for runs[a] <= j < runs[a+1], are the states begin[j], ..., begin[j+1] - 1, or up to the last, with rows of
    kind kind[j]. Kind k has the edges first[k], ..., first[k+1] - 1. On a grid there are some dozens of kinds, and a run for each
    of its lines or so, so that nothing but values has to be fetched from far.
    """

    runs: np.ndarray  # (A + 1,) int64; all 0 if there are too many of them
    begin: np.ndarray  # (R,) int64
    kind: np.ndarray  # (R,) int64
    first: np.ndarray  # (K + 1,) int64
    shift: np.ndarray  # int64: the successor of each edge minus the state
    p: np.ndarray  # its probability, not 0


@allocates
def kinds_in(first, target, p, A, most):
    """The `Kinds` of rows, without edges of probability 0, if there are at most that many, and runs of 16 states on average."""
    rows, slots = len(first) - 1, 1
    S = rows // A
    runs, last, of_run = np.zeros(A + 1, np.int64), np.zeros((A, S // 16 + 1), np.int64), np.zeros((A, S // 16 + 1), np.int64)
    while slots < 4 * most:
        slots *= 2
    slot = np.zeros(slots, np.int64)  # a kind + 1, or 0
    start, shift, weight = np.zeros(most + 1, np.int64), np.zeros(64 * most, np.int64), np.zeros(64 * most)
    found = 0
    for row in range(rows):
        begin, s = start[found], row // A
        end, word = begin, np.uint64(0)
        for e in range(first[row], first[row + 1]):
            if p[e] != 0.0:
                if found == most or end == len(shift):
                    begin = -1
                    break
                shift[end], weight[end] = target[e] - s, p[e]
                word = mix(word ^ np.uint64(shift[end]) ^ np.uint64(p[e] * 2.0**53))
                end += 1
        at = np.int64(word & np.uint64(slots - 1))
        while begin >= 0 and slot[at] > 0:
            k = slot[at] - 1
            same = start[k + 1] - start[k] == end - begin
            for i in range(end - begin):
                same = same and shift[start[k] + i] == shift[begin + i] and weight[start[k] + i] == weight[begin + i]
            if same:
                break
            at = (at + 1) % slots
        a, k = row % A, np.int64(-1)
        if begin >= 0:
            if slot[at] == 0:
                found += 1
                slot[at], start[found] = found, end
            k = slot[at] - 1
            j = runs[a + 1]
            if j == 0 or of_run[a, j - 1] != k:
                if j == of_run.shape[1]:
                    k = -1
                else:
                    last[a, j], of_run[a, j], runs[a + 1] = row // A, k, j + 1
        if k < 0:
            runs[:] = 0
            return Kinds(runs, runs[:0], runs[:0], runs[:1], runs[:0], weight[:0])
    for a in range(A):
        runs[a + 1] += runs[a]
    begins, kind = np.zeros(runs[A], np.int64), np.zeros(runs[A], np.int64)
    for a in range(A):
        for j in range(runs[a], runs[a + 1]):
            begins[j], kind[j] = last[a, j - runs[a]], of_run[a, j - runs[a]]
    return Kinds(runs, begins, kind, start[: found + 1].copy(), shift[: start[found]].copy(), weight[: start[found]].copy())


@threaded
def inside_alike(kinds, pay, discount, V_next, V, chosen, begin, end):
    """`inside_plainly` for some states, by runs: the same sums in the same order, of many states at a time."""
    runs, run_begin, kind, first, shift, p = kinds
    A, S, size = len(runs) - 1, len(V), 1024
    at, total, top, best = runs[:A].copy(), np.empty(size), np.empty(size), np.empty(size, np.int32)
    for block in range(begin, end, size):
        m = min(end - block, size)
        for a in range(A):
            s = block
            while s < block + m:
                j = at[a]
                after = run_begin[j + 1] if j + 1 < runs[a + 1] else S
                if after <= s:
                    at[a] += 1
                    continue
                stop, k = min(after, block + m), kind[j]
                here = total[s - block : stop - block]
                here[:] = 0.0
                for e in range(first[k], first[k + 1]):
                    weight, ahead = p[e], V_next[s + shift[e] : stop + shift[e]]
                    for i in range(len(here)):
                        here[i] += weight * ahead[i]
                s = stop
            for i in range(m):
                x = block + i if pay.shape[0] > 1 else 0
                q = pay[x, a if pay.shape[1] > 1 else 0] + discount * total[i]
                if a == 0 or q > top[i]:
                    top[i], best[i] = q, a
        for i in range(m):
            V[block + i], chosen[block + i] = top[i], best[i]


@threaded
def part(places, rows, task, choice, h, mean, found, values, begin, end):
    """`inside`, for several threads."""
    inside(places, rows, task, choice, h, mean, found, values, begin, end)


@threaded
def induct(places, rows, task, choice, found, values, last, first):
    """The steps from `last` down to `first`."""
    for h in range(last, first - 1, -1):
        mean = mean_ahead(places, rows, task, h, found.V[(h + 1) % len(found.V)])
        outside(places, task, choice, h, mean, found)
        layer = min(h, len(places.begin) - 2)
        inside(places, rows, task, choice, h, mean, found, values, places.begin[layer], places.begin[layer + 1])


@loop
def expect(places, rows, h, V, mean, out):
    """Writes the expectation of V, whose mean is given, at the successors of all pairs at step h, out (S, A)."""
    S, A = out.shape
    layer = min(h, len(places.begin) - 2)
    i, end = places.begin[layer], places.begin[layer + 1]
    for s in range(S):
        here = i < end and places.state[i] == s
        for a in range(A):
            row = i * A + a
            out[s, a] = mean
            if here and rows.first[row] < rows.first[row + 1]:
                out[s, a] = 0.0
                for e in range(rows.first[row], rows.first[row + 1]):
                    out[s, a] += rows.p[e] * V[rows.target[e]]
        i += here
    for s in places.stays:
        for a in range(A):
            out[s, a] = V[s]


@loop
def expect_at(places, rows, h, V, mean, states, actions, out):
    """`expect` for some pairs: writes the expectation of V, whose mean is given, at their successors, out (K,)."""
    A = len(rows.first) // max(1, len(places.state))
    layer = min(h, len(places.begin) - 2)
    for k in range(len(out)):
        low, end = places.begin[layer], places.begin[layer + 1]
        high = end
        while low < high:
            middle = (low + high) // 2
            if places.state[middle] < states[k]:
                low = middle + 1
            else:
                high = middle
        out[k] = mean
        if len(places.stays) > 0 and is_in(places.stays, states[k]):
            out[k] = V[states[k]]
        elif low < end and places.state[low] == states[k]:
            row = low * A + actions[k]
            if rows.first[row] < rows.first[row + 1]:
                out[k] = 0.0
                for e in range(rows.first[row], rows.first[row + 1]):
                    out[k] += rows.p[e] * V[rows.target[e]]


@loop
def push(places, rows, h, mass, actions, out):
    """Writes the distribution of the state after step h, (S,), from the one before it under the actions (S,) of a policy."""
    S, A, spread = len(mass), len(rows.first) // max(1, len(places.state)), 0.0
    layer = min(h, len(places.begin) - 2)
    i, end = places.begin[layer], places.begin[layer + 1]
    for s in range(S):
        out[s] = 0.0
    for s in range(S):
        here = i < end and places.state[i] == s
        if mass[s] > 0.0 and not (len(places.stays) > 0 and is_in(places.stays, s)):
            row = i * A + actions[s]
            if here and rows.first[row] < rows.first[row + 1]:
                for e in range(rows.first[row], rows.first[row + 1]):
                    out[rows.target[e]] += rows.p[e] * mass[s]
            else:
                spread += mass[s]
        i += here
    for s in range(S):
        out[s] += spread / S
    for s in places.stays:
        out[s] += mass[s]

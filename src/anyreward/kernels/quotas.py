"""Collecting planned amounts of data: where to go for them, and how they are counted.

`occupancy` finds the policy that earns most in the empirical model, where to pass through a row at step h earns
weight_h need(row), and how often it is expected to pass through each row. `count` reads episodes in the order in which they were
played, and counts the first samples of every law of a design.
"""

from __future__ import annotations

import numpy as np

from .compiled import loop
from .rf import total_ahead
from .table import is_known, row_of

READ, FILLED = np.int64(-1), np.int64(-2)  # in place of a law: all episodes were read; all quotas are filled


@loop
def occupancy(table, A, weight, need, V, best, mass, visits):
    """Writes the policy that earns most, `best` (P, N), and adds the expected visits of its rows to `visits` (N * A,).

    Rows without data lead nowhere, and are avoided where there are others.
    """
    node_of, state, following, head, n, first, size, _, target, seen, _, _, _, known, starts, start_p = table
    H = len(weight)
    V[:] = 0.0
    for h in range(H - 1, -1, -1):
        plane, plane_next, layer = min(h, len(V) - 1), min(h + 1, len(V) - 1), min(h, len(head) - 1)
        node = head[layer]
        while node != 0:
            top, top_a = -1.0, 0
            row = row_of(node, A, 0)
            for a in range(A):
                if size[row] > 0 and not is_known(known, A, state[node], a):
                    q = weight[h] * need[row] + total_ahead(first, size, target, seen, V[plane_next], row) / n[row]
                    top_a = a if q > top else top_a
                    top = max(q, top)
                row += np.uint64(1)
            V[plane, node], best[plane, node] = max(0.0, top), top_a
            node = following[node]
    mass[:] = 0.0
    for k in range(len(starts)):
        mass[0, node_of[0, starts[k]]] += start_p[k]
    if len(starts) == 0 and n[0] > 0:
        for e in range(first[0], first[0] + size[0]):
            mass[0, target[e]] = seen[e] / n[0]
    for h in range(H):
        plane, plane_next, layer = min(h, len(V) - 1), min(h + 1, len(V) - 1), min(h, len(head) - 1)
        node = head[layer]
        while node != 0:
            here = mass[plane, node]
            a = best[plane, node]
            row = row_of(node, A, a)
            if here > 0.0 and size[row] > 0 and not is_known(known, A, state[node], a):
                visits[row] += here
                for e in range(first[row], first[row] + size[row]):
                    mass[plane_next, target[e]] += here * seen[e] / n[row]
            node = following[node]


@loop
def count(node_of, A, states, actions, episode, step, law, start, first, symbols, quota, seen, filled):
    """Counts samples from (episode, step) on, until one lies outside the set of its law; returns that place and the law.

    `law` (N * A,) is the law of the design of each row of the table, -1 for none, and `start` that of the initial state, whose
    place is step -1. The sets are `symbols[first[i]:first[i + 1]]`. It also returns at the end of an episode that has filled the
    last quota, and when all is read.
    """
    last, missing = len(node_of) - 1, 0
    for i in range(len(quota)):
        missing += filled[i] < quota[i]
    for b in range(episode, len(states)):
        for h in range(step if b == episode else -1, actions.shape[1]):
            i = start
            if h >= 0:
                i = law[row_of(node_of[min(h, last), states[b, h]], A, actions[b, h])]
            if i < 0 or filled[i] >= quota[i]:
                continue
            place = first[i]
            while place < first[i + 1] and symbols[place] != states[b, h + 1]:
                place += 1
            if place == first[i + 1]:
                return b, h, i
            seen[place] += 1
            filled[i] += 1
            missing -= filled[i] == quota[i]
        if missing == 0:
            return b + 1, -1, FILLED
    return len(states), -1, READ

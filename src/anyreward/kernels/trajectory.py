"""The trajectory certificate: backward passes for given multipliers, and the search for good multipliers.

With steps h and times j from 0, multipliers lambda_j > 0, KL radii c, total variation radii tau, and
w_h = gamma^(h+1) sigma_{H-1-h}, the largest value after step h, the number Phi in

    kappa_h  = sum_{j > h} gamma^j / (4 lambda_j)
    W_h(s,a) = min( w_h, min(kappa_h c_h(s,a), w_h tau_h(s,a)) + sum_s' p_hat(s'|s,a) max_b W_{h+1}(s',b) ),   w_h without data
    Phi      = sum_j gamma^j lambda_j / 2 + max_a W_0(s_0, a)

is a valid error bound for every choice of multipliers; s_0 is the state at step 0, over which the expectation is taken if it is
random (`docs/theory.md`, 5).

j runs from 1 if the distribution of the initial state is known; an estimated one adds j = 0 and a row in front of everything. If
all multipliers are 0, there are no KL charges: this is the recursion with total variation radii. If rewards depend on the
successor, the reward of step j also comes after transition j: then w_h = gamma^h sigma_{H-h}, kappa_h sums over j >= h, and j
runs from 0.
"""

from __future__ import annotations

from math import inf, sqrt

import numpy as np

from .compiled import allocates, inlined, loop
from .rf import steps_that_matter, total_ahead
from .table import expected_error, is_known, row_of


@inlined
def charge(kappa, w, c, tau):
    """The cost of passing through a row: by its KL radius or by its total variation radius, whichever is smaller."""
    return min(kappa * c if c > 0.0 else 0.0, w * tau)


@loop
def backward(state, known, following, head, first, size, target, seen, n, c, tau, kappa, w, A, V, best):
    """One backward pass: writes V = max_a W and the greedy actions."""
    for h in range(steps_that_matter(w) - 1, -1, -1):
        plane, plane_next, layer = min(h, len(V) - 1), min(h + 1, len(V) - 1), min(h, len(head) - 1)
        cap, k = w[h], kappa[h]
        node = head[layer]
        while node != 0:
            top, top_a = -1.0, 0
            row = row_of(node, A, 0)
            for a in range(A):
                if size[row] == 0:
                    q = 0.0 if is_known(known, A, state[node], a) else cap
                else:
                    ahead = total_ahead(first, size, target, seen, V[plane_next], row) / n[row]
                    q = min(cap, charge(k, cap, c[row], tau[row]) + ahead)
                top_a = a if q > top else top_a
                top = max(q, top)
                row += np.uint64(1)
            V[plane, node], best[plane, node] = top, top_a
            node = following[node]


@loop
def start_value(table, A, c, tau, kappa_start, w_start, w_first, V):
    """W before the first step; w_start is sigma_H if the distribution of the initial state is estimated."""
    if len(table.starts) > 0:
        return expected_error(table, A, V[0], w_first)
    if table.n[0] == 0:
        return w_start
    ahead = total_ahead(table.first, table.size, table.target, table.seen, V[0], np.uint64(0)) / table.n[0]
    return min(w_start, charge(kappa_start, w_start, c[0], tau[0]) + ahead)


@loop
def forward(table, c, tau, kappa, kappa_start, w, w_start, A, V, best, mass, G):
    """The expected KL charges under the greedy policy in the empirical model: G[0] at the start, G[h+1] at step h."""
    node_of, _, following, head, n, first, size, _, target, seen, _, _, _, _, starts, start_p = table
    G[:] = 0.0
    mass[:] = 0.0
    for k in range(len(starts)):  # what starts in a state that was not visited goes to node 0, from where nothing goes on
        mass[0, node_of[0, starts[k]]] += start_p[k]
    if len(starts) == 0 and n[0] > 0:
        if kappa_start * c[0] <= w_start * tau[0]:
            G[0] = c[0]
        for e in range(first[0], first[0] + size[0]):
            mass[0, target[e]] = seen[e] / n[0]
    for h in range(steps_that_matter(w)):
        plane, plane_next, layer = min(h, len(V) - 1), min(h + 1, len(V) - 1), min(h, len(head) - 1)
        node = head[layer]
        while node != 0:
            here = mass[plane, node]
            row = row_of(node, A, best[plane, node])
            if here > 0.0 and size[row] > 0:
                ahead = total_ahead(first, size, target, seen, V[plane_next], row) / n[row]
                if charge(kappa[h], w[h], c[row], tau[row]) + ahead < w[h]:
                    if kappa[h] * c[row] <= w[h] * tau[row]:
                        G[h + 1] += here * c[row]
                    for e in range(first[row], first[row] + size[row]):
                        mass[plane_next, target[e]] += here * seen[e] / n[row]
            node = following[node]


@loop
def set_kappa(lam, discounts, arrival, kappa):
    """Writes kappa_h for given multipliers; returns kappa for the initial draw, and the constant part of Phi."""
    total, constant = 0.0, 0.0
    for j in range(len(lam) - 1, -1, -1):
        kappa[j] = total  # only times after j, ...
        if lam[j] > 0.0:
            total += discounts[j] / (4.0 * lam[j])
            constant += discounts[j] * lam[j] / 2.0
        if arrival:
            kappa[j] = total  # ... and j itself if its reward depends on the successor
    return total, constant


@allocates
def search(table, A, c, tau, w, w_start, discounts, arrival, planes, coarse, fine):
    """The smallest Phi that was found, with its multipliers (H,), which are all 0 if total variation radii alone were best.

    Candidates are the recursion with total variation radii, `coarse` scales of multipliers, and `fine` steps from the best of
    them.
    """
    _, state, following, head, n, first, size, _, target, seen, _, _, _, known, _, _ = table
    H = len(w)
    estimates_start = w_start > 0.0
    N = len(table.state)
    V, mass, best = np.zeros((planes, N)), np.zeros((planes, N)), np.zeros((planes, N), np.uint32)
    kappa, lam, trial, G = np.full(H, inf), np.zeros(H), np.zeros(H), np.zeros(H + 1)
    backward(state, known, following, head, first, size, target, seen, n, c, tau, kappa, w, A, V, best)
    smallest = start_value(table, A, c, tau, inf, w_start, w[0], V)
    behind = int(estimates_start) + int(arrival)  # how many distributions the reward of time 0 depends on
    times = H - 1 + behind
    if times == 0:
        return smallest, lam
    for i in range(coarse + fine):
        if i < coarse:  # lambda_j is proportional to the root of the number of earlier draws, at one scale after the other
            for j in range(H):
                trial[j] = 2.0 * 0.5**i * sqrt((j + behind) / times)
        else:
            if i == coarse:
                if lam[H - 1] == 0.0:
                    break
                for j in range(H):
                    trial[j] = lam[j]
                kappa_start, constant = set_kappa(trial, discounts, arrival, kappa)
                backward(state, known, following, head, first, size, target, seen, n, c, tau, kappa, w, A, V, best)
            # At the optimum lambda_j^2 = G_{<j} / 2. Go half the way in that direction, in logarithms.
            forward(table, c, tau, kappa, kappa_start, w, w_start, A, V, best, mass, G)
            before = G[0]
            for j in range(H):
                if arrival:
                    before += G[j + 1]
                if trial[j] > 0.0:
                    trial[j] = max(1e-12, sqrt(trial[j] * sqrt(0.5 * before)))
                if not arrival:
                    before += G[j + 1]
        kappa_start, constant = set_kappa(trial, discounts, arrival, kappa)
        backward(state, known, following, head, first, size, target, seen, n, c, tau, kappa, w, A, V, best)
        phi = constant + start_value(table, A, c, tau, kappa_start, w_start, w[0], V)
        if phi < smallest:
            smallest = phi
            for j in range(H):
                lam[j] = trial[j]
    return smallest, lam

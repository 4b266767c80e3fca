"""The trajectory certificate: backward passes for given multipliers, and the search for good multipliers.

With steps h and times j from 0, multipliers lambda_j > 0, KL radii c, total variation radii tau, and
w_h = gamma^(h+1) sigma_{H-1-h}, the largest value after step h, the number Phi in

    kappa_h  = sum_{j > h} gamma^j / (4 lambda_j)
    W_h(s,a) = min( w_h, min(kappa_h c_h(s,a), w_h tau_h(s,a)) + sum_s' p_hat(s'|s,a) max_b W_{h+1}(s',b) ),   w_h without data
    Phi      = sum_j gamma^j lambda_j / 2 + max_a W_0(s_0, a)

is a valid error bound for every choice of multipliers; s_0 is the state at step 0, over which the expectation is taken if it is
random (`docs/theory.md`, 5.1 and 5.2).

j runs from 1 if the distribution of the initial state is known; an estimated one adds j = 0 and a row in front of everything. If
all multipliers are 0, there are no KL charges: this is the recursion with total variation radii. If rewards depend on the
successor, the reward of step j also comes after transition j: then w_h = gamma^h sigma_{H-h}, kappa_h sums over j >= h, and j
runs from 0.

**All rows of a trajectory together** (`docs/theory.md`, 13.3). If transitions depend on the step, one martingale over
trajectories replaces most of the union bound. With a further multiplier u > 0, L the logarithm of (laws / delta) in the radii c,
and eta = min(eta*, (kappa_h + u)/(u n)), a row costs

    kappa_h c - u (eta L - kl(eta, 1/2) - c - log A)

in place of kappa_h c, log 2 for every step that is left is added to the cost w_h of a stop, in units of u, and u log(1/delta_1)
to Phi. Both kinds of Phi hold on one event, so the smaller one counts.
"""

from __future__ import annotations

from math import exp, inf, log, sqrt
from typing import NamedTuple

import numpy as np

from .compiled import allocates, inlined, loop
from .radii import settle_tv
from .rf import steps_that_matter, total_ahead
from .table import NODES, expected_error, is_illegal, is_known, row_of

LOG_2 = log(2.0)
GRID = 1024  # kl(eta, 1/2) is interpolated between multiples of 1 / GRID: it is convex in eta, so the result is never below it
ETA = np.minimum(np.arange(GRID + 2) / GRID, 1.0)
KL = LOG_2 + np.array([x * log(x) + (1 - x) * log(1 - x) if 0 < x < 1 else 0.0 for x in ETA])
MARGIN = 1e-9  # nats added to the cost of a row in the joint bound: much more than rounding errors


class Joint(NamedTuple):
    """The constants of the joint bound of all rows of a trajectory."""

    u: float  # the multiplier; 0 leaves the joint bound out
    level: float  # L, the logarithm of the number of laws over delta: n c = L + psi
    most: float  # eta*, the eta with the largest saving


@inlined
def share(kappa, n, joint):
    """eta: how much of the row's own martingale is used."""
    return min(joint.most, (kappa + joint.u) / (joint.u * n))


@inlined
def saving(eta, joint):
    """eta L - kl(eta, 1/2), in nats, or a little less."""
    x = eta * GRID
    k = np.int64(x)
    return eta * joint.level - KL[k] - (x - k) * (KL[k + 1] - KL[k])


@inlined
def charge(kappa, w, c, tau, row):
    """The cost of passing through a row: by its KL radius or by its total variation radius, whichever is smaller.

    With a declared structure it is the sum over the draws of the row, whose radii are c[row, i] and tau[row, i].
    """
    if c.ndim == 1:
        return min(kappa * c[row] if c[row] > 0.0 else 0.0, w * tau[row])
    total = 0.0
    for i in range(c.shape[1]):
        total += min(kappa * c[row, i] if c[row, i] > 0.0 else 0.0, w * tau[row, i])
    return total


@inlined
def slope(kappa, w, c, tau, row):
    """The derivative of `charge` in kappa."""
    if c.ndim == 1:
        return c[row] if kappa * c[row] <= w * tau[row] else 0.0
    total = 0.0
    for i in range(c.shape[1]):
        if kappa * c[row, i] <= w * tau[row, i]:
            total += c[row, i]
    return total


@inlined
def cost(kappa, w, c, tau, row, n, actions, joint):
    """What a row costs, with the joint bound if it is used.

    `actions` is the logarithm of the number of actions among which the policy chooses.
    """
    if c.ndim == 2:
        return charge(kappa, w, c, tau, row)
    u = joint.u
    if u == 0.0:
        return charge(kappa, w, c, tau, row)
    by_kl = kappa * c[row] - u * saving(share(kappa, n, joint), joint)
    return max(0.0, min(by_kl, w * tau[row] + u * LOG_2)) + u * (c[row] + actions + MARGIN)


@inlined
def slopes(kappa, w, c, tau, row, n, actions, joint):
    """The derivatives of `cost` in kappa and in u."""
    if c.ndim == 2:
        return slope(kappa, w, c, tau, row), 0.0
    u, c_row = joint.u, c[row]
    if u == 0.0:
        return slope(kappa, w, c, tau, row), 0.0
    eta = share(kappa, n, joint)
    if kappa * c_row - u * saving(eta, joint) > w * tau[row] + u * LOG_2:
        return 0.0, c_row + actions + LOG_2
    more = joint.level - log(eta / (1.0 - eta)) if eta < joint.most else 0.0  # the derivative of the saving
    return c_row - more / n, c_row + actions - saving(eta, joint) + more * (eta - 1.0 / n)


@inlined
def log_actions(known, A, s):
    """The logarithm of the number of legal actions in a state."""
    legal = A
    if len(known) > 0:
        for a in range(A):
            legal -= is_illegal(known, A, s, a)
    return log(max(1.0, float(legal)))


@inlined
def stop(w, u, left):
    """The cost of a stop with `left` steps to go whose transitions matter."""
    return w + u * LOG_2 * left


@loop
def backward(table, c, tau, kappa, w, A, joint, V, best):
    """One backward pass: writes V = max_a W and the greedy actions."""
    _, state, following, head, n, first, size, _, target, seen, _, _, _, known, _, _ = table
    u = joint.u
    steps, actions = steps_that_matter(w), log(float(A))
    for h in range(steps - 1, -1, -1):
        plane, plane_next, layer = min(h, len(V) - 1), min(h + 1, len(V) - 1), min(h, len(head) - 1)
        cap, k = stop(w[h], u, steps - h), kappa[h]
        node = head[layer]
        while node != 0:
            top, top_a = -1.0, 0
            row = row_of(node, A, 0)
            if u > 0.0 and len(known) > 0:
                actions = log_actions(known, A, state[node])
            for a in range(A):
                if is_known(known, A, state[node], a):
                    q = 0.0
                elif n[row] == 0:
                    q = cap
                else:
                    ahead = total_ahead(first, size, target, seen, V[plane_next], row) / n[row]
                    q = min(cap, cost(k, w[h], c, tau, row, n[row], actions, joint) + ahead)
                top_a = a if q > top else top_a
                top = max(q, top)
                row += np.uint64(1)
            V[plane, node], best[plane, node] = top, top_a
            node = following[node]


@loop
def start_value(table, A, c, tau, kappa_start, w_start, w, joint, V):
    """W before the first step; w_start is sigma_H if the distribution of the initial state is estimated."""
    steps = steps_that_matter(w)
    if len(table.starts) > 0:
        return expected_error(table, A, V[0], stop(w[0], joint.u, steps))
    cap = stop(w_start, joint.u, steps + 1)
    if table.n[0] == 0:
        return cap
    ahead = total_ahead(table.first, table.size, table.target, table.seen, V[0], np.uint64(0)) / table.n[0]
    return min(cap, cost(kappa_start, w_start, c, tau, np.uint64(0), table.n[0], 0.0, joint) + ahead)


@loop
def forward(table, c, tau, kappa, kappa_start, w, w_start, A, joint, V, best, mass, G):
    """How the largest expected cost changes with kappa and u: the derivatives of the charges under the greedy policy.

    G[0] is the derivative in kappa_start, G[h+1] that in kappa_h. Returns the derivative in u.
    """
    node_of, state, following, head, n, first, size, _, target, seen, _, _, _, known, starts, start_p = table
    u, steps, actions = joint.u, steps_that_matter(w), log(float(A))
    G[:] = 0.0
    mass[:] = 0.0
    total = 0.0
    for k in range(len(starts)):  # what starts in a state that was not visited goes to node 0, from where nothing goes on
        mass[0, node_of[0, starts[k]]] += start_p[k]
    if len(starts) == 0 and n[0] > 0:
        G[0], total = slopes(kappa_start, w_start, c, tau, np.uint64(0), n[0], 0.0, joint)
        for e in range(first[0], first[0] + size[0]):
            mass[0, target[e]] = seen[e] / n[0]
    for h in range(steps):
        plane, plane_next, layer = min(h, len(V) - 1), min(h + 1, len(V) - 1), min(h, len(head) - 1)
        cap = stop(w[h], u, steps - h)
        node = head[layer]
        while node != 0:
            here = mass[plane, node]
            row = row_of(node, A, best[plane, node])
            if here > 0.0 and not is_known(known, A, state[node], best[plane, node]):
                if u > 0.0 and len(known) > 0:
                    actions = log_actions(known, A, state[node])
                ahead = total_ahead(first, size, target, seen, V[plane_next], row) / n[row] if n[row] > 0 else 0.0
                if n[row] > 0 and cost(kappa[h], w[h], c, tau, row, n[row], actions, joint) + ahead < cap:
                    by_kappa, by_u = slopes(kappa[h], w[h], c, tau, row, n[row], actions, joint)
                    G[h + 1] += here * by_kappa
                    total += here * by_u
                    for e in range(first[row], first[row] + size[row]):
                        mass[plane_next, target[e]] += here * seen[e] / n[row]
                else:
                    total += here * LOG_2 * (steps - h)
            node = following[node]
    return total


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


@loop
def towards_optimum(trial, G, arrival):
    """Changes multipliers half the way, in logarithms, towards the optimum, where lambda_j^2 = G_{<j} / 2."""
    before = G[0]
    for j in range(len(trial)):
        if arrival:
            before += G[j + 1]
        if trial[j] > 0.0:
            trial[j] = max(1e-12, sqrt(trial[j] * sqrt(max(0.0, 0.5 * before))))
        if not arrival:
            before += G[j + 1]


@loop
def copy(source, target):
    """target[:] = source, which as such takes a second to compile."""
    for j in range(len(source)):
        target[j] = source[j]


@inlined
def row_gain(known, A):
    """nu, the least of (kl(eta, 1/2) + log A) / eta over eta: what a row costs at least (`docs/theory.md`, 23.2).

    0, which is less, if some actions may be illegal.
    """
    return log(2.0 * A - 1.0) if len(known) == 0 else 0.0


@loop
def least_radii(table, A, S, log_laws, joint, limited, c, tau):
    """Writes numbers below what the radii of rows come to in Phi, without thresholds, into c and tau (N A,).

    tau is the largest d with d^2 / (q (1 - q)) <= c, where q = x + d and x is the frequency of one successor or, if some are
    unseen, 0: kl(x, q) is below that quotient.
    """
    gain = row_gain(table.known, A)
    for row in range(np.int64(table.used[NODES]) * A):
        certain = is_known(table.known, A, table.state[row // A], row % A) if row >= A else len(table.starts) > 0
        if table.n[row] > 0 and not certain:
            level = log_laws / table.n[row]
            c[row] = min(level, (gain if row >= A else 0.0) / table.n[row]) if joint else level
            unseen, spread = not limited and table.size[row] < S and row >= A, 0.0  # spread: the largest x (1 - x)
            for e in range(table.first[row], table.first[row] + table.size[row]):
                x = table.seen[e] / table.n[row]
                spread = max(spread, x * (1.0 - x))
            if spread > 0.0:
                slant = level * sqrt(max(0.0, 1.0 - 4.0 * spread))  # c (1 - 2 x) for the smaller one of x and 1 - x
                tau[row] = (slant + sqrt(slant * slant + 4.0 * (1.0 + level) * level * spread)) / (2.0 * (1.0 + level))
            if unseen:
                tau[row] = max(tau[row], level / (1.0 + level))


@loop
def nothing_below(goal, depth, table, A, c, tau, w, w_start, discounts, arrival, kappa, V, best):
    """Whether Phi is certain to be above `goal` > 0 for all multipliers; c and tau are at most what rows cost.

    If the constant part of Phi(lambda) is at most x goal, then kappa_h >= (sum_{j > h} gamma^j)^2 / (8 x goal), by Cauchy and
    Schwarz. So Phi(lambda) >= min over x of x goal + W(x), where W(x) is the backward pass for this kappa, and falls with x. One
    pass settles all from x down to 1 - W(x) / goal, which is the next x (`docs/theory.md`, 23.1). Passes over the first `depth`
    steps alone, as if nothing were lost later, come first. V has to be 0 behind them.
    """
    steps, x, apart = steps_that_matter(w), 1.0, Joint(0.0, 0.0, 0.0)
    while 0 < depth <= steps:
        total = 0.0
        for j in range(len(w) - 1, -1, -1):
            behind = total + discounts[j]
            kappa[j] = (behind if arrival else total) ** 2 / (8.0 * x * goal)
            if j > 0 or arrival or w_start > 0.0:
                total = behind
        backward(table, c, tau, kappa, w[:depth], A, apart, V, best)
        value = start_value(table, A, c, tau, total**2 / (8.0 * x * goal), w_start, w[:depth], apart, V)
        settled = 1.0 - (1.0 - 1e-9) * value / goal
        if value >= goal:
            return True
        if settled < (0.9 if depth == steps else 0.5) * x:
            x = settled
        elif depth < steps:
            depth = min(steps, 2 * depth)
        else:
            return False
    return False


@allocates
def is_above(goal, depth, table, A, S, w, w_start, discounts, arrival, planes, log_laws, joint, limited):
    """`nothing_below`, from visits alone."""
    N = table.used[NODES]
    c, tau = np.zeros(N * A), np.zeros(N * A)
    least_radii(table, A, S, log_laws, joint, limited, c, tau)
    V, best, kappa = np.zeros((planes, N)), np.zeros((planes, N), np.uint32), np.zeros(len(w))
    depth = min(depth, steps_that_matter(w))
    return nothing_below(goal, depth, table, A, c, tau, w, w_start, discounts, arrival, kappa, V, best)


class Unsettled(NamedTuple):
    """What it takes to compute total variation radii of which there are only lower bounds (`radii.settle_tv`)."""

    exact: np.ndarray  # (N * A,) uint8: which rows have their radius; empty if all have
    S: int
    kind: int
    K: int
    sums: np.ndarray  # scratch space for `radii.tv_radius`
    settled: np.ndarray  # (H,): the largest kappa_h so far; 0 at first
    most: np.ndarray  # (H,): inf


@allocates
def search(table, A, c, tau, w, w_start, discounts, arrival, planes, coarse, fine, level, log_joint, unsettled):
    """The smallest Phi that was found, with its multipliers (H,) and its u.

    The multipliers are all 0 if total variation radii alone were best, u is 0 if the joint bound is not used. Candidates are the
    recursion with total variation radii, `coarse` scales of multipliers, `fine` steps from the best of them, and as many for the
    joint bound. `log_joint` is log(1/delta_1); it is 0 if there is no joint bound.

    Lower bounds in tau (`unsettled`) are replaced by the radii where these matter. All of them do if the recursion with lower
    bounds is not above some other candidate; mostly it is.
    """
    options = coarse, fine, level, log_joint, unsettled
    below = len(unsettled.exact) > 0
    phi, lam, u = candidates(table, A, c, tau, w, w_start, discounts, arrival, planes, below, *options)
    if below and lam[len(w) - 1] == 0.0:
        settle_tv(table, A, c, tau, unsettled.most, w, unsettled)
        return candidates(table, A, c, tau, w, w_start, discounts, arrival, planes, False, *options)
    return phi, lam, u


@allocates
def candidates(table, A, c, tau, w, w_start, discounts, arrival, planes, below, coarse, fine, level, log_joint, unsettled):
    """`search`. If `below`, it returns without multipliers if they seem to be no better than the recursion with lower bounds."""
    H, N = len(w), table.used[NODES]
    estimates_start = w_start > 0.0
    V, mass, best = np.zeros((planes, N)), np.zeros((planes, N)), np.zeros((planes, N), np.uint32)
    kappa, lam, trial, G = np.full(H, inf), np.zeros(H), np.zeros(H), np.zeros(H + 1)
    most = 1.0 / (1.0 + exp(-level))
    apart = Joint(0.0, level, most)
    backward(table, c, tau, kappa, w, A, apart, V, best)
    smallest, best_u = start_value(table, A, c, tau, inf, w_start, w, apart, V), 0.0
    behind = int(estimates_start) + int(arrival)  # how many distributions the reward of time 0 depends on
    times = H - 1 + behind
    if times == 0 or coarse == 0:
        return smallest, lam, best_u
    if c.ndim == 1 and smallest > 0.0 and not below:  # while nothing is known of most rows, no multipliers are better than none
        least = np.empty(N * A)
        for row in range(N * A):
            least[row] = c[row]
            if log_joint > 0.0 and c[row] > 0.0:
                gain = row_gain(table.known, A) if row >= A else 0.0
                least[row] = max(0.0, c[row] - max(0.0, level - gain) / table.n[row] - 1e-12)
        if nothing_below(smallest, steps_that_matter(w), table, A, least, tau, w, w_start, discounts, arrival, kappa, V, best):
            return smallest, lam, best_u
    for i in range(coarse):  # lambda_j is proportional to the root of the number of earlier draws, at one scale after the other
        for j in range(H):
            trial[j] = 2.0 * 0.5**i * sqrt((j + behind) / times)
        kappa_start, constant = set_kappa(trial, discounts, arrival, kappa)
        backward(table, c, tau, kappa, w, A, apart, V, best)
        value = start_value(table, A, c, tau, kappa_start, w_start, w, apart, V)
        if constant + value < smallest and settle_tv(table, A, c, tau, kappa, w, unsettled):
            backward(table, c, tau, kappa, w, A, apart, V, best)
            value = start_value(table, A, c, tau, kappa_start, w_start, w, apart, V)
        if constant + value < smallest:
            smallest = constant + value
            copy(trial, lam)
        if value >= smallest:  # it grows with kappa: smaller scales are worse
            break
    start, before, u, usual = lam.copy(), smallest, 0.0, lam[H - 1] > 0.0
    if not usual:
        if below or log_joint == 0.0:
            return smallest, lam, best_u
        # Apart, rows say nothing yet: the joint bound has to find a scale of its own, with u near the mean of kappa / n.
        visits, rows, lowest = 0.0, 0.0, inf
        for row in range(A, len(table.n)):
            visits += table.n[row]
            rows += table.n[row] > 0
        for i in range(coarse):
            for j in range(H):
                trial[j] = 2.0 * 0.5**i * sqrt((j + behind) / times)
            kappa_start, constant = set_kappa(trial, discounts, arrival, kappa)
            trial_u = kappa[0] * rows / max(1.0, visits)
            joint = Joint(trial_u, level, most)
            backward(table, c, tau, kappa, w, A, joint, V, best)
            phi = constant + start_value(table, A, c, tau, kappa_start, w_start, w, joint, V) + trial_u * log_joint
            if phi < lowest:
                lowest, u = phi, trial_u
                copy(trial, start)
        if lowest < smallest:
            smallest, best_u = lowest, u
            copy(start, lam)
    for together in (True, False):
        if not (together or usual):
            break
        copy(start, trial)
        kappa_start, constant = set_kappa(trial, discounts, arrival, kappa)
        settle_tv(table, A, c, tau, kappa, w, unsettled)
        backward(table, c, tau, kappa, w, A, apart, V, best)
        joint, factor, fell = apart, 2.0, False
        if together:
            if log_joint == 0.0:
                continue
            if usual:
                forward(table, c, tau, kappa, kappa_start, w, w_start, A, apart, V, best, mass, G)
                u = kappa_start * G[0] if estimates_start else 0.0
                for h in range(H):
                    u += kappa[h] * G[h + 1]
                u /= level * times  # eta is near 1 if u is the mean of kappa / n, and n c is about L
            joint = Joint(u, level, most)
            backward(table, c, tau, kappa, w, A, joint, V, best)
        elif smallest < 0.9 * before:  # the steps below would not save as much
            break
        for i in range(fine):
            by_u = forward(table, c, tau, kappa, kappa_start, w, w_start, A, joint, V, best, mass, G) + log_joint
            towards_optimum(trial, G, arrival)
            if together:  # down the slope, by smaller steps once it has changed its sign
                if i > 0 and (by_u < 0.0) != fell:
                    factor = sqrt(factor)
                fell = by_u < 0.0
                u = u * factor if fell else u / factor
                joint = Joint(u, level, most)
            kappa_start, constant = set_kappa(trial, discounts, arrival, kappa)
            settle_tv(table, A, c, tau, kappa, w, unsettled)
            backward(table, c, tau, kappa, w, A, joint, V, best)
            phi = constant + start_value(table, A, c, tau, kappa_start, w_start, w, joint, V) + joint.u * log_joint
            if phi < smallest:
                smallest, best_u = phi, joint.u
                copy(trial, lam)
    return smallest, lam, best_u

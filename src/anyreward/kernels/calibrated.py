"""The calibrated certificate: laws that dominate the deviances, draws of the worst error, and what the sets can miss.

`docs/theory.md`, 14.1 and 14.2, have the theorem and its notation; steps are from 0 here. A *row* is a law with a fixed number m
of counted samples. Calibrated rows have a set B of outcomes and a random deviance y; rows charged by a union bound have a fixed
one. For multipliers lambda, one draw of the deviances gives

    kappa_h  = sum_{j > h} gamma^j / (4 lambda_j)
    W_h(s)   = max over rows of min( w_h, min(kappa_h y/m, w_h g) + max { q W_{h+1} : q on B, TV(q, p_hat) <= t } )
    phi      = sum_j gamma^j lambda_j / 2 + W_0(start)

where g is a bound on the total variation between p_hat and the law on B, and t how far q may be from p_hat (0 for union rows). A
state in which some action has no row is *unknown*: its W_h is w_h. Nothing else is stored of it, so all arrays here have the size
of what was designed and counted.
"""

from __future__ import annotations

from math import cos, erfc, floor, inf, log, log1p, pi, sin, sqrt
from typing import NamedTuple

import numpy as np

from .compiled import inlined, loop, threaded
from .greedy import mix
from .radii import ENUMERATED, NOTHING_KNOWN, kl_up, psi_support, tv_radius
from .trajectory import charge, set_kappa

ABSORBING, UNKNOWN, FIRST = 0, 1, 2  # slots of a plane of values: never left; some action has no row; the first other state
STREAM = np.uint64(0x9E3779B97F4A7C15)
LOG_2 = log(2.0)
MARGIN = 1.0 + 1e-12  # on simulated deviances: more than the rounding of the few operations that make them


class Model(NamedTuple):
    """The rows of all states whose actions all have rows. T is the number of steps that matter, L is T, or 1 if stationary."""

    w: np.ndarray  # (T,) float64: what an error at a step can cost
    w_start: float  # the same for the estimated distribution of the initial state; 0 if it is known
    plane: np.ndarray  # (T + 2,) int64: where the values of each step begin, and the end; those of step T are 0
    nodes: np.ndarray  # (L + 1,) int64: the first node of each layer. Node i of a layer has slot FIRST + i
    ends: np.ndarray  # (T,) int64: the end of those nodes of a layer that can be reached at a step
    rows: np.ndarray  # (N + 1,) int64: the first row of each node. Row 0 is the distribution of the initial state
    edges: np.ndarray  # (R + 1,) int64: the first edge of each row
    slot: np.ndarray  # (E,) uint32: where an edge leads, in the plane of the next step
    p: np.ndarray  # (E,) float64: the empirical probability of an edge
    start_slot: np.ndarray  # (K,) uint32: the initial states, if their distribution is known
    start_p: np.ndarray  # (K,) float64


class Charges(NamedTuple):
    """What each row costs: for union rows always, for calibrated rows in one draw."""

    c: np.ndarray  # (R,) float64: a bound on the KL divergence
    g: np.ndarray  # (R,) float64: a bound on the total variation
    t: np.ndarray  # (R,) float64: how far, in total variation, the successors' distribution may be from the empirical one


class Laws(NamedTuple):
    """The laws that dominate the deviances of C calibrated rows: sums of independent stages, cut off."""

    row: np.ndarray  # (C,) int64: their rows in the model
    m: np.ndarray  # (C,) float64: their numbers of samples
    limit: np.ndarray  # (C,) float64: where a deviance is cut off
    tau: np.ndarray  # (C,) float64: the total variation radius of the limit
    stages: np.ndarray  # (C + 1,) int64: the first stage of each row
    shift: np.ndarray  # (Q, B) float64: the lattice shift of each stage in each bracket
    bracket: np.ndarray  # (B,) float64: the upper ends of the brackets


@loop
def kl_down(q, c):
    """A lower bound on min{z <= q : kl(z, q) <= c}, and hardly smaller; the distribution that varies is the first one.

    kl(., q) is convex and decreasing below q, so Newton's method from the left stays on the left. It starts from
    kl(z, q) >= (q - z)^2 / (2 q).
    """
    if q <= 0.0 or -log1p(-min(q, 1.0 - 1e-16)) <= c:
        return 0.0
    z = q - sqrt(2.0 * q * c)
    if z <= 0.0:
        low, high = 0.0, q
        for _ in range(50):
            z = 0.5 * (low + high)
            low, high = (z, high) if z * log(z / q) + (1.0 - z) * (log1p(-z) - log1p(-q)) > c else (low, z)
        return low * (1.0 - 1e-12)
    for _ in range(60):
        if z >= q:
            break
        slope = log(z / q) - (log1p(-z) - log1p(-q))
        above = z * log(z / q) + (1.0 - z) * (log1p(-z) - log1p(-q)) - c
        if not above > 1e-13 * c:
            break
        z -= above / slope
    return min(z, q) * (1.0 - 1e-12)


@inlined
def fewest(trials, q, x):
    """A number of successes that no sample of `trials` with deviance below x, nor a neighbour of it, falls below (14.4)."""
    return floor(trials * kl_down(q, x / trials)) - 1.0


@loop
def stage_shifts(seen, trials, least, limit, bracket, out):
    """Writes the lattice shifts of one binomial stage: `seen` successes in `trials`, and at least `least` trials in a copy.

    The probability of success is known up to trials * kl(seen/trials, q) <= limit. The shift is inf where a copy may have too few
    successes or failures for the normal bound.
    """
    low = high = 0.0
    if trials > 0.0 and least >= 1.0:
        low = max(0.0, 1.0 - kl_up((trials - seen) / trials, limit / trials))
        high = max(0.0, 1.0 - kl_up(seen / trials, limit / trials))
    for b in range(len(bracket)):
        x = min(bracket[b], limit)  # beyond the limit, deviances are cut off
        successes = fewest(least, low, x) if low > 0.0 else -1.0
        failures = fewest(least, high, x) if high > 0.0 else -1.0
        out[b] = sqrt(1.0 / successes + 1.0 / failures) if successes >= 1.0 and failures >= 1.0 else inf


@threaded
def all_laws(edges, seen, laws):
    """Writes tau and the shifts of calibrated rows, whose edges are their sets in order."""
    sums, some = np.zeros(1 << ENUMERATED), np.zeros(max(1, len(seen)))
    for i in range(len(laws.row)):
        begin, end, m, limit = edges[laws.row[i]], edges[laws.row[i] + 1], laws.m[i], laws.limit[i]
        if end - begin < 2:
            laws.tau[i] = 0.0
            continue
        width = 0
        for e in range(begin, end):
            if seen[e] > 0.0:
                some[width] = seen[e]
                width += 1
        laws.tau[i] = tv_radius(some, 0, width, m, limit / m, width < end - begin, sums)
        left = m
        for k in range(end - begin - 1):
            least = m
            if k > 0:  # how many samples a copy has left after k stages, unless these alone exceed the limit
                share = max(0.0, 1.0 - kl_up((m - left) / m, limit / m))
                least = floor(m * kl_down(share, limit / m))
            stage_shifts(seen[begin + k], left, least, limit, laws.bracket, laws.shift[laws.stages[i] + k])
            left -= seen[begin + k]


@threaded
def union_charges(edges, seen, m, chosen, S, log_laws, charges):
    """Writes the charges of rows that a union bound covers; `log_laws` is log(rows / delta), inf if they have no delta."""
    sums = np.zeros(1 << ENUMERATED)
    for row in chosen:
        begin, size = edges[row], edges[row + 1] - edges[row]
        deviance = log_laws + psi_support(seen, begin, size, m[row], S) if log_laws < inf else -1.0
        # If this is negative, no distribution satisfies the bound: the event has failed, and the row counts as unknown.
        c = deviance / m[row] * (1.0 + 1e-14) if deviance >= 0.0 else NOTHING_KNOWN
        charges.c[row], charges.t[row] = c, 0.0
        charges.g[row] = min(1.0, tv_radius(seen, begin, size, m[row], c, size < S, sums))


@inlined
def uniform(word):
    """A 64-bit word as a number strictly between 0 and 1."""
    return (np.float64(word >> np.uint64(11)) + 0.5) * 2.0**-53


@loop
def stage_deviance(y, shift, bracket):
    """The deviance of a stage for a draw y = |N(0, 1)|: it is at least x with at least the probability that 14.3 and 14.4 allow.

    The largest bracket counts whose own bound reaches into it.
    """
    most = LOG_2 - log(erfc(y * sqrt(0.5)))  # log(2/u) with u = P(|N(0, 1)| > y)
    last = len(bracket) - 1
    for b in range(last, -1, -1):
        before = bracket[b - 1] if b > 0 else 0.0
        if most > before:
            x = min(0.5 * (y + shift[b]) * (y + shift[b]), most)
            if x > before:
                return x if b == last else min(x, bracket[b])
    return 0.0


@loop
def draw(seed, number, laws, charges):
    """Writes the charges of calibrated rows in draw `number`, which depends on the seed and its number alone.

    Returns one more uniform number of this draw.
    """
    key = mix(mix(np.uint64(seed)) + (np.uint64(number) + np.uint64(1)) * STREAM)
    word, spare = key, -1.0
    for i in range(len(laws.row)):
        total = 0.0
        for stage in range(laws.stages[i], laws.stages[i + 1]):
            y = spare
            spare = -1.0
            if y < 0.0:  # Box and Muller: two at a time
                word += STREAM
                radius = sqrt(-2.0 * log(uniform(mix(word))))
                word += STREAM
                angle = 2.0 * pi * uniform(mix(word))
                y, spare = abs(radius * cos(angle)), abs(radius * sin(angle))
            total += stage_deviance(y, laws.shift[stage], laws.bracket)
        row = laws.row[i]
        c = min(total * MARGIN, laws.limit[i]) / laws.m[i]
        charges.c[row], charges.g[row] = c, sqrt(0.5 * c)
        charges.t[row] = min(1.0, laws.tau[i] + charges.g[row])
    return uniform(mix(word + STREAM))


@loop
def tilt(slot, p, V, base, begin, end, t, weight):
    """The largest expectation of V over distributions on the edges within t of p; `weight` is one that attains it.

    Mass t moves to the largest value, from the smallest values first.
    """
    base, begin, size, top = np.uint64(base), np.uint64(begin), np.uint64(end) - np.uint64(begin), np.uint64(0)
    for k in range(size):
        weight[k] = p[begin + k]
        if V[base + slot[begin + k]] > V[base + slot[begin + top]]:
            top = k
    most, left = V[base + slot[begin + top]], t
    while left > 0.0:
        low = top
        for k in range(size):
            if weight[k] > 0.0 and V[base + slot[begin + k]] < V[base + slot[begin + low]]:
                low = k
        if V[base + slot[begin + low]] >= most:
            break
        moved = min(left, weight[low])
        weight[low] = weight[low] - moved if moved < weight[low] else 0.0
        weight[top] += moved
        left -= moved
    total = 0.0
    for k in range(size):
        total += weight[k] * V[base + slot[begin + k]]
    return min(total, most)


@inlined
def row_value(edges, slot, p, c, g, t, kappa, w, V, base, row, weight):
    """The cost of a row at a step: its charge, and the largest expected cost of what follows, or w."""
    begin, end, base = np.uint64(edges[row]), np.uint64(edges[row + 1]), np.uint64(base)
    mean, most, least, rare = 0.0, -1.0, inf, 1.0
    for e in range(begin, end):
        v = V[base + np.uint64(slot[e])]
        mean += p[e] * v
        if v < least:
            least, rare = v, p[e]
        most = max(v, most)
    paid = charge(kappa, w, c, g, row)
    if t[row] > 0.0 and most > least and paid + mean < w:
        mean = mean + t[row] * (most - least) if t[row] <= rare else tilt(slot, p, V, base, begin, end, t[row], weight)
    return min(w, paid + mean)


@loop
def backward(model, charges, kappa, kappa_start, V, weight):
    """Writes the values of every step, and returns W at the start."""
    w, w_start, plane, nodes, ends, rows, edges, slot, p, start_slot, start_p = model
    c, g, t = charges
    for h in range(len(w) - 1, -1, -1):
        layer = min(h, len(nodes) - 2)
        base, first = plane[h] + FIRST - nodes[layer], plane[h + 1]
        for node in range(nodes[layer], ends[h]):
            top = 0.0
            for row in range(rows[node], rows[node + 1]):
                top = max(top, row_value(edges, slot, p, c, g, t, kappa[h], w[h], V, first, row, weight))
            V[base + node] = top
    if w_start > 0.0:
        if edges[1] == 0:
            return w_start
        return row_value(edges, slot, p, c, g, t, kappa_start, w_start, V, 0, 0, weight)
    total = 0.0
    for k in range(len(start_slot)):
        total += start_p[k] * V[start_slot[k]]
    return total


@loop
def forward(model, charges, kappa, kappa_start, V, weight, mass, G):
    """The expected KL charges of the worst policy in the worst model: G[0] at the start, G[h+1] at step h."""
    w, w_start, plane, nodes, ends, rows, edges, slot, p, start_slot, start_p = model
    c, g, t = charges
    G[:] = 0.0
    mass[:] = 0.0
    for k in range(len(start_slot)):
        mass[start_slot[k]] += start_p[k]
    # The start is a stop if it costs w_start; then there is no row 0, or its value is that.
    if edges[1] > 0 and row_value(edges, slot, p, c, g, t, kappa_start, w_start, V, 0, 0, weight) < w_start:
        G[0] = c[0] if kappa_start * c[0] <= w_start * g[0] else 0.0
        tilt(slot, p, V, 0, 0, edges[1], t[0], weight)
        for e in range(edges[1]):
            mass[slot[e]] += weight[e]
    for h in range(len(w)):
        layer = min(h, len(nodes) - 2)
        base, first = plane[h] + FIRST - nodes[layer], plane[h + 1]
        for node in range(nodes[layer], ends[h]):
            here = mass[base + node]
            if here <= 0.0:
                continue
            top, best = -1.0, rows[node]
            for row in range(rows[node], rows[node + 1]):
                q = row_value(edges, slot, p, c, g, t, kappa[h], w[h], V, first, row, weight)
                best = row if q > top else best
                top = max(q, top)
            if top >= w[h]:
                continue
            if kappa[h] * c[best] <= w[h] * g[best]:
                G[h + 1] += here * c[best]
            begin, end = edges[best], edges[best + 1]
            tilt(slot, p, V, first, begin, end, t[best], weight)
            for e in range(begin, end):
                mass[first + slot[e]] += here * weight[e - begin]


@loop
def value(model, charges, lam, discounts, arrival, kappa, V, weight):
    """phi and kappa at the start for given multipliers; all 0 means that there are only charges by total variation."""
    total = 0.0
    for j in range(len(lam)):
        total += lam[j]
    kappa_start, constant = set_kappa(lam, discounts, arrival, kappa)
    if total <= 0.0:
        kappa_start = inf
        kappa[:] = inf
    return constant + backward(model, charges, kappa, kappa_start, V, weight), kappa_start


@loop
def improve(model, charges, lam, discounts, arrival, steps, smallest, trial, kappa, kappa_start, V, weight, mass, G):
    """The smallest phi of some steps towards lambda_j^2 = G_{<j} / 2; lam gets its multipliers.

    Each step goes a given share of the way, in logarithms. V, kappa and kappa_start are those of lam.
    """
    for j in range(len(lam)):
        trial[j] = lam[j]
    for share in steps:
        forward(model, charges, kappa, kappa_start, V, weight, mass, G)
        before = G[0]
        for j in range(len(lam)):
            if arrival:
                before += G[j + 1]
            if trial[j] > 0.0:
                trial[j] = max(1e-12, trial[j] ** (1.0 - share) * (0.5 * before) ** (0.5 * share))
            if not arrival:
                before += G[j + 1]
        phi, kappa_start = value(model, charges, trial, discounts, arrival, kappa, V, weight)
        if phi < smallest:
            smallest = phi
            for j in range(len(lam)):
                lam[j] = trial[j]
    return smallest


@loop
def clear(model, V):
    """Fills the values that stay as they are: 0 after the last step and in absorbing states, w in unknown states."""
    V[:] = 0.0
    for h in range(len(model.w)):
        V[model.plane[h] + UNKNOWN] = model.w[h]


@inlined
def widest(edges):
    """The largest number of edges of a row."""
    most = 1
    for row in range(len(edges) - 1):
        most = max(most, edges[row + 1] - edges[row])
    return most


@threaded
def mean_charges(seed, numbers, laws, charges):
    """Writes the average charges of some draws."""
    c = np.zeros(len(laws.row))
    for number in numbers:
        draw(seed, number, laws, charges)
        for i in range(len(c)):
            c[i] += charges.c[laws.row[i]]
    for i in range(len(c)):
        row = laws.row[i]
        charges.c[row] = c[i] / len(numbers)
        charges.g[row] = sqrt(0.5 * charges.c[row])
        charges.t[row] = min(1.0, laws.tau[i] + charges.g[row])


@threaded
def simulate(model, laws, charges, discounts, arrival, multipliers, scales, steps, seed, numbers, out, spare):
    """Writes phi of the given draws: with multiples of the given multipliers, the best of which `steps` improve.

    `spare` gets one more uniform number of each draw.

    A draw overwrites the charges of calibrated rows; the number -1 stands for the charges as they are. Returns the multipliers
    (H,) of the last draw; all 0 are charges by total variation alone.
    """
    H, size = len(discounts), model.plane[-1]
    V, mass, weight = np.zeros(size), np.zeros(size), np.zeros(widest(model.edges))
    kappa, lam, trial, G = np.zeros(H), np.zeros(H), np.zeros(H), np.zeros(H + 1)
    clear(model, V)
    for i in range(len(numbers)):
        if numbers[i] >= 0:
            spare[i] = draw(seed, numbers[i], laws, charges)
        smallest, best, phi, kappa_start = inf, 1.0, inf, inf
        for scale in scales:
            for j in range(H):
                lam[j] = scale * multipliers[j]
            phi, kappa_start = value(model, charges, lam, discounts, arrival, kappa, V, weight)
            if phi < smallest:
                smallest, best = phi, scale
        for j in range(H):
            lam[j] = best * multipliers[j]
        if len(steps) > 0 and lam[H - 1] > 0.0:
            if best != scales[-1]:
                phi, kappa_start = value(model, charges, lam, discounts, arrival, kappa, V, weight)
            smallest = improve(model, charges, lam, discounts, arrival, steps, phi, trial, kappa, kappa_start, V, weight, mass, G)
        out[i] = smallest
    return lam


@threaded
def reach_bounds(model, out):
    """For each row, a bound on its largest expected weight, sum_h w_h P(the row is played at step h), over policies.

    One pass: a state is reached at most as often as all states before it, each with its best action for this.
    """
    w, w_start, plane, nodes, ends, rows, edges, slot, p, start_slot, start_p = model
    mass, peak = np.zeros(plane[-1]), np.zeros(plane[-1])
    out[:] = 0.0
    for k in range(len(start_slot)):
        mass[start_slot[k]] += start_p[k]
    if w_start > 0.0:
        out[0] = w_start
        for e in range(edges[1]):
            mass[slot[e]] += p[e]
    for h in range(len(w)):
        layer = min(h, len(nodes) - 2)
        base, first = plane[h] + FIRST - nodes[layer], plane[h + 1]
        for node in range(nodes[layer], ends[h]):
            here = min(1.0, mass[base + node])
            if here <= 0.0:
                continue
            for row in range(rows[node], rows[node + 1]):
                out[row] += w[h] * here
                for e in range(edges[row], edges[row + 1]):
                    peak[slot[e]] = max(peak[slot[e]], p[e])
            for row in range(rows[node], rows[node + 1]):
                for e in range(edges[row], edges[row + 1]):
                    mass[first + slot[e]] += here * peak[slot[e]]
                    peak[slot[e]] = 0.0


@loop
def largest_weight(model, target, node, V):
    """The largest expected weight of one row over policies: backward induction with the reward w_h for playing it."""
    w, w_start, plane, nodes, ends, rows, edges, slot, p, start_slot, start_p = model
    if target == 0:
        return w_start
    V[:] = 0.0
    last, stationary = len(w) - 1, len(nodes) == 2
    if not stationary:
        last = 0
        while nodes[last + 1] <= node:
            last += 1
    for h in range(last, -1, -1):
        layer = min(h, len(nodes) - 2)
        base, first = plane[h] + FIRST - nodes[layer], plane[h + 1]
        begin, end = (node, node + 1) if h == last and not stationary else (nodes[layer], ends[h])
        for i in range(begin, end):
            top = 0.0
            for row in range(rows[i], rows[i + 1]):
                total = w[h] if row == target else 0.0
                for e in range(edges[row], edges[row + 1]):
                    total += p[e] * V[first + slot[e]]
                top = max(top, total)
            V[base + i] = top
    total = 0.0
    for k in range(len(start_slot)):
        total += start_p[k] * V[start_slot[k]]
    for e in range(edges[1]):
        total += p[e] * V[slot[e]]
    return total


@threaded
def most_missed(model, price, bounds, order, node_of):
    """The largest price * weight of a row over rows and policies; `order` sorts rows by their bounds on it, largest first."""
    V, most = np.zeros(model.plane[-1]), 0.0
    for row in order:
        if price[row] * bounds[row] <= most:
            break
        most = max(most, price[row] * min(bounds[row], largest_weight(model, row, node_of[row], V)))
    return most

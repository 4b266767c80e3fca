"""The calibrated certificate by likelihood ratios: the exact worst total variation, in the worst model that a draw allows.

`docs/theory.md`, 14.10, 14.11 and 14.12, have the theorem and its notation; steps are from 0 here. A law on a set of outcomes
b_1 ... b_k is drawn in k - 1 binary *stages*: b_1 or a later one, then b_2 or a later one, and so on. A draw gives each stage a
normal number z, and with it a polygon of pairs (theta, f): the true probability of its first outcome, and its frequency in a copy
of the data. With L the ratio of true to empirical probability of what has happened so far,

    Y_h(s, L) = (w_{h-1} - w_h) (1 - L)^+ + max over rows of w_h if it is a stop, or
                max over corners of [ f Y_{h+1}(s_1, L theta / f) + (1 - f) (the same for later stages)(L (1 - theta) / (1 - f)) ]
    phi       = Y_0(start, 1)

All Y are convex and do not increase in L, so that straight lines between the points of a grid are above them, and so that corners
are the worst points of a polygon.
"""

from __future__ import annotations

from math import cos, erfc, floor, inf, log, log1p, pi, sin, sqrt
from typing import NamedTuple

import numpy as np

from .calibrated import ABSORBING, FIRST, MARGIN, STREAM, UNKNOWN, kl_down, stage_shifts, uniform
from .compiled import inlined, loop, threaded
from .greedy import mix
from .radii import kl_up

MOST_TANGENTS = 6
CORNERS = 2 * (MOST_TANGENTS + 2)
SLACK = 1e-9  # by which the sides of a polygon are moved outwards: far more than what Newton's method leaves


class Stages(NamedTuple):
    """The stages of the calibrated rows of a model, and what is known about each."""

    row: np.ndarray  # (C,) int64: the calibrated rows
    m: np.ndarray  # (C,) float64: their numbers of samples
    first: np.ndarray  # (R + 1,) int64: the first stage of each row of the model; other rows have none
    low: np.ndarray  # (Q,) float64: the range of the probability of the first outcome
    high: np.ndarray  # (Q,) float64
    least: np.ndarray  # (Q,) float64: a number of trials from which on the shifts are valid
    shift: np.ndarray  # (Q, B) float64: the lattice shift in each bracket
    bracket: np.ndarray  # (B,) float64: up to which deviance, from 0, a shift is valid; none is beyond the limit
    limit: float  # of the deviance of each stage of the data


class Polygons(NamedTuple):
    """The corners that a draw allows in each stage."""

    many: np.ndarray  # (Q,) int64: how many corners there are
    theta: np.ndarray  # (Q, CORNERS) float64
    f: np.ndarray  # (Q, CORNERS) float64


class Grid(NamedTuple):
    """The ratios at which values are kept, from 0 on."""

    x: np.ndarray  # (G,) float64
    width: np.ndarray  # (G - 1,) float64: one over the distance to the next one
    one: int  # where the ratio 1 is


@threaded
def all_stages(edges, seen, stages):
    """Writes the range, the least number of trials and the shifts of every stage."""
    limit = stages.limit
    for i in range(len(stages.row)):
        begin, end, m = edges[stages.row[i]], edges[stages.row[i] + 1], stages.m[i]
        left = m
        for k in range(end - begin - 1):
            at, x = stages.first[stages.row[i]] + k, seen[begin + k]
            least = m
            if k > 0:
                share = max(0.0, 1.0 - kl_up((m - left) / m, limit / m))
                least = floor(m * kl_down(share, limit / m))
            stages.least[at] = least
            stages.low[at] = max(0.0, 1.0 - kl_up((left - x) / left, limit / left)) if left > 0.0 else 0.0
            stages.high[at] = min(1.0, kl_up(x / left, limit / left)) if left > 0.0 else 1.0
            stage_shifts(x, left, least, limit, stages.bracket, stages.shift[at])
            left -= x


@loop
def farthest(q, c):
    """The largest f with kl(f, q) <= c, up to rounding; c > 0."""
    if q <= 0.0 or q >= 1.0:
        return min(1.0, max(0.0, q))
    if -log(q) <= c:
        return 1.0
    low, high = q, 1.0
    f = q + sqrt(2.0 * c * q * (1.0 - q))
    for _ in range(80):
        if not low < f < high:
            f = 0.5 * (low + high)
        above = f * log(f / q) + (1.0 - f) * (log1p(-f) - log1p(-q)) - c
        if above > 0.0:
            high = f
        else:
            low = f
        new = f - above / (log(f / q) - (log1p(-f) - log1p(-q)))
        if abs(new - f) < 1e-15:
            break
        f = new
    return min(1.0, f)


@loop
def upper_side(low, high, c, tangents, theta, f):
    """Writes corners (theta, f) of a side above all (theta, f) with low <= theta <= high and kl(f, theta) <= c or f <= theta.

    The largest f is a concave function of theta that does not decrease, so it is below its tangents and its value at the end.
    Returns the number of corners.
    """
    if c <= 0.0:
        theta[0] = f[0] = low
        theta[1] = f[1] = high
        return 2
    most, shift = min(1.0, farthest(high, c) + SLACK), sqrt(0.5 * c) * MARGIN + SLACK
    theta[0], theta[1] = low, high
    if shift < 1e-6:  # too close for tangents: f <= theta + sqrt(c/2)
        f[0], f[1] = min(1.0, low + shift), min(1.0, high + shift)
        if high + shift <= 1.0:
            return 2
        theta[1], f[1] = max(low, 1.0 - shift), 1.0  # from here on, f <= 1
        theta[2], f[2] = high, 1.0
        return 3
    f[0] = f[1] = most  # f does not exceed its largest value
    if not low < high:
        return 2
    before, value, slope, n = low, 0.0, 0.0, 0
    for i in range(tangents):
        q = low + (high - low) * (i + 0.5) / tangents
        y = farthest(q, c)
        if not 0.0 < q < y < 1.0:
            break
        s = (y - q) / (q * (1.0 - q)) / (log(y / q) - (log1p(-y) - log1p(-q)))
        y += SLACK
        if i == 0:
            theta[0], f[0] = low, y + s * (low - q)
        else:  # where it meets the tangent before; what is said of f below holds at any place between the two
            place = 0.5 * (before + q)
            if abs(slope - s) > 1e-12:
                place = min(q, max(before, (y - s * q - value + slope * before) / (slope - s)))
            meet = max(y + s * (place - q), value + slope * (place - before))
            if meet >= most:
                break
            theta[n], f[n] = place, meet
        n += 1
        before, value, slope = q, y, s
    if n == 0:
        return 2
    last = value + slope * (high - before)
    if last > most:  # the line f = most cuts it off
        theta[n], f[n] = min(high, max(theta[n - 1], before + (most - value) / slope)), most
        n, last = n + 1, most
    theta[n], f[n] = high, last
    return n + 1


@inlined
def log_tail(z):
    """log P(N(0, 1) > z)."""
    return log(0.5 * erfc(z * sqrt(0.5))) if z > 0.0 else log1p(-0.5 * erfc(-z * sqrt(0.5)))


@loop
def extents(z, shift, bracket, limit):
    """How far the signed root of a deviance may be below and above 0 if its normal number is z: (a, b), both at least 0."""
    s = inf
    for k in range(len(bracket)):
        if abs(z) + shift[k] < sqrt(2.0 * min(bracket[k], limit)) * (1.0 - 1e-12):
            s = min(s, shift[k])
    above, below = sqrt(-2.0 * log_tail(z)), sqrt(-2.0 * log_tail(-z))
    return max(0.0, min(below, s - z)) * MARGIN, max(0.0, min(above, s + z)) * MARGIN


@loop
def polygon(low, high, a, b, trials, tangents, theta, f):
    """Writes the corners of a stage with at least so many trials; returns how many, and the largest f."""
    n = upper_side(low, high, 0.5 * b * b / trials if trials >= 1.0 else inf, tangents, theta, f) if b > 0.0 else 0
    if a > 0.0:  # the lower side is the upper one of failures
        more = upper_side(1.0 - high, 1.0 - low, 0.5 * a * a / trials if trials >= 1.0 else inf, tangents, theta[n:], f[n:])
        for k in range(n, n + more):
            theta[k], f[k] = min(1.0, max(0.0, 1.0 - theta[k])), min(1.0, max(0.0, 1.0 - f[k]))
        n += more
    if a <= 0.0 or b <= 0.0:
        n += upper_side(low, high, 0.0, tangents, theta[n:], f[n:])
    top = 0.0
    for k in range(n):
        top = max(top, f[k])
    return n, top


@loop
def draw(seed, number, stages, edges, tangents, polygons):
    """Writes the polygons of draw `number`, which depends on the seed and its number alone. Returns one more uniform number."""
    key = mix(mix(np.uint64(seed)) + (np.uint64(number) + np.uint64(1)) * STREAM)
    word, spare, full = key, 0.0, False
    for i in range(len(stages.row)):
        row, trials = stages.row[i], stages.m[i]
        for at in range(stages.first[row], stages.first[row + 1]):
            z, full = spare, not full
            if full:  # Box and Muller: two at a time
                word += STREAM
                radius = sqrt(-2.0 * log(uniform(mix(word))))
                word += STREAM
                angle = 2.0 * pi * uniform(mix(word))
                z, spare = radius * cos(angle), radius * sin(angle)
            limit = stages.limit if trials >= stages.least[at] else 0.0  # with fewer trials, no shift is valid
            a, b = extents(z, stages.shift[at], stages.bracket, limit)
            low, high = stages.low[at], stages.high[at]
            n, top = polygon(low, high, a, b, trials, tangents, polygons.theta[at], polygons.f[at])
            polygons.many[at] = n
            trials *= (1.0 - top) * (1.0 - 1e-12)
    return uniform(mix(word + STREAM))


@loop
def add_branch(x, width, ratio, weight, values, out):
    """Adds weight * values(L ratio) for all L of the grid, with straight lines between them."""
    k, last = 0, len(x) - 2
    for i in range(len(x)):
        y = x[i] * ratio
        while k < last and x[k + 1] < y:
            k += 1
        t = min(1.0, (y - x[k]) * width[k])
        out[i] += weight * (values[k] + t * (values[k + 1] - values[k]))


@loop
def row_values(model, charges, stages, polygons, grid, h_w, ahead, row, out, later, trial):
    """Writes the value of a row for all L of the grid; `ahead` has the values of the next plane."""
    x, width, one = grid
    begin, end, first = model.edges[row], model.edges[row + 1], stages.first[row]
    size = len(x)
    if stages.first[row + 1] == first and (end - begin != 1 or charges.g[row] > 0.0):
        # A union bound covers it: what is lost is paid at once, or it is a stop
        paid = h_w * charges.g[row]
        for i in range(size):
            out[i] = paid
        for e in range(begin, end):
            for i in range(size):
                out[i] += model.p[e] * ahead[model.slot[e], i]
        if out[one] >= h_w:
            for i in range(size):
                out[i] = h_w
        return
    for i in range(size):
        out[i] = ahead[model.slot[end - 1], i]
    for k in range(end - begin - 2, -1, -1):
        at, values = first + k, ahead[model.slot[begin + k]]
        for i in range(size):
            later[i], out[i] = out[i], 0.0
        for corner in range(polygons.many[at]):
            theta, f = polygons.theta[at, corner], polygons.f[at, corner]
            if theta == f:
                for i in range(size):
                    out[i] = max(out[i], f * values[i] + (1.0 - f) * later[i])
                continue
            for i in range(size):
                trial[i] = 0.0
            if f > 0.0:
                add_branch(x, width, theta / f, f, values, trial)
            if f < 1.0:
                add_branch(x, width, (1.0 - theta) / (1.0 - f), 1.0 - f, later, trial)
            for i in range(size):
                out[i] = max(out[i], trial[i])


@loop
def backward(model, charges, stages, polygons, grid, planes, out, later, trial):
    """phi: the value of the start at the ratio 1. `planes` has room for two planes of values."""
    w, x, T = model.w, grid.x, len(model.w)
    for h in range(T, -1, -1):
        ahead, here = planes[(h + 1) % 2], planes[h % 2]
        before = w[h - 1] if h > 0 else max(model.w_start, w[0] if T > 0 else 0.0)
        left = w[h] if h < T else 0.0
        many = model.plane[h + 1] - model.plane[h]
        for i in range(len(x)):
            lost = max(0.0, 1.0 - x[i])
            here[ABSORBING, i] = before * lost
            here[UNKNOWN, i] = max(0.0, before - left) * lost + left
        if h == T:
            for slot in range(FIRST, many):
                for i in range(len(x)):
                    here[slot, i] = here[ABSORBING, i]
            continue
        layer = min(h, len(model.nodes) - 2)
        for node in range(model.nodes[layer], model.ends[h]):
            value = here[FIRST + node - model.nodes[layer]]
            for i in range(len(x)):
                value[i] = 0.0
            for row in range(model.rows[node], model.rows[node + 1]):
                row_values(model, charges, stages, polygons, grid, left, ahead, row, out, later, trial)
                for i in range(len(x)):
                    value[i] = max(value[i], out[i])
            for i in range(len(x)):
                value[i] += max(0.0, before - left) * max(0.0, 1.0 - x[i])
    if model.w_start > 0.0:
        if model.edges[1] == 0:
            return model.w_start
        row_values(model, charges, stages, polygons, grid, model.w_start, planes[0], 0, out, later, trial)
        return min(model.w_start, out[grid.one])
    total = 0.0
    for k in range(len(model.start_slot)):
        total += model.start_p[k] * planes[0, model.start_slot[k], grid.one]
    return total


@threaded
def simulate(model, charges, stages, grid, tangents, seed, numbers, out, spare):
    """Writes phi of the given draws, and one more uniform number of each."""
    size, many, most = len(grid.x), len(stages.low), 0
    for h in range(len(model.plane) - 1):
        most = max(most, model.plane[h + 1] - model.plane[h])
    planes, work = np.zeros((2, most, size)), np.zeros((3, size))
    polygons = Polygons(np.zeros(many, np.int64), np.zeros((many, CORNERS)), np.zeros((many, CORNERS)))
    for i in range(len(numbers)):
        spare[i] = draw(seed, numbers[i], stages, model.edges, tangents, polygons)
        out[i] = backward(model, charges, stages, polygons, grid, planes, work[0], work[1], work[2])

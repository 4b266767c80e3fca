"""The largest and the smallest expectation over a ball, exactly and on the safe side: for KL, for L1, and for boxes.

Let q be an empirical distribution on the observed successors, f the values of the successors, c >= 0 the radius of the ball, and
f* the largest value that p may put mass on, observed or not. With g = f* - f >= 0 on the observed successors, Lagrangian duality
gives (`docs/theory.md`, 6.2)

    max { p.f : KL(q, p) <= c } = f* - max_{u >= 0} F(u),     F(u) = exp(sum_k q_k log(u + g_k) - c) - u.

For the smallest expectation, let f_* be the smallest admissible value and g = f - f_*; then min = f_* + max_u F(u).

F is concave, and **every** u >= 0 gives a number on the safe side, so an inaccurate u costs tightness and never validity. F'(u)
has the sign of theta(u) - c with theta(u) = sum q log(u+g) + log sum q/(u+g), which decreases in u.
"""

from __future__ import annotations

from math import exp, expm1, inf, log, log1p, sqrt

from .compiled import inlined, loop

ROUNDING = 1e-13  # the gap is reduced by this relative amount, so that rounding cannot move it to the unsafe side ...
ROUNDING_EACH = 4e-16  # ... and by this much more for each successor in the sum
NORMS = ("kl", "l1", "box")  # what a ball is: of KL, of the L1 norm, or an interval for each probability
KL, L1, BOX = range(3)
MIN_U = 1e-250  # below this, 1/u could overflow, and F(u) is negligible


@inlined
def log_one_plus(x):
    """log(1 + x) for x > 0: faster than log1p, and accurate to a few units in the last place."""
    y = 1.0 + x
    return log(y) * (x / (y - 1.0)) if 1e-8 < x < 1e15 else log1p(x)


@inlined
def exp_minus_one(x):
    """exp(x) - 1: faster than expm1, with a relative error of 1e-14."""
    return exp(x) - 1.0 if abs(x) > 0.1 else expm1(x)


@loop
def gap(seen, begin, size, n, g, c, u):
    """A lower bound on max_u F(u), equal to it up to about 1e-12, and the u at which it was found, to start from next time.

    q_k = seen[begin + k] / n and g[k] >= 0 for k < size. A start u <= 0 means that none is known.
    """
    mean, least, share = 0.0, inf, 1.0 / n
    for k in range(size):
        mean += seen[begin + k] * g[k]
        least = min(least, g[k])
    mean *= share
    keep = 1.0 - ROUNDING - ROUNDING_EACH * size
    if mean <= 0.0 or not c < 700.0:
        return 0.0, 0.0
    if c <= 0.0:
        return mean * keep, u
    best = 0.0
    if least > 0.0:  # then u = 0 may be optimal: mass moves to a better successor that was not observed
        logs, inverse = 0.0, 0.0
        for k in range(size):
            q = seen[begin + k] * share
            logs += q * log(g[k])
            inverse += q / g[k]
        best = exp(logs - c)
        if best * inverse <= 1.0:  # theta(0) <= c
            return best * keep, 0.0
    low, high = 0.0, mean / c  # theta(u) <= log(1 + mean/u) is below c for larger u
    if not MIN_U < u < high:
        variance = 0.0
        for k in range(size):
            variance += seen[begin + k] * (g[k] - mean) * (g[k] - mean)
        u = min(0.5 * high, sqrt(0.5 * variance * share / c))
        if not u > 0.0:
            u = 0.5 * high
    for _ in range(100):
        if u < MIN_U:
            break
        logs, m, s, inverse = 0.0, 0.0, 0.0, 1.0 / u
        for k in range(size):
            q, ratio = seen[begin + k] * share, g[k] * inverse
            a = 1.0 / (1.0 + ratio)
            logs += q * log_one_plus(ratio) if ratio > 0.0 else 0.0
            m += q * a
            s += q * a * a
        best = max(best, u * exp_minus_one(logs - c))
        theta = logs + log(m)
        if abs(theta - c) <= 1e-6 * c:  # F is flat at its maximum, so the loss is of the order of the square of this
            break
        if theta > c:
            low = u
        else:
            high = u
        # Newton's method for theta(u)^(-1/2) = c^(-1/2), which is nearly linear for large u; otherwise shrink the bracket.
        slope = (s / m - m) * inverse
        step = 2.0 * theta * (sqrt(theta / c) - 1.0) / slope if theta > 0.0 and slope > 0.0 else inf
        nearer = u + step
        if not low < nearer < high:
            nearer = sqrt(low * high) if low > 0.0 else 0.1 * high
        if abs(nearer - u) <= 1e-14 * u:
            break
        u = nearer
    return min(best, mean) * keep, u


@loop
def gap_l1(seen, begin, size, n, g, d):
    """The smallest sum_k p_k g_k over distributions p within d of the empirical one in L1, where g >= 0.

    Mass d/2 moves away, from the largest g first, to a successor with g = 0. The array g is overwritten.
    """
    total, leaving = 0.0, min(1.0, 0.5 * d)
    for k in range(size):
        total += seen[begin + k] / n * g[k]
    while leaving > 0.0:
        worst = 0
        for k in range(1, size):
            worst = k if g[k] > g[worst] else worst
        if g[worst] <= 0.0:
            break
        mass = min(leaving, seen[begin + worst] / n)
        total -= mass * g[worst]
        leaving -= mass
        g[worst] = -1.0
    return max(0.0, total)


@inlined
def between(p, n, level):
    """The interval for the probability of one outcome with the share p of n draws, given n kl(p, true) <= level on both sides.

    It is UCFH's (`algorithms/ucfh.py`): by Hoeffding, by Bernstein with the variance p(1-p), and by how far the standard
    deviation can be from that of p.
    """
    if level <= 0.0:
        return p, p
    if n <= 1.0:
        return 0.0, 1.0
    s, c = sqrt(p * (1.0 - p)), sqrt(2.0 * level / (n - 1.0))
    d = min(sqrt(level / (2.0 * n)), s * sqrt(2.0 * level / n) + 7.0 * level / (3.0 * (n - 1.0)))
    low, high = max(0.0, p - d), min(1.0, p + d)
    if s > c:
        half = sqrt(max(0.0, 0.25 - (s - c) * (s - c)))
        low, high = max(low, 0.5 - half), min(high, 0.5 + half)
    return low, high


@loop
def gap_box(seen, begin, size, n, g, level, unseen):
    """The smallest sum_k p_k g_k over distributions p in a box, where g >= 0: start from the lower ends, fill the best.

    So many `unseen` outcomes may have g = 0. If no distribution is in the box, what is left is given to g = 0. The array g is
    overwritten.
    """
    total, mass = 0.0, 0.0
    for k in range(size):
        low, _ = between(seen[begin + k] / n, n, level)
        total += low * g[k]
        mass += low
    if mass >= 1.0:  # above 1 no distribution is in the box
        return total / mass
    left = 1.0 - mass - unseen * between(0.0, n, level)[1]
    while left > 0.0:
        best = 0
        for k in range(1, size):
            best = k if g[k] < g[best] else best
        if g[best] == inf:
            break
        low, high = between(seen[begin + best] / n, n, level)
        total += min(left, high - low) * g[best]
        left -= min(left, high - low)
        g[best] = inf
    return total

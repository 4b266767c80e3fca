"""Confidence radii: how far a distribution can be from the empirical one, in KL divergence and in total variation.

There is one function for each lemma, which is stated and proved there: `docs/theory.md`, 3.1, 3a, 3b, 3c, 4.1 and 8.1. A
threshold psi means that n KL(p_hat, p) <= log(1/delta) + psi at all times at once, with probability at least 1 - delta.
Everything errs on the safe side: a threshold or a radius is never below the exact value.
"""

from __future__ import annotations

from math import exp, expm1, inf, isnan, lgamma, log, log1p, pi, sqrt

import numpy as np

from .compiled import inlined, loop
from .formulas import mixture
from .table import NODES, is_known, log_ratio

HALF_LOG_2 = 0.5 * log(2.0)
HALF_LOG_2PI = 0.5 * log(2.0 * pi)
GAPS = np.array([HALF_LOG_2PI + (k * log(k) - k if k else 0.0) - lgamma(k + 0.5) for k in range(16)])  # `stirling_gap` there
GAMMAS = np.array([inf, *(lgamma(0.5 * k) for k in range(1, 10))])  # log Gamma(k/2)
TERMS = 40  # of the mixture over supports; omitting the rest only enlarges the threshold
SAFETY = 1e-8  # nats added to a threshold: much more than rounding errors, and much less than what matters ...
SAFETY_EACH = 4e-12  # ... and this much more for each successor in the sum
FEW = (64, 8)  # visits and successors below which the thresholds of rows are worth keeping
ENUMERATED = 8  # the largest number of successors for which `tv_radius` examines single events


@inlined
def stirling_gap(x):
    """r(x) = x log x - x + log(2 pi)/2 - log Gamma(x + 1/2) for x >= 0, without cancellation: 1/(24x) - 7/(2880x^3) + ..."""
    if x >= 16.0:
        y = 1.0 / (x * x)
        return (1.0 / 24.0 - y * (7.0 / 2880.0 - y * (31.0 / 40320.0 - y * (127.0 / 430080.0)))) / x
    k = np.uint64(x)
    return GAPS[k] if k == x else x * log(x) - x + HALF_LOG_2PI - lgamma(x + 0.5)


@inlined
def gamma_step(x):
    """log Gamma(x + 1) - log Gamma(x + 1/2) for x >= 0, without cancellation: log(x)/2 + 1/(8x) - 1/(192x^3) + ..."""
    if x >= 16.0:
        y = 1.0 / (x * x)
        return 0.5 * log(x) + (1.0 / 8.0 - y * (1.0 / 192.0 - y * (1.0 / 640.0 - y * (17.0 / 14336.0)))) / x
    return lgamma(x + 1.0) - lgamma(x + 0.5)


@inlined
def gamma_ratio(x):
    """Gamma(x + 1) / Gamma(x + 1/2) for x >= 64, to full precision."""
    y = 1.0 / x
    series = y * (21.0 / 32768.0 - y * (399.0 / 262144.0 + y * (869.0 / 4194304.0 - y * (39325.0 / 33554432.0))))
    return sqrt(x) * (1.0 + y * (1.0 / 8.0 + y * (1.0 / 128.0 - y * (5.0 / 1024.0 + series))))


@inlined
def evidence(seen, begin, size, n):
    """The part of a mixture's threshold that depends on how the n samples are spread over the observed successors.

    It includes a margin for rounding.
    """
    total = HALF_LOG_2PI - size * HALF_LOG_2 - stirling_gap(n) + SAFETY + size * SAFETY_EACH
    for e in range(begin, begin + size):
        total += stirling_gap(seen[e])
    return total


@loop
def log_rise(n, k):
    """log Gamma(n + k/2) - log Gamma(n + 1/2) for k >= 1."""
    total, x = (0.0, n + 0.5) if k % 2 == 1 else (gamma_step(n), n + 1.0)
    factors = 1.0
    for _ in range((k - 1) // 2):
        factors *= x
        if factors > 1e200:
            total += log(factors)
            factors = 1.0
        x += 1.0
    return total + log(factors) if factors != 1.0 else total


@loop
def psi_size(seen, begin, size, n, K):
    """The threshold for distributions with at most K successors, from a Dirichlet(1/2) mixture on K symbols."""
    return evidence(seen, begin, size, n) - lgamma(0.5 * K) + log_rise(n, K) + K * SAFETY_EACH


@loop
def psi_support(seen, begin, size, n, S):
    """The threshold without any assumption, from a mixture over supports.

    The mixture takes size k with weight 2^-k, a uniform subset of k successors, and Dirichlet(1/2) on it. With K successors
    observed, it is the sum over k >= K of 2^-k / (1 - 2^-S) * C(S-K, k-K) / C(S, k) * Gamma(k/2) / (Gamma(n + k/2) / Gamma(n +
    1/2)). The Gamma factors of k and k + 2 have a rational ratio, so only the first two are computed from scratch.
    """
    return evidence(seen, begin, size, n) - log_mixture(size, n, S)


@loop
def log_mixture(size, n, S):
    """The part of `psi_support` that depends on the numbers of samples and of observed successors alone."""
    K, log_choose = np.int64(size), 0.0
    if FEW[1] > K and n >= FEW[0]:  # no product is out of range: one logarithm will do
        factor, x = (1.0, n + 0.5) if K % 2 == 1 else (gamma_ratio(n), n + 1.0)
        for _ in range((K - 1) // 2):
            factor *= x
            x += 1.0
        for i in range(K):
            factor *= (S - i) / (i + 1.0)
        first, odd = GAMMAS[K] - log(factor), exp(GAMMAS[K + 1] - GAMMAS[K]) / gamma_ratio(n + 0.5 * (K - 1))
    else:
        for i in range(K):
            log_choose += log((S - i) / (i + 1.0))
        first = lgamma(0.5 * K) - log_rise(n, K)  # the largest Gamma factor; the others are relative to it, so nothing overflows
        odd = exp(lgamma(0.5 * (K + 1)) - log_rise(n, K + 1) - first)
    even = 1.0  # Gamma factors of k = K, K + 2, ... and, in `odd`, of k = K + 1, K + 3, ..., divided by the first
    total, weight = 0.0, 1.0  # weight: the prior of a subset of size k, divided by that of size K
    for k in range(K, min(S, K + TERMS - 1) + 1):
        total += weight * even
        if weight * (even + odd) < 1e-16 * total:  # omitting the rest is on the safe side
            break
        x = 0.5 * k
        weight *= (x + 0.5) / (k + 1.0 - K)
        even, odd = odd, even * (x / (n + x))  # in this order, divisions do not wait for each other
    normalised = log1p(-exp(-S * 2.0 * HALF_LOG_2)) if S < 64 else 0.0  # 0 is on the safe side, by 2^-64
    return first - K * 2.0 * HALF_LOG_2 - log_choose - normalised + log(total)


@inlined
def excess(t):
    """t - log(1 + t) for t > -1, without cancellation."""
    if abs(t) < 1e-3:
        return t * t * (0.5 - t * (1.0 / 3.0 - t * (0.25 - t * (0.2 - t * (1.0 / 6.0 - t / 7.0)))))
    u = 1.0 + t
    return t - log(u) + ((u - 1.0) - t) / u  # the last term is what was lost in u; faster than log1p


@loop
def rise(x, c):
    """An upper bound on d = max{q : kl(x, q) <= c} - x, for x in [0, 1), and hardly larger.

    kl(x, x + d) = x excess(d/x) + (1-x) excess(-d/(1-x)), both terms positive. It starts from Jensen's upper
    bound (`docs/theory.md`, 4.1) or from the one that follows from -x log q >= 0, and goes on by Halley's method, which is cubic:
    once a step is 1e-5 of d and of 1 - q, the next one would be below 1e-13 of d. More than that is added.
    """
    b, v = (2.0 / 3.0) * c * (1.0 - 2.0 * x), x * (1.0 - x)  # Jensen: d^2 <= 2 c m (1 - m), a quadratic inequality
    a = 1.0 + (8.0 / 9.0) * c
    root = sqrt(b * b + 2.0 * a * c * v)
    start = (b + root) / a if b >= 0.0 else 2.0 * c * v / (root - b)
    if start >= 0.5 * (1.0 - x) or 30.0 * x < c:
        spread = x * log(x) if x > 0.0 else 0.0
        start = min(start, sqrt(0.5 * c), -(1.0 - x) * expm1((spread - c) / (1.0 - x)))
    d, rest = start, 1.0 - x - start
    if x > 0.0 and 0.0 < d < 1.0 - x:
        for _ in range(60):
            slant = (x + d) * rest / d  # 1 over the derivative
            step = (x * excess(d / x) + (1.0 - x) * excess(-d / (1.0 - x)) - c) * slant
            far, room = abs(step), min(d, rest)
            if far < 0.25 * room:
                step /= 1.0 - 0.5 * step * (1.0 - (rest - x - d) / slant) / d
            d -= step
            rest = 1.0 - x - d
            if far <= 1e-5 * room or far <= 1e-13 * d:
                return min(1.0 - x, d * (1.0 + 1e-12))
            if not 0.0 < d < 1.0 - x:
                break
        d = start
    return min(1.0 - x, d * (1.0 + 1e-12))


@loop
def kl_up(x, c):
    """An upper bound on max{q >= x : kl(x, q) <= c}."""
    return min(1.0, (x + rise(x, c)) * (1.0 + 1e-15)) if x < 1.0 else 1.0


@loop
def tv_radius(seen, begin, size, n, c, unseen, sums):
    """The largest TV(p_hat, p) with KL(p_hat, p) <= c: the maximum of rise(x, c) over the values x = p_hat(A) of events A.

    `unseen` says whether p may have successors that were not observed; then x = 0 counts too. Events that concavity or Jensen's
    bound excludes are not computed. With many successors the maximum over all x in (0, 1) is taken, which is an upper bound.
    `sums` is scratch space for 2^ENUMERATED numbers.
    """
    if not c < 700.0:
        return 1.0
    best = -expm1(-c) if unseen else 0.0
    low, high = 0.0, 1.0
    if size > ENUMERATED:
        for _ in range(24):  # d is as good as constant within 1e-7 of its maximum
            x = 0.5 * (low + high)
            d = rise(x, c)
            best = max(best, d)
            slope = (x + d) * (1.0 - x - d) * (log1p(d / x) - log1p(-d / (1.0 - x))) - d if d < 1.0 - x else -1.0
            low, high = (x, high) if slope > 0.0 else (low, x)
        return min(1.0, sqrt(0.5 * c), best * (1.0 + 1e-9))
    events = 1
    sums[0] = 0.0
    for k in range(size):
        for event in range(events):
            sums[events + event] = sums[event] + seen[begin + k]
        events *= 2
    middle, first, apart = 0.5 - (2.0 / 3.0) * sqrt(0.5 * c), -1.0, inf  # where Jensen's bound has its maximum
    for event in range(1, events - 1):
        x = sums[event] / n
        sums[event] = x
        closer = abs(x - middle) < apart
        first, apart = (x, abs(x - middle)) if closer else (first, apart)
    if first >= 0.0:
        d = rise(first, c)
        best = max(best, d)
        low = first if 2.0 * first + 1.5 * d <= 1.0 else 0.0  # it still rises there
        high = first if 2.0 * first + d >= 1.0 else 1.0  # it falls there
        for event in range(1, events - 1):
            x = sums[event]
            m = x + (2.0 / 3.0) * best
            if low < x < high and x != first and best * best < 2.0 * c * m * (1.0 - m):  # otherwise kl(x, x + best) >= c
                best = max(best, rise(x, c))
    return min(1.0, best * (1.0 + 1e-9))


@loop
def tv_least(seen, begin, size, n, c, unseen):
    """A lower bound on `tv_radius` without logarithms, mostly within a few percent: rise(x, c) for one event, or less.

    With q = x + d, kl(x, q) <= d^2 (1/(x(1-x)) + 2/(q(1-q))) / 6 (`docs/theory.md`, 4.1), and kl(x, q) <= d^2/(q(1-q)).
    """
    x, middle, total = 0.0, 0.5 - (2.0 / 3.0) * sqrt(0.5 * c), 0.0
    for e in range(begin, begin + size):  # the nearest to the middle among single successors, the rest of them, and the first few
        total += seen[e]
        for y in (seen[e] / n, 1.0 - seen[e] / n, total / n):
            if y < 1.0 - 1e-9 and abs(y - middle) < abs(x - middle):
                x = y
    least = 0.0
    if x > 0.0 or unseen:
        a, b, v = 1.0 + c, 0.5 * c * (1.0 - 2.0 * x), x * (1.0 - x)  # d^2 <= c q (1 - q)
        least = (b + sqrt(b * b + a * c * v)) / a
    if x > 0.0:
        a, b = 1.0 + (8.0 / 9.0) * c, (2.0 / 3.0) * c * (1.0 - 2.0 * x)
        d = (b + sqrt(b * b + 2.0 * a * c * v)) / a
        for _ in range(2):
            if d < 1.0 - x:
                q = x + d
                above = d * d * (1.0 / v + 2.0 / (q * (1.0 - q))) / (6.0 * c)
                least = max(least, d * min(1.0, 1.0 / above))  # kl is convex in d, and 0 at 0
                d /= sqrt(above)
    return min(1.0, least) * (1.0 - 1e-9)


@loop
def psi_transfer(seen, scored, begin, size, n):
    """The threshold from predictions that were made before each sample; `scored` holds the sums of their log probabilities."""
    entropy, score = 0.0, 0.0
    for e in range(begin, begin + size):
        entropy += seen[e] * log_ratio(seen[e], n, 0.0, 0.0)
        score += scored[e]
    return entropy - score + SAFETY - 1e-13 * score


@loop
def psi_mixed(one, other):
    """The threshold from two others, by averaging their martingales half and half: log 2 - log(e^-one + e^-other)."""
    low, high = min(one, other), max(one, other)
    return 2.0 * HALF_LOG_2 + low - log1p(exp(low - high)) + SAFETY


PAPER, SUPPORT, SIZE = 0, 1, 2  # kinds of thresholds
NOTHING_KNOWN = 1e6  # a KL radius within which every distribution lies


@loop
def kl_radius(seen, begin, size, n, S, kind, K, log_laws):
    """The radius c with KL(p_hat, p) <= c on the event; `log_laws` is log(laws / delta)."""
    return max(0.0, log_laws + threshold(seen, begin, size, n, S, kind, K)) / n * (1.0 + 1e-14)


@inlined
def threshold(seen, begin, size, n, S, kind, K):
    """The threshold psi of one kind: the paper's closed form, the mixture over supports, or at most K successors."""
    if kind == PAPER:
        return mixture(n, S - 1.0)
    if kind == SIZE:
        return psi_size(seen, begin, size, n, K)
    return psi_support(seen, begin, size, n, S)


@loop
def psi_mean(mean, n):
    """The threshold for the mean of n rewards in [0, 1], from a Beta(1/2, 1/2) mixture: n kl(mean, mu) <= log(1/delta) + psi."""
    gaps = stirling_gap(n * mean) + stirling_gap(n * (1.0 - mean)) - stirling_gap(n)
    return HALF_LOG_2PI - 2.0 * HALF_LOG_2 + gaps + log_rise(n, 2) + SAFETY


@loop
def kl_interval(mean, n, log_laws):
    """An interval for the mean of rewards in [0, 1] of which n have the average `mean`.

    `log_laws` is log(laws / delta): delta is shared among that many means.
    """
    c = max(0.0, log_laws + psi_mean(mean, n)) / n
    return max(0.0, 1.0 - kl_up(1.0 - mean, c)), kl_up(mean, c)


PINSKER, LEAST, EXACT = 0, 1, 2  # which total variation radii are computed: upper bounds, lower bounds, or the radii themselves


@loop
def all_radii(table, A, S, kind, K, log_laws, scored, which_tv, sums, mixtures, radius, tv, done, exact):
    """Writes the KL radius and the total variation radius of every visited row. Row 0 holds the initial states.

    `scored` holds the evidence of each edge, and is empty without transfer. A row that has as many visits as in `done` has its
    radii already: they depend on nothing but its own observations and their evidence, which is final once it is booked. `exact`
    marks the rows whose total variation radius is what it has to be: with LEAST, some stay below it (`settle_tv`). `sums`
    is scratch space, as in `tv_radius`, and so is `mixtures`, for the thresholds of rows with few visits, nan at first.
    """
    first, size, seen, count = table.first, table.size, table.seen, table.n
    for row in range(np.int64(table.used[NODES]) * A):
        if is_known(table.known, A, table.state[row // A], row % A) if row >= A else len(table.starts) > 0:
            radius[row] = tv[row] = 0.0  # absorbing, illegal, or a known distribution of the initial state: nothing to estimate
            done[row], exact[row] = 0, 1
        elif count[row] == 0:
            continue
        else:
            n, begin, width, at_start = float(count[row]), np.int64(first[row]), np.int64(size[row]), row < A
            if count[row] != done[row]:
                of_kind = SUPPORT if at_start and kind == SIZE else kind
                if of_kind == SUPPORT and count[row] < mixtures.shape[0] and width < mixtures.shape[1]:
                    if isnan(mixtures[count[row], width]):
                        mixtures[count[row], width] = log_mixture(width, n, S)
                    psi = evidence(seen, begin, width, n) - mixtures[count[row], width]
                else:
                    psi = threshold(seen, begin, width, n, S, of_kind, K)
                final = True
                if len(scored) > 0 and not at_start:  # transfer does not predict initial states
                    psi = psi_mixed(psi, psi_transfer(seen, scored, begin, width, n))
                    for e in range(begin, begin + width):
                        final = final and table.booked[e] == seen[e]
                # If this is negative, no distribution satisfies the bound: the event has failed, and the row counts as unknown.
                radius[row] = (log_laws + psi) / n * (1.0 + 1e-14) if log_laws + psi >= 0.0 else NOTHING_KNOWN
                done[row], exact[row] = count[row] if final else 0, 0
            c = radius[row]
            if exact[row] == 0:
                unseen = width < (K if kind == SIZE and not at_start else S)  # there may be more than K initial states
                if which_tv == LEAST and not at_start and c < 100.0:
                    tv[row] = tv_least(seen, begin, width, n, c, unseen)
                else:
                    tv[row] = min(
                        1.0, sqrt(0.5 * c) if which_tv == PINSKER else tv_radius(seen, begin, width, n, c, unseen, sums)
                    )
                    exact[row] = 1


@loop
def settle_tv(table, A, c, tau, kappa, w, unsettled):
    """Replaces lower bounds in tau by radii where kappa_h c <= w_h tau is not certain, so that all charges are as with radii.

    `unsettled` is a `trajectory.Unsettled`. The joint bound charges by KL where kappa_h c <= w_h tau, whatever its u, since no
    saving is below -log 2. Returns whether there was anything to replace.
    """
    some = False
    if c.ndim == 1:  # structures have all radii
        exact, S, kind, K, sums, settled, _ = unsettled
        H, layers, needed = len(w), len(table.head), False
        for h in range(H if len(exact) > 0 else 0):
            needed = needed or kappa[h] > settled[h]
        for layer in range(layers if needed else 0):
            steepest = 0.0
            for h in range(layer, H if layer + 1 == layers else layer + 1):
                settled[h] = max(settled[h], 1.1 * kappa[h])
                steepest = max(steepest, settled[h] / w[h] if w[h] > 0.0 else 0.0)
            node = table.head[layer]
            while node != 0:
                for row in range(node * A, node * A + A):
                    if exact[row] == 0 and table.n[row] > 0 and not steepest * c[row] * (1.0 + 1e-6) <= tau[row]:
                        begin, size, n = np.int64(table.first[row]), np.int64(table.size[row]), float(table.n[row])
                        unseen = size < (K if kind == SIZE else S)
                        tau[row] = min(1.0, tv_radius(table.seen, begin, size, n, c[row], unseen, sums))
                        exact[row], some = 1, True
                node = table.following[node]
    return some


@loop
def radii_of_laws(seen, offset, estimated, few, log_laws, exact_tv, some, sums, radius, tv):
    """Writes the KL radius and the total variation radius of every law: 0 where nothing is estimated, or nothing was seen.

    The outcomes of law g are offset[g], ..., offset[g+1] - 1. With more than `few` of them, many may never happen
    (`certificates.law_radii`). `some` is scratch space for the outcomes of a law, and `sums` as in `tv_radius`.
    """
    for g in range(len(estimated)):
        K, size, n = offset[g + 1] - offset[g], 0, 0.0
        for x in range(offset[g], offset[g + 1]):
            if seen[x] > 0.0:
                some[size] = seen[x]
                size += 1
                n += seen[x]
        radius[g] = tv[g] = 0.0
        if estimated[g] and n > 0.0:
            psi = psi_size(some, 0, size, n, K)
            if few < K:
                psi = psi_mixed(psi, psi_support(some, 0, size, n, K))
            # If this is negative, no distribution satisfies the bound: the event has failed, and the law counts as unknown.
            c = (log_laws + psi) / n * (1.0 + 1e-14) if log_laws + psi >= 0.0 else NOTHING_KNOWN
            radius[g] = c
            tv[g] = min(1.0, tv_radius(some, 0, size, n, c, size < K, sums) if exact_tv else sqrt(0.5 * c))

"""Confidence radii: how far a distribution can be from the empirical one, in KL divergence and in total variation.

There is one function for each lemma, which is stated and proved there: `docs/theory.md`, 3.1, 3a, 3b, 3c, 4.1 and 8.1. A
threshold psi means that n KL(p_hat, p) <= log(1/delta) + psi at all times at once, with probability at least 1 - delta.
Everything errs on the safe side: a threshold or a radius is never below the exact value.
"""

from __future__ import annotations

from math import exp, expm1, isnan, lgamma, log, log1p, pi, sqrt

import numpy as np

from .compiled import inlined, loop
from .formulas import mixture
from .table import NODES, is_known, log_ratio

HALF_LOG_2 = 0.5 * log(2.0)
HALF_LOG_2PI = 0.5 * log(2.0 * pi)
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
    return (x * log(x) - x if x > 0.0 else 0.0) + HALF_LOG_2PI - lgamma(x + 0.5)


@inlined
def gamma_step(x):
    """log Gamma(x + 1) - log Gamma(x + 1/2) for x >= 0, without cancellation: log(x)/2 + 1/(8x) - 1/(192x^3) + ..."""
    if x >= 16.0:
        y = 1.0 / (x * x)
        return 0.5 * log(x) + (1.0 / 8.0 - y * (1.0 / 192.0 - y * (1.0 / 640.0 - y * (17.0 / 14336.0)))) / x
    return lgamma(x + 1.0) - lgamma(x + 0.5)


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
    for _ in range((k - 1) // 2):
        total += log(x)
        x += 1.0
    return total


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
    for i in range(K):
        log_choose += log((S - i) / (i + 1.0))
    first = lgamma(0.5 * K) - log_rise(n, K)  # the largest Gamma factor; the others are relative to it, so nothing overflows
    second = lgamma(0.5 * (K + 1)) - log_rise(n, K + 1)
    even, odd = 1.0, exp(second - first)  # Gamma factors of k = K, K + 2, ... and of k = K + 1, K + 3, ..., divided by the first
    total, weight = 0.0, 1.0  # weight: the prior of a subset of size k, divided by that of size K
    for k in range(K, min(S, K + TERMS - 1) + 1):
        total += weight * even
        if weight * (even + odd) < 1e-18 * total:  # omitting the rest is on the safe side
            break
        weight *= 0.5 * (k + 1.0) / (k + 1.0 - K)
        even, odd = odd, even * (0.5 * k) / (n + 0.5 * k)
    return first - K * 2.0 * HALF_LOG_2 - log_choose - log1p(-exp(-S * 2.0 * HALF_LOG_2)) + log(total)


@inlined
def excess(t):
    """t - log(1 + t) for t > -1, without cancellation."""
    if abs(t) < 1e-3:
        return t * t * (0.5 - t * (1.0 / 3.0 - t * (0.25 - t * (0.2 - t * (1.0 / 6.0 - t / 7.0)))))
    return t - log1p(t)


@loop
def rise(x, c):
    """An upper bound on d = max{q : kl(x, q) <= c} - x, for x in [0, 1), and hardly larger.

    kl(x, x + d) = x excess(d/x) + (1-x) excess(-d/(1-x)), both terms positive. Newton's method from the right on a convex
    function stays on the right. It starts from the smaller one of two upper bounds: Pinsker's, and the one that follows from -x
    log q >= 0.
    """
    spread = x * log(x) if x > 0.0 else 0.0
    d = min(sqrt(0.5 * c), -(1.0 - x) * expm1((spread - c) / (1.0 - x)))
    if x > 0.0 and d < 1.0 - x:
        for _ in range(60):
            above = x * excess(d / x) + (1.0 - x) * excess(-d / (1.0 - x)) - c
            step = above * (x + d) * (1.0 - x - d) / d if d > 0.0 else 0.0
            if not step > 1e-13 * d:
                break
            d -= step
    return min(1.0 - x, d * (1.0 + 1e-12))


@loop
def kl_up(x, c):
    """An upper bound on max{q >= x : kl(x, q) <= c}."""
    return min(1.0, (x + rise(x, c)) * (1.0 + 1e-15)) if x < 1.0 else 1.0


@loop
def still_rises(x, d):
    """Whether d = q - x still increases with x along kl(x, q) = c: the sign of dq/dx - 1."""
    return d < 1.0 - x and (x + d) * (1.0 - x - d) * (log1p(d / x) - log1p(-d / (1.0 - x))) > d


@loop
def tv_radius(seen, begin, size, n, c, unseen, sums):
    """The largest TV(p_hat, p) with KL(p_hat, p) <= c: the maximum of rise(x, c) over the values x = p_hat(A) of events A.

    `unseen` says whether p may have successors that were not observed; then x = 0 counts too. The function is concave in x, so
    its slope at one event tells on which side better ones are. With many successors the maximum over all x in (0, 1) is taken,
    which is an upper bound. `sums` is scratch space for 2^ENUMERATED numbers.
    """
    if not c < 700.0:
        return 1.0
    best = -expm1(-c) if unseen else 0.0
    low, high = 0.0, 1.0
    if size > ENUMERATED:
        for _ in range(40):
            x = 0.5 * (low + high)
            d = rise(x, c)
            best = max(best, d)
            low, high = (x, high) if still_rises(x, d) else (low, x)
        return min(1.0, sqrt(0.5 * c), best * (1.0 + 1e-9))
    events = 1 << size
    sums[0] = 0.0
    for event in range(1, events):
        rest = event & (event - 1)
        k, bit = 0, event ^ rest
        while (bit >> k) > 1:
            k += 1
        sums[event] = sums[rest] + seen[begin + k]
    while True:  # take the event nearest to the middle of the remaining interval
        x, middle = -1.0, 0.5 * (low + high)
        for event in range(1, events - 1):
            y = sums[event] / n
            if low < y < high and (x < 0.0 or abs(y - middle) < abs(x - middle)):
                x = y
        if x < 0.0:
            return min(1.0, best * (1.0 + 1e-9))
        d = rise(x, c)
        best = max(best, d)
        low, high = (x, high) if still_rises(x, d) else (low, x)


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


@loop
def all_radii(table, A, S, kind, K, log_laws, scored, exact_tv, sums, mixtures, radius, tv, done):
    """Writes the KL radius and the total variation radius of every visited row. Row 0 holds the initial states.

    `scored` holds the evidence of each edge, and is empty without transfer. A row that has as many visits as in `done` has its
    radii already: they depend on nothing but its own observations and their evidence, which is final once it is booked. `sums`
    is scratch space, as in `tv_radius`, and so is `mixtures`, for the thresholds of rows with few visits, nan at first.
    """
    first, size, seen, count = table.first, table.size, table.seen, table.n
    for row in range(np.int64(table.used[NODES]) * A):
        if is_known(table.known, A, table.state[row // A], row % A) if row >= A else len(table.starts) > 0:
            radius[row] = tv[row] = 0.0  # absorbing, illegal, or a known distribution of the initial state: nothing to estimate
            done[row] = 0
        elif count[row] != done[row]:
            n, begin, width = float(count[row]), np.int64(first[row]), np.int64(size[row])
            at_start = row < A  # there may be more than K initial states, and transfer does not predict them
            of_kind = SUPPORT if at_start and kind == SIZE else kind
            if of_kind == SUPPORT and count[row] < mixtures.shape[0] and width < mixtures.shape[1]:
                if isnan(mixtures[count[row], width]):
                    mixtures[count[row], width] = log_mixture(width, n, S)
                psi = evidence(seen, begin, width, n) - mixtures[count[row], width]
            else:
                psi = threshold(seen, begin, width, n, S, of_kind, K)
            final = True
            if len(scored) > 0 and not at_start:
                psi = psi_mixed(psi, psi_transfer(seen, scored, begin, width, n))
                for e in range(begin, begin + width):
                    final = final and table.booked[e] == seen[e]
            # If this is negative, no distribution satisfies the bound: the event has failed, and the row counts as unknown.
            c = (log_laws + psi) / n * (1.0 + 1e-14) if log_laws + psi >= 0.0 else NOTHING_KNOWN
            unseen = width < (K if kind == SIZE and not at_start else S)
            radius[row] = c
            tv[row] = min(1.0, tv_radius(seen, begin, width, n, c, unseen, sums) if exact_tv else sqrt(0.5 * c))
            done[row] = count[row] if final else 0


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

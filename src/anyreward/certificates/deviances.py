"""Deviances of fixed amounts of data: numbers that n KL(p_hat, p) hardly ever exceeds, if n was fixed beforehand.

An all-times threshold pays for every n at which one may look. For a single n, the deviance of a law on k outcomes is about half a
chi-squared variable with k - 1 degrees of freedom. The lemmas are `docs/theory.md`, 14.3, 14.4 and 15.5: `deviance_limit`
is the limit, and `deviance_quantile` the quantile of the sum of stages.
"""

from __future__ import annotations

from math import log

import numpy as np

from .. import kernels

BRACKETS = (0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 14.0)  # of the lattice shifts; more follow until the largest limit
LIMIT = 0.05  # the share of the failure probability of a quantile that the limit takes
CELLS = 2000  # into which deviances up to the limit are divided, each rounded up to the end of its cell


def deviance_limit(k: int, tail: float) -> float:
    """A number that the deviance of a law on k outcomes exceeds with probability at most `tail`, whatever the sample size.

    A deviance is at most a sum of k - 1 terms log 2 + Exp(1) (`docs/theory.md`, 14.3); rounded up.
    """
    n = k - 1
    if n == 0:
        return 0.0
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n)))])

    def log_tail(x: float) -> float:
        terms = np.arange(n) * log(x) - factorials
        most = float(terms.max())
        return most + log(float(np.exp(terms - most).sum())) - x

    low, high = 0.0, 1.0 - log(tail)
    while log_tail(high) > log(tail):
        low, high = high, 2.0 * high
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if log_tail(middle) > log(tail) else (low, middle)
    return (n * log(2.0) + high) * (1 + 1e-11)


def brackets(limit: float) -> np.ndarray:
    """The ends of the brackets of the lattice shifts; the last one is at least `limit`, beyond which nothing is simulated."""
    ends = [x for x in BRACKETS if x < limit]
    while not ends or ends[-1] < limit:
        ends.append(next((x for x in BRACKETS if x >= limit), 1.5 * max(BRACKETS[-1], ends[-1] if ends else 0.0)))
    return np.array(ends)


def deviance_quantile(seen: np.ndarray, tail: float) -> float:
    """A number that n KL(p_hat, p) exceeds with probability at most `tail`, whatever p is; n was fixed beforehand.

    Given the limit, which the deviance exceeds with a small part of that probability, p is close to p_hat, so that the tails of
    the stages of the chain rule are known (`docs/theory.md`, 14.4): about those of half a chi-squared variable each. Their
    convolution gives the quantile, with each stage rounded up to the next of `CELLS` points.

    Parameters
    ----------
    seen : ndarray, (k,)
        How often each outcome was counted, in an order that was fixed beforehand, zeros included.
    tail : float
    """
    from scipy.special import ndtr  # whoever needs no quantile does not wait for it

    if len(seen) == 1:
        return 0.0
    limit, level = deviance_limit(len(seen), LIMIT * tail), (1.0 - LIMIT) * tail
    ends, stages = brackets(limit), len(seen) - 1
    law = kernels.calibrated.Laws(
        row=np.zeros(1, np.int64),
        m=np.array([float(seen.sum())]),
        limit=np.array([limit]),
        tau=np.zeros(1),
        stages=np.array([0, stages]),
        shift=np.zeros((stages, len(ends))),
        bracket=ends,
    )
    kernels.calibrated.all_laws(np.array([0, stages + 1]), np.ascontiguousarray(seen, dtype=float), law)
    x = np.arange(CELLS + 1) * (limit / CELLS)
    bracket = np.minimum(np.searchsorted(ends, x), len(ends) - 1)
    total = np.zeros(CELLS + 1)  # P(the sum of the stages so far > x), or more
    for shift in law.shift:
        # Far from normal, where the shift is infinite, the normal tail is 1. At least x is less likely than at least less.
        above = np.minimum(np.minimum(1.0, 2.0 * np.exp(-x)), 2.0 * ndtr(shift[bracket] - np.sqrt(2.0 * x)))
        above = np.minimum.accumulate(above)
        cell = np.append(1.0 - above[0], -np.diff(above))  # P(this stage is in the cell that ends at x)
        total = np.minimum(1.0, (np.convolve(cell, total)[: CELLS + 1] + above) * (1.0 + 1e-9))
    return float(limit if total[-1] > level else x[np.argmax(total <= level)] * (1.0 + 1e-11))

"""Whether new data are of the same laws as old data: an e-value for each law, and one for all of them.

Let N be the old counts of a law and N' the new ones, k the number of outcomes in N, c the number of those in N' alone, and
KT_j(N) = Γ(j/2)/Γ(n + j/2) Π_{seen} Γ(N_x + 1/2)/Γ(1/2) the probability of counts under Dirichlet(1/2) predictions of j outcomes.
With w_j = 1/(j (j + 1)), w'_0 = 1/2, w'_c = w_c/2 and ML the largest likelihood of one law,

    e_g = w_k k! KT_k(N) w'_c c! KT_{k+c}(N') / ML(N + N' - 1{seen}),         1 if N is empty,
    e = Σ_j w_j Π_g (1 - r_j + r_j e_g),  r_j = 2^-j.

While no law changes, e ever reaches 1/alpha with probability at most alpha, under any adaptive sampling (`docs/theory.md`, 16.1
and 16.2). No number of states enters a law's e-value, and the product over laws keeps its power if one of many laws has changed,
as it does if all have.
"""

from __future__ import annotations

from math import ceil, log, log2

import numpy as np

ROUNDING = 4e-15  # relative to the largest terms of a sum of logarithms of gamma functions


def log_evidence(law: np.ndarray, old: np.ndarray, new: np.ndarray, laws: int) -> np.ndarray:
    """log e_g of every law, (laws,), rounded down.

    Parameters
    ----------
    law : ndarray of int, (E,)
        To which law an outcome belongs.
    old, new : ndarray, (E,)
        How often the outcome was observed before and after. Each outcome of a law appears once.
    laws : int
    """
    from scipy.special import gammaln, xlogy

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(law, values, laws)

    k, c = total(old > 0), total((old == 0) & (new > 0))
    n, m = total(old), total(new)
    left = old + new - (old + new > 0)  # one occurrence of each outcome cancels against the law's own probability of it
    all_left = total(left)
    half = np.log(np.pi) / 2  # log Γ(1/2)
    terms = [
        gammaln(np.maximum(k, 1) / 2)
        - gammaln(n + np.maximum(k, 1) / 2)
        + total(np.where(old > 0, gammaln(old + 0.5) - half, 0.0)),
        gammaln(np.maximum(k + c, 1) / 2)
        - gammaln(m + np.maximum(k + c, 1) / 2)
        + total(np.where(new > 0, gammaln(new + 0.5) - half, 0.0)),
        gammaln(k + 1) + gammaln(c + 1) - np.log(np.maximum(k * (k + 1), 1)) - np.log(2 * np.maximum(c * (c + 1), 1)),
        xlogy(all_left, all_left) - total(xlogy(left, left)),
    ]
    size = (n + m + 2) * np.log(n + m + 2)  # as large as any of the numbers that were added up
    return np.where(k > 0, sum(terms) - ROUNDING * size, 0.0)


def log_evidence_against_known(q: np.ndarray, new: np.ndarray) -> float:
    """log e of new counts (K,) of a law that is declared to be q (K,): Dirichlet(1/2) predictions against q itself."""
    from scipy.special import xlogy

    from .alarm import log_kt

    if (new[q == 0] > 0).any():
        return np.inf
    n = new.sum() + 2
    return float(log_kt(new) - xlogy(new, np.where(q > 0, q, 1.0)).sum() - ROUNDING * n * np.log(n))


def combined(log_e: np.ndarray) -> float:
    """log e of all laws together, from those of the laws with data, (G,), rounded down."""
    from scipy.special import logsumexp

    if np.isposinf(log_e).any():
        return np.inf
    parts = []
    for j in range(1, ceil(log2(max(len(log_e), 1))) + 3):
        r = 2.0**-j
        factors = np.logaddexp(np.log1p(-r), np.log(r) + log_e)
        parts.append(factors.sum() - log(j * (j + 1)) - 1e-15 * np.abs(factors).sum())
    return float(logsumexp(parts)) - 1e-12

"""Quantiles of deviances for amounts that were fixed beforehand: exact coverage, and that every part of them is needed.

It watches `docs/theory.md`, 14.3, 14.4 and 15.5.
"""

from math import comb

import numpy as np
import pytest
from scipy.special import ndtri, xlogy
from scipy.stats import binom, multinomial

from anyreward.certificates.deviances import deviance_limit, deviance_quantile


def deviances(N, q):
    """n KL(N/n, q) of each row of N."""
    n = N.sum(axis=-1, keepdims=True)
    return (xlogy(N, N / n) - xlogy(N, q)).sum(axis=-1)


@pytest.mark.parametrize(("n", "tail", "power"), [(30, 0.05, 0.3), (300, 0.3, 0.7), (300, 0.05, 0.6), (300, 0.005, 0.5)])
def test_two_outcomes_by_enumeration(n, tail, power):
    """Over all q, the probability of exceeding is at most `tail`, and not much less. With the normal quantile it is more."""
    K = np.arange(n + 1)
    N = np.stack([K, n - K], axis=1)
    quantiles, normal = np.array([deviance_quantile(row, tail) for row in N]), ndtri(tail / 2) ** 2 / 2
    shares, naive = [], []
    for q in np.linspace(0.01, 0.99, 99):
        p, dev = binom.pmf(K, n, q), deviances(N, np.array([q, 1 - q]))
        shares.append(p[dev > quantiles].sum())
        naive.append(p[dev > normal].sum())
    assert power * tail < max(shares) <= tail < max(naive)
    assert (quantiles <= deviance_limit(2, 0.05 * tail)).all()


def test_three_outcomes_by_enumeration():
    n, tail = 50, 0.5
    N = np.array([(i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)])
    assert len(N) == comb(n + 2, 2)
    quantiles = np.array([deviance_quantile(row, tail) for row in N])
    shares = []
    for q in ((1 / 3, 1 / 3, 1 / 3), (0.6, 0.3, 0.1), (0.9, 0.05, 0.05), (0.5, 0.499, 0.001), (0.001, 0.4, 0.599)):
        shares.append(multinomial.pmf(N, n, q)[deviances(N, np.array(q)) > quantiles].sum())
    assert 0.1 * tail < max(shares) <= tail


def test_many_samples_of_four_outcomes():
    """Close to half a chi-squared variable with three degrees of freedom, whose 5% point is 3.907."""
    N = np.array([40_000, 30_000, 20_000, 10_000])
    assert 3.907 < deviance_quantile(N, 0.05) < 4.1
    rng, q = np.random.default_rng(0), N / N.sum()
    drawn = rng.multinomial(2_000, q, 600)
    above = (deviances(drawn, q) > [deviance_quantile(row, 0.3) for row in drawn]).mean()
    assert 0.2 < above <= 0.3 + 3 * np.sqrt(0.21 / 600)


def test_outcomes_that_never_happened_and_only_one():
    assert deviance_quantile(np.array([1000]), 0.1) == 0.0
    alone = deviance_quantile(np.array([1000, 0, 0]), 0.1)
    assert deviance_quantile(np.array([600, 400, 0]), 0.1) < alone <= deviance_limit(3, 0.005)

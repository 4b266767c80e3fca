"""Is A better than B? Bootstrap intervals of means, and a permutation test that is corrected for testing all pairs at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

EXACT = 14  # up to this many runs, all 2^N sign flips are enumerated
DRAWS = 10_000  # random sign flips if there are more runs


@dataclass(frozen=True)
class BootstrapInterval:
    """The mean over runs with its 95% bootstrap interval [low, high]."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]"


def bootstrap_interval(values: Sequence[float], draws: int = 2_000) -> BootstrapInterval:
    """The mean of a sample with its 95% bootstrap interval (percentile method).

    The interval is approximate. It is the same at every call: the generator has a fixed seed.

    Parameters
    ----------
    values
        One number for each run, at least one.
    draws
        How many bootstrap samples are drawn.
    """
    x = np.asarray(values, dtype=float)
    means = np.random.default_rng(0).choice(x, (draws, len(x))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return BootstrapInterval(float(x.mean()), float(low), float(high))


def permutation_test(values: np.ndarray) -> np.ndarray:
    """Permutation test of which method has the smaller mean, for all pairs of methods at once.

    Runs are paired: run k of every method has the same seed, so that differences between methods are not differences of luck. The
    hypothesis is that two methods do not differ, in the sense that the differences of their runs are symmetric about 0. The signs
    of the differences of a run can then be flipped, those of all pairs together. The statistic is the largest scaled mean
    difference over all pairs; its distribution under sign flips gives p-values that are adjusted for all pairs (Westfall & Young
    1993). All 2^N flips are enumerated up to 14 runs; beyond that, 10,000 random flips are drawn with a fixed seed.

    If no two methods differ, the probability that any pair has a p-value of at most alpha is at most alpha. Two distributions
    with the same mean but another shape do differ in this sense, and with few runs the test may tell them apart.

    Parameters
    ----------
    values
        (M, N) array: the results of M methods (rows) in the same N >= 2 runs (columns), all finite.

    Returns
    -------
    numpy.ndarray
        (M, M) adjusted p-values of "the mean of method i is smaller than the mean of method j"; 1 where it is not.
    """
    x = np.asarray(values, dtype=float)
    if x.ndim != 2 or x.shape[1] < 2:
        raise ValueError(f"values have shape {x.shape}: a test needs methods in rows and at least two runs in columns.")
    M, N = x.shape
    if not np.isfinite(x).all():
        raise ValueError("a value is not a finite number: nothing can be tested with it.")
    i, j = (index.ravel() for index in np.meshgrid(np.arange(M), np.arange(M), indexing="ij"))
    differences = x[j] - x[i]  # (M*M, N), positive where i is smaller
    size = np.sqrt((differences**2).sum(axis=1))  # does not change under sign flips
    scaled = np.divide(differences, size[:, None], out=np.zeros_like(differences), where=size[:, None] > 0)
    observed = scaled.sum(axis=1)
    if N <= EXACT:
        signs = 1.0 - 2.0 * ((np.arange(2**N)[:, None] >> np.arange(N)) & 1)
    else:
        drawn = np.random.default_rng(0).choice([-1.0, 1.0], (DRAWS, N))
        signs = np.concatenate([np.ones((1, N)), drawn])  # the observed signs are one of the flips
    most = np.concatenate([(part @ scaled.T).max(axis=1) for part in np.array_split(signs, max(1, len(signs) // 512))])
    p = (most[None, :] >= observed[:, None] - 1e-12).mean(axis=1)
    return np.where(observed > 0, p, 1.0).reshape(M, M)

"""Is A better than B? Bootstrap bands, and a permutation test that accounts for all the comparisons that are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

EXACT = 14  # up to so many runs, all flips are looked at
DRAWS = 10_000  # flips beyond that


@dataclass(frozen=True)
class Band:
    """A mean over runs with its bootstrap interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]"


def band(values: Sequence[float], draws: int = 2_000) -> Band:
    """The mean and its 95% bootstrap interval."""
    x = np.asarray(values, dtype=float)
    means = np.random.default_rng(0).choice(x, (draws, len(x))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Band(float(x.mean()), float(low), float(high))


def smaller(values: np.ndarray) -> np.ndarray:
    """Adjusted p-values, (M, M), of "the mean of i is smaller than that of j", from M methods over the same N runs, (M, N).

    Paired by run, which gives all methods the same luck. If the methods do not differ, the signs of a run's differences are as
    likely to be the other way round, those of all pairs at once; so the largest scaled mean difference over all pairs is compared
    with its distribution under flips of the runs' signs (Westfall & Young 1993; all 2^N flips up to 14 runs). The probability
    that any pair is called different at level alpha though none is, is at most alpha. "Not different" means differences that are
    symmetric about 0: two laws of the same mean and another shape do differ, and with few runs may be told apart.
    """
    x = np.asarray(values, dtype=float)
    if x.ndim != 2 or x.shape[1] < 2:
        raise ValueError(f"values have shape {x.shape}: a test needs methods in rows and at least two runs in columns.")
    M, N = x.shape
    if not np.isfinite(x).all():
        raise ValueError("a value is not a finite number: nothing can be tested with it.")
    i, j = (index.ravel() for index in np.meshgrid(np.arange(M), np.arange(M), indexing="ij"))
    differences = x[j] - x[i]  # positive: i is smaller
    size = np.sqrt((differences**2).sum(axis=1))  # what flips leave as it is
    scaled = np.divide(differences, size[:, None], out=np.zeros_like(differences), where=size[:, None] > 0)
    observed = scaled.sum(axis=1)
    if N <= EXACT:
        signs = 1.0 - 2.0 * ((np.arange(2**N)[:, None] >> np.arange(N)) & 1)
    else:
        drawn = np.random.default_rng(0).choice([-1.0, 1.0], (DRAWS, N))
        signs = np.concatenate([np.ones((1, N)), drawn])  # what was seen is one of them
    most = np.concatenate([(part @ scaled.T).max(axis=1) for part in np.array_split(signs, max(1, len(signs) // 512))])
    p = (most[None, :] >= observed[:, None] - 1e-12).mean(axis=1)
    return np.where(observed > 0, p, 1.0).reshape(M, M)

"""What the references of several algorithms share: counts, empirical laws, and RF-UCRL's threshold."""

import math

import numpy as np


def sigma(k: int, gamma: float) -> float:
    return sum(gamma**i for i in range(k))


def by_step(n: np.ndarray, H: int) -> np.ndarray:
    """n[h, s, a, x] for each step: pooled counts are those of every step."""
    return n if n.ndim == 4 else np.broadcast_to(n, (H, *n.shape))


def horizon_of(n: np.ndarray, horizon: int | None) -> int:
    """The horizon is the first axis of step-dependent counts; pooled ones do not know it."""
    if n.ndim == 4:
        return n.shape[0]
    assert horizon is not None, "pooled counts need the horizon"
    return horizon


def p_hat(seen: np.ndarray) -> np.ndarray:
    """The empirical law of the successors seen (S,), uniform without data (a filler: no formula may depend on it)."""
    return seen / seen.sum() if seen.sum() else np.full(len(seen), 1 / len(seen))


def variance(p: np.ndarray, f: np.ndarray) -> float:
    return float(p @ (f - p @ f) ** 2)


def beta(visits: float, S: int, laws: int, delta: float) -> float:
    """log(2 laws / delta) + (S-1) log(e (1 + n/(S-1))); laws = SAH by step, SA pooled. Kaufmann et al. 2021, Theorem 1.

    With probability 1 - delta/2, n KL(p_hat, p) <= beta(n) for all laws and all n at once.
    """
    return math.log(2 * laws / delta) + ((S - 1) * math.log(math.e * (1 + visits / (S - 1))) if S > 1 else 0.0)

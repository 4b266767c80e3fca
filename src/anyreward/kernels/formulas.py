"""Formulas that several algorithms share. They are ordinary Python functions, which kernels compile.

An algorithm keeps its constants in a named tuple whose methods are the formulas of its index. `compiled.method` turns such a
method into a function that a kernel can call; which code it runs is determined by the type of the tuple. The methods are ordinary
Python too, restricted to what Numba understands: numbers, arrays, tuples, loops and the functions of this file.
"""

from __future__ import annotations

from math import log
from typing import Any, NamedTuple

import numpy as np


def mixture(n: Any, m: float) -> Any:
    """m log(e (1 + n/m)), the part of the paper's threshold beta that grows with n, where m = S - 1; 0 if m = 0.

    `n` is a number or an array.
    """
    return m * (1.0 + np.log1p(n / m)) if m > 0.0 else 0.0 * n


def beta_level(log_laws: float, m: float) -> float:
    """The part of beta that does not depend on n, for `beta`; `log_laws` is log(2 N / delta)."""
    return log_laws + (m * (1.0 - log(m)) if m > 0.0 else 0.0)


def beta(n: float, m: float, level: float) -> float:
    """The paper's threshold, log(2 N / delta) + m log(e (1 + n/m)) with m = S - 1; its event is in `certificates.thresholds`.

    With `level` from `beta_level`, one logarithm and no division are left to compute: level + m log(m + n).
    """
    return level + m * log(max(1.0, m + n))


EIGHT_E = 21.746254627672363  # 8 e, rounded up: in the thresholds of Ménard et al. (2021)


class Row(NamedTuple):
    """What a formula gets to see of a state-action pair with data."""

    bonus: float  # the first number that the algorithm's `bonus` gave for the visits of this row
    root: float  # the second number
    before: float  # the index of the row before this pass


class Ahead(NamedTuple):
    """What a formula gets to see of the successors of a row: the row's edges, and the values at the next step."""

    target: np.ndarray  # for each edge, the node that it leads to
    seen: np.ndarray  # for each edge, how often it was observed
    begin: int  # the edges of this row are begin, ..., end - 1
    end: int
    share: float  # 1 / n
    V: np.ndarray  # for each node, max_a Q
    V_lo: np.ndarray  # for each node, the lower index
    G: np.ndarray  # for each node, how much the policy can lose
    met: np.ndarray  # for each node, how often it was visited at that step


def mean(ahead: Ahead, values: np.ndarray) -> float:
    """The mean of values(s') under p_hat: sum_s' p_hat(s'|s,a) values(s')."""
    total = 0.0
    for e in range(ahead.begin, ahead.end):
        total += ahead.seen[e] * values[ahead.target[e]]
    return total * ahead.share


def mean_and_variance(ahead: Ahead, values: np.ndarray) -> tuple[float, float]:
    """The mean and the variance of values(s') under p_hat(.|s,a)."""
    first, second = 0.0, 0.0
    for e in range(ahead.begin, ahead.end):
        v, times = values[ahead.target[e]], ahead.seen[e]
        first += times * v
        second += times * v * v
    first, second = first * ahead.share, second * ahead.share
    return first, max(0.0, second - first * first)


def mean_square_gap(ahead: Ahead, one: np.ndarray, other: np.ndarray) -> float:
    """The mean of (one(s') - other(s'))^2 under p_hat(.|s,a)."""
    total = 0.0
    for e in range(ahead.begin, ahead.end):
        gap = one[ahead.target[e]] - other[ahead.target[e]]
        total += ahead.seen[e] * gap * gap
    return total * ahead.share


SHARED = (mixture, beta, mean, mean_and_variance, mean_square_gap)  # the functions that kernels compile

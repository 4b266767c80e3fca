"""Formulas that several algorithms share, as ordinary Python: they can be called as they are, and kernels compile them.

An algorithm keeps its constants in a named tuple, whose methods are the formulas of its index. `compiled.method` makes such a
method a function that a kernel can call; the code for it is chosen by the type of the tuple. The methods are ordinary Python as
well, restricted to what Numba understands: numbers, arrays, tuples, loops and the functions of this file.
"""

from __future__ import annotations

from math import log
from typing import Any, NamedTuple

import numpy as np


def mixture(n: Any, m: float) -> Any:
    """m log(e (1 + n/m)), the part of the paper's threshold beta that grows with n, a number or an array; 0 for m = S - 1 = 0."""
    return m * (1.0 + np.log1p(n / m)) if m > 0.0 else 0.0 * n


def beta_level(log_laws: float, m: float) -> float:
    """The part of beta that does not depend on n, see `beta`; `log_laws` is log(2 N / delta)."""
    return log_laws + (m * (1.0 - log(m)) if m > 0.0 else 0.0)


def beta(n: float, m: float, level: float) -> float:
    """The paper's threshold, log(2 N / delta) + m log(e (1 + n/m)) with m = S - 1: the event is in `certificates.thresholds`.

    With `level` from `beta_level`, one logarithm and no division are left: level + m log(m + n).
    """
    return level + m * log(max(1.0, m + n))


class Row(NamedTuple):
    """What a formula sees of a pair of state and action with data."""

    bonus: float  # what `bonus` of the algorithm gave for the visits of this row
    root: float  # its second number
    before: float  # the index of the row before this pass


class Ahead(NamedTuple):
    """What a formula sees of the successors of a row: where the row's edges are, and the values of the step after it."""

    target: np.ndarray  # of every edge: the node that it leads to
    seen: np.ndarray  # of every edge: how often it was taken
    begin: int  # the edges of this row are begin ... end - 1
    end: int
    share: float  # 1 / n
    V: np.ndarray  # of every node: max_a Q
    V_lo: np.ndarray  # of every node: the lower index
    G: np.ndarray  # of every node: what the policy can lose
    met: np.ndarray  # of every node: how often it was the state at that step


def mean(ahead: Ahead, values: np.ndarray) -> float:
    """sum_s' p_hat(s'|s,a) values(s')."""
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
    """sum_s' p_hat(s'|s,a) (one(s') - other(s'))^2."""
    total = 0.0
    for e in range(ahead.begin, ahead.end):
        gap = one[ahead.target[e]] - other[ahead.target[e]]
        total += ahead.seen[e] * gap * gap
    return total * ahead.share


SHARED = (mixture, beta, mean, mean_and_variance, mean_square_gap)  # what kernels compile

"""Indices whose bonus depends on the visits of a pair alone: one compiled formula, which several algorithms share.

For a pair with n visits at step h (from 0), with m = H - h the steps that are left, this one included:

    kind        Q_h(s,a)                                                       without data         whose
    KNOWN       min(m, r + p_hat V) from `known_from` visits on, r at H-1      m, r at H-1          R-MAX
    HOEFFDING   min(m, r + p_hat V + (m-1) b),  b = sqrt(L / 2n)               m                    MBIE-EB
    ITERATED    r + min(m-1, p_hat V + (m-1) b),  b = sqrt((2 llnp(n) + L)/n)  r + m-1              UBEV
    LINEAR      min(m, n/(n+1) p_hat V + (m-1) b),  b = (1+1/H)(sqrt(beta(n)/2) + 1) / sqrt(n+1)    RF-linear
    ROOT        min(m g(0), g(n) + p_hat V),  g = 1/sqrt(n)                    m g(0)               count
    INVERSE     the same with g = 1/(n + more)                                 m g(0)               count, log-coverage
    LOG         the same with g = log(T / (n + more))                          m g(0)               count, EntGame

V = max_a Q at the next step, llnp(n) = log log max(n, e), and b is multiplied by `scale`. Each algorithm says in its own file
what its constants are and what is proved. For KNOWN there is a lower index as well, with r for pairs that are not known.

An index plays the same if the same number is added to the bonus of every pair, since every episode visits one pair a step. So T
in LOG may be any constant; it is 2^53, with which the index is never negative.
"""

from __future__ import annotations

from math import e, log, sqrt
from typing import NamedTuple

from ..kernels.formulas import Ahead, Row, beta, mean

KNOWN, HOEFFDING, ITERATED, LINEAR, ROOT, INVERSE, LOG = range(7)
LOG_T = 53 * log(2.0)


class VisitIndex(NamedTuple):
    """Constants of an index of visits; those that its kind does not use are left as they are."""

    kind: int
    H: float
    scale: float = 1.0
    level: float = 0.0  # L; for LINEAR that of beta
    more: float = 0.0  # of INVERSE and LOG; for LINEAR the number of outcomes less one, of beta
    known_from: float = 0.0
    peak: float = 1.0  # g(0), or 1: what a step is worth at most

    def bonus(self, n: float) -> tuple[float, float]:
        b, share = 0.0, 1.0
        if self.kind == KNOWN:
            share = 1.0 if n >= self.known_from else 0.0
        elif self.kind == HOEFFDING:
            b = self.scale * sqrt(self.level / (2.0 * n))
        elif self.kind == ITERATED:
            b = self.scale * sqrt((2.0 * log(log(max(n, e))) + self.level) / n)
        elif self.kind == LINEAR:
            radius = (sqrt(beta(n, self.more, self.level) / 2.0) + 1.0) / sqrt(n + 1.0)
            b, share = self.scale * (1.0 + 1.0 / self.H) * radius, n / (n + 1.0)
        elif self.kind == ROOT:
            b = 1.0 / sqrt(n)
        elif self.kind == INVERSE:
            b = 1.0 / (n + self.more)
        else:
            b = LOG_T - log(n + self.more)
        return b, share

    def blank(self, h: int, r: float) -> tuple[float, float, float]:
        most, last = self.H - h, h == self.H - 1.0
        if self.kind == KNOWN:
            return r if last else most, r, most
        return r + most - 1.0 if self.kind == ITERATED else most * self.peak, 0.0, most

    def entry(self, h: int, r: float, row: Row, ahead: Ahead) -> tuple[float, float, float]:
        most = self.H - h
        if self.kind == KNOWN:
            if row.root == 0.0 or most == 1.0:
                return r if most == 1.0 else most, r, most
            return min(most, r + mean(ahead, ahead.V)), r + mean(ahead, ahead.V_lo), most
        if self.kind == ITERATED:
            return r + min(most - 1.0, mean(ahead, ahead.V) + (most - 1.0) * row.bonus), 0.0, most
        weight = most - 1.0 if self.kind < ROOT else 1.0
        return min(most * self.peak, r + row.root * mean(ahead, ahead.V) + weight * row.bonus), 0.0, most

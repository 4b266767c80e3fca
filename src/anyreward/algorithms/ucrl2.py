"""UCRL2 (Jaksch, Ortner & Auer 2010), in its finite-horizon form with known rewards; see `phased`.

    ball: ||p - p_hat||_1 <= sqrt(14 S log(2 A t / delta) / max(1, n)),   t - 1 transitions before the phase

As in the original, t counts from 1. S is how many outcomes a transition can have.

Guarantee: regret, D S sqrt(A T) in the original. On a finite horizon: all laws lie in their balls at all times with probability
1 - delta, also with a count for each step and a random start. (Weissman et al. 2003: one ball misses with probability at most
x^S, x = 2 (2 A t/delta)^-7 <= 1/64. At time t there are at most S A H + 1 <= S A t laws, since t > H once there are data, and
fewer than t counts. As S x^S <= 2 x^2 for S >= 2, some ball misses at time t with probability at most 2 A t^2 x^2, which sums to
less than delta. If S = 1, nothing can miss.) The radius was read in a public implementation. So V_up - V_lo certifies the
recommendation.
"""

from __future__ import annotations

from math import inf, log, sqrt
from typing import NamedTuple

from .phased import PhasedUCRL
from .registry import register


class L1Balls(NamedTuple):
    """Of the L1 norm: scale sqrt(factor (level + pace log t) / min(n, most)). UCRL2 and MBIE have them."""

    scale: float
    factor: float
    level: float
    pace: float
    most: float

    def radius(self, n: float, log_t: float) -> float:
        return self.scale * sqrt(self.factor * (self.level + self.pace * log_t) / min(n, self.most))


@register("ucrl2")
class UCRL2(PhasedUCRL):
    """UCRL2 as ask and tell; see `PhasedUCRL` for options."""

    guarantee = "its recommendation loses at most V_up - V_lo; regret ~ D S sqrt(A T) in the original"
    status = "certified"
    reference = "Jaksch et al. 2010"
    norm = "l1"

    def balls(self) -> L1Balls:
        return L1Balls(float(self.scale), 14.0 * self.setting.n_outcomes, log(2 * self.setting.n_actions / self.delta), 1.0, inf)

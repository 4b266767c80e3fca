"""BPI-UCBVI (Ménard et al. 2021): best-policy identification for one known reward, with variances instead of KL balls.

    beta(n) = log(3 S A H/delta) + S log(8 e (n+1)),   beta*(n) = log(3 S A H/delta) + log(8 e (n+1))
    b    = 3 sqrt(Var_p_hat(V_up) beta*(n)/n) + 14 H^2 beta(n)/n + p_hat (V_up - V_lo) / H
    Q_up = min(H, r + p_hat V_up + b),   Q_lo = max(0, r + p_hat V_lo - b),   V = max_a Q          (H and 0 without data)
    G_h  = min(H, 6 sqrt(Var_p_hat(V_up) beta*(n)/n) + 36 H^2 beta(n)/n + (1 + 3/H) p_hat G_{h+1}(., pi)),   pi = argmax Q_up

Sampling and recommendation   pi.
Stopping                      when G_1(s_1, pi) <= epsilon.

Guarantee: pi is epsilon-optimal. The constants are from memory; that they suffice was derived (14 where 7.83 is needed, 3 where
sqrt(8), 36 where 24.4) on the events n KL(p_hat, p) <= beta(n) and a time-uniform Bernstein inequality for V*, of which the
second is taken on trust. No discount.
"""

from __future__ import annotations

from math import inf, log, sqrt
from typing import NamedTuple

import numpy as np

from ..kernels.formulas import EIGHT_E, Ahead, Row, mean, mean_and_variance
from .explorer import RewardedExplorer
from .optimistic import OptimisticExplorer
from .registry import register


class BPIUCBVIIndex(NamedTuple):
    """Q_up, Q_lo and G."""

    scale: float
    log_laws: float  # log(3 S A H / delta)
    S: float
    H: float

    def bonus(self, n: float) -> tuple[float, float]:
        growth = log(EIGHT_E * (n + 1.0))
        beta, beta_star = self.log_laws + self.S * growth, self.log_laws + growth
        return self.scale * self.H * self.H * beta / n, self.scale * sqrt(beta_star / n)

    def blank(self, h: int, r: float) -> tuple[float, float, float]:
        return self.H, 0.0, self.H

    def entry(self, h: int, r: float, row: Row, ahead: Ahead) -> tuple[float, float, float]:
        H = self.H
        up, variance = mean_and_variance(ahead, ahead.V)
        lo, spread = mean(ahead, ahead.V_lo), row.root * sqrt(variance)
        b = 3.0 * spread + 14.0 * row.bonus + (up - lo) / H
        g = 6.0 * spread + 36.0 * row.bonus + (1.0 + 3.0 / H) * mean(ahead, ahead.G)
        return min(H, r + b + up), max(0.0, r - b + lo), min(H, g)


@register("bpi-ucbvi")
class BPIUCBVI(OptimisticExplorer, RewardedExplorer):
    """BPI-UCBVI as ask and tell; see `OptimisticExplorer` for options."""

    goal = "best policy"
    guarantee = "its recommendation epsilon-optimal at the stop (one inequality on trust)"
    status = "certified, partly on trust"
    reference = "Ménard et al. 2021"
    proved = True
    supports_discount = False

    def rule(self) -> BPIUCBVIIndex:
        S, A, H = self.setting.n_outcomes, self.setting.n_actions, self.setting.horizon
        return BPIUCBVIIndex(float(self.scale), log(3 * S * A * H / self.delta), float(S), float(H))

    @property
    def recommendation(self) -> np.ndarray:  # type: ignore[override]
        """The policy whose loss G bounds: the first maximiser of Q_up everywhere, (H, S)."""
        return self.greedy_policy(np.uint64(0))

    @property
    def own_loss(self) -> float | None:
        """G_1(s_1, pi)."""
        G = self._start(self._indices.G, float(self.setting.horizon))
        return None if self.heuristic or inf == G else G * (1 + 1e-12)

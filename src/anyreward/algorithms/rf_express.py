"""RF-Express (Ménard, Domingues, Jonsson, Kaufmann, Leurent, Valko; ICML 2021): reward-free, with a bonus of 1/n.

    W_h(s,a) = min(H, 15 H^2 beta(n)/n + (1 + 1/H) sum_s' p_hat(s'|s,a) max_b W_{h+1}(s',b)),   H without data
    beta(n)  = log(3 S A H / delta) + S log(8 e (n + 1))

Sampling   play argmax_a W_h(s,a).
Stopping   when 3 e sqrt(W_1) + W_1 <= epsilon/2, W_1 = max_a W_1(s_1,a).
Planning   for any reward, backward induction on p_hat.

Guarantee: every plan epsilon-optimal. Checked without the paper's own proof, on the event n KL(p_hat, p) <= beta(n)
(probability 1 - delta/3): the trajectory certificate (`docs/theory.md`, 5.1) gives an error of at most sqrt(W_1/30) + W_1, which
is less. The formulas are those of the authors' code; the theorem was not at hand. No discount.
"""

from __future__ import annotations

from math import e, inf, log, sqrt
from typing import NamedTuple

from ..kernels.formulas import EIGHT_E, Ahead, Row, mean
from .optimistic import OptimisticExplorer
from .registry import register


class RFExpressIndex(NamedTuple):
    """W."""

    scale: float
    log_laws: float  # log(3 S A H / delta)
    S: float
    H: float

    def bonus(self, n: float) -> tuple[float, float]:
        beta = self.log_laws + self.S * log(EIGHT_E * (n + 1.0))
        return self.scale * 15.0 * self.H * self.H * beta / n, 0.0

    def blank(self, h: int, r: float) -> tuple[float, float, float]:
        return self.H, 0.0, 0.0

    def entry(self, h: int, r: float, row: Row, ahead: Ahead) -> tuple[float, float, float]:
        return min(self.H, row.bonus + (1.0 + 1.0 / self.H) * mean(ahead, ahead.V)), 0.0, 0.0


@register("rf-express")
class RFExpress(OptimisticExplorer):
    """RF-Express as ask and tell; see `OptimisticExplorer` for options."""

    guarantee = "every plan epsilon-optimal at the stop"
    status = "certified"
    reference = "Ménard et al. 2021"
    proved = True
    supports_discount = False

    def rule(self) -> RFExpressIndex:
        S, A, H = self.setting.n_outcomes, self.setting.n_actions, self.setting.horizon
        return RFExpressIndex(float(self.scale), log(3 * S * A * H / self.delta), float(S), float(H))

    @property
    def own_epsilon(self) -> float | None:
        """Twice 3 e sqrt(W_1) + W_1."""
        W = self._start(self._greedy.V, float(self.setting.horizon))
        return None if self.heuristic or inf == W else 2 * (3 * e * sqrt(W) + W) * (1 + 1e-12)

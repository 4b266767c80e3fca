"""Reward-free exploration in linear models (Wang, Du, Yang & Salakhutdinov 2020), with one feature for each pair.

With one-hot features least squares are counts: Lambda = diag(n+1), and w(V) = n p_hat V / (n+1), shrunk. Steps from 0, m = H-1-h:

    Q_h(s,a) = min(H-h, n/(n+1) p_hat V_{h+1} + (1 + 1/H) u_h(n)),   V = max_a Q,   H-h without data
    u_h(n)   = scale m (sqrt(beta(n)/2) + 1) / sqrt(n+1),     beta(n): RF-UCRL's

Sampling   play argmax_a Q. (The original's exploration reward is u/H, and its bonus u.)

Guarantee: none for plans on p_hat. For the original's own plans, which are greedy for min(H-h, r + w(V) + u), a loss of at most
D_0(s_1) follows on the event of beta, for every reward at once, D_h = min(H-h, 2 u_h + n/(n+1) p_hat max_b D_{h+1}), as |w(V) -
pV| <= u for all V in [0, m]: the law is wrong by at most sqrt(n beta/2)/(n+1) in total variation, the shrinkage by 1/(n+1). It
is never better than RF-UCRL's bound with half the span, which is about plans on p_hat, so that it is not offered.

The original's constants, beta = c d H sqrt(log(d H/(delta epsilon))), are not published; those above were derived here. Other
features than one-hot are left out: that a model is linear in them cannot be checked, and without it nothing can be claimed. No
discount."""

from __future__ import annotations

from typing import Any

from ..certificates.thresholds import log_laws
from ..kernels.formulas import beta_level
from ..setting import Setting
from .optimistic import OptimisticExplorer
from .registry import register
from .visit_index import LINEAR, VisitIndex


@register("rf-linear")
class RFLinear(OptimisticExplorer):
    """Reward-free exploration with one-hot features as ask and tell; see `OptimisticExplorer` for options."""

    guarantee = "none for plans on the empirical model"
    status = "no certificate"
    reference = "Wang et al. 2020"
    supports_discount = False

    def __init__(self, setting: Setting, **options: Any) -> None:
        super().__init__(setting, **options)

    def rule(self) -> VisitIndex:
        setting = self.setting
        m = float(setting.n_outcomes - 1)
        level = beta_level(log_laws(setting, self.delta), m)
        return VisitIndex(LINEAR, float(setting.horizon), float(self.scale), level, m)

"""RF-Express (Ménard, Domingues, Jonsson, Kaufmann, Leurent, Valko; ICML 2021): reward-free, with a bonus of 1/n.

    W_h(s,a) = min(H, 15 H^2 beta(n)/n + (1 + 1/H) sum_s' p_hat(s'|s,a) max_b W_{h+1}(s',b)),   H without data
    beta(n)  = log(3 S A H / delta) + S log(8 e (n + 1))

Sampling   play argmax_a W_h(s,a).
Stopping   when 3 e sqrt(W_1) + W_1 <= epsilon/2, W_1 = max_a W_1(s_1,a).
Planning   for any reward, backward induction on p_hat.

Guarantee: every plan epsilon-optimal. Checked without the paper's own proof, on the event n KL(p_hat, p) <= beta(n)
(probability 1 - delta/3): the trajectory certificate (`docs/theory.md`, 5) gives an error of at most sqrt(W_1/30) + W_1, which
is less. The formulas are those of the authors' code; the theorem was not at hand. No discount.
"""

from __future__ import annotations

from math import e, inf, log, sqrt
from typing import Any

from .. import kernels
from ..setting import Setting
from .optimistic import OptimisticExplorer, only_undiscounted


class RFExpress(OptimisticExplorer):
    """RF-Express as ask and tell; see `OptimisticExplorer` for options."""

    guarantee = "every plan epsilon-optimal at the stop"
    status = "certified"
    reference = "Ménard et al. 2021"

    def __init__(self, setting: Setting, **options: Any) -> None:
        only_undiscounted(setting, "RF-Express")
        super().__init__(setting, **options)

    def rule(self) -> kernels.optimism.Rule:
        setting = self.setting
        laws = setting.n_outcomes * setting.n_actions * setting.horizon
        return self._rule_of(kernels.optimism.EXPRESS, log(3 * laws / self.delta))

    @property
    def own_epsilon(self) -> float | None:
        """Twice 3 e sqrt(W_1) + W_1."""
        W = self._start(self._greedy.V, float(self.setting.horizon))
        return None if self.heuristic or inf == W else 2 * (3 * e * sqrt(W) + W) * (1 + 1e-12)

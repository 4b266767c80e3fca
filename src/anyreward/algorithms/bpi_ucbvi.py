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

from math import inf, log
from typing import Any

import numpy as np

from .. import kernels
from ..rewards.forms import Reward
from ..setting import Setting
from .optimistic import OptimisticExplorer, RewardedExplorer, only_undiscounted


class BPIUCBVI(OptimisticExplorer, RewardedExplorer):
    """BPI-UCBVI as ask and tell; see `OptimisticExplorer` for options."""

    goal = "best policy"
    guarantee = "its recommendation epsilon-optimal at the stop (one inequality on trust)"
    status = "certified, partly on trust"
    reference = "Ménard et al. 2021"

    def __init__(self, setting: Setting, reward: Reward = None, **options: Any) -> None:
        only_undiscounted(setting, "BPI-UCBVI")
        super().__init__(setting, reward, **options)

    def rule(self) -> kernels.optimism.Rule:
        setting = self.setting
        laws = setting.n_outcomes * setting.n_actions * setting.horizon
        return self._rule_of(kernels.optimism.UCBVI_BPI, log(3 * laws / self.delta))

    @property
    def recommendation(self) -> np.ndarray:
        """The policy whose loss G bounds: the first maximiser of Q_up everywhere, (H, S)."""
        return self._policy(0)

    @property
    def own_epsilon(self) -> float | None:
        """G_1(s_1, pi)."""
        G = self._start(self._indices.G, float(self.setting.horizon))
        return None if self.heuristic or inf == G else G * (1 + 1e-12)

"""EULER (Zanette & Brunskill 2019): regret that adapts to the variance of the values, for one known reward.

    L = log(4 S A T / delta'), delta' = delta / 7;   J = H L / 3,   B_v = sqrt(2 L),   B_p = H sqrt(2 L)
    b(V)  = sqrt(2 Var_p_hat(V) L / n) + H L / (3 (n-1)) + ((4 J + B_p)/sqrt(n) + B_v ||V_up - V_lo||_{2,p_hat}) / sqrt(n)
    Q_up  = min(H-h, r + p_hat V_up + b(V_up)),  V_up = max_a Q_up at pi
    Q_lo  = max(0, r + p_hat V_lo - b(V_lo)),    V_lo = Q_lo at pi                         (steps from 0; H-h and 0 without data)

With counts by step, S is S H. T = K H, fixed beforehand.

Guarantee: regret of order sqrt(Q* S A T). V_lo <= V* <= V_up, but V_lo is no bound on the value of pi, as only V* is
concentrated: no certificate. The constants are from memory and a public implementation. As given they are not provable: the
additive part has to reach 7 H L / (3 (n-1)), which it does only while L <= 4.5, and pooled counts need log H more.
`variant="repaired"`, the default, takes B_p = 2 H L and counts the steps in L; then both inequalities were derived. No
discount.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np

from ..kernels.formulas import Ahead, Row, mean_and_variance, mean_square_gap
from ..rewards.forms import Reward
from ..setting import Setting, shown
from .explorer import RewardedExplorer, transitions
from .optimistic import OptimisticExplorer
from .registry import register


class EULERIndex(NamedTuple):
    """Q_up and Q_lo."""

    scale: float
    L: float
    H: float
    B_p: float
    most: np.ndarray  # (H,) float64: H - h

    def bonus(self, n: float) -> tuple[float, float]:
        H, L = self.H, self.L
        additive = H * L / (3.0 * max(1.0, n - 1.0)) + (4.0 * H * L / 3.0 + self.B_p) / n
        return self.scale * additive, self.scale * sqrt(2.0 * L / n)

    def blank(self, h: int, r: float) -> tuple[float, float, float]:
        return self.most[h], 0.0, self.H

    def entry(self, h: int, r: float, row: Row, ahead: Ahead) -> tuple[float, float, float]:
        up, var_up = mean_and_variance(ahead, ahead.V)
        lo, var_lo = mean_and_variance(ahead, ahead.V_lo)
        b = row.bonus + row.root * sqrt(mean_square_gap(ahead, ahead.V, ahead.V_lo))
        q = min(self.most[h], r + up + b + row.root * sqrt(var_up))
        return q, max(0.0, r + lo - b - row.root * sqrt(var_lo)), self.H


@register("euler")
class EULER(OptimisticExplorer, RewardedExplorer):
    """EULER as ask and tell.

    Parameters
    ----------
    reward, reward_range
        See `RewardedExplorer`.
    budget
        How many episodes there will be, K.
    variant
        `"repaired"` or `"published"`.
    setting, delta, bounds, scale, ties, seed, growth
        See `OptimisticExplorer`.
    """

    goal = "regret"
    guarantee = "regret ~ sqrt(Q* S A T)"
    status = "no certificate"
    reference = "Zanette & Brunskill 2019"
    supports_discount = False
    needs_budget = True
    lower_at_policy = True

    def __init__(
        self, setting: Setting, reward: Reward = None, *, budget: int | None = None, variant: str = "repaired", **options: Any
    ) -> None:
        if variant not in ("repaired", "published"):
            raise ValueError(f"variant is {shown(variant)}: it has to be 'repaired' or 'published'.")
        self.variant, self.transitions = variant, transitions(budget, setting, "EULER")
        super().__init__(setting, reward, **options)

    def rule(self) -> EULERIndex:
        setting, repaired, H = self.setting, self.variant == "repaired", float(self.setting.horizon)
        S = setting.n_outcomes * (setting.horizon if repaired or not setting.stationary else 1)
        L = log(4 * S * setting.n_actions * self.transitions / (self.delta / 7))
        B_p = 2.0 * H * L if repaired else H * sqrt(2.0 * L)
        return EULERIndex(float(self.scale), L, H, B_p, H - np.arange(setting.horizon))

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

from math import log
from typing import Any

from .. import kernels
from ..rewards.forms import Reward
from ..setting import Setting, shown
from .optimistic import OptimisticExplorer, RewardedExplorer, only_undiscounted, transitions


class EULER(OptimisticExplorer, RewardedExplorer):
    """EULER as ask and tell.

    Parameters
    ----------
    reward
        The reward, with values in [0, 1].
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
    needs_budget = True

    def __init__(
        self, setting: Setting, reward: Reward = None, *, budget: int | None = None, variant: str = "repaired", **options: Any
    ) -> None:
        only_undiscounted(setting, "EULER")
        if variant not in ("repaired", "published"):
            raise ValueError(f"variant is {shown(variant)}: it has to be 'repaired' or 'published'.")
        self.variant, self.transitions = variant, transitions(budget, setting, "EULER")
        super().__init__(setting, reward, **options)

    def rule(self) -> kernels.optimism.Rule:
        setting, repaired = self.setting, self.variant == "repaired"
        states = setting.n_outcomes * (setting.horizon if repaired or not setting.stationary else 1)
        level = log(4 * states * setting.n_actions * self.transitions / (self.delta / 7))
        return self._rule_of(kernels.optimism.EULER, level, variant=repaired)

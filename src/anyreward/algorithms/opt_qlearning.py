"""Optimistic Q-learning (Jin, Allen-Zhu, Bubeck & Jordan 2018): regret for one known reward, without a model.

At the t-th visit of (h, s, a), going to s' (steps from 0):

    Q_h(s,a) <- (1 - alpha) Q_h(s,a) + alpha (r_h(s,a) + V_{h+1}(s') + b_t),   alpha = (H+1)/(H+t)
    V_h(s)    = min(H, max_a Q_h(s,a))
    b_t = sqrt(H^3 iota / t), or sharp (H-1-h) sqrt(H iota / t) with V_h <= H-h;    iota = log(2 S A T / delta)

Q = H (sharp: H-h) before any visit; T = K H, fixed beforehand. Values ahead are those of the episode before. Visits are by
step, in a stationary setting too.

Guarantee: regret of order sqrt(H^4 S A T); no certificate. The form is from memory, the constant 1 was derived: the weights of
the visits have squares that sum to at most 2H/t, so the Azuma-Hoeffding inequality gives (H-1-h) sqrt(H log(S A T/delta)/t),
and the weighted bonuses sum to at least b_t: Q >= Q* with probability 1 - delta. No discount.
"""

from __future__ import annotations

from math import log
from typing import Any

from .. import kernels
from ..rewards.forms import Reward
from ..setting import Setting
from .optimistic import OptimisticExplorer, RewardedExplorer, only_undiscounted, transitions


class OptimisticQLearning(OptimisticExplorer, RewardedExplorer):
    """Optimistic Q-learning as ask and tell.

    Parameters
    ----------
    reward
        The reward, with values in [0, 1].
    budget
        How many episodes there will be, K.
    sharp
        Whether to use the sharper bonus, which has the same proof.
    setting, delta, bounds, scale, ties, seed, growth
        See `OptimisticExplorer`.
    """

    goal = "regret"
    guarantee = "regret ~ sqrt(H^4 S A T)"
    status = "no certificate"
    reference = "Jin et al. 2018"
    needs_budget = True

    def __init__(
        self, setting: Setting, reward: Reward = None, *, budget: int | None = None, sharp: bool = False, **options: Any
    ) -> None:
        only_undiscounted(setting, "optimistic Q-learning")
        self.sharp, self.transitions = bool(sharp), transitions(budget, setting, "optimistic Q-learning")
        super().__init__(setting, reward, **options)

    def rule(self) -> kernels.optimism.Rule:
        setting = self.setting
        iota = log(2 * setting.n_outcomes * setting.n_actions * self.transitions / self.delta)
        return self._rule_of(kernels.optimism.Q_LEARNING, iota, variant=self.sharp)

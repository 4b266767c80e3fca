"""MBIE-EB (Strehl & Littman 2008): model-based interval estimation with an exploration bonus, in an episodic form.

    Q_h(s,a) = min(H-h, r_h(s,a) + sum_s' p_hat(s'|s,a) V_{h+1}(s') + (H-1-h) sqrt(L / (2n))),  H-h without data;  V = max_a Q
    L = log(2 N m / delta)                                                                                      (steps from 0)

    N = S A (H-1), at least S A: each (s, a) with each V*_{h+1} that is not 0, also with pooled counts, which serve them all
    m = how often a law can be sampled: K with counts by step, K H pooled, with K episodes in all, fixed beforehand

Guarantee: Q >= Q* at all times of the K episodes, with probability at least 1 - delta. The successors of a law are independent
draws and V*_{h+1} is one fixed function with values in [0, H-1-h]: by Hoeffding's inequality, p_hat V*_{h+1} plus the bonus is
below p V*_{h+1} with probability at most exp(-L) = delta / (2 N m). A union over N and all n <= m leaves delta / 2 (the factor 2
is the original's, and room to spare); as p_hat is monotone, Q >= Q* follows backwards. The last step has nothing ahead.

A bonus for V* says nothing about the value of the policy that is played: there is no certificate of a policy. But few episodes
are bad (`docs/theory.md`, 22.6): for one epsilon that is fixed beforehand, with probability at least 1 - delta, at most

    (4H/epsilon) (P m + log(4/delta)),    m = ceil((H (H-1) / epsilon)^2 (sqrt(L/2) + sqrt(2 (S log 2 + log(4 N/delta))) / 2)^2)

of the K episodes are worse than V* - epsilon, with P = S A H pairs, S A if pooled: `mistake_bound`.

The original is for discounted problems, with the bonus sqrt(log(2 S A m / delta) / (2n)) / (1-gamma), and freezes the model of a
pair after m samples; here m is never exceeded, so nothing is frozen. This form was derived; the original's constants were read
in a public implementation and in lecture notes, not in the paper. No discount.
"""

from __future__ import annotations

from math import ceil, log, sqrt
from typing import Any

from ..rewards.forms import Reward
from ..setting import Setting
from .explorer import RewardedExplorer, transitions
from .optimistic import OptimisticExplorer
from .r_max import level_of
from .registry import register
from .visit_index import HOEFFDING, VisitIndex


@register("mbie-eb")
class MBIEEB(OptimisticExplorer, RewardedExplorer):
    """MBIE-EB as ask and tell.

    Parameters
    ----------
    reward, reward_range
        See `RewardedExplorer`.
    budget
        How many episodes there will be, K. After more than that, Q >= Q* is no longer guaranteed.
    setting, delta, bounds, scale, ties, seed, growth
        See `OptimisticExplorer`.
    """

    goal = "PAC-MDP"
    guarantee = "at most F(epsilon) bad episodes; none for a policy"
    status = "no certificate"
    reference = "Strehl & Littman 2008"
    supports_discount = False
    needs_budget = True

    def __init__(self, setting: Setting, reward: Reward = None, *, budget: int | None = None, **options: Any) -> None:
        self.transitions = transitions(budget, setting, "MBIE-EB")
        super().__init__(setting, reward, **options)

    @property
    def _level(self) -> float:
        setting, H = self.setting, self.setting.horizon
        laws = setting.n_outcomes * setting.n_actions * max(1, H - 1)
        samples = self.transitions if setting.stationary else self.transitions // H
        return log(2 * laws * samples / self.delta)

    def rule(self) -> VisitIndex:
        return VisitIndex(HOEFFDING, float(self.setting.horizon), float(self.scale), self._level)

    def _mistakes(self, epsilon: float) -> float | None:
        if self.heuristic:
            return None
        setting, H = self.setting, self.setting.horizon
        width = sqrt(self._level / 2) + sqrt(2 * level_of(setting, self.delta / 2)) / 2
        m = max(1, ceil((H * (H - 1) * width / epsilon) ** 2))
        pairs = setting.n_outcomes * setting.n_actions * (1 if setting.stationary else H)
        return 4 * H / epsilon * (pairs * m + log(4 / self.delta))

"""UCB-VI (Azar, Osband & Munos 2017): regret for one known reward, by optimism about the value and not about the law.

    Q_h(s,a) = min(Q_h of the episode before, H, r_h(s,a) + sum_s' p_hat(s'|s,a) V_{h+1}(s') + b),  H without data;  V = max_a Q

    hoeffding  b = 7 H L / sqrt(n)
    bernstein  b = sqrt(8 L Var_p_hat(V_{h+1}) / n) + 14 H L / (3 n)
                   + sqrt( (8/n) sum_y p_hat(y) min(100^2 H^3 S^2 A L^2 / N_{h+1}(y), H^2) ),   N_h(y): visits of y at step h
    L = log(5 S A T / delta), T = K H with K episodes in all, fixed beforehand

With counts by step, S is S H throughout: (h, s) are then the states of a stationary problem.

Guarantee: regret of order sqrt(H S A T) with Bernstein's bonus, H sqrt(S A T) with Hoeffding's; no certificate of a policy. For
Hoeffding's, Q >= Q* was derived (H sqrt(L/n) would do). For Bernstein's it is taken on trust: the constants are from memory and
public implementations (one has H^2 where this has H^3), and a direct proof would need 8 L in front of the last sum. No
discount.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any, NamedTuple

from ..kernels.formulas import Ahead, Row, mean, mean_and_variance
from ..rewards.forms import Reward
from ..setting import Setting, shown
from .explorer import RewardedExplorer, transitions
from .optimistic import OptimisticExplorer
from .registry import register


class HoeffdingIndex(NamedTuple):
    """Q with Hoeffding's bonus."""

    scale: float
    L: float
    H: float

    def bonus(self, n: float) -> tuple[float, float]:
        return self.scale * 7.0 * self.H * self.L / sqrt(n), 0.0

    def blank(self, h: int, r: float) -> tuple[float, float, float]:
        return self.H, 0.0, self.H

    def entry(self, h: int, r: float, row: Row, ahead: Ahead) -> tuple[float, float, float]:
        return min(row.before, min(self.H, r + mean(ahead, ahead.V) + row.bonus)), 0.0, self.H


class BernsteinIndex(NamedTuple):
    """Q with Bernstein's bonus."""

    scale: float
    L: float
    H: float
    S: float  # S H with counts by step
    A: float

    def bonus(self, n: float) -> tuple[float, float]:
        return self.scale * 14.0 * self.H * self.L / (3.0 * n), self.scale * sqrt(8.0 * self.L / n)

    def blank(self, h: int, r: float) -> tuple[float, float, float]:
        return self.H, 0.0, self.H

    def entry(self, h: int, r: float, row: Row, ahead: Ahead) -> tuple[float, float, float]:
        H, L = self.H, self.L
        V, variance = mean_and_variance(ahead, ahead.V)
        worst = 0.0  # sum_y p_hat(y) min(100^2 H^3 S^2 A L^2 / N(y), H^2)
        for e in range(ahead.begin, ahead.end):
            N, term = ahead.met[ahead.target[e]], H * H
            if N > 0.0:
                term = min(term, 1e4 * H * H * H * self.S * self.S * self.A * L * L / N)
            worst += ahead.seen[e] * term
        b = row.bonus + (row.root * sqrt(variance) + self.scale * sqrt(8.0 * ahead.share * (worst * ahead.share)))
        return min(row.before, min(H, r + V + b)), 0.0, H


@register("ucbvi")
class UCBVI(OptimisticExplorer, RewardedExplorer):
    """UCB-VI as ask and tell.

    Parameters
    ----------
    reward, reward_range
        See `RewardedExplorer`.
    budget
        How many episodes there will be, K.
    bonus
        `"bernstein"` or `"hoeffding"`.
    setting, delta, bounds, scale, ties, seed, growth
        See `OptimisticExplorer`.
    """

    goal = "regret"
    guarantee = "regret ~ sqrt(H S A T) (bernstein), H sqrt(S A T) (hoeffding)"
    status = "no certificate"
    reference = "Azar et al. 2017"
    supports_discount = False
    needs_budget = True

    def __init__(
        self, setting: Setting, reward: Reward = None, *, budget: int | None = None, bonus: str = "bernstein", **options: Any
    ) -> None:
        if bonus not in ("bernstein", "hoeffding"):
            raise ValueError(f"bonus is {shown(bonus)}: it has to be 'bernstein' or 'hoeffding'.")
        self.bonus, self.transitions = bonus, transitions(budget, setting, "UCB-VI")
        super().__init__(setting, reward, **options)

    def rule(self) -> HoeffdingIndex | BernsteinIndex:
        A, H = self.setting.n_actions, self.setting.horizon
        S = self.setting.n_outcomes * (1 if self.setting.stationary else H)
        L = log(5 * S * A * self.transitions / self.delta)
        if self.bonus == "hoeffding":
            return HoeffdingIndex(float(self.scale), L, float(H))
        return BernsteinIndex(float(self.scale), L, float(H), float(S), float(A))

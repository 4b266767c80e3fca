"""MBIE-EB (Strehl & Littman 2008): model-based interval estimation with an exploration bonus, in an episodic form.

    Q_h(s,a) = min(H-h, r_h(s,a) + sum_s' p_hat(s'|s,a) V_{h+1}(s') + (H-1-h) sqrt(L / (2n))),  H-h without data;  V = max_a Q
    L = log(2 N m / delta)                                                                                      (steps from 0)

    N = S A (H-1), at least S A: each (s, a) with each V*_{h+1} that is not 0, also with pooled counts, which serve them all
    m = how often a law can be sampled: K with counts by step, K H pooled, with K episodes in all, fixed beforehand

Guarantee: Q >= Q* at all times of the K episodes, with probability at least 1 - delta. The successors of a law are independent
draws and V*_{h+1} is one fixed function with values in [0, H-1-h]: by Hoeffding's inequality, p_hat V*_{h+1} plus the bonus is
below p V*_{h+1} with probability at most exp(-L) = delta / (2 N m). A union over N and all n <= m leaves delta / 2 (the factor 2
is the original's, and room to spare); as p_hat is monotone, Q >= Q* follows backwards. The last step has nothing ahead.

A bonus for V* says nothing about the value of the policy that is played: there is no certificate of a policy. That few episodes
are bad (PAC-MDP) is proved for the original, and taken on trust here.

The original is for discounted problems, with the bonus sqrt(log(2 S A m / delta) / (2n)) / (1-gamma), and freezes the model of a
pair after m samples; here m is never exceeded, so nothing is frozen. This form was derived; the original's constants were read
in a public implementation and in lecture notes, not in the paper. No discount.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any, NamedTuple

from ..kernels.formulas import Ahead, Row, mean
from ..rewards.forms import Reward
from ..setting import Setting
from .explorer import RewardedExplorer, transitions
from .optimistic import OptimisticExplorer
from .registry import register


class MBIEIndex(NamedTuple):
    """Q with one bonus for every law; a step multiplies it by what can be earned afterwards."""

    scale: float
    L: float
    H: float

    def bonus(self, n: float) -> tuple[float, float]:
        return self.scale * sqrt(self.L / (2.0 * n)), 0.0

    def blank(self, h: int, r: float) -> tuple[float, float, float]:
        return self.H - h, 0.0, self.H - h

    def entry(self, h: int, r: float, row: Row, ahead: Ahead) -> tuple[float, float, float]:
        most = self.H - h
        return min(most, r + mean(ahead, ahead.V) + (most - 1.0) * row.bonus), 0.0, most


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
    guarantee = "its index is above Q* at all times; none for a policy"
    status = "no certificate"
    reference = "Strehl & Littman 2008"
    supports_discount = False
    needs_budget = True

    def __init__(self, setting: Setting, reward: Reward = None, *, budget: int | None = None, **options: Any) -> None:
        self.transitions = transitions(budget, setting, "MBIE-EB")
        super().__init__(setting, reward, **options)

    def rule(self) -> MBIEIndex:
        setting, H = self.setting, self.setting.horizon
        laws = setting.n_outcomes * setting.n_actions * max(1, H - 1)
        samples = self.transitions if setting.stationary else self.transitions // H
        return MBIEIndex(float(self.scale), log(2 * laws * samples / self.delta), float(H))

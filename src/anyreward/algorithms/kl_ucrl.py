"""KL-UCRL (Filippi, Cappé & Garivier 2010), in its finite-horizon form with known rewards; see `phased`.

    ball: KL(p_hat, p) <= C_P / n,   C_P = S (B + log(b) (1 + 1/b)),   b = B + 1/log T,   B = log(2 e S laws log T / delta)

with laws = S A in a stationary setting, as published, and S A H by step; T = K H bounds every count and is fixed beforehand.

Guarantee: regret, D S sqrt(A T) in the original. All laws lie in their balls with probability 1 - delta: n KL(p_hat, p) is at
most the sum of the binary n kl(p_hat_i, p_i), each of which exceeds y for some n <= T with probability at most 2 e ceil(y log
T) e^-y (Garivier & Cappé 2011, taken on trust); the closed form solves for y once b >= 6.1, below which it is refused. The
constants are from memory and a public implementation. So V_up - V_lo certifies the recommendation.
"""

from __future__ import annotations

from math import e, log
from typing import Any, NamedTuple

from ..rewards.forms import Reward
from ..setting import Setting
from .explorer import transitions
from .phased import PhasedUCRL
from .registry import register


class KLUCRLBalls(NamedTuple):
    """Of the Kullback-Leibler divergence."""

    scale: float
    C_P: float

    def radius(self, n: float, log_t: float) -> float:
        return self.scale * (self.C_P / n)


@register("kl-ucrl")
class KLUCRL(PhasedUCRL):
    """KL-UCRL as ask and tell; `budget` is how many episodes there will be, K. See `PhasedUCRL` for the other options."""

    guarantee = "its recommendation loses at most V_up - V_lo; regret ~ D S sqrt(A T) in the original"
    status = "certified, partly on trust"
    reference = "Filippi et al. 2010"
    needs_budget = True

    def __init__(self, setting: Setting, reward: Reward = None, *, budget: int | None = None, **options: Any) -> None:
        self.transitions = max(2, transitions(budget, setting, "KL-UCRL"))
        super().__init__(setting, reward, **options)

    @property
    def own_epsilon(self) -> float | None:
        """V_up - V_lo at the start; nothing is proved beyond the budget."""
        return None if self.episodes * self.setting.horizon > self.transitions else super().own_epsilon

    def balls(self) -> KLUCRLBalls:
        S, T = self.setting.n_outcomes, self.transitions
        B = log(2 * e * S * self.setting.n_distributions * log(T) / self.delta)
        b = B + 1 / log(T)
        if b < 6.1:
            raise ValueError(f"delta is {self.delta:g}: with so few states, KL-UCRL's constant is proved for smaller ones only.")
        return KLUCRLBalls(float(self.scale), S * (B + log(b) * (1 + 1 / b)))

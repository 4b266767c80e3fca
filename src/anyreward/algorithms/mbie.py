"""MBIE, model-based interval estimation (Strehl & Littman 2008), in a form for episodes; see `phased`.

    ball: ||p - p_hat||_1 <= sqrt(2 (S log 2 + log(2 N m / delta)) / min(n, m))

N is the number of laws, S A (H-1) by step and S A if stationary, and one more if the distribution of the start is estimated. m
is the smallest number of samples whose radius is at most alpha = epsilon / (H (H-1)).

Guarantee, derived here (`docs/theory.md`, 22.5): all laws lie in their balls at all times with probability at least 1 - delta/2
(Weissman et al. 2003, a union over n <= m; and for n > m the ball of m, at no further price). So V_up - V_lo certifies the
recommendation, and

    V* - V^{played} > epsilon in at most (4H/epsilon) (2 N m + log(2/delta)) episodes, with probability 1 - delta: `mistake_bound`

The original is discounted, computes its bounds anew after every sample of the first m, and discards the others. Here they are
computed when a count has doubled, which costs the factor 2 in front of N m, and nothing is discarded. The radius was read in a
public implementation. No discount."""

from __future__ import annotations

from math import inf, log
from typing import Any

from ..rewards.forms import UNIT, Reward, checked_range
from ..setting import Setting, positive
from .phased import PhasedUCRL
from .r_max import laws_of, level_of
from .registry import register
from .ucrl2 import L1Balls


@register("mbie")
class MBIE(PhasedUCRL):
    """MBIE as ask and tell.

    Parameters
    ----------
    target
        The epsilon of the guarantee, in units of the reward. By default a tenth of the largest possible value.
    setting, reward, reward_range, scale, delta, bounds, ties, seed, growth
        See `PhasedUCRL` and `RewardedExplorer`.
    """

    goal = "PAC-MDP"
    guarantee = "at most F(epsilon) bad episodes; its recommendation loses at most V_up - V_lo"
    status = "certified"
    reference = "Strehl & Littman 2008"
    supports_discount = False
    norm = "l1"

    def __init__(
        self,
        setting: Setting,
        reward: Reward = None,
        *,
        target: float | None = None,
        reward_range: tuple[float, float] = UNIT,
        **options: Any,
    ) -> None:
        low, high = checked_range(reward_range)
        self.target = setting.horizon / 10 if target is None else positive(target, "target") / (high - low)
        super().__init__(setting, reward, reward_range=reward_range, **options)

    @classmethod
    def defaults(cls, setting: Setting, epsilon: float) -> dict[str, Any]:
        return {"target": epsilon}

    def _samples(self, epsilon: float, level: float) -> float:
        """The smallest n with sqrt(2 level / n) <= epsilon / (H (H-1))."""
        H = self.setting.horizon
        return max(1.0, 2 * level * (H * (H - 1) / epsilon) ** 2)

    def balls(self) -> L1Balls:
        laws = laws_of(self.setting)
        more = log((laws + self.setting.estimates_start) / laws)  # the start is one law more
        level, m = level_of(self.setting, self.delta) + more, 1.0
        for _ in range(100):  # m = samples(level + log m), from below
            m = self._samples(self.target, level + log(m))
        self.samples = ceil_safely(m)
        return L1Balls(float(self.scale), 2.0, level + log(self.samples), 0.0, float(self.samples))

    def _mistakes(self, epsilon: float) -> float | None:
        if self.heuristic:
            return None
        balls: Any = self._balls
        m = self._samples(epsilon, balls.level)
        if m > self.samples:
            return inf
        return 4 * self.setting.horizon / epsilon * (2 * laws_of(self.setting) * ceil_safely(m) + log(2 / self.delta))


def ceil_safely(m: float) -> int:
    """m, rounded up; a whole number that was missed by rounding stays itself."""
    return int(-(-m * (1 - 1e-12) // 1))

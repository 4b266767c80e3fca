"""UCFH, upper confidence for fixed horizons (Dann & Brunskill 2015): an interval for each probability, in phases; see `phased`.

    ball: every p_i with |p_i - q| <= min(sqrt(l/(2n)), sqrt(2 q (1-q) l/n) + 7 l/(3(n-1))),  q = p_hat_i, and, where s =
          sqrt(q (1-q)) >= c = sqrt(2 l/(n-1)),  |p_i - 1/2| <= sqrt(1/4 - (s-c)^2);      anything if n <= 1
    l   = log(4 M n (n+1) / delta),   M = N C, and S more if the distribution of the start is estimated

C is how many outcomes a pair can have (`max_successors`; else S). N is the number of laws, S A (H-1) by step and S A if
stationary. Optimism starts from the lower ends of the intervals and fills the best outcomes up to their upper ends; the lower
values do so with the worst. The outcomes that were never seen count as the best, or worst, of all states.

Guarantee, derived here (`docs/theory.md`, 22.9): all three intervals follow from n kl(q, p_i) <= l, and that holds for all laws,
outcomes and n at once with probability at least 1 - delta/2. So V_up - V_lo certifies the recommendation, and for every epsilon

    V* - V^{played} > epsilon in at most (4H/epsilon) (N (m + max(m, least)) + log(2/delta)) episodes,  with probability
    1 - delta: `mistake_bound`,    m = the smallest n with n >= 2 l (C H (H-1) / (2 epsilon))^2

Changed. In the original l = log(6/delta_1) is for one n, while the count at which a pair is planned with depends on the data; it
updates a pair once it has max(m w_min, n) new samples, which on the double chain is after two million samples, and none any more
after S m H (`published`; constants from memory, the intervals were read in the author's code). Here l is for all n at once, a
plan is made when a count has doubled, or with the option `least` when it has grown by so much as well, and all samples are used.
The original's bound, of order C S A H^2 / epsilon^2, is on trust and not offered. No discount."""

from __future__ import annotations

from math import ceil, log, log2
from typing import Any, NamedTuple

from ..rewards.forms import Reward
from ..setting import Setting, positive, probability, whole_number
from .phased import PhasedUCRL
from .r_max import laws_of
from .registry import register


class Boxes(NamedTuple):
    """Intervals for each probability; what is kept as the radius of a ball is l."""

    scale: float
    level: float

    def radius(self, n: float, log_t: float) -> float:
        return self.scale * (self.level + log(n * (n + 1.0)))


class Published(NamedTuple):
    """The constants of the original."""

    level: float  # l = log(6 / delta_1)
    samples: int  # m
    first: int  # m w_min, rounded up: how many samples a pair needs for the first plan with it


def published(setting: Setting, epsilon: float, delta: float, successors: int | None = None) -> Published:
    """The original's constants, from memory, for C successors of a pair; by default all outcomes. H has to be 3 or more."""
    epsilon, delta = positive(epsilon, "epsilon"), probability(delta, "delta")
    H, S = setting.horizon, setting.n_outcomes
    C = S if successors is None else whole_number(successors, "successors")
    if H < 3:
        raise ValueError(f"horizon is {H}: UCFH's constants, with log log H, are for horizons of 3 and more.")
    w_min = epsilon / (4 * H * S)
    updates = S * setting.n_actions * (1 if setting.stationary else H) * log2(S * H / w_min)
    level = log(6 * 2 * updates * C / delta)
    m = 512 * log2(log2(H)) ** 2 * C * H**2 / epsilon**2 * log2(8 * H**2 * S**2 / epsilon) ** 2 * level
    return Published(level, ceil(m), ceil(m * w_min))


@register("ucfh")
class UCFH(PhasedUCRL):
    """UCFH as ask and tell.

    Parameters
    ----------
    least
        How many new visits of a pair are needed for a new plan, at least; the original's are `published(...).first`.
    max_successors
        C, if you know it: also an option of the certificate.
    setting, reward, reward_range, scale, delta, bounds, ties, seed, growth
        See `PhasedUCRL` and `RewardedExplorer`; `scale` multiplies l.
    """

    goal = "PAC-MDP"
    guarantee = "at most F(epsilon) bad episodes; its recommendation loses at most V_up - V_lo"
    status = "certified"
    reference = "Dann & Brunskill 2015"
    supports_discount = False
    norm = "box"

    def __init__(self, setting: Setting, reward: Reward = None, *, least: int = 1, **options: Any) -> None:
        self.least = whole_number(least, "least")
        if self.least < 1:
            raise ValueError(f"least is {self.least}: it has to be at least 1.")
        super().__init__(setting, reward, **options)

    @property
    def most(self) -> int:
        return self.bound.most_successors(self.setting)

    def balls(self) -> Boxes:
        setting = self.setting
        outcomes = laws_of(setting) * self.most + (setting.n_outcomes if setting.estimates_start else 0)
        return Boxes(float(self.scale), log(4 * outcomes / self.delta))

    @property
    def own_loss(self) -> float | None:
        self.bound.check(self.counts)  # that there are not more successors than were promised
        return super().own_loss

    def _mistakes(self, epsilon: float) -> float | None:
        if self.heuristic:
            return None
        H, N, m = self.setting.horizon, laws_of(self.setting), 2.0
        for _ in range(200):  # m = 2 l(m) (...)^2, from below
            m = max(2.0, 2 * self._balls.radius(m, 0.0) * (self.most * H * (H - 1) / (2 * epsilon)) ** 2)
        m = ceil(m * (1 + 1e-12))
        return 4 * H / epsilon * (N * (m + max(m, self.least)) + log(2 / self.delta))

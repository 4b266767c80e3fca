"""Fiechter 1994, efficient reinforcement learning with a reset, as Kaufmann et al. 2021 (section 3) describe it.

The index is RF-UCRL's, rounded to whole multiples of eta at every step (steps from 0, w_h = gamma sigma_{H-1-h}):

    F_h(s,a) = floor( min(w_h, w_h b(n) + gamma sum_s' p_hat(s'|s,a) eta max_b F_{h+1}(s',b)) / eta ),   w_h without data

    published  b(n) = sqrt(2 log(2 S A H / delta) / n)
    repaired   b(n) = sqrt(2 beta(n) / n) with RF-UCRL's beta

Sampling   play argmax_a F_h(s,a).
Stopping   when F_0(s_1) <= floor(epsilon / (2 eta)) - H, with eta = epsilon / (8 H).
Planning   backward induction on p_hat.

Guarantee. Repaired: let E be RF-UCRL's index and D_h = max (E_h - eta F_h). The bracket is monotone and 1-Lipschitz in what is
ahead, so D_h <= eta + gamma D_{h+1}, and D_{H-1} = 0 as w_{H-1} = 0: eta F_0 <= E_0 <= eta (F_0 + sigma_{H-1}), which is what
`own_epsilon` doubles, with probability 1 - delta/2. Published: none. Its bonus has no union bound over n, and concentrates one
function where all are needed: for a uniform law on S successors it fails once S is above about 4 pi log(2SAH/delta).

The original text was not at hand: what is here follows the paper's account of it, with the floor at every step.
"""

from __future__ import annotations

from math import floor, inf, log, sqrt
from typing import Any, NamedTuple

import numpy as np

from ..certificates.thresholds import paper_radius
from ..kernels.formulas import Ahead, Row, beta, mean
from ..setting import Setting, positive, shown
from .optimistic import OptimisticExplorer
from .registry import register

SAFE = 1.0 + 1e-12  # undoes the rounding of a division before a floor


class FiechterIndex(NamedTuple):
    """eta F, the index in units of reward."""

    scale: float
    level: float  # of b(n): log(2 S A H / delta) if published, that of RF-UCRL's beta if repaired
    m: float  # S - 1 if repaired; 0 if published, which has no term that grows with n
    eta: float
    discount: float
    weight: np.ndarray  # (H,) float64: w_h

    def bonus(self, n: float) -> tuple[float, float]:
        return self.scale * sqrt(2.0 * beta(n, self.m, self.level) / n), 0.0

    def blank(self, h: int, r: float) -> tuple[float, float, float]:
        return self.eta * floor(self.weight[h] / self.eta * SAFE), 0.0, 0.0

    def entry(self, h: int, r: float, row: Row, ahead: Ahead) -> tuple[float, float, float]:
        w = self.weight[h]
        F = min(w, w * row.bonus + self.discount * mean(ahead, ahead.V))
        return self.eta * floor(F / self.eta * SAFE), 0.0, 0.0


@register("fiechter")
class Fiechter(OptimisticExplorer):
    """Fiechter's algorithm as ask and tell.

    Parameters
    ----------
    variant
        `"repaired"`, with a guarantee, or `"published"`, without.
    eta
        The grain of the index, above 0; epsilon / (8 H) is for a target of epsilon. By default for epsilon = H / 10.
    setting, delta, bounds, scale, ties, seed, growth
        See `OptimisticExplorer`.
    """

    guarantee = "repaired: every plan epsilon-optimal at the stop; published: none"
    status = "certified if repaired"
    reference = "Fiechter 1994"
    proved = True

    def __init__(self, setting: Setting, *, variant: str = "repaired", eta: float | None = None, **options: Any) -> None:
        if variant not in ("repaired", "published"):
            raise ValueError(f"variant is {shown(variant)}: it has to be 'repaired' or 'published'.")
        self.variant = variant
        self.eta = positive(setting.sigma[-1] / 10 / (8 * setting.horizon) if eta is None else eta, "eta")
        super().__init__(setting, **options)

    @classmethod
    def defaults(cls, setting: Setting, epsilon: float) -> dict[str, Any]:
        return {"eta": epsilon / (8 * setting.horizon)}

    def stops(self, epsilon: float) -> bool:
        """The stopping rule: F_0(s_1) <= floor(epsilon / (2 eta)) - H, where F_0 is a whole number if s_1 is fixed."""
        value = self._start(self._greedy.V, float(self._greedy.unvisited[0]))
        return value / self.eta <= (floor(epsilon / (2 * self.eta) * SAFE) - self.setting.horizon) * SAFE

    def rule(self) -> FiechterIndex:
        setting, weight = self.setting, self.setting.discount * self.setting.sigma[:-1][::-1]
        m, level = 0.0, log(2 * setting.n_outcomes * setting.n_actions * setting.horizon / self.delta)
        if self.variant == "repaired":
            m, level = paper_radius(setting, self.delta)
        return FiechterIndex(float(self.scale), level, m, self.eta, setting.discount, weight)

    @property
    def own_epsilon(self) -> float | None:
        """Twice eta (F_0(s_1) + sigma_{H-1}): every plan is this good, if it is proved."""
        if self.heuristic or self.variant == "published" or self.setting.arrival_rewards:  # of which it leaves the last step out
            return None
        sigma, blank = self.setting.sigma, float(self._greedy.unvisited[0])
        value = self._start(self._greedy.V, blank)
        if value == inf:
            return None
        return 2 * min(value + self.eta * float(sigma[-2]), self.setting.discount * float(sigma[-2])) * (1 + 1e-12)

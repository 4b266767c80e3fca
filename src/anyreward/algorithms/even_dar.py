"""Action elimination, model-based (Even-Dar, Mannor & Mansour 2006), in a finite-horizon form with known rewards.

    e_h(n) = gamma sigma_{H-1-h} sqrt(log(pi^2 S A (H-1) n^2 / (3 delta)) / (2 n))                                  (steps from 0)
    Q_up   = min(r + gamma sigma_{H-1-h}, r + gamma p_hat V_up + e),   V_up = max_a Q_up
    Q_lo   = max(r, r + gamma p_hat V_lo - e),                         V_lo = max_a Q_lo        (the first of both without data)

Sampling         play argmax_a Q_up.
Elimination      a is out in (h, s) once Q_up(a) < V_lo.
Stopping         once Q_up - Q_lo <= epsilon / sigma_H for all (h, s) and all actions that are left.
Recommendation   argmax_a Q_lo.

Guarantee. For each (h, s, a) the successors are independent draws and V*_{h+1} is one fixed function with values in [0,
sigma_{H-1-h}]: Hoeffding's inequality at every n, with 6/(pi^2 n^2) of the share of delta, bounds gamma |(p_hat - p) V*| by e,
for all at once with probability 1 - delta; as p_hat is monotone, Q_lo <= Q* <= Q_up follows backwards. So the best action is
never eliminated, and at the stop each recommended action loses at most epsilon / sigma_H, which add up to epsilon over an
episode. Pooled counts serve H-1 functions, so the union stays S A (H-1). A narrow interval at the start alone would certify
nothing: V*(s_1) is then known, but the value of no policy. Hence a state that cannot be reached keeps it from stopping for
ever: give max_episodes.

The original is for discounted problems (V_max sqrt(ln(c t^2 S A/delta)/n), c from memory, and epsilon (1-gamma)/2): this form
was derived.
"""

from __future__ import annotations

from math import inf, log, pi, sqrt
from typing import NamedTuple

import numpy as np

from ..kernels.formulas import Ahead, Row, mean
from .explorer import RewardedExplorer
from .optimistic import OptimisticExplorer
from .registry import register


class EvenDarIndex(NamedTuple):
    """Q_up and Q_lo."""

    scale: float
    level: float  # log(pi^2 S A (H-1) / (3 delta))
    discount: float
    weight: np.ndarray  # (H,) float64: gamma sigma_{H-1-h}

    def bonus(self, n: float) -> tuple[float, float]:
        return self.scale * sqrt((self.level + 2.0 * log(n)) / (2.0 * n)), 0.0

    def blank(self, h: int, r: float) -> tuple[float, float, float]:
        return r + self.weight[h], r, 0.0

    def entry(self, h: int, r: float, row: Row, ahead: Ahead) -> tuple[float, float, float]:
        most, gamma = r + self.weight[h], self.discount
        if h == len(self.weight) - 1:  # nothing comes after the last step
            return most, r, 0.0
        e = self.weight[h] * row.bonus
        return min(most, r + gamma * mean(ahead, ahead.V) + e), max(r, r + gamma * mean(ahead, ahead.V_lo) - e), 0.0


@register("even-dar")
class EvenDar(OptimisticExplorer, RewardedExplorer):
    """Action elimination as ask and tell; see `OptimisticExplorer` for options."""

    continues = False  # it keeps what counts do not tell
    goal = "best policy"
    guarantee = "its recommendation epsilon-optimal at the stop; stops only if every state is reached"
    status = "certified"
    reference = "Even-Dar et al. 2006"
    proved = True
    blind_by_reward = True

    def rule(self) -> EvenDarIndex:
        setting = self.setting
        laws = setting.n_outcomes * setting.n_actions * max(1, setting.horizon - 1)
        weight = setting.discount * setting.sigma[:-1][::-1]
        return EvenDarIndex(float(self.scale), log(pi**2 * laws / (3 * self.delta)), setting.discount, weight)

    def _blank(self) -> np.ndarray:
        return self._reward + self.setting.discount * self.setting.sigma[:-1][::-1, None, None]

    @property
    def _reward(self) -> np.ndarray:
        setting = self.setting
        return np.broadcast_to(self.reward, (setting.horizon, setting.n_outcomes, setting.n_actions))

    @property
    def lower_index(self) -> np.ndarray:
        """Q_lo, (H, S, A)."""
        return self.dense(self._indices.Q_lo, self._reward)

    @property
    def recommendation(self) -> np.ndarray:  # type: ignore[override]
        """The policy that is greedy for the lower index, (H, S)."""
        return self.lower_index.argmax(axis=2)

    @property
    def own_loss(self) -> float | None:
        """sigma_H times the widest interval of an action that is left, in any state at any step; at step 0, of a start."""
        if self.heuristic:
            return None
        up, lo = self.index, self.lower_index
        left = (up >= lo.max(axis=2, keepdims=True)) & ~np.isneginf(up)
        width = np.where(left, up, 0.0) - np.where(left, lo, 0.0)
        if not self.setting.estimates_start:
            width[0] = width[0, self.setting.starts[0]].max()
        widest = float(width.max())
        return None if widest == inf else widest * float(self.setting.sigma[-1]) * (1 + 1e-12)

"""R-MAX (Brafman & Tennenholtz 2002), in a form for episodes: whatever is not known well pays as much as anything can.

A pair (h, s, a) before the last step (steps from 0; or (s, a), if stationary) is known from its m-th visit on:

    Q_h(s,a) = r + p_hat V_{h+1}  if it is known, else H-h;      Q = r at the last step;    V = max_a Q
    L_h(s,a) = r + p_hat max_b L_{h+1}(.,b)  if it is known, else r
    m = ceil(2 (S log 2 + log(2N/delta)) / alpha^2),   alpha = epsilon / (H (H-1)),   N laws: S A (H-1), or S A if stationary

Sampling         play argmax_a Q.
Recommendation   argmax_a L.

Guarantee, derived here (`docs/theory.md`, 22.1, 22.2, 22.3 and 22.4), on the event that ||p_hat - p||_1 <= alpha for all known
pairs at all times, of probability at least 1 - delta/2. With eps_1 = alpha H (H-1) / 4:

    V* - V^{recommendation} <= Q_0(s_1) - L_0(s_1) + 2 eps_1    at all times: `own_epsilon`
    V* - V^{played} > epsilon in at most (4H/epsilon) (N m + log(2/delta)) episodes, with probability 1 - delta: `mistake_bound`

The original is for average rewards and games; its m, from memory, is of order (S T R_max / epsilon)^3. It keeps the first m
samples of a pair and discards the rest. Here none are discarded: the same event holds for all n >= m at once with the same
probability, since means of n samples are a reversed martingale. No discount."""

from __future__ import annotations

from math import ceil, inf, log, sqrt
from typing import Any

import numpy as np

from .. import kernels
from ..rewards.forms import UNIT, Reward, checked_range
from ..setting import Setting, positive, probability, whole_number
from .explorer import RewardedExplorer
from .optimistic import OptimisticExplorer
from .registry import register
from .visit_index import KNOWN, VisitIndex


def laws_of(setting: Setting) -> int:
    """N: how many laws matter for a known reward, those of the last step left out."""
    pairs = setting.n_outcomes * setting.n_actions
    return pairs if setting.stationary else pairs * max(1, setting.horizon - 1)


def level_of(setting: Setting, delta: float, times: float = 1.0) -> float:
    """S log 2 + log(2 N times / delta): ||p_hat_n - p||_1 <= sqrt(2 level / n) for N laws and `times` numbers of samples.

    With probability at least 1 - delta/2 (Weissman et al. 2003); at one n, and then at all larger ones with the radius of that n.
    """
    return setting.n_outcomes * log(2) + log(2 * laws_of(setting) * times / delta)


def samples_for(setting: Setting, alpha: float, delta: float) -> int:
    """m: how many samples of each of the N laws suffice for an L1 error of alpha."""
    return max(1, ceil(2 * level_of(setting, delta) / alpha**2)) if alpha < 2 else 1


def given_samples(samples: Any) -> int:
    """The option `samples`, checked."""
    m = whole_number(samples, "samples")
    if m < 1:
        raise ValueError(f"samples is {m}: it has to be at least 1.")
    return m


@register("r-max")
class RMax(OptimisticExplorer, RewardedExplorer):
    """R-MAX as ask and tell.

    Parameters
    ----------
    target
        The epsilon of the guarantee, in units of the reward. By default a tenth of the largest possible value.
    samples
        m, in place of what the target asks for. The guarantees are then those of the epsilon that suits it.
    setting, reward, reward_range, delta, bounds, ties, seed, growth
        See `OptimisticExplorer` and `RewardedExplorer`.
    """

    goal = "PAC-MDP"
    guarantee = "at most F(epsilon) bad episodes; its recommendation loses at most U - L + 2 eps_1"
    status = "certified"
    reference = "Brafman & Tennenholtz 2002"
    supports_discount = False
    proved = True
    blind_by_reward = True

    def __init__(
        self,
        setting: Setting,
        reward: Reward = None,
        *,
        delta: float = 0.1,
        target: float | None = None,
        samples: int | None = None,
        reward_range: tuple[float, float] = UNIT,
        **options: Any,
    ) -> None:
        if "scale" in options:
            raise ValueError("scale does not suit RMax: it has no bonus. Its option samples does what you want.")
        low, high = checked_range(reward_range)
        H, delta = setting.horizon, probability(delta, "delta")
        aim = H / 10 if target is None else positive(target, "target") / (high - low)
        needed = samples_for(setting, aim / (H * (H - 1)), delta) if H > 1 else 1
        self.samples = needed if samples is None else given_samples(samples)
        alpha = min(2.0, sqrt(2 * level_of(setting, delta) / self.samples))
        self.eps_1 = alpha * H * (H - 1) / 4
        super().__init__(setting, reward, delta=delta, reward_range=reward_range, **options)

    @classmethod
    def defaults(cls, setting: Setting, epsilon: float) -> dict[str, Any]:
        return {"target": epsilon}

    def rule(self) -> VisitIndex:
        return VisitIndex(KNOWN, float(self.setting.horizon), known_from=float(self.samples))

    def _blank(self) -> np.ndarray:
        H, S, A = self.setting.horizon, self.setting.n_outcomes, self.setting.n_actions
        blank = np.broadcast_to((H - np.arange(H, dtype=float))[:, None, None], (H, S, A)).copy()
        blank[-1] = self.reward[-1]
        return blank

    @property
    def recommendation(self) -> np.ndarray:  # type: ignore[override]
        """argmax_a L, (H, S); in states without data the action that pays most at once."""
        greedy, setting = self._greedy, self.setting
        lower = greedy._replace(Q=self._indices.Q_lo, V=self._indices.V_lo)
        return kernels.greedy.policy(
            lower, self.reward, setting.n_actions, self.counts.table.node_of, setting.horizon, np.uint64(0)
        )

    @property
    def own_loss(self) -> float | None:
        """U - L + 2 eps_1 at the start; None if the distribution of the start is estimated."""
        H = float(self.setting.horizon)
        upper = self._start(self._greedy.V, H)
        if upper == inf:
            return None
        return min(H, upper - self._start(self._indices.V_lo, 0.0) + 2 * self.eps_1) * (1 + 1e-12)

    def _mistakes(self, epsilon: float) -> float:
        spare = epsilon - 2 * self.eps_1  # what is left of epsilon for episodes that meet an unknown pair
        H, visits = self.setting.horizon, laws_of(self.setting) * self.samples
        return 2 * H / spare * (visits + log(2 / self.delta)) if spare > 0 else inf

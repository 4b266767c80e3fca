"""PSRL, posterior sampling (Strens 2000; Osband, Russo & Van Roy 2013): plays the optimum of a model drawn from the posterior.

    before each episode, for every pair: p ~ Dirichlet(counts + prior),   prior = 1/S for each of S outcomes;   play the optimum
    of p for r

Guarantee: none for a given model. If the model itself was drawn from the prior, the expected regret is of order H S sqrt(A T),
in the original.

The prior matters: with 1 for each outcome, as in some implementations, 31 states are far too many. Each draw is dense, S times
S A H (S A if stationary) numbers: this is for small models, and far slower than the algorithms with an index. On the double
chain with H = 20 they are 38,440 gamma variates an episode. At 20 ns each they alone leave 26,000 transitions a second."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..rewards.forms import Reward
from ..setting import Setting, positive
from .explorer import RewardedExplorer
from .planned import PlannedExplorer
from .registry import register

MOST = 2**24  # numbers in a draw


@register("psrl")
class PSRL(PlannedExplorer, RewardedExplorer):
    """PSRL as ask and tell.

    Parameters
    ----------
    prior
        Of each outcome; by default 1/S.
    setting, reward, reward_range, delta, bounds, seed
        See `PlannedExplorer` and `RewardedExplorer`.
    """

    goal = "regret"
    guarantee = "Bayesian regret ~ H S sqrt(A T); none for a given model"
    status = "none"
    reference = "Strens 2000; Osband et al. 2013"

    def __init__(self, setting: Setting, reward: Reward = None, *, prior: float | None = None, **options: Any) -> None:
        S = setting.n_outcomes
        self.prior = 1 / S if prior is None else positive(prior, "prior")
        steps = 1 if setting.stationary else setting.horizon
        if steps * S * setting.n_actions * S > MOST:
            raise ValueError(f"psrl would draw {steps * S * setting.n_actions * S:,} numbers for each episode: at most {MOST:,}.")
        RewardedExplorer.__init__(self, setting, reward, **options)
        self._plan()

    @property
    def _next_plan(self) -> int:
        return self._planned_at + 1

    def pays(self) -> np.ndarray:
        return self.reward

    def _planned(self, rng: np.random.Generator) -> np.ndarray:
        setting, c = self.setting, self.counts.columns()
        H, S, A = setting.horizon, setting.n_outcomes, setting.n_actions
        alpha = np.full((1 if setting.stationary else H, S, A, S), self.prior)
        move = c["h"] >= 0
        np.add.at(alpha, (c["h"][move], c["s"][move], c["a"][move], c["next"][move]), c["count"][move])
        p = rng.standard_gamma(alpha) + 1e-300
        p /= p.sum(axis=-1, keepdims=True)
        stays = np.flatnonzero(self.counts.stays())
        p[:, stays] = np.eye(S)[stays][:, None]
        illegal, V, policy = self.counts.illegal, np.zeros(S), np.empty((H, S), np.int64)
        for h in reversed(range(H)):
            Q = self.reward[min(h, len(self.reward) - 1)] + setting.discount * (p[min(h, len(p) - 1)] @ V)
            if len(illegal):
                Q[: len(illegal)][illegal] = -np.inf
            policy[h], V = Q.argmax(axis=1), Q.max(axis=1)
        return policy

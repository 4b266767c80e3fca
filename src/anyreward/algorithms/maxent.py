"""MaxEnt (Hazan, Kakade, Singh & Van Soest 2019): Frank-Wolfe for a state distribution of large entropy.

    d(s) = visits of s, over all steps, divided by their number;    r(s) = -log(d(s) + sigma) - d(s) / (d(s) + sigma)

Sampling   play the optimal policy for r on p_hat. r is the gradient of the smoothed entropy -sum d log(d + sigma); with d =
visits so far, each episode
           is a Frank-Wolfe step of size 1/t. A constant is added to r, which changes no policy and keeps it positive.

Guarantee: none here. The original is discounted and has oracles for planning and for densities, with mixtures of policies as
its result; its numbers of rounds are from memory and not used. The entropy of states, all steps together, is large long before
every pair of step, state and action was visited: for certificates by step it is a poor sampler, worse than the random policy on
the double chain."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..setting import Setting, positive
from .planned import PlannedExplorer
from .registry import register


@register("maxent")
class MaxEnt(PlannedExplorer):
    """MaxEnt as ask and tell.

    Parameters
    ----------
    sigma
        Smooths the entropy; without it, states that were never visited would be worth infinitely much.
    setting, delta, bounds, seed, growth
        See `PlannedExplorer`.
    """

    goal = "entropy"
    guarantee = "none of its own"
    status = "none"
    reference = "Hazan et al. 2019"

    def __init__(self, setting: Setting, *, sigma: float = 0.001, **options: Any) -> None:
        self.sigma = positive(sigma, "sigma")
        super().__init__(setting, **options)

    def pays(self) -> np.ndarray:
        n = self.visits().sum(axis=(0, 2))
        d = n / max(1.0, n.sum())
        gradient = -np.log(d + self.sigma) - d / (d + self.sigma)
        shifted = gradient - (-np.log(1 + self.sigma) - 1)
        return np.broadcast_to(shifted[:, None], (len(d), self.setting.n_actions))[None]

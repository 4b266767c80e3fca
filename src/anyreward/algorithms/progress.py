"""Exploring for learning progress (Schmidhuber 1991), in tabular form: what the last visit of a pair has taught.

The law of each pair has the prior Dirichlet(kappa, ..., kappa) on S outcomes, kappa = 1/S, and the mean m = alpha / alpha_0 with
alpha = counts + kappa. A pair is worth how far its last draw, k, has moved that mean:

    KL(m_n, m_{n-1}) = m_n(k) log(alpha_n(k) / alpha_{n-1}(k)) - log(alpha_n,0 / alpha_{n-1,0})

and without data what a first draw would move it by.

Sampling   play the optimal policy for it on p_hat.

Guarantee: none. It is about one draw, and so noise as soon as laws are random: a baseline. `info-gain` is its expectation."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._checks import checked_array
from ..setting import Setting
from .planned import PlannedExplorer
from .registry import register


def progress(share: np.ndarray, total: np.ndarray) -> np.ndarray:
    """KL(m_n, m_{n-1}), where alpha_n is `share` for the last draw and `total` in sum."""
    return share / total * np.log(share / (share - 1)) - np.log(total / (total - 1))


@register("progress")
class Progress(PlannedExplorer):
    """Exploration for learning progress as ask and tell; see `PlannedExplorer` for options."""

    continues = False  # counts do not tell which draw was the last
    goal = "baseline"
    guarantee = "none of its own"
    status = "none"
    reference = "Schmidhuber 1991"

    def __init__(self, setting: Setting, *args: Any, **options: Any) -> None:
        steps = 1 if setting.stationary else setting.horizon
        self._last = np.full((steps, setting.n_outcomes, setting.n_actions), -1)  # the outcome of the last draw of each pair
        super().__init__(setting, *args, **options)

    def pays(self) -> np.ndarray:
        n, c, kappa = self.visits(), self.counts.columns(), 1 / self.setting.n_outcomes
        at = c["h"], c["s"], c["a"]
        last = (c["h"] >= 0) & (self._last[at] == c["next"])
        times = np.ones_like(n)  # of the last draw's outcome, that draw included
        times[tuple(part[last] for part in at)] = c["count"][last]
        return progress(times + kappa, np.maximum(n, 1.0) + 1.0)

    def _learn(self, states: np.ndarray, actions: np.ndarray) -> None:
        steps = np.zeros_like(actions) if self.setting.stationary else np.broadcast_to(np.arange(actions.shape[1]), actions.shape)
        self._last[steps, states[:, :-1], actions] = states[:, 1:]  # of several draws of a pair the last one stays
        super()._learn(states, actions)

    def state(self) -> dict[str, np.ndarray]:
        return {**super().state(), "last": self._last.copy()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        most = self.setting.n_outcomes - 1
        self._last = checked_array(state["last"], np.int64, self._last.shape, "what it saw last is", -1, most).copy()

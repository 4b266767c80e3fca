"""EntGame (Tiapkin, Belomestny, Calandriello, Moulines, Munos, Naumov, Perrault, Tang, Valko & Ménard 2023): visits of large
entropy.

    q_h(s,a) = (n_h(s,a) + 1) / (t + S A)                         a forecast of what the next episode visits
    Q_h(s,a) = log(1 / q_h(s,a)) + p_hat max_b Q_{h+1}(.,b)       with nothing but the largest rewards ahead without data

Sampling   play argmax_a Q, what the forecaster finds most surprising. (Steps from 0; in a stationary setting n is pooled.)

Guarantee, derived here: the sum over steps of the entropies H(d_h) of the frequencies d_h of (s,a) is, for every policy and
every mixture of policies, at most V*(log(1/q)), since H(d) <= sum d log(1/q) for every q. So at all times, with probability 1 -
delta (the event of plans, `docs/theory.md`, 6.1),

    sum_h H(d_h) <= V_up(s_1; log(1/q)) = `entropy_bound`,    for everybody;    `entropy` is that of the visits so far

It is no guarantee for plans. The original adds a bonus for optimism to the model's values, with which it explores at the cap for
all affordable numbers of episodes; its public implementation has the variant without, which is this one. No discount.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import kernels
from ..certificates.intervals import Robust
from ..setting import Setting
from .optimistic import OptimisticExplorer
from .registry import register
from .visit_index import LOG, LOG_T, VisitIndex


@register("ent-game")
class EntGame(OptimisticExplorer):
    """EntGame as ask and tell; see `OptimisticExplorer` for options. There is no `scale`, as there is no bonus."""

    goal = "entropy"
    guarantee = "nobody's visits can have a larger entropy than V_up(log(1/q))"
    status = "certified"
    reference = "Tiapkin et al. 2023"
    supports_discount = False

    def __init__(self, setting: Setting, **options: Any) -> None:
        if "scale" in options:
            raise ValueError("scale does not suit EntGame: it would change nothing.")
        super().__init__(setting, **options)

    def rule(self) -> VisitIndex:
        return VisitIndex(LOG, float(self.setting.horizon), more=1.0, peak=LOG_T)

    @property
    def _visits(self) -> np.ndarray:
        """n (1 or H, n_outcomes, A)."""
        setting, c = self.setting, self.counts.columns()
        n = np.zeros((1 if setting.stationary else setting.horizon, setting.n_outcomes, setting.n_actions))
        move = c["h"] >= 0
        np.add.at(n, (c["h"][move], c["s"][move], c["a"][move]), c["count"][move])
        return n

    @property
    def entropy(self) -> float | None:
        """The sum over steps of the entropies of the visits so far; None if stationary, where counts do not tell the step."""
        if self.setting.stationary or self.episodes == 0:
            return None
        d = self._visits / self.episodes
        return float(-np.sum(d * np.log(np.where(d > 0, d, 1.0))))

    @property
    def entropy_bound(self) -> float:
        """Nobody's visits can have a larger sum of entropies, with probability 1 - delta."""
        setting, n = self.setting, self._visits
        most = setting.horizon * np.log(setting.n_outcomes * setting.n_actions)  # with no data at all
        self.counts.check_start()
        surprise = np.log(n.sum(axis=(1, 2), keepdims=True) + n[0].size) - np.log(n + 1)
        scale = float(surprise.max())
        reward = np.broadcast_to(surprise / scale if scale > 0 else surprise, (setting.horizon, *n.shape[1:]))
        radii = self.bound.kl_radii(self.counts, self.delta)
        value = Robust(self.counts, radii, self.bound.most_successors(setting), reward).best(kernels.robust.UPPER)[1]
        return float(min(most, value * scale) * (1 + 1e-9))

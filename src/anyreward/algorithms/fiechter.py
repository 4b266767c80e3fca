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

from math import floor, inf, log
from typing import Any

from .. import kernels
from ..certificates.thresholds import paper_rule
from ..setting import Setting, positive, shown
from .optimistic import OptimisticExplorer


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
        """The stopping rule in whole numbers: F_0(s_1) <= floor(epsilon / (2 eta)) - H."""
        value = self._start(self._greedy.V, float(self._greedy.unvisited[0]))
        return value < inf and round(value / self.eta) <= floor(epsilon / (2 * self.eta) * (1 + 1e-12)) - self.setting.horizon

    def rule(self) -> kernels.optimism.Rule:
        setting, repaired = self.setting, self.variant == "repaired"
        plain = log(2 * setting.n_outcomes * setting.n_actions * setting.horizon / self.delta)
        level = paper_rule(setting, self.delta, True).level if repaired else plain
        return self._rule_of(kernels.optimism.FIECHTER, level, grain=self.eta, variant=repaired)

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

"""Log-coverage (Li, Yan, Chen & Fan 2023, the first stage of their reward-free algorithm), in an adaptive form.

    Q_h(s,a) = g(n) + p_hat max_b Q_{h+1}(.,b),    g(n) = 1 / (n/t + xi) = t / (n + 1/H),  xi = 1/(t H);   (H-h) g(0) without data

for counts n = n_h(s,a) after t episodes. (Steps from 0.) The factor t changes no policy, so g = 1 / (n + 1/H).

Sampling   play argmax_a Q: the Frank-Wolfe step of size 1/t for the sum of log(xi + d_h(s,a)) over the frequencies d_h of the
           policies that are mixed, with the empirical model in place of the true one.

Guarantee: none here. The counts can be certified like any others, and `excess` says how good the design is: for the frequencies
d of the visits, max_pi sum d^pi_h(s,a) / d_h(s,a) in the empirical model is at least the number of pairs (h, s, a) that can be
reached, and equal to it for the best design only (Kiefer & Wolfowitz 1960).

The original estimates d layer by layer, each from fresh episodes, with xi = 1/(K H) for a number K that is fixed beforehand,
plays the mixture that it has found for K episodes, and plans with a pessimism whose constants are not published (from memory).
Here the mixture is that of the episodes so far, K is their number, and plans are those of p_hat. No discount."""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import numpy as np

from ..data.counts import Counts
from ..planning import induct
from ..setting import Setting
from .optimistic import OptimisticExplorer
from .registry import register
from .visit_index import INVERSE, VisitIndex

MOST = 2**24  # numbers (h, s, a) up to which the quality is computed unasked


class Design(NamedTuple):
    """How well the visits of some counts cover what can be reached.

    Example:

        from anyreward.algorithms.log_coverage import design_of

        design = design_of(anyreward.explore(env, horizon=20, max_episodes=100).counts)
        design.value, design.optimum
    """

    value: float  # max_pi sum d^pi / d in the empirical model; infinite if an action of a visited state was never tried
    optimum: int  # how many pairs (h, s, a) can be reached, as far as the counts know: the least possible value

    @property
    def excess(self) -> float:
        """By which share the value is above the optimum; 0 for the best design."""
        return self.value / self.optimum - 1 if self.optimum else 0.0


def design_of(counts: Counts) -> Design | None:
    """The quality of counts as a design. None if steps are pooled, as counts do not tell the step then, or without episodes.

    Example:

        from anyreward.algorithms.log_coverage import design_of

        design_of(anyreward.explore(env, horizon=20, max_episodes=100).counts)
    """
    setting, t = counts.setting, counts.episodes
    if setting.stationary or t == 0:
        return None
    c, n = counts.columns(), np.zeros((setting.horizon, setting.n_outcomes, setting.n_actions))
    move = c["h"] >= 0
    np.add.at(n, (c["h"][move], c["s"][move], c["a"][move]), c["count"][move])
    legal = np.ones(n.shape[1:], bool)
    legal[: len(counts.illegal)] = ~counts.illegal
    wanted = (n.sum(axis=2, keepdims=True) > 0) & legal
    if (n[wanted] == 0).any():
        return Design(inf, int(wanted.sum()))
    ratio = np.divide(t, n, out=np.zeros_like(n), where=n > 0)
    model = counts.model()
    return Design(float(model.initial @ induct(model, ratio, setting.horizon, 1.0).V[0]), int(wanted.sum()))


@register("log-coverage")
class LogCoverage(OptimisticExplorer):
    """Exploration for log-coverage as ask and tell; see `OptimisticExplorer`. There is no `scale`: it would change nothing."""

    goal = "baseline"
    guarantee = "none of its own"
    status = "none"
    reference = "Li et al. 2023"
    supports_discount = False

    def __init__(self, setting: Setting, **options: Any) -> None:
        if "scale" in options:
            raise ValueError("scale does not suit LogCoverage: it would change nothing.")
        super().__init__(setting, **options)

    def rule(self) -> VisitIndex:
        H = float(self.setting.horizon)
        return VisitIndex(INVERSE, H, more=1 / H, peak=H)

    @property
    def design(self) -> Design | None:
        """The quality of its visits as a design."""
        return design_of(self.counts)

    @property
    def facts(self) -> dict[str, Any]:  # type: ignore[override]
        setting = self.setting
        design = self.design if setting.horizon * setting.n_outcomes * setting.n_actions <= MOST else None
        return {} if design is None else {"excess": design.excess if design.excess < inf else None, "pairs": design.optimum}

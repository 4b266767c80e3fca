"""Count-based exploration: greedy for a bonus of the visits of a pair, the tabular core of many curious agents.

    Q_h(s,a) = g(n) + p_hat max_b Q_{h+1}(.,b),    (H-h) g(0) without data,    g(0) = g(0.1)    (steps from 0)

    bonus       g(n)                  whose "root"      1 / sqrt(n)           MBIE-EB without a reward (Strehl & Littman 2008);
    Tang et al. 2017 with one hash for each pair;
                                      Bellemare et al. 2016, whose pseudo-counts are counts if the density model is n(x)/n
    "inverse"   1 / n                 log-coverage: Frank-Wolfe on sum log d_h(s,a) (Li, Yan, Chen & Fan 2023, its first stage)
    "log"       log(t / n)            Frank-Wolfe on the entropy of visits, without a bonus for optimism

Guarantee: none. The counts can be certified like any others.

Being greedy for g = f'(n_h/t) is a Frank-Wolfe step of size 1/t for sum f(d_h(s,a)) over the frequencies d_h of all policies,
with the empirical model in place of the true one: 1/sqrt(n) belongs to 2 sqrt(d), 1/n to log d, and log(t/n) to -d log d, up to
a constant. (Derived here.)"""

from __future__ import annotations

from math import log, sqrt
from typing import Any

from ..setting import Setting, shown
from .optimistic import OptimisticExplorer
from .registry import register
from .visit_index import INVERSE, LOG, LOG_T, ROOT, VisitIndex

LEAST = 0.1  # visits of a pair without any
BONUSES = {"root": (ROOT, 1 / sqrt(LEAST)), "inverse": (INVERSE, 1 / LEAST), "log": (LOG, LOG_T - log(LEAST))}


@register("count")
class Count(OptimisticExplorer):
    """Count-based exploration as ask and tell.

    Parameters
    ----------
    bonus
        `"root"`, `"inverse"` or `"log"`, as above.
    setting, delta, bounds, ties, seed, growth
        See `OptimisticExplorer`. There is no `scale`: it would change nothing.
    """

    goal = "baseline"
    guarantee = "none of its own"
    status = "none"
    reference = "Strehl & Littman 2008; Bellemare et al. 2016; Tang et al. 2017"
    supports_discount = False

    def __init__(self, setting: Setting, *, bonus: str = "root", **options: Any) -> None:
        if bonus not in BONUSES:
            raise ValueError(f"bonus is {shown(bonus)}: it has to be one of {', '.join(map(repr, BONUSES))}.")
        if "scale" in options:
            raise ValueError("scale does not suit Count: it would change nothing.")
        self.bonus = bonus
        super().__init__(setting, **options)

    def rule(self) -> VisitIndex:
        kind, peak = BONUSES[self.bonus]
        return VisitIndex(kind, float(self.setting.horizon), peak=peak)

"""How far the true transition laws can be from the empirical ones, and the constants that follow.

The paper's event. With probability at least 1 - delta/2, at all times at once and for every law that is estimated,

    n KL(p_hat_n, p) <= beta(n, delta) = log(2N/delta) + (S-1) log(e (1 + n/(S-1))),

where N counts the laws (`Setting.n_rows`: S A H of them, S A when stationary, one more for a random start, which the
paper does not mention) and n is how often the law was sampled. Each law is sampled at times that the data may choose; its
successive samples are nevertheless independent draws (read them off a tape that was written beforehand), and the bound
holds at every n, so it holds whatever the sampling rule, the schedule and the stopping time were.
"""

from __future__ import annotations

from math import log, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import kernels
from ..kernels.formulas import beta, beta_level, mixture
from ..setting import Setting, probability

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..kernels.rf import Rule


class PaperRadius(NamedTuple):
    """Pinsker's inequality on the paper's event: ||p_hat_n - p||_1 <= sqrt(2 beta(n) / n)."""

    m: float  # S - 1
    level: float  # see `kernels.formulas.beta`

    def radius(self, n: float) -> float:
        """At n = 0 a number above any L1 distance there can be."""
        return sqrt(2.0 * beta(n, self.m, self.level) * (1.0 / max(1.0, n)))


def log_laws(setting: Setting, delta: float) -> float:
    """log(2 N / delta): half of delta is shared among the N laws that are estimated."""
    return log(2 * setting.n_rows / probability(delta, "delta"))


def paper_radius(setting: Setting, delta: float) -> PaperRadius:
    """The radius for a setting."""
    m = float(setting.n_outcomes - 1)
    return PaperRadius(m, beta_level(log_laws(setting, delta), m))


def paper_beta(n: ArrayLike, setting: Setting, delta: float) -> Any:
    """beta(n, delta): the threshold of Theorem 1 of the paper (of its appendix when stationary), for n samples of a law."""
    return log_laws(setting, delta) + mixture(np.asarray(n, dtype=float), setting.n_outcomes - 1.0)


def paper_rule(setting: Setting, delta: float, clip: bool = True) -> Rule:
    """The constants of the paper's error bound, for the compiled recursion in `kernels.rf`.

    A model error at step h (from 0) can cost gamma sigma_{H-1-h}, the largest value of what comes after. A random start is
    the paper's extra state s_0: one law more, followed by the whole value sigma_H and, before it, by no discount. If rewards
    may depend on the successor, r + gamma V is what a model error can cost: sigma_{H-h}, the last step included.
    """
    sigma = setting.sigma
    weight = sigma[:0:-1].copy() if setting.arrival_rewards else setting.discount * sigma[setting.horizon - 1 :: -1]
    random_start = setting.initial_state is None
    return kernels.rf.Rule(
        weight=weight,
        cap=weight.copy() if clip else np.full(setting.horizon, np.inf),
        discount=setting.discount,
        start_weight=float(sigma[-1]) if random_start else 0.0,
        start_cap=float(sigma[-1]) if random_start and clip else np.inf,
        n_states=setting.n_outcomes,
        n_actions=setting.n_actions,
        radius=paper_radius(setting, delta),
    )

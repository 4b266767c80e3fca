"""The paper's confidence thresholds: how far a true law can be from the empirical one.

**The event.** With probability at least 1 - delta/2, at all times at once and for every distribution that is estimated,

    n KL(p_hat_n, p) <= beta(n, delta) = log(2N/delta) + (S-1) log(e (1 + n/(S-1))).

Here p is the true distribution, p_hat_n the empirical one after n samples, and N = `Setting.n_distributions` the number of
estimated distributions: S A H, or S A if stationary, and one more for the initial state if its distribution is estimated,
which the paper does not mention.

**Why adaptive data are allowed.** The data may decide when a distribution is sampled. Its successive samples are independent
draws nevertheless: imagine that they are read from a tape that was written beforehand. The bound holds at every n, and therefore
under any sampling rule, update schedule and stopping time.

A distribution is called a *law* in names such as `log_laws`.
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
    """The paper's L1 confidence radius, sqrt(2 beta(n) / n).

    By Pinsker's inequality, ||p_hat_n - p||_1 <= sqrt(2 beta(n) / n) on the paper's event.
    """

    m: float  # S - 1
    level: float  # the part of beta that does not depend on n, `kernels.formulas.beta_level`

    def radius(self, n: float) -> float:
        """The radius after n visits. At n = 0 it is larger than any L1 distance."""
        return sqrt(2.0 * beta(n, self.m, self.level) * (1.0 / max(1.0, n)))


def log_laws(setting: Setting, delta: float) -> float:
    """log(2 N / delta): half of delta is shared among the N distributions that are estimated."""
    return log(2 * setting.n_distributions / probability(delta, "delta"))


def paper_radius(setting: Setting, delta: float) -> PaperRadius:
    """The paper's radius for a setting."""
    m = float(setting.n_outcomes - 1)
    return PaperRadius(m, beta_level(log_laws(setting, delta), m))


def paper_beta(n: ArrayLike, setting: Setting, delta: float) -> Any:
    """beta(n, delta), the threshold of the paper's Theorem 1 (of its appendix if stationary). `n` may be an array."""
    return log_laws(setting, delta) + mixture(np.asarray(n, dtype=float), setting.n_outcomes - 1.0)


def paper_rule(setting: Setting, delta: float, clip: bool = True) -> Rule:
    """The constants of the paper's error bound, for the compiled recursion in `kernels.rf`.

    A model error at step h (from 0) can cost gamma sigma_{H-1-h}, the largest value of all later steps. A random initial state
    whose distribution is not known is preceded by the paper's extra state s_0: one more distribution, followed by the whole value
    sigma_H without a discount. If rewards may depend on the successor, a model error can cost the largest value of r + gamma V,
    sigma_{H-h}, at the last step too.

    Parameters
    ----------
    setting : Setting
    delta : float
    clip : bool, default True
        Whether the bound at each step is cut off at its trivial value.
    """
    sigma = setting.sigma
    weight = sigma[:0:-1].copy() if setting.arrival_rewards else setting.discount * sigma[setting.horizon - 1 :: -1]
    estimated = setting.estimates_start
    return kernels.rf.Rule(
        weight=weight,
        cap=weight.copy() if clip else np.full(setting.horizon, np.inf),
        discount=setting.discount,
        start_weight=float(sigma[-1]) if estimated else 0.0,
        start_cap=float(sigma[-1]) if estimated and clip else np.inf,
        n_states=setting.n_outcomes,
        n_actions=setting.n_actions,
        radius=paper_radius(setting, delta),
    )

"""The mean of bounded values, by betting: an interval that holds at all times, so that one may look and stop at any moment.

Let X_1, X_2, ... lie in [0, 1], each with mean mu given everything before it; nothing else is assumed. **The event**, of
probability at least 1 - delta: for all n at once,

    max_{0 <= b <= 1} sum_{i <= n} log(b X_i / mu + (1 - b)(1 - X_i) / (1 - mu)) <= log(1/delta) + psi_n,

where psi_n = log(sqrt(pi) Gamma(n + 1) / Gamma(n + 1/2)), about log(pi n)/2. The sum is the log of the wealth of somebody who
starts with 1 and each time puts a share b of it on X_i and the rest on 1 - X_i, at odds that are fair if the mean is mu: in a
fair game nobody gets rich. So a number m that would have made somebody rich is not the mean. With
c = (log(1/delta) + psi_n) / n, this leaves

    max_{u >= 0} F(u; X) <= mu <= 1 - max_{u >= 0} F(u; 1 - X),     F(u; X) = exp(mean of log(u + X_i) - c) - u.

**Every** u >= 0 gives bounds that hold on the event, so an inaccurate search costs tightness and never validity. F is the
function that robust planning maximises as well (`kernels.ball`): the ends are the smallest and the largest mean of a distribution
p on [0, 1] with KL(p_hat, p) <= c, where p_hat is the empirical distribution of the values.

The proof is in `docs/theory.md`, 12.1. References: Waudby-Smith & Ramdas (2024), Estimating means of bounded random variables by
betting; Orabona & Jun (2024), Tight concentrations and confidence sequences from the regret of universal portfolio; psi_n is the
regret of Cover & Ordentlich (1996), Universal portfolios with side information.
"""

from __future__ import annotations

from math import exp, log, pi

import numpy as np

from .. import kernels

ROUNDING = 1e-14  # of the exponent of F, relative to the absolute values of its parts (`docs/theory.md`, 12.1)
LEAST = float(np.finfo(float).tiny)  # below this, numbers lose their relative accuracy


def log_wealth_threshold(n: int, delta: float) -> float:
    """log(1/delta) + psi_n, which the log wealth of no constant bet at fair odds ever exceeds, with probability 1 - delta."""
    return 0.5 * log(pi) + float(kernels.radii.gamma_step(float(n))) - log(delta)


def mean_interval(x: np.ndarray, delta: float, low: float = 0.0, high: float = 1.0) -> tuple[float, float]:
    """An interval for the mean of bounded values. With probability at least 1 - delta it contains the mean at all times.

        mean_interval(plan.run(env, episodes=100), delta=0.1, low=0.0, high=20.0)

    So one may look after every value, stop when one likes what one sees, and intersect the intervals of several looks. The values
    need not be independent: each has to have the same mean given everything before it, and none may be left out because of what
    it is.

    Two plans are compared by their differences in pairs of episodes: with returns x and y in [0, R],
    ``mean_interval(x - y, delta, -R, R)`` contains the difference of the values of the plans, however the two episodes of a pair
    depend on each other.

    Parameters
    ----------
    x : ndarray, (n,)
        The values so far, between `low` and `high`. Without any, the interval is [low, high]. They are taken to be exact: if each
        of them may have a rounding error of e, the interval has to be widened by e.
    delta : float
        The probability that the interval misses the mean at some time, strictly between 0 and 1.
    low, high : float, default 0 and 1
        The range of the values, which has to be known before they are.

    Returns
    -------
    lower, upper : float
        All smaller and all larger means are excluded, also after rounding.
    """
    n, width = len(x), high - low
    if n == 0 or not width > 0.0:
        return low, high
    values, times = np.unique(np.asarray(x, dtype=float), return_counts=True)
    c = (log_wealth_threshold(n, delta) + kernels.radii.SAFETY) / n
    above = width * _least_mean((values - low) / width, times.astype(float), n, c)
    below = width * _least_mean((high - values) / width, times.astype(float), n, c)
    lower = low + above - 1e-15 * (abs(low) + above)
    upper = high - below + 1e-15 * (abs(high) + below)
    return max(low, lower), min(high, upper)


def _least_mean(x: np.ndarray, times: np.ndarray, n: int, c: float) -> float:
    """A lower bound on max_u F(u; X) that is nearly equal to it, where the value x[k] was seen times[k] times among n.

    The kernel only searches for u; F(u) is computed here, with all errors on the safe side.
    """
    x[x < LEAST] = 0.0  # F increases with every value
    u = float(kernels.ball.gap(times, 0, len(x), float(n), x, c, 0.0)[1])
    if not u + x.min() > 0.0:
        return 0.0
    logs = np.log(u + x)
    size = 1.0 + c + (times * np.abs(logs)).sum() / n
    most = exp((times * logs).sum() / n - c - ROUNDING * size) - u
    return most if most > LEAST else 0.0

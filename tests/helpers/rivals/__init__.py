"""Rival algorithms in plain loops: written for the reader, slow on purpose, to be compared with.

Steps count from 0. Counts are dense: n[h, s, a, x] visits (H, S, A, S), or n[s, a, x] (S, A, S), all steps together, when
the problem is stationary. Rewards r (H, S, A) are known and lie in [0, 1]; the start state is fixed.
An index is Q (H, S, A) with V (H+1, S), V[H] = 0; `up` is above the optimal value and `lo` below it, on the event that
the docstring names. Throughout sigma(k) = 1 + gamma + ... + gamma^(k-1), and laws = how many (h, s, a) share delta.
Constants are the published ones, even where they are loose; where they cannot be proved, the docstring says so.
"""

from .bpi_ucbvi import BestPolicy, beta_star, bpi_ucbvi
from .common import beta, by_step, horizon_of, p_hat, sigma, variance
from .euler import euler
from .even_dar import Elimination, even_dar, even_dar_stops
from .fiechter import fiechter, fiechter_error_bound, fiechter_eta, fiechter_threshold
from .from_regret import Instances, markov_episodes, regret_to_bpi, ucbvi_regret
from .generative import generative_error
from .opt_qlearning import opt_qlearning
from .rf_express import beta_express, rf_express, rf_express_error
from .ucbvi import ucbvi
from .ucrl import kl_largest, kl_ucrl, kl_ucrl_constant, l1_largest, optimistic, ucrl2, ucrl2_radius

__all__ = [
    "BestPolicy",
    "Elimination",
    "Instances",
    "beta",
    "beta_express",
    "beta_star",
    "bpi_ucbvi",
    "by_step",
    "euler",
    "even_dar",
    "even_dar_stops",
    "fiechter",
    "fiechter_error_bound",
    "fiechter_eta",
    "fiechter_threshold",
    "generative_error",
    "horizon_of",
    "kl_largest",
    "kl_ucrl",
    "kl_ucrl_constant",
    "l1_largest",
    "markov_episodes",
    "opt_qlearning",
    "optimistic",
    "p_hat",
    "regret_to_bpi",
    "rf_express",
    "rf_express_error",
    "sigma",
    "ucbvi",
    "ucbvi_regret",
    "ucrl2",
    "ucrl2_radius",
    "variance",
]

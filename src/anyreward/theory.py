"""The paper's formulas as functions, so that a measured number of episodes can stand beside what is proved about it.

Kaufmann et al., *Adaptive Reward-Free Exploration*, ALT 2021. S states, A actions, H steps, gamma the discount, tau the number of
episodes until an algorithm stops. Bounds on tau hold with probability at least 1 - delta.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, e, log, sqrt

import numpy as np

from .setting import Setting, positive, probability, real_number

RF_UCRL, BPI_UCRL = 144.0, 64.0  # the constants in front of (1 + sqrt(2))^2 in Theorem 1 and in Theorem 2


def sigma(k: int, discount: float = 1.0) -> float:
    """sigma_k = 1 + gamma + ... + gamma^(k-1)."""
    return float(sum(discount**i for i in range(k)))


def beta(n: float, setting: Setting, delta: float) -> float:
    """The threshold: log(2 S A H / delta) + (S-1) log(e (1 + n/(S-1))), with S A in place of S A H when stationary; n visits.

    A random start is one law more. For S = 1 the second term is 0.
    """
    m = setting.n_states - 1
    first = log(2 * setting.n_rows / probability(delta, "delta"))
    return first + (m * log(e * (1 + n / m)) if m else 0.0)


def inversion(a: float, b: float, c: float, d: float, gap: float) -> float:
    """The inversion lemma: if n >= 1 and n gap^2 <= a + b log(c + d n), for positive numbers, then n is at most this."""
    most = c + d / gap**4 * (a + b * (sqrt(c) + sqrt(d))) ** 2
    return (a + b * log(most)) / gap**2


def tau_bound(setting: Setting, epsilon: float, delta: float, algorithm: str = "rf-ucrl") -> float:
    """Theorem 1 (`"rf-ucrl"`), Theorem 2 (`"bpi-ucrl"`) or, in a stationary setting, the bound of the appendix.

    tau <= C S A / epsilon^2 beta(tau), C = 144 (1 + sqrt(2))^2 sigma_H^4, or 64 for BPI-UCRL; stationary: sigma_H^2 H in place of
    sigma_H^4 and beta(H tau). Then the inversion lemma. (What is printed simplifies the lemma's log(e + e X^2/(S-1)) to
    1 + 2 log X, which for S = 2 is slightly too little; here the lemma stands as it is. The paper states the stationary bound for
    RF-UCRL.)
    """
    C = _constant(setting, algorithm) / positive(epsilon, "epsilon") ** 2
    m = setting.n_states - 1
    a, longer = log(2 * setting.n_rows / probability(delta, "delta")), setting.horizon if setting.stationary else 1
    if m == 0:
        return C * a
    return inversion(a, m, e, e * longer / m, 1 / sqrt(C))


def tau_printed(setting: Setting, epsilon: float, delta: float, algorithm: str = "rf-ucrl") -> float:
    """The same as it is printed in the theorems; needs S >= 2."""
    C = _constant(setting, algorithm) / positive(epsilon, "epsilon") ** 2
    m, H = setting.n_states - 1, setting.horizon if setting.stationary else 1
    a = log(2 * setting.n_rows / probability(delta, "delta"))
    inner = C * sqrt(H) * (a + m * (sqrt(e) + sqrt(H * e / m)))
    return C * (a + 2 * m * log(inner) + m)


def tau_implicit(setting: Setting, epsilon: float, delta: float, algorithm: str = "rf-ucrl") -> float:
    """The largest tau with tau <= C S A / epsilon^2 beta(tau), or beta(H tau) when stationary: what the theorems invert."""
    C = _constant(setting, algorithm) / positive(epsilon, "epsilon") ** 2
    longer = setting.horizon if setting.stationary else 1
    tau = tau_bound(setting, epsilon, delta, algorithm)
    for _ in range(200):  # from above, C beta is increasing and concave: the fixed point is approached from above
        tau = C * beta(longer * tau, setting, delta)
    return tau


def _constant(setting: Setting, algorithm: str) -> float:
    if algorithm not in ("rf-ucrl", "bpi-ucrl"):
        raise ValueError(f"algorithm is {algorithm!r}: there are bounds for 'rf-ucrl' and 'bpi-ucrl'.")
    top = float(setting.sigma[-1])
    power = top**2 * setting.horizon if setting.stationary else top**4
    leading = RF_UCRL if algorithm == "rf-ucrl" else BPI_UCRL
    return leading * (1 + sqrt(2)) ** 2 * power * setting.n_states * setting.n_actions


RATES: dict[tuple[str, str, str], tuple[Callable[[float, float, float, float, float], float], str]] = {
    ("reward-free", "small delta", "upper"): (lambda S, A, H, eps, d: S * A * H**3 / eps**2 * log(1 / d), "RF-UCRL"),
    ("reward-free", "small delta", "lower"): (
        lambda S, A, H, eps, d: S * A * H**2 / eps**2 * log(1 / d),
        "Dann & Brunskill 2015",
    ),
    ("best policy", "small delta", "upper"): (lambda S, A, H, eps, d: S * A * H**3 / eps**2 * log(1 / d), "BPI-UCRL, RF-UCRL"),
    ("best policy", "small delta", "lower"): (
        lambda S, A, H, eps, d: S * A * H**2 / eps**2 * log(1 / d),
        "Dann & Brunskill 2015",
    ),
    ("reward-free", "small epsilon", "upper"): (lambda S, A, H, eps, d: S**2 * A * H**3 / eps**2, "RF-UCRL"),
    ("reward-free", "small epsilon", "lower"): (lambda S, A, H, eps, d: S**2 * A * H**2 / eps**2, "Jin et al. 2020"),
    ("best policy", "small epsilon", "upper"): (lambda S, A, H, eps, d: S * A * H**2 / eps**2, "UCB-VI"),
    ("best policy", "small epsilon", "lower"): (lambda S, A, H, eps, d: S * A * H**2 / eps**2, "Dann & Brunskill 2015"),
}


def rate(problem: str, regime: str, side: str, S: int, A: int, H: int, epsilon: float, delta: float) -> tuple[float, str]:
    """An entry of the paper's table of rates for stationary transitions, without constants and logarithms, and whose it is.

    `problem` is "reward-free" or "best policy", `regime` "small delta" or "small epsilon", `side` "upper" or "lower".
    """
    if (problem, regime, side) not in RATES:
        raise ValueError(f"there is no rate for {problem!r}, {regime!r}, {side!r}: see theory.RATES.")
    value, whose = RATES[problem, regime, side]
    return value(S, A, H, positive(epsilon, "epsilon"), probability(delta, "delta")), whose


def horizon_for_discount(gamma: float, epsilon: float) -> int:
    """H = log(1/(epsilon (1-gamma))) / (1-gamma), rounded up: what comes after H steps is worth at most epsilon.

    gamma^H / (1-gamma) <= e^(-(1-gamma) H) / (1-gamma) <= epsilon, rewards being in [0, 1]. So a policy that is epsilon-optimal
    over H steps, with discount gamma, and acts at random from then on (`forever`), is 2 epsilon-optimal over infinitely many.
    """
    if not 0.0 < real_number(gamma, "gamma") < 1.0:
        raise ValueError(f"gamma is {gamma}: it has to be strictly between 0 and 1.")
    return max(1, ceil(log(1 / (positive(epsilon, "epsilon") * (1 - gamma))) / (1 - gamma)))


def forever(policy: np.ndarray, n_actions: int, seed: int | np.random.Generator = 0) -> Callable[[int, int], int]:
    """A policy for infinitely many steps: that of the plan, (H, S), for its H steps and a random action from then on."""
    rng = np.random.default_rng(seed)
    return lambda h, s: int(policy[h, s]) if h < len(policy) else int(rng.integers(n_actions))

"""The paper's formulas as functions, so that a measured number of episodes can stand beside what is proved about it.

Kaufmann et al., *Adaptive Reward-Free Exploration*, ALT 2021. S states, A actions, H steps, gamma the discount, tau the number of
episodes until an algorithm stops. Bounds on tau hold with probability at least 1 - delta.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, e, log, sqrt

import numpy as np

from .certificates.thresholds import log_laws, paper_beta
from .setting import Setting, positive, probability, real_number, shown

RF_UCRL, BPI_UCRL = 144.0, 64.0  # the constants in front of (1 + sqrt(2))^2 in Theorem 1 and in Theorem 2


def sigma(k: int, discount: float = 1.0) -> float:
    """sigma_k = 1 + gamma + ... + gamma^(k-1)."""
    return float(sum(discount**i for i in range(k)))


def beta(n: float, setting: Setting, delta: float) -> float:
    """The threshold: log(2 S A H / delta) + (S-1) log(e (1 + n/(S-1))), with S A in place of S A H when stationary; n visits.

    A random start is one law more. S - 1 is one less than the outcomes that a transition can have (`Setting.n_outcomes`); if it
    is 0, so is the second term.
    """
    return float(paper_beta(n, setting, delta))


def inversion(a: float, b: float, c: float, d: float, gap: float) -> float:
    """The inversion lemma: if n >= 1 and n gap^2 <= a + b log(c + d n), for positive numbers, then n is at most this."""
    most = c + d / gap**4 * (a + b * (sqrt(c) + sqrt(d))) ** 2
    return (a + b * log(most)) / gap**2


def tau_bound(setting: Setting, epsilon: float, delta: float, algorithm: str = "rf-ucrl") -> float:
    """A bound on tau that is proved, also for random starts: `tau_implicit` made explicit by the inversion lemma.

    It is the paper's Theorem 1 (`"rf-ucrl"`), its Theorem 2 (`"bpi-ucrl"`) or, in a stationary setting, the bound of its
    appendix:

        by step      tau <= C beta(tau)       C = 144 (1 + sqrt(2))^2 S A sigma_H^4 / epsilon^2
        stationary   tau <= C beta(H tau)     C = 144 (1 + sqrt(2))^2 S A sigma_H^2 H / epsilon^2

    with 64 in place of 144 for BPI-UCRL. A random start is one law more in beta and changes nothing else. All this is about the
    clipped index with the paper's radii, brought up to date after every episode (`replan="every"`), and, for BPI-UCRL, about a
    reward that is known or always the same. `tau_printed` is what the paper prints, and says where that differs.

    Proof. The paper's own is about counts by step and a fixed start. Its stationary proof has two gaps: Lemma 19 of Jaksch et al.
    is not about pairs that an episode may visit more than once, and the visits of H steps together deviate by H times a
    logarithm, not by one. This proof mends both, and it covers random starts and rewards on arrival.

    Let M = 1 and b = log(2 S A H / delta) by step, M = H and b = log(2 S A / delta) when stationary. A pair has had n visits
    after t episodes, n' were to be expected of the policies that were played, and z are to be expected in the next episode. Let
    g(n) = min(1, sqrt(8 beta(n) / n)).

    1. On the event of `beta`, of probability 1 - delta/2, E_h <= sigma_{H-h+1} g(n) + gamma p.E_{h+1} along the greedy policy:
       the bonus is one radius, to replace p_hat by p costs another, both have a weight of at most sigma_{H-h+1}, and E_h is
       clipped there. The state s_0 in front of a random start has E_0 <= sigma_H g(t) + P_0.E_1. The same holds for V_up - V_lo
       in place of E: each of the two moves by at most sigma times the total variation between p and another law of the ball.
    2. So tau epsilon/2, or tau epsilon for BPI-UCRL, is at most the sum over t < tau of sigma_H g(t), if the start is random, and
       of z g(n), over all pairs: by step with weights gamma^(h-1) sigma_{H-h+1}, whose sum over h is at most sigma_H^2, and when
       stationary with weight sigma_H, the largest of them.
    3. With probability 1 - delta/2, n >= n'/2 - M b for all pairs and t: the mean of exp(-x) is at most exp(-p/2) if x in [0, 1]
       has mean p, so Ville's inequality bounds the sums of p/2 - x by b, where x is the visits of an episode divided by M.
    4. For one pair, z g(n) sums to at most 8 M b + M <= 8.73 M b while n' < 8 M b. From then on n >= 3 n'/8 and z <= n'/(8 b), so
       z / sqrt(n') is at most 1 + sqrt(1 + 1/(8 b)) times what sqrt(n') grows by, and z g(n) sums to at most 9.45 sqrt(beta n').
       (b >= log 4.) The n' of a step, or of all when stationary, sum to M tau, so by Cauchy-Schwarz the sum over pairs is at most
       8.73 S A M b + 9.45 sqrt(S A M beta tau). The sum of g(t) is at most 2 sqrt(8 beta tau).
    5. If tau > 0 then epsilon < 2 sigma_H, since no index exceeds sigma_H. So x = 12 (1 + sqrt(2)) sqrt(tau / (C beta)) satisfies
       x^2 <= 35 + (18.9 + 8) x, where 8 is for the start. Hence x <= 28.2 < 12 (1 + sqrt(2)), that is tau <= C beta. BPI-UCRL has
       epsilon where RF-UCRL has epsilon/2, so even 36 in place of 64 would do. (If S A = 1, then n = n' and x^2 <= 6 + 22.7 x.)

    So sigma_H^2 is the weight of a step, squared. By step there is another sigma_H^2, the square of how many steps there are,
    discounted; when stationary there is H instead, as the visits of the H steps count together.
    """
    C, m = _constant(setting, epsilon, algorithm), setting.n_outcomes - 1
    first = log_laws(setting, delta)
    return inversion(first, m, e, e * _visits(setting) / m, 1 / sqrt(C)) if m else C * first


def tau_printed(setting: Setting, epsilon: float, delta: float, algorithm: str = "rf-ucrl") -> float:
    """The bound as the paper prints it, which is not quite what is proved (`tau_bound`); needs S >= 2.

    Stationary, the paper's proof ends with sigma_H^2 H and its statement has H^3: more if there is a discount, the same if not.
    The print simplifies the inversion lemma's log(e + e X^2/(S-1)) to 1 + 2 log X, which is slightly too little for S = 2. It has
    the stationary bound for RF-UCRL and says that BPI-UCRL's follows in the same way; here that is 64 in place of 144. It has a
    fixed start, without loss of generality; here a random start is one law more, as in `beta`.
    """
    m, H = setting.n_outcomes - 1, _visits(setting)
    if m == 0:
        raise ValueError("n_states is 1: the printed bound divides by S - 1; use tau_bound.")
    C = _constant(setting, epsilon, algorithm, setting.horizon**3 if setting.stationary else None)
    first = log_laws(setting, delta)
    inner = C * sqrt(H) * (first + m * (sqrt(e) + sqrt(H * e / m)))
    return C * (first + 2 * m * log(inner) + m)


def tau_implicit(setting: Setting, epsilon: float, delta: float, algorithm: str = "rf-ucrl") -> float:
    """The largest tau with tau <= C beta(tau), or beta(H tau) when stationary: what `tau_bound` proves and then inverts."""
    C, tau = _constant(setting, epsilon, algorithm), tau_bound(setting, epsilon, delta, algorithm)
    for _ in range(200):  # C beta is increasing and concave, and positive at 0: it has one fixed point, and this goes there
        tau = C * beta(_visits(setting) * tau, setting, delta)
    return tau


def _constant(setting: Setting, epsilon: float, algorithm: str, power: float | None = None) -> float:
    """C of `tau_bound`, or with another power of H."""
    if algorithm not in ("rf-ucrl", "bpi-ucrl"):
        raise ValueError(f"algorithm is {shown(algorithm)}: there are bounds for 'rf-ucrl' and 'bpi-ucrl'.")
    top = float(setting.sigma[-1])
    if power is None:
        power = top**2 * setting.horizon if setting.stationary else top**4
    leading = (RF_UCRL if algorithm == "rf-ucrl" else BPI_UCRL) * (1 + sqrt(2)) ** 2
    return leading * power * setting.n_states * setting.n_actions / positive(epsilon, "epsilon") ** 2


def _visits(setting: Setting) -> int:
    """How often an episode can visit one law."""
    return setting.horizon if setting.stationary else 1


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
        raise ValueError(f"there is no rate for {shown(problem)}, {shown(regime)}, {shown(side)}: see theory.RATES.")
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

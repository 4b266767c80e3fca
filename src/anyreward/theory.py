"""The paper's formulas as functions: set a measured number of episodes beside what is proved about it.

The paper is Kaufmann et al., *Adaptive Reward-Free Exploration*, ALT 2021. S is the number of states, A of actions, H of steps,
gamma the discount, and tau the number of episodes after which an algorithm stops. For example,

    setting = Setting(n_states=31, n_actions=2, horizon=20, initial_state=15)
    tau_bound(setting, epsilon=2.0, delta=0.1)    # RF-UCRL stops after at most this many episodes

Every bound on tau holds with probability at least 1 - delta.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, e, inf, log, log2, sqrt

import numpy as np

from .certificates.thresholds import log_laws, paper_beta
from .setting import Setting, positive, probability, real_number, shown

RF_UCRL, BPI_UCRL = 144.0, 64.0  # the constants in front of (1 + sqrt(2))^2 in Theorem 1 and in Theorem 2


def sigma(k: int, discount: float = 1.0) -> float:
    """sigma_k = 1 + gamma + ... + gamma^(k-1): the largest possible value of k steps with rewards in [0, 1].

    Example:

        anyreward.theory.sigma(3, discount=0.5)         # 1.75
    """
    return float(sum(discount**i for i in range(k)))


def beta(n: float, setting: Setting, delta: float) -> float:
    """The paper's threshold beta(n, delta), which bounds n KL(p_hat_n, p) for every estimated distribution at once.

        beta(n, delta) = log(2 S A H / delta) + (S-1) log(e (1 + n/(S-1))),

    with S A in place of S A H if the setting is stationary. The event and its probability are stated in
    `certificates.thresholds`.

        anyreward.theory.beta(100, setting, delta=0.1)

    Parameters
    ----------
    n : float
        The number of visits.
    setting : Setting
        A random initial state adds one to the number of distributions in the first logarithm. S - 1 is one less than the number
        of outcomes of a transition (`Setting.n_outcomes`); if it is 0, so is the second term.
    delta : float
        The probability of a failure, in (0, 1).
    """
    return float(paper_beta(n, setting, delta))


def inversion(a: float, b: float, c: float, d: float, gap: float) -> float:
    """The paper's inversion lemma: an explicit bound on a number n that is bounded by its own logarithm.

        anyreward.theory.inversion(1.0, 2.0, 1.0, 1.0, 0.1)

    If n >= 1 and n gap^2 <= a + b log(c + d n), all numbers being positive, then n is at most the value that is returned.
    """
    most = c + d / gap**4 * (a + b * (sqrt(c) + sqrt(d))) ** 2
    return (a + b * log(most)) / gap**2


def tau_bound(setting: Setting, epsilon: float, delta: float, algorithm: str = "rf-ucrl") -> float:
    """A proved bound on the number of episodes tau after which RF-UCRL or BPI-UCRL stops.

        anyreward.theory.tau_bound(setting, epsilon=2.0, delta=0.1, algorithm="bpi-ucrl")

    Parameters
    ----------
    setting : Setting
        Step-dependent or stationary, with a fixed or a random initial state.
    epsilon, delta : float
        The epsilon and the delta that the algorithm is run with.
    algorithm : {"rf-ucrl", "bpi-ucrl"}, default "rf-ucrl"
        Theorem 1 or Theorem 2 of the paper or, in a stationary setting, the bound of its appendix.

    Returns
    -------
    float
        `tau_implicit` made explicit by the inversion lemma (`inversion`). It holds with probability at least 1 - delta.

    Notes
    -----
    The bound on tau is implicit, since tau also appears on its right side:

        by step      tau <= C beta(tau)       C = 144 (1 + sqrt(2))^2 S A sigma_H^4 / epsilon^2
        stationary   tau <= C beta(H tau)     C = 144 (1 + sqrt(2))^2 S A sigma_H^2 H / epsilon^2

    with 64 in place of 144 for BPI-UCRL. A random initial state adds one distribution to beta and changes nothing else.

    The bound is about the clipped index with the paper's radii, updated after every episode (`replan="every"`), and, for
    BPI-UCRL, about a reward that is known or deterministic. `tau_printed` is the bound as the paper prints it, and explains where
    it differs.

    The power of sigma_H has two parts. One factor sigma_H^2 is the weight of a step, squared. By step, the other sigma_H^2 is the
    squared number of steps, discounted; in a stationary setting it is H instead, because the visits of the H steps count
    together.

    **Proof.** The paper's own proof covers counts by step and a fixed initial state. Its stationary proof has two gaps: Lemma 19
    of Jaksch et al. does not cover pairs that one episode may visit more than once, and the visits of H steps together deviate by
    H times a logarithm, not by one logarithm. The proof below closes both gaps and also covers random initial states and rewards
    on arrival.

    Let M = 1 and b = log(2 S A H / delta) by step, M = H and b = log(2 S A / delta) if stationary. Consider a state-action pair
    after t episodes: n is its number of visits, n' the number of visits that was expected under the policies that were played,
    and z the number that is expected in the next episode. Let g(n) = min(1, sqrt(8 beta(n) / n)).

    1. On the event of `beta`, of probability 1 - delta/2, E_h <= sigma_{H-h+1} g(n) + gamma p.E_{h+1} along the greedy policy:
       the bonus is one radius, replacing p_hat by p costs another, both have a weight of at most sigma_{H-h+1}, and E_h is
       clipped there. The state s_0 that precedes a random initial state has E_0 <= sigma_H g(t) + P_0.E_1. The same holds for
       V_up - V_lo in place of E: each of the two changes by at most sigma times the total variation between p and another
       distribution in the ball.
    2. So tau epsilon/2, or tau epsilon for BPI-UCRL, is at most the sum over t < tau of sigma_H g(t), if the initial state is
       random, and of z g(n), over all pairs: by step with weights gamma^(h-1) sigma_{H-h+1}, whose sum over h is at most
       sigma_H^2, and if stationary with weight sigma_H, the largest of them.
    3. With probability 1 - delta/2, n >= n'/2 - M b for all pairs and t: the mean of exp(-x) is at most exp(-p/2) if x in [0, 1]
       has mean p, so Ville's inequality bounds the sums of p/2 - x by b, where x is the visits of an episode divided by M.
    4. For one pair, z g(n) sums to at most 8 M b + M <= 8.73 M b while n' < 8 M b. From then on n >= 3 n'/8 and z <= n'/(8 b), so
       z / sqrt(n') is at most 1 + sqrt(1 + 1/(8 b)) times the increase of sqrt(n'), and z g(n) sums to at most 9.45 sqrt(beta
       n'). (b >= log 4.) The n' of one step, or of all steps if stationary, sum to M tau, so by Cauchy-Schwarz the sum over pairs
       is at most 8.73 S A M b + 9.45 sqrt(S A M beta tau). The sum of g(t) is at most 2 sqrt(8 beta tau).
    5. If tau > 0 then epsilon < 2 sigma_H, since no index exceeds sigma_H. So x = 12 (1 + sqrt(2)) sqrt(tau / (C beta)) satisfies
       x^2 <= 35 + (18.9 + 8) x, where the 8 stems from the initial state. Hence x <= 28.2 < 12 (1 + sqrt(2)), that is tau <= C
       beta. BPI-UCRL has epsilon where RF-UCRL has epsilon/2, so even 36 in place of 64 would do. (If S A = 1, then n = n' and
       x^2 <= 6 + 22.7 x.)
    """
    C, m = _constant(setting, epsilon, algorithm), setting.n_outcomes - 1
    first = log_laws(setting, delta)
    return inversion(first, m, e, e * _visits(setting) / m, 1 / sqrt(C)) if m else C * first


def tau_printed(setting: Setting, epsilon: float, delta: float, algorithm: str = "rf-ucrl") -> float:
    """The bound on tau as the paper prints it. It differs slightly from what is proved; for a proved bound use `tau_bound`.

        anyreward.theory.tau_printed(setting, epsilon=2.0, delta=0.1)

    The arguments are those of `tau_bound`; the setting needs at least 2 states. The differences are:

    - Stationary: the paper's proof ends with sigma_H^2 H, its statement has H^3. The two agree without a discount; with a
      discount the statement is larger.
    - The printed bound simplifies log(e + e X^2/(S-1)) of the inversion lemma to 1 + 2 log X, which is slightly too small for S =
      2.
    - The paper prints the stationary bound for RF-UCRL only and says that the one for BPI-UCRL follows in the same way. Here it
      has 64 in place of 144.
    - The paper assumes a fixed initial state without loss of generality. Here a random one adds one distribution, as in `beta`.
    """
    m, H = setting.n_outcomes - 1, _visits(setting)
    if m == 0:
        raise ValueError("n_states is 1: the printed bound divides by S - 1; use tau_bound.")
    C = _constant(setting, epsilon, algorithm, setting.horizon**3 if setting.stationary else None)
    first = log_laws(setting, delta)
    inner = C * sqrt(H) * (first + m * (sqrt(e) + sqrt(H * e / m)))
    return C * (first + 2 * m * log(inner) + m)


def tau_implicit(setting: Setting, epsilon: float, delta: float, algorithm: str = "rf-ucrl") -> float:
    """The largest tau with tau <= C beta(tau), or C beta(H tau) if stationary: `tau_bound` before the inversion lemma.

        anyreward.theory.tau_implicit(setting, epsilon=2.0, delta=0.1)

    It is never larger than `tau_bound`, is computed by fixed-point iteration, and takes the same arguments.
    """
    C, tau = _constant(setting, epsilon, algorithm), tau_bound(setting, epsilon, delta, algorithm)
    for _ in range(200):  # C beta is increasing, concave and positive at 0, so the iteration converges to its only fixed point
        tau = C * beta(_visits(setting) * tau, setting, delta)
    return tau


def _constant(setting: Setting, epsilon: float, algorithm: str, power: float | None = None) -> float:
    """The constant C of `tau_bound`, or C with `power` in place of its powers of sigma_H and H."""
    if algorithm not in ("rf-ucrl", "bpi-ucrl"):
        raise ValueError(f"algorithm is {shown(algorithm)}: there are bounds for 'rf-ucrl' and 'bpi-ucrl'.")
    top = float(setting.sigma[-1])
    if power is None:
        power = top**2 * setting.horizon if setting.stationary else top**4
    leading = (RF_UCRL if algorithm == "rf-ucrl" else BPI_UCRL) * (1 + sqrt(2)) ** 2
    return leading * power * setting.n_states * setting.n_actions / positive(epsilon, "epsilon") ** 2


def _visits(setting: Setting) -> int:
    """How often one episode can visit the same estimated distribution: H if the steps are pooled, otherwise once."""
    return setting.horizon if setting.stationary else 1


# The paper's table of rates, see `rate`: (problem, regime, side) -> (formula, whose result it is).
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
for _problem in ("reward-free", "best policy"):  # who can do every reward can do one
    RATES[_problem, "small delta, by step", "lower"] = (
        lambda S, A, H, eps, d: S * A * H**3 / eps**2 * log(1 / d),
        "Domingues et al. 2021",
    )


def rate(problem: str, regime: str, side: str, S: int, A: int, H: int, epsilon: float, delta: float) -> tuple[float, str]:
    """An entry of the paper's table of known rates for stationary transitions, without constants and logarithmic factors.

        anyreward.theory.rate("reward-free", "small delta", "upper", S=31, A=2, H=20, epsilon=2.0, delta=0.1)

    Beside the table stands one that is newer: the lower bound for transitions that depend on the step, with one factor H more.

    Parameters
    ----------
    problem : {"reward-free", "best policy"}
    regime : {"small delta", "small epsilon", "small delta, by step"}
        The last one has lower bounds alone.
    side : {"upper", "lower"}
        An upper bound on the number of episodes that an algorithm achieves, or a lower bound for all algorithms.
    S, A, H : int
    epsilon, delta : float

    Returns
    -------
    value : float
        The rate, as a number of episodes up to constants and logarithms.
    whose : str
        The algorithm or the publication that it is due to.
    """
    if (problem, regime, side) not in RATES:
        raise ValueError(f"there is no rate for {shown(problem)}, {shown(regime)}, {shown(side)}: see theory.RATES.")
    value, whose = RATES[problem, regime, side]
    return value(S, A, H, positive(epsilon, "epsilon"), probability(delta, "delta")), whose


def horizon_for_discount(gamma: float, epsilon: float) -> int:
    """A horizon that suffices for an infinite-horizon discounted problem: what comes after it is worth at most epsilon.

        H = log(1/(epsilon (1-gamma))) / (1-gamma), rounded up, and at least 1.

    With rewards in [0, 1], gamma^H / (1-gamma) <= e^(-(1-gamma) H) / (1-gamma) <= epsilon. So a policy that is epsilon-optimal
    over H steps with discount gamma, and acts at random afterwards (`forever`), is 2 epsilon-optimal over infinitely many steps.

        anyreward.horizon_for_discount(0.9, epsilon=0.1)        # 47
    """
    if not 0.0 < real_number(gamma, "gamma") < 1.0:
        raise ValueError(f"gamma is {gamma}: it has to be strictly between 0 and 1.")
    return max(1, ceil(log(1 / (positive(epsilon, "epsilon") * (1 - gamma))) / (1 - gamma)))


def horizon_for_goal(tau: float, epsilon: float) -> int:
    """A horizon after which next to nothing is still to pay in a stochastic shortest path problem (`TabularMDP.with_goal`).

        anyreward.theory.horizon_for_goal(tau=37.344, epsilon=0.1)      # 822

    It is H = 2 tau ceil(log2(4 tau / epsilon)), rounded up. Let T be the number of steps to the goal under a policy with E[T] <=
    tau from every state, and n the largest whole number below 2 tau. By Markov's inequality, P(T > n) <= tau / (n + 1) <= 1/2
    from every state, so P(T > j n) <= 2^-j. Take j = ceil(log2(4 tau / epsilon)). As H >= 2 tau j > j n, P(T >= H) <= epsilon /
    (4 tau), and E[(T - H)^+] <= tau P(T > H) <= epsilon/4.
    """
    if not 1.0 <= real_number(tau, "tau") < inf:
        raise ValueError(f"tau is {tau}: a number of steps to a goal is at least 1, and finite.")
    return ceil(2 * tau * max(1, ceil(log2(4 * tau / positive(epsilon, "epsilon")))))


def forever(policy: np.ndarray, n_actions: int, seed: int | np.random.Generator = 0) -> Callable[[int, int], int]:
    """A policy for infinitely many steps: it follows a plan for H steps and then takes uniformly random actions.

        choose = anyreward.theory.forever(plan.policy, n_actions=2)
        action = choose(25, 15)                         # at step 25, after the plan has ended, in state 15: a random one

    Parameters
    ----------
    policy : ndarray, (H, S)
        The plan, `Plan.policy`.
    n_actions : int
    seed : int or numpy.random.Generator, default 0
        For the random actions.

    Returns
    -------
    callable
        A function (step, state) -> action.
    """
    rng = np.random.default_rng(seed)
    return lambda h, s: int(policy[h, s]) if h < len(policy) else int(rng.integers(n_actions))

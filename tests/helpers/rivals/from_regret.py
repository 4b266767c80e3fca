"""From regret to a policy: how many runs, evaluations and episodes."""

import math
from collections.abc import Callable
from typing import NamedTuple

from .common import sigma


class Instances(NamedTuple):
    runs: int  # M
    episodes: int  # N, to evaluate each of the M policies
    epsilon_run: float  # eps0: each run fails it with probability at most 1/2
    epsilon_evaluate: float  # eps'
    delta_evaluate: float  # delta'


def regret_to_bpi(
    epsilon: float, delta: float, H: int, gamma: float = 1.0, share: float = 0.5, form: str = "corrected"
) -> Instances:
    """M runs, N fresh episodes for each policy, the best average wins. Kaufmann et al. 2021, Appendix "Conversion of UCB-VI".

        M = ceil(log2(2/delta)), delta' = delta/2, eps0 = share epsilon, eps' = (epsilon - eps0)/2
        N = ceil(sigma(H)^2 / (2 eps'^2) log(k / delta')),  k = M published, M+1 corrected
        form = "paired": N = ceil(sigma(H)^2 / (4 eps'^2) log((M-1) / delta')), at least 1
    so that delta' + 2^-M <= delta and eps0 + 2 eps' <= epsilon.
    The published lemma is two-sided and would need k = 2M. The proposition needs less: given the policies, let m~ be the best.
    If it wins, there is no evaluation error. If another m wins, V_m~ - V^_m~ <= eps' and V^_m - V_m <= eps' suffice: one event
    for m~ and one for each other m, k = M. So the published N is enough, and k = M+1 is enough too.
    Paired: V^_m - V^_m~ is a mean of 2N independent terms, and a policy worse by more than 2 eps' beats m~ with probability at
    most exp(-4 N eps'^2 / sigma^2): half the episodes.
    """
    M = math.ceil(math.log2(2 / delta))
    eps0, delta_evaluate = share * epsilon, delta / 2
    eps = (epsilon - eps0) / 2
    if form == "paired":
        N = sigma(H, gamma) ** 2 / (4 * eps**2) * math.log(max(1, M - 1) / delta_evaluate)
    else:
        N = sigma(H, gamma) ** 2 / (2 * eps**2) * math.log((M if form == "published" else M + 1) / delta_evaluate)
    return Instances(M, max(1, math.ceil(N)), eps0, eps, delta_evaluate)


def ucbvi_regret(K: int, S: int, A: int, H: int, delta: float, bonus: str = "hoeffding") -> float:
    """Azar et al. 2017, Theorems 1 and 2 as printed, with probability 1 - delta, stationary: L = log(5 H S A T / delta), T = KH.

    CH: 20 H^1.5 L sqrt(SAK) + 250 H^2 S^2 A L^2.   BF: 30 H L sqrt(SAK) + 2500 H^2 S^2 A L^2 + 4 H^1.5 sqrt(KL).
    """
    L = math.log(5 * H * S * A * K * H / delta)
    if bonus == "hoeffding":
        return 20 * H**1.5 * L * math.sqrt(S * A * K) + 250 * H**2 * S**2 * A * L**2
    return 30 * H * L * math.sqrt(S * A * K) + 2500 * H**2 * S**2 * A * L**2 + 4 * H**1.5 * math.sqrt(K * L)


def markov_episodes(regret: Callable[[int], float], epsilon: float, delta: float) -> int:
    """The fewest K with regret(K) / (K epsilon) <= delta; regret(K)/K must decrease. Jin et al. 2018, section 3.1.

    A policy drawn uniformly among the K played has expected gap E regret(K) / K; Markov's inequality does the rest. A regret
    bound that holds with probability 1 - delta_r only must be asked for delta - delta_r.
    """
    low, high = 0, 1
    while regret(high) > high * epsilon * delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if regret(middle) <= middle * epsilon * delta else (middle, high)
    return high

"""The error of a generative model, and the fewest draws for a given error."""

import math

from .common import beta, sigma


def generative_error(
    draws: int, S: int, A: int, H: int, delta: float, gamma: float = 1.0, stationary: bool = False, clip: bool = True
) -> float:
    """RF-UCRL's E_0 when every pair has n draws; p_hat does not matter, as E_h is the same in all states.

    E_h = min{ w, w sqrt(2 beta(n)/n) + gamma E_{h+1} }, w = gamma sigma(H-1-h). Without the clip it is the sum
    sum_h gamma^(h+1) sigma(H-1-h) sqrt(2 beta(n)/n).
    """
    if draws == 0:
        return gamma * sigma(H - 1, gamma) if clip or H == 1 else math.inf
    radius = math.sqrt(2 * beta(draws, S, S * A if stationary else S * A * H, delta) / draws)
    E = 0.0
    for h in reversed(range(H)):
        w = gamma * sigma(H - 1 - h, gamma)
        E = min(w, w * radius + gamma * E) if clip else w * radius + gamma * E
    return E


def generative_draws(
    S: int, A: int, H: int, epsilon: float, delta: float, gamma: float = 1.0, stationary: bool = False, clip: bool = True
) -> int:
    """The fewest draws n per (h, s, a) — per (s, a) when stationary — with E_0 <= epsilon/2: all rewards, epsilon-optimal.

    beta(n)/n decreases, so E_0 does, and bisection finds it. In all SA(H-1) n draws (the last step is not needed), or SA n.
    """

    def enough(draws: int) -> bool:
        return generative_error(draws, S, A, H, delta, gamma, stationary, clip) <= epsilon / 2

    if enough(0):
        return 0
    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high

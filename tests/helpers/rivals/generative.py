"""The error of plans from a generative model, and the fewest draws for a given error."""

import math

from .common import sigma


def generative_error(
    draws: int, S: int, A: int, H: int, delta: float, gamma: float = 1.0, stationary: bool = False, rewards: int | None = None
) -> float:
    """What a plan can lose when every pair has n draws, for every reward (None) or for so many of them.

    Step by step, from the last: E_h = w b + gamma E_{h+1}, w = gamma sigma(H-1-h), twice: once for V*, once for the plan.
    Every reward: b = half of the L1 radius of Weissman et al., 2^S exp(-n x^2 / 2) = delta / laws. M rewards: Hoeffding's
    inequality for a function with values in [0, 1], exp(-2 n b^2) = delta / (2 laws M).
    """
    laws = S * A if stationary else S * A * (H - 1)
    if rewards is None:
        b = math.sqrt(2 / draws * math.log(2**S * laws / delta)) / 2
    else:
        b = math.sqrt(math.log(2 * laws * rewards / delta) / (2 * draws))
    E = 0.0
    for h in reversed(range(H)):
        E = gamma * sigma(H - 1 - h, gamma) * b + gamma * E
    return 2 * E

"""Optimistic Q-learning in plain loops."""

import math
from collections.abc import Iterable

import numpy as np


def opt_qlearning(
    episodes: Iterable[tuple[np.ndarray, np.ndarray]],
    r: np.ndarray,
    H: int,
    S: int,
    A: int,
    T: int,
    delta: float,
    sharp: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Jin, Allen-Zhu, Bubeck, Jordan 2018, Algorithm 1, replayed over (states (H+1,), actions (H,)) in their order.

        at (h, s, a, x), t-th visit:  Q_h(s,a) <- (1 - alpha) Q_h(s,a) + alpha (r + V_{h+1}(x) + b_t),  alpha = (H+1)/(H+t)
                                      V_h(s) <- min{ H, max_a Q_h(s,a) };   Q = V = H before any visit, V[H] = 0
        b_t = sqrt(H^3 iota / t), iota = log(2 S A T / delta);  sharp: b_t = (H-1-h) sqrt(H iota / t), V_h <= H-h.
    gamma = 1; T = KH is fixed beforehand; counts are by step always; h goes forward, so V_{h+1} is of the episode before.

    Q >= Q* with probability 1 - delta: alpha_1 = 1 forgets the start, Q_h - Q*_h = sum_i alpha_t^i [(V_{h+1} - V*_{h+1})(x_i)
    + V*_{h+1}(x_i) - p V*_{h+1} + b_i]; Azuma-Hoeffding with range H-1-h and sum_i (alpha_t^i)^2 <= 2H/t bounds the noise
    by (H-1-h) sqrt(H log(1/prob) / t), and sum_i alpha_t^i / sqrt(i) >= 1 / sqrt(t). One-sided, SAH pairs times K counts =
    SAT events: log(SAT/delta) is enough, c = 1 is enough, and the sharp bonus is.
    """
    iota = math.log(2 * S * A * T / delta)
    Q, V, N = np.zeros((H, S, A)), np.zeros((H + 1, S)), np.zeros((H, S, A), int)
    for h in range(H):
        Q[h], V[h] = (H - h, H - h) if sharp else (H, H)
    for states, actions in episodes:
        for h in range(H):
            s, a, x = states[h], actions[h], states[h + 1]
            N[h, s, a] += 1
            t = int(N[h, s, a])
            alpha = (H + 1) / (H + t)
            b = (H - 1 - h) * math.sqrt(H * iota / t) if sharp else math.sqrt(H**3 * iota / t)
            Q[h, s, a] = (1 - alpha) * Q[h, s, a] + alpha * (r[h, s, a] + V[h + 1, x] + b)
            V[h, s] = min(H - h if sharp else H, Q[h, s].max())
    return Q, V

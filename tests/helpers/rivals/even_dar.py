"""Action elimination of Even-Dar, Mannor and Mansour in plain loops."""

import math
from typing import NamedTuple

import numpy as np

from .common import by_step, p_hat, sigma


class Elimination(NamedTuple):
    Q_up: np.ndarray  # (H, S, A)
    V_up: np.ndarray  # (H+1, S)
    Q_lo: np.ndarray
    V_lo: np.ndarray
    alive: np.ndarray  # (H, S, A) booleans: not eliminated


def even_dar(n: np.ndarray, r: np.ndarray, delta: float, gamma: float = 1.0) -> Elimination:
    """Model-based action elimination (Even-Dar, Mannor, Mansour 2006, section 4), on a finite horizon with known rewards.

        e_h(n) = gamma sigma(H-1-h) sqrt(log(pi^2 SA(H-1) n^2 / (3 delta)) / (2n))
        Q_up = min{ r + gamma sigma(H-1-h), r + gamma p_hat V_up + e },   V_up = max_a Q_up      (n = 0: the first)
        Q_lo = max{ r,                      r + gamma p_hat V_lo - e },   V_lo = max_a Q_lo      (n = 0: the first)
        a is eliminated in (h, s) when Q_up(a) < V_lo.
    Proof. For one (h, s, a) the successors in order of visit are i.i.d. p, and V*_{h+1} is one fixed function with values in
    [0, sigma(H-1-h)]; two-sided Hoeffding fails at n with probability at most 2 exp(-2n e^2 / (gamma sigma)^2)
    = 6 delta / (pi^2 SA(H-1) n^2), and sum_n n^-2 = pi^2/6. So with probability 1 - delta
    gamma |(p_hat - p) V*_{h+1}| <= e for all n and the SA(H-1) triples h < H-1 (at the last step V* = 0 and e = 0). Then, by
    induction, V_lo <= V* <= V_up at h+1 gives r + gamma p_hat V_up + e >= r + gamma p_hat V* + e >= Q*, p_hat being monotone
    (no concentration of the random V_up is needed), and the same below; the clips hold as 0 <= V* <= sigma. Pooled counts:
    n and p_hat are pooled, but H-1 functions V*_{h+1} share the tape of (s, a), so the union stays SA(H-1), not SA.
    The best action is never eliminated: Q_up(a*) >= V* >= V_lo.
    """
    H, S, A = r.shape
    Q_up, Q_lo, n = np.zeros((H, S, A)), np.zeros((H, S, A)), by_step(n, H)
    V_up, V_lo = np.zeros((H + 1, S)), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        span = gamma * sigma(H - 1 - h, gamma)
        for s in range(S):
            for a in range(A):
                m, p = int(n[h, s, a].sum()), p_hat(n[h, s, a])
                Q_up[h, s, a], Q_lo[h, s, a] = r[h, s, a] + span, r[h, s, a]
                if m and h < H - 1:
                    e = span * math.sqrt(math.log(math.pi**2 * S * A * (H - 1) * m**2 / (3 * delta)) / (2 * m))
                    Q_up[h, s, a] = min(Q_up[h, s, a], r[h, s, a] + gamma * (p @ V_up[h + 1]) + e)
                    Q_lo[h, s, a] = max(Q_lo[h, s, a], r[h, s, a] + gamma * (p @ V_lo[h + 1]) - e)
        V_up[h], V_lo[h] = Q_up[h].max(axis=1), Q_lo[h].max(axis=1)
    return Elimination(Q_up, V_up, Q_lo, V_lo, Q_up >= V_lo[:H, :, None])


def even_dar_stops(index: Elimination, epsilon: float, gamma: float = 1.0, start: int | None = None) -> bool:
    """Q_up - Q_lo <= epsilon / sigma(H) for all (h, s) and all actions left; of step 0 only the start, if it is given.

    The greedy policy pi of Q_lo is then epsilon-optimal: with a* the best action, which is left, Q*(a*) <= Q_up(a*)
    <= Q_lo(a*) + epsilon/sigma(H) <= Q_lo(pi) + epsilon/sigma(H) <= Q*(pi) + epsilon/sigma(H), and V* - V^pi =
    E^pi sum_h gamma^h (V*_h(s_h) - Q*_h(s_h, pi)). The published epsilon (1-gamma) / 2 is half of epsilon / sigma(infinity).
    Every (h, s) must be known, reached or not: one that cannot be reached keeps it from stopping for ever.
    V_up - V_lo <= epsilon at the start alone is no substitute: it pins V*(s1), but not the value of any policy, as only V* is
    concentrated and (p_hat - p) V_lo is not (in BPI-UCRL the law itself lies in the ball, so there it is).
    """
    H = len(index.Q_up)
    width = np.where(index.alive, index.Q_up - index.Q_lo, 0.0)
    if start is not None:
        width[0] = width[0, start]
    return bool(width.max() <= epsilon / sigma(H, gamma))

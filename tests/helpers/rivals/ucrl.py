"""UCRL2 and KL-UCRL in plain loops."""

import math
from collections.abc import Callable

import numpy as np

from .common import by_step, p_hat


def l1_largest(q: np.ndarray, f: np.ndarray, d: float) -> float:
    """max p.f over the laws p with ||p - q||_1 <= d: d/2 more on the best state, taken from the worst ones."""
    p, order = q.astype(float).copy(), np.argsort(f)
    p[order[-1]] = min(1.0, q[order[-1]] + d / 2)
    for x in order:  # from the worst: take what is above one in all
        p[x] -= min(p[x], max(0.0, p.sum() - 1)) if x != order[-1] else 0.0
    return float(p @ f)


def ucrl2_radius(visits: int, S: int, A: int, t: int, delta: float) -> float:
    """sqrt(14 S log(2 A t / delta) / max(1, n)). Jaksch, Ortner, Auer 2010, equation (4). The first transition is at t = 1."""
    return math.sqrt(14 * S * math.log(2 * A * t / delta) / max(1, visits))


def ucrl2(
    n: np.ndarray, r: np.ndarray, delta: float, gamma: float = 1.0, t: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """UCRL2's L1 balls with backward induction: Q_up, V_up, Q_lo, V_lo. t - 1 transitions were seen, the sum of n if t is None.

        Q_up = r + gamma max_{||p - p_hat||_1 <= d(n)} p.V_up,  Q_lo with min and V_lo;  V = max_a Q
    Weissman et al. 2003: P(||p_hat - p||_1 >= x) <= 2^S exp(-n x^2 / 2) at one n, so a ball misses with probability at
    most x^S, x = 2 (2At/delta)^-7 <= 1/64. By step there are SAH laws, SAH + 1 with a random start, which is at most SAt as
    t > H after one episode, and fewer than t counts. S x^S <= 2 x^2 for S >= 2: at most 2 A t^2 x^2 at time t, which sums
    over t to less than delta/1000. So the radius serves as it is, with S the number of successors, not S H. S = 1: nothing
    to miss. n = 0: d > 2, the whole simplex.
    On that event Q_lo <= Q* <= Q_up, and the greedy policy of Q_lo is worth at least V_lo, for all rewards at once.
    """
    S, A = n.shape[-3:-1]
    now = int(n.sum()) + 1 if t is None else t

    def largest(row: np.ndarray, f: np.ndarray) -> float:
        return l1_largest(p_hat(row), f, ucrl2_radius(int(row.sum()), S, A, now, delta))

    return optimistic(n, r, gamma, largest)


def kl_ucrl_constant(laws: int, S: int, T: int, delta: float) -> float:
    """C_P = S (B + log(b) (1 + 1/b)), b = B + 1/log T, B = log(2 e S laws log T / delta). Filippi, Cappé, Garivier 2010.

    Published with laws = SA (stationary); by step laws = SAH. T >= 2 bounds the count of any pair.
    Why: n KL(p_hat, p) <= sum_i n kl(p_hat_i, p_i) (the terms 1-p_i add a KL, hence >= 0), and for one Bernoulli
    P(exists n <= T: n kl > y) <= 2 e ceil(y log T) exp(-y) (Garivier, Cappé 2011). So n KL > S y has at most
    2 e S (y log T + 1) exp(-y), which is delta/laws if u - log u = b for u = y + 1/log T. C_P/S = y with
    u = b + log(b) (1 + 1/b) solves u - log u >= b as soon as b >= 6.1 (not below: the test has the numbers).
    """
    B = math.log(2 * math.e * S * laws * math.log(T) / delta)
    b = B + 1 / math.log(T)
    return S * (B + math.log(b) * (1 + 1 / b))


def kl_largest(q: np.ndarray, f: np.ndarray, c: float) -> float:
    """max p.f over all laws p with KL(q, p) <= c, by its dual f* - max_{u >= 0} F(u), f* = max f.

    F(u) = exp(sum_{q>0} q log(u + f* - f) - c) - u is concave; golden section in log u, and u = 0. Every u is safe.
    """
    seen = q > 0
    q, g = q[seen], f.max() - f[seen]
    mean = float(q @ g)
    if mean == 0 or not math.isfinite(c):
        return float(f.max())
    if c == 0:
        return float(f.max() - mean)

    def gap(log_u: float) -> float:
        u = math.exp(log_u)
        return u * math.expm1(float(q @ np.log1p(g / u)) - c)

    high = math.log(mean) - (c + math.log(-math.expm1(-c)))  # the maximiser is at most mean / (e^c - 1)
    low, step = high - 40, (math.sqrt(5) - 1) / 2
    for _ in range(120):
        left, right = high - step * (high - low), low + step * (high - low)
        low, high = (left, high) if gap(left) < gap(right) else (low, right)
    at_zero = math.exp(float(q @ np.log(g)) - c) if g.min() > 0 else 0.0
    return float(f.max() - min(mean, max(0.0, at_zero, gap(low), gap(high))))


def kl_ucrl(
    n: np.ndarray, r: np.ndarray, delta: float, T: int, gamma: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """KL-UCRL's balls KL(p_hat, p) <= C_P / n with backward induction: Q_up, V_up, Q_lo, V_lo. T transitions at most.

    On the event of `kl_ucrl_constant` (probability 1 - delta) they bound Q* for all rewards at once. n = 0: any law.
    """
    S, A = n.shape[-3:-1]
    laws = S * A * (r.shape[0] if n.ndim == 4 else 1)

    def largest(row: np.ndarray, f: np.ndarray) -> float:
        return kl_largest(p_hat(row), f, kl_ucrl_constant(laws, S, T, delta) / row.sum()) if row.sum() else float(f.max())

    return optimistic(n, r, gamma, largest)


def optimistic(
    n: np.ndarray, r: np.ndarray, gamma: float, largest: Callable[[np.ndarray, np.ndarray], float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Q_up = r + gamma largest(counts, V_up), Q_lo = r - gamma largest(counts, -V_lo), V = max_a Q."""
    H, S, A = r.shape
    Q_up, Q_lo, n = np.zeros((H, S, A)), np.zeros((H, S, A)), by_step(n, H)
    V_up, V_lo = np.zeros((H + 1, S)), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s in range(S):
            for a in range(A):
                Q_up[h, s, a] = r[h, s, a] + gamma * largest(n[h, s, a], V_up[h + 1])
                Q_lo[h, s, a] = r[h, s, a] - gamma * largest(n[h, s, a], -V_lo[h + 1])
        V_up[h], V_lo[h] = Q_up[h].max(axis=1), Q_lo[h].max(axis=1)
    return Q_up, V_up, Q_lo, V_lo

"""BPI-UCBVI in plain loops."""

import math
from typing import NamedTuple

import numpy as np

from .common import by_step, p_hat, variance
from .rf_express import beta_express


def beta_star(visits: float, S: int, A: int, H: int, delta: float) -> float:
    """log(3SAH/delta) + log(8 e (n+1)): for one function, V*."""
    return math.log(3 * S * A * H / delta) + math.log(8 * math.e * (visits + 1))


class BestPolicy(NamedTuple):
    Q_up: np.ndarray  # (H, S, A)
    V_up: np.ndarray  # (H+1, S)
    Q_lo: np.ndarray
    V_lo: np.ndarray
    G: np.ndarray  # (H, S, A)
    policy: np.ndarray  # (H, S): argmax Q_up, played and recommended; stop at G[0, s1, policy] <= epsilon


def bpi_ucbvi(n: np.ndarray, r: np.ndarray, delta: float) -> BestPolicy:
    """Ménard et al. 2021, BPI-UCBVI; gamma = 1.

        b    = 3 sqrt(Var_{p_hat}(V_up) beta*(n) / n) + 14 H^2 beta(n)/n + p_hat (V_up - V_lo) / H
        Q_up = min{ H, r + b + p_hat V_up },   Q_lo = max{ 0, r - b + p_hat V_lo },   V = max_a Q          (n = 0: H and 0)
        G    = min{ H, 6 sqrt(Var_{p_hat}(V_up) beta*/n) + 36 H^2 beta/n + (1 + 3/H) p_hat G_{h+1}(., pi) },  pi = argmax Q_up

    On the events n KL(p_hat, p) <= beta (proved) and, for the one function V*, |(p_hat - p) V*| <= sqrt(2 Var_p(V*) beta*/n)
    + 3 H beta*/n for all n (a time-uniform Bernstein inequality, Domingues et al. 2021, taken on trust), everything follows
    with c = beta/n: Var_p(V*) <= 2 Var_{p_hat}(V*) + 4 H^2 c, Var_{p_hat}(V*) <= 2 Var_{p_hat}(V_up) + 2 H p_hat (V_up - V_lo),
    so |(p_hat - p) V*| <= sqrt(8 Var_{p_hat}(V_up) beta*/n) + (3 + 2.83 + 2) H^2 c + p_hat (V_up - V_lo) / H <= b: 14 is
    more than 7.83, 3 more than sqrt(8). And V_up - V_lo <= G, V_up - V^pi <= G, where (p - p_hat) f <= p_hat f / H + 2.5 H^2 c
    for f = V* - V^pi: 14 + 7.83 + 2.5 <= 36.
    """
    H, S, A = r.shape
    n = by_step(n, H)
    Q_up, Q_lo, G = np.zeros((H, S, A)), np.zeros((H, S, A)), np.zeros((H, S, A))
    V_up, V_lo, G_pi = np.zeros((H + 1, S)), np.zeros((H + 1, S)), np.zeros((H + 1, S))
    policy = np.zeros((H, S), int)
    for h in reversed(range(H)):
        for s in range(S):
            for a in range(A):
                m, p = int(n[h, s, a].sum()), p_hat(n[h, s, a])
                Q_up[h, s, a], Q_lo[h, s, a], G[h, s, a] = H, 0.0, H
                if m == 0:
                    continue
                root = math.sqrt(variance(p, V_up[h + 1]) * beta_star(m, S, A, H, delta) / m)
                c = beta_express(m, S, A, H, delta) / m
                b = 3 * root + 14 * H**2 * c + p @ (V_up[h + 1] - V_lo[h + 1]) / H
                Q_up[h, s, a] = min(H, r[h, s, a] + b + p @ V_up[h + 1])
                Q_lo[h, s, a] = max(0.0, r[h, s, a] - b + p @ V_lo[h + 1])
                G[h, s, a] = min(H, 6 * root + 36 * H**2 * c + (1 + 3 / H) * (p @ G_pi[h + 1]))
            policy[h, s] = Q_up[h, s].argmax()
            V_up[h, s], V_lo[h, s] = Q_up[h, s].max(), Q_lo[h, s].max()
            G_pi[h, s] = G[h, s, policy[h, s]]
    return BestPolicy(Q_up, V_up, Q_lo, V_lo, G, policy)

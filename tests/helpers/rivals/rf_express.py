"""RF-Express in plain loops."""

import math

import numpy as np

from .common import by_step, horizon_of, p_hat


def beta_express(visits: float, S: int, A: int, H: int, delta: float) -> float:
    """log(3SAH/delta) + S log(8 e (n+1)). Ménard et al. 2021. Above `beta` with delta/3 for delta/2."""
    return math.log(3 * S * A * H / delta) + S * math.log(8 * math.e * (visits + 1))


def rf_express(n: np.ndarray, delta: float, horizon: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Ménard et al. 2021, Algorithm 1: W_h(s,a) = min{ H, 15 H^2 beta(n)/n + (1 + 1/H) p_hat max_b W_{h+1} }, H if n = 0.

    gamma = 1. The last step has its bonus too, as published. See `rf_express_error` for what W certifies.
    """
    H = horizon_of(n, horizon)
    S, A = n.shape[-3:-1]
    W, V, n = np.zeros((H, S, A)), np.zeros((H + 1, S)), by_step(n, H)
    for h in reversed(range(H)):
        for s in range(S):
            for a in range(A):
                m = int(n[h, s, a].sum())
                W[h, s, a] = H
                if m:
                    ahead = (1 + 1 / H) * (p_hat(n[h, s, a]) @ V[h + 1])
                    W[h, s, a] = min(H, 15 * H**2 * beta_express(m, S, A, H, delta) / m + ahead)
        V[h] = W[h].max(axis=1)
    return W, V


def rf_express_error(V: np.ndarray, start: int) -> float:
    """3 e sqrt(W_1) + W_1 with W_1 = max_a W_0(s1, a): at most epsilon/2 to stop.

    It bounds |V_hat^pi - V^pi| for all pi and rewards when n KL(p_hat, p) <= beta(n) (probability 1 - delta/3). Proof without
    the paper: let U be the pairs with W = H and T the first step in U; W_1 >= E_hat^pi[sum_{h<T} 15 H^2 beta/n + H 1{T}];
    `docs/theory.md`, 5.1, gives the error <= sum_{h>=1} sqrt(E_hat sum_{l<h, l<T} beta/n / 2) + E_hat[H 1{T}]
    <= H sqrt(W_1 / (30 H^2)) + W_1 = sqrt(W_1 / 30) + W_1. The same for pooled counts.
    """
    W_1 = float(V[0, start])
    return 3 * math.e * math.sqrt(W_1) + W_1

"""EULER in plain loops."""

import math

import numpy as np

from .common import by_step, p_hat, variance


def euler(
    n: np.ndarray,
    r: np.ndarray,
    delta: float,
    T: int,
    reward_bonus: bool = False,
    repaired: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Zanette, Brunskill 2019, Algorithm 1 with Bernstein's inequality: Q_up, V_up, Q_lo, V_lo. gamma = 1, T fixed beforehand.

        L = log(4 S A T / delta'), delta' = delta/7;   J = H L / 3,  B_v = sqrt(2L),  B_p = H sqrt(2L)
        phi(V) = sqrt(2 Var_{p_hat}(V) L / n) + H L / (3 (n-1))
        b(V)   = phi(V) + ((4J + B_p) / sqrt(n) + B_v ||V_up - V_lo||_{2,p_hat}) / sqrt(n)   with V_up, V_lo of step h+1
        Q_up = min{ H-h, r + b_r + p_hat V_up + b(V_up) },  pi = argmax_a Q_up,  V_up = max_a Q_up
        Q_lo = max{ 0, r - b_r + p_hat V_lo - b(V_lo) },    V_lo = Q_lo at pi
        b_r = 7 L / (3 (n-1)) for a reward whose variance is seen to be 0; b_r = 0 as r is known, unless `reward_bonus`.
    n = 0: Q_up = H-h, Q_lo = 0; n = 1: n-1 is 1 (b > H then, whatever the data, so it cannot matter). By step: S becomes SH.

    V_lo <= V* <= V_up; but V_lo <= V^pi is claimed nowhere and does not follow: only V* is concentrated. No certificate.
    As published this is taken on trust: with the textbook inequalities, (p_hat - p) V* <= sqrt(2 Var_p(V*) L / n) + H L / (3n)
    and sqrt(Var_p) <= sqrt(n/(n-1) Var_{p_hat}) + H sqrt(2L/(n-1)), the additive part must reach 7 H L / (3 (n-1)), and
    H L / (3 (n-1)) + (4J + B_p) / n does so only while L <= 4.5; and with pooled counts the H functions V*_{h+1} are not
    counted in L. `repaired` takes B_p = 2 H L and, pooled, L = log(4 S A H T / delta'): then both hold with
    probability 1 - delta' (the sqrt(n/(n-1)) is absorbed, since b >= H and the clip decides as long as n <= 3L).
    """
    H, S, A = r.shape
    size = S * H if n.ndim == 4 or repaired else S
    L = math.log(4 * size * A * T / (delta / 7))
    J, B_v, B_p = H * L / 3, math.sqrt(2 * L), 2 * H * L if repaired else H * math.sqrt(2 * L)
    Q_up, Q_lo, n = np.zeros((H, S, A)), np.zeros((H, S, A)), by_step(n, H)
    V_up, V_lo = np.zeros((H + 1, S)), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s in range(S):
            for a in range(A):
                m, p = int(n[h, s, a].sum()), p_hat(n[h, s, a])
                if m == 0:
                    Q_up[h, s, a], Q_lo[h, s, a] = H - h, 0.0
                    continue
                m_less = max(1, m - 1)
                spread = math.sqrt(p @ (V_up[h + 1] - V_lo[h + 1]) ** 2)
                rest = H * L / (3 * m_less) + (4 * J + B_p) / m + B_v * spread / math.sqrt(m)
                b_up = math.sqrt(2 * variance(p, V_up[h + 1]) * L / m) + rest
                b_lo = math.sqrt(2 * variance(p, V_lo[h + 1]) * L / m) + rest
                b_r = 7 * L / (3 * m_less) if reward_bonus else 0.0
                Q_up[h, s, a] = min(H - h, r[h, s, a] + b_r + p @ V_up[h + 1] + b_up)
                Q_lo[h, s, a] = max(0.0, r[h, s, a] - b_r + p @ V_lo[h + 1] - b_lo)
            pi = int(Q_up[h, s].argmax())
            V_up[h, s], V_lo[h, s] = Q_up[h, s, pi], Q_lo[h, s, pi]
    return Q_up, V_up, Q_lo, V_lo

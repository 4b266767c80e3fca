"""UCB-VI in plain loops."""

import math

import numpy as np

from .common import by_step, p_hat, variance


def ucbvi(
    n: np.ndarray,
    r: np.ndarray,
    delta: float,
    T: int,
    bonus: str = "hoeffding",
    previous_Q: np.ndarray | None = None,
    visits: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Azar, Osband, Munos 2017 (arXiv 1703.05449v2), Algorithms 2, 3 (CH) and 4 (BF). gamma = 1, T = KH fixed beforehand.

        Q_h(s,a) = min{ Q_h of the episode before, H, r + p_hat V_{h+1} + b },  H if n = 0,   V_h = max_a Q_h
        CH: b = 7 H L / sqrt(n),   L = log(5 S A T / delta)
        BF: b = sqrt(8 L Var_{p_hat}(V_{h+1}) / n) + 14 H L / (3n)
              + sqrt(8/n sum_y p_hat(y) min{ 100^2 H^3 S^2 A L^2 / N'_{h+1}(y), H^2 }),   N' = 0: H^2
    `visits` (H+1, S) is N'_h(y), how often y was the state at step h; needed for BF with pooled counts.

    With counts by step S becomes S H wherever it stands: (h, s) are then the states of a stationary problem, on which the
    published algorithm sees exactly these counts.
    Optimism of CH, with probability 1 - delta: V*_{h+1} is fixed, so Hoeffding at each of at most T counts n, each pair and
    each step gives (p - p_hat) V*_{h+1} <= H sqrt(log(SAHT/delta) / (2n)), and log(SAHT/delta) <= 2L as H <= T: H sqrt(L/n)
    would do, 7 H L / sqrt(n) is 7 sqrt(L) times that. Then induct on h; the min with earlier Q keeps it, all n being covered.
    Optimism of BF is taken on trust: |V_{h+1} - V*_{h+1}|(y) <= 100 sqrt(H^3 S^2 A L^2 / N') is a regret bound in itself,
    and 2 Var(V) + 2 Var(V - V*) would ask for 8L, not 8, in front of the last sum.
    """
    H, S, A = r.shape
    size = S * H if n.ndim == 4 else S
    L = math.log(5 * size * A * T / delta)
    if visits is None and n.ndim == 4:
        visits = np.concatenate([n[:1].sum(axis=(2, 3)), n.sum(axis=(1, 2))])
    Q, V, n = np.zeros((H, S, A)), np.zeros((H + 1, S)), by_step(n, H)
    for h in reversed(range(H)):
        for s in range(S):
            for a in range(A):
                m, p = int(n[h, s, a].sum()), p_hat(n[h, s, a])
                Q[h, s, a] = H
                if m == 0:
                    continue
                if bonus == "hoeffding":
                    b = 7 * H * L / math.sqrt(m)
                else:
                    assert visits is not None, "the Bernstein bonus needs the visits of each state at each step"
                    worst = [
                        min(100**2 * H**3 * size**2 * A * L**2 / visits[h + 1, y], H**2) if visits[h + 1, y] else H**2
                        for y in range(S)
                    ]
                    b = math.sqrt(8 * L * variance(p, V[h + 1]) / m) + 14 * H * L / (3 * m) + math.sqrt(8 / m * (p @ worst))
                Q[h, s, a] = min(H, r[h, s, a] + p @ V[h + 1] + b)
                if previous_Q is not None:
                    Q[h, s, a] = min(Q[h, s, a], previous_Q[h, s, a])
            V[h, s] = Q[h, s].max()
    return Q, V

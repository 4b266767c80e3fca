"""Fiechter's algorithm in plain loops."""

import math

import numpy as np

from .common import beta, by_step, horizon_of, p_hat, sigma


def fiechter_eta(epsilon: float, H: int) -> float:
    return epsilon / (8 * H)


def fiechter_threshold(epsilon: float, eta: float, H: int) -> int:
    """Stop when the index of the start is at most floor(epsilon / (2 eta)) - H: it is 3H for eta = epsilon / (8H).

    The 1e-12 only undoes the rounding of the division; the proof in `fiechter` has a whole eta to spare.
    """
    return math.floor(epsilon / (2 * eta) * (1 + 1e-12)) - H


def fiechter(
    n: np.ndarray,
    delta: float,
    epsilon: float,
    gamma: float = 1.0,
    published: bool = False,
    eta: float | None = None,
    horizon: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The rounded error index of Fiechter (COLT 1994), as Kaufmann et al. 2021 (section 3) describe it.

        F_h(s,a) = floor( min{ w, w b(n) + gamma sum_x p_hat_h(x|s,a) eta max_b F_{h+1}(x,b) } / eta ),  w = gamma sigma(H-1-h)
        b(n) = sqrt(2 log(2SAH/delta) / n) published, sqrt(2 beta(n) / n) repaired;   n = 0: the bracket is w.

    The floor is taken at every step and the rounded index is what the step before sees. Let E be RF-UCRL's index (the
    same without floor) and D_h = max_{s,a} (E_h - eta F_h). Then 0 <= D_h: floors only lower, and the bracket is monotone
    in the index ahead. As min{w, .} is 1-Lipschitz and p_hat sums to one, E_h - bracket_h <= gamma D_{h+1}, and the floor
    takes less than eta, so D_h <= eta + gamma D_{h+1}; at the last step w = 0, so F = E = 0 and D_{H-1} = 0. Hence
        eta F_0 <= E_0 <= eta (F_0 + sigma(H-1)) <= eta (F_0 + H - 1).
    Stopping at F_0(s1) <= floor(epsilon/(2 eta)) - H thus gives E_0(s1) <= epsilon/2 - eta: a certificate whenever E is
    one, for step-dependent and pooled counts alike (the argument never looks at n) and for every gamma <= 1.
    E is one with the repaired b (probability 1 - delta/2). It is not with the published b, which has no union over n and
    concentrates one function, not all: for p uniform on S successors TV(p_hat, p) is about sqrt(S / (2 pi n)), above
    b(n) once S > 4 pi log(2SAH/delta).
    Rounding E once, at the end, loses less than eta instead: the same threshold is safe for that too.
    """
    H = horizon_of(n, horizon)
    S, A = n.shape[-3:-1]
    laws = S * A * H if n.ndim == 4 else S * A
    eta = fiechter_eta(epsilon, H) if eta is None else eta
    F, V, n = np.zeros((H, S, A), int), np.zeros((H + 1, S), int), by_step(n, H)
    for h in reversed(range(H)):
        w = gamma * sigma(H - 1 - h, gamma)
        for s in range(S):
            for a in range(A):
                visits = int(n[h, s, a].sum())
                bracket = w
                if visits:
                    log_term = math.log(2 * S * A * H / delta) if published else beta(visits, S, laws, delta)
                    ahead = p_hat(n[h, s, a]) @ (eta * V[h + 1])
                    bracket = min(w, w * math.sqrt(2 * log_term / visits) + gamma * ahead)
                F[h, s, a] = math.floor(bracket / eta * (1 + 1e-12))  # 1e-12: rounded to the safe side, and reproducible
            V[h, s] = F[h, s].max()
    return F, V


def fiechter_error_bound(V: np.ndarray, start: int, eta: float, gamma: float = 1.0) -> float:
    """eta (F_0(s1) + sigma(H-1)), an upper bound on RF-UCRL's E_0(s1) (see `fiechter`); 0 if H = 1."""
    return eta * (V[0, start] + sigma(len(V) - 2, gamma))

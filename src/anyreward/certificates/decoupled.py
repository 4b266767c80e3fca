"""The decoupled bound: how wrong the empirical model of many parts can be, by one small backward pass for each part.

With b_i(a) >= 0 such that sum_i b_i(a) <= 1, and multipliers lambda_j > 0, nu_h >= 0 (steps from 0, w_h = sum_{j > h} gamma^j,
kappa_h = sum_{j > h} gamma^j / (4 lambda_j), g = g_i(s, a), radii c and tau of the laws),

    U^i_h(s) = max_a [ min(w_h, min(kappa_h c_g, w_h tau_g) + sum_x q_g(x) U^i_{h+1}(x)) - nu_h b_i(a) ],    U^i_{H-1} = 0,
    Phi      = sum_j gamma^j lambda_j / 2 + sum_h nu_h + sum_i U^i_0(start of part i)

bounds the error of every policy of the joint state and every reward in [0, 1] (`docs/theory.md`, 15.7). Without nu each part
would be charged for the action that is worst for it. b_i(a) is 1 where action a is unusual for part i alone: only one machine at
a time is serviced, and nu_h is the price of that.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

SCALES, PRICES = 20, (0.0, 0.03, 0.1, 0.3)  # of multipliers that are tried first; prices in shares of the largest error
STEPS = 300  # from the best of them


class Kind(NamedTuple):
    """Parts that are alike."""

    many: int
    start: int
    keys: np.ndarray  # (values, choices): the law of each value, for each choice that actions make for such a part
    share: np.ndarray  # (choices,): b


def behind(discounts: np.ndarray) -> np.ndarray:
    """w_h = sum_{j > h} gamma^j, (H,), from all gamma^j, (H,)."""
    return np.append(np.cumsum(discounts[::-1])[::-1][1:], 0.0)


def smallest_error(kinds: list[Kind], q: np.ndarray, c: np.ndarray, tau: np.ndarray, H: int, discount: float = 1.0) -> float:
    """The smallest Phi that was found. Every lambda and nu gives a valid one.

    Starts on a grid and goes down along subgradients: lambda towards lambda_j^2 = (KL charges before j) / 2, the price nu_h as
    long as more is bought at step h than there is.
    """
    discounts = discount ** np.arange(H)
    w = behind(discounts)
    if H == 1:
        return 0.0
    best, root = inf, np.sqrt(np.arange(H) / (H - 1))
    for price in PRICES:
        for i in range(SCALES):
            trial = 2.0 * 0.5**i * root, price * w[0] * w / w.sum()
            value, *_ = error(kinds, q, c, tau, *trial, discounts)
            if value < best:
                best, (lam, nu) = value, trial
    for k in range(STEPS):
        value, charged, demand = error(kinds, q, c, tau, lam, nu, discounts)
        best = min(best, value)
        before = np.concatenate([[0.0], np.cumsum(charged)[:-1]])
        lam = np.where(lam > 0.0, np.maximum(1e-12, lam**0.9 * np.maximum(0.5 * before, 1e-24) ** 0.05), 0.0)
        nu = np.maximum(0.0, nu - 0.3 * min(best, w[0]) / (H * np.sqrt(k + 1.0)) * demand)
    return float(min(w[0], best))


def error(
    kinds: list[Kind],
    q: np.ndarray,
    c: np.ndarray,
    tau: np.ndarray,
    lam: np.ndarray,
    nu: np.ndarray,
    discounts: np.ndarray | None = None,
) -> tuple[float, np.ndarray, np.ndarray]:
    """Phi for given multipliers, (H,) each, rounded up; the KL charges of each step, and 1 minus what is bought there.

    `discounts` are gamma^j, (H,), by default 1.
    """
    H = len(lam)
    discounts = np.ones(H) if discounts is None else discounts
    w = behind(discounts)
    each = np.divide(0.25 * discounts, lam, out=np.zeros(H), where=lam > 0.0)
    kappa = np.append(np.cumsum(each[::-1])[::-1][1:], 0.0)
    total, charged, demand = float((discounts * lam).sum() / 2 + nu[: H - 1].sum()), np.zeros(H), np.ones(H)
    demand[H - 1] = 0.0
    for many, start, keys, share in kinds:
        K, U, chosen = len(keys), np.zeros(len(keys)), []
        for h in range(H - 2, -1, -1):
            paid, by_kl = np.minimum(kappa[h] * c, w[h] * tau), kappa[h] * c <= w[h] * tau
            Q = (paid + q[:, :K] @ U)[keys]
            stop = w[h] <= Q
            Q = np.where(stop, w[h], Q) - nu[h] * share
            best = Q.argmax(axis=1)
            U = Q.max(axis=1)
            law = keys[np.arange(K), best]
            chosen.append((law, share[best], stop[np.arange(K), best], by_kl[law]))
        total += many * float(U[start])
        mass = np.zeros(K)
        mass[start] = many
        for h, (law, b, stop, by_kl) in enumerate(reversed(chosen)):
            demand[h] -= mass @ b
            mass = np.where(stop, 0.0, mass)
            charged[h] += mass @ np.where(by_kl, c[law], 0.0)
            mass = mass @ q[law, :K]
    # A pass has fewer than H (K + 8) roundings, of numbers below w_0 + sum nu.
    parts = sum(kind.many for kind in kinds)
    rounding = 2.0**-50 * H * (q.shape[1] + 8) * (parts * (w[0] + nu.sum()) + lam.sum())
    return total + rounding, charged, demand

"""BPI-UCRL and robust planning in plain loops: dense, over the whole simplex, slow on purpose, to be compared with.

Steps count from 0. The extreme law of a ball is found in the primal: no duality, no compiled code.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import anyreward as ar

from .reference import beta, known_start
from .tight_reference import relevant

SAFETY = 1e-8  # nats that the library adds to a mixture threshold (`docs/theory.md`, 3)
Extreme = Callable[[Any, Any, Any, int], float]  # `largest` or `smallest`


def largest(N: Sequence, f: Sequence, c: float | None, most: int) -> float:
    """max p.f over the laws p with KL(N/n, p) <= c, on all successors, or on those seen if `most` were seen."""
    f, seen = [float(x) for x in f], [k for k in range(len(f)) if N[k]]
    if not seen:
        return max(f)
    top = max(f) if len(seen) < most else max(f[k] for k in seen)
    q = {k: N[k] / sum(N) for k in seen}

    def tilted(u: float) -> Any:
        """p proportional to q / (u + top - f), and KL(q, p)."""
        share = {k: q[k] / (u + (top - f[k])) for k in seen}
        p = {k: share[k] / sum(share.values()) for k in seen}
        return p, sum(q[k] * math.log(q[k] / p[k]) for k in seen)

    if all(f[k] == top for k in seen):
        return top
    if all(f[k] < top for k in seen):  # the best successor was not seen: it gets what is left of c
        p, used = tilted(0.0)
        if used <= c:
            kept = math.exp(used - c)
            return kept * sum(p[k] * f[k] for k in seen) + (1 - kept) * top
    low, high = 1e-100, 1e12
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if tilted(middle)[1] <= c else (middle, high)
    return sum(p * f[k] for k, p in tilted(high)[0].items())


def smallest(N: Sequence, f: Sequence, c: float | None, most: int) -> float:
    return -largest(N, [-x for x in f], c, most)


# --- Radii ---


def psi_dirichlet(N: Sequence, m: int) -> float:
    """Dirichlet(1/2) on m symbols, for the counts N > 0 of those seen."""
    n = sum(N)
    fit = sum(k * math.log(k / n) for k in N)
    mixture = math.lgamma(m / 2) - math.lgamma(n + m / 2) + sum(math.lgamma(k + 0.5) - math.lgamma(0.5) for k in N)
    return fit - mixture


def psi_support(N: Sequence, S: int) -> float:
    """A size k with weight 2^-k, a uniform k-subset, Dirichlet(1/2) on it."""
    K, total = len(N), 0.0
    for k in range(K, S + 1):
        weight = 2.0**-k / (1 - 2.0**-S) * math.comb(S - K, k - K) / math.comb(S, k)
        total += weight * math.exp(psi_dirichlet(N, K) - psi_dirichlet(N, k))
    return psi_dirichlet(N, K) - math.log(total)


def radius(
    N: np.ndarray, setting: ar.Setting, delta: float, bounds: str, max_successors: int | None = None, start: bool = False
) -> float | None:
    """c = threshold / n, None without data."""
    n, seen = int(sum(N)), [int(k) for k in N if k]
    if n == 0:
        return None
    if bounds == "paper":
        return beta(n, setting, delta) / n
    S, laws = setting.n_states, max(1, len(list(relevant(setting))))
    psi = psi_dirichlet(seen, min(S, max_successors)) if max_successors and not start else psi_support(seen, S)
    return max(0.0, math.log(laws / delta) + psi + SAFETY) / n


# --- Rewards ---


def kl(x: float, y: float) -> float:
    return sum(a * math.log(a / b) if a else 0.0 for a, b in ((x, y), (1 - x, 1 - y)))


def mean_interval(paid: Sequence, delta: float) -> list[float]:
    """All mu with n kl(mean, mu) <= log(1/delta) + psi, for the Beta(1/2, 1/2) mixture."""
    n, mean = len(paid), sum(paid) / len(paid)
    a, b = n * mean, n * (1 - mean)
    fit = sum(x * math.log(x / n) if x > 0 else 0.0 for x in (a, b))
    mixture = math.lgamma(a + 0.5) + math.lgamma(b + 0.5) - math.lgamma(n + 1) - math.log(math.pi)
    c = (math.log(1 / delta) + fit - mixture + SAFETY) / n
    ends = []
    for end in (0.0, 1.0):
        inside, outside = mean, end
        for _ in range(200):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if 0 < middle < 1 and kl(mean, middle) <= c else (inside, middle)
        ends.append(end if mean == end else inside)
    return ends


def reward_bounds(
    states: np.ndarray, actions: np.ndarray, paid: np.ndarray, setting: ar.Setting, rewards: str, delta: float
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds on r_h(s, a), (H, S, A), from rewards that were observed."""
    S, A, H = setting.n_states, setting.n_actions, setting.horizon
    seen: dict[tuple[int, int, int], list[float]] = {}
    for path, moves, payments in zip(states, actions, paid, strict=True):
        for h in range(H):
            seen.setdefault((0 if setting.stationary else h, path[h], moves[h]), []).append(payments[h])
    low, high = np.zeros((H, S, A)), np.ones((H, S, A))
    pairs = S * A if setting.stationary else S * A * H
    for (h, s, a), payments in seen.items():
        interval = [payments[-1]] * 2 if rewards == "deterministic" else mean_interval(payments, delta / 2 / pairs)
        steps = slice(None) if setting.stationary else h
        low[steps, s, a], high[steps, s, a] = interval
    return low, high


# --- Planning ---


def induct(
    n: np.ndarray,
    setting: ar.Setting,
    radii: np.ndarray,
    reward: np.ndarray,
    extreme: Extreme,
    most: int,
    policy: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Q (H, S, A) and V (H+1, S) in the extreme models of the balls, of the best actions or of a policy (H, S, A)."""
    S, A, H = setting.n_states, setting.n_actions, setting.horizon
    Q, V = np.zeros((H, S, A)), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s in range(S):
            for a in range(A):
                Q[h, s, a] = reward[h, s, a] + setting.discount * extreme(n[h, s, a], V[h + 1], radii[h, s, a], most)
            V[h, s] = max(Q[h, s]) if policy is None else policy[h, s] @ Q[h, s]
    return Q, V


def from_start(starts: np.ndarray, setting: ar.Setting, c: float | None, V: np.ndarray, extreme: Extreme) -> float:
    law = known_start(setting)
    return extreme(starts, V, c, setting.n_states) if law is None else float(law @ V)


def radii_of(
    starts: np.ndarray, n: np.ndarray, setting: ar.Setting, delta: float, bounds: str, max_successors: int | None = None
) -> tuple[np.ndarray, float | None]:
    """The radii of all laws as an object array (H, S, A), and that of the start."""
    c = np.empty(n.shape[:3], object)
    for at in np.ndindex(c.shape):
        c[at] = radius(n[at], setting, delta, bounds, max_successors)
    return c, radius(starts, setting, delta, bounds, max_successors, start=True)


def bpi_ucrl(
    starts: np.ndarray,
    n: np.ndarray,
    setting: ar.Setting,
    delta: float,
    bounds: str,
    low: np.ndarray,
    high: np.ndarray,
    max_successors: int | None = None,
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Q_lo, Q_up and V_lo, V_up at the start, for rewards between low and high, (H, S, A)."""
    c, c_start = radii_of(starts, n, setting, delta, bounds, max_successors)
    most = min(setting.n_states, max_successors or setting.n_states)
    Q_lo, V_lo = induct(n, setting, c, low, smallest, most)
    Q_up, V_up = induct(n, setting, c, high, largest, most)
    start_lo, start_up = (
        from_start(starts, setting, c_start, V[0], extreme) for V, extreme in ((V_lo, smallest), (V_up, largest))
    )
    return Q_lo, Q_up, start_lo, start_up

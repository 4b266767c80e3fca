"""Rival algorithms in plain loops: written for the reader, slow on purpose, to be compared with.

Steps count from 0. Counts are dense: n[h, s, a, x] visits (H, S, A, S), or n[s, a, x] (S, A, S), all steps together, when
the problem is stationary. Rewards r (H, S, A) are known and lie in [0, 1]; the start state is fixed.
An index is Q (H, S, A) with V (H+1, S), V[H] = 0; `up` is above the optimal value and `lo` below it, on the event that
the docstring names. Throughout sigma(k) = 1 + gamma + ... + gamma^(k-1), and laws = how many (h, s, a) share delta.
Constants are the published ones, even where they are loose; where they cannot be proved, the docstring says so.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

# --- Counts ---


def sigma(k: int, gamma: float) -> float:
    return sum(gamma**i for i in range(k))


def by_step(n: np.ndarray, H: int) -> np.ndarray:
    """n[h, s, a, x] for each step: pooled counts are those of every step."""
    return n if n.ndim == 4 else np.broadcast_to(n, (H, *n.shape))


def horizon_of(n: np.ndarray, horizon: int | None) -> int:
    """The horizon is the first axis of step-dependent counts; pooled ones do not know it."""
    if n.ndim == 4:
        return n.shape[0]
    assert horizon is not None, "pooled counts need the horizon"
    return horizon


def p_hat(seen: np.ndarray) -> np.ndarray:
    """The empirical law of the successors seen (S,), uniform without data (a filler: no formula may depend on it)."""
    return seen / seen.sum() if seen.sum() else np.full(len(seen), 1 / len(seen))


def variance(p: np.ndarray, f: np.ndarray) -> float:
    return float(p @ (f - p @ f) ** 2)


# --- RF-UCRL's threshold (ALGORITHMS.md A.1, A.3), shared by several below ---


def beta(visits: float, S: int, laws: int, delta: float) -> float:
    """log(2 laws / delta) + (S-1) log(e (1 + n/(S-1))); laws = SAH by step, SA pooled. Kaufmann et al. 2021, Theorem 1.

    With probability 1 - delta/2, n KL(p_hat, p) <= beta(n) for all laws and all n at once.
    """
    return math.log(2 * laws / delta) + ((S - 1) * math.log(math.e * (1 + visits / (S - 1))) if S > 1 else 0.0)


# --- Fiechter 1994 ---


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


# --- UCB-VI ---


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


# --- EULER ---


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


# --- UCRL2 and KL-UCRL on a finite horizon: backward induction with the best and the worst law of a ball ---


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
    """max p.f over all laws p with KL(q, p) <= c, by its dual f* - max_{u >= 0} F(u), f* = max f (ALGORITHMS.md B.2).

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


# --- Optimistic Q-learning ---


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


# --- Even-Dar, Mannor, Mansour on a finite horizon ---


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


# --- RF-Express and BPI-UCBVI ---


def beta_express(visits: float, S: int, A: int, H: int, delta: float) -> float:
    """log(3SAH/delta) + S log(8 e (n+1)). Ménard et al. 2021. Above `beta` with delta/3 for delta/2."""
    return math.log(3 * S * A * H / delta) + S * math.log(8 * math.e * (visits + 1))


def beta_star(visits: float, S: int, A: int, H: int, delta: float) -> float:
    """log(3SAH/delta) + log(8 e (n+1)): for one function, V*."""
    return math.log(3 * S * A * H / delta) + math.log(8 * math.e * (visits + 1))


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
    TIGHTER.md section 3 gives the error <= sum_{h>=1} sqrt(E_hat sum_{l<h, l<T} beta/n / 2) + E_hat[H 1{T}]
    <= H sqrt(W_1 / (30 H^2)) + W_1 = sqrt(W_1 / 30) + W_1. The same for pooled counts.
    """
    W_1 = float(V[0, start])
    return 3 * math.e * math.sqrt(W_1) + W_1


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


# --- A generative model: the same number of draws for every pair ---


def generative_error(
    draws: int, S: int, A: int, H: int, delta: float, gamma: float = 1.0, stationary: bool = False, clip: bool = True
) -> float:
    """RF-UCRL's E_0 when every pair has n draws; p_hat does not matter, as E_h is the same in all states.

    E_h = min{ w, w sqrt(2 beta(n)/n) + gamma E_{h+1} }, w = gamma sigma(H-1-h). Without the clip it is the sum
    sum_h gamma^(h+1) sigma(H-1-h) sqrt(2 beta(n)/n).
    """
    if draws == 0:
        return gamma * sigma(H - 1, gamma) if clip or H == 1 else math.inf
    radius = math.sqrt(2 * beta(draws, S, S * A if stationary else S * A * H, delta) / draws)
    E = 0.0
    for h in reversed(range(H)):
        w = gamma * sigma(H - 1 - h, gamma)
        E = min(w, w * radius + gamma * E) if clip else w * radius + gamma * E
    return E


def generative_draws(
    S: int, A: int, H: int, epsilon: float, delta: float, gamma: float = 1.0, stationary: bool = False, clip: bool = True
) -> int:
    """The fewest draws n per (h, s, a) — per (s, a) when stationary — with E_0 <= epsilon/2: all rewards, epsilon-optimal.

    beta(n)/n decreases, so E_0 does, and bisection finds it. In all SA(H-1) n draws (the last step is not needed), or SA n.
    """

    def enough(draws: int) -> bool:
        return generative_error(draws, S, A, H, delta, gamma, stationary, clip) <= epsilon / 2

    if enough(0):
        return 0
    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


# --- From regret to a policy ---


class Instances(NamedTuple):
    runs: int  # M
    episodes: int  # N, to evaluate each of the M policies
    epsilon_run: float  # eps0: each run fails it with probability at most 1/2
    epsilon_evaluate: float  # eps'
    delta_evaluate: float  # delta'


def regret_to_bpi(
    epsilon: float, delta: float, H: int, gamma: float = 1.0, share: float = 0.5, form: str = "corrected"
) -> Instances:
    """M runs, N fresh episodes for each policy, the best average wins. Kaufmann et al. 2021, Appendix "Conversion of UCB-VI".

        M = ceil(log2(2/delta)), delta' = delta/2, eps0 = share epsilon, eps' = (epsilon - eps0)/2
        N = ceil(sigma(H)^2 / (2 eps'^2) log(k / delta')),  k = M published, M+1 corrected
        form = "paired": N = ceil(sigma(H)^2 / (4 eps'^2) log((M-1) / delta')), at least 1
    so that delta' + 2^-M <= delta and eps0 + 2 eps' <= epsilon.
    The published lemma is two-sided and would need k = 2M. The proposition needs less: given the policies, let m~ be the best.
    If it wins, there is no evaluation error. If another m wins, V_m~ - V^_m~ <= eps' and V^_m - V_m <= eps' suffice: one event
    for m~ and one for each other m, k = M. So the published N is enough, and k = M+1 is enough too.
    Paired: V^_m - V^_m~ is a mean of 2N independent terms, and a policy worse by more than 2 eps' beats m~ with probability at
    most exp(-4 N eps'^2 / sigma^2): half the episodes.
    """
    M = math.ceil(math.log2(2 / delta))
    eps0, delta_evaluate = share * epsilon, delta / 2
    eps = (epsilon - eps0) / 2
    if form == "paired":
        N = sigma(H, gamma) ** 2 / (4 * eps**2) * math.log(max(1, M - 1) / delta_evaluate)
    else:
        N = sigma(H, gamma) ** 2 / (2 * eps**2) * math.log((M if form == "published" else M + 1) / delta_evaluate)
    return Instances(M, max(1, math.ceil(N)), eps0, eps, delta_evaluate)


def ucbvi_regret(K: int, S: int, A: int, H: int, delta: float, bonus: str = "hoeffding") -> float:
    """Azar et al. 2017, Theorems 1 and 2 as printed, with probability 1 - delta, stationary: L = log(5 H S A T / delta), T = KH.

    CH: 20 H^1.5 L sqrt(SAK) + 250 H^2 S^2 A L^2.   BF: 30 H L sqrt(SAK) + 2500 H^2 S^2 A L^2 + 4 H^1.5 sqrt(KL).
    """
    L = math.log(5 * H * S * A * K * H / delta)
    if bonus == "hoeffding":
        return 20 * H**1.5 * L * math.sqrt(S * A * K) + 250 * H**2 * S**2 * A * L**2
    return 30 * H * L * math.sqrt(S * A * K) + 2500 * H**2 * S**2 * A * L**2 + 4 * H**1.5 * math.sqrt(K * L)


def markov_episodes(regret: Callable[[int], float], epsilon: float, delta: float) -> int:
    """The fewest K with regret(K) / (K epsilon) <= delta; regret(K)/K must decrease. Jin et al. 2018, section 3.1.

    A policy drawn uniformly among the K played has expected gap E regret(K) / K; Markov's inequality does the rest. A regret
    bound that holds with probability 1 - delta_r only must be asked for delta - delta_r.
    """
    low, high = 0, 1
    while regret(high) > high * epsilon * delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if regret(middle) <= middle * epsilon * delta else (middle, high)
    return high

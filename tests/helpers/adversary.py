"""The worst that can happen inside KL balls: the largest value error over kernels, rewards and policies.

For one policy and one reward the worst kernels follow from a backward pass, exactly: the balls of different pairs are independent
of each other, so each pair minimises the expectation of what comes after. The error is convex in the reward, so rewards in
{0, 1} are worst. Policies and rewards are enumerated, or climbed to where there are too many.

Every number returned is reached by kernels inside the balls: it is a lower bound on what a certificate has to allow for.
"""

import numpy as np
from numba import njit


@njit(cache=True)
def lowest(q, c, unseen, v, p):
    """min p.v over KL(q, p) <= c, attained by the p that is filled in; c = inf is a law without data.

    p_i is proportional to q_i / (v_i - lowest v + t) on what was seen, for some t >= 0. If the lowest v was not seen and t has
    come down to 0, mass may go there as well.
    """
    S, far = len(q), -1
    for i in range(S):
        if (q[i] > 0.0 or unseen or not c < np.inf) and (far < 0 or v[i] < v[far]):
            far = i
    p[:] = 0.0
    if not c < np.inf:
        p[far] = 1.0
        return v[far]
    low, high = np.inf, -np.inf
    for i in range(S):
        if q[i] > 0.0:
            low, high = min(low, v[i]), max(high, v[i])
    if c <= 0.0 or high == v[far]:
        p[:] = q
        return np.dot(p, v)
    if low > v[far]:
        mass = np.exp(tilt(q, v, v[far], 0.0, p) - c)
        if mass < 1.0:
            p *= mass
            p[far] += 1.0 - mass
            return np.dot(p, v)
    near, away = -30.0, 30.0  # log of t / range of v; the KL decreases in it
    for _ in range(60):
        middle = 0.5 * (near + away)
        if tilt(q, v, v[far], np.exp(middle) * (high - v[far]), p) > c:
            near = middle
        else:
            away = middle
    tilt(q, v, v[far], np.exp(away) * (high - v[far]), p)
    return np.dot(p, v)


@njit(cache=True)
def tilt(q, v, base, t, p):
    """p proportional to q / (v - base + t), and KL(q, p)."""
    total, kl = 0.0, 0.0
    for i in range(len(q)):
        p[i] = q[i] / (v[i] - base + t) if q[i] > 0.0 else 0.0
        total += p[i]
    for i in range(len(q)):
        p[i] /= total
        if q[i] > 0.0:
            kl += q[i] * np.log(q[i] / p[i])
    return kl


@njit(cache=True)
def worst_error(q0, c0, q, c, unseen, gamma):
    """Over all Markov policies and rewards r_h(s): q0 (S,), c0, q (H, S, A, S), c (H, S, A), unseen (H, S, A).

    c0 = 0 is a known start with the distribution q0.
    """
    H, S, A, _ = q.shape
    known = c0 == 0.0
    decisions = S * (H - 2) + (np.count_nonzero(q0) if known else S)
    bits = S * (H - 1) + (0 if known else S)
    p, V, V_hat = np.zeros(S), np.zeros((H, S)), np.zeros((H, S))
    last = np.zeros((S, A, 1 << S))
    for s in range(S):
        for a in range(A):
            for e in range(1 << S):
                for i in range(S):
                    V[H - 1, i] = (e >> i) & 1
                last[s, a, e] = lowest(q[H - 2, s, a], c[H - 2, s, a], unseen[H - 2, s, a], V[H - 1], p)
    worst = 0.0
    for policy in range(A**decisions):
        for reward in range(1 << bits):
            for i in range(S):
                V[H - 1, i] = V_hat[H - 1, i] = gamma ** (H - 1) * ((reward >> i) & 1)
            actions, rewards = policy, reward >> S
            for h in range(H - 2, -1, -1):
                for s in range(S):
                    if h == 0 and known and q0[s] == 0.0:
                        continue
                    a = actions % A
                    actions //= A
                    r = gamma**h * (rewards & 1) if h > 0 or not known else 0.0
                    rewards >>= 1
                    V_hat[h, s] = r + np.dot(q[h, s, a], V_hat[h + 1])
                    if h == H - 2:
                        V[h, s] = r + gamma ** (H - 1) * last[s, a, reward & ((1 << S) - 1)]
                    else:
                        V[h, s] = r + lowest(q[h, s, a], c[h, s, a], unseen[h, s, a], V[h + 1], p)
            if known:
                worst = max(worst, np.dot(q0, V_hat[0] - V[0]))
            else:
                worst = max(worst, np.dot(q0, V_hat[0]) - lowest(q0, c0, True, V[0], p))
    return worst


@njit(cache=True)
def worst_history(q0, c0, q1, c1, unseen0, unseen1, g0, g1):
    """Two transitions in a row, rewards g0 r(s') and g1 r(s', s'') that know both: q0 (B, S) for B actions, q1 (S, A, S).

    This is what policies that remember can do (the last action tells what happened), and rewards on arrival.
    """
    B, S = q0.shape
    A, E = q1.shape[1], 1 << S
    p, v, hat = np.zeros(S), np.zeros(S), np.zeros(S)
    V_hat, V = np.zeros((S, A * E)), np.zeros((S, A * E))
    for s in range(S):
        for a in range(A):
            for e in range(E):
                for i in range(S):
                    v[i] = (e >> i) & 1
                V_hat[s, a * E + e] = g1 * np.dot(q1[s, a], v)
                V[s, a * E + e] = g1 * lowest(q1[s, a], c1[s, a], unseen1[s, a], v, p)
    worst = 0.0
    for first in range(E):
        for then in range((A * E) ** S):
            rest = then
            for s in range(S):
                r = g0 * ((first >> s) & 1)
                hat[s], v[s] = r + V_hat[s, rest % (A * E)], r + V[s, rest % (A * E)]
                rest //= A * E
            for b in range(B):
                worst = max(worst, np.dot(q0[b], hat) - lowest(q0[b], c0[b], unseen0[b], v, p))
    return worst


@njit(cache=True)
def climb(q0, c0, q, c, unseen, gamma, policy, reward, P, P0):
    """From a policy (H, S) and a reward (H, S): the worst kernels for the reward, the worst reward for these kernels, and so on.

    Neither step can make the error smaller. Returns it, with the kernels in P (H, S, S) and P0 (S,).
    """
    H, S, _, _ = q.shape
    V, worst = np.zeros((H + 1, S)), -1.0
    while True:
        V[H - 1] = gamma ** (H - 1) * reward[H - 1]
        for h in range(H - 2, -1, -1):
            for s in range(S):
                a = policy[h, s]
                V[h, s] = gamma**h * reward[h, s] + lowest(q[h, s, a], c[h, s, a], unseen[h, s, a], V[h + 1], P[h, s])
        lowest(q0, c0, True, V[0], P0)
        d_hat, d, error = q0.copy(), P0.copy(), 0.0
        for h in range(H):
            for s in range(S):
                reward[h, s] = 1.0 if d_hat[s] > d[s] else 0.0
                error += gamma**h * max(0.0, d_hat[s] - d[s])  # sums to gamma^h TV
            if h < H - 1:
                d_hat_next, d_next = np.zeros(S), np.zeros(S)
                for s in range(S):
                    d_hat_next += d_hat[s] * q[h, s, policy[h, s]]
                    d_next += d[s] * P[h, s]
                d_hat, d = d_hat_next, d_next
        if error <= worst + 1e-12:
            return max(error, worst)
        worst = error

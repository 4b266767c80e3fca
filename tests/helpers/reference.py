"""The paper's formulas in plain loops: written for the reader, slow on purpose, to be compared with.

Steps count from 0. Numbers are floats, or Decimals with `number=Decimal`: what the formulas give without rounding.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np

import anyreward as ar


def log(x: Any) -> Any:
    return x.ln() if isinstance(x, Decimal) else math.log(x)


def root(x: Any) -> Any:
    return x.sqrt() if isinstance(x, Decimal) else math.sqrt(x)


def dense_counts(states: np.ndarray, actions: np.ndarray, setting: ar.Setting) -> tuple[np.ndarray, np.ndarray]:
    """Start draws (S,) and visits n[h, s, a, s'], (H, S, A, S); when stationary every step has the visits of all steps."""
    S, A, H = setting.n_states, setting.n_actions, setting.horizon
    starts, n = np.zeros(S, int), np.zeros((H, S, A, S), int)
    for path, moves in zip(states, actions, strict=True):
        starts[path[0]] += 1
        for h in range(H):
            n[h, path[h], moves[h], path[h + 1]] += 1
    if setting.stationary:
        n[:] = n.sum(axis=0)
    return starts, n


def known_start(setting: ar.Setting) -> np.ndarray | None:
    """The distribution of the initial state, (S,), if the setting gives it."""
    if setting.initial_state is not None:
        return np.eye(setting.n_states)[setting.initial_state]
    return np.array([dict(setting.initial).get(s, 0.0) for s in range(setting.n_states)]) if setting.initial else None


def empirical(starts: np.ndarray, n: np.ndarray, setting: ar.Setting) -> tuple[np.ndarray, np.ndarray]:
    """The start distribution (S,) and p_hat (H, S, A, S), uniform without data; a known start is known."""
    S, visits = setting.n_states, n.sum(axis=-1, keepdims=True)
    p_hat = np.where(visits > 0, n / np.maximum(visits, 1), 1 / S)
    law = known_start(setting)
    if law is not None:
        return law, p_hat
    return (starts / starts.sum() if starts.sum() else np.full(S, 1 / S)), p_hat


def beta(n: Any, setting: ar.Setting, delta: Any) -> Any:
    """log(2 N / delta) + (S-1) log(e (1 + n/(S-1))) for the N laws that are estimated; log(2 N / delta) if S = 1."""
    S, A, H = setting.n_states, setting.n_actions, setting.horizon
    laws = S * A if setting.stationary else S * A * H
    if known_start(setting) is None:
        laws += 1
    return log(2 * laws / delta) + ((S - 1) * (1 + log(1 + n / (S - 1))) if S > 1 else 0)


def rf_ucrl(
    starts: np.ndarray, n: np.ndarray, setting: ar.Setting, delta: Any, clip: bool = True, number: Callable[[Any], Any] = float
) -> tuple[np.ndarray, Any]:
    """E_h(s,a), (H, S, A), and the error bound at the start."""
    S, A, H = setting.n_states, setting.n_actions, setting.horizon
    gamma, delta = number(setting.discount), number(delta)

    def sigma(k: int) -> Any:
        return sum((gamma**i for i in range(k)), number(0))

    def radius(visits: Any) -> Any:
        return root(2 * beta(number(int(visits)), setting, delta) / max(1, int(visits)))

    def p_hat(seen: np.ndarray, s_next: int) -> Any:
        visits = int(seen.sum())
        return number(int(seen[s_next])) / visits if visits else number(1) / S

    E = np.full((H + 1, S, A), number(0), dtype=object)
    for h in reversed(range(H)):
        weight = gamma * sigma(H - 1 - h)
        for s, a in itertools.product(range(S), range(A)):
            ahead = sum(p_hat(n[h, s, a], s_next) * max(E[h + 1, s_next]) for s_next in range(S))
            E[h, s, a] = weight * radius(n[h, s, a].sum()) + gamma * ahead
            if clip:
                E[h, s, a] = min(weight, E[h, s, a])
    law = known_start(setting)
    if law is not None:
        return E[:H], sum((number(float(p)) * max(E[0, s]) for s, p in enumerate(law)), number(0))
    bound = sigma(H) * radius(starts.sum()) + sum(p_hat(starts, s) * max(E[0, s]) for s in range(S))
    return E[:H], min(sigma(H), bound) if clip else bound


def q_values(P: np.ndarray, policy: np.ndarray | None, reward: np.ndarray, gamma: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Q_h(s,a) and V_h(s) of a policy (H, S) or (H, S, A), or of the optimum if the policy is None. P is (H, S, A, S)."""
    H, S, A, _ = P.shape
    Q, V = np.zeros((H, S, A)), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s in range(S):
            for a in range(A):
                Q[h, s, a] = reward[h, s, a] + gamma * sum(P[h, s, a, x] * V[h + 1, x] for x in range(S))
            if policy is None:
                V[h, s] = max(Q[h, s])
            elif np.ndim(policy) == 2:
                V[h, s] = Q[h, s, policy[h, s]]
            else:
                V[h, s] = sum(policy[h, s, a] * Q[h, s, a] for a in range(A))
    return Q, V


def occupancies(P: np.ndarray, initial: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """The law of the state at each step, (H, S)."""
    H, S, _, _ = P.shape
    d = np.zeros((H, S))
    d[0] = initial
    for h in range(H - 1):
        for s in range(S):
            d[h + 1] += d[h, s] * P[h, s, policy[h, s]]
    return d


def worst_error(
    P_hat: np.ndarray, initial_hat: np.ndarray, P: np.ndarray, initial: np.ndarray, policy: np.ndarray, gamma: float = 1.0
) -> float:
    """The largest |V_hat^pi - V^pi| over all rewards in [0, 1]: sum_h gamma^h TV(d_hat_h, d_h).

    Rewards enter linearly, so the worst one is r_h = 1 where d_hat_h > d_h and 0 elsewhere (or the other way round).
    """
    d_hat, d = occupancies(P_hat, initial_hat, policy), occupancies(P, initial, policy)
    return sum(gamma**h * np.abs(d_hat[h] - d[h]).sum() / 2 for h in range(len(P)))


def policies(H: int, S: int, A: int) -> Iterator[np.ndarray]:
    """All deterministic policies that can differ in where they lead: the action of the last step cannot."""
    for choice in itertools.product(range(A), repeat=(H - 1) * S):
        yield np.array([*choice, *[0] * S]).reshape(H, S)


def kl(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """KL(p, q) along the last axis, with 0 log 0 = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p > 0, p * np.log(p / q), 0.0).sum(axis=-1)

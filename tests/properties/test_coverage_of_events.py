"""Coverage of the events of the tight certificate, by simulation: each fails in at most a share delta of the runs.

There are 2,000 seeded runs each, and 800 of what goes through the library; a run fails if the event is broken at *any* time,
which is the same as stopping as soon as the bound looks wrong. If the true share is at most delta, the number of failures is at
most `allowed(delta)` with probability 1 - 1e-7: with about a hundred such comparisons in this file and in
`test_coverage_of_promises.py`, a false alarm has probability below 1e-4 over all seeds.

It watches `docs/theory.md`, 1.2, 3.1, 3a, 3b and 3c.
"""

import itertools
import math

import numpy as np
import pytest
from numba import njit

import anyreward as ar
from anyreward import kernels
from anyreward.certificates.bounds import TightBound

from ..helpers.coverage import RUNS, allowed

pytestmark = pytest.mark.slow

DELTAS = (0.2, 0.5)
FEWER = 800  # a share of 0.28 or 0.6 is noticed, in place of 0.25 or 0.56

psi_support, psi_size, tv_radius = kernels.radii.psi_support, kernels.radii.psi_size, kernels.radii.tv_radius


@njit  # not cached on disk: Numba would not notice a change in the kernels it calls
def tape(p, S, K, steps, levels, rng, seen, where, scratch, failed):
    """Draws `steps` samples of a law p and looks after each of them; returns the largest n KL - psi.

    The law has len(p) successors of S states, or of at most K if K > 0. failed[i] is set if the TV radius at log(1/delta) =
    levels[i] is exceeded in the first 150. seen and where are scratch: counts in the order of discovery, and where each
    successor has its own.
    """
    most, size = -np.inf, 0
    where[:] = -1
    cumulative = np.cumsum(p)
    for n in range(1, steps + 1):
        x = np.searchsorted(cumulative[:-1], rng.random(), side="right")
        if where[x] < 0:
            where[x] = size
            seen[size] = 0.0
            size += 1
        seen[where[x]] += 1.0
        kl, distance = 0.0, 0.0
        for i in range(len(p)):
            q = seen[where[i]] / n if where[i] >= 0 else 0.0
            kl += q * math.log(q / p[i]) if q > 0.0 else 0.0
            distance += 0.5 * abs(q - p[i])
        psi = psi_size(seen, 0, size, float(n), K) if K > 0 else psi_support(seen, 0, size, float(n), S)
        most = max(most, n * kl - psi)
        for i in range(len(levels) if n <= 150 else 0):
            c = max(0.0, levels[i] + psi) / n
            if distance > tv_radius(seen, 0, size, float(n), c, size < (K if K > 0 else S), scratch):
                failed[i] = True
    return most


LAWS = {  # name: law, number of states, number of successors if that is known
    "fair coin, S = 2": ([0.5, 0.5], 2, 0),
    "unfair coin, S = 2": ([0.9, 0.1], 2, 0),
    "nearly deterministic": ([0.995, 0.005], 31, 0),
    "nearly deterministic, S = 2": ([0.99, 0.01], 2, 0),
    "rare successors": ([0.94, 0.02, 0.02, 0.01, 0.01], 31, 0),
    "uniform on all states": ([0.2] * 5, 5, 0),
    "one successor": ([1.0], 31, 0),
    "one state": ([1.0], 1, 0),
    "two successors, known": ([0.5, 0.5], 31, 2),
    "two successors, known, one rare": ([0.98, 0.02], 31, 2),
    "fewer successors than the known number": ([0.7, 0.3], 31, 4),
}


@pytest.mark.parametrize("name", LAWS)
def test_kl_and_tv_events_hold_at_every_sample(name):
    p, S, K = LAWS[name]
    p, rng = np.array(p), np.random.default_rng(0)
    levels, scratch = np.log(1 / np.array(DELTAS)), np.zeros(1 << kernels.radii.ENUMERATED)
    most, failed = np.empty(RUNS), np.zeros((RUNS, len(DELTAS)), bool)
    for run in range(RUNS):
        most[run] = tape(p, S, K, 1000, levels, rng, np.zeros(len(p)), np.zeros(len(p), np.int64), scratch, failed[run])
    for i, delta in enumerate(DELTAS):
        broken = most > levels[i]
        assert broken.sum() <= allowed(delta)
        assert not (failed[:, i] & ~broken).any()  # TV follows from KL, always
    if len(p) == 1:
        assert (most <= 0).all()  # p_hat = p


def test_the_threshold_for_two_successors_is_nearly_sharp():
    """So that the tests above can fail: with log(2) nats less, the same event breaks more often than delta."""
    p, rng, most = np.array([0.5, 0.5]), np.random.default_rng(1), np.empty(RUNS)
    nothing, scratch = np.zeros(0), np.zeros(1 << kernels.radii.ENUMERATED)
    for run in range(RUNS):
        most[run] = tape(p, 31, 2, 2000, nothing, rng, np.zeros(2), np.zeros(2, np.int64), scratch, np.zeros(0, bool))
    delta = 0.2
    assert 0.5 * delta * RUNS < (most > math.log(1 / delta)).sum() <= allowed(delta)
    assert (most + math.log(2) > math.log(1 / delta)).sum() > allowed(delta)


# --- Value errors, through the library from episodes to bound ---


@njit(cache=True)
def play(P, starts, stationary, n, rng, states, actions):
    """One episode of an adversary: in every state it takes the action whose row looks most true, so what looks wrong stays."""
    H, S, A, _ = P.shape
    s = np.searchsorted(np.cumsum(starts)[:-1], rng.random(), side="right")
    states[0] = s
    for h in range(H):
        best, a = np.inf, 0
        for b in range(A):
            visits, kl = n[h, s, b].sum(), 0.0
            for x in range(S):
                if n[h, s, b, x] > 0:
                    kl += n[h, s, b, x] * math.log(n[h, s, b, x] / visits / P[h, s, b, x])
            # Unvisited rows first, and now and then any.
            if visits == 0 or rng.random() < 0.2:
                kl = -rng.random()
            if kl < best:
                best, a = kl, b
        x = np.searchsorted(np.cumsum(P[h, s, a])[:-1], rng.random(), side="right")
        if stationary:
            n[:, s, a, x] += 1
        else:
            n[h, s, a, x] += 1
        s = x
        states[h + 1], actions[h] = s, a


@njit(cache=True)
def worst(P, starts, n, drawn, gamma, policies):
    """The largest value error of any policy (L, H, S) under any reward: sum_h gamma^h TV(d_hat_h, d_h)."""
    H, S, A, _ = P.shape
    P_hat = np.full(P.shape, 1.0 / S)
    for h in range(H):
        for s in range(S):
            for a in range(A):
                visits = n[h, s, a].sum()
                if visits > 0:
                    P_hat[h, s, a] = n[h, s, a] / visits
    largest, drawn = 0.0, drawn / drawn.sum()
    d, d_hat = np.empty((H + 1, S)), np.empty((H + 1, S))  # no arrays inside the loops: they took most of the time
    for i in range(len(policies)):
        d[:], d_hat[:], error = 0.0, 0.0, 0.0
        for s in range(S):
            d[0, s], d_hat[0, s] = starts[s], drawn[s]
        for h in range(H):
            for s in range(S):
                error += gamma**h * 0.5 * abs(d[h, s] - d_hat[h, s])
                a = policies[i, h, s]
                for x in range(S):
                    d[h + 1, x] += d[h, s] * P[h, s, a, x]
                    d_hat[h + 1, x] += d_hat[h, s] * P_hat[h, s, a, x]
        largest = max(largest, error)
    return largest


def every_policy(S, A, H):
    """All deterministic policies; the action of the last step leads nowhere."""
    return np.array([[*choice, *[0] * S] for choice in itertools.product(range(A), repeat=S * (H - 1))]).reshape(-1, H, S)


COIN, BIASED, NEARLY = [0.5, 0.5], [0.8, 0.2], [0.97, 0.03]
RARE = [[0.96, 0.02, 0.02], [0.0, 1.0, 0.0]]
MODELS = {  # P of each step as [s][a], start law, discount, episodes, options of the setting and of the bound
    "one law": ([[[COIN]] * 2] * 2, [1.0, 0.0], 1.0, 20, {}, {}),
    "one law, nearly deterministic": ([[[NEARLY]] * 2] * 2, [1.0, 0.0], 0.9, 15, {}, {}),
    "only the start": ([[[[0.0, 1.0, 0.0]]] * 3], [0.9, 0.05, 0.05], 1.0, 15, {}, {}),
    "steps that differ": ([[[COIN]] * 2, [[NEARLY], [BIASED]], [[COIN]] * 2], [1.0, 0.0], 1.0, 12, {}, {}),
    "rare successors, two actions": ([[RARE, RARE[::-1], RARE]] * 3, [1.0, 0.0, 0.0], 1.0, 12, {"stationary": True}, {}),
    "successors known": ([[[[0.5, 0.5, 0.0, 0.0]]] * 4] * 2, [1.0, 0.0, 0.0, 0.0], 1.0, 15, {}, {"max_successors": 2}),
}


@pytest.mark.parametrize("name", MODELS)
def test_no_value_error_exceeds_the_bound_at_any_episode(name):
    P, starts, gamma, episodes, kind, options = MODELS[name]
    P, starts = np.array(P), np.array(starts)
    H, S, A, _ = P.shape
    setting = ar.Setting(n_states=S, n_actions=A, horizon=H, discount=gamma, initial_state=0 if starts[0] == 1 else None, **kind)
    bound, policies, rng = TightBound(**options), every_policy(S, A, H), np.random.default_rng(2)
    failures = dict.fromkeys(DELTAS, 0)
    states, actions = np.zeros((1, H + 1), np.int64), np.zeros((1, H), np.int64)
    for _ in range(FEWER):
        counts, failed = ar.Counts(setting, transfer=True), set()
        n, drawn = np.zeros(P.shape, np.int64), np.zeros(S)
        for _ in range(episodes):
            play(P, starts, setting.stationary, n, rng, states[0], actions[0])
            drawn[states[0, 0]] += 1
            counts.add_episodes(states, actions)
            error = worst(P, starts, n, drawn, gamma, policies)
            # The bound grows as delta shrinks: the largest delta fails first.
            for delta in sorted(set(DELTAS) - failed, reverse=True):
                if error <= bound(counts, delta):
                    break
                failed.add(delta)
        for delta in failed:
            failures[delta] += 1
    for delta in DELTAS:
        assert failures[delta] <= allowed(delta, FEWER)


@pytest.mark.parametrize("alike", [True, False])
def test_the_events_of_transfer_hold_at_every_episode(alike):
    """Each law on its own, with thresholds that learn from the other steps, whether these are like it or not."""
    H, episodes, small = 5, 18, 1e-9  # delta is small where the radii are read, so that no threshold is cut at 0
    laws = np.array([BIASED] * H if alike else [BIASED, NEARLY, COIN, NEARLY[::-1], BIASED[::-1]])  # the same from both states
    setting = ar.Setting(n_states=2, n_actions=1, horizon=H, initial_state=0)
    level = math.log((1 + 2 * (H - 2)) / small)
    rng, bound, largest = np.random.default_rng(3), TightBound(), np.full((FEWER, H - 1), -np.inf)
    for run in range(FEWER):
        states = np.zeros((episodes, H + 1), np.int64)
        states[:, 1:] = rng.random((episodes, H)) >= laws[:, 0]
        counts, n = ar.Counts(setting, transfer=True), np.zeros((H - 1, 2))  # of state 0
        for t in range(episodes):
            counts.add_episodes(states[t : t + 1], np.zeros((1, H), np.int64))
            radii = bound.radii(counts, small)[0]
            for h in np.flatnonzero(states[t, : H - 1] == 0):
                n[h, states[t, h + 1]] += 1
                visits = n[h].sum()
                kl = sum(k * math.log(k / visits / q) for k, q in zip(n[h], laws[h], strict=True) if k)
                psi = radii[counts.table.node_of[h, 0]] * visits - level
                largest[run, h] = max(largest[run, h], kl - psi)
    for delta in DELTAS:
        assert ((largest > math.log(1 / delta)).sum(axis=0) <= allowed(delta, FEWER)).all()

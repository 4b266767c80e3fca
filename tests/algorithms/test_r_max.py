"""R-MAX against its formulas in plain loops, its lemmas on models that are known, and its numbers on the chain.

It watches `docs/theory.md`, 22.1, 22.2, 22.3 and 22.4.
"""

import math

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms.r_max import RMax, level_of, samples_for

from ..helpers.explorers import advanced, counted, counts_of, loss_of, lower, played, truth
from ..helpers.problems import by_step, random_mdp


def slow_index(n, r, m):
    """Q and L (H, S, A) from n[h, s, a, x], or n[s, a, x] of all steps: r + p_hat V if n >= m, else H-h and r; r at the end."""
    H, S, A = r.shape
    Q, L, V, V_lo = np.zeros((H, S, A)), np.zeros((H, S, A)), np.zeros((H + 1, S)), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s in range(S):
            for a in range(A):
                seen = n[h, s, a] if n.ndim == 4 else n[s, a]
                Q[h, s, a], L[h, s, a] = (r[h, s, a] if h == H - 1 else H - h), r[h, s, a]
                if seen.sum() >= m and h < H - 1:
                    p_hat = seen / seen.sum()
                    Q[h, s, a], L[h, s, a] = min(H - h, r[h, s, a] + p_hat @ V[h + 1]), r[h, s, a] + p_hat @ V_lo[h + 1]
        V[h], V_lo[h] = Q[h].max(axis=1), L[h].max(axis=1)
    return Q, L


@pytest.mark.parametrize("stationary", [False, True])
def test_the_index_is_that_of_the_formulas(stationary):
    mdp, H, m = random_mdp(3, 2, seed=4), 4, 12
    setting, r = mdp.setting(H, stationary=stationary), np.random.default_rng(1).random((H, 3, 2))
    explorer, before = RMax(setting, r, samples=m), 0
    states, actions = played(mdp, setting, 400, seed=2)
    for upto in (0, 1, 20, 60, 400):
        explorer.tell(states[before:upto], actions[before:upto])
        n, before = counted(states[:upto], actions[:upto], setting), upto
        Q, L = slow_index(n, r, m)
        np.testing.assert_allclose(explorer.index, Q, rtol=1e-12)
        met = n.sum(axis=(-2, -1)) > 0  # a lower index is kept for states with data
        right = lower(explorer)[met] if not stationary else lower(explorer)[:, met]
        np.testing.assert_allclose(right, L[met] if not stationary else L[:, met], rtol=1e-12)
        best = explorer.recommendation
        for h, s in np.ndindex(H, 3):
            assert L[h, s, best[h, s]] == pytest.approx(L[h, s].max())


def meeting(P, policy, unknown):
    """The probability of meeting an unknown pair (h, s, a) under a policy, from state 0."""
    H, S = policy.shape
    V = np.zeros(S)
    for h in reversed(range(H)):
        V = np.array([1.0 if unknown[h, s, policy[h, s]] else P[h, s, policy[h, s]] @ V for s in range(S)])
    return V[0]


@pytest.mark.parametrize("stationary", [False, True])
def test_the_lemmas_hold_with_the_largest_error_of_known_laws_as_alpha(stationary):
    """V* - V^played <= 2 eps_1 + H P(unknown), and V* - V^recommendation <= U - L + 2 eps_1; both say something at the end."""
    H, S, A, informative = 4, 3, 2, 0
    for seed in range(20):
        mdp = random_mdp(S, A, seed=seed)
        setting, P = mdp.setting(H, stationary=stationary), by_step(mdp, H)
        explorer, rng = RMax(setting, mdp.reward, samples=150, seed=seed), np.random.default_rng(seed)
        for episodes in (100, 200, 400, 800, 1600, 3000):
            advanced(explorer, mdp, episodes, rng)
            n = np.broadcast_to(counts_of(explorer), (H, S, A, S))
            known = n.sum(axis=-1) >= 150
            error = np.abs(n / np.maximum(1, n.sum(axis=-1, keepdims=True)) - P).sum(axis=-1)
            known[-1] = True
            alpha = error[:-1][known[:-1]].max(initial=0.0)
            eps_1 = alpha * H * (H - 1) / 4
            policy = explorer.ask()
            gap = loss_of(mdp, mdp.reward, policy, setting)
            assert gap <= 2 * eps_1 + H * meeting(P, policy, ~known) + 1e-9
            own = explorer.own_epsilon - 2 * explorer.eps_1 + 2 * eps_1 if explorer.own_epsilon < H else H
            assert loss_of(mdp, mdp.reward, explorer.recommendation, setting) <= own + 1e-9
        informative += 0 < 2 * eps_1 + H * meeting(P, policy, ~known) < H / 2
    assert informative > 10


def test_a_mean_of_m_samples_stays_near_for_ever_with_no_loss_of_probability():
    """sup over n >= m, in 4000 runs of 400 draws: above the radius of m in at most a share of exactly the bound for m alone."""
    S, m, runs, rng = 2, 20, 4000, np.random.default_rng(3)
    failure = 0.3
    radius = math.sqrt(2 * math.log((2**S - 2) / failure) / m)
    draws = rng.random((runs, 400)) < 0.5
    means = np.cumsum(draws, axis=1) / np.arange(1, 401)
    errors = 2 * np.abs(means - 0.5)[:, m - 1 :]
    share, at_m = (errors.max(axis=1) > radius).mean(), (errors[:, 0] > radius).mean()
    assert share > 1.15 * at_m  # looking at all times does find more
    assert share <= failure
    assert (errors.max(axis=1) > radius / 1.5).mean() > failure  # and the test can fail


@pytest.mark.parametrize("p", [0.02, 0.3, 0.9])
def test_what_is_likely_happens_about_as_often(p):
    """X of K events happen: ever pK > 2 X + 2 log(1/delta) with probability at most delta; with 0.9 in place of 2, more often."""
    delta, most = 0.4, 500

    def ever(factor):
        share, late = np.zeros(most + 2), 0.0  # share[x]: the probability of x events so far, and that it was never late
        share[0] = 1.0
        for K in range(1, most + 1):
            share[1:] = (1 - p) * share[1:] + p * share[:-1]
            share[0] *= 1 - p
            out = factor * (np.arange(most + 2) + math.log(1 / delta)) < p * K
            late += share[out].sum()
            share[out] = 0.0
        return late

    assert ever(2.0) <= delta < ever(0.9)


def test_its_numbers():
    chain = ar.envs.double_chain()
    explorer = RMax(chain.setting(20), chain.reward, target=2.0)
    assert explorer.samples == 2_278_262
    assert explorer.mistake_bound(2.0) == pytest.approx(1.07e11, rel=5e-3)
    assert explorer.mistake_bound(4.0) < explorer.mistake_bound(2.0) / 2
    assert explorer.mistake_bound(0.9) == math.inf
    small = RMax(ar.Setting(n_states=2, n_actions=1, horizon=2, initial_state=0), [0, 0], target=0.5)
    for _ in range(162):
        small.tell([0, 0, 0], [0, 0])
    assert (small.samples, small.own_epsilon) == (163, pytest.approx(2.0))  # the cap
    small.tell([0, 0, 0], [0, 0])
    assert small.own_epsilon == pytest.approx(4 * small.eps_1 / 2)
    assert 0.2 < small.own_epsilon <= 0.25
    wide = RMax(chain.setting(20), 8 * chain.reward - 4, target=16.0, reward_range=(-4, 4))
    assert wide.samples == 2_278_262
    assert wide.mistake_bound(16.0) == explorer.mistake_bound(2.0)


def test_the_number_of_samples_is_the_smallest():
    setting = ar.Setting(n_states=5, n_actions=3, horizon=4, initial_state=0)
    m = samples_for(setting, 0.1, 0.2)
    assert math.sqrt(2 * level_of(setting, 0.2) / m) <= 0.1 < math.sqrt(2 * level_of(setting, 0.2) / (m - 1))


def test_the_optimum_is_found():
    mdp = ar.envs.river_swim(4)
    setting, rng = mdp.setting(12), np.random.default_rng(0)
    explorer = RMax(setting, mdp.reward, samples=20, seed=1)
    for _ in range(1500):
        explorer.tell(*mdp.rollout(explorer.ask(), seed=rng))
    assert loss_of(mdp, mdp.reward, explorer.ask(), setting) < 0.05 * truth(mdp, mdp.reward, setting).V[0, 0]


@pytest.mark.parametrize("bad", [{"samples": 0}, {"samples": 1.5}, {"target": 0.0}, {"scale": 0.5}])
def test_what_is_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        RMax(ar.Setting(n_states=2, n_actions=1, horizon=2, initial_state=0), [0, 1], **bad)

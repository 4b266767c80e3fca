"""Simulation: draws, and many walkers that have the law of as many single episodes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare

import anyreward as ar
from anyreward import kernels
from anyreward.environments.tabular import play as play_model

from ..helpers.problems import by_step, random_mdp, seeds


@given(st.integers(1, 60), st.integers(0, 5), seeds)
def test_a_draw_is_the_first_entry_above_u(width, begin, seed):
    rng = np.random.default_rng(seed)
    cumulative = np.cumsum(rng.dirichlet(np.ones(width)))
    cumulative[-1] = 1.0
    padded = np.concatenate([np.full(begin, -1.0), cumulative, [-1.0]])
    for u in (0.0, 1 - 2.0**-53, *rng.random(5), *cumulative[:-1], *np.nextafter(cumulative, 0)):
        expected = begin + np.searchsorted(cumulative, u, side="right")
        assert kernels.simulate.draw(padded, begin, width, u) == expected


def stretch(mdp, horizon, walkers, seed):
    """An explorer whose second stretch is that many walkers; what they did, and the policy they had."""
    setting = mdp.setting(horizon)
    explorer = ar.RFUCRL(setting, bounds="paper", replan="geometric", growth=walkers + 1.0, seed=seed)
    rng = np.random.default_rng(seed)
    play_model(explorer, mdp, rng, 1, goal=-1.0)
    before, policy = explorer.counts.copy(), explorer.ask()
    play_model(explorer, mdp, rng, walkers, goal=-1.0)
    assert explorer.episodes == 1 + walkers
    return flows(explorer.counts) - flows(before), policy


def flows(counts):
    """n[h, s, a, s'] with the start draws in front, as n[0, :, 0, s]; steps are shifted by one."""
    setting, c = counts.setting, counts.columns()
    n = np.zeros((setting.layers, setting.n_states, setting.n_actions, setting.n_states), np.int64)
    np.add.at(n, (c["h"] + 1, c["s"], c["a"], c["next"]), c["count"])
    return n


@pytest.mark.parametrize("walkers", [1, 2, 1_000, 10**6, 10**12])
@pytest.mark.parametrize("random_start", [False, True])
def test_no_walker_is_lost(walkers, random_start):
    """At every step exactly as many leave a state as came to it, by the action of the policy, to where one can go."""
    mdp = ar.envs.garnet(7, 3, 3, seed=0, horizon=4)
    if random_start:
        mdp = ar.TabularMDP(mdp.dense(), initial=np.full(7, 1 / 7))
    n, policy = stretch(mdp, 4, walkers, seed=1)
    assert n[0].sum() == walkers
    arrived = n[0].sum(axis=(0, 1))
    for h in range(4):
        leaving = n[h + 1].sum(axis=-1)
        np.testing.assert_array_equal(leaving[np.arange(7), policy[h]], arrived)
        assert leaving.sum() == walkers
        assert n[h + 1][mdp.dense()[h] == 0].sum() == 0
        arrived = n[h + 1].sum(axis=(0, 1))


def test_no_walker_is_lost_when_steps_are_pooled():
    mdp = ar.envs.garnet(6, 2, 3, seed=0)
    explorer = ar.RFUCRL(mdp.setting(5, stationary=True), bounds="paper", replan="geometric", growth=1e6)
    rng = np.random.default_rng(0)
    for episodes in (1, 10**5):
        play_model(explorer, mdp, rng, episodes, goal=-1.0)
    assert explorer.counts.transitions == 5 * (10**5 + 1)
    c = explorer.counts.columns()
    arrived = np.bincount(c["next"], c["count"], 6)  # starts included: every state is left as often as it is entered,
    left = np.bincount(c["s"][c["h"] >= 0], c["count"][c["h"] >= 0], 6)  # but for the last step of an episode
    assert (arrived >= left).all()
    assert (arrived - left).sum() == 10**5 + 1


@pytest.mark.parametrize("kind", ["sparse", "dense", "random start"])
def test_walkers_have_the_law_of_single_episodes(kind):
    """200,000 walkers against 200,000 episodes of the same policy, one by one: chi-square on (s_h, s_{h+1}) of each step.

    Five tables at level 2e-7 each: a false alarm in 1 of 10^6 seeds.
    """
    walkers, horizon = 200_000, 5
    if kind == "sparse":
        mdp = ar.envs.garnet(8, 3, 3, seed=3, horizon=horizon)
    else:
        mdp = random_mdp(20, 2, seed=3, random_start=kind == "random start")
    n, policy = stretch(mdp, horizon, walkers, seed=5)
    states, _ = mdp.rollout(policy, episodes=walkers, seed=6)
    for h in range(horizon):
        together = n[h + 1].sum(axis=1)
        single = np.zeros_like(together)
        np.add.at(single, (states[:, h], states[:, h + 1]), 1)
        table = np.stack([together.ravel(), single.ravel()])
        table = table[:, table.sum(axis=0) >= 20]
        if table.shape[1] > 1:
            assert chi2_contingency(table).pvalue > 2e-7


@pytest.mark.slow
def test_walkers_are_as_scattered_as_single_episodes():
    """Over 1,000 stretches of 41, Pearson's statistic of the last state has the mean and variance of a multinomial.

    For N draws from p on k cells they are k-1 and 2(k-1) + (sum 1/p - k^2 - 2k + 2)/N. Five sigma: 6e-7. With one action
    all stretches have the same policy. A sampler with right means but too little noise, or too much, would be found out.
    """
    mdp, N, k = random_mdp(4, 1, seed=8), 41, 4
    P = mdp.dense()[:, 0]
    p = np.linalg.matrix_power(P, 3)[0]
    variance = 2 * (k - 1) + ((1 / p).sum() - k**2 - 2 * k + 2) / N
    statistics = []
    for seed in range(1_000):
        n, _ = stretch(mdp, 3, N, seed=seed)
        seen = n[3].sum(axis=(0, 1))
        statistics.append(((seen - N * p) ** 2 / (N * p)).sum())
    assert abs(np.mean(statistics) - (k - 1)) < 5 * math.sqrt(variance / 1_000)


@pytest.mark.slow
@pytest.mark.parametrize("n", [10**6, 10**9, 10**12])
@pytest.mark.parametrize("p", [0.5, 0.03, 0.97, 1e-7, "25 / n", "40 / n"])  # by inversion below a mean of 30
def test_splitting_very_many(n, p):
    """Mean and variance of 8,000 binomial draws, five sigma each: a false alarm in 1 of 10^6 seeds for each case.

    Var(sample variance) = sigma^4 (2 + excess kurtosis) / N, with excess kurtosis (1 - 6 p q) / (n p q).
    """
    p = 25 / n if p == "25 / n" else 40 / n if p == "40 / n" else p
    rng, out, N = np.random.default_rng(int(math.log(n) * 1e6)), np.zeros(2, np.int64), 8_000
    law, draws = np.array([p, 1 - p]), np.empty(N)
    for i in range(N):
        kernels.simulate.split(n, law, rng, out)
        assert out.sum() == n
        draws[i] = out[0] - round(n * p)
    sigma2 = n * p * (1 - p)
    assert abs(draws.mean() + round(n * p) - n * p) < 5 * math.sqrt(sigma2 / N)
    assert abs(draws.var() / sigma2 - 1) < 5 * math.sqrt((2 + (1 - 6 * p * (1 - p)) / sigma2) / N)


def test_splitting_over_many_entries():
    """A multinomial as a chain of binomials: one draw of 10^7 over 200 entries, chi-square at 1e-7."""
    rng = np.random.default_rng(1)
    law, out = rng.dirichlet(np.ones(200)), np.zeros(200, np.int64)
    kernels.simulate.split(10**7, law, rng, out)
    assert out.sum() == 10**7
    likely = 10**7 * law > 20
    seen, expected = np.append(out[likely], out[~likely].sum()), np.append(law[likely], law[~likely].sum()) * 10**7
    assert chisquare(seen[expected > 0], expected[expected > 0]).pvalue > 1e-7


@pytest.mark.parametrize("law", [[1.0], [1.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.1] * 10, [1 - 1e-16, 1e-16]])
def test_splitting_conserves_and_respects_zero(law):
    law = np.array(law)
    rng, out = np.random.default_rng(0), np.full(len(law), -1)
    for walkers in (0, 1, 7, 10**15):
        kernels.simulate.split(walkers, law, rng, out)
        assert out.sum() == walkers
        assert (out >= 0).all()
        assert (out[law == 0] == 0).all()


def test_counting_ends_is_rolling_out():
    mdp = random_mdp(6, 2, seed=0, random_start=True)
    policy = np.random.default_rng(0).integers(0, 2, (4, 6))
    ends = np.zeros(6, np.int64)
    kernels.simulate.visits(mdp.model, policy, np.random.default_rng(3), 1_000, ends)
    states, _ = mdp.rollout(policy, episodes=1_000, seed=3)
    np.testing.assert_array_equal(ends, np.bincount(states[:, -1], minlength=6))


def test_steps_have_transitions_of_their_own():
    """State = step: each step leads to one state for certain, and walkers and episodes both go there."""
    P = np.zeros((3, 4, 1, 4))
    for h in range(3):
        P[h, :, 0, h + 1] = 1.0
    mdp = ar.TabularMDP(P)
    assert mdp.rollout(np.zeros((3, 4), int))[0].tolist() == [[0, 1, 2, 3]]
    n, _ = stretch(mdp, 3, 1_000, seed=0)
    assert [n[h + 1, h, 0, h + 1] for h in range(3)] == [1_000] * 3
    assert by_step(mdp, 2).shape == (2, 4, 1, 4)

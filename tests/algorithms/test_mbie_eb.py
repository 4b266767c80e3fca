"""MBIE-EB against its formulas in plain loops, and against the truth.

It watches `docs/theory.md`, 22.6.
"""

import math

import numpy as np
import pytest
from scipy.stats import binom

import anyreward as ar
from anyreward.algorithms.mbie_eb import MBIEEB

from ..helpers.explorers import FALSE_ALARM, FIXED_START, advanced, counted, counts_of, played, some, told, truth
from ..helpers.problems import random_mdp


def slow_index(n: np.ndarray, r: np.ndarray, delta: float, episodes: int, scale: float = 1.0) -> np.ndarray:
    """Q (H, S, A) from counts n[h, s, a, x], or n[s, a, x] of all steps together, and a reward (H, S, A).

    Q = min(H-h, r + p_hat V + (H-1-h) sqrt(L / (2n))), H-h without data; L = log(2 S A (H-1) m / delta), m = K or, pooled, K H.
    """
    H, S, A = r.shape
    m = episodes if n.ndim == 4 else episodes * H
    L = math.log(2 * S * A * max(1, H - 1) * m / delta)
    Q, V = np.zeros((H, S, A)), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s in range(S):
            for a in range(A):
                seen = n[h, s, a] if n.ndim == 4 else n[s, a]
                Q[h, s, a] = H - h
                if seen.sum() > 0:
                    bonus = scale * (H - 1 - h) * math.sqrt(L / (2 * seen.sum()))
                    Q[h, s, a] = min(H - h, r[h, s, a] + (seen / seen.sum()) @ V[h + 1] + bonus)
        V[h] = Q[h].max(axis=1)
    return Q


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("scale", [1.0, 0.3])
@pytest.mark.parametrize("H", [1, 3])
def test_the_index_is_that_of_the_formulas(stationary, scale, H):
    """Told episodes, few and many, in batches; at the end most of the index is below its cap, where it says something."""
    S, A, delta, budget, rng = 3, 2, 0.3, 6000, np.random.default_rng(1)
    mdp = ar.TabularMDP(rng.dirichlet(np.full(S, 0.5), (S, A) if stationary else (H, S, A)), initial=1)
    setting, r = mdp.setting(H, stationary=stationary), rng.random((H, S, A))
    explorer, before = MBIEEB(setting, r, budget=budget, delta=delta, scale=scale), 0
    states, actions = played(mdp, setting, budget, seed=2)
    for upto in (0, 1, 6, 40, 900, budget):
        explorer.tell(states[before:upto], actions[before:upto])
        right = slow_index(counted(states[:upto], actions[:upto], setting), r, delta, budget, scale)
        np.testing.assert_allclose(explorer.index, right, rtol=1e-9, atol=1e-12)
        before = upto
    if H > 1:
        assert (right < H - np.arange(H)[:, None, None] - 1e-6).mean() > 0.5


@pytest.mark.parametrize("stationary", [False, True])
def test_the_index_is_that_of_the_formulas_after_a_compiled_run(stationary):
    mdp, H, budget, delta, rng = random_mdp(4, 3, seed=8), 4, 5000, 0.3, np.random.default_rng(1)
    r = rng.random((H, 4, 3))
    explorer = MBIEEB(mdp.setting(H, stationary=stationary), r, budget=budget, delta=delta)
    for episodes in (3, 497, 4500):
        advanced(explorer, mdp, episodes, rng)
        np.testing.assert_allclose(explorer.index, slow_index(counts_of(explorer), r, delta, budget), rtol=1e-9)
        chosen = np.take_along_axis(explorer.index, explorer.ask()[..., None], axis=2)[..., 0]
        np.testing.assert_array_equal(chosen, explorer.index.max(axis=2))  # and the policy is greedy for it


def test_the_bonus_on_the_double_chain():
    """S = 31, A = 2, H = 20, delta = 0.1: N = 1178, and 19 sqrt(L / 200) after 100 visits at the first step."""
    mdp, K = ar.envs.double_chain(), 2_042_774
    by_step, pooled, scaled = (
        MBIEEB(mdp.setting(20, stationary=stationary), mdp.reward, budget=K, delta=0.1, scale=scale).formulas
        for stationary, scale in ((False, 1.0), (True, 1.0), (False, 0.5))
    )
    assert 19 * by_step.bonus(100.0)[0] == pytest.approx(6.6632, abs=5e-5)
    L = math.log(2 * 1178 * K / 0.1)
    assert 19 * by_step.bonus(100.0)[0] == pytest.approx(19 * math.sqrt(L / 200), rel=1e-12)
    assert pooled.bonus(100.0)[0] == pytest.approx(math.sqrt((L + math.log(20)) / 200), rel=1e-12)  # 20 times the samples
    assert scaled.bonus(100.0)[0] == pytest.approx(by_step.bonus(100.0)[0] / 2, rel=1e-12)


def failures(scale: float, runs: int, delta: float) -> tuple[int, int]:
    """In how many runs Q < Q* somewhere at some look, and in how many Q was below its cap in the end."""
    H, budget, wrong, informative = 3, 3000, 0, 0
    for seed in range(runs):
        stationary = seed % 2 == 1
        mdp = random_mdp(2, 2, seed=seed, H=None if stationary else H, random_start=seed % 3 == 0)
        setting, rng, failed = mdp.setting(H, stationary=stationary), np.random.default_rng(seed), False
        explorer = MBIEEB(setting, mdp.reward, budget=budget, delta=delta, seed=seed, scale=scale)
        Q = truth(mdp, mdp.reward, setting).Q
        for episodes in (1, 9, 90, 900, 2000):
            advanced(explorer, mdp, episodes, rng)
            failed |= bool((explorer.index < Q - 1e-9).any())
        wrong += failed
        informative += bool((explorer.index[0] < H - 0.05).any())
    return wrong, informative


def test_the_index_is_above_the_truth():
    """Q >= Q* at all looks in at least 1 - delta of the runs, delta = 1/2; without a bonus it is not. False alarm below 1e-7."""
    runs, delta = 30, 0.5
    wrong, informative = failures(1.0, runs, delta)
    most = binom.isf(FALSE_ALARM, runs, delta)
    assert wrong <= most
    assert informative >= runs / 2
    assert failures(1e-9, runs, delta)[0] > most


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_it_guarantees_no_policy(scale):
    explorer = told(some("mbie-eb", FIXED_START, scale=scale))
    assert explorer.own_epsilon is None
    assert explorer.recommendation is None
    assert explorer.heuristic == (scale != 1.0)


def test_few_episodes_are_bad():
    """The bound on the chain for epsilon = 2 and as many episodes as it asks for; smaller for larger epsilon, None if scaled."""
    mdp, K = ar.envs.double_chain(), 2_042_774
    explorer = MBIEEB(mdp.setting(20), mdp.reward, budget=K)
    L, level = math.log(2 * 1178 * K / 0.1), 31 * math.log(2) + math.log(4 * 1178 / 0.1)
    m = math.ceil((190 * (math.sqrt(L / 2) + math.sqrt(2 * level) / 2)) ** 2)
    assert m == pytest.approx(K, rel=1e-6)
    assert explorer.mistake_bound(2.0) == pytest.approx(40 * (1240 * m + math.log(40)), rel=1e-9)
    assert explorer.mistake_bound(4.0) < explorer.mistake_bound(2.0) / 7
    assert MBIEEB(mdp.setting(20), mdp.reward, budget=K, scale=0.5).mistake_bound(2.0) is None

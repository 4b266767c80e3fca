"""UBEV against its formulas in plain loops, and against the truth."""

import math

import numpy as np
import pytest
from scipy.stats import binom

import anyreward as ar
from anyreward.algorithms.ubev import UBEV

from ..helpers.explorers import FALSE_ALARM, advanced, counts_of, truth
from ..helpers.problems import random_mdp


def slow_index(n, r, delta, scale):
    H, S, A = r.shape
    Q, V = np.zeros((H, S, A)), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s, a in np.ndindex(S, A):
            seen = n[h, s, a] if n.ndim == 4 else n[s, a]
            times, left = seen.sum(), H - 1 - h
            Q[h, s, a] = r[h, s, a] + left
            if times:
                phi = math.sqrt((2 * math.log(math.log(max(times, math.e))) + math.log(18 * S * A * H / delta)) / times)
                Q[h, s, a] = r[h, s, a] + min(left, seen @ V[h + 1] / times + scale * left * phi)
        V[h] = Q[h].max(axis=1)
    return Q


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("scale", [1.0, 0.2])
def test_the_index_is_that_of_the_formulas(stationary, scale):
    mdp, H, rng = random_mdp(4, 2, seed=8), 3, np.random.default_rng(1)
    r = rng.random((H, 4, 2))
    explorer = UBEV(mdp.setting(H, stationary=stationary), r, scale=scale, delta=0.3)
    for episodes in (1, 30, 2000):
        advanced(explorer, mdp, episodes, rng)
        np.testing.assert_allclose(explorer.index, slow_index(counts_of(explorer), r, 0.3, scale), rtol=1e-9)
        chosen = np.take_along_axis(explorer.index, explorer.ask()[..., None], axis=2)[..., 0]
        np.testing.assert_array_equal(chosen, explorer.index.max(axis=2))


def test_its_numbers():
    bonus = UBEV(ar.envs.double_chain().setting(20), np.zeros(31)).formulas.bonus
    for n, phi in ((1.0, 3.50939), (100.0, 0.392048), (1e4, 0.0409347)):
        assert bonus(n)[0] == pytest.approx(phi, rel=2e-6)


def test_the_bonus_covers_a_mean_at_all_times():
    """One law and one function: p V <= p_hat V + phi(n) for all n <= 2000 at once, but for a share delta/9 of the runs."""
    runs, rng, delta = 3000, np.random.default_rng(0), 0.9
    explorer = UBEV(ar.Setting(n_states=1, n_actions=1, horizon=2, initial_state=0), [0.0], delta=delta)
    n = np.arange(1, 2001)
    level = explorer.formulas.level - math.log(2)  # one law: log(9 H / delta) with H = 1
    phi = np.sqrt((2 * np.log(np.log(np.maximum(n, math.e))) + level) / n)
    low = (np.cumsum(rng.random((runs, 2000)) < 0.5, axis=1) / n + phi < 0.5).any(axis=1).sum()
    assert low <= binom.isf(FALSE_ALARM, runs, delta / 9)
    less = (np.cumsum(rng.random((runs, 2000)) < 0.5, axis=1) / n + phi / 3 < 0.5).any(axis=1).sum()
    assert less > binom.isf(FALSE_ALARM, runs, delta / 9)


def test_it_finds_what_pays_and_claims_nothing_of_a_policy():
    mdp = ar.envs.river_swim(4)
    explorer = advanced(UBEV(mdp.setting(10), mdp.reward, scale=0.05), mdp, 3000, np.random.default_rng(0))
    best = truth(mdp, mdp.reward, explorer.setting).V[0, 0]
    assert ar.evaluate_policy(mdp, explorer.ask(), mdp.reward, 10).V[0, 0] > 0.9 * best
    assert explorer.own_epsilon is None
    assert explorer.recommendation is None
    assert explorer.mistake_bound(1.0) is None

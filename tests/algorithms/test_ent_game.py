"""EntGame: its index, a problem whose largest entropy is known, and the bound on everybody's entropy."""

import math

import numpy as np
import pytest
from scipy.stats import binom

import anyreward as ar
from anyreward.algorithms.ent_game import EntGame

from ..helpers.explorers import FALSE_ALARM, advanced, counts_of
from ..helpers.problems import random_mdp


def test_it_plays_for_surprise():
    mdp, H, S, A = random_mdp(4, 2, seed=8), 3, 4, 2
    explorer = advanced(EntGame(mdp.setting(H)), mdp, 200, np.random.default_rng(1))
    n, t = counts_of(explorer), 200
    V, policy = np.zeros(S), explorer.ask()
    for h in reversed(range(H)):
        visits = n[h].sum(axis=-1)
        Q = np.log((t + S * A) / (visits + 1)) + (n[h] / np.maximum(1, visits)[..., None]) @ V
        Q[visits == 0] = np.inf
        np.testing.assert_allclose(np.take_along_axis(Q, policy[h][:, None], axis=1)[:, 0], Q.max(axis=1), rtol=1e-12)
        V = np.where(np.isinf(Q.max(axis=1)), 0.0, Q.max(axis=1))


def test_a_problem_whose_largest_entropy_is_known():
    """Every action leads to the state of its number: log 3 + log 9."""
    P = np.zeros((3, 3, 3))
    P[:, [0, 1, 2], [0, 1, 2]] = 1
    mdp = ar.TabularMDP(P)
    explorer = EntGame(mdp.setting(2), max_successors=1)
    bounds = []
    for _ in range(5):
        advanced(explorer, mdp, 180, np.random.default_rng(explorer.episodes))
        bounds.append(explorer.entropy_bound)
    first, second = explorer.counts.n()
    assert np.ptp(first[0]) <= 1
    assert np.ptp(second) <= 2
    assert explorer.entropy == pytest.approx(3.29584, abs=1e-4)
    assert 3.29583 <= bounds[-1] <= bounds[0]
    assert bounds[-1] < 3.4


def largest_entropy(mdp, H):
    """The largest sum of entropies over the mixtures of policies, from below: Frank-Wolfe with the true model."""
    P, d = mdp.dense(), None
    for k in range(400):
        r = np.ones((H, *P.shape[:2])) if d is None else -np.log(d + 1e-9)
        policy, at = ar.backward_induction(mdp, r, H).policy, mdp.initial
        now = np.zeros_like(r)
        for h in range(H):
            now[h, np.arange(len(at)), policy[h]] = at
            at = np.einsum("sa,sax->x", now[h], P)
        d = now if d is None else d + (now - d) / (k + 1)
    return -np.sum(d * np.log(np.where(d > 0, d, 1)))


@pytest.mark.parametrize("stationary", [False, True])
def test_nobody_has_a_larger_entropy(stationary):
    """At all looks, in at least 1 - delta of the runs; the bound is below that without data in the end."""
    runs, delta, H, wrong, informative = 20, 0.5, 3, 0, 0
    for seed in range(runs):
        mdp, rng = random_mdp(2, 2, seed=seed), np.random.default_rng(seed)
        explorer, failed = EntGame(mdp.setting(H, stationary=stationary), delta=delta, seed=seed), False
        most = largest_entropy(mdp, H)
        for episodes in (1, 9, 90, 400):
            advanced(explorer, mdp, episodes, rng)
            failed |= explorer.entropy_bound < most - 1e-9
        wrong += failed
        informative += explorer.entropy_bound < H * math.log(4) - 0.05
    assert wrong <= binom.isf(FALSE_ALARM, runs, delta)
    assert informative > runs / 2


def test_it_says_nothing_before_there_are_data():
    explorer = EntGame(ar.Setting(n_states=2, n_actions=2, horizon=3, initial_state=0))
    assert explorer.entropy is None
    assert explorer.entropy_bound == pytest.approx(3 * math.log(4))
    with pytest.raises(ValueError, match="scale"):
        EntGame(explorer.setting, scale=0.1)

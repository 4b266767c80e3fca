"""Action elimination of Even-Dar, Mannor and Mansour: which actions it drops and when it stops."""

import numpy as np
import pytest
from scipy.stats import binom

import anyreward as ar
from anyreward.algorithms import EvenDar
from anyreward.environments.tabular import play as play_model

from ..helpers.explorers import FALSE_ALARM
from ..helpers.problems import random_mdp


@pytest.mark.slow
def test_even_dar_eliminates_bad_actions_and_never_the_best():
    """Over 40 runs of delta = 1/10; false alarm below 1e-7. And it does eliminate."""
    runs, wrong, out = 40, 0, 0
    for seed in range(runs):
        mdp, H = random_mdp(2, 2, seed=seed), 3
        rng, setting = np.random.default_rng(seed), mdp.setting(H, (1.0, 0.8)[seed % 2], seed % 3 == 0)
        explorer = EvenDar(setting, mdp.reward, seed=seed)
        best = ar.backward_induction(mdp, mdp.reward, H, setting.discount)
        failed = False
        while explorer.episodes < 3000:
            play_model(explorer, mdp, rng, 1000, 0.0)
            left = explorer.index >= explorer.lower_index.max(axis=2, keepdims=True)
            failed |= not np.take_along_axis(left, best.policy[..., None], axis=2).all()
        wrong += failed
        out += (~left).sum()
    assert wrong <= binom.isf(FALSE_ALARM, runs, 0.1)
    assert out > runs


def test_even_dar_with_a_state_that_cannot_be_reached_never_stops():
    """Its width there stays sigma: own_epsilon says so instead of a number that would be false."""
    P = np.zeros((3, 1, 3))
    P[:, 0, 0] = 1
    explorer = EvenDar(ar.TabularMDP(P).setting(3), [0.0, 0.0, 1.0])
    explorer.tell(np.zeros((5000, 4), int), np.zeros((5000, 3), int))
    assert explorer.own_epsilon >= 3 * 1.0
    assert (explorer.index - explorer.lower_index)[0, 0, 0] < 0.5

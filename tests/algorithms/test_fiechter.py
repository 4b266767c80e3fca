"""Fiechter's algorithm: its rounding, its stopping rule, and which of its two variants guarantees something."""

import math

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms import Fiechter
from anyreward.environments.tabular import play as play_model

from ..helpers import reference
from ..helpers import rivals as slow
from ..helpers.explorers import FIXED_START, played, told
from ..helpers.problems import random_mdp


@pytest.mark.parametrize(("stationary", "discount"), [(False, 1.0), (True, 0.9)])
def test_fiechter_with_a_fine_grain_is_rf_ucrl(stationary, discount):
    mdp = random_mdp(3, 2, seed=4)
    setting = mdp.setting(4, discount, stationary)
    states, actions = played(mdp, setting, 5000, seed=2)
    fine, paper = Fiechter(setting, eta=1e-9), ar.RFUCRL(setting, bounds="paper", replan="every")
    fine.tell(states, actions)
    paper.tell(states, actions)
    np.testing.assert_allclose(fine.index, paper.index, rtol=0, atol=1e-8)
    assert paper.error_bound < 0.9 * setting.discount * setting.sigma[-2]
    assert fine.own_epsilon == pytest.approx(2 * paper.error_bound, rel=1e-6)
    starts, n = reference.dense_counts(states, actions, setting)
    np.testing.assert_allclose(fine.index, np.array(reference.rf_ucrl(starts, n, setting, 0.1)[0], float), rtol=0, atol=1e-8)


def test_the_published_index_of_fiechter_is_below_a_true_error():
    """Why it has no guarantee: its bonus knows one function, not all. 600 equally likely successors, 10^6 visits of the pair."""
    S, N = 600, 10**6
    setting = ar.Setting(n_states=S, n_actions=1, horizon=2, initial_state=0, stationary=True)
    published, repaired = Fiechter(setting, variant="published", eta=1e-6), Fiechter(setting, eta=1e-6)
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(N, np.full(S, 1 / S))
    worst = np.abs(drawn / N - 1 / S).sum() / 2  # the error for a reward of 1 in the states that were seen too often
    bonus = math.sqrt(2 * math.log(2 * S * 2 / 0.1) / N)
    assert bonus < worst < math.sqrt(2 * slow.beta(N, S, S, 0.1) / N)
    assert published.own_epsilon is None
    assert repaired.own_epsilon is not None


def test_fiechter_stops_where_its_rule_says():
    """eta = epsilon / (8 H): F_0 <= 3 H implies an own guarantee of at most epsilon, and one grain more does not stop."""
    epsilon, H = 0.5, 2
    setting = ar.Setting(n_states=2, n_actions=1, horizon=H, initial_state=0)
    explorer = Fiechter(setting, eta=slow.fiechter_eta(epsilon, H))
    threshold, stopped = slow.fiechter_threshold(epsilon, explorer.eta, H), None
    assert threshold == 3 * H
    for t in range(1, 900):
        explorer.tell([0, 1, 1], [0, 0])
        if stopped is None and np.rint(explorer.index[0, 0, 0] / explorer.eta) <= threshold:
            stopped = t
            assert explorer.own_epsilon <= epsilon
    assert stopped is not None
    assert stopped > 361


def test_published_fiechter_has_no_guarantee():
    assert told(Fiechter(FIXED_START, variant="published")).own_epsilon is None


def test_fiechter_stops_by_a_threshold_in_whole_numbers_that_suits_its_target():
    """With eta = epsilon / (8H) the threshold is 3H, and stopping there certifies epsilon."""
    mdp, H, epsilon = random_mdp(2, 2, seed=0), 2, 1.0
    atlas = ar.explore(mdp, H, epsilon, algorithm="fiechter", stop="own", max_episodes=20_000)
    assert atlas.source["own"]["met"]
    explorer, rng = ar.ALGORITHMS["fiechter"](mdp.setting(H), eta=epsilon / (8 * H)), np.random.default_rng(0)
    assert not explorer.stops(epsilon)
    while not explorer.stops(epsilon):
        play_model(explorer, mdp, rng, 1, -1.0)
    assert round(explorer.index[0, mdp.initial_state].max() / explorer.eta) <= 3 * H
    assert explorer.own_epsilon <= epsilon
    assert abs(explorer.episodes - atlas.episodes) <= 0.2 * atlas.episodes

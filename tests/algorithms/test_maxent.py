"""MaxEnt: its gradient, and that it spreads over states."""

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms.maxent import MaxEnt

from ..helpers.explorers import advanced


def test_it_plays_for_the_gradient_of_the_entropy():
    setting = ar.Setting(n_states=3, n_actions=1, horizon=10, initial_state=0)
    explorer = MaxEnt(setting, sigma=0.01)
    explorer.tell([0, 2, 2, 2, 2, 2, 1, 1, 1, 1, 0], [0] * 10)  # frequencies 0.1, 0.4, 0.5
    gains = explorer.pays()[0, :, 0]
    assert gains[0] - gains[2] == pytest.approx(1.29818 + 0.30705, abs=2e-5)
    assert explorer.pays().min() >= 0
    unseen = MaxEnt(setting, sigma=0.01).pays()[0, 0, 0]
    assert unseen - gains[0] == pytest.approx(4.60517 - 1.29818, abs=2e-5)


def test_it_spreads_over_states():
    """More evenly than uniform actions do in expectation."""
    mdp, H, episodes = ar.envs.double_chain(7), 8, 1500
    explorer = advanced(MaxEnt(mdp.setting(H), seed=1), mdp, episodes, np.random.default_rng(0))
    walk, at = mdp.dense().mean(axis=1), [mdp.initial]
    for _ in range(H - 1):
        at.append(at[-1] @ walk)
    entropies = [-np.sum(d * np.log(d)) for d in (explorer.counts.state_visits() / (episodes * H), np.mean(at, axis=0))]
    assert entropies[0] > entropies[1] + 0.03

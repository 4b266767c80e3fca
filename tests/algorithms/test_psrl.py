"""PSRL: what it draws, and that it finds what pays."""

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms.psrl import PSRL

from ..helpers.explorers import advanced, loss_of


def test_it_draws_from_the_posterior():
    """One step that matters: which of two arms it plays is as likely as a Beta posterior says that it is better."""
    P = np.zeros((3, 2, 3))
    P[0, 0], P[0, 1], P[1:, :, 1:] = (0, 0.7, 0.3), (0, 0.4, 0.6), np.eye(2)[:, None]
    mdp, plays = ar.TabularMDP(P, reward=[[0, 0], [1, 1], [0, 0]]), []
    states = np.array([[0, 1, 1]] * 4 + [[0, 2, 2]] * 2 + [[0, 1, 1]] * 1 + [[0, 2, 2]] * 2)
    actions = np.array([[0, 0]] * 6 + [[1, 0]] * 3)
    for seed in range(600):
        explorer = PSRL(mdp.setting(2), mdp.reward, seed=seed, prior=1.0)
        explorer.tell(states, actions)
        plays.append(explorer.ask()[0, 0])
    p = np.random.default_rng(0).dirichlet
    draws = p([1.0, 5, 3], 40_000)[:, 1] > p([1.0, 2, 3], 40_000)[:, 1]
    assert np.mean(plays) == pytest.approx(1 - draws.mean(), abs=5.5 * 0.5 / np.sqrt(600))


def test_it_finds_what_pays_and_draws_anew_for_every_episode():
    mdp = ar.envs.river_swim(4)
    explorer = advanced(PSRL(mdp.setting(10), mdp.reward, seed=2), mdp, 400, np.random.default_rng(0))
    assert loss_of(mdp, mdp.reward, explorer.ask(), explorer.setting) < 0.2
    assert explorer._planned_at == explorer.episodes == 400
    with pytest.raises(ValueError, match="numbers for each episode"):
        PSRL(ar.Setting(n_states=5000, n_actions=2, horizon=2, initial_state=0), np.zeros(5000))

"""Optimistic Q-learning against a replay of its updates in plain loops."""

import itertools

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms import OptimisticQLearning

from ..helpers import rivals as slow
from ..helpers.explorers import played
from ..helpers.problems import random_mdp


@pytest.mark.parametrize("sharp", [False, True])
@pytest.mark.parametrize("stationary", [False, True])
def test_q_learning_replays_in_the_order_of_the_episodes(sharp, stationary):
    """By step, in a stationary setting too; below its first value, so that the order matters."""
    mdp, H, S, A, K, delta = random_mdp(3, 2, seed=2), 3, 3, 2, 3000, 0.3
    setting, r = mdp.setting(H, stationary=stationary), np.random.default_rng(1).random((H, S, A))
    explorer = OptimisticQLearning(setting, r, budget=K, sharp=sharp, delta=delta)
    states, actions = played(mdp, setting, K, seed=5)
    for begin, end in itertools.pairwise((0, 1, 2, 30, 1000, K)):
        explorer.tell(states[begin:end], actions[begin:end])
        Q, _ = slow.opt_qlearning(zip(states[:end], actions[:end], strict=True), r, H, S, A, K * H, delta, sharp)
        np.testing.assert_allclose(explorer.index, Q, rtol=1e-9)
    backwards, _ = slow.opt_qlearning(zip(states[::-1], actions[::-1], strict=True), r, H, S, A, K * H, delta, sharp)
    assert abs(backwards - Q).max() > 1e-6
    assert Q[-1].max() < (1 + 1e-9 if sharp else H)


def test_q_learning_forgets_where_it_began_at_the_first_visit():
    """alpha_1 = 1."""
    setting = ar.Setting(n_states=2, n_actions=1, horizon=1, initial_state=0)
    explorer = OptimisticQLearning(setting, [0.25, 0.0], budget=1, sharp=True)
    explorer.tell([0, 1], [0])
    assert explorer.index[0, 0, 0] == pytest.approx(0.25, abs=1e-15)
    assert explorer.index[0, 1, 0] == 1.0

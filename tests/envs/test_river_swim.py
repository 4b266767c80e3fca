"""RiverSwim: its numbers, and that one has to swim."""

import numpy as np
import pytest

import anyreward as ar


def test_the_numbers():
    mdp = ar.envs.river_swim(4)
    left = [[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
    right = [[0.4, 0.6, 0, 0], [0.05, 0.6, 0.35, 0], [0, 0.05, 0.6, 0.35], [0, 0, 0.4, 0.6]]
    np.testing.assert_allclose(mdp.dense(), np.stack([left, right], axis=1))
    np.testing.assert_array_equal(mdp.reward, [[0.005, 0], [0, 0], [0, 0], [0, 1]])
    np.testing.assert_allclose(ar.envs.river_swim(2).dense()[:, 1], [[0.4, 0.6], [0.4, 0.6]])


def test_it_pays_to_swim_if_there_is_time():
    mdp = ar.envs.river_swim()
    long, short = (ar.backward_induction(mdp, mdp.reward, H) for H in (20, 5))
    assert (long.policy[0] == 1).all()
    assert short.policy[0, 0] == 0  # the other bank is five steps away
    assert short.V[0, 0] == pytest.approx(5 * 0.005)

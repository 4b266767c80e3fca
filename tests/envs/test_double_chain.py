"""The double chain, cell by cell."""

import numpy as np
import pytest

import anyreward as ar


def test_double_chain():
    mdp = ar.envs.double_chain(length=31, fail_prob=0.1)
    P = mdp.dense()
    assert (mdp.n_states, mdp.n_actions, mdp.initial_state) == (31, 2, 15)
    for s in range(31):
        left, right = max(s - 1, 0), min(s + 1, 30)
        assert P[s, 0, left] == pytest.approx(0.9 if left != right else 1.0)
        assert P[s, 0, right] == pytest.approx(0.1)
        assert P[s, 1, right] == pytest.approx(0.9)
        assert P[s, 1, left] == pytest.approx(0.1)
    assert mdp.reward[30].tolist() == [1.0, 1.0]
    assert mdp.reward[:30].sum() == 0


def test_double_chain_of_the_authors():
    """1 for staying at the right end: with probability 0.95 when moving right, 0.05 when moving left."""
    mdp = ar.envs.double_chain(fail_prob=0.05, variant="authors")
    assert mdp.reward[-1].tolist() == pytest.approx([0.05, 0.95])
    np.testing.assert_array_equal(mdp.dense(), ar.envs.double_chain(fail_prob=0.05).dense())


@pytest.mark.parametrize(("length", "middle"), [(2, 0), (3, 1), (4, 1), (5, 2)])
def test_the_middle_of_a_chain(length, middle):
    assert ar.envs.double_chain(length).initial_state == middle

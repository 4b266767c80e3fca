"""Garnets: random models with a given number of successors."""

import numpy as np
import pytest

import anyreward as ar


@pytest.mark.parametrize("horizon", [None, 3])
def test_garnet(horizon):
    mdp = ar.envs.garnet(8, 2, 3, seed=5, horizon=horizon)
    P = mdp.dense()
    assert P.shape == ((8, 2, 8) if horizon is None else (3, 8, 2, 8))
    assert (np.count_nonzero(P, axis=-1) == 3).all()
    np.testing.assert_array_equal(P, ar.envs.garnet(8, 2, 3, seed=5, horizon=horizon).dense())
    assert (ar.envs.garnet(8, 2, 3, seed=6, horizon=horizon).dense() != P).any()

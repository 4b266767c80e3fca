"""UCRL2: how it counts time."""

import numpy as np
import pytest

import anyreward as ar

from ..helpers import rivals as slow


@pytest.mark.parametrize("stationary", [False, True])
def test_ucrl2_counts_its_transitions_from_1(stationary):
    """After one episode of H = 3 steps t is 4, for the laws of pairs and for that of the start."""
    S, A, delta = 5, 2, 0.2
    setting = ar.Setting(n_states=S, n_actions=A, horizon=3, stationary=stationary)
    explorer = ar.ALGORITHMS["ucrl2"](setting, np.zeros(S), delta=delta)
    explorer.tell([0, 1, 2, 3], [0, 1, 0])
    n, radius = explorer.counts.table.n, explorer._values.bound_arrays.radius
    assert n.sum() == 4  # each of 3 pairs once, and the start
    np.testing.assert_allclose(radius[n > 0], slow.ucrl2_radius(1, S, A, 4, delta), rtol=1e-12)

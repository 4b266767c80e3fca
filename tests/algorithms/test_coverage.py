"""Coverage: the linear program on the chain, and that it fills what is missing."""

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms.coverage import Coverage, fewest_episodes

from ..helpers.explorers import advanced


def test_how_few_episodes_cover_the_double_chain():
    """One visit of each pair that can be reached before the last step, and W = the largest probability of its state."""
    mdp, H = ar.envs.double_chain(), 20
    W = np.zeros((H, 31))
    for h, s in np.ndindex(H - 1, 31):
        reward = np.zeros((H, 31, 2))
        reward[h, s] = 1.0
        W[h, s] = ar.backward_induction(mdp, reward, H).V[0, 15]
    assert (W > 0).sum() == 190
    both = np.repeat(W[..., None], 2, axis=-1)
    assert fewest_episodes(mdp, both > 0) == pytest.approx(103.92, abs=5e-3)
    assert fewest_episodes(mdp, both) == pytest.approx(30.80, abs=5e-3)


def test_what_cannot_be_reached_takes_for_ever():
    assert fewest_episodes(ar.envs.double_chain(3), np.ones((2, 3, 2))) == np.inf
    assert fewest_episodes(ar.TabularMDP(np.ones((1, 4, 1))), np.ones((3, 1, 4))) == pytest.approx(4)


def test_it_fills_what_is_missing():
    mdp, H, least = ar.envs.double_chain(5), 4, 20
    explorer = advanced(Coverage(mdp.setting(H), least=least, seed=1), mdp, 700, np.random.default_rng(0))
    n = explorer.counts.n()
    assert n[n.sum(axis=2) > 0].min() >= least
    assert fewest_episodes(mdp, least * (n > 0)) < 700
    with pytest.raises(ValueError, match="least is 0"):
        Coverage(mdp.setting(H), least=0)

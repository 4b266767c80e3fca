"""Information of a draw: the closed form against a simulation, and as a reward against dense arrays."""

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms.info_gain import InfoGain, information

from ..helpers.explorers import counted, played
from ..helpers.problems import random_mdp


def test_its_numbers():
    for alpha, value in (((1, 1), 0.193147), ((2, 1), 0.136514), ((91, 11), 0.0048268)):
        assert information(np.array(alpha, float)) == pytest.approx(value, abs=5e-7)
    assert information(np.array([91.0, 11.0])) == pytest.approx(1 / (2 * 102), rel=0.02)


def test_it_is_the_mutual_information_of_law_and_draw():
    """E KL(p, m) over p drawn from the posterior; the standard error is below 0.001."""
    alpha, rng = np.array([2.0, 0.5, 1.0]), np.random.default_rng(0)
    p, m = rng.dirichlet(alpha, 200_000), alpha / alpha.sum()
    gains = (p * np.log(np.maximum(p, 1e-300) / m)).sum(axis=1)
    assert information(alpha) == pytest.approx(gains.mean(), abs=0.005)


@pytest.mark.parametrize("stationary", [False, True])
def test_it_pays_for_the_information_of_every_pair(stationary):
    mdp = random_mdp(4, 2, seed=1)
    setting = mdp.setting(3, stationary=stationary)
    explorer, (states, actions) = InfoGain(setting), played(mdp, setting, 30, seed=1)
    explorer.tell(states, actions)
    n = counted(states, actions, setting)
    np.testing.assert_allclose(explorer.pays(), information((n[None] if stationary else n) + 0.25), rtol=1e-9, atol=1e-12)
    model, r = explorer.counts.model(), np.broadcast_to(explorer.pays(), (3, 4, 2))
    best = ar.backward_induction(model, r, 3).V[0, 0]
    assert ar.evaluate_policy(model, explorer.ask(), r, 3).V[0, 0] == pytest.approx(best, rel=1e-6)

"""Empowerment: capacities of channels that are known, and as a reward."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import anyreward as ar
from anyreward.algorithms.empowerment import Empowerment, capacity

from ..helpers.explorers import counted, played
from ..helpers.problems import random_mdp


def test_its_numbers():
    chain = ar.envs.double_chain()
    P = chain.dense()[1:-1]
    np.testing.assert_allclose(capacity(P), 0.368064, atol=5e-7)
    assert capacity(np.array([[1.0, 0.0], [0.5, 0.5]])) == pytest.approx(0.223144, abs=5e-7)
    assert capacity(np.eye(5)) == pytest.approx(math.log(5), abs=1e-6)
    assert capacity(np.eye(5), np.array([True, True, False, False, False])) == pytest.approx(math.log(2), abs=1e-6)
    assert capacity(np.array([[0.2, 0.8]])) == 0.0


def test_it_is_the_largest_information_over_all_inputs():
    for p in np.random.default_rng(0).dirichlet(np.ones(4), (6, 2)):

        def information(x, p=p):
            mixed = (1 - x) * p[0] + x * p[1]
            return (1 - x) * p[0] @ np.log(p[0] / mixed) + x * p[1] @ np.log(p[1] / mixed)

        best = minimize_scalar(lambda x, f=information: -f(x), bounds=(0, 1), method="bounded", options={"xatol": 1e-10})
        assert capacity(p) == pytest.approx(-best.fun, abs=2e-7)


@pytest.mark.parametrize("stationary", [False, True])
def test_it_pays_for_the_capacity_of_a_state(stationary):
    mdp, S = random_mdp(4, 2, seed=1), 4
    setting = mdp.setting(3, stationary=stationary)
    explorer, (states, actions) = Empowerment(setting), played(mdp, setting, 30, seed=1)
    explorer.tell(states, actions)
    n = counted(states, actions, setting)
    alpha = (n[None] if stationary else n) + 1 / S
    right = np.array([[capacity(p) for p in step] for step in alpha / alpha.sum(axis=-1, keepdims=True)])
    np.testing.assert_allclose(explorer.pays(), np.broadcast_to(right[..., None], explorer.pays().shape), atol=1.1e-3)
    assert right.max() > 0.05
    model, r = explorer.counts.model(), np.broadcast_to(explorer.pays(), (3, 4, 2))
    best = ar.backward_induction(model, r, 3).V[0, 0]
    assert ar.evaluate_policy(model, explorer.ask(), r, 3).V[0, 0] == pytest.approx(best, rel=1e-6)


def test_too_large_problems_are_refused():
    with pytest.raises(ValueError, match="means of all laws"):
        Empowerment(ar.Setting(n_states=5000, n_actions=2, horizon=2, initial_state=0))

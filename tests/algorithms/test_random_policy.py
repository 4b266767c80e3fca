"""Uniform actions: their law, and that nothing is planned for them."""

import numpy as np
import pytest
from scipy.stats import chi2

import anyreward as ar
from anyreward.algorithms import Generative, RandomPolicy

from ..helpers.explorers import FALSE_ALARM, advanced, moves
from ..helpers.problems import random_mdp

# --- Uniform actions ---


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
def test_random_actions_are_uniform_and_independent(compiled):
    """Every action equally likely at each (h, s), whatever was played at the step before. False alarm below 1e-7 a statistic."""
    mdp, H, A, N = random_mdp(2, 3, seed=0), 3, 3, 6000
    explorer, rng = RandomPolicy(mdp.setting(H), seed=4), np.random.default_rng(1)
    if compiled:
        n = moves(advanced(explorer, mdp, N, rng)).sum(axis=3)
    else:
        n, pairs = np.zeros((H, 2, A)), np.zeros((A, A))
        for _ in range(N):
            states, actions = (x[0] for x in mdp.rollout(explorer.ask(), seed=rng))
            explorer.tell(states, actions)
            n[np.arange(H), states[:-1], actions] += 1
            pairs[actions[0], actions[1]] += 1
        assert ((pairs - N / 9) ** 2 / (N / 9)).sum() < chi2.isf(FALSE_ALARM, 8)
    expected = n.sum(axis=2, keepdims=True) / A
    reached = expected > 0
    assert (((n - expected) ** 2 / np.where(reached, expected, 1)).sum(axis=2) < chi2.isf(FALSE_ALARM, 2)).all()
    assert n.sum() == N * H


def test_random_policies_change_from_episode_to_episode_and_with_the_seed():
    setting = ar.Setting(n_states=9, n_actions=4, horizon=5, initial_state=0)
    one, other = RandomPolicy(setting, seed=0), RandomPolicy(setting, seed=1)
    first = one.ask()
    assert (first != other.ask()).mean() > 0.5
    one.tell(np.zeros(6, int), np.zeros(5, int))
    assert (first != one.ask()).mean() > 0.5


@pytest.mark.parametrize("kind", [RandomPolicy, Generative])
def test_it_does_not_plan(kind):
    for option in ({"replan": "every"}, {"ties": "first"}):
        with pytest.raises(ValueError, match=next(iter(option))):
            kind(ar.Setting(n_states=2, n_actions=2, horizon=2), **option)
    explorer = advanced(kind(random_mdp(2, 2, 0).setting(2)), random_mdp(2, 2, 0), 50, np.random.default_rng(0))
    assert explorer.own_epsilon is None
    assert explorer.recommendation is None
    assert explorer.error_bound <= 2

"""Known models: what is kept of them, what is simulated from them, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

import anyreward as ar

from ..helpers.problems import by_step, random_mdp, seeds

TWO = np.array([[[0.25, 0.75], [1.0, 0.0]], [[0.0, 1.0], [0.5, 0.5]]])  # (S, A, S)


@given(st.integers(1, 6), st.integers(1, 3), st.none() | st.integers(1, 3), seeds)
def test_dense_gives_back_what_was_given(S, A, H, seed):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(S), (S, A) if H is None else (H, S, A))
    P[P < 0.1] = 0
    P[..., 0] += 1 - P.sum(axis=-1)
    mdp = ar.TabularMDP(P)
    np.testing.assert_allclose(mdp.dense(), P, atol=1e-15)
    assert (mdp.n_states, mdp.n_actions, mdp.n_steps) == (S, A, H)


@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 5), seeds)
def test_padded_lists_may_repeat_a_successor_and_pad_anywhere(S, A, K, seed):
    rng = np.random.default_rng(seed)
    successors, probabilities = rng.integers(0, S, (S, A, K)), rng.random((S, A, K)) + 0.01
    probabilities[rng.random((S, A, K)) < 0.4] = 0
    probabilities[..., rng.integers(0, K)] += 0.5
    probabilities /= probabilities.sum(axis=-1, keepdims=True)
    expected = np.zeros((S, A, S))
    for s, a, k in np.ndindex(S, A, K):
        expected[s, a, successors[s, a, k]] += probabilities[s, a, k]
    mdp = ar.TabularMDP.from_sparse(successors, probabilities)
    np.testing.assert_allclose(mdp.dense(), expected, atol=1e-14)
    V = rng.random(S)
    np.testing.assert_allclose(mdp.expect(0, V), expected @ V, atol=1e-14)


def test_expectations_use_the_step():
    mdp = random_mdp(4, 2, seed=0, H=3)
    V = np.arange(4.0)
    for h in range(3):
        np.testing.assert_allclose(mdp.expect(h, V), mdp.dense()[h] @ V, atol=1e-14)


def test_sums_that_miss_one_by_rounding_are_rescaled():
    mdp = ar.TabularMDP(TWO * (1 + 5e-10), initial=[0.5, 0.5 + 5e-10])
    np.testing.assert_allclose(mdp.dense().sum(axis=-1), 1, atol=1e-15)
    np.testing.assert_allclose(mdp.initial.sum(), 1, atol=1e-15)


def test_a_start_that_is_certain_is_a_known_start():
    assert ar.TabularMDP(TWO, initial=[0.0, 1.0]).initial_state == 1
    assert ar.TabularMDP(TWO, initial=np.int64(1)).initial_state == 1
    assert ar.TabularMDP(TWO, initial=[0.5, 0.5]).initial_state is None


def altered(at, value):
    P = TWO.copy()
    P[at] = value
    return P


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"P": altered((1, 0, 1), 0.9)}, r"P\[1, 0\] sums to 0.9"),
        ({"P": altered((0, 0), (-0.25, 1.25))}, r"P\[0, 0, 0\] is -0.25, negative"),
        ({"P": altered((0, 1, 0), np.nan)}, r"P\[0, 1, 0\] is nan"),
        ({"P": altered((0, 1, 0), np.inf)}, r"P\[0, 1, 0\] is inf"),
        ({"P": TWO[0]}, r"P has shape \(2, 2\)"),
        ({"P": np.ones((2, 2, 3)) / 3}, r"P has shape \(2, 2, 3\)"),
        ({"P": np.zeros((0, 2, 0))}, "P has shape"),
        ({"P": TWO, "initial": 2}, "initial is 2: states go from 0 to 1"),
        ({"P": TWO, "initial": -1}, "initial is -1"),
        ({"P": TWO, "initial": 0.0}, "initial is 0.0"),
        ({"P": TWO, "initial": [0.5, 0.4]}, "initial is not a distribution"),
        ({"P": TWO, "initial": [1.5, -0.5]}, "initial is not a distribution"),
        ({"P": TWO, "initial": [np.nan, 1.0]}, "initial is not a distribution"),
        ({"P": TWO, "initial": [1.0, 0.0, 0.0]}, r"initial has shape \(3,\)"),
        ({"P": TWO, "reward": np.ones(3)}, r"reward has shape \(3,\)"),
        ({"P": TWO, "reward": np.ones((2, 3))}, r"reward has shape \(2, 3\)"),
        ({"P": TWO, "reward": [0.0, np.inf]}, r"reward\[1\] is not a finite number"),
    ],
)
def test_what_is_refused(arguments, names):
    with pytest.raises(ValueError, match=names):
        ar.TabularMDP(**arguments)


@pytest.mark.parametrize(
    ("successors", "probabilities", "names"),
    [
        ([[[0, 2]], [[0, 1]]], [[[0.5, 0.5]], [[0.5, 0.5]]], r"successors\[0, 0, 1\] is 2: states go from 0 to 1"),
        ([[[0, -1]], [[0, 1]]], [[[0.5, 0.5]], [[0.5, 0.5]]], r"successors\[0, 0, 1\] is -1"),
        ([[[0, 1]], [[0, 1]]], [[[0.5, 0.5]], [[0.5, 0.6]]], r"probabilities\[1, 0\] sums to 1.1"),
        ([[[0, 1]], [[0, 1]]], [[[0.5, 0.5]], [[-0.5, 1.5]]], r"probabilities\[1, 0, 0\] is -0.5, negative"),
        ([[[0, 1]]], [[[1.0]]], "successors have shape"),
        ([[[0.0]]], [[[1.0]]], "successors are float64"),
    ],
)
def test_what_is_refused_of_padded_lists(successors, probabilities, names):
    with pytest.raises(ValueError, match=names):
        ar.TabularMDP.from_sparse(successors, probabilities)


def test_steps_and_settings_have_to_fit():
    mdp = random_mdp(3, 2, seed=0, H=4)
    assert mdp.setting(4).horizon == 4
    with pytest.raises(ValueError, match="horizon is 5 but this model has transitions for 4 steps"):
        mdp.setting(5)
    with pytest.raises(ValueError, match="stationary is True but"):
        mdp.setting(4, stationary=True)
    with pytest.raises(ValueError, match="horizon is 5"):
        mdp.rollout(np.zeros((5, 3), int))


def test_rollouts_follow_the_policy_and_the_support():
    mdp = ar.envs.garnet(6, 3, 2, seed=1, horizon=5)
    policy = np.random.default_rng(0).integers(0, 3, (5, 6))
    states, actions = mdp.rollout(policy, episodes=500, seed=3)
    assert states.shape == (500, 6)
    assert actions.shape == (500, 5)
    assert (states[:, 0] == 0).all()
    for h in range(5):
        np.testing.assert_array_equal(actions[:, h], policy[h, states[:, h]])
        assert (mdp.dense()[h, states[:, h], actions[:, h], states[:, h + 1]] > 0).all()


@pytest.mark.parametrize("K", [1, 2, 16, 17, 60])  # rows of up to 16 are searched one by one, longer ones by halving
def test_rollouts_have_the_law_of_the_model(K):
    """Chi-square on starts and on successors of one pair, at level 1e-7 each: false alarms in 2 of 10^7 seeds."""
    rng = np.random.default_rng(K)
    law = rng.dirichlet(np.full(K, 5.0))
    P = np.zeros((K + 1, 1, K + 1))
    P[:, 0, :K] = law
    start = rng.dirichlet(np.full(K + 1, 5.0))
    mdp = ar.TabularMDP(P, initial=start)
    states, _ = mdp.rollout(np.zeros((1, K + 1), int), episodes=50_000, seed=7)
    for s, expected in ((states[:, 0], start), (states[:, 1], np.append(law, 0.0))):
        seen, possible = np.bincount(s, minlength=K + 1), expected > 0
        assert seen[~possible].sum() == 0
        if possible.sum() > 1:
            assert chisquare(seen[possible], 50_000 * expected[possible]).pvalue > 1e-7


@pytest.mark.parametrize("random_start", [False, True])
def test_a_generator_advances_by_the_draws_of_the_episodes(random_start):
    """One uniform number a transition and one for a start that is random; so one call or several make no difference."""
    mdp = random_mdp(4, 2, seed=0, random_start=random_start)
    policy = np.zeros((3, 4), int)
    one, many, draws = (np.random.default_rng(5) for _ in range(3))
    states, actions = mdp.rollout(policy, episodes=10, seed=one)
    parts = [mdp.rollout(policy, seed=many) for _ in range(10)]
    np.testing.assert_array_equal(states, np.concatenate([part[0] for part in parts]))
    np.testing.assert_array_equal(actions, np.concatenate([part[1] for part in parts]))
    draws.random(10 * (3 + random_start))
    assert one.random() == many.random() == draws.random()


def test_the_same_seed_gives_the_same_episodes():
    mdp = random_mdp(4, 2, seed=0)
    policy = np.ones((3, 4), int)
    np.testing.assert_array_equal(mdp.rollout(policy, 20, seed=1)[0], mdp.rollout(policy, 20, seed=1)[0])
    assert (mdp.rollout(policy, 20, seed=1)[0] != mdp.rollout(policy, 20, seed=2)[0]).any()


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        (np.zeros((3, 3), int), r"policy has shape \(3, 3\)"),
        (np.zeros(4, int), r"policy has shape \(4,\)"),
        (np.zeros((3, 4)), "of float64"),
        (np.full((3, 4), 2), r"policy\[0, 0\] is 2: actions go from 0 to 1"),
        (np.full((3, 4), -1), r"policy\[0, 0\] is -1"),
    ],
)
def test_policies_that_are_refused(policy, names):
    with pytest.raises(ValueError, match=names):
        random_mdp(4, 2, seed=0).rollout(policy)


def test_rounding_never_leads_where_the_model_cannot_go():
    """Ten times 0.1 sums to less than 1 in floating point; the last tenth still ends in a state of positive probability."""
    P = np.zeros((11, 1, 11))
    P[:, 0, :10] = 0.1
    mdp = ar.TabularMDP(P)
    assert mdp.model.cumulative.reshape(11, -1)[:, 9].tolist() == [1.0] * 11
    assert 10 not in mdp.rollout(np.zeros((50, 11), int), episodes=2_000, seed=0)[0]


def test_one_state_one_action_one_step():
    mdp = ar.TabularMDP([[[1.0]]])
    states, actions = mdp.rollout([[0]], episodes=2)
    assert states.tolist() == [[0, 0], [0, 0]]
    assert actions.tolist() == [[0], [0]]
    assert by_step(mdp, 1).tolist() == [[[[1.0]]]]

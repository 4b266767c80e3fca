"""Exact planning against plain loops, and on problems whose answer is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anyreward as ar
from anyreward import kernels
from anyreward.planning import as_reward

from .helpers.problems import by_step, random_mdp, seeds
from .helpers.reference import q_values

sizes = st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 4))  # S, A, H
discounts = st.sampled_from([1.0, 0.9]) | st.floats(0.01, 1.0)


@given(sizes, discounts, st.booleans(), seeds)
def test_backward_induction_is_the_bellman_recursion(size, gamma, stationary, seed):
    S, A, H = size
    mdp = random_mdp(S, A, seed, H=None if stationary else H)
    reward = np.random.default_rng(seed).normal(size=(H, S, A))
    Q, V, policy = ar.backward_induction(mdp, reward, H, gamma)
    expected = q_values(by_step(mdp, H), None, reward, gamma)
    np.testing.assert_allclose(Q, expected[0], atol=1e-12)
    np.testing.assert_allclose(V, expected[1], atol=1e-12)
    assert policy.shape == (H, S)
    np.testing.assert_array_equal(np.take_along_axis(Q, policy[..., None], axis=2)[..., 0], V[:H])
    of_array = ar.backward_induction(mdp.dense(), reward, H, gamma)
    np.testing.assert_allclose(of_array.Q, Q, atol=1e-12)


@given(sizes, discounts, st.booleans(), seeds)
def test_evaluation_of_a_policy(size, gamma, stochastic, seed):
    S, A, H = size
    mdp, rng = random_mdp(S, A, seed, H=H), np.random.default_rng(seed)
    reward = rng.normal(size=(H, S, A))
    policy = rng.dirichlet(np.ones(A), (H, S)) if stochastic else rng.integers(0, A, (H, S))
    Q, V, same = ar.evaluate_policy(mdp, policy, reward, H, gamma)
    expected = q_values(mdp.dense(), policy, reward, gamma)
    np.testing.assert_allclose(Q, expected[0], atol=1e-12)
    np.testing.assert_allclose(V, expected[1], atol=1e-12)
    np.testing.assert_allclose(same, policy, rtol=1e-15)  # probabilities are brought to a sum of one


@given(sizes, discounts, seeds)
def test_no_policy_beats_the_optimum_and_the_optimal_one_reaches_it(size, gamma, seed):
    S, A, H = size
    mdp, rng = random_mdp(S, A, seed), np.random.default_rng(seed)
    reward = rng.random((H, S, A))
    best = ar.backward_induction(mdp, reward, H, gamma)
    np.testing.assert_allclose(ar.evaluate_policy(mdp, best.policy, reward, H, gamma).V, best.V, atol=1e-12)
    other = ar.evaluate_policy(mdp, rng.integers(0, A, (H, S)), reward, H, gamma)
    assert (other.V <= best.V + 1e-12).all()


def test_a_walk_to_the_prize():
    """On a sure chain of 5 from the middle, the right end is 2 steps away: it is enjoyed in 6 - 2 of 6 steps."""
    mdp = ar.envs.double_chain(length=5, fail_prob=0.0)
    best = ar.backward_induction(mdp, mdp.reward, 6)
    assert best.V[0].tolist() == [2, 3, 4, 5, 6]
    assert (best.policy[0, :4] == 1).all()
    discounted = ar.backward_induction(mdp, mdp.reward, 6, discount=0.5)
    assert discounted.V[0, 2] == sum(0.5**h for h in range(2, 6))


def test_the_first_of_equal_actions_is_taken():
    P = np.full((2, 3, 2), 0.5)
    assert (ar.backward_induction(P, np.ones(2), 3).policy == 0).all()


def test_rewards_of_all_shapes():
    S, A, H = 3, 2, 4
    by_state, by_pair = np.arange(3.0), np.arange(6.0).reshape(3, 2)
    by_step_too = np.arange(24.0).reshape(4, 3, 2)
    np.testing.assert_array_equal(as_reward(by_state, S, A, H)[2, :, 1], by_state)
    np.testing.assert_array_equal(as_reward(by_pair, S, A, H)[3], by_pair)
    np.testing.assert_array_equal(as_reward(by_step_too, S, A, H), by_step_too)
    np.testing.assert_array_equal(as_reward(lambda h, s, a: by_step_too[h, s, a], S, A, H), by_step_too)
    np.testing.assert_array_equal(as_reward([0, 1, 1], S, A, H)[0, :, 0], [0, 1, 1])


@pytest.mark.parametrize(
    ("reward", "names"),
    [
        (np.ones(4), r"reward has shape \(4,\): it has to be \(3,\), \(3, 2\) or \(4, 3, 2\)"),
        (np.ones((2, 3)), r"reward has shape \(2, 3\)"),
        (np.ones((5, 3, 2)), r"reward has shape \(5, 3, 2\)"),
        (1.0, r"reward has shape \(\)"),
        ([0.0, 1.5, 0.5], r"reward\[1\] is 1.5, outside \[0, 1\]"),
        ([0.0, 0.5, -1e-9], r"reward\[2\] is -1e-09, outside"),
        ([0.0, np.nan, 0.5], r"reward\[1\] is nan: it has to be a finite number"),
        ([0.0, np.inf, 0.5], r"reward\[1\] is inf: it has to be a finite number"),
        (lambda h, s, a: 2.0 * (h == 1), r"reward\[1, 0, 0\] is 2, outside"),
        ("one", "the unknown name 'one'"),
        ({"a": 1}, "reward"),
        ([[0.0], [1.0, 2.0], [1.0]], "reward is a list"),
    ],
)
def test_rewards_that_are_refused(reward, names):
    with pytest.raises(ValueError, match=names):
        as_reward(reward, 3, 2, 4, within=(0.0, 1.0))


@pytest.mark.parametrize("horizon", [0, -1, 2.0])
def test_horizons_that_are_refused(horizon):
    with pytest.raises(ValueError, match="horizon is"):
        ar.backward_induction(np.ones((1, 1, 1)), [0.5], horizon)


def test_a_model_is_not_planned_beyond_its_steps():
    mdp = random_mdp(3, 2, seed=0, H=4)
    with pytest.raises(ValueError, match="horizon is 5 but this model has transitions for 4 steps"):
        ar.backward_induction(mdp, np.ones(3), 5)
    with pytest.raises(ValueError, match="horizon is 5"):
        ar.evaluate_policy(mdp.dense(), np.zeros((5, 3), int), np.ones(3), 5)


def test_an_empirical_model_is_not_planned_beyond_its_steps():
    """Nothing is known of later steps, and a uniform guess must not pass for an estimate."""
    counts = ar.Counts(ar.Setting(n_states=3, n_actions=2, horizon=4, initial_state=0))
    for horizon in (5, 6):
        with pytest.raises(ValueError, match=f"horizon is {horizon}"):
            ar.backward_induction(counts.model(), np.ones(3), horizon)


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        (np.zeros((3, 3), int), r"policy has shape \(3, 3\)"),
        (np.zeros((4, 3)), "of float64"),
        (np.full((4, 3), 2), r"policy\[0, 0\] is 2"),
        (np.full((4, 2, 3), 0.5), r"policy has shape \(4, 2, 3\)"),
        (np.full((4, 3, 2), 0.6), r"policy\[0, 0\] is not a distribution"),
        (np.broadcast_to([1.5, -0.5], (4, 3, 2)), r"policy\[0, 0\] is not a distribution"),
        (np.full((4, 3, 2), np.nan), r"policy\[0, 0\] is not a distribution"),
    ],
)
def test_policies_that_are_refused(policy, names):
    with pytest.raises(ValueError, match=names):
        ar.evaluate_policy(random_mdp(3, 2, seed=0), policy, np.ones(3), 4)


# --- Models in which many rows are alike ---


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, None, 1), (1, None, 4), (8, None, 4), (8, 1, 4)])
@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_rows_that_are_alike_change_nothing(monkeypatch, shape, gamma):
    """Bit for bit: the same sums, whether rows are fetched one by one or known by their kind."""
    mdp, H = ar.envs.grid_world(rows=90, cols=190, success_prob=0.7, start=(10, 10), goal=(16, 16)), 8
    T, S, A = (n or mdp.n_states for n in shape)
    reward = np.broadcast_to(np.random.default_rng(T + S + A).normal(size=(T, S, A)), (H, mdp.n_states, 4))
    assert 1 < len(mdp.kinds.kind) < mdp.n_states * 4 / 16
    alike = ar.backward_induction(mdp, reward, H, gamma)
    monkeypatch.setattr("anyreward.planning.Values._kinds", lambda self, Q: None)
    rows = ar.backward_induction(mdp, reward, H, gamma)
    np.testing.assert_array_equal(alike.V, rows.V)
    np.testing.assert_array_equal(alike.policy, rows.policy)
    np.testing.assert_array_equal(alike.Q.max(axis=2), rows.V[:-1])


@given(st.integers(1, 6), st.integers(1, 200), st.integers(1, 3), seeds)
def test_kinds_are_the_rows(many, S, A, seed):
    """Every row can be read off its kind; too many kinds or too short runs, and there are none."""
    rng = np.random.default_rng(seed)
    some = [(rng.integers(0, 3, 3), rng.dirichlet(np.ones(3)).round(1)) for _ in range(many)]
    which = np.repeat(rng.integers(0, many, -(-S // 16)), 16)[:S]
    target = np.array([[np.minimum(s + some[k][0], S - 1) for _ in range(A)] for s, k in enumerate(which)]).reshape(-1)
    p = np.array([[some[k][1] for _ in range(A)] for k in which]).reshape(-1)
    first = np.arange(S * A + 1) * 3
    for most in (1, 50):
        kinds = kernels.planning.kinds_in(first, target.astype(np.int32), p, A, most)
        assert len(kinds.first) - 1 <= most
        if not len(kinds.kind):
            continue
        for a in range(A):
            runs = slice(*kinds.runs[a : a + 2])
            ends = np.append(kinds.begin[runs][1:], S)
            assert kinds.begin[runs][0] == 0
            of = np.repeat(kinds.kind[runs], ends - kinds.begin[runs])
            for s in range(S):
                row, edges = slice(3 * (s * A + a), 3 * (s * A + a + 1)), slice(*kinds.first[of[s] : of[s] + 2])
                some_weight = p[row] != 0
                np.testing.assert_array_equal(s + kinds.shift[edges], target[row][some_weight])
                np.testing.assert_array_equal(kinds.p[edges], p[row][some_weight])


def test_where_rows_differ_there_are_no_kinds():
    """Nor in a small model, in which few rows are alike."""
    assert not len(ar.envs.double_chain().kinds.kind)
    P = np.random.default_rng(0).dirichlet(np.ones(70), size=(70, 4))
    assert not len(ar.TabularMDP(P).kinds.kind)

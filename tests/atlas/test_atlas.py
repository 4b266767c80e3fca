"""Atlases: plans and evaluations with intervals that hold."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anyreward as ar

from ..helpers.atlases import H, explored
from ..helpers.problems import data, deltas, seeds
from ..helpers.reference import dense_counts, empirical, q_values


def atlas_of(problem, delta=0.1):
    setting, states, actions = problem
    counts = ar.Counts.from_episodes(states, actions, setting)
    return ar.Atlas(counts, ar.certify(counts, delta, "paper"))


@pytest.mark.slow
@given(data(), seeds)
def test_a_plan_is_optimal_in_the_empirical_model(problem, seed):
    setting = problem[0]
    S, A, horizon = setting.n_states, setting.n_actions, setting.horizon
    reward = np.random.default_rng(seed).random((horizon, S, A))
    plan = atlas_of(problem).plan(reward, allow_unseen=True)
    initial, p_hat = empirical(*dense_counts(*problem[1:], setting), setting)
    best = q_values(p_hat, None, reward, setting.discount)[1][0] @ initial
    of_policy = q_values(p_hat, plan.policy, reward, setting.discount)[1][0] @ initial
    assert plan.value == pytest.approx(best, abs=1e-12)
    assert of_policy == pytest.approx(best, abs=1e-12)


@pytest.mark.slow
@given(data(), st.booleans(), seeds)
def test_the_value_of_any_policy(problem, stochastic, seed):
    setting, rng = problem[0], np.random.default_rng(seed)
    S, A, horizon = setting.n_states, setting.n_actions, setting.horizon
    reward = rng.random((horizon, S, A))
    policy = rng.dirichlet(np.ones(A), (horizon, S)) if stochastic else rng.integers(0, A, (horizon, S))
    atlas = atlas_of(problem)
    interval = atlas.evaluate(policy, reward)
    initial, p_hat = empirical(*dense_counts(*problem[1:], setting), setting)
    assert interval.value == pytest.approx(q_values(p_hat, policy, reward, setting.discount)[1][0] @ initial, abs=1e-12)
    assert interval.lower <= interval.value <= interval.upper <= atlas.plan(reward).upper
    assert interval.value <= atlas.plan(reward, allow_unseen=True).value + 1e-12


@pytest.mark.slow
@given(data(), deltas, seeds)
def test_intervals_are_within_the_error_bound_and_what_is_possible(problem, delta, seed):
    setting, rng = problem[0], np.random.default_rng(seed)
    reward = rng.random((setting.horizon, setting.n_states, setting.n_actions))
    atlas = atlas_of(problem, delta)
    plan = atlas.plan(reward, allow_unseen=True)
    gammas = setting.discount ** np.arange(setting.horizon)
    least, most = gammas @ reward.min(axis=(1, 2)), gammas @ reward.max(axis=(1, 2))
    assert plan.lower >= max(least, plan.value - atlas.error_bound) - 1e-10
    assert plan.upper <= min(most, plan.value + atlas.error_bound) + 1e-10
    assert plan.lower <= plan.value <= plan.upper
    assert plan.regret_bound == plan.upper - plan.lower
    cautious = atlas.plan(reward)  # it may prefer actions that were seen, but keeps the promise of the certificate
    assert cautious.upper == plan.upper
    assert cautious.regret_bound <= atlas.certificate.epsilon + 1e-10


def test_the_truth_lies_in_the_interval():
    """delta = 1e-9: a miss would be a bug. The chain's bound is far from trivial here."""
    mdp = ar.envs.double_chain(length=5)
    atlas = ar.explore(mdp, H, 1.0, 1e-9, algorithm="rf-ucrl", bounds="paper", stationary=True, replan="geometric")
    rng = np.random.default_rng(0)
    for reward in [mdp.reward, *rng.random((20, 5, 2)), *(rng.random((20, 5, 2)) < 0.3)]:
        plan = atlas.plan(reward)
        optimum = ar.backward_induction(mdp, reward, H).V[0] @ mdp.initial
        value = ar.evaluate_policy(mdp, plan.policy, reward, H).V[0] @ mdp.initial
        assert plan.lower <= value <= optimum <= plan.upper
        assert plan.regret_bound <= 1.0 + 1e-9


def test_rewards_of_all_shapes_give_the_same_plan():
    atlas, reward = explored(), np.random.default_rng(0).random(4)
    by_pair = np.repeat(reward[:, None], 2, axis=1)
    plans = [atlas.plan(r) for r in (reward, by_pair, np.stack([by_pair] * H), lambda h, s, a: reward[s])]
    assert len({(plan.value, plan.lower, plan.upper, plan.policy.tobytes()) for plan in plans}) == 1


def test_rewards_in_other_units():
    """r' = 10 r - 3 has the same plan; values move by -3 H and stretch by 10, and so does the error bound."""
    atlas, reward = explored(episodes=5_000), np.random.default_rng(0).random((4, 2))
    plain, other = atlas.plan(reward), atlas.plan(10 * reward - 3, reward_range=(-3, 7))
    np.testing.assert_array_equal(plain.policy, other.policy)
    for name in ("value", "lower", "upper"):
        assert getattr(other, name) == pytest.approx(10 * getattr(plain, name) - 3 * H, abs=1e-9)


@pytest.mark.parametrize("reward_range", [(1.0, 0.0), (0.5, 0.5), (float("nan"), 1.0)])
def test_a_range_goes_from_low_to_high(reward_range):
    with pytest.raises(ValueError, match="reward_range is"):
        explored().plan(np.full(4, 0.5), reward_range=reward_range)


@pytest.mark.parametrize(
    ("reward", "names"),
    [
        (np.ones(3), r"reward has shape \(3,\)"),
        (np.ones((2, 4)), r"reward has shape \(2, 4\)"),
        (np.ones((H + 1, 4, 2)), r"reward has shape \(5, 4, 2\)"),
        ([0, 0, 2, 0], r"reward\[2\] is 2, outside \[0, 1\]"),
        ([0, 0, float("nan"), 0], r"reward\[2\] is nan"),
        (None, "reward has shape"),
    ],
)
def test_rewards_that_are_refused(reward, names):
    atlas = explored()
    digest = atlas.counts.digest()
    for function in (atlas.plan, lambda r: atlas.evaluate(np.zeros((H, 4), int), r)):
        with pytest.raises(ValueError, match=names):
            function(reward)
    assert atlas.counts.digest() == digest


@pytest.mark.parametrize("reward", [0.1, 0.3, 0.7, 1 / 3])
def test_rounding_does_not_push_a_value_out_of_its_interval(reward):
    """With one reward everywhere the interval is a point, and sums of a thousand terms are rounded in several ways."""
    horizon = 1_000
    counts = ar.Counts(ar.Setting(n_states=1, n_actions=1, horizon=horizon, initial_state=0))
    plan = ar.Atlas(counts, ar.certify(counts, bounds="paper")).plan([reward])
    assert plan.lower <= plan.value <= plan.upper
    assert plan.lower <= horizon * reward <= plan.upper


def test_a_policy_that_sums_to_one_but_for_rounding():
    """A law that is off by 1e-9 is taken; its value may not leave what any law could earn."""
    policy = np.full((H, 4, 2), 0.5) + np.array([9e-10, 0.0])
    interval = explored().evaluate(policy, np.ones(4))
    assert interval.lower <= interval.value <= interval.upper


def test_plans_without_data_are_for_the_uniform_model():
    """p_hat = 1/S where nothing was seen: from anywhere, half of the next step's reward of 1 in one of two states."""
    counts = ar.Counts(ar.Setting(n_states=2, n_actions=1, horizon=2, initial_state=0))
    plan = ar.Atlas(counts, ar.certify(counts, bounds="paper")).plan([0.0, 1.0])
    assert plan.value == pytest.approx(0.5)


def answers():
    """What an atlas is asked for, and the models and declarations that it is made from."""
    mdp = ar.envs.double_chain(5)
    atlas = ar.explore(mdp, 4, max_episodes=300)
    plan = atlas.plan("state == 3")
    return {
        "atlas": atlas,
        "counts": atlas.counts,
        "certificate": atlas.certificate,
        "plan": plan,
        "interval": atlas.evaluate(plan, "state == 1"),
        "explanation": atlas.explain("state == 3"),
        "constrained": atlas.plan("state == 3", subject_to=[("action == 1", "<=", 3.5)]),
        "verification": atlas.verify(plan, mdp, episodes=20),
        "discovery": atlas.discover(),
        "trade-off": atlas.trade_off("state == 3", "action == 0", 3),
        "drift": atlas.watch(atlas.counts),
        "audit": ar.audit(mdp, 4),
    }


def test_answers_can_be_pickled_and_are_equal_afterwards():
    for name, it in answers().items():
        copy = pickle.loads(pickle.dumps(it))
        assert copy == it, name
        assert str(copy) == str(it), name


def test_answers_that_differ_are_not_equal():
    atlas, other = (ar.explore(ar.envs.double_chain(5), 4, max_episodes=300, seed=seed) for seed in (0, 1))
    asked = [
        lambda it: it.plan("state == 3", subject_to=[("action == 1", "<=", 3.5)]),
        lambda it: it.discover(),
        lambda it: it.trade_off("state == 3", "action == 0", 3),
        lambda it: it.reach("state == 3"),
    ]
    for ask in asked:
        assert ask(atlas) == ask(atlas)
        assert ask(atlas) != ask(other)
        assert ask(atlas) != 3
    limits = [atlas.plan("state == 3", subject_to=[("action == 1", "<=", most)]) for most in (3.5, 3.6)]
    assert limits[0] != limits[1]


@pytest.mark.parametrize(
    "make", [lambda: ar.envs.double_chain(5), lambda: ar.envs.grid_world(3, 3, start=(1, 1), goal=(2, 2)), ar.envs.inventory]
)
def test_models_of_ours_can_be_pickled_with_their_structures(make):
    mdp = make()
    copy = pickle.loads(pickle.dumps(mdp))
    first, again = (ar.explore(it, 3, max_episodes=20, structure="own") for it in (mdp, copy))
    assert first == again
    assert first.counts.setting.structure is not None

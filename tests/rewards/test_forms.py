"""Rewards in all their forms, and rewards on arrival from plan to certificate."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import anyreward as ar
from anyreward.certificates.bounds import PaperBound, TightBound, relevant_laws
from anyreward.rewards.forms import ArrivalReward, as_reward

S, A, H = 4, 2, 3


def as_table(R):
    """A dense reward on arrival as a sparse table of what is not 0."""
    names = ("h", "s", "a", "next") if R.ndim == 4 else ("s", "a", "next")
    where = np.nonzero(R)
    return dict(zip(names, where, strict=True)) | {"reward": R[where]}


@pytest.mark.parametrize("by_step", [False, True])
def test_the_forms_of_a_reward_on_arrival_agree(by_step):
    """Array, table and function are the same reward: plans and intervals are equal to the last bit or nearly so."""
    rng = np.random.default_rng(0)
    mdp = ar.envs.garnet(S, A, 3, seed=1)
    R = rng.random((H, S, A, S) if by_step else (S, A, S)) * (rng.random((S, A, S)) < 0.4)
    atlas = ar.explore(mdp, H, max_episodes=300)

    def function(h, s, a, s_next):
        return R[h, s, a, s_next] if by_step else R[s, a, s_next]

    plans = [atlas.plan(form) for form in (R, as_table(R), function)]
    for plan in plans[1:]:
        np.testing.assert_array_equal(plan.policy, plans[0].policy)
        assert (plan.value, plan.lower, plan.upper) == pytest.approx((plans[0].value, plans[0].lower, plans[0].upper), abs=1e-12)


@given(st.integers(0, 10**6))
def test_planning_uses_the_mean_of_what_is_paid(seed):
    rng = np.random.default_rng(seed)
    mdp, R = ar.envs.garnet(S, A, 2, seed=seed), rng.random((H, S, A, S))
    mean = np.einsum("sat,hsat->hsa", mdp.dense(), R)
    arrival, plain = ar.backward_induction(mdp, R, H, 0.9), ar.backward_induction(mdp, mean, H, 0.9)
    np.testing.assert_allclose(arrival.Q, plain.Q, atol=1e-12)


def test_without_data_a_uniform_successor_is_paid_for():
    """As with transitions: p_hat is 1/S where nothing was seen."""
    R = np.random.default_rng(0).random((S, A, S))
    counts = ar.Counts(ar.Setting(n_states=S, n_actions=A, horizon=1, initial_state=0))
    np.testing.assert_allclose(ar.backward_induction(counts.model(), R, 1).Q[0], R.mean(axis=2), atol=1e-12)


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("cautious", [False, True])
def test_a_reward_of_pairs_is_a_reward_on_arrival(stationary, cautious):
    """If the successor does not matter, both ways of planning agree, given the same balls."""
    mdp = ar.envs.garnet(S, A, 3, seed=2)
    atlas = ar.explore(mdp, H, max_episodes=400, stationary=stationary, arrival_rewards=True)
    r = np.random.default_rng(0).random((S, A))
    plain, arrival = atlas.plan(r, cautious=cautious), atlas.plan(np.repeat(r[..., None], S, axis=2), cautious=cautious)
    assert (arrival.lower, arrival.value, arrival.upper) == pytest.approx((plain.lower, plain.value, plain.upper), abs=1e-9)


def extreme_in_balls(atlas, policy, R, sign, tries, rng):
    """The extreme value of a policy over random models inside the balls, mass on unseen successors included."""
    counts, setting = atlas.counts, atlas.counts.setting
    radii = atlas.certificate.bound.kl_radii(counts, 0.1, last_step=True)
    table, best = counts.table, -np.inf
    columns = counts.columns()
    p_hat = np.zeros((H, S, A, S))
    move = columns["h"] >= 0
    np.add.at(p_hat, tuple(columns[k][move] for k in ("h", "s", "a", "next")), columns["count"][move])
    n = p_hat.sum(-1)
    for _ in range(tries):
        P = np.empty((H, S, A, S))
        for h, s, a in itertools.product(range(H), range(S), range(A)):
            other = rng.dirichlet(np.full(S, 0.3))
            if n[h, s, a] == 0:
                P[h, s, a] = other
                continue
            q, c = p_hat[h, s, a] / n[h, s, a], radii[table.node_of[h, s] * A + a]
            low, high = 0.0, 1.0  # the largest step towards `other` that stays in the ball
            for _ in range(40):
                t = (low + high) / 2
                p = (1 - t) * q + t * other
                low, high = (t, high) if (q[q > 0] * np.log(q[q > 0] / p[q > 0])).sum() <= c else (low, t)
            P[h, s, a] = (1 - low) * q + low * other
        value = ar.evaluate_policy(P, policy, R, H).V[0, setting.initial_state]
        best = max(best, sign * value)
    return sign * best


@pytest.mark.slow
@pytest.mark.parametrize("covered", [False, True])
def test_no_model_in_the_balls_leaves_the_interval(covered):
    """Also for an atlas that was certified without rewards on arrival: its balls then cover the last step all the same."""
    rng = np.random.default_rng(3)
    mdp = ar.envs.garnet(S, A, 2, seed=4)
    atlas = ar.explore(mdp, H, max_episodes=60, arrival_rewards=covered)
    R = rng.random((H, S, A, S))
    policy = rng.integers(0, A, (H, S))
    interval = atlas.evaluate(policy, R)
    assert interval.lower <= extreme_in_balls(atlas, policy, R, -1, 60, rng)
    assert interval.upper >= extreme_in_balls(atlas, policy, R, +1, 60, rng)


@pytest.mark.slow
@pytest.mark.parametrize("bound", [PaperBound(), TightBound(), TightBound(trajectory=False)], ids=repr)
def test_errors_of_rewards_on_arrival_stay_below_the_certificate(bound):
    """Worst rewards by the identity sup_r (V_hat - V) = sum_h gamma^h TV of the laws of (s_h, a_h, s_h+1), over all policies.

    Each run fails with probability at most 0.1, so more failures than this in 40 have a probability below 1e-6.
    """
    failures = 0
    for seed in range(40):
        mdp = ar.envs.garnet(2, 2, 2, seed=seed)
        atlas = ar.explore(mdp, 2, bounds=bound, max_episodes=200, arrival_rewards=True, seed=seed, discount=0.9)
        P, p_hat = mdp.dense(), np.stack([atlas.counts.model().expect(h, np.eye(2)[k]) for h in range(2) for k in range(2)])
        p_hat = p_hat.reshape(2, 2, 2, 2).transpose(0, 2, 3, 1)
        worst = []
        for actions in itertools.product(range(2), repeat=4):
            policy, error = np.reshape(actions, (2, 2)), 0.0
            d_hat = d = np.eye(2)[0]
            for h in range(2):
                joint_hat = d_hat[:, None] * p_hat[h, [0, 1], policy[h]]
                joint = d[:, None] * P[[0, 1], policy[h]]
                error += 0.9**h * np.abs(joint_hat - joint).sum() / 2
                d_hat, d = joint_hat.sum(0), joint.sum(0)
            worst.append(error)
        failures += max(worst) > atlas.error_bound
    assert failures <= binom.isf(1e-6, 40, 0.1)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_covering_more_rewards_costs_something(seed, stationary, random_start):
    """The bound for rewards on arrival is never below the one for rewards of pairs, on the same counts."""
    rng = np.random.default_rng(seed)
    shape = {"n_states": 3, "n_actions": 2, "horizon": 3, "stationary": stationary, "initial_state": None if random_start else 0}
    states, actions = rng.integers(0, 3, (30, 4)), rng.integers(0, 2, (30, 3))
    states[:, 0] = states[:, 0] if random_start else 0
    for bound in (PaperBound(), TightBound()):
        less, more = (
            bound(ar.Counts.from_episodes(states, actions, ar.Setting(**shape, arrival_rewards=arrival)), 0.1)
            for arrival in (False, True)
        )
        assert less <= more * (1 + 1e-9)


def test_laws_that_matter():
    """A + SA(H-2) for a known start, SA(H-1) + 1 for a random one, SA when stationary; one step more with rewards on arrival."""
    shape = {"n_states": 5, "n_actions": 2, "horizon": 4}
    assert relevant_laws(ar.Setting(**shape, initial_state=0)) == 2 + 10 * 2
    assert relevant_laws(ar.Setting(**shape)) == 10 * 3 + 1
    assert relevant_laws(ar.Setting(**shape, initial_state=0, stationary=True)) == 10
    assert relevant_laws(ar.Setting(**shape, stationary=True)) == 11
    assert relevant_laws(ar.Setting(**shape, initial_state=0, arrival_rewards=True)) == 2 + 10 * 3
    assert relevant_laws(ar.Setting(**shape, initial_state=0), last_step=True) == 2 + 10 * 3
    assert relevant_laws(ar.Setting(**shape | {"horizon": 1}, initial_state=0)) == 0
    assert relevant_laws(ar.Setting(**shape | {"horizon": 1}, initial_state=0, arrival_rewards=True)) == 2


def test_a_certificate_says_what_it_does_not_cover():
    mdp = ar.envs.garnet(S, A, 2, seed=0)
    without, covering = (ar.explore(mdp, H, max_episodes=50, arrival_rewards=x).certificate for x in (False, True))
    assert "any reward of a step, state and action" in str(without)
    assert "any reward of a transition" in str(covering)
    assert [c.covers(arrival=True) for c in (without, covering)] == [False, True]
    assert without.covers(arrival=False)
    assert covering.covers(arrival=False)


@pytest.mark.parametrize("bounds", ["paper", "tight"])
def test_one_reward_on_arrival_is_identified(bounds):
    """The recommendation keeps what is promised, and the certificate can be checked with the reward."""
    mdp, R = ar.envs.garnet(3, 2, 2, seed=5), np.random.default_rng(5).random((H, 3, 2, 3))
    atlas = ar.identify(mdp, R, H, epsilon=1.0, bounds=bounds)
    optimum = ar.backward_induction(mdp, R, H).V[0, 0]
    value = ar.evaluate_policy(mdp, atlas.policy, R, H).V[0, 0]
    assert atlas.certificate.met
    assert optimum - value <= atlas.certificate.epsilon <= 1.0
    assert atlas.certificate.check(atlas.counts, R)
    assert not atlas.certificate.check(atlas.counts, R / 2)


@pytest.mark.parametrize(
    ("reward", "names"),
    [
        ({"s": [0], "a": [0], "reward": [1.0]}, "'next'"),
        ({"s": [0], "a": [0], "next": [S], "reward": [1.0]}, "from 0 to 3"),
        ({"s": [0.5], "a": [0], "next": [0], "reward": [1.0]}, "whole numbers"),
        ({"s": [0, 0], "a": [0, 0], "next": [1, 1], "reward": [1.0, 0.5]}, "twice"),
        ({"s": [0], "a": [0], "next": [1, 2], "reward": [1.0, 0.5]}, "equal length"),
        ({"s": [0, 1], "a": [0, 1], "next": [1, 2], "reward": [1.0]}, "equal length"),
        ({"s": [0, 1, 2], "a": [0, 1], "next": [1, 2], "reward": [1.0, 1.0]}, "equal length"),
        ({"s": 0, "a": 0, "next": 1, "reward": 1.0}, "reward table"),
        ({"s": [0], "a": [0], "next": [1], "reward": ["much"]}, "reward table"),
        ({"s": [0], "a": [0], "next": [0], "reward": [1.5]}, "outside"),
        ({"s": [0], "a": [0], "next": [0], "reward": [np.nan]}, "finite"),
        (np.zeros((S, A, S + 1)), "shape"),
        (lambda h, s, a, s_next: 2.0, "outside"),
        (lambda h, s, a: 1j, "reward is a function"),
        (lambda h, s, a: [0.5, 0.5], "reward is a function"),
        ("state = 3", "not an expression"),
        ("state", r"reward\[0, 2, 0\] is 2, outside"),
        ("next - 1", r"reward\[0, 0, 0, 0\] is -1, outside"),
        ("nowhere.csv", r"nowhere\.csv does not exist"),
        (b"state == 3", "reward is a bytes"),
    ],
)
def test_rewards_that_are_refused(reward, names):
    with pytest.raises(ValueError, match=names):
        as_reward(reward, S, A, H, (0.0, 1.0))


def test_a_shape_that_could_be_read_both_ways_is_a_reward_of_pairs():
    assert not isinstance(as_reward(np.zeros((2, 2, 2)), 2, 2, 2), ArrivalReward)
    assert isinstance(as_reward(np.zeros((2, 2, 2)), 2, 2, 3), ArrivalReward)


def test_a_table_that_names_little_pays_nothing_elsewhere():
    R = as_reward({"s": [1], "a": [0], "next": [2], "reward": [0.25]}, S, A, H, (0.0, 1.0))
    low, high = R.extremes()
    np.testing.assert_array_equal(low, np.zeros(H))
    np.testing.assert_array_equal(high, np.full(H, 0.25))
    assert R.at(2, np.array([1 * A + 0, 0]), np.array([2, 2])).tolist() == [0.25, 0.0]
    assert R.mean(0)[1, 0] == 0.25 / S
    assert R.mean(0).sum() == 0.25 / S


def test_other_units_stretch_rewards_on_arrival_too():
    """Shifting and stretching the reward does the same to plan and interval."""
    atlas = ar.explore(ar.envs.garnet(S, A, 3, seed=7), H, max_episodes=200, arrival_rewards=True)
    R = np.random.default_rng(7).random((H, S, A, S))
    plain, money = atlas.plan(R), atlas.plan(100 * R - 40, reward_range=(-40.0, 60.0))
    np.testing.assert_array_equal(plain.policy, money.policy)
    stretched = (100 * np.array([plain.lower, plain.value, plain.upper]) - 40 * H).tolist()
    assert [money.lower, money.value, money.upper] == pytest.approx(stretched, abs=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_the_mean_and_the_least_of_a_reward_on_arrival_are_those_of_its_dense_form(share):
    """Also where some successors are not named, which pay 0, and where all are."""
    rng = np.random.default_rng(0)
    for shape in ((S, A, S), (H, S, A, S)):
        R = np.where(rng.random(shape) < share, rng.choice([-1.0, 0.5, 2.0], shape), 0.0)
        sparse, dense = as_reward(as_table(R), S, A, H), np.broadcast_to(R, (H, S, A, S))
        for h in range(H):
            np.testing.assert_allclose(sparse.mean(h), dense[h].mean(axis=-1))
            np.testing.assert_array_equal(sparse.least(h), dense[h].min(axis=-1))

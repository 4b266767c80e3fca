"""BPI-UCRL against its formulas: both indices, the three rules, all kinds of rewards, and what it certifies.

It watches `docs/theory.md`, 7.1 and 8.1.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scipy.stats import binom

import anyreward as ar
from anyreward.certificates.bounds import TightBound
from anyreward.environments.tabular import play as play_model
from anyreward.kernels.radii import kl_interval

from ..helpers import bpi_reference, reference
from ..helpers.problems import data, deltas, random_mdp, seeds

FALSE_ALARM = 1e-7  # of each statistical test here


def indices(explorer):
    """Q_lo and Q_up of the explorer, (H, S, A), nan where a state has no data."""
    H, S, A = explorer.setting.horizon, explorer.setting.n_states, explorer.setting.n_actions
    explorer.interval  # noqa: B018  the lower values are computed when somebody asks
    node_of, bound_arrays = explorer.counts.table.node_of, explorer._values.bound_arrays
    Q_lo, Q_up = np.full((2, H, S, A), np.nan)
    for h, s in np.ndindex(H, S):
        node, plane = int(node_of[min(h, len(node_of) - 1), s]), min(h, len(bound_arrays.V) - 1)
        if node:
            Q_lo[h, s], Q_up[h, s] = (Q[plane, node * A : node * A + A] for Q in (bound_arrays.Q_lo, bound_arrays.Q))
    return Q_lo, Q_up


def assert_follows(explorer, Q_lo, Q_up, lower, upper):
    """Both indices and the interval are those of the formulas, and the policies greedy for them."""
    visited = ~np.isnan(indices(explorer)[0])
    for found, right in zip(indices(explorer), (Q_lo, Q_up), strict=True):
        np.testing.assert_allclose(found[visited], right[visited], rtol=0, atol=1e-9)
    np.testing.assert_allclose(explorer.interval, (lower, upper), rtol=0, atol=1e-9)
    assert explorer.interval[0] <= lower + 1e-13
    assert upper - 1e-13 <= explorer.interval[1]
    for policy, Q in ((explorer.ask(), Q_up), (explorer.recommendation, Q_lo)):
        chosen = np.take_along_axis(Q, policy[..., None], axis=2)[..., 0]
        np.testing.assert_allclose(chosen, Q.max(axis=2), rtol=0, atol=2e-9)


def tell_in_parts(explorer, parts, *episodes):
    """In batches, so that searches start from where earlier ones ended and only what moved is computed anew."""
    for part in zip(*(np.array_split(x, parts) for x in episodes), strict=True):
        explorer.tell(*part)


def random_reward(shape, setting, seed):
    """Rewards with ties, among them the ends of [0, 1]."""
    S, A, H = setting.n_states, setting.n_actions, setting.horizon
    rng, size = np.random.default_rng(seed), {"S": (S,), "SA": (S, A), "HSA": (H, S, A)}[shape]
    return np.where(rng.random(size) < 0.5, rng.random(size), rng.integers(0, 2, size))


def as_HSA(reward, setting):
    full = (setting.horizon, setting.n_states, setting.n_actions)
    return np.broadcast_to(reward[:, None] if reward.ndim == 1 else reward, full)


BOUNDS = st.sampled_from(["paper", "tight"])


@pytest.mark.slow
@hypothesis_settings(max_examples=75)
@given(data(max_episodes=30), st.sampled_from(["S", "SA", "HSA"]), BOUNDS, deltas, seeds, st.integers(1, 9))
def test_known_rewards_follow_the_formulas(problem, shape, bounds, delta, seed, parts):
    setting, states, actions = problem
    reward = random_reward(shape, setting, seed)
    explorer = ar.BPIUCRL(setting, reward, delta=delta, bounds=bounds, seed=seed)
    tell_in_parts(explorer, parts, states, actions)
    r = as_HSA(reward, setting)
    starts, n = reference.dense_counts(states, actions, setting)
    assert_follows(explorer, *bpi_reference.bpi_ucrl(starts, n, setting, delta, bounds, r, r))
    assert explorer.certificate().check(explorer.counts, r)


@pytest.mark.slow
@hypothesis_settings(max_examples=100)
@given(data(max_episodes=30), st.sampled_from(["deterministic", "random"]), BOUNDS, seeds, st.integers(1, 9))
def test_observed_rewards_follow_the_formulas(problem, rewards, bounds, seed, parts):
    """Anything in [0, 1] until it is seen; then what was seen, or a KL interval with half of delta."""
    setting, states, actions = problem
    rng, delta = np.random.default_rng(seed), 0.2
    if rewards == "deterministic":
        r = random_reward("SA" if setting.stationary else "HSA", setting, seed)
        paid = as_HSA(r, setting)[np.arange(setting.horizon), states[:, :-1], actions]
    else:
        paid = np.where(rng.random(actions.shape) < 0.5, rng.random(actions.shape), rng.integers(0, 2, actions.shape))
    alike = {"stationary_rewards": True} if setting.stationary else {}
    explorer = ar.BPIUCRL(setting, rewards=rewards, delta=delta, bounds=bounds, seed=seed, **alike)
    assert ("rewards do not depend on the step" in str(explorer.certificate())) == setting.stationary
    tell_in_parts(explorer, parts, states, actions, paid)
    low, high = bpi_reference.reward_bounds(states, actions, paid, setting, rewards, delta)
    starts, n = reference.dense_counts(states, actions, setting)
    spent = delta / 2 if rewards == "random" else delta
    assert_follows(explorer, *bpi_reference.bpi_ucrl(starts, n, setting, spent, bounds, low, high))


@pytest.mark.parametrize("random_start", [False, True])
@pytest.mark.parametrize("stationary", [False, True])
def test_a_known_number_of_successors(stationary, random_start):
    """Radii of that many symbols, and no mass on unseen states once that many were seen; the start may have more."""
    rng, S, A, H = np.random.default_rng(4), 6, 2, 4
    mdp = ar.envs.garnet(S, A, branching=2, seed=1)
    mdp = ar.TabularMDP(mdp.dense(), initial=np.full(S, 1 / S) if random_start else 0)
    setting, reward = mdp.setting(H, 0.9, stationary), rng.random((S, A))
    explorer = ar.BPIUCRL(setting, reward, max_successors=2)
    states, actions = mdp.rollout(rng.integers(0, A, (H, S)), 60, seed=2)
    explorer.tell(states, actions)
    assert explorer.counts.widest_pair[2] == 2
    starts, n = reference.dense_counts(states, actions, setting)
    r = as_HSA(reward, setting)
    assert_follows(explorer, *bpi_reference.bpi_ucrl(starts, n, setting, 0.1, "tight", r, r, max_successors=2))


@pytest.mark.slow
def test_data_that_contradict_the_number_of_successors_are_refused():
    """Otherwise V_up is below the optimum: the balls leave out successors that were seen to exist."""
    mdp, reward = ar.envs.double_chain(length=5, fail_prob=0.3), np.eye(5)[4]
    with pytest.raises(ValueError, match="which is max_successors=1, but state"):
        ar.identify(mdp, reward, horizon=5, max_successors=1, max_episodes=500).certificate  # noqa: B018


@pytest.mark.parametrize("rewards", ["known", "deterministic", "random"])
@pytest.mark.parametrize("bounds", ["paper", "tight"])
@pytest.mark.parametrize(("stationary", "random_start", "discount"), [(False, False, 1.0), (False, True, 0.8), (True, True, 1.0)])
def test_compiled_runs_decide_as_ask_and_tell(rewards, bounds, stationary, random_start, discount):
    """The same seed: the same policies, ties included, and so the same counts, bit for bit."""
    mdp, H, N = random_mdp(4, 3, seed=5, random_start=random_start), 3, 150
    reward = np.array([0.0, 0.5, 0.5, 1.0])
    options = {"reward": reward, "rewards": rewards, "bounds": bounds, "seed": 3}
    atlas = ar.explore(
        mdp, H, max_episodes=N, algorithm="bpi-ucrl", stationary=stationary, discount=discount, **options
    )  # fmt: skip
    explorer, rng = ar.BPIUCRL(mdp.setting(H, discount, stationary), **options), np.random.default_rng(3)
    for _ in range(N):
        states, actions = mdp.rollout(explorer.ask(), seed=rng)
        means = reward[states[:, :-1]]
        # after the moves the model draws what it pays: 0 or 1 if random
        explorer.tell(states, actions, rng.random(means.shape) < means if rewards == "random" else means)
    assert atlas.counts == explorer.counts
    assert atlas.certificate == explorer.certificate()
    np.testing.assert_array_equal(atlas.policy, explorer.recommendation)


def test_one_by_one_or_in_a_batch():
    """Searches that start elsewhere end at the same values; a batch may be longer than the chunks it is taken in by."""
    mdp, reward = random_mdp(5, 2, seed=1, random_start=True), np.linspace(0, 1, 5)
    states, actions = mdp.rollout(np.random.default_rng(0).integers(0, 2, (4, 5)), 200, seed=1)
    single, batch = (ar.BPIUCRL(mdp.setting(4), reward) for _ in range(2))
    batch.tell(states, actions)
    for b in range(len(states)):
        single.tell(states[b], actions[b])
    assert single.counts == batch.counts
    np.testing.assert_allclose(single.interval, batch.interval, rtol=0, atol=1e-11)
    for one, other in zip(indices(single), indices(batch), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-11)


@hypothesis_settings(max_examples=40)
@given(data(max_episodes=30), BOUNDS, seeds, st.integers(2, 9))
def test_lower_values_do_not_depend_on_when_somebody_asked_for_them(problem, bounds, seed, parts):
    """To the bit: they are computed from the counts alone. And those that are followed for the stop are very nearly the same."""
    setting, states, actions = problem
    reward = random_reward("SA", setting, seed)
    asked, left_alone, followed = (ar.BPIUCRL(setting, reward, bounds=bounds, seed=seed) for _ in range(3))
    for part in zip(np.array_split(states, parts), np.array_split(actions, parts), strict=True):
        for explorer in (asked, left_alone, followed):
            explorer.tell(*part)
        asked.interval  # noqa: B018
        followed._values.follow_below()
        np.testing.assert_array_equal(asked.ask(), left_alone.ask())  # the lower values decide nothing
    near = followed._values.at_the_start()
    assert asked.interval == left_alone.interval == followed.interval
    np.testing.assert_allclose(near, followed._values.at_the_start(), rtol=0, atol=1e-10)
    np.testing.assert_array_equal(indices(asked), indices(left_alone))
    np.testing.assert_array_equal(asked.recommendation, left_alone.recommendation)


def test_upper_values_stay_up_in_a_large_problem():
    """Told one by one, the same rows are searched again and again, each time from where the last search ended.

    With many states the paper's balls are wide: the best successor, seen 999 times of 1000, can have nearly all mass.
    """
    setting, reward = ar.Setting(n_states=450, n_actions=1, horizon=2, initial_state=0), np.eye(450)[1]
    explorer = ar.BPIUCRL(setting, reward, bounds="paper")
    explorer.tell([[0, 1, 0]] * 999 + [[0, 2, 0]], np.zeros((1000, 2), int))
    for _ in range(10):
        explorer.tell([0, 1, 0], [0, 0])
        n = np.bincount([1] * (explorer.episodes - 1) + [2], minlength=450)
        law = n / n.sum() * np.array([1, 1, 1e-3] + [1] * 447)
        law[1] += 1 - law.sum()
        assert reference.kl(n / n.sum(), law) < bpi_reference.radius(n, setting, 0.1, "paper")  # this law is in the ball
        assert explorer.interval[1] >= law[1]


@pytest.mark.parametrize("bounds", ["tight", "paper"])
def test_it_stops_at_the_first_episode_with_a_narrow_interval(bounds):
    mdp, epsilon = ar.envs.double_chain(length=3), 1.0
    atlas = ar.identify(mdp, mdp.reward, horizon=3, epsilon=epsilon, bounds=bounds, seed=1)
    assert atlas.certificate.met
    assert atlas.episodes > 20
    explorer, rng = ar.BPIUCRL(mdp.setting(3), mdp.reward, bounds=bounds, seed=1), np.random.default_rng(1)
    while explorer.interval[1] - explorer.interval[0] > epsilon:
        explorer.tell(*mdp.rollout(explorer.ask(), seed=rng))
    assert explorer.episodes == atlas.episodes


def test_nothing_to_learn_needs_no_episode():
    """One step with a known reward, one state, or an epsilon of all there is to earn."""
    one_step = ar.identify(random_mdp(3, 2, seed=0), [0.1, 0.5, 0.9], horizon=1, epsilon=1e-6)
    one_state = ar.identify(ar.TabularMDP(np.ones((1, 2, 1))), [[0.2, 0.6]], horizon=4, epsilon=1e-6)
    wide = ar.identify(random_mdp(3, 2, seed=0), [0, 1, 0], horizon=5, epsilon=5.0)
    assert one_step.episodes == one_state.episodes == wide.episodes == 0
    assert one_state.policy.tolist() == [[1]] * 4
    assert one_state.plan([[0.2, 0.6]]).lower == pytest.approx(2.4)


def test_observed_rewards_cost_what_is_not_known():
    """Before anything is seen: [0, sigma_H]. After one episode of a single pair: its reward is known."""
    setting = ar.Setting(n_states=1, n_actions=1, horizon=3, initial_state=0, discount=0.5)
    observed, random = (ar.BPIUCRL(setting, rewards=kind) for kind in ("deterministic", "random"))
    for explorer in (observed, random):
        np.testing.assert_allclose(explorer.interval, (0, 1.75), atol=1e-11)
        explorer.tell([0, 0, 0, 0], [0, 0, 0], [0.5, 1.0, 0.25])
    np.testing.assert_allclose(observed.interval, np.full(2, 0.5 + 0.5 + 0.0625), atol=1e-11)
    assert random.interval[0] < 0.2
    assert random.interval[1] > 1.6


@pytest.mark.parametrize("law", ["bernoulli", "uniform", "constant", "rare"])
@pytest.mark.parametrize("delta", [0.5, 0.1])
def test_mean_rewards_are_covered_at_every_n(law, delta):
    """The interval misses the mean at *some* n with probability at most delta."""
    rng, runs, N = np.random.default_rng(7), 500, 150
    paid, mean = {
        "bernoulli": (rng.random((runs, N)) < 0.3, 0.3),
        "uniform": (rng.random((runs, N)), 0.5),
        "constant": (np.full((runs, N), 0.37), 0.37),
        "rare": (rng.random((runs, N)) < 0.01, 0.01),
    }[law]
    averages = np.cumsum(paid, axis=1) / np.arange(1, N + 1)
    missed = 0
    for row in averages:
        ends = [kl_interval(average, float(n), math.log(1 / delta)) for n, average in enumerate(row, start=1)]
        assert all(low <= average + 1e-15 and average - 1e-15 <= high for (low, high), average in zip(ends, row, strict=True))
        missed += any(not low <= mean <= high for low, high in ends)
    assert missed <= binom.isf(FALSE_ALARM, runs, delta)
    assert ends[-1][1] - ends[-1][0] < 0.4  # it does say something: 2 sqrt((log 10 + 4) / 300) = 0.29 by Pinsker


@pytest.mark.slow
@pytest.mark.parametrize("rewards", ["known", "deterministic", "random"])
def test_what_is_certified_is_true(rewards):
    """lower <= value of the recommendation and optimum <= upper, at the end of at least 1 - delta of the runs.

    With delta = 1/2; false alarm below 1e-7 a kind of reward.
    """
    runs, delta, H, wrong, told = 150, 0.5, 3, 0, 0
    for seed in range(runs):
        mdp = random_mdp(3, 2, seed=seed, random_start=seed % 2 == 0)
        stationary, discount = seed % 3 == 0, (1.0, 0.8)[seed % 2]
        setting, rng = mdp.setting(H, discount, stationary), np.random.default_rng(seed)
        explorer = ar.BPIUCRL(setting, mdp.reward, rewards=rewards, delta=delta, seed=seed)
        while explorer.episodes < 20 + 4 * seed:
            play_model(explorer, mdp, rng, 20 + 4 * seed - explorer.episodes, 0.0)
        lower, upper = explorer.interval
        value = mdp.initial @ ar.evaluate_policy(mdp, explorer.recommendation, mdp.reward, H, discount).V[0]
        optimum = mdp.initial @ ar.backward_induction(mdp, mdp.reward, H, discount).V[0]
        wrong += not (lower <= value and optimum <= upper)
        told += upper - lower < 0.9 * setting.sigma[-1]
    assert wrong <= binom.isf(FALSE_ALARM, runs, delta)
    assert told >= runs / 2  # intervals that say nothing would be true as well


@pytest.mark.slow
def test_one_reward_takes_far_fewer_episodes_than_all():
    """And the tight balls far fewer than the paper's, as RF-UCRL's own bound for all rewards takes more than any."""
    mdp, H, epsilon = ar.envs.double_chain(length=5), 5, 2.0
    paper, tight = (ar.identify(mdp, mdp.reward, H, epsilon, bounds=bounds).episodes for bounds in ("paper", "tight"))
    every = ar.explore(mdp, H, epsilon, algorithm="rf-ucrl", bounds="paper").episodes
    assert 5 * paper < every
    assert 2 * tight < paper
    assert 3 * tight < ar.explore(mdp, H, epsilon, algorithm="rf-ucrl", bounds="tight").episodes


# --- Certificates and files ---


def identified(rewards="known", **options):
    mdp = random_mdp(3, 2, seed=0)
    return mdp, ar.identify(mdp, mdp.reward, horizon=3, max_episodes=300, rewards=rewards, **options)


@pytest.mark.parametrize("bounds", ["paper", "tight", TightBound(), TightBound(max_successors=3), TightBound(threshold="paper")])
def test_a_certificate_is_checked_with_its_reward(bounds):
    mdp, atlas = identified(bounds=bounds)
    certificate, reward = atlas.certificate, np.broadcast_to(mdp.reward, (3, 3, 2))
    assert certificate.check(atlas.counts, reward)
    assert not certificate.check(atlas.counts, 1 - reward)
    assert not certificate.check(identified(bounds=bounds, seed=1)[1].counts, reward)
    with pytest.raises(ValueError, match="one reward"):
        certificate.check(atlas.counts)
    assert "one reward" in str(certificate)


@pytest.mark.parametrize("rewards", ["deterministic", "random"])
def test_certificates_of_observed_rewards_cannot_be_checked(rewards):
    """The counts do not hold what was paid: saying that the certificate is wrong would be wrong."""
    mdp, atlas = identified(rewards)
    with pytest.raises(ValueError, match="one reward"):
        atlas.certificate.check(atlas.counts, np.broadcast_to(mdp.reward, (3, 3, 2)))


def test_the_certificate_is_the_plan_of_its_reward():
    """Robust planning from the counts gives the interval that BPI-UCRL stopped with, and a cautious plan its policy's value."""
    mdp, atlas = identified()
    plan = atlas.plan(mdp.reward, cautious=True)
    assert plan.regret_bound == pytest.approx(atlas.certificate.epsilon, abs=1e-9)
    assert atlas.evaluate(atlas.policy, mdp.reward).lower == pytest.approx(plan.lower, abs=1e-9)


def test_other_rewards_are_bounded_by_their_own_intervals_only():
    """A certificate for one reward says nothing of others; the balls do."""
    mdp, atlas = identified()
    other = 1 - mdp.reward
    assert atlas.plan(other).regret_bound > atlas.certificate.epsilon
    optimum = ar.backward_induction(mdp, other, 3).V[0, 0]
    assert atlas.plan(other).lower <= optimum <= atlas.plan(other).upper


@pytest.mark.parametrize("rewards", ["known", "deterministic", "random"])
def test_files_keep_policy_and_certificate(tmp_path, rewards):
    mdp, atlas = identified(rewards)
    atlas.save(tmp_path / "one.atlas")
    again = ar.load(tmp_path / "one.atlas")
    if rewards == "known":
        assert again == atlas
        assert again.certificate == atlas.certificate
    else:  # what was paid is not in the file: it cannot be verified
        assert again.certificate == replace(atlas.certificate, claimed=True, met=False)
        assert "claimed by the file, not verified" in str(again.certificate)
    assert not again.certificate.every_reward
    assert again.certificate.transition_delta == (0.05 if rewards == "random" else 0.1)
    np.testing.assert_array_equal(again.policy, atlas.policy)
    assert again.plan(mdp.reward).lower == pytest.approx(atlas.plan(mdp.reward).lower, rel=1e-12)  # sums in another order


def test_atlases_for_one_reward_are_not_merged():
    mdp, atlas = identified()
    every = ar.explore(mdp, horizon=3, max_episodes=10)
    for one, other in ((atlas, identified(seed=1)[1]), (atlas, every), (every, atlas)):
        with pytest.raises(ValueError, match="one reward"):
            one | other


# --- What is refused ---


def test_a_reward_is_needed():
    """The model's own, if there is one and no other is given."""
    mdp = random_mdp(3, 2, seed=0)
    mdp.reward = None
    with pytest.raises(ValueError, match="reward is not given"):
        ar.explore(mdp, horizon=3, epsilon=1.0, algorithm="bpi-ucrl")
    with pytest.raises(ValueError, match="reward is not given"):
        ar.explore(mdp, horizon=3, epsilon=1.0, algorithm="bpi-ucrl", rewards="deterministic")  # a model has to pay something


@pytest.mark.parametrize("reward", [[0, 0.5, 1.1], [-0.1, 0, 0], [0, math.nan, 0], [0, 1], np.zeros((3, 3)), "gold"])
@pytest.mark.parametrize("rewards", ["known", "deterministic", "random"])
def test_rewards_outside_0_to_1_are_refused(reward, rewards):
    with pytest.raises(ValueError, match="reward"):
        ar.BPIUCRL(random_mdp(3, 2, seed=0).setting(3), reward, rewards=rewards)


@pytest.mark.parametrize(("option", "value"), [("rewards", "seen"), ("rewards", None), ("ties", "last"), ("bounds", "loose")])
def test_unknown_options_are_refused(option, value):
    with pytest.raises(ValueError, match=option):
        ar.BPIUCRL(random_mdp(3, 2, seed=0).setting(3), [0, 1, 0], **{option: value})


def test_the_earlier_name_of_deterministic_rewards_goes_on_working():
    """`plan("own", ...)` has called them so from the beginning."""
    mdp = ar.envs.double_chain(5)
    now, then = (ar.identify(mdp, mdp.reward, 3, max_episodes=60, rewards=word) for word in ("deterministic", "observed"))
    assert now == then
    assert "the same step, state and action always pay the same" in str(then.certificate)
    assert np.array_equal(now.policy, then.policy)
    assert ar.BPIUCRL(mdp.setting(3), rewards="observed").rewards == "deterministic"


def test_observed_rewards_of_pooled_steps_cannot_depend_on_the_step():
    setting = random_mdp(3, 2, seed=0).setting(3, stationary=True)
    with pytest.raises(ValueError, match="depend on the step"):
        ar.BPIUCRL(setting, np.zeros((3, 3, 2)), rewards="deterministic")


@pytest.mark.parametrize("rewards", ["deterministic", "random"])
@pytest.mark.parametrize(
    "paid", [None, [0.1, 0.2], [0.1] * 4, [[0.1] * 3] * 2, [0, 0, 1.5], [0, -1e-9, 0], [0, math.nan, 0], ["a", "b", "c"]]
)
def test_nothing_is_learnt_from_refused_rewards(rewards, paid):
    explorer = ar.BPIUCRL(random_mdp(3, 2, seed=0).setting(3), rewards=rewards)
    explorer.tell([0, 1, 2, 0], [0, 1, 0], [0.5, 0.25, 1.0])
    before = explorer.counts.digest(), explorer.interval, explorer._values.rewards.total.sum(), explorer.ask().tolist()
    with pytest.raises(ValueError, match=r"rewards|reshape|convert"):
        explorer.tell([0, 1, 2, 0], [0, 1, 0], paid)
    with pytest.raises(ValueError, match="states"):
        explorer.tell([0, 1, 3, 0], [0, 1, 0], [0.5, 0.5, 0.5])
    assert (explorer.counts.digest(), explorer.interval, explorer._values.rewards.total.sum(), explorer.ask().tolist()) == before


# --- The environment's own reward ---


@pytest.mark.parametrize("rewards", ["known", "deterministic", "random"])
@pytest.mark.parametrize("stationary", [False, True])
def test_another_range_is_another_unit(rewards, stationary):
    """Rewards in [-3, 5] are those in [0, 1] on another scale: the same policies, and an interval in their units."""
    mdp, H, (low, high) = random_mdp(4, 2, seed=7), 3, (-3.0, 5.0)
    setting, unit = mdp.setting(H, 0.9, stationary), np.random.default_rng(1).integers(0, 9, (4, 2)) / 8
    scaled = low + (high - low) * unit
    alike = {"stationary_rewards": True} if stationary and rewards != "known" else {}
    given = [{"reward": r} if rewards == "known" else {} for r in (unit, scaled)]
    one = ar.BPIUCRL(setting, **given[0], rewards=rewards, **alike)
    two = ar.BPIUCRL(setting, **given[1], rewards=rewards, reward_range=(low, high), **alike)
    for seed in range(30):
        policy = one.ask()
        np.testing.assert_array_equal(policy, two.ask())
        states, actions = mdp.rollout(policy, seed=seed)
        for explorer, pays in ((one, unit), (two, scaled)):
            explorer.tell(states, actions, *([] if rewards == "known" else [pays[states[:, :-1], actions]]))
    np.testing.assert_array_equal(one.recommendation, two.recommendation)
    sigma = setting.sigma[-1]
    assert two.interval == pytest.approx([low * sigma + (high - low) * end for end in one.interval], abs=1e-9)
    certificate = two.certificate(epsilon=1.0)
    assert certificate.epsilon == pytest.approx(8 * one.certificate().epsilon, abs=1e-9)
    assert certificate.reward_range == (low, high)
    assert certificate.largest == pytest.approx(8 * sigma)
    assert "one reward in [-3, 5]" in str(certificate)
    assert ("rewards lie in [-3, 5]" in str(certificate)) == (rewards != "known")
    if rewards == "known":
        assert certificate.check(two.counts, scaled, two.recommendation)
        assert not certificate.check(two.counts, unit)
        assert not replace(certificate, reward_range=(0.0, 1.0)).check(two.counts, scaled)
        assert not replace(certificate, epsilon=0.9 * certificate.epsilon).check(two.counts, scaled, two.recommendation)


def test_a_reward_on_arrival_may_have_another_range(tmp_path):
    mdp, reward = random_mdp(3, 2, seed=2), np.random.default_rng(2).random((3, 2, 3))
    one = ar.identify(mdp, reward, 3, max_episodes=40)
    two = ar.identify(mdp, 4 * reward - 1, 3, max_episodes=40, reward_range=(-1, 3))
    assert one.counts == two.counts
    assert two.certificate.epsilon == pytest.approx(4 * one.certificate.epsilon, abs=1e-9)
    two.save(tmp_path / "two.atlas")
    assert ar.load(tmp_path / "two.atlas").certificate == two.certificate


def test_the_target_is_in_the_units_of_the_reward(tmp_path):
    """On a known model at compiled speed: it ends when the interval is that narrow, in units; the file is checked by them."""
    mdp = ar.envs.double_chain(length=5)
    one = ar.identify(mdp, mdp.reward, 4, epsilon=0.5)
    two = ar.identify(mdp, 10 * mdp.reward - 5, 4, epsilon=5.0, reward_range=(-5, 5))
    assert one.counts == two.counts
    assert two.certificate.met
    assert two.certificate.epsilon == pytest.approx(10 * one.certificate.epsilon)
    two.save(tmp_path / "two.atlas")
    assert ar.load(tmp_path / "two.atlas").certificate == two.certificate


OWN = [
    ("FrozenLake-v1", {"initial_state": 0}, (0.0, 1.0), {}),
    ("FrozenLake-v1", {"initial_state": 0, "terminal": "state"}, (0.0, 1.0), {"paid_once": True}),
    ("FrozenLake-v1", {"stationary": True}, (0.0, 1.0), {"stationary_rewards": True, "paid_once": True}),
    ("CliffWalking-v1", {"initial_state": 36, "discount": 0.9, "terminal": "end"}, (-100.0, 0.0), {}),
    ("Blackjack-v1", {"action_masks": "none"}, (-1.0, 1.0), {"paid_once": True}),
]


@pytest.mark.usefixtures("quick_look")
@pytest.mark.parametrize(("env", "options", "reward_range", "known"), OWN)
def test_the_own_reward_is_identified_as_plans_for_it_are_bounded(env, options, reward_range, known):
    """The two intervals are computed by different code from the same event: robust values of the means and of the balls."""
    atlas = ar.identify(env, "own", 4, reward_range=reward_range, max_episodes=150, **options, **known)
    plan = atlas.plan("own", reward_range, cautious=True, **known)
    assert atlas.certificate.epsilon == pytest.approx(plan.upper - plan.lower, abs=1e-6)
    assert atlas.certificate.reward_range == reward_range
    assert ("at most one reward of an episode is not zero" in str(atlas.certificate)) == ("paid_once" in known)
    assert atlas.evaluate(atlas.policy, "own", reward_range, **known).lower == pytest.approx(plan.lower, abs=1e-6)


@pytest.mark.usefixtures("quick_look")
def test_nothing_is_paid_after_the_end_whatever_would_be_played():
    """Once, actions that were never played after the end counted as if they could pay: epsilon stayed near the horizon."""
    atlas = ar.identify(
        "FrozenLake-v1", "own", 8, stationary=True, stationary_rewards=True, initial_state=0, max_episodes=3_000
    )  # fmt: skip
    assert atlas.certificate.epsilon < 1.5
    setting = ar.Setting(n_states=2, n_actions=1, horizon=2, initial_state=0, terminal="end")
    explorer = ar.BPIUCRL(setting, rewards="random")
    explorer.tell([0, 1, 1], [0, 0], [1.0, 0.0])
    with pytest.raises(ValueError, match=r"rewards\[0, 1\] is 1, but episode 0 has terminated"):
        explorer.tell([0, 1, 1], [0, 0], [1.0, 1.0])
    goes_on = ar.Setting(n_states=2, n_actions=1, horizon=2, initial_state=0, absorbing_states=(1,))
    ar.BPIUCRL(goes_on, rewards="random").tell([0, 1, 1], [0, 0], [1.0, 1.0])  # a state that is never left may pay


def test_what_does_not_suit_own_rewards_is_refused():
    mdp, setting = random_mdp(3, 2, seed=1), random_mdp(3, 2, seed=1).setting(3)
    explorer = ar.BPIUCRL(setting, rewards="random", reward_range=(-1, 1), paid_once=True)
    with pytest.raises(ValueError, match=r"rewards\[0, 2\] is 2: it has to be in \[-1, 1\]\. Pass reward_range"):
        explorer.tell([0, 1, 2, 0], [0, 0, 0], [0, 0, 2])
    with pytest.raises(ValueError, match="paid_once is True, but episode 0 paid more than one reward"):
        explorer.tell([0, 1, 2, 0], [0, 0, 0], [0, -1, 1])
    assert explorer.episodes == 0
    with pytest.raises(ValueError, match="paid_once is for rewards that are observed"):
        ar.BPIUCRL(setting, mdp.reward, paid_once=True)
    with pytest.raises(ValueError, match="a known model says what it pays"):
        ar.explore(mdp, 3, max_episodes=5, algorithm="bpi-ucrl", rewards="random", paid_once=True)
    with pytest.raises(ValueError, match="reward_range is"):
        ar.BPIUCRL(setting, mdp.reward, reward_range=(1, 0))
    with pytest.raises(ValueError, match="reward is 'own', which is only observed: UCBVI has to know it"):
        ar.explore("FrozenLake-v1", 3, max_episodes=5, algorithm="ucbvi", reward="own")
    with pytest.raises(ValueError, match="BPIUCRL is for one reward; give it, or 'own' for what the environment pays"):
        ar.explore("FrozenLake-v1", 3, max_episodes=5, algorithm="bpi-ucrl")
    with pytest.raises(ValueError, match="this environment has none of its own"):
        ar.explore(ar.TabularMDP(mdp.dense()), 3, max_episodes=5, algorithm="bpi-ucrl", reward="own")
    assert ar.identify(mdp, "own", 3, max_episodes=30) == ar.identify(mdp, mdp.reward, 3, max_episodes=30)

"""Every plan has an interval of its own, true for all rewards at once, also for those chosen to break it.

It watches `docs/theory.md`, 6.1.
"""

import gymnasium
import numpy as np
import pytest
from scipy.stats import binom

import anyreward as ar
from anyreward.kernels.robust import LOWER

from ..helpers.bounds import robust_planning
from ..helpers.problems import random_mdp

FALSE_ALARM = 1e-7  # of each statistical test here


def margin(atlas, mdp, reward, cautious=False):
    """How far the truth is inside the interval of a plan; negative: it is not."""
    setting = atlas.counts.setting
    plan = atlas.plan(reward, cautious=cautious)
    value = mdp.initial @ ar.evaluate_policy(mdp, plan.policy, reward, setting.horizon, setting.discount).V[0]
    optimum = mdp.initial @ ar.backward_induction(mdp, reward, setting.horizon, setting.discount).V[0]
    assert value <= optimum + 1e-12
    return min(value - plan.lower, plan.upper - optimum)


def least_margin(atlas, mdp, rng, steps):
    """Local search over rewards r_h(s, a) in {0, 1} for the plan that is nearest to being wrong; the data are known to it."""
    setting = atlas.counts.setting
    shape = (setting.horizon, setting.n_states, setting.n_actions)
    reward = rng.integers(0, 2, shape).astype(float)
    least = margin(atlas, mdp, reward)
    for _ in range(steps):
        other = np.where(rng.random(shape) < rng.choice([0.03, 0.3]), rng.integers(0, 2, shape), reward)
        found = margin(atlas, mdp, other)
        if found <= least:
            reward, least = other, found
    return least


def explored(seed, episodes, delta, algorithm="rf-trajectory", **options):
    mdp = random_mdp(3, 2, seed=seed, random_start=seed % 2 == 1)
    kinds = {"stationary": seed % 3 == 0, "discount": (1.0, 0.8)[seed % 2]}
    return mdp, ar.explore(mdp, 3, max_episodes=episodes, delta=delta, seed=seed, algorithm=algorithm, **kinds, **options)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["rf-trajectory", "rf-ucrl"])
def test_intervals_hold_for_rewards_chosen_after_the_data(algorithm):
    """In at least 1 - delta of the explorations *all* intervals hold; delta = 1/2, false alarm below 1e-7."""
    runs, delta, broken = 100, 0.5, 0
    for seed in range(runs):
        mdp, atlas = explored(seed, 10 + 10 * seed, delta, algorithm)
        rng = np.random.default_rng(seed)
        rewards = [rng.random(3), rng.integers(0, 2, (3, 2)), rng.random((3, 3, 2)), rng.random((3, 3, 2)) < 0.2]
        broken += min(margin(atlas, mdp, reward, cautious=i % 2 == 1) for i, reward in enumerate(rewards)) < 0
    assert broken <= binom.isf(FALSE_ALARM, runs, delta)


@pytest.mark.slow
def test_intervals_hold_for_rewards_chosen_to_break_them():
    """One search of 120 rewards an exploration; a search that breaks one interval breaks the exploration."""
    runs, delta = 40, 0.5
    broken = sum(least_margin(*reversed(explored(s, 30 + 30 * s, delta)), np.random.default_rng(s), 120) < 0 for s in range(runs))
    assert broken <= binom.isf(FALSE_ALARM, runs, delta)


@pytest.mark.slow
def test_intervals_of_balls_that_do_hold_are_never_broken():
    """If all laws are in their balls there is no chance left: the interval holds for every reward, up to rounding.

    The data of deterministic transitions are the truth, so p_hat = p at every visited pair.
    """
    rng = np.random.default_rng(0)
    for seed in range(10):
        mdp = ar.TabularMDP(np.eye(4)[np.random.default_rng(seed).integers(0, 4, (4, 2))])
        atlas = ar.explore(mdp, 4, max_episodes=60, seed=seed)
        assert least_margin(atlas, mdp, rng, 60) >= 0


@pytest.mark.slow
def test_intervals_lie_within_the_any_reward_interval():
    rng = np.random.default_rng(1)
    for seed in range(12):
        _, atlas = explored(seed, 5000, 0.1)
        for reward in (rng.random((3, 3, 2)), rng.integers(0, 2, 3)):
            plan, policy = atlas.plan(reward), rng.dirichlet(np.ones(2), (3, 3))
            interval = atlas.evaluate(policy, reward)
            for lower, value, upper in ((plan.lower, plan.value, plan.upper), interval):
                assert value - atlas.error_bound - 1e-11 <= lower <= value + 1e-11
                assert value - 1e-11 <= upper <= value + atlas.error_bound + 1e-11
            assert plan.regret_bound <= atlas.certificate.epsilon + 1e-11


def test_the_policy_with_the_best_guarantee():
    """No policy has a better lower end than the cautious plan's; all deterministic ones of a small problem are tried."""
    mdp = random_mdp(2, 2, seed=3)
    atlas = ar.explore(mdp, 2, max_episodes=25, seed=1)
    for seed in range(5):
        reward = np.random.default_rng(seed).random((2, 2, 2))
        plan = atlas.plan(reward, cautious=True)
        robust = robust_planning(atlas.counts, atlas.certificate.bound, 0.1, reward)
        policies = [np.array(list(np.binary_repr(i, 4)), int).reshape(2, 2) for i in range(16)]
        guaranteed = max(robust.of(policy, LOWER) for policy in policies)
        assert robust.of(plan.policy, LOWER) == pytest.approx(guaranteed, abs=1e-12)
        assert plan.lower >= guaranteed - 1e-11
        # it is not less cautious than the plan for the empirical model, which has the better empirical value
        assert robust.of(plan.policy, LOWER) >= robust.of(atlas.plan(reward).policy, LOWER) - 1e-12
        assert plan.value <= atlas.plan(reward).value + 1e-12


def test_caution_prefers_what_was_tried():
    """An action tried once looks better than one tried a thousand times, and is worth less for certain."""
    setting = ar.Setting(n_states=3, n_actions=2, horizon=2, initial_state=0)
    often, once = [[0, 1, 0]] * 1000, [[0, 2, 0]]
    counts = ar.Counts.from_episodes(often + once, [[0, 0]] * 1000 + [[1, 0]], setting)
    atlas, reward = ar.Atlas(counts, ar.certify(counts)), [0.0, 0.8, 1.0]
    bold, cautious = atlas.plan(reward), atlas.plan(reward, cautious=True)
    assert (bold.policy[0, 0], cautious.policy[0, 0]) == (1, 0)
    assert bold.lower < 0.1 < 0.7 < cautious.lower
    assert cautious.upper == pytest.approx(bold.upper)


def test_deterministic_and_stochastic_policies_are_the_same_where_they_are():
    _, atlas = explored(0, 500, 0.1)
    policy, reward = np.random.default_rng(0).integers(0, 2, (3, 3)), np.random.default_rng(1).random((3, 3, 2))
    one, other = atlas.evaluate(policy, reward), atlas.evaluate(np.eye(2)[policy], reward)
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


def test_a_plan_is_an_evaluation_of_its_policy_with_the_optimum_above():
    _, atlas = explored(2, 500, 0.1)
    reward = np.random.default_rng(1).random((3, 3, 2))
    plan = atlas.plan(reward)
    lower, value, upper = atlas.evaluate(plan.policy, reward)
    assert (plan.lower, plan.value) == (lower, value)
    assert upper <= plan.upper + 1e-12


@pytest.mark.parametrize("cautious", [False, True])
def test_other_units(cautious):
    """A reward of -3 to 7 is ten times one of 0 to 1, less 3 a step; so is its interval."""
    _, atlas = explored(0, 300, 0.1)
    reward = np.random.default_rng(1).random((3, 3, 2))
    sigma = atlas.counts.setting.sigma[-1]
    unit, wide = atlas.plan(reward, cautious=cautious), atlas.plan(10 * reward - 3, (-3, 7), cautious=cautious)
    np.testing.assert_array_equal(unit.policy, wide.policy)
    for name in ("lower", "value", "upper"):
        assert getattr(wide, name) == pytest.approx(10 * getattr(unit, name) - 3 * sigma, abs=1e-9)


def test_nothing_known_nothing_claimed():
    """Without an episode the interval is what the reward allows at all: its extremes at each step, after the known start."""
    setting = ar.Setting(n_states=2, n_actions=2, horizon=3, initial_state=0)
    counts = ar.Counts(setting)
    plan = ar.Atlas(counts, ar.certify(counts)).plan([[0.5, 0.25], [0.75, 1.0]])
    assert plan.lower == pytest.approx(0.5 + 2 * 0.5)  # a robust policy earns 0.5 wherever it is
    assert plan.upper == pytest.approx(0.5 + 2 * 1.0)


def test_far_narrower_than_the_certificate_for_every_reward():
    """The reward at the right end of the double chain, after reward-free exploration."""
    mdp = ar.envs.double_chain(length=31, fail_prob=0.1)
    atlas = ar.explore(mdp, horizon=20, max_episodes=20_000, seed=0)
    plan = atlas.plan(mdp.reward)
    assert 2 * plan.regret_bound <= atlas.certificate.epsilon
    optimum = mdp.initial @ ar.backward_induction(mdp, mdp.reward, 20).V[0]
    assert plan.lower <= optimum <= plan.upper  # fails with probability 0.1 over seeds; this seed is fixed


@pytest.mark.parametrize("kind", ["one", "merged", "loaded"])
def test_wherever_the_atlas_comes_from(kind, tmp_path):
    mdp, atlas = explored(0, 400, 0.1)
    if kind == "merged":
        other = ar.explore(mdp, 3, max_episodes=400, seed=77, stationary=True)
        atlas, alone = atlas | other, atlas
        assert atlas.plan(mdp.reward).regret_bound < alone.plan(mdp.reward).regret_bound
    elif kind == "loaded":
        atlas.save(tmp_path / "a.atlas")
        assert ar.load(tmp_path / "a.atlas").plan(mdp.reward).upper == pytest.approx(atlas.plan(mdp.reward).upper)
    assert margin(atlas, mdp, mdp.reward) >= 0


class EndsAnywhere(gymnasium.Env):
    """Three states in a row, of which the last pays; an episode may end in each of them."""

    observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s = 0
        return 0, {}

    def step(self, action):
        if self.np_random.random() < 0.1:
            return self.s, 0.0, True, False, {}
        forward = self.np_random.random() < (0.8 if action else 0.2)
        self.s = min(2, self.s + 1) if forward else 0
        return self.s, 0.0, False, False, {}


def value_with_ends(policy, after, r, H, gamma=1.0):
    """The true value of a policy (H, 3) that names the actions `after` (H, 3) in states where the episode has ended."""
    V, ended = np.zeros(3), np.zeros(3)
    for h in range(H - 1, -1, -1):
        new = np.zeros(3)
        for s in range(3):
            a = policy[h, s]
            go = 0.8 if a else 0.2
            ahead = go * V[min(2, s + 1)] + (1 - go) * V[0]
            new[s] = r[s, a] + gamma * (0.1 * ended[s] + 0.9 * ahead)
        V, ended = new, r[np.arange(3), after[h]] + gamma * ended
    return V[0]


# Resting pays after an end, and not before: what is best before and after an end are different actions.
RESTING = np.array([[0.2, 0.0], [0.2, 0.0], [1.0, 0.8]])


@pytest.mark.usefixtures("quick_look")
@pytest.mark.parametrize("how", [{"rewards": [RESTING]}, {"rewards": [RESTING, RESTING[::-1]]}, {"reward": RESTING}])
def test_plans_for_given_rewards_keep_the_promise_though_they_are_paid_after_an_end(how):
    options = {"epsilon": 0.5, "stationary": True, "progress": False, "seed": 2}
    if "reward" in how:
        options |= {"algorithm": "bpi-ucrl"}
    atlas = ar.explore(EndsAnywhere, 5, **how, **options)
    assert atlas.certificate.met
    for r in how.get("rewards", [RESTING]):
        plan = atlas.plan(r)
        assert plan.regret_bound <= 0.5
        assert plan.lower <= plan.value <= plan.upper
        truth = value_with_ends(plan.policy, plan.after_end, r, 5)
        assert plan.lower <= truth <= plan.upper
        assert (r[np.arange(3), plan.after_end] == r.max(axis=1)).all()
        assert tuple(atlas.evaluate(plan, r))[:2] == pytest.approx((plan.lower, plan.value), abs=1e-9)
        assert atlas.evaluate(plan.on_outcomes, r).value == pytest.approx(plan.value)
        assert atlas.evaluate(plan.policy, r).value <= plan.value + 1e-12  # which names one action for both


@pytest.mark.usefixtures("quick_look")
def test_what_is_played_is_paid_for_what_the_plan_names_after_an_end(tmp_path):
    atlas = ar.explore(EndsAnywhere, 5, rewards=[RESTING], epsilon=0.5, stationary=True, progress=False)
    plan = atlas.plan(RESTING)
    truth, earned = value_with_ends(plan.policy, plan.after_end, RESTING, 5), plan.run(EndsAnywhere, 1_500, seed=3)
    assert abs(earned.mean() - truth) < 5 * earned.std() / np.sqrt(len(earned))
    found = atlas.verify(plan, EndsAnywhere, episodes=300, seed=1)
    assert found.lower <= truth <= found.upper
    atlas.save(tmp_path / "ends.atlas")
    assert ar.load(tmp_path / "ends.atlas").plan(RESTING) == plan
    assert atlas.explain(RESTING).width == pytest.approx(plan.upper - plan.lower, abs=0.5)
    limited = atlas.plan(RESTING, subject_to=[(1.0 - RESTING, "<=", 4.9)])
    assert limited.lower <= limited.value <= limited.upper


def test_a_reward_that_is_the_same_for_all_actions_after_an_end_names_none():
    atlas = ar.explore(EndsAnywhere, 3, max_episodes=20, stationary=True, progress=False)
    whole = np.concatenate([RESTING, RESTING.max(axis=1, keepdims=True).repeat(2, axis=1)])
    for reward in (np.array([0.0, 0.5, 1.0]), whole, "own"):
        plan = atlas.plan(reward)
        assert plan.after_end is None
        assert plan.on_outcomes.shape == plan.policy.shape == (3, 3)

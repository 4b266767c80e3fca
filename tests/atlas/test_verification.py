"""Checking by playing: what `verify` returns is the intersection of two intervals that hold, with delta shared between them.

It watches `docs/theory.md`, 12.1 and 12.2.
"""

import numpy as np
import pytest

import anyreward as ar
from anyreward.certificates.betting import mean_interval
from anyreward.planning import evaluate_policy

from ..helpers.coverage import allowed
from ..helpers.tabular import Tabular, transitions

H = 4
MDP = ar.TabularMDP(transitions(4, 2), initial=[0.5, 0.25, 0.25, 0.0])
REWARD = np.random.default_rng(2).random((H, 4, 2))


@pytest.fixture(scope="module")
def atlas():
    return ar.explore(MDP, H, max_episodes=30, delta=0.2)


def test_the_result_is_the_intersection_of_playing_and_exploring(atlas):
    """Computed again from the episodes: with delta/2 each."""
    plan = atlas.plan(REWARD)
    found = atlas.verify(plan, MDP, episodes=700, seed=5)
    earned = plan.run(MDP, episodes=700, seed=5)
    low, high = REWARD.min(axis=(1, 2)).sum(), REWARD.max(axis=(1, 2)).sum()
    played = mean_interval(earned, 0.1, low, high)
    again = ar.Atlas(atlas.counts, ar.certify(atlas.counts, delta=0.1))
    explored = again.plan(REWARD)
    robust = again.evaluate(plan.policy, REWARD)
    assert found.value == pytest.approx(earned.mean())
    np.testing.assert_allclose(found.played, played, atol=1e-9)
    assert found.explored[0] <= robust.lower + 1e-9  # the certificate's error bound is left out: it has another delta
    assert found.lower == max(found.played[0], found.explored[0])
    assert found.upper == min(found.played[1], found.explored[1])
    assert found.optimum >= explored.upper - 1e-9
    assert found.regret_bound == found.optimum - found.lower
    assert (found.episodes, found.delta, found.played_delta) == (700, 0.2, 0.1)
    assert found.upper - found.lower < atlas.evaluate(plan.policy, REWARD).upper - atlas.evaluate(plan.policy, REWARD).lower
    assert isinstance(found, ar.Interval)
    assert "with probability 0.8" in str(found)


@pytest.mark.slow
def test_the_truth_is_missed_as_seldom_as_promised():
    """With delta = 0.9, looking after every 1,000th of a batch and stopping at the worst moment.

    A verification that used the seeds of exploration, forgot the range of the reward or scaled it wrongly, or that gave all of
    delta to both parts and psi to none would miss the truth in most runs; the right one may in 45%.
    """
    plan = ar.explore(MDP, H, max_episodes=5, delta=0.9).plan(REWARD)
    truth = float(MDP.initial @ evaluate_policy(MDP, plan.policy, REWARD, H).V[0])
    low, high = REWARD.min(axis=(1, 2)).sum(), REWARD.max(axis=(1, 2)).sum()
    missed, bare, runs = 0, 0, 200
    for seed in range(runs):
        earned = plan.run(MDP, episodes=400, seed=seed)
        looks = [plan.atlas.verify(plan, MDP, episodes=n, seed=seed) for n in (1, 3, 10, 30, 100, 400)]
        missed += any(not look.lower <= truth <= look.upper for look in looks)
        error = [abs(earned[:n].mean() - truth) / (earned[:n].std() / np.sqrt(n)) for n in (10, 30, 100, 400)]
        bare += max(error) > 0.6  # a normal interval of 45% without the price of looking several times
    assert missed <= allowed(0.9, runs)
    assert missed <= 0.45 * runs
    assert bare > 0.5 * runs  # such an interval would be noticed
    assert low < truth < high


def test_two_plans_are_compared_in_pairs(atlas):
    good, bad = atlas.plan(REWARD), atlas.plan(1 - REWARD)
    found = atlas.verify(good, MDP, episodes=3_000, against=bad)
    truth = [float(MDP.initial @ evaluate_policy(MDP, plan.policy, REWARD, H).V[0]) for plan in (good, bad)]
    assert found.lower <= truth[0] - truth[1] <= found.upper
    assert found.lower > 0  # better for certain
    back = atlas.verify(bad, MDP, episodes=3_000, against=good, reward=REWARD)
    assert back.value == pytest.approx(-found.value)
    assert back.lower == pytest.approx(-found.upper, abs=1e-6)
    assert np.isnan(found.optimum)


def test_starts_are_common_to_a_pair():
    """With a reward of the start alone, two plans never differ: the interval of the difference closes around 0."""
    env = Tabular(transitions(4, 2), start=[0.25, 0.25, 0.25, 0.25])
    atlas = ar.explore(env, 2, max_episodes=50)
    reward = np.zeros((2, 4, 2))
    reward[0, 1] = 1.0
    found = atlas.verify(np.zeros((2, 4), int), env, episodes=300, against=np.ones((2, 4), int), reward=reward)
    assert found.value == 0
    assert found.upper - found.lower < 0.1


def test_further_rewards_are_scored_on_the_same_episodes(atlas):
    plan = atlas.plan(REWARD)
    found = atlas.verify(plan, MDP, episodes=500, also={"flipped": 1 - REWARD})
    assert found.played_delta == 0.05
    assert found.scores["flipped"].value == pytest.approx(H - found.value)
    assert found.scores["flipped"].lower <= H - found.value <= found.scores["flipped"].upper


def test_each_further_try_has_a_smaller_share(atlas):
    plan = atlas.plan(REWARD)
    shares = [atlas.verify(plan, MDP, episodes=10, attempt=k).played_delta for k in range(1, 200)]
    np.testing.assert_allclose(shares[:3], [0.1 / 2, 0.1 / 6, 0.1 / 12])
    assert sum(shares) <= 0.1


def test_playing_stops_when_the_interval_is_narrow_enough(atlas):
    found = atlas.verify(atlas.plan(REWARD), MDP, width=0.3)
    assert found.played[1] - found.played[0] <= 0.3
    assert found.episodes < 10_000


def test_it_stops_in_time():
    class Slow(Tabular):
        def step(self, action):
            import time

            time.sleep(0.002)
            return super().step(action)

    env = Slow(transitions(4, 2))
    atlas = ar.explore(Tabular(transitions(4, 2)), H, max_episodes=20)
    found = atlas.verify(atlas.plan("state == 1"), env, episodes=10**9, max_seconds=0.2)
    assert 1 <= found.episodes < 1_000


def test_ctrl_c_returns_the_interval_so_far():
    class Stopped(Tabular):
        def reset(self, **options):
            if self.resets == 12:
                raise KeyboardInterrupt
            return super().reset(**options)

    atlas = ar.explore(Tabular(transitions(4, 2)), H, max_episodes=20)
    found = atlas.verify(atlas.plan("state == 1"), Stopped(transitions(4, 2)), episodes=10**6)
    assert found.episodes == 12


def test_the_own_reward_is_what_the_environment_pays():
    def make():
        return Tabular(transitions(4, 2), pay=lambda s, a, s_next: s_next / 3)

    atlas = ar.explore(make(), H, max_episodes=200)
    plan = atlas.plan("own")
    found = atlas.verify(plan, make(), episodes=500)
    assert found.value == pytest.approx(plan.run(make(), episodes=500).mean())
    assert found.lower <= plan.value <= found.upper
    with pytest.raises(ValueError, match="outside reward_range"):
        atlas.verify(plan, Tabular(transitions(4, 2), pay=lambda *_: 7.0), episodes=5)


def test_an_environment_that_has_changed_is_an_error():
    """What was explored excludes what is earned now: no interval is printed."""
    atlas = ar.explore(ar.envs.double_chain(3, fail_prob=0.0), H, max_episodes=2_000, stationary=True)
    plan = atlas.plan("state == 2")
    with pytest.raises(ValueError, match="the environment has changed, is another one, or an assumption is false"):
        atlas.verify(plan, ar.envs.double_chain(3, fail_prob=1.0), episodes=3_000)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "none of episodes, max_seconds and width"), ({"episodes": 0}, "episodes is 0"), ({"episodes": 1.5}, "is 1.5"),
        ({"episodes": 5, "delta": 2}, "delta is 2"), ({"episodes": 5, "attempt": 0}, "attempt is 0"),
        ({"episodes": 5, "width": -1}, "width is -1"), ({"episodes": 5, "seed": -1}, "seed is -1"),
        ({"episodes": 5, "reward_range": (0, 2)}, "reward_range is given without a reward"),
        ({"episodes": 5, "also": ["state == 1"]}, "also is .* it has to be a dictionary"),
        ({"episodes": 5, "env_arg": {}}, "'env_arg' is not an argument of playing; perhaps 'env_args' is meant"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(atlas, options, match):
    with pytest.raises(ValueError, match=match):
        atlas.verify(atlas.plan(REWARD), MDP, **options)


def test_a_policy_needs_a_reward_and_fixed_actions(atlas):
    with pytest.raises(ValueError, match="reward is missing"):
        atlas.verify(np.zeros((H, 4), int), MDP, episodes=5)
    with pytest.raises(ValueError, match="at random"):
        atlas.verify(np.full((H, 4, 2), 0.5), MDP, episodes=5, reward=REWARD)

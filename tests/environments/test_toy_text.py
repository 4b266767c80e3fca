"""Environments that come with Gymnasium: the intervals contain the truth that is computed from their transitions."""

import gymnasium as gym
import numpy as np
import pytest

import anyreward as ar

from ..helpers.problems import newest
from ..helpers.tabular import own_truth

pytestmark = pytest.mark.usefixtures("quick_look")


def toy_text(name, **options):
    """P (S, A, S), mean pay (S, A, S), ends and the start distribution of a toy-text environment, from its own table."""
    inner = gym.make(name, **options).unwrapped
    S, A = inner.observation_space.n, inner.action_space.n
    P, pay, ends = np.zeros((S, A, S)), np.zeros((S, A, S)), set()
    for s in range(S):
        for a in range(A):
            for p, s_next, r, done in inner.P[s][a]:
                P[s, a, s_next] += p
                pay[s, a, s_next] += p * r
                if done:
                    ends.add(s_next)
    return P, np.divide(pay, P, out=np.zeros_like(P), where=P > 0), ends, np.asarray(inner.initial_state_distrib)


# Environments that everybody has


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("terminal", ["state", "end", "outcome"])
def test_frozen_lake_intervals_contain_the_truth(seed, terminal):
    P, pay, ends, _ = toy_text("FrozenLake-v1")
    H = 12
    atlas = ar.explore("FrozenLake-v1", H, max_episodes=300, seed=seed, terminal=terminal, stationary=True)
    for assumed in ({}, {"rewards": "deterministic"}, {"rewards": "deterministic", "stationary_rewards": True}):
        plan = atlas.plan("own", reward_range=(0.0, 1.0), **assumed)
        value = own_truth(P, ends, pay, H, plan.policy)
        assert plan.lower <= value <= own_truth(P, ends, pay, H) + 1e-12
        assert own_truth(P, ends, pay, H) <= plan.upper


@pytest.mark.slow
def test_frozen_lake_is_solved_after_enough_episodes():
    P, pay, ends, _ = toy_text("FrozenLake-v1")
    H = 20
    best = own_truth(P, ends, pay, H)
    assert best > 0.15
    for seed in range(2):
        atlas = ar.explore("FrozenLake-v1", H, max_episodes=3_000, seed=seed, stationary=True, replan="geometric")
        plan = atlas.plan("own", rewards="deterministic", stationary_rewards=True)
        value = own_truth(P, ends, pay, H, plan.policy)
        assert plan.lower <= value <= best <= plan.upper
        assert value > best - 0.02
        assert plan.value == pytest.approx(value, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "horizon", "reward_range"), [("CliffWalking-v1", 15, (-100.0, 0.0)), (newest("Taxi"), 6, (-10.0, 20.0))]
)
def test_other_toy_texts_have_intervals_that_contain_the_truth(name, horizon, reward_range):
    P, pay, ends, start = toy_text(name)
    if name == "CliffWalking-v1":
        assert ends == {47}
    atlas = ar.explore(name, horizon, max_episodes=150, stationary=True)
    plan = atlas.plan("own", reward_range=reward_range)
    assert plan.policy.shape == (horizon, len(P))
    mask = np.ones(P.shape[:2], bool)
    if len(atlas.counts.illegal):
        mask &= ~atlas.counts.illegal
    value = own_truth(P, ends, pay, horizon, plan.policy, mask, start=start)
    best = own_truth(P, ends, pay, horizon, start=start)
    assert plan.lower <= value <= best + 1e-9
    assert best <= plan.upper


@pytest.mark.slow
def test_cliff_walking_is_exact_once_every_transition_was_seen():
    """Deterministic: 534 episodes, as docs/environments.md says, and then every plan for every reward is optimal."""
    P, pay, ends, start = toy_text("CliffWalking-v1")
    known = {"deterministic": True, "stationary": True, "initial_state": 36}
    atlas = ar.explore("CliffWalking-v1", 20, epsilon=1e-9, max_episodes=2_000, **known)
    assert atlas.episodes == 534
    assert atlas.certificate.epsilon == 0.0
    assert "every transition is deterministic" in str(atlas.certificate)
    plan = atlas.plan("own", (-100.0, 0.0), rewards="deterministic", stationary_rewards=True)
    assert (plan.lower, plan.upper) == pytest.approx((-13.0, -13.0), abs=1e-6)
    assert own_truth(P, ends, pay, 20, plan.policy, start=start) == own_truth(P, ends, pay, 20, start=start) == -13.0
    with pytest.raises(ValueError, match="deterministic is True"):
        ar.explore("CliffWalking-v1", 20, max_episodes=500, env_args={"is_slippery": True}, **known)
    with pytest.raises(ValueError, match="deterministic is True"):
        ar.identify("CliffWalking-v1", np.zeros(48), 20, max_episodes=500, env_args={"is_slippery": True}, **known)


@pytest.mark.slow
def test_taxi_is_exact_if_its_start_is_known_too():
    """2,630 episodes, as docs/environments.md says: the start is random, and its distribution is known."""
    P, pay, ends, start = toy_text(newest("Taxi"))
    atlas = ar.explore(newest("Taxi"), 20, epsilon=0.2, deterministic=True, stationary=True, initial=start, max_episodes=5_000)
    assert atlas.episodes == 2_630
    assert atlas.certificate.epsilon == 0.0
    plan = atlas.plan("own", (-10.0, 20.0), rewards="deterministic", stationary_rewards=True)
    best = own_truth(P, ends, pay, 20, start=start)
    assert (plan.lower, plan.upper) == pytest.approx((best, best), abs=1e-6)
    assert plan.lower <= best <= plan.upper


@pytest.mark.slow
def test_taxi_masks_are_obeyed():
    atlas = ar.explore(newest("Taxi"), 10, max_episodes=60, stationary=True)
    inner = gym.make(newest("Taxi")).unwrapped
    met = np.flatnonzero(atlas.counts.illegal.any(axis=1))
    assert len(met) > 50
    for s in met:
        np.testing.assert_array_equal(atlas.counts.illegal[s], inner.action_mask(int(s)) == 0)
    policy = atlas.plan(np.random.default_rng(0).random((500, 6))).policy
    assert not atlas.counts.illegal[np.arange(500)[None].repeat(10, 0), policy].any()


@pytest.mark.slow
@pytest.mark.parametrize(("terminal", "S"), [(None, 704), ("end", 705)])
def test_blackjack_ends_where_it_also_goes_on(terminal, S):
    atlas = ar.explore("Blackjack-v1", 4, max_episodes=200, terminal=terminal)
    assert atlas.counts.setting.n_states == S
    assert atlas.plan(np.random.default_rng(0).random(S)).lower >= 0
    with pytest.raises(ValueError, match="leave out terminal='state'"):
        ar.explore("Blackjack-v1", 4, max_episodes=2_000, terminal="state")

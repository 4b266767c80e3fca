"""The time limit of an environment, found in whatever way it was wrapped."""

import gymnasium as gym
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.wrappers import TimeLimit, TransformReward

from anyreward.playing.opening import time_limit


class Plain(gym.Env):
    """An environment that was never registered, so that it has no spec."""

    observation_space = action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 0, 0.0, False, False, {}


class Uncopyable(Plain):
    """An environment that must not be copied, since it holds something that there is only once."""

    def __copy__(self):
        raise AssertionError

    def __deepcopy__(self, memo):
        raise AssertionError


class Strict(TimeLimit):
    """A limit of somebody's own making."""


def seen(env):
    """After how many steps the environment really truncates."""
    env.reset(seed=0)
    return next(steps for steps in range(1, 1000) if env.step(0)[3])


@pytest.mark.parametrize("env", [Plain, Uncopyable])
def test_environments_wrapped_by_hand(env):
    assert time_limit(env()) is None
    assert time_limit(TransformReward(env(), float)) is None
    for wrapped in (
        TimeLimit(env(), max_episode_steps=7),
        TimeLimit(env(), 7),
        Strict(env(), 7),
        TransformReward(TimeLimit(env(), 7), float),
        TimeLimit(TransformReward(env(), float), 7),
        TimeLimit(TimeLimit(env(), 7), 9),
        TimeLimit(TransformReward(TimeLimit(env(), 9), float), 7),
        TimeLimit(TimeLimit(TimeLimit(env(), 8), 7), 9),
    ):
        assert time_limit(wrapped) == 7 == seen(wrapped)


def test_registered_environments():
    assert time_limit(gym.make("FrozenLake-v1")) == 100
    assert time_limit(gym.make("FrozenLake-v1", max_episode_steps=30)) == 30
    assert time_limit(gym.make("FrozenLake-v1", max_episode_steps=-1)) is None
    assert time_limit(TimeLimit(gym.make("FrozenLake-v1"), 7)) == 7
    assert time_limit(TimeLimit(gym.make("FrozenLake-v1"), 700)) == 100
    assert time_limit(TimeLimit(CartPoleEnv(), 12)) == 12


def test_looking_changes_nothing():
    inner = Plain()
    env = TimeLimit(inner, 3)
    env.reset(seed=0)
    env.step(0)
    assert time_limit(env) == 3
    assert env.env is inner
    assert env.spec is None
    assert inner.spec is None
    assert [env.step(0)[3] for _ in range(2)] == [False, True]
    assert gym.make("FrozenLake-v1").spec.max_episode_steps == 100

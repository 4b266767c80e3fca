"""Playing a fixed policy on fresh episodes: in a known model, in a Gymnasium environment, or in a vector of them.

Episodes are those of the process that was explored (`environments.gymnasium`): an episode that terminates early stays where it
is, an illegal action is replaced by a legal one, and every episode begins with a seed of its own, which exploration never uses.

**No episode is selected by its outcome.** In a vector environment, one episode is played in each environment, and the next ones
begin when all have ended; those that end earlier wait. Taking episodes as they end would prefer the short ones.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from ..data.numbering import Numbering
from ..data.spaces import Binned, Indexed, codec
from ..data.tabular import TabularMDP
from ..rewards.forms import as_reward
from ..setting import Setting, nearest, shown, whole_number
from .calls import Calls
from .opening import ADAPTER, NAMES, EnvironmentFailure, Gymnasium, as_model, checked_mask, in_short, make

STREAM = 4  # of seeds; exploration and its audit have others
BATCH = 1_000  # episodes of a known model at a time
MAX_SEED = 2**31 - 1  # some environments take no larger seed


class Rollouts(NamedTuple):
    """Episodes of a fixed policy.

    Attributes
    ----------
    states : ndarray of int64, (B, H+1)
        As the process counts them; an episode that has terminated stays where it is.
    actions : ndarray of int64, (B, H)
    paid : ndarray, (B, H)
        What the environment paid.
    """

    states: np.ndarray
    actions: np.ndarray
    paid: np.ndarray


def rollouts(
    setting: Setting, numbering: Numbering, policy: np.ndarray, env: Any, seed: int, adapter: dict[str, Any] | None = None
) -> Iterator[Rollouts]:
    """Plays a policy in an environment, without end: yields some episodes at a time.

    Parameters
    ----------
    setting : Setting
        Of the process that the policy is for.
    numbering : Numbering
        How observations become states.
    policy : ndarray of int, (H, S)
    env
        As for `explore`, or a `gymnasium.vector.VectorEnv`.
    seed : int
        Of the episodes.
    adapter : dict, optional
        Arguments of `Gymnasium`.
    """
    seed = whole_number(seed, "seed")
    if seed < 0:
        raise ValueError(f"seed is {seed}: it cannot be negative.")
    unknown = next((name for name in adapter or () if name not in ADAPTER), None)
    if unknown is not None:
        raise ValueError(f"{shown(unknown)} is not an argument of playing{nearest(unknown, ADAPTER)}.")
    if is_vector(env):
        if adapter:
            raise ValueError(f"{next(iter(adapter))} is given with a vector environment, which is made already: leave it out.")
        return _played(setting, numbering, policy, _Vector(env), seed)
    opened = as_model(env, {name: value for name, value in (adapter or {}).items() if name not in NAMES})
    if isinstance(opened, TabularMDP):
        return _simulated(setting, policy, opened, seed)
    return _played(setting, numbering, policy, _Single(opened), seed)


def is_vector(env: Any) -> bool:
    """Whether it is a vector environment. Only somebody who has imported Gymnasium can have one."""
    vector = sys.modules.get("gymnasium.vector")
    return vector is not None and isinstance(env, vector.VectorEnv)


def _simulated(setting: Setting, policy: np.ndarray, mdp: TabularMDP, seed: int) -> Iterator[Rollouts]:
    """Episodes of a known model."""
    H, S, A = setting.horizon, setting.n_states, setting.n_actions
    if (mdp.n_states, mdp.n_actions) != (S, A):
        raise ValueError(f"the model has {mdp.n_states} states and {mdp.n_actions} actions, but the plan is for {S} and {A}.")
    mdp.check_horizon(H)
    reward = np.asarray(as_reward(np.zeros(S) if mdp.reward is None else mdp.reward, S, A, H))
    batch = 0
    while True:
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM, batch)))
        states, actions = mdp.rollout(policy, episodes=BATCH, seed=rng)
        yield Rollouts(states, actions, reward[np.arange(H), states[:, :H], actions])
        batch += 1


def _played(
    setting: Setting, numbering: Numbering, policy: np.ndarray, lanes: _Single | _Vector, seed: int
) -> Iterator[Rollouts]:
    """Episodes of a Gymnasium environment, one in each lane at a time."""
    check_spaces(lanes.spaces, numbering, lanes.name)
    H, S, B, t = setting.horizon, setting.n_states, lanes.size, 0
    numbers = numbering.copy()  # new observations may appear, which are nobody else's business
    while True:
        states, actions, paid = np.zeros((B, H + 1), np.int64), np.zeros((B, H), np.int64), np.zeros((B, H))
        words = [np.random.SeedSequence(seed, spawn_key=(STREAM, t + i)).generate_state(1)[0] for i in range(B)]
        observations, infos = lanes.reset([int(word) % MAX_SEED for word in words])
        going = [True] * B
        states[:, 0] = [_state(numbers, x, lanes.name) for x in observations]
        setting.check_starts(states[:, 0], lanes.name, numbers.names_in)
        for h in range(H):
            if not any(going):
                states[:, h + 1 :] = states[:, h : h + 1]
                break
            for i in range(B):  # environments that have ended may play on by themselves: what they do is not looked at
                s = int(states[i, h]) % S
                actions[i, h] = legal_action(int(policy[h, s]), infos[i].get("action_mask"), numbers, s)
            steps = lanes.step([numbers.action(int(a)) for a in actions[:, h]], going)
            infos = [info for *_, info in steps]
            for i, (observation, reward, terminated, truncated, _) in enumerate(steps):
                if not going[i]:
                    states[i, h + 1], actions[i, h] = states[i, h], 0
                    continue
                if not isfinite(reward):
                    raise ValueError(f"{lanes.name} paid {reward} at step {h}: a reward has to be a finite number.")
                if truncated and not terminated and h + 1 < H:
                    raise ValueError(
                        f"{lanes.name} was truncated after {h + 1} steps, before the horizon of {H}: "
                        "use an environment with a longer time limit."
                    )
                paid[i, h], going[i] = reward, not terminated
                states[i, h + 1] = (
                    S - 1 if terminated and setting.terminal == "end" else _state(numbers, observation, lanes.name)
                ) + (S if terminated and setting.terminal == "outcome" else 0)
        yield Rollouts(states, actions, paid)
        t += B


def _state(numbers: Numbering, observation: Any, name: str) -> int:
    """The number of an observation; one that never appeared before gets a number of its own, as in exploration."""
    try:
        return numbers.observations.encode(observation)
    except Exception as problem:  # whatever a strange object raises when it is looked at
        if isinstance(problem, ValueError) and str(problem).endswith("."):
            raise
        raise ValueError(f"{name} gave the observation {shown(observation)}, which is not in its space.") from None


def legal_action(a: int, mask: Any, numbering: Numbering, s: int) -> int:
    """Action a if it is legal or `mask` is None; else legal action number a mod k of the k legal ones, as in exploration."""
    if mask is None:
        return a
    word = checked_mask(mask, numbering.actions.size, s, numbering.names_in)
    if word[a]:
        return a
    legal = [b for b in range(len(word)) if word[b]]
    return legal[a % len(legal)]


def check_spaces(spaces: tuple[Any, Any], numbering: Numbering, name: str) -> None:
    """Raises if the spaces of an environment are not those that the states and actions were numbered from."""
    for space, known, what in zip(spaces, (numbering.observations, numbering.actions), ("observation", "action"), strict=True):
        if isinstance(known, Binned | Indexed):
            continue
        try:
            same = codec(space, name=what).describe() == known.describe()
        except ValueError:  # a space that cannot be numbered without further ado is another one
            same = False
        if not same:
            raise ValueError(
                f"the {what} space of {name} is not that of the environment that was explored: it is {shown(space)}."
            )


class _Single:
    """One Gymnasium environment as a vector of one."""

    size = 1

    def __init__(self, gymnasium: Gymnasium) -> None:
        self.env, name = make(gymnasium.env, gymnasium.env_args)
        self.name = name
        self._calls = Calls(self.env, gymnasium.step_timeout)
        self.spaces = self.env.observation_space, self.env.action_space

    def reset(self, seeds: list[int]) -> tuple[list[Any], list[dict[str, Any]]]:
        try:
            observation, info = self._calls.reset(seeds[0])
        except (Exception, SystemExit) as problem:
            raise EnvironmentFailure(f"{self.name} failed, resetting it: {in_short(problem)}.") from problem
        return [observation], [info]

    def step(self, actions: list[Any], going: list[bool]) -> list[tuple[Any, float, bool, bool, dict[str, Any]]]:
        try:
            return [self._calls.step(actions[0])]
        except (Exception, SystemExit) as problem:
            raise EnvironmentFailure(f"{self.name} failed, playing {shown(actions[0])}: {in_short(problem)}.") from problem


class _Vector:
    """A vector of Gymnasium environments, whatever it does with those that have ended."""

    def __init__(self, env: Any) -> None:
        self.env, self.size = env, int(env.num_envs)
        self.name = env.spec.id if getattr(env, "spec", None) is not None else type(env).__name__
        self.spaces = env.single_observation_space, env.single_action_space
        self._waits = "disabled" in str(env.metadata.get("autoreset_mode", "")).lower()

    def reset(self, seeds: list[int]) -> tuple[list[Any], list[dict[str, Any]]]:
        try:
            observations, info = self.env.reset(seed=seeds)
        except (Exception, SystemExit) as problem:
            raise EnvironmentFailure(f"{self.name} failed, resetting it: {in_short(problem)}.") from problem
        return self._items(observations), [self._info(info, i) for i in range(self.size)]

    def step(self, actions: list[Any], going: list[bool]) -> list[tuple[Any, float, bool, bool, dict[str, Any]]]:
        from gymnasium.vector.utils import concatenate, create_empty_array

        space = self.spaces[1]
        batch = concatenate(space, actions, create_empty_array(space, self.size))
        try:
            observations, rewards, terminated, truncated, info = self.env.step(batch)
        except (Exception, SystemExit) as problem:
            raise EnvironmentFailure(f"{self.name} failed, playing {shown(actions)}: {in_short(problem)}.") from problem
        items, infos = self._items(observations), [self._info(info, i) for i in range(self.size)]
        over = terminated | truncated
        if self._waits and over.any() and not over.all():  # nobody else resets those that have ended
            _, after = self.env.reset(options={"reset_mask": over})
            infos = [self._info(after if over[i] else info, i) for i in range(self.size)]
        if "final_obs" in info:  # environments that were reset in the same step
            for i in np.flatnonzero(info.get("_final_obs", over)):
                items[i] = info["final_obs"][i]
        answers = zip(items, rewards, terminated, truncated, infos, strict=True)
        return [(item, float(reward), bool(end), bool(cut), said) for item, reward, end, cut, said in answers]

    def _items(self, observations: Any) -> list[Any]:
        from gymnasium.vector.utils import iterate

        return list(iterate(self.env.observation_space, observations))

    @staticmethod
    def _info(info: dict[str, Any], i: int) -> dict[str, Any]:
        """The mask of environment i, which is all that is needed of its info."""
        if "action_mask" not in info or ("_action_mask" in info and not info["_action_mask"][i]):
            return {}
        return {"action_mask": info["action_mask"][i]}

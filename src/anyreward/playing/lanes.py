"""Lanes: one Gymnasium environment, or a vector of them, as something in which several episodes are played side by side."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..data.numbering import Numbering
from ..data.spaces import Binned, Indexed, codec
from ..setting import shown
from .calls import Calls
from .opening import EnvironmentFailure, Gymnasium, checked_mask, in_short, make


def is_vector(env: Any) -> bool:
    """Whether it is a vector environment. Only somebody who has imported Gymnasium can have one."""
    vector = sys.modules.get("gymnasium.vector")
    return vector is not None and isinstance(env, vector.VectorEnv)


FINAL = "info of the last observation"  # where an environment has been reset, and `info` is of the next episode


class Single:
    """One Gymnasium environment as a vector of one."""

    size = 1

    def __init__(self, gymnasium: Gymnasium) -> None:
        self.env, name = make(gymnasium.env, gymnasium.env_args)
        self.name = name
        self.calls = Calls(self.env, gymnasium.step_timeout)
        self.spaces = self.env.observation_space, self.env.action_space

    def reset(self, seeds: list[int]) -> tuple[list[Any], list[dict[str, Any]]]:
        try:
            observation, info = self.calls.reset(seeds[0])
        except (Exception, SystemExit) as problem:
            raise EnvironmentFailure(f"{self.name} failed, resetting it: {in_short(problem)}.") from problem
        return [observation], [info]

    def step(self, actions: list[Any], going: list[bool]) -> list[tuple[Any, float, bool, bool, dict[str, Any]]]:
        try:
            return [self.calls.step(actions[0])]
        except (Exception, SystemExit) as problem:
            raise EnvironmentFailure(f"{self.name} failed, playing {shown(actions[0])}: {in_short(problem)}.") from problem


class Vector:
    """A vector of Gymnasium environments, whatever it does with those that have ended."""

    def __init__(self, env: Any) -> None:
        self.env, self.size = env, int(env.num_envs)
        self.name = env.spec.id if getattr(env, "spec", None) is not None else type(env).__name__
        self.spaces = env.single_observation_space, env.single_action_space
        mode = str(getattr(env, "autoreset_mode", env.metadata.get("autoreset_mode"))).lower()
        self._waits = "disabled" in mode
        if mode.replace("_", "").endswith("nextstep") and not getattr(env, "shared_memory", True):
            raise ValueError(  # it resets once more what ended before `reset`, and returns that as the first step
                f"{self.name} has neither shared memory nor an autoreset mode that works without: make it with "
                "autoreset_mode=AutoresetMode.SAME_STEP, or with shared_memory=True."
            )

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
        over, final = terminated | truncated, list(infos)
        if self._waits and over.any() and not over.all():  # nobody else resets those that have ended
            _, after = self.env.reset(options={"reset_mask": over})
            infos = [self._info(after if over[i] else info, i) for i in range(self.size)]
        if "final_obs" in info:  # environments that were reset in the same step
            for i in np.flatnonzero(info.get("_final_obs", over)):
                items[i], final[i] = info["final_obs"][i], self._info(info.get("final_info", {}), int(i))
        infos = [{**said, FINAL: last} if last is not said else said for said, last in zip(infos, final, strict=True)]
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

"""Playing episodes anywhere, and what the environment answered: transcripts, which are played again where they are counted.

Whoever plays an episode needs little: a policy, the numbering of observations, which actions are legal. It checks nothing and
counts nothing. Whoever counts it plays the `Transcript` in place of the environment (`environments.parallel`): all checks are
made there, once, in the order of the episodes, by the code that checks episodes of one environment.

An episode is a function of its `Task`. Observations that are numbered as they appear, and have not appeared before, are numbered
in the order of their episode while it is played. What the driver numbers them depends on the order of episodes alone.
"""

from __future__ import annotations

import copy
import pickle
import random
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..data.numbering import Numbering
from ..data.spaces import Indexed
from .lanes import FINAL, Single, Vector, legal_action
from .opening import EnvironmentFailure


class Task(NamedTuple):
    """An episode to be played."""

    seed: int
    policy: np.ndarray  # (H, S), of any kind of integers
    appeared: bytes | None = None  # the observations that have a number, where they are numbered as they appear


class Process(NamedTuple):
    """How an environment is played."""

    horizon: int
    numbering: Numbering
    masks: np.ndarray | None  # (S, A), if it is known beforehand which actions are legal


class Transcript:
    """What an environment answered in one episode. It can be called in its place (`Calls`), and answers the same again.

    Where the environment failed, it raises an exception of the same name with the same message.
    """

    def __init__(self) -> None:
        self.answers: list[Any] = []  # of `reset`, then of every `step`
        self.actions: list[int] = []
        self.problem: tuple[str, str, str] | None = None  # the kind of the exception, what it says, and its traceback

    def note(self, answer: Any) -> None:
        """Keeps an answer as it is now: an environment may use the same array again."""
        *rest, info = answer
        info = info.get(FINAL, info)
        mask = {"action_mask": info["action_mask"]} if "action_mask" in info else {}
        self.answers.append(copy.deepcopy((*rest, mask)))

    def fail(self, problem: BaseException) -> None:
        """Keeps what went wrong, as text: an exception of somebody else's code may not survive being sent."""
        try:
            text = str(problem)
        except Exception:  # some cannot even be printed
            text = ""
        self.problem = type(problem).__name__, text, "".join(traceback.format_exception(problem))

    def act(self, h: int, s: int) -> int:
        """What was played at step h."""
        return self.actions[h]

    def reset(self, seed: int | None = None) -> Any:
        return self._next()

    def step(self, action: Any) -> Any:
        return self._next()

    def _next(self) -> Any:
        if self.answers:
            return self.answers.pop(0)
        kind, text, trace = self.problem or ("RuntimeError", "the episode that was played elsewhere is incomplete", "")
        problem = type(kind, (Exception,), {})(text)
        problem.add_note(f"Where it was played:\n{trace}")
        raise problem


def play(lanes: Single | Vector, process: Process, tasks: list[Task]) -> list[Transcript]:
    """Plays episodes side by side, one in each lane; there may be more lanes than episodes.

    An episode ends early when it terminates or is cut off, when the environment fails, and when it says something impossible:
    whoever plays the transcript finds the same.
    """
    H, numbering, masks = process
    spare = lanes.size - len(tasks)
    numbers = [_numbers(numbering, task.appeared) for task in tasks] + [_numbers(numbering, None)] * spare
    going, played = [True] * len(tasks) + [False] * spare, [Transcript() for _ in range(lanes.size)]
    try:
        observations, infos = lanes.reset([task.seed for task in tasks] + [0] * spare)
    except EnvironmentFailure as problem:
        return _failed(played, problem)
    for i in range(len(tasks)):
        played[i].note((observations[i], infos[i]))
    for h in range(H):
        actions = [0] * lanes.size
        for i in range(lanes.size):
            try:
                s = numbers[i](observations[i])
                mask = infos[i].get("action_mask") if masks is None else masks[s]
                actions[i] = legal_action(int(tasks[i].policy[h, s]) if going[i] else 0, mask, numbering, s)
            except Exception:  # found again where it is counted
                going[i] = False
        if not any(going):
            break
        for i in range(len(tasks)):
            if going[i]:
                played[i].actions.append(actions[i])
        try:
            answers = lanes.step([numbering.action(a) for a in actions], going)
        except EnvironmentFailure as problem:
            return _failed(played, problem)
        for i, answer in enumerate(answers):
            observations[i], _, terminated, truncated, infos[i] = answer
            if going[i]:
                played[i].note(answer)
                going[i] = not terminated and not truncated
    return played[: len(tasks)]


def _failed(played: list[Transcript], problem: EnvironmentFailure) -> list[Transcript]:
    """The transcript of an episode in which the environment raised an exception. A vector does not say which part of it did."""
    if len(played) > 1:
        raise problem
    played[0].fail(problem.__cause__ or problem)
    return played


def _numbers(numbering: Numbering, appeared: bytes | None) -> Callable[[Any], int]:
    """The numbering of observations for one episode, which leaves nothing behind."""
    codec = numbering.observations
    if not isinstance(codec, Indexed):
        return codec.encode
    known: dict[Any, int] = {} if appeared is None else _known(appeared)
    new: dict[Any, int] = {}

    def number(observation: Any) -> int:
        key = codec.key(observation)
        s = known.get(key)
        return new.setdefault(key, len(known) + len(new)) if s is None else s

    return number


@lru_cache(maxsize=1)  # it changes ever more rarely
def _known(appeared: bytes) -> dict[Any, int]:
    """The numbers of the observations that have appeared."""
    return {key: number for number, key in enumerate(pickle.loads(appeared))}


@contextmanager
def own_chance(seed: int) -> Iterator[None]:
    """Seeds the generators that Python and NumPy share, for environments that draw from them; they are put back afterwards.

    Otherwise processes that were forked would all draw the same from them.
    """
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    _seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002


def seeded(env: Any) -> Any:
    """An environment in a process of its own that seeds these generators whenever it is reset to a seed."""
    import gymnasium

    class Seeded(gymnasium.Wrapper[Any, Any, Any, Any]):
        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
            if seed is not None:
                _seed(seed)
            return super().reset(seed=seed, options=options)

    return Seeded(env)


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002

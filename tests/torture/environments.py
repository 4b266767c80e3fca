"""Environments that misbehave: they raise, hang, lie about their spaces, answer nonsense, change under way."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import anyreward as ar

from . import Broken, Tally, in_processes, one_sentence

S, A = 5, 3
HOSTILE: dict[str, Callable[..., Any]] = {}


class Plain(gym.Env):
    """A small random walk. From its `begin`-th reset on, `turn` changes what it answers."""

    def __init__(self, begin: int = 0) -> None:
        self.observation_space: Any = gym.spaces.Discrete(S)
        self.action_space: Any = gym.spaces.Discrete(A)
        self.begin, self.resets, self.t, self.s = begin, 0, 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.resets, self.t, self.s = self.resets + 1, 0, int(self.np_random.integers(2))
        answer: Any = (self.s, {})
        return self.at_reset(answer) if self.resets > self.begin else answer

    def step(self, action: Any) -> Any:
        self.t += 1
        self.s = int(self.np_random.integers(S)) if self.np_random.random() < 0.3 else (self.s + int(action)) % S
        answer: Any = (self.s, 0.5, False, False, {})
        return self.at_step(answer) if self.resets > self.begin else answer

    def at_reset(self, answer: Any) -> Any:
        return answer

    def at_step(self, answer: Any) -> Any:
        return answer


def hostile(kind: type[Plain]) -> type[Plain]:
    HOSTILE[kind.__name__] = kind
    return kind


def step_says(name: str, change: Callable[[Any, Any], Any]) -> None:
    """An environment whose step answers something else."""
    HOSTILE[name] = type(name, (Plain,), {"at_step": change})


def reset_says(name: str, change: Callable[[Any, Any], Any]) -> None:
    HOSTILE[name] = type(name, (Plain,), {"at_reset": change})


def raising(problem: BaseException) -> Callable[[Any, Any], Any]:
    def change(self: Any, answer: Any) -> Any:
        raise problem

    return change


step_says("RaisesInStep", raising(RuntimeError("no licence\n\x1b[2Jfor this")))
step_says("RaisesValueError", raising(ValueError("of its own")))
step_says("RaisesMemoryError", raising(MemoryError()))
step_says("Exits", raising(SystemExit(3)))
step_says("StopsIteration", raising(StopIteration()))
reset_says("RaisesInReset", raising(KeyError("seed")))
reset_says("ForgetsInfo", lambda self, answer: answer[0])
reset_says("InfoIsNone", lambda self, answer: (answer[0], None))
step_says("FourValues", lambda self, answer: answer[:4])
step_says("Nothing", lambda self, answer: None)
step_says("RewardIsNan", lambda self, answer: (answer[0], float("nan"), *answer[2:]))
step_says("RewardIsInfinite", lambda self, answer: (answer[0], float("inf"), *answer[2:]))
step_says("RewardIsHuge", lambda self, answer: (answer[0], 1e308, *answer[2:]))
step_says("RewardIsText", lambda self, answer: (answer[0], "much", *answer[2:]))
step_says("RewardIsAnArray", lambda self, answer: (answer[0], np.ones(3), *answer[2:]))
step_says("RewardIsComplex", lambda self, answer: (answer[0], 1j, *answer[2:]))
step_says("TerminatedIsAnArray", lambda self, answer: (answer[0], 0.5, np.zeros(2), False, {}))
step_says("ObservationTooLarge", lambda self, answer: (S, *answer[1:]))
step_says("ObservationNegative", lambda self, answer: (-1, *answer[1:]))
step_says("ObservationIsAFloat", lambda self, answer: (1.5, *answer[1:]))
step_says("ObservationIsNan", lambda self, answer: (float("nan"), *answer[1:]))
step_says("ObservationIsNone", lambda self, answer: (None, *answer[1:]))
step_says("ObservationIsAnArray", lambda self, answer: (np.arange(3), *answer[1:]))
step_says("ObservationIsItself", lambda self, answer: (self, *answer[1:]))
step_says("MaskTooShort", lambda self, answer: (*answer[:4], {"action_mask": [1]}))
step_says("MaskForbidsAll", lambda self, answer: (*answer[:4], {"action_mask": [0] * A}))
step_says("MaskChanges", lambda self, answer: (*answer[:4], {"action_mask": self.np_random.integers(0, 2, A)}))
step_says("MaskIsText", lambda self, answer: (*answer[:4], {"action_mask": "101"}))
step_says("MaskComesAndGoes", lambda self, answer: (*answer[:4], {"action_mask": [1] * A} if self.resets % 2 else {}))
step_says("TruncatesEarly", lambda self, answer: (answer[0], 0.5, False, True, {}))
step_says("EndsAtOnce", lambda self, answer: (answer[0], 0.5, True, False, {}))
step_says("EndsAndGoesOn", lambda self, answer: (answer[0], 0.5, self.resets % 2 == 0, False, {}))


@hostile
class LyingSpace(Plain):
    def __init__(self, begin: int = 0) -> None:
        super().__init__(begin)
        self.observation_space = gym.spaces.Discrete(2**62)


@hostile
class HugeSpace(Plain):
    def __init__(self, begin: int = 0) -> None:
        super().__init__(begin)
        self.observation_space = gym.spaces.MultiDiscrete([10**6] * 6)


@hostile
class HugeActions(Plain):
    def __init__(self, begin: int = 0) -> None:
        super().__init__(begin)
        self.action_space = gym.spaces.Discrete(2**40)


@hostile
class NoSpace(Plain):
    def __init__(self, begin: int = 0) -> None:
        super().__init__(begin)
        self.observation_space = None


@hostile
class ContinuousActions(Plain):
    def __init__(self, begin: int = 0) -> None:
        super().__init__(begin)
        self.action_space = gym.spaces.Box(-1, 1, (2,))


@hostile
class UnboundedObservations(Plain):
    def __init__(self, begin: int = 0) -> None:
        super().__init__(begin)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (3,))


@hostile
class NestedSpace(Plain):
    def __init__(self, begin: int = 0) -> None:
        super().__init__(begin)
        space: Any = gym.spaces.Discrete(2)
        for _ in range(400):
            space = gym.spaces.Tuple((space,))
        self.observation_space = space


@hostile
class Recursive(Plain):
    def at_step(self, answer: Any) -> Any:
        return self.at_step(answer)


@hostile
class ChangesItsSpaces(Plain):
    def at_step(self, answer: Any) -> Any:
        self.observation_space = gym.spaces.Discrete(2)
        self.action_space = gym.spaces.Discrete(1)
        return answer


@hostile
class ChangesTheFolder(Plain):
    def at_step(self, answer: Any) -> Any:
        os.chdir("/")
        return answer


@hostile
class WarnsAndPrints(Plain):
    def at_step(self, answer: Any) -> Any:
        warnings.warn("\x1b]0;owned\x07 something", stacklevel=1)
        print("\x1b[2J", file=sys.stdout)
        return answer


@hostile
class ChangesGlobals(Plain):
    def at_step(self, answer: Any) -> Any:
        np.random.seed(0)  # noqa: NPY002
        np.seterr(all="raise")
        sys.setrecursionlimit(10_000)
        return answer


@hostile
class Hangs(Plain):
    def at_step(self, answer: Any) -> Any:
        time.sleep(100)
        return answer


@hostile
class Spins(Plain):
    def at_step(self, answer: Any) -> Any:
        end = time.monotonic() + 6
        while time.monotonic() < end:
            pass
        return answer


@hostile
class Unprintable(Plain):
    def __repr__(self) -> str:
        raise RuntimeError("no name")

    __str__ = __repr__


@hostile
class ClosesItself(Plain):
    def at_step(self, answer: Any) -> Any:
        del self.s
        return answer


def misbehaving(tries: int, seed: int, folder: Path, tick: Callable[[int], None]) -> Tally:
    """Explorations of each kind, with the trouble beginning at a random moment."""
    tally = Tally(
        "An environment that misbehaves ends an exploration with one sentence, and what was explored is kept",
        f"{len(HOSTILE)} kinds of environments that raise, exit, hang, lie about spaces, answer nonsense or change under way",
    )
    names = list(HOSTILE)
    ar.explore(Plain(), 3, max_episodes=40)

    def attempt(number: int) -> str:
        rng = np.random.default_rng([seed, 2, number])
        name = names[number % len(names)]
        horizon = int(rng.choice([1, 3, 4]))
        begin = int(rng.choice([0, 3, 5_000 // horizon + 40]))  # the look before exploring has 5,000 steps
        options: dict[str, Any] = {"terminal": str(rng.choice(["outcome", "end", "state"])), "step_timeout": 1.0}
        if name == "NestedSpace" or rng.random() < 0.1:
            options["max_states"] = 20
        path = folder / "env.atlas"
        path.unlink(missing_ok=True)
        os.chdir(folder)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                atlas = ar.explore(
                    HOSTILE[name](begin),
                    horizon,
                    max_episodes=200,
                    seed=number,
                    checkpoint="env.atlas",
                    checkpoint_every=0,
                    **options,
                )
            outcome = f"explored {name}"
            if not atlas.certificate.check(atlas.counts):
                raise Broken(f"{name}: its certificate does not follow from its counts")
        except ar.EnvironmentFailure as problem:
            one_sentence(problem)
            outcome = "failed"
        except ValueError as problem:
            one_sentence(problem)
            outcome = "refused"
        except Exception as problem:
            raise Broken(f"{name}: {type(problem).__name__}: {problem}") from problem
        finally:
            np.seterr(all="warn")
            os.chdir(folder)
        if path.exists() and ar.load(path).episodes == 0:
            raise Broken(f"{name}: an empty checkpoint")
        if outcome == "explored Hangs":
            raise Broken("it was not noticed")
        return outcome.split()[0]

    return in_processes(tally, range(tries), attempt, tick, batch=1)

"""One exploration on many simulators: episodes are played in batches, side by side, wherever there is room.

A batch is B episodes. Their policies are fixed before the first of them begins, and each episode has a seed of its own, made from
the run's seed and the number of the episode. Whoever plays an episode (`players`) returns a transcript. Here the
transcripts are played again in the order of the episodes, through all checks of `GymnasiumEnvironment`, and then counted.

So the result depends on the seed and on B, and on nothing else: not on who plays, how many there are, or who is ready first. That
certificates hold all the same is `docs/theory.md`, 21.1. It assumes `OWN_SEEDS`, which certificates print, and which
the first episode of every call tests.

- **A worker that dies**: its episodes are played again from their own seeds, and come out the same.
- **An environment that raises an exception**: exploration stops. Nothing of that batch is counted, and all batches before it are.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..algorithms import Explorer
from ..data.spaces import Indexed
from ..executors import DaskExecutor
from ..playing.opening import Gymnasium
from ..playing.transcripts import Process, Task, Transcript
from ..setting import shown, whole_number
from .base import Environment
from .gymnasium import GymnasiumEnvironment
from .players import Elsewhere, Here, Player, Together, copies, part_of

BATCH = 8  # episodes of a batch, unless it is given
STREAM = 6  # of seeds; exploration of one environment, audits and rollouts have others
OWN_SEEDS = "every episode draws all its randomness from its own seed"


@dataclass(frozen=True)
class Parallel:
    """How the episodes of an exploration are played side by side.

    Parameters
    ----------
    batch
        Episodes of a batch.
    workers
        Processes of this machine. With neither these nor an executor, this process plays, one episode after another.
    n_envs
        Copies in one vector environment, each in a process of its own.
    executor
        Who plays, if that is somebody else: a Dask client, or anything like the executors of `concurrent.futures`.
    vector
        A vector environment that somebody else made.
    """

    batch: int = BATCH
    workers: int | None = None
    n_envs: int | None = None
    executor: Any = None
    vector: Any = None

    @classmethod
    def of(cls, batch: Any, workers: Any, n_envs: Any, executor: Any, vector: Any) -> Parallel:
        """What is asked for, by at least one argument. Raises if that does not go together."""
        asked = {"workers": workers, "n_envs": n_envs, "executor": executor, "a vector environment": vector}
        given = [name for name, value in asked.items() if value is not None]
        if len(given) > 1:
            raise ValueError(f"{given[0]} is given with {given[1]}: each says who plays the episodes, so leave one of them out.")
        size = BATCH if batch is None else whole_number(batch, "batch")
        if size < 1:
            raise ValueError(f"batch is {size}: it has to be at least 1.")
        for name, number in (("workers", workers), ("n_envs", n_envs)):
            if number is not None and whole_number(number, name) < 1:
                raise ValueError(f"{name} is {number}: it has to be at least 1.")
            if number is not None and number > size:
                raise ValueError(
                    f"{name} is {number}, but a batch has only {size} episodes to share out: use at most {name}={size}, or a "
                    "larger batch, on which the result depends."
                )
        if vector is not None and vector.num_envs > size:
            raise ValueError(
                f"the vector has {vector.num_envs} environments, but a batch has only {size} episodes to share out: use at least "
                f"batch={vector.num_envs}."
            )
        if executor is not None and not callable(getattr(executor, "submit", None)):
            raise ValueError(f"executor is {shown(executor)}: it has to be a Dask client, or an executor with a method submit.")
        return cls(size, workers, n_envs, executor, vector)

    @property
    def argument(self) -> str:
        """Which argument asks for it."""
        return next((name for name in ("workers", "n_envs", "executor") if getattr(self, name) is not None), "batch")

    def part(self, env: Any) -> Any:
        """What is explored, if `env` is given: of a vector, one part."""
        if self.vector is None:
            return env
        part = part_of(self.vector)
        return replace(env, env=part) if isinstance(env, Gymnasium) else part

    def environment(self, source: Gymnasium) -> Callable[..., ParallelEnvironment]:
        """What makes the environment that is played so, from the arguments of `GymnasiumEnvironment`."""
        return partial(ParallelEnvironment, batch=self.batch, source=source)

    @contextmanager
    def opened(self, environment: Environment) -> Iterator[None]:
        """While an environment can be played."""
        assert isinstance(environment, ParallelEnvironment)
        with ExitStack() as stack:
            if self.workers is not None or self.executor is not None:
                executor = self.executor
                if hasattr(executor, "get_executor"):
                    executor = DaskExecutor(executor, str(getattr(executor.scheduler, "address", "its address")), 60.0)
                environment.player = elsewhere = Elsewhere(environment, executor, self.workers)
                stack.enter_context(elsewhere.stack)
            elif self.n_envs is not None or self.vector is not None:
                vector = self.vector
                if environment.source.step_timeout is not None:
                    raise ValueError(
                        "step_timeout is given with a vector environment, where steps are made together: use workers."
                    )
                if vector is None:
                    assert self.n_envs is not None
                    vector = copies(environment.source, self.n_envs)
                    stack.callback(vector.close, terminate=True)
                environment.player = Together(environment, vector)
            else:
                environment.player = Here(environment)
            yield


class ParallelEnvironment(GymnasiumEnvironment):
    """A Gymnasium environment of which many copies are played side by side.

    Parameters
    ----------
    batch
        Episodes of a batch.
    source
        What copies are made from: an id, a function that makes one, or an environment that can be pickled.
    gymnasium, horizon, ...
        See `GymnasiumEnvironment`. Its own copy is looked at beforehand, and plays the first episode once more, as a test.
    """

    assumptions = (OWN_SEEDS,)
    batch: int

    def __init__(self, gymnasium: Gymnasium, *args: Any, batch: int, source: Gymnasium, **options: Any) -> None:
        super().__init__(gymnasium, *args, **options)
        self.batch, self.source = batch, source
        self.player: Player
        self._tested = False

    @property
    def process(self) -> Process:
        """How its copies are played."""
        numbering, codec = self.numbering, self.observations
        if isinstance(codec, Indexed):
            numbering = replace(numbering, observations=Indexed(codec.size))
        return Process(self.horizon, numbering, self._masks)

    def play(self, explorer: Explorer, episodes: int, goal: float) -> bool:
        """Plays to the end of a batch, or `episodes` if that is less."""
        t, own = explorer.episodes, self.calls
        played: list[tuple[Any, Any]] = []
        tasks: Iterable[Task] = self.tasks(explorer, range(t, t + min(episodes, self.batch - t % self.batch)))
        first = [] if self._tested else (tasks := list(tasks))[: self.player.copies]
        try:
            for transcript in self.player.play(tasks):
                played.append((self._replayed(transcript, t + len(played), explorer), self._last))
        finally:
            self.calls = own
        for k, task in enumerate(first):
            self._test(task, played[k][0], t + k, explorer)
        self._tested = True
        for episode, self._last in played:
            self.count(explorer, *episode)
        return explorer.reached(goal)

    def _test(self, task: Task, played: tuple[np.ndarray, ...], t: int, explorer: Explorer) -> None:
        """Raises if an episode does not come out the same when it is played again."""
        own = self.calls
        (transcript,) = Here(self).play([task])
        try:
            again = self._replayed(transcript, t, explorer)
        finally:
            self.calls = own
        if not all(np.array_equal(one, other) for one, other in zip(played, again, strict=True)):
            raise ValueError(
                f"a copy of {self.name} plays another episode when it is reset to the same seed: let all copies be alike, and "
                "all randomness come from the seed that reset is given, or explore with one copy and without a batch."
            )

    def tasks(self, explorer: Explorer, numbers: range) -> Iterator[Task]:
        """The episodes with these numbers, of which the first is the next one."""
        kind = np.min_scalar_type(self.n_actions - 1)
        codec = self.observations
        appeared = pickle.dumps(codec.values) if isinstance(codec, Indexed) else None
        for t in numbers:
            word = np.random.SeedSequence(self.seed, spawn_key=(STREAM, t)).generate_state(1, np.uint64)[0]
            yield Task(int(word >> np.uint64(2)), explorer.ask_ahead(t - numbers[0]).astype(kind), appeared)

    def _replayed(self, transcript: Transcript, t: int, explorer: Explorer) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Episode t, from its transcript."""
        self.calls = transcript
        return self.episode(transcript.act, t, explorer.counts)

    def rests(self, episodes: int) -> bool:
        return episodes % self.batch == 0

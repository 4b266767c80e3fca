"""Who plays episodes for an exploration: this process, a vector environment, processes of this machine, somebody's executor.

Each is a `Player`, which gets tasks and gives transcripts (`playing.transcripts`) in their order. Nothing is checked here and
nothing is counted: that is `parallel`.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import cloudpickle  # type: ignore[import-untyped]  # comes with Gymnasium

from ..executors import CHECK_EVERY, NoWorkers, answer, pool, refused, version, without_us
from ..playing.lanes import Single, Vector, check_spaces
from ..playing.opening import EnvironmentFailure, Gymnasium, in_short, make, written
from ..playing.transcripts import Process, Task, Transcript, own_chance, play, seeded

if TYPE_CHECKING:
    from .parallel import ParallelEnvironment

DEATHS = 3  # of processes in one batch, after which exploration stops


class Player(Protocol):
    """Plays episodes, somewhere."""

    copies: int  # of the environment, of which each plays one of the first episodes

    def play(self, tasks: Iterable[Task]) -> Iterator[Transcript]:
        """The transcripts of these episodes, in their order. All tasks are taken before the first transcript is given."""


class Here:
    """This process plays, with the environment's own copy."""

    copies = 1

    def __init__(self, environment: ParallelEnvironment) -> None:
        self._lane = Single(Gymnasium(environment.env))
        self._lane.calls = environment.calls  # type: ignore[assignment]  # in the same thread, if there is a timeout
        self._process = environment.process

    def play(self, tasks: Iterable[Task]) -> Iterator[Transcript]:
        for task in list(tasks):
            with own_chance(task.seed):
                yield from play(self._lane, self._process, [task])


class Together:
    """A vector environment plays, as many episodes at a time as it has parts."""

    def __init__(self, environment: ParallelEnvironment, vector: Any) -> None:
        self._lanes, self._process = Vector(vector), environment.process
        self._lanes.name, self.copies = environment.name, self._lanes.size
        check_spaces(self._lanes.spaces, environment.numbering, environment.name)

    def play(self, tasks: Iterable[Task]) -> Iterator[Transcript]:
        left = list(tasks)
        while left:
            yield from play(self._lanes, self._process, left[: self.copies])
            left = left[self.copies :]


def copies(source: Gymnasium, many: int) -> Any:
    """A vector of copies of an environment, each in a process of its own."""
    driver = os.getpid()

    def make_seeded() -> Any:
        if os.getpid() != driver:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which ends the batch
        return seeded(make(source.env, source.env_args)[0])

    try:
        from gymnasium.vector import AsyncVectorEnv, AutoresetMode

        # Not every space can be put into shared memory; without it, `AutoresetMode.NEXT_STEP` is faulty (`lanes.Vector`).
        return AsyncVectorEnv([make_seeded] * many, shared_memory=False, autoreset_mode=AutoresetMode.SAME_STEP)
    except Exception as problem:  # whatever its own code raises
        raise ValueError(f"{many} copies of the environment cannot be made: {in_short(problem)}.") from problem


def part_of(vector: Any) -> Any:
    """An environment like the parts of a vector. Raises if they are not alike, as far as they say."""
    from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

    if not isinstance(vector, AsyncVectorEnv | SyncVectorEnv):
        raise ValueError(
            f"env is a {type(vector).__name__}, whose parts cannot be had one by one: pass a SyncVectorEnv or an AsyncVectorEnv, "
            "or n_envs and a function that makes one part."
        )
    made = {None if spec is None else spec.to_json() for spec in vector.get_attr("spec")}
    spaces = [vector.get_attr(name) for name in ("observation_space", "action_space")]
    if len(made) > 1 or any(space != theirs[0] for theirs in spaces for space in theirs):
        raise ValueError("env is a vector whose parts differ: all of them have to be copies of one environment.")
    return vector.envs[0] if isinstance(vector, SyncVectorEnv) else vector.env_fns[0]


class Session(NamedTuple):
    """What a worker has to know to play."""

    gymnasium: Gymnasium
    process: Process
    name: str
    made: str  # how Gymnasium would make it, if that is known


class Elsewhere:
    """Workers play: processes of this machine, if no executor is given.

    Attributes
    ----------
    stack
        Ends the processes when it is left.
    """

    def __init__(self, environment: ParallelEnvironment, executor: Any, workers: int | None) -> None:
        self.stack, self.name, self._workers, self.copies = ExitStack(), environment.name, workers, 1
        given = environment.source
        kept = Gymnasium(given.env, env_args=given.env_args, step_timeout=given.step_timeout)
        try:
            self._session = cloudpickle.dumps(Session(kept, environment.process, self.name, written(environment.env)))
        except Exception as problem:  # whatever its own code raises
            raise ValueError(
                f"{self.name} cannot be sent to workers: {in_short(problem)}. Pass its id, or a function that makes it."
            ) from problem
        self._executor: Executor = self._processes() if executor is None else executor
        self._check: Callable[[], None] | None = getattr(self._executor, "check", None)

    def _processes(self) -> Executor:
        """New processes; those from before are ended."""
        self.stack.close()
        assert self._workers is not None
        return self.stack.enter_context(pool(self._workers, signal.SIG_IGN))

    def play(self, tasks: Iterable[Task]) -> Iterator[Transcript]:
        jobs, futures, deaths = [], [], 0
        try:
            for task in tasks:
                jobs.append(task)
                futures.append(self._handed_in(task))
            for i in range(len(jobs)):
                while isinstance(answered := self._answer(futures[i]), BrokenExecutor):
                    deaths += 1
                    if self._workers is None or deaths == DEATHS:
                        raise EnvironmentFailure(
                            f"the workers that play {self.name} died, the last time in one of {len(jobs) - i} episodes that they "
                            "were playing: is there enough memory?"
                        ) from answered
                    self._executor = self._processes()
                    lost = [k for k in range(i, len(jobs)) if not futures[k].done() or futures[k].exception() is not None]
                    for k in lost:
                        futures[k] = self._handed_in(jobs[k])
                yield answered
        finally:
            if self._workers is None:  # processes of our own are ended: a pool that breaks chokes on futures that were cancelled
                for future in futures:
                    future.cancel()

    def _handed_in(self, task: Task) -> Future[Any]:
        try:
            return self._executor.submit(answer, version(), play_there, (self._session, task))
        except BrokenExecutor as problem:  # a process died in the meantime
            future: Future[Any] = Future()
            future.set_exception(problem)
            return future

    def _answer(self, future: Future[Any]) -> Transcript | BrokenExecutor:
        """What came of an episode; the exception if its worker died."""
        try:
            theirs, packed = self._result(future)
        except BrokenExecutor as problem:
            return problem
        except (Exception, asyncio.CancelledError) as problem:
            if isinstance(problem, NoWorkers):
                raise
            if isinstance(problem, CancelledError | asyncio.CancelledError) and self._check is not None:
                self._check()  # a scheduler that is gone cancels everything
            raise without_us(problem) or EnvironmentFailure(
                f"the workers that play {self.name} do not answer: {in_short(problem)}."
            ) from problem
        if theirs != version():
            raise refused(theirs)
        if isinstance(packed, str):
            raise NoWorkers(packed)
        return pickle.loads(packed)

    def _result(self, future: Future[Any]) -> Any:
        """The result of a future. While it is waited for, a cluster is asked now and then whether it is still there."""
        while True:
            try:
                return future.result(None if self._check is None else CHECK_EVERY)
            except TimeoutError:
                if self._check is None or future.done():
                    raise
                self._check()


class _Mine(threading.local):
    """The copy of an environment that a thread of a worker plays; it is made once."""

    session: bytes = b""
    lane: Single
    process: Process


_MINE = _Mine()


def play_there(job: tuple[bytes, Task]) -> bytes | str:
    """The transcript of an episode, packed, from the worker in which this is called; or why there is none."""
    packed, task = job
    if _MINE.session != packed:
        try:
            _MINE.lane, _MINE.process = _opened(pickle.loads(packed))
        except ValueError as problem:
            return str(problem)
        except Exception as problem:  # whatever code of somebody else's raises when it is imported
            return f"a worker cannot make the environment: {in_short(problem)}."
        _MINE.session = packed
    with own_chance(task.seed):
        (transcript,) = play(_MINE.lane, _MINE.process, [task])
    if transcript.problem is not None:  # it is not to be relied on any more
        _MINE.session = b""
    try:
        return cloudpickle.dumps(transcript)
    except Exception as problem:  # observations may be anything
        return f"an observation cannot be sent back by a worker: {in_short(problem)}."


def _opened(session: Session) -> tuple[Single, Process]:
    """A copy of an environment. Raises if it is not like the one that was looked at."""
    lane = Single(session.gymnasium)
    check_spaces(lane.spaces, session.process.numbering, session.name)
    if written(lane.env) != session.made:
        raise ValueError(
            f"{session.name} is another environment whenever it is made: give it all arguments on which it depends, such as "
            "its map."
        )
    return lane, session.process

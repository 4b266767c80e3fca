"""Jobs on any executor, each kept in a file as soon as it is done.

A job is a frozen dataclass of plain values. Its result is a JSON value that depends on the job alone, so it may be computed
anywhere and in any order, and what a file has need not be computed again, unless the code has changed. Nothing here schedules
work: that is the executor's (`executors`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, as_completed
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .._files import reason, replace_file
from ..executors import CHECK_EVERY, NoWorkers, answer, pool, refused, version, without_us

KEPT = "What is done is kept, and the same call resumes from there."
Outcome = tuple[int, Any, BaseException | None]  # number of the job, what `answer` returned, and what went wrong


@dataclass(frozen=True)
class Failure:
    """A job that did not come to an end, and why."""

    job: Any
    error: str


def key_of(job: Any) -> str:
    """A name for the file of a job."""
    return hashlib.sha256(_job_text(job).encode()).hexdigest()[:24]


def run_jobs(
    work: Callable[[Any], Any],
    jobs: Sequence[Any],
    folder: Path,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    fits: Callable[[Any], bool] = lambda result: True,
) -> tuple[list[Any], list[Failure]]:
    """The results of `work` on the jobs, in their order, None for those that failed; and the failures.

    `folder` gets a file for each job that is done. `executor` is anything like those of `concurrent.futures`; without one, a
    pool of processes on this machine. `progress` is called with how many are done and how many there are. What a file kept
    is taken if it `fits`. Raises ValueError if a worker has other code than this process.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{folder} cannot be written into: {reason(error)}.") from None
    results = [_kept(folder, job) for job in jobs]
    results = [result if result is not None and fits(result) else None for result in results]
    missing = {i: job for i, job in enumerate(jobs) if results[i] is None}
    done, failures = len(jobs) - len(missing), dict[int, Failure]()
    if progress is not None:
        progress(done, len(jobs))
    outcomes = _in_processes(work, missing, workers) if executor is None else _on(executor, work, missing)
    try:
        with closing(outcomes):
            for i, answered, problem in outcomes:
                if problem is None:
                    theirs, result = answered
                    if theirs != version():
                        raise refused(theirs)
                    results[i] = result
                    _keep(folder, jobs[i], theirs, result)
                elif (absent := without_us(problem)) is not None:
                    raise absent
                else:  # whatever it is, the others go on
                    failures[i] = Failure(jobs[i], f"{type(problem).__name__}: {problem}")
                done += 1
                if progress is not None:
                    progress(done, len(jobs))
    except NoWorkers as problem:
        raise NoWorkers(f"{problem} {KEPT}") from None
    return results, [failures[i] for i in sorted(failures)]


def _on(executor: Executor, work: Callable[[Any], Any], jobs: dict[int, Any]) -> Generator[Outcome, None, None]:
    """What comes of the jobs on somebody's executor; those that are not needed any more are taken back."""
    futures = {executor.submit(answer, version(), work, job): i for i, job in jobs.items()}
    check = getattr(executor, "check", None)
    try:
        for i, result, problem in _as_they_come(futures, check):
            if isinstance(problem, CancelledError | asyncio.CancelledError) and check is not None:
                check()  # a scheduler that is gone cancels everything
            yield i, result, problem
    finally:
        for future in futures:
            future.cancel()


def _in_processes(work: Callable[[Any], Any], jobs: dict[int, Any], workers: int | None) -> Generator[Outcome, None, None]:
    """What comes of the jobs in processes of our own.

    A process that dies, for want of memory maybe, takes its pool with it. Those jobs that were running are then tried alone, so
    that the one to blame fails alone, and the rest go on in another pool.
    """
    left, at_once = dict(jobs), workers or os.cpu_count() or 1
    while left:
        for i, result, problem in _in_a_pool(work, left, at_once):
            if not isinstance(problem, BrokenExecutor):
                del left[i]
                yield i, result, problem
        for i in list(left)[:at_once]:  # jobs are taken up in their order
            yield from _in_a_pool(work, {i: left.pop(i)}, 1)


def _in_a_pool(work: Callable[[Any], Any], jobs: dict[int, Any], workers: int) -> Generator[Outcome, None, None]:
    with pool(workers) as executor:
        futures: dict[Any, int] = {}
        with suppress(BrokenExecutor):  # what could not be handed in has no outcome
            for i, job in jobs.items():
                futures[executor.submit(answer, version(), work, job)] = i
        yield from _as_they_come(futures)


def _as_they_come(futures: dict[Any, int], check: Callable[[], None] | None = None) -> Generator[Outcome, None, None]:
    """The outcome of each future, as soon as it is there; `check` is called every few seconds while they are waited for."""
    left = set(futures)
    while left:
        for future in _done(set(left), None if check is None else CHECK_EVERY):
            left.discard(future)
            outcome: Outcome
            try:
                outcome = futures[future], future.result(), None
            except (Exception, asyncio.CancelledError) as problem:
                outcome = futures[future], None, problem
            yield outcome
        if left and check is not None:
            check()


def _done(left: set[Any], timeout: float | None) -> Iterator[Any]:
    """Futures as they are done, until time is up: the standard library's, or those of another one, which are asked by turns."""
    if all(isinstance(future, Future) for future in left):
        with suppress(TimeoutError):
            yield from as_completed(left, timeout)
        return
    end = None if timeout is None else time.monotonic() + timeout
    while left and (end is None or time.monotonic() < end):
        ready = {future for future in left if future.done()}
        yield from ready
        left -= ready
        if left and not ready:
            time.sleep(0.05)


def _job_text(job: Any) -> str:
    return json.dumps({"kind": type(job).__name__, **asdict(job)}, sort_keys=True)


def _keep(folder: Path, job: Any, by: str, result: Any) -> None:
    """Writes the result of a job into its file, with the version of the code that computed it."""
    kept = {"job": _job_text(job), "version": by, "result": result}
    replace_file(folder / f"{key_of(job)}.json", json.dumps(kept, sort_keys=True).encode())


def _kept(folder: Path, job: Any) -> Any:
    """The result of a job that was done before; a file that is damaged, or of another job or version, does not count."""
    try:
        kept = json.loads((folder / f"{key_of(job)}.json").read_bytes())
        return kept["result"] if (kept["job"], kept["version"]) == (_job_text(job), version()) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None

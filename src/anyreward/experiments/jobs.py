"""Jobs on any executor, each kept in a file as soon as it is done.

A job is a frozen dataclass of plain values. Its result is a JSON value that depends on the job alone, so it may be computed
anywhere and in any order, and what a file has need not be computed again, unless the code has changed. Nothing here schedules
work: that is the executor's.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, as_completed
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import active_children
from pathlib import Path
from typing import Any

from .. import __version__
from ..files import replace_file

PACKAGE = Path(__file__).parents[1]
PRESENTING = ("claims.py", "report.py", "plots.py", "cli.py", "cli_experiments.py", "progress.py")
Outcome = tuple[int, Any, Exception | None]  # number of the job, its result, and what went wrong


@dataclass(frozen=True)
class Failure:
    """A job that did not come to an end, and why."""

    job: Any
    error: str


def key_of(job: Any) -> str:
    """A name for the file of a job."""
    return hashlib.sha256(_told(job).encode()).hexdigest()[:24]


@cache
def version() -> str:
    """Of the code that computes results, whatever presents them."""
    files = [path for path in sorted(PACKAGE.rglob("*.py")) if path.name not in PRESENTING]
    return f"{__version__}+{hashlib.sha256(b''.join(path.read_bytes() for path in files)).hexdigest()[:16]}"


def run_jobs(
    work: Callable[[Any], Any],
    jobs: Sequence[Any],
    folder: Path,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[Any], list[Failure]]:
    """The results of `work` on the jobs, in their order, None for those that failed; and the failures.

    `folder` gets a file for each job that is done. `executor` is anything like those of `concurrent.futures`; without one, a
    pool of processes on this machine. `progress` is called with how many are done and how many there are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results = [_kept(folder, job) for job in jobs]
    missing = {i: job for i, job in enumerate(jobs) if results[i] is None}
    done, failures = len(jobs) - len(missing), {}
    if progress is not None:
        progress(done, len(jobs))
    outcomes = _in_processes(work, missing, workers) if executor is None else _on(executor, work, missing)
    with closing(outcomes):
        for i, result, problem in outcomes:
            if problem is None:
                results[i] = result
                _keep(folder, jobs[i], result)
            else:  # whatever it is, the others go on
                failures[i] = Failure(jobs[i], f"{type(problem).__name__}: {problem}")
            done += 1
            if progress is not None:
                progress(done, len(jobs))
    return results, [failures[i] for i in sorted(failures)]


@contextmanager
def cluster(scheduler: str | None) -> Iterator[Executor | None]:
    """An executor on the Dask cluster with that scheduler; None for none."""
    if scheduler is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError:
        raise ValueError("Dask is not installed: pip install anyreward[dask].") from None
    try:
        client = Client(scheduler, timeout=10, set_as_default=False)
    except (OSError, ValueError) as problem:
        raise ValueError(f"there is no Dask scheduler at {scheduler}: {' '.join(str(problem).split())[:150]}.") from None
    with client:
        yield client.get_executor()


def _on(executor: Executor, work: Callable[[Any], Any], jobs: dict[int, Any]) -> Generator[Outcome, None, None]:
    """What comes of the jobs on somebody's executor; those that are not needed any more are taken back."""
    futures = {executor.submit(work, job): i for i, job in jobs.items()}
    try:
        yield from _as_they_come(futures)
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
    """In one pool, whose processes end without a word at Ctrl-C, which a terminal sends to them as well."""
    others = set(active_children())
    with ProcessPoolExecutor(workers, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_DFL)) as pool:
        futures: dict[Any, int] = {}
        try:
            with suppress(BrokenExecutor):  # what could not be handed in has no outcome
                for i, job in jobs.items():
                    futures[pool.submit(work, job)] = i
            yield from _as_they_come(futures)
        except BaseException:  # or leaving the pool would wait for all of them
            for process in set(active_children()) - others:
                process.terminate()
            raise


def _as_they_come(futures: dict[Any, int]) -> Generator[Outcome, None, None]:
    """The outcome of each future, as soon as it is there."""
    for future in as_completed(futures) if all(hasattr(future, "_condition") for future in futures) else _polled(futures):
        outcome: Outcome
        try:
            outcome = futures[future], future.result(), None
        except Exception as problem:
            outcome = futures[future], None, problem
        yield outcome


def _polled(futures: dict[Any, int]) -> Iterator[Any]:
    """Futures of another library than the standard one, as they are done."""
    left = set(futures)
    while left:
        ready = {future for future in left if future.done()}
        yield from ready
        left -= ready
        if left and not ready:
            time.sleep(0.05)


def _told(job: Any) -> str:
    return json.dumps({"kind": type(job).__name__, **asdict(job)}, sort_keys=True)


def _keep(folder: Path, job: Any, result: Any) -> None:
    kept = {"job": _told(job), "version": version(), "result": result}
    replace_file(folder / f"{key_of(job)}.json", json.dumps(kept, sort_keys=True).encode())


def _kept(folder: Path, job: Any) -> Any:
    """The result of a job that was done before; a file that is damaged, or of another job or version, does not count."""
    try:
        kept = json.loads((folder / f"{key_of(job)}.json").read_bytes())
        return kept["result"] if (kept["job"], kept["version"]) == (_told(job), version()) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None

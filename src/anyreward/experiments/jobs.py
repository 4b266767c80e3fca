"""Jobs on any executor, each kept in a file as soon as it is done.

A job is a frozen dataclass of plain values. Its result is a JSON value that depends on the job alone, so it may be computed
anywhere and in any order, and what a file has need not be computed again, unless the code has changed. Nothing here schedules
work: that is the executor's.

Every result comes with the version of the code that computed it, which the worker states about itself. A worker whose code is not
the code of the calling process is refused, before it computes anything.
"""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import json
import logging
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .. import __version__
from .._files import reason, replace_file

PACKAGE = Path(__file__).parents[1]
PRESENTING = ("claims.py", "report.py", "plots.py", "pages.py", "outline.py", "cli", "progress.py")
CHECK_EVERY = 2.0  # seconds between two looks at a cluster
PR_SET_PDEATHSIG = 1  # of Linux: the signal that a process gets when its parent ends
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


@cache
def version() -> str:
    """Of the code that computes results, whatever presents them."""
    files = [path for path in sorted(PACKAGE.rglob("*.py")) if not {path.name, path.parent.name} & set(PRESENTING)]
    return f"{__version__}+{hashlib.sha256(b''.join(path.read_bytes() for path in files)).hexdigest()[:16]}"


def answer(expected: str, work: Callable[[Any], Any], job: Any) -> tuple[str, Any]:
    """The version of the code where this is called, in the worker, and the result of a job if that is the version expected."""
    mine = version()
    return mine, work(job) if mine == expected else None


def answer_packed(expected: str, packed: bytes) -> tuple[str, Any]:
    """The same for arguments that only code of the version expected can be trusted to unpack."""
    mine = version()
    return answer(expected, *pickle.loads(packed)) if mine == expected else (mine, None)


ANYWHERE = (
    "getattr(jobs := __import__('importlib').import_module('anyreward.experiments.jobs'), 'answer_packed', "
    "lambda expected, packed: (jobs.version(), None))(expected, packed)"
)


def refused(theirs: str) -> ValueError:
    """The error for a worker with other code."""
    return ValueError(
        f"a worker runs anyreward {theirs}, but this process runs anyreward {version()}: install the same code for every worker, "
        f"and restart them. {KEPT}"
    )


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
    with closing(outcomes):
        for i, answered, problem in outcomes:
            if problem is None:
                theirs, result = answered
                if theirs != version():
                    raise refused(theirs)
                results[i] = result
                _keep(folder, jobs[i], theirs, result)
            elif isinstance(problem, ImportError) and str(problem.name).split(".")[0] == __name__.split(".")[0]:
                raise ValueError(
                    f"a worker cannot import anyreward ({problem}): install anyreward {version()} for every worker, "
                    f"and restart them. {KEPT}"
                )
            else:  # whatever it is, the others go on
                failures[i] = Failure(jobs[i], f"{type(problem).__name__}: {problem}")
            done += 1
            if progress is not None:
                progress(done, len(jobs))
    return results, [failures[i] for i in sorted(failures)]


@contextmanager
def cluster(scheduler: str | None, wait: float = 60.0) -> Iterator[Executor | None]:
    """An executor on the Dask cluster with that scheduler; None for none. `wait` is how long it may be without any worker."""
    if scheduler is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError:
        raise ValueError("Dask is not installed: pip install anyreward[dask].") from None
    with _without_its_log():
        try:
            client = Client(scheduler, timeout=10, set_as_default=False)
        except (OSError, ValueError) as problem:
            raise ValueError(f"there is no Dask scheduler at {scheduler}: {' '.join(str(problem).split())[:150]}.") from None
        with client:
            yield DaskExecutor(client, scheduler, wait)


class DaskExecutor(Executor):
    """Jobs on a Dask cluster. `check` is called now and then while they are waited for: it raises if none can come any more.

    A worker of Dask dies of a function that it cannot import. So it is sent an expression and bytes, which every worker can take:
    one with another anyreward answers with its version, and one without says so.
    """

    def __init__(self, client: Any, scheduler: str, wait: float) -> None:
        self._client, self._executor, self._scheduler, self._wait = client, client.get_executor(), scheduler, wait
        self._worked_at = time.monotonic()  # when there was a worker

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **options: Any) -> Any:
        if work is answer:
            import cloudpickle  # type: ignore[import-untyped]  # comes with Dask

            expected, *rest = arguments
            return self._executor.submit(eval, ANYWHERE, {"expected": expected, "packed": cloudpickle.dumps(tuple(rest))})
        return self._executor.submit(work, *arguments, **options)

    def check(self) -> None:
        if self._client.status != "running":
            raise ValueError(f"the Dask scheduler at {self._scheduler} does not answer any more: start it again. {KEPT}")
        if self._client.scheduler_info()["workers"]:
            self._worked_at = time.monotonic()
        if time.monotonic() - self._worked_at > self._wait:
            raise ValueError(
                f"the Dask cluster at {self._scheduler} has had no worker for {self._wait:g} seconds: start one. {KEPT}"
            )


@contextmanager
def _without_its_log() -> Iterator[None]:
    """Leaves out what Dask itself says about connections that are lost: we say that in a sentence."""
    log = logging.getLogger("distributed")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


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


@contextmanager
def pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end without a word at Ctrl-C, which a terminal sends to them as well, and with their parent.

    If it is left by an exception, they are ended, and nobody waits for what they do.
    """
    mine: Any = multiprocessing.SimpleQueue()
    with ProcessPoolExecutor(workers, initializer=_begin_worker, initargs=(os.getpid(), mine)) as executor:
        try:
            yield executor
        except BaseException:  # or leaving the pool would wait for all of them
            executor.shutdown(wait=False, cancel_futures=True)
            numbers = set()
            while not mine.empty():
                numbers.add(mine.get())
            for process in multiprocessing.active_children():
                if process.pid in numbers:
                    process.terminate()
            raise


def _begin_worker(parent: int, mine: Any) -> None:
    """Lets this process end with its parent, however that ends, since nobody would want its results.

    On Linux the kernel sees to it at once. Elsewhere a thread does, which has to wait for compiled code to return.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    process = multiprocessing.parent_process()
    if process is None or (multiprocessing.get_start_method() == "fork" and os.getppid() != parent):  # it ended before
        os._exit(1)
    mine.put(os.getpid())
    threading.Thread(target=_end_with, args=(process,), daemon=True).start()


def _end_with(process: Any) -> None:
    process.join()
    os._exit(1)


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

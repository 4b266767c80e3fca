"""Jobs on any executor, each kept in a file as soon as it is done.

A job is a frozen dataclass of plain values. Its result is a JSON value that depends on the job alone, so it may be computed
anywhere and in any order, and what a file has need not be computed again. Nothing here schedules work: that is the executor's.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from multiprocessing import active_children
from pathlib import Path
from typing import Any

from .. import __version__
from ..files import replace_file


@dataclass(frozen=True)
class Failure:
    """A job that did not come to an end, and why."""

    job: Any
    error: str


def key_of(job: Any) -> str:
    """A name for the file of a job."""
    return hashlib.sha256(_told(job).encode()).hexdigest()[:24]


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
    missing = [i for i, result in enumerate(results) if result is None]
    failures: dict[int, Failure] = {}
    if progress is not None:
        progress(len(jobs) - len(missing), len(jobs))
    if missing:
        others = set(active_children())
        with _processes(workers) if executor is None else nullcontext(executor) as pool:
            futures = {pool.submit(work, jobs[i]): i for i in missing}
            try:
                for done, future in enumerate(_as_they_come(futures), len(jobs) - len(missing) + 1):
                    i = futures[future]
                    try:
                        results[i] = future.result()
                    except Exception as problem:  # whatever it is, the others go on
                        failures[i] = Failure(jobs[i], f"{type(problem).__name__}: {problem}")
                    else:
                        _keep(folder, jobs[i], results[i])
                    if progress is not None:
                        progress(done, len(jobs))
            except BaseException:  # or leaving the pool would wait for all of them
                for process in set(active_children()) - others if executor is None else ():
                    process.terminate()
                for future in futures if executor is not None else ():
                    future.cancel()
                raise
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


def _processes(workers: int | None) -> ProcessPoolExecutor:
    """A pool whose processes end without a word at Ctrl-C, which a terminal sends to them as well."""
    return ProcessPoolExecutor(workers or os.cpu_count(), initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_DFL))


def _as_they_come(futures: dict[Any, int]) -> Iterator[Any]:
    if all(hasattr(future, "_condition") for future in futures):
        yield from as_completed(futures)
        return
    left = set(futures)  # those of another library
    while left:
        ready = {future for future in left if future.done()}
        yield from ready
        left -= ready
        if left and not ready:
            time.sleep(0.05)


def _told(job: Any) -> str:
    return json.dumps({"kind": type(job).__name__, **asdict(job)}, sort_keys=True)


def _keep(folder: Path, job: Any, result: Any) -> None:
    kept = {"job": _told(job), "version": __version__, "result": result}
    replace_file(folder / f"{key_of(job)}.json", json.dumps(kept, sort_keys=True).encode())


def _kept(folder: Path, job: Any) -> Any:
    """The result of a job that was done before; a file that is damaged, or of another job or version, does not count."""
    try:
        kept = json.loads((folder / f"{key_of(job)}.json").read_bytes())
        return kept["result"] if (kept["job"], kept["version"]) == (_told(job), __version__) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None

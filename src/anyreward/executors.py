"""Processes on this machine and workers of a Dask cluster, whichever computes: somebody else's engines, watched over.

Every result comes with the version of the code that computed it, which the worker states about itself. A worker whose code is not
the code of the calling process is refused, before it computes anything.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent
PRESENTING = ("claims.py", "report.py", "plots.py", "pages.py", "outline.py", "cli", "progress.py")
ANSWERS_WITHIN = 10.0  # seconds for which a scheduler is waited for, at most
CHECK_EVERY = 2.0  # seconds between two looks at a cluster
PR_SET_PDEATHSIG = 1  # of Linux: the signal that a process gets when its parent ends
LAST_WORDS = 5.0  # seconds for which the end of the processes of a pool is waited for, at most


class NoWorkers(ValueError):
    """Those who compute are gone, or cannot do it: what was asked of them can be asked of others."""


@cache
def version() -> str:
    """Of the code that computes results, whatever presents them."""
    from . import __version__

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
    "getattr(it := __import__('importlib').import_module('anyreward.executors'), 'answer_packed', "
    "lambda expected, packed: (it.version(), None))(expected, packed)"
)


def refused(theirs: str) -> NoWorkers:
    """The error for a worker with other code."""
    return NoWorkers(
        f"a worker runs anyreward {theirs}, but this process runs anyreward {version()}: install the same code for every worker, "
        f"and restart them."
    )


def without_us(problem: BaseException) -> NoWorkers | None:
    """The error for a worker that has no anyreward, if that is what went wrong."""
    if not isinstance(problem, ImportError) or str(problem.name).split(".")[0] != __name__.split(".")[0]:
        return None
    return NoWorkers(
        f"a worker cannot import anyreward ({problem}): install anyreward {version()} for every worker, and restart them."
    )


@contextmanager
def cluster(scheduler: str | None, wait: float = 60.0) -> Iterator[Executor | None]:
    """An executor on the Dask cluster with that scheduler; None for none. `wait` is how long it may be without any worker."""
    if scheduler is None:
        yield None
        return
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port, normalize_address
    except ImportError:
        raise ValueError("Dask is not installed: pip install anyreward[dask].") from None
    with _without_its_log():
        try:
            get_address_host_port(normalize_address(scheduler))  # a client of what is no address would wait when it is deleted
            client = Client(scheduler, timeout=ANSWERS_WITHIN, set_as_default=False)
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
            raise NoWorkers(f"the Dask scheduler at {self._scheduler} does not answer any more: start it again.")
        if self._client.scheduler_info()["workers"]:
            self._worked_at = time.monotonic()
        if time.monotonic() - self._worked_at > self._wait:
            raise NoWorkers(f"the Dask cluster at {self._scheduler} has had no worker for {self._wait:g} seconds: start one.")


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


@contextmanager
def pool(workers: int, on_interrupt: signal.Handlers = signal.SIG_DFL) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with their parent, and at Ctrl-C, which a terminal sends to them as well, without a word.

    With `on_interrupt=signal.SIG_IGN` they go on at Ctrl-C, which is then for their parent alone.

    If it is left by an exception, they are ended, and nobody waits for what they do.
    """
    mine: Any = multiprocessing.SimpleQueue()
    with ProcessPoolExecutor(workers, initializer=_begin_worker, initargs=(os.getpid(), mine, on_interrupt)) as executor:
        try:
            yield executor
        except BaseException:  # or leaving the pool would wait for all of them
            manager = getattr(executor, "_executor_manager_thread", None)  # without it, nothing is waited for below
            executor.shutdown(wait=False, cancel_futures=True)
            numbers = set()
            while not mine.empty():
                numbers.add(mine.get())
            for process in multiprocessing.active_children():
                if process.pid in numbers:
                    process.terminate()
            if manager is not None:  # CPython 3.11 may write to a pipe that this thread has just closed, if Python ends before it
                manager.join(LAST_WORDS)
            raise


def _begin_worker(parent: int, mine: Any, on_interrupt: signal.Handlers) -> None:
    """Lets this process end with its parent, however that ends, since nobody would want its results.

    On Linux the kernel sees to it at once. Elsewhere a thread does, which has to wait for compiled code to return.
    """
    signal.signal(signal.SIGINT, on_interrupt)
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

"""Limits that a busy machine does not break: conditions are waited for, and processor time is measured instead of the clock."""

import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 1200.0  # seconds: far more than any test that is right takes on a busy machine, and one that hangs still ends


def wait_for(condition: Callable[[], T], pause: float = 0.02) -> T:
    """Waits until a condition holds and returns what it gave; fails if it never holds."""
    end = time.monotonic() + PATIENCE
    while not (given := condition()):
        assert time.monotonic() < end, "what was waited for never happened"
        time.sleep(pause)
    return given


@contextmanager
def little_work(seconds: float) -> Iterator[None]:
    """Fails if what is inside takes so much processor time: while other processes run, it does not count."""
    begin = time.process_time()
    yield
    spent = time.process_time() - begin
    assert spent < seconds, f"it took {spent:.1f} seconds of processor time, more than {seconds:g}"


def processor_time_of(pid: int) -> float:
    """The processor time in seconds that a process has taken so far; the process may be one that has just ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def processor_time_of_children() -> float:
    """The processor time in seconds of all child processes that have ended and have been waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime

"""Attacks on the library, by the thousand: `make torture` runs them all and writes `docs/reliability.md`; CI runs a seeded part.

Each attack keeps one promise to the test: it makes a number of hostile things, hands them to the library, and counts what should
never happen: a crash of the process, another exception than a ValueError of one sentence, time or memory beyond a limit, a
certificate that does not follow from what it is about, a file that is lost. A failure is written down with what makes it again.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ..helpers.waiting import PATIENCE

SECONDS, GIGABYTES = 10.0, 6.0  # of processor time and memory that one try may take


@dataclass
class Tally:
    """What came of an attack."""

    promise: str
    how: str
    tries: int = 0
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0  # seconds
    peak: float = 0.0  # gigabytes
    outcomes: dict[str, int] = field(default_factory=dict)

    def count(self, outcome: str) -> None:
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1


class Late(BaseException):
    """A try took too long."""


class Broken(AssertionError):
    """A promise was broken."""


def one_sentence(problem: BaseException) -> None:
    """Raises unless an error is a single short line."""
    text = str(problem)
    if not text or "\n" in text or len(text) > 1500 or any(ord(c) < 32 for c in text):
        raise Broken(f"its error is not one sentence: {text[:300]!r}")


def in_processes(
    tally: Tally, tries: Iterable[int], attempt: Callable[[int], str], tick: Callable[[int], None], batch: int = 200
) -> Tally:
    """Runs `attempt` on every number, in batches of forked processes that may crash; it returns what came of it, in a word.

    Whatever it raises is a failure, but for a ValueError of one sentence, which is the word "refused".
    """
    numbers = list(tries)
    while numbers:
        part, numbers = numbers[:batch], numbers[batch:]
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            _work(part, attempt, write)
            os._exit(0)
        os.close(write)
        done = _listen(tally, read, tick)
        status = os.waitpid(pid, 0)[1]
        if len(done) < len(part):
            begun = part[len(done)]
            tally.tries += 1
            tally.failures.append(f"number {begun}: the process ended with {status}")
            numbers = part[len(done) + 1 :] + numbers
            tick(1)
    return tally


def _work(part: list[int], attempt: Callable[[int], str], write: int) -> None:
    import resource

    limit = int(GIGABYTES * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)
    os.dup2(silence, 1)

    def late(*_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 5)  # it may have been swallowed
        signal.setitimer(signal.ITIMER_REAL, 5)
        raise Late

    signal.signal(signal.SIGPROF, late)
    signal.signal(signal.SIGALRM, late)
    for number in part:
        begin = time.monotonic()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)  # for what waits and does nothing
        try:
            word = attempt(number)
        except ValueError as problem:
            try:
                one_sentence(problem)
                word = "refused"
            except Broken as broken:
                word = f"!{broken}"
        except Late:
            word = f"!it took more than {SECONDS:g} seconds of processor time, or waited for ever"
        except BaseException as problem:
            at = traceback.extract_tb(problem.__traceback__)[-1]
            word = f"!{type(problem).__name__}: {str(problem)[:300]} ({Path(at.filename).name}:{at.lineno})"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
        word = " ".join(word.split()).replace("|", "/")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        os.write(write, f"{number}|{time.monotonic() - begin}|{peak}|{word}\n".encode("utf-8", "backslashreplace"))


def _listen(tally: Tally, read: int, tick: Callable[[int], None]) -> list[int]:
    done = []
    with open(read, encoding="utf-8") as lines:
        for line in lines:
            number, seconds, peak, word = line.rstrip("\n").split("|", 3)
            done.append(int(number))
            tally.tries += 1
            tally.slowest = max(tally.slowest, float(seconds))
            tally.peak = max(tally.peak, float(peak))
            if word.startswith("!"):
                tally.failures.append(f"number {number}: {word[1:]}")
            else:
                tally.count(word)
            tick(1)
    return done


def python(*arguments: str, **environment: str) -> list[str]:
    """A command that runs this Python."""
    return [sys.executable, *arguments]

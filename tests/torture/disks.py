"""Disks that fail: each operation of writing fails in turn, as on a disk that is full, broken or read-only."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyreward import _files

from . import Broken, Tally, one_sentence
from .works import WORKS, saving

ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EMFILE)


class Failing:
    """The module os, whose n-th operation fails."""

    def __init__(self, n: int, error: int) -> None:
        self.calls, self.n, self.error = 0, n, error

    def __getattr__(self, name: str) -> Any:
        there = getattr(os, name)
        if name not in ("open", "fsync", "replace", "fchmod"):
            return there

        def counted(*arguments: Any, **options: Any) -> Any:
            self.count()
            return there(*arguments, **options)

        return counted

    def count(self) -> None:
        self.calls += 1
        if self.calls == self.n:
            raise OSError(self.error, os.strerror(self.error))


class Half:
    """An open file, of which each write is an operation that may fail half-way."""

    def __init__(self, file: Any, failing: Failing) -> None:
        self._file, self._failing = file, failing

    def __enter__(self) -> Half:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, content: bytes) -> int:
        try:
            self._failing.count()
        except OSError:
            self._file.write(bytes(content[: len(content) // 2]))
            raise
        return self._file.write(content)


@contextmanager
def failing(n: int, error: int) -> Iterator[Failing]:
    """The n-th operation of `files` fails."""
    broken = Failing(n, error)

    def opened(name: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        file = open(name, mode, *arguments, **options)  # noqa: SIM115
        return Half(file, broken) if "x" in mode else file

    module: Any = _files
    before, module.os, module.open = module.os, broken, opened
    try:
        yield broken
    finally:
        module.os = before
        del module.open


def every_write(tries: int, seed: int, folder: Path, tick: Callable[[int], None]) -> Tally:
    """Explorations with a checkpoint, saved atlases and sweeps: every operation fails once with every error."""
    tally = Tally(
        "On a disk that is full or fails, what was there before stays, and one sentence says so",
        "Each open, write, fsync, chmod and rename of explorations, saved atlases and sweeps fails in turn, with up to "
        f"{len(ERRORS)} kinds of errors",
    )

    def attack(work: Callable[[Path], bytes], name: str) -> None:
        (folder / name).mkdir()
        expected = work(folder / name)
        for error in ERRORS if work is saving else ERRORS[:2]:
            for n in range(1, 10_000):
                if tally.tries >= tries:
                    return
                where = folder / f"{name}-{error}-{n}"
                where.mkdir()
                tally.tries += 1
                tick(1)
                try:
                    with failing(n, error) as broken:
                        try:
                            work(where)
                            said = "came to its end"
                        except ValueError as problem:
                            one_sentence(problem)
                            said = "said so"
                    tally.count(said)
                    if work(where) != expected:
                        raise Broken("the result is not that of a disk that works")
                    left = [path.name for path in where.rglob(".*")]
                    if left:
                        raise Broken(f"left behind: {left}")
                except Exception as problem:
                    tally.failures.append(f"{name}, operation {n}, {errno.errorcode[error]}: {type(problem).__name__}: {problem}")
                if broken.calls < n:
                    break

    for work in WORKS:
        attack(work, work.__name__)
    return tally

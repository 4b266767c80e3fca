"""Long computations that their caller can end in the middle.

    with cancelled_by(check):           # a function that raises an exception as soon as the result is not wanted any more
        atlas.plan(reward)              # raises it too, after some milliseconds

What takes long is done in blocks, with a call of `check` before each: compiled passes over the steps of a problem
(`in_blocks`), and whatever else calls `proceed`. Nothing is left half-done, since results are kept when they are complete. Why
something is not wanted any more is the caller's business. Other threads are not concerned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


@contextmanager
def cancelled_by(check: Callable[[], None]) -> Iterator[None]:
    """Lets `check` end what is computed meanwhile, by raising an exception."""
    before = _check.set(check)
    try:
        yield
    finally:
        _check.reset(before)


def proceed() -> None:
    """Raises what the caller's check raises, if what is computed is not wanted any more."""
    check = _check.get()
    if check is not None:
        check()


def in_blocks(compiled: Callable[[int, int], None], last: int, first: int, size: int) -> None:
    """Makes a compiled pass over the steps from `last` down to `first`, in `blocks`; it is given both ends of each."""
    for begin, end in blocks(last, first, size):
        compiled(begin, end)


def blocks(last: int, first: int, size: int) -> Iterator[tuple[int, int]]:
    """The steps from `last` down to `first` in blocks of `size`, as long as they are wanted: the last and the first of each."""
    for begin in range(last, first - 1, -max(1, size)):
        proceed()
        yield begin, max(first, begin - max(1, size) + 1)

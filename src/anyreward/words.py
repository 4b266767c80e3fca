"""Numbers and texts for printing: bounds are rounded to the safe side, so that no printed bound is stronger than proved."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from math import isfinite
from typing import Any

_wording: ContextVar[Callable[[str], str]] = ContextVar("wording", default=str)

PATIENCE = 2.0  # seconds before a progress bar appears


def up(x: float, digits: int = 4) -> str:
    """`x` rounded up to so many significant digits: for epsilon, upper bounds and whatever must not be understated."""
    return _rounded(x, digits, ROUND_CEILING)


def down(x: float, digits: int = 4) -> str:
    """`x` rounded down to so many significant digits: for lower bounds."""
    return _rounded(x, digits, ROUND_FLOOR)


class Up(float):
    """A number that is rounded up by `up` when somebody prints it, for logs that nobody may read."""

    def __str__(self) -> str:
        return up(self)


def interval(lower: float, upper: float, digits: int = 4) -> str:
    """ "[lower, upper]", both rounded outward."""
    return f"[{down(lower, digits)}, {up(upper, digits)}]"


def exact(x: float) -> str:
    """`x` without rounding, as short as possible."""
    return repr(float(x)).removesuffix(".0")


def confidence_level(delta: float) -> str:
    """1 - delta without rounding: "0.9", "0.999999"; "1 - 1e-30" where it would have more than 12 digits."""
    exact = Decimal(1) - Decimal(repr(float(delta)))
    return f"{exact.normalize():f}" if len(exact.as_tuple().digits) <= 12 else f"1 - {up(delta, 6)}"


def assumed(assumptions: Sequence[str]) -> str:
    """The end of a sentence that holds under these assumptions; nothing if there are none."""
    return f"; assumes: {'; '.join(assumptions)}" if assumptions else ""


def plain(text: str) -> str:
    """A text for a terminal: control characters and line breaks, which could change what is displayed, are written as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def worded(text: str) -> str:
    """A sentence that names parameters, as the reader writes them: in Python as it is, on the command line with its options."""
    return _wording.get()(text)


@contextmanager
def wording(translate: Callable[[str], str]) -> Iterator[None]:
    """Says in the meantime what `translate` makes of the sentences that are `worded`."""
    token = _wording.set(translate)
    try:
        yield
    finally:
        _wording.reset(token)


def console(stderr: bool = False, width: int | None = None) -> Any:
    """A Rich console that prints texts literally: no markup, no emoji codes, no highlighting. A notebook is no terminal."""
    from rich.console import Console

    return Console(stderr=stderr, width=width, markup=False, highlight=False, emoji=False, force_jupyter=False)


def is_terminal(stream: Any) -> bool:
    """Whether a stream is an open terminal. It may be None or closed."""
    return stream is not None and not stream.closed and stream.isatty()


def is_shown(show: Any) -> bool:
    """Whether something is to be shown at once: asked for, or on a terminal. A function is asked to show it instead."""
    return show if isinstance(show, bool) else show is None and is_terminal(sys.stderr)


def verbatim(text: str) -> str:
    """A text for those parts of Rich that interpret markup in spite of the console's settings: it is displayed literally."""
    from rich.markup import escape

    return escape(plain(text))


def _rounded(x: float, digits: int, how: str) -> str:
    """`x` rounded to so many significant digits in the direction `how`, in plain or scientific notation."""
    if not isfinite(x) or x == 0.0:
        return f"{x:g}"
    exact = Decimal(repr(float(x)))  # the shortest decimal of this float, so that 0.1 stays 0.1
    least = exact.adjusted() - digits + 1
    rounded = exact.quantize(Decimal(1).scaleb(least), rounding=how)
    exponent = rounded.adjusted()
    if -5 <= exponent < max(digits, 6):
        return f"{rounded:f}".rstrip("0").rstrip(".") if least < 0 else f"{rounded:f}"
    mantissa = f"{rounded.scaleb(-exponent):f}"
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}e{exponent:+03d}"


class Countdown:
    """A progress bar for something that is counted. It appears after two seconds, on a terminal or if it is asked for.

    Parameters
    ----------
    show : bool or None
        True or False to show or hide it; None shows it on a terminal.
    what : str
        What is done, in a word.
    total : int or None
        How far it goes, if that is known.
    """

    def __init__(self, show: bool | None, what: str, total: int | None) -> None:
        self._show, self._what, self._total = show, what, total
        self._begin = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Countdown:
        return self

    def __call__(self, count: int) -> None:
        if self._show is False or (self._bar is None and time.monotonic() - self._begin < PATIENCE):
            return
        if self._bar is None:
            from rich.progress import Progress

            out = console(stderr=True)
            if self._show is None and not out.is_terminal:
                self._show = False
                return
            self._bar = Progress(console=out, transient=True)
            self._task = self._bar.add_task(self._what, total=self._total)
            self._bar.start()
        self._bar.update(self._task, completed=count)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

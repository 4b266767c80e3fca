"""Numbers in words, on the safe side: what is printed of a bound never says more than the bound does."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from math import isfinite
from typing import Any


def up(x: float, digits: int = 4) -> str:
    """`x` with so many significant digits, rounded up: for epsilon, for upper ends, for whatever must not be understated."""
    return _rounded(x, digits, ROUND_CEILING)


def down(x: float, digits: int = 4) -> str:
    """`x` with so many significant digits, rounded down: for lower ends."""
    return _rounded(x, digits, ROUND_FLOOR)


def interval(lower: float, upper: float, digits: int = 4) -> str:
    """[lower, upper], both rounded outward."""
    return f"[{down(lower, digits)}, {up(upper, digits)}]"


def exact(x: float) -> str:
    """`x` as it is, to the last digit, as short as that can be written."""
    return repr(float(x)).removesuffix(".0")


def certain(delta: float) -> str:
    """1 - delta to the last digit: 0.9; 0.999999; 1 - 1e-30 where that would be too long to read."""
    exact = Decimal(1) - Decimal(repr(float(delta)))
    return f"{exact.normalize():f}" if len(exact.as_tuple().digits) <= 12 else f"1 - {up(delta, 6)}"


def plain(text: str) -> str:
    """A line as a terminal may show it: control characters and line breaks, which could change what is seen, are spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def console(stderr: bool = False, width: int | None = None) -> Any:
    """Where tables and displays are printed: texts are shown as they are, never taken for Rich's markup or for emoji."""
    from rich.console import Console

    return Console(stderr=stderr, width=width, markup=False, highlight=False, emoji=False)


def verbatim(text: str) -> str:
    """A text for those parts of Rich that read markup whatever the console says: it comes out as it is."""
    from rich.markup import escape

    return escape(plain(text))


def _rounded(x: float, digits: int, how: str) -> str:
    if not isfinite(x) or x == 0.0:
        return f"{x:g}"
    exact = Decimal(repr(float(x)))  # as short as it can be written: 0.1 is 0.1
    least = exact.adjusted() - digits + 1
    rounded = exact.quantize(Decimal(1).scaleb(least), rounding=how)
    exponent = rounded.adjusted()
    if -5 <= exponent < max(digits, 6):
        return f"{rounded:f}".rstrip("0").rstrip(".") if least < 0 else f"{rounded:f}"
    mantissa = f"{rounded.scaleb(-exponent):f}"
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}e{exponent:+03d}"

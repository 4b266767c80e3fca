"""How many episodes a smaller epsilon is likely to take, and how long that lasts: an extrapolation, not a guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, log

LARGEST = 200.0  # the logarithm of a number of episodes that nobody will play
FEWEST = 4  # looks to fit a line through
LAW = -0.5  # the slope of log epsilon against log episodes in the long run
STEEP = -0.55  # a slope that is steeper than the law by more than chance and rounding make it

Looks = Sequence[tuple[int, float]]


def episodes_for(history: Looks, target: float) -> float | None:
    """About how many episodes in all bring epsilon down to `target`, from (episodes, epsilon) along the way; None if unclear.

    In the long run epsilon falls like episodes^(-1/2). What is fitted is the slope over the last factor of four in episodes, kept
    between that and three times as steep.
    """
    points = positive_looks(history)
    if not points or target <= 0:
        return None
    last_t, last = points[-1]
    if last <= target:
        return float(last_t)
    slope = fitted_slope(points)
    if slope > -0.05:  # it does not fall yet
        return None
    power = log(last_t) + (log(target) - log(last)) / min(LAW, max(slope, 3 * LAW))
    return exp(power) if power < LARGEST else None


def is_low(history: Looks) -> bool:
    """Whether `episodes_for` is likely to be too small: epsilon falls faster now than it does in the long run."""
    points = positive_looks(history)
    return bool(points) and fitted_slope(points) < STEEP


def fitted_slope(points: Looks) -> float:
    """The slope of log epsilon against log episodes over the last factor of four in episodes.

    If there are too few looks to fit a line, it is the law's, or 0 if epsilon has not fallen at all.
    """
    recent = [(log(t), log(e)) for t, e in points if 4 * t >= points[-1][0]]
    if len(recent) < FEWEST:
        return LAW if recent[0][0] == recent[-1][0] or recent[0][1] > recent[-1][1] else 0.0
    x, y = (sum(column) / len(recent) for column in zip(*recent, strict=True))
    spread = sum((a - x) ** 2 for a, _ in recent)
    return sum((a - x) * (b - y) for a, b in recent) / spread if spread else inf


def positive_looks(history: Looks) -> list[tuple[int, float]]:
    """The looks that have a logarithm."""
    return [(t, e) for t, e in history if t > 0 and e > 0]


def in_words(episodes: float, rate: float | None = None, low: bool = False, more: str = "") -> str:
    """A number of episodes, as in "about 2.3e+05 more episodes (3 min at this rate, a low estimate)".

    The time is left out where the rate, in episodes a second, is not known; `more` is a word before "episodes".
    """
    about = ([f"{duration(episodes / rate)} at this rate"] if rate else []) + (["a low estimate"] if low else [])
    return f"about {episodes:.2g} {more}{' ' if more else ''}episodes" + (f" ({', '.join(about)})" if about else "")


def duration(seconds: float) -> str:
    """A time in words: 40 s, 3 min, 2.5 h, 4 d."""
    for unit, size in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.2g} {unit}" if seconds < 1e3 * size else f"{seconds / size:.1e} {unit}"
    return f"{seconds:.0f} s"

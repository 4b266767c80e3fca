"""How many episodes a smaller epsilon is likely to take: an extrapolation, not a guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

LARGEST = 200.0  # the logarithm of a number of episodes that nobody will play
FEWEST = 8  # looks to fit a line through


def episodes_for(history: Sequence[tuple[int, float]], target: float) -> float | None:
    """About how many episodes in all bring epsilon down to `target`, from (episodes, epsilon) along the way; None if unclear.

    In the long run epsilon falls like episodes^(-1/2). What is fitted is the slope over the last factor of four in episodes, kept
    between that and three times as steep.
    """
    points = [(t, e) for t, e in history if t > 0 and e > 0]
    if not points or target <= 0:
        return None
    last_t, last = points[-1]
    if last <= target:
        return float(last_t)
    recent = [(log(t), log(e)) for t, e in points if 4 * t >= last_t]
    slope = -0.5
    if len(recent) >= FEWEST:
        x, y = (sum(column) / len(recent) for column in zip(*recent, strict=True))
        spread = sum((a - x) ** 2 for a, _ in recent)
        if spread == 0.0:
            return None
        slope = sum((a - x) * (b - y) for a, b in recent) / spread
        if slope > -0.05:  # it does not fall yet
            return None
        slope = min(-0.5, max(slope, -1.5))
    power = log(last_t) + (log(target) - log(last)) / slope
    return exp(power) if power < LARGEST else None

"""A live display for long explorations: episodes, their rate, the certified epsilon, the forecast to the target, time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from .. import words
from ..words import up
from .forecast import episodes_for

PATIENCE = 2.0  # seconds before a display appears unasked
PACE = 0.1  # seconds between two updates


class Progress:
    """Shows how an exploration proceeds, on stderr. Called with the episodes so far and, when it is known anew, epsilon.

    The bar fills with the share of the episodes that are needed, as `forecast` sees it, or of max_episodes if that comes first.
    """

    def __init__(self, show: bool | Callable[[int, float], None] | None, target: float | None, max_episodes: int | None) -> None:
        self._report = show if callable(show) else None
        self._wanted = show if isinstance(show, bool) else None
        self._target, self._max = target, max_episodes
        self._start = self._shown_at = time.monotonic()
        self._begin, self._episodes, self._epsilon = 0, 0, float("inf")
        self._history: list[tuple[int, float]] = []
        self._display: Any = None

    def __enter__(self) -> Progress:
        return self

    def begin(self, episodes: int, epsilon: float | None) -> None:
        """Says how many episodes there are already."""
        self._begin = self._episodes = episodes
        self._epsilon = float("inf") if epsilon is None else epsilon

    def __call__(self, episodes: int, epsilon: float | None = None) -> None:
        self._episodes = episodes
        if epsilon is not None:
            self._epsilon = epsilon
            self._history.append((episodes, epsilon))
            if self._report:
                self._report(episodes, epsilon)
        now = time.monotonic()
        if self._report or self._wanted is False or (now - self._shown_at < PACE and self._display is not None):
            return
        if self._display is None:
            if self._wanted is None and now - self._start < PATIENCE:
                return
            self._display = self._open()
            if self._display is None:
                return
        self._shown_at = now
        self._update()

    def _open(self) -> Any:
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Display

        console = words.console(stderr=True)
        if self._wanted is None and not console.is_terminal:
            self._wanted = False
            return None
        display = Display(
            TextColumn("exploring"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[episodes]:,} episodes {task.fields[rate]:,.0f}/s"),
            TextColumn("ε [bold]{task.fields[epsilon]}[/]{task.fields[aim]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
        )
        aim = f" → {self._target:.4g}" if self._target is not None else ""
        self._task = display.add_task("", total=1.0, episodes=0, rate=0.0, epsilon=up(self._epsilon), aim=aim, left="")
        display.start()
        return display

    def _update(self) -> None:
        episodes = self._episodes
        rate = (episodes - self._begin) / max(time.monotonic() - self._start, 1e-9)
        ends = [float(self._max)] if self._max else []
        forecast = None if self._target is None else episodes_for(self._history, self._target)
        if forecast is not None:
            ends.append(max(forecast, episodes))
        end = min(ends, default=0.0)
        left = f"about {end:.3g} in all, {duration((end - episodes) / rate)} left" if rate > 0 and end > episodes else ""
        share = episodes / end if end else 0.0
        self._display.update(
            self._task, completed=min(1.0, share), episodes=episodes, rate=rate, epsilon=up(self._epsilon), left=left
        )

    def __exit__(self, *_: object) -> None:
        if self._display is not None:
            self._update()
            self._display.stop()


def duration(seconds: float) -> str:
    """A time in words: 40 s, 3 min, 2.5 h, 4 d."""
    for unit, size in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.2g} {unit}" if seconds < 1e3 * size else f"{seconds / size:.1e} {unit}"
    return f"{seconds:.0f} s"


def is_shown(show: bool | Callable[[int, float], None] | None) -> bool:
    """Whether something is to be shown at once: asked for, or on a terminal."""
    return show if isinstance(show, bool) else show is None and sys.stderr.isatty()

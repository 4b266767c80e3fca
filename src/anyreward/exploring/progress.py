"""What is shown of long explorations: episodes, their rate, the certified epsilon, a forecast in episodes and in time.

On a terminal it is a display that changes; elsewhere it is a line now and then, at growing distances.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from math import inf
from typing import Any

from .. import words
from ..words import up
from .forecast import duration, episodes_for, is_low

PATIENCE = 2.0  # seconds before a display appears unasked, or the first line
PACE = 0.1  # seconds between two updates of a display
GROWTH, LONGEST = 1.5, 60.0  # by which the seconds between two lines grow, and how many they become


class Progress(AbstractContextManager["Progress"]):
    """Shows how an exploration proceeds, on stderr. Called with the episodes so far and, when it is known anew, epsilon.

    The bar fills with the share of the episodes that are needed, as `forecast` sees it, or of the budget if that is spent first.

    Parameters
    ----------
    show
        As `progress` of `explore`.
    target
        The epsilon that is asked for; None if none is.
    max_episodes, max_seconds
        The budget; None and inf for none.
    largest
        The epsilon from which on a certificate says nothing.
    episodes, history
        How many episodes there are already, and what was certified on the way: pairs (episodes, epsilon).
    """

    def __init__(
        self,
        show: bool | Callable[[int, float], None] | None,
        target: float | None,
        max_episodes: int | None,
        max_seconds: float = inf,
        largest: float = inf,
        episodes: int = 0,
        history: Sequence[tuple[int, float]] = (),
    ) -> None:
        self._report = show if callable(show) else None
        self._wanted = show if isinstance(show, bool) else None
        self._target, self._max, self._seconds, self._largest = target, max_episodes, max_seconds, largest
        self._start = self._now = self._played_at = self._shown_at = time.monotonic()
        self._gap = PATIENCE
        self._begin = self._episodes = episodes
        self._epsilon = history[-1][1] if history else inf
        self._first = 0, inf  # episodes and time when the first ones had been played
        self._history: list[tuple[int, float]] = []
        self.phase = ""
        self.expected: float | None = None  # what an algorithm that plans its episodes says of itself
        self._display: Any = None
        self._lines = False  # whether lines are shown, since there is no terminal

    @property
    def rate(self) -> float:
        """Episodes a second, without the first ones, for which code may have had to be compiled, if there are more."""
        begin, start = self._first if self._played_at > self._first[1] else (self._begin, self._start)
        return (self._episodes - begin) / max(self._played_at - start, 1e-9)

    def __call__(self, episodes: int, epsilon: float | None = None) -> None:
        self._now = time.monotonic()
        if episodes > self._episodes:
            if self._episodes == self._begin:
                self._first = episodes, self._now
            self._episodes, self._played_at = episodes, self._now
        if epsilon is not None:
            self._epsilon = epsilon
            self._history.append((episodes, epsilon))
            if self._report:
                self._report(episodes, epsilon)
        if self._report or self._wanted is False:
            return
        now = self._now
        if self._display is None and not self._lines:
            if self._wanted is None and now - self._start < PATIENCE:
                return
            self._open()
        if self._display is not None and now - self._shown_at >= PACE:
            self._shown_at = now
            self._update()
        elif self._lines and now - self._shown_at >= self._gap:
            self._shown_at, self._gap = now, min(LONGEST, GROWTH * self._gap)
            self._say()

    def _open(self) -> None:
        """Begins to show something: a display on a terminal, lines elsewhere if they are asked for."""
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Display

        console = words.console(stderr=True)
        if not (console.is_terminal or console.is_jupyter):
            self._wanted = self._lines = self._wanted is True
            return
        self._display = Display(
            TextColumn("{task.fields[phase]}"),
            BarColumn(bar_width=10),
            TextColumn("{task.fields[episodes]:,} episodes {task.fields[rate]:,.0f}/s"),
            TextColumn("ε {task.fields[epsilon]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
        )
        self._task = self._display.add_task("", total=1.0, phase="exploring", episodes=0, rate=0.0, epsilon="", left="")
        self._shown_at = -inf
        self._display.start()

    def _update(self) -> None:
        share, left = self._ahead()
        about = {"episodes": self._episodes, "rate": self.rate, "epsilon": self._accuracy(), "left": left}
        self._display.update(self._task, completed=share, phase=words.verbatim(self.phase) or "exploring", **about)

    def _say(self, over: bool = False) -> None:
        """Writes a line: on the way, or when it is over."""
        if over:
            text = f"explored: {self._episodes:,} episodes, {duration(self._now - self._start)}, epsilon {self._accuracy()}"
        else:
            left = self._ahead()[1]
            phase = f"{self.phase}, " if self.phase else ""
            text = f"exploring: {phase}{self._episodes:,} episodes, {self.rate:,.0f}/s, epsilon {self._accuracy()}"
            text += f", {left}" if left else ""
        words.console(stderr=True).print(text, soft_wrap=True)

    def _accuracy(self) -> str:
        """Epsilon as far as it is known, and the target."""
        nothing = " (says nothing)" if self._epsilon >= self._largest else ""
        return up(self._epsilon) + nothing + (f" → {self._target:.4g}" if self._target is not None else "")

    def _ahead(self) -> tuple[float, str]:
        """The share that is done, and what is still ahead: to the target or to the end of the budget, whichever comes first."""
        episodes, rate, elapsed = self._episodes, self.rate, self._now - self._start
        ends = [] if self._max is None else [(float(self._max), "")]
        forecast = None if self._target is None else self.expected or episodes_for(self._history, self._target)
        if forecast is not None:
            ends.append((max(forecast, episodes), " (a low estimate)" if not self.expected and is_low(self._history) else ""))
        end, low = min(ends, default=(0.0, ""))
        seconds = (end - episodes) / rate if rate > 0 and end > episodes else None
        if self._seconds < inf and (seconds is None or elapsed + seconds > self._seconds):
            return min(1.0, elapsed / self._seconds), f"stops in {duration(max(0.0, self._seconds - elapsed))}"
        left = "" if seconds is None else f"about {end:.3g} in all{low}, {duration(seconds)} left"
        return min(1.0, episodes / end) if end else 0.0, left

    def __exit__(self, *_: object) -> None:
        if self._display is not None:
            self._update()
            self._display.stop()
        elif self._lines:
            self._say(over=True)

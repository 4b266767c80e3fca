"""A live display for long explorations: episodes, episodes per second, the certified epsilon so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 2.0  # seconds before a display appears unasked
PACE = 0.1  # seconds between two updates


class Progress:
    """Shows how an exploration proceeds, on stderr. Called with the episodes so far and, when it is known anew, epsilon.

    The bar fills with (target/epsilon)^2, the share of the episodes that are needed as long as epsilon falls like the root
    of their number, or with the share of max_episodes if that is larger.
    """

    def __init__(self, show: bool | Callable[[int, float], None] | None, target: float | None, max_episodes: int | None) -> None:
        self._report = show if callable(show) else None
        self._wanted = show if isinstance(show, bool) else None
        self._target, self._max = target, max_episodes
        self._start = self._shown_at = time.monotonic()
        self._episodes, self._epsilon = 0, float("inf")
        self._display: Any = None

    def __enter__(self) -> Progress:
        return self

    def __call__(self, episodes: int, epsilon: float | None = None) -> None:
        self._episodes = episodes
        if epsilon is not None:
            self._epsilon = epsilon
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
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Display

        console = Console(stderr=True)
        if self._wanted is None and not console.is_terminal:
            self._wanted = False
            return None
        display = Display(
            TextColumn("exploring"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[episodes]:,} episodes {task.fields[rate]:,.0f}/s"),
            TextColumn("ε [bold]{task.fields[epsilon]:.4g}[/]{task.fields[aim]}"),
            TimeElapsedColumn(),
            console=console,
        )
        aim = f" → {self._target:.4g}" if self._target is not None else ""
        self._task = display.add_task("", total=1.0, episodes=0, rate=0.0, epsilon=self._epsilon, aim=aim)
        display.start()
        return display

    def _update(self) -> None:
        episodes = self._episodes
        shares = [0.0]
        if self._target is not None:
            shares.append(min(1.0, (self._target / self._epsilon) ** 2) if self._epsilon > 0 else 1.0)
        if self._max:
            shares.append(episodes / self._max)
        rate = episodes / max(time.monotonic() - self._start, 1e-9)
        self._display.update(self._task, completed=max(shares), episodes=episodes, rate=rate, epsilon=self._epsilon)

    def __exit__(self, *_: object) -> None:
        if self._display is not None:
            self._update()
            self._display.stop()

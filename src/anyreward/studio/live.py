"""Explorations that are started, paused and resumed from the page.

An exploration is a row of short ones into the same counts (`explore`, then `Atlas.extend`), so that there is a whole atlas to
plan from at any time. Its certificate is valid whenever one looks (`docs/theory.md`, 20.3).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..atlas.atlas import Atlas
from ..envs import ENVIRONMENTS
from ..exploring.explore import explore
from ..exploring.extend import extend
from ..setting import shown
from ..words import down, plain, up
from .asking import field, number, whole
from .wording import worded

FIRST, SHARE, LONGEST = 0.2, 0.15, 2.0  # seconds of the first stretch; of a later one, as a share of the time so far; at most
LONGEST_HORIZON, CURVE = 10_000, 2_000  # steps of an episode; points of a curve


class Live:
    """The exploration of the page: at most one at a time.

    Parameters
    ----------
    environments : mapping of str to environment
        What can be explored, by name: environments of the reader's own.
    out : Path or None
        Where the atlas is saved after every stretch. A file that is there already is left alone; a number is added to the name.
    """

    name = "explored live"

    def __init__(self, environments: Mapping[str, Any], out: Path | None) -> None:
        self.environments: dict[str, Any] = {**environments, **{name: name for name in (*ENVIRONMENTS, *toy_text())}}
        self.atlas: Atlas | None = None
        self._out = out
        self._file: Path | None = None
        self._thread: threading.Thread | None = None
        self._go, self._end = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._about: dict[str, Any] = {}
        self._curve: list[tuple[int, float, float, float]] = []
        self._seconds, self._error, self._met = 0.0, "", False

    def knows(self, atlas: Atlas) -> bool:
        """Whether the environment of an atlas is at hand, so that its exploration can be continued."""
        return atlas.source.get("env") in self.environments

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, asked: dict[str, Any], atlas: Atlas) -> None:
        """Starts an exploration: of an environment, or from an atlas on. Raises if one is under way that is not paused."""
        with self._lock:
            if self.running and self._go.is_set():
                raise ValueError("an exploration is under way: pause it first.")
            name = atlas.source.get("env") if asked.get("extend") is True else field(asked, "env", str)
            if name not in self.environments:
                raise ValueError(f"the environment {shown(name)} is not here: choose one of the list.")
            target = None if asked.get("epsilon") is None else number(asked["epsilon"], "epsilon")
            horizon = int(whole([asked.get("horizon", 20)], LONGEST_HORIZON + 1, "the horizon")[0])
            delta = number(asked.get("delta", 0.1), "delta")
            if horizon < 1 or not 0 < delta < 1 or (target is not None and target <= 0):
                raise ValueError("the horizon has to be at least 1, delta between 0 and 1, and epsilon positive.")
            begin = atlas if asked.get("extend") is True else None
            self.close()
            self._about = {"env": str(name), "horizon": horizon if begin is None else begin.counts.setting.horizon,
                           "epsilon": target}  # fmt: skip
            how = {"delta": delta, "stationary": asked.get("stationary") is True}
            self._curve, self._seconds, self._error, self._met = [], 0.0, "", False
            self._file = self._out and unused(self._out)
            self._go, self._end = threading.Event(), threading.Event()
            self._go.set()
            work = (self.environments[name], horizon, target, how, begin, self._go, self._end)
            self._thread = threading.Thread(target=self._explore, args=work, name="exploration", daemon=True)
            self._thread.start()

    def _explore(
        self, env: Any, horizon: int, target: float | None, how: dict[str, Any], atlas: Atlas | None,
        go: threading.Event, end: threading.Event,
    ) -> None:  # fmt: skip
        """Explores, stretch by stretch, until it is certified or ended."""
        try:
            while not end.is_set():
                if not go.wait(0.2):
                    continue
                begin, before = time.monotonic(), 0 if atlas is None else atlas.episodes
                seconds = min(LONGEST, max(FIRST, SHARE * self._seconds))
                if atlas is None:
                    atlas = explore(env, horizon, target, max_seconds=seconds, progress=False, **how)
                else:
                    atlas = extend(atlas, env, epsilon=target, max_seconds=seconds, progress=False)
                took = max(time.monotonic() - begin, 1e-9)
                self._seconds += took
                self._note(atlas, (atlas.episodes - before) / took)
                if self._file is not None:
                    atlas.save(self._file)
                if target is not None and atlas.certificate.met:
                    self._met = True
                    return
        except Exception as problem:  # whatever an environment raises: it is shown on the page
            self._error = worded(plain(str(problem)))[:500] or type(problem).__name__

    def _note(self, atlas: Atlas, rate: float) -> None:
        """Keeps the atlas so far, and a point of the curves."""
        seen, setting = int((atlas.counts.state_visits() > 0).sum()), atlas.counts.setting
        self.atlas = atlas
        self._curve.append((atlas.episodes, atlas.certificate.epsilon, seen / setting.n_states, rate))
        if len(self._curve) > CURVE:
            self._curve = self._curve[::2]

    def pause(self) -> None:
        """Lets the stretch under way end, and waits."""
        self._go.clear()

    def resume(self) -> None:
        """Goes on."""
        if not self.running:
            raise ValueError("there is no exploration to go on with: start one.")
        self._go.set()

    def close(self) -> None:
        """Ends the exploration after the stretch under way."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def report(self) -> dict[str, Any]:
        """How it stands."""
        atlas = self.atlas
        return {
            **self._about,
            "running": self.running and self._go.is_set(),
            "paused": self.running and not self._go.is_set(),
            "met": self._met,
            "error": self._error,
            "curve": [list(point) for point in self._curve],
            "saved": None if self._file is None or not self._curve else str(self._file),
            "atlas": None if atlas is None else self.name,
            "episodes": 0 if atlas is None else atlas.episodes,
            "epsilon_text": "" if atlas is None else up(atlas.certificate.epsilon),
            "coverage_text": "" if not self._curve else f"{down(100 * self._curve[-1][2], 3)}%",
            "largest": 0.0 if atlas is None else atlas.certificate.largest,
        }


def toy_text() -> list[str]:
    """The environments of Gymnasium that have finitely many states and need nothing else."""
    import gymnasium

    return [name for name, spec in gymnasium.registry.items() if str(spec.entry_point).startswith("gymnasium.envs.toy_text")]


def unused(path: Path) -> Path:
    """The path itself, or one with a number, at which there is no file yet."""
    found, k = path, 1
    while found.exists():
        k += 1
        found = path.with_name(f"{path.stem}-{k}{path.suffix}")
    return found

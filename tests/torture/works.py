"""Things that write files, small enough to be done a thousand times: each writes into a folder and returns its final bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyreward as ar
from anyreward.experiments import sweep
from anyreward.exploring.checkpoint import Checkpoint

from . import Broken

CONFIG = {
    "name": "small",
    "seeds": 2,
    "algorithms": ["random", "rf-trajectory"],
    "environments": [{"name": "double-chain", "length": 5}],
    "parameters": {"horizon": 4, "max_episodes": 30},
}


@contextmanager
def saving_always() -> Iterator[None]:
    """Explorations save at every look, however long that takes."""
    save = Checkpoint.save

    def again(self: Checkpoint, *arguments: Any) -> None:
        save(self, *arguments)
        self.seconds = 0.0

    Checkpoint.save = again  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Checkpoint.save = save  # type: ignore[method-assign]


def exploring(where: Path) -> bytes:
    with saving_always():
        ar.explore(ar.envs.double_chain(5), 4, max_episodes=40, checkpoint=where / "it.atlas", checkpoint_every=0, record=True)
    return (where / "it.atlas").read_bytes()


def identifying(where: Path) -> bytes:
    with saving_always():
        ar.identify(ar.envs.double_chain(5), "state == 4", 4, max_episodes=25, checkpoint=where / "it.atlas", checkpoint_every=0)
    return (where / "it.atlas").read_bytes()


def stepping(where: Path) -> bytes:
    with saving_always():
        ar.explore("FrozenLake-v1", 4, max_episodes=96, checkpoint=where / "it.atlas", checkpoint_every=0)
    return (where / "it.atlas").read_bytes()


def saving(where: Path) -> bytes:
    atlas = ar.explore(ar.envs.double_chain(5), 4, max_episodes=20)
    for _ in range(2):
        atlas.save(where / "it.atlas")
    return (where / "it.atlas").read_bytes()


def sweeping(where: Path) -> bytes:
    with ThreadPoolExecutor(1) as pool:
        table, failures = sweep.run(CONFIG, where / "out", pool)
    if failures:
        raise Broken(f"a cell failed: {failures[0].error}")
    return table.read_bytes()


WORKS: tuple[Callable[[Path], bytes], ...] = (exploring, identifying, stepping, saving, sweeping)

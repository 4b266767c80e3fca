"""Every attack, with the number of its tries."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import Tally, disks, environments, forgeries, kills, words

Attack = Callable[[int, int, Path, Callable[[int], None]], Tally]
ALL = 10**5  # as many as there are
# The number of tries by `make torture`, and in CI. The longest come first.
ATTACKS: dict[str, tuple[Attack, int, int]] = {
    "kills": (kills.at_random, 60, 2),
    "sealed": (forgeries.sealed, 27_000, 80),
    "disks": (disks.every_write, ALL, 10),
    "environments": (environments.misbehaving, 300, 48),
    "calls": (kills.at_calls, ALL, 40),
    "commands": (words.commands, 3_000, 100),
    "damaged": (forgeries.damaged, 25_000, 200),
    "sweeps": (words.sweeps, 4_000, 100),
    "rewards": (words.rewards, 20_000, 500),
}


def run(name: str, tries: int, seed: int, ticks: Any) -> Tally:
    """One attack, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return ATTACKS[name][0](tries, seed, Path(folder), lambda n: ticks.put((name, n)))

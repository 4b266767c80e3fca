"""Runs every attack with its full number of tries, and writes what came of it to docs/reliability.md."""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from . import Tally, disks, environments, forgeries, kills, words

Attack = Callable[[int, int, Path, Callable[[int], None]], Tally]
# The number of tries by `make torture`, and in CI.
ATTACKS: dict[str, tuple[Attack, int, int]] = {
    "sealed": (forgeries.sealed, 40_000, 300),
    "damaged": (forgeries.damaged, 30_000, 300),
    "kills": (kills.at_random, 200, 4),
    "calls": (kills.at_calls, 300, 6),
    "disks": (disks.every_write, 100_000, 60),
    "environments": (environments.misbehaving, 1_000, 55),
    "sweeps": (words.sweeps, 5_000, 150),
    "rewards": (words.rewards, 20_000, 500),
    "commands": (words.commands, 10_000, 200),
}
REPORT = Path(__file__).parents[2] / "docs" / "reliability.md"
TABLE = "<!-- the table below is written by `make torture` -->\n"


def table(tallies: list[Tally], seed: int, seconds: float) -> str:
    """What came of the attacks, for the documentation."""
    lines = [
        "| promise | how it is tested | tries | failures | slowest try | peak memory |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for it in tallies:
        peak = f"{it.peak:.2f} GB" if it.peak else "–"
        slowest = f"{it.slowest:.1f} s" if it.slowest else "–"
        outcomes = "; ".join(f"{count:,} {word}" for word, count in sorted(it.outcomes.items(), key=lambda x: -x[1])[:5])
        lines.append(f"| {it.promise} | {it.how} ({outcomes}) | {it.tries:,} | {len(it.failures)} | {slowest} | {peak} |")
    total = sum(it.tries for it in tallies)
    lines += ["", f"{total:,} tries with seed {seed} in {seconds / 60:.0f} minutes, Python {platform.python_version()}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=f"{', '.join(ATTACKS)}; all of them by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of the full number of tries")
    given = parser.parse_args()
    unknown = [name for name in given.attacks if name not in ATTACKS]
    if unknown:
        parser.error(f"there is no attack {unknown[0]!r}: there are {', '.join(ATTACKS)}")
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    begin, tallies = time.monotonic(), []
    columns = TextColumn("{task.description:12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns) as bar:
        for name in given.attacks or ATTACKS:
            attack, tries, _ = ATTACKS[name]
            tries = max(1, round(tries * given.share))
            task = bar.add_task(name, total=tries)
            with tempfile.TemporaryDirectory() as folder:
                tally = attack(tries, given.seed, Path(folder), lambda n, task=task: bar.advance(task, n))
            tallies.append(tally)
            for failure in tally.failures[:20]:
                bar.console.print(f"{name}: {failure}", markup=False)
    text = table(tallies, given.seed, time.monotonic() - begin)
    print(text)
    if not given.attacks and given.share == 1.0:
        before, _, _ = REPORT.read_text(encoding="utf-8").partition(TABLE)
        REPORT.write_text(before + TABLE + "\n" + text, encoding="utf-8")
    sys.exit(any(tally.failures for tally in tallies))


if __name__ == "__main__":
    main()

"""Runs every attack with its full number of tries, on all cores, and writes what came of it to docs/reliability.md."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path

from . import Tally
from .attacks import ALL, ATTACKS, run

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
    from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    begin, names = time.monotonic(), given.attacks or list(ATTACKS)
    context = multiprocessing.get_context("spawn")  # attacks fork, which a process with threads should not
    manager = context.Manager()
    ticks = manager.Queue()
    columns = TextColumn("{task.description:12}"), MofNCompleteColumn(), TimeElapsedColumn()
    running: dict[str, Future[Tally]] = {}
    with Progress(*columns) as bar, ProcessPoolExecutor(os.cpu_count(), context, max_tasks_per_child=1) as pool:
        tasks, said, done = {}, time.monotonic(), dict.fromkeys(names, 0)
        for name in names:
            tries = max(1, round(ATTACKS[name][1] * given.share))
            tasks[name] = bar.add_task(name, total=None if tries >= ALL else tries)
            running[name] = pool.submit(run, name, tries, given.seed, ticks)
        while not all(future.done() for future in running.values()) or not ticks.empty():
            while not ticks.empty():
                name, n = ticks.get()
                bar.advance(tasks[name], n)
                done[name] += n
            if not bar.console.is_terminal and time.monotonic() - said > 60:
                said = time.monotonic()
                print(", ".join(f"{name} {number:,}" for name, number in done.items() if number), flush=True)
            time.sleep(0.2)
    tallies = [running[name].result() for name in names]
    for name, tally in zip(names, tallies, strict=True):
        for failure in tally.failures[:20]:
            print(f"{name}: {failure}")
    text = table(tallies, given.seed, time.monotonic() - begin)
    print(text)
    if not given.attacks and given.share == 1.0:
        before, _, _ = REPORT.read_text(encoding="utf-8").partition(TABLE)
        REPORT.write_text(before + TABLE + "\n" + text, encoding="utf-8")
    sys.exit(any(tally.failures for tally in tallies))


if __name__ == "__main__":
    main()

"""Processes that are killed: at random moments, and right before and right behind every system call that writes a file."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import anyreward as ar
from anyreward import _files

from ..helpers.waiting import PATIENCE
from . import Broken, Tally
from .works import WORKS

ROOT = Path(__file__).parents[2]
SWEEP = """
name = "killed"
seeds = 3
algorithms = ["rf-trajectory", "bpi-ucrl"]
environments = [{ name = "double-chain", length = 9 }]
[parameters]
horizon = 6
max_episodes = [200, 400, 600]
"""
EXPLORE = ("explore", "double-chain", "--env-arg", "length=9", "--horizon", "6", "--max-episodes", "3000", "--quiet", "--record")
LAKE = ("explore", "FrozenLake-v1", "--horizon", "6", "--max-episodes", "1500", "--quiet")
QUICK = ("reproduce", "--quick", "--quiet")


def anyreward(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from anyreward.cli import app; app()", *arguments]


def run(command: list[str], folder: Path, kill_after: float | None) -> int | None:
    """Runs a command in a folder; kills it and all that it started after a while, or lets it end. Its exit code, if it ended."""
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        return process.wait(timeout=PATIENCE if kill_after is None else kill_after)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)  # the parent alone: its workers have to notice
        process.wait()
        end = time.monotonic() + PATIENCE
        while _family(process.pid) and time.monotonic() < end:
            time.sleep(0.01)
        if _family(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
            raise Broken("workers outlived their parent") from None
        return None


def _family(group: int) -> list[int]:
    """Processes of a group that run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] not in "ZX":
                found.append(int(entry.name))
    return found


def at_random(kills: int, seed: int, folder: Path, tick: Callable[[int], None]) -> Tally:
    """Explorations, sweeps and the reproduction, killed again and again until they come to their end."""
    tally = Tally(
        "Whatever is killed resumes where it was: nothing is lost, and the final bytes are the same",
        "SIGKILL at random moments of explore, sweep and reproduce, until each comes to its end; its workers have to end with it",
    )
    draw = random.Random(seed)
    (folder / "sweep.toml").write_text(SWEEP)
    jobs = [
        ("explore", [*EXPLORE, "--out", "{}.atlas"], "{}.atlas", True),
        ("explore", [*LAKE, "--out", "{}.atlas"], "{}.atlas", True),
        ("sweep", ["sweep", "sweep.toml", "--quiet", "--workers", "2", "--out", "{}"], "{}/table.parquet", False),
        ("reproduce", [*QUICK, "--out", "{}"], "{}/tau.parquet", False),
    ]

    @cache
    def undisturbed(which: int) -> tuple[bytes, float]:
        """The result of a run that is not killed, and how long it takes."""
        _, arguments, result, _ = jobs[which]
        begin = time.monotonic()
        if run(anyreward(*(a.format(f"whole{which}") for a in arguments)), folder, None):
            raise Broken(f"{arguments[0]} does not come to its end")
        return (folder / result.format(f"whole{which}")).read_bytes(), time.monotonic() - begin

    number = 0
    while tally.tries < kills:
        which = (0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 3)[number % 12]
        number += 1
        (kind, arguments, result, resumes), (expected, took) = jobs[which], undisturbed(which)
        name = f"try{number}"
        for attempt in range(60):
            there = (folder / result.format(name)).exists()
            command = [a.format(name) for a in arguments] + (["--resume"] if resumes and there else [])
            begin = time.monotonic()
            try:
                patience = draw.uniform(0.3, 1.3) * took if attempt < 6 and tally.tries < kills else None
                code = run(anyreward(*command), folder, patience)
                if resumes and (folder / result.format(name)).exists():
                    ar.load(folder / result.format(name))  # whatever is there can be read at any time
            except (Broken, ValueError) as problem:
                tally.failures.append(f"{kind} {name}: {problem}")
                break
            tally.slowest = max(tally.slowest, time.monotonic() - begin)
            if code is None:
                tally.tries += 1
                tally.count(f"killed {kind}")
                tick(1)
                continue
            if code:
                tally.failures.append(f"{kind} {name}: ended with {code} after {attempt} kills")
            elif (folder / result.format(name)).read_bytes() != expected:
                tally.failures.append(f"{kind} {name}: its result is not that of a run without kills")
            break
    return tally


class Deadly:
    """The module os; this process is killed at the n-th operation of writing, right before it or right behind it."""

    def __init__(self, n: int, behind: bool) -> None:
        self._left, self._behind = n, behind

    def __getattr__(self, name: str) -> Any:
        there = getattr(os, name)
        if name not in ("open", "fsync", "replace", "fchmod", "fchown", "close"):
            return there

        def call(*arguments: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._behind:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = there(*arguments, **options)
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return call


def at_calls(kills: int, seed: int, folder: Path, tick: Callable[[int], None]) -> Tally:
    """Whatever writes files, killed at each operation of writing in turn."""
    tally = Tally(
        "A file is whole or not there, whatever moment a process is killed at",
        "SIGKILL right before and right behind each open, chmod, fsync, rename and close of explorations, saved atlases and "
        "sweeps, in turn; then resumed",
    )
    for work in WORKS:
        (folder / work.__name__).mkdir()
        expected = work(folder / work.__name__)
        for number in range(kills - tally.tries):
            where = folder / f"{work.__name__}{number}"
            where.mkdir()
            begin = time.monotonic()
            pid = os.fork()
            if pid == 0:
                module: Any = _files
                module.os = Deadly(number // 2 + 1, number % 2 == 1)
                try:
                    work(where)
                    os._exit(0)
                except BaseException:  # this process has nothing else to do
                    os._exit(1)
            status = os.waitpid(pid, 0)[1]
            if status == 0:  # there are no more operations than these
                break
            tally.tries += 1
            tally.count(f"killed while {work.__name__}")
            tick(1)
            try:
                if not os.WIFSIGNALED(status):
                    raise Broken(f"it ended with {status}")
                for path in where.glob("*.atlas"):
                    ar.load(path)
                if work(where) != expected:
                    raise Broken("its result is not that of a run without kills")
                if list(where.rglob(".*lock")):
                    raise Broken("a lock was left behind")
            except (Broken, ValueError) as problem:
                at = f"operation {number // 2 + 1}, {('before', 'behind')[number % 2]}"
                tally.failures.append(f"{work.__name__}, {at}: {problem}")
            tally.slowest = max(tally.slowest, time.monotonic() - begin)
    return tally

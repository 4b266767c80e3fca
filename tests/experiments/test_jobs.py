"""Jobs: kept as soon as they are done, done once, in order, whatever happens to some of them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from anyreward import executors
from anyreward.experiments import jobs

from ..helpers.waiting import PATIENCE, wait_for


@dataclass(frozen=True)
class Square:
    x: int


@dataclass(frozen=True)
class Other:
    x: int


def run(work, todo, folder, **options):
    with ThreadPoolExecutor(3) as pool:
        return jobs.run_jobs(work, todo, folder, pool, **options)


def square(job):
    return {"square": job.x**2}


def test_results_are_in_the_order_of_the_jobs_and_kept(tmp_path):
    todo = [Square(x) for x in range(20)]
    seen = []
    results, failures = run(square, todo, tmp_path, progress=lambda *counts: seen.append(counts))
    assert [result["square"] for result in results] == [x**2 for x in range(20)]
    assert not failures
    assert seen == [(done, 20) for done in range(21)]
    assert len(list(tmp_path.iterdir())) == 20

    def never(job):
        raise AssertionError

    assert run(never, todo, tmp_path) == (results, [])
    assert jobs.key_of(Square(1)) != jobs.key_of(Other(1))


def test_failures_are_reported_and_tried_again(tmp_path):
    def odd(job):
        if job.x % 2 == 0:
            raise RuntimeError(f"{job.x} is even")
        return square(job)

    results, failures = run(odd, [Square(x) for x in range(6)], tmp_path)
    assert [result is None for result in results] == [True, False] * 3
    assert failures == [jobs.Failure(Square(x), f"RuntimeError: {x} is even") for x in (0, 2, 4)]
    results, failures = run(square, [Square(x) for x in range(6)], tmp_path)
    assert [result["square"] for result in results] == [0, 1, 4, 9, 16, 25]
    assert not failures


@pytest.mark.parametrize("damage", ["cut", "another job", "another version", "no file"])
def test_a_file_that_is_not_the_jobs_own_does_not_count(tmp_path, damage):
    run(square, [Square(2), Square(3)], tmp_path)
    path, other = (tmp_path / f"{jobs.key_of(Square(x))}.json" for x in (2, 3))
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-5])
    elif damage == "another job":
        path.write_bytes(other.read_bytes())
    elif damage == "another version":
        path.write_text(json.dumps({**json.loads(path.read_text()), "version": "0.0.0"}))
    else:
        path.unlink()
    done = []

    def noted(job):
        done.append(job)
        return square(job)

    assert run(noted, [Square(2), Square(3)], tmp_path)[0] == [{"square": 4}, {"square": 9}]
    assert done == [Square(2)]


def test_other_code_is_another_version(monkeypatch, tmp_path):
    before = executors.version()
    shutil.copytree(executors.PACKAGE, tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(executors, "PACKAGE", tmp_path / "copy")
    for name, same in (("experiments/report.py", True), ("kernels/rf.py", False)):
        with open(tmp_path / "copy" / name, "a") as file:
            file.write("# more")
        executors.version.cache_clear()
        assert (executors.version() == before) == same
    executors.version.cache_clear()


def test_an_interruption_does_not_wait_for_the_rest(tmp_path):
    done = []

    def slowly(job):
        done.append(job)
        time.sleep(0.02)  # 20 seconds in all, if nobody stopped them
        return square(job)

    def interrupt(finished, total):
        if finished == 2:
            raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as pool, pytest.raises(KeyboardInterrupt):
        jobs.run_jobs(slowly, [Square(x) for x in range(1000)], tmp_path, pool, progress=interrupt)
    assert len(done) < 1000
    assert len(list(tmp_path.iterdir())) >= 2


def test_a_pool_of_processes_is_the_default(tmp_path):
    results, _ = jobs.run_jobs(square, [Square(3)], tmp_path, workers=1)
    assert results == [{"square": 9}]


def dies_at_three(job):
    if job.x == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return square(job)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_process_that_dies_takes_no_other_job_with_it(tmp_path, workers):
    results, failures = jobs.run_jobs(dies_at_three, [Square(x) for x in range(12)], tmp_path, workers=workers)
    assert [failure.job for failure in failures] == [Square(3)]
    assert "BrokenProcessPool" in failures[0].error
    assert [result and result["square"] for result in results] == [None if x == 3 else x**2 for x in range(12)]


FAMILY = """
import os, sys, time
from pathlib import Path
from dataclasses import dataclass
from pathlib import Path
from anyreward.experiments import jobs

@dataclass(frozen=True)
class Job:
    x: int

def work(job):
    Path(sys.argv[1], f"{os.getpid()}.pid").touch()
    while job.x % 2:  # busy for ever
        pass
    time.sleep(1000)

jobs.run_jobs(work, [Job(x) for x in range(4)], Path(sys.argv[1], "cells"), workers=4)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are a POSIX matter")
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
def test_workers_end_with_their_parent_however_it_dies(tmp_path, sign):
    parent = subprocess.Popen([sys.executable, "-c", FAMILY, str(tmp_path)], stderr=subprocess.DEVNULL)
    wait_for(lambda: len(list(tmp_path.glob("*.pid"))) == 4)
    pids = [int(path.stem) for path in tmp_path.glob("*.pid")]
    assert all(alive(pid) for pid in pids)
    parent.send_signal(sign)
    parent.wait(timeout=PATIENCE)
    wait_for(lambda: not any(alive(pid) for pid in pids))


def alive(pid):
    """Whether a process runs; one that has ended and that nobody has asked about yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_only_workers_of_its_own_are_ended(tmp_path):
    """A process that the caller starts meanwhile is the caller's."""
    import multiprocessing

    others = []

    def trouble(done, total):
        if done == 0:
            others.append(multiprocessing.Process(target=time.sleep, args=(PATIENCE,)))
            others[0].start()
        else:
            raise KeyboardInterrupt

    try:
        with pytest.raises(KeyboardInterrupt):
            jobs.run_jobs(square, [Square(x) for x in range(30)], tmp_path, workers=2, progress=trouble)
        assert others[0].is_alive()
    finally:
        others[0].kill()
        others[0].join()


def test_kept_results_that_are_none_are_computed_again(tmp_path):
    job = Square(3)
    run(square, [job], tmp_path)
    path = tmp_path / f"{jobs.key_of(job)}.json"
    kept = json.loads(path.read_bytes())
    for content in ("[" * 100_000, json.dumps({**kept, "result": 5}), json.dumps({**kept, "result": {}}), "5", "null"):
        path.write_text(content)
        results, failures = run(square, [job], tmp_path, fits=lambda result: isinstance(result, dict) and "square" in result)
        assert (results, failures) == ([{"square": 9}], [])
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="cannot be written into"):
        run(square, [job], tmp_path / "file")

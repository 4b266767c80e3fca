"""Workers with other code than the process that calls them are refused, and results carry the version of who computed them."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow.parquet as pq
import pytest

from anyreward import executors
from anyreward.experiments import jobs, sweep

SWEEP = {
    "name": "small", "seeds": 2, "algorithms": ["random"], "environments": ["double-chain"],
    "parameters": {"horizon": 4, "max_episodes": 10},
}  # fmt: skip


@dataclass(frozen=True)
class Square:
    x: int


def square(job):
    return {"square": job.x**2}


class Elsewhere(Executor):
    """An executor whose worker has code of another version."""

    def __init__(self, monkeypatch, version):
        self.monkeypatch, self.version = monkeypatch, version

    def submit(self, work, /, *arguments, **options):
        future = Future()
        with self.monkeypatch.context() as there:
            there.setattr(executors, "version", lambda: self.version)
            future.set_result(work(*arguments, **options))
        return future


def test_a_result_carries_the_version_that_its_worker_states(tmp_path, monkeypatch):
    """Not the one of the caller, though only the same is accepted: it is what the worker returned that is written down."""
    job, seen = Square(3), []
    keep = jobs._keep
    monkeypatch.setattr(jobs, "_keep", lambda folder, job, by, result: seen.append(by) or keep(folder, job, by, result))
    jobs.run_jobs(square, [job], tmp_path, Elsewhere(monkeypatch, str(executors.version())))
    kept = json.loads((tmp_path / f"{jobs.key_of(job)}.json").read_text())
    assert kept["version"] == seen[0] == executors.version()
    number, digest = kept["version"].split("+")
    assert number
    assert len(digest) == 16


def test_a_worker_with_other_code_is_refused_before_it_computes_anything(tmp_path, monkeypatch):
    computed = []
    with pytest.raises(ValueError, match="a worker runs anyreward") as refused:
        jobs.run_jobs(computed.append, [Square(1)], tmp_path, Elsewhere(monkeypatch, "0.0.9+0123456789abcdef"))
    said = str(refused.value)
    assert "0.0.9+0123456789abcdef" in said
    assert executors.version() in said
    assert "install the same code for every worker, and restart them" in said
    assert not computed
    assert not list(tmp_path.iterdir())
    assert jobs.run_jobs(square, [Square(1)], tmp_path, ThreadPoolExecutor(1))[0] == [{"square": 1}]


def test_what_other_code_cannot_unpack_is_not_unpacked():
    assert executors.answer_packed("0.0.9+0123456789abcdef", b"no pickle") == (executors.version(), None)


def other_code(folder, kind):
    """A folder with another anyreward: changed in one formula, from before `answer_packed` was there, or none at all."""
    if kind == "nothing":
        (folder / "anyreward").mkdir(parents=True)
        (folder / "anyreward" / "__init__.py").touch()
        return "cannot import anyreward (No module named 'anyreward.executors'): install anyreward "
    shutil.copytree(executors.PACKAGE, folder / "anyreward", ignore=shutil.ignore_patterns("__pycache__"))
    changed = folder / "anyreward" / ("kernels/radii.py" if kind == "changed" else "executors.py")
    text = changed.read_text()
    changed.write_text(text + "# changed" if kind == "changed" else text.replace("def answer_packed", "def answer_later"))
    return "runs anyreward "


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Dask's own, about its clocks and ports
@pytest.mark.parametrize("kind", ["same", "changed", "older", "nothing"])
def test_a_dask_worker_with_other_code_is_refused_in_one_sentence(tmp_path, kind):
    pytest.importorskip("distributed")
    said = other_code(tmp_path / "src", kind) if kind != "same" else None
    elsewhere = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    with contextlib.ExitStack() as stack:

        def start(*arguments, **options):
            command = [sys.executable, "-m", *arguments, "--no-dashboard", "--scheduler-file", str(file)]
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=tmp_path, **options)
            stack.callback(process.wait)
            stack.callback(process.kill)

        file = tmp_path / "scheduler.json"
        start("distributed.cli.dask_scheduler", "--port", "0")
        start("distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", env=elsewhere)
        while not file.exists():
            time.sleep(0.05)
        with executors.cluster(json.loads(file.read_text())["address"]) as executor:
            if said is None:
                table, failures = sweep.run(SWEEP, tmp_path / "out", executor)
                assert not failures
                assert pq.read_schema(table).metadata[b"anyreward.code"].decode() == executors.version()
                for path in (tmp_path / "out" / "cells").glob("*.json"):
                    assert json.loads(path.read_text())["version"] == executors.version()
                return
            with pytest.raises(ValueError, match="a worker") as refused:
                sweep.run(SWEEP, tmp_path / "out", executor)
    assert said in str(refused.value)
    assert executors.version() in str(refused.value)
    if kind != "nothing":
        theirs = subprocess.run(
            [sys.executable, "-c", "from anyreward import executors; print(executors.version())"],
            env=elsewhere, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert theirs.stdout.strip() in str(refused.value)
    assert "What is done is kept" in str(refused.value)
    assert not list((tmp_path / "out" / "cells").iterdir())

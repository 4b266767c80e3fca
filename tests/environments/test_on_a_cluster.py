"""One exploration on a real Dask cluster: workers and the scheduler are killed, and the result does not show it."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import anyreward as ar
from anyreward.executors import cluster

from ..helpers.checkpoints import Rooms, same
from ..helpers.waiting import PATIENCE, wait_for
from .test_parallel import ROOMS, Disturbed, kill_worker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Dask's own, about its clocks and ports
    pytest.mark.usefixtures("quick_look"),
]
distributed = pytest.importorskip("distributed")
ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def processes(folder, workers):
    """The address of a scheduler of its own, its process, and those of its workers."""
    file = folder / "scheduler.json"
    file.unlink(missing_ok=True)
    with contextlib.ExitStack() as stack:

        def start(*arguments):
            command = [sys.executable, "-m", *arguments, "--no-dashboard", "--scheduler-file", str(file)]
            elsewhere = {**os.environ, "PYTHONPATH": str(ROOT)}  # where `tests` can be imported from
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, env=elsewhere)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        scheduler = start("distributed.cli.dask_scheduler", "--port", "0")
        theirs = [start("distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1") for _ in range(workers)]
        wait_for(file.exists)
        address = json.loads(file.read_text())["address"]
        with distributed.Client(address, timeout=PATIENCE, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=PATIENCE)
        yield address, scheduler, theirs


def test_a_worker_and_then_the_scheduler_are_killed(tmp_path):
    """The first changes nothing; the second ends it with a sentence, and the same call on another cluster resumes."""
    file, whole = tmp_path / "it.atlas", tmp_path / "whole.atlas"
    ar.explore(Rooms, 5, **ROOMS, batch=8, checkpoint=whole)
    marker, options, driver = tmp_path / "killed", {**ROOMS, "checkpoint": file, "checkpoint_every": 1e-9}, os.getpid()
    with processes(tmp_path, 2) as (address, _, workers), cluster(address) as executor:
        first = ar.explore(lambda: Disturbed(lambda: kill_worker(driver), marker), 5, **ROOMS, executor=executor)
        assert wait_for(lambda: [worker.poll() for worker in workers].count(-signal.SIGKILL) == 1)
        assert same(first, ar.explore(lambda: Disturbed(lambda: None), 5, **ROOMS, batch=8))

    def kill_scheduler(t, _):
        if t >= 40:
            scheduler.kill()

    with processes(tmp_path, 1) as (address, scheduler, _), cluster(address, wait=3) as executor:
        with pytest.raises(ValueError, match=f"the Dask scheduler at {re.escape(address)} does not answer any more") as gone:
            ar.explore(Rooms, 5, **options, executor=executor, progress=kill_scheduler)
        assert "the same call resumes from there" in gone.value.__notes__[0]
        assert 40 <= ar.load(file).episodes < 150
    with processes(tmp_path, 1) as (address, _, _), distributed.Client(address, set_as_default=False) as client:
        ar.explore(Rooms, 5, **options, executor=client)
    assert file.read_bytes() == whole.read_bytes()


def test_a_cluster_without_workers_is_one_sentence(tmp_path):
    with processes(tmp_path, 1) as (address, _, workers), cluster(address, wait=2) as executor:

        def kill(t, _):
            workers[0].kill()

        with pytest.raises(ValueError, match=f"the Dask cluster at {re.escape(address)} has had no worker for 2 seconds") as gone:
            ar.explore(Rooms, 5, **ROOMS, executor=executor, progress=kill)
        assert gone.value.atlas.episodes % 8 == 0


def test_the_ten_lines_of_the_documentation_work(tmp_path):
    """As they are written, on a cluster of its own, with another address and fewer workers."""
    shell, python = re.findall(
        r"```(?:sh|python)\n(.*?)```", (ROOT / "docs" / "workers.md").read_text().split("## On a cluster")[1], re.S
    )[:2]
    scheduler, worker, explore = (line.split("#")[0].strip().rstrip("& ") for line in shell.strip().splitlines())
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    options = {"cwd": tmp_path, "env": {**os.environ, "PATH": path}, "shell": True}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    here = {"8786": str(number), "HOST": "127.0.0.1", "--nworkers 16": "--nworkers 2"}

    def adapted(text):
        for old, new in here.items():
            text = text.replace(old, new)
        return text

    with contextlib.ExitStack() as stack:
        for line in (scheduler, worker):
            process = subprocess.Popen(
                adapted(line), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, **options
            )
            stack.callback(process.wait)
            stack.callback(os.killpg, process.pid, signal.SIGKILL)  # with their children: to say goodbye takes them seconds
        address = f"tcp://127.0.0.1:{number}"
        with distributed.Client(address, timeout=PATIENCE, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=PATIENCE)
        done = subprocess.run(adapted(explore), capture_output=True, text=True, timeout=PATIENCE, **options)
        assert done.returncode == 0, done.stdout + done.stderr
        code = "import anyreward as ar\n" + adapted(python).replace("lake.atlas", "again.atlas")
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stdout + done.stderr
    assert same(ar.load(tmp_path / "lake.atlas"), ar.load(tmp_path / "again.atlas"))

"""Sweeps: validated first, written as they go, the same whatever carries them out."""

import contextlib
import datetime
import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward import executors
from anyreward.cli import app
from anyreward.experiments import sweep

from ..helpers.waiting import PATIENCE, little_work, wait_for

SCRIPT = Path(sys.executable).parent / "anyreward"


def config(**changes):
    return {
        "name": "small",
        "seeds": 2,
        "algorithms": ["rf-trajectory", "ucbvi:scale=0.01", "random"],
        "environments": ["double-chain", {"name": "grid-world", "rows": 3, "cols": 3, "start": [1, 1], "goal": [2, 2]}],
        "parameters": {"horizon": 4, "max_episodes": 60, "stationary": [False, True]},
        **changes,
    }


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """The table of the small sweep, by threads in this process."""
    with ThreadPoolExecutor(1) as pool:
        path, failures = sweep.run(config(), tmp_path_factory.mktemp("sweep"), pool)
    assert not failures
    return path.read_bytes()


def test_there_is_a_cell_for_every_combination_with_a_seed_of_its_replicate():
    cells = sweep.cells(config())
    assert len(cells) == 3 * 2 * 2 * 2
    assert len(set(cells)) == len(cells)
    assert len({(cell.replicate, cell.seed) for cell in cells}) == 2
    assert {cell.seed for cell in sweep.cells(config(seed=1))}.isdisjoint(cell.seed for cell in cells)


def test_a_row_is_what_explore_gives():
    cell = sweep.cells(config())[0]
    row = sweep.run_cell(cell)
    atlas = ar.explore(ar.envs.double_chain(), 4, max_episodes=60, seed=cell.seed)
    assert row["digest"] == atlas.certificate.digest
    assert row["epsilon"] == atlas.certificate.epsilon
    assert row["episodes"] == 60


def test_an_environment_is_explored_with_the_structure_that_it_declares():
    both = config(
        algorithms=["rf-trajectory"],
        environments=["double-chain"],
        parameters={"horizon": 4, "max_episodes": 60, "structure": ["none", "own"]},
    )
    without, declared = (sweep.run_cell(cell) for cell in sweep.cells({**both, "seeds": 1}))
    assert declared["epsilon"] < without["epsilon"]
    seed = sweep.cells({**both, "seeds": 1})[1].seed
    assert declared["digest"] == ar.explore("double-chain", 4, max_episodes=60, structure="own", seed=seed).certificate.digest
    garnet = {**both, "environments": [{"name": "garnet", "n_states": 4, "n_actions": 2, "branching": 2}]}
    with pytest.raises(ValueError, match="structure is 'own', but the environment has no attribute structure"):
        sweep.cells(garnet)


def test_a_model_pays_also_where_the_reward_is_to_be_observed():
    it = config(algorithms=["bpi-ucrl:rewards='random'", "bpi-ucrl:rewards='deterministic'"], seeds=1)
    for cell in sweep.cells(it):
        assert sweep.run_cell(cell)["episodes"] == 60


def test_the_table_has_its_configuration_in_it(table, tmp_path):
    (tmp_path / "it.parquet").write_bytes(table)
    read = pq.read_table(tmp_path / "it.parquet")
    assert json.loads(read.schema.metadata[b"anyreward.sweep"]) == config()
    assert read.schema.metadata[b"anyreward.version"].decode() == ar.__version__
    assert read["algorithm"].to_pylist() == [cell.algorithm for cell in sweep.cells(config())]


def test_the_table_does_not_depend_on_the_workers(table, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        path, _ = sweep.run(config(), tmp_path, pool)
    assert path.read_bytes() == table


def test_what_is_done_is_not_done_again(table, tmp_path):
    with ThreadPoolExecutor(1) as pool:
        sweep.run(config(), tmp_path, pool)
    files = sorted((tmp_path / "cells").iterdir())
    times = {file: file.stat().st_mtime_ns for file in files}
    files[3].unlink()
    files[5].write_bytes(b"half of")
    with ThreadPoolExecutor(1) as pool:
        path, _ = sweep.run(config(), tmp_path, pool)
    again = {file for file in files if file.stat().st_mtime_ns != times[file]}
    assert again == {files[3], files[5]}
    assert path.read_bytes() == table


def test_a_cell_that_fails_does_not_stop_the_others(tmp_path, monkeypatch):
    def sometimes(cell):
        if cell.replicate == 1 and cell.algorithm == "random":
            raise RuntimeError("out of luck")
        return work(cell)

    work = sweep.run_cell
    monkeypatch.setattr(sweep, "run_cell", sometimes)
    with ThreadPoolExecutor(2) as pool:
        path, failures = sweep.run(config(), tmp_path, pool)
    assert len(failures) == 4
    assert all("out of luck" in failure.error and failure.job.algorithm == "random" for failure in failures)
    assert pq.read_table(path).num_rows == 20


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"algorithms": ["nobody"]}, "there is no algorithm 'nobody'"),
        ({"algorithms": ["ucbvi:loud=1"]}, "has the option 'loud'"),
        ({"algorithms": []}, "has no algorithms"),
        ({"environments": ["nowhere"]}, "there is no environment 'nowhere'"),
        ({"environments": [{"name": "double-chain", "height": 3}]}, "height"),
        ({"parameters": {"horizon": 4}}, "epsilon or max_episodes"),
        ({"parameters": {"horizon": 0, "max_episodes": 5}}, "horizon is 0"),
        ({"parameters": {"horizon": 4, "max_episodes": 5, "speed": 1}}, "parameter 'speed'"),
        ({"parameters": {"horizon": 4, "epsilon": 1.0}}, "max_episodes is not given"),
        ({"parameters": {"horizon": [], "max_episodes": 5}}, "empty list"),
        ({"seeds": 0}, "seeds is 0"),
        ({"seeds": True}, "seeds is True"),
        ({"colour": "red"}, "key 'colour'"),
        ({"algorithms": ["random", "random"]}, "twice"),
        (
            {"algorithms": ["euler"], "parameters": {"horizon": 4, "max_episodes": 5, "discount": [1.0, 0.9]}},
            "euler cannot be run",
        ),
        ({"parameters": {"horizon": 4, "max_episodes": 5, "delta": 1.5}}, "delta is 1.5"),
        ({"parameters": {"horizon": 4, "max_episodes": 5, "bounds": "loose"}}, "loose"),
    ],
)
def test_everything_is_validated_before_anything_runs(tmp_path, changes, names):
    with pytest.raises(ValueError, match=names):
        sweep.run(config(**changes), tmp_path)
    assert not list(tmp_path.iterdir())


TOML = """
name = "killed"
seeds = 4
algorithms = ["rf-trajectory", "bpi-ucrl"]
environments = [{ name = "double-chain", length = 15 }]
[parameters]
horizon = 10
max_episodes = [400, 900, 1500]
"""


@pytest.mark.slow
def test_a_sweep_that_is_killed_goes_on_and_gives_the_same_bytes(tmp_path):
    (tmp_path / "sweep.toml").write_text(TOML)
    call = [SCRIPT, "sweep", "sweep.toml", "--workers", "2", "--out"]
    subprocess.run([*call, "whole"], cwd=tmp_path, check=True, capture_output=True, timeout=PATIENCE)

    def cells_in(folder):
        return len(list((tmp_path / folder / "cells").glob("[0-9a-f]*.json")))

    done = 0
    for _ in range(40):
        process = subprocess.Popen(
            [*call, "parts"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        wait_for(lambda before=done, process=process: process.poll() is not None or cells_in("parts") >= before + 8)
        done = cells_in("parts")
        if process.poll() is not None:
            break
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.returncode == 0
    assert (tmp_path / "parts" / "table.parquet").read_bytes() == (tmp_path / "whole" / "table.parquet").read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are a POSIX matter")
def test_ctrl_c_keeps_what_is_done_and_says_so(tmp_path):
    """A terminal sends it to the processes of the pool as well: they say nothing."""
    (tmp_path / "sweep.toml").write_text(TOML.replace("[400, 900, 1500]", "[400, 900, 40000, 40001]"))
    call = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from anyreward.cli import app; app()"
    process = subprocess.Popen(
        [sys.executable, "-c", call, "sweep", "sweep.toml", "--workers", "2", "--out", "out"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    wait_for(lambda: process.poll() is not None or len(list((tmp_path / "out" / "cells").glob("[0-9a-f]*.json"))) >= 4)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    said, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "the same command resumes" in errors
    assert "Traceback" not in said + errors
    assert not (tmp_path / "out" / "table.parquet").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Dask's own, about its clocks and ports
def test_a_dask_cluster_that_loses_a_worker_gives_the_same_table(tmp_path):
    """Two worker processes; one is killed while it works. The table is that of threads in this process, to the byte."""
    distributed = pytest.importorskip("distributed")
    it = config(seeds=4, parameters={"horizon": 10, "max_episodes": [2_000, 4_000]}, algorithms=["bpi-ucrl", "rf-trajectory"])
    with ThreadPoolExecutor(1) as pool:
        expected, _ = sweep.run(it, tmp_path / "threads", pool)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        victim = next(iter(cluster.workers.values())).pid
        killed = []

        def kill_once(done, total):
            if not killed and done >= 3:
                os.kill(victim, signal.SIGKILL)
                killed.append(done)

        with executors.cluster(cluster.scheduler_address) as executor:
            path, failures = sweep.run(it, tmp_path / "dask", executor, progress=kill_once)
    assert killed
    assert killed[0] < len(sweep.cells(it))
    assert not failures
    assert path.read_bytes() == expected.read_bytes()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Dask's own, about its clocks and ports
def test_a_scheduler_that_is_not_there_is_one_sentence(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(executors, "ANSWERS_WITHIN", 1.0)
    (tmp_path / "sweep.toml").write_text(TOML)
    arguments = ["sweep", str(tmp_path / "sweep.toml"), "--scheduler", "tcp://127.0.0.1:9", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert "there is no Dask scheduler at tcp://127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("text", ["name = ", "\x00", "[[["])
def test_a_file_that_is_no_toml_is_refused(tmp_path, text):
    (tmp_path / "sweep.toml").write_text(text)
    with pytest.raises(ValueError, match="not a readable TOML file"):
        sweep.load_config(tmp_path / "sweep.toml")
    with pytest.raises(ValueError, match="does not exist"):
        sweep.load_config(tmp_path / "nothing.toml")


DATE = datetime.date(2026, 1, 1)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        *(({"name": value}, "the name of the sweep is") for value in (3, DATE, ["a"], "x" * 999, "../escaped", "a/b", "\x1b[2J")),
        *(({"seeds": value}, "seeds is") for value in (1.5, "many", DATE, [1], -1, 10**30)),
        *(({"seed": value}, "seed is") for value in (-1, 0.5, DATE, 2**70)),
        *(({"algorithms": value}, "algorithms is|no algorithm") for value in ("random", [3], [["random"]], [DATE], ["x" * 5000])),
        *(({"environments": value}, "environments is|no env") for value in (3, [3], [[]], [{}], [{"name": 3}], [{"name": []}])),
        ({"environments": [{"name": "double-chain", "length": DATE}]}, "length of double-chain is datetime.date"),
        ({"environments": [{"name": "double-chain", "length": "long"}]}, "length of double-chain is 'long'"),
        ({"environments": [{"name": "double-chain", "length": True}]}, "length of double-chain is True"),
        ({"environments": [{"name": "double-chain", "length": 10**12}]}, "transition table"),
        ({"environments": [{"name": "double-chain", "fail_prob": float("nan")}]}, "fail_prob of double-chain is nan"),
        ({"environments": [{"name": "double-chain", "fail_prob": {"a": 1}}]}, "fail_prob of double-chain is"),
        ({"environments": [{"name": "double-chain", "variant": 3}]}, "variant of double-chain is 3"),
        ({"environments": [{"name": "grid-world", "start": [1]}]}, "start of grid-world is"),
        ({"environments": [{"name": "grid-world", "start": [1.5, 2]}]}, "start of grid-world is"),
        ({"environments": [{"name": "garnet"}]}, "n_states"),
        ({"environments": [{"name": "garnet", "n_states": 10**6, "n_actions": 2, "branching": 2}]}, "transition table"),
        ({"environments": [{"name": "inventory", "capacity": 10**5}]}, "transition table"),
        *(({"parameters": value}, "parameters of the sweep are") for value in (3, "x", DATE)),
        *(
            ({"parameters": {"horizon": 4, "max_episodes": 5, key: [good, value]}}, f"{key} is")
            for key, good, values in (
                ("horizon", 3, (True, 2.0, "4", DATE, [3], {}, -1, 2**63)),
                ("max_episodes", 3, (True, 2.0, "4", DATE, -1, 2**62)),
                ("epsilon", 1.0, (0, -1.0, float("nan"), float("inf"), "small", True, DATE)),
                ("delta", 0.1, (0, 1, "0.1", float("nan"), False)),
                ("discount", 1.0, (0, 1.5, float("nan"), "one")),
                ("stationary", True, (1, "false", 0.0, DATE)),
                ("arrival_rewards", True, (1, "false")),
                ("stop", "own", ("never", 3, [])),
                ("bounds", "tight", ("loose", 3, DATE)),
            )
            for value in values
        ),
        ({"parameters": {"horizon": 10**7, "max_episodes": 5}}, "too large for a sweep"),
        ({"parameters": {"horizon": list(range(1, 2001)), "max_episodes": list(range(2000))}}, "the sweep has 48,000,000 cells"),
        ({"algorithms": ["ucbvi:scale=" + "(" * 3000]}, "cannot be run"),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_kind_is_one_short_sentence(tmp_path, changes, names):
    with little_work(20), pytest.raises(ValueError, match=names) as caught:
        sweep.run(config(**changes), tmp_path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert not list(tmp_path.iterdir())


def test_a_sweep_is_a_table():
    for value in (None, 3, [], "x"):
        with pytest.raises(ValueError, match=r"the sweep is .*: it has to be a table"):
            sweep.cells(value)
    with pytest.raises(ValueError, match="key 3"):
        sweep.cells({3: 4})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Dask's own, about its clocks and ports
@pytest.mark.parametrize("lost", ["scheduler", "worker"])
def test_a_cluster_that_is_lost_is_said_in_a_sentence_and_what_is_done_is_kept(tmp_path, lost):
    distributed = pytest.importorskip("distributed")
    with contextlib.ExitStack() as stack:

        def start(*arguments):
            process = subprocess.Popen(
                [sys.executable, "-m", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        file = tmp_path / "scheduler.json"
        scheduler = start("distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
        worker = start(
            "distributed.cli.dask_worker", "--scheduler-file", str(file), "--no-nanny", "--nthreads", "1", "--no-dashboard"
        )
        wait_for(file.exists)
        address = json.loads(file.read_text())["address"]
        with distributed.Client(address, timeout=PATIENCE, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=PATIENCE)
        it = config(seeds=20, parameters={"horizon": 10, "max_episodes": 20_000}, algorithms=["bpi-ucrl"])
        done = []

        def lose(finished, total):
            if finished == 2:
                done.append(finished)
                (scheduler if lost == "scheduler" else worker).kill()

        says = (
            f"the Dask scheduler at {address} does not answer any more" if lost == "scheduler" else "has had no worker for 3 sec"
        )
        with pytest.raises(ValueError, match=f"{says}.*What is done is kept, and the same call resumes from there"):  # noqa: SIM117
            with executors.cluster(address, wait=3) as executor:
                sweep.run(it, tmp_path / "out", executor, progress=lose)
        assert done
        assert len(list((tmp_path / "out" / "cells").glob("*.json"))) >= 2


GYM = {
    "name": "gym",
    "algorithms": ["rf-trajectory", "bpi-ucrl:reward='own'+paid_once=True"],
    "environments": [{"name": "FrozenLake-v1", "is_slippery": False, "initial_state": 0, "terminal": "state"}],
    "parameters": {"horizon": 5, "max_episodes": 40, "deterministic": True},
}


def test_gymnasium_environments_are_explored_as_explore_does_it(tmp_path):
    """With what is known of them, for every reward and for what they pay; the truth is not known."""
    with ThreadPoolExecutor(1) as pool:
        assert sweep.run(GYM, tmp_path, pool)[1] == []
    rows = pq.read_table(tmp_path / "table.parquet").to_pylist()
    known = {"env_args": {"is_slippery": False}, "initial_state": 0, "terminal": "state", "deterministic": True}
    for row, options in zip(rows, ({}, {"algorithm": "bpi-ucrl", "reward": "own", "paid_once": True}), strict=True):
        atlas = ar.explore("FrozenLake-v1", 5, max_episodes=40, seed=row["seed"], **known, **options)
        assert (row["epsilon"], row["digest"]) == (atlas.certificate.epsilon, atlas.certificate.digest)
        assert row["value_error"] is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"environments": ["os:FrozenLake-v1"]}, "there is no environment 'os:FrozenLake-v1'"),
        ({"environments": ["FrozenLake-v99"]}, "registered with Gymnasium"),
        ({"environments": [{"name": "FrozenLake-v1", "slippery": False}]}, "cannot be made"),
        ({"environments": [{"name": "FrozenLake-v1", "is_slippery": DATE}]}, "an argument of FrozenLake-v1"),
        ({"environments": [{"name": "FrozenLake-v1", "initial_state": 99}]}, "initial_state is 99"),
        ({"environments": [{"name": "FrozenLake-v1", "env_args": {"a": 1}}]}, "cannot be made"),
        ({"algorithms": ["bpi-ucrl"]}, "give it, or 'own' for what the environment pays"),
        ({"algorithms": ["ucbvi:reward='own'"]}, "has to know it"),
        ({"algorithms": ["bpi-ucrl:reward='own'+reward_range=(1,0)"]}, "reward_range is"),
    ],
)
def test_gymnasium_environments_are_validated_before_anything_runs(changes, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        sweep.cells({**GYM, **changes})


def test_the_gap_of_every_episode_is_kept_and_nothing_else_changes(tmp_path):
    """With `gaps`, the same episodes are played; a learner that ends by its own index ends at the same one."""
    it = config(
        algorithms=["rf-trajectory", "rf-trajectory:replan='geometric'", "rf-ucrl", "generative"],
        environments=[{"name": "double-chain", "length": 5}],
        parameters={"horizon": 3, "epsilon": 4.0, "bounds": "paper", "max_episodes": 2500, "gaps": [False, True]},
        seeds=1,
    )
    with ThreadPoolExecutor(1) as pool:
        path, failures = sweep.run(it, tmp_path, pool)
        assert not failures
        before = path.read_bytes()
        for file in sorted((tmp_path / "cells").iterdir())[::2]:  # resumed with those that are missing
            file.unlink()
        assert sweep.run(it, tmp_path, pool)[0].read_bytes() == before
    rows = pq.read_table(path).to_pylist()
    best = ar.backward_induction(ar.envs.double_chain(5), ar.envs.double_chain(5).reward, 3).V[0, 2]
    for without, kept in zip(rows[::2], rows[1::2], strict=True):
        assert without["gap"] is None
        assert kept["digest"] == without["digest"]
        gaps = sweep.gaps_of(kept)
        assert len(gaps) == kept["episodes"] == without["episodes"]
        assert np.isnan(gaps).all() if kept["algorithm"] == "generative" else 0 <= gaps.min() < gaps.max() <= best
    geometric = rows[3]
    assert len(geometric["gap"]) < 0.3 * geometric["episodes"]  # few policies, many episodes
    assert rows[5]["episodes"] < 2500  # certified by its own index


def test_gaps_need_an_optimum_that_is_known():
    with pytest.raises(ValueError, match="gaps is true, but an environment is not a model with a reward"):
        sweep.cells(config(environments=[{"name": "FrozenLake-v1", "initial_state": 0}], parameters=GAPS))
    with pytest.raises(ValueError, match="gaps is 1: it has to be true or false"):
        sweep.cells(config(parameters={**GAPS, "gaps": 1}))


GAPS = {"horizon": 3, "max_episodes": 5, "gaps": True}

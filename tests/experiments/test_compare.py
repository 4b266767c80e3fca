"""Algorithms side by side: what the table and the picture say."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.cli import app
from anyreward.environments.tabular import play as play_model
from anyreward.experiments import compare as experiment


def without_times(runs):
    return [(run.algorithm, run.seed, run.episodes, run.error, run.worst, run.covered, run.own, run.ours) for run in runs]


@pytest.mark.slow
def test_runs_are_the_same_however_they_are_carried_out():
    mdp = ar.envs.double_chain(5)
    given = {"algorithms": ["rf-trajectory", "ucbvi:scale=0.1", "random"], "episodes": 100, "seeds": 2, "horizon": 4}
    one = experiment.compare(mdp, **given)
    with ThreadPoolExecutor(2) as pool:
        two = experiment.compare(mdp, **given, executor=pool)
    assert without_times(one) == without_times(two)
    assert without_times(one) != without_times(experiment.compare(mdp, **given, seed=1))


def test_errors_are_those_of_planning_on_the_counts():
    mdp = ar.envs.double_chain(5)
    run = experiment.one_run(mdp, "rf-trajectory", 3, 150, 4)
    explorer, rng = ar.RFTrajectory(mdp.setting(4), seed=3), np.random.default_rng(3)
    while explorer.episodes < 150:
        play_model(explorer, mdp, rng, 150 - explorer.episodes, -1.0)
    model = explorer.counts.model()
    rewards = [mdp.reward, *experiment.panel(mdp, 4)]
    gaps = [
        abs(model.initial @ ar.backward_induction(model, r, 4).V[0] - mdp.initial @ ar.backward_induction(mdp, r, 4).V[0])
        for r in rewards
    ]
    assert run.error[-1] == pytest.approx(gaps[0], abs=1e-12)
    assert run.worst[-1] == pytest.approx(max(gaps[1:]), abs=1e-12)
    assert run.ours == pytest.approx(ar.certify(explorer.counts).epsilon)


@pytest.mark.slow
def test_a_regret_minimiser_learns_little_off_the_path_of_its_reward_and_a_reward_free_one_does():
    """With bonuses scaled down, so that it gets to its reward at all: the hole that reward-free exploration does not have."""
    mdp = ar.envs.double_chain(31)
    runs = {}
    minimisers = [name for name in experiment.PRACTICAL if experiment.goal_of(name) == "regret"]
    assert len(minimisers) == 5
    for name in ("rf-trajectory", *minimisers):
        runs[name] = [experiment.one_run(mdp, name, seed, 10_000, 20) for seed in range(3)]
    free = np.mean([run.worst[-1] for run in runs["rf-trajectory"]])
    for name in minimisers:
        assert np.mean([run.error[-1] for run in runs[name]]) < 0.1  # it knows its own reward
        assert np.mean([run.worst[-1] for run in runs[name]]) > 1.5 * free  # and little about others


@pytest.mark.slow
def test_the_command_writes_a_table_and_a_picture(tmp_path, monkeypatch):
    names = "rf-trajectory,bpi-ucrl,opt-qlearning"
    call = [
        "compare",
        "--env",
        "double-chain",
        "--env-arg",
        "length=7",
        "--algorithms",
        names,
        "--episodes",
        "300",
        "--seeds",
        "2",
    ]
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*call, "--horizon", "6", "--out", "it.png", "--table", "it.csv"])
    assert done.exit_code == 0, done.output
    assert all(name in done.stdout for name in names.split(","))
    assert (tmp_path / "it.png").read_bytes().startswith(b"\x89PNG")
    assert len((tmp_path / "it.csv").read_text().splitlines()) == 1 + 3 * 2
    rows = json.loads(CliRunner().invoke(app, [*call, "--horizon", "6", "--json", "--workers", "1"]).stdout)
    assert [row["algorithm"] for row in rows] == names.split(",")
    assert rows[0]["own ε"] == rows[0]["our ε"]
    assert rows[2]["own ε"] is None


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"algorithms": ["nobody"]}, "there is no algorithm 'nobody'"),
        ({"algorithms": ["ucbvi:loud"]}, "is not an algorithm with options"),
        ({"algorithms": ["ucbvi:loud=1"]}, "'loud' is not an option of UCBVI"),
        ({"seeds": 0}, "seeds are"),
    ],
)
def test_what_is_refused(given, names):
    with pytest.raises(ValueError, match=names):
        experiment.compare(ar.envs.double_chain(5), **given)

"""The commands run and verify."""

import json

import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.cli import app

RUN = CliRunner()
GOAL = ["--reward", "state == 30"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("playing")
    atlas = ar.explore("double-chain", 20, max_episodes=1_000)
    atlas.save(folder / "chain.atlas")
    call = ["plan", str(folder / "chain.atlas"), "--reward", "state == 0", "--out", str(folder / "left.csv")]
    assert RUN.invoke(app, call).exit_code == 0
    return folder


def invoke(*arguments):
    return RUN.invoke(app, [str(argument) for argument in arguments])


def test_what_is_earned_is_what_python_earns(files):
    atlas = ar.load(files / "chain.atlas")
    done = invoke("run", files / "chain.atlas", "double-chain", *GOAL, "--episodes", 200, "--json")
    earned = atlas.plan("state == 30").run("double-chain", episodes=200)
    assert json.loads(done.stdout)["earned"] == earned.tolist()
    done = invoke("run", files / "chain.atlas", "double-chain", *GOAL, "--episodes", 200)
    assert f"200 episodes earned {earned.mean():.6g} on average" in done.stdout
    done = invoke("run", files / "chain.atlas", "double-chain", *GOAL, "--policy", files / "left.csv", "--json")
    assert json.loads(done.stdout)["mean"] < 0.1  # to the left, where nothing is paid


def test_a_verification_is_that_of_python(files):
    atlas = ar.load(files / "chain.atlas")
    found = atlas.verify(atlas.plan("state == 30"), "double-chain", episodes=500)
    done = invoke("verify", files / "chain.atlas", "double-chain", *GOAL, "--episodes", 500, "--json")
    said = json.loads(done.stdout)
    assert (said["lower"], said["value"], said["upper"]) == tuple(found)
    assert said["assumptions"] == list(found.assumptions)
    done = invoke("verify", files / "chain.atlas", "double-chain", *GOAL, "--episodes", 500)
    assert "with probability 0.9" in done.stdout
    assert "by playing alone" in done.stdout


def test_a_better_plan_is_called_better(files):
    done = invoke("verify", files / "chain.atlas", "double-chain", *GOAL, "--episodes", 2000, "--against", files / "left.csv")
    assert "the plan is better by at least 1." in done.stdout
    call = ["verify", files / "chain.atlas", "double-chain", *GOAL, "--episodes", 2000, "--policy", files / "left.csv"]
    call += ["--against", files / "right.csv"]
    assert invoke("plan", files / "chain.atlas", *GOAL, "--out", files / "right.csv").exit_code == 0
    assert "the other policy is better by at least 1." in invoke(*call).stdout


def test_a_verification_without_an_end_is_refused(files):
    done = invoke("verify", files / "chain.atlas", "double-chain", *GOAL)
    assert done.exit_code == 2
    assert "playing needs one of them to stop" in done.stderr
    done = invoke("verify", files / "chain.atlas", "grid-world", *GOAL, "--episodes", 5)
    assert done.exit_code == 2
    assert "441 states" in done.stderr


def test_plans_of_actions_that_were_seen_alone(tmp_path):
    """The command, the library and a file say the same; a plan that names an unseen action says so."""
    ar.explore("double-chain", 4, max_episodes=6, env_args={"length": 5}).save(tmp_path / "few.atlas")
    reward = ["--reward", "0.5 + 0.1 * state - 0.3 * (action == 1)"]
    plain = invoke("plan", tmp_path / "few.atlas", *reward)
    assert "it plays an action that was never seen there at " in plain.stdout
    assert "(--only-seen never does)" in plain.stdout
    never = invoke("plan", tmp_path / "few.atlas", *reward, "--only-seen")
    made = ar.load(tmp_path / "few.atlas").plan(reward[1], only_seen=True)
    assert f"it plays {made.said_of_unseen}" in never.stdout
    assert "it loses at most " in never.stdout
    facts = json.loads(invoke("plan", tmp_path / "few.atlas", *reward, "--only-seen", "--json").stdout)
    assert facts["policy"] == made.policy.tolist()
    assert facts["untried"] == 0
    both = invoke("plan", tmp_path / "few.atlas", *reward, "--only-seen", "--cautious")
    assert both.exit_code == 2
    assert "--only-seen and --cautious are both given" in both.stderr

"""The command evaluate: an interval for a policy of one's own."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.cli import app


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with some exploration of FrozenLake, whose rewards were observed, and a policy."""
    folder = tmp_path_factory.mktemp("lake")
    ar.explore("FrozenLake-v1", 4, max_episodes=300, stationary=True).save(folder / "lake.atlas")
    np.save(folder / "right.npy", np.full((4, 16), 2))
    return folder


def said(folder, *arguments, code=0):
    arguments = [folder / word if str(word).endswith((".atlas", ".csv", ".npy")) else word for word in arguments]
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "call"),
    [
        (("--reward", "state == 1"), ("state == 1",)),
        (("--reward", "2 * (state == 1)", "--reward-range", "0,2"), ("2 * (state == 1)", (0, 2))),
        (("--reward", "own"), ("own",)),
        (("--reward", "own", "--rewards", "deterministic"), ("own", None, "deterministic")),
        (("--reward", "own", "--stationary-rewards"), ("own", None, None, True)),
    ],
)
def test_the_interval_is_that_of_the_library(folder, given, call):
    facts = json.loads(said(folder, "evaluate", "lake.atlas", "--policy", "right.npy", *given, "--json"))
    expected = ar.load(folder / "lake.atlas").evaluate(np.full((4, 16), 2), *call)
    assert (facts["lower"], facts["value"], facts["upper"]) == expected
    assert facts["delta"] == 0.1
    assert ("rewards lie in [0, 1]" in facts["assumptions"]) == (call[0] == "own")


@pytest.mark.slow
def test_the_policy_that_plan_writes_has_the_interval_of_its_plan(folder):
    """The lower ends agree; the upper end is that of this policy, at most that of the optimum."""
    plan = json.loads(said(folder, "plan", "lake.atlas", "--reward", "state == 14", "--out", "policy.csv", "--json"))
    text = said(folder, "evaluate", "lake.atlas", "--policy", "policy.csv", "--reward", "state == 14")
    facts = json.loads(said(folder, "evaluate", "lake.atlas", "--policy", "policy.csv", "--reward", "state == 14", "--json"))
    assert facts["value"] == plan["value"]
    assert facts["lower"] == pytest.approx(plan["lower"], abs=1e-9)
    assert facts["lower"] <= facts["value"] <= facts["upper"] <= plan["upper"]
    assert "with probability 0.9: " in text
    assert "assumes: the transitions are the same at every step" in text


@pytest.mark.slow
def test_a_policy_of_another_size_is_refused(folder):
    np.save(folder / "short.npy", np.zeros((3, 16), int))
    assert "has to be (4, 16)" in said(folder, "evaluate", "lake.atlas", "--policy", "short.npy", "--reward", "own", code=2)

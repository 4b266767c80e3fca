"""Constraints and trade-offs on the command line."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.cli import app

from ..helpers.problems import random_mdp


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("constraints")
    ar.explore(random_mdp(4, 2, seed=3), 4, max_episodes=60_000, stationary=True).save(folder / "it.atlas")
    return folder


def said(folder, command, *arguments, code=0):
    arguments = [folder / word if str(word).endswith((".atlas", ".csv", ".png")) else word for word in arguments]
    result = CliRunner().invoke(app, [command, *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


PLAN = ("plan", "it.atlas", "--reward", "action == 1 or state == 1")


def test_a_constraint_is_met_and_the_policies_are_written(folder):
    text = said(folder, *PLAN, "--subject-to", "action == 1 <= 1.5", "--out", "p.csv")
    assert "at once with that: " in text
    assert "expected action == 1 <= 1.5; the limit: action == 1 <= 1.5" in text
    assert "draw one of 2 policies with the probabilities" in text
    assert {path.name for path in folder.glob("p*.csv")} == {"p.1.csv", "p.2.csv"}
    facts = json.loads(said(folder, *PLAN, "--subject-to", "action == 1 <= 1.5", "--json"))
    written = json.loads(said(folder, "evaluate", "it.atlas", "--policy", "p.1.csv", "--reward", "action == 1", "--json"))
    other = json.loads(said(folder, "evaluate", "it.atlas", "--policy", "p.2.csv", "--reward", "action == 1", "--json"))
    mixed = np.dot(facts["weights"], [written["upper"], other["upper"]])
    assert mixed == pytest.approx(facts["costs"][0]["upper"], abs=1e-9)
    assert facts["lower"] <= facts["value"] <= facts["upper"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("--subject-to", "action"), "--subject-to is 'action': write it as COST<=LIMIT"),
        (("--subject-to", "action == 1 >= 9"), "meet --subject-to: the largest action == 1 that can be certified is "),
        (("--subject-to", "action <= 1", "--cautious"), "leave out the other options"),
        (("--subject-to", "action <= 1", "--html", "x.html"), "--html, --plot and --improvement"),
    ],
)
def test_bad_constraints_get_one_sentence(folder, given, sentence):
    assert sentence in said(folder, *PLAN, *given, code=2)


def test_the_trade_off_is_printed_and_drawn(folder):
    call = ("trade-off", "it.atlas", "--reward", "state == 1", "--against", "action == 1", "--points", 3)
    text = said(folder, *call, "--plot", "curve.png")
    assert text.startswith("share  state == 1, then action == 1, at once with probability 0.9; assumes: ")
    assert (folder / "curve.png").stat().st_size > 5000
    facts = json.loads(said(folder, *call, "--json"))
    assert [point["share"] for point in facts["points"]] == [0, 0.5, 1]

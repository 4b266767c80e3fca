"""The command reach."""

import json

import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.cli import app

from ..helpers.problems import random_mdp


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reach")
    ar.explore(random_mdp(4, 2, seed=3), 4, max_episodes=20_000, stationary=True).save(folder / "it.atlas")
    return folder


def said(folder, *arguments, code=0):
    arguments = [folder / word if str(word).endswith((".atlas", ".csv")) else word for word in arguments]
    result = CliRunner().invoke(app, ["reach", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


def test_a_goal_is_certified_and_its_policy_written(folder):
    text = said(folder, "it.atlas", "--goal", "state == 3", "--avoid", "state == 1", "--out", "p.csv")
    assert "<= its true probability <=" in text
    assert "the expected number of steps until arrival, if restarts are free: at most " in text
    assert (folder / "p.csv").read_text().startswith("h,s,a\n0,0,")
    facts = json.loads(said(folder, "it.atlas", "--goal", "state == 3", "--avoid", "state == 1", "--json"))
    plan = ar.load(folder / "it.atlas").reach(3, avoid=1)
    assert (facts["lower"], facts["upper"], facts["best"], facts["steps"]) == (*plan.value[::2], plan.best, plan.steps)


def test_goals_in_turn_and_never(folder):
    it = ar.load(folder / "it.atlas")
    facts = json.loads(said(folder, "it.atlas", "--goal", "state == 3", "--goal", "state == 1", "--json"))
    assert facts["lower"] == it.reach((3, 1)).value.lower
    facts = json.loads(said(folder, "it.atlas", "--never", "state == 1", "--json"))
    assert facts["lower"] == it.avoid(1).value.lower
    assert "restarts" not in said(folder, "it.atlas", "--never", "state == 1")


def test_an_automaton_of_a_module(folder, monkeypatch):
    (folder / "mine.py").write_text(
        "import anyreward as ar\n"
        "twice = ar.Automaton(3, lambda q, s: min(q + (s == 3), 2), accepting=[2])\n"
        "def machine():\n    return ar.Automaton(1, lambda q, s: 0, pays=lambda q, s: 0.5 * (s == 3))\n"
    )
    monkeypatch.chdir(folder)
    it = ar.load(folder / "it.atlas")
    facts = json.loads(said(folder, "it.atlas", "--automaton", "mine:twice", "--json"))
    twice = ar.Automaton(3, lambda q, s: min(q + (s == 3), 2), accepting=[2])
    assert facts["lower"] == it.reach(twice).value.lower
    assert "probability of any" not in said(folder, "it.atlas", "--automaton", "mine:machine")
    assert said(folder, "it.atlas", "--automaton", "mine:machine").startswith("value ")
    assert "has to be an ar.Automaton" in said(folder, "it.atlas", "--automaton", "mine:ar.__version__", code=2)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ((), "give where to arrive by --goal"),
        (("--goal", "state == 1", "--never", "state == 2"), "give where to arrive by --goal"),
        (("--never", "state == 1", "--avoid", "state == 2"), "--avoid goes with --goal"),
        (("--automaton", "mine:twice", "--avoid", "state == 2"), "--avoid goes with --goal"),
        (("--automaton", "twice"), "write package.module:Name"),
        (("--goal", "action == 1"), "a condition on the state alone"),
        (("--goal", "state == 1", "--goal", "state == 2", "--out", "p.csv"), "needs a memory"),
    ],
)
def test_bad_goals_get_one_sentence(folder, given, sentence):
    assert sentence in said(folder, "it.atlas", *given, code=2)

"""The command explore: names of states and actions."""

import csv
import re

import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.cli import app

CHAIN = ("explore", "double-chain", "--env-arg", "length=5", "--horizon", 4, "--max-episodes", 20, "--quiet")
STATES = ("far left", "left", "middle", "right", "far right")


def said(*arguments, code=0):
    """What a command prints: to stdout if it ends well, to stderr otherwise."""
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == code, result.output
    return result.stderr if code == 2 else result.stdout


def test_states_and_actions_have_the_names_that_are_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "states.txt").write_text("\n".join(STATES) + "\n")
    said(*CHAIN, "--action-names", "west, east", "--state-names", "states.txt", "--out", "it.atlas", code=3)
    atlas = ar.load("it.atlas")
    assert tuple(map(atlas.state_name, range(5))) == STATES
    assert tuple(map(atlas.action_name, range(2))) == ("west", "east")
    text = said("plan", "it.atlas", "--reward", "state == 'far right'", "--out", "policy.csv")
    assert "middle: → east" in text
    with open("policy.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["state"] for row in rows} == set(STATES)
    assert {row["action"] for row in rows} <= {"west", "east"}


def test_names_of_a_gymnasium_environment(tmp_path):
    out = tmp_path / "it.atlas"
    call = ("explore", "FrozenLake-v1", "--horizon", 4, "--max-episodes", 20, "--quiet", "--out", out)
    said(*call, "--action-names", "west,south,east,north", code=3)
    assert ar.load(out).action_name(3) == "north"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (("--action-names", "west"), "--action-names has 1 entries: it needs one for each of 2."),
        (("--action-names", "west,"), "--action-names is 'west,': name number 1 is empty."),
        (("--action-names", "west,west"), "--action-names has 'west' twice: names have to be different."),
        (("--state-names", "none.txt"), "none.txt does not exist: --state-names has to be names with commas between them"),
        (("--state-names", "gaps.txt"), "gaps.txt: name number 1 is empty."),
        (("--state-names", "latin.txt"), "latin.txt is not text in UTF-8: write a name in each line."),
    ],
)
def test_names_that_do_not_fit_are_one_sentence(tmp_path, monkeypatch, wrong, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gaps.txt").write_text("a\n\nb\nc\nd\n")
    (tmp_path / "latin.txt").write_bytes("Höhe\n".encode("latin-1"))
    message = said(*CHAIN, *wrong, "--out", "it.atlas", code=2)
    assert message.startswith("error: ")
    assert message.count("\n") == 1
    assert sentence in message
    assert not (tmp_path / "it.atlas").exists()


def test_rewards_that_are_given(tmp_path):
    call = ("explore", "double-chain", "--env-arg", "length=5", "--horizon", 4, "--epsilon", 1.5)
    text = said(*call, "--reward", "state == 4", "--reward", "own", "--mixtures", "--out", tmp_path / "two.atlas")
    assert "each mixture of 2 rewards (state == 4; own)" in text
    assert ar.load(tmp_path / "two.atlas").certificate.met
    assert "one reward" in said(*call, "--reward", "state == 4", "--out", tmp_path / "one.atlas")
    bpi = ("--algorithm", "bpi-ucrl", "--reward", "state == 4", "--out", tmp_path / "bpi.atlas")
    assert "one reward" in said(*call, *bpi)
    assert ar.load(tmp_path / "bpi.atlas").counts == ar.load(tmp_path / "one.atlas").counts
    message = said(*call, "--quiet", "--reward", "state == 4", "--reward", "state = 1", "--out", tmp_path / "no.atlas", code=2)
    assert message.startswith("error: the reward 'state = 1' cannot be used")


def test_what_an_algorithm_says_of_its_result_is_labelled(tmp_path):
    call, file = ("explore", "double-chain", "--env-arg", "length=5", "--horizon", 4, "--out"), tmp_path / "it.atlas"
    own = ("--algorithm", "mdp-gape", "--stop", "own", "--max-episodes", 20_000)
    text = said(*call, file, "--epsilon", 0.3, *own)
    assert re.search(r"own guarantee: epsilon 0\.?[0-3]?\d* for its first action, 1 alone", text)
    assert ar.load(file).source["own"]["first_action"] == 1
    zero = ("--algorithm", "ucb-zero", "--option", "tasks=2", "--max-episodes", 20)
    assert "own guarantee: epsilon 4 for its history policy alone" in said(*call, tmp_path / "zero.atlas", *zero, code=3)
    text = said(*call, tmp_path / "log.atlas", "--algorithm", "log-coverage", "--max-episodes", 300)
    assert re.search(r"visits as a design: \d\.\d\d% above the least possible, over \d+ pairs", text)


def test_workers_do_not_change_the_file(tmp_path):
    call = ("explore", "FrozenLake-v1", "--horizon", 4, "--max-episodes", 40, "--quiet", "--out")
    said(*call, tmp_path / "one.atlas", "--batch", 8, code=3)
    said(*call, tmp_path / "two.atlas", "--workers", 2, code=3)
    said(*call, tmp_path / "vector.atlas", "--n-envs", 2, code=3)
    one, two, vector = ((tmp_path / f"{name}.atlas").read_bytes() for name in ("one", "two", "vector"))
    assert one == two == vector


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (("--workers", 9), "--workers is 9, but a batch has only 8 episodes to share out"),
        (("--n-envs", 9), "--n-envs is 9, but a batch has only 8 episodes to share out"),
        (("--workers", 2, "--n-envs", 2), "--workers is given with --n-envs: each says who plays the episodes"),
        (("--batch", 0), "--batch is 0: it has to be at least 1."),
        (("--workers", 2, "--algorithm", "jin2020"), "--workers is given, but"),
    ],
)
def test_workers_that_do_not_fit_are_one_sentence(tmp_path, wrong, sentence):
    call = ("explore", "FrozenLake-v1", "--horizon", 4, "--max-episodes", 40, "--out", tmp_path / "it.atlas")
    message = said(*call, *wrong, code=2)
    assert message.startswith(f"error: {sentence}")
    assert message.count("\n") == 1

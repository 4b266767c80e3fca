"""The command extend."""

import json

import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.cli import app

CHAIN = ("double-chain", "--env-arg", "length=5")


@pytest.fixture
def file(tmp_path):
    ar.explore(ar.envs.double_chain(5), 4, max_episodes=30).save(tmp_path / "it.atlas")
    return tmp_path / "it.atlas"


def invoke(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_the_file_is_replaced_by_one_of_all_episodes(file):
    before = ar.load(file)
    result = invoke("extend", file, *CHAIN, "--max-episodes", 400, "--seed", 2)
    assert result.exit_code == 0, result.output
    assert "430 episodes" in result.stdout
    assert ar.load(file) == before.extend(ar.envs.double_chain(5), max_episodes=400, seed=2)


def test_for_given_rewards_into_another_file(file, tmp_path):
    before, out = ar.load(file), tmp_path / "two.atlas"
    rewards = ("--reward", "state == 4", "--reward", "own", "--mixtures")
    result = invoke("extend", file, *CHAIN, *rewards, "--epsilon", 1, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["met"]
    assert ar.load(file) == before
    assert ar.load(out).certificate.names == ("state == 4", "own")
    assert ar.load(out).certificate.mixtures


@pytest.mark.parametrize(
    ("wrong", "code", "says"),
    [
        ((), 2, "neither --epsilon nor --max-episodes nor --max-seconds is given"),
        (("--max-episodes", -1), 2, "--max-episodes is -1"),
        (("--max-episodes", 5, "--mixtures"), 2, "--mixtures is given, but no list of rewards is given"),
        (("--max-episodes", 5, "--reward", "state = 3"), 2, "the reward 'state = 3' cannot be used"),
        (("--max-episodes", 5, "--env-arg", "fail_prob=0.3"), 2, "their fingerprints differ"),
        (("--max-episodes", 5, "--epsilon", 0.01), 3, "extend it further with a larger --max-episodes"),
    ],
)
def test_what_is_wrong_is_one_sentence(file, wrong, code, says):
    before = file.read_bytes()
    result = invoke("extend", file, *CHAIN, *wrong, "--quiet" if code == 2 else "--json")
    assert result.exit_code == code
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.output
    assert (file.read_bytes() == before) == (code == 2)

"""The command line, tried as a user would: the installed script, in a folder of its own.

Each kind of exit is tried with the script itself: success, a refusal, an epsilon that is not reached, Ctrl-C. What a command
computes and prints is looked at in this process, since starting one takes longer than all the rest.
"""

import contextlib
import csv
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.cli import app

from ..helpers.waiting import PATIENCE

SCRIPT = Path(sys.executable).parent / "anyreward"
COMMANDS = (
    "explore",
    "certify",
    "info",
    "plan",
    "evaluate",
    "run",
    "verify",
    "reach",
    "trade-off",
    "watch",
    "export",
    "audit",
    "merge",
    "algorithms",
    "warmup",
    "compare",
    "sweep",
    "reproduce",
    "demo",
)


def run(folder, *arguments, code=0):
    """The installed script; what it printed."""
    done = subprocess.run([SCRIPT, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == code, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done


def inside(folder, *arguments, code=0):
    """The same in this process."""
    with contextlib.chdir(folder):
        done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """A folder with an exploration of a short chain."""
    folder = tmp_path_factory.mktemp("chain")
    arguments = ("double-chain", "--env-arg", "length=5", "--horizon", 4, "--epsilon", 1, "--out", "chain.atlas")
    folder.joinpath("out.txt").write_text(run(folder, "explore", *arguments).stdout)
    return folder


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A folder with some exploration of FrozenLake."""
    folder = tmp_path_factory.mktemp("lake")
    arguments = ("FrozenLake-v1", "--horizon", 8, "--max-episodes", 400, "--stationary", "--out", "lake.atlas", "--quiet")
    done = run(folder, "explore", *arguments, code=3)  # the certificate says nothing yet
    assert (done.stdout, done.stderr) == ("", "")
    return folder


@pytest.mark.slow
def test_the_demo_shows_intervals_around_the_truth_and_draws_a_picture(tmp_path):
    """Every row has lower <= value of the plan <= optimum <= upper; the paper needs more than 500 times as many episodes."""
    output = run(tmp_path, "demo", "--out", "demo.png").stdout
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in output.splitlines() if line.startswith("│")]
    assert max(len(line) for line in output.splitlines() if line.startswith(("│", "┏", "└"))) <= 80
    assert len(cells) == 6
    for _, *numbers in cells:
        lower, upper, width, optimum, value = map(float, numbers)
        assert lower <= value <= optimum <= upper
        assert width < 1.0  # less than half of what holds for every reward, about 2
    paper, times = re.search(r"([\d,]+) episodes, ([\d,]+) times as many", output).groups()
    tight = re.search(r"tight bounds,\s+([\d,]+)\s+episodes", output)[1]
    assert float(times.replace(",", "")) > 500
    readme = Path(__file__).parents[2].joinpath("README.md").read_text()
    row = next(line for line in readme.splitlines() if line.startswith("| double chain, 31 states, step-dependent |"))
    assert {paper, tight} <= {cell.strip() for cell in row.split("|")}
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command):
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"Example: anyreward {command}" in result.output


@pytest.mark.slow
def test_exploring_says_what_is_certified_and_saves_it(chain):
    atlas = ar.load(chain / "chain.atlas")
    assert atlas.certificate.met
    assert str(atlas.certificate) in (chain / "out.txt").read_text()
    again = ar.explore(ar.envs.double_chain(5), 4, 1.0)
    assert atlas == again


@pytest.mark.slow
def test_an_epsilon_that_is_not_reached_has_its_exit_code_and_can_be_gone_on_with(tmp_path):
    call = ("explore", "double-chain", "--horizon", 4, "--epsilon", 1, "--out", "it.atlas")
    assert "--resume" in run(tmp_path, *call, "--max-episodes", 50, code=3).stderr
    assert ar.load(tmp_path / "it.atlas").episodes == 50
    assert "pass --resume" in inside(tmp_path, *call, code=2).stderr
    facts = json.loads(inside(tmp_path, *call, "--resume", "--json").stdout)
    assert facts["met"]
    assert facts["epsilon"] <= 1
    assert facts["episodes"] == ar.load(tmp_path / "it.atlas").episodes


def invoke(*arguments):
    """A command in this process: its exit code, stdout and stderr."""
    result = CliRunner().invoke(app, [*map(str, arguments)])
    lines = [line for line in result.stderr.splitlines() if not line.startswith("anyreward: compiling")]
    return result.exit_code, result.stdout, lines


def test_a_certificate_that_says_nothing_has_the_exit_code_of_one_that_was_not_reached(tmp_path):
    call = ("explore", "double-chain", "--env-arg", "length=5", "--horizon", 4)
    code, out, err = invoke(*call, "--max-episodes", 3, "--out", tmp_path / "few.atlas")
    assert code == 3
    assert "which says nothing" in out
    assert err[-1].startswith("this certificate says nothing yet, since no two values differ by more than 4: use --resume")
    code, out, err = invoke(*call, "--max-episodes", 3, "--out", tmp_path / "json.atlas", "--json")
    assert code == 3
    assert json.loads(out)["says_nothing"]
    assert invoke(*call, "--max-episodes", 3, "--out", tmp_path / "quiet.atlas", "--quiet") == (3, "", [])
    code, _, err = invoke(*call, "--epsilon", 5, "--out", tmp_path / "large.atlas")
    assert code == 3
    assert err[-1] == "epsilon 5 says nothing, since no two values differ by more than 4: ask for a smaller --epsilon."
    assert invoke(*call, "--max-episodes", 30_000, "--out", tmp_path / "many.atlas")[0] == 0


def test_time_is_a_budget_too(tmp_path):
    """An episode is played at least, and another one when it is resumed."""
    call = ("explore", "double-chain", "--env-arg", "length=5", "--horizon", 4, "--max-seconds", 1e-9, "--out", tmp_path / "it")
    code, _, err = invoke(*call)
    assert code == 3
    assert "--max-seconds" in err[-1]
    assert ar.load(tmp_path / "it").episodes == 1
    assert invoke(*call, "--resume")[0] == 3
    assert ar.load(tmp_path / "it").episodes == 2


def test_where_stderr_is_no_terminal_there_are_lines(tmp_path):
    call = ("explore", "double-chain", "--env-arg", "length=5", "--horizon", 4, "--epsilon", 1, "--max-episodes", 400)
    code, _, err = invoke(*call, "--out", tmp_path / "it")
    assert code == 3
    (last,) = (line for line in err if line.startswith("explored: 400 episodes, "))
    assert last.endswith(" → 1")
    assert any(re.match(r"Forecast: about [\d.e+]+ more episodes \(.+ at this rate\) for epsilon 1\.", line) for line in err)
    assert any("pass --stationary" in line for line in err)
    assert not any("\x1b" in line for line in err)
    assert invoke(*call, "--out", tmp_path / "quiet", "--quiet") == (3, "", [])


def test_info_says_what_could_be_assumed(tmp_path):
    call = ("explore", "double-chain", "--env-arg", "length=5", "--horizon", 4, "--epsilon", 1)
    invoke(*call, "--max-episodes", 400, "--out", tmp_path / "it")
    text = "If you know that the transitions do not depend on the step, pass --stationary"
    assert text in invoke("info", tmp_path / "it")[1]
    facts = json.loads(invoke("info", tmp_path / "it", "--json")[1])
    (one,) = facts["suggestions"]
    assert one["arguments"] == {"stationary": True}
    assert one["epsilon"] < facts["epsilon"] == one["instead"]
    assert facts["forecast_is_low"] is False
    invoke(*call, "--out", tmp_path / "met")
    assert "If you know" not in invoke("info", tmp_path / "met")[1]


def test_info_forecasts_the_target_and_in_time_if_it_is_told_the_speed(tmp_path):
    call = ("explore", "double-chain", "--env-arg", "length=5", "--horizon", 4, "--epsilon", 1)
    invoke(*call, "--max-episodes", 400, "--out", tmp_path / "it")
    assert re.search(r"^forecast: about [\d.e+]+ more episodes for epsilon 1$", invoke("info", tmp_path / "it")[1], re.MULTILINE)
    text = invoke("info", tmp_path / "it", "--per-second", 2.5)[1]
    assert re.search(r"^forecast: about \S+ more episodes \(\S+ \S+ at this rate\) for epsilon 1$", text, re.MULTILINE)
    assert re.search(r"^forecast: about \S+ more episodes \(\S+ \S+ at this rate\) for half of epsilon", text, re.MULTILINE)
    facts = json.loads(invoke("info", tmp_path / "it", "--per-second", 2.5, "--json")[1])
    assert facts["episodes_to_target"] > 400
    for aim in ("target", "halve"):
        assert facts[f"seconds_to_{aim}"] == facts[f"episodes_to_{aim}"] / 2.5
    assert json.loads(invoke("info", tmp_path / "it", "--json")[1])["seconds_to_target"] is None
    code, _, err = invoke("info", tmp_path / "it", "--per-second", 0)
    assert (code, err) == (2, ["error: --per-second is 0.0: it has to be positive."])
    invoke(*call, "--out", tmp_path / "met")
    assert json.loads(invoke("info", tmp_path / "met", "--json")[1])["episodes_to_target"] is None


@pytest.mark.slow
def test_resuming_nothing_is_refused(tmp_path):
    call = ("explore", "double-chain", "--horizon", 4, "--epsilon", 1, "--out", "it.atlas", "--resume")
    assert "does not exist" in inside(tmp_path, *call, code=2).stderr


SAYS_WHEN = """
import signal
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from anyreward.cli import app
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever was inherited
steps, step = [0], FrozenLakeEnv.step
def counting(self, action):
    steps[0] += 1
    if steps[0] == 20_000:  # the audit takes 5,000
        print("going", flush=True)
    return step(self, action)
FrozenLakeEnv.step = counting
app()
"""


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
    call = [
        sys.executable,
        "-c",
        SAYS_WHEN,
        "explore",
        "FrozenLake-v1",
        "--horizon",
        "20",
        "--epsilon",
        "0.1",
        "--out",
        "lake.atlas",
    ]
    process = subprocess.Popen(call, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "going\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "--resume" in errors
    assert ar.load(tmp_path / "lake.atlas").episodes > 0


@pytest.mark.slow
def test_info_shows_the_certificate_the_coverage_and_a_forecast(chain):
    output = inside(chain, "info", "chain.atlas", "--plot", "chain.png").stdout
    atlas = ar.load(chain / "chain.atlas")
    assert str(atlas.certificate) in output
    assert "5 of 5 states" in output
    assert re.search(r"forecast: about [\d.e+]+ more episodes", output)
    assert "visits" in output
    assert (chain / "chain.png").read_bytes().startswith(b"\x89PNG")
    facts = json.loads(inside(chain, "info", "chain.atlas", "--json").stdout)
    assert facts["epsilon"] == atlas.certificate.epsilon
    assert facts["episodes_to_halve"] > atlas.episodes


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["expression", "csv", "json", "npy"])
def test_plans_are_those_of_the_library_whatever_the_reward_is_written_as(chain, kind):
    reward = np.zeros(5)
    reward[4] = 1.0
    source = {"expression": "state == 4", "csv": "reward.csv", "json": "reward.json", "npy": "reward.npy"}[kind]
    (chain / "reward.csv").write_text("s,reward\n4,1\n")
    (chain / "reward.json").write_text(json.dumps(reward.tolist()))
    np.save(chain / "reward.npy", reward)
    expected = ar.load(chain / "chain.atlas").plan(reward)
    facts = json.loads(inside(chain, "plan", "chain.atlas", "--reward", source, "--out", "policy.csv", "--json").stdout)
    assert facts["value"] == expected.value
    assert (facts["lower"], facts["upper"]) == (expected.lower, expected.upper)
    policy = np.zeros((4, 5), int)
    with open(chain / "policy.csv", newline="") as file:
        for row in csv.DictReader(file):
            policy[int(row["h"]), int(row["s"])] = int(row["a"])
    assert (policy == expected.policy).all()


@pytest.mark.slow
def test_the_report_stands_alone(chain):
    output = run(chain, "plan", "chain.atlas", "--reward", "state > 2", "--html", "report.html").stdout
    page = (chain / "report.html").read_text()
    assert "its true value" in output
    assert not re.search(r"<script|src=|href=|url\(", page)
    assert "what it does" in page
    assert "state &gt; 2" in page


@pytest.mark.slow
def test_the_own_reward_and_a_grid_are_shown(lake):
    output = inside(lake, "plan", "lake.atlas", "--reward", "own", "--plot", "plan.png").stdout
    arrows = [line for line in output.splitlines() if re.fullmatch(r"[←↓→↑·]( [←↓→↑·]){3}", line)]
    assert len(arrows) == 4
    assert (lake / "plan.png").exists()
    output = inside(lake, "info", "lake.atlas").stdout
    assert "from 0 to 1" in output
    assert len([line for line in output.splitlines() if re.fullmatch(r"[ ·░▒▓█]{8}", line)]) == 4


@pytest.mark.slow
def test_an_audit_reports_and_foretells(tmp_path):
    output = inside(tmp_path, "audit", "FrozenLake-v1", "--horizon", 8, "--stationary", "--epsilon", 4).stdout
    for word in ("16 states", "Initial state", "Terminal states", "Time limit", "Markov", "Stationary", "Forecast: about"):
        assert word in output
    facts = json.loads(inside(tmp_path, "audit", "Blackjack-v1", "--json").stdout)
    assert facts["terminal"] == "outcome"
    assert facts["n_states"] == 704


@pytest.mark.slow
def test_merging_adds_counts(chain):
    call = ("double-chain", "--env-arg", "length=5", "--horizon", 4, "--epsilon", 1, "--seed", 1, "--out", "second.atlas")
    inside(chain, "explore", *call)
    facts = json.loads(inside(chain, "merge", "chain.atlas", "second.atlas", "--out", "both.atlas", "--json").stdout)
    first, second, both = (ar.load(chain / f"{name}.atlas") for name in ("chain", "second", "both"))
    assert both == first | second
    assert facts["episodes"] == first.episodes + second.episodes
    assert "share a run" in run(chain, "merge", "chain.atlas", "chain.atlas", "--out", "no.atlas", code=2).stderr
    assert not (chain / "no.atlas").exists()


@pytest.mark.slow
def test_all_algorithms_are_listed(tmp_path):
    output = run(tmp_path, "algorithms").stdout
    assert all(name in output for name in ar.ALGORITHMS)
    assert [fact["name"] for fact in json.loads(inside(tmp_path, "algorithms", "--json").stdout)] == list(ar.ALGORITHMS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("explore", "Nowhere-v0", "--horizon", "4", "--epsilon", "1", "--out", "x.atlas"), "cannot be made"),
        (("explore", "double-chain", "--horizon", "0", "--epsilon", "1", "--out", "x.atlas"), "--horizon is 0"),
        (("explore", "double-chain", "--horizon", "4", "--out", "x.atlas"), "nor --max-episodes nor --max-seconds"),
        (("explore", "double-chain", "--horizon", "4", "--epsilon", "1", "--out", "no/x.atlas"), "there is no folder"),
        (("explore", "double-chain", "--horizon", "4", "--epsilon", "1", "--out", "x.atlas", "--env-arg", "x"), "name=value"),
        (
            ("explore", "double-chain", "--horizon", "4", "--epsilon", "1", "--out", "x.atlas", "--env-arg", "x=1"),
            "has no argument 'x'",
        ),
        (
            ("explore", "double-chain", "--horizon", "4", "--epsilon", "1", "--out", "x.atlas", "--algorithm", "no"),
            "has to be one of",
        ),
        (("explore", "FrozenLake-v1", "--horizon", "200", "--epsilon", "1", "--out", "x.atlas"), "at most 100"),
        (("explore", "CartPole-v1", "--horizon", "20", "--epsilon", "1", "--out", "x.atlas"), "give --bins"),
        (("info", "nothing.atlas"), "does not exist"),
        (("plan", "chain.atlas", "--reward", "import os"), "is not an expression"),
        (("plan", "chain.atlas", "--reward", "5 * state"), "outside [0, 1]"),
        (("plan", "chain.atlas", "--reward", "own", "--paid-once"), "the reward of this model is known"),
        (("plan", "chain.atlas", "--reward", "state", "--reward-range", "4"), "LOW,HIGH"),
        (("plan", "chain.atlas", "--reward", "state == 1", "--grid", "7x7", "--plot", "x.png"), "7 x 7"),
        (("plan", "chain.atlas", "--reward", "state == 1", "--plot", "x.gif"), ".png"),
        (("demo", "--out", "no/demo.png"), "there is no folder"),
    ],
)
def test_bad_input_is_one_sentence_and_changes_nothing(chain, arguments, sentence, monkeypatch):
    """In this process, since starting one takes longer than all the rest; `run` says what the script itself does."""
    before = sorted(os.listdir(chain))
    monkeypatch.chdir(chain)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2, result.output
    errors = result.stderr
    lines = [line for line in errors.splitlines() if not line.startswith("anyreward: compiling")]
    assert sentence in " ".join(lines)
    assert len(lines) == 1
    assert sorted(os.listdir(chain)) == before


@pytest.mark.slow
def test_a_discretised_environment_warns_visibly(tmp_path):
    edges = "[[-1, 0, 1], [-1, 0, 1], [-0.1, 0, 0.1], [-1, 0, 1]]"
    call = ("CartPole-v1", "--horizon", 5, "--max-episodes", 20, "--bins", edges, "--out", "pole.atlas", "--quiet")
    assert "assumes that it is Markov" in run(tmp_path, "explore", *call, code=3).stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="pipes are a POSIX matter")
def test_output_that_nobody_reads_to_its_end_is_no_error(tmp_path):
    """As in `anyreward info it.atlas | head -1`."""
    ar.explore(ar.envs.double_chain(5), 4, max_episodes=5).save(tmp_path / "it.atlas")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [SCRIPT, "info", tmp_path / "it.atlas"], stdout=write, stderr=subprocess.PIPE, text=True, timeout=PATIENCE
    )
    os.close(write)
    assert "error" not in done.stderr
    assert "Traceback" not in done.stderr


def said(*arguments, code=0):
    """What a command prints, in this process."""
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def test_deterministic_is_an_option(tmp_path, monkeypatch):
    """Printed by explore, info, plan and on the page of a plan; refused where the data contradict it."""
    monkeypatch.chdir(tmp_path)
    arguments = ("--horizon", 5, "--max-episodes", 60, "--stationary", "--initial-state", 0, "--deterministic")
    text = "every transition is deterministic"
    dry = said("explore", "FrozenLake-v1", "--env-arg", "is_slippery=False", *arguments, "--out", "dry.atlas")
    assert text in dry
    assert text in said("info", "dry.atlas")
    assert any(text in phrase for phrase in json.loads(said("info", "dry.atlas", "--json"))["assumptions"])
    assert text in said("plan", "dry.atlas", "--reward", "state == 15", "--html", "plan.html")
    assert text in Path("plan.html").read_text()
    wet = said("explore", "FrozenLake-v1", *arguments, "--out", "wet.atlas", code=2)
    assert "--deterministic is given" in wet
    assert not Path("wet.atlas").exists()


def test_a_known_distribution_of_the_start_is_an_option(tmp_path, monkeypatch):
    """A list, pairs or a file; printed with the certificate, in `info` and as JSON."""
    monkeypatch.chdir(tmp_path)
    law = np.zeros(704)
    law[[200, 300]] = 0.5
    np.save("law.npy", law)
    arguments = ("explore", "Blackjack-v1", "--horizon", 2, "--max-episodes", 3, "--out", "jack.atlas")
    for given in ("law.npy", "[(200, 0.5), (300, 0.5)]", law.tolist()):
        assert "which has probability 0 in initial" in said(*arguments, "--initial", given, code=2)
    assert "write a list such as" in said(*arguments, "--initial", "0.5", code=2)
    assert "initial sums to 0.5" in said(*arguments, "--initial", "[(0, 0.5)]", code=2)
    text = "the initial state has the given distribution: state 0 ((0, 0, 0)) with probability 0.00142045"
    assert text in said(*arguments, "--initial", [(s, 1 / 704) for s in range(704)], code=3)  # it says nothing yet
    assert text in said("info", "jack.atlas")
    assert any(text in phrase for phrase in json.loads(said("info", "jack.atlas", "--json"))["assumptions"])


def test_rewards_that_are_paid_once_are_an_option(tmp_path, monkeypatch):
    """Printed by plan and evaluate, as JSON and on the page of a plan; refused where the data contradict it."""
    monkeypatch.chdir(tmp_path)
    said("explore", "FrozenLake-v1", "--horizon", 5, "--max-episodes", 60, "--out", "lake.atlas", "-q", code=3)
    text, own = "at most one reward of an episode is not zero", ("--reward", "own", "--paid-once")
    assert text in said("plan", "lake.atlas", *own, "--out", "policy.csv", "--html", "plan.html")
    assert text in Path("plan.html").read_text()
    assert text in json.loads(said("plan", "lake.atlas", *own, "--json"))["assumptions"]
    assert text in said("evaluate", "lake.atlas", *own, "--policy", "policy.csv")
    assert text in said("verify", "lake.atlas", "FrozenLake-v1", *own, "--episodes", 20, "--quiet")
    assert "--paid-once are only for --reward own" in said("plan", "lake.atlas", "--reward", "state", "--paid-once", code=2)
    said("explore", "CliffWalking-v1", "--horizon", 5, "--max-episodes", 9, "--out", "cliff.atlas", "-q", code=3)
    assert "paid more than one reward" in said("plan", "cliff.atlas", *own, "--reward-range=-100,0", code=2)


@pytest.mark.slow
def test_one_reward_is_identified_from_the_command_line(tmp_path, monkeypatch):
    """The example of docs/command-line.md: what the environment pays, with what is known of it; and the reward of a model."""
    monkeypatch.chdir(tmp_path)
    known = ("--stationary", "--option", "stationary_rewards=true", "--option", "paid_once=true", "--initial-state", 0)
    call = ("explore", "FrozenLake-v1", "--horizon", 8, "--algorithm", "bpi-ucrl", "--reward", "own")
    text = said(*call, "--epsilon", 0.5, *known, "--out", "lake.atlas")
    assert "epsilon 0.5 with" in text
    assert "2,780 episodes" in text
    assert "rewards lie in [0, 1]; rewards do not depend on the step; at most one reward of an episode is not zero" in text
    assert "claimed by the file, not verified" in said("info", "lake.atlas")  # a file does not hold what was observed in order
    assert "one reward in [-1, 1]" in said(*call, "--max-episodes", 20, "--reward-range=-1,1", "--out", "wide.atlas")
    assert "has to be in [0, 1]" in said(
        "explore", "CliffWalking-v1", *call[2:], "--max-episodes", 20, "--out", "cliff.atlas", code=2
    )  # fmt: skip
    model = ("explore", "double-chain", "--env-arg", "length=5", "--horizon", 4, "--epsilon", 1, "--algorithm", "bpi-ucrl")
    assert "one reward" in said(*model, "--reward", "own", "--out", "chain.atlas")
    assert "plan for it with --reward own" in said("info", "chain.atlas")
    assert "optimum <=" in said("plan", "chain.atlas", "--reward", "own")

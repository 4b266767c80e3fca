"""Errors of the command line name its options, not the parameters of the library."""

import ast
import inspect
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import anyreward
import anyreward as ar
from anyreward.cli import app
from anyreward.cli.wording import SAID_OTHERWISE, Wording
from anyreward.envs import ENVIRONMENTS

PACKAGE = Path(anyreward.__file__).parent
COMMANDS = {command.callback.__name__: command.callback for command in app.registered_commands}
PYTHON = re.compile(r"\b[a-z]+(?:_[a-z0-9]+)+\b|\b[a-z]\w*=|\b[a-z][a-z_.]*\(|\bis True\b|, or None\b")
QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)|info\['action_mask'\]|--(?:option|env-arg) \w+(?:=\S+)?")
ENV_ARGS = [f"{name}=1" for make in ENVIRONMENTS.values() for name in inspect.signature(make).parameters]


def worded(text, command="explore", **given):
    return Wording(COMMANDS[command], given)(text)


def written(node):
    """The text of a string in the source, with 7 for whatever is filled in."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(part.value if isinstance(part, ast.Constant) else "7" for part in parts)
        case ast.BinOp(left=left, right=right):
            return written(left) + written(right)
        case ast.IfExp(body=body):
            return written(body)
        case ast.Call(func=ast.Attribute(attr="named" | "names_in") | ast.Name("named"), args=[text]):  # adds names of states
            return written(text)
    return "7"


def sentences():
    """Every sentence with which the library refuses something or warns, with the file that it is in."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.parent.name == "cli":  # speaks its own words
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Raise(exc=ast.Call(args=[text, *_])):
                    yield path, written(text)
                case ast.Call(func=ast.Attribute(attr="warn" | "add_note"), args=[text, *_]):
                    yield path, written(text)


# Beginnings of sentences that no command can lead to, since they are about what only a Python program can do, or that speak of
# something that is Python, or the command line, whoever reads them.
ELSEWHERE = (
    "env is a 7, whose parts cannot be had one by one",  # no command takes a vector environment
    "7 has neither shared memory nor an autoreset mode that works without",
    "rewards are missing: tell(",  # the loop over episodes is the program's own
    "7 cannot be given together with a bound object",
    "state 7 was visited, but its illegal actions were never declared: call declare_illegal(",
    "absorbing_states ",  # no command has it
    "illegal_actions ",  # only --action-masks has them, whose errors are its own
    "checkpoint_every ",
    "shares is 7: it has to be a Shares",  # designs of calibrated certificates are made by programs
    "max_restarts is 7: it cannot be negative",
    "quotas has the shape",
    "these counts leave out draws of laws",  # counts are certified once more by programs
    "successors has the shape",
    "7 has 7 restarts: max_restarts of the design is 7",
    "on_interrupt ",
    "structure ",  # declared in Python
    "outcome and successor contradict each other",
    "reward is a function",
    "n_states is 1: the printed bound",  # a formula of the paper
    "7 is given twice, to Gymnasium(...)",  # by a module of the user's own
    "features do not suit RFLinear",  # a class of a program's own choice
    "7 is added to a term",  # terms are added in Python
    "7 is not an algorithm with options: write it as name:option=value",
)


def test_every_sentence_of_the_library_can_be_said_in_the_words_of_a_command():
    """A new message names parameters that are options of some command, in a form that is understood, or is listed above."""
    left, found = [], list(sentences())
    wordings = [Wording(command, {"env_arg": ENV_ARGS}) for command in COMMANDS.values()]
    for path, text in found:
        said = [QUOTED.sub("", wording(text)) for wording in wordings]
        if all(map(PYTHON.search, said)) and not text.startswith(ELSEWHERE):
            left.append(f"{path.relative_to(PACKAGE)}: {text}")
    assert left == []
    assert len(found) > 300


def test_the_lists_have_nothing_that_is_not_said_any_more():
    texts = [text for _, text in sentences()]
    source = "".join(path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "wording.py")
    assert [start for start in ELSEWHERE if not any(text.startswith(start) for text in texts)] == []
    assert [said for said, _ in SAID_OTHERWISE if said not in source] == []


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        ("explore", "max_episodes is -1: it cannot be negative.", "--max-episodes is -1: it cannot be negative."),
        ("explore", "horizon is 0: it has to be at least 1.", "--horizon is 0: it has to be at least 1."),
        ("explore", "neither epsilon nor max_episodes is given: x.", "neither --epsilon nor --max-episodes is given: x."),
        ("explore", "record is True, but x.", "--record is given, but x."),
        ("explore", "stationary is True but x: use stationary=False.", "--stationary is given but x: leave out --stationary."),
        ("explore", "x: use stationary=False or a known reward.", "x: leave out --stationary, or use a known reward."),
        ("explore", "x: give bins=, one entry for each.", "x: give --bins, one entry for each."),
        ("explore", "leave out terminal='state'.", "leave out --terminal state."),
        ("explore", "pass action_masks='none' if none is.", "pass --action-masks none if none is."),
        ("explore", "env is a dict: x.", "ENV is a dict: x."),
        ("explore", "replan is 'x': y.", "--option replan is 'x': y."),
        ("explore", "max_successors is 0: y.", "--option max_successors is 0: y."),
        ("explore", "use rewards='random' if x.", "use --option rewards=random if x."),
        ("explore", "length is 1: y.", "--env-arg length is 1: y."),
        ("explore", "saved in x: the same call resumes.", "saved in x: the same command with --resume resumes."),
        ("plan", "pass reward_range=(lowest, highest), the range.", "pass --reward-range LOW,HIGH, the range."),
        ("plan", "pass rewards='random'.", "pass --rewards random."),
        ("plan", "if so, pass stationary_rewards=True; else x.", "if so, pass --stationary-rewards; else x."),
        ("plan", "rewards and stationary_rewards are x.", "--rewards and --stationary-rewards are x."),
        ("plan", "they are only for the reward 'own'.", "they are only for --reward own."),
        ("verify", "none of episodes, max_seconds and width is 1.", "none of --episodes, --max-seconds and --width is 1."),
        ("merge", "pass same_environment=True.", "pass --same-environment."),
        ("info", "pass stationary=True, initial_state=0: x.", "pass --stationary, --initial-state 0: x."),
        ("audit", "If you know all masks, pass action_masks.", "If you know all masks, pass --action-masks."),
        ("audit", "If it is fixed, pass initial_state=3.", "If it is fixed, pass --initial-state 3."),
    ],
)  # fmt: skip
def test_parameters_become_options(command, text, expected):
    assert worded(text, command, env_arg=["length=1"]) == expected


@pytest.mark.parametrize(
    "text",
    [
        "the reward 'max_states == 3' contains the unknown name 'max_states': the names are state, action.",
        "reward_range.csv does not exist: a file with a policy is needed.",
        "results/max_states.csv, line 3: x.",
        "'pass bins=3' is not an expression: x.",
        "x ends every episode after 3 steps, before the horizon of 5.",
        "episodes of the other seed, whose reward is better.",
        "--option is 'x': write it as name=value.",
        "it.atlas does not hold a valid atlas: horizon is 0.",
    ],
)
def test_what_users_wrote_and_plain_words_stay(text):
    assert worded(text) == text


def test_what_a_sweep_file_says_is_not_an_option():
    text = "the parameters need a horizon, and epsilon or max_episodes."
    assert worded(text, "sweep") == text


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("explore", "double-chain", "--horizon", "4", "--out", "x.atlas"),
        *(
            ("explore", "double-chain", "--horizon", "4", "--epsilon", "1", "--out", "x.atlas", *wrong)
            for wrong in (
                ("--max-episodes", "-1"), ("--delta", "2"), ("--discount", "0"), ("--epsilon", "-1"), ("--seed", "-1"),
                ("--horizon", "0"), ("--bounds", "loose"), ("--algorithm", "none"), ("--stop", "never"), ("--terminal", "state"),
                ("--max-states", "3"), ("--bins", "[3]"), ("--initial-state", "99"), ("--initial", "[0.5]"),
                ("--step-timeout", "0"), ("--action-masks", "none"), ("--option", "replan=never"), ("--option", "growth=0"),
                ("--option", "max_successors=0"), ("--env-arg", "fail_prob=2"), ("--env-arg", "length=1"),
                ("--algorithm", "bpi-ucrl", "--option", "rewards=no"), ("--algorithm", "generative", "--record"),
                ("--algorithm", "ucbvi"),
            )
        ),
        *(
            ("explore", "FrozenLake-v1", "--horizon", "4", "--epsilon", "1", "--out", "x.atlas", *wrong)
            for wrong in (
                ("--horizon", "200"), ("--terminal", "x"), ("--bins", "[3]"), ("--max-states", "0"), ("--step-timeout", "-1"),
                ("--initial-state", "99"), ("--algorithm", "bpi-ucrl", "--stationary"),
            )
        ),
        ("explore", "CartPole-v1", "--horizon", "4", "--epsilon", "1", "--out", "x.atlas"),
        ("explore", "CartPole-v1", "--horizon", "4", "--epsilon", "1", "--out", "x.atlas", "--bins", "[3]"),
        *(
            ("plan", "it.atlas", *wrong)
            for wrong in (
                ("--reward", "9 * state"), ("--reward", "own", "--paid-once"),
                ("--reward", "state == 1", "--reward-range", "1,0"),
                ("--reward", "state == 1", "--rewards", "random"), ("--reward", "state == 1", "--stationary-rewards"),
            )
        ),
        ("evaluate", "it.atlas", "--policy", "x.npy", "--reward", "state == 1"),
        ("run", "it.atlas", "double-chain", "--reward", "state == 1", "--episodes", "-1", "--env-arg", "length=5"),
        ("verify", "it.atlas", "double-chain", "--reward", "state == 1", "--env-arg", "length=5"),
        ("verify", "it.atlas", "double-chain", "--reward", "state == 1", "--env-arg", "length=5", "--episodes", "0"),
        ("verify", "it.atlas", "double-chain", "--reward", "state == 1", "--env-arg", "length=5", "--width", "-1"),
        ("merge", "it.atlas", "it.atlas", "--out", "x.atlas"),
        ("compare", "--episodes", "0"), ("compare", "--env", "no"), ("compare", "--horizon", "0"),
    ],
)  # fmt: skip
def test_no_command_speaks_python(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    ar.explore(ar.envs.double_chain(5), 4, max_episodes=5).save("it.atlas")
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code in (2, 3), result.output
    lines = [line for line in result.stderr.splitlines() if not line.startswith("anyreward: compiling")]
    assert lines
    assert not PYTHON.search(QUOTED.sub("", " ".join(lines))), lines

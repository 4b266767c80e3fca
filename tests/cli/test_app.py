"""What all commands share: the version, `python -m anyreward`, and completion in a shell."""

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.cli import app


def test_the_version_is_that_of_the_library():
    assert CliRunner().invoke(app, ["--version"]).stdout == f"anyreward {ar.__version__}\n"


def test_python_m_anyreward_is_the_command():
    done = subprocess.run([sys.executable, "-m", "anyreward", "--version"], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"anyreward {ar.__version__}\n", "")
    done = subprocess.run([sys.executable, "-m", "anyreward", "plan", "--help"], capture_output=True, text=True, check=True)
    assert "Usage: anyreward plan" in done.stdout


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("anyreward au", ["audit"]),
        ("anyreward explore dou", ["double-chain"]),
        ("anyreward audit CliffW", ["CliffWalking-v1", "CliffWalkingSlippery-v1"]),
        ("anyreward explore double-chain --algorithm rf-", ["rf-trajectory", "rf-ucrl", "rf-express"]),
        ("anyreward plan it.atlas --reward-r", ["--reward-range"]),
    ],
)
def test_a_shell_completes_commands_environments_algorithms_and_options(words, completed):
    """What the script that `anyreward --show-completion` prints calls, for bash."""
    asked = {"_ANYREWARD_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    if words == "anyreward au":  # in a process of its own, as a shell does
        command = [sys.executable, "-m", "anyreward"]
        printed = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, check=True).stdout
    else:
        printed = CliRunner().invoke(app, [], env=asked, prog_name="anyreward").stdout
    assert set(completed) <= set(printed.split())

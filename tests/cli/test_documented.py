"""docs/command-line.md: what it shows is what the commands print, one after the other, in one folder."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anyreward.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
ELSEWHERE = (  # not run here
    "shop:", "plant.models:",  # modules of the reader
    "tickets.", "tickets.csv",  # the log of examples/logs.py
    "--max-seconds", "warmup",  # they depend on the machine
    "compare ", "sweep ", "reproduce ",  # they take minutes
    "own --option",  # tests/cli/test_main.py
)  # fmt: skip


def sessions():
    """Each command with the lines that the page shows below it."""
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.M | re.S):
        for part in re.split(r"^\$ anyreward ", block.replace("\\\n", " "), flags=re.M)[1:]:
            command, *lines = part.splitlines()
            yield command.split("  #")[0].strip(), [line for line in lines if line.strip()]


def pattern(line):
    """A line of the page as a pattern: dots stand for anything, and times are those of the machine."""
    said = re.escape(line.strip()).replace(r"\.\.\.", ".*").replace(r"\ ", r"\s+")
    return re.compile(re.sub(r"\\\((?:\d+)\\s\+s\\s\+at", r"\\(.* at", said))


@pytest.mark.slow
def test_what_the_page_shows_is_what_is_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    ran = 0
    for command, lines in sessions():
        if any(word in command for word in ELSEWHERE):
            continue
        result = CliRunner().invoke(app, shlex.split(command))
        assert result.exit_code in (0, 3, 5), f"{command}: {result.output}"
        printed, at = result.output.splitlines(), 0
        for line in lines:
            if line.strip() == "...":
                continue
            here = next((i for i in range(at, len(printed)) if pattern(line).fullmatch(printed[i].strip())), None)
            assert here is not None, f"anyreward {command}\ndoes not print\n{line}\nafter line {at} of\n{result.output}"
            at = here + 1
        ran += 1
    assert ran >= 18

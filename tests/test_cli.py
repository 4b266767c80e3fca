"""The command line, tried as a user would."""

import re

import pytest
from typer.testing import CliRunner

from anyreward.cli import app


@pytest.mark.slow
def test_the_demo_shows_intervals_around_the_truth_and_draws_a_picture(tmp_path):
    """Every row has lower <= value of the plan <= optimum <= upper; the paper needs more than 500 times as many episodes."""
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "demo.png")])
    assert result.exit_code == 0, result.output
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.output.splitlines() if line.startswith("│")]
    assert len(cells) == 6
    for _, *numbers in cells:
        lower, upper, width, optimum, value = map(float, numbers)
        assert lower <= value <= optimum <= upper
        assert width < 1.0  # several times narrower than what holds for every reward, about 2
    assert float(re.search(r"([\d,]+) times", result.output)[1].replace(",", "")) > 500
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_help_helps():
    result = CliRunner().invoke(app, ["demo", "--help"])
    assert result.exit_code == 0
    assert "Example" in result.output


def test_a_missing_folder_is_named(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "nowhere" / "demo.png")])
    assert result.exit_code == 2
    assert "there is no folder" in re.sub(r"\s+", " ", result.output.replace("│", " "))

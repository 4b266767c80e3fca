"""Tables and maps fit a terminal of 80 columns, also when they are piped."""

import json

import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.cli import app
from anyreward.plots import plan_text, visits_text


def said(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_algorithms_fit_and_nothing_is_cut_off():
    text = said("algorithms")
    assert max(map(len, text.splitlines())) <= 80
    for fact in json.loads(said("algorithms", "--json")):
        assert " ".join(fact["guarantee"].split()) in " ".join(text.split())
        assert f"{fact['name']}: {fact['goal']}, {fact['status']}\n" in text


@pytest.mark.slow
def test_a_comparison_fits_and_nothing_is_cut_off(tmp_path):
    names = "rf-trajectory", "ucbvi:scale=0.0001+bonus=hoeffding", "random"
    call = ("compare", "--algorithms", ",".join(names), "--episodes", 50, "--seeds", 3, "--env-arg", "length=5", "--horizon", 5)
    text = said(*call, "--out", tmp_path / "it.png")
    lines = text.splitlines()
    assert max(map(len, lines[:-1])) <= 80  # the last one names the file
    assert "…" not in text
    rows = json.loads(said(*call, "--out", tmp_path / "it.png", "--json"))
    first = next(line for line in lines if line.startswith("rf-trajectory"))
    assert first.split()[1] == f"{rows[0]['error']['mean']:.3g}"  # its interval may be on the next line
    assert all(sum(line.startswith(name[:6]) for line in lines) == 2 for name in names)  # once in each table


@pytest.mark.parametrize(("rows", "cols"), [(3, 40), (3, 41), (2, 80), (2, 81), (2, 200)])
def test_maps_of_wide_grids_fit(rows, cols):
    atlas = ar.explore(ar.envs.grid_world(rows=rows, cols=cols, start=(0, 0), goal=(1, 1)), 3, max_episodes=20)
    maps = visits_text(atlas), plan_text(atlas.plan("state == 1"))
    assert all(len(line) <= 80 for lines in maps for line in lines)
    assert [len(maps[0]), len(maps[1]) - 1] == [rows, rows] or cols > 80


@pytest.mark.slow
def test_what_info_and_plan_show_fits(tmp_path):
    ar.explore("FrozenLake-v1", 5, max_episodes=50, stationary=True).save(tmp_path / "it.atlas")
    after = said("info", tmp_path / "it.atlas").partition("visits per state:")[2].splitlines()
    assert max(map(len, after)) <= 80
    shown = said("plan", tmp_path / "it.atlas", "--reward", "own").partition("what it does")[2].splitlines()
    assert max(map(len, shown)) <= 80

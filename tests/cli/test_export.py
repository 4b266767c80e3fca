"""The command export."""

from typer.testing import CliRunner

import anyreward as ar
from anyreward.cli import app

from ..helpers.drn import read_drn
from ..helpers.problems import random_mdp


def test_a_file_is_written_for_each_kind_of_model(tmp_path):
    ar.explore(random_mdp(3, 2, seed=3), 3, max_episodes=500, stationary=True).save(tmp_path / "it.atlas")
    for options, kind in (((), "double-interval"), (("--empirical",), "double")):
        out = tmp_path / "it.drn"
        result = CliRunner().invoke(app, ["export", str(tmp_path / "it.atlas"), str(out), *options])
        assert (result.exit_code, result.stdout) == (0, f"written: {out}\n")
        assert f"@value_type: {kind}\n" in out.read_text()
        assert len(read_drn(out.read_text())[2]) == 3


def test_another_ending_is_refused(tmp_path):
    ar.explore(random_mdp(3, 2, seed=3), 3, max_episodes=50, stationary=True).save(tmp_path / "it.atlas")
    result = CliRunner().invoke(app, ["export", str(tmp_path / "it.atlas"), str(tmp_path / "it.prism")])
    assert result.exit_code == 2
    assert "has to end in .drn or .umb" in result.stderr

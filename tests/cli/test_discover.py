"""The command discover."""

import json

from typer.testing import CliRunner

import anyreward as ar
from anyreward.cli import app


def test_what_was_discovered_is_printed(tmp_path):
    file = str(tmp_path / "it.atlas")
    explore = ["explore", "double-chain", "--env-arg", "length=5", "--horizon", "4", "--stationary", "--algorithm", "disco"]
    options = ["--option", "steps=2", "--option", "samples=300", "--max-episodes", "5000"]
    made = CliRunner().invoke(app, [*explore, *options, "--out", file])
    found = ar.load(file).discover()
    assert found.steps == 2.0
    assert str(found) in made.stdout
    said = CliRunner().invoke(app, ["discover", file]).stdout
    assert "within 2 expected steps, if restarts are free" in said
    assert f"{found.inside.sum()} states can certainly be reached" in said
    assert all(line in said for line in found.lines())
    facts = json.loads(CliRunner().invoke(app, ["discover", file, "--steps", "3", "--json"]).stdout)
    other = ar.load(file).discover(3)
    assert facts["inside"] == other.inside.nonzero()[0].tolist()
    assert facts["certified"] == {str(g): bound for g, bound in other.certified.items()}

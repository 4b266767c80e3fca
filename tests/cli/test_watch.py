"""The command watch."""

import json

import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.cli import app

LOG = ("--episode", "id", "--step", "t", "--state", "where", "--action", "what", "--next", "then")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a log of a valve that opens, a log of one that does not any more, and an atlas of the first."""
    folder = tmp_path_factory.mktemp("valve")
    for name, opens in (("old", 0.9), ("new", 0.4)):
        rows = [f"{i},0,shut,push,{'open' if (i * 7) % 10 < 10 * opens else 'shut'}" for i in range(400)]
        (folder / f"{name}.csv").write_text("id,t,where,what,then\n" + "\n".join(rows) + "\n")
    said(folder, "certify", "old.csv", "--horizon", 1, *LOG, "--states", '["shut", "open"]', "--out", "old.atlas", "-q")
    return folder


def said(folder, *arguments, code=0):
    arguments = [folder / word if str(word).endswith((".atlas", ".csv")) else word for word in arguments]
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == code, result.output
    return result.stdout if code != 2 else result.stderr


def test_a_log_is_compared_with_the_atlas(folder):
    text = said(folder, "watch", "old.atlas", "new.csv", *LOG, code=5)
    assert text.startswith("the environment has changed: p = ")
    assert "with push at step 0: " in text
    assert "shut in 10% of 400 before, 60% of 400 now" in text
    facts = json.loads(said(folder, "watch", "old.atlas", "new.csv", *LOG, "--json", code=5))
    assert facts["changed"]
    assert facts["laws"][0]["new"] == {"open": 160, "shut": 240}
    assert "no evidence" in said(folder, "watch", "old.atlas", "old.csv", *LOG)


def test_an_atlas_or_numbered_transitions_are_compared(folder):
    new = ar.Counts.from_dataframe(
        {"h": [0] * 50, "s": [0] * 50, "a": [0] * 50, "next": [0] * 50}, ar.load(folder / "old.atlas").counts.setting
    )
    ar.Atlas(new, ar.certify(new), numbering=ar.load(folder / "old.atlas").numbering).save(folder / "new.atlas")
    (folder / "numbers.csv").write_text("h,s,a,next\n" + "0,0,0,0\n" * 50)
    facts = [json.loads(said(folder, "watch", "old.atlas", name, "--json", code=5)) for name in ("new.atlas", "numbers.csv")]
    assert facts[0]["log_e"] == facts[1]["log_e"]


def test_a_missing_option_is_named(folder):
    assert "--state is missing: name the column." in said(folder, "watch", "old.atlas", "new.csv", "--episode", "id", code=2)

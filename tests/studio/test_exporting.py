"""Files for the reader say the same when they are read again, and all that the page needs is in the package."""

import base64
import io
import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

import anyreward as ar
from anyreward.atlas.policies import read_policy
from anyreward.studio import exporting

from .conftest import EVIL, formula, painted


def test_files_say_the_same_again(desk, grid, tmp_path):
    reward = painted({"states": [[3, 5]], "value": 0.5, "actions": [1], "steps": [2, 4]}, ([29], 1))
    plan = desk.planned({"reward": reward})

    def content(what, ending):
        return base64.b64decode(desk.answer("export", {"reward": reward, "what": what, "as": ending})["content"])

    (tmp_path / "policy.csv").write_bytes(content("policy", "csv"))
    assert (read_policy(tmp_path / "policy.csv", grid) == plan.policy).all()
    assert json.loads(content("policy", "json"))["policy"] == plan.policy.tolist()
    with np.load(io.BytesIO(content("policy", "npz")), allow_pickle=False) as kept:
        assert (kept["policy"] == plan.policy).all()
        assert kept["lower"] == plan.lower
    for ending in ("csv", "json"):
        path = tmp_path / f"reward.{ending}"
        path.write_bytes(content("reward", ending))
        again = grid.plan(str(path))
        assert (again.value, again.lower, again.upper) == (plan.value, plan.lower, plan.upper)
    arrival = {"terms": [formula("next == 29 and action == 1")]}
    (tmp_path / "arrival.csv").write_bytes(
        base64.b64decode(desk.answer("export", {"reward": arrival, "what": "reward", "as": "csv"})["content"])
    )
    assert grid.plan(str(tmp_path / "arrival.csv")).value == pytest.approx(desk.planned({"reward": arrival}).value)


def test_what_was_only_observed_is_no_file():
    atlas = ar.explore("FrozenLake-v1", 3, max_episodes=50, stationary=True)
    plan = atlas.plan("own")
    with pytest.raises(ValueError, match="not known everywhere"):
        exporting.written(plan, "reward", "csv")
    with pytest.raises(ValueError, match="csv, json or npz"):
        exporting.written(plan, "policy", "../../x")


def test_a_page_cannot_be_left_by_what_is_in_it(desk):
    asked = {
        "atlas": "hostile",
        "reward": {"terms": [formula("state == 1", 1, EVIL[:50])]},
        "what": "page",
        "as": "html",
        "view": {"x": EVIL},
    }
    html = base64.b64decode(desk.answer("export", asked)["content"]).decode()
    assert html.count("</script>") == html.count("<script") == 2
    assert "<img" not in html
    data = html.split('id="picture">')[1].split("</script>")[0]
    assert json.loads(data)["view"] == {"x": EVIL}
    assert "</" not in exporting.code()
    assert "default-src 'none'; script-src 'sha256-" in html


def test_all_that_the_page_needs_is_in_the_wheel_and_small():
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    package = exporting.STATIC.parents[1]
    shipped = {path for pattern in declared["anyreward"] for path in package.glob(pattern)}
    assert {
        path for folder in ("studio/static", "templates") for path in (package / folder).rglob("*") if path.is_file()
    } <= shipped
    assert sum(path.stat().st_size for path in shipped) < 10**6

"""What the page asks for becomes the right reward, or one sentence; whatever a browser sends, no file is opened."""

import base64
import builtins
import io
import os
from pathlib import Path

import numpy as np
import pytest

from anyreward.rewards.forms import reward_of_setting
from anyreward.studio import asking
from anyreward.studio.asking import Uploads, wanted

from .conftest import EVIL, formula, painted


def array(asked, atlas, uploads=None):
    want = wanted(asked, atlas, uploads or Uploads())
    return reward_of_setting(want.reward, atlas.counts.setting, None, atlas.numbering)


def test_later_strokes_lie_on_top_and_speak_of_their_actions_and_steps_alone(grid):
    asked = painted(
        {"states": [[0, 9]], "value": 0.5, "actions": None, "steps": None},
        {"states": [[3, 4]], "value": 1.0, "actions": [1, 2], "steps": None},
        {"states": [[4, 4], [20, 21]], "value": -2, "actions": [2], "steps": [5, 7]},
    )
    r = np.zeros((8, 30, 4))
    r[:, :10] = 0.5
    r[:, 3:5, 1:3] = 1.0
    r[5:, [4, 20, 21], 2] = -2
    assert (array(asked, grid) == r).all()


def test_terms_are_weighted_sums_of_what_they_pay(grid):
    asked = {
        "terms": [
            formula("state == 29", 2, "goal"),
            formula("action == 1", -0.25, "wear"),
            {"name": "own", "weight": 3, "kind": "own"},
        ]
    }
    r = np.zeros((8, 30, 4))
    r[:, 29] += 2 + 3
    r[:, :, 1] -= 0.25
    assert np.allclose(array(asked, grid), r, atol=1e-15)


@pytest.mark.parametrize("ending", ["csv", "json", "npy"])
def test_files_are_contents(grid, ending):
    stream = io.BytesIO()
    np.save(stream, np.arange(30) / 30)
    content = {"csv": b"s,reward\n3,0.5\n", "json": b'{"s": [3], "reward": [0.5]}', "npy": stream.getvalue()}[ending]
    uploads = Uploads()
    key = uploads.add(f"../../etc/reward.{ending}", base64.b64encode(content).decode())
    r = array({"terms": [{"name": "f", "kind": "file", "file": key}]}, grid, uploads)
    assert (r == (np.arange(30) / 30 if ending == "npy" else 0.5 * np.eye(30)[3])[None, :, None]).all()


def test_no_text_of_the_page_is_ever_opened(grid, tmp_path, monkeypatch):
    secret = tmp_path / "secret.csv"
    secret.write_text("s,reward\n3,1\n")

    def never(*args, **kwargs):
        raise AssertionError("a file was opened")

    for where, name in ((builtins, "open"), (os, "open"), (io, "open"), (Path, "open"), (Path, "read_bytes")):
        monkeypatch.setattr(where, name, never)
    uploads = Uploads()
    for term in (formula(str(secret)), formula("secret.csv"), {"name": "f", "kind": "file", "file": str(secret)}):
        with pytest.raises(ValueError, match=r"\.$"):
            wanted({"terms": [term]}, grid, uploads)
    with pytest.raises(ValueError, match=r"\.$"):
        asking.states_of({"text": str(secret)}, grid, print)
    with pytest.raises(ValueError, match="cannot be read"):
        uploads.add(str(secret), str(secret))


@pytest.mark.parametrize(
    ("term", "said"),
    [
        (formula("state =="), "not an expression"),
        (formula("__import__('os')"), "not allowed"),
        (formula("9 ** 9 ** 9"), "cannot be computed"),
        (formula("state == 1" + " + 0" * 900), "characters"),
        (formula("1", weight=float("inf")), "number between"),
        (formula("1", name=EVIL * 3), "at most 60"),
        ({"name": "x", "kind": "paint", "strokes": [{"states": [[0, 30]], "value": 1}]}, "from 0 to 29"),
        ({"name": "x", "kind": "paint", "strokes": [{"states": [[-1, 3]], "value": 1}]}, "from 0 to 29"),
        ({"name": "x", "kind": "paint", "strokes": [{"states": "all", "value": 1}]}, "no states"),
        ({"name": "x", "kind": "paint", "strokes": [{"states": [[1, 1]], "value": True}]}, "number between"),
        ({"name": "x", "kind": "paint", "strokes": [{"states": [[1, 1]], "value": 1, "steps": [3, 8]}]}, "from 0 to 7"),
        ({"name": "x", "kind": "paint", "strokes": [7]}, "no states"),
        ({"name": "x", "kind": "module"}, "has to be paint"),
        ({"name": "x", "kind": "file", "file": "gone"}, "choose it again"),
        ("own", "no kind"),
    ],
)
def test_what_is_no_reward_is_one_sentence(grid, term, said):
    with pytest.raises(ValueError, match=said) as problem:
        wanted({"terms": [term]}, grid, Uploads())
    assert "\n" not in str(problem.value)
    assert str(problem.value).endswith(".")


def test_expressions_have_a_cost_limit(grid, monkeypatch):
    monkeypatch.setattr(asking, "MAX_CELLS", 8 * 30 * 4)
    asking.expression("state == 3", grid, print)
    with pytest.raises(ValueError, match="too many parts"):
        asking.expression("next == 3", grid, print)
    monkeypatch.setattr(asking, "MAX_WORK", 10 * 8 * 30 * 4)
    with pytest.raises(ValueError, match="too many parts"):
        asking.expression("state == 3 + 0 + 0", grid, print)


def test_old_uploads_are_forgotten_and_large_ones_refused(grid):
    uploads = Uploads()
    keys = [uploads.add("a.csv", base64.b64encode(b"s,reward\n%d,1\n" % i).decode()) for i in range(asking.KEPT_FILES + 1)]
    with pytest.raises(ValueError, match="choose it again"):
        uploads.reward(keys[0], grid)
    uploads.reward(keys[1], grid)
    with pytest.raises(ValueError, match="8 MB"):
        uploads.add("a.csv", base64.b64encode(bytes(asking.MAX_FILE + 1)).decode())
    with pytest.raises(ValueError, match="has to end in"):
        uploads.add("a.pkl", "")

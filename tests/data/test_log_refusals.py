"""Logs, and files of logs, that are refused, in one sentence that names the row."""

from datetime import datetime

import numpy as np
import pandas as pd
import pytest

import anyreward as ar
from anyreward.atlas import container
from anyreward.data.columns import read_table

from ..helpers.forging import parts_of
from ..helpers.logs import counted, small

# --- What is refused ---


def a_gap(t, **more):
    return small(t=t), {"step": "t", **more}


REFUSED = {
    "no rows": ({k: [] for k in small()}, {}, "no rows"),
    "no column": (small(), {"state": "room"}, "no column 'room'"),
    "not a table": (3, {}, "no column 'id': it has to be a data frame"),
    "a text": (small(where="abcde"), {}, "'where' .*str"),
    "lengths": (small(what=["up"]), {}, "'what' .* 1 rows, but 'id' has 5"),
    "no episode": (small(id=["x", None, "y", "y", "z"]), {}, "row 1 .*'id'"),
    "no state": (small(where=["hall", "attic", None, "cellar", "attic"]), {}, "row 2 .*'where'"),
    "NaN": (small(where=["hall", "attic", float("nan"), "cellar", "attic"]), {}, "row 2 .*'where'"),
    "pandas NA": (small(where=["hall", "attic", pd.NA, "cellar", "attic"]), {}, "row 2 .*'where'"),
    "NaT": (small(where=["hall", "attic", pd.NaT, "cellar", "attic"]), {}, "row 2 .*'where'"),
    "no action": (small(what=["up", "down", None, "up", "up"]), {}, r"row 2 .*\(episode 'y', step 0\).*'what'"),
    "no action at the end": (small(what=["up", None, "down", "up", "up"]), {}, "row 1 .*'what'"),  # the column next says more
    "no next": (small(then=["attic", None, "cellar", "hall", "attic"]), {}, "row 1 .* no next state"),
    "no next, terminated": (
        small(then=["attic", "hall", "cellar", None, "attic"]), {"terminated": "over"}, "row 3 .*terminal='end'",
    ),
    "unhashable": (small(where=[{1}, {2}, {1}, {3}, {2}]), {}, "row 0 .* a set .*'where'"),
    "twice": (*a_gap([0, 1, 0, 0, 0]), "rows 2 and 3 .* t = 0 in episode 'y'"),
    "gap": (*a_gap([0, 2, 0, 1, 0]), "episode 'x' has no t = 1: it goes from 0"),
    "late": (*a_gap([0, 1, 1, 2, 0]), "episode 'y' begins with t = 1 .*others with 0"),
    "step is a date": (small(t=[datetime(2026, 1, d + 1) for d in range(5)]), {"step": "t"}, "row 0 .*as time="),
    "step is half": (*a_gap([0, 1, 0, 0.5, 0]), "row 3 .* 0.5 .*whole numbers"),
    "step is true": (*a_gap([False, True, False, True, False]), "row 0 .*False.*whole numbers"),
    "no step": (*a_gap([0, None, 0, 1, 0]), "row 1 .*'t'"),
    "times that do not compare": (small(t=[0, "a", 0, 1, 0]), {"time": "t"}, "cannot be compared"),
    "two times": (small(t=[0, 0, 0, 1, 0]), {"time": "t"}, "rows 0 and 1 .* t = 0"),
    "step and time": (small(), {"step": "t", "time": "t"}, "step and time"),
    "does not follow": (small(where=["hall", "attic", "hall", "attic", "attic"]), {}, "row 2 .*leads to 'cellar', but row 3"),
    "goes on after the end": (small(over=[0, 0, 1, 0, 0]), {"terminated": "over"}, "row 2 .*terminates.*row 3"),
    "over is a text": (small(over=["no", "no", "no", "yes", "no"]), {"terminated": "over"}, "row 0 .*true or false"),
    "over is missing": (small(over=[None, False, False, True, False]), {"terminated": "over"}, "row 0 .*'over'"),
    "over is two": (small(over=[0, 0, 0, 2, 0]), {"terminated": "over"}, "row 3 .* 2 .*true or false"),
    "ends and goes on": (small(), {"terminated": "over", "terminal": "state"}, "'hall'.*row 0.*goes on"),
    "ends and arrives": (
        small(then=["attic", "street", "cellar", "street", "attic"]), {"terminated": "over", "terminal": "state"},
        "'street'.*row 1.*arrives",
    ),
    "terminal alone": (small(), {"terminal": "end"}, "terminated is not"),
    "unknown terminal": (small(), {"terminated": "over", "terminal": "wall"}, "terminal is 'wall'"),
    "reward is missing": (small(paid=[1, 0, None, 1, 0]), {"reward": "paid"}, "row 2 .*'paid'"),
    "reward is infinite": (small(paid=[1, 0, float("inf"), 1, 0]), {"reward": "paid"}, "row 2 .*inf.*finite"),
    "reward is a text": (small(paid=["1", 0, 0, 1, 0]), {"reward": "paid"}, "row 0 .*'1'.*finite"),
    "unlisted state": (small(), {"states": ["hall", "attic"]}, "'cellar', which is not in states"),
    "unlisted action": (small(), {"actions": ["up"]}, r"row 1 .*'down', which is not in actions"),
    "listed twice": (small(), {"states": ["hall", "attic", "cellar", "hall"]}, "'hall' twice"),
    "not a list": (small(), {"states": 3}, "states"),
    "too many states": (small(), {"max_states": 2}, "3 different states, more than max_states = 2"),
    "both": (small(), {"max_states": 3, "states": ["hall", "attic", "cellar"]}, "states and max_states"),
    "another start": (small(), {"initial_state": "hall"}, "'hall', but row 4 .*'attic'"),
    "unknown start": (small(), {"initial_state": "roof"}, "'roof', but row 0"),
    "unknown starts": (small(), {"initial": {"roof": 1.0}}, "'roof', which does not appear"),
    "other starts": (small(), {"initial": {"hall": 0.5, "cellar": 0.5}}, "episode 2 starts in state 0"),
    "starts in a list": (small(), {"initial": [0.5, 0.5, 0]}, "dictionary"),
    "illegal": (small(may=[["up"], ["down"], ["up"], ["up"], ["down"]]), {"legal": "may"}, "row 2 .*'down', which is not legal"),
    "masks change": (
        small(may=[["up"], ["down"], ["down"], ["up"], ["down"]]), {"legal": "may"}, "row 0 .*and row 2 .*same state",
    ),
    "nothing is legal": (small(may=[[], [], [], [], []]), {"legal": "may"}, "row 0 .*empty"),
    "legal is a number": (small(may=[1] * 5), {"legal": "may"}, "row 0 .*list"),
    "a mask without actions": (small(may=[[True, True]] * 5), {"legal": "may"}, "in actions="),
    "legal is not told": (
        small(may=[["up", "down"], None, ["up", "down"], ["up"], None]), {"legal": "may"}, "row 0 .*leads to .*'attic'",
    ),
    "legal of nowhere": (small(), {"legal": {"roof": ["up"]}}, "'roof'"),
    "illegal beforehand": (small(), {"legal": {"hall": ["up"]}}, "row 2 .*'down', which is not legal"),
    "order": (small(id=["x", "y", "x", "y", "z"], t=range(5)), {"time": "t", "order": True, "next": None}, "begins before"),
    "horizon": (small(), {"horizon": 0}, "horizon is 0"),
    "no columns": (small(), {"state": []}, "empty"),
    "unknown argument": (small(), {"rewards": "paid"}, "'rewards'; perhaps 'reward' is meant"),
    "a setting too": (small(), {"setting": ar.Setting(n_states=3, n_actions=2, horizon=2)}, "either"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_logs_that_are_refused(name):
    """In one sentence that names the row and the episode."""
    table, options, says = REFUSED[name]
    with pytest.raises(ValueError, match=says) as caught:
        counted(table, **options)
    assert type(caught.value) is ValueError
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_what_is_needed_is_named():
    with pytest.raises(ValueError, match="episode is missing"):
        ar.Counts.from_dataframe(small(), horizon=3)
    with pytest.raises(ValueError, match="setting is 3"):
        ar.Counts.from_dataframe(small(), 3)


FILES = {
    "log.txt": (b"a", "does not end in .csv or .parquet"),
    "log.csv": (b"", "not a readable csv"),
    "ragged.csv": (b"id,where\n1,2\n1\n", "not a readable csv"),
    "other.csv": (b"id,there\n1,2\n", "no column 'where': its columns are id, there"),
    "two.csv": (b"id,where,where\n1,2,3\n", "more than one column 'where'"),
    "text.csv": (b"id,where\n1,\xff\xfe\n", "'where' is not text in UTF-8"),
    "log.parquet": (b"PAR1 and nothing", "not a readable parquet"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_refused(tmp_path, name):
    content, says = FILES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=says) as caught:
        counted(read_table(tmp_path / name, ["id", "where"]), state="where", action="where", next=None)
    assert "\n" not in str(caught.value)


def test_a_file_with_too_many_rows_is_refused_before_it_is_read(tmp_path, monkeypatch):
    pd.DataFrame(small()).to_parquet(tmp_path / "log.parquet")
    monkeypatch.setattr("anyreward.data.columns.MAX_ROWS", 4)
    with pytest.raises(ValueError, match="5 rows, more than 4"):
        read_table(tmp_path / "log.parquet", ["id"])
    with pytest.raises(ValueError, match=r"is needed"):
        read_table(tmp_path / "none.csv", ["id"])


# --- Files that claim something else ---


FORGED = {
    "an action that there is not": lambda columns, about, arrays: arrays["taken"].__setitem__((0, 2), 7),
    "more actions than episodes": lambda columns, about, arrays: arrays["taken"].__setitem__((0, 3), 4),
    "no action at all": lambda columns, about, arrays: arrays["taken"].__setitem__((0, 3), 0),
    "actions as fractions": lambda columns, about, arrays: arrays.update(taken=arrays["taken"].astype(float)),
    "a row too short": lambda columns, about, arrays: arrays.update(taken=arrays["taken"][:, :3]),
    "rewards from nowhere": lambda columns, about, arrays: arrays["paid.keys"].__setitem__((0, 3), -2),
    "too many rewards": lambda columns, about, arrays: arrays["paid.values"].__setitem__(
        arrays["paid.keys"][:, 3] == -1, [9, 9, 1, 1]
    ),
    "a log of no number": lambda columns, about, arrays: about["source"]["log"].update(episodes="many"),
    "a log of less than nothing": lambda columns, about, arrays: about["source"]["log"].update(cut_off=-1),
    "a log without numbers": lambda columns, about, arrays: about["source"].update(log={}),
    "columns of no state": lambda columns, about, arrays: about["numbering"]["observations"].update(columns=["one"]),
    "columns that are numbers": lambda columns, about, arrays: about["numbering"]["observations"].update(columns=[1, 2]),
    "columns that hide": lambda columns, about, arrays: about["numbering"]["observations"].update(columns=["a", "\x1b[2J"]),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_file_that_claims_what_cannot_be_is_refused(tmp_path, name):
    table = {"id": [1, 1, 2], "x": [0, 1, 0], "y": ["a", "b", "a"], "what": ["up", "down", "up"], "paid": [0, 1, 1]}
    counts = ar.Counts.from_dataframe(table, horizon=2, episode="id", state=["x", "y"], action="what", reward="paid")
    path = tmp_path / "log.atlas"
    ar.Atlas(counts, ar.certify(counts)).save(path)
    parts = parts_of(path)
    container.write(path, *parts)
    assert np.array_equal(ar.load(path).counts.taken, counts.taken)
    FORGED[name](*parts)
    container.write(path, *parts)
    with pytest.raises(ValueError, match="does not hold a valid atlas"):
        ar.load(path)

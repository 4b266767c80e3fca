"""States and actions of a log have names of any kind, which are kept."""

from enum import Enum

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import anyreward as ar
from anyreward.data.columns import read_table
from anyreward.data.spaces import Indexed, Whole

from ..helpers.logs import NAMES, counted, small


def test_names_are_kept_in_memory_and_in_a_file(tmp_path):
    counts = counted(reward="paid", terminated="over")
    atlas = ar.Atlas(counts, ar.certify(counts))
    atlas.save(tmp_path / "log.atlas")
    for it in (atlas, ar.load(tmp_path / "log.atlas")):
        assert [it.state_name(s) for s in range(6)] == [
            "attic", "cellar", "hall", "terminated in attic", "terminated in cellar", "terminated in hall",
        ]  # fmt: skip
        assert [it.action_name(a) for a in range(2)] == ["down", "up"]
        assert it.paid == counts.paid
        assert it.source["log"]["terminated"] == 1
        plan = it.plan("state == 'attic'")
        assert plan.policy[0, 2] == 1
        assert plan.act("hall", 0) == "up"
        assert it.plan("own").act("hall", 0) == "down"  # 0.5 and then 1 in the cellar, in place of 1 and then 0 in the attic
        assert np.array_equal(it.behaviour, atlas.behaviour)


def test_counts_do_not_depend_on_names():
    """Only on the numbering: what sorts in the same way has the same digest."""
    other = {"hall": (2, "h"), "attic": (0, "a"), "cellar": (1, "c")}
    renamed = small(where=[other[s] for s in small()["where"]], then=[other[s] for s in small()["then"]])
    one, two = counted(), counted(renamed)
    assert one == two
    assert one.numbering != two.numbering
    assert ar.certify(one) == ar.certify(two)


def test_numbers_do_not_depend_on_the_order_of_rows():
    table = pd.DataFrame(small())
    shuffled = table.sample(frac=1, random_state=3)
    one, two = (counted(part, step="t", reward="paid", terminated="over") for part in (table, shuffled))
    assert one == two
    assert one.numbering == two.numbering
    assert one.paid == two.paid
    assert two.source["log"]["reordered"] == 2 - (shuffled["t"].tolist() == sorted(shuffled["t"]))


def test_states_that_cannot_be_sorted_are_numbered_as_they_appear():
    table = small(where=["hall", 3, "hall", (1, 2), 3], then=[3, "hall", (1, 2), "hall", 3])
    assert counted(table).numbering.observations.values == ["hall", 3, (1, 2)]


def test_plain_numbers_are_their_own_numbers():
    codes = {"hall": 2, "attic": 0, "cellar": 1}
    table = small(where=[codes[s] for s in small()["where"]], then=[codes[s] for s in small()["then"]])
    assert isinstance(counted(table).numbering.observations, Whole)
    assert isinstance(counted(table, states=range(5)).numbering.observations, Whole)
    assert counted(table, states=range(5)).setting.n_states == 5
    gaps = small(where=[10 * codes[s] for s in small()["where"]], then=[10 * codes[s] for s in small()["then"]])
    assert counted(gaps).numbering.observations.values == [0, 10, 20]
    truths = small(where=[s == "hall" for s in small()["where"]], then=[s == "hall" for s in small()["then"]])
    assert isinstance(counted(truths).numbering.observations, Indexed)  # True is not called 1


def test_several_columns_are_one_state_and_one_action():
    table = {
        "id": [1, 1, 1, 2, 2, 2],
        "queue1": [0, 1, 2, 0, 0, 1],
        "queue2": [3, 3, 1, 3, 1, 1],
        "serve": ["first", "second", None, "second", "first", None],
        "fast": [True, False, None, True, True, None],
    }
    columns = {"episode": "id", "state": ["queue1", "queue2"], "action": ["serve", "fast"]}
    counts = ar.Counts.from_dataframe(table, horizon=2, **columns)
    numbering = counts.numbering
    assert numbering.observations.values == [(0, 1), (0, 3), (1, 1), (1, 3), (2, 1)]
    assert numbering.state({"queue1": 1, "queue2": 3}) == numbering.state((1, 3)) == 3
    assert numbering.action(0) == {"serve": "first", "fast": True}
    assert numbering.state_name(3) == "queue1=1, queue2=3"
    assert numbering.action_name(1) == "serve=second, fast=False"
    atlas = ar.Atlas(counts, ar.certify(counts))
    queues = np.array([q for q, _ in numbering.observations.values])
    assert atlas.plan("queue1 / 2") == atlas.plan(queues / 2)
    declared = [(q, r) for q in range(3) for r in range(4)]
    assert ar.Counts.from_dataframe(table, horizon=2, **columns, states=declared).setting.n_states == 12
    with pytest.raises(ValueError, match="row of the columns"):
        ar.Counts.from_dataframe(table, horizon=2, **columns, states=[1, 2])
    with pytest.raises(ValueError, match="queue1, queue2"):
        numbering.state((1, 2, 3))


def test_names_of_several_columns_are_kept_in_a_file(tmp_path):
    table = {"id": [1, 1], "a": [1, 2], "b": ["x", "y"], "go": [0, None]}
    counts = ar.Counts.from_dataframe(table, horizon=1, episode="id", state=["a", "b"], action="go")
    atlas = ar.Atlas(counts, ar.certify(counts))
    atlas.save(tmp_path / "log.atlas")
    again = ar.load(tmp_path / "log.atlas")
    assert again.numbering == atlas.numbering
    assert again.numbering.observation(1) == {"a": 2, "b": "y"}


def test_values_of_numpy_pandas_and_enums_are_states():
    class Place(Enum):
        HALL = "h"
        ATTIC = "a"

    table = small(where=[Place.HALL, Place.ATTIC, Place.HALL, Place.ATTIC, Place.ATTIC])
    counts = ar.Counts.from_dataframe(table, horizon=2, **NAMES)
    assert counts.numbering.state(Place.ATTIC) == 0
    assert counts.numbering.state_name(0) == "ATTIC"
    cells = pd.Series([np.array([1, 2]), [1, 2], (1, 2), np.array([1, 2]), [3]])
    counts = ar.Counts.from_dataframe(small(where=cells), horizon=2, **NAMES)
    assert counts.setting.n_states == 3  # an array is not the tuple with the same numbers


FORMS = {
    "pandas": pd.DataFrame,
    "categories": lambda table: pd.DataFrame(table).astype({"where": "category", "then": "category", "what": "category"}),
    "nullable": lambda table: pd.DataFrame(table).convert_dtypes(),
    "odd index": lambda table: pd.DataFrame(table, index=[9, 9, 3, 1, 0]),
    "arrow": pa.table,
    "arrow dictionaries": lambda table: pa.table({k: pa.array(v).dictionary_encode() for k, v in table.items()}),
    "arrow chunks": lambda table: pa.concat_tables([pa.table(table).slice(0, 2), pa.table(table).slice(2)]),
    "arrays": lambda table: {k: np.array(v) for k, v in table.items()},
    "records": lambda table: pd.DataFrame(table).to_records(),
    "tuples": lambda table: {k: tuple(v) for k, v in table.items()},
}


@pytest.mark.parametrize("form", FORMS)
def test_any_table_will_do(form):
    options = {"step": "t", "reward": "paid", "terminated": "over"}
    one, two = counted(**options), counted(FORMS[form](small()), **options)
    assert one == two
    assert one.numbering == two.numbering
    assert one.paid == two.paid


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_give_the_counts_of_their_tables(tmp_path, ending):
    path = tmp_path / f"log.{ending}"
    frame = pd.DataFrame(small(then=["attic", "hall", "cellar", None, "attic"]))
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    options = {"step": "t", "reward": "paid", "terminated": "over", "terminal": "end"}
    table = read_table(path, ["id", "t", "where", "what", "then", "paid", "over"])
    assert counted(table, **options) == counted(**options)
    assert counted(table, **options).numbering == counted(**options).numbering


def test_an_empty_text_in_a_csv_is_missing_and_others_are_not(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("id,where,what\n1,NA,nan\n1,null,None\n1,NA,\n")
    counts = ar.Counts.from_dataframe(read_table(path, ["id", "where", "what"]), horizon=2, **NAMES)
    assert counts.numbering.observations.values == ["NA", "null"]
    assert counts.numbering.actions.values == ["None", "nan"]

"""Policies as files: what is written is read back, and everything in a file is checked."""

import csv
import json
from functools import cache

import numpy as np
import pytest

import anyreward as ar
from anyreward.atlas.policies import as_cell, read_policy, write_policy


def an_atlas(state_names=None, action_names=None):
    """Three states and two actions, after a few episodes of four steps."""
    P = np.zeros((3, 2, 3))
    P[:, 0, 0] = P[:, 1, 2] = 0.5
    P[:, :, 1] += 0.5
    mdp = ar.TabularMDP(P, state_names=state_names, action_names=action_names)
    return ar.explore(mdp, 4, max_episodes=5)


@cache
def plain():
    return an_atlas()


@cache
def named():
    return an_atlas(["hall", "=1+1", 'a "cold", room'], ["stay", "-go"])


POLICY = np.random.default_rng(0).integers(2, size=(4, 3))


@pytest.mark.parametrize("made", [plain, named], ids=["numbers", "names"])
def test_a_policy_that_was_written_is_read_back(tmp_path, made):
    atlas = made()
    write_policy(tmp_path / "it.csv", atlas, POLICY)
    assert (read_policy(tmp_path / "it.csv", atlas) == POLICY).all()


@pytest.mark.parametrize("kept", [("h", "s", "a"), ("h", "state", "action"), ("action", "s", "h"), ("a", "state", "h")])
def test_numbers_or_names_are_enough_in_any_order_of_columns_and_lines(tmp_path, kept):
    write_policy(tmp_path / "it.csv", named(), POLICY)
    with open(tmp_path / "it.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    with open(tmp_path / "part.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([kept, *([row[name] for name in kept] for row in reversed(rows))])
    assert (read_policy(tmp_path / "part.csv", named()) == POLICY).all()


def test_names_are_understood_with_and_without_the_quote_that_spreadsheets_need(tmp_path):
    (tmp_path / "it.csv").write_text('state,action\nhall,-go\n\'=1+1,\'-go\n"a ""cold"", room",stay\n')
    assert as_cell("=1+1") == "'=1+1"
    assert (read_policy(tmp_path / "it.csv", named()) == [[1, 1, 0]] * 4).all()


def test_the_state_of_all_terminations_needs_no_line(tmp_path):
    """Nothing is done there; it may have one."""
    log = {"id": [1, 2], "where": ["hall", "hall"], "did": ["stay", "go"], "over": [False, True]}
    columns = {"episode": "id", "state": "where", "action": "did", "terminated": "over", "terminal": "end"}
    counts = ar.Counts.from_dataframe(log, horizon=2, **columns)
    atlas = ar.Atlas(counts, ar.certify(counts))
    (tmp_path / "it.csv").write_text("state,action\nhall,stay\n")
    assert (read_policy(tmp_path / "it.csv", atlas) == [[counts.numbering.lookup("action", "stay"), 0]] * 2).all()
    (tmp_path / "it.csv").write_text("state,action\nhall,go\nterminated,stay\n")
    assert (read_policy(tmp_path / "it.csv", atlas)[0] == [counts.numbering.lookup("action", x) for x in ("go", "stay")]).all()
    (tmp_path / "it.csv").write_text("state,action\nterminated,stay\n")
    with pytest.raises(ValueError, match=r"no action for state 0 \(hall\)"):
        read_policy(tmp_path / "it.csv", atlas)


def test_without_steps_a_policy_is_the_same_at_every_step(tmp_path):
    (tmp_path / "it.csv").write_text("s,a\n0,1\n1,0\n2,1\n")
    assert (read_policy(tmp_path / "it.csv", plain()) == [[1, 0, 1]] * 4).all()


def test_arrays_hold_actions_or_probabilities(tmp_path):
    odds = np.full((4, 3, 2), 0.5)
    np.save(tmp_path / "it.npy", POLICY)
    (tmp_path / "it.json").write_text(json.dumps(odds.tolist()))
    assert (read_policy(tmp_path / "it.npy", plain()) == POLICY).all()
    found = plain().evaluate(read_policy(tmp_path / "it.json", plain()), "state == 1")
    assert found == plain().evaluate(odds, "state == 1")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty"),
        ("s,a\n0\n", "line 2: it has 1 values for 2 columns"),
        ("s,a,why\n0,1,x\n", "has the column 'why'"),
        ("h,a\n0,1\n", "has neither the column s nor state"),
        ("h,s\n0,1\n", "has neither the column a nor action"),
        ("s,a\n0,0\n1,0\n", r"has no action for state 2 \(a \"cold\", room\)"),
        ("h,s,a\n0,0,0\n", r"has no action for step 0, state 1 \(=1\+1\)"),
        ("s,a\n0,0\n0,1\n", r"line 3: state 0 \(hall\) has an action already"),
        ("h,s,a\n3,0,0\n3,0,0\n", r"line 3: step 3, state 0 \(hall\) has an action already"),
        ("h,s,a\n4,0,0\n", "line 2: h is '4', it has to be a whole number from 0 to 3"),
        ("s,a\n3,0\n", "line 2: s is '3'"),
        ("s,a\n0,2\n", "line 2: a is '2', it has to be a whole number from 0 to 1"),
        ("s,a\n0,-1\n", "a is '-1'"),
        ("s,a\n0,1.0\n", "a is '1.0'"),
        ("s,a\n0,\n", "a is ''"),
        (f"s,a\n0,{'1' * 5000}\n", "a is '111"),
        ("state,action\nhal,stay\n", "there is no state 'hal'; perhaps 'hall' is meant"),
        ("state,action\nhall,sit\n", "there is no action 'sit'"),
        ("s,state,a\n1,hall,0\n", "s is 1, but 'hall' is the name of state 0: change both, or leave out one"),
    ],
)
def test_what_is_wrong_with_a_table_is_said_with_its_line(tmp_path, text, sentence):
    (tmp_path / "it.csv").write_text(text)
    with pytest.raises(ValueError, match=sentence) as caught:
        read_policy(tmp_path / "it.csv", named())
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("text", ["[[0, 1], [1]]", '{"a": 1}', '[["0"]]', "[[null]]", "[", "[" * 10_000, "[[1e999, true]]"])
def test_json_that_holds_no_numbers_is_refused(tmp_path, text):
    (tmp_path / "it.json").write_text(text)
    with pytest.raises(ValueError, match=r"nested lists of numbers|policy has shape"):
        plain().evaluate(read_policy(tmp_path / "it.json", plain()), "state == 1")


def test_other_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"has to end in \.csv, \.json or \.npy"):
        read_policy(tmp_path / "it.txt", plain())
    with pytest.raises(ValueError, match="does not exist: a file with a policy is needed"):
        read_policy(tmp_path / "it.csv", plain())
    np.save(tmp_path / "it.npy", POLICY[:2])
    with pytest.raises(ValueError, match=r"it has to be \(4, 3\) whole numbers"):
        plain().evaluate(read_policy(tmp_path / "it.npy", plain()), "state == 1")

"""The command certify: logs from CSV, Parquet and Minari become atlases that other commands read."""

import json
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.cli import app

H = 4
COLUMNS = {"episode": "ticket", "step": "step", "state": "status", "action": "did", "reward": "score", "terminated": "closed"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the log of 150 tickets, as CSV and as Parquet."""
    folder, rng, rows = tmp_path_factory.mktemp("desk"), np.random.default_rng(0), []
    for ticket in range(150):
        status = "new"
        for step in range(H):
            did = str(rng.choice(["ask", "fix"]))
            closed = bool(rng.random() < (0.5 if did == "fix" else 0.1))
            rows.append((f"T{ticket}", step + 1, status, did, float(closed), closed))
            if closed or rng.random() < 0.05:
                break
            status = str(rng.choice(["waiting", "open"]))
    frame = pd.DataFrame(rows, columns=["ticket", "step", "status", "did", "score", "closed"])
    frame.to_csv(folder / "desk.csv", index=False)
    frame.to_parquet(folder / "desk.parquet")
    return folder


def said(folder, *arguments, code=0):
    """What a command prints: to stdout if it ends well, to stderr otherwise. Code None: 0, or 3 for little data."""
    arguments = [folder / word if str(word).endswith((".atlas", ".csv", ".parquet", ".npy")) else word for word in arguments]
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code in ((0, 3) if code is None else (code,)), result.output
    return result.stderr if code else result.stdout


def options(**more):
    return [word for name, value in {**COLUMNS, **more}.items() for word in (f"--{name}", value)]


@pytest.mark.parametrize("log", ["desk.csv", "desk.parquet"])
def test_a_file_becomes_the_atlas_of_its_table(folder, log):
    text = said(folder, "certify", log, "--horizon", H, *options(), "--stationary", "--out", "desk.atlas")
    frame = pd.read_parquet(folder / "desk.parquet")
    counts = ar.Counts.from_dataframe(frame, horizon=H, stationary=True, **COLUMNS)
    atlas = ar.load(folder / "desk.atlas")
    assert atlas.counts == counts
    assert atlas.numbering == counts.numbering
    assert atlas.paid == counts.paid
    facts = counts.source["log"]
    assert f"found 150 episodes with {facts['transitions']} transitions in {len(frame)} rows, 3 states and 2 actions" in text
    assert f"{frame.closed.sum()} episodes terminated; {facts['cut_off']} were cut off before step 4" in text
    assert 0 < facts["cut_off"] < 150
    assert str(ar.certify(counts)) in text
    assert "there are no other states than the 3 that appear in the data" in text
    assert atlas.source["env"] == log


def test_the_atlas_is_planned_from_evaluated_and_shown(folder):
    said(folder, "certify", "desk.csv", "--horizon", H, *options(), "--stationary", "--out", "used.atlas", "--quiet")
    atlas = ar.load(folder / "used.atlas")
    facts = json.loads(said(folder, "plan", "used.atlas", "--reward", "own", "--improvement", "--json"))
    better = atlas.improvement(atlas.plan("own"))
    assert facts["improvement"] == better._asdict()
    text = said(folder, "plan", "used.atlas", "--reward", "own", "--improvement", "--out", "policy.csv")
    assert "<= its true value - the value of what was done <=" in text
    assert "new" in (folder / "policy.csv").read_text()
    done = json.loads(said(folder, "evaluate", "used.atlas", "--policy", "behaviour", "--reward", "own", "--json"))
    assert (done["lower"], done["value"], done["upper"]) == atlas.evaluate(atlas.behaviour, "own")
    text = said(folder, "info", "used.atlas")
    assert "explored: desk.csv" in text
    assert "were cut off before step 4" in text


def test_what_is_known_is_passed_on(folder):
    arguments = (
        "desk.csv",
        "--horizon",
        H,
        *options(terminal="end"),
        "--order",
        "--discount",
        0.9,
        "--delta",
        0.2,
        "--arrival-rewards",
    )
    known = ("--states", "['new', 'open', 'waiting', 'lost']", "--actions", "['ask', 'fix']", "--initial-state", "new")
    facts = json.loads(said(folder, "certify", *arguments, *known, "--out", "known.atlas", "--json", code=None))
    setting = ar.load(folder / "known.atlas").counts.setting
    assert (setting.n_states, setting.initial_state, setting.discount, setting.arrival_rewards) == (5, 0, 0.9, True)
    assert facts["delta"] == 0.2
    assert facts["found"]["episodes"] == 150
    assert "the episodes are in the order in which they were played, each after the one before it" in facts["assumptions"]
    assert ar.load(folder / "known.atlas").counts.transfer
    more = ("--initial", "{'new': 1.0}", "--max-states", 9)
    said(folder, "certify", "desk.csv", "--horizon", H, *options(), *more, "--out", "more.atlas", code=None)
    assert ar.load(folder / "more.atlas").counts.setting.n_states == 10
    assert ar.load(folder / "more.atlas").counts.setting.initial_state == 0


def test_an_epsilon_that_is_not_certified_has_its_exit_code(folder):
    said(folder, "certify", "desk.csv", "--horizon", H, *options(), "--epsilon", 0.001, "--out", "far.atlas", code=3)
    assert ar.load(folder / "far.atlas").certificate.target == 0.001
    said(folder, "certify", "desk.csv", "--horizon", H, *options(), "--stationary", "--epsilon", 100, "--out", "near.atlas")
    message = said(folder, "certify", "desk.csv", "--horizon", 4 * H, *options(), "--out", "nothing.atlas", code=3)
    assert "says nothing yet" in message


def test_several_columns(folder):
    arguments = ("--episode", "ticket", "--state", "status", "--state", "step", "--action", "did")
    said(folder, "certify", "desk.csv", "--horizon", H, *arguments, "--out", "several.atlas", code=None)
    assert ar.load(folder / "several.atlas").state_name(0) == "status=new, step=1"


REFUSED = {
    "no file": (("none.csv", *options()), "none.csv"),
    "another ending": (("desk.atlas", *options()), "does not end in .csv or .parquet"),
    "no column": (("desk.csv", *options(state="colour")), "has no column 'colour': its columns are ticket"),
    "no episode": (("desk.csv", "--state", "status", "--action", "did"), "--episode is missing"),
    "bins": (("desk.csv", *options(), "--bins", "[3]"), "--bins is for Minari"),
    "names": (("desk.csv", *options(), "--action-names", "x,y"), "--action-names is for Minari"),
    "not all states": (("desk.csv", *options(), "--states", "new"), "which is not in --states, the list of all"),
    "a state without a name": (("desk.csv", *options(), "--states", "new,,done"), "--states has an empty name"),
    "over itself": (("desk.csv", *options(), "--out", "desk.csv"), "--out is the log itself"),
    "no dataset": (("minari:nowhere/none-v0",), "cannot be loaded"),
    "columns of a dataset": (("minari:nowhere/none-v0", "--state", "x"), "--state is for tables"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_named_and_writes_nothing(folder, name):
    arguments, says = REFUSED[name]
    before = (folder / "desk.csv").read_bytes()
    out = () if "--out" in arguments else ("--out", "wrong.atlas")
    message = said(folder, "certify", *arguments, "--horizon", H, *out, code=2)
    assert message.startswith("error: ")
    assert message.count("\n") == 1
    assert says in message
    assert not (folder / "wrong.atlas").exists()
    assert (folder / "desk.csv").read_bytes() == before


def test_a_minari_dataset_becomes_an_atlas(folder, monkeypatch):
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder / "datasets"))
    explored = ar.explore("FrozenLake-v1", 6, max_episodes=40, stationary=True, record=True, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        explored.to_minari("lake/explored-v0")
    text = said(folder, "certify", "minari:lake/explored-v0", "--horizon", 6, "--stationary", "--out", "lake.atlas", code=None)
    assert "found 40 episodes" in text
    atlas = ar.load(folder / "lake.atlas")
    assert atlas.counts == ar.Counts.from_minari("lake/explored-v0", 6, stationary=True)
    assert atlas.paid is not None
    assert atlas.source["env"] == "lake/explored-v0"
    call = ("minari:lake/explored-v0", "--horizon", 6, "--action-names", "west,south,east,north", "--out", "named.atlas")
    said(folder, "certify", *call, code=None)
    assert [ar.load(folder / "named.atlas").action_name(a) for a in range(4)] == ["west", "south", "east", "north"]


def test_what_info_suggests_for_a_log_can_be_typed(folder):
    """A state is called there as the log calls it; once, it was its number, which the command refused."""
    call = ["certify", "desk.csv", "--horizon", H, *options(), "--stationary"]
    said(folder, *call, "--out", "start.atlas", code=None)
    text = said(folder, "info", "start.atlas")
    assert "pass --initial-state new: as many episodes would give about epsilon" in text
    said(folder, *call, "--initial-state", "new", "--out", "known.atlas", code=None)
    epsilon = [ar.load(folder / name).certificate.epsilon for name in ("start.atlas", "known.atlas")]
    assert epsilon[1] < epsilon[0]
    assert f"about epsilon {epsilon[1]:.3g} instead of {epsilon[0]:.3g}" in text


@pytest.mark.filterwarnings("default")
def test_rows_beyond_the_horizon_are_said_in_the_words_of_the_command(folder):
    call = ["certify", folder / "desk.csv", "--horizon", 2, *options(), "--out", folder / "short.atlas"]
    result = CliRunner().invoke(app, list(map(str, call)))
    frame = pd.read_csv(folder / "desk.csv")
    late = frame[frame["step"] > 2]
    rows, episodes = len(late), late["ticket"].nunique()
    assert result.stderr.count("beyond the horizon") == 1
    many = f"{rows} rows of {episodes} of its 150 episodes"
    assert f"{many} come after step 1, the last of --horizon 2, and are not counted" in result.stderr
    assert "pass --stationary, which counts all of them" in result.stderr
    both = CliRunner().invoke(app, list(map(str, [*call, "--stationary"])))
    assert "beyond the horizon" not in both.output


def test_a_structure_is_declared_for_a_log(folder, tmp_path, monkeypatch):
    """Machines that wear alike, whatever their number: three laws in place of six."""
    (tmp_path / "anyreward_wear.py").write_text(
        "import anyreward as ar\n"
        "alike = ar.Structure(law=lambda s, a: s % 3, outcomes=3, successor=lambda s, a, x: s // 3 * 3 + x)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    rng, rows = np.random.default_rng(0), []
    for episode in range(60):
        machine, level = int(rng.integers(2)), 0
        for step in range(H):
            then = int(rng.integers(3))
            rows.append((episode, step, 3 * machine + level, 0, 3 * machine + then))
            level = then
    pd.DataFrame(rows, columns=["id", "t", "where", "what", "then"]).to_csv(tmp_path / "wear.csv", index=False)
    columns = ["--episode", "id", "--step", "t", "--state", "where", "--action", "what", "--next", "then"]
    columns += ["--states", "[0, 1, 2, 3, 4, 5]", "--horizon", H, "--out", tmp_path / "wear.atlas"]
    text = said(tmp_path, "certify", tmp_path / "wear.csv", *columns, "--structure", "anyreward_wear:alike", code=None)
    assert "6 states and actions share 3 laws" in text
    assert "write package.module:Name" in said(tmp_path, "certify", tmp_path / "wear.csv", *columns, "--structure", "own", code=2)

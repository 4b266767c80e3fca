"""Logs with names of any kind: what is counted, what is refused and named, and what is kept."""

from collections import Counter
from datetime import datetime, timedelta
from enum import Enum

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anyreward as ar
from anyreward.atlas import container
from anyreward.data.columns import read_table
from anyreward.data.logs import CUT_OFF, IN_ORDER
from anyreward.data.spaces import Indexed, Whole
from anyreward.planning import induct
from anyreward.rewards.observed import UNKNOWN

from ..helpers.forging import parts_of

NAMES = {"episode": "id", "state": "where", "action": "what"}
STATES = ["hall", ("floor", 2), 7, 2.5, "attic"]
ACTIONS = ["up", 1, ("jump", "far")]


# --- Counting, against plain dictionaries ---


@st.composite
def logged(draw):
    """Episodes as (state, action, reward, next state) each, whether they terminated, and how they are written down."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    H = draw(st.integers(1, 4))
    episodes = []
    for _ in range(draw(st.integers(1, 12))):
        s, steps = int(rng.integers(len(STATES))), []
        for _ in range(int(rng.integers(1, 7))):
            a, to = int(rng.integers(len(ACTIONS))), int(rng.integers(len(STATES)))
            steps.append((s, a, float(rng.integers(0, 3)) / 2, to))
            s = to
        episodes.append((steps, bool(rng.random() < 0.4)))
    how = {
        "horizon": H,
        "stationary": draw(st.booleans()),
        "next": draw(st.booleans()),
        "final": draw(st.booleans()),
        "ends": draw(st.booleans()),
        "terminal": draw(st.sampled_from([None, "end", "outcome"])),
        "ordered": draw(st.sampled_from(["step", "time", "rows"])),
    }
    if how["next"] or how["terminal"] == "outcome":
        how["final"] = not how["next"]  # only one of them says where the last step led
    return episodes, how, rng


def written(episodes, how, rng):
    """The episodes as a table, and the arguments that read it."""
    table = {name: [] for name in ("id", "t", "when", "where", "what", "paid", "then", "over")}

    def row(*values):
        for name, value in zip(table, values, strict=True):
            table[name].append(value)

    begin = datetime(2026, 1, 1)
    for number, (steps, ended) in enumerate(episodes):
        for h, (s, a, r, to) in enumerate(steps):
            last = h == len(steps) - 1
            then = STATES[to] if not (last and ended and how["terminal"] == "end") else None
            over = ended and last and not how["final"]
            row(f"e{number}", h + 1, begin + timedelta(hours=h), STATES[s], ACTIONS[a], r, then, over)
        if how["final"]:
            h, to = len(steps), steps[-1][3]
            row(f"e{number}", h + 1, begin + timedelta(hours=h), STATES[to], None, None, None, ended)
    options = {**NAMES, "reward": "paid", "horizon": how["horizon"], "stationary": how["stationary"]}
    options |= {"next": "then"} if how["next"] else {}
    options |= {"terminated": "over", "terminal": how["terminal"]} if how["ends"] else {}
    if how["ordered"] != "rows":
        options[how["ordered"]] = {"step": "t", "time": "when"}[how["ordered"]]
        order = rng.permutation(len(table["id"]))
        table = {name: [values[i] for i in order] for name, values in table.items()}
    return table, options


def by_hand(episodes, how):
    """By plain loops: {(step, state, action, outcome): count}, {the same: [rewards]}, and how many transitions are counted and
    unknown.
    """
    H, counts, paid, kept, unknown = how["horizon"], Counter(), {}, 0, 0
    terminal = how["terminal"] or ("outcome" if how["next"] else "end")
    told = how["next"] or how["final"]  # whether the log tells where the last step led
    ended = [over and how["ends"] for _, over in episodes]
    lengths = [len(steps) for steps, _ in episodes]
    limited = not told and max(lengths) <= H and any(n == H and not over for n, over in zip(lengths, ended, strict=True))
    for (steps, _), over in zip(episodes, ended, strict=True):
        counts[-1, None, None, STATES[steps[0][0]]] += 1
        for h, (s, a, r, to) in enumerate(steps):
            last = h == len(steps) - 1
            outcome = STATES[to]
            if last and over:
                outcome = "END" if terminal == "end" else ("ended in", STATES[to])
            if h >= H and not how["stationary"]:
                break
            if limited and h == H - 1:  # the log ends there: nothing is counted, whether it terminated or not
                outcome = None
            elif last and not over and not told:
                outcome, unknown = None, unknown + 1
            if h < H:
                paid.setdefault((h, STATES[s], ACTIONS[a], outcome), []).append(r)
            if outcome is None:
                continue
            kept += 1
            counts[0 if how["stationary"] else h, STATES[s], ACTIONS[a], outcome] += 1
            if last and over:
                for later in range(h + 1, H):
                    counts[0 if how["stationary"] else later, outcome, None, outcome] += 1
    return counts, paid, kept, unknown


def named(counts, rows):
    """Rows (h, s, a, next, value) with names in place of numbers."""
    setting, numbering = counts.setting, counts.numbering

    def state(s):
        if s == UNKNOWN:
            return None
        if s >= setting.n_states:
            return ("ended in", numbering.observation(s - setting.n_states))
        return "END" if setting.terminal == "end" and s == setting.n_states - 1 else numbering.observation(s)

    found = {}
    for h, s, a, to, value in rows:
        still = h >= 0 and (s >= setting.n_states or state(s) == "END")
        key = (h, None if h < 0 else state(s), None if h < 0 or still else numbering.action(a), state(to))
        assert key not in found
        found[key] = value
    return found


@settings(max_examples=300, deadline=None, derandomize=True)
@given(logged())
def test_a_log_is_counted_as_plain_dictionaries_would(case):
    """Any order of rows, any way to write down what follows, any end: the same counts, rewards and facts."""
    episodes, how, rng = case
    if not how["ends"]:
        how["terminal"] = None
    table, options = written(episodes, how, rng)
    counts = ar.Counts.from_dataframe(table, **options)
    wanted, paid, kept, unknown = by_hand(episodes, how)
    assert named(counts, zip(*(column.tolist() for column in counts.columns().values()), strict=True)) == dict(wanted)
    rewards = named(counts, [(*key, value) for key, value in counts.paid._table.items()])
    assert rewards == {key: [len(r), sum(r), min(r), max(r)] for key, r in paid.items()}
    often = sum(sum(r != 0 for _, _, r, _ in steps[: how["horizon"]]) > 1 for steps, _ in episodes)
    assert counts.paid.paid_again == often
    ended = [over and how["ends"] for _, over in episodes]
    facts = counts.source["log"]
    assert facts["episodes"] == counts.episodes == len(episodes)
    assert facts["terminated"] == sum(ended)
    short = [len(steps) < how["horizon"] for steps, _ in episodes]
    assert facts["cut_off"] == sum(cut and not over for cut, over in zip(short, ended, strict=True))
    assert facts["transitions"] == kept
    assert (CUT_OFF in counts.setting.assumed) == (unknown > 0)
    decisions = sum(len(steps) if how["stationary"] else min(len(steps), how["horizon"]) for steps, _ in episodes)
    assert counts.taken[:, 3].sum() == decisions - kept
    assert counts.setting.assumptions[-1] in ar.certify(counts).assumptions


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("final", [False, True])
def test_a_log_of_whole_episodes_gives_the_counts_of_its_episodes(stationary, final):
    """With transfer evidence, if the order is known; the certificate is the same, to the bit."""
    mdp, H, rng = ar.envs.garnet(4, 2, 3, seed=0), 5, np.random.default_rng(0)
    episodes = [mdp.rollout(rng.integers(0, 2, (H, 4)), seed=rng) for _ in range(200)]
    states, actions = (np.concatenate(part).astype(int) for part in zip(*episodes, strict=True))
    size = H + final
    table = {
        "id": np.repeat(np.arange(200), size),
        "where": states[:, :size].reshape(-1),
        "what": np.pad(actions.astype(float), ((0, 0), (0, final)), constant_values=np.nan).reshape(-1),
        "then": states[:, 1:].reshape(-1) if not final else None,
    }
    given = {"horizon": H, "stationary": stationary, "states": range(4), "actions": range(2), "initial_state": 0, "order": True}
    counts = ar.Counts.from_dataframe(table, **NAMES, **({} if final else {"next": "then"}), **given)
    setting = counts.setting
    assert setting.assumed == (() if stationary else (IN_ORDER,))
    whole = ar.Counts.from_episodes(states, actions, setting)
    assert counts == whole
    assert counts.transfer == whole.transfer == (not stationary)
    assert ar.certify(counts) == ar.certify(whole)
    unordered = ar.Counts.from_dataframe(table, **NAMES, **({} if final else {"next": "then"}), **{**given, "order": False})
    assert not unordered.transfer
    assert IN_ORDER not in unordered.setting.assumed


def test_in_the_empirical_model_what_was_done_earned_what_was_earned():
    """Step-dependent transitions: the value of the behaviour is the mean return of the log, also if episodes terminate."""
    episodes, how, rng = (
        [],
        {"horizon": 4, "stationary": False, "next": True, "final": False, "ends": True, "terminal": None},
        None,
    )
    rng = np.random.default_rng(1)
    for _ in range(300):
        s, steps, ended = int(rng.integers(len(STATES))), [], False
        while len(steps) < 4 and not ended:
            a, to = int(rng.integers(len(ACTIONS))), int(rng.integers(len(STATES)))
            steps.append((s, a, rng.random(), to))
            s, ended = to, rng.random() < 0.2
        episodes.append((steps, bool(ended)))
    table, options = written(episodes, {**how, "ordered": "rows"}, rng)
    counts = ar.Counts.from_dataframe(table, **options)
    atlas = ar.Atlas(counts, ar.certify(counts))
    earned = np.mean([sum(r for _, _, r, _ in steps) for steps, _ in episodes])
    found = atlas.evaluate(atlas.behaviour, "own")
    assert found.value == pytest.approx(earned)
    assert found.lower <= earned <= found.upper
    assert atlas.behaviour.sum(axis=2) == pytest.approx(np.ones((4, len(STATES))))
    # A reward of one's own is paid after the end too, where the episode stays.
    reward = rng.random(len(STATES))
    numbers = {value: counts.numbering.state(value) for value in STATES}
    mean = np.mean(
        [
            sum(reward[numbers[STATES[s]]] for s, _, _, _ in steps)
            + (4 - len(steps)) * reward[numbers[STATES[steps[-1][3]]]] * over
            for steps, over in episodes
        ]
    )
    assert atlas.evaluate(atlas.behaviour, reward).value == pytest.approx(mean)


# --- Names ---


def small(**changes):
    """A log of three episodes, the second of which terminates."""
    table = {
        "id": ["x", "x", "y", "y", "z"],
        "t": [0, 1, 0, 1, 0],
        "where": ["hall", "attic", "hall", "cellar", "attic"],
        "what": ["up", "down", "down", "up", "up"],
        "then": ["attic", "hall", "cellar", "hall", "attic"],
        "paid": [1.0, 0.0, 0.5, 1, 0],
        "over": [False, False, False, True, False],
    }
    return table | changes


def counted(table=None, **options):
    return ar.Counts.from_dataframe(small() if table is None else table, **{**NAMES, "horizon": 2, "next": "then", **options})


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


# --- What is assumed ---


def test_that_there_are_no_other_states_and_actions_is_printed_unless_they_are_listed():
    table = small()
    states, actions = ["attic", "cellar", "hall"], ["down", "up"]
    both = (
        "there are no other states than the 3 that appear in the data",
        "there are no other actions than the 2 that appear in the data",
    )
    assert counted(table).setting.assumed == both
    assert all(text in str(ar.certify(counted(table))) for text in both)
    assert counted(table, states=states).setting.assumed == both[1:]
    assert counted(table, actions=actions).setting.assumed == both[:1]
    assert counted(table, states=states, actions=actions).setting.assumed == ()
    assert counted(table, max_states=9).setting.assumed == ("there are at most 9 different states", both[1])
    assert counted(table, max_states=9).setting.n_states == 9
    assert counted(table, states=[*states, "roof"]).setting.n_states == 4


def test_more_states_than_appear_make_a_certificate_weaker():
    """So listing only those that appear is an assumption that counts."""
    seen = ar.certify(counted(states=["attic", "cellar", "hall"], actions=["down", "up"], stationary=True))
    more = ar.certify(counted(max_states=100, actions=["down", "up"], stationary=True))
    assert more.epsilon >= seen.epsilon
    plans = [
        ar.Atlas(counted(stationary=True, **known), certificate).plan("state == 'attic'")
        for known, certificate in (
            ({"states": ["attic", "cellar", "hall"], "actions": ["down", "up"]}, seen),
            ({"max_states": 100, "actions": ["down", "up"]}, more),
        )
    ]
    assert plans[1].lower <= plans[0].lower
    assert plans[1].upper >= plans[0].upper


def test_a_known_start_is_given_by_its_name():
    table = small(where=["hall", "attic", "hall", "cellar", "hall"])
    counts = counted(table, initial_state="hall")
    assert counts.setting.initial_state == 2
    assert "every episode starts in state 2 (hall)" in ar.certify(counts).assumptions


def test_a_known_distribution_of_the_start_is_given_by_names():
    counts = counted(initial={"hall": 0.5, "attic": 0.5})
    assert counts.setting.initial == ((0, 0.5), (2, 0.5))
    assert not counts.setting.estimates_start


def test_all_steps_of_long_episodes_count_if_they_are_stationary():
    table = {"id": [1] * 6, "where": [0, 1, 0, 1, 1, 0], "what": [0] * 6, "paid": [0, 1, 0, 1, 1, 0]}
    long = ar.Counts.from_dataframe(table, horizon=2, **NAMES, reward="paid", stationary=True)
    assert long.transitions == 5
    assert long.n().tolist() == [[2], [3]]
    assert sum(entry[0] for entry in long.paid._table.values()) == 2  # rewards belong to the steps of the process
    assert ar.Counts.from_dataframe(table, horizon=2, **NAMES).transitions == 2
    assert CUT_OFF in long.setting.assumed
    assert CUT_OFF not in ar.Counts.from_dataframe(table, horizon=2, **NAMES).setting.assumed


def test_where_every_log_ends_with_its_last_step_no_last_step_is_counted():
    """What follows it would only be known if the episode terminates, so the terminations that are seen there are too many."""
    table = {
        "id": [1, 1, 2, 2, 3],
        "where": ["a", "b", "a", "a", "b"],
        "what": ["x"] * 5,
        "over": [0, 0, 0, 1, 1],
        "paid": [0, 1, 0, 0, 1],
    }
    counts = ar.Counts.from_dataframe(table, horizon=2, **NAMES, terminated="over", reward="paid", stationary=True)
    assert counts.source["log"]["transitions"] == 3  # two of step 0 go on, one terminates
    assert counts.setting.assumed[2:] == ()
    assert counts.taken.tolist() == [[0, 0, 0, 1], [0, 1, 0, 1]]
    assert counts.paid._table[1, 1, 0, UNKNOWN] == [1, 1, 1, 1]  # what they were paid is known
    assert counts.paid._table[1, 0, 0, UNKNOWN] == [1, 0, 0, 0]
    longer = {
        name: [*values, *more]
        for (name, values), more in zip(table.items(), ([4] * 4, "abab", "xxxx", [0] * 4, [0] * 4), strict=True)
    }
    counts = ar.Counts.from_dataframe(longer, horizon=2, **NAMES, terminated="over", stationary=True)
    assert CUT_OFF in counts.setting.assumed  # not every log ends there
    assert counts.source["log"]["transitions"] == 7


def test_a_log_of_single_decisions_is_evaluated(tmp_path):
    """A contextual bandit: one step, nothing follows, and the reward is all there is."""
    rng = np.random.default_rng(0)
    where, what = rng.choice(["left", "right"], 4000), rng.choice(["red", "blue", "blue"], 4000)
    chance = np.where(where == "left", np.where(what == "red", 0.8, 0.3), np.where(what == "red", 0.2, 0.5))
    table = {"id": range(4000), "where": where, "what": what, "paid": rng.random(4000) < chance}
    counts = ar.Counts.from_dataframe(table, horizon=1, **NAMES, reward="paid")
    assert counts.transitions == 0
    ar.Atlas(counts, ar.certify(counts, 0.05)).save(tmp_path / "bandit.atlas")
    atlas = ar.load(tmp_path / "bandit.atlas")
    done, plan = atlas.evaluate(atlas.behaviour, "own"), atlas.plan("own")
    assert done.value == pytest.approx(np.mean(table["paid"]))
    assert (plan.act("left", 0), plan.act("right", 0)) == ("red", "blue")
    assert np.array_equal(atlas.counts.taken, counts.taken)
    assert plan.lower <= 0.65 <= plan.upper
    assert plan.upper - plan.lower < 0.25
    assert atlas.improvement(plan).lower > 0  # 0.65 against 0.5 * (0.8 + 2 * 0.3) / 3 + 0.5 * (0.2 + 2 * 0.5) / 3 = 0.43


def test_the_reward_of_a_last_row_that_leads_nowhere_may_be_missing():
    table = {"id": [1, 1, 1, 2], "where": ["a", "b", "a", "b"], "what": ["x"] * 4, "paid": [1, 0, None, None]}
    counts = ar.Counts.from_dataframe(table, horizon=4, **NAMES, reward="paid")
    assert {key: entry[0] for key, entry in counts.paid._table.items()} == {(0, 0, 0, 1): 1, (1, 1, 0, 0): 1}


# --- Legal actions ---


LEGAL = {"hall": ["down", "up"], "attic": ["down", "up", "rest"], "cellar": ["up"]}


@pytest.mark.parametrize("form", ["lists", "sets", "arrays", "texts", "masks"])
def test_legal_actions_of_a_column(form):
    actions = ["down", "rest", "up"]
    ways = {
        "lists": list,
        "sets": set,
        "arrays": np.array,
        "texts": " | ".join,
        "masks": lambda legal: [a in legal for a in actions],
    }
    counts = counted(small(may=[ways[form](LEGAL[s]) for s in small()["where"]]), legal="may", actions=actions)
    assert counts.setting.hidden_masks
    assert counts.illegal.tolist() == [[False, False, False], [True, True, False], [False, True, False]]
    assert "which actions are legal depends on the state alone" in ar.certify(counts).assumptions
    behaviour = ar.Atlas(counts, ar.certify(counts)).behaviour
    assert behaviour[1, 2].tolist() == [0.5, 0.0, 0.5]  # never visited at that step: what is legal, equally often


def test_actions_that_are_only_legal_are_actions_too():
    table = small(may=[LEGAL[s] for s in small()["where"]])
    counts = counted(table, legal="may")
    assert counts.numbering.actions.values == ["down", "rest", "up"]
    assert "there are no other actions than the 3 that appear in the data" in counts.setting.assumed
    numbers = small(what=[2, 1, 1, 2, 2], may=["1|2", "1|2|3", "1|2", "2", "1|2|3"])
    assert counted(numbers, legal="may").numbering.actions.values == [1, 2, 3]


def test_legal_actions_that_are_known_beforehand():
    counts = counted(legal={"cellar": ["up"]})
    assert counts.setting.illegal_actions == ((1, 0),)
    assert not counts.setting.hidden_masks


# --- Ends ---


def test_a_state_that_always_terminates_is_an_assumption():
    table = small(then=["attic", "hall", "cellar", "street", "attic"])
    counts = counted(table, terminated="over", terminal="state")
    street = counts.numbering.state("street")
    assert counts.absorbing_states.tolist() == [street]
    assert "a state in which an episode terminated once always terminates it" in ar.certify(counts).assumptions


def test_a_termination_is_an_outcome_or_an_end_by_default():
    assert counted(terminated="over").setting.terminal == "outcome"
    assert ar.Counts.from_dataframe(small(), horizon=2, **NAMES, terminated="over").setting.terminal == "end"
    assert counted().setting.terminal is None


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


# --- Adding and merging ---


def test_logs_of_the_same_states_add_up(tmp_path):
    known = {"states": ["attic", "cellar", "hall"], "actions": ["down", "up"], "reward": "paid"}
    one, two = counted(**known), counted({k: v[:2] for k, v in small().items()}, **known)
    both = one + two
    assert both.numbering == one.numbering
    assert both.paid == one.paid + two.paid
    merged = ar.Atlas(one, ar.certify(one)).merge(ar.Atlas(two, ar.certify(two)), same_environment=True)
    assert merged.counts == both
    assert merged.paid == both.paid
    assert merged.state_name(1) == "cellar"
    merged.save(tmp_path / "both.atlas")
    assert ar.load(tmp_path / "both.atlas").action_name(0) == "down"


def test_logs_of_other_states_do_not_add_up():
    known = {"actions": ["down", "up"]}
    one, two = counted(states=["attic", "cellar", "hall"], **known), counted(states=["hall", "cellar", "attic"], **known)
    with pytest.raises(ValueError, match="numbered differently"):
        one + two


# --- What was done, and what is better ---


def test_an_improvement_encloses_the_difference_of_any_two_models_in_the_balls():
    """Its ends are those of the two intervals; the plan's own lower end counts too."""
    mdp, H, rng = ar.envs.garnet(4, 2, 2, seed=1), 4, np.random.default_rng(0)
    states, actions = (
        np.concatenate(x) for x in zip(*(mdp.rollout(rng.integers(0, 2, (H, 4)), seed=rng) for _ in range(400)), strict=True)
    )
    counts = ar.Counts.from_episodes(states, actions, mdp.setting(H, stationary=True))
    atlas = ar.Atlas(counts, ar.certify(counts))
    plan = atlas.plan([0.0, 0.2, 0.4, 1.0])
    done, new = atlas.evaluate(atlas.behaviour, [0.0, 0.2, 0.4, 1.0]), atlas.evaluate(plan.policy, [0.0, 0.2, 0.4, 1.0])
    better = atlas.improvement(plan)
    assert better.lower <= max(new.lower, plan.lower) - done.upper <= better.lower + 1e-12
    assert better.upper >= new.upper - done.lower >= better.upper - 1e-12
    assert better.value == pytest.approx(new.value - done.value)
    reward = np.broadcast_to(np.array([0.0, 0.2, 0.4, 1.0])[:, None], (H, 4, 2))
    truth = [float(mdp.initial @ induct(mdp, reward, H, 1.0, pi).V[0]) for pi in (plan.policy, atlas.behaviour)]
    assert better.lower <= truth[0] - truth[1] <= better.upper
    same = atlas.improvement(plan, against=plan.policy)
    assert same.lower <= 0 <= same.upper
    assert same.value == 0
    with pytest.raises(ValueError, match="not of this atlas"):
        ar.Atlas(counts + counts, ar.certify(counts + counts)).improvement(plan)


@pytest.mark.parametrize("stationary", [False, True])
def test_the_behaviour_is_the_frequency_of_each_action(stationary):
    counts = counted(stationary=stationary)
    behaviour = ar.Atlas(counts, ar.certify(counts)).behaviour
    assert behaviour.shape == (2, 3, 2)
    attic, cellar, hall = range(3)
    assert behaviour[0, hall].tolist() == [0.5, 0.5]  # (down, up)
    assert behaviour[0, attic].tolist() == ([0.5, 0.5] if stationary else [0.0, 1.0])
    assert behaviour[1, attic].tolist() == ([0.5, 0.5] if stationary else [1.0, 0.0])
    assert behaviour[0, cellar].tolist() == ([0.0, 1.0] if stationary else [0.5, 0.5])


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

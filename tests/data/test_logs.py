"""Logs: what is counted, what is assumed, and what was done by those who kept them.

It watches `docs/theory.md`, 9.3 and 9.4.
"""

from collections import Counter
from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anyreward as ar
from anyreward.data.logs import CUT_OFF, IN_ORDER
from anyreward.planning import induct
from anyreward.rewards.observed import UNKNOWN

from ..helpers.logs import NAMES, counted, small

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


@pytest.mark.filterwarnings("ignore:the log goes beyond the horizon")
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
    with pytest.warns(UserWarning, match="beyond the horizon"):
        first = ar.Counts.from_dataframe(table, horizon=2, **NAMES)
    assert first.transitions == 2
    assert CUT_OFF in long.setting.assumed
    assert CUT_OFF not in first.setting.assumed


def test_rows_beyond_the_horizon_are_not_dropped_without_a_word():
    """Once, with how many they are and what can be done; not where they count, and not for a row that only says what follows."""
    table = {"id": [1] * 3 + [2] * 5 + [3], "where": list("abababaab"), "what": ["x"] * 9}
    with pytest.warns(UserWarning, match="the log goes beyond the horizon: 4 rows of 2 of its 3 episodes come after ") as told:
        ar.Counts.from_dataframe(table, horizon=2, **NAMES)
    (only,) = told
    assert str(only.message).endswith(
        "step 1, the last of horizon=2, and are not counted. If they are steps of the process, use a larger horizon; if you know "
        "that transitions do not depend on the step, pass stationary=True, which counts all of them."
    )
    assert only.filename == __file__
    table["what"][2] = table["what"][7] = None
    with pytest.warns(UserWarning, match="2 rows of 1 of its 3 episodes"):
        ar.Counts.from_dataframe(table, horizon=2, **NAMES)
    with pytest.warns(UserWarning, match="1 row of 1 of its 3 episodes comes after step 2"):
        ar.Counts.from_dataframe(table, horizon=3, **NAMES)
    for fine in ({"horizon": 4}, {"horizon": 2, "stationary": True}):  # a warning would be an error
        ar.Counts.from_dataframe(table, **fine, **NAMES)


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

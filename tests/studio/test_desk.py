"""The desk answers with what the library says: plans, terms, comparisons, goals, limits, trade-offs, exports."""

import base64
import threading

import numpy as np
import pytest

import anyreward as ar
from anyreward.certificates import intervals
from anyreward.kernels import robust
from anyreward.studio.asking import Unanswerable
from anyreward.studio.desk import Desk, Superseded, trajectory
from anyreward.studio.drawing import KINDS

from .conftest import formula, painted


def unpacked(given):
    return np.frombuffer(base64.b64decode(given["data"]), KINDS[given["kind"]]).reshape(given["shape"])


def reward_at(*states):
    return np.isin(np.arange(30), states).astype(float)


@pytest.mark.parametrize("cautious", [False, True])
def test_a_plan_is_that_of_the_atlas(desk, grid, cautious):
    answer = desk.answer("plan", {"reward": painted(([28, 29], 1)), "cautious": cautious})
    plan = grid.plan(reward_at(28, 29), cautious=cautious)
    assert (answer["value"], answer["lower"], answer["upper"]) == (plan.value, plan.lower, plan.upper)
    policy = unpacked(answer["policy"])
    assert (np.where(plan.indifferent, 4, plan.policy) == policy).all()
    reach = (unpacked(answer["reach"]) / 65535.0) ** 2 * answer["most"]
    assert np.allclose(reach, plan.reach, atol=2e-4)
    assert (unpacked(answer["reward"]) == reward_at(28, 29)[None]).all()
    assert float(answer["lower_text"]) <= plan.lower <= plan.upper <= float(answer["upper_text"])


def test_a_range_is_what_the_reward_really_has(desk, grid):
    answer = desk.answer("plan", {"reward": painted(([28], 0.5), ([3], -2))})
    plan = grid.plan(0.5 * reward_at(28) - 2 * reward_at(3), reward_range=(-2.0, 0.5))
    assert (answer["lower"], answer["upper"], answer["range"]) == (plan.lower, plan.upper, [-2.0, 0.5])


def test_terms_add_up_with_an_interval_for_each(desk, grid):
    asked = {"terms": [formula("state == 29", 1, "goal"), formula("action == 1", -0.1, "wear")]}
    answer = desk.answer("plan", {"reward": asked})
    plan = grid.plan(ar.term("goal", "state == 29") - 0.1 * ar.term("wear", "action == 1"))
    assert {part["name"]: (part["lower"], part["value"], part["upper"]) for part in answer["terms"]} == {
        name: tuple(part) for name, part in plan.terms.items()
    }
    assert sum(part["value"] for part in answer["terms"]) == pytest.approx(answer["value"])


def test_plans_are_remembered_for_the_questions_that_follow(desk):
    asked = {"reward": painted(([28], 1))}
    for name in ("plan", "explain", "plan", "play"):
        desk.answer(name, asked)
    assert desk.worked == 1


def test_an_explanation_is_that_of_the_atlas(desk, grid):
    answer, found = desk.answer("explain", {"reward": painted(([29], 1))}), grid.explain(reward_at(29))
    assert answer["episodes_to_halve"] == found.episodes_to_halve
    assert [one["what"] for one in answer["charges"]] == [one.what for one in found.charges[:12]]
    assert unpacked(answer["by_state"]).sum() == pytest.approx(
        sum(one.charge for one in found.charges if one.state is not None), rel=1e-5
    )


def test_a_state_is_told_step_by_step(desk, grid):
    answer, plan = desk.answer("state", {"reward": painted(([29], 1)), "state": 14}), grid.plan(reward_at(29))
    assert answer["steps"][2]["value"] == plan.V[2, 14]
    assert answer["steps"][2]["lower"] <= answer["steps"][2]["value"] <= answer["steps"][2]["upper"]
    for a in range(4):
        assert sum(edge["p"] for edge in answer["edges"] if edge["from"] == 14 and edge["action"] == a) == pytest.approx(1)


def test_two_rewards_side_by_side(desk, grid):
    answer = desk.answer("compare", {"reward": painted(([29], 1)), "other": painted(([0], 1))})
    one, two = grid.plan(reward_at(29)), grid.plan(reward_at(0))
    crossed = grid.evaluate(one.policy, reward_at(0)), grid.evaluate(two.policy, reward_at(29))
    assert [(each["lower"], each["upper"]) for each in answer["crossed"]] == [(each.lower, each.upper) for each in crossed]
    differ = unpacked(answer["differ"])
    assert differ.any()
    assert (one.policy != two.policy)[differ > 0].all()
    same = desk.answer("compare", {"reward": painted(([29], 1)), "other": painted(([29], 1))})
    assert same["time"] == 0
    assert not unpacked(same["differ"]).any()


def test_goals_limits_and_trade_offs(desk, grid):
    answer = desk.answer("goal", {"goal": {"text": "state == 29"}, "avoid": {"states": [[28, 28]]}})
    found = grid.reach([29], avoid=[28])
    assert (answer["value"], answer["lower"], answer["upper"]) == tuple(found.value[i] for i in (1, 0, 2))
    assert (unpacked(answer["policy"]) == found.policy).all()
    reward = painted(([29], 1))
    answer = desk.answer("limits", {"reward": reward, "limits": [{"text": "action == 1", "sign": "<=", "limit": 5}]})
    mixed = grid.plan(reward_at(29), subject_to=[("action == 1", "<=", 5)])
    assert (answer["lower"], answer["upper"]) == (mixed.lower, mixed.upper)
    assert sum(answer["weights"]) == pytest.approx(1)
    with pytest.raises(ValueError, match="can be certified"):
        desk.answer("limits", {"reward": reward, "limits": [{"text": "1", "sign": "<=", "limit": 1}]})
    terms = {"terms": [formula("state == 29", 1, "right"), formula("state == 0", 2, "left")]}
    answer = desk.answer("trade", {"reward": terms, "pair": [0, 1], "points": 3})
    curve = grid.trade_off(reward_at(29), 2 * reward_at(0), 3)
    assert [p["second"]["value"] for p in answer["points"]] == [each.value for each in curve.second]
    assert all(y <= curve.most(x) + 1e-9 for x, y in answer["beyond"])
    share = answer["points"][1]["share"]  # a click takes weights in this proportion, and with them that plan
    weights = (1 - share) / answer["scales"][0], 2 * share / answer["scales"][1]
    taken = desk.answer(
        "plan", {"reward": {"terms": [formula("state == 29", weights[0], "right"), formula("state == 0", weights[1], "left")]}}
    )
    assert [part["value"] / w for part, w in zip(taken["terms"], weights, strict=True)] == pytest.approx(
        [answer["points"][1]["first"]["value"], answer["points"][1]["second"]["value"] / 2]
    )


def test_a_trajectory_goes_where_the_data_went(grid):
    plan = grid.plan(reward_at(29))
    total, n = 0.0, 400
    for seed in range(n):
        states, actions, paid = trajectory(plan, np.random.default_rng(seed))
        assert len(states) == 9
        assert actions == [plan.policy[h, s] for h, s in enumerate(states[:-1])]
        total += sum(paid)
    assert total / n == pytest.approx(plan.value, abs=4 * 8 / np.sqrt(n))  # four standard errors at most


def test_a_newer_question_of_the_same_tab_ends_older_ones(desk):
    """50 strokes while the desk is busy: only the last of a tab is worked on, and other tabs lose nothing."""
    outcomes, threads = {}, []

    def ask(tab, turn):
        try:
            desk.answer("plan", {"reward": painted(([turn % 30], 1)), "tab": tab, "turn": turn})
            outcomes[tab, turn] = "answered"
        except Superseded:
            outcomes[tab, turn] = "superseded"

    with desk._lock:  # as if a slow plan were under way
        for turn in range(50):
            threads.append(threading.Thread(target=ask, args=("one", turn)))
            threads[-1].start()
        threads.append(threading.Thread(target=ask, args=("two", 7)))
        threads[-1].start()
        while len(desk._turns) < 2 or desk._turns["one plan"] < 49:
            pass
    for thread in threads:
        thread.join()
    assert {key for key, what in outcomes.items() if what == "answered"} == {("one", 49), ("two", 7)}
    assert desk.worked == 2


class Passes:
    """Counts the compiled passes of robust planning, and lets something happen before the fifth."""

    def __init__(self, monkeypatch, happens):
        self.real, self.happens, self.made = robust.values, happens, []
        monkeypatch.setattr(robust, "values", self)
        monkeypatch.setattr(intervals, "BLOCK", 0)  # a pass is made step by step, as in large problems

    def __call__(self, *arguments):
        self.made.append(threading.current_thread())
        if self.made.count(threading.current_thread()) == 5 and self.happens is not None:
            happens, self.happens = self.happens, None
            happens()
        return self.real(*arguments)


@pytest.mark.parametrize("older", ["plan", "explain", "limits", "trade"])
def test_a_stroke_ends_what_is_under_way_in_its_middle(desk, grid, monkeypatch, older):
    asked = {"reward": {"terms": [formula("state == 3"), formula("state == 4", name="two")]}, "tab": "tab", "turn": 1,
             "pair": [0, 1], "limits": [{"text": "action == 1", "sign": "<=", "limit": 5}]}  # fmt: skip
    newer = {"reward": painted(([29], 1)), "tab": "tab", "turn": 2, "stroke": True}
    answers = []
    stroke = threading.Thread(target=lambda: answers.append(desk.answer("plan", newer)))

    def happens():
        stroke.start()
        while desk._turns.get("tab plan", 0) < 2:  # until it has come; it waits for the other then
            pass

    passes = Passes(monkeypatch, happens)
    with pytest.raises(Superseded):
        desk.answer(older, asked)
    assert passes.made.count(threading.current_thread()) == 5
    stroke.join()
    assert answers[0]["lower"] == grid.plan(reward_at(29)).lower


def test_what_another_tab_does_and_what_is_no_stroke_ends_nothing(desk, monkeypatch):
    trade = {
        "reward": {"terms": [formula("state == 3"), formula("state == 4", name="two")]},
        "tab": "tab",
        "turn": 1,
        "pair": [0, 1],
    }
    others = [
        ("tab", "plan", {"turn": 2}),  # the same reward in another shade, or in an atlas that grows
        ("tab", "explain", {"turn": 3}),
        ("other", "plan", {"turn": 9, "stroke": True}),
        ("other", "trade", {"turn": 10}),
    ]

    def happens():
        for tab, name, more in others:
            desk._turn(name, {"tab": tab, **more})

    passes = Passes(monkeypatch, happens)
    assert len(desk.answer("trade", trade)["points"]) == 7
    assert passes.happens is None


def test_every_file_that_was_asked_for_is_made(desk):
    """Also if they are asked for one after the other while the desk is busy."""
    names, threads = [], []
    with desk._lock:
        for turn, ending in enumerate(("csv", "json", "npz")):
            asked = {"reward": painted(([29], 1)), "what": "policy", "as": ending, "tab": "tab", "turn": turn}
            threads.append(threading.Thread(target=lambda asked=asked: names.append(desk.answer("export", asked)["name"])))
            threads[-1].start()
    for thread in threads:
        thread.join()
    assert sorted(names) == ["policy.csv", "policy.json", "policy.npz"]


def test_what_can_hardly_be_meant_is_told_with_the_term_it_is_in(desk, recwarn):
    terms = [formula("state == 3"), formula("state == 9999 or action != 7", name="two"), formula("1", name="one")]
    notes = desk.answer("plan", {"reward": {"terms": terms}})["notes"]
    assert [note["term"] for note in notes] == [1, 1]
    assert "compares state with 9999, but states go from 0 to 29: that is never true" in notes[0]["text"]
    assert desk.answer("plan", {"reward": {"terms": terms}})["notes"] == notes  # remembered with the plan
    assert desk.answer("plan", {"reward": {"terms": terms[:1]}})["notes"] == []
    limits = [{"text": "action == 4", "sign": "<=", "limit": 5}]
    assert "compares action with 4" in desk.answer("limits", {"reward": painted(([29], 1)), "limits": limits})["notes"][0]
    assert "with 31" in desk.answer("goal", {"goal": {"text": "state in (29, 31)"}})["notes"][0]
    assert not recwarn  # on the page, and not in the terminal


def test_what_is_wrong_says_in_which_term(desk):
    for wrong in ("state ==", "stat == 3", "state == 'kitchen'", "1 / (state - state)"):
        with pytest.raises(Unanswerable) as found:
            desk.answer("plan", {"reward": {"terms": [formula("1"), formula(wrong, name="two"), formula("state", name="last")]}})
        assert found.value.term == 1
    with pytest.raises(Unanswerable) as found:
        desk.answer("plan", {"reward": {"terms": []}})
    assert found.value.term is None


@pytest.mark.parametrize("name", ["", "planned", "__init__", "_terms", "../plan"])
def test_there_are_no_other_questions(desk, name):
    with pytest.raises(ValueError, match="no question"):
        desk.answer(name, {})


def test_observed_rewards_are_planned_for_alone_and_with_what_is_said_of_them():
    atlas = ar.explore("FrozenLake-v1", 6, max_episodes=500, stationary=True)
    desk = Desk({"lake": atlas})
    assert desk.answer("hello", {})["picture"]["own"] == "observed"
    own = {"name": "own", "kind": "own", "range": [0, 1], "rewards": "deterministic"}
    answer, plan = desk.answer("plan", {"reward": {"terms": [own]}}), atlas.plan("own", rewards="deterministic")
    assert (answer["lower"], answer["upper"]) == (plan.lower, plan.upper)
    assert any("always pays the same" in text for text in answer["assumptions"])
    with pytest.raises(ValueError, match="only observed"):
        desk.answer("plan", {"reward": {"terms": [own, formula("1")]}})

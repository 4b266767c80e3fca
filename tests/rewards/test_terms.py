"""Rewards that are sums of named terms, and values split by them.

It watches `docs/theory.md`, 17.2.
"""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.cli import app

from ..helpers.coverage import allowed
from ..helpers.problems import random_mdp

H = 4
GOAL, WEAR = "state == 1", "0.3 * (action == 1)"


@pytest.fixture(scope="module")
def atlas():
    return ar.explore(random_mdp(4, 2, seed=3), H, max_episodes=20_000, stationary=True)


def arrays():
    s, a = np.arange(4)[:, None], np.arange(2)[None]
    return 2.0 * (s == 1) * np.ones((1, 2)), -0.3 * (a == 1) * np.ones((4, 1))


def test_a_value_is_split_by_terms(atlas):
    plan = atlas.plan(2 * ar.term("goal", GOAL) - ar.term("wear", WEAR))
    assert plan.reward_range == (-0.3, 2.0)
    whole = atlas.plan(sum(arrays()), reward_range=(-0.3, 2.0))
    assert (plan.lower, plan.value, plan.upper) == pytest.approx((whole.lower, whole.value, whole.upper))
    assert list(plan.terms) == ["goal", "wear"]
    assert sum(part.value for part in plan.terms.values()) == pytest.approx(plan.value)
    for part, reward in zip(plan.terms.values(), arrays(), strict=True):
        low, high = (-0.3, 0.0) if part.value < 0 else (0.0, 2.0)
        assert tuple(part) == pytest.approx(tuple(atlas.evaluate(plan.policy, reward, (low, high))))
    assert atlas.plan(GOAL).terms == {}


@pytest.mark.slow
def test_terms_on_arrival_are_on_one_event(atlas):
    plan = atlas.plan(ar.term("goal", "next == 1") + ar.term("wear", WEAR) * -1)
    alone = atlas.evaluate(plan.policy, arrays()[1], (-0.3, 0.0))
    assert plan.terms["wear"].lower <= alone.lower  # its radii are those of an event that covers more laws
    assert sum(part.value for part in plan.terms.values()) == pytest.approx(plan.value)


@pytest.mark.slow
def test_terms_are_in_their_intervals_all_at_once():
    """Large delta, few laws: the true value of each term, at once. Intervals a fifth as wide fail too often."""
    mdp, runs, delta, wrong, narrow = random_mdp(2, 1, seed=5), 60, 0.5, 0, 0
    goal, wear = np.array([[1.0], [0.0]]), np.array([[0.0], [-1.0]])
    reward = ar.term("goal", goal) + ar.term("wear", wear)
    for seed in range(runs):
        false = close = False
        for episodes in (5, 20, 80):
            atlas = ar.explore(mdp, 3, max_episodes=episodes, seed=seed, delta=delta, stationary=True, algorithm="random")
            plan = atlas.plan(reward)
            for part, r in zip(plan.terms.values(), (goal, wear), strict=True):
                true = float(mdp.initial @ ar.evaluate_policy(mdp, plan.policy, r, 3).V[0])
                false |= not part.lower - 1e-12 <= true <= part.upper + 1e-12
                close |= abs(true - part.value) > 0.1 * (part.upper - part.lower)
        wrong, narrow = wrong + false, narrow + close
    assert wrong <= allowed(delta, runs)
    assert narrow > allowed(delta, runs)


def test_arithmetic():
    goal, wear = ar.term("goal", GOAL), ar.term("wear", WEAR)
    reward = (goal - wear / 2) * 4 + goal
    assert [(name, factor) for name, factor, _ in reward.parts] == [("goal", 5.0), ("wear", -2.0)]
    assert repr(sum([goal, wear])) == repr(goal + wear)
    assert repr(reward) == "5 * term('goal', 'state == 1') - 2 * term('wear', '0.3 * (action == 1)')"
    mdp = random_mdp(4, 2, seed=3)
    expected = ar.backward_induction(mdp, 5 * arrays()[0] / 2 + 2 * arrays()[1], H)
    assert pytest.approx(expected.V) == ar.backward_induction(mdp, reward, H).V


def test_bad_terms_are_named(atlas):
    with pytest.raises(ValueError, match="two different terms are called 'goal'"):
        ar.term("goal", GOAL) + ar.term("goal", WEAR)
    with pytest.raises(ValueError, match="has to be a text"):
        ar.term("", GOAL)
    with pytest.raises(ValueError, match="given reward"):
        ar.term("mine", "own")
    with pytest.raises(ValueError, match="finite"):
        ar.term("goal", GOAL) * np.inf
    with pytest.raises(ValueError, match="divided by 0"):
        ar.term("goal", GOAL) / 0
    with pytest.raises(ValueError, match="has to be a number"):
        ar.term("goal", GOAL) * ar.term("wear", WEAR)
    with pytest.raises(ValueError, match=r"outside \[0, 1\]"):
        atlas.plan(2 * ar.term("goal", GOAL), reward_range=(0, 1))


def test_the_command_line_splits_the_value(atlas, tmp_path):
    atlas.save(tmp_path / "it.atlas")
    call = ["plan", str(tmp_path / "it.atlas"), "--term", "goal=2 * (state == 1)", "--term", "wear=-0.3 * (action == 1)"]
    said = CliRunner().invoke(app, [*call, "--html", str(tmp_path / "it.html")]).stdout
    assert "<= goal <=" in said
    assert "<= wear <=" in said
    facts = json.loads(CliRunner().invoke(app, [*call, "--json"]).stdout)
    assert sum(part["value"] for part in facts["terms"].values()) == pytest.approx(facts["value"])
    for wrong, sentence in ((call[:2], "--reward, or its named terms by --term"), ([*call[:2], "--term", "goal"], "NAME=REWARD")):
        result = CliRunner().invoke(app, wrong)
        assert result.exit_code == 2
        assert sentence in result.stderr

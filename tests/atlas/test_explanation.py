"""What makes an interval wide: charges that add up to its width, names, laws, and a forecast.

It watches `docs/theory.md`, 20.4.
"""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.atlas.explanation import episodes_to_halve
from anyreward.cli import app

from ..helpers.problems import random_mdp
from ..helpers.structures import chain

CHAIN = ar.envs.double_chain(7)


def adds_up(found):
    assert sum(one.charge for one in found.charges) - found.gained == pytest.approx(found.width, abs=1e-8)
    assert sum(one.share for one in found.charges) == pytest.approx(1.0)
    assert all(one.charge > 0 for one in found.charges)
    assert [one.charge for one in found.charges] == sorted((one.charge for one in found.charges), reverse=True)
    assert found.plan.regret_bound <= found.width + 1e-9
    return found


@pytest.mark.parametrize("random_start", [False, True])
@pytest.mark.parametrize("how", [{}, {"stationary": True}, {"discount": 0.8}, {"max_successors": 4}])
@pytest.mark.parametrize("reward", ["state == 2", "(next == 1) * (action == 0)", "step * (state == 1) / 3"])
@pytest.mark.parametrize("episodes", [0, 3, 200])
def test_the_charges_add_up_to_the_width(random_start, how, reward, episodes):
    mdp = random_mdp(4, 2, seed=1, random_start=random_start)
    atlas = ar.explore(mdp, 4, max_episodes=episodes, **how)
    for cautious in (False, True):
        adds_up(atlas.explain(reward, cautious=cautious))


@pytest.mark.parametrize("terminal", ["outcome", "state", "end"])
def test_episodes_that_terminate(terminal):
    atlas = ar.explore("FrozenLake-v1", 6, max_episodes=300, terminal=terminal, progress=False)
    found = adds_up(atlas.explain("state == 15"))
    rows = [one for one in found.charges if one.state is not None]
    assert all(0 <= one.state < 16 for one in rows)
    assert any(one.what == "the initial state" for one in found.charges)
    assert f"action {atlas.action_name(rows[0].action)}" in str(found)


def test_a_row_that_matters_and_was_seen_little_is_first():
    """Two ways to the goal: one was tried often, the other twice."""
    P = np.zeros((3, 2, 3))
    P[0, :, 1], P[0, :, 2], P[1:, :, 2] = 0.6, 0.4, 1.0
    mdp = ar.TabularMDP(P, initial=0)
    policies = np.zeros((300, 2, 3), int)
    policies[:2, 0] = 1
    counts = ar.Counts.from_episodes(*mdp.play_each(policies, np.random.default_rng(0)), mdp.setting(2))
    found = adds_up(ar.Atlas(counts, ar.certify(counts)).explain(np.array([0.0, 1.0, 0.0])))
    first = found.charges[0]
    assert (first.step, first.state, first.action, first.visits) == (0, 0, 1, 2)
    assert first.share > 0.5
    assert "at step 0, state 0, action 1, seen 2 times" in str(found)
    assert found.to_pandas().visits.tolist() == [one.visits for one in found.charges]


def test_laws_of_a_structure():
    atlas = ar.explore(CHAIN, 6, max_episodes=200, structure=chain(7))
    found = adds_up(atlas.explain("state == 6"))
    assert {one.law for one in found.charges} <= {"0", "1"}
    assert found.charges[0].law == "1"  # to go right
    assert found.charges[0].visits == atlas.counts.shared.n[1]
    assert "the law 1, seen" in str(found)


def test_laws_without_data_share_what_is_not_known():
    found = adds_up(ar.explore(CHAIN, 6, max_episodes=0, structure=chain(7)).explain("state == 6"))
    assert found.charges
    assert all(one.visits == 0 for one in found.charges)


def test_nothing_makes_an_interval_wide_that_has_no_width():
    found = ar.explore(CHAIN, 6, max_episodes=20).explain(np.zeros(7))
    assert (found.charges, found.episodes_to_halve) == ((), None)
    assert "nothing" in str(found)


@pytest.mark.parametrize("how", [{"stationary": True}, {"structure": chain(7)}])
def test_the_forecast_is_about_right_where_there_are_data(how):
    atlas = ar.explore(CHAIN, 6, max_episodes=3_000, **how)
    found = atlas.explain("state == 6")
    longer = atlas.extend(CHAIN, max_episodes=int(found.episodes_to_halve), rewards=["state == 6"])
    assert 0.4 < longer.explain("state == 6").width / found.width < 0.65


def test_episodes_that_halve_charges():
    assert episodes_to_halve(np.zeros((0, 3))) is None
    assert episodes_to_halve(np.array([[1.0, 100.0, 0.5]])) == pytest.approx(600)  # four times 100 visits
    assert episodes_to_halve(np.array([[1.0, 100.0, 0.0]])) is None  # it is never visited


def test_what_is_only_observed_is_refused():
    atlas = ar.explore("FrozenLake-v1", 3, max_episodes=5, progress=False)
    with pytest.raises(ValueError, match="reward is 'own', which is only observed"):
        atlas.explain("own")


def test_info_shows_it(tmp_path):
    atlas = ar.explore(CHAIN, 6, max_episodes=50)
    atlas.save(tmp_path / "it.atlas")
    result = CliRunner().invoke(app, ["info", str(tmp_path / "it.atlas"), "--reward", "state == 6"])
    assert result.exit_code == 0, result.output
    assert str(atlas.explain("state == 6")) in result.stdout
    assert "for half of that, explored for this reward" in result.stdout
    result = CliRunner().invoke(app, ["info", str(tmp_path / "it.atlas"), "--reward", "own", "--json"])
    facts = json.loads(result.stdout)
    assert facts["interval"]["width"] == pytest.approx(atlas.explain("own").plan.regret_bound)
    assert facts["charges"][0]["charge"] > 0

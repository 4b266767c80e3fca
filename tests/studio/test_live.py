"""Exploring from the page: it can be started, paused and resumed, is saved on the way, and leaves an atlas like any other."""

import time

import pytest

import anyreward as ar
from anyreward.studio.desk import Desk
from anyreward.studio.live import Live, unused

from ..helpers.waiting import PATIENCE


def until(look, done):
    """Looks until something is so; raises if that takes far too long."""
    begin = time.monotonic()
    while not done(found := look()):
        assert time.monotonic() - begin < PATIENCE, found
        time.sleep(0.02)
    return found


def test_an_exploration_is_started_paused_resumed_and_saved(grid, tmp_path):
    (tmp_path / "kept.atlas").write_text("somebody else's")
    desk = Desk({"grid": grid}, Live({}, tmp_path / "kept.atlas"))

    def do(what, **more):
        return desk.answer("explore", {"do": what, **more})

    assert do("look")["curve"] == []
    with pytest.raises(ValueError, match="no exploration"):
        do("resume")
    do("start", env="double-chain", horizon=5, stationary=True, epsilon=0.2)
    with pytest.raises(ValueError, match="under way"):
        do("start", env="double-chain")
    found = until(lambda: do("look"), lambda it: it["curve"])
    do("pause")
    until(lambda: do("look"), lambda it: it["paused"] or not it["running"])
    assert found["atlas"] in desk.answer("hello", {})["atlases"]
    assert desk.answer("hello", {"atlas": found["atlas"]})["picture"]["n_states"] == 31
    if do("look")["paused"]:
        do("resume")
    found = until(lambda: do("look"), lambda it: it["met"] or it["error"])
    assert not found["error"]
    episodes = [point[0] for point in found["curve"]]
    assert episodes == sorted(episodes)
    assert found["curve"][-1][1] <= 0.2
    assert found["saved"] == str(tmp_path / "kept-2.atlas")
    assert ar.load(found["saved"]).certificate.met
    assert (tmp_path / "kept.atlas").read_text() == "somebody else's"
    desk.live.close()


def test_an_atlas_is_explored_further(grid):
    desk = Desk({"grid": grid}, Live({"small grid": grid_model()}, None))
    assert desk.answer("hello", {})["can_extend"]
    desk.answer("explore", {"do": "start", "extend": True})
    found = until(desk.live.report, lambda it: it["curve"] or it["error"])
    desk.live.close()
    assert not found["error"]
    assert found["curve"][0][0] > grid.episodes
    assert desk.live.atlas.certificate.delta == grid.certificate.delta
    assert desk.live.atlas.counts.setting == grid.counts.setting


def grid_model():
    mdp = ar.envs.grid_world(5, 6, start=(2, 2), goal=(4, 5))
    mdp.name = "small grid"
    return mdp


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"env": "os:system"}, "not here"),
        ({"env": "CartPole-v1"}, "not here"),
        ({"env": ["double-chain"]}, "no env"),
        ({"env": "double-chain", "horizon": 0}, "at least 1"),
        ({"env": "double-chain", "horizon": 10**9}, "from 0"),
        ({"env": "double-chain", "delta": 2}, "between 0 and 1"),
        ({"env": "double-chain", "epsilon": -1}, "positive"),
        ({"extend": True}, "not here"),
    ],
)
def test_only_what_is_offered_is_explored(grid, asked, said):
    desk = Desk({"grid": grid})
    with pytest.raises(ValueError, match=said):
        desk.answer("explore", {"do": "start", **asked})
    assert not desk.live.running


def test_what_goes_wrong_in_an_environment_is_told(grid):
    def broken():
        raise RuntimeError("the simulator is on fire")

    desk = Desk({"grid": grid}, Live({"broken": broken}, None))
    desk.answer("explore", {"do": "start", "env": "broken"})
    found = until(desk.live.report, lambda it: it["error"])
    assert "on fire" in found["error"]
    assert not desk.live.running


def test_a_file_that_is_there_is_left_alone(tmp_path):
    assert unused(tmp_path / "a.atlas").name == "a.atlas"
    for name in ("a.atlas", "a-2.atlas"):
        (tmp_path / name).touch()
    assert unused(tmp_path / "a.atlas").name == "a-3.atlas"

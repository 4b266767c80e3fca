"""What the page is told of an atlas: variables of states, packed arrays, what a reward pays where."""

import base64
import json

import numpy as np
import pytest
from gymnasium.spaces import Box

import anyreward as ar
from anyreward.data.numbering import Numbering
from anyreward.data.spaces import Binned, Indexed, Ravelled, Whole
from anyreward.studio import drawing


def unpacked(given):
    return np.frombuffer(base64.b64decode(given["data"]), drawing.KINDS[given["kind"]]).reshape(given["shape"])


@pytest.mark.parametrize("kind", drawing.KINDS)
def test_arrays_are_packed_as_they_are(kind):
    x = np.arange(24).reshape(2, 3, 4)
    assert (unpacked(drawing.packed(x.transpose(2, 0, 1), kind)) == x.transpose(2, 0, 1)).all()


def test_json_has_no_infinite_numbers():
    given = {"x": np.float64(0.5), "n": np.int64(3), "worst": [float("inf"), float("nan"), "Infinity"]}
    assert json.loads(drawing.as_json(given), parse_constant=pytest.fail) == {"x": 0.5, "n": 3, "worst": [None, None, "Infinity"]}


def test_an_atlas_that_certifies_nothing_is_shown():
    nothing = ar.explore(ar.envs.double_chain(3), 2, bounds="calibrated", epsilon=0.5, max_episodes=3)
    assert nothing.certificate.says_nothing
    json.loads(drawing.as_json(drawing.atlas_picture(nothing)), parse_constant=pytest.fail)
    json.loads(drawing.as_json(drawing.plan_picture(nothing.plan("state == 1"))), parse_constant=pytest.fail)


class Named:
    """As much of an atlas as `variables` looks at."""

    def __init__(self, codec, extra=0):
        self.numbering = Numbering(codec, Whole(2, 0))
        self.counts = type("Counts", (), {"setting": type("Setting", (), {"n_states": codec.size + extra})})


def test_variables_of_a_state_are_its_parts():
    named, places = drawing.variables(Named(Ravelled([Whole(2, 0), Whole(3, 5)], keys=["door", "floor"]), extra=1))
    assert named == [{"name": "door", "values": ["0", "1"]}, {"name": "floor", "values": ["5", "6", "7"]}]
    assert places.tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2], [65535, 65535]]
    named, places = drawing.variables(Named(Binned(Box(0, 1, (2,)), [2, 2])))
    assert [each["name"] for each in named] == ["dimension 1", "dimension 2"]
    assert places.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    rows = Indexed(4, ["where", "level"])
    for row in (("kitchen", 9), ("hall", 3), ("kitchen", 3)):
        rows.encode(row)
    named, places = drawing.variables(Named(rows))
    assert named == [{"name": "where", "values": ["kitchen", "hall"]}, {"name": "level", "values": ["3", "9"]}]
    assert places.tolist() == [[0, 1], [1, 0], [0, 0], [65535, 65535]]


@pytest.mark.parametrize("codec", [Whole(7, 0), Ravelled([Whole(3, 0)]), Ravelled([Whole(2, 0), Whole(500, 0)]), Indexed(3)])
def test_other_states_have_none(codec):
    assert drawing.variables(Named(codec)) == (None, None)


def test_what_is_paid_is_shown_where_it_is_farthest_from_zero(grid):
    r = np.zeros((30, 4))
    r[3] = [0.1, -0.7, 0.5, 0]
    assert drawing.shown_reward(grid.plan(r, reward_range=(-1, 1)))[0, 3] == -0.7
    steps = np.zeros((8, 30, 4))
    steps[2, 5] = 0.25
    shown = drawing.shown_reward(grid.plan(steps))
    assert shown.shape == (8, 30)
    assert shown[2, 5] == shown.sum() == 0.25
    arrival = drawing.shown_reward(grid.plan({"s": [1, 2], "a": [0, 0], "next": [7, 7], "reward": [0.5, 0.9]}))
    assert arrival[0, 7] == arrival.sum() == 0.9


def test_an_atlas_is_told_with_its_names(hostile, grid):
    picture = drawing.atlas_picture(hostile)
    assert picture["states"] == [hostile.state_name(s) for s in range(4)]
    assert picture["own"] == "model"
    assert picture["grid"] is None
    assert drawing.atlas_picture(grid)["grid"] == (5, 6)
    assert drawing.atlas_picture(grid)["signs"] == ["←", "→", "↑", "↓"]
    assert unpacked(drawing.atlas_picture(grid)["visits"]).tolist() == grid.counts.state_visits().tolist()
    terminated = ar.explore("FrozenLake-v1", 3, max_episodes=50, stationary=True)
    assert drawing.atlas_picture(terminated)["n_states"] == 16

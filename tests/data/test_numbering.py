"""How observations and actions are numbered and named, in memory and in files."""

import json
from enum import Enum, IntEnum

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import anyreward as ar
from anyreward.data.numbering import Numbering
from anyreward.data.spaces import Indexed, codec, codec_from

FINITE = [
    spaces.Discrete(5, start=-2),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiDiscrete(np.array([[2, 3], [2, 2]])),
    spaces.MultiBinary(3),
    spaces.Tuple((spaces.Discrete(3), spaces.MultiBinary(2))),
    spaces.Dict({"floor": spaces.Discrete(4, start=1), "door": spaces.Discrete(2), "inner": spaces.Tuple((spaces.Discrete(2),))}),
]


@pytest.mark.parametrize("space", FINITE, ids=str)
def test_a_described_numbering_reads_back_with_the_same_numbers_and_values(space):
    one = codec(space)
    two = codec_from(json.loads(json.dumps(one.describe())))
    assert two.describe() == one.describe()
    for number in range(one.size):
        value = two.decode(number)
        assert space.contains(value)
        assert one.encode(value) == two.encode(one.decode(number)) == number


def test_bins_and_orders_of_appearance_read_back():
    binned = codec(spaces.Box(-1.0, 1.0, (2,)), [3, [0.0]])
    again = codec_from(json.loads(json.dumps(binned.describe())))
    rng = np.random.default_rng(0)
    for value in rng.uniform(-1, 1, (50, 2)):
        assert binned.encode(value) == again.encode(value)
    met = Indexed(6)
    for value in ("a", (1, "b"), np.array([1.5, 2]), None, 3.5):
        met.encode(value)
    again = codec_from(json.loads(json.dumps(met.describe())))
    assert again.encode(np.array([1.5, 2])) == 2
    assert again.values == met.values


@pytest.mark.parametrize(
    "about",
    [
        None, [], {}, {"kind": "whole"}, {"kind": "whole", "size": 0, "start": 0}, {"kind": "whole", "size": 2.5, "start": 0},
        {"kind": "whole", "size": 3, "start": 2**70}, {"kind": "product", "parts": 3}, {"kind": "product", "parts": [{}]},
        {"kind": "product", "parts": [{"kind": "whole", "size": 2, "start": 0}], "keys": []},
        {"kind": "product", "parts": [{"kind": "whole", "size": 2, "start": 0}], "array": [[2], "<i8"]},
        {"kind": "product", "parts": [{"kind": "whole", "size": 2, "start": 0}], "array": [[1], "O"]},
        {"kind": "bins", "edges": [[1.0, 0.5]]}, {"kind": "bins", "edges": [[float("nan")]]}, {"kind": "bins", "edges": "abc"},
        {"kind": "appearance", "size": 1, "values": ["a", "b"]}, {"kind": "appearance", "size": 2, "values": ["a", "a"]},
        {"kind": "appearance", "size": 2, "values": 7}, {"kind": "code"},
    ],
)  # fmt: skip
def test_a_damaged_description_is_refused(about):
    with pytest.raises(ValueError, match=r"\.$"):
        codec_from(about)


def test_a_description_that_is_nested_too_deeply_is_refused():
    about = {"kind": "whole", "size": 2, "start": 0}
    for _ in range(100):
        about = {"kind": "product", "parts": [about]}
    with pytest.raises(ValueError, match="damaged"):
        codec_from(about)


def test_names_come_from_the_user_the_space_or_the_number():
    class Move(Enum):
        LEFT = 0
        RIGHT = 1

    numbering = Numbering(codec(FINITE[-1]), codec(spaces.Discrete(2)))
    assert numbering.state_name(0) == "door=0, floor=1, inner=(0,)"
    assert numbering.action_name(1) == "1"
    named = numbering.named(action_names=Move, state_names={3: "the top"})
    assert (named.action_name(1), named.state_name(3), named.state_name(2)) == ("RIGHT", "the top", "2")
    assert named.lookup("action", "RIGHT") == 1
    assert named.lookup("state", "the top") == 3
    with pytest.raises(ValueError, match="perhaps 'RIGHT' is meant"):
        named.lookup("action", "RIHGT")


@pytest.mark.parametrize("names", [["a"], ["a", "a"], "ab", {5: "x"}, {"x": "y"}, 3])
def test_wrong_names_are_refused(names):
    numbering = Numbering(codec(spaces.Discrete(4)), codec(spaces.Discrete(2)))
    with pytest.raises(ValueError, match="action_names"):
        numbering.named(action_names=names)


def test_the_variables_of_a_state_are_the_keys_of_its_dictionary():
    numbering = Numbering(codec(FINITE[-1]), codec(spaces.Discrete(2)))
    for s in range(numbering.observations.size):
        value = numbering.observations.decode(s)
        assert {key: int(x[s]) for key, x in numbering.variables().items()} == {k: value[k] for k in ("door", "floor")}


class Lift(gym.Env):
    """Two floors and a door; a Dict observation, and actions that are an IntEnum."""

    class actions(IntEnum):
        up = 0
        down = 1

    observation_space = spaces.Dict({"floor": spaces.Discrete(2), "door": spaces.Discrete(2)})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.floor = 0
        return {"floor": 0, "door": 0}, {}

    def step(self, action):
        self.floor = 1 - action
        return {"floor": self.floor, "door": int(self.np_random.integers(2))}, 0.0, False, False, {}


def test_a_saved_atlas_keeps_numbering_and_names(tmp_path):
    atlas = ar.explore(Lift(), 3, max_episodes=50)
    assert [atlas.action_name(a) for a in range(2)] == ["up", "down"]
    assert atlas.state_name(3) == "door=1, floor=1"
    assert atlas.state_name(4) == "terminated in door=0, floor=0"
    atlas.save(tmp_path / "lift.atlas")
    assert ar.load(tmp_path / "lift.atlas").numbering == atlas.numbering


def test_atlases_with_other_names_do_not_merge():
    mdp = ar.envs.double_chain(5)
    one = ar.explore(mdp, 3, max_episodes=5)
    two = ar.explore(mdp, 3, max_episodes=5, seed=1, action_names=("west", "east"))
    assert two.action_name(0) == "west"
    assert mdp.numbering.action_name(0) == "left"
    with pytest.raises(ValueError, match="numbered or named differently"):
        one | two


def test_rows_of_several_columns_are_dictionaries_or_tuples():
    codec = Indexed(3, ("floor", "door"))
    assert [codec.encode(row) for row in ((1, "open"), {"door": "shut", "floor": 2}, {"floor": 1, "door": "open"})] == [0, 1, 0]
    assert codec.decode(1) == {"floor": 2, "door": "shut"}
    again = codec_from(json.loads(json.dumps(codec.describe())))
    assert again.describe() == codec.describe()
    assert again.known((2, "shut")) == 1
    for wrong in (1, (1,), (1, "open", 2), "ab"):
        with pytest.raises(ValueError, match="floor, door"):
            codec.encode(wrong)
    whole = Indexed(2, ("floor", "door"))
    whole.encode((1, "open"))
    whole.encode((2.5, "shut"))
    assert Numbering(whole, Indexed(1)).variables()["floor"].tolist() == [1, 2.5]
    assert set(Numbering(whole, Indexed(1)).variables()) == {"floor"}  # doors are not numbers
    assert Numbering(codec, Indexed(1)).variables() == {}  # one state is not known yet


def test_a_name_that_two_states_have_is_refused():
    met = Indexed(3)
    for value in (1, "1", 2):
        met.encode(value)
    numbering = Numbering(met, codec(spaces.Discrete(2)))
    assert numbering.lookup("state", "2") == 2
    with pytest.raises(ValueError, match="two states are called '1', 0 and 1"):
        numbering.lookup("state", "1")

"""How observations and actions are numbered and named, in memory and in files."""

import json
from enum import Enum, IntEnum

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import anyreward as ar
from anyreward.atlas import container
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("every episode starts in state 3.", "every episode starts in state 3 (attic)."),
        ("state 0 with action 1 has 2 successors", "state 0 (hall) with action 1 (stay) has 2 successors"),
        ("never left: states 0, 1 and 3", "never left: states 0 (hall), 1 (den) and 3 (attic)"),
        ("states 0, 1, 2 and 3 more", "states 0 (hall), 1 (den), 2 and 3 more"),
        ("states 0, 1 and 1,003 more", "states 0 (hall), 1 (den) and 1,003 more"),
        ("state 3 with probability 0.25, state 1 with 0.75", "state 3 (attic) with probability 0.25, state 1 (den) with 0.75"),
        ("state 1, 3 times", "state 1 (den), 3 times"),
        ("not in the initial_state 3, one of 3 states, substate 3", "not in the initial_state 3, one of 3 states, substate 3"),
        ("state 4 and state 400", "state 4 and state 400"),
        ("no state and action have more than 3 successors", "no state and action have more than 3 successors"),
    ],
)
def test_sentences_get_the_names_of_the_states_and_actions_that_they_mention(text, expected):
    """State 2 has no name but its number, and there is no state 4."""
    plain = Numbering(codec(spaces.Discrete(4)), codec(spaces.Discrete(2)))
    assert plain.names_in(text) == text
    assert plain.named({0: "hall", 1: "den", 3: "attic"}, ["go", "stay"]).names_in(text) == expected


def test_observations_that_were_not_met_have_no_name_in_sentences():
    met = Indexed(3)
    met.encode("hall")
    assert Numbering(met, codec(spaces.Discrete(2))).names_in("states 0 and 1") == "states 0 (hall) and 1"


def named_chain(**more):
    """An exploration of a chain whose states have names."""
    rooms = ["cellar", "hall", "kitchen", "stairs", "attic"]
    return ar.explore(ar.envs.double_chain(5), 4, max_episodes=20, state_names=rooms, progress=False, **more)


def test_assumptions_are_printed_with_names_and_kept_with_numbers(tmp_path):
    """What a file holds is what the certificate is about: numbers. So it is read by whoever could read such files before."""
    atlas = named_chain(stationary=True)
    said = "every episode starts in state 2 (kitchen)"
    atlas.save(tmp_path / "it.atlas")
    about = container.read(tmp_path / "it.atlas")[1]
    assert "numbering" not in about["certificate"]
    again = ar.load(tmp_path / "it.atlas")
    for it in (atlas, again, again | named_chain(stationary=True, seed=1)):
        plan = it.plan("state == 'attic'")
        assert said in it.certificate.assumptions
        assert said in plan.assumptions
        for text in (it.certificate, repr(plan), it.certificate._repr_html_(), plan._repr_html_()):
            assert said in str(text)
    assert again.certificate == atlas.certificate == ar.certify(atlas.counts)
    assert "every episode starts in state 2" in atlas.counts.setting.assumptions


def test_declarations_are_printed_with_names(tmp_path):
    setting = ar.Setting(n_states=3, n_actions=2, horizon=2, initial_state=0)
    counts = ar.Counts.from_episodes([[0, 1, 1]], [[0, 0]], setting)
    counts.numbering = Numbering.of_setting(setting).named(["hall", "den", "attic"])
    counts.declare_absorbing([1, 2])
    atlas = ar.Atlas(counts, ar.certify(counts))
    atlas.save(tmp_path / "it.atlas")
    for it in (atlas, ar.load(tmp_path / "it.atlas")):
        assert "never left, as declared: states 1 (den) and 2 (attic)" in str(it.certificate)
        assert it.certificate.check(it.counts)
    assert container.read(tmp_path / "it.atlas")[1]["certificate"]["assumed"] == ["never left, as declared: states 1 and 2"]
    with pytest.raises(ValueError, match=r"leads from state 1 \(den\) with action 0 to state 0 \(hall\)"):
        counts.checked([0, 1, 0], [0, 0])


def test_a_certificate_in_a_file_brings_no_names_of_its_own(tmp_path):
    path = tmp_path / "it.atlas"
    named_chain().save(path)
    columns, about, arrays = container.read(path)
    about["certificate"]["numbering"] = {"state_names": ["x"] * 5}
    container.write(path, columns, about, arrays)
    with pytest.raises(ValueError, match="its certificate is damaged"):
        ar.load(path)


def test_errors_while_exploring_have_names(tmp_path):
    with pytest.raises(
        ValueError, match=r"but state \d \((hall|kitchen|stairs)\) with action \d \((left|right)\) has 2 observed"
    ):
        named_chain(deterministic=True)
    lift, names = Lift(), ["ground", "ground, open", "first", "first, open"]
    with pytest.raises(ValueError, match=r"Lift starts in state 0 \(ground\), not in the initial_state 3"):
        ar.explore(lift, 3, max_episodes=5, initial_state=3, state_names=names, progress=False)


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
    again = ar.load(tmp_path / "lift.atlas")
    assert again.numbering == atlas.numbering
    with pytest.raises(ValueError, match="no state 'attic'; there are door=0, floor=0; door=0, floor=1; door=1, floor=0; "):
        again.plan("state == 'attic'")
    with pytest.warns(UserWarning, match="compares floor with 9, but floor goes from 0 to 1: that is never true"):
        assert again.plan("floor in (1, 9)").policy.tolist() == again.plan("floor == 1").policy.tolist()


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
    assert Numbering(whole, Indexed(1)).words() == {"door": {"open": 0, "shut": 1}}  # doors are texts
    assert Numbering(codec, Indexed(1)).variables() == {}  # one state is not known yet


def test_a_name_that_two_states_have_is_refused():
    met = Indexed(3)
    for value in (1, "1", 2):
        met.encode(value)
    numbering = Numbering(met, codec(spaces.Discrete(2)))
    assert numbering.lookup("state", "2") == 2
    with pytest.raises(ValueError, match="two states are called '1', 0 and 1"):
        numbering.lookup("state", "1")


def test_a_long_list_of_names_is_cut_off():
    names = [f"room {i:03}" for i in range(100)]
    atlas = ar.explore(ar.envs.garnet(100, 1, 2), 2, max_episodes=1, state_names=names)
    with pytest.raises(ValueError, match=r"there are room 000, (room \d+, ){18}room 019 and 80 others\.$"):
        atlas.plan("state == 'x'")

"""Gymnasium environments: which are accepted, and how states and actions are numbered."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import anyreward as ar

from ..helpers.problems import rows
from ..helpers.tabular import Tabular, box, texts, transitions

pytestmark = pytest.mark.usefixtures("quick_look")


# What may be explored


def test_an_id_an_instance_and_a_factory_are_the_same():
    by_id = ar.explore("FrozenLake-v1", 6, max_episodes=50, seed=3)
    assert ar.explore(gym.make("FrozenLake-v1"), 6, max_episodes=50, seed=3) == by_id
    assert ar.explore(lambda: gym.make("FrozenLake-v1"), 6, max_episodes=50, seed=3) == by_id
    assert by_id.counts.setting.n_states == 16
    assert by_id.source["env"] == "FrozenLake-v1"


def test_arguments_reach_an_id():
    dry = ar.explore("FrozenLake-v1", 6, max_episodes=60, env_args={"is_slippery": False})
    assert dry.counts.widest_pair[2] == 1
    assert ar.explore("FrozenLake-v1", 6, max_episodes=60).counts.widest_pair[2] > 1


@pytest.mark.parametrize(
    ("env", "options", "names"),
    [
        ("NoSuchThing-v0", {}, "NoSuchThing-v0.*cannot be made"),
        ("FrozenLake-v1", {"env_args": {"slip": 1}}, "cannot be made"),
        (lambda: 3, {}, "made a int"),
        (3, {}, "env is a int"),
        (lambda: Tabular(transitions()), {"env_args": {"x": 1}}, "arguments for the environment are for ids"),
        (lambda: Tabular(transitions()), {"terminal": "never"}, "terminal is 'never'"),
        (lambda: Tabular(transitions()), {"absorbing_states": (1,)}, "absorbing_states is for models"),
        (lambda: Tabular(transitions()), {"initial_state": 4}, "initial_state is 4"),
        (lambda: Tabular(transitions()), {"bins": [2]}, "bins are for a Box"),
    ],
)
def test_what_cannot_be_explored_is_refused(env, options, names):
    with pytest.raises(ValueError, match=names):
        ar.explore(env, 3, max_episodes=5, **options)


@pytest.mark.parametrize("horizon", [0, -2])
def test_a_horizon_of_nothing_is_refused_before_anything_is_played(horizon):
    env = Tabular(transitions())
    with pytest.raises(ValueError, match="horizon"):
        ar.explore(env, horizon, max_episodes=5)
    assert env.resets == 0
    with pytest.raises(ValueError, match="horizon"):
        ar.audit(env, horizon)


def test_arguments_of_environments_are_not_for_models():
    model = ar.TabularMDP(transitions())
    for name, value in (("terminal", "end"), ("max_states", 5), ("bins", [2]), ("initial_state", 0), ("env_args", {})):
        with pytest.raises(ValueError, match=f"{name} is for Gymnasium"):
            ar.explore(model, 3, max_episodes=5, **{name: value})


# Numbers of states and actions


def test_spaces_that_do_not_start_at_0_are_shifted():
    P = transitions()
    plain = Tabular(P)
    shifted = Tabular(P, observe=lambda s: s + 7, space=spaces.Discrete(4, start=7))
    shifted.action_space = spaces.Discrete(2, start=-3)
    one, other = (ar.explore(env, 4, max_episodes=60, seed=2) for env in (plain, shifted))
    assert rows(one.counts) == rows(other.counts)
    assert one.certificate.epsilon == other.certificate.epsilon


@pytest.mark.parametrize(
    ("space", "observe"),
    [
        (spaces.MultiDiscrete([2, 3]), lambda s: np.array(divmod(s, 3))),
        (spaces.MultiDiscrete([2, 3], start=[5, -1]), lambda s: np.add(divmod(s, 3), (5, -1))),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]), lambda s: divmod(s, 3)),
        (
            spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Discrete(3, start=1)}),
            lambda s: {"a": s // 3, "b": np.int64(1 + s % 3)},
        ),
    ],
    ids=["MultiDiscrete", "shifted", "Tuple", "Dict"],
)
def test_composite_observations_are_ravelled(space, observe):
    P = transitions(6)
    plain, composite = Tabular(P), Tabular(P, observe=observe, space=space)
    one, other = (ar.explore(env, 3, max_episodes=40, seed=1) for env in (plain, composite))
    assert one == other
    assert one.counts.setting.n_states == 6


def test_composite_actions_are_ravelled():
    class Two(Tabular):
        def step(self, action):
            assert both.contains(action)
            return super().step(int(action[0]) * 3 + int(action[1]))

    P, both = transitions(4, 6), spaces.MultiDiscrete([2, 3])
    two = Two(P)
    outer = gym.wrappers.TransformAction(two, lambda a: a, both)
    two.action_space = spaces.Discrete(6)
    one, other = (ar.explore(env, 3, max_episodes=100, seed=1) for env in (Tabular(P), outer))
    assert one == other
    assert one.counts.n().sum(axis=(0, 1)).all()  # all six are played


def test_observations_of_unknown_number_are_numbered_as_they_appear():
    atlas = ar.explore(Tabular(transitions(), **texts()), 4, max_episodes=60, max_states=6)
    assert atlas.counts.setting.n_states == 6
    names = [atlas.state_name(s) for s in range(len(atlas.numbering.observations.values))]
    assert sorted(names) == [f"state {s}" for s in range(4)]
    assert names[0] == "state 0"  # where it starts
    # more states than there are cost delta and unseen mass, so the bound is larger and never smaller
    fewer = ar.explore(Tabular(transitions(), **texts()), 4, max_episodes=60, max_states=4, algorithm="rf-ucrl", bounds="paper")
    more = ar.certify(
        ar.Counts.from_columns(ar.Setting(n_states=9, n_actions=2, horizon=4), fewer.counts.columns()), 0.1, "paper"
    )
    assert more.epsilon >= fewer.certificate.epsilon


def test_more_observations_than_promised_are_refused():
    with pytest.raises(ValueError, match=r"max_states = 3 .* larger max_states"):
        ar.explore(Tabular(transitions(), **texts()), 4, max_episodes=60, max_states=3)
    with pytest.raises(ValueError, match="max_states"):
        ar.explore(Tabular(transitions(), **texts()), 4, max_episodes=60)


def test_more_observations_than_the_audit_saw_are_refused_too():
    """A fourth state that random play hardly ever meets: what is certified assumes that there are no more."""
    P = np.zeros((4, 1, 4))
    P[:, :, 0], P[:, :, 1] = 0.5, 0.5
    env = Tabular(P, **texts())
    ar.explore(env, 3, max_episodes=5, max_states=2)

    class Late(Tabular):
        def step(self, action):
            out = super().step(action)
            return ("another", *out[1:]) if self.resets > 1_000 else out

    with pytest.raises(ValueError, match="max_states = 2"):
        ar.explore(Late(P, **texts()), 3, max_episodes=2_000, max_states=2, stationary=True)


def test_boxes_are_cut_into_bins_with_a_warning():
    P = transitions()
    with pytest.warns(UserWarning, match=r"certificate is about the process of the bins"):
        binned = ar.explore(Tabular(P, **box()), 3, max_episodes=40, bins=[4], seed=1)
    assert rows(binned.counts) == rows(ar.explore(Tabular(P), 3, max_episodes=40, seed=1).counts)
    with pytest.warns(UserWarning, match=r"bins"):
        edges = ar.explore(Tabular(P, **box()), 3, max_episodes=40, bins=[[0.25, 0.5, 0.75]], seed=1)
    assert edges == binned
    with pytest.warns(UserWarning, match=r"bins"):
        assert any("bins" in text for text in ar.audit(Tabular(P, **box()), 3, bins=[4], steps=50).warnings)


def test_a_box_without_bins_is_refused_with_the_fix():
    with pytest.raises(ValueError, match=r"bins=.* max_states="):
        ar.explore(Tabular(transitions(), **box()), 3, max_episodes=5)


def test_observations_outside_their_space_are_refused():
    for wrong in (9, -1, 1.5):
        env = Tabular(transitions(), observe=lambda s, wrong=wrong: wrong)
        with pytest.raises(ValueError, match=r"not in the space|whole number"):
            ar.explore(env, 3, max_episodes=5)


def test_rewards_that_are_no_numbers_are_refused():
    for wrong in (np.nan, np.inf):
        env = Tabular(transitions(), pay=lambda s, a, s_next, wrong=wrong: wrong)
        with pytest.raises(ValueError, match="finite"):
            ar.explore(env, 3, max_episodes=5)

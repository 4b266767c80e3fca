"""Sizes and conventions of a problem."""

import dataclasses
import json
import math

import numpy as np
import pytest

import anyreward as ar
from anyreward.setting import probability, whole_number


def setting(**changes):
    return ar.Setting(**{"n_states": 3, "n_actions": 2, "horizon": 4, **changes})


def test_sigma_is_the_largest_value_of_so_many_steps():
    np.testing.assert_allclose(setting(discount=0.5).sigma, [0, 1, 1.5, 1.75, 1.875], rtol=1e-15)
    np.testing.assert_array_equal(setting().sigma, [0, 1, 2, 3, 4])


@pytest.mark.parametrize(
    ("stationary", "initial_state", "laws"),
    [(False, 0, 24), (False, None, 25), (True, 0, 6), (True, None, 7)],  # S A H = 24, S A = 6, one more for the start
)
def test_laws_that_are_estimated(stationary, initial_state, laws):
    assert setting(stationary=stationary, initial_state=initial_state).n_distributions == laws


def test_layers_of_counts():
    assert setting().layers == 5
    assert setting(stationary=True).layers == 1


def test_numbers_are_made_plain():
    """NumPy's numbers are taken, and stored as Python's: a setting is written to files."""
    made = setting(n_states=np.int64(3), discount=1, stationary=np.bool_(True), initial_state=np.int32(2))
    assert made == setting(stationary=True, initial_state=2)
    values = dataclasses.asdict(made)
    empty = [values.pop(name) for name in ("absorbing_states", "illegal_actions", "assumed", "initial")]
    assert values.pop("terminal") is None
    assert values.pop("structure") is None
    assert {type(value) for value in values.values()} == {int, float, bool}
    assert empty == [(), (), (), ()]


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"n_states": 0}, "n_states is 0"),
        ({"n_actions": -1}, "n_actions is -1"),
        ({"horizon": 0}, "horizon is 0"),
        ({"horizon": 2.0}, "horizon is 2.0"),
        ({"n_states": "3"}, "n_states is '3'"),
        ({"discount": 0.0}, "discount is 0.0"),
        ({"discount": 1.0000001}, "discount is 1.0000001"),
        ({"discount": -0.5}, "discount is -0.5"),
        ({"discount": float("nan")}, "discount is nan"),
        ({"initial_state": 3}, "initial_state is 3"),
        ({"initial_state": -1}, "initial_state is -1"),
        ({"initial_state": 0.5}, "initial_state is 0.5"),
        ({"initial": [0.5, 0.5]}, "initial has 2 entries: there are 3 states"),
        ({"initial": [0.5, 0.5, 0.5]}, "initial sums to 1.5"),
        ({"initial": [1.5, -0.5, 0.0]}, "initial has the probability 1.5 for state 0"),
        ({"initial": [float("nan"), 0.5, 0.5]}, "initial has the probability nan for state 0"),
        ({"initial": [(0, 0.5), (3, 0.5)]}, "initial has state 3: states go from 0 to 2"),
        ({"initial": [(0, 0.5), (0, 0.5)]}, "initial names state 0 twice"),
        ({"initial": [(0, 0.5, 0.5)]}, "pairs"),
        ({"initial": [0.5, (0, 0.5), 0.0]}, "numbers, or pairs"),
        ({"initial": "all"}, "has to be a number"),
        ({"initial": 0.5}, "a list is needed"),
        ({"initial": [0.5, 0.5, 0.0], "initial_state": 0}, "initial_state and initial are both given"),
        ({"n_states": 2**30}, "too many"),  # 5 layers: more nodes than 32-bit numbers
    ],
)
def test_what_is_refused(changes, names):
    with pytest.raises(ValueError, match=names):
        setting(**changes)


def test_a_known_distribution_of_the_start_has_one_form():
    """However it is given: pairs of positive probability, by state, in plain numbers, as a file gives them back."""
    law = ((0, 0.25), (2, 0.75))
    for given in ([0.25, 0.0, 0.75], np.array([0.25, 0.0, 0.75]), [(2, 0.75), (0, 0.25)], law, [[0, 0.25], [2, 0.75]]):
        made = setting(initial=given)
        assert made.initial == law
        assert hash(made) == hash(setting(initial=law))
        assert not made.estimates_start
        assert ar.Setting(**json.loads(json.dumps(dataclasses.asdict(made)))) == made
        assert "initial state has the given distribution: state 0 with probability 0.25, state 2 with 0.75" in made.assumptions[0]
    certain = setting(initial=[0.0, 1.0, 0.0])
    assert certain == setting(initial_state=1)
    assert [part.tolist() for part in certain.starts] == [[1], [1.0]]
    assert setting().estimates_start
    assert not any(map(len, setting().starts))
    many = ar.Setting(n_states=100, n_actions=1, horizon=1, initial=np.full(100, 0.01))
    assert many.assumptions[0].endswith("state 5 with 0.01, and 94 more states")


@pytest.mark.parametrize("seed", range(20))
def test_rescaling_a_distribution_once_is_enough(seed):
    """Thirds do not sum to one: they are rescaled, and what was rescaled is not rescaled again when it is read from a file."""
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.full(7, 0.3)) * (1 + 1e-10 * rng.random())
    made = ar.Setting(n_states=7, n_actions=1, horizon=1, initial=law)
    assert ar.Setting(**json.loads(json.dumps(dataclasses.asdict(made)))) == made
    assert math.fsum(p for _, p in made.initial) == pytest.approx(1.0, abs=1e-15)


def test_digests_of_settings_without_a_distribution_are_those_of_earlier_versions():
    assert "initial" not in setting(initial_state=1).identity()
    assert setting(initial=[0.5, 0.5, 0.0]).identity()["initial"] == ((0, 0.5), (1, 0.5))


def test_pooled_steps_need_fewer_nodes():
    assert setting(n_states=2**30, stationary=True).n_states == 2**30


def test_a_setting_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        setting().horizon = 5


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, 1.5, float("nan"), float("inf")])
def test_probabilities_are_strictly_between_0_and_1(value):
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        probability(value, "delta")


@pytest.mark.parametrize("value", [1.0, "1", None, [1]])
def test_whole_numbers_are_whole(value):
    with pytest.raises(ValueError, match="it has to be a whole number"):
        whole_number(value, "it")

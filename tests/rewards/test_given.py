"""Lists of rewards: what they are called, and what is said of one that cannot be used."""

import numpy as np
import pytest

import anyreward as ar
from anyreward.rewards.given import Given, given_rewards, is_list

SETTING = ar.Setting(n_states=3, n_actions=2, horizon=4)


def test_a_text_is_its_own_name_and_others_are_numbered():
    found = given_rewards(["state == 1", np.zeros(3), lambda h, s, a: 1.0, "own"], SETTING, own=np.ones((3, 2)))
    assert [one.name for one in found] == ["state == 1", "rewards[1]", "rewards[2]", "own"]
    assert all(one.reward.shape == (4, 3, 2) for one in found)
    assert given_rewards(found, SETTING) == found
    (long,) = given_rewards(["state == 1 or " * 10 + "state == 2"], SETTING)
    assert len(long.name) == 60


def test_a_list_is_told_from_what_is_known_of_an_observed_reward():
    assert is_list([np.zeros(3)])
    assert is_list([])
    assert not is_list("random")
    assert not is_list(None)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ([], "rewards is an empty list"),
        ("state == 1", "rewards is 'state == 1': it has to be a list of rewards"),
        (3, "rewards is 3"),
        ([np.zeros(3), np.zeros((2, 2))], r"rewards\[1\] cannot be used: reward has shape \(2, 2\)"),
        ([np.zeros(3), [np.nan, 0, 0]], r"rewards\[1\] cannot be used: reward\[0\] is nan"),
        (["own"], r"rewards\[0\] is 'own', but what this environment pays is not known beforehand"),
        (["no.csv"], "the reward 'no.csv' cannot be used: no.csv does not exist"),
    ],
)
def test_what_cannot_be_used_is_named(wrong, says):
    with pytest.raises(ValueError, match=says):
        given_rewards(wrong, SETTING)


def test_a_name_goes_with_its_reward():
    given = Given("mine", np.zeros((4, 3, 2)))
    assert given_rewards([given], SETTING)[0].name == "mine"

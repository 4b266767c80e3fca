"""What every rival algorithm refuses: missing rewards and budgets, and unknown options."""

import math

import pytest

import anyreward as ar

from ..helpers.explorers import FIXED_START, REWARD, some


@pytest.mark.parametrize("name", [name for name, kind in ar.ALGORITHMS.items() if kind.needs_reward])
def test_a_reward_is_needed_and_has_to_be_in_0_to_1(name):
    more = {"budget": 9} if ar.ALGORITHMS[name].needs_budget else {}
    with pytest.raises(ValueError, match="reward is not given"):
        ar.ALGORITHMS[name](FIXED_START, **more)
    for bad in ([0, 0, 1.5], [0, math.nan, 0], [-0.1, 0, 0], [0, 1], "gold"):
        with pytest.raises(ValueError, match="reward"):
            ar.ALGORITHMS[name](FIXED_START, bad, **more)


@pytest.mark.parametrize("name", [name for name, kind in ar.ALGORITHMS.items() if kind.needs_budget])
def test_a_budget_is_needed_and_has_to_be_positive(name):
    more = {"reward": REWARD} if ar.ALGORITHMS[name].needs_reward else {}
    with pytest.raises(ValueError, match="budget is not given"):
        ar.ALGORITHMS[name](FIXED_START, **more)
    for bad in (0, -3, 2.5):
        with pytest.raises(ValueError, match="budget is"):
            ar.ALGORITHMS[name](FIXED_START, budget=bad, **more)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("fiechter", {"variant": "new"}),
        ("fiechter", {"eta": 0.0}),
        ("euler", {"variant": "new"}),
        ("jin2020", {"variant": "new"}),
        ("jin2020", {"n0": 0}),
        ("ucbvi", {"bonus": "best"}),
        ("regret-uniform", {"bonus": "best"}),
        ("regret-instances", {"bonus": "best"}),
        ("regret-instances", {"evaluation": 1.0}),
        ("ucbvi", {"ties": "last"}),
        ("opt-qlearning", {"ties": "last"}),
        ("ucrl2", {"rewards": "deterministic"}),
        ("random", {"ties": "first"}),
    ],
)
def test_unknown_options_are_refused_at_once(name, option):
    with pytest.raises(ValueError, match=next(iter(option))):
        some(name, FIXED_START, **option)

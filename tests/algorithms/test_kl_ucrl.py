"""KL-UCRL: where its constant is proved, and that it guarantees nothing elsewhere."""

import pytest

import anyreward as ar
from anyreward.algorithms import KLUCRL

from ..helpers.explorers import FIXED_START, REWARD, told


def test_kl_ucrl_refuses_what_its_constant_is_not_proved_for():
    """Below b = 6.1 the closed form falls short: with one state, one action and a large delta."""
    setting = ar.Setting(n_states=1, n_actions=1, horizon=2, initial_state=0)
    with pytest.raises(ValueError, match=r"delta is 0\.9"):
        KLUCRL(setting, [0.5], budget=5, delta=0.9)


def test_kl_ucrl_guarantees_nothing_beyond_its_budget():
    """T bounds every count in the union: once there are more transitions, nothing is proved."""
    explorer = KLUCRL(FIXED_START, REWARD, budget=20)
    assert told(explorer, 20).own_epsilon is not None
    assert told(explorer, 1).own_epsilon is None

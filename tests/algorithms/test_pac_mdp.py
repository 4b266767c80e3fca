"""Which algorithms are PAC-MDP, and which of them bound the number of their bad episodes."""

import math

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms import make_explorer

PROVED = {"r-max", "mbie", "mbie-eb", "delayed-q", "ucfh"}
NOT_PROVED = {"ubev"}  # its constants are not published


def test_goals_tell():
    assert {name for name, kind in ar.ALGORITHMS.items() if kind.goal == "PAC-MDP"} == PROVED | NOT_PROVED
    assert ar.ALGORITHMS["e3"].goal == "reward-free"  # neither what it plays nor when it ends looks at a reward


@pytest.mark.parametrize("name", ar.ALGORITHMS)
def test_only_what_is_proved_is_bounded(name):
    """A finite number for the epsilon that it was made for, which falls as epsilon grows."""
    kind, setting = ar.ALGORITHMS[name], ar.Setting(n_states=3, n_actions=2, horizon=3, initial_state=0)
    explorer = make_explorer(kind, setting, {}, own_reward=np.array([0.0, 0.5, 1.0]), max_episodes=100, epsilon=0.5)
    bounds = [explorer.mistake_bound(epsilon) for epsilon in (0.5, 1.0)]
    if name in PROVED:
        assert math.inf > bounds[0] > bounds[1] > 0
        units = make_explorer(
            kind, setting, {"reward_range": (0, 4)}, own_reward=np.array([0.0, 2.0, 4.0]), max_episodes=100, epsilon=2.0
        )
        assert units.mistake_bound(2.0) == pytest.approx(bounds[0])
    else:
        assert bounds == [None, None]

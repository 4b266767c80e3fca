"""Data that contradict `stationary=True` are refused, on every way in; data that do not are not.

It watches `docs/theory.md`, 9.9.
"""

import numpy as np
import pandas as pd
import pytest

import anyreward as ar
from anyreward.data.likelihood import ALARM, check_stationary, log_evidence_by_step, p_value

from ..helpers.coverage import allowed

H = 6


def episodes(late: float, B: int, seed: int = 0):
    """A coin for each step: heads with probability 0.5, in the second half of an episode with probability `late`."""
    rng = np.random.default_rng(seed)
    p = np.where(np.arange(H) < H // 2, 0.5, late)
    states = np.zeros((B, H + 1), np.int64)
    states[:, 1:] = rng.random((B, H)) < p
    return states, rng.integers(2, size=(B, H))


def setting(**changes):
    return ar.Setting(n_states=2, n_actions=2, horizon=H, initial_state=0, stationary=True, **changes)


def log_of(states, actions):
    b, h = np.divmod(np.arange(actions.size), H)
    return pd.DataFrame(
        {"id": b, "t": h, "s": states[:, :-1].reshape(-1), "a": actions.reshape(-1), "then": states[:, 1:].reshape(-1)}
    )


WAYS = {
    "episodes": lambda states, actions: ar.Counts.from_episodes(states, actions, setting()),
    "log": lambda states, actions: ar.Counts.from_dataframe(
        log_of(states, actions), horizon=H, episode="id", step="t", state="s", action="a", next="then", stationary=True
    ),
    "transitions": lambda states, actions: ar.Counts.from_dataframe(
        log_of(states, actions).rename(columns={"t": "h", "then": "next"})[["h", "s", "a", "next"]], setting()
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_data_that_depend_on_the_step_are_refused(way):
    with pytest.raises(ValueError, match="stationary is True, but the data contradict it: their transitions depend on the step"):
        WAYS[way](*episodes(0.9, 200))
    assert WAYS[way](*episodes(0.5, 200)).episodes == 200
    assert WAYS[way](*episodes(0.9, 2)).episodes == 2  # too few to tell


def test_a_structure_that_pools_the_steps_is_checked_as_well():
    coin = ar.Structure(law=lambda s, a: "coin", outcomes=2, successor=lambda s, a, x: x)
    with pytest.raises(ValueError, match="the data contradict it"):
        ar.Counts.from_episodes(*episodes(0.9, 200), setting(structure=coin))


def test_absorbing_states_do_not_count():
    """Episodes in which the step can be read off the state, which is never left, depend on it in no other way."""
    states, actions = episodes(0.5, 300)
    states[:, 3:] = 2
    known = ar.Setting(n_states=3, n_actions=2, horizon=H, initial_state=0, stationary=True, absorbing_states=(2,))
    with pytest.raises(ValueError, match="contradict"):
        ar.Counts.from_episodes(states, actions, known)  # getting there depends on the step
    states[:, 3:], states[:, 1:3] = 2, 2
    assert ar.Counts.from_episodes(states, actions, known).episodes == 300


def test_false_alarms_are_as_rare_as_they_say():
    """At every look, where the next step is the one that differs most so far; without the prior, most runs would alarm."""
    runs, alarms, careless = 200, 0, 0
    for seed in range(runs):
        rng, n = np.random.default_rng(seed), np.zeros((3, 2))
        alarm = wrong = False
        for _ in range(60):
            away = np.abs((n[:, 1] + 1) / (n.sum(axis=1) + 2) - (n[:, 1].sum() + 1) / (n.sum() + 2))
            n[int(away.argmax()) if rng.random() < 0.7 else rng.integers(3), int(rng.random() < 0.3)] += 1
            h, y = np.nonzero(n)
            zero = np.zeros_like(h)
            alarm |= p_value(log_evidence_by_step(h, zero, zero, y, n[h, y], 2, 1, 1)) <= 0.2
            shares = n / np.maximum(n.sum(axis=1, keepdims=True), 1)
            pooled = n.sum(axis=0) / n.sum()
            ratio = (n[h, y] * np.log(shares[h, y] / pooled[y])).sum()
            wrong |= p_value(float(ratio)) <= 0.2
        alarms += alarm
        careless += wrong
    assert alarms <= allowed(0.2, runs)
    assert careless > allowed(0.2, runs)
    assert ALARM == 0.01


def test_many_states_do_not_overflow():
    """Once the key of a transition was step, state, action and successor in one number, which 10^8 states are too many for."""
    S, rng = 10**8, np.random.default_rng(0)
    some = rng.integers(S, size=4)
    y = some[rng.integers(4, size=4000)]
    moves = np.stack(
        [np.arange(4000) % 900, some[rng.integers(4, size=4000)], rng.integers(50, size=4000), y, np.ones(4000, int)], axis=1
    )
    check_stationary(moves, ar.Setting(n_states=S, n_actions=50, horizon=900, stationary=True, initial_state=0))
    moves[:, 0], moves[:, 1], moves[:, 2] = np.arange(4000) % 2 * 899, some[0], 49
    moves[:, 3] = some[moves[:, 0] % 2]
    with pytest.raises(ValueError, match="contradict"):
        check_stationary(moves, ar.Setting(n_states=S, n_actions=50, horizon=900, stationary=True, initial_state=0))

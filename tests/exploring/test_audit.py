"""The first look at an environment: what it reports, how rarely it is alarmed for nothing, and that it is with reason.

It watches `docs/theory.md`, 9.9.
"""

import itertools
import time
import warnings
from math import exp, log

import gymnasium as gym
import numpy as np
import pytest
from scipy import stats

import anyreward as ar
from anyreward.data.likelihood import ALARM, log_likelihood_ratio

from ..helpers.problems import newest
from ..helpers.tabular import MASK, Tabular, texts, transitions


class Memory(Tabular):
    """Goes back with probability 0.6 to where it was before the present state: more than that state tells."""

    def step(self, action):
        before, now = getattr(self, "before", 0) if self.t else 0, self.s
        out = super().step(action)
        self.before = now
        if self.np_random.random() < 0.6:
            self.s = before
        return self.s, *out[1:]


class Drifting(Tabular):
    """Markov, but from step 5 on it follows other laws."""

    def step(self, action):
        late, s = self.t >= 5, self.s
        out = super().step(action)
        if late and self.np_random.random() < 0.5:
            self.s = s
        return self.s, *out[1:]


# What it reports


def test_frozen_lake_is_described():
    audit = ar.audit("FrozenLake-v1", 10)
    assert (audit.name, audit.n_states, audit.n_actions, audit.horizon, audit.limit) == ("FrozenLake-v1", 16, 4, 10, 100)
    assert set(audit.starts) == {0}
    assert audit.starts[0] == audit.episodes > 400
    assert 0.6 < audit.ended < 0.9
    assert audit.ends == 5
    assert audit.states_seen == 16
    assert audit.terminal == "outcome"
    assert not audit.mixed
    assert "If you know that none ever does, terminal='state'" in str(audit)
    assert not audit.masked
    assert audit.rewards == (0.0, 1.0)
    text = str(audit)
    for word in (
        "16 states",
        "4 actions",
        "Initial state: always state 0",
        "If it is fixed, pass initial_state=0.",
        "Time limit: 100",
        "Markov: no evidence against it (likelihood-ratio test, p = ",
        "warns at p <= 0.01",
        "Rewards: from 0 to 1",
    ):
        assert word in text


def test_its_horizon_is_the_time_limit_unless_it_is_given():
    assert ar.audit("FrozenLake-v1", steps=200).horizon == 100
    assert ar.audit("FrozenLake-v1", 7, steps=200).horizon == 7
    assert ar.audit(Tabular(transitions()), steps=200).horizon == 100
    assert ar.audit(gym.wrappers.TimeLimit(Tabular(transitions()), 12), steps=200).horizon == 12


def test_taxi_and_blackjack_are_described():
    taxi = ar.audit(newest("Taxi"), 20, steps=1_000)
    assert taxi.masked
    assert taxi.n_states == 500
    assert len(taxi.starts) > 10
    assert "illegal" in str(taxi)
    blackjack = ar.audit("Blackjack-v1", 5, steps=2_000)
    assert blackjack.terminal == "outcome"
    assert blackjack.mixed
    assert blackjack.n_states == 704
    assert "terminal='state'" not in str(blackjack)
    assert "one extra state" in str(ar.audit("Blackjack-v1", 5, steps=2_000, terminal="end"))


def test_observations_of_unknown_number_are_described():
    audit = ar.audit(Tabular(transitions(), **texts()), 5, max_states=9, steps=300)
    assert audit.n_states == 9
    assert audit.states_seen == 4
    assert any("at most 9" in text for text in audit.warnings)


def test_a_declared_limit_before_the_horizon_is_refused():
    with pytest.raises(ValueError, match="max_episode_steps=101"):
        ar.audit("FrozenLake-v1", 101)


def test_a_hidden_limit_before_the_horizon_is_reported_or_refused():
    """Exploring is refused for that: the audit has seen it in every one of its episodes and must not be silent."""
    env = Tabular(transitions(), cut=3)
    try:
        text = str(ar.audit(env, 6))
    except ValueError as problem:
        text = str(problem)
    assert "truncated" in text or "time limit" in text
    assert "3" in text


def test_the_same_seed_gives_the_same_report():
    one, again, other = (ar.audit(Tabular(transitions()), 6, steps=500, seed=seed) for seed in (1, 1, 2))
    assert one == again
    assert one._transitions != other._transitions


def test_steps_are_about_as_many_as_asked_for():
    assert 500 <= len(ar.audit(Tabular(transitions()), 6, steps=500)._transitions) < 506


def test_a_known_model_is_taken_at_its_word():
    audit = ar.audit(ar.TabularMDP(transitions(), initial=[0.5, 0.5, 0, 0]), 5)
    assert (audit.n_states, audit.n_actions, audit.horizon) == (4, 2, 5)
    assert set(audit.starts) == {0, 1}
    assert "known model" in str(audit)


def test_illegal_actions_are_not_played_by_the_audit_either():
    audit = ar.audit(Tabular(transitions(4, 3), mask=MASK), 5, steps=500)
    assert audit.masked
    played = {(s, a) for _, s, a, _ in audit._transitions}
    assert played == {(int(s), int(a)) for s, a in np.argwhere(MASK)}


# The tests


@pytest.mark.parametrize("p", [0.5, 0.2, 0.03])
@pytest.mark.parametrize("alphabet", [2, 5])
def test_the_ratio_is_at_most_1_in_expectation(p, alphabet):
    """Exactly: over all sequences of eight draws in two rows with two contexts. Markov's inequality does the rest."""
    n, total = 8, 0.0
    for ys in itertools.product((0, 1), repeat=n):
        samples = [(i % 4 // 2, i % 2, y) for i, y in enumerate(ys)]
        total += p ** sum(ys) * (1 - p) ** (n - sum(ys)) * exp(log_likelihood_ratio(samples, 3, alphabet))
    assert total <= 1 + 1e-12


def test_the_ratio_is_what_its_formula_says():
    """One row, contexts A and B: plain arithmetic."""
    samples = [("r", "A", 0), ("r", "A", 0), ("r", "B", 1)]
    half = 0.5 / 2
    q = (half / 0.5 / 1.0) * ((1 + (1 + half) / 1.5) / 2.0) * ((half / 2.5) / 1.0)
    e = q / ((2 / 3) ** 2 * (1 / 3))
    assert log_likelihood_ratio(samples, 1, 2) == pytest.approx(log(e))
    e_mean = (e + 3) / 4  # three rows without data have e = 1
    assert log_likelihood_ratio(samples, 4, 2) == pytest.approx(log((e + e_mean) / 2))
    assert log_likelihood_ratio([], 4, 2) == pytest.approx(0.0)


@pytest.mark.slow
@pytest.mark.parametrize("stationary", [False, True])
def test_alarms_are_false_at_most_once_in_a_hundred(stationary):
    """Markov chains of all sizes, with ends and masks: 300 of them, alarmed as rarely as promised."""
    seeds, alarms, drifts = 300, 0, 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        S, A = int(rng.integers(2, 5)), int(rng.integers(1, 3))
        P = rng.dirichlet(np.full(S, 0.5), (S, A))
        env = Tabular(P, ends=(S - 1,) if seed % 3 == 0 else ())
        audit = ar.audit(env, int(rng.integers(3, 9)), steps=300, seed=seed, stationary=stationary)
        alarms += audit.markov <= ALARM
        drifts += audit.stationary <= ALARM
    most = stats.binom.ppf(0.999, seeds, ALARM)
    assert alarms <= most
    assert drifts <= most


@pytest.mark.slow
def test_memory_is_noticed():
    for seed in range(5):
        for stationary in (False, True):
            audit = ar.audit(Memory(transitions(3)), 6, seed=seed, stationary=stationary)
            assert audit.markov <= ALARM
            assert "warning: the next observation depends on more" in str(audit)


@pytest.mark.slow
def test_dynamics_that_depend_on_the_step_are_noticed():
    for seed in range(5):
        audit = ar.audit(Drifting(transitions(3)), 10, seed=seed, stationary=True)
        assert audit.stationary <= ALARM
        assert "use stationary=False" in str(audit)
        free = ar.audit(Drifting(transitions(3)), 10, seed=seed)
        assert free.markov > ALARM  # for each step of its own it is Markov
        assert "warning" not in str(free)


def test_ends_that_depend_on_the_past_are_noticed():
    """Where it goes is Markov; whether it ends there is not."""

    class Fuse(Tabular):
        def step(self, action):
            before, out = getattr(self, "came", 0) if self.t else 0, None
            self.came = self.s
            out = super().step(action)
            return *out[:2], before == 1 and self.s == 2, *out[3:]

    audit = ar.audit(Fuse(np.full((3, 1, 3), 1 / 3)), 6, stationary=True)
    assert audit.mixed
    assert audit.markov <= ALARM


# The forecast


@pytest.mark.slow
@pytest.mark.parametrize(("stationary", "horizon", "epsilon"), [(True, 8, 4.0), (False, 5, 3.0)])
def test_the_forecast_is_about_what_it_takes(stationary, horizon, epsilon):
    audit = ar.audit("FrozenLake-v1", horizon, stationary=stationary)
    needed = ar.explore("FrozenLake-v1", horizon, epsilon, stationary=stationary, replan="geometric").episodes
    assert needed / 10 < audit.forecast(epsilon) < 10 * needed
    assert audit.forecast(epsilon / 2) > 2 * audit.forecast(epsilon)
    assert f"for epsilon {epsilon:g}" in audit.forecast_lines(epsilon)[0]


@pytest.mark.parametrize("terminal", [None, "end"])
def test_the_forecast_knows_ends(terminal):
    assert ar.audit("Blackjack-v1", 3, stationary=True, steps=500, terminal=terminal).forecast(5.0) > 0


def test_what_it_reports_does_not_depend_on_how_fast_the_environment_is():
    """A run's choices are made by numbers of steps and never by the clock."""

    class Slow(Tabular):
        def step(self, action):
            time.sleep(0.002)
            return super().step(action)

    fast, slow = (ar.audit(kind(transitions(), ends=(3,)), 6, steps=300, seed=1) for kind in (Tabular, Slow))
    assert fast._transitions == slow._transitions
    assert str(fast).partition(":")[2] == str(slow).partition(":")[2]
    assert fast.forecast(5.0) == slow.forecast(5.0)


@pytest.mark.slow
def test_what_speaks_against_an_exploration_is_kept_with_it():
    """Bins of a mountain car are not Markov: whoever gets the atlas is told."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        atlas = ar.explore("MountainCar-v0", 100, max_episodes=5, stationary=True, bins=[8, 8])
    texts = " ".join(str(warning.message) for warning in said)
    assert "assumes that it is Markov" in texts
    assert "depends on more than the present observation" in texts
    assert any("depends on more than the present observation" in line for line in atlas.source["alarms"])
    assert "alarms" not in ar.explore("FrozenLake-v1", 10, max_episodes=5, stationary=True).source


# What could be assumed


def line(P=4):
    """Deterministic: action 1 goes on, action 0 goes back."""
    out = np.zeros((P, 2, P))
    for s in range(P):
        out[s, 0, max(0, s - 1)] = out[s, 1, min(P - 1, s + 1)] = 1.0
    return out


def test_stationarity_is_suggested_unless_the_test_is_against_it():
    free, told = (ar.audit(Tabular(transitions(3)), 6, stationary=flag) for flag in (False, True))
    assert "If you know that the transitions do not depend on the step, stationary=True" in str(free)
    assert "If you know that the transitions" not in str(told)
    drifting = ar.audit(Drifting(transitions(3)), 10)
    assert drifting.stationary <= ALARM
    assert "stationary=True" not in str(drifting)
    assert not any("stationary=True" in text for text in drifting.forecast_lines(9.0))


def test_what_has_looked_deterministic_is_said_to():
    audit = ar.audit(Tabular(line()), 6)
    assert audit.tried_again == 8
    assert "Deterministic: it has looked so. 8 pairs" in str(audit)
    assert "If you know that it is deterministic, deterministic=True" in str(audit)
    noisy = ar.audit(Tabular(transitions(3)), 6)
    assert noisy.tried_again == 0
    assert "eterministic" not in str(noisy)
    assert ar.audit(Tabular(line()), 2, steps=1).tried_again == 0  # nothing was played twice


def test_the_forecast_is_in_episodes_and_in_time_and_under_each_assumption():
    audit = ar.audit(Tabular(line()), 6)
    audit._rate = 100.0
    first, stationary, single, both = audit.forecast_lines(2.0)
    needed = [audit.forecast(2.0, **options) for options in ({}, {"stationary": True}, {"deterministic": True})]
    needed.append(audit.forecast(2.0, stationary=True, deterministic=True))
    for text, episodes in zip((first, stationary, single, both), needed, strict=True):
        assert f"about {episodes:.2g} episodes (" in text
        assert "at this rate)" in text
    assert needed[0] > max(needed[1:3]) > needed[3]
    assert "This is a low estimate" in first
    assert stationary.startswith("  With stationary=True, if you know that it holds: ")
    assert single.startswith("  With deterministic=True, if you know that it holds: ")
    assert both.startswith("  With both, if you know that they hold: ")


def test_a_known_model_has_a_forecast_without_a_time():
    (text,) = ar.audit(ar.envs.double_chain(5), 4).forecast_lines(2.0)
    assert text.startswith("Forecast: about ")
    assert "rate" not in text
    assert "low" not in text


def test_a_start_that_is_known_is_reported_as_that():
    """It is not going to be estimated, and the forecast knows it."""
    law = np.array([0.5, 0.3, 0.2, 0.0])
    env = Tabular(transitions(), start=law)
    open_, known = ar.audit(env, 3), ar.audit(env, 3, initial=law)
    assert "The start will be estimated" in str(open_)
    assert "Initial state: the initial state has the given distribution: state 0 with probability 0.5" in str(known)
    assert known.forecast(1.0) < open_.forecast(1.0)

"""Robust planning against brute force: no model in the balls has a value outside the interval, and some reach its ends.

It watches `docs/theory.md`, 6.1.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import anyreward as ar
from anyreward.certificates.bounds import PaperBound, TightBound
from anyreward.kernels.robust import LOWER, UPPER
from anyreward.testing import random_episodes

from ..helpers import bpi_reference, reference
from ..helpers.bounds import robust_planning
from ..helpers.problems import data, seeds
from ..helpers.tight_reference import on_radii, per_row

SETTINGS = {
    "step-dependent": ar.Setting(n_states=3, n_actions=2, horizon=3, initial_state=0),
    "stationary": ar.Setting(n_states=3, n_actions=2, horizon=4, initial_state=1, discount=0.8, stationary=True),
    "random start": ar.Setting(n_states=3, n_actions=2, horizon=3),
    "known law of the start": ar.Setting(n_states=3, n_actions=2, horizon=3, initial=(0.7, 0.0, 0.3)),
    "stationary, random start": ar.Setting(n_states=4, n_actions=2, horizon=3, stationary=True),
}


def problem(setting, seed, bound=None, episodes=40, delta=0.3):
    """Counts, their balls, a reward: also as dense arrays."""
    states, actions = random_episodes(setting, episodes, seed)
    counts = ar.Counts.from_episodes(states, actions, setting)
    reward = np.random.default_rng(seed).random((setting.horizon, setting.n_states, setting.n_actions))
    robust = robust_planning(counts, bound or TightBound(), delta, reward)
    starts, n = reference.dense_counts(states, actions, setting)
    return robust, reward, starts, n, per_row(counts, robust.radii)


def random_laws(N, c, how_many, rng):
    """Laws in the ball, (how_many, S), anywhere if there is no data: as far as KL allows from p_hat towards random ones.

    KL(q, .) <= c is convex, so a line from q leaves it once.
    """
    target = rng.dirichlet(np.full(len(N), rng.choice([0.05, 1.0])), how_many)
    if not N.sum():
        return target
    q, low, high = N / N.sum(), np.zeros((how_many, 1)), np.ones((how_many, 1))
    for _ in range(40):
        middle = (low + high) / 2
        inside = (reference.kl(q, (1 - middle) * q + middle * target) <= c)[:, None]
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return (1 - low) * q + low * target


def random_models(setting, starts, n, c, c_start, how_many, rng):
    """Start laws (S,) and transitions (H, S, A, S) in the balls; in a stationary setting the same at each step."""
    S, A, steps = setting.n_states, setting.n_actions, 1 if setting.stationary else setting.horizon
    laws = {at: random_laws(n[at], c[at], how_many, rng) for at in np.ndindex(steps, S, A)}
    law = reference.known_start(setting)
    start = random_laws(starts, c_start, how_many, rng) if law is None else np.tile(law, (how_many, 1))
    for i in range(how_many):
        P = np.array([law[i] for law in laws.values()]).reshape(steps, S, A, S)
        yield start[i], np.broadcast_to(P, (setting.horizon, S, A, S))


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("bound", [TightBound(), PaperBound()], ids=["tight", "paper"])
def test_no_model_in_the_balls_is_outside(setting, bound):
    rng = np.random.default_rng(0)
    robust, reward, starts, n, c = problem(setting, seed=1, bound=bound)
    S, A, H = setting.n_states, setting.n_actions, setting.horizon
    deterministic, stochastic = rng.integers(0, A, (H, S)), rng.dirichlet(np.ones(A), (H, S))
    best = robust.best(LOWER)[1], robust.best(UPPER)[1]
    cautious = robust.best(LOWER)[0].argmax(axis=2)
    intervals = {
        name: (policy, robust.of(policy, LOWER), robust.of(policy, UPPER))
        for name, policy in (("deterministic", deterministic), ("stochastic", stochastic), ("cautious", cautious))
    }
    assert intervals["cautious"][1] == pytest.approx(best[0], abs=1e-12)
    for start, P in random_models(setting, starts, n, c, robust.radii[0], 100, rng):
        optimum = start @ reference.q_values(P, None, reward, setting.discount)[1][0]
        assert best[0] - 1e-12 <= optimum <= best[1] + 1e-12
        for policy, lower, upper in intervals.values():
            value = start @ reference.q_values(P, policy, reward, setting.discount)[1][0]
            assert lower - 1e-12 <= value <= upper + 1e-12


@pytest.mark.slow
@hypothesis_settings(max_examples=60)
@given(data(max_episodes=30), st.sampled_from(["paper", "tight"]), seeds)
def test_values_follow_the_formulas(problem, bounds, seed):
    """Against dense loops, for the best actions and for a stochastic policy, on both sides."""
    setting, states, actions = problem
    S, A, H = setting.n_states, setting.n_actions, setting.horizon
    rng = np.random.default_rng(seed)
    reward, policy = rng.random((H, S, A)), rng.dirichlet(np.ones(A), (H, S))
    counts = ar.Counts(setting)
    counts.add_episodes(states, actions)
    robust = robust_planning(counts, PaperBound() if bounds == "paper" else TightBound(), 0.1, reward)
    starts, n = reference.dense_counts(states, actions, setting)
    spent = 0.1 if bounds == "paper" else on_radii(setting, 0.1)
    c, c_start = bpi_reference.radii_of(starts, n, setting, spent, bounds)
    for side, extreme in ((LOWER, bpi_reference.smallest), (UPPER, bpi_reference.largest)):
        Q, V = bpi_reference.induct(n, setting, c, reward, extreme, S)
        found, value = robust.best(side)
        np.testing.assert_allclose(found, Q, rtol=0, atol=1e-9)
        assert value == pytest.approx(bpi_reference.from_start(starts, setting, c_start, V[0], extreme), abs=1e-9)
        _, V = bpi_reference.induct(n, setting, c, reward, extreme, S, policy)
        right = bpi_reference.from_start(starts, setting, c_start, V[0], extreme)
        assert robust.of(policy, side) == pytest.approx(right, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_the_ends_are_reached(seed):
    """In a step-dependent problem the extreme laws of all balls together are a model: coordinate ascent finds it.

    Each law in turn, from the last step back, is replaced by the best of many in its ball. The found values come close to the
    ends, so the ends are not too wide.
    """
    setting, rng = SETTINGS["step-dependent"], np.random.default_rng(seed)
    robust, reward, _, n, c = problem(setting, seed)
    policy = rng.integers(0, 2, (3, 3))
    for sign, side in ((1, UPPER), (-1, LOWER)):
        V = np.zeros(3)
        for h in reversed(range(3)):
            ahead = np.zeros((3, 2))
            for s in range(3):
                a = policy[h, s]
                laws = random_laws(n[h, s, a], c[h, s, a], 2000, rng) if n[h, s, a].sum() else np.eye(3)
                ahead[s, a] = sign * (sign * laws @ V).max()
            V = (reward[h] + ahead)[np.arange(3), policy[h]]
        end = robust.of(policy, side)
        assert sign * V[0] <= sign * end + 1e-12
        assert V[0] == pytest.approx(end, abs=0.01)


def test_a_pair_without_data_can_lead_anywhere():
    setting = ar.Setting(n_states=3, n_actions=1, horizon=2, initial_state=0)
    reward = np.zeros((2, 3, 1))
    reward[1, :, 0] = 0.2, 0.5, 0.9
    robust = robust_planning(ar.Counts(setting), TightBound(), 0.1, reward)
    policy = np.zeros((2, 3), int)
    assert (robust.of(policy, LOWER), robust.of(policy, UPPER)) == (0.2, 0.9)


def test_once_all_successors_are_seen_others_are_out():
    """With at most 2 successors, both seen, the interval is between their values; without that knowledge it is wider."""
    setting = ar.Setting(n_states=3, n_actions=1, horizon=2, initial_state=0)
    counts = ar.Counts.from_episodes([[0, 0, 0], [0, 1, 0]], [[0, 0], [0, 0]], setting)
    reward = np.zeros((2, 3, 1))
    reward[1, :, 0] = 0.2, 0.5, 0.9
    known, unknown = (robust_planning(counts, TightBound(max_successors=K), 0.1, reward) for K in (2, None))
    assert 0.2 <= known.best(LOWER)[1] <= known.best(UPPER)[1] <= 0.5 < unknown.best(UPPER)[1] <= 0.9

"""Random declared structures: one empirical model behind every value, which lies in its interval, however few the data."""

import numpy as np
import pytest

import anyreward as ar
from anyreward.atlas.exporting import Rows

from ..helpers.random_structures import random_problem

EPISODES = (0, 1, 4)
SEEDS = range(28)


def value_in(P, start, reward, pi, discount):
    """The value of a policy (H, S, A) in a dense model (H, S, A, S), for rewards on arrival (H, S, A, S)."""
    V = np.zeros(len(start))
    for h in range(len(pi) - 1, -1, -1):
        V = (pi[h] * (P[h] * (reward[h] + discount * V)).sum(axis=-1)).sum(axis=-1)
    return start @ V


def contained(interval):
    return interval.lower <= interval.value <= interval.upper


@pytest.mark.parametrize("seed", SEEDS)
def test_values_are_those_of_one_model_and_lie_in_their_intervals(seed):
    rng, problem = np.random.default_rng((seed, 1)), random_problem(seed)
    setting = problem.setting
    S, A, H = setting.n_states, setting.n_actions, setting.horizon
    legal = np.ones((S, A), bool)
    for pair in setting.illegal_actions:
        legal[pair] = False
    reward, cost, paid = rng.random((H, S, A)), rng.random((S, A)), rng.random((S, A, S))
    mixed = rng.dirichlet(np.ones(A), (H, S)) * legal
    mixed /= mixed.sum(axis=-1, keepdims=True)
    goal = [int(rng.integers(0, S))]
    for episodes in EPISODES:
        states, actions = problem.play(episodes, rng)
        counts = ar.Counts.from_episodes(states, actions, setting)
        atlas = ar.Atlas(counts, ar.certify(counts, delta=0.5))
        P = problem.dense(problem.estimates(problem.counted(states, actions)))
        start = problem.start
        if setting.estimates_start:
            start = np.bincount(states[:, 0], minlength=S) / episodes if episodes else np.full(S, 1 / S)
        rewards = [(reward, np.repeat(reward[..., None], S, axis=-1))]
        if setting.arrival_rewards:
            rewards.append((lambda h, s, a, then: paid[s, a, then], np.broadcast_to(paid, (H, S, A, S))))
        for given, dense in rewards:
            for cautious in (False, True):
                plan = atlas.plan(given, cautious=cautious)
                assert contained(plan)
                assert plan.value == pytest.approx(value_in(P, start, dense, np.eye(A)[plan.policy], setting.discount), abs=1e-9)
            for policy in (mixed, mixed.argmax(axis=-1)):
                found, pi = atlas.evaluate(policy, given), policy if policy.ndim == 3 else np.eye(A)[policy]
                assert contained(found)
                assert found.value == pytest.approx(value_in(P, start, dense, pi, setting.discount), abs=1e-9)
        limited = atlas.plan(reward, subject_to=[(cost, "<=", float(H))])
        assert contained(limited)
        assert all(contained(each) for each in limited.costs)
        for found in (atlas.reach(goal), atlas.reach(goal, cautious=True), atlas.avoid(goal)):
            assert contained(found.value)


@pytest.mark.parametrize("seed", range(0, 28, 4))
def test_the_empirical_model_is_written_as_it_is_planned_in(seed):
    problem, rng = random_problem(seed), np.random.default_rng(seed)
    states, actions = problem.play(1, rng)
    counts = ar.Counts.from_episodes(states, actions, problem.setting)
    P = problem.dense(problem.estimates(problem.counted(states, actions)))
    rows = Rows(ar.Atlas(counts, ar.certify(counts)), empirical=True)
    for h, s, a in np.ndindex(1 if rows.setting.stationary else len(P), *P.shape[1:3]):
        row = rows.of(h, s, a)
        if row is not None:
            np.testing.assert_allclose(np.bincount(row[0], row[1], rows.setting.n_states), P[h, s, a], atol=1e-12)

"""What designs are made from: expected visits, sets of successors, and how many successors were missed."""

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms.designing import Designer, draws_for, other_successors, scouted
from anyreward.certificates.calibrated import Shares


def slippery(share, n=600):
    """Counts of two actions in each of five states, that lead to one state each, and to that of the other one now and then."""
    few = round(share * n)
    return {(s, a): {10 + a: n - few, **({11 - a: few} if few else {})} for s in range(5) for a in range(2)}


def test_successors_of_other_actions_are_likely_where_pairs_that_were_seen_often_have_them():
    assert other_successors(slippery(0.02), 2)(50)
    assert not other_successors(slippery(0.02), 2)(400)  # they would have been seen
    assert not other_successors(slippery(0.0), 2)(250)
    assert other_successors({(0, 0): {1: 3}, (0, 1): {2: 2}}, 2)(3)  # nothing tells against it yet
    assert other_successors({}, 2)(1)


def test_missed_successors_are_estimated_from_those_seen_once_and_twice():
    setting = ar.Setting(n_states=6, n_actions=1, horizon=3, initial_state=0, stationary=True)
    counts = ar.Counts(setting)
    counts.add_flows(np.array([(0, s, 0, s + 1, n) for s, n in enumerate((1, 1, 1, 2, 50))], np.int64))
    assert scouted(counts).unseen == pytest.approx(0.5 * 3 * 2 / 2)


def test_every_expected_episode_visits_one_row_at_each_step():
    counts = ar.explore(ar.envs.double_chain(5), 4, max_episodes=300, progress=False).counts
    visits, table = Designer(counts).visits(1000.0), counts.table
    pairs, state_nodes = visits.reshape(-1, 2).sum(axis=1), table.node_of
    for h in range(3):
        assert pairs[np.unique(state_nodes[h][state_nodes[h] > 0])].sum() == pytest.approx(1000.0)


def test_the_rarer_a_quantile_the_more_draws_and_the_larger_a_design_the_fewer():
    assert draws_for(Shares.together(0.07)) == 10_000 > draws_for(Shares.together(0.07), 2000) == 5000
    assert draws_for(Shares.together(0.07), 10**6) == 4000
    assert draws_for(Shares.together(0.07), 0) == 10_000  # nothing was seen
    assert draws_for(Shares.together(0.001), 10**6) > 60_000

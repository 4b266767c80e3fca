"""Coverage of atlases that were extended, by amounts that depend on what was seen: at every stage, for a plan and its interval.

The same is done by a mistake that would be easy to make: to play further episodes with the random numbers of the first ones, so
that the same data are counted again and again. That fails in nearly every run.

It watches `docs/theory.md`, 20.3.
"""

import numpy as np
import pytest

import anyreward as ar

from ..helpers.coverage import allowed

pytestmark = pytest.mark.slow

RUNS, DELTA, P = 80, 0.5, 0.3
MDP = ar.TabularMDP(np.array([[[0.0, P, 1 - P]], [[0, 1, 0]], [[0, 0, 1]]], float), initial=0)
REWARD = np.stack([np.zeros((3, 1)), np.array([[0.0], [1.0], [0.0]])])  # worth P


def fresh(atlas, seed):
    """Further episodes: as many again if the value looks too good, half as many otherwise."""
    more = atlas.episodes if atlas.plan(REWARD).value > P else atlas.episodes // 2
    return atlas.extend(MDP, max_episodes=more, seed=seed)


def again(atlas, seed):
    """The same data once more, as if they were new."""
    counts = atlas.counts + atlas.counts
    return ar.Atlas(counts, ar.certify(counts, DELTA, max_successors=2))


@pytest.mark.parametrize(("further", "holds"), [(fresh, True), (again, False)])
def test_extended_because_of_what_was_seen(further, holds):
    failed = 0
    for seed in range(RUNS):
        atlas, wrong = ar.explore(MDP, 2, max_episodes=4, delta=DELTA, seed=seed, max_successors=2), False
        for _ in range(9):
            plan = atlas.plan(REWARD)
            wrong |= not plan.lower <= P <= plan.upper
            wrong |= abs(plan.value - P) > atlas.certificate.epsilon / 2
            atlas = further(atlas, seed)
        failed += wrong
    assert (failed <= allowed(DELTA, RUNS)) == holds, failed

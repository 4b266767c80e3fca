"""Coverage when episodes are played in batches: what is certified holds, and two mistakes in how batches are played would show.

One law matters, of which an episode gives one sample, so that what is wrong about the episodes of a batch is wrong about its
samples. The mistakes: episodes of a batch that share their randomness, and episodes that are left out because of what happened.

It watches `docs/theory.md`, 21.1.
"""

import importlib

import numpy as np
import pytest

import anyreward as ar
from anyreward.environments import parallel, players

from ..helpers.coverage import allowed
from ..helpers.tabular import Tabular

pytestmark = pytest.mark.slow

RUNS, DELTA, BATCH = 60, 0.2, 64
P = np.zeros((3, 1, 3))
P[0, 0], P[1:, 0, 0] = [0.0, 0.7, 0.3], 1.0
REWARD = np.array([0.0, 0.0, 1.0])


@pytest.fixture(autouse=True)
def quick_look(monkeypatch):
    """The audit before each exploration decides nothing: a few steps do."""
    audit = importlib.import_module("anyreward.exploring.audit")  # not the function of that name
    play = audit._play
    monkeypatch.setattr(audit, "_play", lambda probe, steps, seed: play(probe, 5, seed))


def failures(**options):
    """How many of the runs promise something false about the value 0.3, after two batches."""
    failed = 0
    for seed in range(RUNS):
        atlas = ar.explore(lambda: Tabular(P), 2, delta=DELTA, max_episodes=2 * BATCH, seed=seed, initial_state=0, **options)
        plan = atlas.plan(REWARD)
        failed += not plan.lower <= 0.3 <= plan.upper or abs(plan.value - 0.3) > atlas.error_bound
    return failed


@pytest.mark.parametrize("way", [{"batch": BATCH}, {"batch": BATCH, "workers": 2}], ids=["here", "workers"])
def test_what_is_certified_from_batches_is_true(way, monkeypatch):
    monkeypatch.setattr(__name__ + ".RUNS", 12 if "workers" in way else RUNS)
    assert failures(**way) <= allowed(DELTA, RUNS)


def test_shared_randomness_would_show(monkeypatch):
    """All episodes of a batch from the seed of its first one."""
    tasks = parallel.ParallelEnvironment.tasks

    def same_seed(self, explorer, numbers):
        first, *rest = tasks(self, explorer, numbers)
        yield first
        yield from (task._replace(seed=first.seed) for task in rest)

    monkeypatch.setattr(parallel.ParallelEnvironment, "tasks", same_seed)
    assert failures(batch=BATCH) > allowed(DELTA, RUNS)


def test_episodes_that_are_left_out_would_show(monkeypatch):
    """As if a worker died in episodes that come to state 2, and others were played in their place."""
    play = players.Here.play

    def selecting(self, tasks):
        for transcript, task in zip(play(self, tasks := list(tasks)), tasks, strict=True):
            if transcript.answers[1][0] == 2:
                (transcript,) = play(self, [task._replace(seed=task.seed + 1)])
            yield transcript

    monkeypatch.setattr(players.Here, "play", selecting)
    assert failures(batch=BATCH) > allowed(DELTA, RUNS)

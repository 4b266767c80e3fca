"""What a seed fixes in a Gymnasium environment, also when an exploration is resumed from a checkpoint."""

import signal

import numpy as np
import pytest

import anyreward as ar

from ..helpers.problems import rows
from ..helpers.tabular import Tabular, box, transitions

pytestmark = pytest.mark.usefixtures("quick_look")


def test_a_seed_fixes_everything():
    one, again, other = (ar.explore("FrozenLake-v1", 5, max_episodes=80, seed=seed, record=True) for seed in (4, 4, 5))
    assert one == again
    assert one.paid == again.paid
    assert one.history == again.history
    for mine, theirs in zip(one.recording, again.recording, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert rows(one.counts) != rows(other.counts)


def test_an_environment_that_was_used_before_is_explored_the_same():
    env = Tabular(transitions())
    first = ar.explore(env, 3, max_episodes=40, seed=1)
    env.reset(seed=99)
    env.step(1)
    assert ar.explore(env, 3, max_episodes=40, seed=1) == first


def test_episodes_are_independent_draws():
    """32 episodes share a seed, and blocks have their own: no path repeats more often than by chance."""
    P = np.full((50, 1, 50), 1 / 50)
    states = ar.explore(Tabular(P), 3, max_episodes=400, record=True, stationary=True).recording.states[:, 1:]
    assert len(np.unique(states, axis=0)) >= 395


def test_the_audit_is_no_part_of_the_certificate():
    atlas = ar.explore(Tabular(transitions()), 3, max_episodes=7)
    assert atlas.episodes == atlas.counts.episodes == 7
    assert atlas.counts.transitions == 21
    assert sum(int(entry[0]) for entry in atlas.paid._table.values()) == 21


# Going on from a checkpoint


@pytest.mark.parametrize("after", [1, 20, 40])
def test_an_interrupted_exploration_ends_as_if_it_had_not_been(tmp_path, after):
    """By Ctrl-C, wherever that was: in the middle of a block of episodes with one seed too."""
    P, path = np.full((50, 1, 50), 1 / 50), tmp_path / "it.atlas"

    def interrupt(t, _):
        if t == after:
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell in the background has set to ignore it
    try:
        atlas = ar.explore(Tabular(P), 2, max_episodes=70, checkpoint=path, progress=interrupt, record=True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert after <= atlas.episodes == ar.load(path).episodes < 70
    straight = ar.explore(Tabular(P), 2, max_episodes=70, record=True)
    resumed = ar.explore(Tabular(P), 2, max_episodes=70, checkpoint=path, record=True)
    np.testing.assert_array_equal(resumed.recording.states, straight.recording.states)
    assert resumed == straight


def test_episodes_after_going_on_are_new_draws(tmp_path):
    """A larger max_episodes again and again: were the same draws played each time, they would certify what is not so."""
    P = np.full((50, 1, 50), 1 / 50)
    for episodes in range(33, 41):
        atlas = ar.explore(Tabular(P), 2, max_episodes=episodes, checkpoint=tmp_path / "it.atlas", record=True, stationary=True)
    assert atlas.episodes == 40
    assert len(np.unique(atlas.recording.states[:, 1:], axis=0)) >= 39


def test_another_way_to_number_states_does_not_go_on_from_a_checkpoint(tmp_path):
    P = transitions()
    with pytest.warns(UserWarning, match="bins"):
        ar.explore(Tabular(P, **box()), 3, max_episodes=32, bins=[[0.2]], checkpoint=tmp_path / "it.atlas")
    with pytest.warns(UserWarning, match="bins"), pytest.raises(ValueError, match="checkpoint of another"):
        ar.explore(Tabular(P, **box()), 3, max_episodes=64, bins=[[0.7]], checkpoint=tmp_path / "it.atlas")


def test_another_environment_does_not_go_on_from_a_checkpoint(tmp_path):
    ar.explore("FrozenLake-v1", 3, max_episodes=32, checkpoint=tmp_path / "it.atlas")
    options = {"checkpoint": tmp_path / "it.atlas", "env_args": {"is_slippery": False}}
    with pytest.raises(ValueError, match="checkpoint of another"):
        ar.explore("FrozenLake-v1", 3, max_episodes=64, **options)

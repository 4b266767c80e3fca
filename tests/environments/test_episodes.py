"""Episodes of Gymnasium environments: how they start, how they end, and which actions are legal."""

import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import anyreward as ar

from ..helpers.tabular import MASK, Tabular, transitions

pytestmark = pytest.mark.usefixtures("quick_look")


def test_a_start_that_is_known_is_not_estimated():
    P = transitions()
    open_, known = (ar.explore(Tabular(P, start=2), 3, max_episodes=200, initial_state=s) for s in (None, 2))
    assert open_.counts.setting.initial_state is None
    columns = open_.counts.columns()
    assert (columns["next"][columns["h"] == -1] == 2).all()
    assert known.counts.setting.initial_state == 2
    assert known.certificate.epsilon < open_.certificate.epsilon


@pytest.mark.parametrize("start", [2, [0.0, 0.9, 0.1, 0.0]], ids=["never", "not always"])
def test_a_start_that_is_contradicted_is_refused(start):
    with pytest.raises(ValueError, match="initial_state"):
        ar.explore(Tabular(transitions(), start=start), 3, max_episodes=200, initial_state=1)


def test_a_random_start_is_counted_as_drawn():
    start = np.array([0.5, 0.3, 0.2, 0.0])
    atlas = ar.explore(Tabular(transitions(), start=start), 2, max_episodes=2_000, stationary=True)
    np.testing.assert_allclose(atlas.counts.model().initial, [*start, 0, 0, 0, 0], atol=0.05)  # none starts where episodes end
    assert atlas.counts.model().initial[3] == 0


LAW = np.array([0.5, 0.3, 0.2, 0.0])


@pytest.mark.parametrize("terminal", ["outcome", "end", "state"])
def test_a_known_distribution_of_the_start_is_not_estimated(terminal):
    env, options = Tabular(transitions(), start=LAW), {"max_episodes": 300, "terminal": terminal}
    open_, known = ar.explore(env, 3, **options), ar.explore(env, 3, initial=LAW, **options)
    same = ar.explore(ar.Gymnasium(env, initial=[(2, 0.2), (1, 0.3), (0, 0.5)]), 3, **options)
    model = known.counts.model()
    np.testing.assert_array_equal(model.initial, [*LAW, *[0.0] * (model.n_states - 4)])
    assert known.certificate == same.certificate
    assert known.certificate.epsilon < open_.certificate.epsilon
    assert "the initial state has the given distribution: state 0 with probability 0.5" in str(known.certificate)
    assert open_.counts.n().sum() == known.counts.n().sum()


def test_a_distribution_of_the_start_that_is_contradicted_is_refused():
    """By a start that is impossible, at once; by starts that are too frequent, once they are."""
    with pytest.raises(ValueError, match="Tabular starts in state 2, which has probability 0 in initial"):
        ar.explore(Tabular(transitions(), start=LAW), 3, max_episodes=200, initial=[0.5, 0.5, 0.0, 0.0])
    with pytest.raises(ValueError, match=r"episodes contradict initial, .* 1 in a million"):
        ar.explore(Tabular(transitions(), start=LAW), 3, max_episodes=200, initial=[0.1, 0.1, 0.7, 0.1])
    with pytest.raises(ValueError, match="given twice"):
        ar.explore(ar.Gymnasium(Tabular(transitions()), initial=LAW), 3, max_episodes=20, initial=LAW)
    with pytest.raises(ValueError, match="initial is for states that are numbered beforehand"):
        ar.explore(Tabular(transitions(), start=LAW), 3, max_episodes=20, initial=LAW, max_states=4, bins=None)
    with pytest.raises(ValueError, match="initial is empty"):
        ar.explore(Tabular(transitions(), start=LAW), 3, max_episodes=20, initial=[])


# Ends


@pytest.mark.parametrize("terminal", ["state", "end", "outcome", None])
def test_an_early_end_is_never_left(terminal):
    P = transitions(5)
    atlas = ar.explore(Tabular(P, ends=(3, 4)), 6, max_episodes=80, terminal=terminal, record=True)
    S = 6 if terminal == "end" else 5
    ends = {"end": {5}, "state": {3, 4}}.get(terminal, {8, 9})
    assert atlas.counts.setting.n_states == S
    assert atlas.counts.setting.terminal == (terminal or "outcome")
    assert ends <= set(atlas.counts.stays().tolist())
    assert set(atlas.counts.absorbing_states.tolist()) == (ends if terminal in ("end", "state") else set())
    states, lengths = atlas.recording.states, atlas.recording.lengths
    for path, length in zip(states, lengths, strict=True):
        assert not set(path[:length].tolist()) & ends
        assert (path[length:] == path[length]).all()
        assert length == 6 or path[length] in ends
    assert (lengths < 6).any()
    np.testing.assert_array_equal(atlas.recording.terminated.astype(bool), np.isin(states[:, -1], list(ends)))


class Mixed(Tabular):
    """State 1 ends an episode when it is reached by action 1 and goes on otherwise."""

    def step(self, action):
        observation, reward, _, cut, info = super().step(action)
        return observation, reward, self.s == 1 and int(action) == 1, cut, info


@pytest.mark.parametrize(("terminal", "end"), [(None, 5), ("end", 4)])
def test_an_observation_that_ends_only_at_times_is_not_taken_for_an_end(terminal, end):
    with pytest.raises(ValueError, match="leave out terminal='state'"):
        ar.explore(Mixed(transitions()), 5, max_episodes=200, terminal="state")
    atlas = ar.explore(Mixed(transitions()), 5, max_episodes=200, terminal=terminal)
    columns = atlas.counts.columns()
    assert ((columns["s"] == 1) & (columns["next"] != 1)).any()  # it went on from there
    assert (columns["next"] == end).any()  # and ended there
    assert (columns["next"][columns["s"] == end] == end).all()


def test_an_end_at_the_very_last_step_is_an_end():
    P = np.zeros((2, 1, 2))
    P[:, :, 1] = 1.0
    for terminal, end in (("state", 1), (None, 3)):
        atlas = ar.explore(Tabular(P, ends=(1,)), 1, max_episodes=5, record=True, terminal=terminal)
        assert end in atlas.counts.stays()
        assert (atlas.recording.states[:, -1] == end).all()
        assert atlas.recording.terminated.all()


def test_a_declared_time_limit_before_the_horizon_is_refused_with_the_fix():
    for env in (gym.make("FrozenLake-v1"), gym.wrappers.RecordEpisodeStatistics(gym.make("FrozenLake-v1"))):
        with pytest.raises(ValueError, match=r"horizon of at most 100, or .* max_episode_steps=101"):
            ar.explore(env, 101, max_episodes=5)
    with pytest.raises(ValueError, match="after 7 steps"):  # the shorter of two
        ar.explore(gym.wrappers.TimeLimit(gym.make("FrozenLake-v1"), 7), 8, max_episodes=5)
    assert ar.explore(gym.wrappers.TimeLimit(Tabular(transitions()), 4), 4, max_episodes=5).episodes == 5
    atlas = ar.explore("FrozenLake-v1", 101, max_episodes=5, env_args={"max_episode_steps": 101})  # the fix works
    assert atlas.episodes == 5


def test_a_hidden_time_limit_before_the_horizon_is_refused_with_the_fix():
    with pytest.raises(ValueError, match=r"truncated after 3 steps, .* use a horizon of at most 3"):
        ar.explore(Tabular(transitions(), cut=3), 4, max_episodes=5)
    assert ar.explore(Tabular(transitions(), cut=3), 3, max_episodes=5).episodes == 5


def test_an_end_that_is_also_truncated_is_an_end():
    P = np.zeros((2, 1, 2))
    P[:, :, 1] = 1.0
    atlas = ar.explore(Tabular(P, ends=(1,), cut=1), 4, max_episodes=5, record=True)
    assert atlas.recording.states.tolist() == [[0, 3, 3, 3, 3]] * 5


@pytest.mark.parametrize("algorithm", ["rf-trajectory", "rf-ucrl"])
@pytest.mark.parametrize("replan", ["every", "path", "geometric"])
def test_illegal_actions_are_never_played(algorithm, replan):
    """The environment raises if one is."""
    env = Tabular(transitions(4, 3), mask=MASK)
    atlas = ar.explore(env, 4, max_episodes=150, algorithm=algorithm, replan=replan)
    np.testing.assert_array_equal(atlas.counts.illegal, ~MASK)
    assert not atlas.counts.n()[:, ~MASK].any()
    assert atlas.counts.n().sum(axis=0)[MASK].all()  # and all others are


IDENTIFY = """
import numpy as np
import anyreward as ar
from tests.helpers.tabular import MASK, Tabular, transitions
for masked in (False, True):
    if masked:
        env, reward = Tabular(transitions(4, 3), mask=MASK), np.where(MASK, 0.2, 1.0)  # what is illegal would pay most
    else:
        env, reward = Tabular(transitions(4, 3)), np.random.default_rng(0).random((4, 3))
    atlas = ar.identify(env, reward, 3, max_episodes=300)
    if masked:
        assert MASK[np.arange(4)[None].repeat(2, 0), atlas.policy[1:]].all() and MASK[0, atlas.policy[0, 0]]
        assert atlas.certificate.epsilon < 2 * 0.6  # no legal policy earns more than 0.6
    else:
        best = ar.backward_induction(transitions(4, 3), reward, 3).V[0, 0]
        assert best - ar.evaluate_policy(transitions(4, 3), atlas.policy, reward, 3).V[0, 0] <= atlas.certificate.epsilon < 2
"""


@pytest.mark.slow
def test_one_reward_is_identified_in_an_environment():
    """With legal actions only. In a process of its own, which may crash."""
    command = [sys.executable, "-c", IDENTIFY]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:] or f"ended by signal {-done.returncode}"


def test_an_explorer_of_ones_own_is_told_every_episode():
    """One that overrides `tell`, as documented, and not what is behind it."""

    class Mine(ar.RFUCRL):
        told = 0

        def tell(self, states, actions):
            Mine.told += 1
            super().tell(states, actions)

    ar.explore(Tabular(transitions()), 3, max_episodes=20, algorithm=Mine)
    assert Mine.told == 20


def test_a_mask_that_changes_is_refused():
    class Moody(Tabular):
        def info(self):
            mask = np.ones(3, np.int8)
            mask[self.resets % 3] = 0
            return {"action_mask": mask}

    with pytest.raises(ValueError, match=r"action_mask.* changes"):
        ar.explore(Moody(transitions(4, 3)), 4, max_episodes=50)


@pytest.mark.parametrize("mask", [[1, 0], [0, 1]])
def test_a_mask_that_comes_late_does_not_leave_counts_that_contradict_it(mask, tmp_path):
    """`reset` does not tell it, `step` does: the state is met both ways. It is refused, or what is counted is legal."""

    class Late(Tabular):
        def info(self):
            return {} if self.t == 0 else {"action_mask": np.array(mask, np.int8)}

    P = np.zeros((2, 2, 2))
    P[:, :, 0] = P[:, :, 1] = 0.5
    atlas, problem = None, None
    try:
        atlas = ar.explore(Late(P), 4, max_episodes=50)
    except ValueError as refusal:
        problem = str(refusal)
    if atlas is None:
        assert "action_mask" in problem
        return
    assert not (atlas.counts.n() * atlas.counts.illegal).any()
    atlas.save(tmp_path / "late.atlas")
    assert ar.load(tmp_path / "late.atlas") == atlas


@pytest.mark.parametrize(("mask", "names"), [([0, 0, 0], "allows no action"), ([1, 1], "2 entries"), ([1] * 4, "4 entries")])
def test_a_mask_that_makes_no_sense_is_refused(mask, names):
    class Wrong(Tabular):
        def info(self):
            return {"action_mask": np.array(mask, np.int8)}

    with pytest.raises(ValueError, match=names):
        ar.explore(Wrong(transitions(4, 3)), 3, max_episodes=5)


def test_without_any_legal_action_none_is_played_not_even_by_the_audit():
    env = Tabular(transitions(4, 3), mask=np.zeros((4, 3), bool))
    with pytest.raises(ValueError, match="allows no action"):
        ar.explore(env, 3, max_episodes=5)

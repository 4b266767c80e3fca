"""Playing a fixed policy: the same process as in exploration, fresh episodes, none selected by its outcome."""

from itertools import islice

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import anyreward as ar
from anyreward.data.numbering import Numbering
from anyreward.environments.gymnasium import GymnasiumEnvironment
from anyreward.playing.rollouts import rollouts

from ..helpers.tabular import Tabular, transitions

P = transitions(5, 3)
MASK = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1], [1, 1, 1], [1, 1, 1]])
H = 6


def lossy():
    """A process that terminates in two states, after episodes of different lengths, with masks and rewards."""
    return Tabular(P, ends=(3, 4), mask=MASK, pay=lambda s, a, s_next: s + 10 * a + 100 * s_next)


def setting_of(env, **known):
    return GymnasiumEnvironment(ar.Gymnasium(env, **known), H).setting


def played(env, policy, episodes, setting=None, seed=0, numbering=None):
    setting = setting or setting_of(lossy())
    stream = rollouts(setting, numbering or Numbering.of_setting(setting), policy, env, seed)
    batches = list(islice(stream, episodes))
    return [np.concatenate(parts)[:episodes] for parts in zip(*batches, strict=True)]


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("terminal", ["outcome", "end", "state"])
def test_after_an_end_the_reward_is_that_of_the_action_that_the_policy_names(terminal, vector):
    """So that the average of what episodes earn is the value of the policy, also for rewards that depend on the action."""
    env = Tabular(P, ends=(3, 4))
    setting = setting_of(env, terminal=terminal)
    rng = np.random.default_rng(1)
    policy = rng.integers(0, 3, (H, setting.n_states))
    lanes = SyncVectorEnv([lambda: Tabular(P, ends=(3, 4))] * 3, autoreset_mode=AutoresetMode.NEXT_STEP) if vector else env
    states, actions, _ = played(lanes, policy, 60, setting)
    np.testing.assert_array_equal(actions, policy[np.arange(H), states[:, :H] % setting.n_states])
    assert (states[:, 2] == states[:, H]).sum() > 20


@pytest.mark.parametrize("terminal", ["outcome", "end", "state"])
def test_episodes_are_those_of_the_process_that_is_explored(terminal):
    """The adapter of exploration, asked for the same episodes, gives the same states, actions and rewards."""
    env = lossy()
    process = GymnasiumEnvironment(ar.Gymnasium(env, terminal=terminal), H)
    policy = np.random.default_rng(0).integers(0, 3, (H, process.n_states))
    states, actions, paid = played(lossy(), policy, 40, process.setting)
    seeds = []
    reset = env.reset

    def watched(*, seed=None, options=None):
        word = np.random.SeedSequence(0, spawn_key=(4, len(seeds))).generate_state(1)[0]
        seeds.append(word)
        return reset(seed=int(word) % (2**31 - 1))

    env.reset = watched
    counts = ar.Counts(process.setting)
    for t in range(40):
        s, a, r = process.episode(lambda h, s: policy[h, s], t, counts)
        np.testing.assert_array_equal(states[t], s)
        alive = s[:-1] == np.where(s[:-1] < 3, s[:-1], -1)
        np.testing.assert_array_equal(actions[t][alive], a[alive])
        np.testing.assert_array_equal(paid[t], r)


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_a_vector_of_environments_plays_the_same_episodes_as_one(kind, mode):
    """Episodes end at different times; a vector that took them as they end would have more of the short ones."""
    policy = np.random.default_rng(1).integers(0, 3, (H, 5))
    vector = kind([lossy] * 4, autoreset_mode=mode)
    one, many = played(lossy(), policy, 60), played(vector, policy, 60)
    vector.close()
    for mine, theirs in zip(one, many, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert len(np.unique((one[0] >= 5).argmax(axis=1))) > 2  # they do end at different times


def test_fresh_episodes_are_not_those_of_the_exploration():
    """An environment that writes down its seeds: none of an exploration and its audit is used again."""
    seeds = []

    class Watched(Tabular):
        def reset(self, *, seed=None, options=None):
            seeds.append(seed)
            return super().reset(seed=seed, options=options)

    atlas = ar.explore(Watched(P), H, max_episodes=500)
    before = {seed for seed in seeds if seed is not None}
    seeds.clear()
    atlas.plan("state == 0").run(Watched(P), episodes=500)
    assert len(before) > 10
    assert None not in seeds
    assert len(set(seeds)) == 500
    assert not before & set(seeds)


def test_an_environment_with_other_spaces_is_refused():
    other = Tabular(transitions(6, 3))
    with pytest.raises(ValueError, match=r"observation space of Tabular.* Discrete\(6\)"):
        played(other, np.zeros((H, 5), np.int64), 1)
    with pytest.raises(ValueError, match="the model has 5 states"):
        played(ar.envs.double_chain(5), np.zeros((H, 5), np.int64), 1)


def test_a_truncated_episode_is_refused():
    with pytest.raises(ValueError, match="truncated after 2 steps"):
        played(Tabular(P, cut=2), np.zeros((H, 5), np.int64), 1)


def test_another_start_than_the_known_one_is_refused():
    with pytest.raises(ValueError, match="starts in state 0, not in the initial_state 2"):
        played(Tabular(P), np.zeros((H, 5), np.int64), 1, setting_of(Tabular(P, start=2), initial_state=2))


def test_an_environment_that_fails_is_an_error_of_one_sentence():
    broken = Tabular(P, pay=lambda *_: 1 / 0)
    with pytest.raises(ar.EnvironmentFailure, match=r"failed, playing 0: ZeroDivisionError, division by zero\.$"):
        played(broken, np.zeros((H, 5), np.int64), 1)


def test_new_observations_do_not_change_the_numbering_of_an_atlas():
    env = Tabular(P, observe=lambda s: f"room {s}", space=spaces.Text(10))
    atlas = ar.explore(env, 2, max_episodes=1, max_states=9)
    before = atlas.numbering.to_dict()
    plan = atlas.plan("state == 0")
    plan.run(env, episodes=50)
    assert atlas.numbering.to_dict() == before


def test_a_vector_whose_first_step_is_a_reset_is_refused():
    """Gymnasium forgets to forget that a part has ended: verified intervals would be about another process."""
    vector = AsyncVectorEnv([lossy] * 2, shared_memory=False)
    with pytest.raises(ValueError, match=r"autoreset_mode=AutoresetMode\.SAME_STEP, or with shared_memory=True"):
        played(vector, np.zeros((H, 5), np.int64), 4)
    vector.close()

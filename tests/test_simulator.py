"""Gymnasium environments: what is accepted and refused, how episodes end, which actions are played, what a seed fixes."""

import importlib
import signal
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import anyreward as ar

from .problems import newest, rows


@pytest.fixture(autouse=True)
def quick_look(monkeypatch):
    """The audit before each exploration is not what is tested here: a tenth of it does."""
    audit = importlib.import_module("anyreward.environments.audit")  # not the function of that name
    play = audit._play
    monkeypatch.setattr(audit, "_play", lambda probe, steps, seed: play(probe, steps // 10, seed))


class Tabular(gym.Env):
    """Transitions P (S, A, S) with terminal states, a mask (S, A), pay(s, a, s') and a start; raises on illegal play."""

    def __init__(self, P, ends=(), mask=None, pay=None, start=0, cut=None, observe=None, space=None):
        self.P, self.ends, self.mask, self.pay = np.asarray(P), set(ends), mask, pay or (lambda s, a, s_next: 0.0)
        self.cumulative = self.P.cumsum(axis=2)
        self.start, self.cut, self.observe, self.resets = start, cut, observe or (lambda s: s), 0
        S, A, _ = self.P.shape
        self.observation_space, self.action_space = space or spaces.Discrete(S), spaces.Discrete(A)
        self.s = None

    def info(self):
        return {} if self.mask is None else {"action_mask": np.asarray(self.mask[self.s], dtype=np.int8)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets += 1
        self.t = 0
        self.s = int(self.start if np.ndim(self.start) == 0 else self.np_random.choice(len(self.start), p=self.start))
        return self.observe(self.s), self.info()

    def step(self, action):
        assert self.action_space.contains(action), f"{action!r} is no action"
        a = int(action - self.action_space.start)
        assert self.s not in self.ends, "the episode is over"
        assert self.mask is None or self.mask[self.s][a], f"action {a} is illegal in state {self.s}"
        s, self.s = (
            self.s,
            int(min(self.cumulative[self.s, a].searchsorted(self.np_random.random(), side="right"), len(self.P) - 1)),
        )
        self.t += 1
        return (
            self.observe(self.s),
            self.pay(s, a, self.s),
            self.s in self.ends,
            self.cut is not None and self.t >= self.cut,
            self.info(),
        )


def transitions(S=4, A=2, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(S), (S, A))


def own_truth(P, ends, pay, horizon, policy=None, mask=None, discount=1.0, start=0):
    """The value from the start, of a policy (H, S) or the best legal one; P is (S, A, S), pay (S, A, S). Plain loops."""
    S, A, _ = P.shape
    V = np.zeros(S)
    for h in reversed(range(horizon)):
        new = np.zeros(S)
        for s in range(S):
            if s in ends:
                continue
            legal = [a for a in range(A) if mask is None or mask[s][a]]
            q = {a: float(P[s, a] @ (pay[s, a] + discount * V)) for a in legal}
            new[s] = max(q.values()) if policy is None else q[int(policy[h, s])]
        V = new
    return float(V[start]) if np.ndim(start) == 0 else float(start @ V)


def toy_text(name, **options):
    """P (S, A, S), mean pay (S, A, S), ends and the start distribution of a toy-text environment, from its own table."""
    inner = gym.make(name, **options).unwrapped
    S, A = inner.observation_space.n, inner.action_space.n
    P, pay, ends = np.zeros((S, A, S)), np.zeros((S, A, S)), set()
    for s in range(S):
        for a in range(A):
            for p, s_next, r, done in inner.P[s][a]:
                P[s, a, s_next] += p
                pay[s, a, s_next] += p * r
                if done:
                    ends.add(s_next)
    return P, np.divide(pay, P, out=np.zeros_like(P), where=P > 0), ends, np.asarray(inner.initial_state_distrib)


# What may be explored


def test_an_id_an_instance_and_a_factory_are_the_same():
    by_id = ar.explore("FrozenLake-v1", 6, max_episodes=50, seed=3)
    assert ar.explore(gym.make("FrozenLake-v1"), 6, max_episodes=50, seed=3) == by_id
    assert ar.explore(lambda: gym.make("FrozenLake-v1"), 6, max_episodes=50, seed=3) == by_id
    assert by_id.counts.setting.n_states == 16
    assert by_id.source["env"] == "FrozenLake-v1"


def test_arguments_reach_an_id():
    dry = ar.explore("FrozenLake-v1", 6, max_episodes=60, env_args={"is_slippery": False})
    assert dry.counts.widest_pair == 1
    assert ar.explore("FrozenLake-v1", 6, max_episodes=60).counts.widest_pair > 1


@pytest.mark.parametrize(
    ("env", "options", "names"),
    [
        ("NoSuchThing-v0", {}, "NoSuchThing-v0.*cannot be made"),
        ("FrozenLake-v1", {"env_args": {"slip": 1}}, "cannot be made"),
        (lambda: 3, {}, "made a int"),
        (3, {}, "env is a int"),
        (lambda: Tabular(transitions()), {"env_args": {"x": 1}}, "arguments for the environment are for ids"),
        (lambda: Tabular(transitions()), {"terminal": "never"}, "terminal is 'never'"),
        (lambda: Tabular(transitions()), {"absorbing_states": (1,)}, "absorbing_states is for models"),
        (lambda: Tabular(transitions()), {"initial_state": 4}, "initial_state is 4"),
        (lambda: Tabular(transitions()), {"bins": [2]}, "bins are for a Box"),
    ],
)
def test_what_cannot_be_explored_is_refused(env, options, names):
    with pytest.raises(ValueError, match=names):
        ar.explore(env, 3, max_episodes=5, **options)


@pytest.mark.parametrize("horizon", [0, -2])
def test_a_horizon_of_nothing_is_refused_before_anything_is_played(horizon):
    env = Tabular(transitions())
    with pytest.raises(ValueError, match="horizon"):
        ar.explore(env, horizon, max_episodes=5)
    assert env.resets == 0
    with pytest.raises(ValueError, match="horizon"):
        ar.audit(env, horizon)


def test_arguments_of_environments_are_not_for_models():
    model = ar.TabularMDP(transitions())
    for name, value in (("terminal", "end"), ("max_states", 5), ("bins", [2]), ("initial_state", 0), ("env_args", {})):
        with pytest.raises(ValueError, match=f"{name} is for Gymnasium"):
            ar.explore(model, 3, max_episodes=5, **{name: value})


# Numbers of states and actions


def test_spaces_that_do_not_start_at_0_are_shifted():
    P = transitions()
    plain = Tabular(P)
    shifted = Tabular(P, observe=lambda s: s + 7, space=spaces.Discrete(4, start=7))
    shifted.action_space = spaces.Discrete(2, start=-3)
    one, other = (ar.explore(env, 4, max_episodes=60, seed=2) for env in (plain, shifted))
    assert rows(one.counts) == rows(other.counts)
    assert one.certificate.epsilon == other.certificate.epsilon


@pytest.mark.parametrize(
    ("space", "observe"),
    [
        (spaces.MultiDiscrete([2, 3]), lambda s: np.array(divmod(s, 3))),
        (spaces.MultiDiscrete([2, 3], start=[5, -1]), lambda s: np.add(divmod(s, 3), (5, -1))),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]), lambda s: divmod(s, 3)),
        (
            spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Discrete(3, start=1)}),
            lambda s: {"a": s // 3, "b": np.int64(1 + s % 3)},
        ),
    ],
    ids=["MultiDiscrete", "shifted", "Tuple", "Dict"],
)
def test_composite_observations_are_ravelled(space, observe):
    P = transitions(6)
    plain, composite = Tabular(P), Tabular(P, observe=observe, space=space)
    one, other = (ar.explore(env, 3, max_episodes=40, seed=1) for env in (plain, composite))
    assert one == other
    assert one.counts.setting.n_states == 6


def test_composite_actions_are_ravelled():
    class Two(Tabular):
        def step(self, action):
            assert both.contains(action)
            return super().step(int(action[0]) * 3 + int(action[1]))

    P, both = transitions(4, 6), spaces.MultiDiscrete([2, 3])
    two = Two(P)
    outer = gym.wrappers.TransformAction(two, lambda a: a, both)
    two.action_space = spaces.Discrete(6)
    one, other = (ar.explore(env, 3, max_episodes=100, seed=1) for env in (Tabular(P), outer))
    assert one == other
    assert one.counts.n().sum(axis=(0, 1)).all()  # all six are played


def texts(S=4):
    return {"observe": lambda s: f"state {s}", "space": spaces.Text(20)}


def test_observations_of_unknown_number_are_numbered_as_they_appear():
    atlas = ar.explore(Tabular(transitions(), **texts()), 4, max_episodes=60, max_states=6)
    assert atlas.counts.setting.n_states == 6
    assert sorted(atlas.source["labels"]) == [f"state {s}" for s in range(4)]
    assert atlas.source["labels"][0] == "state 0"  # where it starts
    # more states than there are cost delta and unseen mass, so the bound is larger and never smaller
    fewer = ar.explore(Tabular(transitions(), **texts()), 4, max_episodes=60, max_states=4, algorithm="rf-ucrl", bounds="paper")
    more = ar.certify(
        ar.Counts.from_columns(ar.Setting(n_states=9, n_actions=2, horizon=4), fewer.counts.columns()), 0.1, "paper"
    )
    assert more.epsilon >= fewer.certificate.epsilon


def test_more_observations_than_promised_are_refused():
    with pytest.raises(ValueError, match=r"max_states = 3 .* larger max_states"):
        ar.explore(Tabular(transitions(), **texts()), 4, max_episodes=60, max_states=3)
    with pytest.raises(ValueError, match="max_states"):
        ar.explore(Tabular(transitions(), **texts()), 4, max_episodes=60)


def test_more_observations_than_the_audit_saw_are_refused_too():
    """A fourth state that random play hardly ever meets: what is certified assumes that there are no more."""
    P = np.zeros((4, 1, 4))
    P[:, :, 0], P[:, :, 1] = 0.5, 0.5
    env = Tabular(P, **texts())
    ar.explore(env, 3, max_episodes=5, max_states=2)

    class Late(Tabular):
        def step(self, action):
            out = super().step(action)
            return ("another", *out[1:]) if self.resets > 1_000 else out

    with pytest.raises(ValueError, match="max_states = 2"):
        ar.explore(Late(P, **texts()), 3, max_episodes=2_000, max_states=2, stationary=True)


def box(S=4):
    return {"observe": lambda s: np.array([s / S + 0.1], np.float32), "space": spaces.Box(0.0, 1.0, (1,))}


def test_boxes_are_cut_into_bins_with_a_warning():
    P = transitions()
    with pytest.warns(UserWarning, match=r"certificate is about the process of the bins"):
        binned = ar.explore(Tabular(P, **box()), 3, max_episodes=40, bins=[4], seed=1)
    assert rows(binned.counts) == rows(ar.explore(Tabular(P), 3, max_episodes=40, seed=1).counts)
    with pytest.warns(UserWarning, match=r"bins"):
        edges = ar.explore(Tabular(P, **box()), 3, max_episodes=40, bins=[[0.25, 0.5, 0.75]], seed=1)
    assert edges == binned
    with pytest.warns(UserWarning, match=r"bins"):
        assert any("bins" in text for text in ar.audit(Tabular(P, **box()), 3, bins=[4], steps=50).warnings)


def test_a_box_without_bins_is_refused_with_the_fix():
    with pytest.raises(ValueError, match=r"bins=.* max_states="):
        ar.explore(Tabular(transitions(), **box()), 3, max_episodes=5)


def test_observations_outside_their_space_are_refused():
    for wrong in (9, -1, 1.5):
        env = Tabular(transitions(), observe=lambda s, wrong=wrong: wrong)
        with pytest.raises(ValueError, match=r"not in the space|whole number"):
            ar.explore(env, 3, max_episodes=5)


def test_rewards_that_are_no_numbers_are_refused():
    for wrong in (np.nan, np.inf):
        env = Tabular(transitions(), pay=lambda s, a, s_next, wrong=wrong: wrong)
        with pytest.raises(ValueError, match="finite"):
            ar.explore(env, 3, max_episodes=5)


# Starts


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


# Illegal actions

MASK = np.array([[1, 0, 1], [1, 1, 1], [0, 0, 1], [0, 1, 1]], dtype=bool)


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
from tests.test_simulator import MASK, Tabular, transitions
if {masked}:
    env, reward = Tabular(transitions(4, 3), mask=MASK), np.where(MASK, 0.2, 1.0)  # what is illegal would pay most
else:
    env, reward = Tabular(transitions(4, 3)), np.random.default_rng(0).random((4, 3))
atlas = ar.identify(env, reward, 3, max_episodes=300)
if {masked}:
    assert MASK[np.arange(4)[None].repeat(2, 0), atlas.policy[1:]].all() and MASK[0, atlas.policy[0, 0]]
    assert atlas.certificate.epsilon < 2 * 0.6  # no legal policy earns more than 0.6
else:
    best = ar.backward_induction(transitions(4, 3), reward, 3).V[0, 0]
    assert best - ar.evaluate_policy(transitions(4, 3), atlas.policy, reward, 3).V[0, 0] <= atlas.certificate.epsilon < 2
"""


@pytest.mark.parametrize("masked", [False, True])
def test_one_reward_is_identified_in_an_environment(masked):
    """With legal actions only. In a process of its own, which may crash."""
    command = [sys.executable, "-c", IDENTIFY.format(masked=masked)]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True)
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


# Seeds


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

    with pytest.raises(KeyboardInterrupt, match="goes on from there"):
        ar.explore(Tabular(P), 2, max_episodes=70, checkpoint=path, progress=interrupt, record=True)
    assert after <= ar.load(path).episodes < 70
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


# Environments that everybody has


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("terminal", ["state", "end", "outcome"])
def test_frozen_lake_intervals_contain_the_truth(seed, terminal):
    P, pay, ends, _ = toy_text("FrozenLake-v1")
    H = 12
    atlas = ar.explore("FrozenLake-v1", H, max_episodes=300, seed=seed, terminal=terminal, stationary=True)
    for assumed in ({}, {"rewards": "deterministic"}, {"rewards": "deterministic", "stationary_rewards": True}):
        plan = atlas.plan("own", reward_range=(0.0, 1.0), **assumed)
        value = own_truth(P, ends, pay, H, plan.policy)
        assert plan.lower <= value <= own_truth(P, ends, pay, H) + 1e-12
        assert own_truth(P, ends, pay, H) <= plan.upper


def test_frozen_lake_is_solved_after_enough_episodes():
    P, pay, ends, _ = toy_text("FrozenLake-v1")
    H = 20
    best = own_truth(P, ends, pay, H)
    assert best > 0.15
    for seed in range(2):
        atlas = ar.explore("FrozenLake-v1", H, max_episodes=3_000, seed=seed, stationary=True, replan="geometric")
        plan = atlas.plan("own", rewards="deterministic", stationary_rewards=True)
        value = own_truth(P, ends, pay, H, plan.policy)
        assert plan.lower <= value <= best <= plan.upper
        assert value > best - 0.02
        assert plan.value == pytest.approx(value, abs=0.1)


@pytest.mark.parametrize(
    ("name", "horizon", "reward_range"), [("CliffWalking-v1", 15, (-100.0, 0.0)), (newest("Taxi"), 6, (-10.0, 20.0))]
)
def test_other_toy_texts_have_intervals_that_contain_the_truth(name, horizon, reward_range):
    P, pay, ends, start = toy_text(name)
    if name == "CliffWalking-v1":
        assert ends == {47}
    atlas = ar.explore(name, horizon, max_episodes=150, stationary=True)
    plan = atlas.plan("own", reward_range=reward_range)
    assert plan.policy.shape == (horizon, len(P))
    mask = np.ones(P.shape[:2], bool)
    if len(atlas.counts.illegal):
        mask &= ~atlas.counts.illegal
    value = own_truth(P, ends, pay, horizon, plan.policy, mask, start=start)
    best = own_truth(P, ends, pay, horizon, start=start)
    assert plan.lower <= value <= best + 1e-9
    assert best <= plan.upper


def test_taxi_masks_are_obeyed():
    atlas = ar.explore(newest("Taxi"), 10, max_episodes=60, stationary=True)
    inner = gym.make(newest("Taxi")).unwrapped
    met = np.flatnonzero(atlas.counts.illegal.any(axis=1))
    assert len(met) > 50
    for s in met:
        np.testing.assert_array_equal(atlas.counts.illegal[s], inner.action_mask(int(s)) == 0)
    policy = atlas.plan(np.random.default_rng(0).random((500, 6))).policy
    assert not atlas.counts.illegal[np.arange(500)[None].repeat(10, 0), policy].any()


@pytest.mark.parametrize(("terminal", "S"), [(None, 704), ("end", 705)])
def test_blackjack_ends_where_it_also_goes_on(terminal, S):
    atlas = ar.explore("Blackjack-v1", 4, max_episodes=200, terminal=terminal)
    assert atlas.counts.setting.n_states == S
    assert atlas.plan(np.random.default_rng(0).random(S)).lower >= 0
    with pytest.raises(ValueError, match="leave out terminal='state'"):
        ar.explore("Blackjack-v1", 4, max_episodes=2_000, terminal="state")

"""RF-UCRL against its formulas: the index, the three rules and the schedules."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

import anyreward as ar
from anyreward.environments.tabular import play as play_model

from ..helpers import reference
from ..helpers.problems import data, deltas, random_mdp, rows, seeds


def rf_ucrl(setting, **options):
    return ar.RFUCRL(setting, **{"bounds": "paper", **options})


@pytest.mark.slow
@pytest.mark.parametrize("replan", ["every", "geometric"])  # a batch of any size is followed by a full pass
@given(problem=data(), delta=deltas, clip=st.booleans(), seed=seeds)
def test_index_policy_and_bound_follow_the_formulas(replan, problem, delta, clip, seed):
    setting, states, actions = problem
    E, bound = reference.rf_ucrl(*reference.dense_counts(states, actions, setting), setting, delta, clip)
    E = E.astype(float)
    explorer = rf_ucrl(setting, delta=delta, clip=clip, seed=seed, replan=replan)
    explorer.tell(states, actions)
    np.testing.assert_allclose(explorer.index, E, rtol=1e-10, atol=1e-10)
    assert explorer.error_bound == pytest.approx(bound, rel=1e-10, abs=1e-10)

    policy = explorer.ask()
    chosen = np.take_along_axis(E, policy[..., None], axis=2)[..., 0]
    np.testing.assert_allclose(chosen, E.max(axis=2), rtol=1e-10, atol=1e-10)


@pytest.mark.slow
@given(data(), deltas, st.booleans())
def test_the_first_of_equal_actions_on_demand(problem, delta, clip):
    setting, states, actions = problem
    explorer = rf_ucrl(setting, delta=delta, clip=clip, replan="every", ties="first")
    explorer.tell(states, actions)
    np.testing.assert_array_equal(explorer.ask(), explorer.index.argmax(axis=2))


@pytest.mark.slow
@given(data(), deltas, st.booleans(), st.sampled_from(["every", "path"]))
def test_one_by_one_or_in_a_batch(problem, delta, clip, replan):
    """The counts and the bound are the same; under "every" so is the index, which knows nothing but the counts."""
    setting, states, actions = problem
    batch, single = (rf_ucrl(setting, delta=delta, clip=clip, replan=replan) for _ in range(2))
    batch.tell(states, actions)
    for b in range(len(states)):
        single.tell(states[b], actions[b])
    assert rows(batch.counts) == rows(single.counts)
    assert single.episodes == len(states)
    assert batch.error_bound == pytest.approx(single.error_bound, rel=1e-12)
    np.testing.assert_allclose(batch.index, single.index, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@given(data(), deltas, st.booleans())
def test_a_path_update_is_the_recursion_along_the_path(problem, delta, clip):
    """After an episode, every entry it visited follows from the entries of the next step as they now stand."""
    setting, states, actions = problem
    explorer = rf_ucrl(setting, delta=delta, clip=clip, replan="path")
    gamma, sigma = setting.discount, setting.sigma
    for b in range(len(states)):
        explorer.tell(states[b], actions[b])
        _, n = reference.dense_counts(states[: b + 1], actions[: b + 1], setting)
        E = explorer.index
        for h in range(setting.horizon - 1):
            seen, weight = n[h, states[b, h], actions[b, h]], gamma * sigma[setting.horizon - 1 - h]
            radius = math.sqrt(2 * reference.beta(seen.sum(), setting, delta) / seen.sum())
            expected = weight * radius + gamma * (seen / seen.sum()) @ E[h + 1].max(axis=1)
            expected = min(weight, expected) if clip else expected
            assert E[h, states[b, h], actions[b, h]] == pytest.approx(expected, rel=1e-10)


@pytest.mark.slow
@given(data(), deltas, st.booleans(), st.sampled_from(["path", "geometric"]))
def test_the_bound_is_exact_however_stale_the_index_is(problem, delta, clip, replan):
    setting, states, actions = problem
    explorer = rf_ucrl(setting, delta=delta, clip=clip, replan=replan, growth=50.0)
    for b in range(len(states)):
        explorer.tell(states[b], actions[b])
    _, bound = reference.rf_ucrl(*reference.dense_counts(states, actions, setting), setting, delta, clip)
    assert explorer.error_bound == pytest.approx(bound, rel=1e-10, abs=1e-10)


def sure_chain(n_actions):
    """Two states; every action leads to state 1 for certain."""
    P = np.zeros((2, n_actions, 2))
    P[..., 1] = 1.0
    return ar.TabularMDP(P)


@pytest.mark.parametrize("replan", ["every", "path"])
@pytest.mark.parametrize(("n_actions", "episodes"), [(1, 361), (2, 770)])
def test_stopping_times_that_can_be_worked_out(n_actions, episodes, replan):
    """H = 2, epsilon = 1/2: the bound is max_a sqrt(2 beta(n_a) / n_a), and the greedy rule visits the actions in turn.

    So the run ends when each action has been visited n times, for the first n with sqrt(2 beta(n)/n) <= 1/4, where
    beta(n) = log(2 * 2 A * 2 / 0.1) + log(e (1 + n)): at n = 361 for one action, n = 385 each for two.
    """
    n = next(n for n in range(1, 1000) if math.sqrt(2 * (math.log(80 * n_actions) + 1 + math.log(1 + n)) / n) <= 0.25)
    assert n * n_actions == episodes
    atlas = ar.explore(sure_chain(n_actions), 2, epsilon=0.5, delta=0.1, algorithm="rf-ucrl", bounds="paper", replan=replan)
    assert atlas.episodes == episodes
    assert atlas.certificate.met


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("discount", [1.0, 0.5])
def test_one_step_needs_no_exploration(stationary, discount):
    """The last transition earns nothing: with H = 1 everything is known before the first episode."""
    mdp = random_mdp(4, 3, seed=0)
    atlas = ar.explore(mdp, 1, epsilon=1e-9, algorithm="rf-ucrl", bounds="paper", stationary=stationary, discount=discount)
    assert atlas.episodes == 0
    assert atlas.error_bound == 0.0
    assert atlas.certificate.met
    plan = atlas.plan(mdp.reward)
    assert plan.policy[0].tolist() == mdp.reward.argmax(axis=1).tolist()
    assert plan.value == pytest.approx(mdp.reward[0].max())


@pytest.mark.parametrize("replan", ["every", "path"])
@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("stationary", [True, False])
@pytest.mark.parametrize("random_start", [True, False])
def test_the_compiled_loop_decides_as_ask_and_tell(replan, clip, stationary, random_start):
    """Bit for bit: the same episodes, the same counts, the same index, whatever the seed."""
    options = {"delta": 0.3, "clip": clip, "replan": replan, "bounds": "paper", "seed": 11}
    mdp = random_mdp(5, 3, seed=2, H=None if stationary else 4, random_start=random_start)
    atlas = ar.explore(mdp, 4, algorithm="rf-ucrl", max_episodes=700, stationary=stationary, **options)
    explorer = ar.RFUCRL(mdp.setting(4, stationary=stationary), **options)
    rng = np.random.default_rng(11)
    for _ in range(700):
        explorer.tell(*mdp.rollout(explorer.ask(), seed=rng))
    assert rows(explorer.counts) == rows(atlas.counts)
    assert explorer.error_bound == atlas.error_bound

    compiled = ar.RFUCRL(mdp.setting(4, stationary=stationary), **options)
    rng = np.random.default_rng(11)
    while compiled.episodes < 700:
        play_model(compiled, mdp, rng, 700 - compiled.episodes, goal=-1.0)
    np.testing.assert_array_equal(compiled.index, explorer.index)
    np.testing.assert_array_equal(compiled.ask(), explorer.ask())


def test_a_policy_is_kept_between_the_passes_of_geometric():
    mdp = random_mdp(4, 3, seed=0)
    explorer = rf_ucrl(mdp.setting(3), replan="geometric", growth=2.0)
    rng = np.random.default_rng(0)
    changed_at = []
    for t in range(1, 70):
        before = explorer.ask()
        explorer.tell(*mdp.rollout(before, seed=rng))
        if (explorer.ask() != before).any():
            changed_at.append(t)
    assert set(changed_at) <= {1, 2, 4, 8, 16, 32, 64}
    assert len(changed_at) >= 4


def test_states_met_since_the_last_pass_are_as_unknown_as_the_others():
    """Under "geometric" a node found by walkers has the index of an unvisited pair, as it has when it is told of."""
    mdp = random_mdp(5, 2, seed=0)
    played = rf_ucrl(mdp.setting(3), replan="geometric", growth=100.0)
    rng = np.random.default_rng(0)
    play_model(played, mdp, rng, 1, goal=-1.0)
    seen, before = played.counts.n() > 0, played.index
    play_model(played, mdp, rng, 30, goal=-1.0)
    assert played.episodes == 31
    assert ((played.counts.n() > 0) & ~seen).any(), "nothing new was met: the test says nothing"
    np.testing.assert_array_equal(played.index, before)


@pytest.mark.slow
def test_ties_are_broken_evenly():
    """Before any data all actions are equal. Over 6,000 seeds each of 5 is taken equally often, in states independently.

    Chi-square at 3e-7 for each of three tables: a false alarm in 1 of 10^6 seeds.
    """
    setting = ar.Setting(n_states=3, n_actions=5, horizon=2, initial_state=0)
    asked = np.array([rf_ucrl(setting, seed=seed).ask() for seed in range(6_000)])
    one, other = asked[:, 0, 0], asked[:, 0, 1]
    for table in (np.bincount(one, minlength=5), np.bincount(asked[:, 1, 2], minlength=5), np.bincount(5 * one + other)):
        assert chisquare(table).pvalue > 3e-7


@pytest.mark.slow
def test_ties_among_some_are_broken_evenly():
    """One action has been tried twice and is better known: the two others share the choice. Binomial, five sigma: 6e-7."""
    setting = ar.Setting(n_states=2, n_actions=3, horizon=2, initial_state=0)
    taken = []
    for seed in range(4_000):
        explorer = rf_ucrl(setting, seed=seed, replan="every", clip=False)
        explorer.tell([[0, 1, 0]] * 2, [[1, 0]] * 2)
        taken.append(explorer.ask()[0, 0])
    counts = np.bincount(taken, minlength=3)
    assert counts[1] == 0
    assert abs(counts[0] - 2_000) < 5 * math.sqrt(1_000)


def test_ties_are_drawn_anew_each_episode():
    setting = ar.Setting(n_states=2, n_actions=3, horizon=2, initial_state=0)
    explorer = rf_ucrl(setting, replan="every")  # clipped: all stays at the cap for a long time
    asked = set()
    for _ in range(60):
        asked.add(explorer.ask()[0, 0])
        explorer.tell([0, 1, 0], [0, 0])
    assert asked == {0, 1, 2}


def test_a_long_horizon_with_few_states_is_no_burden():
    """Pooled steps have at most S nodes, so H planes of them are small: here 200 numbers, not 128 * 200 * 200."""
    mdp = ar.TabularMDP(np.ones((1, 1, 1)))
    tracemalloc.start()
    ar.explore(mdp, 200, algorithm="rf-ucrl", bounds="paper", max_episodes=2, stationary=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50e6


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"replan": "never"}, "replan is 'never': it has to be one of 'every', 'path', 'geometric'"),
        ({"ties": "last"}, "ties is 'last'"),
        ({"growth": 1.0}, "growth is 1.0: it has to be above 1"),
        ({"growth": float("nan")}, "growth is nan"),
        ({"growth": float("inf"), "replan": "geometric"}, "growth is inf"),
        ({"delta": 1.5}, "delta is 1.5"),
        ({"bounds": "loose"}, "bounds is 'loose'"),
    ],
)
def test_options_that_are_refused(options, names):
    with pytest.raises(ValueError, match=names):
        rf_ucrl(ar.Setting(n_states=2, n_actions=2, horizon=2), **options)

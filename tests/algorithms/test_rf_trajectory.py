"""RF-trajectory: its index against plain loops, and what it is for, fewer episodes."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anyreward as ar
from anyreward.environments.tabular import play

from ..helpers.problems import data, random_mdp, seeds
from ..helpers.reference import dense_counts, empirical


def index(starts, n, setting):
    """W_h(s,a) = kappa_h / n + p_hat_h . max_b W_{h+1}, with n = 0.1 and p_hat = 1/S where there is no data."""
    S, A, H, gamma = setting.n_states, setting.n_actions, setting.horizon, setting.discount
    _, p_hat = empirical(starts, n, setting)
    W = np.zeros((H + 1, S, A))
    for h in reversed(range(H)):
        kappa = 0.0
        for j in range(h if setting.arrival_rewards else h + 1, H):
            laws = j + setting.estimates_start + setting.arrival_rewards  # that stand behind the reward of time j
            kappa += gamma**j / math.sqrt(laws)
        if kappa == 0.0:
            continue  # the last transition, if nothing depends on it
        for s in range(S):
            for a in range(A):
                ahead = sum(p_hat[h, s, a, x] * max(W[h + 1, x]) for x in range(S))
                W[h, s, a] = kappa / max(0.1, n[h, s, a].sum()) + ahead
    return W[:H]


@pytest.mark.slow
@settings(max_examples=60)
@given(data(), st.booleans())
def test_the_index_is_the_formula(problem, arrival_rewards):
    setting, states, actions = problem
    setting = replace(setting, arrival_rewards=arrival_rewards)
    explorer = ar.RFTrajectory(setting, replan="every")
    if len(states):
        explorer.tell(states, actions)
    expected = index(*dense_counts(states, actions, setting), setting)
    assert explorer.index == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.slow
@settings(max_examples=30)
@given(data(max_episodes=15), seeds)
def test_it_plays_a_maximiser_of_the_index(problem, seed):
    setting, states, actions = problem
    explorer = ar.RFTrajectory(setting, replan="every", seed=seed)
    for path, moves in zip(states, actions, strict=True):
        explorer.tell(path, moves)
        W, policy = explorer.index, explorer.ask()
        chosen = np.take_along_axis(W, policy[..., None], axis=2)[..., 0]
        assert (chosen == W.max(axis=2)).all()


def test_it_tries_every_action_before_it_repeats_one():
    """An unvisited pair counts as a tenth of a visit: no visited one is as uncertain."""
    setting = ar.Setting(n_states=1, n_actions=5, horizon=3, initial_state=0)
    explorer = ar.RFTrajectory(setting)
    tried = []
    for _ in range(5):
        actions = explorer.ask()[:, 0]
        tried.append(actions[0])
        explorer.tell(np.zeros(4, int), actions)
    assert sorted(tried) == list(range(5))


@pytest.mark.slow
@pytest.mark.parametrize(("stationary", "paper"), [(False, 4.2e8), (True, 7.3e7)])
def test_far_fewer_episodes_than_the_paper_on_the_double_chain(stationary, paper):
    """epsilon = 0.1 H: the paper's algorithm and certificate need 4.2e8 and 7.3e7 episodes, which is run here as well."""
    mdp = ar.envs.double_chain()
    goal = {"horizon": 20, "epsilon": 2.0, "delta": 0.1, "stationary": stationary, "replan": "geometric"}
    theirs = ar.explore(mdp, algorithm="rf-ucrl", bounds="paper", **goal)
    assert theirs.episodes == pytest.approx(paper, rel=0.05)
    ours = ar.explore(mdp, transfer=False, **goal)
    assert ours.certificate.met
    assert ours.certificate.bounds == "tight"
    assert theirs.episodes > 500 * ours.episodes
    assert ours.certificate.check(ours.counts)


@pytest.mark.slow
def test_transfer_saves_episodes_where_the_steps_are_alike():
    mdp = ar.envs.double_chain()
    goal = {"horizon": 20, "epsilon": 4.0, "delta": 0.1, "replan": "geometric"}
    assert ar.explore(mdp, transfer=True, **goal).episodes < 0.8 * ar.explore(mdp, transfer=False, **goal).episodes


def test_fewer_episodes_than_rf_ucrl_for_the_same_certificate():
    """Going where 1/n adds up is what the trajectory certificate needs; RF-UCRL's index is made for another."""
    mdp = ar.envs.double_chain(length=11)
    goal = {"horizon": 8, "epsilon": 1.5, "bounds": "tight", "replan": "geometric"}
    episodes = [ar.explore(mdp, algorithm=name, **goal).episodes for name in ("rf-trajectory", "rf-ucrl")]
    assert episodes[0] <= episodes[1]


@pytest.mark.parametrize("replan", ["every", "path", "geometric"])
@pytest.mark.parametrize("random_start", [False, True])
@pytest.mark.parametrize("stationary", [False, True])
def test_it_stops_when_certified_and_the_plan_is_as_good_as_it_says(replan, random_start, stationary):
    """delta is 1e-8, so these twelve runs are wrong with probability 1.2e-7."""
    mdp = random_mdp(3, 2, seed=5, random_start=random_start)
    atlas = ar.explore(mdp, horizon=3, epsilon=0.9, delta=1e-8, replan=replan, stationary=stationary, discount=0.9, seed=3)
    assert atlas.certificate.met
    assert atlas.error_bound <= 0.45
    before = [epsilon for _, epsilon in atlas.history[:-1]]
    assert min(before) > 0.9  # and not before
    plan = atlas.plan(mdp.reward)
    optimum = mdp.initial @ ar.backward_induction(mdp, mdp.reward, 3, 0.9).V[0]
    value = mdp.initial @ ar.evaluate_policy(mdp, plan.policy, mdp.reward, 3, 0.9).V[0]
    assert plan.lower <= value <= optimum <= plan.upper
    assert optimum - value <= 0.9


def test_reading_the_bound_changes_nothing():
    mdp = random_mdp(4, 2, seed=1)
    setting = mdp.setting(4)
    for replan in ("every", "path", "geometric"):
        read, left_alone = (ar.RFTrajectory(setting, replan=replan, seed=2) for _ in range(2))
        for t in range(60):
            policy = read.ask()
            assert (policy == left_alone.ask()).all()
            episode = mdp.rollout(policy, seed=t)
            read.tell(*episode)
            left_alone.tell(*episode)
            assert read.error_bound == read.error_bound
        assert read.counts == left_alone.counts
        assert read.error_bound == left_alone.error_bound


def refined(replan="every", episodes=3000, **options):
    """An explorer of a model with deterministic and random pairs, to which little is left to discover, and its data."""
    mdp, H = ar.envs.deep_sea(3, slip=0.2), 3
    explorer = ar.RFTrajectory(mdp.setting(H), replan=replan, seed=1, **options)
    rng, data = np.random.default_rng(0), []
    for _ in range(episodes):
        data.append(mdp.rollout(explorer.ask(), seed=rng))
        explorer.tell(*data[-1])
    states, actions = (np.concatenate([np.atleast_2d(one[i]) for one in data]) for i in (0, 1))
    return explorer, states, actions


def little_is_left(W, setting):
    """Lambda W <= 0.004 sigma^2, with Lambda the sum of the square roots of the steps before each reward."""
    return sum(math.sqrt(j) for j in range(setting.horizon)) * W <= 0.004 * setting.horizon**2


def with_half_charges(starts, n, setting):
    """The index where a pair with one successor is charged kappa / (2 n)."""
    S, A, H = setting.n_states, setting.n_actions, setting.horizon
    _, p_hat = empirical(starts, n, setting)
    W = np.zeros((H + 1, S, A))
    for h in reversed(range(H - 1)):
        kappa = sum(1 / math.sqrt(j) for j in range(h + 1, H))
        for s in range(S):
            for a in range(A):
                visits, k = n[h, s, a].sum(), (n[h, s, a] > 0).sum()
                ahead = sum(p_hat[h, s, a, x] * max(W[h + 1, x]) for x in range(S))
                W[h, s, a] = kappa * (0.5 if k == 1 else 1.0) / max(0.1, visits) + ahead
    return W[:H]


def test_pairs_with_one_successor_are_charged_half_once_little_is_left():
    explorer, states, actions = refined()
    setting = explorer.setting
    starts, n = dense_counts(states, actions, setting)
    assert explorer.refines
    np.testing.assert_allclose(explorer.index, with_half_charges(starts, n, setting), rtol=1e-10)
    assert np.abs(explorer.index - index(starts, n, setting)).max() > 1e-4  # it makes a difference


def test_they_are_charged_in_full_before_that():
    """It is asked after 256 episodes, and whenever there are 1.2 times as many; after fewer, nothing changes."""
    asked = [256]
    while asked[-1] < 3000:
        asked.append(math.ceil(1.2 * asked[-1]))
    changed = None
    _, states, actions = refined()
    for t in asked:
        explorer, _, _ = refined(episodes=min(t, 3000))
        setting = explorer.setting
        starts, n = dense_counts(states[:t], actions[:t], setting)
        W = index(starts, n, setting)[0, setting.initial_state].max()
        assert explorer.refines == (changed is not None or little_is_left(W, setting))
        if explorer.refines:
            changed = t
            break
    assert changed is not None
    assert changed > 256
    before, _, _ = refined(episodes=changed - 1)
    assert not before.refines


@pytest.mark.parametrize("replan", ["every", "path"])
def test_it_refines_at_the_same_episode_however_it_is_told(replan):
    """One by one, in batches, in the compiled loop in pieces of any size, and from a state that was saved before."""
    mdp = ar.envs.deep_sea(3, slip=0.2)
    one, states, actions = refined(replan, 1500)
    batch = ar.RFTrajectory(one.setting, replan=replan, seed=1)
    batch.tell(states, actions)
    assert one.refines
    assert batch.counts == one.counts
    np.testing.assert_array_equal(batch.index, one.index)
    loops = []
    for per_call in (10_000, 7):
        explorer, rng = ar.RFTrajectory(one.setting, replan=replan, seed=1), np.random.default_rng(3)
        explorer.per_call = per_call
        while explorer.episodes < 1500:
            play(explorer, mdp, rng, 1500 - explorer.episodes)
            if per_call == 7 and explorer.episodes in (259, 700, 1400):  # before, and after
                again = ar.RFTrajectory(one.setting, replan=replan, seed=1)
                again.restore(explorer.state())
                assert again.refines == explorer.refines
                explorer, again.per_call = again, per_call
        loops.append(explorer)
    assert loops[0].refines
    assert loops[0].counts == loops[1].counts
    np.testing.assert_array_equal(loops[0].index, loops[1].index)


def test_going_on_from_enough_counts_it_refines_at_once():
    explorer, states, actions = refined()
    again = ar.RFTrajectory(explorer.setting)
    again.go_on_from(ar.Counts.from_episodes(states, actions, explorer.setting))
    assert again.refines
    again.go_on_from(ar.Counts.from_episodes(states[:10], actions[:10], explorer.setting))
    assert not again.refines


@pytest.mark.parametrize("damage", [np.array([2, 0]), np.array([1.0, 0.0]), np.array([1])])
def test_a_damaged_state_is_refused(damage):
    explorer, _, _ = refined(episodes=5)
    with pytest.raises(ValueError, match="its charges are damaged"):
        ar.RFTrajectory(explorer.setting).restore({**explorer.state(), "refines": damage})


@pytest.mark.slow
def test_on_deep_sea_it_certifies_no_less_than_counting_visits():
    """Three runs of each: 1.085 beside 1.130 after 20,000 episodes, and the same to three digits for all seeds."""
    mdp, epsilons = ar.envs.deep_sea(8, slip=0.125), {}
    for name in ("rf-trajectory", "count"):
        found = [ar.explore(mdp, 8, algorithm=name, max_episodes=20_000, seed=seed).certificate.epsilon for seed in range(3)]
        epsilons[name] = max(found) if name == "rf-trajectory" else min(found)
    assert epsilons["rf-trajectory"] < epsilons["count"] - 0.02

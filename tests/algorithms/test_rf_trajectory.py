"""RF-trajectory: its index against plain loops, and what it is for, fewer episodes."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anyreward as ar

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


@pytest.mark.parametrize("replan", ["every", "path"])
def test_a_charge_for_each_successor_is_k_over_n(replan):
    """W = kappa k / n + p_hat max W, k being the number of successors that were seen; "visits" is the default."""
    mdp, H = random_mdp(4, 2, seed=3), 4
    setting = mdp.setting(H)
    explorer = ar.RFTrajectory(setting, charge="successors", replan=replan, seed=1)
    states, actions = mdp.rollout(np.zeros((H, 4), int), 30, seed=0)
    explorer.tell(states, actions)
    starts, n = dense_counts(states, actions, setting)
    _, p_hat = empirical(starts, n, setting)
    kappa = [sum(1 / math.sqrt(j) for j in range(h + 1, H)) for h in range(H)]
    W = np.zeros((H + 1, 4, 2))
    for h in reversed(range(H - 1)):
        for s in range(4):
            for a in range(2):
                visits, k = n[h, s, a].sum(), (n[h, s, a] > 0).sum()
                W[h, s, a] = kappa[h] * (k / visits if visits else 10) + sum(
                    p_hat[h, s, a, x] * max(W[h + 1, x]) for x in range(4)
                )
    if replan == "every":
        np.testing.assert_allclose(explorer.index, W[:H], rtol=1e-10)
        assert np.abs(explorer.index - ar.RFTrajectory(setting, replan=replan).index).max() > 0.1
    else:  # stale elsewhere, but what was visited last is up to date
        s, a = states[-1, H - 2], actions[-1, H - 2]
        assert explorer.index[H - 2, s, a] == pytest.approx(W[H - 2, s, a])
    with pytest.raises(ValueError, match="charge is 'radius': it has to be 'visits' or 'successors'"):
        ar.RFTrajectory(setting, charge="radius")

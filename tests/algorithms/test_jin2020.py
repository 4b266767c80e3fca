"""RF-RL-Explore: which episodes it plays for each step and state, and what it draws from its buffer."""

import numpy as np
import pytest
from scipy.stats import chi2

import anyreward as ar
from anyreward.algorithms import EULER, Jin2020
from anyreward.environments.tabular import play as play_model

from ..helpers.conversions import CONVERSIONS, advanced, make
from ..helpers.explorers import FALSE_ALARM
from ..helpers.problems import random_mdp


@pytest.mark.slow
def test_it_plays_euler_for_each_step_and_state_in_turn():
    """The first n0 episodes of a goal are those of EULER with the reward 1{s at step h}, budget n0, from no data."""
    mdp, H, S, n0 = random_mdp(2, 2, seed=0), 2, 2, 7
    setting, rng = mdp.setting(H), np.random.default_rng(0)
    explorer = Jin2020(setting, budget=100, n0=n0, seed=5)
    for goal in range(H * S):
        reward = np.zeros((H, S, 2))
        reward[divmod(goal, S)] = 1.0
        euler = EULER(setting, reward, budget=n0, bounds="paper", seed=5 * H * S + goal)
        for _ in range(n0):
            np.testing.assert_array_equal(explorer.ask(), euler.ask())
            episode = mdp.rollout(explorer.ask(), seed=rng)
            explorer.tell(*episode)
            euler.tell(*episode)
    assert explorer.counts.episodes == H * S * n0


@pytest.mark.slow
def test_then_it_draws_uniformly_from_its_buffer_with_a_uniform_action_at_the_goal():
    """Each of H S n0 policies equally likely, and changed in one entry only. False alarm below 1e-7 a statistic."""
    mdp, H, S, A, n0 = random_mdp(2, 3, seed=1), 2, 2, 3, 5
    explorer, rng = Jin2020(mdp.setting(H), budget=100, n0=n0), np.random.default_rng(0)
    advanced(explorer, mdp, H * S * n0, rng)
    buffer = np.stack(explorer._buffer)  # (goals, n0, H, S)
    assert buffer.shape == (H * S, n0, H, S)
    drawn = explorer._drawn(H * S * n0, 3000)
    fits = np.zeros(len(drawn))
    for goal in range(H * S):
        h, s = divmod(goal, S)
        others = np.ones((H, S), bool)
        others[h, s] = False
        fits += (drawn[:, None][..., others] == buffer[goal][None][..., others]).all(axis=2).any(axis=1)
    assert (fits > 0).all()  # every one is a policy of the buffer but for the goal
    expected = np.zeros((H, S, A))  # of each entry: the mixture over the buffer, uniform at the goal
    for goal, k in np.ndindex(H * S, n0):
        law = np.eye(A)[buffer[goal, k]]
        law[divmod(goal, S)] = 1 / A
        expected += law / (H * S * n0)
    found = np.stack([(drawn == a).sum(axis=0) for a in range(A)], axis=2)
    chances = np.maximum(len(drawn) * expected, 1e-9)
    assert (found[expected == 0] == 0).all()
    assert (((found - chances) ** 2 / chances).sum(axis=2) < chi2.isf(FALSE_ALARM, A - 1)).all()
    rng.random()
    np.testing.assert_array_equal(explorer._drawn(H * S * n0 + 300, 40), drawn[300:340])  # the same in any portions


def test_it_visits_everything_that_can_be_reached():
    """N / (2 S A H) visits at least of every (h, s, a), though state 1 is reached by one action, which has to be repeated."""
    H, S, A, N0, N = 3, 2, 2, 400, 4000
    P = np.zeros((S, A, S))
    P[0, 0], P[0, 1], P[1, 0], P[1, 1] = [0.95, 0.05], [0.4, 0.6], [0.9, 0.1], [0.3, 0.7]
    mdp, rng = ar.TabularMDP(P), np.random.default_rng(3)
    explorer = Jin2020(mdp.setting(H), budget=S * H * N0 + N, n0=N0)
    advanced(explorer, mdp, S * H * N0, rng)
    before = explorer.counts.columns()
    advanced(explorer, mdp, S * H * N0 + N, rng)
    after = explorer.counts.columns()
    n = np.zeros((2, H, S, A))
    for side, columns in enumerate((before, after)):
        real = columns["h"] >= 0
        np.add.at(n[side], tuple(columns[k][real] for k in ("h", "s", "a")), columns["count"][real])
    second = n[1] - n[0]
    assert second.sum() == N * H
    reachable = np.ones((H, S), bool)
    reachable[0, 1] = False
    assert (second[reachable] >= N / (2 * S * A * H)).all()
    assert (second[~reachable] == 0).all()


def test_half_of_the_budget_is_for_the_goals_by_default():
    setting = ar.Setting(n_states=3, n_actions=2, horizon=4, initial_state=0)
    assert Jin2020(setting, budget=2400).n0 == 100
    assert Jin2020(setting, budget=5).n0 == 1


@pytest.mark.slow
@pytest.mark.parametrize("portions", [(1,), (3, 11, 200), (10_000,)])
def test_portions_do_not_matter(portions):
    """The compiled loop played in any portions is the loop of ask and tell."""
    mdp = random_mdp(3, 2, seed=2)
    for name in CONVERSIONS:
        one, many, rng, other = (
            *(make(name, mdp.setting(2), seed=3) for _ in range(2)),
            *(np.random.default_rng(1) for _ in range(2)),
        )
        i = 0
        while one.episodes < 260:
            play_model(one, mdp, rng, min(portions[i % len(portions)], 260 - one.episodes), 0.0)
            i += 1
        for _ in range(260):
            many.tell(*mdp.rollout(many.ask(), seed=other))
        assert one.counts == many.counts, name
        np.testing.assert_array_equal(one.ask(), many.ask())
        assert name == "jin2020" or [p.tolist() for p in one.policies] == [p.tolist() for p in many.policies]
        assert name != "regret-instances" or one.returns.tolist() == pytest.approx(many.returns.tolist(), rel=1e-12)

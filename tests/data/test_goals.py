"""Stochastic shortest paths as models with a reward: against exact expected costs."""

import numpy as np
import pytest

import anyreward as ar
from anyreward import theory

from ..helpers.problems import random_mdp


def truncated(P, c, goal, policy, H, price, start):
    """E[costs of the steps until the goal] + price P(not there after H - 1 transitions), forward in plain loops."""
    mass, total = np.zeros(len(P)), 0.0
    mass[start] = 1.0
    for h in range(H):
        ahead = np.zeros(len(P))
        for s in np.flatnonzero(mass):
            if s == goal:
                ahead[s] += mass[s]
                continue
            total += mass[s] * (c[s, policy[h, s]] + price * (h == H - 1))
            ahead += mass[s] * P[s, policy[h, s]]
        mass = ahead
    return total


def cheapest(P, c, goal):
    """The smallest expected cost until the goal from every state, and the expected steps of that policy, by policy iteration."""
    n = len(c)
    others, policy = np.array([s for s in range(n) if s != goal]), np.zeros(n, int)
    while True:
        at = others, policy[others]
        inverse = np.linalg.inv(np.eye(n - 1) - P[at][:, others])
        J, steps = np.zeros(n), np.zeros(n)
        J[others], steps[others] = inverse @ c[at], inverse @ np.ones(n - 1)
        better = (c + P @ J).argmin(axis=1)
        if np.allclose((c + P @ J)[others].min(axis=1), J[others], atol=1e-12):
            return J, steps
        policy = better


def test_the_chain_to_its_right_end():
    """From 15 to 30 takes 18.75 steps; a tenth of a step is lost to the horizon and the price together, at most."""
    mdp, tau, epsilon = ar.envs.double_chain(), 37.344, 0.1
    H = theory.horizon_for_goal(tau, epsilon)
    made = mdp.with_goal(30, H, price=tau)
    right, reward = np.ones((H, 31), int), made.reward
    assert H == 822
    assert (reward.min(), reward.max()) == (0.0, 1.0)
    for policy in (right, np.random.default_rng(0).integers(0, 2, (H, 31))):
        value = ar.evaluate_policy(made, policy, reward, H).V[0, 15]
        cost = truncated(mdp.dense(), np.ones((31, 2)), 30, policy, H, tau, 15)
        assert H + tau - (1 + tau) * value == pytest.approx(cost, rel=1e-9)
    best = H + tau - (1 + tau) * ar.backward_induction(made, reward, H).V[0, 15]
    assert 18.75 - epsilon / 4 <= best <= 18.75 + epsilon / 4
    assert made.initial_state == 15
    assert made.numbering is mdp.numbering


@pytest.mark.parametrize("seed", range(3))
def test_random_problems_lose_at_most_what_is_promised(seed):
    mdp, goal, epsilon = random_mdp(5, 3, seed=seed), 4, 0.2
    P, c = mdp.dense(), np.random.default_rng(seed).uniform(0.1, 1.0, (5, 3))
    J, steps = cheapest(P, c, goal)
    tau = float(steps.max())
    H = theory.horizon_for_goal(tau, epsilon)
    made = mdp.with_goal([goal], H, tau, c)
    found = ar.backward_induction(made, made.reward, H)
    best = H + tau - (1 + tau) * found.V[0]
    assert (best <= J + epsilon / 4 + 1e-9)[:4].all()
    played = [truncated(P, c, goal, found.policy, H, tau, s) for s in range(4)]
    np.testing.assert_allclose(played, best[:4], rtol=1e-9)
    for s in range(4):  # followed by the optimal policy after H steps, it costs no more than that, and no less than the optimum
        mass, total = np.eye(5)[s], 0.0
        for h in range(H):
            mass[goal] = 0.0
            total += sum(mass[x] * c[x, found.policy[h, x]] for x in range(5))
            mass = sum(mass[x] * P[x, found.policy[h, x]] for x in range(5))
        mass[goal] = 0.0
        assert J[s] - 1e-9 <= total + mass @ J <= best[s] + 1e-9


def test_a_price_that_is_too_small_pays_for_staying_away_and_steps_are_kept():
    P = np.zeros((2, 2, 2))
    P[0, 0, 0] = P[0, 1, 1] = P[1, :, 1] = 1.0
    mdp = ar.TabularMDP(P)
    cost = [[0.1, 1.0], [0.0, 0.0]]  # waiting is cheap, arriving is not
    for price, action in ((0.5, 0), (2.0, 1)):
        made = mdp.with_goal(1, 3, price, cost)
        assert ar.backward_induction(made, made.reward, 3).policy[0, 0] == action
    timed = ar.TabularMDP(np.stack([P, P[:, ::-1]])).with_goal(np.array([False, True]), 2, 1.0)
    assert timed.n_steps == 2
    np.testing.assert_array_equal(timed.dense()[:, 1, :, 1], 1.0)
    np.testing.assert_array_equal(timed.dense()[1, 0], P[0, ::-1])
    atlas = ar.explore(made, 3, max_episodes=50, absorbing_states=(1,))
    assert atlas.plan("own").policy[0, 0] == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"goal": 9}, "goal is 9: it has to be states from 0 to 4"),
        ({"goal": []}, "goal is"),
        ({"horizon": 0}, "horizon is 0"),
        ({"price": -1.0}, "price is -1.0"),
        ({"price": np.inf}, "price is inf"),
        ({"cost": 2.0}, r"cost\[0, 0\] is 2.0: costs have to be in \[0, 1\]"),
        ({"cost": np.ones(3)}, "cost is"),
        ({"cost": np.nan}, "cost"),
    ],
)
def test_bad_goals_are_named(change, said):
    with pytest.raises(ValueError, match=said):
        random_mdp(5, 2, seed=0).with_goal(**{"goal": 4, "horizon": 5, "price": 1.0, **change})

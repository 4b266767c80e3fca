"""Environments, cell by cell where it matters."""

import math

import numpy as np
import pytest

import anyreward as ar


@pytest.mark.parametrize(
    "mdp",
    [
        ar.envs.double_chain(),
        ar.envs.double_chain(2, 1.0, "authors"),
        ar.envs.grid_world(),
        ar.envs.grid_world(variant="authors"),
        ar.envs.grid_world(1, 1, start=(0, 0), goal=(0, 0)),
        ar.envs.grid_world(1, 1, start=(0, 0), goal=(0, 0), variant="authors"),
        ar.envs.garnet(5, 2, 3),
        ar.envs.garnet(5, 2, 5, horizon=3),
        ar.envs.inventory(),
        ar.envs.inventory(1, 0, 0.01),
        ar.envs.inventory(5, 3, 500.0, start=0),
    ],
    ids=repr,
)
def test_every_environment_is_a_model_with_a_reward_in_0_1(mdp):
    P = mdp.dense()
    assert (P >= 0).all()
    np.testing.assert_allclose(P.sum(axis=-1), 1, atol=1e-12)
    assert mdp.initial_state is not None
    assert mdp.reward.shape == (mdp.n_states, mdp.n_actions)
    assert 0 <= mdp.reward.min() <= mdp.reward.max() <= 1


def test_double_chain():
    mdp = ar.envs.double_chain(length=31, fail_prob=0.1)
    P = mdp.dense()
    assert (mdp.n_states, mdp.n_actions, mdp.initial_state) == (31, 2, 15)
    for s in range(31):
        left, right = max(s - 1, 0), min(s + 1, 30)
        assert P[s, 0, left] == pytest.approx(0.9 if left != right else 1.0)
        assert P[s, 0, right] == pytest.approx(0.1)
        assert P[s, 1, right] == pytest.approx(0.9)
        assert P[s, 1, left] == pytest.approx(0.1)
    assert mdp.reward[30].tolist() == [1.0, 1.0]
    assert mdp.reward[:30].sum() == 0


def test_double_chain_of_the_authors():
    """1 for staying at the right end: with probability 0.95 when moving right, 0.05 when moving left."""
    mdp = ar.envs.double_chain(fail_prob=0.05, variant="authors")
    assert mdp.reward[-1].tolist() == pytest.approx([0.05, 0.95])
    np.testing.assert_array_equal(mdp.dense(), ar.envs.double_chain(fail_prob=0.05).dense())


@pytest.mark.parametrize(("length", "middle"), [(2, 0), (3, 1), (4, 1), (5, 2)])
def test_the_middle_of_a_chain(length, middle):
    assert ar.envs.double_chain(length).initial_state == middle


MOVES = {0: (0, -1), 1: (0, 1), 2: (-1, 0), 3: (1, 0)}  # left, right, up, down


def landing(rows, cols, cell, action):
    r, c = cell[0] + MOVES[action][0], cell[1] + MOVES[action][1]
    return (r, c) if 0 <= r < rows and 0 <= c < cols else cell


@pytest.mark.parametrize(("rows", "cols"), [(3, 4), (1, 5), (2, 2), (1, 1)])
def test_grid_world(rows, cols):
    """0.85 where one aims, 0.05 in each other direction, walls hold."""
    mdp = ar.envs.grid_world(rows, cols, 0.85, start=(rows - 1, 0), goal=(0, cols - 1))
    P = mdp.dense()
    for r, c, a in np.ndindex(rows, cols, 4):
        expected = np.zeros(rows * cols)
        for b in range(4):
            x, y = landing(rows, cols, (r, c), b)
            expected[x * cols + y] += 0.85 if b == a else 0.05
        np.testing.assert_allclose(P[r * cols + c, a], expected, atol=1e-12)
    assert mdp.initial_state == (rows - 1) * cols
    assert np.flatnonzero(mdp.reward.sum(axis=1)).tolist() == [cols - 1]


@pytest.mark.parametrize(("rows", "cols"), [(3, 4), (1, 5), (2, 2), (1, 1)])
def test_grid_world_of_the_authors(rows, cols):
    """Into a wall: stay. Otherwise 0.85 where one aims and the rest evenly over the other neighbours, if there are any."""
    goal = (0, cols - 1)
    mdp = ar.envs.grid_world(rows, cols, 0.85, start=(0, 0), goal=goal, variant="authors")
    P = mdp.dense()
    for r, c, a in np.ndindex(rows, cols, 4):
        expected, aimed = np.zeros((rows, cols)), landing(rows, cols, (r, c), a)
        others = [cell for b in range(4) if b != a and (cell := landing(rows, cols, (r, c), b)) != (r, c)]
        if aimed == (r, c) or not others:
            expected[aimed] = 1.0
        else:
            expected[aimed] += 0.85
            for cell in others:
                expected[cell] += 0.15 / len(others)
        np.testing.assert_allclose(P[r * cols + c, a], expected.ravel(), atol=1e-12)
        assert mdp.reward[r * cols + c, a] == pytest.approx(expected[goal])


def test_the_grid_of_the_paper():
    mdp = ar.envs.grid_world()
    assert (mdp.n_states, mdp.n_actions, mdp.initial_state) == (441, 4, 10 * 21 + 10)
    assert mdp.reward[16 * 21 + 16].tolist() == [1.0] * 4


@pytest.mark.parametrize("horizon", [None, 3])
def test_garnet(horizon):
    mdp = ar.envs.garnet(8, 2, 3, seed=5, horizon=horizon)
    P = mdp.dense()
    assert P.shape == ((8, 2, 8) if horizon is None else (3, 8, 2, 8))
    assert (np.count_nonzero(P, axis=-1) == 3).all()
    np.testing.assert_array_equal(P, ar.envs.garnet(8, 2, 3, seed=5, horizon=horizon).dense())
    assert (ar.envs.garnet(8, 2, 3, seed=6, horizon=horizon).dense() != P).any()


def poisson(k, mean):
    return math.exp(-mean) * mean**k / math.factorial(k)


def test_inventory():
    """Demand by demand: the order fills the shelf, the demand empties it, neither beyond what there is."""
    capacity, max_order, mean = 6, 3, 2.5
    mdp = ar.envs.inventory(capacity, max_order, mean)
    P = mdp.dense()
    profit = ar.envs.inventory_profit(capacity, max_order, mean, price=5.0, unit_cost=2.0, order_fee=1.0, holding_cost=0.25)
    assert mdp.initial_state == capacity
    for stock, order in np.ndindex(capacity + 1, max_order + 1):
        shelf = min(capacity, stock + order)
        expected, sold = np.zeros(capacity + 1), 0.0
        for demand in range(80):
            expected[max(0, shelf - demand)] += poisson(demand, mean)
            sold += poisson(demand, mean) * min(shelf, demand)
        np.testing.assert_allclose(P[stock, order], expected, atol=1e-12)
        cost = 2.0 * (shelf - stock) + (1.0 if order else 0.0) + 0.25 * shelf
        assert profit[stock, order] == pytest.approx(5.0 * sold - cost, abs=1e-9)


def test_the_reward_of_an_inventory_is_its_profit_brought_to_0_1():
    profit = ar.envs.inventory_profit()
    expected = (profit - profit.min()) / (profit.max() - profit.min())
    np.testing.assert_allclose(ar.envs.inventory().reward, expected, atol=1e-12)
    assert ar.envs.inventory(start=3).initial_state == 3


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda: ar.envs.double_chain(length=1), "length is 1"),
        (lambda: ar.envs.double_chain(fail_prob=1.5), "fail_prob is 1.5"),
        (lambda: ar.envs.double_chain(fail_prob=float("nan")), "fail_prob is nan"),
        (lambda: ar.envs.double_chain(variant="mine"), "variant is 'mine'"),
        (lambda: ar.envs.grid_world(rows=0), "rows and cols are 0 and 21"),
        (lambda: ar.envs.grid_world(success_prob=-0.1), "success_prob is -0.1"),
        (lambda: ar.envs.grid_world(rows=5, cols=5), r"start is \(10, 10\)"),
        (lambda: ar.envs.grid_world(goal=(21, 0)), r"goal is \(21, 0\)"),
        (lambda: ar.envs.grid_world(variant="mine"), "variant is 'mine'"),
        (lambda: ar.envs.garnet(3, 2, 4), "branching is 4"),
        (lambda: ar.envs.garnet(3, 2, 0), "branching is 0"),
        (lambda: ar.envs.inventory(capacity=0), "capacity is 0"),
        (lambda: ar.envs.inventory(max_order=-1), "max_order -1"),
        (lambda: ar.envs.inventory(mean_demand=0.0), "mean_demand is 0.0"),
        (lambda: ar.envs.inventory(start=21), "21"),
    ],
)
def test_what_is_refused(function, names):
    with pytest.raises(ValueError, match=names):
        function()

"""The inventory: its transitions and its profit."""

import math

import numpy as np
import pytest

import anyreward as ar


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

"""Stock keeping: the transitions stay the same and are explored once, while the prices change."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..data.tabular import TabularMDP, check_size
from ..structure import Structure
from .registry import register


def _demand(capacity: int, mean_demand: float) -> np.ndarray:
    """Probabilities of a demand of 0 ... capacity and of more, (capacity + 2,), for a Poisson distribution.

    Demand above the capacity is one entry, because it is lost anyway.
    """
    k = np.arange(1, capacity + 1)
    p = np.exp(np.concatenate([[0.0], np.cumsum(np.log(mean_demand / k))]) - mean_demand)
    return np.append(p, max(0.0, 1.0 - p.sum()))


@register("inventory")
def inventory(capacity: int = 20, max_order: int = 10, mean_demand: float = 5.0, start: int | None = None) -> TabularMDP:
    """An inventory problem: decide every evening how much to order for the next day.

        shop = anyreward.envs.inventory(capacity=20, mean_demand=5.0)

    The state is the stock in the evening, 0 ... capacity, and the action is the size of the order, 0 ... max_order. The order
    arrives overnight; what exceeds the capacity is sent back, so the stock in the morning is min(capacity, stock + order). The
    demand of the next day is Poisson; demand beyond the stock is lost, so the stock never goes below 0.

    The default reward is `inventory_profit` with its default prices, rescaled to [0, 1]. To plan for a price list in its own
    units, pass the profit and its range: ``atlas.plan(profit, reward_range=(profit.min(), profit.max()))``.

    Its structure is one law of demand. A draw counts if the shelf was full, so that any demand within the capacity can be told.

    Parameters
    ----------
    capacity
        The largest stock, at least 1.
    max_order
        The largest order, at least 0.
    mean_demand
        Mean demand of a day, above 0.
    start
        The initial stock. None: the capacity.
    """
    if capacity < 1 or max_order < 0:
        raise ValueError(f"capacity is {capacity} and max_order {max_order}: they have to be at least 1 and 0.")
    if not mean_demand > 0:
        raise ValueError(f"mean_demand is {mean_demand}: it has to be positive.")
    check_size((capacity + 1) ** 2 * (max_order + 1), "inventory")
    P = np.zeros((capacity + 1, max_order + 1, capacity + 1))
    demand = _demand(capacity, mean_demand)
    for stock in range(capacity + 1):
        for order in range(max_order + 1):
            shelf = min(capacity, stock + order)
            P[stock, order, 1 : shelf + 1] = demand[:shelf][::-1]
            P[stock, order, 0] = demand[shelf:].sum()
    profit = inventory_profit(capacity, max_order, mean_demand)
    reward = (profit - profit.min()) / (profit.max() - profit.min()) if np.ptp(profit) else np.zeros_like(profit)
    mdp = TabularMDP(P, initial=capacity if start is None else start, reward=reward)
    mdp.structure = Structure(
        law=_demanded,
        outcomes=capacity + 1,  # the last one stands for all larger ones
        successor=partial(_left, capacity=capacity),
    )
    return mdp


def _demanded(stock: int, order: int) -> str:
    """The law of a day: its demand."""
    return "demand"


def _left(stock: int, order: int, demand: int, *, capacity: int) -> int:
    return max(0, min(capacity, stock + order) - demand)


def inventory_profit(
    capacity: int = 20,
    max_order: int = 10,
    mean_demand: float = 5.0,
    price: float = 4.0,
    unit_cost: float = 2.0,
    order_fee: float = 1.0,
    holding_cost: float = 0.1,
) -> np.ndarray:
    """Expected profit of a day in an inventory problem, (capacity+1, max_order+1), in units of money.

        profit = anyreward.envs.inventory_profit(holding_cost=0.5)      # (21, 11): for each stock and order

    The profit is price * (units sold) - unit_cost * (units of the order that are kept) - order_fee if anything is ordered
    - holding_cost * (stock in the morning).

    Parameters
    ----------
    capacity, max_order, mean_demand
        As for `inventory`.
    price
        What a customer pays for a unit.
    unit_cost
        What the supplier is paid for a unit that is kept.
    order_fee
        What every order costs that is not empty.
    holding_cost
        What each unit in stock in the morning costs.
    """
    stock, order = np.ogrid[: capacity + 1, : max_order + 1]
    shelf = np.minimum(capacity, stock + order)
    demand = _demand(capacity, mean_demand)
    sold = np.array([demand @ np.minimum(np.arange(capacity + 2), s) for s in range(capacity + 1)])[shelf]
    return price * sold - unit_cost * (shelf - stock) - order_fee * (order > 0) - holding_cost * shelf

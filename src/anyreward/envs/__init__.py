"""Environments: known models to explore, to test with and to learn from.

==================  ======================================================================
`double_chain`      the paper's first experiment: a walk between two ends
`grid_world`        the paper's second experiment: a walk in a room
`garnet`            random sparse models, for tests
`inventory`         stock keeping; its reward is a price list that changes (`inventory_profit`)
==================  ======================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..mdp import TabularMDP
from .double_chain import double_chain
from .garnet import garnet
from .grid_world import grid_world
from .inventory import inventory, inventory_profit

ENVIRONMENTS: dict[str, Callable[..., TabularMDP]] = {
    "double-chain": double_chain,
    "garnet": garnet,
    "grid-world": grid_world,
    "inventory": inventory,
}


def make(name: str, **arguments: Any) -> TabularMDP:
    """The environment of a name in `ENVIRONMENTS`."""
    try:
        mdp = ENVIRONMENTS[name](**arguments)
    except TypeError as problem:
        raise ValueError(f"an argument does not suit {name}: {str(problem).split(') ', 1)[-1]}.") from None
    mdp.name = name
    return mdp


__all__ = ["ENVIRONMENTS", "double_chain", "garnet", "grid_world", "inventory", "inventory_profit", "make"]

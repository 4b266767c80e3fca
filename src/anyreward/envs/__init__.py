"""Known models (`TabularMDP`) to explore, to test with and to learn from.

==================  ======================================================================
`double_chain`      the paper's first experiment: a random walk on a line
`grid_world`        the paper's second experiment: a random walk on a grid
`garnet`            random sparse models, for tests
`inventory`         stock keeping; its reward is a price list that changes (`inventory_profit`)
==================  ======================================================================
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from .double_chain import double_chain
from .garnet import garnet
from .grid_world import grid_world
from .inventory import inventory, inventory_profit
from .registry import ENVIRONMENTS, make, register

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["ENVIRONMENTS", "double_chain", "garnet", "grid_world", "inventory", "inventory_profit", "make", "register"]

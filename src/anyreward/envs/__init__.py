"""Known models (`TabularMDP`) to explore, to test with and to learn from.

==================  ======================================================================
`double_chain`      the paper's first experiment: a random walk on a line
`grid_world`        the paper's second experiment: a random walk on a grid
`garnet`            random sparse models, for tests
`inventory`         stock keeping; its reward is a price list that changes (`inventory_profit`)
`river_swim`        a river to be swum against its current
`deep_sea`          a treasure that one of 2^N sequences of moves finds
`n_room`            rooms in a row with doors between them
`taxi`              fetch a passenger and take them where they want to go
==================  ======================================================================
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from .deep_sea import deep_sea
from .double_chain import double_chain
from .garnet import garnet
from .grid_world import grid_world
from .inventory import inventory, inventory_profit
from .n_room import n_room
from .registry import ENVIRONMENTS, make, register
from .river_swim import river_swim
from .taxi import taxi

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "ENVIRONMENTS",
    "deep_sea",
    "double_chain",
    "garnet",
    "grid_world",
    "inventory",
    "inventory_profit",
    "make",
    "n_room",
    "register",
    "river_swim",
    "taxi",
]

"""Environments: known models to explore, to test with and to learn from.

==================  ======================================================================
`double_chain`      the paper's first experiment: a walk between two ends
`grid_world`        the paper's second experiment: a walk in a room
`garnet`            random sparse models, for tests
`inventory`         stock keeping; its reward is a price list that changes (`inventory_profit`)
==================  ======================================================================
"""

from .double_chain import double_chain
from .garnet import garnet
from .grid_world import grid_world
from .inventory import inventory, inventory_profit

__all__ = ["double_chain", "garnet", "grid_world", "inventory", "inventory_profit"]

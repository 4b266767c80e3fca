"""The compiled loops, and only they: pure functions on arrays, grouped by what they know.

===========  =======================================================================================
`table`      what was visited: nodes, rows and edges, and how one transition is recorded
`greedy`     the greedy policy of an index over visited nodes, with ties broken repeatably
`simulate`   a known model: one step, one episode, many walkers at once
`episode`    one episode of a greedy policy on a known model, recorded as it goes
`loop`       play an episode, learn from it, go on: the compiled form of `ask` and `tell`
`rf`         an error index: one path, one full backward pass
`radii`      how far a law can be from the empirical one: KL thresholds, TV radii
`ball`       the largest and smallest expectation over a KL ball
`robust`     planning over KL balls
`bpi`        upper and lower values of one reward on visited nodes, over balls
`optimism`   an optimistic index, whose formulas are the algorithm's own: one full backward pass after every episode
`phases`     upper and lower values that are computed anew when a count has doubled
`trajectory` the trajectory certificate: a backward pass, the search over multipliers
`formulas`   formulas that algorithms share, and what a formula sees of a row
`compiled`   how they are compiled and cached
===========  =======================================================================================

Numba takes longer to import than everything else together, so a kernel module is imported when it is first used
(``kernels.rf.plan(...)``), and `import anyreward` stays fast. Compiled code is cached on disk; when something has
to be compiled, which happens once per version and machine, one line on stderr says so.
"""

from __future__ import annotations

import functools
import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import ball, bpi, compiled, greedy, loop, optimism, phases, radii, rf, robust, simulate, table, trajectory

__all__ = [
    "ball", "bpi", "compiled", "greedy", "loop", "optimism", "phases",
    "radii", "rf", "robust", "simulate", "table", "trajectory",
]  # fmt: skip


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _announce_compilation()
    return importlib.import_module(f"{__name__}.{name}")


@functools.cache
def _announce_compilation() -> None:
    """Lets Numba say once, on stderr, that it compiles; a load from the disk cache raises no such event."""
    from numba.core import event

    class FirstCompilation(event.Listener):
        def on_start(self, _: event.Event) -> None:
            event.unregister("numba:compile", self)
            print("anyreward: compiling on first use (cached on disk for the next time) ...", file=sys.stderr)

        def on_end(self, _: event.Event) -> None: ...

    event.register("numba:compile", FirstCompilation())

"""Compiled loops: pure functions on arrays that algorithms, certificates and planning share.

===========  =======================================================================================
`table`      the visited part of a problem: nodes, rows and edges, and how a transition is recorded
`greedy`     the greedy policy of an index over visited nodes, with reproducible tie-breaking
`simulate`   a known model: one step, one episode, many episodes of one policy at once
`episode`    one episode of a greedy policy in a known model, recorded while it is played
`loop`       play an episode, learn from it, go on: the compiled form of `ask` and `tell`
`rf`         an error index: one path, one full backward pass
`radii`      confidence radii of a distribution: KL thresholds, total variation radii
`ball`       the largest and smallest expectation over a ball of KL, of L1, or a box
`planning`   backward induction, a step of a model at a time
`robust`     planning over KL balls
`bpi`        upper and lower values of one reward on visited nodes, over balls
`first`      the same, with a rule for the first action alone
`several`    the same for several rewards, of which the one with the widest interval is played
`optimism`   an optimistic index with the formulas of an algorithm: a full backward pass after every episode
`escape`     the probability of meeting a state whose actions were tried too rarely
`phases`     upper and lower values that are recomputed when a count has grown enough
`trajectory` the trajectory certificate: a backward pass, and the search over multipliers
`calibrated` the calibrated certificate: laws of deviances, simulated worst errors, mass outside the sets
`calibrated_ratios` the same with likelihood ratios: the exact worst total variation in the worst model of a draw
`shared`     where to explore if pairs share laws
`quotas`     planned amounts of data: where to go for them, and how they are counted
`formulas`   formulas that several algorithms share, and what a formula gets to see of a row
`compiled`   how these functions are compiled and cached
===========  =======================================================================================

Numba takes longer to import than everything else together. Therefore a kernel module is imported when it is first used
(``kernels.rf.plan(...)``), and `import anyreward` stays fast. Compiled code is cached on disk. When something has to be compiled,
which happens once per version and machine, one line on stderr says so (a warning of the logger `anyreward`).

Throughout, S, A and H are the numbers of states, actions and steps, N the number of nodes that the arrays have room for, and
P ("planes") the number of index values of a node: 1, or H + 1 if the setting is stationary.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import (
        ball,
        bpi,
        calibrated,
        calibrated_ratios,
        compiled,
        escape,
        first,
        greedy,
        loop,
        optimism,
        phases,
        planning,
        quotas,
        radii,
        rf,
        robust,
        several,
        shared,
        simulate,
        table,
        trajectory,
    )

__all__ = [
    "ball", "bpi", "calibrated", "calibrated_ratios", "compiled", "escape", "first", "greedy", "loop", "optimism",
    "phases", "planning", "quotas", "radii", "rf", "robust", "several", "shared", "simulate", "table", "trajectory",
]  # fmt: skip


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _announce_compilation()
    return importlib.import_module(f"{__name__}.{name}")


@functools.cache
def _announce_compilation() -> None:
    """Logs one line when Numba compiles for the first time; loading from the disk cache logs nothing.

    The line has the level of a warning, so that it appears on stderr unless the program configures its logging.
    """
    from numba.core import event

    class FirstCompilation(event.Listener):
        def on_start(self, _: event.Event) -> None:
            event.unregister("numba:compile", self)
            logging.getLogger("anyreward").warning("anyreward: compiling on first use (cached on disk for the next time) ...")

        def on_end(self, _: event.Event) -> None: ...

    event.register("numba:compile", FirstCompilation())

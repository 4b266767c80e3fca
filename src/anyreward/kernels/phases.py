"""UCRL in phases: both bounds are computed when a phase begins, and the policy is kept until a count has grown enough.

The radii of the balls belong to the algorithm: a named tuple of constants with a method radius(n, log_t), in its own file.
"""

from __future__ import annotations

from math import log
from typing import Any, NamedTuple

import numpy as np

from .bpi import Constants, Rewards, ValueBoundArrays, sweep
from .compiled import inner, loop, method
from .table import EPISODES, NODES, is_known, row_of

radius_of = method("radius")


@inner
def begin_phase(table, bound_arrays, rewards, constants, balls, started, g):
    """Begins a phase: computes the radii and both bounds from the present counts.

    log_t is the logarithm of the number of the next transition, counted from 1.
    """
    A = constants.n_actions
    log_t = log(float(table.used[EPISODES]) * constants.horizon + 1.0)
    for row in range(table.used[NODES] * A):
        n = float(table.n[row])
        started[row] = table.n[row]
        if n > 0.0:
            known = is_known(table.known, A, table.state[row // A], row % A) if row >= A else len(table.starts) > 0
            bound_arrays.radius[row] = 0.0 if known else radius_of(balls, n, log_t)
        bound_arrays.dirty[:, row] = 1
    sweep(table, bound_arrays, rewards, constants, g)


@loop
def replan(table, bound_arrays, rewards, constants, balls, started, g):
    """Begins a phase, called from Python."""
    begin_phase(table, bound_arrays, rewards, constants, balls, started, g)


@loop
def has_grown(n, started, nodes, actions, A, least):
    """Whether the count of a row of an episode has doubled since the phase began, and grown by `least` visits."""
    for h in range(len(actions)):
        row = row_of(nodes[h], A, actions[h])
        if n[row] - started[row] >= max(least, started[row]):
            return True
    return False


class PhasedLearner(NamedTuple):
    """Upper and lower values of one known reward, recomputed when a phase begins: a learner for `loop`."""

    index: ValueBoundArrays
    prior: np.ndarray  # (H', S, A) float64: the reward
    n_actions: int
    rewards: Rewards
    constants: Constants
    balls: Any  # the algorithm's named tuple with the method radius(n, log_t)
    started: np.ndarray  # (N * A,) int64: the count of every row when the phase began
    g: np.ndarray  # (S,) float64: scratch space for the search in a ball
    least: int  # so many new visits of a row are needed, at least, for a new phase

    def take_in(self, table, nodes, actions, payments, met):
        if has_grown(table.n, self.started, nodes, actions, self.n_actions, self.least):
            begin_phase(table, self.index, self.rewards, self.constants, self.balls, self.started, self.g)

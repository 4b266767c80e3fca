"""UCRL in phases: both bounds are computed when a phase begins, and the policy is kept until a count has doubled.

The balls are the algorithm's own: a named tuple of constants with a method radius(n, log_t), in its own file.
"""

from __future__ import annotations

from math import log

import numpy as np

from .bpi import sweep
from .compiled import allocates, inner, loop, method
from .episode import play
from .greedy import episode_key
from .table import EPISODES, NODES, has_room, is_known, record_episode, row_of

radius_of = method("radius")


@inner
def begin_phase(table, sides, rewards, constants, balls, started, g):
    """Begins a phase: the radii and both bounds from the counts as they stand. t is the number of the next transition, from 1."""
    A = constants.n_actions
    log_t = log(float(table.used[EPISODES]) * constants.horizon + 1.0)
    for row in range(table.used[NODES] * A):
        n = float(table.n[row])
        started[row] = table.n[row]
        if n > 0.0:
            known = row >= A and is_known(table.known, A, table.state[row // A], row % A)
            sides.radius[row] = 0.0 if known else radius_of(balls, n, log_t)
        sides.dirty[:, row] = 1
    sweep(table, sides, rewards, constants, g)


@loop
def replan(table, sides, rewards, constants, balls, started, g):
    """Begins a phase."""
    begin_phase(table, sides, rewards, constants, balls, started, g)


@loop
def doubled(n, started, nodes, actions, A):
    """Whether an episode has doubled the count of a row since the phase began, or visited one for the first time."""
    for h in range(len(actions)):
        row = row_of(nodes[h], A, actions[h])
        if n[row] >= 2 * max(1, started[row]) or started[row] == 0:
            return True
    return False


@allocates
def learn(table, sides, rewards, constants, balls, started, states, actions, g):
    """Takes in episodes that were played elsewhere."""
    nodes = np.empty(states.shape[1], np.uint32)
    for b in range(len(states)):
        record_episode(table, constants.n_actions, states[b], actions[b], nodes)
        if doubled(table.n, started, nodes, actions[b], constants.n_actions):
            begin_phase(table, sides, rewards, constants, balls, started, g)


@loop
def run(model, table, sides, rewards, constants, balls, started, seed_key, rng, episodes, nodes, actions, g):
    """Explores a known model for `episodes` more episodes, or until the table is full; returns how many."""
    A, n, used = constants.n_actions, table.n, table.used
    for done in range(episodes):
        if not has_room(table, len(nodes)):
            return done
        key = episode_key(seed_key, used[EPISODES])
        play(model, table, sides, rewards.known, A, key, rng, nodes, actions)
        if doubled(n, started, nodes, actions, A):
            begin_phase(table, sides, rewards, constants, balls, started, g)
    return episodes

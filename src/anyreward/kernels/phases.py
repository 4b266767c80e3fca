"""UCRL in phases: both bounds are computed when a phase begins, and the policy is kept until a count has doubled."""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from .bpi import sweep
from .compiled import allocates, loop
from .episode import play
from .greedy import episode_key
from .simulate import start
from .table import EPISODES, NODES, has_room, is_known, record_episode, row_of


@loop
def replan(table, sides, rewards, constants, level, scale, started, g):
    """Begins a phase. `level` is C of KL radii C/n, or log(2 A / delta) of the L1 radii sqrt(14 S (level + log t) / n).

    t is the number of the transition that comes next, from 1.
    """
    A, S = constants.n_actions, constants.n_states
    log_t = log(float(table.used[EPISODES]) * constants.horizon + 1.0)
    for row in range(table.used[NODES] * A):
        n = float(table.n[row])
        started[row] = table.n[row]
        if n > 0.0:
            sides.radius[row] = scale * (sqrt(14.0 * S * (level + log_t) / n) if constants.l1 else level / n)
            if row >= A and is_known(table.known, A, table.state[row // A], row % A):
                sides.radius[row] = 0.0
        sides.dirty[:, row] = 1
    sweep(table, sides, rewards, constants, g)


@loop
def doubled(n, started, nodes, actions, A):
    """Whether an episode has doubled the count of a row since the phase began, or visited one for the first time."""
    for h in range(len(actions)):
        row = row_of(nodes[h], A, actions[h])
        if n[row] >= 2 * max(1, started[row]) or started[row] == 0:
            return True
    return False


@allocates
def learn(table, sides, rewards, constants, level, scale, started, states, actions, g):
    """Takes in episodes that were played elsewhere."""
    nodes = np.empty(states.shape[1], np.uint32)
    for b in range(len(states)):
        record_episode(table, constants.n_actions, states[b], actions[b], nodes)
        if doubled(table.n, started, nodes, actions[b], constants.n_actions):
            replan(table, sides, rewards, constants, level, scale, started, g)


@loop
def run(model, table, sides, rewards, constants, level, scale, started, seed_key, rng, episodes, nodes, actions, g):
    """Explores a known model for `episodes` more episodes, or until the table is full; returns how many."""
    node_of, state, _, _, n, first, size, _, target, seen, _, _, used, _ = table
    Q, _, settled, _, _, _, _, _, _, _ = sides
    shape, successors, _, cumulative, _, _, _ = model
    A = constants.n_actions
    for done in range(episodes):
        if not has_room(len(state), len(target), node_of.size, used, len(nodes)):
            return done
        key, s = episode_key(seed_key, used[EPISODES]), start(model, rng)
        play(
            table, state, n, first, size, target, seen, used, Q, settled, rewards.known, A,
            shape, successors, cumulative, s, key, rng, nodes, actions,
        )  # fmt: skip
        if doubled(n, started, nodes, actions, A):
            replan(table, sides, rewards, constants, level, scale, started, g)
    return episodes

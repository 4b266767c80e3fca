"""One episode of a greedy policy on a known model, recorded as it goes."""

from __future__ import annotations

import numpy as np

from .compiled import inlined
from .greedy import choose
from .simulate import step
from .table import EPISODES, NONE, add_edge, find, row_of


@inlined
def play(
    table, state, n, first, size, target, seen, used, Q, settled, prior, A,
    shape, successors, cumulative, s, key, rng, nodes, actions,
):  # fmt: skip
    """Plays from start state s and writes the nodes (H+1) and actions (H) of the episode. Needs room for H + 1 records.

    Nodes that are new are left without an index; `choose` knows what to do there.
    """
    H = len(actions)
    last_plane, last_layer, last_t = len(Q) - 1, len(table.head) - 1, shape[0] - 1
    node, row, layer = np.uint32(0), np.uint64(0), 0
    for h in range(-1, H):  # step -1 is the start draw
        if h >= 0:
            a = choose(Q, settled, prior, A, min(h, last_plane), node, h, s, key)
            actions[h] = a
            row, layer = row_of(node, A, a), min(h + 1, last_layer)
            s = step(successors, cumulative, shape, min(h, last_t), s, a, rng)
        e = find(state, first, size, target, row, s)
        if e == NONE:
            e = add_edge(table, row, layer, s)
        n[row] += 1
        seen[e] += 1
        node = target[e]
        nodes[h + 1] = node
    used[EPISODES] += 1

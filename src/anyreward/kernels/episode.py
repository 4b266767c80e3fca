"""One episode of a greedy policy in a known model, recorded while it is played."""

from __future__ import annotations

import numpy as np

from .compiled import inlined
from .greedy import choose
from .simulate import start, step
from .table import EPISODES, NONE, add_edge, find, row_of


@inlined
def play(model, table, index, prior, A, key, rng, nodes, actions):
    """Plays an episode, records it in the table, and writes its nodes (H+1) and actions (H). Needs room for H + 1 records.

    `index` is a named tuple with Q and settled, see `greedy`. New nodes are left without an index; `choose` handles them.
    """
    _, state, _, _, n, first, size, _, target, seen, _, _, used, _, _, _ = table
    shape, successors, _, cumulative, _, _, _ = model
    Q, settled, s, H = index.Q, index.settled, start(model, rng), len(actions)
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

"""Escaping from what is known: the largest probability of meeting a state of which too little was seen (E3)."""

from __future__ import annotations

from .compiled import loop
from .table import is_illegal, is_known, row_of


@loop
def escape(table, greedy, H, A, m):
    """Writes the probability of meeting a state that is not known into the index, backwards over all visited nodes.

    A state is known if each of its actions was tried m times. Where it is not, those that were tried least have the index 1. In
    the last step nothing is met any more.
    """
    _, state, following, head, n, first, size, _, target, seen, _, _, _, known, _, _ = table
    Q, V, settled, _ = greedy
    for h in range(H - 1, -1, -1):
        plane, layer = min(h, len(V) - 1), min(h, len(head) - 1)
        ahead = V[min(h + 1, len(V) - 1)]
        node = head[layer]
        while node != 0:
            least = m
            for a in range(A):
                if not is_known(known, A, state[node], a):
                    least = min(least, n[row_of(node, A, a)])
            top = 0.0
            for a in range(A):
                row, q = row_of(node, A, a), 0.0
                if is_illegal(known, A, state[node], a):
                    q = -1.0
                elif h < H - 1 and not is_known(known, A, state[node], a):
                    if least < m:
                        q = 1.0 if n[row] == least else 0.0
                    else:
                        for e in range(first[row], first[row] + size[row]):
                            q += seen[e] * ahead[target[e]]
                        q /= n[row]
                Q[plane, row] = q
                top = max(top, q)
            V[plane, node], settled[plane, node] = top, 1
            node = following[node]

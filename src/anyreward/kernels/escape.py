"""Escaping from what is known: the probability of meeting a state whose actions were tried too rarely (E3)."""

from __future__ import annotations

from .compiled import loop
from .table import is_illegal, is_known, row_of


@loop
def escape(table, greedy, H, A, m):
    """Writes Q and V of the largest probability of meeting a node that is not known, over all visited nodes.

    A node is known if each of its actions was seen m times; at the last step everything is. In a node that is not known, Q is 1
    for the actions that were tried least, and 0 for the others.
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

"""Where to explore if pairs share laws: one backward pass over all pairs of a declared structure."""

from __future__ import annotations

import numpy as np

from .compiled import loop
from .table import STAYS, is_illegal, row_of


@loop
def greedy(first, target, p, charge, known, S, A, weight, V, policy):
    """Writes the policy (H, S) that goes where charges add up to most, and its index V (H+1, S).

        W_h(s,a) = weight_h charge(s,a) + sum_s' p(s'|s,a) max_b W_{h+1}(s',b)

    The edges of pair i = (layer S + s) A + a are first[i], ..., first[i+1] - 1, with their targets and probabilities. Illegal
    actions are left out, and absorbing states have index 0.
    """
    layers = len(charge) // (S * A)
    for h in range(len(weight) - 1, -1, -1):
        layer = min(h, layers - 1)
        for s in range(S):
            top, top_a = -1.0, 0
            for a in range(A):
                if is_illegal(known, A, s, a):
                    continue
                q = 0.0
                if len(known) == 0 or known[row_of(s, A, a)] != STAYS:
                    pair = np.uint64((layer * S + s) * A + a)
                    q = weight[h] * charge[pair]
                    for e in range(first[pair], first[pair + np.uint64(1)]):
                        q += p[e] * V[h + 1, target[e]]
                if q > top:
                    top, top_a = q, a
            V[h, s], policy[h, s] = max(top, 0.0), top_a

"""A check of transfer evidence that comes from outside: values that no data could have produced are refused.

Evidence (see `Counts`) that is too large would make a certificate too small. The largest possible values are derived in
`docs/theory.md`, 9.8.
"""

from __future__ import annotations

import numpy as np

from .. import kernels
from ..setting import Setting
from .empirical import total_by


def check_evidence(flows: np.ndarray, evidence: np.ndarray, setting: Setting, merged: bool) -> None:
    """Raises if no order of these transitions could have produced this evidence.

    Parameters
    ----------
    flows : ndarray of int, (M, 5)
        Rows (h, s, a, next, count).
    evidence : ndarray, (M,)
        The sum of log(predicted probability) over the observations of each row.
    setting : Setting
    merged : bool
        Whether several runs were added up, each with its own predictions. Only a weaker bound holds then.
    """
    moves = np.flatnonzero(flows[:, 0] >= 0)
    if not len(moves):
        return
    _, group = np.unique(flows[moves, 1:4], axis=0, return_inverse=True)
    group, count, value = group.reshape(-1), flows[moves, 4].astype(float), evidence[moves]
    order = np.lexsort((-value / count, group))
    wrong = int(kernels.table.impossible_evidence(order, group, count, value, setting.n_outcomes))
    if wrong < 0 and not merged:
        wrong = _beyond_all(flows[moves], value, setting)
    if wrong >= 0:
        raise ValueError(
            f"row {int(moves[wrong])} of the counts has evidence {value[wrong]:g}: no order of the data can produce it."
        )


def _beyond_all(moves: np.ndarray, evidence: np.ndarray, setting: Setting) -> int:
    """The first transition of a pair (s, a) whose total evidence exceeds what one run can produce, or -1.

    With M_x = N_x + 1/(2S) and M = n + 1/2, the score of a transition to x is the derivative by N_x of the convex function G(M) =
    sum_x M_x log(M_x / M), taken at the counts of some earlier time. So all scores together are at most G at the present counts
    minus G at 0.
    """
    S, A = setting.n_outcomes, setting.n_actions
    pairs, of = np.unique(moves[:, 1] * A + moves[:, 2], return_inverse=True)
    of = of.reshape(-1)
    edges, edge = np.unique(np.column_stack([of, moves[:, 3]]), axis=0, return_inverse=True)
    N = total_by(edge.reshape(-1), moves[:, 4], len(edges))  # of each (s, a, x)
    n, seen = total_by(edges[:, 0], N, len(pairs)), np.bincount(edges[:, 0], minlength=len(pairs))
    alpha, M = 0.5 / S, n + 0.5
    G = total_by(edges[:, 0], (N + alpha) * np.log((N + alpha) / M[edges[:, 0]]), len(pairs))
    G += (S - seen) * alpha * np.log(alpha / M) - 0.5 * np.log(1 / S)
    given = total_by(of, evidence, len(pairs))
    over = given > G + 1e-7 * (1 + np.abs(G))
    return int((of == over.argmax()).argmax()) if over.any() else -1

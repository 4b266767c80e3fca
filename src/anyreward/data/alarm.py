"""The alarm of a declared structure: an e-value against it, on all data as they come.

A structure says that pairs with the same law draw from the same distribution, that the draws of a transition are independent
given the state and the action, and which laws are known. Each of these could be false. Let N_z be the counts of law g in
context z, which is known before the draw: the pair, or the outcome of an earlier draw. With Dirichlet(1/2) predictions of
contexts apart, KT, against the largest likelihood of one common law, ML,

    e_z   = KT(N_z) KT(N_g - N_z) / ML(N_g)        context z is different from all others
    e_all = prod_z KT(N_z) / ML(N_g)               all contexts differ
    e_g   = (mean_z e_z + e_all) / 2

and for a known law q, e_g = KT(N_g) / prod_x q(x)^N(x), or the same for the successors of a pair all of whose laws are known, but
not all of them show. The e-value is the mean of all e_g: of the sharing of each law, of the independence of each law from each
earlier draw, of each known law, and of these pairs. If the structure is true, it ever reaches 1/alpha with
probability at most alpha, under any adaptive sampling (`docs/theory.md`, 15.4). That it does not proves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln, logsumexp, xlogy

if TYPE_CHECKING:
    from .shared import Shared


def log_kt(N: np.ndarray) -> np.ndarray:
    """The log probability of counts N (..., K), in the order in which they came, under Dirichlet(1/2) predictions."""
    K, n = N.shape[-1], N.sum(axis=-1)
    return gammaln(K / 2) - gammaln(n + K / 2) + (gammaln(N + 0.5) - gammaln(0.5)).sum(axis=-1)


def log_ml(N: np.ndarray) -> float:
    """The largest log likelihood of counts N (K,) under one distribution."""
    return float(xlogy(N, N).sum() - xlogy(N.sum(), N.sum()))


def log_evidence_of(contexts: np.ndarray, unvisited: int = 0) -> float:
    """log e_g of the counts of one law in its contexts, (Z, K), and in as many further ones that were never visited."""
    total = contexts.sum(axis=0)
    ml = log_ml(total)
    apart = log_kt(contexts) + log_kt(total - contexts)
    if unvisited:
        apart = np.append(apart, np.log(unvisited) + log_kt(total))
    each = logsumexp(apart) - np.log(len(contexts) + unvisited)
    return float(np.logaddexp(each, log_kt(contexts).sum()) - np.log(2) - ml)


def log_evidence_against(shared: Shared) -> float:
    """The logarithm of the e-value against the structure of counts; -inf if it claims nothing that could be tested."""
    laws, t = shared.laws, shared.tables
    parts: list[float] = []
    pair = np.searchsorted(t.edge_first, shared.edge, side="right") - 1
    codes = t.edge_code[shared.edge]
    sizes = np.array(laws.sizes, np.int64)
    drawn = codes >= 0
    which, position = np.nonzero(drawn)
    context = pair[which] * laws.draws + position
    declared = np.bincount(laws.law_of[t.revealed], minlength=len(sizes))  # contexts of each law
    parts += _by_context(laws.law_of[pair][drawn], codes[drawn], context, shared.times[which], declared, t.offset)
    for i in range(laws.draws):
        for j in range(i):
            both = drawn[:, i] & drawn[:, j]
            possible = t.revealed[:, i] & t.revealed[:, j]
            earlier = np.unique(laws.law_of[possible][:, [i, j]], axis=0)
            declared = np.zeros(len(sizes), np.int64)
            np.add.at(declared, earlier[:, 0], sizes[earlier[:, 1]])
            law = laws.law_of[pair[both], i]
            parts += _by_context(law, codes[both, i], codes[both, j], shared.times[both], declared, t.offset)
    for g, _ in laws.known:
        p = shared.known_laws[g]
        N = shared.told[t.offset[g] : t.offset[g + 1]]
        impossible = bool((N[p == 0] > 0).any())
        parts.append(np.inf if impossible else float(log_kt(N) - xlogy(N, np.where(p > 0, p, 1.0)).sum()))
    parts += _of_known_pairs(shared)
    return float(logsumexp(parts) - np.log(len(parts))) if parts else -np.inf


def _of_known_pairs(shared: Shared) -> list[float]:
    """log e of every pair whose laws are all known but do not all show: against the distribution of its successors."""
    laws, t = shared.laws, shared.tables
    drawn = laws.law_of >= 0
    known = drawn.any(axis=1) & ~(np.append(laws.estimated, False)[laws.law_of] & drawn).any(axis=1)
    chosen = known & (drawn & ~t.revealed).any(axis=1) & (np.diff(t.edge_first) > 1)
    N, p, parts = np.bincount(shared.edge, shared.times, len(t.edge_target)), None, []
    for i in np.flatnonzero(chosen):
        edges = slice(t.edge_first[i], t.edge_first[i + 1])
        if not N[edges].any():
            parts.append(0.0)
            continue
        p = shared.edge_probabilities(shared.estimated_outcomes) if p is None else p
        parts.append(float(log_kt(N[edges]) - xlogy(N[edges], p[edges]).sum()))
    return parts


def _by_context(
    law: np.ndarray, code: np.ndarray, context: np.ndarray, times: np.ndarray, declared: np.ndarray, offset: np.ndarray
) -> list[float]:
    """log e_g of every law that has at least two declared contexts, from transitions with their law, outcome and context."""
    parts = []
    order = np.argsort(law, kind="stable")
    law, code, context, times = law[order], code[order], context[order], times[order]
    begin = np.searchsorted(law, np.arange(len(declared) + 1))
    for g in np.flatnonzero((declared >= 2) & (np.diff(offset) > 1)):
        here = slice(begin[g], begin[g + 1])
        which, place = np.unique(context[here], return_inverse=True)
        N = np.zeros((len(which), int(offset[g + 1] - offset[g])))
        np.add.at(N, (place.reshape(-1), code[here] - offset[g]), times[here])
        parts.append(log_evidence_of(N, int(declared[g]) - len(which)))
    return parts

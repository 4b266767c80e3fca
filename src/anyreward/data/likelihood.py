"""Likelihood-ratio tests that a draw does not depend on its context, whoever chose when to draw.

Draws are sorted into rows, such as successors by state and action. Under the hypothesis, those of a row are independent and from
one distribution, whatever the context x: the state and action before, say, or the step. With q a probability that is
computed from earlier draws, with more weight on those of the same context,

    e_row = prod_i q(y_i | x_i, past) / max_p prod_i p(y_i),       e = 1/2 prod_rows e_row + 1/2 mean_rows e_row.

With the true p in the denominator, the ratio is a martingale of mean 1, and the maximum over p only makes it smaller. The same
holds for the product over rows, and for the mean over all rows that there are. Hence P(e >= 1/alpha) <= alpha (Markov's
inequality), for any way of choosing actions: a warning at e >= 100 is false with probability at most 1% (`docs/theory.md`, 9.9).

**From counts**, whose order is not known (`log_evidence_by_step`). For a pair (s, a), let n_h(y) count the successors y at
step h. With K outcomes,

    e_(s,a) = prod_h D(n_h) / max_p prod_h prod_y p(y)^n_h(y),      D(n) = prod_y Gamma(n(y) + 1/K) / Gamma(1/K) / Gamma(|n| + 1).

D is the probability of the successors of one step, in whatever order they came, if each is predicted by those before it, with a
Dirichlet prior of mass 1. So e is a likelihood ratio of mean at most 1 as above, and the pairs are combined in the same way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from math import exp, log, log1p
from typing import TYPE_CHECKING

import numpy as np

from .empirical import total_by

if TYPE_CHECKING:
    from ..setting import Setting

ALARM = 0.01  # false-alarm probability of each test
REFUTED = 1e-6  # the probability with which data are refused that satisfy `stationary=True`


def p_value(log_e: float) -> float:
    """1/e, at most 1: under the hypothesis it is ever at most alpha with probability at most alpha."""
    return min(1.0, exp(-min(log_e, 700.0))) if log_e > 0 else 1.0


def log_likelihood_ratio(samples: Iterable[tuple[Hashable, Hashable, int]], rows: int, alphabet: int) -> float:
    """log e, the logarithm of the likelihood ratio of the test.

    Parameters
    ----------
    samples
        (row, context, outcome), in the order in which they were drawn.
    rows
        Number of all rows, whether they have samples or not.
    alphabet
        Number of all possible outcomes.
    """
    logs: dict[Hashable, float] = defaultdict(float)
    pooled: dict[Hashable, dict[int, int]] = {}
    apart: dict[tuple[Hashable, Hashable], dict[int, int]] = {}
    totals: dict[Hashable, int] = defaultdict(int)
    for row, context, y in samples:
        whole = pooled.setdefault(row, {})
        part = apart.setdefault((row, context), {})
        n, n_part = totals[row], totals[row, context, "part"]
        base = (whole.get(y, 0) + 0.5 / alphabet) / (n + 0.5)
        logs[row] += log((part.get(y, 0) + base) / (n_part + 1.0))
        whole[y] = whole.get(y, 0) + 1
        part[y] = part.get(y, 0) + 1
        totals[row] += 1
        totals[row, context, "part"] += 1
    ratios = [value - sum(k * log(k / totals[row]) for k in pooled[row].values()) for row, value in logs.items()]
    return log_mixture(ratios, rows)


def log_mixture(ratios: list[float], rows: int) -> float:
    """log e from log e_row of the rows that have samples, of so many rows in all."""
    product = sum(ratios)
    others = max(0, rows - len(ratios))  # rows without samples, which have e = 1
    highest = max([*ratios, 0.0] if others or not ratios else ratios)
    mean = highest + log((sum(exp(x - highest) for x in ratios) + (others * exp(-highest) if others else 0.0)) / max(1, rows))
    high, low = max(product, mean), min(product, mean)
    return high + log1p(exp(low - high)) - log(2)


def log_evidence_by_step(
    h: np.ndarray, s: np.ndarray, a: np.ndarray, y: np.ndarray, n: np.ndarray, outcomes: int, actions: int, pairs: int
) -> float:
    """log e against transitions that do not depend on the step.

    Parameters
    ----------
    h, s, a, y, n : ndarray
        Step, state, action, successor and number of transitions, each (h, s, a, y) once.
    outcomes, actions : int
        How many possible successors and actions there are.
    pairs : int
        Number of all pairs (s, a), whether they have samples or not.
    """
    from scipy.special import gammaln

    pair, row = np.unique(s * actions + a, return_inverse=True)
    _, cell = np.unique(h * (len(pair) + 1) + row.reshape(-1), return_inverse=True)
    edge, outcome = np.unique(row.reshape(-1) * outcomes + y, return_inverse=True)
    row, cell, outcome = row.reshape(-1), cell.reshape(-1), outcome.reshape(-1)
    owner = np.zeros(cell.max(initial=-1) + 1, np.int64)
    owner[cell] = row
    apart = total_by(row, gammaln(n + 1 / outcomes) - gammaln(1 / outcomes), len(pair))
    apart -= total_by(owner, gammaln(total_by(cell, n, len(owner)) + 1.0), len(pair))
    each, whole = total_by(outcome, n, len(edge)), total_by(row, n, len(pair))
    together = total_by(edge // outcomes, each * np.log(each), len(pair)) - whole * np.log(whole)
    return log_mixture((apart - together).tolist(), pairs)


def check_stationary(moves: np.ndarray, setting: Setting) -> None:
    """Raises if transitions (h, s, a, y, number), (M, 5), contradict the assumption that they do not depend on the step.

    If it is true, this happens with probability at most `REFUTED`.
    """
    S, A = setting.n_outcomes, setting.n_actions
    moves = moves[~np.isin(moves[:, 1], setting.absorbing_states)]
    if len(moves) == 0 or moves[:, 0].min() == moves[:, 0].max():
        return
    pairs, row = np.unique(moves[:, 1] * A + moves[:, 2], return_inverse=True)  # few, so that the products below do not overflow
    key, place = np.unique((moves[:, 0] * len(pairs) + row.reshape(-1)) * S + moves[:, 3], return_inverse=True)
    n = total_by(place.reshape(-1), moves[:, 4], len(key))
    rest, y = np.divmod(key, S)
    h, which = np.divmod(rest, len(pairs))
    log_e = log_evidence_by_step(h, *np.divmod(pairs[which], A), y, n, S, A, setting.n_states * A)
    if log_e >= -log(REFUTED):
        raise ValueError(
            "stationary is True, but the data contradict it: their transitions depend on the step (otherwise data would look "
            f"like this with probability {exp(-min(log_e, 700.0)):.1g} at most). Leave it out."
        )

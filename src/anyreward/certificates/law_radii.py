"""Confidence radii of shared laws, and of the pairs that draw from them (`docs/theory.md`, 15.2).

With probability at least 1 - delta, at all times at once, every law g that has to be estimated satisfies

    n_g KL(q_hat_g, q_g) <= log(M/delta) + psi(N_g),

where n_g are its counted draws, M is the number of such laws, counted from the declaration, and psi is a threshold for
distributions on the K outcomes of the law: `psi_size` for at most `FEW` outcomes and, for more, of which many may never happen,
the average of that martingale and the one of `psi_support`. A known law has radius 0. Certificates and robust intervals use the
radii of the draws of a pair one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .. import kernels
from ..setting import Setting

if TYPE_CHECKING:
    from ..data.counts import Counts

FEW = 4  # outcomes up to which all of them are taken to be likely


def shared_laws(setting: Setting, last_step: bool = False) -> int:
    """M, the number of laws among which delta is shared: those that values from the start can depend on, and an estimated
    start."""
    return setting.shared_laws[last_step]


def law_radii(counts: Counts, log_laws: float, exact_tv: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """The KL and total variation radius of every law; 0 for known laws and for those without data.

    `log_laws` is log(M / delta).
    """
    shared = counts.shared
    return _radii(shared.seen, shared.tables.offset, shared.laws.estimated, log_laws, exact_tv)


def _radii(
    seen: np.ndarray, offset: np.ndarray, estimated: np.ndarray, log_laws: float, exact_tv: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The compiled loop over laws."""
    radii, tv = np.zeros((2, len(estimated)))
    some, sums = np.empty(int(np.diff(offset).max(initial=0))), np.zeros(1 << kernels.radii.ENUMERATED)
    kernels.radii.radii_of_laws(seen, offset, estimated, FEW, float(log_laws), exact_tv, some, sums, radii, tv)
    return radii, tv


def law_radius(seen: np.ndarray, log_laws: float) -> float:
    """The KL radius of a law from counts (K,) of all its outcomes; `log_laws` is log(M / delta)."""
    seen = np.ascontiguousarray(seen, dtype=float)
    return float(_radii(seen, np.array([0, len(seen)]), np.ones(1, bool), log_laws, False)[0][0])


def law_tv(seen: np.ndarray, c: float) -> float:
    """The largest total variation between a law and its estimate from counts (K,) of all its outcomes, within the KL radius c."""
    some, sums = np.ascontiguousarray(seen[seen > 0], dtype=float), np.zeros(1 << kernels.radii.ENUMERATED)
    return min(1.0, kernels.radii.tv_radius(some, 0, len(some), float(seen.sum()), c, len(some) < len(seen), sums))


def pair_radii(counts: Counts, of_laws: tuple[np.ndarray, np.ndarray], log_laws: float) -> tuple[np.ndarray, np.ndarray]:
    """The KL and total variation radius of each draw of every row of `Counts.model_table`, (rows, m); 0 if its law has no data.

    A row has n = 0 if *some* law of the pair has no data; the others have radii all the same, which robust planning uses. The
    first row is the estimated start, one more law on all states.

    Parameters
    ----------
    counts : Counts
    of_laws : two ndarrays, (laws,)
        The radii of every law, as from `law_radii`.
    log_laws : float
        log(M / delta), for the start.
    """
    setting, table, laws = counts.setting, counts.model_table, counts.shared.laws
    c, tau = np.zeros((2, len(table.n), laws.draws))
    pair = setting.n_actions + np.arange(len(laws.law_of))
    c[pair], tau[pair] = (np.append(of_law, 0.0)[laws.law_of] for of_law in of_laws)
    if setting.estimates_start and table.n[0] > 0:
        S, begin, size = setting.n_outcomes, int(table.first[0]), int(table.size[0])
        n, sums = float(table.n[0]), np.zeros(1 << kernels.radii.ENUMERATED)
        c[0, 0] = kernels.radii.kl_radius(table.seen, begin, size, n, S, kernels.radii.SUPPORT, S, log_laws)
        tau[0, 0] = kernels.radii.tv_radius(table.seen, begin, size, n, c[0, 0], size < S, sums)
    return c, tau

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
    laws = setting.structure
    assert laws is not None
    steps = setting.horizon if setting.arrival_rewards or last_step else setting.horizon - 1
    if steps == 0:
        return int(setting.estimates_start)
    drawn = laws.law_of.reshape(laws.steps, laws.n_states, -1)
    if laws.step_dependent and not setting.estimates_start:
        drawn = [drawn[0, setting.starts[0]].reshape(-1), drawn[1:steps].reshape(-1)]  # type: ignore[assignment]
        keys = np.unique(np.concatenate(drawn))
    else:
        keys = np.unique(drawn[: steps if laws.step_dependent else 1])
    return int(laws.estimated[keys[keys >= 0]].sum()) + setting.estimates_start


def law_radii(counts: Counts, log_laws: float, exact_tv: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """The KL and total variation radius of every law; 0 for known laws and for those without data.

    `log_laws` is log(M / delta).
    """
    shared = counts.shared
    radii, tv, offset = np.zeros(len(shared.n)), np.zeros(len(shared.n)), shared.tables.offset
    for g in np.flatnonzero((shared.n > 0) & shared.laws.estimated):
        seen = shared.seen[offset[g] : offset[g + 1]]
        radii[g] = c = law_radius(seen, log_laws)
        tv[g] = law_tv(seen, c) if exact_tv else min(1.0, np.sqrt(0.5 * c))
    return radii, tv


def law_radius(seen: np.ndarray, log_laws: float) -> float:
    """The KL radius of a law from counts (K,) of all its outcomes; `log_laws` is log(M / delta)."""
    K, n, some = len(seen), float(seen.sum()), np.ascontiguousarray(seen[seen > 0], dtype=float)
    psi = kernels.radii.psi_size(some, 0, len(some), n, K)
    if K > FEW:
        psi = kernels.radii.psi_mixed(psi, kernels.radii.psi_support(some, 0, len(some), n, K))
    # If this is negative, no distribution satisfies the bound: the event has failed, and the law counts as unknown.
    return float((log_laws + psi) / n * (1.0 + 1e-14)) if log_laws + psi >= 0.0 else kernels.radii.NOTHING_KNOWN


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

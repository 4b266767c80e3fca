"""Calibrated certificates over the laws of a declared structure: how many draws of each law are counted is fixed beforehand.

With a structure there are few laws, and each is estimated from many draws. What an all-times certificate then pays for is not the
union over laws but the many moments at which it could be looked at: about ½ log n for each degree of freedom of a law, where the
deviance n KL(q_hat, q) of an amount n that was fixed beforehand is about half a chi-squared variable. So

    n_g KL(q_hat_g, q_g) <= y_g    for every law g with a quota n_g,    y_g = deviance_quantile(counts of g, delta / M),

with probability at least 1 - delta, for the first n_g counted draws of each of the M laws with a quota. The certificate and the
intervals are those of `docs/theory.md`, 15.6, with the radii y_g / n_g, and a law without a quota is unknown. No draws are
simulated, as they are for rows of states and actions (`calibrated`): among so few laws the union bound costs little.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from ..setting import Setting, shown, whole_number
from ..shared_laws import SharedLaws
from .bounds import trajectory_error
from .deviances import deviance_quantile
from .law_radii import law_tv, pair_radii

if TYPE_CHECKING:
    from ..data.counts import Counts


@dataclass(frozen=True)
class LawQuotas:
    """How many draws of each law of a structure are counted: all that has to be fixed before the first of them.

    Parameters
    ----------
    quotas : sequence of int
        One for each law, in the order of `SharedLaws.names`; 0 for laws that are known, and for those that stay unknown.
    """

    quotas: tuple[int, ...]

    def __post_init__(self) -> None:
        given = self.quotas.tolist() if isinstance(self.quotas, np.ndarray) else self.quotas
        if not isinstance(given, list | tuple):
            raise ValueError(f"quotas is {shown(given)}: it has to be a list with a number for each law.")
        quotas = tuple(whole_number(n, "a quota") for n in given)
        if min(quotas, default=0) < 0:
            raise ValueError(f"a quota is {min(quotas)}: it cannot be negative.")
        object.__setattr__(self, "quotas", quotas)

    @classmethod
    def of(cls, setting: Setting, quotas: Any) -> LawQuotas:
        """The quotas of a mapping from laws, as the structure calls them, to numbers."""
        return cls(structure_of(setting).by_law(quotas))

    def check(self, setting: Setting) -> None:
        """Raises if these are not quotas of the laws of a setting that have to be estimated."""
        laws = structure_of(setting)
        if len(self.quotas) != len(laws.sizes):
            raise ValueError(f"there are {len(self.quotas)} quotas of laws: the structure has {len(laws.sizes)} laws.")
        needless = np.flatnonzero((np.array(self.quotas) > 0) & ~laws.estimated)
        if len(needless):
            raise ValueError(f"the law {laws.names[needless[0]]} has a quota, but it need not be estimated: leave it out.")

    def to_dict(self) -> dict[str, Any]:
        """The quotas as a plain list, for files."""
        return {"laws": list(self.quotas)}

    def digest(self) -> str:
        """A SHA-256 fingerprint of the quotas."""
        return hashlib.sha256(repr(self.quotas).encode()).hexdigest()

    def error_bound(self, counts: Counts, delta: float) -> float:
        """The error bound Phi. Raises unless exactly its quota of every law was counted."""
        return trajectory_error(counts, *self.radii(counts, delta))[0]

    def forecast(self, counts: Counts, delta: float) -> float:
        """About the error bound that filled quotas would give, with the frequencies that were counted so far."""
        return trajectory_error(counts, *self.radii(counts, delta, scaled=True))[0]

    def radii(self, counts: Counts, delta: float, scaled: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """The KL and total variation radius of each draw of every row of `Counts.model_table`; `scaled` is for forecasts.

        An estimated start has the all-times radius of `law_radii`, as one more law among which delta is shared.
        """
        self.check(counts.setting)
        setting, shared = counts.setting, counts.shared
        names, offset, quotas = shared.laws.names, shared.tables.offset, np.array(self.quotas)
        wrong = np.flatnonzero((shared.n != quotas) & (quotas > 0))
        if len(wrong) and not scaled:
            g = wrong[0]
            raise ValueError(
                f"the law {names[g]} has {int(shared.n[g]):,} counted draws, and its quota is {quotas[g]:,}: nothing is "
                "certified unless every law has exactly its quota."
            )
        laws = max(1, int(np.count_nonzero(quotas)) + setting.estimates_start)
        radii, tv = np.zeros((2, len(quotas)))
        for g in np.flatnonzero((shared.n > 0) & shared.laws.estimated):
            seen = shared.seen[offset[g] : offset[g + 1]]
            if quotas[g] > 0:
                seen = seen * (quotas[g] / shared.n[g]) if scaled else seen
                radii[g] = deviance_quantile(seen, delta / laws) / quotas[g] * (1.0 + 1e-14)
                tv[g] = law_tv(seen, radii[g])
            else:
                radii[g], tv[g] = kernels.radii.NOTHING_KNOWN, 1.0
        return pair_radii(counts, (radii, tv), log(laws / delta))


def structure_of(setting: Setting) -> SharedLaws:
    """The structure of a setting. Raises if it has none."""
    if setting.structure is None:
        raise ValueError("these quotas are of laws of a structure, but none is declared: declare it, or give quotas of pairs.")
    return setting.structure

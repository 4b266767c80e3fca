"""Bounds and intervals with parts that a test chooses."""

from typing import Any

import numpy as np
import numpy.typing as npt

import anyreward as ar
from anyreward.certificates.bounds import Bound, TightBound
from anyreward.certificates.intervals import Robust


class GivenRadii(TightBound):
    """A tight bound with radii that are given. There is no joint bound, which does not follow from radii."""

    def __init__(self, radii: npt.ArrayLike, tv: npt.ArrayLike, **options: Any) -> None:
        super().__init__(joint=False, **options)
        self.given: tuple[np.ndarray, np.ndarray]
        object.__setattr__(self, "given", (np.asarray(radii), np.asarray(tv)))  # a bound is frozen

    def radii(self, counts: ar.Counts, delta: float, last_step: bool = False) -> tuple[np.ndarray, np.ndarray]:
        return self.given


def robust_planning(counts: ar.Counts, bound: Bound, delta: float, reward: np.ndarray) -> Robust:
    return Robust(counts, bound.kl_radii(counts, delta), bound.most_successors(counts.setting), reward)

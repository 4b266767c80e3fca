"""Bounds and intervals with parts that a test chooses."""

import numpy as np

from anyreward.certificates.bounds import TightBound
from anyreward.certificates.intervals import Robust


class GivenRadii(TightBound):
    """A tight bound with radii that are given."""

    def __init__(self, radii, tv, **options):
        super().__init__(**options)
        object.__setattr__(self, "given", (np.asarray(radii), np.asarray(tv)))

    def radii(self, counts, delta):
        return self.given


def robust_planning(counts, bound, delta, reward):
    return Robust(counts, bound.kl_radii(counts, delta), bound.most_successors(counts.setting), reward)

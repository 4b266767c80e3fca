"""What counts prove for all convex mixtures of given rewards at once.

For weights w >= 0 with sum 1 let r_w = sum_k w_k r_k. On a simplex of weights with corners w_1, ..., w_k and for *one* policy pi,
V_up(r_w) is convex in w, being the largest of linear functions, and V^pi_lo(r_w) is concave, being the smallest. So

    V_up(r_w) - V^pi_lo(r_w) <= max_j V_up(r_{w_j}) - V^pi_lo(r_{w_j})     for every w in the simplex,

and the cautious plan for r_w is no worse than pi (`docs/theory.md`, 20.2). All weights are covered by cells, which are bisected
where this bound is largest; pi is the cautious plan for the middle of the cell.
"""

from __future__ import annotations

import heapq
from itertools import combinations
from math import inf
from typing import NamedTuple

import numpy as np

from .. import kernels
from ..rewards.forms import ArrivalReward
from .given import GivenBounds

FEW, MOST = 4, 2048  # cells for each reward that are made unless a target is near; cells that are made at all
CLOSE = 1.1  # without a target: how near to the best that any cells could give


class Cell(NamedTuple):
    """A simplex of weights."""

    order: tuple[float, int]  # minus its bound, and its number
    corners: tuple[tuple[float, ...], ...]


class Mixtures:
    """The cells of all weights, as far as they were divided.

    Attributes
    ----------
    lowest : float
        The widest interval of a mixture that was planned for: no division gives less.
    widest : ndarray, (k,)
        The weights of that mixture.
    """

    def __init__(self, found: GivenBounds) -> None:
        self.found, self.lowest = found, -1.0
        self._rewards = [one.reward for one in found.rewards]
        if any(isinstance(reward, ArrivalReward) for reward in self._rewards):
            raise ValueError("mixtures is True, but a reward is paid on arrival: mixtures are of rewards of state and action.")
        k = len(self._rewards)
        self._upper: dict[tuple[float, ...], float] = {}
        self._cells: list[Cell] = []
        self._made = 0
        corners = tuple(tuple(map(float, row)) for row in np.eye(k))
        for weights in corners:
            self._note(weights)
        self._add(corners)

    def reward(self, weights: tuple[float, ...]) -> np.ndarray:
        """The mixture with these weights, (H, n_outcomes, A)."""
        return np.asarray(sum(w * np.asarray(r) for w, r in zip(weights, self._rewards, strict=True) if w))

    def _best(self, weights: tuple[float, ...]) -> float:
        """V_up of a mixture."""
        if weights not in self._upper:
            self._upper[weights] = self.found.robust(self.reward(weights)).best(kernels.robust.UPPER)[1]
        return self._upper[weights]

    def _note(self, weights: tuple[float, ...]) -> np.ndarray:
        """The cautious plan for a mixture, (H, n_outcomes), of whose interval a note is taken."""
        Q, lower = self.found.robust(self.reward(weights)).best(kernels.robust.LOWER)
        width = self.found.width(self._best(weights), lower)
        if width > self.lowest:
            self.lowest, self.widest = width, np.array(weights)
        return Q.argmax(axis=2)

    def _add(self, corners: tuple[tuple[float, ...], ...], most: float = inf) -> None:
        """Adds a cell with its bound, which is at most that of the cell that it is a part of."""
        policy = self._note(tuple(float(x) for x in np.mean(corners, axis=0)))
        bound = 0.0
        for weights in corners:
            lower = self.found.robust(self.reward(weights)).of(policy, kernels.robust.LOWER)
            bound = max(bound, self.found.width(self._best(weights), lower))
        heapq.heappush(self._cells, Cell((-min(bound, most), self._made), corners))
        self._made += 1

    @property
    def epsilon(self) -> float:
        """Every mixture has a plan that is certain to be so good."""
        return -self._cells[0].order[0]

    def refine(self, target: float | None = None) -> Mixtures:
        """Divides cells until `epsilon` is at most the target, or it is clear that no division gives that; returns itself.

        Without a target, until dividing further gains little.
        """
        enough = MOST if target is not None else FEW * len(self._rewards)
        while len(self._cells) < enough and self.epsilon > (CLOSE * self.lowest if target is None else target):
            if target is not None and self.lowest > target:
                break
            (bound, _), corners = heapq.heappop(self._cells)
            i, j = max(combinations(range(len(corners)), 2), key=lambda ends: distance(corners[ends[0]], corners[ends[1]]))
            middle = tuple((a + b) / 2 for a, b in zip(corners[i], corners[j], strict=True))
            for end in (i, j):
                self._add(tuple(middle if at == end else corner for at, corner in enumerate(corners)), -bound)
        return self

    def index(self) -> np.ndarray:
        """Q_up of the mixture whose interval is widest, (H, n_outcomes, A)."""
        return self.found.robust(self.reward(tuple(self.widest))).best(kernels.robust.UPPER)[0]


def distance(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """The total variation between two weights."""
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) / 2

"""DeepSea: a treasure that only one of 2^N sequences of moves finds (Osband et al. 2019)."""

from __future__ import annotations

import numpy as np

from ..data.tabular import TabularMDP, check_size
from .registry import register


@register("deep-sea")
def deep_sea(size: int = 10, slip: float = 0.0, shuffle: int | None = None) -> TabularMDP:
    """DeepSea: a diver sinks one row with every step and has to go right in all of them; explore with a horizon of `size`.

        mdp = anyreward.envs.deep_sea(size=8, slip=0.1)

    The state of a cell is row * size + column; state size^2 is the sea floor, which is never left. The diver starts in the top
    left corner. Every move leads one row down: action 0 one column to the left, action 1 one to the right, as far as there is
    one. Going right costs c = 0.01 / size, and in the bottom right corner it finds a treasure worth 1. The reward is shifted
    and rescaled to [0, 1], by r -> (r + c) / (1 + c).

    Parameters
    ----------
    size
        Number of rows and of columns, N, at least 1.
    slip
        Probability that a move to the right goes left instead, in [0, 1]. The stochastic version of the original has 1/N.
    shuffle
        A seed with which is drawn, for each cell, which of the two actions is "right", as in the original. None: action 1
        everywhere.
    """
    if size < 1:
        raise ValueError(f"size is {size}: it has to be at least 1.")
    if not 0.0 <= slip <= 1.0:
        raise ValueError(f"slip is {slip}: it has to be in [0, 1].")
    check_size(4 * (size * size + 1), "deep-sea")
    N, floor = size, size * size
    row, col = np.divmod(np.arange(floor), N)
    below = np.where(row == N - 1, floor, (row + 1) * N)
    left, right = (np.where(row == N - 1, floor, below + np.clip(col + move, 0, N - 1)) for move in (-1, 1))
    successors, probabilities = np.full((floor + 1, 2, 2), floor), np.zeros((floor + 1, 2, 2))
    successors[:-1, 0], successors[:-1, 1] = np.stack([left, right], axis=-1), np.stack([left, right], axis=-1)
    probabilities[:, 0], probabilities[:, 1] = (1.0, 0.0), (slip, 1.0 - slip)
    probabilities[-1] = 1.0, 0.0
    cost = 0.01 / N
    reward = np.zeros((floor + 1, 2))
    reward[:-1, 1] = -cost
    reward[floor - 1, 1] += 1.0
    reward = (reward + cost) / (1.0 + cost)
    if shuffle is not None:
        swapped = np.flatnonzero(np.random.default_rng(shuffle).random(floor) < 0.5)
        for table in (successors, probabilities, reward):
            table[swapped] = table[swapped][:, ::-1]
    mdp = TabularMDP.from_sparse(successors, probabilities, initial=0, reward=reward)
    if shuffle is None:
        mdp.numbering = mdp.numbering.named(None, ("left", "right"))
    return mdp

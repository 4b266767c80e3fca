"""RiverSwim: a river to be swum against its current (Strehl & Littman 2008, in the form of Osband et al. 2013)."""

from __future__ import annotations

import numpy as np

from ..data.tabular import TabularMDP, check_size
from .registry import register


@register("river-swim")
def river_swim(length: int = 6) -> TabularMDP:
    """RiverSwim: a small reward where the current carries you, a large one where you have to swim.

        mdp = anyreward.envs.river_swim(length=6)

    States 0 ... length-1 lie in a row, and the initial state is 0. Action 0, left, always moves left. Action 1, right, swims
    against the current: it moves right with probability 0.35, stays with 0.6 and drifts left with 0.05; in the leftmost state
    it moves right with 0.6 and stays with 0.4, and in the rightmost it stays with 0.6 and drifts left with 0.4. The reward is
    0.005 for left in the leftmost state, 1 for right in the rightmost state, and 0 elsewhere.

    These are the numbers of Osband, Russo & Van Roy (2013), which were read in several public implementations. The original has
    others: right succeeds with probability 0.3 there.

    Parameters
    ----------
    length
        Number of states, at least 2.
    """
    if length < 2:
        raise ValueError(f"length is {length}: a river needs at least 2 states.")
    check_size(6 * length, "river-swim")
    s = np.arange(length)
    back, ahead = np.maximum(s - 1, 0), np.minimum(s + 1, length - 1)
    successors = np.stack([np.stack([back, s, ahead], axis=-1)] * 2, axis=1)  # (S, A, 3)
    probabilities = np.zeros((length, 2, 3))
    probabilities[:, 0, 0] = 1.0
    probabilities[:, 1] = 0.05, 0.6, 0.35
    probabilities[0, 1] = 0.0, 0.4, 0.6
    probabilities[-1, 1] = 0.4, 0.6, 0.0
    reward = np.zeros((length, 2))
    reward[0, 0], reward[-1, 1] = 0.005, 1.0
    return TabularMDP.from_sparse(successors, probabilities, initial=0, reward=reward, action_names=("left", "right"))

"""The double chain of the paper's first experiment."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..data.tabular import TabularMDP, check_size
from ..setting import shown
from ..structure import Structure
from .registry import register

LEFT, RIGHT = 0, 1


@register("double-chain")
def double_chain(length: int = 31, fail_prob: float = 0.1, variant: str = "paper") -> TabularMDP:
    """The double chain: a walk on a line that starts in the middle, with the reward at the right end.

        mdp = anyreward.envs.double_chain(length=31, fail_prob=0.1)

    States 0 ... length-1 lie in a row. Action 0 moves left and action 1 moves right; a move fails with probability `fail_prob`
    and then goes the other way. A move against an end of the chain stays there. The initial state is the middle, (length-1)//2.
    Its structure is one law for each action.

    Parameters
    ----------
    length
        Number of states, at least 2.
    fail_prob
        Probability that a move goes the other way, in [0, 1]. The paper has 0.1, the authors' published configurations 0.05.
    variant
        `"paper"`: the reward is 1 in the rightmost state, whatever the action, and 0 elsewhere. `"authors"`: as in the authors'
        code, the reward is 1 for *staying* in the rightmost state, on average 1 - fail_prob for moving right there and fail_prob
        for moving left.
    """
    if length < 2:
        raise ValueError(f"length is {length}: a chain needs at least 2 states.")
    if not 0.0 <= fail_prob <= 1.0:
        raise ValueError(f"fail_prob is {fail_prob}: it has to be in [0, 1].")
    if variant not in ("paper", "authors"):
        raise ValueError(f"variant is {shown(variant)}: it has to be 'paper' or 'authors'.")
    check_size(4 * length, "double-chain")
    states = np.arange(length)
    left, right = np.maximum(states - 1, 0), np.minimum(states + 1, length - 1)
    successors = np.stack([np.stack([left, right], -1), np.stack([right, left], -1)], axis=1)
    probabilities = np.broadcast_to([1.0 - fail_prob, fail_prob], successors.shape)
    reward = np.zeros((length, 2))
    reward[-1] = 1.0 if variant == "paper" else (fail_prob, 1.0 - fail_prob)
    mdp = TabularMDP.from_sparse(
        successors, probabilities, initial=(length - 1) // 2, reward=reward, action_names=("left", "right")
    )
    mdp.structure = Structure(
        law=_meant,
        outcomes=(-1, 1),
        successor=partial(_moved, length=length),
    )
    return mdp


def _meant(s: int, a: int) -> str:
    """The law of a move: the direction that was meant."""
    return ("left", "right")[a]


def _moved(s: int, a: int, move: int, *, length: int) -> int:
    return min(max(s + move, 0), length - 1)

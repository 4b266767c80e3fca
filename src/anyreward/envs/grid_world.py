"""The grid world of the paper's second experiment."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..data.tabular import TabularMDP, check_size
from ..setting import shown
from ..structure import Structure
from .registry import register

MOVES = np.array([(0, -1), (0, 1), (-1, 0), (1, 0)])  # left, right, up, down: changes of (row, column)
TURNS = ("ahead", "right", "back", "left")
CLOCKWISE = (0, 2, 1, 3)  # left, up, right, down


def turned(action: int, turn: str) -> int:
    """The direction in which a move goes that turns away from its action."""
    return CLOCKWISE[(CLOCKWISE.index(action) + TURNS.index(turn)) % 4]


@register("grid-world")
def grid_world(
    rows: int = 21,
    cols: int = 21,
    success_prob: float = 0.95,
    start: tuple[int, int] = (10, 10),
    goal: tuple[int, int] = (16, 16),
    variant: str = "paper",
) -> TabularMDP:
    """The grid world: a walk on a rectangular grid, with the reward in one cell.

        mdp = anyreward.envs.grid_world(rows=5, cols=5, start=(0, 0), goal=(4, 4))

    The state of a cell is row * cols + column. The actions are 0 left, 1 right, 2 up and 3 down. A move succeeds with
    probability `success_prob`; otherwise it goes in one of the three other directions, each equally likely. A move against a
    wall stays in its cell. The reward is 1 in the goal cell, whatever the action, and 0 elsewhere. Its structure is one law of
    slips for all cells and directions: ahead, right, back or left.

    The paper says no more than "5% probability of moving to the wrong direction", and gives neither the initial state nor H; the
    authors' code has start (10, 10) and H = 20.

    Parameters
    ----------
    rows, cols
        Size of the grid, at least 1 each.
    success_prob
        Probability that a move goes in the direction of the action, in [0, 1].
    start, goal
        (row, column) of the initial state and of the reward, from 0.
    variant
        `"paper"`: as above. `"authors"`: as in the authors' code, a move aimed at a wall always stays; any other move fails to
        one of the *other neighbouring cells*, equally likely; and the reward is for *entering* the goal, here its mean for a
        cell and an action.
    """
    if rows < 1 or cols < 1:
        raise ValueError(f"rows and cols are {rows} and {cols}: both have to be at least 1.")
    if not 0.0 <= success_prob <= 1.0:
        raise ValueError(f"success_prob is {success_prob}: it has to be in [0, 1].")
    if variant not in ("paper", "authors"):
        raise ValueError(f"variant is {shown(variant)}: it has to be 'paper' or 'authors'.")
    for name, (r, c) in (("start", start), ("goal", goal)):
        if not (0 <= r < rows and 0 <= c < cols):
            raise ValueError(f"{name} is {(r, c)}: it lies outside the grid of {rows} x {cols}.")
    S = rows * cols
    check_size(16 * S, "grid-world")
    cell = np.stack(np.divmod(np.arange(S), cols), axis=-1)
    aimed = cell[:, None] + MOVES
    inside = ((aimed >= 0) & (aimed < (rows, cols))).all(-1)
    landed = np.where(inside[..., None], aimed, cell[:, None])
    land = landed[..., 0] * cols + landed[..., 1]  # (S, 4)

    successors = np.broadcast_to(land[:, None], (S, 4, 4))
    wanted = np.eye(4, dtype=bool)
    if variant == "paper":
        probabilities = np.broadcast_to(np.where(wanted, success_prob, (1 - success_prob) / 3), (S, 4, 4)).copy()
    else:
        others = inside[:, None] & ~wanted
        count = others.sum(-1, keepdims=True)
        slips = np.where(others, (1 - success_prob) / np.maximum(count, 1), 0.0)
        probabilities = np.where(wanted, np.where(count > 0, success_prob, 1.0), slips)
        probabilities[~inside] = wanted[np.nonzero(~inside)[1]]

    g = goal[0] * cols + goal[1]
    reward = np.zeros((S, 4))
    if variant == "paper":
        reward[g] = 1.0
    else:
        reward = (probabilities * (successors == g)).sum(-1)
    at, names = start[0] * cols + start[1], ("left", "right", "up", "down")
    mdp = TabularMDP.from_sparse(successors, probabilities, initial=at, reward=reward, action_names=names)
    mdp.grid, mdp.arrows = (rows, cols), "←→↑↓"
    if variant == "paper":
        mdp.structure = Structure(law=_slips, outcomes=TURNS, successor=partial(_landed, land=land))
    return mdp


def _slips(s: int, a: int) -> str:
    """The law of a move: whether, and where to, it slips."""
    return "slip"


def _landed(s: int, a: int, turn: str, *, land: np.ndarray) -> int:
    return int(land[s, turned(a, turn)])

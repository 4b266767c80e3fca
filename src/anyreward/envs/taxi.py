"""Taxi (Dietterich 2000) on a grid of any size: fetch a passenger and take them where they want to go."""

from __future__ import annotations

import numpy as np

from ..data.tabular import TabularMDP, check_size
from .grid_world import MOVES
from .registry import register

CORNERS, IN_TAXI = 4, 4
ACTIONS = ("left", "right", "up", "down", "pick up", "drop off")


@register("taxi")
def taxi(rows: int = 5, cols: int = 5, slip: float = 0.0) -> TabularMDP:
    """Taxi: drive to a passenger, pick them up, drive to their destination, drop them off.

        mdp = anyreward.envs.taxi(rows=3, cols=3)

    A passenger waits in one of the four corners and wants to go to another; the taxi starts anywhere, all such starts being
    equally likely. The actions are 0 left, 1 right, 2 up, 3 down, 4 pick up and 5 drop off. A step costs 1, picking up or
    dropping off where that is impossible costs 10, and dropping off at the destination earns 20; the reward is this, rescaled
    from [-10, 20] to [0, 1]. A passenger who is dropped off in another corner waits there. At the destination the episode ends:
    a last state is never left, and costs nothing.

    The state is (position * 5 + passenger) * 4 + destination, where the position is row * cols + column, corners are numbered row
    by row, and passenger 4 is in the taxi; the last state is the end. There are no walls inside the grid, unlike in the original.

    Parameters
    ----------
    rows, cols
        Size of the grid, at least 2 each.
    slip
        Probability that a move fails, and the taxi stays where it is, in [0, 1].
    """
    if rows < 2 or cols < 2:
        raise ValueError(f"rows and cols are {rows} and {cols}: both have to be at least 2.")
    if not 0.0 <= slip <= 1.0:
        raise ValueError(f"slip is {slip}: it has to be in [0, 1].")
    cells = rows * cols
    S = cells * 5 * CORNERS + 1
    check_size(12 * S, "taxi")
    corners = np.array([0, cols - 1, cells - cols, cells - 1])
    place, at, goal = (part.ravel() for part in np.meshgrid(np.arange(cells), np.arange(5), np.arange(CORNERS), indexing="ij"))
    state = np.arange(S - 1)

    def number(place: np.ndarray, at: np.ndarray) -> np.ndarray:
        return (place * 5 + at) * CORNERS + goal

    successors = np.repeat(np.arange(S)[:, None], 6, axis=1)[..., None].repeat(2, axis=-1)  # the second one: it stays
    raw = np.full((S, 6), -1.0)
    for a, (down, right) in enumerate(MOVES):
        row, col = place // cols + down, place % cols + right
        inside = (row >= 0) & (row < rows) & (col >= 0) & (col < cols)
        successors[:-1, a, 0] = np.where(inside, number(np.where(inside, row * cols + col, place), at), state)
    here = np.full(cells, -1)
    here[corners] = np.arange(CORNERS)
    corner, riding = here[place], at == IN_TAXI
    waits_here = ~riding & (corner == at)
    successors[:-1, 4, 0] = np.where(waits_here, number(place, np.full(S - 1, IN_TAXI)), state)
    raw[:-1, 4] = np.where(waits_here, -1.0, -10.0)
    gets_out, arrives = riding & (corner >= 0), riding & (corner == goal)
    successors[:-1, 5, 0] = np.where(arrives, S - 1, np.where(gets_out, number(place, corner), state))
    raw[:-1, 5] = np.where(arrives, 20.0, np.where(gets_out, -1.0, -10.0))
    raw[-1] = 0.0
    probabilities = np.zeros((S, 6, 2))
    probabilities[:, :4], probabilities[:, 4:] = (1.0 - slip, slip), (1.0, 0.0)
    begins = np.append(~riding & (at != goal), False)
    return TabularMDP.from_sparse(
        successors, probabilities, initial=begins / begins.sum(), reward=(raw + 10.0) / 30.0, action_names=ACTIONS
    )

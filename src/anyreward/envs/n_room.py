"""NRoom: rooms in a row with one door between each two, an old testbed of exploration; after the one of rlberry."""

from __future__ import annotations

import numpy as np

from ..data.tabular import TabularMDP, check_size
from .grid_world import MOVES
from .registry import register


@register("n-room")
def n_room(rooms: int = 5, size: int = 5, success_prob: float = 0.95) -> TabularMDP:
    """NRoom: a walk through rooms in a row, with a small reward at the near end and a large one at the far end.

        mdp = anyreward.envs.n_room(rooms=3, size=3)

    Every room has size x size cells. Between two rooms is a wall with a door in its middle row; a door is a cell as well, walls
    are not states. Cells are numbered row by row, walls left out. The actions are 0 left, 1 right, 2 up and 3 down. A move
    succeeds with probability `success_prob`; otherwise it goes in one of the three other directions, each equally likely. A
    move against a wall stays in its cell. The initial state is the middle of the middle room, room (rooms-1)//2. Whatever the
    action, the reward is 0.1 in the top left cell of the first room, 1 in the bottom right cell of the last room, and 0
    elsewhere.

    Parameters
    ----------
    rooms
        Number of rooms, at least 1.
    size
        Number of rows and of columns of a room, at least 1, and at least 2 if there is one room only.
    success_prob
        Probability that a move goes in the direction of the action, in [0, 1].
    """
    if rooms < 1 or size < 1 or rooms * size < 2:
        raise ValueError(f"rooms and size are {rooms} and {size}: there have to be at least two cells in at least one room.")
    if not 0.0 <= success_prob <= 1.0:
        raise ValueError(f"success_prob is {success_prob}: it has to be in [0, 1].")
    check_size(16 * (rooms * size * size + rooms), "n-room")
    width = rooms * size + rooms - 1
    free = np.ones((size, width), bool)
    free[:, size :: size + 1] = False
    free[size // 2] = True  # the doors
    number = np.full((size + 2, width + 2), -1)  # with a wall around
    number[1:-1, 1:-1][free] = np.arange(free.sum())
    cells = np.argwhere(free)
    aimed = cells[:, None] + MOVES + 1
    land = number[aimed[..., 0], aimed[..., 1]]  # (S, 4)
    S = len(cells)
    land = np.where(land >= 0, land, np.arange(S)[:, None])
    successors = np.broadcast_to(land[:, None], (S, 4, 4))
    probabilities = np.broadcast_to(np.where(np.eye(4, dtype=bool), success_prob, (1 - success_prob) / 3), (S, 4, 4))
    reward = np.zeros((S, 4))
    reward[0], reward[-1] = 0.1, 1.0
    middle = (rooms - 1) // 2 * (size + 1) + size // 2
    return TabularMDP.from_sparse(
        successors, probabilities, initial=int(number[size // 2 + 1, middle + 1]), reward=reward,
        state_names=[f"({row}, {column})" for row, column in cells], action_names=("left", "right", "up", "down"),
    )  # fmt: skip

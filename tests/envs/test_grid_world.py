"""The grid world, cell by cell."""

import numpy as np
import pytest

import anyreward as ar

MOVES = {0: (0, -1), 1: (0, 1), 2: (-1, 0), 3: (1, 0)}  # left, right, up, down


def landing(rows, cols, cell, action):
    r, c = cell[0] + MOVES[action][0], cell[1] + MOVES[action][1]
    return (r, c) if 0 <= r < rows and 0 <= c < cols else cell


@pytest.mark.parametrize(("rows", "cols"), [(3, 4), (1, 5), (2, 2), (1, 1)])
def test_grid_world(rows, cols):
    """0.85 where one aims, 0.05 in each other direction, walls hold."""
    mdp = ar.envs.grid_world(rows, cols, 0.85, start=(rows - 1, 0), goal=(0, cols - 1))
    P = mdp.dense()
    for r, c, a in np.ndindex(rows, cols, 4):
        expected = np.zeros(rows * cols)
        for b in range(4):
            x, y = landing(rows, cols, (r, c), b)
            expected[x * cols + y] += 0.85 if b == a else 0.05
        np.testing.assert_allclose(P[r * cols + c, a], expected, atol=1e-12)
    assert mdp.initial_state == (rows - 1) * cols
    assert np.flatnonzero(mdp.reward.sum(axis=1)).tolist() == [cols - 1]


@pytest.mark.parametrize(("rows", "cols"), [(3, 4), (1, 5), (2, 2), (1, 1)])
def test_grid_world_of_the_authors(rows, cols):
    """Into a wall: stay. Otherwise 0.85 where one aims and the rest evenly over the other neighbours, if there are any."""
    goal = (0, cols - 1)
    mdp = ar.envs.grid_world(rows, cols, 0.85, start=(0, 0), goal=goal, variant="authors")
    P = mdp.dense()
    for r, c, a in np.ndindex(rows, cols, 4):
        expected, aimed = np.zeros((rows, cols)), landing(rows, cols, (r, c), a)
        others = [cell for b in range(4) if b != a and (cell := landing(rows, cols, (r, c), b)) != (r, c)]
        if aimed == (r, c) or not others:
            expected[aimed] = 1.0
        else:
            expected[aimed] += 0.85
            for cell in others:
                expected[cell] += 0.15 / len(others)
        np.testing.assert_allclose(P[r * cols + c, a], expected.ravel(), atol=1e-12)
        assert mdp.reward[r * cols + c, a] == pytest.approx(expected[goal])


def test_the_grid_of_the_paper():
    mdp = ar.envs.grid_world()
    assert (mdp.n_states, mdp.n_actions, mdp.initial_state) == (441, 4, 10 * 21 + 10)
    assert mdp.reward[16 * 21 + 16].tolist() == [1.0] * 4

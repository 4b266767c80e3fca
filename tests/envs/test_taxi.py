"""Taxi, against its rules for one state and action at a time."""

import numpy as np
import pytest

import anyreward as ar


def ruled(rows, cols, place, passenger, goal, a):
    """(place, passenger) afterwards, or None at the end, and what is paid."""
    corners = {0: 0, cols - 1: 1, (rows - 1) * cols: 2, rows * cols - 1: 3}
    r, c = divmod(place, cols)
    if a == 4:
        if passenger != 4 and corners.get(place) == passenger:
            return (place, 4), -1
        return (place, passenger), -10
    if a == 5:
        if passenger != 4 or place not in corners:
            return (place, passenger), -10
        return (None, 20) if corners[place] == goal else ((place, corners[place]), -1)
    down, right = [(0, -1), (0, 1), (-1, 0), (1, 0)][a]
    if 0 <= r + down < rows and 0 <= c + right < cols:
        return ((r + down) * cols + c + right, passenger), -1
    return (place, passenger), -1


@pytest.mark.parametrize("slip", [0.0, 0.2])
def test_it_follows_the_rules(slip):
    rows, cols = 2, 3
    mdp = ar.envs.taxi(rows, cols, slip)
    P, end, starts = mdp.dense(), rows * cols * 20, []
    assert mdp.n_states == end + 1
    for s in range(end):
        rest, goal = divmod(s, 4)
        place, passenger = divmod(rest, 5)
        starts += [s] if passenger not in (4, goal) else []
        for a in range(6):
            after, paid = ruled(rows, cols, place, passenger, goal, a)
            wanted = np.zeros(end + 1)
            wanted[end if after is None else (after[0] * 5 + after[1]) * 4 + goal] += 1 - slip * (a < 4)
            wanted[s] += slip * (a < 4)
            np.testing.assert_allclose(P[s, a], wanted)
            assert mdp.reward[s, a] == pytest.approx((paid + 10) / 30)
    np.testing.assert_array_equal(P[end], np.eye(end + 1)[[end] * 6])
    np.testing.assert_allclose(mdp.initial[starts], 1 / len(starts))
    assert len(starts) == rows * cols * 12


def test_a_whole_trip():
    """From the middle of 3 x 3: two moves, pick up, two moves along the side, drop off: 20 - 5, and nothing afterwards."""
    mdp, H = ar.envs.taxi(3, 3), 10
    start = (4 * 5 + 0) * 4 + 1
    value = ar.backward_induction(mdp, mdp.reward, H).V[0, start]
    assert value == pytest.approx((20 - 5 + 10 * H) / 30)

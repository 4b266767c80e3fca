"""NRoom, against a map that is read by eye."""

import numpy as np

import anyreward as ar

MAP = [
    "aaa#bbb#ccc",
    "aaadbbbdccc",
    "aaa#bbb#ccc",
]


def test_it_is_the_map():
    """Three rooms of 3 x 3: where every move of every cell leads, with slips to the other directions."""
    mdp, number = ar.envs.n_room(3, 3, 0.7), {}
    for r, line in enumerate(MAP):
        for c, sign in enumerate(line):
            if sign != "#":
                number[r, c] = len(number)
    assert mdp.n_states == len(number) == 29
    P = np.zeros((29, 4, 29))
    for (r, c), s in number.items():
        for a in range(4):
            for b, (down, right) in enumerate([(0, -1), (0, 1), (-1, 0), (1, 0)]):
                P[s, a, number.get((r + down, c + right), s)] += 0.7 if a == b else 0.1
    np.testing.assert_allclose(mdp.dense(), P, atol=1e-15)
    assert mdp.initial_state == number[1, 5]
    assert mdp.reward[number[0, 0]].tolist() == [0.1] * 4
    assert mdp.reward[number[2, 10]].tolist() == [1] * 4
    assert np.count_nonzero(mdp.reward) == 8

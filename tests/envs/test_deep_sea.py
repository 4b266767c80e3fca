"""DeepSea: what every sequence of moves earns, and what a shuffle changes."""

import itertools

import numpy as np
import pytest

import anyreward as ar


def earned(mdp, moves):
    """The rewards of a sequence of moves, where transitions are deterministic."""
    P, s, total = mdp.dense(), 0, 0.0
    for a in moves:
        total += mdp.reward[s, a]
        s = int(P[s, a].argmax())
    return total, s


def test_only_one_sequence_finds_the_treasure():
    N = 4
    mdp, cost = ar.envs.deep_sea(N), 0.01 / N
    for moves in itertools.product((0, 1), repeat=N):
        total, at = earned(mdp, moves)
        raw = (sum(moves) == N) - cost * sum(moves)
        assert total == pytest.approx((raw + N * cost) / (1 + cost))
        assert at == N * N
    P = mdp.dense()
    np.testing.assert_array_equal(P[-1], np.eye(N * N + 1)[[-1, -1]])
    assert (P.max(axis=-1) == 1).all()


def test_right_may_fail_and_the_actions_may_be_shuffled():
    plain, slips, shuffled = ar.envs.deep_sea(3), ar.envs.deep_sea(3, slip=0.25), ar.envs.deep_sea(3, shuffle=5)
    np.testing.assert_allclose(slips.dense()[:-1, 1], 0.75 * plain.dense()[:-1, 1] + 0.25 * plain.dense()[:-1, 0])
    np.testing.assert_allclose(slips.dense()[:, 0], plain.dense()[:, 0])
    swapped = (shuffled.dense() != plain.dense()).any(axis=(1, 2))
    assert 0 < swapped.sum() < 9
    np.testing.assert_array_equal(shuffled.dense()[swapped], plain.dense()[swapped][:, ::-1])
    values = [ar.backward_induction(mdp, mdp.reward, 3).V[0] for mdp in (plain, shuffled)]
    np.testing.assert_allclose(*values)

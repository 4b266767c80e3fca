"""What all models of `envs` have in common, and what they refuse."""

import numpy as np
import pytest

import anyreward as ar


@pytest.mark.parametrize(
    "mdp",
    [
        ar.envs.double_chain(),
        ar.envs.double_chain(2, 1.0, "authors"),
        ar.envs.grid_world(),
        ar.envs.grid_world(variant="authors"),
        ar.envs.grid_world(1, 1, start=(0, 0), goal=(0, 0)),
        ar.envs.grid_world(1, 1, start=(0, 0), goal=(0, 0), variant="authors"),
        ar.envs.garnet(5, 2, 3),
        ar.envs.garnet(5, 2, 5, horizon=3),
        ar.envs.inventory(),
        ar.envs.inventory(1, 0, 0.01),
        ar.envs.inventory(5, 3, 500.0, start=0),
        ar.envs.river_swim(),
        ar.envs.deep_sea(),
        ar.envs.deep_sea(1),
        ar.envs.deep_sea(4, slip=0.25, shuffle=1),
        ar.envs.n_room(),
        ar.envs.n_room(2, 1, 0.5),
        ar.envs.taxi(),
        ar.envs.taxi(2, 2, 0.5),
    ],
    ids=repr,
)
def test_every_environment_is_a_model_with_a_reward_in_0_1(mdp):
    P = mdp.dense()
    assert (P >= 0).all()
    np.testing.assert_allclose(P.sum(axis=-1), 1, atol=1e-12)
    assert mdp.initial.sum() == pytest.approx(1)
    assert mdp.initial_state is not None or mdp.n_actions == 6  # a taxi starts anywhere
    assert mdp.reward.shape == (mdp.n_states, mdp.n_actions)
    assert 0 <= mdp.reward.min() <= mdp.reward.max() <= 1


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda: ar.envs.double_chain(length=1), "length is 1"),
        (lambda: ar.envs.double_chain(fail_prob=1.5), "fail_prob is 1.5"),
        (lambda: ar.envs.double_chain(fail_prob=float("nan")), "fail_prob is nan"),
        (lambda: ar.envs.double_chain(variant="mine"), "variant is 'mine'"),
        (lambda: ar.envs.grid_world(rows=0), "rows and cols are 0 and 21"),
        (lambda: ar.envs.grid_world(success_prob=-0.1), "success_prob is -0.1"),
        (lambda: ar.envs.grid_world(rows=5, cols=5), r"start is \(10, 10\)"),
        (lambda: ar.envs.grid_world(goal=(21, 0)), r"goal is \(21, 0\)"),
        (lambda: ar.envs.grid_world(variant="mine"), "variant is 'mine'"),
        (lambda: ar.envs.garnet(3, 2, 4), "branching is 4"),
        (lambda: ar.envs.garnet(3, 2, 0), "branching is 0"),
        (lambda: ar.envs.inventory(capacity=0), "capacity is 0"),
        (lambda: ar.envs.inventory(max_order=-1), "max_order -1"),
        (lambda: ar.envs.inventory(mean_demand=0.0), "mean_demand is 0.0"),
        (lambda: ar.envs.inventory(start=21), "21"),
        (lambda: ar.envs.river_swim(1), "length is 1"),
        (lambda: ar.envs.deep_sea(0), "size is 0"),
        (lambda: ar.envs.deep_sea(slip=1.5), "slip is 1.5"),
        (lambda: ar.envs.deep_sea(10**6), "entries"),
        (lambda: ar.envs.n_room(1, 1), "rooms and size are 1 and 1"),
        (lambda: ar.envs.n_room(success_prob=2.0), "success_prob is 2"),
        (lambda: ar.envs.taxi(1, 5), "rows and cols are 1 and 5"),
        (lambda: ar.envs.taxi(slip=float("nan")), "slip is nan"),
    ],
)
def test_what_is_refused(function, names):
    with pytest.raises(ValueError, match=names):
        function()

"""Reward-free exploration in linear models: least squares with one-hot features, in plain NumPy."""

import math

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms import make_explorer
from anyreward.algorithms.rf_linear import LinearFeatures, RFLinear

from ..helpers.explorers import advanced, counted, played
from ..helpers.problems import random_mdp


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_it_is_least_squares(stationary, scale):
    """By the matrix Lambda = I + sum phi phi^T and w = Lambda^-1 sum phi V(s'), as in the original."""
    mdp, H, S, A, delta = random_mdp(3, 2, seed=4), 3, 3, 2, 0.2
    setting = mdp.setting(H, stationary=stationary)
    explorer = RFLinear(setting, delta=delta, scale=scale)
    states, actions = played(mdp, setting, 300, seed=1)
    explorer.tell(states, actions)
    assert counted(states, actions, setting).sum() == 900
    V, laws = np.zeros(S), S * A * (1 if stationary else H)
    for h in reversed(range(H)):
        steps = range(H) if stationary else [h]
        phi = np.concatenate([np.eye(S * A)[states[:, k] * A + actions[:, k]] for k in steps])
        after = np.concatenate([states[:, k + 1] for k in steps])
        inverse = np.linalg.inv(np.eye(S * A) + phi.T @ phi)
        w, root = inverse @ (phi.T @ V[after]), np.sqrt(np.diag(inverse))
        n = 1 / np.diag(inverse) - 1
        beta = math.log(2 * laws / delta) + (S - 1) * np.log(math.e * (1 + n / (S - 1)))
        u = scale * (H - 1 - h) * (np.sqrt(beta / 2) + 1) * root
        Q = np.where(n > 0.5, np.minimum(H - h, w + u / H + u), H - h).reshape(S, A)
        np.testing.assert_allclose(explorer.index[h], Q, rtol=1e-9)
        V = Q.max(axis=1)


def test_its_numbers():
    bonus = RFLinear(ar.envs.double_chain().setting(20)).formulas.bonus
    for n, u in ((100.0, 14.151), (1e4, 2.1575)):
        assert 19 * bonus(n)[0] / 1.05 == pytest.approx(u, rel=5e-5)
        assert bonus(n)[1] == n / (n + 1)


# --- Features ---


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_one_hot_features_are_counts(stationary, scale):
    """The general form gives the index of the form for counts, up to rounding; features of another length change nothing else."""
    mdp, H, S, A = random_mdp(3, 2, seed=4), 4, 3, 2
    setting = mdp.setting(H, stationary=stationary)
    states, actions = played(mdp, setting, 200, seed=1)
    phi = np.eye(S * A)[np.random.default_rng(0).permutation(S * A)].reshape(S, A, S * A)
    for upto in (0, 1, 5, 200):
        counting, general = (
            RFLinear(setting, delta=0.2, scale=scale),
            LinearFeatures(setting, features=phi, delta=0.2, scale=scale),
        )
        for explorer in (counting, general):
            explorer.tell(states[:upto], actions[:upto])
        np.testing.assert_allclose(general.index, counting.index, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("stationary", [False, True])
def test_it_is_least_squares_with_features(stationary):
    """Sums over single transitions, in the order in which they came, by rank-one updates of the inverse."""
    mdp, H, S, A, d, delta, scale = random_mdp(4, 2, seed=4), 3, 4, 2, 3, 0.2, 0.05
    setting = mdp.setting(H, stationary=stationary)
    phi = np.random.default_rng(1).normal(size=(S, A, d))
    phi[3, 1] = 0.0
    explorer = LinearFeatures(setting, features=phi, delta=delta, scale=scale)
    states, actions = played(mdp, setting, 40, seed=1)
    explorer.tell(states, actions)
    V, laws = np.zeros(S), S * A * (1 if stationary else H)
    for h in reversed(range(H)):
        inverse, total = np.eye(d), np.zeros(d)
        for b in range(40):
            for k in range(H) if stationary else [h]:
                x = phi[states[b, k], actions[b, k]]
                y = inverse @ x
                inverse -= np.outer(y, y) / (1 + x @ y)  # Sherman and Morrison
                total += x * V[states[b, k + 1]]
        Q = np.zeros((S, A))
        for s, a in np.ndindex(S, A):
            x = phi[s, a]
            q = x @ inverse @ x
            n = x @ x / q - 1 if q else 0.0
            beta = math.log(2 * laws / delta) + (S - 1) * math.log(math.e * (1 + n / (S - 1)))
            u = scale * (H - 1 - h) * (math.sqrt(beta / 2) + 1) * math.sqrt(q)
            Q[s, a] = min(H - h, x @ inverse @ total + (1 + 1 / H) * u)
        np.testing.assert_allclose(explorer.index[h], Q, rtol=1e-9, atol=1e-12)
        chosen = Q[np.arange(S), explorer.ask()[h]]
        np.testing.assert_allclose(chosen, Q.max(axis=1), atol=1e-6)
        V = Q.max(axis=1)
    assert explorer.pays().shape == (H, S, A)


def test_where_nothing_is_known_in_a_direction_it_goes():
    """Two states share a feature: to have seen one is to have seen the other. A feature of its own is still worth everything."""
    setting = ar.Setting(n_states=3, n_actions=1, horizon=2, initial_state=0)
    explorer = LinearFeatures(setting, features=[[[1, 0]], [[1, 0]], [[0, 1]]], scale=0.01)
    assert (explorer.index == [[[2]] * 3, [[1]] * 3]).all()
    explorer.tell([0, 0, 0], [0, 0])
    assert explorer.index[0, 1] == explorer.index[0, 0] < 2
    assert explorer.index[0, 2] == 2


def test_features_in_explore():
    mdp, phi = ar.envs.double_chain(5), np.random.default_rng(0).normal(size=(5, 2, 2))
    atlas = ar.explore(mdp, 4, max_episodes=200, algorithm="rf-linear", features=phi, scale=0.1, seed=1, progress=False)
    assert atlas.source["own"] == {"epsilon": None, "met": False, "guarantee": "heuristic, no guarantee"}
    assert atlas.certificate.check(atlas.counts)
    made = make_explorer("rf-linear", mdp.setting(4), {"features": phi, "seed": 2})
    half, _ = (advanced(made, mdp, n, np.random.default_rng(n)).state() for n in (50, 60))
    again = make_explorer("rf-linear", mdp.setting(4), {"features": phi, "seed": 2})
    again.restore(half)
    assert advanced(again, mdp, 60, np.random.default_rng(60)).counts == made.counts
    assert isinstance(made, LinearFeatures)
    assert made.own_epsilon is None
    assert type(make_explorer("rf-linear", mdp.setting(4))) is RFLinear


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (np.zeros((3, 2)), r"have shape \(3, 2\): they have to have the shape \(3, 2, d\)"),
        (np.zeros((2, 2, 4)), r"have shape \(2, 2, 4\)"),
        (np.full((3, 2, 1), np.inf), r"features\[0, 0, 0\] is inf"),
        ("many", "have to be numbers"),
    ],
)
def test_bad_features_are_refused(features, said):
    with pytest.raises(ValueError, match=said):
        make_explorer("rf-linear", random_mdp(3, 2, seed=0).setting(2), {"features": features})

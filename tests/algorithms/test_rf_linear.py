"""Reward-free exploration in linear models: least squares with one-hot features, in plain NumPy."""

import math

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms.rf_linear import RFLinear

from ..helpers.explorers import counted, played
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

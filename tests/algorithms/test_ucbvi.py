"""UCB-VI against a replay of its episodes in plain loops."""

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms import UCBVI

from ..helpers import rivals as slow
from ..helpers.explorers import played


@pytest.mark.slow
@pytest.mark.parametrize("bonus", ["hoeffding", "bernstein"])
@pytest.mark.parametrize("stationary", [False, True])
def test_ucbvi_takes_the_least_index_of_all_episodes(bonus, stationary):
    """Replayed episode by episode, as the minimum with the index before is part of the algorithm."""
    P = np.array([[[[0.9, 0.1]], [[0.5, 0.5]]]] * 2)
    mdp, H, delta, episodes = ar.TabularMDP(P), 2, 0.9, 6000 if bonus == "hoeffding" else 1500
    setting = ar.Setting(n_states=2, n_actions=1, horizon=H, initial_state=0, stationary=stationary)
    r = np.array([[[0.0], [0.3]], [[0.0], [1.0]]])
    explorer = UCBVI(setting, r, budget=1, bonus=bonus, delta=delta)
    states, actions = played(mdp, setting, episodes, seed=0)
    n, visits, Q = np.zeros((H, 2, 1, 2), int), np.zeros((H + 1, 2), int), np.full((H, 2, 1), float(H))
    checks, forgetful, told = {1, 2, 17, episodes // 3, episodes // 2, *range(episodes - 60, episodes + 1)}, 0.0, 0
    for b in range(episodes):
        n[np.arange(H), states[b, :-1], actions[b], states[b, 1:]] += 1
        visits[np.arange(H + 1), states[b]] += 1
        pooled = n.sum(axis=0) if stationary else n
        Q, _ = slow.ucbvi(pooled, r, delta, H, bonus, previous_Q=Q, visits=visits)
        if b + 1 in checks:
            explorer.tell(states[told : b + 1], actions[told : b + 1])
            told = b + 1
            np.testing.assert_allclose(explorer.index, Q, rtol=1e-9)
            forgetful = max(forgetful, (slow.ucbvi(pooled, r, delta, H, bonus, visits=visits)[0] - Q).max())
    assert Q[0, 0, 0] < H - 0.1
    assert forgetful > 1e-7  # the minimum did something


@pytest.mark.parametrize("stationary", [False, True])
def test_ucbvi_counts_visits_of_states_by_step(stationary):
    """Bernstein's last term falls once 100^2 H^3 S^2 A L^2 / N' is below H^2: in the least problem, from 26,000 visits on."""
    setting = ar.Setting(n_states=1, n_actions=1, horizon=1, initial_state=0, stationary=stationary)
    explorer, N, delta = UCBVI(setting, [0.0], budget=1, delta=0.99), 60_000, 0.99
    explorer.tell(np.zeros((N, 2), int), np.zeros((N, 1), int))
    n = np.full((1, 1, 1) if stationary else (1, 1, 1, 1), N)
    Q, _ = slow.ucbvi(n, np.zeros((1, 1, 1)), delta, 1, "bernstein", visits=np.full((2, 1), N))
    with_most, _ = slow.ucbvi(n, np.zeros((1, 1, 1)), delta, 1, "bernstein", visits=np.zeros((2, 1)))
    assert explorer.index[0, 0, 0] == pytest.approx(Q[0, 0, 0], rel=1e-9)
    assert Q[0, 0, 0] < 0.95 * with_most[0, 0, 0]

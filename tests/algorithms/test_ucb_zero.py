"""UCBZero against a replay of its updates in plain loops, and its numbers."""

import math

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms.ucb_zero import UCBZero

from ..helpers.explorers import advanced, played
from ..helpers.problems import random_mdp


def replayed(episodes, H, S, A, iota, scale):
    W, t = np.zeros((H, S, A)) + (H - np.arange(H))[:, None, None], np.zeros((H, S, A), int)
    for states, actions in episodes:
        for h in range(H):
            i = (h, states[h], actions[h])
            t[i] += 1
            alpha = (H + 1) / (H + t[i])
            ahead = min(H - 1 - h, W[h + 1, states[h + 1]].max()) if h + 1 < H else 0.0
            b = scale * (H - 1 - h) * math.sqrt(H * iota / t[i])
            W[i] += alpha * (ahead + 2 * b - W[i])
    return W


@pytest.mark.parametrize("stationary", [False, True])
def test_it_replays_in_the_order_of_the_episodes(stationary):
    mdp, H, K, delta = random_mdp(3, 2, seed=2), 3, 2000, 0.3
    explorer = UCBZero(mdp.setting(H, stationary=stationary), budget=K, tasks=5, delta=delta, scale=0.02)
    (states, actions), before = played(mdp, explorer.setting, K, seed=5), 0
    iota = math.log(2 * 3 * 2 * H * K * 5 / delta)
    for upto in (1, 2, 30, K):
        explorer.tell(states[before:upto], actions[before:upto])
        W, before = replayed(zip(states[:upto], actions[:upto], strict=True), H, 3, 2, iota, 0.02), upto
        np.testing.assert_allclose(explorer.index, W, rtol=1e-9, atol=1e-12)
    assert W[0, 0].max() < H / 2


def test_its_numbers():
    """iota = 1, one pair, two steps: W = 2 sqrt 2 + 1, and so on; the last step is worth nothing after its first visit."""
    setting, seen = ar.Setting(n_states=1, n_actions=1, horizon=2, initial_state=0), []
    explorer = UCBZero(setting, budget=1, delta=0.5)
    explorer._rule = explorer._rule._replace(iota=1.0)
    for _ in range(3):
        explorer.tell([0, 0, 0], [0, 0])
        seen.append(explorer.index[0, 0, 0])
    assert seen == pytest.approx([3.8284, 2.4571, 1.9626], abs=5e-5)
    chain = UCBZero(ar.envs.double_chain().setting(20), budget=20_000, tasks=20).formulas
    assert chain.iota == pytest.approx(23.018, abs=5e-4)
    assert 19 * math.sqrt(20 * chain.iota) == pytest.approx(407.66, abs=5e-3)


def test_with_a_small_scale_it_goes_everywhere():
    mdp = ar.envs.double_chain(9)
    explorer = advanced(UCBZero(mdp.setting(6), budget=3000, scale=0.001), mdp, 3000, np.random.default_rng(0))
    visits = explorer.counts.n()
    reached = visits.sum(axis=2) > 0
    assert reached.sum() == 1 + 2 + 3 + 4 + 5 + 6
    assert visits[:-1][reached[:-1]].min() > 100
    with pytest.raises(ValueError, match="tasks is 0"):
        UCBZero(mdp.setting(6), budget=1, tasks=0)

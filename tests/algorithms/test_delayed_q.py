"""Delayed Q-learning against a replay of its rules in plain loops, and its numbers.

It watches `docs/theory.md`, 22.7.
"""

import math

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms.delayed_q import DelayedQ

from ..helpers.explorers import advanced, loss_of, played, truth
from ..helpers.problems import random_mdp


def replayed(episodes, r, m, eps_1):
    """Q (H, S, A) after episodes of (states, actions), and how often it was lowered."""
    H, S, A = r.shape
    Q = np.zeros((H, S, A)) + (H - np.arange(H))[:, None, None]
    Q[-1] = r[-1]
    AU, length, b, learn = np.zeros((H, S, A)), np.zeros((H, S, A), int), np.zeros((H, S, A), int), np.ones((H, S, A), bool)
    now, t_star, lowered = 0, 0, 0
    for states, actions in episodes:
        for h in range(H - 1):
            i, now = (h, states[h], actions[h]), now + 1
            if b[i] <= t_star:
                learn[i] = True
            if not learn[i]:
                continue
            if length[i] == 0:
                b[i] = now
            length[i] += 1
            AU[i] += r[i] + Q[h + 1, states[h + 1]].max()
            if length[i] == m:
                if Q[i] - AU[i] / m >= 2 * eps_1:
                    Q[i], t_star, lowered = AU[i] / m + eps_1, now, lowered + 1
                elif b[i] > t_star:
                    learn[i] = False
                AU[i], length[i] = 0.0, 0
    return Q, lowered


@pytest.mark.parametrize("stationary", [False, True])
def test_it_follows_its_rules(stationary):
    mdp, H, m = random_mdp(3, 2, seed=2), 4, 6
    setting, r = mdp.setting(H, stationary=stationary), np.random.default_rng(1).random((H, 3, 2))
    explorer, before = DelayedQ(setting, r, samples=m, target=2.4), 0
    states, actions = played(mdp, setting, 3000, seed=5)
    for upto in (1, 30, 400, 3000):
        explorer.tell(states[before:upto], actions[before:upto])
        Q, lowered = replayed(zip(states[:upto], actions[:upto], strict=True), r, m, 0.1)
        before = upto
        np.testing.assert_allclose(explorer.index, Q, rtol=1e-12)
    assert lowered > 3 * Q.size / 2
    assert explorer.formulas.idle.any()
    assert explorer.heuristic


@pytest.mark.parametrize("stationary", [False, True])
def test_the_compiled_run_follows_them_too(stationary):
    mdp, H, rng = random_mdp(4, 3, seed=8), 4, np.random.default_rng(1)
    r = rng.random((H, 4, 3))
    one, two = (DelayedQ(mdp.setting(H, stationary=stationary), r, samples=4, target=4.0, seed=3) for _ in range(2))
    advanced(one, mdp, 700, np.random.default_rng(2))
    again = np.random.default_rng(2)
    for _ in range(700):
        two.tell(*mdp.rollout(two.ask(), seed=again))
    assert one.counts == two.counts
    np.testing.assert_array_equal(one.index, two.index)
    played_last = one.ask()[-1]
    assert (np.take_along_axis(r[-1], played_last[:, None], axis=1)[:, 0] == r[-1].max(axis=1)).all()


def test_a_state_that_pays_nothing():
    """S = A = 1, H = 3, m = 5, eps_1 = 0.1: the second step is lowered to 0.1 and the first one with it, to 2.1 and then 0.2."""
    setting = ar.Setting(n_states=1, n_actions=1, horizon=3, initial_state=0)
    explorer, seen = DelayedQ(setting, [0.0], samples=5, target=1.8), []
    for _ in range(4):
        explorer.tell(np.zeros((5, 4), int), np.zeros((5, 3), int))
        seen.append(explorer.index[:, 0, 0].round(9).tolist())
    assert seen == [[2.1, 0.1, 0.0], [0.2, 0.1, 0.0], [0.2, 0.1, 0.0], [0.2, 0.1, 0.0]]
    assert explorer.formulas.idle[0][1:3].all()


def test_its_numbers():
    chain = ar.envs.double_chain()
    explorer = DelayedQ(chain.setting(20), chain.reward, target=2.0)
    assert explorer.samples == 16_007_448
    assert explorer.mistake_bound(2.0) == pytest.approx(1.81e15, rel=1e-3)
    assert explorer.mistake_bound(1.9) == math.inf
    assert explorer.mistake_bound(3.0) == pytest.approx(explorer.mistake_bound(2.0) / 2, rel=1e-12)
    assert DelayedQ(chain.setting(20), chain.reward, samples=5).mistake_bound(2.0) is None


def test_it_finds_what_pays():
    mdp = ar.envs.deep_sea(4)
    explorer = DelayedQ(mdp.setting(4), mdp.reward, samples=1, target=0.24, seed=1)
    advanced(explorer, mdp, 2000, np.random.default_rng(0))
    assert loss_of(mdp, mdp.reward, explorer.ask(), explorer.setting) == pytest.approx(0.0, abs=1e-9)
    assert (explorer.index >= truth(mdp, mdp.reward, explorer.setting).Q - 1e-9).all()  # nothing is random here


def test_what_is_refused():
    setting = ar.Setting(n_states=2, n_actions=1, horizon=2, initial_state=0)
    for bad in ({"samples": 0}, {"target": 0.0}, {"scale": 2.0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            DelayedQ(setting, [0, 1], **bad)

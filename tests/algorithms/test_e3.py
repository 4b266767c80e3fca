"""E3 against its formulas in plain loops, its lemma on models that are known, and its numbers.

It watches `docs/theory.md`, 22.3 and 22.8.
"""

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms.e3 import E3

from ..helpers.explorers import advanced, counted, counts_of, loss_of, played
from ..helpers.problems import by_step, random_mdp


def slow_index(n, H, m):
    """For each (h, s): the probability of meeting a state that is not known, and which actions are played."""
    S, A = n.shape[-3:-1]
    E, plays = np.zeros((H + 1, S)), np.ones((H, S, A), bool)
    for h in reversed(range(H - 1)):
        for s in range(S):
            seen = n[h, s] if n.ndim == 4 else n[s]
            visits = seen.sum(axis=1)
            if visits.min() < m:
                E[h, s], plays[h, s] = 1.0, visits == visits.min()
            else:
                Q = seen / visits[:, None] @ E[h + 1]
                E[h, s], plays[h, s] = Q.max(), np.isclose(Q, Q.max(), rtol=0, atol=1e-12)
    return E, plays


@pytest.mark.parametrize("stationary", [False, True])
def test_it_escapes_or_wanders(stationary):
    mdp, H, m = random_mdp(4, 2, seed=4), 4, 9
    setting = mdp.setting(H, stationary=stationary)
    explorer, before = E3(setting, samples=m, seed=5), 0
    states, actions = played(mdp, setting, 300, seed=2)
    for upto in (0, 1, 20, 100, 200, 300):
        explorer.tell(states[before:upto], actions[before:upto])
        n, before = counted(states[:upto], actions[:upto], setting), upto
        E, plays = slow_index(n, H, m)
        np.testing.assert_allclose(explorer.index.max(axis=2), E[:-1], atol=1e-12)
        assert np.take_along_axis(plays, explorer.ask()[..., None], axis=2).all()


@pytest.mark.parametrize("stationary", [False, True])
def test_every_plan_is_as_good_as_it_says_with_the_largest_error_as_alpha(stationary):
    """4 eps_1 + 2 H E_0 for plans for random rewards, on the empirical model; in the end it says something."""
    H, S, A, informative = 4, 3, 2, 0
    for seed in range(15):
        mdp, rng = random_mdp(S, A, seed=seed), np.random.default_rng(seed)
        setting, P = mdp.setting(H, stationary=stationary), by_step(mdp, H)
        explorer = E3(setting, samples=150, seed=seed)
        for episodes in (100, 200, 400, 800, 1600, 3000):
            advanced(explorer, mdp, episodes, rng)
            n = np.broadcast_to(counts_of(explorer), (H, S, A, S))
            visits = n.sum(axis=-1)
            known = (visits.min(axis=-1) >= 150)[:-1]
            error = np.abs(n / np.maximum(1, visits)[..., None] - P).sum(axis=-1)[:-1][known].max(initial=0.0)
            E = explorer.index[0, 0].max()
            own, model = error * H * (H - 1) + 2 * H * E, explorer.counts.model()
            for _ in range(5):
                r = rng.random((H, S, A)) < 0.5
                plan = ar.backward_induction(model, r.astype(float), H).policy
                assert loss_of(mdp, r.astype(float), plan, setting) <= own + 1e-9
        informative += own < H / 2
    assert informative > 8


def test_its_numbers():
    chain = ar.envs.double_chain()
    assert E3(chain.setting(20), target=2.0).samples == 9_113_046
    setting = ar.Setting(n_states=2, n_actions=1, horizon=2, initial_state=0)
    small = E3(setting, target=0.5)
    assert small.samples == 650
    small.tell(np.zeros((649, 3), int), np.zeros((649, 2), int))
    assert small.own_epsilon == pytest.approx(2.0)
    small.tell([0, 0, 0], [0, 0])
    assert small.own_epsilon == pytest.approx(4 * small.eps_1)
    assert 0.24 < small.own_epsilon <= 0.25
    by_name = ar.explore(ar.TabularMDP(np.full((2, 1, 2), 0.5)), 2, 0.5, algorithm="e3", stop="own", max_episodes=5000)
    assert 650 <= by_name.episodes <= 1.03 * 650
    assert by_name.source["own"]["met"]


@pytest.mark.parametrize("bad", [{"samples": 0}, {"target": -1.0}, {"scale": 0.5}])
def test_what_is_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        E3(ar.Setting(n_states=2, n_actions=1, horizon=2, initial_state=0), **bad)

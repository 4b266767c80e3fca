"""Log-coverage against its formulas in plain loops, and the quality of designs."""

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms.log_coverage import LogCoverage, design_of

from ..helpers.explorers import advanced, counts_of, played
from ..helpers.problems import random_mdp


@pytest.mark.parametrize("stationary", [False, True])
def test_the_index_is_that_of_the_formulas(stationary):
    """t / (n + xi t) with xi = 1/(t H): up to the factor t, which changes no policy."""
    mdp, H, S, A, rng = random_mdp(4, 2, seed=8), 4, 4, 2, np.random.default_rng(1)
    explorer = LogCoverage(mdp.setting(H, stationary=stationary))
    for episodes in (1, 9, 300):
        advanced(explorer, mdp, episodes, rng)
        n, t, V = counts_of(explorer), explorer.episodes, np.zeros(S)
        for h in reversed(range(H)):
            Q, cap = np.full((S, A), (H - h) / (1 / (t * H))), (H - h) * t * H
            for s, a in np.ndindex(S, A):
                seen = n[s, a] if stationary else n[h, s, a]
                if seen.sum():
                    Q[s, a] = min(cap, 1 / (seen.sum() / t + 1 / (t * H)) + seen @ V / seen.sum())
            np.testing.assert_allclose(explorer.index[h] * t, Q, rtol=1e-9)
            V = Q.max(axis=1)


def best_ratio(P, n, t):
    """max over all deterministic policies of sum d^pi / (n / t), by enumeration."""
    H, S, A = n.shape
    best = 0.0
    for code in np.ndindex(*[A] * (H * S)):
        policy, mass, total = np.reshape(code, (H, S)), np.eye(S)[0], 0.0
        for h in range(H):
            for s in np.flatnonzero(mass):
                total += mass[s] * t / n[h, s, policy[h, s]] if n[h, s, policy[h, s]] else 0.0
            mass = sum(mass[s] * P[h, s, policy[h, s]] for s in range(S))
        best = max(best, total)
    return best


def test_the_value_of_a_design_is_that_of_the_best_policy():
    mdp, H, S, A = random_mdp(2, 2, seed=3), 3, 2, 2
    setting = mdp.setting(H)
    states, actions = played(mdp, setting, 50, seed=1)
    counts = ar.Counts.from_episodes(states, actions, setting)
    n = np.zeros((H, S, A, S))
    np.add.at(n, (np.arange(H), states[:, :-1], actions, states[:, 1:]), 1)
    visits = n.sum(axis=-1)
    design = design_of(counts)
    assert design.optimum == np.count_nonzero(visits.sum(axis=2)) * A == 2 + 4 + 4
    p_hat = n / np.maximum(1, visits)[..., None]
    assert design.value == pytest.approx(best_ratio(p_hat, visits, 50), rel=1e-9)
    assert design.excess == pytest.approx(design.value / 10 - 1)
    assert design.excess > 0


def test_the_best_design_has_no_excess_and_it_is_approached():
    """Deterministic, every pair reached alike: the least value is the number of pairs. On the chain it comes near."""
    P = np.zeros((3, 3, 3))
    P[:, [0, 1, 2], [0, 1, 2]] = 1
    mdp = ar.TabularMDP(P)
    explorer = advanced(LogCoverage(mdp.setting(2)), mdp, 9, np.random.default_rng(0))
    assert explorer.design.optimum == 3 + 9
    assert explorer.design.value == pytest.approx(12)
    chain, excess = ar.envs.double_chain(9), []
    explorer, rng = LogCoverage(chain.setting(6)), np.random.default_rng(0)
    for episodes in (100, 900, 9000):
        excess.append(advanced(explorer, chain, episodes, rng).design.excess)
    random = advanced(ar.ALGORITHMS["random"](chain.setting(6)), chain, 10_000, rng)
    assert excess[-1] < 0.005
    assert 10 * excess[-1] < excess[0]
    assert design_of(random.counts).excess > 100 * excess[-1]
    assert explorer.facts == {"excess": pytest.approx(excess[-1]), "pairs": 42}


def test_what_has_no_design():
    mdp = random_mdp(3, 2, seed=0)
    assert LogCoverage(mdp.setting(2)).design is None
    assert advanced(LogCoverage(mdp.setting(2, stationary=True)), mdp, 5, np.random.default_rng(0)).facts == {}
    once = advanced(LogCoverage(mdp.setting(2)), mdp, 1, np.random.default_rng(0))
    assert once.design.excess == np.inf
    assert once.facts["excess"] is None
    with pytest.raises(ValueError, match="scale"):
        LogCoverage(mdp.setting(2), scale=0.1)

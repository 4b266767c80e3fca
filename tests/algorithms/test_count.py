"""Count-based exploration against its formulas in plain loops."""

import math

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms.count import Count

from ..helpers.explorers import advanced, counts_of
from ..helpers.problems import random_mdp

GAIN = {"root": lambda n, t: 1 / math.sqrt(n), "inverse": lambda n, t: 1 / n, "log": lambda n, t: math.log(t / n)}


def slow_index(n, H, gain):
    S, A = n.shape[-3:-1]
    Q, V = np.zeros((H, S, A)), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s, a in np.ndindex(S, A):
            seen = n[h, s, a] if n.ndim == 4 else n[s, a]
            blank = (H - h) * gain(0.1)
            Q[h, s, a] = min(blank, gain(seen.sum()) + seen @ V[h + 1] / seen.sum()) if seen.sum() else blank
        V[h] = Q[h].max(axis=1)
    return Q


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("bonus", GAIN)
def test_the_index_is_that_of_the_formulas(bonus, stationary):
    """For log, up to log(2^53 / t) for each step that is left, which changes no policy."""
    mdp, H, rng = random_mdp(4, 2, seed=8), 4, np.random.default_rng(1)
    explorer = Count(mdp.setting(H, stationary=stationary), bonus=bonus)
    for episodes in (1, 9, 300):
        advanced(explorer, mdp, episodes, rng)
        t = explorer.episodes
        right = slow_index(counts_of(explorer), H, lambda n, t=t: GAIN[bonus](n, t))
        more = math.log(2**53 / t) * (H - np.arange(H))[:, None, None] if bonus == "log" else 0.0
        np.testing.assert_allclose(explorer.index, right + more, rtol=1e-9)
        chosen = np.take_along_axis(right, explorer.ask()[..., None], axis=2)[..., 0]
        np.testing.assert_allclose(chosen, right.max(axis=2), atol=1e-12)


def test_it_evens_out_visits():
    """Where every pair can be chosen, none is visited more than once above another."""
    P = np.zeros((3, 3, 3))
    P[:, [0, 1, 2], [0, 1, 2]] = 1
    for bonus in GAIN:
        explorer = advanced(Count(ar.TabularMDP(P).setting(2), bonus=bonus), ar.TabularMDP(P), 90, np.random.default_rng(0))
        first, second = explorer.counts.n()
        assert np.ptp(first[0]) <= 1
        assert np.ptp(second) <= 2


@pytest.mark.parametrize("bad", [{"bonus": "square"}, {"scale": 0.5}])
def test_what_is_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Count(ar.Setting(n_states=2, n_actions=1, horizon=2, initial_state=0), **bad)

"""MBIE: its radius, its values against L1 balls in plain loops, and its numbers on the chain.

It watches `docs/theory.md`, 22.5.
"""

import math

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms.mbie import MBIE

from ..helpers.explorers import both_sides, counted, played
from ..helpers.problems import random_mdp
from ..helpers.rivals.ucrl import l1_largest


@pytest.mark.parametrize("stationary", [False, True])
def test_its_values_are_those_of_l1_balls(stationary):
    """At the end of a phase; the radius stops to shrink at m samples."""
    mdp, H, S, A, delta, target = random_mdp(3, 2, seed=6), 3, 3, 2, 0.3, 4.0
    setting, r = mdp.setting(H, stationary=stationary), np.random.default_rng(2).random((H, S, A))
    explorer = MBIE(setting, r, delta=delta, target=target)
    N, m = S * A * (1 if stationary else H - 1), explorer.samples
    states, actions = played(mdp, setting, 120, seed=3)
    phase = 0
    for b in range(len(states)):  # the phase under way begins when a count has doubled, or is new
        n = counted(states[: b + 1], actions[: b + 1], setting).sum(axis=-1)
        started = counted(states[:phase], actions[:phase], setting).sum(axis=-1)
        if ((n >= 2 * np.maximum(1, started)) & (n > started)).any():
            phase = b + 1
    explorer.tell(states, actions)
    n = counted(states[:phase], actions[:phase], setting)
    assert n.sum(axis=-1).max() > m > n.sum(axis=-1)[n.sum(axis=-1) > 0].min(), m
    up, V, V_lo = np.full((H, S, A), np.nan), np.zeros(S), np.zeros(S)
    lo = up.copy()
    for h in reversed(range(H)):
        for s, a in np.ndindex(S, A):
            seen = n[s, a] if stationary else n[h, s, a]
            p_hat, d = np.full(S, 1 / S), 2.0
            if seen.sum():
                p_hat = seen / seen.sum()
                d = math.sqrt(2 * (S * math.log(2) + math.log(2 * N * m / delta)) / min(m, seen.sum()))
            up[h, s, a] = r[h, s, a] + l1_largest(p_hat, V, d)
            lo[h, s, a] = r[h, s, a] - l1_largest(p_hat, -V_lo, d)
        V, V_lo = up[h].max(axis=1), lo[h].max(axis=1)
    found, met = both_sides(explorer), ~np.isnan(both_sides(explorer)[0])
    assert met.sum() > 12
    np.testing.assert_allclose(found[0][met], up[met], rtol=1e-9)
    np.testing.assert_allclose(found[1][met], lo[met], rtol=1e-9, atol=1e-12)


def test_its_numbers():
    chain = ar.envs.double_chain()
    explorer = MBIE(chain.setting(20), chain.reward, target=2.0)
    assert explorer.samples == 3_363_315
    assert explorer.formulas.radius(100.0, 0.0) == pytest.approx(0.96523, abs=5e-6)
    assert explorer.formulas.radius(1e9, 5.0) == explorer.formulas.radius(3_363_315.0, 0.0) <= 2 / 380
    assert explorer.mistake_bound(2.0) == pytest.approx(2 * 1.585e11, rel=1e-3)
    assert explorer.mistake_bound(4.0) == pytest.approx(explorer.mistake_bound(2.0) / 8, rel=1e-3)
    assert explorer.mistake_bound(1.9) == math.inf
    assert MBIE(chain.setting(20), chain.reward, scale=0.1).mistake_bound(2.0) is None

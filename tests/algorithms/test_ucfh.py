"""UCFH: its intervals, its values by linear programs, its numbers, and what it claims.

It watches `docs/theory.md`, 22.9.
"""

import math

import numpy as np
import pytest
from scipy.optimize import brentq, linprog

import anyreward as ar
from anyreward.algorithms.ucfh import UCFH, published
from anyreward.kernels.ball import between

from ..helpers.bpi_reference import kl
from ..helpers.explorers import both_sides, counted, loss_of, played
from ..helpers.problems import random_mdp


def interval(q, n, level):
    """The three intervals for one probability, in plain Python."""
    if n <= 1:
        return 0.0, 1.0
    d = min(math.sqrt(level / (2 * n)), math.sqrt(2 * q * (1 - q) * level / n) + 7 * level / (3 * (n - 1)))
    low, high, s, c = max(0.0, q - d), min(1.0, q + d), math.sqrt(q * (1 - q)), math.sqrt(2 * level / (n - 1))
    if s > c:
        half = math.sqrt(0.25 - (s - c) ** 2)
        low, high = max(low, 0.5 - half), min(high, 0.5 + half)
    return low, high


def largest(seen, V, level, most):
    """max p.V by a linear program: the intervals of what was seen, and one outcome, as good as any, for all that was not."""
    n, at = seen.sum(), np.flatnonzero(seen)
    if n == 0:
        return V.max()
    ends = [interval(seen[k] / n, n, level) for k in at]
    unseen = most - len(at)
    found = linprog(
        -np.append(V[at], V.max()), A_eq=np.ones((1, len(at) + 1)), b_eq=[1],
        bounds=[*ends, (0, unseen * interval(0.0, n, level)[1])],
    )  # fmt: skip
    assert found.status == 0
    return -found.fun


@pytest.mark.parametrize(("stationary", "most"), [(False, None), (True, None), (True, 2)])
def test_its_values_are_those_of_the_intervals(stationary, most):
    """At the end of a phase, which ends once a count has doubled."""
    H, S, A, delta = 3, 3, 2, 0.9
    mdp = random_mdp(S, A, seed=6)
    if most == 2:
        P = np.zeros((S, A, S))
        for s, a in np.ndindex(S, A):
            P[s, a, s], P[s, a, (s + 1 + a) % S] = 0.7 - 0.3 * a, 0.3 + 0.3 * a
        mdp = ar.TabularMDP(P, initial=0)
    setting, r = mdp.setting(H, stationary=stationary), np.random.default_rng(2).random((H, S, A))
    explorer = UCFH(setting, r, delta=delta, **({} if most is None else {"max_successors": most}))
    C, N = most or S, S * A * (1 if stationary else H - 1)
    states, actions = played(mdp, setting, 400, seed=3)
    phase = 0
    for b in range(len(states)):
        n = counted(states[: b + 1], actions[: b + 1], setting).sum(axis=-1)
        started = counted(states[:phase], actions[:phase], setting).sum(axis=-1)
        if ((n >= 2 * np.maximum(1, started)) & (n > started)).any():
            phase = b + 1
    explorer.tell(states, actions)
    n = counted(states[:phase], actions[:phase], setting)
    up, V, V_lo = np.full((H, S, A), np.nan), np.zeros(S), np.zeros(S)
    lo = up.copy()
    for h in reversed(range(H)):
        for s, a in np.ndindex(S, A):
            seen = n[s, a] if stationary else n[h, s, a]
            level = math.log(4 * N * C * max(1, seen.sum()) * (seen.sum() + 1) / delta)
            up[h, s, a] = r[h, s, a] + (largest(seen, V, level, C) if h < H - 1 else 0)
            lo[h, s, a] = r[h, s, a] - (largest(seen, -V_lo, level, C) if h < H - 1 else 0)
        V, V_lo = up[h].max(axis=1), lo[h].max(axis=1)
    found = both_sides(explorer)
    met = ~np.isnan(found[0])
    assert met.sum() > 12
    np.testing.assert_allclose(found[0][met], up[met], rtol=1e-9)
    np.testing.assert_allclose(found[1][met], lo[met], rtol=1e-9, atol=1e-12)
    assert explorer.own_epsilon == pytest.approx(V[0] - V_lo[0], abs=1e-9)
    assert explorer.own_epsilon < (H - 0.3 if most is None else H - 0.9)
    assert loss_of(mdp, r, explorer.recommendation, setting) <= explorer.own_epsilon


def test_its_numbers():
    chain = ar.envs.double_chain()
    found = published(chain.setting(20, stationary=True), 2.0, 0.1, successors=2)
    assert found.level == pytest.approx(12.5809, abs=5e-5)
    assert found.samples == pytest.approx(2.43e9, rel=2e-3)
    assert found.first == pytest.approx(1.96e6, rel=2e-3)
    assert published(chain.setting(20), 2.0, 0.1, successors=2).level == pytest.approx(found.level + math.log(20), abs=1e-9)
    for n, ends in ((1e3, (0.02303, 0.17697)), (1e4, (0.08202, 0.11798))):
        assert between(0.1, n, 12.5809) == pytest.approx(ends, abs=5e-6)
    assert between(0.1, 1.0, 12.5809) == (0.0, 1.0)
    assert between(0.1, 1.0, 0.0) == (0.1, 0.1)
    with pytest.raises(ValueError, match="horizon is 2"):
        published(chain.setting(2), 2.0, 0.1)


@pytest.mark.parametrize("level", [0.5, 3.0, 12.0])
def test_the_intervals_follow_from_one_divergence(level):
    """Whatever n kl(q, p) <= level allows lies in all of them: one event for Hoeffding, Bernstein and the variance."""
    tight = 0
    for n in (2, 3, 10, 100, 5000):
        for k in sorted({0, 1, 2, n // 10, n // 3, n // 2, n - 1, n}):
            q = k / n
            low, high = between(q, float(n), level)
            assert (low, high) == pytest.approx(interval(q, n, level), abs=1e-12)
            ends = [0.0, 1.0]
            for side, end in enumerate((1e-12, 1 - 1e-12)):
                if (q > end) if side == 0 else (q < end):
                    inside = min(max(q, 1e-13), 1 - 1e-13)
                    if n * kl(q, end) > level:
                        ends[side] = brentq(lambda p, q=q, n=n: n * kl(q, p) - level, inside, end, xtol=1e-14)
                else:
                    ends[side] = q
            assert low <= ends[0] + 1e-9
            assert high >= ends[1] - 1e-9
            tight += high - low < 1.7 * (ends[1] - ends[0])
    assert tight > 5


def test_an_impossible_box_is_no_crash():
    """Lower ends above one in sum, or upper ends below: the event has failed, and a number comes out."""
    from anyreward.kernels.ball import gap_box

    seen, g = np.array([50.0, 50.0]), np.array([0.0, 1.0])
    assert gap_box(seen, 0, 2, 100.0, g.copy(), 0.0, 0.0) == 0.5
    assert gap_box(np.array([80.0, 80.0]), 0, 2, 100.0, g.copy(), 1e-9, 0.0) == pytest.approx(0.5)
    assert gap_box(np.array([20.0, 20.0]), 0, 2, 100.0, g.copy(), 1e-9, 0.0) == pytest.approx(0.2, abs=1e-4)


def test_few_mistakes():
    chain = ar.envs.double_chain()
    setting = chain.setting(20, stationary=True)
    explorer = UCFH(setting, chain.reward, max_successors=2)
    N, C, delta = 62, 2, 0.1

    def enough(n, epsilon):
        level = math.log(4 * N * C * n * (n + 1) / delta)
        return C * math.sqrt(2 * level / n) * 20 * 19 / 4 <= epsilon / 2

    for epsilon in (1.0, 2.0):
        m = 2**10
        while not enough(m, epsilon):
            m += 1 + m // 10_000
        right = 4 * 20 / epsilon * (N * 2 * m + math.log(2 / delta))
        assert explorer.mistake_bound(epsilon) == pytest.approx(right, rel=3e-4)
    rare = UCFH(setting, chain.reward, max_successors=2, least=10**9)
    assert rare.mistake_bound(2.0) == pytest.approx(40 * (N * (10**9 + m / 4)), rel=0.03)
    assert UCFH(setting, chain.reward, scale=0.5).mistake_bound(1.0) is None
    with pytest.raises(ValueError, match="least is 0"):
        UCFH(setting, chain.reward, least=0)


def test_a_plan_is_made_only_when_enough_is_new():
    mdp = random_mdp(3, 2, seed=1)
    explorer = UCFH(mdp.setting(3), mdp.reward, least=50, ties="first")
    states, actions = played(mdp, explorer.setting, 800, seed=1)
    before, changes = explorer.own_epsilon, []
    for b in range(800):
        explorer.tell(states[b], actions[b])
        if explorer.own_epsilon != before:
            before = explorer.own_epsilon
            changes.append(b)
    assert changes[0] >= 49
    assert 2 < len(changes) < 40
    assert before < 3

"""The thresholds, and the event that everything rests on.

It watches `docs/theory.md`, 2.1.
"""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from scipy.stats import binom

import anyreward as ar
from anyreward import kernels
from anyreward.certificates.thresholds import paper_beta, paper_rule

from ..helpers import reference
from ..helpers.problems import deltas, random_mdp, settings

CHAIN = ar.Setting(n_states=31, n_actions=2, horizon=20, initial_state=15)


@njit  # as the kernels call it; not cached on disk, as Numba would not notice a change in what it calls
def radius_of(constants, n):
    return kernels.rf.radius_of(constants, n)


def radius(n, rule):
    return radius_of(rule.radius, float(n))


@pytest.mark.parametrize(("n", "value"), [(0, 40.1186), (1, 41.1023), (100, 84.1087), (10**4, 214.4828), (10**6, 352.5489)])
def test_beta_on_the_chain(n, value):
    """log(2 * 31 * 2 * 20 / 0.1) + 30 log(e (1 + n/30)), worked out by hand."""
    assert paper_beta(n, CHAIN, 0.1) == pytest.approx(value, abs=5e-5)


@pytest.mark.slow
@given(settings(), deltas, st.integers(0, 10**15))
def test_beta_is_the_formula(setting, delta, n):
    expected = reference.beta(n, setting, delta)
    assert paper_beta(n, setting, delta) == pytest.approx(expected, rel=1e-12)
    assert radius(n, paper_rule(setting, delta)) == pytest.approx(math.sqrt(2 * expected / max(1, n)), rel=1e-12)


def test_one_state_has_nothing_to_mix():
    setting = ar.Setting(n_states=1, n_actions=3, horizon=4, initial_state=0)
    np.testing.assert_allclose(paper_beta([0, 1, 10**9], setting, 0.2), math.log(2 * 12 / 0.2), rtol=1e-15)


@given(settings(), deltas)
def test_radii_shrink_with_visits_and_exceed_every_distance_without(setting, delta):
    rule = paper_rule(setting, delta)
    radii = [radius(n, rule) for n in (0, 1, 2, 3, 10, 1000, 10**6)]
    assert radii[0] >= 1  # the bonus of an unvisited pair covers the trivial bound
    assert all(later < earlier for earlier, later in pairwise(radii[1:]))


@pytest.mark.slow
@given(settings(), deltas)
def test_what_an_error_can_cost(setting, delta):
    """gamma sigma_{H-1-h} at step h, nothing at the last; the whole sigma_H, undiscounted, for a start that is estimated."""
    H, gamma = setting.horizon, setting.discount
    rule = paper_rule(setting, delta)
    expected = [gamma * sum(gamma**i for i in range(H - 1 - h)) for h in range(H)]
    np.testing.assert_allclose(rule.weight, expected, rtol=1e-12)
    assert rule.weight[-1] == 0
    np.testing.assert_array_equal(rule.cap, rule.weight)
    assert np.isinf(paper_rule(setting, delta, clip=False).cap).all()
    random_start = setting.estimates_start
    assert rule.start_weight == pytest.approx(sum(gamma**i for i in range(H)) if random_start else 0, rel=1e-12)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.5, 2.0, float("nan")])
def test_delta_has_to_be_a_probability(delta):
    for function in (lambda: paper_beta(1, CHAIN, delta), lambda: paper_rule(CHAIN, delta)):
        with pytest.raises(ValueError, match="delta is"):
            function()


def first_failures(setting, mdp, states, actions, delta):
    """Whether n KL(p_hat, p) > beta(n) at any episode, for any law, in one run."""
    S, A, H = setting.n_states, setting.n_actions, setting.horizon
    B, steps = len(states), np.arange(H)
    seen = np.zeros((B, H, S, A, S))
    seen[np.arange(B)[:, None], steps, states[:, :-1], actions, states[:, 1:]] = 1
    seen = seen.cumsum(axis=0)
    P = np.broadcast_to(mdp.dense(), (H, S, A, S)) if mdp.n_steps is None else mdp.dense()
    if setting.stationary:
        seen, P = seen.sum(axis=1), mdp.dense()
    laws = [(seen, P)]
    if setting.estimates_start:
        laws.append((np.eye(S)[states[:, 0]].cumsum(axis=0), mdp.initial))
    for n_next, p in laws:
        n = n_next.sum(axis=-1)
        excess = n * reference.kl(n_next / np.maximum(n, 1)[..., None], p) - paper_beta(n, setting, delta)
        if (excess[n > 0] > 0).any():
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["step-dependent", "stationary", "random start"])
def test_the_event_holds_at_every_episode(kind):
    """150 explorations of 100 episodes: the share with a failure at any episode of any law is at most delta/2 = 1/4.

    With a failure probability of 1/4, more failures than the quantile below come up in fewer than 1 of 10^6 seeds.
    (Without the term in S - 1, the threshold of a fixed time and not of all times, more than half of the runs fail.)
    """
    delta, runs, S, A, H = 0.5, 150, 3, 2, 3
    rng = np.random.default_rng(0)
    failures = 0
    for run in range(runs):
        mdp = random_mdp(S, A, seed=run, H=None if kind == "stationary" else H, random_start=kind == "random start")
        setting = mdp.setting(H, stationary=kind == "stationary")
        explorer = ar.RFUCRL(setting, delta=delta, bounds="paper", replan="path", seed=run)
        episodes = []
        for _ in range(100):
            episodes.append(mdp.rollout(explorer.ask(), seed=rng))
            explorer.tell(*episodes[-1])
        states, actions = (np.concatenate(part) for part in zip(*episodes, strict=True))
        failures += first_failures(setting, mdp, states, actions, delta)
    assert failures <= binom.isf(1e-6, runs, delta / 2)


def test_a_law_that_is_wrong_breaks_the_event():
    """The check above can fail: against a model that is not the one that was played, the event does not hold."""
    mdp, other = random_mdp(2, 2, seed=0), random_mdp(2, 2, seed=1)
    setting = mdp.setting(2)
    states, actions = mdp.rollout(np.zeros((2, 2), int), episodes=2_000)
    assert not first_failures(setting, mdp, states, actions, 0.5)
    assert first_failures(setting, other, states, actions, 0.5)

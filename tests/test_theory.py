"""The paper's formulas against its numbers, against each other and against what was measured."""

from math import e, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

import anyreward as ar
from anyreward import theory
from anyreward.confidence import paper_beta

CHAIN = ar.Setting(n_states=31, n_actions=2, horizon=20, initial_state=15)
POOLED = ar.Setting(n_states=31, n_actions=2, horizon=20, initial_state=15, stationary=True)
SETTINGS = [
    CHAIN,
    POOLED,
    ar.Setting(n_states=31, n_actions=2, horizon=20, discount=0.9, initial_state=15),
    ar.Setting(n_states=5, n_actions=3, horizon=4),
    ar.Setting(n_states=5, n_actions=3, horizon=4, stationary=True, discount=0.8),
]


def test_sigma_is_the_largest_value_of_so_many_steps():
    assert theory.sigma(0) == 0
    assert theory.sigma(20) == 20
    assert theory.sigma(3, 0.5) == 1.75
    for setting in SETTINGS:
        expected = [theory.sigma(k, setting.discount) for k in range(setting.horizon + 1)]
        np.testing.assert_allclose(setting.sigma, expected, rtol=1e-12)


@pytest.mark.parametrize("setting", SETTINGS)
def test_beta_is_the_one_that_certificates_use(setting):
    n = np.array([0, 1, 7, 1000, 10**8])
    np.testing.assert_allclose([theory.beta(k, setting, 0.1) for k in n], paper_beta(n, setting, 0.1), rtol=1e-12)


def test_beta_by_hand():
    assert theory.beta(100, CHAIN, 0.1) == pytest.approx(log(2 * 31 * 2 * 20 / 0.1) + 30 * log(e * (1 + 100 / 30)))
    assert theory.beta(100, POOLED, 0.1) == pytest.approx(log(2 * 31 * 2 / 0.1) + 30 * log(e * (1 + 100 / 30)))
    assert theory.beta(9, ar.Setting(n_states=1, n_actions=2, horizon=3, initial_state=0), 0.1) == pytest.approx(log(120))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(*(st.floats(1e-3, 1e3) for _ in range(4)), st.floats(1e-4, 10))
def test_no_n_that_satisfies_the_inequality_exceeds_the_inversion(a, b, c, d, gap):
    """The largest n with n gap^2 <= a + b log(c + d n), if it is at least 1, is at most the lemma's."""

    def room(n):
        return a + b * log(c + d * n) - n * gap**2

    high = 1.0
    while room(high) > 0 or room(2 * high) > 0:  # concave: once it is negative it stays so
        high *= 2
        if high > 1e30:
            return
    if room(1.0) < 0:
        return  # no n >= 1 up to here; the lemma says nothing that could fail
    largest = brentq(room, 1.0, high) if room(high) < 0 else high
    assert largest <= theory.inversion(a, b, c, d, gap) * (1 + 1e-9)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("algorithm", ["rf-ucrl", "bpi-ucrl"])
@pytest.mark.parametrize("epsilon", [0.01, 0.4, 2.0])
def test_the_bounds_on_tau_invert_what_was_proved(setting, algorithm, epsilon):
    """The implicit bound is a fixed point; the explicit one is above it; what is printed differs little for many states."""
    implicit = theory.tau_implicit(setting, epsilon, 0.1, algorithm)
    top, S, A = setting.sigma[-1], setting.n_states, setting.n_actions
    leading = (144 if algorithm == "rf-ucrl" else 64) * (1 + sqrt(2)) ** 2 * S * A / epsilon**2
    steps = setting.horizon if setting.stationary else 1
    C = leading * (top**2 * setting.horizon if setting.stationary else top**4)
    assert implicit == pytest.approx(C * theory.beta(steps * implicit, setting, 0.1), rel=1e-9)
    for tau in (implicit * 1.01, implicit * 10):
        assert tau > C * theory.beta(steps * tau, setting, 0.1)
    explicit = theory.tau_bound(setting, epsilon, 0.1, algorithm)
    assert explicit >= implicit
    assert theory.tau_printed(setting, epsilon, 0.1, algorithm) >= explicit * (1 - 1e-9) or S < 3


def test_what_was_measured_lies_below_the_theorem():
    """RF-UCRL on the chain stops at 0.5 H far below what is proved, with either setting."""
    for setting, stationary in ((CHAIN, False), (POOLED, True)):
        atlas = ar.explore(
            ar.envs.double_chain(), 20, 10.0, algorithm="rf-ucrl", bounds="paper", replan="geometric", stationary=stationary
        )
        assert atlas.certificate.met
        assert 1 < atlas.episodes < theory.tau_implicit(setting, 10.0, 0.1)


def test_the_rates_of_the_table():
    """Upper over lower is H but for best policies at small epsilon, where the rates agree."""
    for problem in ("reward-free", "best policy"):
        for regime in ("small delta", "small epsilon"):
            (upper, _), (lower, _) = (theory.rate(problem, regime, side, 31, 2, 20, 0.5, 0.1) for side in ("upper", "lower"))
            assert upper / lower == pytest.approx(1 if (problem, regime) == ("best policy", "small epsilon") else 20)
    assert theory.rate("reward-free", "small epsilon", "lower", 31, 2, 20, 0.5, 0.1) == (
        31**2 * 2 * 400 / 0.25,
        "Jin et al. 2020",
    )
    with pytest.raises(ValueError, match="no rate"):
        theory.rate("reward-free", "large delta", "upper", 31, 2, 20, 0.5, 0.1)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.floats(0.01, 0.9999), st.floats(1e-6, 1e3))
def test_after_the_horizon_nothing_of_value_is_left(gamma, epsilon):
    H = ar.horizon_for_discount(gamma, epsilon)
    assert H >= 1
    assert gamma**H / (1 - gamma) <= epsilon * (1 + 1e-9)
    assert max(1, log(1 / (epsilon * (1 - gamma))) / (1 - gamma) + 1) >= H


def test_a_plan_for_the_horizon_is_good_forever():
    """On a random model: optimal for H steps, then at random, within epsilon of the best for ever."""
    gamma, epsilon, mdp = 0.8, 0.3, ar.envs.garnet(6, 3, 2, seed=4)
    H = ar.horizon_for_discount(gamma, epsilon)
    plan = ar.backward_induction(mdp, mdp.reward, H, gamma)
    long = 200
    best = ar.backward_induction(mdp, mdp.reward, long, gamma).V[0, 0]
    policy = np.full((long, 6, 3), 1 / 3)
    policy[:H] = np.eye(3)[plan.policy]
    value = ar.evaluate_policy(mdp, policy, mdp.reward, long, gamma).V[0, 0]
    assert best - epsilon - gamma**long / (1 - gamma) <= value <= best + 1e-9
    act = theory.forever(plan.policy, 3, seed=1)
    assert [act(h, 2) for h in range(H)] == plan.policy[:, 2].tolist()
    later = np.bincount([act(H + i, 2) for i in range(3_000)], minlength=3)
    assert (np.abs(later - 1000) < 6 * sqrt(3000 * 2 / 9)).all()  # fails by chance with probability below 1e-8


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: ar.horizon_for_discount(1.0, 0.1), "gamma is 1.0"),
        (lambda: ar.horizon_for_discount(0.9, 0.0), "epsilon is 0.0"),
        (lambda: theory.tau_bound(CHAIN, 1.0, 0.1, "ucbvi"), "algorithm is 'ucbvi'"),
        (lambda: theory.tau_bound(CHAIN, 1.0, 1.5), "delta is 1.5"),
    ],
)
def test_what_is_refused(call, names):
    with pytest.raises(ValueError, match=names):
        call()

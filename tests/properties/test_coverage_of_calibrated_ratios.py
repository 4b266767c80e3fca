"""Calibrated certificates by likelihood ratios hold as often as they say, and each part of them is needed.

What can fail is simulated with a large delta. The lattice shifts, the range of the true law and the order statistic are switched
off in turn, and more then fails than is allowed.

It watches `docs/theory.md`, 14.10, 14.11 and 14.12.
"""

import math
from dataclasses import replace

import numpy as np
from scipy.stats import binom

import anyreward as ar
from anyreward.certificates import calibrated
from anyreward.certificates.calibrated import Shares, calibrated_bound

from ..helpers.coverage import allowed
from .test_coverage_of_calibrated import IN_SETTINGS, WITH_AMOUNTS, errors_and_bounds, filled, rows_of_one_state


def of_one_step(A, m, shares, draws=2000):
    setting = ar.Setting(n_states=2, n_actions=A, horizon=2, initial_state=0)
    _, design = rows_of_one_state(A, m, [0, 1], shares, setting, draws=draws, ratios=True)
    return setting, design


def failures_of_one_step(A, m, q, shares, runs):
    """How often the largest total variation, which is the worst error if H = 2, is above its bound."""
    (setting, design), rng, failed = of_one_step(A, m, shares), np.random.default_rng(0), 0
    for N in rng.multinomial(m, [q, 1 - q], size=(runs, A)):
        failed += np.abs(N[:, 0] / m - q).max() > calibrated_bound(filled(setting, N, [0, 1]), design).quantile
    return failed


def test_with_many_samples_the_quantile_is_sharp():
    """With 20,000 samples shifts and ranges are small: it fails nearly as often as it may."""
    shares, runs = Shares(0.4, 0.01, 0.0, 0.02, 0.0), 600
    failed = failures_of_one_step(1, 20000, 0.5, shares, runs)
    assert binom.ppf(1e-7, runs, 0.33) < failed <= allowed(shares.delta, runs)


def without(monkeypatch, **parts):
    """Certificates whose stages are other ones, by functions of what they are."""
    original = calibrated._stages
    monkeypatch.setattr(
        calibrated,
        "_stages",
        lambda *about: (found := original(*about))._replace(**{name: part(found) for name, part in parts.items()}),
    )


def test_without_lattice_shifts_the_quantile_is_too_small(monkeypatch):
    """50 laws with 40 samples: the largest deviance is one of few numbers, and the normal law would cut just below one of them.

    The true law is taken for known, so that the bound does not depend on the data and the probability of a failure is a sum.
    """
    A, m, q = 50, 40, 0.5
    shares = Shares(0.42, 0.005, 0.0, 0.005, 0.0)
    setting, design = of_one_step(A, m, shares, draws=50_000)
    counts = filled(setting, np.full((A, 2), m // 2), [0, 1])

    def failing(shift):
        with monkeypatch.context() as patch:
            without(patch, low=lambda x: 0 * x.low + q, high=lambda x: 0 * x.high + q, shift=shift)
            bound = calibrated_bound(counts, design).quantile
        above = sum(binom.pmf(n, m, q) for n in range(m + 1) if abs(n / m - q) > bound)
        return 1 - (1 - above) ** A

    assert failing(lambda found: found.shift) <= shares.delta
    assert failing(lambda found: 0.0 * np.ones_like(found.shift)) > shares.delta + 0.1


def test_without_the_range_of_the_true_law_the_quantile_is_too_small(monkeypatch):
    """A rare outcome: if it was not seen, the empirical law has no spread at all."""
    m, q, runs, shares = 50, 0.02, 400, Shares(0.15, 0.02, 0.0, 0.03, 0.0)
    setting, design = of_one_step(1, m, shares, draws=500)
    drawn = np.random.default_rng(0).binomial(m, q, runs)

    def failed():
        bounds = {n: calibrated_bound(filled(setting, np.array([[n, m - n]]), [0, 1]), design).quantile for n in set(drawn)}
        return sum(abs(n / m - q) > bounds[n] for n in drawn)

    assert failed() <= allowed(shares.delta, runs)
    original = calibrated._stages

    def of_data(problem, design):
        theta = problem.seen[:1] / m
        return original(problem, design)._replace(low=theta, high=theta)

    monkeypatch.setattr(calibrated, "_stages", of_data)
    assert failed() > allowed(shares.delta, runs)


def test_without_the_order_statistic_the_simulation_is_too_small_every_other_time(monkeypatch):
    m, J, seeds, shares = 500, 300, 200, Shares(0.3, 0.02, 0.0, 0.05, 0.0)
    setting, exact = of_one_step(3, m, shares, draws=100_000)
    counts = filled(setting, np.array([[200, 300], [250, 250], [100, 400]]), [0, 1])
    rank = calibrated.order_rank
    monkeypatch.setattr(calibrated, "order_rank", lambda draws, level, failure: math.ceil((1 - level) * draws))
    quantile = calibrated_bound(counts, replace(exact, seed=10**6)).quantile

    def too_small():
        return sum(calibrated_bound(counts, replace(exact, draws=J, seed=seed)).quantile < quantile for seed in range(seeds))

    assert too_small() > 5 * allowed(shares.draws, seeds) / 2
    monkeypatch.setattr(calibrated, "order_rank", rank)
    assert too_small() <= allowed(shares.draws, seeds)


@IN_SETTINGS
@WITH_AMOUNTS
def test_no_policy_and_no_reward_has_a_larger_error(options, m, hidden):
    shares, runs = Shares(0.4, 0.02, 0.03, 0.02, 0.03), 25
    found = list(errors_and_bounds(options, m, hidden, shares, runs, ratios=True))
    assert sum(error > bound for error, bound in found) <= allowed(shares.delta, runs)
    assert max(error / bound for error, bound in found) > 0.25  # and the bound is of that size

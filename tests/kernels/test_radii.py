"""Thresholds and radii: their values, against brute force, and never below the exact number.

It watches `docs/theory.md`, 3.1, 3a, 3b and 4.1.
"""

import itertools
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from anyreward import kernels

from ..helpers.tight_reference import (
    fit,
    kl_up,
    lib_psi_size,
    lib_psi_support,
    lib_tv_radius,
    psi_mixed,
    psi_size,
    psi_support,
    tv_radius,
)

HUGE = 10**12
counts_of_a_row = st.lists(st.integers(1, 30) | st.floats(0, 12).map(lambda x: int(10**x)), min_size=1, max_size=6)
radii = st.floats(-11, 1).map(lambda x: 10.0**x)
few_counts = st.lists(st.integers(1, 20) | st.floats(0, 6).map(lambda x: int(10**x)), min_size=1, max_size=4)


# --- Thresholds ---


@pytest.mark.parametrize(
    ("psi", "N", "value"),
    [  # the values of the theory, computed there independently
        (lambda N: lib_psi_size(N, 31), (90, 10), 43.8433),
        (lambda N: lib_psi_size(N, 31), (9000, 1000), 111.8553),
        (lambda N: lib_psi_size(N, 2), (90, 10), 2.5338),
        (lambda N: lib_psi_size(N, 2), (9000, 1000), 4.8310),
        (lambda N: lib_psi_support(N, 31), (90, 10), 9.9232),
        (lambda N: lib_psi_support(N, 31), (9000, 1000), 12.3460),
    ],
)
def test_golden_thresholds(psi, N, value):
    assert psi(N) == pytest.approx(value, abs=5.1e-5)


@pytest.mark.parametrize("S", [1, 2, 31, 10**6])
def test_after_one_sample_nothing_is_known_but_the_number_of_states(S):
    """By symmetry the mixture gives each state 1/S. No valid threshold is lower: for a uniform law n KL is log S for certain."""
    assert lib_psi_support([1], S) == pytest.approx(math.log(S), abs=2e-8)
    assert lib_psi_size([1], min(S, 40)) == pytest.approx(math.log(min(S, 40)), abs=2e-8)


@pytest.mark.parametrize(("S", "n"), [(1, 5), (2, 7), (3, 5), (4, 4)])
def test_a_threshold_is_that_of_a_probability(S, n):
    """exp(fit - psi) is what the mixture gives to a sequence; over all sequences of a length it has to sum to one."""
    for psi in (lib_psi_support, lib_psi_size):
        total = 0.0
        for sequence in itertools.product(range(S), repeat=n):
            N = [k for k in np.bincount(sequence) if k]
            total += math.exp(float(fit(N)) - psi(N, S))
        assert total == pytest.approx(1.0, abs=1e-7)
        assert total <= 1.0


@pytest.mark.slow
@given(counts_of_a_row, st.sampled_from([0, 1, 2, 30, 435, 10**4, 10**6]))
@example([HUGE], 0)
@example([HUGE, 1], 0)
@example([HUGE, HUGE], 30)
@example([15, 16, 17], 3)  # where the series takes over from the library function
def test_thresholds_are_never_below_the_exact_ones(N, more):
    S = len(N) + more
    exact = psi_support(N, S)
    assert exact <= Decimal(lib_psi_support(N, S)) <= exact + Decimal("1e-7")
    exact = psi_size(N, min(S, 200))
    assert exact <= Decimal(lib_psi_size(N, min(S, 200))) <= exact + Decimal("1e-7")


@pytest.mark.parametrize("S", [10**7, 10**8, 2 * 10**9])
@pytest.mark.parametrize("N", [[5], [111_831_426], [443_071_040, 1_006_245_831, 45_046, 4, 192_786_883]])
def test_thresholds_with_as_many_states_as_a_setting_can_have(S, N):
    """The logarithm of a binomial coefficient of S is not the difference of numbers of size S log S."""
    exact = psi_support(N, S)
    assert exact <= Decimal(lib_psi_support(N, S)) <= exact + Decimal("1e-6")


@pytest.mark.parametrize(("K", "count"), [(300, 1), (300, 16), (1000, 3), (100_000, 1)])
def test_thresholds_of_rows_with_many_successors(K, count):
    """Ever so many terms of rounding, or of a series that was cut, still leave the threshold on the safe side."""
    N = [count] * K
    assert psi_size(N, K) <= Decimal(lib_psi_size(N, K)) <= psi_size(N, K) + Decimal("1e-11") * K + Decimal("1e-7")
    for S in (K, 2 * K) if K <= 1000 else ():
        assert psi_support(N, S, terms=200) <= Decimal(lib_psi_support(N, S))


@given(counts_of_a_row, st.integers(0, 50))
def test_knowing_less_about_the_support_costs_more(N, more):
    """psi of Dirichlet(1/2) grows with the number of symbols: so a law with fewer successors than K is covered too."""
    assert lib_psi_size(N, len(N) + more) <= lib_psi_size(N, len(N) + more + 1)


@given(st.floats(-5, 800), st.floats(-5, 800))
@example(0.0, 800.0)
def test_mixing_two_martingales(one, other):
    exact = psi_mixed(Decimal(one), Decimal(other))
    mixed = kernels.radii.psi_mixed(one, other)
    assert exact <= Decimal(mixed) <= exact + Decimal("1e-7")
    assert min(one, other) <= mixed <= min(one, other) + math.log(2) + 1e-7


# --- Total variation ---


@pytest.mark.parametrize(
    ("N", "c", "unseen", "value"),
    [
        ((90, 10), 0.01, True, 0.047676),
        ((90, 10), 0.01, False, 0.047676),
        ((7,), 0.5, True, 1 - math.exp(-0.5)),  # all the mass that can leave goes to an unseen successor
        ((7,), 0.5, False, 0.0),  # nowhere to go
        ((1, 1), 0.02, False, math.sqrt(1 - math.exp(-0.04)) / 2),  # kl(1/2, 1/2 + t) = -log(1 - 4 t^2) / 2
    ],
)
def test_golden_tv_radii(N, c, unseen, value):
    assert lib_tv_radius(N, c, unseen) == pytest.approx(value, abs=5e-7)


@pytest.mark.slow
@settings(max_examples=35)
@given(few_counts, st.floats(-6, 1).map(lambda x: 10.0**x), st.booleans())
@example([1, 999_999], 1e-6, False)
def test_tv_radii_against_all_events(N, c, unseen):
    assume(len(N) > 1 or unseen)
    exact, radius = tv_radius(N, c, unseen), Decimal(lib_tv_radius(N, c, unseen))
    assert exact <= radius <= exact * (1 + Decimal("1e-7"))


@pytest.mark.slow
@settings(max_examples=100)
@given(counts_of_a_row, radii, st.booleans())
@example([1, 10**12], 1e-11, False)
@example([HUGE], 1e-11, True)
@example([3, 1], 10.0, False)
def test_the_lower_bound_of_a_tv_radius_is_one_and_a_good_part_of_it(N, c, unseen):
    """At least 0.6 of it; less only where hardly anything is left to be said, or for rows with many successors."""
    seen, sums = np.array(N, float), np.zeros(1 << kernels.radii.ENUMERATED)
    exact = kernels.radii.tv_radius(seen, 0, len(N), float(sum(N)), c, unseen, sums)
    least = kernels.radii.tv_least(seen, 0, len(N), float(sum(N)), c, unseen)
    assert 0.0 <= least <= exact
    if len(N) <= 3 and c < 0.3 and min(N) > c * sum(N):
        assert least >= 0.6 * exact


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.floats(0, 12).map(lambda x: int(10**x)), min_size=1, max_size=3), st.floats(2, 40), st.booleans())
@example([HUGE], 10.3, True)
@example([HUGE, HUGE], 8.2, False)
@example([1, HUGE], 20.0, False)
@example([448, 410_919_065], 10.8, False)
def test_tv_radii_of_rows_with_many_samples_are_not_below_the_exact_ones(N, level, unseen):
    """The radii that occur: c = level / n, down to 1e-12, where a difference of logarithms has few digits left."""
    assume(len(N) > 1 or unseen)
    c = level / sum(N)
    exact, radius = tv_radius(N, c, unseen, digits=20), Decimal(lib_tv_radius(N, c, unseen))
    assert exact <= radius <= exact * (1 + Decimal("1e-3"))


@pytest.mark.slow
@given(st.floats(0, 1), radii)
@example(0.5, 1e-12)
@example(0.0, 1e-12)
@example(1e-12, 1e-11)
@example(1 - 1e-12, 1e-11)
@example(5e-324, 1.0)
@example(1.0, 3.0)
def test_kl_up_is_never_below_the_exact_one(x, c):
    """And above it by a part in 1000 of the way from x at most, or by the last digits of a float."""
    exact, q = kl_up(x, c, digits=20), Decimal(kernels.radii.kl_up(x, c))
    assert exact <= q <= 1
    assert q - exact <= (exact - Decimal(x)) * Decimal("1e-3") + Decimal("1e-11")


@pytest.mark.slow
def test_no_law_in_the_ball_is_further_away_and_one_is_that_far():
    """Not by the formula: laws on the surface of the ball {KL(p_hat, p) <= c}, thousands of them, and the best from there on."""
    rng = np.random.default_rng(0)
    for _ in range(25):
        K = int(rng.integers(1, 5))
        N, c = rng.integers(1, 50, K), math.exp(rng.uniform(-6, 1))
        q = np.append(N / N.sum(), 0.0)  # the last entry stands for all that was not seen
        radius = lib_tv_radius(N, c, True)
        directions = rng.dirichlet(np.full(K + 1, 0.3), 1000)
        # Along q -> direction the KL is convex from 0: bisect for the surface.
        low, high = np.zeros(1000), np.full(1000, 1 - 1e-12)
        for _ in range(45):
            t = (low + high) / 2
            p = q + t[:, None] * (directions - q)
            inside = (q[:-1] * np.log(q[:-1] / p[:, :-1])).sum(1) <= c
            low, high = np.where(inside, t, low), np.where(inside, high, t)
        p = q + low[:, None] * (directions - q)
        assert np.abs(p - q).sum(1).max() / 2 <= radius
        reached = 0.0
        for event in itertools.product([False, True], repeat=K + 1):
            A = np.array(event)
            x = q[A].sum()
            target = float(kl_up(x, c, digits=12)) if x < 1 else 1.0
            p = np.where(A, q * (target / x if x > 0 else 0), q * ((1 - target) / (1 - x) if x < 1 else 0))
            p[-1] += 1 - p.sum()  # if nothing was seen of the event, its mass is on what was not seen
            assert (q[:-1] * np.log(q[:-1] / p[:-1])).sum() <= c + 1e-9
            reached = max(reached, np.abs(p - q).sum() / 2)
        assert reached == pytest.approx(radius, rel=1e-6)


@pytest.mark.parametrize("K", [5, 8, 9, 11])
def test_with_many_successors_the_radius_is_between_that_of_the_events_and_pinskers(K):
    rng = np.random.default_rng(K)
    for c in (1e-8, 1e-4, 0.05, 2.0):
        N = rng.integers(1, 1000, K)
        x = np.unique([sum(part) for size in range(1, K) for part in itertools.combinations(N.tolist(), size)]) / N.sum()
        for unseen in (False, True):
            gains = np.array([kernels.radii.kl_up(y, c) for y in x]) - x
            exact = max(gains.max(), -math.expm1(-c) if unseen else 0.0) * (1 - 1e-9)
            assert exact <= lib_tv_radius(N, c, unseen) <= min(1.0, math.sqrt(c / 2) * (1 + 1e-8))


@pytest.mark.parametrize("N", [(5,), (5, 1), (1, 1, 1), tuple(range(1, 12))])
def test_radii_of_extreme_balls(N):
    for c in (1e3, 1e300, math.inf, math.nan):
        assert lib_tv_radius(N, c, True) == 1.0
    for c in (690.0, 100.0):
        assert 1 - 1e-9 <= lib_tv_radius(N, c, True) <= 1.0
    assert 0.0 <= lib_tv_radius(N, 0.0, True) <= 1e-11
    assert 0.0 < lib_tv_radius(N, 1e-16, True) <= 1e-8  # n goes up to 2^53


@given(few_counts, radii, radii)
def test_radii_grow_with_the_ball(N, c, d):
    small, large = min(c, d), max(c, d)
    assert lib_tv_radius(N, small, True) <= lib_tv_radius(N, large, True) * (1 + 1e-3)

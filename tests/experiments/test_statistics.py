"""Bands and tests: what they promise, by simulation and against all flips by hand."""

from itertools import product

import numpy as np
import pytest

from anyreward.experiments.statistics import bootstrap_interval, permutation_test


def test_bands_hold_the_mean_and_shrink():
    rng = np.random.default_rng(0)
    few, many = bootstrap_interval(rng.normal(size=10)), bootstrap_interval(rng.normal(size=1000))
    for it in (few, many):
        assert it.low <= it.mean <= it.high
    assert many.high - many.low < few.high - few.low


def test_bands_cover():
    """Of 300 bands of means of 40 skewed numbers at least 258 hold; fewer has probability below 1e-3 at a coverage of 92%."""
    rng = np.random.default_rng(1)
    bands = [bootstrap_interval(rng.exponential(size=40), 400) for _ in range(300)]
    assert sum(it.low <= 1.0 <= it.high for it in bands) >= 258


def test_the_p_values_are_those_of_all_flips_by_hand():
    x = np.random.default_rng(2).normal(size=(3, 6)) + np.array([[0.0], [0.5], [2.0]])
    M, N = x.shape

    def statistics(signs):
        out = {}
        for i in range(M):
            for j in range(M):
                d = [s * (x[j, k] - x[i, k]) for k, s in enumerate(signs)]
                size = np.sqrt(sum(v * v for v in d))
                out[i, j] = sum(d) / size if size else 0.0
        return out

    observed = statistics([1] * N)
    largest = [max(statistics(signs).values()) for signs in product([1, -1], repeat=N)]
    p = permutation_test(x)
    for (i, j), value in observed.items():
        expected = np.mean([most >= value - 1e-12 for most in largest]) if value > 0 else 1.0
        assert p[i, j] == pytest.approx(expected)


def test_any_false_alarm_among_all_pairs_is_as_rare_as_promised():
    """6 methods that do not differ, 400 times: at most 34 alarms at 5%; more has probability below 1e-3."""
    rng = np.random.default_rng(3)
    alarms = sum((permutation_test(rng.normal(size=(6, 9)) + rng.normal(size=(1, 9))) <= 0.05).any() for _ in range(400))
    assert alarms <= 34


def test_what_differs_is_seen_and_in_the_right_direction():
    rng = np.random.default_rng(4)
    luck = rng.normal(size=(1, 10))
    x = np.array([[0.0], [0.1], [3.0]]) + luck + 0.3 * rng.normal(size=(3, 10))
    p = permutation_test(x)
    assert p[0, 2] <= 0.05
    assert p[1, 2] <= 0.05
    assert p[2, 0] == p[2, 1] == 1.0
    assert p[0, 1] > 0.05


def test_many_runs_are_tested_by_drawn_flips():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(3, 40)) + np.array([[0.0], [0.0], [1.0]])
    p = permutation_test(x)
    assert p[0, 2] <= 0.01
    assert min(p[0, 1], p[1, 0]) > 0.05
    assert p.min() >= 1 / 10_001  # never 0: what was seen is one of the flips


def test_methods_that_are_the_same_are_not_told_apart():
    x = np.tile(np.random.default_rng(6).normal(size=8), (3, 1))
    assert (permutation_test(x) == 1.0).all()


@pytest.mark.parametrize(("values", "names"), [(np.zeros((2, 1)), "at least two runs"), (np.array([[0, np.nan]] * 2), "finite")])
def test_what_is_refused(values, names):
    with pytest.raises(ValueError, match=names):
        permutation_test(values)

"""Likelihood ratios: polygons against brute force, the coupling against exact binomials, and whole draws against plain loops.

It watches `docs/theory.md`, 14.11 and 14.12.
"""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm

from anyreward import kernels
from anyreward.certificates.deviances import brackets, deviance_limit

from ..helpers.calibrated_reference import deviance, kl
from ..helpers.ratios_reference import copy_of, extents, normals, signed_root, stage_knowledge

RATIOS = kernels.calibrated_ratios
SIZE = RATIOS.CORNERS


def side(low, high, c, tangents):
    theta, f = np.zeros((2, SIZE))
    n = RATIOS.upper_side(low, high, c, tangents, theta, f)
    return theta[:n], f[:n]


def largest(theta, c):
    """The largest f with kl(f, theta) <= c, by bisection."""
    if theta in (0.0, 1.0) or kl(1.0, theta) <= c:
        return float(theta > 0.0)
    return brentq(lambda f: kl(f, theta) - c, theta, 1.0, xtol=1e-15)


@pytest.mark.parametrize("tangents", [1, 2, 4])
def test_the_upper_side_is_above_all_that_is_allowed_and_close(tangents):
    rng = np.random.default_rng(tangents)
    for case in range(400):
        low, high = np.sort(rng.random(2) ** rng.choice([1, 3]))
        low, high = [(low, high), (0.0, high), (low, 1.0), (low, low), (max(0.0, high - 0.02), high)][case % 5]
        c = 10.0 ** rng.uniform(-14, 0.5)
        theta, f = side(low, high, c, tangents)
        assert (theta[0], theta[-1]) == (low, high)
        assert (np.diff(theta) >= 0).all()
        assert (f <= 1.0).all()
        at = np.linspace(low, high, 60)
        exact = np.array([largest(x, c) for x in at])
        above = np.interp(at, theta, f) if high > low else np.full(60, f.min())
        assert (above >= exact).all()
        if case % 5 == 4 and low > 0.1 and high < 0.9 and 1e-10 < c < 1e-3:  # a narrow range far from 0 and 1
            assert (above - at).max() < (1.05 if tangents > 1 else 1.2) * (exact - at).max() + 1e-8


@pytest.mark.parametrize("c", [1e-30, 3.4e-17, 1e-14, 1e-12])
@pytest.mark.parametrize(("low", "high"), [(0.43, 1.0), (0.2, 1.0), (0.5, 1.0 - 1e-7), (1.0 - 1e-9, 1.0), (0.3, 0.3), (1.0, 1.0)])
def test_where_deviations_are_within_rounding_a_side_is_still_above_them(low, high, c):
    """Pinsker: f <= theta + sqrt(c / 2)."""
    theta, f = side(low, high, c, 1)
    at = np.linspace(low, high, 50)
    above = np.interp(at, theta, f) if high > low else np.full(50, f.min())
    assert (above >= np.minimum(1.0, at + np.sqrt(c / 2))).all()
    assert (f <= 1.0).all()
    assert (theta[0], theta[-1]) == (low, high)
    assert (np.diff(theta) >= 0).all()


def test_without_deviations_a_side_is_the_diagonal():
    theta, f = side(0.2, 0.6, 0.0, 2)
    assert np.array_equal(theta, [0.2, 0.6])
    assert np.array_equal(f, theta)


@pytest.mark.parametrize(("m", "q"), [(30, 0.5), (200, 0.1), (1000, 0.03), (12, 0.2)])
def test_the_coupling_holds_for_every_count(m, q):
    """All z that give a count are tried, at both ends and in between. Without shifts it would not hold."""
    limit = deviance_limit(2, 1e-4)
    ends = brackets(limit)
    ((_, _, _, shift),) = stage_knowledge([round(m * q), m - round(m * q)], limit, ends.tolist())
    unshifted = 0
    for n in range(m + 1):
        edges = norm.ppf([binom.cdf(n - 1, m, q), binom.cdf(n, m, q)])
        a, b = np.clip(edges, -8, 8)
        if not a < b - 1e-9:
            continue
        for z in np.linspace(a + 1e-9, b - 1e-9, 41):
            below, above = RATIOS.extents(z, np.array(shift), ends, limit)
            assert (below, above) == pytest.approx(extents(z, shift, ends.tolist(), limit), abs=1e-9)
            root = signed_root(n, m, q)
            assert -below <= root + 1e-9
            assert root <= above + 1e-9
            below, above = RATIOS.extents(z, np.zeros(len(ends)), ends, limit)
            unshifted += not -below - 1e-9 <= root <= above + 1e-9
    assert unshifted > 50


def laws_of(N, limit):
    """The stages of one row with counts N."""
    K, ends = len(N), brackets(limit)
    stages = RATIOS.Stages(
        row=np.array([0]), m=np.array([float(sum(N))]), first=np.array([0, K - 1]), low=np.zeros(K - 1), high=np.zeros(K - 1),
        least=np.zeros(K - 1), shift=np.zeros((K - 1, len(ends))), bracket=ends, limit=limit,
    )  # fmt: skip
    RATIOS.all_stages(np.array([0, K]), np.array(N, float), stages)
    return stages


@pytest.mark.parametrize("N", [[300, 700], [40, 60, 3], [5, 0, 900, 95], [0, 12], [10, 0, 0]])
def test_what_is_known_about_stages(N):
    limit = deviance_limit(2, 1e-4)
    found = laws_of(N, limit)
    for j, (low, high, least, shift) in enumerate(stage_knowledge(N, limit, found.bracket.tolist())):
        assert (found.low[j], found.high[j]) == pytest.approx((low, high), abs=1e-9)
        assert (found.low[j], 1 - found.high[j]) <= (low + 1e-15, 1 - high + 1e-9)
        assert abs(found.least[j] - least) <= 1.0
        wanted = np.array(shift)
        assert all(a == pytest.approx(b, rel=1e-6) or a > b for a, b in zip(found.shift[j], wanted, strict=True))


def drawn(stages, seed, number, tangents=2):
    Q = len(stages.low)
    polygons = RATIOS.Polygons(np.zeros(Q, np.int64), np.zeros((Q, SIZE)), np.zeros((Q, SIZE)))
    RATIOS.draw(seed, number, stages, np.array([0, Q + 1]), tangents, polygons)
    return [list(zip(polygons.theta[j, :n], polygons.f[j, :n], strict=True)) for j, n in enumerate(polygons.many)]


def inside(point, corners):
    """Whether a point is in the convex hull of corners: no direction separates it."""
    angles = np.linspace(0, 2 * np.pi, 721)
    directions = np.stack([np.cos(angles), np.sin(angles)])
    hull = (np.array(corners) @ directions).max(axis=0)
    return bool((np.array(point) @ directions <= hull + 1e-9).all())


def allowed_laws(N, limit, rng, number):
    """Laws whose every stage has at most the limit as its deviance, some of them just so."""
    out = []
    for case in range(number):
        left, share, p = sum(N), 1.0, []
        for n in N[:-1]:
            if left:
                low, high = range_limits(n / left, limit / left)
                q = rng.choice([low, high, rng.uniform(low, high)]) if case % 2 else rng.uniform(low, high)
            else:
                q = rng.random()
            p.append(share * q)
            share, left = share * (1 - q), left - n
        out.append([*p, share])
    return out


def range_limits(x, c):
    found = laws_of([round(x * 10**6), 10**6 - round(x * 10**6)], c * 10**6)
    return found.low[0] + 1e-6, found.high[0] - 1e-6


@pytest.mark.parametrize("part", ["all", "shift", "trials", "range"])
@pytest.mark.parametrize("N", [[60, 90], [200, 300, 100], [12, 30, 18], [500, 40, 30, 30]])
def test_copies_of_every_law_that_the_counts_allow_are_in_the_polygons(N, part):
    """The coupling in the proof of 14.12: with the normal numbers of a draw, every copy is in its polygons.

    And not all of them are if shifts are left out, or all stages get as many trials as the first one, or the data's law is taken
    for the true one.
    """
    limit = deviance_limit(2, 1e-3)
    stages, rng, outside = laws_of(N, limit), np.random.default_rng(len(N)), 0
    if part == "shift":
        stages.shift[:] = 0.0
    if part == "range":
        left = np.cumsum(N[::-1])[::-1]
        stages.low[:] = stages.high[:] = np.array(N[:-1]) / left[:-1]
    for number in range(120):
        polygons = drawn(stages, 7, number, 1 + number % 2)
        z = normals(7, number, len(N) - 1)[:-1]
        if part == "trials":
            for j in range(1, len(N) - 1):
                a, b = RATIOS.extents(z[j], stages.shift[j], stages.bracket, limit)
                theta, f = np.zeros((2, SIZE))
                n, _ = RATIOS.polygon(stages.low[j], stages.high[j], a, b, float(sum(N)), 2, theta, f)
                polygons[j] = list(zip(theta[:n], f[:n], strict=True))
        for p in allowed_laws(N, limit, rng, 4):
            left, tail = sum(N), 1.0
            for j, n in enumerate(copy_of(sum(N), p, z)[:-1]):
                if left:
                    outside += not inside((p[j] / tail, n / left), polygons[j])
                left, tail = left - n, tail - p[j]
    if part == "all":
        assert outside == 0
    elif part != "trials" or len(N) > 2:
        assert outside > 0


def test_deviances_of_allowed_laws_are_allowed():
    """The adversaries above are as far away as they may be."""
    limit, N = deviance_limit(2, 1e-3), [60, 90]
    largest = max(deviance(N, p) for p in allowed_laws(N, limit, np.random.default_rng(0), 40))
    assert 0.99 * limit < largest <= limit

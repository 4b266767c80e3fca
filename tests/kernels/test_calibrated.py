"""The laws of deviances, the draws and the passes of the calibrated certificate, against plain loops and exact sums.

It watches `docs/theory.md`, 14.1, 14.3 and 14.4.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, kstest, norm

from anyreward import kernels
from anyreward.certificates.calibrated import order_rank
from anyreward.certificates.deviances import brackets, deviance_limit

from ..helpers import calibrated_reference as reference
from ..helpers.calibrated_reference import kl, limit_of, shifts, stages, tail_bound

X = np.array([0.5, 1, 2, 3, 5, 7, 10, 14])
positive = st.floats(1e-6, 1e3)


def computed_shifts(seen, trials, least, limit, ends=X):
    out = np.zeros(len(ends))
    kernels.calibrated.stage_shifts(float(seen), float(trials), float(least), limit, np.array(ends, float), out)
    return out


# --- Golden values ---


def test_golden_shifts():
    wanted = [0.144241, 0.148453, 0.154733, 0.160040, 0.168116, 0.177623, 0.192286, 0.199321]
    assert computed_shifts(100, 1000, 1000, 11.7) == pytest.approx(wanted, abs=1e-6)
    assert computed_shifts(300, 3000, 3000, 11.7)[:3] == pytest.approx([0.071588, 0.072558, 0.073921], abs=1e-6)
    assert computed_shifts(20, 400, 400, 11.7)[:3] == pytest.approx([0.709159, 1.001465, math.inf], abs=1e-6)


def test_golden_limits_and_ranks():
    assert deviance_limit(2, 0.005 / 380) == pytest.approx(11.931636, abs=1e-6)
    assert deviance_limit(4, 0.005 / 1716) == pytest.approx(20.017494, abs=1e-6)
    assert deviance_limit(1, 0.01) == 0.0
    assert order_rank(2000, 0.082, 0.003) == 1870
    assert order_rank(1000, 0.082, 0.003) == 942
    radius = kernels.radii.tv_radius(np.array([900.0, 100.0]), 0, 2, 1000.0, 0.01, False, np.zeros(256))
    assert radius == pytest.approx(0.0476755, abs=1e-7)


# --- Limits, ranks and brackets ---


@given(st.integers(2, 300), st.floats(1e-12, 0.5))
@settings(max_examples=50)
def test_limits_are_quantiles_rounded_up(k, tail):
    exact = limit_of(k, tail)
    assert exact <= deviance_limit(k, tail) <= exact * (1 + 1e-9)


@given(st.integers(1, 3000), st.floats(0.001, 0.9), st.floats(1e-6, 0.9))
@settings(max_examples=50)
def test_the_rank_is_the_smallest_safe_one(draws, level, failure):
    r = order_rank(draws, level, failure)
    assert r == draws + 1 or binom.sf(r - 1, draws, 1 - level) <= failure
    assert r == 0 or binom.sf(r - 2, draws, 1 - level) > failure * (1 - 1e-8)


@given(st.floats(0.01, 500.0))
def test_brackets_rise_to_the_limit(limit):
    ends = brackets(limit)
    assert (np.diff(ends) > 0).all()
    assert ends[-1] >= limit
    assert len(ends) == 1 or ends[-2] < limit


# --- Laws of deviances ---


@given(st.floats(1e-6, 1 - 1e-9), st.floats(1e-8, 5.0))
def test_kl_down_is_the_lower_end(q, c):
    z, exact = kernels.calibrated.kl_down(q, c), reference.lower_end(q, c)
    assert z <= exact + 1e-12
    assert z == pytest.approx(exact, rel=1e-5, abs=1e-9)


@given(st.integers(1, 5000), st.floats(0, 1), st.floats(0.3, 1), st.floats(0.5, 30))
@settings(max_examples=100)
def test_shifts_are_those_of_plain_bisection(trials, share, fewer, limit):
    seen, least = round(trials * share), max(1, math.floor(fewer * trials))
    ends = brackets(limit)
    found, wanted = computed_shifts(seen, trials, least, limit, ends), shifts(seen, trials, least, limit, ends)
    for one, other in zip(found, wanted, strict=True):
        # a floor may fall on the other side of an integer by rounding: then the shift is a little larger
        assert one == pytest.approx(other, rel=1e-6) or one > other


@given(st.lists(st.integers(0, 400), min_size=2, max_size=5).filter(lambda N: sum(N) > 0))
@settings(max_examples=100)
def test_stages_of_rows(N):
    limit, m = deviance_limit(len(N), 1e-3), float(sum(N))
    ends = brackets(limit)
    Laws = kernels.calibrated.Laws
    laws = Laws(
        np.array([0]), np.array([m]), np.array([limit]), np.zeros(1),
        np.array([0, len(N) - 1]), np.zeros((len(N) - 1, len(ends))), ends,
    )  # fmt: skip
    kernels.calibrated.all_laws(np.array([0, len(N)]), np.array(N, float), laws)
    wanted = stages(N, limit, ends.tolist())
    for one, other in zip(laws.shift.reshape(-1), np.array(wanted).reshape(-1), strict=True):
        assert one == pytest.approx(other, rel=1e-6) or one > other
    events = [sum(N[k] for k in range(len(N)) if event >> k & 1) / m for event in range(1, 2 ** len(N) - 1)]
    exact = max((reference.range_of(x, limit / m)[1] - x for x in events if x < 1.0), default=0.0)
    assert exact - 1e-9 <= laws.tau[0] <= exact + 1e-6


def test_the_normal_bound_of_binomial_tails():
    """By Zubkov and Serov: compared with exact tails, from both sides."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        m, q = int(np.exp(rng.uniform(1, 8))), float(rng.uniform(0.001, 0.999))
        k = np.arange(1, m)
        G = np.array([math.copysign(math.sqrt(2 * m * max(0.0, kl(y / m, q))), y - m * q) for y in k])
        exact = binom.cdf(np.arange(m), m, q)  # P(N <= 0), ..., P(N <= m - 1)
        assert (norm.cdf(G) <= exact[1:] * (1 + 1e-9) + 1e-12).all()
        assert (exact[:-1] <= norm.cdf(G) * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize(("shift", "ends"), [([0.2, 0.5, 1.0], [0.5, 2.0, 9.0]), ([0.1, 2.0, math.inf], [0.3, 0.4, 20.0])])
def test_a_stage_has_the_tails_of_the_bound(shift, ends):
    """The deviance of a draw does not fall with |N(0,1)|, so P(deviance >= x) is where it reaches x: the bound, or more."""
    y = np.linspace(0, 8, 20001)
    drawn = np.array([kernels.calibrated.stage_deviance(z, np.array(shift), np.array(ends)) for z in y])
    assert (np.diff(drawn) >= -1e-12).all()
    for x in np.concatenate([np.linspace(1e-3, ends[-1] * 0.99, 500), np.array(ends[:-1])]):
        reached = y[np.searchsorted(drawn, x * (1 - 1e-12))]
        assert 2 * norm.sf(reached - (y[1] - y[0])) >= tail_bound(float(x), shift, ends) * (1 - 1e-9) or reached == 0.0


def test_the_smallest_bracket_would_be_wrong():
    """Why the largest bracket counts: with the first one that fits, large deviances would be drawn too rarely."""
    shift, ends, x = [0.1, 2.0, math.inf], [0.3, 0.4, 20.0], 1.5
    y = np.linspace(0, 8, 20001)
    largest = np.array([kernels.calibrated.stage_deviance(z, np.array(shift), np.array(ends)) for z in y])
    smallest = np.array([min(0.5 * (z + shift[0]) ** 2, ends[0]) for z in y])
    assert 2 * norm.sf(y[np.searchsorted(largest, x)]) >= tail_bound(x, shift, ends) * 0.999
    assert smallest.max() < x


def test_draws_depend_on_seed_and_number_alone_and_are_normal():
    C, m = 400, 1e6
    Laws, Charges = kernels.calibrated.Laws, kernels.calibrated.Charges
    laws = Laws(
        np.arange(C), np.full(C, m), np.full(C, 50.0), np.full(C, 0.25),
        np.arange(C + 1), np.zeros((C, 1)), np.array([50.0]),
    )  # fmt: skip
    charges = Charges(np.zeros(C), np.zeros(C), np.zeros(C))
    draws = []
    for number in range(50):
        kernels.calibrated.draw(7, number, laws, charges)
        draws.append(np.sqrt(2 * m * charges.c))
        assert charges.g == pytest.approx(np.sqrt(charges.c / 2))
        assert charges.t == pytest.approx(0.25 + charges.g)
    kernels.calibrated.draw(7, 3, laws, charges)
    assert np.array_equal(np.sqrt(2 * m * charges.c), draws[3])
    kernels.calibrated.draw(8, 3, laws, charges)
    assert not np.isin(np.sqrt(2 * m * charges.c), draws[3]).any()
    every = np.concatenate(draws)
    assert kstest(every, lambda y: 2 * norm.cdf(y) - 1).pvalue > 1e-6
    assert abs(np.corrcoef(every[:-1], every[1:])[0, 1]) < 5 / math.sqrt(len(every))


# --- Tilting ---


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 20)), min_size=1, max_size=6), st.floats(0, 1))
def test_tilting_takes_from_the_lowest(entries, t):
    total = sum(n for _, n in entries)
    if total == 0:
        return
    V, p = np.array([v for v, _ in entries]), np.array([n / total for _, n in entries])
    weight = np.zeros(len(V))
    found = kernels.calibrated.tilt(np.arange(len(V), dtype=np.uint32), p, V, 0, 0, len(V), t, weight)
    assert found == pytest.approx(reference.tilted(dict(enumerate(V)), dict(enumerate(p)), t), abs=1e-12)
    assert weight.sum() == pytest.approx(1)
    assert 0.5 * np.abs(weight - p).sum() <= t + 1e-12

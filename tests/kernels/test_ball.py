"""The extreme expectations over a KL ball: exact, and on the safe side whatever the iteration does.

`gap` is checked against laws that are in the ball, which it must not overshoot, and against a convex solver that knows nothing
of duality.

It watches `docs/theory.md`, 6.2.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anyreward.kernels.ball import gap

from ..helpers.reference import kl

ABSURD = [5e-324, 1e-320, 1e-310, 1e-300, 1e-150, 1e-9, 1.0, 1e9, 1e300, math.inf, math.nan, -1.0, -math.inf]


def gap_of(N, g, c, u=0.0):
    N, g = np.array(N, float), np.array(g, float)
    return gap(N, 0, len(N), N.sum(), g, float(c), float(u))[0]


def extremes(N, f, c):
    """The smallest and the largest p.f over all laws p on the whole simplex with KL(N/n, p) <= c."""
    N, f = np.asarray(N, float), np.asarray(f, float)
    seen = N > 0
    return f.min() + gap_of(N[seen], f[seen] - f.min(), c), f.max() - gap_of(N[seen], f.max() - f[seen], c)


def law_of_least(N, g, c):
    """Laws p with KL(N/n, p) <= c and nearly the smallest p.g, each row a ball, and where in p.g they stand; extended precision.

    p_k is proportional to q_k / (u + g_k) for the smallest u with KL <= c, found by bisection. A smallest g must be 0; it may
    have been seen (N > 0) or not. If u -> 0 does not exhaust c, the rest of the mass moves to an unseen one.
    """
    N, g, c = (np.asarray(x, np.longdouble) for x in (N, g, c))
    q, unseen = N / N.sum(axis=1, keepdims=True), np.where(N > 0, g, np.inf).min(axis=1) > 0

    def at(u):
        shares = np.where(N > 0, q / np.where(N > 0, u[:, None] + g, 1), 0)
        p = shares / shares.sum(axis=1, keepdims=True)
        return p, np.where(N > 0, q * np.log(q / np.where(N > 0, p, 1) + (N == 0)), 0).sum(axis=1)

    low, high = np.full(len(N), -800.0, np.longdouble), np.full(len(N), 100.0, np.longdouble)  # of log u
    for _ in range(110):
        middle = (low + high) / 2
        inside = at(np.exp(middle))[1] <= c
        low, high = np.where(inside, low, middle), np.where(inside, middle, high)
    p, _ = at(np.exp(high))
    spared, used = at(np.where(unseen, 0, 1).astype(np.longdouble))
    escapes = unseen & (used <= c)
    p = np.where(escapes[:, None], spared * np.exp(np.where(escapes, used - c, 0))[:, None], p)
    return p, (p * g).sum(axis=1)


def random_balls(S, how_many, seed):
    """Counts with zeros, values with ties and of all scales, radii from 1e-9 to 30."""
    rng = np.random.default_rng(seed)
    N = rng.integers(0, 6, (how_many, S)) * rng.choice([1, 1, 1000], (how_many, S))
    N[np.arange(how_many), rng.integers(0, S, how_many)] += 1  # at least one successor was seen
    tied = rng.random((how_many, 1)) < 0.3
    f = np.where(tied, rng.integers(0, 3, (how_many, S)) / 2, rng.random((how_many, S)))
    return N, f * 10 ** rng.uniform(-3, 1.3, (how_many, 1)), 10 ** rng.uniform(-9, 1.5, how_many)


@pytest.mark.parametrize(
    ("N", "f", "c", "side", "value"),
    [
        ([1, 0], [0, 1], 0.3, 1, -math.expm1(-0.3)),  # one successor: all that KL <= c allows leaves it
        ([5, 5], [0, 1], 0.1, 1, 0.5 + 0.5 * math.sqrt(-math.expm1(-0.2))),  # 4 p (1 - p) = e^(-2c)
        ([9, 1, 0], [1, 0, 2], 0.05, 1, 0.9804975460),
        ([9, 1, 0], [1, 0, -1], 0.05, 0, 0.7750568712),
    ],
)
def test_golden_values(N, f, c, side, value):
    assert extremes(N, f, c)[side] == pytest.approx(value, abs=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("S", [1, 2, 3, 4, 7, 30, 300])
def test_exact_and_not_beyond_a_law_in_the_ball(S):
    """A law of the ball with p.g just above the gap proves both that the gap is safe and that it is exact."""
    N, f, c = random_balls(S, 3000 if S < 10 else 300 if S < 100 else 30, seed=S)
    for values in (f, -f):
        g = values - values.min(axis=1, keepdims=True)
        _, least = law_of_least(N, g, c)
        found = np.array([gap_of(N[i][N[i] > 0], g[i][N[i] > 0], c[i]) for i in range(len(N))])
        assert (found <= least).all()
        assert (least - found <= 1e-12 * np.maximum(g.max(axis=1), 1e-300)).all()


@pytest.mark.slow
@pytest.mark.parametrize("S", [2, 3, 4, 6])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # whether it is, is what the test looks at
def test_against_a_convex_solver(S, sign):
    """500 balls of a size in one problem: the largest sign * p.f for p in the simplex with KL(q, p) <= c."""
    import cvxpy as cp  # here, since importing it takes as long as all other tests of this file

    N, f, c = random_balls(S, 500, seed=100 + S)
    c = np.random.default_rng(S).permutation(np.geomspace(1e-2, 8, len(N)))  # what the solver can do to 1e-7
    f, q = f / np.abs(f).max(axis=1, keepdims=True).clip(1e-9), N / N.sum(axis=1, keepdims=True)
    p = cp.Variable(f.shape)
    inside = cp.sum(cp.multiply(q, cp.log(p)), axis=1) >= kl(q, np.ones_like(q)) - c  # KL = sum q log q - sum q log p
    problem = cp.Problem(cp.Maximize(sign * cp.sum(cp.multiply(p, f))), [p >= 0, cp.sum(p, axis=1) == 1, inside])
    problem.solve(solver=cp.CLARABEL, **dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-9))
    # The solver's laws may be outside by its tolerance. A little of q pulls them in, as KL is convex and KL(q, q) = 0.
    found = np.maximum(p.value, 1e-300) / np.maximum(p.value, 1e-300).sum(axis=1, keepdims=True)
    pull = np.maximum(0, 1 - c / np.maximum(kl(q, found), c)) + 1e-13
    theirs = ((1 - pull[:, None]) * found + pull[:, None] * q) * f
    ours = np.array([extremes(*ball)[(sign + 1) // 2] for ball in zip(N, f, c, strict=True)])
    np.testing.assert_allclose(ours, theirs.sum(axis=1), atol=1e-7, rtol=0)
    assert (sign * (ours - theirs.sum(axis=1)) >= -1e-15).all()  # the sums on both sides are rounded


@pytest.mark.slow
@pytest.mark.parametrize(("S", "mesh"), [(2, 4000), (3, 150), (4, 40)])
def test_against_a_grid_over_the_simplex(S, mesh):
    grid = np.array([p for p in itertools.product(range(mesh + 1), repeat=S - 1) if sum(p) <= mesh])
    grid = np.column_stack([grid, mesh - grid.sum(axis=1)]) / mesh
    N, f, c = random_balls(S, 200, seed=200 + S)
    close = 0
    for i in range(len(N)):
        lower, upper = extremes(N[i], f[i], c[i])
        values = grid[kl(N[i] / N[i].sum(), grid) <= c[i]] @ f[i]
        if len(values):
            assert lower <= values.min() + 1e-14  # rounding of the sums
            assert values.max() <= upper + 1e-14
            close += max(upper - values.max(), values.min() - lower) <= 2 * S / mesh * np.ptp(f[i])
    assert close >= 50  # the grid comes near the ends of balls that are wider than its mesh: it is no empty bound


@given(
    st.lists(st.tuples(st.integers(1, 10**6), st.floats(0, 100)), min_size=1, max_size=6),
    st.floats(0, 800) | st.floats(0, 1e-6),
    st.sampled_from(ABSURD) | st.floats(0, 10),
)
@example([(1, 0.0), (1, 1.0)], 699.0, 0.0)
@example([(1, 0.0), (1, 1.0)], 0.1, 5e-324)
def test_a_law_that_is_always_in_the_ball(row, c, u):
    """p = e^-c q with the rest on the best successor has KL(q, p) <= c, so the gap is at most e^-c mean(g).

    And by Pinsker it is at least mean(g) - sqrt(c/2) max(g).
    """
    N, g = (np.array(x, float) for x in zip(*row, strict=True))
    found, mean = gap_of(N, g, c, u), N @ g / N.sum()
    assert 0 <= found <= math.exp(-c) * mean * (1 + 1e-14)
    if c >= 1e-12:  # smaller radii than any data give are safe, not exact
        assert found >= mean - (math.sqrt(c / 2) + 1e-12) * g.max()


@pytest.mark.parametrize("u", ABSURD)
def test_any_start_of_the_search_is_safe_and_arrives(u):
    N, f, c = random_balls(4, 500, seed=9)
    g = f - f.min(axis=1, keepdims=True)
    _, least = law_of_least(N, g, c)
    found = np.array([gap_of(N[i][N[i] > 0], g[i][N[i] > 0], c[i], u) for i in range(len(N))])
    assert (found <= least).all()
    assert (least - found <= 1e-12 * g.max(axis=1)).all()


@pytest.mark.parametrize(("N", "c"), [([999, 1], 0.75), ([99, 1], 8.0), ([1, 1], 400.0), ([1, 10**6], 600.0)])
def test_searches_that_start_where_the_last_one_ended(N, c):
    """The best successor was seen most of the time, so the optimal u is far below the smallest number there is.

    A search that starts lower each time must not fall off the end: the gap is below e^-c times the mean.
    """
    N, g, u = np.array(N, float), np.array([0.0, 1.0]), 0.0
    for _ in range(10):
        found, u = gap(N, 0, 2, N.sum(), g, c, u)
        assert found <= math.exp(-c) * N[1] / N.sum()


@pytest.mark.parametrize("c", [1e-9, 0.01, 1.0, 30.0])
def test_searches_from_the_end_of_another_one(c):
    """Warm starts from a smaller or a larger radius end where a cold start does."""
    N, g = np.array([7.0, 2.0, 1.0]), np.array([0.0, 0.4, 1.0])
    cold = gap_of(N, g, c)
    for factor in (1e-3, 0.9, 1.1, 1e3):
        _, u = gap(N, 0, 3, 10.0, g, c * factor, 0.0)
        assert gap_of(N, g, c, u) == pytest.approx(cold, rel=1e-12)


def test_no_radius_leaves_the_empirical_law():
    lower, upper = extremes([3, 1, 0], [0.2, 1.0, 5.0], 0.0)
    assert lower == pytest.approx(0.4, rel=1e-12)
    assert upper == pytest.approx(0.4, rel=1e-12)
    assert lower <= 0.4 <= upper


@pytest.mark.parametrize("c", [699.999, 700.0, 1e6, 1e300, math.inf, math.nan])
@pytest.mark.parametrize("N", [[3, 1, 0], [3, 1, 2], [1, 0, 0], [0, 0, 1]])
def test_a_huge_radius_leaves_nothing_but_the_range(N, c):
    lower, upper = extremes(N, [0.2, 1.0, 5.0], c)
    assert lower <= 0.2 + 1e-300
    assert upper >= 5.0


@pytest.mark.parametrize("c", [1e-10, 1e-3, 0.3, 2.0, 50.0])
@pytest.mark.parametrize("n", [1, 10**12])
def test_one_successor_seen(n, c):
    """Mass 1 - e^-c can leave it."""
    lower, upper = extremes([0, n, 0], [0.0, 1.0, 3.0], c)
    assert lower == pytest.approx(math.exp(-c), rel=1e-12)
    assert upper == pytest.approx(3 - 2 * math.exp(-c), rel=1e-12)
    assert lower <= math.exp(-c)
    assert upper >= 3 - 2 * math.exp(-c)


@pytest.mark.parametrize("c", [0.0, 1e-9, 1.0, 699.0, math.inf])
def test_constant_values_have_no_interval(c):
    assert extremes([3, 0, 2], [0.7, 0.7, 0.7], c) == (0.7, 0.7)


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1)), min_size=2, max_size=6), st.floats(1e-9, 20))
def test_successors_with_count_zero_may_be_listed(row, c):
    """A zero in p_hat costs nothing: the gap with such successors listed is the one without them."""
    N, g = (np.array(x, float) for x in zip(*row, strict=True))
    g -= g.min()
    N[0] += 1
    assert gap_of(N, g, c) == pytest.approx(gap_of(N[N > 0], g[N > 0], c), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("scale", [1e-15, 1e-30, 1e-200])
@pytest.mark.parametrize("c", [1e-9, 0.1, 5.0])
def test_values_that_differ_by_next_to_nothing(scale, c):
    """The gap scales with the values, so their size does not matter."""
    for g in ([0.0, 1.0, 3.0], [1.0, 2.0, 3.0]):
        assert gap_of([4, 1, 2], np.array(g) * scale, c) == pytest.approx(scale * gap_of([4, 1, 2], g, c), rel=1e-11)


def test_values_apart_by_the_last_digits():
    f = 1.0 + np.array([0.0, 1e-15, 2e-15])
    lower, upper = extremes([4, 1, 2], f, 0.1)
    mean = 1.0 + (1e-15 + 4e-15) / 7
    assert f.min() <= lower <= mean * (1 + 1e-15)
    assert mean * (1 - 1e-15) <= upper <= f.max()


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 99), st.floats(0, 1)), min_size=1, max_size=5), st.floats(1e-9, 20), st.floats(1, 9))
def test_a_larger_ball_has_a_wider_interval(row, c, factor):
    N, g = zip(*row, strict=True)
    assert gap_of(N, g, c * factor) <= gap_of(N, g, c) * (1 + 2e-12)

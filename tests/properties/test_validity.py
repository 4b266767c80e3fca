"""Whether the tight bound is true: against adversaries that choose kernels in the balls, rewards and policies.

There is little slack, so a mistake shows. The worst error over all kernels, rewards and policies is computed exactly for small
models; the largest share of the bound that it reaches is asserted too, so that a weak adversary would be noticed.

It watches `docs/theory.md`, 5.1 and 5.2.
"""

import math

import numpy as np
import pytest

import anyreward as ar
from anyreward.certificates.bounds import TightBound

from ..helpers.adversary import climb, lowest, worst_error, worst_history
from ..helpers.bounds import GivenRadii
from ..helpers.reference import known_start
from ..helpers.tight_reference import dense, lib_tv_radius, per_row

pytestmark = pytest.mark.slow

ROUNDING = 1 + 1e-9  # of the adversary


def random_counts(rng, setting, empty=0.1):
    """Counts of any size for every pair, also where no episode could have come; some rows and some successors are empty."""
    S, A, H = setting.n_states, setting.n_actions, setting.horizon
    n = np.exp(rng.uniform(-1, 6, (1 if setting.stationary else H, S, A, S))) * (rng.random(S) < rng.uniform(0.4, 1))
    n = n.astype(int) * (rng.random(n.shape[:3]) >= empty)[..., None]
    starts = rng.integers(0, 50, S) * (rng.random(S) < 0.7)
    starts[rng.integers(S)] += 1
    law = known_start(setting)
    if law is not None:
        starts *= law > 0
        starts[law.argmax()] += 1
    h, s, a, x = np.nonzero(n)
    (begin,) = np.nonzero(starts)
    zero = np.zeros_like(begin)
    columns = ([zero - 1, h], [zero, s], [zero, a], [begin, x], [starts[begin], n[h, s, a, x]])
    names = ("h", "s", "a", "next", "count")
    return ar.Counts.from_columns(setting, {name: np.concatenate(c) for name, c in zip(names, columns, strict=True)})


def random_balls(rng, counts, most=None):
    """KL radii of a random size, which may differ much from row to row, with their exact TV radii."""
    table, S = counts.table, counts.setting.n_states
    scale, spread = rng.uniform(-8, 0), rng.uniform(0, 2)
    c, tv = np.zeros(len(table.n)), np.zeros(len(table.n))
    for row in np.flatnonzero(table.n):
        N = table.seen[table.first[row] : table.first[row] + table.size[row]]
        c[row] = math.exp(scale + spread * rng.normal())
        tv[row] = lib_tv_radius(N, c[row], len(N) < (most or S))
    return c, tv


def balls(counts, radii, most=None):
    """p_hat and radii as the adversary wants them: q0, c0, q, c, unseen. A row without data is uniform and has no ball."""
    S = counts.setting.n_states
    starts, n = dense(counts)
    visits = n.sum(-1, keepdims=True)
    q = np.where(visits > 0, n / np.maximum(visits, 1), 1 / S)
    c = np.where(visits[..., 0] > 0, per_row(counts, radii), np.inf)
    law = known_start(counts.setting)
    q0, c0 = (starts / starts.sum(), float(radii[0])) if law is None else (law, 0.0)
    return q0, c0, q, c, (n > 0).sum(-1) < (most or S)


def compare(rng, settings, error_of, most=None, empty=0.1, tried=0.1):
    """Asserts error <= bound over random models; the largest shares of the bound reached by TV recursions and by KL chains."""
    shares = {False: [0.0], True: [0.0]}
    for setting in settings:
        counts = random_counts(rng, setting, empty * rng.integers(2))
        radii, tv = random_balls(rng, counts, most)
        details = GivenRadii(radii, tv).details(counts, 0.1)
        error = error_of(counts, radii, most)
        assert error <= details.value * ROUNDING
        shares[bool(details.multipliers.any())].append(error / details.value)
    assert len(shares[True]) > tried * len(settings) or settings[0].horizon == 2  # else the KL chain was hardly tried
    return max(shares[False]), max(shares[True])


def some_settings(rng, models, S, A, H, random_start=False, known_law=False, stationary=False, **options):
    shape = {"n_states": S, "n_actions": A, "horizon": H, "stationary": stationary, **options}
    shape["initial_state"] = None if random_start or known_law else 0
    return [
        ar.Setting(**shape, discount=discount, initial=tuple(rng.dirichlet(np.ones(S))) if known_law else ())
        for discount in rng.choice([1.0, 0.9, 0.5], models).tolist()
    ]


@pytest.mark.parametrize(
    ("models", "shape", "reached"),
    [
        (500, {"S": 3, "A": 2, "H": 2}, 0.999),
        (1500, {"S": 2, "A": 2, "H": 3}, 0.97),
        (500, {"S": 3, "A": 2, "H": 3}, 0.97),
        (150, {"S": 2, "A": 2, "H": 4}, 0.9),
        (100, {"S": 2, "A": 1, "H": 5}, 0.8),
        (800, {"S": 2, "A": 2, "H": 2, "random_start": True}, 0.97),
        (250, {"S": 2, "A": 2, "H": 3, "random_start": True}, 0.95),
        (800, {"S": 2, "A": 2, "H": 2, "known_law": True}, 0.97),
        (250, {"S": 2, "A": 2, "H": 3, "known_law": True}, 0.95),
        (250, {"S": 2, "A": 2, "H": 3, "known_law": True, "stationary": True}, 0.95),
        (800, {"S": 2, "A": 2, "H": 3, "stationary": True}, 0.97),
    ],
)
def test_no_kernels_reward_and_policy_exceed_the_bound(models, shape, reached):
    """The exact worst case over Markov policies. A stationary bound holds for kernels that change within the same balls, too."""
    rng = np.random.default_rng(models)

    def error_of(counts, radii, most):
        return worst_error(*balls(counts, radii, most), counts.setting.discount)

    tried = 0.05 if shape.get("known_law") else 0.1  # with a known law of the start, the KL chain is best in fewer models
    shares = compare(rng, some_settings(rng, models, **shape), error_of, tried=tried)
    assert max(shares) > reached


@pytest.mark.parametrize("random_start", [False, True])
def test_policies_that_remember_do_not_exceed_the_bound(random_start):
    """An action of the last step can tell all that happened before; the theorem is about trajectories and covers it."""
    rng = np.random.default_rng(7)

    def error_of(counts, radii, most):
        q0, c0, q, c, unseen = balls(counts, radii, most)
        gamma = counts.setting.discount
        if random_start:
            return worst_history(q0[None], np.array([c0]), q[0], c[0], np.array([True]), unseen[0], 1.0, gamma)
        return worst_history(q[0, 0], c[0, 0], q[1], c[1], unseen[0, 0], unseen[1], gamma, gamma**2)

    settings = some_settings(rng, 800, S=2, A=2, H=2 if random_start else 3, random_start=random_start)
    shares = compare(rng, settings, error_of)
    assert min(shares) > 0.97


def test_rewards_on_arrival_do_not_exceed_the_bound():
    """r(h, s, a, s'): the last transition is paid for as well."""
    rng = np.random.default_rng(8)

    def error_of(counts, radii, most):
        _, _, q, c, unseen = balls(counts, radii, most)
        return worst_history(q[0, 0], c[0, 0], q[1], c[1], unseen[0, 0], unseen[1], 1.0, counts.setting.discount)

    shares = compare(rng, some_settings(rng, 800, S=2, A=2, H=2, arrival_rewards=True), error_of)
    assert min(shares) > 0.97


def test_with_a_known_number_of_successors_the_unseen_ones_are_gone():
    rng = np.random.default_rng(9)

    def error_of(counts, radii, most):
        return worst_error(*balls(counts, radii, most), counts.setting.discount)

    settings = some_settings(rng, 600, S=3, A=2, H=3)
    shares = compare(rng, settings, error_of, most=2)
    assert max(shares) > 0.97


def test_larger_models_by_climbing():
    """Too many policies and rewards to try all: from random ones uphill, with the kernels checked to lie in their balls."""
    rng, best = np.random.default_rng(10), 0.0
    for setting in some_settings(rng, 120, S=5, A=2, H=6):
        S, H = setting.n_states, setting.horizon
        counts = random_counts(rng, setting, 0.05 * rng.integers(2))
        radii, tv = random_balls(rng, counts)
        bound = GivenRadii(radii, tv)(counts, 0.1)
        q0, c0, q, c, unseen = balls(counts, radii)
        P, P0 = np.zeros((H, S, S)), np.zeros(S)
        for _ in range(15):
            policy, reward = rng.integers(0, 2, (H, S)), rng.integers(0, 2, (H, S)).astype(float)
            error = climb(q0, c0, q, c, unseen, setting.discount, policy, reward, P, P0)
            assert error <= bound * ROUNDING
            best = max(best, error / bound)
        h, s = np.indices((H - 1, S))
        law, ball = q[h, s, policy[h, s]], c[h, s, policy[h, s]]
        with np.errstate(divide="ignore", invalid="ignore"):
            kl = np.where(law > 0, law * np.log(law / P[h, s]), 0.0).sum(-1)
        assert (kl <= ball * ROUNDING + 1e-12).all()
    assert best > 0.6


def test_the_radii_of_the_library_with_the_truth_at_their_edge():
    """Radii as they come from counts, delta close to 1 to make them small: the whole bound, not only its last part."""
    rng, best = np.random.default_rng(11), 0.0
    for setting in some_settings(rng, 500, S=2, A=2, H=3):
        counts = random_counts(rng, setting)
        details = TightBound().details(counts, 0.99)
        error = worst_error(*balls(counts, details.radii), setting.discount)
        assert error <= details.value * ROUNDING
        best = max(best, error / details.value)
    assert best > 0.9


def test_the_adversary_is_as_strong_as_it_says():
    """Its lowest expectation is that of a general solver's dual, and its law is in the ball."""
    rng = np.random.default_rng(12)
    for _ in range(300):
        S = int(rng.integers(2, 5))
        q, v, c = rng.dirichlet(np.ones(S)) * (rng.random(S) < 0.8), rng.random(S), math.exp(rng.uniform(-8, 1))
        if q.sum() == 0 or (q > 0).sum() < 2:
            continue
        q, p = q / q.sum(), np.zeros(S)
        value = lowest(q, c, True, v, p)
        seen = q > 0
        assert p.min() >= 0
        assert p.sum() == pytest.approx(1, abs=1e-12)
        assert (q[seen] * np.log(q[seen] / p[seen])).sum() <= c * (1 + 1e-9) + 1e-13
        # Dual: p.v >= v_min + exp(sum q log(u + v - v_min) - c) - u for every u >= 0, by weighted means.
        u = np.append(0.0, np.exp(np.linspace(-25, 12, 4000)))[:, None]
        with np.errstate(divide="ignore"):
            dual = v.min() + np.exp((q[seen] * np.log(u + v[seen] - v.min())).sum(1) - c) - u[:, 0]
        assert dual.max() <= value + 1e-9
        assert value == pytest.approx(dual.max(), abs=1e-4)

"""Radii of shared laws and the certificates that follow, against values that somebody else computed and a general solver.

It watches `docs/theory.md`, 15.2 and 15.3.
"""

from math import log

import cvxpy as cp
import numpy as np
import pytest

import anyreward as ar
from anyreward import kernels
from anyreward.certificates.bounds import TightBound, relevant_laws, weights
from anyreward.certificates.intervals import Robust
from anyreward.certificates.law_radii import law_radii

from ..helpers.structures import chain, plant, plant_model, queue


def error_bound(counts, lam, delta=0.1):
    """Phi of the trajectory certificate for given multipliers."""
    setting, table = counts.setting, counts.model_table
    radii, tv = TightBound().radii(counts, delta)
    w, w_start = weights(setting)
    kappa = np.zeros(setting.horizon)
    kappa_start, constant = kernels.trajectory.set_kappa(lam, setting.discount ** np.arange(setting.horizon), False, kappa)
    V, best = (np.zeros((setting.planes, len(table.state)), kind) for kind in (float, np.uint32))
    apart = kernels.trajectory.Joint(0.0, 1.0, 0.5)
    kernels.trajectory.backward(table, radii, tv, kappa, w, setting.n_actions, apart, V, best)
    return constant + kernels.trajectory.start_value(table, setting.n_actions, radii, tv, kappa_start, w_start, w, apart, V)


def roots(H):
    return 0.05 * np.sqrt(np.arange(H))


def test_golden_values_of_one_law():
    three = ar.Structure(law=lambda s, a: 0, outcomes=2, successor=lambda s, a, x: (s + 1 + x) % 3)
    counts = ar.Counts(ar.Setting(n_states=3, n_actions=1, horizon=4, initial_state=0, structure=three))
    counts.add_flows(np.array([[0, 0, 0, 1, 700], [0, 0, 0, 2, 300]]))
    c, tau = law_radii(counts, log(1 / 0.1))
    assert c[0] == pytest.approx(0.00598254, abs=5e-9)
    assert tau[0] == pytest.approx(0.0515791, abs=5e-8)
    assert error_bound(counts, roots(4)) == pytest.approx(0.2276825, abs=5e-8)


def test_golden_values_of_the_chain():
    counts = ar.Counts(ar.Setting(n_states=31, n_actions=2, horizon=20, initial_state=15, structure=chain()))
    counts.add_flows(np.array([[0, 15, 0, 14, 9000], [0, 15, 0, 16, 1000], [0, 15, 1, 14, 1000], [0, 15, 1, 16, 9000]]))
    assert law_radii(counts, log(2 / 0.1))[0] == pytest.approx([0.00078267] * 2, abs=5e-9)
    assert error_bound(counts, roots(20)) == pytest.approx(1.653667, abs=5e-7)


def plant_counts():
    """Some 10^5 transitions of each machine."""
    counts = ar.Counts(ar.Setting(n_states=64, n_actions=4, horizon=20, initial_state=0, structure=plant()))
    run = (129455, 18318, 3011, 1525), (0, 31741, 5945, 2050), (0, 0, 11065, 3709), (0, 0, 0, 27304)
    service = (42110, 0, 0, 0), (8039, 888, 0, 0), (4045, 506, 567, 0), (6791, 0, 0, 2931)
    shared = counts.shared
    shared.seen[:] = np.concatenate([np.concatenate(pair) for pair in zip(run, service, strict=True)])
    shared.n = shared.seen.reshape(8, 4).sum(axis=1)
    return counts


def test_golden_value_of_the_plant():
    """With the sum of the radii for each pair, in place of a choice for each draw, it is 1.829917."""
    assert error_bound(plant_counts(), roots(20)) == pytest.approx(1.813367, abs=1e-6)


def test_delta_is_shared_among_the_laws_of_the_declaration():
    def laws(structure, **changes):
        return relevant_laws(ar.Setting(**{"n_states": 31, "n_actions": 2, "horizon": 5, "structure": structure, **changes}))

    assert laws(chain(), initial_state=15) == 2
    assert laws(chain()) == 3  # and the initial state
    assert laws(chain(), initial_state=15, horizon=1) == 0
    assert laws(chain(), initial_state=15, horizon=1, arrival_rewards=True) == 2
    known = ar.Structure(
        law=lambda s, a: a, outcomes=(-1, 1), successor=lambda s, a, x: min(max(s + x, 0), 30), known={1: (0.1, 0.9)}
    )
    assert laws(known, initial_state=15) == 1
    by_step = ar.Structure(law=lambda h, s, a: (h, s), outcomes=(-1, 1), successor=lambda s, a, x: min(max(s + x, 0), 30))
    assert laws(by_step, initial_state=15) == 1 + 31 * 3  # the last step does not matter, and the first is known
    assert laws(by_step, initial_state=15, arrival_rewards=True) == 1 + 31 * 4
    assert laws(queue(14), n_states=30, n_actions=1, initial_state=0) == 2


def two_coins(q, n=4):
    """Counts of two independent draws with two outcomes each, which lead from state 0 to state 1 + 2 x + y, where they stay."""
    coins = ar.Structure.drawn([lambda s, a: "x", lambda s, a: "y"], [2, 2], lambda s, a, x, y: 1 + 2 * x + y)
    setting = ar.Setting(n_states=5, n_actions=1, horizon=2, initial_state=0, absorbing_states=(1, 2, 3, 4), structure=coins)
    counts = ar.Counts(setting)
    flows = [[0, 0, 0, 1 + 2 * x + y, round(n * q[0][x] * q[1][y])] for x in (0, 1) for y in (0, 1)]
    counts.add_flows(np.array([flow for flow in flows if flow[4]]))
    return counts


def test_the_balls_of_two_draws():
    """Two fair coins, radius 0.02 each, and a reward if they agree: 0.599008, with the second law chosen after the first outcome.

    The value of a product of laws in their balls, 0.519605, is inside, and so is coordinate ascent from the centre, 0.5.
    """
    counts = two_coins(((0.5, 0.5), (0.5, 0.5)))
    reward = np.zeros((2, 5, 1))
    reward[1, [1, 4]] = 1.0
    robust = Robust(counts, np.full((len(counts.model_table.n), 2), 0.02), 5, reward)
    assert robust.best(kernels.robust.UPPER)[1] == pytest.approx(0.599008, abs=5e-7)
    assert robust.best(kernels.robust.LOWER)[1] == pytest.approx(1 - 0.599008, abs=5e-7)


@pytest.mark.parametrize("seed", range(6))
def test_robust_values_with_outcomes_that_were_never_seen(seed):
    """Against a general solver: p may have mass on every declared successor, seen or not, and on no other."""
    rng = np.random.default_rng(seed)
    seen = rng.integers(0, 4, 4) * (rng.random(4) < 0.7)
    seen[0] += 2
    target = rng.permutation(6)[:4]
    one = ar.Structure(law=lambda s, a: 0, outcomes=4, successor=lambda s, a, x: int(target[x]))
    setting = ar.Setting(n_states=7, n_actions=1, horizon=2, initial_state=6, absorbing_states=tuple(range(6)), structure=one)
    counts = ar.Counts(setting)
    counts.add_flows(np.array([[0, 6, 0, target[x], n] for x, n in enumerate(seen) if n]))
    reward = np.zeros((2, 7, 1))
    reward[1, :, 0] = rng.random(7)
    c = float(rng.uniform(0.01, 0.8))
    robust = Robust(counts, np.full((len(counts.model_table.n), 1), c), 7, reward)
    p, q = cp.Variable(4), seen / seen.sum()
    inside = [
        p >= 0,
        cp.sum(p) == 1,
        cp.sum(cp.kl_div(q[q > 0], p[np.flatnonzero(q > 0)]) + q[q > 0] - p[np.flatnonzero(q > 0)]) <= c,
    ]
    value = p @ reward[1, target, 0]
    upper, lower = (cp.Problem(kind(value), inside).solve() for kind in (cp.Maximize, cp.Minimize))
    assert robust.best(kernels.robust.UPPER)[1] == pytest.approx(upper, abs=2e-4)
    assert robust.best(kernels.robust.LOWER)[1] == pytest.approx(lower, abs=2e-4)


def solved(q, c, value, sense):
    """The extreme expectation of `value` over all p with KL(q, p) <= c, by a general solver; q is None without data."""
    if q is None:
        return max(value) if sense is cp.Maximize else min(value)
    p, value = cp.Variable(len(q)), np.array(value)
    seen = np.flatnonzero(q > 0)
    ball = [p >= 0, cp.sum(p) == 1, cp.sum(cp.kl_div(q[seen], p[seen]) + q[seen] - p[seen]) <= c]
    return cp.Problem(sense(p @ value), ball).solve()


@pytest.mark.parametrize("seed", range(4))
def test_several_draws_against_a_general_solver(seed):
    """The last draw first, given the ones before it; the second law has an outcome that was never seen, or no data at all."""
    rng = np.random.default_rng(seed)
    target = rng.permutation(12).reshape(3, 2, 2)
    several = ar.Structure.drawn(
        [lambda s, a: "x", lambda s, a: "y", lambda s, a: "known"],
        [3, 2, 2],
        lambda s, a, *x: int(target[x]),
        {"known": (0.3, 0.7)},
    )
    setting = ar.Setting(
        n_states=13, n_actions=1, horizon=2, initial_state=12, absorbing_states=tuple(range(12)), structure=several
    )
    counts = ar.Counts(setting)
    seen = np.array([*rng.integers(1, 20, 3), *((0, 0) if seed == 3 else (7, 0)), 0, 0], float)
    counts.shared.seen[:], counts.shared.n = seen, np.add.reduceat(seen, [0, 3, 5])
    reward = np.zeros((2, 13, 1))
    reward[1, :, 0] = rng.random(13)
    radii = np.zeros((len(counts.model_table.n), 3))
    radii[:, :2] = c = rng.uniform(0.01, 0.5, 2)
    x, y = seen[:3] / seen[:3].sum(), None if seed == 3 else seen[3:5] / seen[3:5].sum()
    robust = Robust(counts, radii, 13, reward)
    for sense, side in ((cp.Maximize, kernels.robust.UPPER), (cp.Minimize, kernels.robust.LOWER)):
        last = reward[1, target, 0] @ (0.3, 0.7)
        expected = solved(x, c[0], [solved(y, c[1], row, sense) for row in last], sense)
        assert robust.best(side)[1] == pytest.approx(expected, abs=2e-4)


def test_golden_interval_of_the_plant():
    """Machines produce while they run and are not broken. With the summed balls of pairs the interval is [18.224, 18.601]."""
    counts, level = plant_counts(), np.array(np.unravel_index(np.arange(64), (4, 4, 4))).T
    reward = np.stack([((level < 3) & (np.arange(3) != a - 1)).mean(axis=1) for a in range(4)], axis=1)
    plan = ar.Atlas(counts, ar.certify(counts)).plan(reward, cautious=True)
    assert plan.lower == pytest.approx(18.241, abs=1e-3)
    assert plan.upper == pytest.approx(18.589, abs=1e-3)
    assert plan.lower < ar.backward_induction(plant_model(), reward, 20).V[0, 0] < plan.upper


def test_a_law_with_data_keeps_its_ball_beside_one_without():
    """Once it was taken for known wherever another law of the pair had no data: an interval from one draw had no width."""
    sizes = {"none": (0,)}

    def after(s, a, x, y):
        return s if s else (3 if x else 1) + (y if a else 0)

    both = ar.Structure.drawn(
        [lambda s, a: "none" if s else "first", lambda s, a: "second" if (s, a) == (0, 1) else "none"],
        [lambda law: sizes.get(law, (0, 1))] * 2,
        after,
    )
    setting = ar.Setting(n_states=5, n_actions=2, horizon=2, initial_state=0, structure=both)
    counts = ar.Counts.from_episodes([[0, 3, 3]], [[0, 0]], setting)
    atlas, reward = ar.Atlas(counts, ar.certify(counts)), np.array([0, 0, 0, 1.0, 1.0])
    alone, beside = (atlas.evaluate(np.array([[a] * 5, [0] * 5]), reward) for a in (0, 1))
    assert beside.lower == pytest.approx(alone.lower)
    assert beside.lower < 0.1


def test_a_law_without_data_can_be_anything_on_its_outcomes():
    counts = two_coins(((0.5, 0.5), (0.5, 0.5)), n=0)
    reward = np.zeros((2, 5, 1))
    reward[1, :, 0] = (1.0, 0.2, 0.4, 0.5, 0.3)  # state 0, which cannot be reached again, pays most
    robust = Robust(counts, np.zeros((len(counts.model_table.n), 2)), 5, reward)
    assert robust.best(kernels.robust.UPPER)[1] == 0.5
    assert robust.best(kernels.robust.LOWER)[1] == 0.2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_successors": 2}, "max_successors, deterministic and threshold do not suit a structure"),
        ({"deterministic": True}, "do not suit a structure"),
        ({"bounds": "paper"}, "the paper's bounds do not know of a structure"),
        ({"bounds": "calibrated", "quotas": np.ones((31, 2))}, "with a structure it has to be a mapping from laws"),
    ],
)
def test_bounds_that_do_not_know_of_structures(options, says):
    counts = ar.Counts(ar.Setting(n_states=31, n_actions=2, horizon=20, initial_state=15, structure=chain()))
    with pytest.raises(ValueError, match=says):
        ar.certify(counts, **options)

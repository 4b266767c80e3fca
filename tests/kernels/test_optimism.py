"""The loops of the rivals on their own: the L1 ball, what a row adds, and the pass over all rows."""

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.optimize import linprog

import anyreward as ar
from anyreward import testing
from anyreward.algorithms import BPIUCBVI, EULER, UCBVI, EvenDar, Fiechter, RFExpress
from anyreward.algorithms.explorer import IndexExplorer, RewardedExplorer
from anyreward.algorithms.optimistic import OptimisticExplorer
from anyreward.kernels import compiled, optimism
from anyreward.kernels.ball import gap_l1
from anyreward.kernels.formulas import Ahead, Row

from ..helpers import rivals as slow

# --- The L1 ball of UCRL2 ---


def least(N, g, d):
    N, g = np.array(N, float), np.array(g, float)
    return gap_l1(N, 0, len(N), N.sum(), g.copy(), float(d))


def largest_by_solver(q, f, d):
    """max p.f, sum p = 1, p - q <= x, q - p <= x, sum x <= d: a linear programme that knows nothing of sorting."""
    S, one = len(q), np.eye(len(q))
    A_ub = np.block([[one, -one], [-one, -one], [np.zeros((1, S)), np.ones((1, S))]])
    b_ub = np.concatenate([q, -q, [d]])
    found = linprog(np.concatenate([-f, np.zeros(S)]), A_ub, b_ub, np.concatenate([np.ones(S), np.zeros(S)])[None], [1.0])
    assert found.status == 0
    return -found.fun


@pytest.mark.parametrize("seed", range(60))
def test_the_largest_value_of_an_l1_ball_is_that_of_a_linear_programme(seed):
    """Upper and lower ends, seen and unseen successors, ties; so a law within d of p_hat attains it, and none exceeds it."""
    rng = np.random.default_rng(seed)
    S, d = int(rng.integers(1, 7)), float(rng.choice([0.0, 1e-9, 0.1, 0.7, 1.5, 1.9999, 2.0, 40.0]))
    N = rng.integers(0, 4, S) * rng.choice([1, 1000], S)
    N[rng.integers(S)] += 1
    f = rng.integers(0, 3, S) / 2 if seed % 3 == 0 else rng.random(S)
    seen, q = N > 0, N / N.sum()
    up, lo = f.max() - least(N[seen], f.max() - f[seen], d), f.min() + least(N[seen], f[seen] - f.min(), d)
    assert up == pytest.approx(largest_by_solver(q, f, d), abs=1e-8)
    assert lo == pytest.approx(-largest_by_solver(q, -f, d), abs=1e-8)
    assert up == pytest.approx(slow.l1_largest(q, f, d), abs=1e-12)


def test_an_l1_ball_keeps_its_law_without_room_and_leaves_it_with_all():
    assert least([3, 1], [0.4, 1.0], 0) == pytest.approx(0.55, abs=1e-15)
    assert least([3, 1], [0.4, 1.0], 0.5) == pytest.approx(0.3, abs=1e-15)  # a quarter leaves, from the worse one
    assert least([3, 1], [0.4, 1.0], 2) == pytest.approx(0, abs=1e-15)
    assert least([3, 1], [0.4, 1.0], 1e9) == pytest.approx(0, abs=1e-15)
    assert least([5, 2], [0.0, 0.0], 1.0) == 0


def test_an_l1_ball_reads_its_own_row_only():
    """Rows lie one after another in the table: `begin` says where one starts."""
    seen = np.array([7.0, 3.0, 1.0, 9.0])
    assert gap_l1(seen, 1, 2, 4.0, np.array([0.4, 1.0]), 0.5) == pytest.approx(0.3, abs=1e-15)


# --- What a row adds ---


def rows_of(explorer, visits):
    """The bonus and the root of a row with so many visits, as compiled."""
    bonus, root = np.full(1, np.nan), np.full(1, np.nan)
    optimism.renew(bonus, root, 0, float(visits), explorer._rule)
    return bonus[0], root[0]


CHAIN = ar.Setting(n_states=31, n_actions=2, horizon=20, initial_state=15)
PAY = np.zeros((31, 2))


@pytest.mark.parametrize("visits", [1, 2, 100, 10_000, 10**12])
def test_bonuses_on_the_chain_are_those_of_the_formulas(visits):
    H, S, A, T, delta = 20, 31, 2, 1000 * 20, 0.1
    express, beta = slow.beta_express(visits, S, A, H, delta), slow.beta(visits, S, S * A * H, delta)
    star, CH, L = (
        slow.beta_star(visits, S, A, H, delta),
        math.log(5 * S * H * A * T / delta),
        math.log(4 * S * H * A * T * 7 / delta),
    )
    less = max(1, visits - 1)
    right = [
        (Fiechter(CHAIN), math.sqrt(2 * beta / visits), None),
        (Fiechter(CHAIN, variant="published"), math.sqrt(2 * math.log(2 * S * A * H / delta) / visits), None),
        (RFExpress(CHAIN), 15 * H**2 * express / visits, None),
        (BPIUCBVI(CHAIN, PAY), H**2 * express / visits, math.sqrt(star / visits)),
        (UCBVI(CHAIN, PAY, budget=1000, bonus="hoeffding"), 7 * H * CH / math.sqrt(visits), None),
        (UCBVI(CHAIN, PAY, budget=1000), 14 * H * CH / (3 * visits), math.sqrt(8 * CH / visits)),
        (EULER(CHAIN, PAY, budget=1000), H * L / (3 * less) + (4 * H * L / 3 + 2 * H * L) / visits, math.sqrt(2 * L / visits)),
        (
            EULER(CHAIN, PAY, budget=1000, variant="published"),
            H * L / (3 * less) + (4 * H * L / 3 + H * math.sqrt(2 * L)) / visits,
            math.sqrt(2 * L / visits),
        ),
        (EvenDar(CHAIN, PAY), math.sqrt(math.log(math.pi**2 * S * A * 19 * visits**2 / (3 * delta)) / (2 * visits)), None),
    ]
    for explorer, bonus, root in right:
        found = rows_of(explorer, visits)
        assert found[0] == pytest.approx(bonus, rel=1e-12), type(explorer).__name__
        if root is not None:
            assert found[1] == pytest.approx(root, rel=1e-12), type(explorer).__name__


def test_the_threshold_of_rf_express_has_its_known_values():
    """beta(0) = 105.9868 and beta(100) = 249.0555 on the chain; the bonus is 15 H^2 beta(n) / n."""
    assert rows_of(RFExpress(CHAIN), 100)[0] * 100 / 15 / 400 == pytest.approx(249.0555, abs=5e-5)
    assert RFExpress(CHAIN)._rule.log_laws + 31 * math.log(8 * math.e) == pytest.approx(105.9868, abs=5e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda scale: Fiechter(CHAIN, scale=scale),
        lambda scale: RFExpress(CHAIN, scale=scale),
        lambda scale: BPIUCBVI(CHAIN, PAY, scale=scale),
        lambda scale: UCBVI(CHAIN, PAY, budget=9, scale=scale),
        lambda scale: UCBVI(CHAIN, PAY, budget=9, bonus="hoeffding", scale=scale),
        lambda scale: EULER(CHAIN, PAY, budget=9, scale=scale),
        lambda scale: EvenDar(CHAIN, PAY, scale=scale),
    ],
)
def test_a_scale_multiplies_what_a_row_adds(make):
    one, half = rows_of(make(1.0), 50), rows_of(make(0.5), 50)
    assert half[0] == pytest.approx(one[0] / 2, rel=1e-14)
    assert math.isnan(one[1]) or half[1] == pytest.approx(one[1] / 2, rel=1e-14)


# --- The pass ---


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("name", ["euler", "bpi-ucbvi", "ucbvi"])
def test_a_deterministic_law_has_no_variance(name, stationary):
    """However little the values ahead are round numbers: m2 - m1^2 must not leave the root of a rounding error behind."""
    S, A, H, delta, N = 3, 1, 3, 0.9, 30_000
    setting = ar.Setting(n_states=S, n_actions=A, horizon=H, initial_state=0, stationary=stationary)
    r = np.array([[0.1], [1 / 3], [0.7]])
    explorer = ar.ALGORITHMS[name](setting, r, delta=delta, **({} if name == "bpi-ucbvi" else {"budget": 1}))
    explorer.tell(np.tile([0, 1, 2, 0], (N, 1)), np.zeros((N, H), int))
    n = np.zeros((H, S, A, S))
    for h, (s, x) in enumerate([(0, 1), (1, 2), (2, 0)]):
        n[h, s, 0, x] = N
    full, pooled = np.broadcast_to(r, (H, S, A)), n.sum(axis=0) if stationary else n
    visits = np.zeros((H + 1, S))
    visits[[0, 1, 2, 3], [0, 1, 2, 0]] = N
    right = {
        "euler": lambda: slow.euler(pooled, full, delta, H, repaired=True)[0],
        "bpi-ucbvi": lambda: slow.bpi_ucbvi(pooled, full, delta).Q_up,
        "ucbvi": lambda: slow.ucbvi(pooled, full, delta, H, "bernstein", visits=visits)[0],
    }[name]()
    assert right[0, 0, 0] < H - 0.1  # below the cap, where variances would show
    np.testing.assert_allclose(explorer.index, right, rtol=1e-9, atol=0)


def formulas(value: float) -> type:
    """Named tuples of formulas that differ in nothing but a number inside one of them."""

    class SameName(NamedTuple):
        H: float

        def bonus(self, n: float) -> tuple[float, float]:
            return 0.0, 0.0

        def blank(self, h: int, r: float) -> tuple[float, float, float]:
            return value, 0.0, 0.0

        def entry(self, h: int, r: float, row: Row, ahead: Ahead) -> tuple[float, float, float]:
            return value + r, 0.0, 0.0

    return SameName


@pytest.mark.slow
def test_formulas_of_the_same_name_are_not_confused(monkeypatch):
    """Numba names code after the names of types: without names that differ, the second would run the formulas of the first.

    In a kernel that both share, as the algorithms of this package do; all kernels are named in the same way.
    """
    copy_for = compiled._copy_for
    monkeypatch.setattr(compiled, "_copy_for", lambda dispatcher, _: copy_for(dispatcher, object))

    class Constant(OptimisticExplorer, RewardedExplorer):
        kind: Any = None

        def rule(self) -> Any:
            return self.kind(3.0)

    setting, reward = ar.Setting(n_states=2, n_actions=2, horizon=2, initial_state=0), np.zeros((2, 2))
    for value in (1.0, 2.0):
        explorer = type("Constant", (Constant,), {"kind": formulas(value)})(setting, reward)
        explorer.tell([0, 1, 1], [0, 1])
        assert explorer.index[0].tolist() == [[value, value]] * 2


def test_formulas_in_this_package_have_names_of_their_own():
    for name, kind in ar.ALGORITHMS.items():
        if issubclass(kind, IndexExplorer):
            explorer = testing.made(kind, testing.SETTINGS["step-dependent"])
            explorer.kernel("run")
            assert type(explorer.formulas).__name__.endswith(type(explorer.formulas).__module__.replace(".", "_")), name

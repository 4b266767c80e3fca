"""The calibrated certificate: designs, golden values, every variant against plain loops, and coverage with power.

The coverage tests simulate with a large delta. Each part of the bound is switched off in turn: a test that would not notice that
has no power.

It watches `docs/theory.md`, 14.1, 14.2 and 14.5.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import kstest

import anyreward as ar
from anyreward import kernels
from anyreward.certificates import calibrated
from anyreward.certificates.bounds import TightBound, relevant_laws
from anyreward.certificates.calibrated import (
    Design,
    Shares,
    assemble,
    calibrated_bound,
    forecast_bound,
)  # fmt: skip
from anyreward.certificates.deviances import deviance_limit

from ..helpers.calibrated_reference import Charge, Reference, stages, whole_design

SHARES = Shares(0.3, 0.05, 0.05, 0.05, 0.05)
SCALES, STEPS = map(np.array, calibrated.REFINED)
CHARGES = kernels.calibrated.Charges

VARIANTS = {
    "by step": {"initial_state": 0},
    "stationary": {"initial_state": 0, "stationary": True},
    "discount": {"initial_state": 0, "discount": 0.7},
    "estimated start": {},
    "known distribution of the start": {"initial": (0.2, 0.5, 0.3, 0.0)},
    "rewards on arrival": {"initial_state": 0, "arrival_rewards": True},
    "absorbing": {"initial_state": 0, "absorbing_states": (3,)},
    "illegal": {"initial_state": 0, "illegal_actions": ((0, 1), (2, 0))},
    "hidden masks": {"hidden_masks": True, "initial": (0.2, 0.5, 0.0, 0.3)},
    "outcome": {"initial_state": 0, "terminal": "outcome"},
    "end": {"terminal": "end", "stationary": True},
    "one step": {"horizon": 1},
    "one step, known start": {"horizon": 1, "initial_state": 0},
    "one step, arrival": {"horizon": 1, "arrival_rewards": True},
    "everything, by step": {
        "discount": 0.9, "arrival_rewards": True, "terminal": "outcome", "absorbing_states": (2,), "illegal_actions": ((0, 0),),
    },
    "everything, stationary": {
        "discount": 0.9, "arrival_rewards": True, "terminal": "outcome", "stationary": True, "illegal_actions": ((0, 0),),
    },
}  # fmt: skip


def setting_of(options):
    return ar.Setting(**{"n_states": 4, "n_actions": 2, "horizon": 4, **options})


def random_counts(setting, seed, most=200, dense=0.9):
    """Counts of most laws, with one to four outcomes each. They need not come from whole episodes."""
    rng, flows, masks = np.random.default_rng(seed), [], {}
    counts = ar.Counts(setting)
    if setting.hidden_masks:  # the last state is never met
        masks = {s: [int(rng.integers(2))] if rng.random() < 0.4 else [] for s in range(setting.n_states - 1)}
        for s, illegal in masks.items():
            counts.declare_illegal(s, illegal)
    outcomes = setting.n_states - 1 if setting.hidden_masks else setting.n_outcomes
    illegal = set(setting.illegal_actions) | {(s, a) for s, actions in masks.items() for a in actions}

    def spread(h, s, a, among):
        some = rng.choice(among, size=min(among, int(rng.integers(1, 5))), replace=False)
        return [(h, s, a, x, n) for x, n in zip(some, rng.integers(1, most, len(some)), strict=True)]

    for h in range(1 if setting.stationary else setting.horizon):
        for s, a in itertools.product(range(min(outcomes, setting.n_states)), range(setting.n_actions)):
            if s not in counts.stays() and (s, a) not in illegal and rng.random() < dense:
                flows += spread(h, s, a, outcomes)
    if setting.estimates_start:
        flows += spread(-1, 0, 0, setting.n_states)
    counts.add_flows(np.array(flows, np.int64))
    return counts


def random_design(counts, seed, **options):
    """The design that counts fill, with some laws left out, some charged by the union bound, wide sets and sets that miss."""
    rng, full = np.random.default_rng(seed), whole_design(counts, SHARES)
    sets, kept = [], rng.random(len(full.step)) < 0.95
    kept[full.step == -1] = True
    for i in np.flatnonzero(kept):
        seen = full.symbols[full.first[i] : full.first[i + 1]].tolist()
        among = counts.setting.n_states if full.step[i] == -1 else counts.setting.n_outcomes
        more = [x for x in range(among) if x not in seen and rng.random() < 0.3]
        sets.append(rng.permutation([*seen, *more]).tolist() if rng.random() < 0.8 else seen[:-1])
    return Design(
        *(getattr(full, name)[kept] for name in ("step", "state", "action", "quota")),
        rng.uniform(0.1, 0.95, kept.sum()),
        np.cumsum([0, *map(len, sets)]),
        np.array([x for one in sets for x in one], int),
        SHARES,
        **{"draws": 200, **options},
    )


def nothing_restarted(design):
    return np.zeros(len(design.step), np.int64)


def phi_of(problem, setting, charges, lam):
    size, H = problem.model.plane[-1], setting.horizon
    V = np.zeros(size)
    kernels.calibrated.clear(problem.model, V)
    weight = np.zeros(int(np.diff(problem.model.edges).max(initial=1)))
    discounts = setting.discount ** np.arange(H)
    return kernels.calibrated.value(
        problem.model, charges, np.array(lam), discounts, setting.arrival_rewards, np.zeros(H), V, weight
    )[0]


# --- Against plain loops ---


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_the_functional_and_the_missing_mass(options):
    setting, zeros = setting_of(options), 0
    for seed in range(12):
        counts = random_counts(setting, seed, dense=0.7 if seed % 2 else 1.0)
        design, rng = random_design(counts, seed), np.random.default_rng(seed)
        slow, problem = Reference(counts, design), assemble(counts, design, nothing_restarted(design))
        c = np.exp(rng.uniform(-9, 0, len(design.step)))
        own = {law: Charge(x, *rng.uniform(0, 0.4, 2)) for law, x in zip(slow.laws, c, strict=True)}
        fast = np.array([own[slow.laws[i]] if i >= 0 else (0.0, 0.0, 0.0) for i in problem.row])
        for lam in (np.zeros(setting.horizon), np.exp(rng.uniform(-6, 0, setting.horizon))):
            wanted = slow.phi(lam.tolist(), own)
            unused = lam[0] / 2 if setting.estimates_start or setting.arrival_rewards else 0.0
            spare = 0.0 if unused or not lam.any() else lam[0] / 2  # time 0 has no law before it: its multiplier is not used
            found = phi_of(problem, setting, CHARGES(*fast.T.copy()), lam)
            assert found == pytest.approx(wanted + spare, rel=1e-12)
            zeros += wanted == 0.0
        outside = -np.log1p(-design.budget[problem.violated]).sum()
        missing = design.budget_for(outside) * calibrated._dearest(problem, design)
        assert missing == pytest.approx(slow.missing(), rel=1e-12)
        assert int(problem.violated.sum()) == sum(bool(slow.sets[law]) and law not in slow.clean for law in slow.laws)
        assert np.array_equal(problem.model.w, [slow.w[h] for h in range(setting.horizon) if slow.w[h] > 0]) or (
            problem.model.w == pytest.approx([slow.w[h] for h in range(setting.horizon) if slow.w[h] > 0])
        )
    assert zeros < 24 or setting.horizon == 1


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_laws_and_union_charges(options):
    setting = setting_of(options)
    counts = random_counts(setting, 1)
    design = random_design(counts, 1)
    slow, problem = Reference(counts, design), assemble(counts, design, nothing_restarted(design))
    laws, union = calibrated._laws(problem, design), calibrated._union(problem, setting, design.log_laws)
    C = sum(bool(one) for one in slow.sets.values())
    for i, row in enumerate(laws.row):
        law = slow.laws[problem.row[row]]
        N = [slow.seen[law].get(x, 0) for x in slow.sets[law]]
        assert law in slow.clean
        assert laws.limit[i] == pytest.approx(deviance_limit(len(N), SHARES.deviance / C))
        wanted = np.array(stages(N, float(laws.limit[i]), laws.bracket.tolist())).reshape(-1)
        found = laws.shift[laws.stages[i] : laws.stages[i + 1]].reshape(-1)
        assert all(one == pytest.approx(other, rel=1e-6) or one > other for one, other in zip(found, wanted, strict=True))
    # a union bound over the rows of the design is that of the tight certificate with another number of laws
    delta = SHARES.union * relevant_laws(setting) / len(design.step)
    radii, tv = TightBound(transfer=False, joint=False).radii(counts, delta) if delta < 1 else (None, None)
    for row in problem.union if radii is not None else ():
        h, s, a = slow.laws[problem.row[row]]
        place = 0 if h < 0 else counts.table.node_of[h, s] * setting.n_actions + a
        assert union.c[row] == pytest.approx(radii[place])
        assert union.g[row] == pytest.approx(tv[place])
        assert union.t[row] == 0.0


@pytest.mark.parametrize("name", ["by step", "stationary", "everything, by step", "everything, stationary"])
def test_each_draw_is_nearly_minimised_and_never_below_the_minimum(name):
    """phi of a draw, against a general minimiser over all multipliers of the plain functional."""
    setting = setting_of({**VARIANTS[name], "horizon": 3})
    counts = random_counts(setting, 3, most=2000)
    design = whole_design(counts, SHARES, draws=200)
    slow, problem = Reference(counts, design), assemble(counts, design, nothing_restarted(design))
    laws, charges = calibrated._laws(problem, design), calibrated._union(problem, setting, design.log_laws)
    discounts = setting.discount ** np.arange(setting.horizon)
    kernels.calibrated.mean_charges(design.seed, np.arange(64), laws, charges)
    _, lam = calibrated.smallest(problem.model, laws, charges, setting)
    for number in range(4):
        found = np.zeros(1)
        kernels.calibrated.simulate(
            problem.model,
            laws,
            charges,
            discounts,
            setting.arrival_rewards,
            lam,
            SCALES,
            STEPS,
            design.seed,
            np.array([number]),
            found,
            np.zeros(1),
        )
        kernels.calibrated.draw(design.seed, number, laws, charges)
        own = {slow.laws[i]: Charge(*(x[row] for x in charges)) for row, i in enumerate(problem.row) if i >= 0}
        own = {law: own.get(law, Charge(0.0, 0.0, 0.0)) for law in slow.laws}

        def phi(logs, own=own):
            return slow.phi(np.exp(np.clip(logs, -30, 3)).tolist(), own)

        start = np.log(np.maximum(lam, 1e-9))
        exact = {"xatol": 1e-6, "fatol": 1e-9}
        best = min(minimize(phi, start + d, method="Nelder-Mead", options=exact).fun for d in (0.0, 0.5, -1.0))
        best = min(best, slow.phi([0.0] * setting.horizon, own))
        assert best * (1 - 1e-3) <= found[0] <= best * 1.01


def all_draws(counts, design, result):
    """phi of all draws, each with good multipliers."""
    problem, out = assemble(counts, design, nothing_restarted(design)), np.zeros(design.draws)
    laws, charges = calibrated._laws(problem, design), calibrated._union(problem, counts.setting, design.log_laws)
    about = np.ones(counts.setting.horizon), False, result.multipliers, SCALES, STEPS, design.seed, np.arange(design.draws)
    kernels.calibrated.simulate(problem.model, laws, charges, *about, out, spare := np.zeros(design.draws))
    return out, spare


def test_the_order_statistic_is_that_of_all_draws():
    """Only some draws get good multipliers; the result is as if all of them had."""
    setting = setting_of(VARIANTS["by step"])
    counts = random_counts(setting, 4, most=2000, dense=1.0)
    design = whole_design(counts, SHARES, draws=500, seed=3)
    result = calibrated_bound(counts, design)
    out, spare = all_draws(counts, design, result)
    assert result.quantile == np.sort(out)[design.rank - 1]
    assert result.rank == design.rank
    assert np.median(out) < result.quantile <= out.max()
    assert result.mean == pytest.approx(out.mean(), rel=0.03)
    assert kstest(spare, "uniform").pvalue > 1e-3  # and it has nothing to do with the deviances, as far as a correlation tells
    assert abs(np.corrcoef(spare, out)[0, 1]) < 0.2


def test_with_a_price_the_order_statistic_is_that_of_sums():
    """What sets miss is drawn by plain bisection of its tail here."""
    counts, apart = small_example(draws=1000)
    shares = apart.shares
    design = replace(apart, price=(dearest := calibrated_bound(counts, apart).dearest) * 1.5)
    assert dearest > 0.0
    result = calibrated_bound(counts, design)
    out, spare = all_draws(counts, design, result)
    level, missed = shares.quantile + shares.support, []
    for u in spare:
        low, high = 0.0, 100.0
        for _ in range(60):
            x = 0.5 * (low + high)
            low, high = (x, high) if level / (shares.quantile + shares.support * math.exp(x)) >= u else (low, x)
        missed.append(low)
    rank = calibrated.order_rank(1000, level, shares.draws)
    assert result.quantile == pytest.approx(np.sort(out + design.price * np.array(missed))[rank - 1], rel=1e-9)
    assert result.missing == 0.0
    assert result.quantile < result.value < result.quantile * (1 + 1e-9)
    cheap = calibrated_bound(counts, replace(design, price=dearest / 2))  # the data show a larger price
    assert cheap.value == pytest.approx(2 * cheap.quantile, rel=1e-9)
    older = {name: value for name, value in apart.to_dict().items() if name != "price"}
    assert design.digest() != apart.digest() == Design.from_dict(older).digest()


def test_restarts_take_of_the_level_but_not_all():
    design = replace(small_example()[1], price=1.0)
    shares, u = design.shares, np.array([0.1, 0.5, 0.9])
    assert design.level() == pytest.approx(shares.quantile + shares.support)
    assert design.level(2.0) == pytest.approx(shares.quantile + shares.support * math.exp(-2.0))
    assert design.level(1e4) == shares.quantile
    for outside in (0.0, 2.0):
        x = design.missed(u, outside)
        tail = design.level(outside) / (shares.quantile + shares.support * np.exp(x - outside))
        assert tail == pytest.approx(u, rel=1e-9)


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch):
    setting = setting_of(VARIANTS["by step"])
    counts = random_counts(setting, 4, most=2000, dense=1.0)
    design = whole_design(counts, SHARES, draws=777, seed=3)
    results = []
    for number in (1, 2, 5):
        monkeypatch.setattr(kernels, "processors", lambda number=number: number)
        results.append(calibrated_bound(counts, design))
    assert len({(r.value, r.quantile, r.mean) for r in results}) == 1
    assert calibrated_bound(counts, replace(design, seed=4)).value != results[0].value


# --- Golden values ---


def small_example(draws=4000, seed=0):
    """H = 5, S = 4, A = 2: every law has 1000 samples, 300 and 700 of two successors."""
    setting = ar.Setting(n_states=4, n_actions=2, horizon=5, initial_state=0)
    flows = []
    for h, s in itertools.product(range(4), range(4)):
        for a, (one, other) in enumerate([((s + 1) % 4, (s + 3) % 4), ((s + 2) % 4, s)]):
            flows += [(h, s, a, one, 300), (h, s, a, other, 700)]
    counts = ar.Counts(setting)
    counts.add_flows(np.array(flows))
    return counts, whole_design(counts, Shares(0.082, 0.005, 0.005, 0.003, 0.005), budget=0.95, draws=draws, seed=seed)


def test_golden_example():
    counts, design = small_example()
    result = calibrated_bound(counts, design)
    assert result.quantile == pytest.approx(0.181373, rel=0.015)
    assert result.mean == pytest.approx(all_draws(counts, design, result)[0].mean(), rel=0.03)
    assert all_draws(counts, design, result)[0].mean() == pytest.approx(0.134359, rel=0.01)
    assert result.missing == pytest.approx(0.022309, abs=1e-6)
    assert result.value == pytest.approx(result.quantile + result.missing)
    assert result.violated == 0


def test_golden_functional():
    """All deviances equal to 1 in the same example; and two states, H = 3, K/m = 0.01, where it is a sum of two roots."""
    counts, design = small_example()
    problem = assemble(counts, design, nothing_restarted(design))
    c = np.full(len(problem.m), 1e-3)
    laws = calibrated._laws(problem, design)
    flat, _ = calibrated.smallest(problem.model, laws, CHARGES(c, np.sqrt(c / 2), 0 * c), counts.setting)
    assert flat == pytest.approx(0.137435, abs=1e-5)

    setting = ar.Setting(n_states=2, n_actions=1, horizon=3, initial_state=0)
    counts = ar.Counts(setting)
    counts.add_flows(np.array([(h, s, 0, x, 50) for h in range(2) for s in range(2) for x in range(2)]))
    problem = assemble(counts, design := whole_design(counts, SHARES), nothing_restarted(design))
    c = np.full(len(problem.m), 0.01)
    laws = calibrated._laws(problem, design)
    found, _ = calibrated.smallest(problem.model, laws, CHARGES(c, np.sqrt(c / 2), 0 * c), setting)
    assert found == pytest.approx(math.sqrt(0.005) + math.sqrt(0.01), abs=1e-5)


def test_more_samples_and_wider_sets():
    """A bound shrinks with the quotas, about like a square root, and grows with superfluous symbols."""
    counts, design = small_example(draws=1000)
    design = replace(design, price=calibrated.SPARE * calibrated_bound(counts, design).dearest)
    large = replace(design, quota=design.quota * 100)
    forecast, value = forecast_bound(counts, design, 500).value, calibrated_bound(counts, design).value
    assert forecast == pytest.approx(value, rel=0.1)
    assert forecast != value  # its random numbers are others, so that the seed of a design stays fresh
    assert 0.07 * value < forecast_bound(counts, large, 500).value < 0.1 * value  # what sets miss falls faster
    wide = whole_design(counts, design.shares, {(0, 0, 0): [0]}, budget=0.95, draws=1000)
    assert calibrated_bound(counts, wide).quantile > calibrated_bound(counts, design).quantile


def test_without_data_for_the_start_nothing_is_known():
    setting = setting_of({"discount": 0.5})
    counts = random_counts(setting, 0)
    design = whole_design(counts, SHARES)
    without = Design(
        **{**design.to_dict(), **{name: getattr(design, name)[design.step >= 0] for name in ("step", "state", "action", "quota")},
           "budget": design.budget[design.step >= 0], "shares": SHARES,
           "first": np.cumsum([0, *design.size[design.step >= 0]]),
           "symbols": design.symbols[(design.step >= 0)[design.row_of_symbol]]}
    )  # fmt: skip
    assert calibrated_bound(counts, without).value == pytest.approx(setting.sigma[-1])


def test_unsure_starts_cost_their_first_reward():
    setting = setting_of({"hidden_masks": True, "initial": (0.5, 0, 0, 0.5)})
    counts = random_counts(setting, 0)
    design = whole_design(counts, SHARES)
    certain = calibrated_bound(counts, design)
    assert certain.value >= 0.5 + certain.quantile


# --- Designs ---


def good(**changes):
    about = {
        "step": [0, 0], "state": [0, 0], "action": [0, 1], "quota": [10, 20], "budget": [0.9, 0.9],
        "first": [0, 2, 2], "symbols": [0, 1], "shares": Shares.of(0.1),
    }  # fmt: skip
    return Design(**{**about, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"quota": [10]}, "quota of the design has 1 entries: 2 are needed."),
        ({"quota": [10, 0]}, "quotas of the design have to be at least 1"),
        ({"quota": [10, 0.5]}, "quota of the design has to be a list of whole numbers."),
        ({"quota": [[10, 1]]}, "quota of the design has to be a list of whole numbers."),
        ({"quota": np.array([1, 2**63], np.uint64)}, "too large"),
        ({"budget": [0.9, 1.0]}, "a budget of the design is 1.0: it has to be strictly between 0 and 1."),
        ({"budget": [0.9, math.nan]}, "not a finite number"),
        ({"first": [0, 2, 3]}, "first of the design has to rise from 0"),
        ({"first": [0, 3, 2]}, "first of the design has to rise from 0"),
        ({"symbols": [1, 1]}, "the set of the law of state 0 with action 0 at step 0 has outcome 1 twice: list it once."),
        ({"symbols": [1, -1]}, "negative"),
        ({"action": [0, 0]}, "the design has the law of state 0 with action 0 at step 0 twice: a law has one quota."),
        ({"step": [0, -2]}, "below -1"),
        ({"step": [0, -1]}, "the law of the initial state, step -1 of the design, has to have state 0 and action 0."),
        ({"shares": 0.1}, "shares is 0.1: it has to be a Shares"),
        ({"draws": 0}, "draws is 0: it has to be from 1"),
        ({"draws": 20}, "draws is 20: with the shares 0.082 for the quantile and 0.003 for the simulation, that is too few"),
        ({"draws": 2.5}, "draws is 2.5: it has to be a whole number."),
        ({"seed": -1}, "seed is -1"),
        ({"max_restarts": -1}, "max_restarts is -1: it cannot be negative."),
        (
            {"step": [], "state": [], "action": [], "quota": [], "budget": [], "first": [0], "symbols": []},
            "the design has no rows",
        ),
    ],
)
def test_designs_that_are_refused(changes, words):
    with pytest.raises(ValueError, match=r"\.$") as error:
        good(**changes)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("changes", "options", "words"),
    [
        ({}, {"n_actions": 1}, "the design has action 1: in this setting they go to 0."),
        ({"step": [4, 0]}, {}, "the design has step 4: in this setting they go to 3."),
        ({"step": [1, 0]}, {"stationary": True}, "the design has step 1: in this setting they go to 0."),
        ({"symbols": [0, 4]}, {}, "the design has outcome 4: in this setting they go to 3."),
        ({"step": [-1, 0]}, {"initial_state": 0}, "the law of the initial state, but the setting says what it is: leave it out."),
        ({"step": [-1, 0], "symbols": [0, 5]}, {"terminal": "outcome"}, "in which no episode can start."),
        ({}, {"absorbing_states": (0,)}, "state 0 with action 0 at step 0, which is known to be absorbing or illegal"),
        ({}, {"illegal_actions": ((0, 1),)}, "state 0 with action 1 at step 0, which is known to be absorbing or illegal"),
    ],
)
def test_designs_that_do_not_fit_the_setting(changes, options, words):
    with pytest.raises(ValueError, match=r"\.$") as error:
        good(**changes).check(setting_of(options))
    assert words in str(error.value)


@pytest.mark.parametrize("values", [(0.0, 0.1, 0.1, 0.1, 0.1), (0.5, 0.5, 0.0, 0.1, 0.0), (0.1, 0.1, -0.1, 0.1, 0.1)])
def test_shares_that_are_refused(values):
    with pytest.raises(ValueError, match=r"share.*\.$"):
        Shares(*values)


def test_shares_of_delta():
    assert 0.1 * (1 - 1e-12) < Shares.of(0.1).delta <= 0.1
    assert Shares(0.1, 0.1, 0.0, 0.1, 0.0).delta == pytest.approx(0.3)


def test_designs_as_plain_values():
    design = good(seed=5, max_restarts=2)
    again = Design.from_dict(design.to_dict())
    assert again.digest() == design.digest()
    assert again.shares == design.shares
    for changes in ({"quota": [10, 21]}, {"symbols": [1, 0]}, {"seed": 6}, {"budget": [0.9, 0.8]}, {"shares": Shares.of(0.2)}):
        assert good(**{"seed": 5, "max_restarts": 2, **changes}).digest() != design.digest()
    for broken, words in (
        ({**design.to_dict(), "shares": np.ones(4)}, "4 shares"),
        ({**design.to_dict(), "quotas": 1}, "perhaps 'quota' is meant"),
        ({"step": [0]}, "the design has no state"),
    ):
        with pytest.raises(ValueError, match=words):
            Design.from_dict(broken)
    with pytest.raises(ValueError, match="read-only"):
        design.quota[0] = 3


# --- What is refused, what is violated, and what starts again ---


def two_rows():
    """State 0 with two actions: 10 samples of {0, 1}, and 20 that a union bound covers."""
    counts = ar.Counts(ar.Setting(n_states=3, n_actions=2, horizon=2, initial_state=0))
    counts.add_flows(np.array([(0, 0, 0, 0, 4), (0, 0, 0, 1, 6), (0, 0, 1, 2, 20)]))
    return counts


def test_quotas_have_to_be_exact():
    counts = two_rows()
    assert calibrated_bound(counts, good(draws=2000)).value <= 1.0 + 1e-14
    for flow, found in ((0, 0, 0, 1, 1), "11"), ((0, 0, 1, 1, 1), "21"):
        more = counts.copy()
        more.add_flows(np.array([flow]))
        with pytest.raises(ValueError, match=f"has {found} counted samples.*nothing is certified unless every law.*quota"):
            calibrated_bound(more, good())
    with pytest.raises(ValueError, match="has 0 counted samples"):
        calibrated_bound(ar.Counts(counts.setting), good())


def test_declared_states_are_not_estimated():
    counts = ar.Counts(ar.Setting(n_states=3, n_actions=2, horizon=2, initial_state=0))
    counts.declare_absorbing([0])
    with pytest.raises(ValueError, match="known to be absorbing"):
        calibrated_bound(counts, good())


def test_other_laws_are_stops():
    """Data of laws without a row change nothing."""
    counts, design = two_rows(), good()
    value = calibrated_bound(counts, design).value
    counts.add_flows(np.array([(1, 1, 0, 1, 500), (0, 2, 0, 2, 10**6)]))
    assert calibrated_bound(counts, design).value == value


def test_violated_rows_are_charged_by_the_union_bound():
    counts = two_rows()
    design = good(symbols=[0, 2], draws=2000, budget=[0.75, 0.9])
    result = calibrated_bound(counts, design)
    assert result.violated == 1
    assert result.missing == 0.0  # no calibrated row is left
    union = good(first=[0, 0, 0], symbols=[], draws=2000)
    assert result.quantile == pytest.approx(calibrated_bound(counts, union).quantile)
    nothing = good(symbols=[0, 2], draws=2000, shares=Shares(0.08, 0.005, 0.005, 0.003, 0.0))
    assert calibrated_bound(counts, nothing).value == pytest.approx(1.0)


def test_violations_and_restarts_spend_the_budget():
    setting = ar.Setting(n_states=5, n_actions=2, horizon=2, initial_state=0)
    counts = ar.Counts(setting)
    counts.add_flows(np.array([(0, 0, 0, 0, 400), (0, 0, 0, 1, 600), (0, 0, 1, 2, 1000)]))
    about = {"quota": [1000, 1000], "first": [0, 2, 3], "symbols": [0, 1, 2], "budget": [0.5, 0.8], "max_restarts": 2}
    design, shares = good(**about), Shares.of(0.1)
    plain = calibrated_bound(counts, design)
    assert plain.missing == pytest.approx(math.log(1 / shares.support) / (0.5 * 1000))
    fewer = good(**{**about, "first": [0, 1, 2], "symbols": [0, 2]})
    once = calibrated_bound(counts, fewer, [(0, 1)])
    assert once.missing == pytest.approx((math.log(1 / shares.support) + math.log(2)) / 500)
    assert once.quantile == plain.quantile
    twice = calibrated_bound(counts, good(**{**about, "first": [0, 1, 2], "symbols": [1, 2]}), np.array([(0, 3), (0, 0)]))
    assert twice.missing == pytest.approx((math.log(1 / shares.support) + 2 * math.log(2)) / 500)
    full = good(**{**about, "first": [0, 5, 10], "symbols": [*range(5), *range(5)], "shares": Shares(0.08, 0.005, 0, 0.003, 0)})
    assert calibrated_bound(counts, full).missing == 0.0
    assert calibrated_bound(counts, good(**{**about, "shares": Shares(0.08, 0.005, 0, 0.003, 0)})).missing == math.inf

    with pytest.raises(ValueError, match="has a sample outside its set after 1 of 2 restarts: it has to start again"):
        calibrated_bound(counts, fewer, [(0, 3)])
    assert calibrated_bound(counts, replace(fewer, max_restarts=1), [(0, 3)]).violated == 1
    for wrong, words in (
        ([(0, 1), (0, 3), (0, 4)], "has 3 restarts: max_restarts of the design is 2."),
        ([(2, 1)], "a row that the design does not have"),
        ([(0, 0)], "has outcome 0 twice"),
        ([(0, 1, 1)], "rows of two whole numbers"),
        ([(0, 9)], "outcome 9"),
    ):
        with pytest.raises(ValueError, match=words):
            calibrated_bound(counts, fewer, wrong)

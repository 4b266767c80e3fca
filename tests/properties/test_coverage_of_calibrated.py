"""Calibrated certificates hold as often as they say, and each part of them is needed.

What can fail is simulated with a large delta, or summed up exactly. Every part of the bound is switched off in turn: the lattice
shifts, the robust part, the budget for mass outside the sets, apart and simulated, the price of a restart, the order statistic.
More then fails than is allowed, so that these tests would notice if one of them were missing.

It watches `docs/theory.md`, 14.1, 14.2, 14.3, 14.4, 14.5, 14.6 and 14.9.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, multinomial, norm

import anyreward as ar
from anyreward import kernels
from anyreward.certificates import calibrated
from anyreward.certificates.calibrated import Design, Shares, assemble, calibrated_bound, order_rank
from anyreward.certificates.deviances import brackets, deviance_limit

from ..helpers.calibrated_reference import deviance, stages, tail_bound
from ..helpers.coverage import allowed


def rows_of_one_state(A, m, sets, shares, setting, **options):
    """A design for state 0 at step 0: every action has m samples and the same set."""
    step, K = np.zeros(A, int), len(sets)
    return setting, Design(
        step, step, np.arange(A), np.full(A, m), np.full(A, 0.9), np.arange(A + 1) * K, np.tile(sets, A), shares, **options
    )


def filled(setting, N, sets):
    """Counts of state 0 at step 0: N[a, i] samples of sets[i] with action a."""
    counts = ar.Counts(setting)
    counts.add_flows(np.array([(0, 0, a, x, N[a, i]) for a in range(len(N)) for i, x in enumerate(sets) if N[a, i]], np.int64))
    return counts


# --- One law, exactly ---


def adversaries(N, limit, rng, number):
    """Laws on the edge of what counts N allow: all of them have the deviance `limit`, or nearly."""
    m, found = sum(N), []
    p_hat = np.array(N) / m
    while len(found) < number:
        far, low, high = rng.dirichlet(np.full(len(N), 0.3)), 0.0, 1.0
        if (far < 1e-9).any() or deviance(N, far) <= limit:
            continue
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if deviance(N, p_hat + middle * (far - p_hat)) <= limit else (low, middle)
        found.append(p_hat + low * (far - p_hat))
    return found


def largest_excess(m, k, limit, samples, shifted, seed=0):
    """How much larger P(K >= x) is than in the simulated law, at most: over counts, over laws that they allow, and over x."""
    rng, ends, worst = np.random.default_rng(seed), brackets(limit), -1.0
    outcomes = np.array([N for N in itertools.product(range(m + 1), repeat=k - 1) if sum(N) <= m])
    outcomes = np.column_stack([outcomes, m - outcomes.sum(axis=1)])
    grid = norm.isf(np.arange(1, 401) / 800)  # |N(0, 1)| at the lower ends of 400 equally likely parts
    for N in outcomes[rng.permutation(len(outcomes))[:samples]].tolist():
        shift = np.array(stages(N, limit, ends.tolist())) if shifted else np.zeros((k - 1, len(ends)))
        drawn = np.zeros(1)
        for stage in shift:  # the law of the sum of the stages, from below
            values = np.array([kernels.calibrated.stage_deviance(y, stage, ends) for y in grid])
            drawn = np.sort(np.add.outer(drawn, values).reshape(-1))
        for p in adversaries(N, limit, rng, 4):
            K = np.array([deviance(one, p) for one in outcomes.tolist()])
            order = np.argsort(K)
            at_least = np.cumsum(multinomial.pmf(outcomes[order], m, p)[::-1])[::-1]
            first = np.r_[True, np.diff(K[order]) > 1e-9] & (K[order] <= limit) & (K[order] > 1e-9)
            tail = 1 - np.searchsorted(drawn, K[order][first] * (1 - 1e-9)) / len(drawn)
            if k == 2 and shifted:
                tail = np.array([tail_bound(float(x), shift[0].tolist(), ends.tolist()) for x in K[order][first]])
            worst = max(worst, float((at_least[first] - tail).max(initial=-1.0)))
    return worst


@pytest.mark.parametrize(("m", "k", "samples"), [(30, 2, 31), (150, 2, 60), (16, 3, 30), (40, 3, 12)])
def test_the_simulated_law_dominates_the_deviance_of_every_law_that_the_counts_allow(m, k, samples):
    """Step (iv) of the proof for one row, by exact sums; and it fails without lattice shifts."""
    limit = deviance_limit(k, 0.2)
    resolution = 1e-9 if k == 2 else 0.01
    assert largest_excess(m, k, limit, samples, shifted=True) <= resolution
    assert largest_excess(m, k, limit, samples, shifted=False) > 0.03 + resolution


# --- The functional: lattice shifts, the robust part, and how sharp it is ---


def failures_of_one_step(A, m, q, shares, runs, draws=2000):
    """How often the functional at the true deviances is above its bound. H = 2: it is the root of the largest deviance."""
    setting, design = rows_of_one_state(
        A, m, [0, 1], shares, ar.Setting(n_states=2, n_actions=A, horizon=2, initial_state=0), draws=draws
    )
    rng, failed = np.random.default_rng(0), 0
    for N in rng.multinomial(m, [q, 1 - q], size=(runs, A)):
        K = max(deviance(one, [q, 1 - q]) for one in N.tolist())
        failed += math.sqrt(K / (2 * m)) > calibrated_bound(filled(setting, N, [0, 1]), design).quantile
    return failed


def test_without_lattice_shifts_the_quantile_is_too_small(monkeypatch):
    """50 laws with 40 samples: the largest deviance is one of few numbers, and the normal law would cut just below one of them.

    Without shifts the bound does not depend on the data, so that the probability of a failure is a sum.
    """
    A, m, q, runs = 50, 40, 0.5, 150
    shares, setting = Shares(0.42, 0.005, 0.0, 0.005, 0.0), ar.Setting(n_states=2, n_actions=A, horizon=2, initial_state=0)
    assert failures_of_one_step(A, m, q, shares, runs) <= allowed(shares.delta, runs)

    original, finite = calibrated._laws, []

    def laws(problem, design):
        found = original(problem, design)
        finite.append(np.isfinite(found.shift[:, 0]).all())
        return found._replace(shift=0.0 * np.ones_like(found.shift))

    monkeypatch.setattr(calibrated, "_laws", laws)
    _, design = rows_of_one_state(A, m, [0, 1], shares, setting, draws=50_000)
    bound = calibrated_bound(filled(setting, np.full((A, 2), m // 2), [0, 1]), design).quantile
    above = sum(binom.pmf(n, m, q) for n in range(m + 1) if math.sqrt(deviance([n, m - n], [q, 1 - q]) / (2 * m)) > bound)
    assert finite == [True]  # there were shifts that could be left out
    assert 1 - (1 - above) ** A > shares.delta + 0.1


def test_with_many_samples_the_quantile_is_sharp():
    """With 20,000 samples the shifts are small: it fails nearly as often as it may."""
    shares, runs = Shares(0.4, 0.01, 0.0, 0.02, 0.0), 600
    failed = failures_of_one_step(1, 20000, 0.5, shares, runs)
    assert binom.ppf(1e-7, runs, 0.33) < failed <= allowed(shares.delta, runs)


def failures_of_risky_actions(runs):
    """How often the functional at the true deviances is above its bound.

    Each of 50 actions leads, with the same probability, to a state about which nothing is known. The worst policy takes the
    action for which this *looks* most likely, and just there the deviance is large.
    """
    A, m, q, H = 50, 2000, 0.5, 6
    shares, sets = Shares(0.4, 0.01, 0.01, 0.02, 0.0), [1, 2]
    setting = ar.Setting(n_states=3, n_actions=A, horizon=H, initial_state=0, absorbing_states=(2,))
    _, design = rows_of_one_state(A, m, sets, shares, setting)
    rng, failed = np.random.default_rng(0), 0
    for N in rng.multinomial(m, [q, 1 - q], size=(runs, A)):
        counts = filled(setting, N, sets)
        c = np.array([0.0, *(deviance(one, [q, 1 - q]) / m for one in N.tolist())])
        charges = kernels.calibrated.Charges(c, np.sqrt(c / 2), 0 * c)
        problem = assemble(counts, design, np.zeros(A, np.int64))
        exact, _ = calibrated.smallest(problem.model, calibrated._laws(problem, design), charges, setting)
        failed += exact > calibrated_bound(counts, design).quantile
    return failed, allowed(shares.delta, runs)


def test_without_the_robust_part_the_quantile_is_too_small(monkeypatch):
    """A plain bootstrap, with the empirical model for the true one, does not see that its model and its deviances go together."""
    failed, most = failures_of_risky_actions(80)
    assert failed <= most
    original = calibrated._laws
    monkeypatch.setattr(calibrated, "_laws", lambda *about: (found := original(*about))._replace(tau=found.tau - 2.0))
    failed, most = failures_of_risky_actions(80)  # with a negative radius nothing is tilted
    assert failed > most


# --- Mass outside the sets ---


def true_error(setting, P, P_hat, start, start_hat):
    """The largest error over all policies and rewards, exactly: sums of total variations of what rewards can depend on.

    P and P_hat are (H, S, A, S). A reward depends on (s, a), or on (s, a, s') if it is paid on arrival.
    """
    H, S, A = setting.horizon, setting.n_states, setting.n_actions
    worst = 0.0
    for choice in itertools.product(range(A), repeat=H * S):
        policy, total = np.array(choice).reshape(H, S), 0.0
        one, other = start, start_hat
        for h in range(H):
            now, now_hat = (x[:, None] * kernel[h, np.arange(S), policy[h]] for x, kernel in ((one, P), (other, P_hat)))
            difference = now - now_hat if setting.arrival_rewards else one - other
            total += setting.discount**h * np.maximum(difference, 0.0).sum()
            one, other = now.sum(axis=0), now_hat.sum(axis=0)
        worst = max(worst, total)
    return worst


def random_problem(setting, m, rng, hidden):
    """A random model, counts of m samples of each of its laws, and sets that have what was seen in a scouting of the same size.

    `hidden` is the probability of one successor of every law.
    """
    H, S, A = setting.horizon, setting.n_states, setting.n_actions
    laws = [(h, s, a) for h in range(H if setting.arrival_rewards else H - 1) for s in range(S) for a in range(A)]
    if setting.stationary:
        laws = [(0, s, a) for s in range(S) for a in range(A)]
    laws += [(-1, 0, 0)] if setting.estimates_start else []
    P, flows, sets = {}, [], []
    for law in laws:
        P[law] = np.r_[rng.dirichlet(np.ones(S - 1)) * (1 - hidden), hidden]
        scouted, counted = rng.multinomial(m, P[law]), rng.multinomial(m, P[law])
        sets.append(np.flatnonzero(scouted).tolist())
        flows += [(*law, x, n) for x, n in enumerate(counted) if n]
    counts = ar.Counts(setting)
    counts.add_flows(np.array(flows, np.int64))
    return P, counts, laws, sets


IN_SETTINGS = pytest.mark.parametrize(
    "options",
    [
        {"initial_state": 0},
        {"initial_state": 0, "stationary": True},
        {"discount": 0.8},
        {"arrival_rewards": True, "initial_state": 0, "horizon": 2},
    ],
    ids=["by step", "stationary", "discount and estimated start", "rewards on arrival"],
)
WITH_AMOUNTS = pytest.mark.parametrize(("m", "hidden"), [(60, 0.02), (2000, 0.0005)])


def errors_and_bounds(options, m, hidden, shares, runs, **design_options):
    """The worst error and the bound of whole certificates of random models, with one successor of each law that is so rare that
    scouting often misses it."""
    setting = ar.Setting(**{"n_states": 3, "n_actions": 2, "horizon": 3, **options})
    H, S, A = setting.horizon, setting.n_states, setting.n_actions
    rng = np.random.default_rng(1)
    for _ in range(runs):
        P, counts, laws, sets = random_problem(setting, m, rng, hidden)
        design = Design(
            *np.array(laws).T, np.full(len(laws), m), np.full(len(laws), 0.9), np.cumsum([0, *map(len, sets)]),
            np.array([x for one in sets for x in one]), shares, draws=500, **design_options,
        )  # fmt: skip
        seen = counts.columns()
        P_hat = {law: np.zeros(S) for law in laws}
        for h, s, a, x, n in zip(*(seen[name].tolist() for name in ("h", "s", "a", "next", "count")), strict=True):
            P_hat[(h, s, a) if h >= 0 else (-1, 0, 0)][x] = n / m
        full = [np.zeros((H, S, A, S)), np.zeros((H, S, A, S))]
        for array, of in zip(full, (P, P_hat), strict=True):
            for h, s, a in itertools.product(range(H), range(S), range(A)):
                array[h, s, a] = of.get((0 if setting.stationary else h, s, a), np.eye(S)[0])
        starts = [of.get((-1, 0, 0), np.eye(S)[0]) for of in (P, P_hat)]
        yield true_error(setting, *full, *starts), calibrated_bound(counts, design).value


@IN_SETTINGS
@WITH_AMOUNTS
def test_no_policy_and_no_reward_has_a_larger_error(options, m, hidden):
    shares, runs = Shares(0.4, 0.02, 0.03, 0.02, 0.03), 25
    failed = sum(error > bound for error, bound in errors_and_bounds(options, m, hidden, shares, runs))
    assert failed <= allowed(shares.delta, runs)


def test_without_a_budget_for_missed_successors_too_much_is_certified():
    """One law with one expected outcome, which nearly always is the only one that is seen."""
    setting = ar.Setting(n_states=3, n_actions=1, horizon=2, initial_state=0)
    shares, m, runs = Shares(0.05, 0.05, 0.3, 0.05, 0.05), 50, 200
    _, design = rows_of_one_state(1, m, [1], shares, setting)
    rng, p, failed, unbudgeted = np.random.default_rng(0), 0.1 / m, 0, 0
    for N in rng.multinomial(m, [1 - p, p], size=(runs, 1)):
        result = calibrated_bound(filled(setting, N, [1, 2]), design)
        failed += abs(N[0, 1] / m - p) > result.value
        unbudgeted += abs(N[0, 1] / m - p) > result.quantile
    assert failed <= allowed(shares.delta, runs) < unbudgeted


def test_the_budget_is_sharp():
    """One law, whose missed mass is just above what the budget allows: it stays unseen with nearly the share of delta."""
    setting, m, runs = ar.Setting(n_states=3, n_actions=1, horizon=2, initial_state=0), 200, 2000
    shares = Shares(0.05, 0.05, 0.3, 0.05, 0.05)
    setting, design = rows_of_one_state(1, m, [1], shares, setting)
    clean = calibrated_bound(filled(setting, np.array([[m, 0]]), [1, 2]), design).missing
    p = clean * 1.001
    failed = np.random.default_rng(0).binomial(m, p, size=runs) == 0
    assert failed.mean() > 0.2
    assert failed.sum() <= allowed(shares.support, runs)


def test_the_budget_is_sharp_with_a_price(monkeypatch):
    """The same if what is missed is simulated: there are no deviances here, so all of the bound is what the budget allows."""
    setting, m, runs = ar.Setting(n_states=3, n_actions=1, horizon=2, initial_state=0), 200, 2000
    shares = Shares(0.05, 0.05, 0.3, 0.05, 0.05)
    setting, design = rows_of_one_state(1, m, [1], shares, setting, price=1 / (0.9 * m), draws=20_000)
    counts, most = filled(setting, np.array([[m, 0]]), [1, 2]), allowed(shares.quantile + shares.support, runs)

    def unseen():
        return (np.random.default_rng(0).binomial(m, calibrated_bound(counts, design).value * 1.001, size=runs) == 0).sum()

    assert 0.2 * runs < unseen() <= most
    monkeypatch.setattr(Design, "missed", lambda self, uniform, outside: 0.0 * uniform)
    assert unseen() > most


@pytest.mark.parametrize("nats", [0.4, 1.2])
def test_deviances_and_what_is_missed_are_simulated_together(nats):
    """Together they are above their common quantile no more often than allowed.

    One action has two successors that are expected and, with the probability of `nats` / m, a third one.
    """
    m, runs, sets, shares = 60, 2000, [0, 1], Shares(0.05, 0.02, 0.4, 0.02, 0.0)
    setting = ar.Setting(n_states=3, n_actions=1, horizon=2, initial_state=0)
    _, design = rows_of_one_state(1, m, sets, shares, setting, price=1 / (0.9 * m), draws=1000)
    rng, missed, failed, bounds = np.random.default_rng(0), -math.expm1(-nats / m), 0, {}
    for inside, ones in zip(rng.binomial(m, 1 - missed, runs), rng.binomial(m, 0.5, runs), strict=True):
        if inside < m:
            continue  # violated: a union bound, far above
        if ones not in bounds:
            bounds[ones] = calibrated_bound(filled(setting, np.array([[m - ones, ones]]), sets), design).quantile
        failed += math.sqrt(deviance([m - ones, ones], [0.5, 0.5]) / m / 2) + missed > bounds[ones]
    assert failed <= allowed(shares.quantile + shares.support, runs)


def failures_of_restarts(runs, charged=True, price=0.0):
    """How often a law with 300 rare successors, whose set grew by restarts until a block was clean, misses too much.

    With a price, too much is what the common event says.
    """
    S, m, r, support = 302, 100, 0.5, 0.3
    setting = ar.Setting(n_states=S, n_actions=1, horizon=2, initial_state=0)
    outside = 2.5 / m
    p = np.r_[0.0, 1 - outside, np.full(S - 2, outside / (S - 2))]
    shares = Shares(0.05, 0.05, support, 0.05, 0.0)
    design = Design([0], [0], [0], [m], [r], [0, 1], [1], shares, draws=200, max_restarts=S, price=price)
    rng, failed = np.random.default_rng(0), 0
    for _ in range(runs):
        members, restarts = {1}, []
        while True:
            block = rng.choice(S, size=m, p=p)
            new = next((int(x) for x in block if int(x) not in members), None)
            if new is None:
                break
            members.add(new)
            restarts.append((0, new))
        if price:
            budget = design.budget_for(-math.log(1 - r) * len(restarts) if charged else 0.0)
            failed += -r * m * math.log(p[sorted(members)].sum()) > budget
            continue
        flows = [(0, 0, 0, x, n) for x, n in zip(*np.unique(block, return_counts=True), strict=True)]
        counts = ar.Counts(setting)
        counts.add_flows(np.array(flows, np.int64))
        missing = calibrated_bound(counts, design, restarts).missing if charged else -math.log(support) / (r * m)
        failed += 1 - p[sorted(members)].sum() > missing
    return failed, allowed(support + (shares.quantile if price else 0.0), runs)


@pytest.mark.parametrize("price", [0.0, 0.01], ids=["apart", "together"])
def test_restarts_have_a_price(price):
    failed, most = failures_of_restarts(150, price=price)
    assert failed <= most
    failed, most = failures_of_restarts(150, charged=False, price=price)
    assert failed > most


# --- The simulation itself ---


def test_without_the_order_statistic_the_simulation_is_too_small_every_other_time(monkeypatch):
    """For given data the result is to be above the quantile of the simulated law, but for a share of the seeds."""
    A, m, J, seeds = 3, 500, 300, 300
    shares = Shares(0.3, 0.02, 0.0, 0.05, 0.0)
    setting = ar.Setting(n_states=2, n_actions=A, horizon=2, initial_state=0)
    counts = filled(setting, np.array([[200, 300], [250, 250], [100, 400]]), [0, 1])
    _, exact = rows_of_one_state(A, m, [0, 1], shares, setting, draws=200_000, seed=10**6)
    monkeypatch.setattr(calibrated, "order_rank", lambda draws, level, failure: math.ceil((1 - level) * draws))
    quantile = calibrated_bound(counts, exact).quantile

    def too_small():
        designs = (rows_of_one_state(A, m, [0, 1], shares, setting, draws=J, seed=seed)[1] for seed in range(seeds))
        return sum(calibrated_bound(counts, design).quantile < quantile for design in designs)

    assert too_small() > 5 * allowed(shares.draws, seeds) / 2
    monkeypatch.setattr(calibrated, "order_rank", order_rank)
    assert too_small() <= allowed(shares.draws, seeds)

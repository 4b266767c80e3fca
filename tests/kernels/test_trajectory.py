"""The trajectory certificate: its backward pass, its multipliers and its rounding, against loops in 50 digits.

It watches `docs/theory.md`, 4.2, 5.1 and 5.2.
"""

import itertools
import math
from dataclasses import replace
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import anyreward as ar
from anyreward.certificates.bounds import TightBound

from ..helpers.bounds import GivenRadii
from ..helpers.problems import data, seeds
from ..helpers.reference import known_start
from ..helpers.tight_reference import Problem, steps_that_matter, theorem, trajectory


def random_radii(counts, seed, low=-12.0, high=0.0):
    """A KL radius for each row, and a TV radius around Pinsker's: so that all three ways to charge a row are used."""
    rng, size = np.random.default_rng(seed), len(counts.table.n)
    c = np.exp(rng.uniform(low, high, size))
    return c, np.minimum(1.0, np.sqrt(c / 2) * np.exp(rng.uniform(-2.0, 2.0, size)))


def two_states(H, c=0.01, tau=1.0, discount=1.0):
    """S = 2, A = 1, p_hat = (1/2, 1/2) everywhere, the same radii everywhere."""
    setting = ar.Setting(n_states=2, n_actions=1, horizon=H, initial_state=0, discount=discount)
    states = np.array([[0, *path] for path in itertools.product([0, 1], repeat=H)])
    counts = ar.Counts.from_episodes(states, np.zeros((len(states), H), int), setting)
    size = len(counts.table.n)
    return counts, GivenRadii(np.full(size, c), np.full(size, tau))


def policies(setting):
    """All deterministic policies that can differ in what they meet."""
    S, A, H = setting.n_states, setting.n_actions, setting.horizon
    free = [
        (h, s)
        for h in range(steps_that_matter(setting))
        for s in range(S)
        if h > 0 or known_start(setting) is None or known_start(setting)[s]
    ]
    for actions in itertools.product(range(A), repeat=len(free)):
        policy = np.zeros((H, S), int)
        for (h, s), a in zip(free, actions, strict=True):
            policy[h, s] = a
        yield policy


# --- Values that can be worked out by hand ---


def test_golden():
    """H = 3, c everywhere: sqrt(c/2) at the second step and sqrt(2c/2) at the third."""
    counts, bound = two_states(3)
    assert bound(counts, 0.1) == pytest.approx(math.sqrt(0.005) + math.sqrt(0.01), rel=1e-6)
    assert bound(counts, 0.1) >= math.sqrt(0.005) + math.sqrt(0.01)


@pytest.mark.parametrize("discount", [1.0, 0.9, 0.3])
@pytest.mark.parametrize("H", [2, 3, 5])
def test_root_of_the_sum_and_not_sum_of_the_roots(H, discount):
    """sum_j gamma^j sqrt(j c / 2), which for gamma = 1 is (2/3) H^1.5 sqrt(c/2) and not H^2/2 sqrt(c/2)."""
    counts, bound = two_states(H, c=1e-3, discount=discount)
    expected = sum(discount**j * math.sqrt(j * 1e-3 / 2) for j in range(1, H))
    assert expected <= bound(counts, 0.1) <= expected * (1 + 1e-4)


def test_with_two_steps_it_is_the_tv_radius():
    """One transition matters: gamma times the largest TV radius, and the KL chain cannot be better."""
    counts, bound = two_states(2, c=0.01, tau=0.06, discount=0.8)
    assert bound(counts, 0.1) == pytest.approx(0.8 * 0.06, rel=1e-12)


@pytest.mark.parametrize("S", [1, 2])
def test_with_one_step_there_is_nothing_to_estimate_but_a_random_start(S):
    known = ar.Setting(n_states=S, n_actions=2, horizon=1, initial_state=0)
    states, actions = np.zeros((9, 2), int), np.zeros((9, 1), int)
    assert TightBound()(ar.Counts(known), 0.1) == 0.0
    assert TightBound()(ar.Counts.from_episodes(states, actions, known), 0.1) == 0.0
    random = ar.Setting(n_states=S, n_actions=2, horizon=1)
    counts = ar.Counts.from_episodes(states, actions, random)
    details = TightBound().details(counts, 0.1)
    assert details.value == pytest.approx(details.tv[0], rel=1e-9)
    # One law, log S + log(1/delta) nats after one sample and less than that for each further one: TV is 1 - exp(-c).
    assert (details.value > 0) == (S > 1)


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("discount", [1.0, 0.7])
def test_without_data_it_is_the_trivial_bound(stationary, discount):
    options = {"n_states": 3, "n_actions": 2, "horizon": 4, "discount": discount, "stationary": stationary}
    powers = discount ** np.arange(4)
    assert TightBound()(ar.Counts(ar.Setting(**options, initial_state=1)), 0.1) == pytest.approx(powers[1:].sum(), rel=1e-10)
    assert TightBound()(ar.Counts(ar.Setting(**options)), 0.1) == pytest.approx(powers.sum(), rel=1e-10)


# --- Any data ---


@pytest.mark.slow
@settings(max_examples=80)
@given(data(), st.booleans(), seeds)
def test_it_is_the_formula_for_its_multipliers_and_never_below(problem, arrival_rewards, seed):
    setting, states, actions = problem
    counts = ar.Counts.from_episodes(states, actions, replace(setting, arrival_rewards=arrival_rewards))
    radii, tv = random_radii(counts, seed)
    details = GivenRadii(radii, tv).details(counts, 0.1)
    with localcontext(prec=50):
        exact, _ = trajectory(Problem(counts, radii, tv), details.multipliers)
        assert exact <= Decimal(details.value) <= exact * (1 + Decimal("1e-9"))


@pytest.mark.slow
@settings(max_examples=60)
@given(data(max_episodes=25), st.booleans(), seeds)
def test_every_choice_of_multipliers_bounds_the_theorem_for_every_policy(problem, arrival_rewards, seed):
    """What is valid is the theorem, with roots; linearised by any multipliers, its maximum over policies only grows."""
    setting, states, actions = problem
    setting = replace(setting, arrival_rewards=arrival_rewards)
    counts = ar.Counts.from_episodes(states, actions, setting)
    radii, tv = random_radii(counts, seed, low=-7.0)
    rng = np.random.default_rng(seed)
    some = list(policies(setting)) if setting.n_actions ** (setting.horizon * setting.n_states) <= 64 else None
    with localcontext(prec=30):
        dense = Problem(counts, radii, tv)
        for lam in (np.exp(rng.uniform(-6, 1, setting.horizon)), GivenRadii(radii, tv).details(counts, 0.1).multipliers):
            phi, choice = trajectory(dense, lam)
            tried = some or [rng.integers(0, setting.n_actions, (setting.horizon, setting.n_states)) for _ in range(30)]
            assert max(theorem(dense, policy, choice) for policy in tried) <= phi * (1 + Decimal("1e-25"))


@pytest.mark.parametrize("seed", range(6))
def test_the_search_is_about_as_good_as_a_general_optimiser(seed):
    """A trap: multipliers that go to 0 while everything stops. Nelder-Mead from many places finds nothing 2% better."""
    rng = np.random.default_rng(seed)
    setting = ar.Setting(n_states=3, n_actions=2, horizon=4, initial_state=None if seed % 2 else 0, discount=(1.0, 0.8)[seed % 2])
    states, actions = rng.integers(0, 3, (200, 5)), rng.integers(0, 2, (200, 4))
    if setting.initial_state is not None:
        states[:, 0] = 0
    counts = ar.Counts.from_episodes(states, actions, setting)
    radii, _ = random_radii(counts, seed, low=-8.0, high=-6.0)
    tv = np.sqrt(radii / 2)
    found = GivenRadii(radii, tv).details(counts, 0.1)
    assert found.multipliers[1:].all()
    problem, first = Problem(counts, radii, tv), int(setting.initial_state is not None)

    def phi(logs):
        return float(trajectory(problem, np.concatenate([[0.0] * first, np.exp(logs)]))[0])

    with localcontext(prec=17):
        for scale in (0.01, 0.3):
            best = minimize(phi, np.full(4 - first, math.log(scale)), method="Nelder-Mead", options={"maxfev": 120})
            assert found.value <= 1.02 * best.fun


@pytest.mark.slow
@settings(max_examples=60)
@given(data(), st.booleans(), seeds)
def test_never_above_the_tv_recursion(problem, arrival_rewards, seed):
    setting, states, actions = problem
    counts = ar.Counts.from_episodes(states, actions, replace(setting, arrival_rewards=arrival_rewards))
    radii, tv = random_radii(counts, seed)
    recursion = GivenRadii(radii, tv, trajectory=False).details(counts, 0.1)
    assert GivenRadii(radii, tv)(counts, 0.1) <= recursion.value
    assert not recursion.multipliers.any()
    with localcontext(prec=50):
        exact, choice = trajectory(Problem(counts, radii, tv), np.zeros(setting.horizon))
        assert exact <= Decimal(recursion.value) <= exact * (1 + Decimal("1e-9"))
        assert set(choice.values()) <= {"stop", "tv"}


@settings(max_examples=40)
@given(data(), seeds, st.floats(1.0, 10.0))
def test_larger_balls_never_give_a_smaller_bound(problem, seed, factor):
    """Up to what the search leaves undone."""
    setting, states, actions = problem
    counts = ar.Counts.from_episodes(states, actions, setting)
    radii, tv = random_radii(counts, seed)
    larger = GivenRadii(factor * radii, np.minimum(1.0, factor * tv))
    assert GivenRadii(radii, tv)(counts, 0.1) <= larger(counts, 0.1) * 1.02


@pytest.mark.parametrize("tiny", [1e-300, 1e-30, 1e-12])
def test_tiny_and_zero_radii(tiny):
    """Radii of 0 are certainty: what is left is nothing, and nothing is nan. Tiny ones stay above the exact expression."""
    counts, bound = two_states(4, c=0.0, tau=0.0)
    assert bound(counts, 0.1) == 0.0
    counts, bound = two_states(4, c=tiny, tau=math.sqrt(tiny / 2))
    expected = sum(math.sqrt(j * tiny / 2) for j in range(1, 4))
    assert min(expected, 6 * math.sqrt(tiny / 2)) <= bound(counts, 0.1) <= 6.1 * math.sqrt(tiny / 2)
    counts, bound = two_states(4, c=1e300, tau=1.0)
    assert bound(counts, 0.1) == pytest.approx(3.0)


@pytest.mark.parametrize("random_start", [False, True])
@pytest.mark.parametrize("arrival_rewards", [False, True])
def test_discounts_that_underflow(arrival_rewards, random_start):
    """0.5^1099 is 0 as a float. What is earned so late is nothing, and the bound is that of a shorter horizon."""
    values = []
    for H in (60, 1000, 1100):
        setting = ar.Setting(
            n_states=2, n_actions=1, horizon=H, discount=0.5, stationary=True, arrival_rewards=arrival_rewards,
            initial_state=None if random_start else 0,
        )  # fmt: skip
        rows = {"h": [-1, 0, 0, 0, 0], "s": [0, 0, 0, 1, 1], "a": [0] * 5, "next": [0, 0, 1, 0, 1], "count": [10, 5, 5, 5, 5]}
        counts = ar.Counts.from_columns(setting, rows)
        size = len(counts.table.n)
        values.append(GivenRadii(np.full(size, 1e-4), np.ones(size))(counts, 0.1))
    first = random_start + arrival_rewards  # laws that stand behind the first reward
    expected = sum(0.5**j * math.sqrt((j + first) * 1e-4 / 2) for j in range(60))
    assert all(expected * (1 - 1e-9) <= value <= 1.05 * expected for value in values)

"""The tight bound: its radii, its options, how it compares with the paper's, and what keeps it.

It watches `docs/theory.md`, 5.3, 23.1 and 23.2.
"""

from dataclasses import replace
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import anyreward as ar
from anyreward import kernels
from anyreward.certificates.bounds import PaperBound, TightBound, relevant_laws
from anyreward.testing import random_episodes

from ..helpers.problems import data, deltas, random_mdp, seeds
from ..helpers.problems import settings as some_settings
from ..helpers.tight_reference import Joint, Problem, dense, on_radii, per_row, radius, relevant, trajectory

SETTING = ar.Setting(n_states=3, n_actions=2, horizon=3, initial_state=0)
VARIANTS = [
    {},
    {"stationary": True},
    {"discount": 0.8},
    {"initial_state": None},
    {"initial_state": None, "initial": ((0, 0.25), (2, 0.75))},
    {"arrival_rewards": True},
    {"stationary": True, "initial_state": None, "discount": 0.5, "arrival_rewards": True},
    {"stationary": True, "initial_state": None, "initial": ((0, 0.5), (1, 0.5)), "arrival_rewards": True},
]


def some_counts(setting=SETTING, episodes=60, seed=0):
    return ar.Counts.from_episodes(*random_episodes(setting, episodes, seed), setting)


def times(counts, factor):
    """The same frequencies from `factor` times as many episodes."""
    columns = counts.columns()
    columns.pop("evidence", None)
    return ar.Counts.from_columns(counts.setting, {**columns, "count": factor * columns["count"]})


# --- Against the paper's ---


@pytest.mark.slow
@settings(max_examples=120)
@given(data(max_episodes=300), st.floats(0, 9), st.booleans(), deltas)
def test_never_above_the_papers(problem, scale, arrival_rewards, delta):
    """On the same counts, few and many of them, scored or not, with every ingredient and without each of them."""
    setting, states, actions = problem
    counts = ar.Counts.from_episodes(states, actions, replace(setting, arrival_rewards=arrival_rewards))
    for data_ in (counts, times(counts, int(10**scale))):
        paper = PaperBound()(data_, delta)
        for options in ({}, {"transfer": False}, {"trajectory": False}, {"exact_tv": False}, {"threshold": "paper"}):
            assert 0 <= TightBound(**options)(data_, delta) <= paper


@pytest.mark.parametrize("S", [1, 2, 10, 300, 10**6])
@pytest.mark.parametrize("episodes", [1, 3, 100, 3000])
def test_never_above_the_papers_whatever_the_number_of_states(S, episodes):
    """Rows with one successor, with a new one every time, and between."""
    rng = np.random.default_rng(episodes)
    setting = ar.Setting(n_states=S, n_actions=2, horizon=3, initial_state=0)
    for few in (1, 5, S):
        states = rng.integers(0, min(few, S), (episodes, 4))
        states[:, 0] = 0
        counts = ar.Counts.from_episodes(states, rng.integers(0, 2, (episodes, 3)), setting)
        assert TightBound()(counts, 0.1) <= PaperBound()(counts, 0.1)


def test_far_below_the_papers_where_it_matters():
    """The double chain after 5e5 episodes for each of the two: an error of 1 of 19, where the paper's bound says nothing yet."""
    mdp = ar.envs.double_chain()
    counts = ar.explore(mdp, horizon=20, max_episodes=510_000, replan="geometric").counts
    assert TightBound()(counts, 0.1) < 1.0
    assert PaperBound()(counts, 0.1) > 12.0


# --- The parts ---


@given(some_settings(max_states=3, max_actions=2, max_horizon=4), st.booleans())
def test_delta_is_shared_by_the_laws_that_matter_and_no_others(setting, arrival_rewards):
    setting = replace(setting, arrival_rewards=arrival_rewards)
    assert relevant_laws(setting) == len(list(relevant(setting)))


@pytest.mark.slow
@settings(max_examples=50)
@given(data(), st.floats(0, 8), st.sampled_from([None, 4]), st.booleans(), deltas)
def test_radii_are_the_formula_and_never_below(problem, scale, K, arrival_rewards, delta):
    setting, states, actions = problem
    setting = replace(setting, arrival_rewards=arrival_rewards)
    counts = times(ar.Counts.from_episodes(states, actions, setting), int(10**scale))
    starts, n = dense(counts)
    radii, tv = TightBound(max_successors=K).radii(counts, delta)
    by_pair, tv_by_pair = per_row(counts, radii), per_row(counts, tv)
    for law in relevant(setting):
        N = starts if law is None else n[law]
        exact = radius(N, setting, on_radii(setting, delta), K, start=law is None)
        c, tau = (radii[0], tv[0]) if law is None else (by_pair[law], tv_by_pair[law])
        if exact is None:
            assert c == tau == 0.0
        else:
            assert exact <= Decimal(c) <= exact * (1 + Decimal("1e-12")) + Decimal("2e-8") / int(N.sum())
            assert 0 <= tau <= min(1.0, np.sqrt(c / 2) * (1 + 1e-8))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_whole_bound_in_50_digits(variant):
    """From counts to bound: not below the formula for its multipliers, and above by a part in 10^9 at most.

    But for kl(eta, 1/2), which is interpolated: by less than h/e in the first and the last of its cells of width h.
    """
    jointly = 0
    for seed in range(12):
        setting = replace(SETTING, **{"horizon": 4, **variant})
        counts = times(some_counts(setting, 5 * 4 ** (seed % 4), seed), 10 ** (2 * (seed % 5)))
        details = TightBound().details(counts, 0.1)
        with localcontext(prec=50):
            joint = Joint.of(counts, details, 0.1)
            exact, _ = trajectory(Problem(counts, details.radii, details.tv), details.multipliers, joint)
            above = exact * Decimal("1e-9") + 4 * Decimal(details.u) / 2780
            assert exact <= Decimal(details.value) <= exact + above
        jointly += details.u > 0
    assert jointly >= 3 or variant.get("stationary") or variant.get("horizon", 4) <= 2


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_bound_goes_to_zero_like_one_over_the_root_of_n(variant):
    counts = some_counts(replace(SETTING, **variant), 2000)
    small, large = (TightBound()(times(counts, factor), 0.1) for factor in (10**4, 10**6))
    assert 8.0 < small / large < 10.0  # but for the logarithm in the threshold


@pytest.mark.slow
@given(data(), deltas, deltas)
def test_more_confidence_needs_a_larger_bound(problem, one, other):
    setting, states, actions = problem
    counts = ar.Counts.from_episodes(states, actions, setting)
    assert TightBound()(counts, max(one, other)) <= TightBound()(counts, min(one, other)) * (1 + 1e-3)


def test_ingredients_each_help_on_the_chain():
    """By how much is in the theory: the trajectory, the mixture over supports, transfer; and exact TV radii in the recursion."""
    counts = ar.explore(ar.envs.double_chain(), horizon=10, max_episodes=20_000, replan="geometric").counts

    def bound(**options):
        return TightBound(**options)(counts, 0.1)

    assert bound() < 0.95 * bound(transfer=False)
    assert bound(transfer=False) < 0.5 * bound(transfer=False, threshold="paper")
    assert bound() < 0.8 * bound(trajectory=False)
    assert bound(trajectory=False) < 0.8 * bound(trajectory=False, exact_tv=False)


# --- A known number of successors ---


def test_a_number_of_successors_that_is_not_true_is_refused():
    counts = some_counts(episodes=200)
    assert counts.widest_pair[2] == 3
    with pytest.raises(ValueError, match=r"max_successors is 2, but state \d with action \d has 3 observed successors"):
        ar.certify(counts, max_successors=2)
    assert ar.certify(counts, max_successors=3).error_bound < ar.certify(counts).error_bound


def test_deterministic_is_a_name_for_one_successor():
    """The same bound, the same printed assumption; data of which a pair has two successors are refused."""
    states, actions = random_episodes(SETTING, 40, 1)
    counts = ar.Counts.from_episodes((states[:, :1] + np.arange(4)) % 3, actions, SETTING)
    named, numbered = ar.certify(counts, deterministic=True), ar.certify(counts, max_successors=1)
    assert named == numbered
    assert named.error_bound < ar.certify(counts).error_bound
    assert named.assumptions[-1] == "every transition is deterministic"
    assert "every transition is deterministic" in str(named)
    ends = replace(SETTING, terminal="outcome")
    assert TightBound(1).assumptions(ends)[0].endswith("deterministic, and so is whether it terminates the episode")
    assert TightBound(2).assumptions(ends)[0].endswith("terminating there count as two")
    with pytest.raises(ValueError, match=r"deterministic is True, which is max_successors=1, but state \d with action \d has"):
        ar.certify(some_counts(episodes=200), deterministic=True)
    with pytest.raises(ValueError, match="deterministic is True, but max_successors is 2"):
        ar.certify(counts, deterministic=True, max_successors=2)
    with pytest.raises(ValueError, match="deterministic is not an option of the bounds 'paper'"):
        ar.certify(counts, bounds="paper", deterministic=True)
    with pytest.raises(ValueError, match=r"write bounds=TightBound\(max_successors=1\)"):
        ar.certify(counts, bounds=TightBound(), deterministic=True)
    with pytest.raises(ValueError, match="deterministic is 'no'"):
        ar.certify(counts, deterministic="no")


def test_a_run_that_shows_more_successors_than_promised_is_stopped():
    with pytest.raises(ValueError, match="observed successors: leave it out"):
        ar.explore(random_mdp(3, 2, seed=0), horizon=3, max_episodes=500, max_successors=2)


def test_the_start_may_have_more_outcomes_than_a_pair_has_successors():
    setting = ar.Setting(n_states=4, n_actions=1, horizon=2)
    states = np.array([[s, (s + 1) % 4, 0] for s in range(4)] * 50)
    counts = ar.Counts.from_episodes(states, np.zeros((200, 2), int), setting)
    details = TightBound(max_successors=1).details(counts, 0.1)
    assert details.radii[0] == TightBound().details(counts, 0.1).radii[0]
    # With one successor and that one seen, a pair is known for certain; the start law is what is left.
    assert not details.tv[1:].any()
    assert details.value == pytest.approx(2 * details.tv[0], rel=1e-9)


@pytest.mark.parametrize("K", [4, 10**9, 10**15])
def test_a_number_above_that_of_the_states_says_nothing_more(K):
    counts = some_counts()
    assert TightBound(max_successors=K)(counts, 0.1) == TightBound(max_successors=3)(counts, 0.1)


def test_it_is_knowledge_of_the_user_that_pays():
    counts = ar.explore(ar.envs.double_chain(), horizon=10, max_episodes=5_000, stationary=True, replan="geometric").counts
    assert TightBound(max_successors=2)(counts, 0.1) < 0.85 * TightBound()(counts, 0.1)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"max_successors": 0}, "max_successors is 0"),
        ({"max_successors": -3}, "max_successors is -3"),
        ({"max_successors": 2.5}, "max_successors is 2.5"),
        ({"threshold": "best"}, "threshold is 'best'"),
        ({"clip": True}, "'clip' is not an option"),
        ({"bounds": "tighter"}, "bounds is 'tighter'"),
    ],
)
def test_options_that_are_refused(options, names):
    with pytest.raises(ValueError, match=names):
        ar.certify(some_counts(), **options)


# --- What is not computed again, and what need not be computed ---


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(VARIANTS), st.lists(st.integers(1, 40), min_size=2, max_size=6), seeds, st.sampled_from([None, 3]))
def test_radii_of_rows_that_grow_are_those_of_the_same_counts_afresh(variant, parts, seed, K):
    """Bit for bit, whatever was asked before and whenever: rows without new observations keep theirs, unless evidence is open."""
    setting, bound, other = replace(SETTING, **variant), TightBound(max_successors=K), TightBound(joint=False)
    counts, rng = ar.Counts(setting, transfer=True), np.random.default_rng(seed)
    states, actions = random_episodes(setting, sum(parts), seed)
    for i, part in enumerate(parts):
        begin = sum(parts[:i])
        counts.add_episodes(*counts.checked(states[begin : begin + part], actions[begin : begin + part]))
        afresh = ar.Counts.from_state(setting, counts.state(), transfer=True)
        asked = other if rng.random() < 0.2 else bound
        for mine, new in zip(asked.radii(counts, 0.1), asked.radii(afresh, 0.1), strict=True):
            used = counts.n_nodes * setting.n_actions
            np.testing.assert_array_equal(mine[:used], new[:used])
        assert bound(counts, 0.1) == bound(afresh, 0.1)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(VARIANTS), st.integers(1, 3000), seeds, deltas, st.sampled_from([None, 3]), st.booleans())
def test_a_look_with_few_radii_is_one_with_all_of_them(variant, episodes, seed, delta, K, transfer):
    """Bit for bit, and both of them leave radii behind that are those of the same counts afresh."""
    setting, bound = replace(SETTING, **variant), TightBound(max_successors=K, transfer=transfer)
    counts = times(some_counts(setting, 1 + episodes % 50, seed), 1 + episodes // 50)
    afresh = ar.Counts.from_state(setting, counts.state(), transfer=counts.transfer)
    details = bound.details(afresh, delta)
    assert bound(counts, delta) == details.value
    found = bound.row_radii(counts, delta, False, kernels.radii.LEAST)
    rows = counts.n_nodes * setting.n_actions
    assert (found.tv[:rows] <= details.tv[:rows]).all()
    marked = found.exact[:rows] > 0
    np.testing.assert_array_equal(found.tv[:rows][marked], details.tv[:rows][marked])
    np.testing.assert_array_equal(bound.radii(counts, delta)[1][:rows], details.tv[:rows])


def test_a_look_computes_few_radii():
    """Where multipliers are better than total variation radii alone, few of these are computed; otherwise all of them."""
    # With two steps, the last one does not matter: a third of its rows, and more, are not asked for.
    long = ar.explore(ar.envs.double_chain(), 20, max_episodes=20_000, progress=False).counts
    for counts, least, most in ((long, 0.0, 0.1), (times(some_counts(replace(SETTING, horizon=2)), 300), 0.3, 1.0)):
        bound = TightBound(transfer=False)
        bound(counts, 0.1)
        visits = counts.table.n[: counts.n_nodes * counts.setting.n_actions]
        exact = bound.row_radii(counts, 0.1, False, kernels.radii.LEAST).exact[: len(visits)].copy()
        assert least <= exact[visits > 0].mean() <= most
        assert bound.details(counts, 0.1).multipliers.any() == (counts is long)


def highest(bound, counts, delta):
    """The largest goal, about, that the bound is said to be certainly above."""
    goals = [g for g in np.geomspace(1e-4, 4.0, 60) if bound.is_above(counts, delta, g)]
    return max(goals, default=0.0)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(VARIANTS), st.integers(1, 3000), seeds, st.floats(-4, 1), st.floats(-7, 1), deltas)
def test_no_multipliers_bring_the_bound_below_what_it_is_certain_to_be_above(variant, episodes, seed, scale, log_u, delta):
    """Against the backward pass in 50 digits, for the multipliers that were found and for any others."""
    setting, bound, rng = replace(SETTING, **variant), TightBound(), np.random.default_rng(seed)
    counts = times(some_counts(setting, 1 + episodes % 50, seed), 1 + episodes // 50)
    details, least = bound.details(counts, delta), highest(bound, counts, delta)
    assert bound(counts, delta) == details.value
    assert least < details.value
    problem = Problem(counts, details.radii, details.tv)
    joint = Joint.of(counts, replace(details, u=np.exp(log_u)), delta) if not setting.stationary else Joint()
    lam = np.exp(scale + rng.normal(size=setting.horizon)) * (rng.random() < 0.9)
    with localcontext(prec=50):
        assert trajectory(problem, lam, joint)[0] > least


def test_what_the_bound_is_certain_to_be_above_is_worth_knowing():
    """It is a good part of the bound, in each of its variants, in the beginning and later on."""
    for variant in VARIANTS:
        for factor in (1, 100):
            counts = times(some_counts(replace(SETTING, **variant), 50), factor)
            bound = TightBound()(counts, 0.1)
            assert highest(TightBound(), counts, 0.1) > (0.4 if counts.setting.stationary else 0.2) * bound
    few, one = some_counts(SETTING, 1), ar.Counts(SETTING)
    for counts in (few, one):
        assert TightBound().is_above(counts, 0.1, 2.0, SETTING.horizon)  # the largest that it can be: no radii are computed
        assert TightBound()(counts, 0.1) == TightBound().details(counts, 0.1).value >= 2.0


# --- Sizes at the edge ---


@settings(max_examples=50)
@given(some_settings(max_states=2, max_actions=2, max_horizon=3), seeds, st.integers(0, 3), deltas)
@example(ar.Setting(n_states=1, n_actions=1, horizon=1), 0, 0, 0.1)
@example(ar.Setting(n_states=1, n_actions=1, horizon=3, initial_state=0), 0, 3, 0.1)
@example(ar.Setting(n_states=2, n_actions=1, horizon=2, discount=1e-12), 0, 3, 0.1)
@example(ar.Setting(n_states=2, n_actions=1, horizon=3, discount=1e-200, initial_state=0), 0, 3, 0.1)
def test_hardly_any_data(setting, seed, episodes, delta):
    """Between 0 and what can be earned, and 0 exactly if there is one state only."""
    bound = TightBound()(some_counts(setting, episodes, seed), delta)
    most = setting.sigma[-1] - (0.0 if setting.estimates_start else 1.0)
    assert 0.0 <= bound <= most * (1 + 1e-12) + 1e-12
    if setting.n_states == 1 and episodes:
        # No two laws on one state differ, but a pair that was not visited is not looked at so closely.
        visited = (dense(some_counts(setting, episodes, seed))[1].sum(-1) > 0).all()
        assert bound == 0.0 or not visited


def test_a_million_states_of_which_few_are_seen():
    setting = ar.Setting(n_states=10**6, n_actions=1, horizon=3, initial_state=0)
    states = np.array([[0, 1, 2, 3], [0, 999_999, 5, 6]] * 100_000)
    counts = ar.Counts.from_episodes(states, np.zeros((200_000, 3), int), setting)
    details = TightBound(transfer=False).details(counts, 0.1)
    # log(laws / delta) + log C(S, 2) + 2 log 2 + log(n)/2 + O(1) nats for the first law, over 2e5 samples.
    level = np.log(1e6 * 10 + 10) + np.log(1e6 * (1e6 - 1) / 2) + 2 * np.log(2) + np.log(2e5) / 2
    assert details.radii[1] * 2e5 == pytest.approx(level, abs=1.5)
    assert details.value < 0.05
    assert PaperBound()(counts, 0.1) > 1.9


def test_long_horizons_and_wide_rows():
    rng = np.random.default_rng(0)
    setting = ar.Setting(n_states=60, n_actions=1, horizon=40, initial_state=0, stationary=True)
    states = rng.integers(0, 60, (20_000, 41))
    states[:, 0] = 0
    counts = ar.Counts.from_episodes(states, np.zeros((20_000, 40), int), setting)
    assert counts.widest_pair[2] == 60
    assert TightBound()(counts, 0.1) < 0.5 * PaperBound()(counts, 0.1)


# --- Certificates ---


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("options", [{}, {"transfer": False}, {"max_successors": 3}])
def test_a_certificate_of_data_from_elsewhere_can_be_checked_again(variant, options):
    counts = some_counts(replace(SETTING, **variant))
    certificate = ar.certify(counts, delta=0.05, epsilon=1.0, **options)
    assert certificate.bounds == "tight"
    assert certificate.error_bound == TightBound(**options)(counts, 0.05)
    assert certificate.options.items() >= options.items()
    assert certificate.check(counts)
    assert certificate.check(counts.copy())
    assert not certificate.check(some_counts(counts.setting, 61))
    for forged in (
        replace(certificate, epsilon=0.99 * certificate.epsilon),
        replace(certificate, delta=0.01),
        replace(certificate, options={**certificate.options, "max_successors": 3 if "max_successors" not in options else None}),
    ):
        assert not forged.check(counts)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_file_keeps_the_certificate_bit_for_bit(tmp_path, variant):
    options = {key: value for key, value in variant.items() if key not in ("initial_state",)}
    mdp = random_mdp(3, 2, seed=4, random_start="initial_state" in variant)
    if "initial" in options:
        options["initial"] = mdp.initial
    atlas = ar.explore(mdp, horizon=3, max_episodes=150, max_successors=np.int64(3), **options)
    atlas.save(tmp_path / "some.atlas")
    again = ar.load(tmp_path / "some.atlas")
    assert again.certificate == atlas.certificate
    assert again.counts == atlas.counts
    assert again.certificate.check(again.counts)
    assert again.error_bound == atlas.error_bound


def test_merging_keeps_evidence_and_certifies_afresh():
    mdp = ar.envs.double_chain()
    parts = [ar.explore(mdp, horizon=10, max_episodes=20_000, replan="geometric", seed=seed) for seed in (1, 2)]
    both = parts[0] | parts[1]
    assert both.counts.transfer
    assert both.episodes == 40_000
    assert both.error_bound == TightBound()(parts[0].counts + parts[1].counts, 0.1)
    assert both.error_bound < min(part.error_bound for part in parts)
    assert both.error_bound < TightBound(transfer=False)(both.counts, 0.1)  # the evidence is worth something
    assert both.certificate.check(both.counts)
    assert (parts[1] | parts[0]).error_bound == pytest.approx(both.error_bound, rel=1e-9)


def test_atlases_with_other_options_do_not_merge():
    mdp = ar.envs.double_chain(5)
    one, other = (ar.explore(mdp, horizon=3, max_episodes=20, max_successors=K) for K in (2, None))
    with pytest.raises(ValueError, match="options"):
        one | other


def test_the_same_counts_give_the_same_bound_in_any_order_of_discovery():
    """Rows and edges are numbered as they are found; the certificate does not depend on it, but for the last digits."""
    states, actions = random_episodes(SETTING, 50, 3)
    forward, backward = (ar.Counts.from_episodes(states[::d], actions[::d], SETTING) for d in (1, -1))
    assert TightBound(transfer=False)(forward, 0.1) == pytest.approx(TightBound(transfer=False)(backward, 0.1), rel=1e-12)

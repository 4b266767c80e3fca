"""The error bound: its formula, its rounding, and whether it is true.

It watches `docs/theory.md`, 2.1.
"""

import json
from dataclasses import replace
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import anyreward as ar
from anyreward.certificates.bounds import PaperBound
from anyreward.certificates.thresholds import paper_beta
from anyreward.environments.tabular import play as play_model
from anyreward.testing import random_episodes

from ..helpers import reference
from ..helpers.problems import by_step, data, deltas, random_mdp, seeds

SETTING = ar.Setting(n_states=3, n_actions=2, horizon=3, initial_state=0)


def error_bound(counts, delta, clip=True):
    return PaperBound(clip)(counts, delta)


def some_counts(setting=SETTING, episodes=50, seed=0):
    return ar.Counts.from_episodes(*random_episodes(setting, episodes, seed), setting)


@pytest.mark.slow
@given(data(), deltas, st.booleans())
def test_the_bound_is_the_formula(problem, delta, clip):
    setting, states, actions = problem
    counts = ar.Counts.from_episodes(states, actions, setting)
    _, expected = reference.rf_ucrl(*reference.dense_counts(states, actions, setting), setting, delta, clip)
    assert error_bound(counts, delta, clip) == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.slow
@settings(max_examples=40)
@given(data(max_episodes=200), deltas, st.booleans())
def test_the_bound_is_rounded_to_the_safe_side(problem, delta, clip):
    """Against the same formula in 50 digits: never below, and above by a part in 10^10 at most."""
    setting, states, actions = problem
    counts = ar.Counts.from_episodes(states, actions, setting)
    with localcontext(prec=50):
        _, exact = reference.rf_ucrl(*reference.dense_counts(states, actions, setting), setting, delta, clip, number=Decimal)
        bound = Decimal(error_bound(counts, delta, clip))
        assert exact <= bound <= exact * (1 + Decimal("1e-10"))


@pytest.mark.slow
@given(data(), deltas, st.booleans())
def test_more_of_the_same_data_never_hurts(problem, delta, clip):
    """Twice the data leaves p_hat as it is and makes every radius smaller."""
    setting, states, actions = problem
    counts = ar.Counts.from_episodes(states, actions, setting)
    assert error_bound(counts + counts, delta, clip) <= error_bound(counts, delta, clip)


@pytest.mark.slow
@given(data(), deltas)
def test_clipping_never_hurts_and_stays_within_the_trivial_bound(problem, delta):
    setting, states, actions = problem
    counts = ar.Counts.from_episodes(states, actions, setting)
    clipped, plain = (error_bound(counts, delta, clip) for clip in (True, False))
    sigma = setting.sigma
    trivial = sigma[-1] if setting.estimates_start else setting.discount * sigma[-2]
    assert 0 <= clipped <= plain
    assert clipped <= trivial * (1 + 1e-10)


def test_smaller_delta_needs_a_larger_bound():
    counts = some_counts(episodes=5_000)
    bounds = [error_bound(counts, delta, clip=False) for delta in (0.5, 0.1, 0.01, 1e-9)]
    assert bounds == sorted(bounds)
    assert len(set(bounds)) == 4


def within_the_ball(p_hat, radius, towards):
    """The farthest p between p_hat and another law with KL(p_hat, p) <= radius."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        inside = reference.kl(p_hat, (1 - middle) * p_hat + middle * towards) <= radius
        low, high = (middle, high) if inside else (low, middle)
    return (1 - low) * p_hat + low * towards


@pytest.mark.slow
@settings(max_examples=60)
@given(st.booleans(), st.sampled_from([1.0, 0.8]), st.none() | st.just(0), st.sampled_from([3, 30, 300]), deltas, seeds)
def test_it_bounds_every_policy_in_every_model_of_the_ball(stationary, gamma, start, episodes, delta, seed):
    """The paper's Lemma 1 itself: whatever p has KL(p_hat, p) <= beta(n)/n at every pair, no policy and no reward errs by more.

    Each row of p is pushed to the edge of its ball, towards one state; unvisited rows are anything. The worst reward for
    a policy is known in closed form (`reference.worst_error`), and all policies are tried.
    """
    S, A, H = 2, 2, 3
    setting = ar.Setting(n_states=S, n_actions=A, horizon=H, discount=gamma, stationary=stationary, initial_state=start)
    states, actions = random_episodes(setting, episodes, seed)
    starts, n = reference.dense_counts(states, actions, setting)
    initial_hat, P_hat = reference.empirical(starts, n, setting)
    rng = np.random.default_rng(seed)
    P = np.empty_like(P_hat)
    for h, s, a in np.ndindex(H, S, A):
        visits, towards = n[h, s, a].sum(), np.eye(S)[rng.integers(S)]
        if stationary and h > 0:
            P[h, s, a] = P[0, s, a]
        elif visits == 0:
            P[h, s, a] = towards
        else:
            P[h, s, a] = within_the_ball(P_hat[h, s, a], paper_beta(visits, setting, delta) / visits, towards)
    initial = initial_hat
    if start is None:
        initial = within_the_ball(initial_hat, paper_beta(episodes, setting, delta) / episodes, np.eye(S)[0])
    bound = error_bound(ar.Counts.from_episodes(states, actions, setting), delta)
    for policy in reference.policies(H, S, A):
        assert reference.worst_error(P_hat, initial_hat, P, initial, policy, gamma) <= bound


VARIANTS = {
    "step-dependent": {},
    "stationary": {"stationary": True},
    "discounted": {"discount": 0.7},
    "random start": {},
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_coverage(variant):
    """200 explorations: the bound fails, for any policy or reward and at any of the looks, in a share delta of them at most.

    If it failed with probability delta = 0.1, more failures than the quantile below would come up in fewer than 1 of 10^6
    seeds: a share of failures of 0.22 is noticed. Checked are all deterministic policies under their worst reward, and random
    ones under random rewards.
    """
    delta, runs, S, A, H = 0.1, 200, 2, 2, 3
    failures, informative = 0, 0
    for run in range(runs):
        rng = np.random.default_rng(run)
        mdp = random_mdp(S, A, seed=run, H=None if variant == "stationary" else H, random_start=variant == "random start")
        P, setting = by_step(mdp, H), mdp.setting(H, **VARIANTS[variant])
        explorer = ar.RFUCRL(setting, delta=delta, bounds="paper", seed=run)
        gamma, failed = setting.discount, False
        for episodes in (20, 200, 4_000):  # looks; the bound holds at all times at once
            while explorer.episodes < episodes:
                play_model(explorer, mdp, rng, episodes - explorer.episodes, goal=-1.0)
            model, bound = explorer.counts.model(), explorer.error_bound
            P_hat = np.array([model.expect(h, np.eye(S)[x]) for h in range(H) for x in range(S)])
            P_hat = np.moveaxis(P_hat.reshape(H, S, S, A), 1, -1)
            policy = rng.dirichlet(np.ones(A), (H, S))
            reward = rng.random((H, S, A))
            truth = mdp.initial @ reference.q_values(P, policy, reward, gamma)[1][0]
            guess = model.initial @ reference.q_values(P_hat, policy, reward, gamma)[1][0]
            failed |= abs(truth - guess) > bound
            for policy in reference.policies(H, S, A):
                failed |= reference.worst_error(P_hat, model.initial, P, mdp.initial, policy, gamma) > bound
        failures += failed
        informative += bound < 0.8 * setting.sigma[-1]
    assert failures <= binom.isf(1e-6, runs, delta)
    assert informative == runs, "a bound that says nothing cannot fail"


def test_a_certificate_says_what_it_is():
    counts = some_counts()
    certificate = ar.certify(counts, delta=0.2, bounds="paper", epsilon=5.0)
    assert certificate.epsilon == 2 * certificate.error_bound == 2 * error_bound(counts, 0.2)
    assert certificate.met  # a target above twice the trivial bound, gamma sigma_{H-1} = 2, is reached by any data
    assert (certificate.delta, certificate.target, certificate.episodes) == (0.2, 5.0, 50)
    assert (certificate.horizon, certificate.discount, certificate.stationary) == (3, 1.0, False)
    assert certificate.check(counts)
    for part in ("probability 0.8", "horizon 3", "step-dependent", "paper bounds", "50 episodes"):
        assert part in str(certificate)


def test_met_needs_a_target_that_is_reached():
    counts = some_counts()
    achieved = ar.certify(counts, bounds="paper").epsilon
    assert not ar.certify(counts, bounds="paper").met
    assert ar.certify(counts, bounds="paper", epsilon=achieved).met
    assert not ar.certify(counts, bounds="paper", epsilon=np.nextafter(achieved, 0)).met


def test_a_certificate_is_checked_against_its_counts():
    counts = some_counts()
    certificate = ar.certify(counts, bounds="paper", epsilon=1.0)
    assert not certificate.check(some_counts(seed=1))
    assert not certificate.check(ar.Counts.from_columns(replace(SETTING, discount=0.5), counts.columns()))
    assert not replace(certificate, epsilon=0.9 * certificate.epsilon).check(counts)
    assert not replace(certificate, met=True).check(counts)


def test_a_certificate_is_about_rewards_of_any_range(tmp_path):
    """Values of rewards in [-5, 5] have ten times the error: of a plan for a reward in any range, it is the same as ever."""
    counts, reward = some_counts(), np.random.default_rng(1).random((3, 2))
    unit, wide = ar.certify(counts, epsilon=1.0), ar.certify(counts, epsilon=10.0, reward_range=(-5, 5))
    assert wide.epsilon == pytest.approx(10 * unit.epsilon, rel=1e-12)
    assert (wide.met, wide.says_nothing, wide.largest) == (unit.met, unit.says_nothing, 10 * unit.largest)
    assert "any reward of a step, state and action in [-5, 5]" in str(wide)
    ar.Atlas(counts, wide).save(tmp_path / "wide.atlas")
    again = ar.load(tmp_path / "wide.atlas")
    assert again.certificate == wide
    for pays, ends in ((reward, (0.0, 1.0)), (10 * reward - 5, (-5.0, 5.0)), (3 * reward, (0.0, 3.0))):
        one, two = (ar.Atlas(counts, it).plan(pays, ends) for it in (unit, wide))
        assert (one.lower, one.upper) == pytest.approx((two.lower, two.upper), abs=1e-9)
    assert not replace(wide, reward_range=(0.0, 20.0)).check(counts)
    assert not replace(wide, reward_range=(0.0, 1.0)).check(counts)
    assert not replace(unit, reward_range=(-5.0, 5.0)).check(counts)
    assert replace(wide, reward_range=(0.0, 10.0)).check(counts)  # which is as true


@pytest.mark.parametrize("ends", [(1, 0), (0, 0), (0, 1e-200), (-1e308, 1e308), (0, float("inf")), 3])
def test_a_range_has_two_ends(tmp_path, ends):
    with pytest.raises(ValueError, match="reward_range is"):
        ar.certify(some_counts(), reward_range=ends)
    if ends != 3:
        fields = json.loads(json.dumps(ar.certify(some_counts()).to_dict()))
        with pytest.raises(ValueError, match=r"reward_range is|damaged"):
            ar.Certificate.from_dict({**fields, "reward_range": list(ends)})


def test_a_certificate_survives_json():
    certificate = ar.certify(some_counts(), bounds="paper", epsilon=1.0)
    assert ar.Certificate.from_dict(json.loads(json.dumps(certificate.to_dict()))) == certificate


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, float("nan")])
def test_delta_has_to_be_a_probability(delta):
    with pytest.raises(ValueError, match="delta is"):
        ar.certify(some_counts(), delta=delta)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan")])
def test_a_target_has_to_be_positive(epsilon):
    with pytest.raises(ValueError, match="epsilon is"):
        ar.certify(some_counts(), bounds="paper", epsilon=epsilon)


def test_bounds_have_a_name():
    with pytest.raises(ValueError, match="bounds is 'loose': it has to be one of"):
        ar.certify(some_counts(), bounds="loose")


def test_nothing_is_known_without_data():
    """gamma sigma_{H-1} for a known start, the whole of sigma_H for an unknown one; 0 if there is one step only."""
    assert error_bound(ar.Counts(SETTING), 0.1) == pytest.approx(2.0, rel=1e-10)
    assert error_bound(ar.Counts(replace(SETTING, initial_state=None)), 0.1) == pytest.approx(3.0, rel=1e-10)
    assert error_bound(ar.Counts(replace(SETTING, horizon=1)), 0.1) == 0.0

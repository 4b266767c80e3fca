"""The alarm of a declared structure: its formula, how often it is false, and what it notices.

It watches `docs/theory.md`, 15.4.
"""

import itertools
import math

import numpy as np
import pytest

import anyreward as ar
from anyreward.data.alarm import log_evidence_of, log_kt, log_ml

from ..helpers.coverage import allowed
from ..helpers.structures import RUN, SERVICE, chain, plant


def test_a_golden_value():
    """Three contexts of one law with two outcomes, computed by somebody else."""
    assert log_evidence_of(np.array([[90.0, 10], [80, 20], [95, 5]])) == pytest.approx(-1.667380, abs=5e-7)


def test_predictions_one_after_the_other():
    """KT is the product of the predictions (N(x) + 1/2) / (n + K/2), in any order."""
    N, log_p = np.zeros(3), 0.0
    for x in [0, 2, 2, 1, 2, 0, 2]:
        log_p += math.log((N[x] + 0.5) / (N.sum() + 1.5))
        N[x] += 1
    assert float(log_kt(N)) == pytest.approx(log_p)
    assert log_ml(N) == pytest.approx(2 * math.log(2 / 7) + math.log(1 / 7) + 4 * math.log(4 / 7))


def test_contexts_that_were_never_visited_count():
    """The mean is over all contexts of the declaration: to count those alone that were visited would choose them by the data."""
    some = np.array([[30.0, 5], [10, 20]])
    padded = np.concatenate([some, np.zeros((5, 2))])
    assert log_evidence_of(some, 5) == pytest.approx(log_evidence_of(padded))


def test_its_expectation_is_at_most_one_under_any_order_of_sampling():
    """Summed over all data of six draws from two contexts, where what was seen chooses the context: the mean of e is below 1."""
    q, total = (0.7, 0.3), 0.0
    for draws in itertools.product((0, 1), repeat=6):
        N, p = np.zeros((2, 2)), 1.0
        for x in draws:
            z = 0 if N[0].sum() == 0 or N[0, 0] > N[0, 1] else 1  # stay with the first while it looks good
            N[z, x] += 1
            p *= q[x]
        total += p * math.exp(log_evidence_of(N))
    assert total <= 1.0


@pytest.mark.parametrize("alpha", [0.5, 0.1])
def test_false_alarms_are_as_rare_as_they_say(alpha):
    """Three pairs share a law; the next pair is the one that looks most different. With the largest likelihood of each context in
    place of KT, which is no martingale, most runs would raise a false alarm (checked below), so that this test has power."""
    rng, runs, alarms, wrong = np.random.default_rng(0), 200, 0, 0
    for _ in range(runs):
        N, alarm, wrong_alarm = np.zeros((3, 2)), False, False
        for _t in range(100):
            away = np.abs((N[:, 0] + 1) / (N.sum(axis=1) + 2) - (N[:, 0].sum() + 1) / (N.sum() + 2))
            N[int(away.argmax()) if rng.random() < 0.7 else rng.integers(3), int(rng.random() < 0.3)] += 1
            alarm |= log_evidence_of(N) >= -math.log(alpha)
            wrong_alarm |= sum(log_ml(n) for n in N) - log_ml(N.sum(axis=0)) >= -math.log(alpha)
        alarms += alarm
        wrong += wrong_alarm
    assert alarms <= allowed(alpha, runs)
    assert wrong > allowed(alpha, runs)


def model_of(slip):
    """The double chain whose slips are those of `slip(s, a)`."""
    P = np.zeros((31, 2, 31))
    for s, a in itertools.product(range(31), range(2)):
        left, right = max(s - 1, 0), min(s + 1, 30)
        P[s, a, (left, right)[a]] += 1 - slip(s, a)
        P[s, a, (right, left)[a]] += slip(s, a)
    return ar.TabularMDP(P, initial=15)


def test_a_false_sharing_ends_the_exploration_and_is_told():
    """State 15 slips three times as often as all others. The certificate then says nothing, and says why."""
    atlas = ar.explore(model_of(lambda s, a: 0.3 if s == 15 else 0.1), 20, epsilon=0.2, structure=chain())
    assert atlas.counts.shared.refuted
    assert not atlas.certificate.met
    assert atlas.certificate.says_nothing
    assert atlas.episodes < 5_000
    assert "THE DATA CONTRADICT THE STRUCTURE" in str(atlas.certificate)
    reward = np.linspace(0, 1, 31)
    plan = atlas.plan(reward)
    assert (plan.lower, plan.upper) == pytest.approx((0.5, 19.5))  # the reward of the first state, and anything after it
    assert "THE DATA CONTRADICT THE STRUCTURE" in str(plan)
    flat = atlas.counts.with_structure(None)  # what the data say without it
    assert not ar.certify(flat).says_nothing or ar.Atlas(flat, ar.certify(flat)).plan(reward).regret_bound < 20


def test_dependent_parts_are_noticed():
    """Three machines whose next levels have the right laws each, but are always drawn with the same random number."""
    rng, counts = (
        np.random.default_rng(0),
        ar.Counts(ar.Setting(n_states=64, n_actions=4, horizon=20, initial_state=0, structure=plant())),
    )
    states, actions = np.zeros((60, 21), np.int64), rng.integers(0, 4, (60, 20))
    for b, h in itertools.product(range(60), range(20)):
        levels = np.unravel_index(states[b, h], (4, 4, 4))
        u = rng.random()
        ahead = [np.searchsorted(np.cumsum(SERVICE[v] if actions[b, h] == i + 1 else RUN[v]), u) for i, v in enumerate(levels)]
        states[b, h + 1] = np.ravel_multi_index([min(int(x), 3) for x in ahead], (4, 4, 4))
    counts.add_episodes(*counts.checked(states, actions))
    assert counts.shared.refuted


def test_a_wrong_known_law_is_noticed():
    known = ar.Structure(
        law=lambda s, a: a, outcomes=(-1, 1), successor=lambda s, a, x: min(max(s + x, 0), 30), known={0: (0.7, 0.3)}
    )
    atlas = ar.explore(ar.envs.double_chain(), 20, max_episodes=200, structure=known, algorithm="random")
    assert atlas.counts.shared.refuted


def test_an_outcome_of_probability_zero_is_refused_at_once():
    known = ar.Structure(
        law=lambda s, a: a, outcomes=(-1, 1), successor=lambda s, a, x: min(max(s + x, 0), 30), known={0: (1, 0)}
    )
    counts = ar.Counts(ar.Setting(n_states=31, n_actions=2, horizon=20, initial_state=15, structure=known))
    counts.add_flows(np.array([[0, 15, 0, 16, 1]]))
    with pytest.raises(ValueError, match="from state 15 with action 0 to state 16, which the structure says is impossible"):
        ar.certify(counts)


@pytest.mark.parametrize(("p", "noticed"), [((0.5, 0.4999, 0.0001), True), ((0.1, 0.1, 0.8), False)])
def test_a_wrong_known_law_is_noticed_where_its_draws_do_not_show(p, noticed):
    """Two of three outcomes lead to the same state, so that no draw is counted; four of five transitions go to the other one."""
    known = ar.Structure(law=lambda s, a: 0, outcomes=3, successor=lambda s, a, x: (0, 0, 1)[x], known={0: p})
    counts = ar.Counts(ar.Setting(n_states=2, n_actions=1, horizon=5, initial_state=0, structure=known))
    counts.add_flows(np.array([[0, 0, 0, 0, 20], [0, 0, 0, 1, 80], [0, 1, 0, 1, 80], [0, 1, 0, 0, 20]]))
    assert counts.shared.n.tolist() == [0]
    assert counts.shared.refuted == noticed


@pytest.mark.slow
def test_how_soon_a_different_pair_is_noticed():
    """31 pairs with slips of 0.1, one of them 0.2: the alarm at 0.01 after a median of about 400 of its visits (measured 393)."""
    rng, visits = np.random.default_rng(1), []
    for _ in range(60):
        N = np.stack([rng.multinomial(40, (0.9, 0.1)) for _ in range(31)]).astype(float)
        N[0] = 0
        while log_evidence_of(N) < math.log(100):
            N[0] += rng.multinomial(10, (0.8, 0.2))
            N[1:] += rng.multinomial(10, (0.9, 0.1), 30)
        visits.append(N[0].sum())
    assert 250 < np.median(visits) < 550

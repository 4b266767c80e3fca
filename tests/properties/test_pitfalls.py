"""Things that look right and are not: for each, a case in which it would be wrong, and that the library does not do it.

Not here because other tests are about nothing else: approximate maximisers as upper bounds (`kernels/test_radii.py`: never
below the exact number), and bonuses for one fixed value function (`properties/test_validity.py`: all rewards at once).
"""

import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

import anyreward as ar
from anyreward.certificates.bounds import TightBound

from ..helpers.bounds import GivenRadii
from ..helpers.tight_reference import lib_psi_size, lib_psi_support, lib_tv_radius, per_row, psi_mixed

ONE_LAW = {"n_actions": 1, "horizon": 2, "initial_state": 0}  # only the law of the start state matters: delta is all its own


def one_law(N, S):
    """Counts of one law: N times to each of the first states of S."""
    states = np.array([[0, x, 0] for x, times in enumerate(N) for _ in range(times)])
    return ar.Counts.from_episodes(states, np.zeros((len(states), 2), int), ar.Setting(n_states=S, **ONE_LAW))


def kl(p, q):
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(p > 0, p * np.log(p / q), 0.0).sum())


@pytest.mark.parametrize("S", [3, 31, 1000])
def test_the_number_of_successors_seen_is_not_the_number_there_are(S):
    """Of a uniform law, one sample is always log S away. A threshold for the one successor seen would be wrong every time."""
    wrong = lib_psi_size([1], 1)
    assert wrong == pytest.approx(0.0, abs=1e-6)
    c = TightBound().radii(one_law([1], S), 0.5)[0][1]
    assert kl(np.eye(S)[0], np.full(S, 1 / S)) == pytest.approx(math.log(S))
    assert c >= math.log(S) > math.log(1 / 0.5) + wrong
    # The same with K known, of which one was seen: a law that is uniform on K.
    c = TightBound(max_successors=3).radii(one_law([1], S), 0.5)[0][1]
    assert c >= math.log(3)


def test_successors_that_were_not_seen_are_in_the_ball():
    """n times the same successor: the law may go elsewhere with probability 1 - exp(-c), and that much is an error."""
    for n in (1, 10, 1000):
        details = TightBound().details(one_law([n], 5), 0.1)
        c = details.radii[1]
        away = -math.expm1(-c)
        p = np.array([1 - away, away, 0, 0, 0])
        assert kl(np.eye(5)[0], p) <= c * (1 + 1e-12)
        assert away <= details.value <= away * (1 + 1e-6)
    # Only who knows that there are no others may leave them out.
    assert TightBound(max_successors=1)(one_law([1000], 5), 0.1) == 0.0


def test_the_ball_is_the_right_way_round():
    """KL(p, p_hat) is infinite for a law with one successor more, so its ball would exclude what is true most of the time."""
    counts = one_law([90, 10], 3)
    c, tau = (x[1] for x in TightBound().radii(counts, 0.1))
    p_hat, p = np.array([0.9, 0.1, 0.0]), np.array([0.9, 0.1, 0.0]) * math.exp(-c)
    p[2] = 1 - p.sum()
    assert kl(p_hat, p) == pytest.approx(c)
    assert kl(p, p_hat) == math.inf
    assert np.abs(p - p_hat).sum() / 2 <= tau
    # And on what was seen: {q : kl(q, x) <= c} is smaller than {q : kl(x, q) <= c} around x = 0.1.
    q = np.linspace(0.1, 0.5, 400_001)
    backwards = q[q * np.log(q / 0.1) + (1 - q) * np.log((1 - q) / 0.9) <= 0.01].max() - 0.1
    forwards = q[0.1 * np.log(0.1 / q) + 0.9 * np.log(0.9 / (1 - q)) <= 0.01].max() - 0.1
    assert backwards < 0.99 * forwards
    assert lib_tv_radius([90, 10], 0.01, False) == pytest.approx(forwards, abs=2e-6)


def test_the_smallest_of_several_thresholds_is_not_a_threshold():
    """Each is exceeded with probability delta; all that is sure of the smallest is the sum. So they are mixed."""
    rng = np.random.default_rng(0)
    setting = ar.Setting(n_states=31, n_actions=1, horizon=6, initial_state=0)
    states = np.zeros((300, 7), int)
    states[:, 1:] = rng.random((300, 6)) < 0.1
    counts = ar.Counts.from_episodes(states, np.zeros((300, 6), int), setting)
    level, n = math.log((1 + 31 * 4) / 0.1), counts.n()[1, 0, 0]
    mixed, own = (
        n * per_row(counts, TightBound(transfer=t, joint=False).radii(counts, 0.1)[0])[1, 0, 0] - level for t in (True, False)
    )
    columns = counts.columns()
    at = (columns["h"] == 1) & (columns["s"] == 0)
    N = columns["count"][at]
    predicted = (N * np.log(N / n)).sum() - columns["evidence"][at].sum()
    assert own == pytest.approx(lib_psi_support(N, 31), abs=1e-6)
    assert mixed == pytest.approx(float(psi_mixed(Decimal(own), Decimal(predicted))), abs=1e-6)
    assert mixed > min(own, predicted) + 0.5 * math.log(2)
    # A number of successors that is known but large costs more than the mixture over supports. It is used all the same, as
    # what the user chose beforehand.
    large = TightBound(max_successors=30, joint=False, transfer=False).radii(one_law([90, 10], 31), 0.1)[0][1] * 100 - math.log(
        1 / 0.1
    )
    assert large == pytest.approx(lib_psi_size([90, 10], 30), abs=1e-6)
    assert large > lib_psi_support([90, 10], 31)


def test_an_error_has_to_start_somewhere():
    """max_p p.E without the local error is 0 at the last step and so everywhere; the bound is not."""
    for H in (2, 3, 5):
        setting = ar.Setting(n_states=2, n_actions=1, horizon=H, initial_state=0)
        states = np.zeros((1000, H + 1), int)
        counts = ar.Counts.from_episodes(states, np.zeros((1000, H), int), setting)
        details = TightBound().details(counts, 0.1)
        tau = per_row(counts, details.tv)[0, 0, 0]
        # An error at the first step alone costs tau at every later one.
        assert details.value >= (H - 1) * tau * (1 - 1e-9) > 0


def test_the_expectation_is_under_the_empirical_model():
    """A truth that rarely goes where it differs most. Weighted by the truth, the differences would not add up to the error."""
    setting = ar.Setting(n_states=4, n_actions=1, horizon=3, initial_state=0)
    # Step 0: to state 0 or 1. Step 1: from 0 to 0 or 1, from 1 always to 2.
    rows = {"h": [-1, 0, 0, 1, 1, 1], "s": [0, 0, 0, 0, 0, 1], "a": [0] * 6, "next": [0, 0, 1, 0, 1, 2]}
    counts = ar.Counts.from_columns(setting, {**rows, "count": [100, 80, 20, 39, 1, 7]})
    p_hat, p = np.array([0.8, 0.2]), np.array([0.43, 0.57])
    q_hat, q = np.array([0.975, 0.025]), np.array([0.47, 0.53])
    c0, c1 = kl(p_hat, p), kl(q_hat, q)
    error = np.abs(p_hat - p).sum() / 2
    error += np.abs(np.append(p_hat[0] * q_hat, p_hat[1]) - np.append(p[0] * q, p[1])).sum() / 2

    def chain(reach):
        return math.sqrt(c0 / 2) + math.sqrt((c0 + reach * c1) / 2)

    assert chain(reach=p[0]) < 0.97 * error  # under the truth: false
    assert chain(reach=p_hat[0]) > error
    table = counts.table
    radii, tv = np.zeros(len(table.n)), np.ones(len(table.n))  # no TV charges: the KL chain alone
    radii[table.node_of[0, 0]], radii[table.node_of[1, 0]] = c0, c1
    details = GivenRadii(radii, tv).details(counts, 0.1)
    assert details.multipliers[1:].all()
    assert chain(reach=p_hat[0]) <= details.value <= chain(reach=p_hat[0]) * (1 + 1e-4)


def test_steps_are_not_pooled_unless_that_is_assumed():
    """From state 0 the first step stays and the second leaves. Pooled, each looks like a fair coin, seen very often."""
    states, actions = np.array([[0, 0, 1, 1]] * 5000), np.zeros((5000, 3), int)
    true = np.zeros((3, 2, 1, 2))
    true[:, 1, 0, 1] = true[0, 0, 0, 0] = true[1, 0, 0, 1] = true[2, 0, 0, 0] = 1
    reward = np.array([1.0, 0.0])  # for being in state 0
    truth = ar.evaluate_policy(true, np.zeros((3, 2), int), reward, 3).V[0, 0]
    bounds = {}
    for stationary in (True, False):
        setting = ar.Setting(n_states=2, n_actions=1, horizon=3, initial_state=0, stationary=stationary)
        counts = ar.Counts(setting)
        counts.add_episodes(*counts.checked(states, actions))
        value = ar.evaluate_policy(counts.model(), np.zeros((3, 2), int), reward, 3).V[0, 0]
        bounds[stationary] = abs(value - truth), TightBound()(counts, 0.1)
    assert bounds[True][0] > 2 * bounds[True][1]  # the assumption is wrong and so is what it certifies
    assert bounds[False][0] <= bounds[False][1]
    with pytest.raises(ValueError, match="the data contradict it: their transitions depend on the step"):
        ar.Counts.from_episodes(states, actions, replace(setting, stationary=True))
    with pytest.raises(ValueError, match="depend on the step"):
        ar.explore(ar.TabularMDP(true), horizon=3, epsilon=1.0, stationary=True)


@pytest.mark.parametrize("transfer", [True, False])
def test_other_steps_do_not_change_what_a_law_has_shown(transfer):
    """More data at other steps, in the same state: the radius and p_hat of this step are about this step's samples."""
    setting = ar.Setting(n_states=2, n_actions=1, horizon=3, initial_state=0)
    few = {"h": [-1, 0, 1], "s": [0, 0, 0], "a": [0, 0, 0], "next": [0, 0, 1], "count": [20, 20, 20]}
    many = {**few, "count": [2_000_000, 2_000_000, 20]}
    if transfer:  # scored like a fair coin
        few, many = ({**rows, "evidence": [0.0, *(-math.log(2) * k for k in rows["count"][1:])]} for rows in (few, many))
    radii = []
    for rows in (few, many):
        counts = ar.Counts.from_columns(setting, rows)
        assert counts.transfer == transfer
        radii.append(per_row(counts, TightBound(transfer=transfer).radii(counts, 0.1)[0])[1, 0, 0])
    assert radii[0] == radii[1]
    assert radii[0] * 20 >= math.log(3 / 0.1)


def test_rows_without_data_are_not_data():
    """p_hat = 1/S is a filler for planning. However much is known of everything else, one step there and nothing is known."""
    setting = ar.Setting(n_states=3, n_actions=2, horizon=3, initial_state=0, discount=0.9)
    states = np.array([[0, 1, 1, 1], [0, 2, 2, 2]] * 50_000)
    counts = ar.Counts.from_episodes(states, np.zeros((100_000, 3), int), setting)  # action 1 was never tried
    assert TightBound()(counts, 0.1) == pytest.approx(0.9 + 0.9**2)
    # Tried at the start, but not after it: then it is the last reward that is unknown.
    actions = np.zeros((100_000, 3), int)
    actions[::4, 0] = actions[1::4, 0] = 1
    counts = ar.Counts.from_episodes(states, actions, setting)
    assert 0.9**2 <= TightBound()(counts, 0.1) <= 0.9**2 + 0.05
    # When stationary too, and in the middle of a chain.
    pooled = ar.Setting(n_states=3, n_actions=2, horizon=3, initial_state=0, stationary=True)
    assert TightBound()(ar.Counts.from_episodes(states, np.zeros((100_000, 3), int), pooled), 0.1) == pytest.approx(2.0)

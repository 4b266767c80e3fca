"""The references in `helpers.rivals` are themselves right: the algorithms that identify a policy."""

import itertools
import math

import numpy as np
import pytest

from ..helpers import rivals
from ..helpers.dense import policy_value, random_problem, sampled
from ..helpers.reference import kl, q_values, worst_error

H, S, A = 4, 3, 2


@pytest.mark.parametrize("gamma", [1.0, 0.8])
@pytest.mark.parametrize("stationary", [False, True])
def test_elimination_keeps_the_best_action_and_stops_with_a_good_policy(gamma, stationary):
    epsilon, stopped, eliminated = 0.2, 0, 0
    for seed in range(6):
        P, r = random_problem(seed, stationary=stationary)
        best, values = q_values(P, None, r, gamma)
        for visits in (0, 1, 100, 10**4, 10**6):
            index = rivals.even_dar(sampled(P, visits, seed, stationary), r, 0.1, gamma)
            assert (index.Q_lo <= best + 1e-12).all()
            assert (best <= index.Q_up + 1e-12).all()
            assert np.take_along_axis(index.alive, best.argmax(axis=2)[..., None], 2).all()
            assert (index.Q_up[-1] == r[-1]).all()
            eliminated += (~index.alive[:-1]).sum()
            if rivals.even_dar_stops(index, epsilon, gamma):
                stopped += 1
                assert visits > 100
                assert (values - policy_value(P, index.Q_lo.argmax(axis=2), r, gamma)).max() <= epsilon
    assert stopped > 0
    assert eliminated > 0


def test_elimination_by_hand():
    n = np.zeros((2, 2, 1, 2), int)
    n[0, 0, 0] = [300, 700]
    r = np.array([[[0.1], [0.0]], [[1.0], [0.5]]])
    index = rivals.even_dar(n, r, 0.1, gamma=0.9)
    e = 0.9 * math.sqrt(math.log(math.pi**2 * 2 * 1e6 / 0.3) / 2000)
    assert index.Q_up[0, 0, 0] == pytest.approx(0.1 + 0.9 * 0.65 + e, rel=1e-12)
    assert index.Q_lo[0, 0, 0] == pytest.approx(0.1 + 0.9 * 0.65 - e, rel=1e-12)
    assert (index.Q_up[0, 1, 0], index.Q_lo[0, 1, 0]) == (0.9, 0.0)
    assert not rivals.even_dar_stops(index, 1.0, 0.9)  # state 1 at step 0 was never seen
    assert rivals.even_dar_stops(index, 2 * e * 1.9 + 1e-9, 0.9, start=0)
    assert not rivals.even_dar_stops(index, 2 * e * 1.9 - 1e-9, 0.9, start=0)


def test_rf_express_by_hand():
    n = np.zeros((2, 2, 1, 2), int)
    n[0, 0, 0], n[1, 0, 0], n[1, 1, 0] = [10**6, 0], [10**6, 0], [10, 0]
    W, V = rivals.rf_express(n, 0.1)
    term = 60 * rivals.beta_express(10**6, 2, 1, 2, 0.1) / 10**6
    assert W[1, :, 0] == pytest.approx([term, 2])
    assert W[0, :, 0] == pytest.approx([2.5 * term, 2])
    assert rivals.rf_express_error(V, 0) == pytest.approx(3 * math.e * math.sqrt(2.5 * term) + 2.5 * term)
    assert rivals.rf_express(n.sum(axis=0), 0.1, horizon=2)[0].shape == (2, 2, 1)


def test_rf_express_covers_every_law_in_its_balls():
    """Even sqrt(W/30) + W does: the worst reward, p_hat against laws pushed to the edge n KL(p_hat, p) = beta(n)."""
    rng, most = np.random.default_rng(13), 0.0
    for seed in range(20):
        P_hat, _ = random_problem(seed, H=3, S=2)
        visits = 10 ** int(rng.integers(4, 8))
        n = np.round(P_hat[:3] * visits).astype(int)
        P_hat = n / n.sum(axis=-1, keepdims=True)
        _, V = rivals.rf_express(n, 0.1)
        P, edge = P_hat.copy(), 10 * np.eye(2)[rng.integers(0, 2, (3, 2, A))]
        for where in np.ndindex(3, 2, A):
            limit = rivals.beta_express(n[where].sum(), 2, A, 3, 0.1) / n[where].sum()
            low, high = 0.0, 1.0
            for _ in range(60):
                mid = (low + high) / 2
                mixed = (1 - mid) * P_hat[where] + mid * (edge[where] / 10)
                low, high = (mid, high) if kl(P_hat[where], np.clip(mixed, 1e-300, 1)) <= limit else (low, mid)
            P[where] = (1 - low) * P_hat[where] + low * (edge[where] / 10)
        start = np.eye(2)[0]
        error = max(
            worst_error(P_hat, start, P, start, np.array(policy).reshape(3, 2))
            for policy in itertools.product(range(A), repeat=6)
        )
        sharp = math.sqrt(V[0, 0] / 30) + V[0, 0]
        assert error <= sharp <= rivals.rf_express_error(V, 0)
        most = max(most, error / sharp)
    assert most > 0.1  # the laws are far enough out for the test to mean something


@pytest.mark.parametrize("stationary", [False, True])
def test_bpi_ucbvi_holds_the_optimal_value_and_the_gap_of_its_policy(stationary):
    for seed in range(4):
        P, r = random_problem(seed, stationary=stationary)
        best, values = q_values(P, None, r)
        for visits in (0, 100, 10**6, 10**10):
            index = rivals.bpi_ucbvi(sampled(P, visits, seed, stationary), r, 0.1)
            assert (index.Q_lo <= best + 1e-12).all()
            assert (best <= index.Q_up + 1e-12).all()
            gap = np.take_along_axis(index.G, index.policy[..., None], 2)[..., 0]
            assert ((values - policy_value(P, index.policy, r))[:H] <= gap + 1e-12).all()
            assert ((index.V_up - index.V_lo)[:H] <= gap + 1e-12).all()
        assert gap.max() < 0.01


def test_bpi_ucbvi_by_hand():
    m = 10**9
    n = np.full((2, 1, 1, 1), m)
    index = rivals.bpi_ucbvi(n, np.full((2, 1, 1), 0.5), 0.1)
    c = rivals.beta_express(m, 1, 1, 2, 0.1) / m
    last = 14 * 4 * c
    assert index.Q_up[1, 0, 0] == pytest.approx(0.5 + last, rel=1e-12)
    assert index.Q_up[0, 0, 0] == pytest.approx(1 + 2 * last + last, rel=1e-12)  # p_hat (V_up - V_lo) / H = last
    assert index.Q_lo[0, 0, 0] == pytest.approx(1 - 3 * last, rel=1e-12)
    assert index.G[:, 0, 0] == pytest.approx([144 * c * (1 + 2.5), 144 * c], rel=1e-12)


def test_the_error_of_generative_plans_by_hand():
    """H = 3: twice (2 + 1) b, or with a discount 2 (gamma (1 + gamma) + gamma^2) b; b falls as the root of the draws."""
    b = math.sqrt(2 / 900 * (2 * math.log(2) + math.log(8 / 0.1))) / 2
    assert rivals.generative_error(900, 2, 2, 3, 0.1) == pytest.approx(6 * b)
    one = math.sqrt(math.log(2 * 4 * 5 / 0.1) / 1800)
    assert rivals.generative_error(900, 2, 2, 3, 0.1, 0.5, True, rewards=5) == pytest.approx(2 * (0.75 + 0.25) * one)
    assert rivals.generative_error(400, 2, 2, 3, 0.1) / rivals.generative_error(1600, 2, 2, 3, 0.1) == pytest.approx(2)


@pytest.mark.parametrize("form", ["published", "corrected", "paired"])
def test_instances_meet_their_conditions(form):
    for epsilon, delta, gamma in itertools.product((2.0, 0.3), (0.5, 0.1, 1e-4), (1.0, 0.9)):
        plan = rivals.regret_to_bpi(epsilon, delta, 20, gamma, form=form)
        assert plan.delta_evaluate + 0.5**plan.runs <= delta
        assert 0.5 ** (plan.runs - 1) > delta / 2
        assert plan.epsilon_run + 2 * plan.epsilon_evaluate <= epsilon + 1e-12
        x = plan.episodes * plan.epsilon_evaluate**2 / rivals.sigma(20, gamma) ** 2
        failure = (plan.runs - 1) * math.exp(-4 * x) if form == "paired" else plan.runs * math.exp(-2 * x)
        assert failure <= plan.delta_evaluate
    assert rivals.regret_to_bpi(2.0, 0.1, 20) == (5, 3830, 1.0, 0.5, 0.05)


@pytest.mark.parametrize("form", ["published", "corrected", "paired"])
def test_the_best_of_the_instances_wins(form):
    """Returns 0 or H = 2, the best by a margin of 2 eps': the chance to pick another is at most delta' (false alarm 1e-9)."""
    plan = rivals.regret_to_bpi(1.0, 0.2, 2, form=form)
    rng, runs = np.random.default_rng(14), 20000
    chance = np.full(plan.runs, 0.5 - plan.epsilon_evaluate / 2)
    chance[0] = 0.5 + plan.epsilon_evaluate / 2
    wins = rng.binomial(plan.episodes, chance, (runs, plan.runs))
    wrong = (wins[:, 1:].max(axis=1) >= wins[:, 0]).mean()  # ties lost
    delta = plan.delta_evaluate
    assert wrong <= delta + 6 * math.sqrt(delta / runs)


def test_markov_needs_ten_trillion_episodes_on_the_double_chain():
    K = rivals.markov_episodes(lambda K: rivals.ucbvi_regret(K, 31, 2, 20, 0.1), 2.0, 0.1)
    assert 1e13 < K < 1.5e13
    assert rivals.ucbvi_regret(K, 31, 2, 20, 0.1) <= 0.2 * K < rivals.ucbvi_regret(K - 1, 31, 2, 20, 0.1) + 0.2
    assert rivals.markov_episodes(lambda K: 100 * math.sqrt(K), 0.5, 0.1) == 4 * 10**6
    L = math.log(5 * 20 * 31 * 2 * 20 * 1000 / 0.1)
    assert rivals.ucbvi_regret(1000, 31, 2, 20, 0.1) == pytest.approx(
        20 * 20**1.5 * L * math.sqrt(62000) + 250 * 400 * 961 * 2 * L**2, rel=1e-12
    )


def two_successors(actions=1):
    n = np.full((2, 2, actions, 2), 10**12)
    n[0, 0, :] = [3 * 10**7, 10**7]
    r = np.zeros((2, 2, actions))
    r[1, 0], r[0, 0] = 0.9, 0.25
    return n, r, np.array([0.75, 0.25]), 4 * 10**7


def test_euler_by_hand():
    n, r, p, m = two_successors()
    n[1, 1] = 5 * 10**7  # V_up and V_lo have different variances
    Q_up, V_up, Q_lo, V_lo = rivals.euler(n, r, 0.1, 1000)
    L = math.log(4 * 4 * 1 * 1000 * 70)
    spread = math.sqrt(p @ (V_up[1] - V_lo[1]) ** 2)
    rest = 2 * L / (3 * (m - 1)) + (8 * L / 3 + 2 * math.sqrt(2 * L)) / m + math.sqrt(2 * L / m) * spread
    for Q, V, sign in ((Q_up, V_up[1], 1), (Q_lo, V_lo[1], -1)):
        deviation = math.sqrt(0.75 * 0.25) * (V[0] - V[1])
        assert Q[0, 0, 0] == pytest.approx(0.25 + p @ V + sign * (deviation * math.sqrt(2 * L / m) + rest), rel=1e-12)
    assert V_up[1, 0] - V_up[1, 1] < V_lo[1, 0] - V_lo[1, 1] - 1e-7


def test_bpi_ucbvi_by_hand_with_two_successors():
    n, r, p, m = two_successors(actions=2)
    n[1, 0, 1], r[1, 0, 1] = 10**7, 0.89999  # less known and higher: Q_up takes it, Q_lo the other
    index = rivals.bpi_ucbvi(n, r, 0.1)
    assert index.policy[1, 0] == 1
    assert index.V_lo[1, 0] == index.Q_lo[1, 0, 0] > index.Q_lo[1, 0, 1]
    c, star = rivals.beta_express(m, 2, 2, 2, 0.1) / m, rivals.beta_star(m, 2, 2, 2, 0.1) / m
    up, lo = index.V_up[1], index.V_lo[1]
    root = math.sqrt(0.75 * 0.25 * (up[0] - up[1]) ** 2 * star)
    b = 3 * root + 56 * c + p @ (up - lo) / 2
    assert index.Q_up[0, 0, 0] == pytest.approx(0.25 + b + p @ up, rel=1e-12)
    assert index.Q_lo[0, 0, 0] == pytest.approx(0.25 - b + p @ lo, rel=1e-12)
    ahead = p @ [index.G[1, 0, 1], index.G[1, 1, index.policy[1, 1]]]
    assert index.G[0, 0, 0] == pytest.approx(6 * root + 144 * c + 2.5 * ahead, rel=1e-12)

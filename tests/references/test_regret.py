"""The references in `helpers.rivals` are themselves right: thresholds, Fiechter, and the algorithms for regret."""

import itertools
import math

import numpy as np
import pytest

import anyreward as ar

from ..helpers import rivals
from ..helpers.dense import layered, layers, policy_value, random_counts, random_problem, sampled
from ..helpers.reference import kl, q_values, rf_ucrl

H, S, A = 4, 3, 2


def test_thresholds_have_the_known_values():
    paper = [rivals.beta(n, 31, 31 * 2 * 20, 0.1) for n in (0, 1, 100, 1e4, 1e6)]
    assert paper == pytest.approx([40.1186, 41.1023, 84.1087, 214.4828, 352.5489], abs=5e-5)
    express = [rivals.beta_express(n, 31, 2, 20, 0.1) for n in (0, 100)]
    assert express == pytest.approx([105.9868, 249.0555], abs=5e-5)
    assert rivals.beta(5, 1, 7, 0.1) == math.log(140)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("eta", [0.3, 0.05, 1e-6])
def test_fiechter_is_rf_ucrl_rounded_down_by_less_than_sigma_eta(gamma, stationary, eta):
    setting = ar.Setting(n_states=S, n_actions=A, horizon=H, discount=gamma, stationary=stationary, initial_state=0)
    n = sampled(random_problem(5, stationary=stationary)[0], 20000, 6, stationary)
    n[..., 0, 0, :] = 0  # and a pair that was never seen
    E, start = rf_ucrl(np.zeros(S), rivals.by_step(n, H), setting, 0.1)
    F, V = rivals.fiechter(n, 0.1, epsilon=1.0, gamma=gamma, eta=eta, horizon=H)
    E = E.astype(float)
    left = np.array([rivals.sigma(H - 1 - h, gamma) for h in range(H)])[:, None, None]
    assert (eta * F <= E + 1e-9).all()
    assert (eta * (F + left) >= E - 1e-9).all()
    assert rivals.fiechter_error_bound(V, 0, eta, gamma) >= start - 1e-9


def test_the_roundings_of_fiechter_add_up():
    x = math.sqrt(2 * rivals.beta(1000, 1, 3, 0.1) / 1000)
    F, V = rivals.fiechter(np.full((3, 1, 1, 1), 1000), 0.1, 1.0, eta=x / 0.9)
    assert F[:, 0, 0].tolist() == [1, 0, 0]  # of 2.7, 0.9 and 0: 1.7 eta are lost, one would not cover it
    assert rivals.fiechter_error_bound(V, 0, x / 0.9) == pytest.approx(3 * x / 0.9)


def test_fiechter_stops_when_and_only_when_three_eighths_to_a_half_of_epsilon():
    epsilon, times = 0.5, {}
    for actions in (1, 2):
        for t in itertools.count():
            n = np.zeros((2, 2, actions, 2), int)
            for i in range(t):
                n[0, 0, i % actions, 0] += 1  # greedy and deterministic: the actions take turns
            _, V = rivals.fiechter(n, 0.1, epsilon)
            if V[0, 0] <= rivals.fiechter_threshold(epsilon, rivals.fiechter_eta(epsilon, 2), 2):
                times[actions] = t
                break
        fewest = -(-t // actions) if actions == 1 else (t // actions)
        laws, radius = 4 * actions, 7 / 16 * epsilon  # floor(E / eta) <= 6, E < 7 epsilon / 16
        by_hand = next(k for k in itertools.count(1) if math.sqrt(2 * rivals.beta(k, 2, laws, 0.1) / k) < radius)
        assert fewest == by_hand
    assert times[1] > 361  # RF-UCRL's own stopping times here: 361 and 770
    assert times[2] > 770
    assert rivals.fiechter(np.zeros((1, 2, 2, 2), int), 0.1, 0.5)[1][0, 0] == 0  # H = 1: nothing to learn


def test_the_published_bonus_of_fiechter_is_no_error_bound():
    many, draws = 600, 10**6
    rng = np.random.default_rng(0)
    n = np.zeros((2, many, 1, many), int)
    n[0, 0, 0] = rng.multinomial(draws, np.full(many, 1 / many))
    error = np.abs(n[0, 0, 0] / draws - 1 / many).sum() / 2  # of the reward that tells most: total variation
    eta = 1e-7
    published = eta * (rivals.fiechter(n, 0.1, 1.0, published=True, eta=eta)[1][0, 0] + 1)
    repaired = eta * (rivals.fiechter(n, 0.1, 1.0, eta=eta)[1][0, 0] + 1)
    assert published < error < repaired
    assert many > 4 * math.pi * math.log(2 * many * 2 / 0.1)  # what the docstring says it takes


def test_ucbvi_by_hand():
    n = np.zeros((2, 2, 1, 2), int)
    n[0, 0, 0] = [3 * 10**9, 10**9]
    n[1, 0, 0], n[1, 1, 0] = [4 * 10**12, 0], [10**12, 0]
    r = np.zeros((2, 2, 1))
    r[1, 0], r[0, 0] = 0.5, 0.25
    L = math.log(5 * 4 * 1 * 1000 / 0.1)  # S becomes SH = 4
    last = np.array([0.5 + 14 * L / 2e6, 14 * L / 1e6])
    Q, V = rivals.ucbvi(n, r, 0.1, T=1000)
    assert Q[1, :, 0] == pytest.approx(last, rel=1e-12)
    assert Q[0, 0, 0] == pytest.approx(0.25 + 0.75 * last[0] + 0.25 * last[1] + 14 * L / math.sqrt(4e9), rel=1e-12)
    assert Q[0, 1, 0] == V[0, 1] == 2  # never seen

    Q, V = rivals.ucbvi(n, r, 0.1, T=1000, bonus="bernstein")
    spread = 0.75 * 0.25 * (V[1, 0] - V[1, 1]) ** 2
    known = 100**2 * 2**3 * 4**2 * L**2 / np.array([3e9, 1e9])  # N'_1 = 3e9 and 1e9 arrivals
    assert (known < 4).all()
    by_hand = math.sqrt(8 * L * spread / 4e9) + 28 * L / 12e9 + math.sqrt(8 / 4e9 * (0.75 * known[0] + 0.25 * known[1]))
    assert Q[0, 0, 0] == pytest.approx(0.25 + 0.75 * V[1, 0] + 0.25 * V[1, 1] + by_hand, rel=1e-12)


@pytest.mark.parametrize("bonus", ["hoeffding", "bernstein"])
def test_ucbvi_by_step_is_ucbvi_on_the_layers(bonus):
    n, r = random_counts(1, most=10**9), random_problem(2)[1]
    visits = np.concatenate([n[:1].sum(axis=(2, 3)), n.sum(axis=(1, 2))])
    big, reward = layered(n, r)
    big_visits = np.zeros((H + 1, H, S))
    for h in range(H + 1):
        big_visits[h, h % H] = visits[h]
    Q, _ = rivals.ucbvi(n, r, 0.1, 10**5, bonus)
    pooled, _ = rivals.ucbvi(big, reward, 0.1, 10**5, bonus, visits=big_visits.reshape(H + 1, H * S))
    assert layers(pooled, H, S) == pytest.approx(Q, rel=1e-12)
    assert (Q < H).any()


@pytest.mark.parametrize("bonus", ["hoeffding", "bernstein"])
@pytest.mark.parametrize("stationary", [False, True])
def test_ucbvi_is_optimistic_and_never_rises(bonus, stationary):
    P, r = random_problem(3, stationary=stationary)
    best, before = q_values(P, None, r)[0], None
    for visits in (0, 10, 10**5, 10**11):
        n = sampled(P, visits, visits, stationary)
        at = np.full((H + 1, S), visits)
        Q, V = rivals.ucbvi(n, r, 0.1, 10**12, bonus, before, at)
        assert (best - 1e-12 <= Q).all()
        assert (Q <= H).all()
        assert before is None or (before >= Q).all()
        assert V[:H] == pytest.approx(Q.max(axis=2))
        before = Q
    assert (before < best + 0.1).all()  # and it closes in
    noisy = rivals.ucbvi(sampled(P, 100, 0, stationary), r, 0.1, 10**12, bonus, before, at)[0]
    assert (noisy == before).all()  # worse data later change nothing


def test_euler_by_step_is_euler_on_the_layers():
    n, r = random_counts(4, most=10**6), random_problem(5)[1]
    Q_up, _, Q_lo, _ = rivals.euler(n, r, 0.1, 10**5)
    big_up, _, big_lo, _ = rivals.euler(*layered(n, r), 0.1, 10**5)
    assert layers(big_up, H, S) == pytest.approx(Q_up, rel=1e-12)
    assert layers(big_lo, H, S) == pytest.approx(Q_lo, rel=1e-12)
    assert (Q_up[0] < H).any()
    assert (Q_lo[0] > 0).any()


def test_euler_on_a_deterministic_chain_is_a_sum():
    """One state at a time: the variance and the spread of p_hat vanish but for the width, which is V_up - V_lo itself."""
    m, T, delta = 10**6, 10**4, 0.1
    n = np.zeros((2, 1, 1, 1), int) + m
    r = np.full((2, 1, 1), 0.5)
    L = math.log(4 * 2 * 1 * T * 7 / delta)
    add = 2 * L / (3 * (m - 1)) + (8 * L / 3 + 2 * math.sqrt(2 * L)) / m
    Q_up, V_up, _, V_lo = rivals.euler(n, r, delta, T)
    assert (V_up[1, 0], V_lo[1, 0]) == pytest.approx((0.5 + add, 0.5 - add), rel=1e-12)
    assert Q_up[0, 0, 0] == pytest.approx(1 + 2 * add + math.sqrt(2 * L / m) * 2 * add, rel=1e-12)
    unknown = rivals.euler(n, r, delta, T, reward_bonus=True)[1]
    assert unknown[1, 0] - V_up[1, 0] == pytest.approx(7 * L / (3 * (m - 1)), rel=1e-6)


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("repaired", [False, True])
def test_euler_holds_the_optimal_value(stationary, repaired):
    for seed in range(5):
        P, r = random_problem(seed, stationary=stationary)
        best = q_values(P, None, r)[1]
        for visits in (0, 1, 2, 30, 10**4, 10**8):
            n = sampled(P, visits, seed, stationary)
            Q_up, V_up, _, V_lo = rivals.euler(n, r, 0.1, 10**6, repaired=repaired)
            assert (V_lo <= best + 1e-12).all()
            assert (best <= V_up + 1e-12).all()
            assert (Q_up <= np.arange(H, 0, -1)[:, None, None]).all()
            if repaired:
                assert (V_up >= rivals.euler(n, r, 0.1, 10**6)[1] - 1e-12).all()
        assert (V_up - V_lo).max() < 0.1


def test_euler_constants_miss_the_empirical_bernstein_inequality():
    """Published: H L / (3(n-1)) + (4J + B_p)/n is below 7 H L / (3(n-1)) once L > 4.5; repaired: above it, where n > 3L."""
    for L in (3.0, 10.0, 30.0):
        for n in (int(3 * L) + 1, 10**3, 10**6):
            need = 7 * L / (3 * (n - 1)) + 1.5 * math.sqrt(2 * L / n) * (math.sqrt(n / (n - 1)) - 1)
            published = L / (3 * (n - 1)) + (4 * L / 3 + math.sqrt(2 * L)) / n
            repaired = L / (3 * (n - 1)) + (4 * L / 3 + 2 * L) / n
            assert repaired > need
            if n == 10**6:
                assert (published > need) == (L <= 4.5)


def test_the_best_law_of_an_l1_ball():
    linprog = pytest.importorskip("scipy.optimize").linprog
    rng = np.random.default_rng(7)
    for _ in range(30):
        k = int(rng.integers(1, 6))
        q, f, d = rng.dirichlet(np.ones(k)), rng.random(k), float(rng.random() * 2.5)
        # p = q + up - down, sum(up) + sum(down) <= d
        answer = linprog(
            np.r_[-f, f],
            A_ub=np.r_[[np.ones(2 * k)], np.c_[-np.eye(k), np.eye(k)]],
            b_ub=np.r_[d, q],
            A_eq=[np.r_[np.ones(k), -np.ones(k)]],
            b_eq=[0.0],
        )
        assert rivals.l1_largest(q, f, d) == pytest.approx(q @ f - answer.fun, abs=1e-9)


@pytest.mark.slow
def test_the_best_law_of_a_kl_ball():
    row = np.array
    golden = [
        (rivals.kl_largest(row([1.0, 0]), row([0.0, 1]), 0.3), 0.2591817793),
        (rivals.kl_largest(row([0.5, 0.5]), row([0.0, 1]), 0.1), 0.7128786315),
        (rivals.kl_largest(row([0.9, 0.1, 0]), row([1.0, 0, 2]), 0.05), 0.9804975460),
        (-rivals.kl_largest(row([0.9, 0.1, 0]), row([-1.0, 0, 1]), 0.05), 0.7750568712),
    ]
    for value, known in golden:
        assert value == pytest.approx(known, abs=1e-9)
    rng = np.random.default_rng(8)
    closest = np.inf
    for _ in range(200):
        k = int(rng.integers(2, 5))
        q, p, f = rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k)), rng.random(k)
        bound = rivals.kl_largest(q, f, float(kl(q, p)))
        assert p @ f <= bound + 1e-12
        closest = min(closest, bound - p @ f)
        assert q @ f - 1e-12 <= rivals.kl_largest(q, f, 1e-12) <= q @ f + 1e-5
        assert rivals.kl_largest(q, f, 50.0) == pytest.approx(f.max(), abs=1e-9)
    assert closest < 1e-3


def test_the_constant_of_kl_ucrl_solves_its_inequality_where_it_is_used():
    """2 e S (y log T + 1) exp(-y) <= delta / laws with y = C_P / S: true when b >= 6.1, false for a smaller problem."""

    def excess(laws, S, T, delta):
        y = rivals.kl_ucrl_constant(laws, S, T, delta) / S
        return math.log(2 * math.e * S * (y * math.log(T) + 1)) - y - math.log(delta / laws)

    for laws, S, T, delta in itertools.product((2, 62, 1240), (2, 31, 441), (10**2, 10**6, 10**12), (0.5, 0.1, 1e-6)):
        b = math.log(2 * math.e * S * laws * math.log(T) / delta) + 1 / math.log(T)
        assert (excess(laws, S, T, delta) <= 0) == (b > 6.09)
    assert excess(2, 2, 3, 0.5) > 0
    assert rivals.kl_ucrl_constant(62, 31, 10**6, 0.1) == pytest.approx(527.81076, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [1.0, 0.8])
@pytest.mark.parametrize("stationary", [False, True])
def test_balls_hold_the_optimal_value_and_the_cautious_policy(gamma, stationary):
    for seed in range(3):
        P, r = random_problem(seed, stationary=stationary)
        best = q_values(P, None, r, gamma)[0]
        width = np.inf
        for visits in (0, 20, 10**4, 10**9):
            n = sampled(P, visits, seed, stationary)
            for Q_up, V_up, Q_lo, V_lo in (rivals.ucrl2(n, r, 0.1, gamma), rivals.kl_ucrl(n, r, 0.1, 10**11, gamma)):
                assert (Q_lo <= best + 1e-12).all()
                assert (best <= Q_up + 1e-12).all()
                assert (policy_value(P, Q_lo.argmax(axis=2), r, gamma) >= V_lo - 1e-12).all()
                narrower, width = width, (V_up - V_lo).max()
                if visits == 0:  # nothing is known but r
                    assert Q_up[0] == pytest.approx(r[0] + gamma * V_up[1].max())
                    assert Q_lo[0] == pytest.approx(r[0] + gamma * V_lo[1].min())
        assert narrower < 0.05
        assert width < 0.05


def test_the_radius_of_ucrl2_and_the_simplex():
    assert rivals.ucrl2_radius(700, 5, 3, 1000, 0.1) == pytest.approx(math.sqrt(0.1 * math.log(60000)), rel=1e-12)
    assert rivals.ucrl2_radius(0, 2, 1, 1, 0.999) > 2


def test_ucrl2_counts_its_transitions_from_1():
    """t = 1 before the first one: after 10^4 episodes of H steps the logarithm is of 2 A (10^4 H + 1) / delta."""
    H, S, A, delta = 3, 2, 2, 0.5
    n, r = np.zeros((H, S, A, S), int), np.zeros((H, S, A))
    n[[0, 1, 2], 0, 0, 0] = 10**4  # many visits, so that the radius is small
    r[-1, 1] = 1.0
    radius = math.sqrt(14 * S * math.log(2 * A * (H * 10**4 + 1) / delta) / 10**4)
    assert radius < 1
    Q_up = rivals.ucrl2(n, r, delta)[0]
    assert Q_up[1, 0, 0] == pytest.approx(radius / 2, rel=1e-12)  # what can move to the state that pays at the last step


def test_the_union_bound_of_ucrl2():
    """Laws times counts times what one ball misses, over all times, with a random start: the docstring's inequalities."""
    for S, A, H, delta in itertools.product((2, 3, 10), (1, 4), (1, 5), (0.999, 0.1)):
        miss = {t: (2 * (2 * A * t / delta) ** -7) ** S for t in range(H + 1, 3000, H)}  # after 1, 2, ... episodes
        for t in (H + 1, 2 * H + 1):  # Weissman et al. at the radius, whatever the count
            radius = rivals.ucrl2_radius(7, S, A, t, delta)
            assert 2**S * math.exp(-7 * radius**2 / 2) == pytest.approx(miss[t], rel=1e-9)
        all_balls = sum((S * A * H + 1) * (t - 1) * miss[t] for t in miss)
        assert all_balls <= sum(2 * A * t**2 * miss[t] ** (2 / S) for t in miss) < delta / 1000


def test_the_weights_of_q_learning():
    for horizon, t in itertools.product((1, 3, 20), (1, 2, 5, 40, 300)):
        alpha = [(horizon + 1) / (horizon + i) for i in range(1, t + 1)]
        weight = [alpha[i] * math.prod(1 - x for x in alpha[i + 1 :]) for i in range(t)]
        assert sum(weight) == pytest.approx(1)
        assert sum(x**2 for x in weight) <= 2 * horizon / t
        assert 1 / math.sqrt(t) <= sum(x / math.sqrt(i) for i, x in enumerate(weight, 1)) + 1e-12 <= 2 / math.sqrt(t) + 1e-9
    with_memory = [(np.array([0, s, 0]), np.array([0, 0])) for s in (0, 1, 1, 0)]  # H = 2: successors 0 1 1 0 of (0, 0, 0)
    r = np.array([[[0.2], [0.0]], [[0.7], [0.1]]])
    iota = math.log(2 * 2 * 1 * 100 / 0.1)
    Q, V = rivals.opt_qlearning(with_memory, r, 2, 2, 1, 100, 0.1, sharp=True)
    alpha = [3 / (2 + i) for i in range(1, 5)]
    weight = [alpha[i] * math.prod(1 - x for x in alpha[i + 1 :]) for i in range(4)]
    ahead = [1.0, 1.0, 0.1, 0.7]  # V_1 of the episode before: 1 until the state was seen
    by_hand = sum(w * (0.2 + v + math.sqrt(2 * iota / i)) for i, (w, v) in enumerate(zip(weight, ahead, strict=True), 1))
    assert Q[0, 0, 0] == pytest.approx(by_hand, rel=1e-12)
    assert Q[1, :, 0] == pytest.approx([0.7, 0.1])
    assert V[0, 0] == 2
    first = rivals.opt_qlearning(with_memory[:1], r, 2, 2, 1, 100, 0.1)[0]
    assert first[0, 0, 0] == pytest.approx(0.2 + 2 + math.sqrt(8 * iota), rel=1e-12)  # alpha_1 = 1: the initial H is forgotten
    assert first[1, 0, 0] == pytest.approx(0.7 + math.sqrt(8 * iota), rel=1e-12)


@pytest.mark.parametrize("sharp", [False, True])
def test_q_learning_is_optimistic(sharp):
    P, r = random_problem(11, H=3, S=2)
    best, rng, episodes = q_values(P, None, r)[0], np.random.default_rng(12), []
    for _ in range(3000):
        actions, states = rng.integers(0, A, 3), [0]
        for h in range(3):
            states.append(int(rng.random() < P[h, states[h], actions[h], 1]))
        episodes.append((np.array(states), actions))
    for used in (0, 1, 10, 3000):
        Q, V = rivals.opt_qlearning(episodes[:used], r, 3, 2, A, 9000, 0.1, sharp)
        assert (best - 1e-12 <= Q).all()
        assert (V[:3] >= best.max(axis=2) - 1e-12).all()
    if sharp:
        seen = {(2, s[2], a[2]) for s, a in episodes}
        assert all(Q[key] == pytest.approx(r[key]) for key in seen)  # nothing to learn at the last step

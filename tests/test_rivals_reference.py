"""The references of tests/rivals_reference.py are themselves right: hand-made numbers, proved inequalities, simulations."""

import itertools
import math

import numpy as np
import pytest

import anyreward as ar

from . import rivals_reference as rivals
from .reference import kl, q_values, rf_ucrl, worst_error

H, S, A = 4, 3, 2


def random_problem(seed, H=H, S=S, A=A, stationary=False):
    """Transitions (H, S, A, S) and rewards (H, S, A)."""
    rng = np.random.default_rng(seed)
    P = np.broadcast_to(rng.dirichlet(np.ones(S), (S, A)), (H, S, A, S)) if stationary else rng.dirichlet(np.ones(S), (H, S, A))
    return np.array(P), rng.random((H, S, A))


def sampled(P, visits, seed, stationary=False):
    """Counts with `visits` draws of every pair, (H, S, A, S), or pooled with as many draws of all steps together."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(visits, P[0] if stationary else P)


def random_counts(seed, stationary=False, most=200):
    """Any counts: from none to `most` visits a pair."""
    rng = np.random.default_rng(seed)
    shape = (S, A) if stationary else (H, S, A)
    return rng.multinomial(rng.integers(0, 3, shape) * rng.integers(0, most, shape), rng.dirichlet(np.ones(S), shape))


def layered(n, r):
    """The same problem with states (h, s): counts (HS, A, HS), rewards (H, HS, A); where the last step leads is of no value."""
    H, S, A = r.shape
    big, reward = np.zeros((H, S, A, H, S), int), np.zeros((H, H, S, A))
    for h in range(H):
        big[h, :, :, (h + 1) % H] = n[h]
        reward[h, h] = r[h]
    return big.reshape(H * S, A, H * S), reward.reshape(H, H * S, A)


def layers(Q, H, S):
    """Of Q (H, HS, A) what belongs to the layer of each step, (H, S, A)."""
    return np.array([Q[h].reshape(H, S, -1)[h] for h in range(H)])


def policy_value(P, policy, r, gamma=1.0):
    return q_values(P, policy, r, gamma)[1]


# --- Thresholds ---


def test_thresholds_have_the_known_values():
    paper = [rivals.beta(n, 31, 31 * 2 * 20, 0.1) for n in (0, 1, 100, 1e4, 1e6)]
    assert paper == pytest.approx([40.1186, 41.1023, 84.1087, 214.4828, 352.5489], abs=5e-5)
    express = [rivals.beta_express(n, 31, 2, 20, 0.1) for n in (0, 100)]
    assert express == pytest.approx([105.9868, 249.0555], abs=5e-5)
    assert rivals.beta(5, 1, 7, 0.1) == math.log(140)


# --- Fiechter ---


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


# --- UCB-VI ---


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


# --- EULER ---


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


# --- UCRL2 and KL-UCRL ---


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


# --- Optimistic Q-learning ---


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


# --- Even-Dar, Mannor, Mansour ---


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


# --- RF-Express and BPI-UCBVI ---


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


# --- A generative model ---


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("stationary", [False, True])
def test_generative_draws_are_the_fewest_that_rf_ucrl_accepts(gamma, stationary):
    setting = ar.Setting(n_states=S, n_actions=A, horizon=H, discount=gamma, stationary=stationary, initial_state=0)
    draws = rivals.generative_draws(S, A, H, 1.0, 0.1, gamma, stationary)

    def error(k):
        n = np.zeros((H, S, A, S), int)
        n[..., 1] = k
        return rf_ucrl(np.zeros(S), n, setting, 0.1)[1]

    assert error(draws) <= 0.5 < error(draws - 1)
    assert error(7) == pytest.approx(rivals.generative_error(7, S, A, H, 0.1, gamma, stationary))
    radius = math.sqrt(2 * rivals.beta(900, S, S * A if stationary else S * A * H, 0.1) / 900)
    total = sum(gamma ** (h + 1) * rivals.sigma(H - 1 - h, gamma) for h in range(H)) * radius
    assert rivals.generative_error(900, S, A, H, 0.1, gamma, stationary, clip=False) == pytest.approx(total)


def test_generative_draws_at_the_ends():
    assert rivals.generative_draws(5, 2, 1, 0.1, 0.1) == 0  # one step: nothing to learn
    assert rivals.generative_draws(5, 2, 4, 6.0, 0.1) == 0  # half of epsilon is all there is to lose
    ratio = rivals.generative_draws(5, 2, 4, 0.001, 0.1) / rivals.generative_draws(5, 2, 4, 0.002, 0.1)
    assert 4 < ratio < 4.5  # error ~ n^-1/2, and a logarithm
    assert rivals.generative_draws(31, 2, 20, 2.0, 0.1) == 33029327
    assert rivals.generative_draws(31, 2, 20, 2.0, 0.1, stationary=True) == 32797799


# --- From regret to a policy ---


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


# --- One step with two successors, by hand: the terms that a deterministic chain does not show ---


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

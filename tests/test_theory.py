"""The paper's formulas against its numbers, against each other and against what was measured."""

from math import e, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

import anyreward as ar
from anyreward import theory
from anyreward.certificates.thresholds import paper_beta
from anyreward.environments.tabular import play as play_model

CHAIN = ar.Setting(n_states=31, n_actions=2, horizon=20, initial_state=15)
POOLED = ar.Setting(n_states=31, n_actions=2, horizon=20, initial_state=15, stationary=True)
SETTINGS = [
    CHAIN,
    POOLED,
    ar.Setting(n_states=31, n_actions=2, horizon=20, discount=0.9, initial_state=15),
    ar.Setting(n_states=5, n_actions=3, horizon=4),
    ar.Setting(n_states=5, n_actions=3, horizon=4, stationary=True, discount=0.8),
    ar.Setting(n_states=5, n_actions=3, horizon=4, terminal="outcome"),
]


def test_sigma_is_the_largest_value_of_so_many_steps():
    assert theory.sigma(0) == 0
    assert theory.sigma(20) == 20
    assert theory.sigma(3, 0.5) == 1.75
    for setting in SETTINGS:
        expected = [theory.sigma(k, setting.discount) for k in range(setting.horizon + 1)]
        np.testing.assert_allclose(setting.sigma, expected, rtol=1e-12)


@pytest.mark.parametrize("setting", SETTINGS)
def test_beta_is_the_one_that_certificates_use(setting):
    n = np.array([0, 1, 7, 1000, 10**8])
    np.testing.assert_allclose([theory.beta(k, setting, 0.1) for k in n], paper_beta(n, setting, 0.1), rtol=1e-12)


def test_beta_by_hand():
    assert theory.beta(100, CHAIN, 0.1) == pytest.approx(log(2 * 31 * 2 * 20 / 0.1) + 30 * log(e * (1 + 100 / 30)))
    assert theory.beta(100, POOLED, 0.1) == pytest.approx(log(2 * 31 * 2 / 0.1) + 30 * log(e * (1 + 100 / 30)))
    assert theory.beta(9, ar.Setting(n_states=1, n_actions=2, horizon=3, initial_state=0), 0.1) == pytest.approx(log(120))


@pytest.mark.slow
@settings(max_examples=300, deadline=None, derandomize=True)
@given(*(st.floats(1e-3, 1e3) for _ in range(4)), st.floats(1e-4, 10))
def test_no_n_that_satisfies_the_inequality_exceeds_the_inversion(a, b, c, d, gap):
    """The largest n with n gap^2 <= a + b log(c + d n), if it is at least 1, is at most the lemma's."""

    def room(n):
        return a + b * log(c + d * n) - n * gap**2

    high = 1.0
    while room(high) > 0 or room(2 * high) > 0:  # concave: once it is negative it stays so
        high *= 2
        if high > 1e30:
            return
    if room(1.0) < 0:
        return  # no n >= 1 up to here; the lemma says nothing that could fail
    largest = brentq(room, 1.0, high) if room(high) < 0 else high
    assert largest <= theory.inversion(a, b, c, d, gap) * (1 + 1e-9)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("algorithm", ["rf-ucrl", "bpi-ucrl"])
@pytest.mark.parametrize("epsilon", [0.01, 0.4, 2.0])
def test_the_bounds_on_tau_invert_what_was_proved(setting, algorithm, epsilon):
    """The implicit bound is a fixed point; the explicit one is above it; what is printed differs little for many states."""
    implicit = theory.tau_implicit(setting, epsilon, 0.1, algorithm)
    top, S, A = setting.sigma[-1], setting.n_states, setting.n_actions
    leading = (144 if algorithm == "rf-ucrl" else 64) * (1 + sqrt(2)) ** 2 * S * A / epsilon**2
    steps = setting.horizon if setting.stationary else 1
    C = leading * (top**2 * setting.horizon if setting.stationary else top**4)
    assert implicit == pytest.approx(C * theory.beta(steps * implicit, setting, 0.1), rel=1e-9)
    for tau in (implicit * 1.01, implicit * 10):
        assert tau > C * theory.beta(steps * tau, setting, 0.1)
    explicit = theory.tau_bound(setting, epsilon, 0.1, algorithm)
    assert explicit >= implicit
    assert theory.tau_printed(setting, epsilon, 0.1, algorithm) >= explicit * (1 - 1e-9) or S < 3


@pytest.mark.parametrize(("algorithm", "leading"), [("rf-ucrl", 144), ("bpi-ucrl", 64)])
def test_what_is_printed(algorithm, leading):
    """Theorems 1 and 2, and the appendix: H^3 when stationary, whatever the discount is."""
    S, A, H, epsilon, delta = 5, 3, 4, 0.5, 0.1
    top = 1 + 0.8 + 0.64 + 0.512
    C = leading * (1 + sqrt(2)) ** 2 * S * A / epsilon**2
    for stationary in (False, True):
        setting = ar.Setting(n_states=S, n_actions=A, horizon=H, discount=0.8, stationary=stationary, initial_state=0)
        first, c = (log(2 * S * A / delta), C * H**3) if stationary else (log(2 * S * A * H / delta), C * top**4)
        root, deep = (sqrt(H), H) if stationary else (1, 1)
        inside = c * root * (first + (S - 1) * (sqrt(e) + sqrt(deep * e / (S - 1))))
        printed = c * (first + 2 * (S - 1) * log(inside) + (S - 1))
        assert theory.tau_printed(setting, epsilon, delta, algorithm) == pytest.approx(printed, rel=1e-12)


def test_what_is_proved_when_stationary_is_smaller_with_a_discount():
    """sigma_H^2 H in place of H^3: visible where beta does not depend on tau, that is with one state."""
    setting = ar.Setting(n_states=1, n_actions=3, horizon=4, discount=0.5, stationary=True, initial_state=0)
    C = 144 * (1 + sqrt(2)) ** 2 * 3 * (1 + 0.5 + 0.25 + 0.125) ** 2 * 4 / 0.3**2
    assert theory.tau_bound(setting, 0.3, 0.1) == pytest.approx(C * log(2 * 3 / 0.1), rel=1e-12)
    assert theory.tau_implicit(setting, 0.3, 0.1) == pytest.approx(C * log(2 * 3 / 0.1), rel=1e-12)
    for discount in (0.5, 0.9, 1.0):
        setting = ar.Setting(n_states=5, n_actions=3, horizon=4, discount=discount, stationary=True, initial_state=0)
        larger = theory.tau_printed(setting, 0.3, 0.1) / theory.tau_bound(setting, 0.3, 0.1)
        assert larger > (4 / setting.sigma[-1]) ** 2


# --- The proof of `tau_bound`, step by step ---


def at_the_edge_of_its_ball(p_hat, radius, rng):
    """A law p with KL(p_hat, p) = radius, or as far as a mixture with a random law goes."""
    other, low, high = rng.dirichlet(np.full(len(p_hat), 0.3)) + 1e-9, 0.0, 1.0
    other /= other.sum()

    def kl(weight):
        p = (1 - weight) * p_hat + weight * other
        return sum(q * log(q / p[i]) for i, q in enumerate(p_hat) if q > 0)

    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if kl(middle) <= radius else (low, middle)
    return (1 - low) * p_hat + low * other


def unrolled(weight, discount, n, p_hat, p, setting):
    """E of the paper's recursion on p_hat and, for each pair, the step's part of the bound plus discount p.E of the next step."""
    H, S, A = n.shape
    E, V, bound = np.zeros((H, S, A)), np.zeros(S), np.zeros((H, S, A))
    for h in reversed(range(H)):
        for s, a in np.ndindex(S, A):
            beta, k = theory.beta(n[h, s, a], setting, 0.1), n[h, s, a]
            E[h, s, a] = min(weight[h], weight[h] * sqrt(2 * beta / k) + discount * p_hat[h, s, a] @ V) if k else weight[h]
            top = setting.sigma[H - h]
            bound[h, s, a] = top * (min(1, sqrt(8 * beta / k)) if k else 1) + discount * p[h, s, a] @ V
        V = E[h].max(axis=1)
    return E, V, bound


@pytest.mark.parametrize("arrival", [False, True])
@pytest.mark.parametrize("discount", [1.0, 0.7])
def test_proof_1_an_index_exceeds_the_next_one_by_its_own_radius(arrival, discount):
    """With laws at the edges of their balls, at all steps and before the first one."""
    rng, H, S, A = np.random.default_rng(3), 3, 4, 2
    setting = ar.Setting(n_states=S, n_actions=A, horizon=H, discount=discount, arrival_rewards=arrival)
    weight = setting.sigma[:0:-1] if arrival else discount * setting.sigma[H - 1 :: -1]
    for scale in (3, 300, 30_000, 3_000_000):
        n = rng.integers(0, scale, (H, S, A))
        p_hat = rng.dirichlet(np.full(S, 0.5), (H, S, A))
        p = np.array([
            at_the_edge_of_its_ball(q, theory.beta(k, setting, 0.1) / k, rng) if k else rng.dirichlet(np.ones(S))
            for q, k in zip(p_hat.reshape(-1, S), n.ravel(), strict=True)
        ]).reshape(p_hat.shape)  # fmt: skip
        index, V, bound = unrolled(weight, discount, n, p_hat, p, setting)
        assert (index <= bound + 1e-12).all()
        t, top = scale, setting.sigma[-1]
        beta, q = theory.beta(t, setting, 0.1), rng.dirichlet(np.full(S, 0.5))
        before = min(top, top * sqrt(2 * beta / t) + q @ V)
        assert before <= top * min(1, sqrt(8 * beta / t)) + at_the_edge_of_its_ball(q, beta / t, rng) @ V + 1e-12


def test_proof_1_two_laws_of_a_ball_are_at_most_two_radii_apart():
    """Upper and lower values of BPI-UCRL: what is in [0, sigma] moves by at most sigma sqrt(2 c), so both by sigma sqrt(8 c)."""
    rng = np.random.default_rng(4)
    for c in (1e-6, 1e-3, 0.1, 1.0):
        for _ in range(20):
            p_hat, f = rng.dirichlet(np.full(5, 0.5)), rng.random(5)
            p, other = (at_the_edge_of_its_ball(p_hat, c, rng) for _ in range(2))
            assert abs((p - other) @ f) <= min(1, sqrt(2 * c)) + 1e-12


def test_proof_2_the_weights_of_the_steps():
    for H in (1, 2, 7, 40):
        for discount in (0.3, 0.9, 1.0):
            weights = [discount ** (h - 1) * theory.sigma(H - h + 1, discount) for h in range(1, H + 1)]
            assert max(weights) == weights[0] == theory.sigma(H, discount)
            assert sum(weights) <= theory.sigma(H, discount) ** 2 * (1 + 1e-12)


def test_proof_3_the_mean_of_an_exponential():
    """exp(-x) is below its chord on [0, 1], so a variable of mean p has at most 1 - (1 - 1/e) p <= exp(-p/2)."""
    for p in np.linspace(0, 1, 101):
        assert 1 - (1 - 1 / e) * p <= np.exp(-p / 2)


@pytest.mark.slow
@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(1, 40), st.floats(log(4), 30), st.floats(0, 50), st.floats(0, 200), st.integers(0, 10**6))
def test_proof_4_the_sum_over_the_visits_of_one_pair(M, b, more, growth, seed):
    """z g(n) with the fewest visits n that are possible sums to at most 8.73 M b + 9.45 sqrt(beta n'), for increments up to M."""
    rng, expected, total, bound = np.random.default_rng(seed), 0.0, 0.0, 0.0

    def beta(n):
        return b + more + growth * log(1 + n)

    for _ in range(400):
        z = M * float(rng.random() ** rng.integers(0, 4))
        n = max(0.0, expected / 2 - M * b)
        total += z * (min(1, sqrt(8 * beta(n) / n)) if n > 0 else 1)
        expected += z
        bound = 8.73 * M * b + 9.45 * sqrt(beta(expected) * expected)
        assert total <= bound
    assert total <= bound


def test_proof_4_needs_more_than_the_lemma_that_the_appendix_quotes():
    """Lemma 19: z_k <= max(1, z_1 + ... + z_{k-1}). A first episode with H visits of a pair breaks it, and its conclusion."""
    for H in (6, 20):
        assert H / sqrt(1) > (1 + sqrt(2)) * sqrt(H)


def test_proof_4_the_start_is_visited_once_an_episode():
    for beta in (log(2), 5.0, 100.0):
        total = 0.0
        for t in range(3000):
            total += min(1, sqrt(8 * beta / t)) if t else 1
            assert total <= 2 * sqrt(8 * beta * (t + 1))


def test_proof_5_the_constants_have_room():
    """x^2 <= q + r x with every term of the sum divided by sigma_H^2 S A M beta / epsilon^2, and epsilon < 2 sigma_H."""
    room = 12 * (1 + sqrt(2))
    b = log(4)
    few, many = 8 + 1 / b, sqrt(64 / 3) * (1 + sqrt(1 + 1 / (8 * b)))
    assert few < 8.73
    assert many < 9.45
    for pairs in (2, 3, 100):
        q, r = 2 * few * 2, 2 * many + 2 * 2 * sqrt(8) / sqrt(pairs)
        assert q < 35
        assert r < 18.9 + 8 + 1e-12
        assert (r + sqrt(r**2 + 4 * q)) / 2 < 28.2 < room
    q, r = 2 * 2 / log(2), 2 * 2 * sqrt(8) * 2  # one pair: n = n', H visits in the first episode
    assert q < 6
    assert r < 22.7
    assert (r + sqrt(r**2 + 4 * q)) / 2 < room
    assert (28.2 / 2) ** 2 < 36 * (1 + sqrt(2)) ** 2 < 64 * (1 + sqrt(2)) ** 2  # BPI-UCRL: 2 epsilon


@pytest.mark.parametrize("stationary", [False, True])
def test_a_random_start_costs_episodes_even_for_one_step_and_the_bound_covers_them(stationary):
    """With H = 1 nothing but the start is unknown: the first t with sqrt(2 beta(t)/t) <= epsilon/2, and 0 with a fixed start."""
    mdp = ar.TabularMDP(np.full((2, 2, 2), 0.5), initial=[0.3, 0.7])
    setting = mdp.setting(1, stationary=stationary)
    for epsilon in (1.0, 0.3):
        explorer, rng = ar.RFUCRL(setting, bounds="paper", replan="every"), np.random.default_rng(0)
        while explorer.own_epsilon > epsilon:
            explorer.tell(*mdp.rollout(explorer.ask(), seed=rng))
        first = next(t for t in range(1, 10**6) if 8 * theory.beta(t, setting, 0.1) <= t * epsilon**2)
        assert explorer.episodes == first < theory.tau_implicit(setting, epsilon, 0.1)
    known = ar.Setting(n_states=2, n_actions=2, horizon=1, initial_state=0, stationary=stationary)
    assert ar.RFUCRL(known, bounds="paper").own_epsilon == 0


@pytest.mark.parametrize("algorithm", ["rf-ucrl", "bpi-ucrl"])
@pytest.mark.parametrize(("stationary", "arrival", "discount"), [(False, False, 1.0), (True, False, 0.8), (True, True, 1.0)])
def test_random_starts_end_below_the_bound(algorithm, stationary, arrival, discount):
    P = np.random.default_rng(1).dirichlet(np.ones(2), (2, 2))
    mdp = ar.TabularMDP(P, initial=[0.4, 0.6], reward=np.array([0.0, 1.0]))
    setting = mdp.setting(2, discount, stationary, arrival_rewards=arrival)
    more = {"reward": mdp.reward} if algorithm == "bpi-ucrl" else {"replan": "every"}
    explorer, rng, epsilon = ar.ALGORITHMS[algorithm](setting, bounds="paper", **more), np.random.default_rng(0), 1.2
    while explorer.own_epsilon > epsilon:
        play_model(explorer, mdp, rng, 1, -1.0)
    assert 1 < explorer.episodes < theory.tau_implicit(setting, epsilon, 0.1, algorithm)


def test_what_was_measured_lies_below_the_theorem():
    """RF-UCRL on the chain stops at 0.5 H far below what is proved, with either setting."""
    for setting, stationary in ((CHAIN, False), (POOLED, True)):
        atlas = ar.explore(
            ar.envs.double_chain(), 20, 10.0, algorithm="rf-ucrl", bounds="paper", replan="geometric", stationary=stationary
        )
        assert atlas.certificate.met
        assert 1 < atlas.episodes < theory.tau_implicit(setting, 10.0, 0.1)


def test_the_rates_of_the_table():
    """Upper over lower is H but for best policies at small epsilon, where the rates agree."""
    for problem in ("reward-free", "best policy"):
        for regime in ("small delta", "small epsilon"):
            (upper, _), (lower, _) = (theory.rate(problem, regime, side, 31, 2, 20, 0.5, 0.1) for side in ("upper", "lower"))
            assert upper / lower == pytest.approx(1 if (problem, regime) == ("best policy", "small epsilon") else 20)
        newest, whose = theory.rate(problem, "small delta, by step", "lower", 31, 2, 20, 0.5, 0.1)
        assert newest == pytest.approx(20 * theory.rate(problem, "small delta", "lower", 31, 2, 20, 0.5, 0.1)[0])
        assert whose == "Domingues et al. 2021"
    assert theory.rate("reward-free", "small epsilon", "lower", 31, 2, 20, 0.5, 0.1) == (
        31**2 * 2 * 400 / 0.25,
        "Jin et al. 2020",
    )
    with pytest.raises(ValueError, match="no rate"):
        theory.rate("reward-free", "large delta", "upper", 31, 2, 20, 0.5, 0.1)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.floats(0.01, 0.9999), st.floats(1e-6, 1e3))
def test_after_the_horizon_nothing_of_value_is_left(gamma, epsilon):
    H = ar.horizon_for_discount(gamma, epsilon)
    assert H >= 1
    assert gamma**H / (1 - gamma) <= epsilon * (1 + 1e-9)
    assert max(1, log(1 / (epsilon * (1 - gamma))) / (1 - gamma) + 1) >= H


def test_a_plan_for_the_horizon_is_good_forever():
    """On a random model: optimal for H steps, then at random, within epsilon of the best for ever."""
    gamma, epsilon, mdp = 0.8, 0.3, ar.envs.garnet(6, 3, 2, seed=4)
    H = ar.horizon_for_discount(gamma, epsilon)
    plan = ar.backward_induction(mdp, mdp.reward, H, gamma)
    long = 200
    best = ar.backward_induction(mdp, mdp.reward, long, gamma).V[0, 0]
    policy = np.full((long, 6, 3), 1 / 3)
    policy[:H] = np.eye(3)[plan.policy]
    value = ar.evaluate_policy(mdp, policy, mdp.reward, long, gamma).V[0, 0]
    assert best - epsilon - gamma**long / (1 - gamma) <= value <= best + 1e-9
    act = theory.forever(plan.policy, 3, seed=1)
    assert [act(h, 2) for h in range(H)] == plan.policy[:, 2].tolist()
    later = np.bincount([act(H + i, 2) for i in range(3_000)], minlength=3)
    assert (np.abs(later - 1000) < 6 * sqrt(3000 * 2 / 9)).all()  # fails by chance with probability below 1e-8


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: ar.horizon_for_discount(1.0, 0.1), "gamma is 1.0"),
        (lambda: ar.horizon_for_discount(0.9, 0.0), "epsilon is 0.0"),
        (lambda: theory.tau_bound(CHAIN, 1.0, 0.1, "ucbvi"), "algorithm is 'ucbvi'"),
        (lambda: theory.tau_bound(CHAIN, 1.0, 1.5), "delta is 1.5"),
        (lambda: theory.tau_printed(ar.Setting(n_states=1, n_actions=2, horizon=3), 1.0, 0.1), "n_states is 1"),
    ],
)
def test_what_is_refused(call, names):
    with pytest.raises(ValueError, match=names):
        call()


def test_the_horizon_of_a_goal():
    """The chain, always right to state 30: tau = 37.344 from the far end, so H = 822 for epsilon = 0.1."""
    P = ar.envs.double_chain().dense()[:30, 1]
    steps = np.linalg.solve(np.eye(30) - P[:, :30], np.ones(30))
    assert steps.max() == pytest.approx(37.344, abs=5e-4)
    assert theory.horizon_for_goal(37.344, 0.1) == 822
    for tau, epsilon in ((1.0, 0.5), (3.0, 20.0), (37.344, 0.1)):
        H = theory.horizon_for_goal(tau, epsilon)
        assert (1 - 1 / tau) ** H * tau <= epsilon / 4  # E[(T - H)+] of a geometric law
    for bad in (0.5, np.inf):
        with pytest.raises(ValueError, match=f"tau is {bad}"):
            theory.horizon_for_goal(bad, 0.1)

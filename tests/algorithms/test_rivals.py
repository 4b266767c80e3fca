"""The rivals against slow references: their indices, their rules, and what they guarantee themselves."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

import anyreward as ar
from anyreward.algorithms import BPIUCBVI, EULER, KLUCRL, UCBVI, EvenDar, Fiechter, OptimisticQLearning, RFExpress

from .. import reference
from .. import rivals_reference as slow
from ..problems import by_step, random_mdp

FALSE_ALARM = 1e-7  # of each statistical test here


def played(mdp, setting, episodes, seed):
    """Episodes of uniform actions on a model: states (B, H+1), actions (B, H)."""
    rng = np.random.default_rng(seed)
    policies = rng.integers(0, setting.n_actions, (episodes, setting.horizon, setting.n_states))
    return mdp.play_each(policies, rng)


def counted(states, actions, setting):
    """n[h, s, a, x], or n[s, a, x] of all steps together when stationary, as the references want it."""
    S, A, H = setting.n_states, setting.n_actions, setting.horizon
    n = np.zeros((H, S, A, S), int)
    np.add.at(n, (np.arange(H), states[:, :-1], actions, states[:, 1:]), 1)
    return n.sum(axis=0) if setting.stationary else n


def counts_of(explorer):
    """The same from what an explorer has counted."""
    setting, columns = explorer.setting, explorer.counts.columns()
    S, A, H = setting.n_states, setting.n_actions, setting.horizon
    n = np.zeros((H, S, A, S), int)
    moves = columns["h"] >= 0
    np.add.at(n, tuple(columns[k][moves] for k in ("h", "s", "a", "next")), columns["count"][moves])
    return n.sum(axis=0) if setting.stationary else n


def node_values(explorer, values, blank):
    """An index of nodes, (H, S); `blank` without data."""
    setting, node_of = explorer.setting, explorer.counts.table.node_of
    out = np.full((setting.horizon, setting.n_states), float(blank))
    for h, s in np.ndindex(out.shape):
        node = int(node_of[min(h, len(node_of) - 1), s])
        if node:
            out[h, s] = values[min(h, len(values) - 1), node]
    return out


def lower(explorer, blank=0.0):
    return explorer.dense(explorer._indices.Q_lo, np.full(explorer.setting.horizon, blank))


DELTA, BUDGET = 0.3, 50


def fiechter(published):
    def check(setting, r, n, explorer):
        H = setting.horizon
        F, V = slow.fiechter(
            n, DELTA, epsilon=1.0, gamma=setting.discount, published=published, eta=explorer.eta, horizon=H
        )  # fmt: skip
        steps = explorer.index / explorer.eta
        np.testing.assert_allclose(steps, np.rint(steps), rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(np.rint(steps).astype(int), F)
        if not published:
            most = setting.discount * slow.sigma(H - 1, setting.discount)
            bound = slow.fiechter_error_bound(V, setting.initial_state, explorer.eta, setting.discount)
            assert explorer.own_epsilon == pytest.approx(2 * min(most, bound), rel=1e-9)
        return F[:-1] * explorer.eta, setting.discount * setting.sigma[-2]

    return check


def express(setting, r, n, explorer):
    W, V = slow.rf_express(n, DELTA, horizon=setting.horizon)
    np.testing.assert_allclose(explorer.index, W, rtol=1e-9)
    assert explorer.own_epsilon == pytest.approx(2 * slow.rf_express_error(V, setting.initial_state), rel=1e-9)
    return W, setting.horizon


def euler(repaired):
    def check(setting, r, n, explorer):
        up, _, lo, _ = slow.euler(n, r, DELTA, BUDGET * setting.horizon, repaired=repaired)
        np.testing.assert_allclose(explorer.index, up, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(lower(explorer), lo, rtol=1e-9, atol=1e-9)
        return up[0, setting.initial_state], setting.horizon

    return check


def even_dar(setting, r, n, explorer):
    right = slow.even_dar(n, r, DELTA, setting.discount)
    np.testing.assert_allclose(explorer.index, right.Q_up, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(explorer.lower_index, right.Q_lo, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(explorer.recommendation, right.Q_lo.argmax(axis=2))
    for share in (1 - 1e-6, 1 + 1e-6):
        stops = slow.even_dar_stops(right, explorer.own_epsilon * share, setting.discount, setting.initial_state)
        assert stops == (share > 1)
    return right.Q_up - right.Q_lo, setting.discount * setting.sigma[-2]


def bpi_ucbvi(setting, r, n, explorer):
    right = slow.bpi_ucbvi(n, r, DELTA)
    np.testing.assert_allclose(explorer.index, right.Q_up, rtol=1e-9)
    np.testing.assert_allclose(lower(explorer), right.Q_lo, rtol=1e-9, atol=1e-9)
    G = np.take_along_axis(right.G, right.policy[..., None], axis=2)[..., 0]
    np.testing.assert_allclose(node_values(explorer, explorer._indices.G, setting.horizon), G, rtol=1e-9)
    np.testing.assert_array_equal(explorer.recommendation, right.policy)
    assert explorer.own_epsilon == pytest.approx(G[0, setting.initial_state], rel=1e-9)
    return right.Q_up, setting.horizon


INDICES = {  # without a memory of their own: a function of the counts
    "fiechter, repaired": (lambda s, r: Fiechter(s, delta=DELTA, eta=0.013), fiechter(False), True),
    "fiechter, published": (lambda s, r: Fiechter(s, delta=DELTA, variant="published"), fiechter(True), True),
    "rf-express": (lambda s, r: RFExpress(s, delta=DELTA), express, False),
    "euler, repaired": (lambda s, r: EULER(s, r, delta=DELTA, budget=BUDGET), euler(True), False),
    "euler, published": (lambda s, r: EULER(s, r, delta=DELTA, budget=BUDGET, variant="published"), euler(False), False),
    "even-dar": (lambda s, r: EvenDar(s, r, delta=DELTA), even_dar, True),
    "bpi-ucbvi": (lambda s, r: BPIUCBVI(s, r, delta=DELTA), bpi_ucbvi, False),
}


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize(
    ("stationary", "discount", "seed"),
    [(False, 1.0, 0), (False, 1.0, 1), (True, 1.0, 2), (True, 1.0, 3), (False, 0.8, 4), (True, 0.8, 5)],
)
def test_the_index_is_that_of_the_formulas(name, stationary, discount, seed):
    """Told episodes, few and many, in batches; at the end most of the index is below its cap, where it says something."""
    make, check, with_discount = INDICES[name]
    if discount < 1 and not with_discount:
        with pytest.raises(ValueError, match=r"discount is 0\.8"):
            make(ar.Setting(n_states=3, n_actions=2, horizon=3, discount=discount, initial_state=1), np.zeros((3, 2)))
        return
    S, A, H = 3, 2, 3
    rng = np.random.default_rng(seed)
    mdp = ar.TabularMDP(rng.dirichlet(np.full(S, 0.5), (S, A) if stationary else (H, S, A)), initial=1)
    setting, r = mdp.setting(H, discount, stationary), rng.random((H, S, A))
    explorer, before = make(setting, r), 0
    states, actions = played(mdp, setting, 60_000, seed)
    for upto in (0, 1, 6, 40, 900, 60_000):
        explorer.tell(states[before:upto], actions[before:upto])
        index, cap = check(setting, r, counted(states[:upto], actions[:upto], setting), explorer)
        before = upto
    assert (index < cap - 1e-6).mean() > 0.5


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("stationary", [False, True])
def test_the_index_is_that_of_the_formulas_after_a_compiled_run(name, stationary):
    make, check, _ = INDICES[name]
    mdp, H = random_mdp(4, 3, seed=8), 4
    setting, rng = mdp.setting(H, 1.0, stationary), np.random.default_rng(1)
    r = rng.random((H, 4, 3))
    explorer = make(setting, r)
    for upto in (3, 500, 20_000):
        while explorer.episodes < upto:
            explorer.advance(mdp, rng, upto - explorer.episodes, 0.0)
        check(setting, r, counts_of(explorer), explorer)
        chosen = np.take_along_axis(explorer.index, explorer.ask()[..., None], axis=2)[..., 0]
        np.testing.assert_array_equal(chosen, explorer.index.max(axis=2))  # and the policy is greedy for it


@pytest.mark.parametrize("bonus", ["hoeffding", "bernstein"])
@pytest.mark.parametrize("stationary", [False, True])
def test_ucbvi_takes_the_least_index_of_all_episodes(bonus, stationary):
    """Replayed episode by episode, as the minimum with the index before is part of the algorithm."""
    P = np.array([[[[0.9, 0.1]], [[0.5, 0.5]]]] * 2)
    mdp, H, delta, episodes = ar.TabularMDP(P), 2, 0.9, 6000 if bonus == "hoeffding" else 1500
    setting = ar.Setting(n_states=2, n_actions=1, horizon=H, initial_state=0, stationary=stationary)
    r = np.array([[[0.0], [0.3]], [[0.0], [1.0]]])
    explorer = UCBVI(setting, r, budget=1, bonus=bonus, delta=delta)
    states, actions = played(mdp, setting, episodes, seed=0)
    n, visits, Q = np.zeros((H, 2, 1, 2), int), np.zeros((H + 1, 2), int), np.full((H, 2, 1), float(H))
    checks, forgetful, told = {1, 2, 17, episodes // 3, episodes // 2, *range(episodes - 60, episodes + 1)}, 0.0, 0
    for b in range(episodes):
        n[np.arange(H), states[b, :-1], actions[b], states[b, 1:]] += 1
        visits[np.arange(H + 1), states[b]] += 1
        pooled = n.sum(axis=0) if stationary else n
        Q, _ = slow.ucbvi(pooled, r, delta, H, bonus, previous_Q=Q, visits=visits)
        if b + 1 in checks:
            explorer.tell(states[told : b + 1], actions[told : b + 1])
            told = b + 1
            np.testing.assert_allclose(explorer.index, Q, rtol=1e-9)
            forgetful = max(forgetful, (slow.ucbvi(pooled, r, delta, H, bonus, visits=visits)[0] - Q).max())
    assert Q[0, 0, 0] < H - 0.1
    assert forgetful > 1e-7  # the minimum did something


@pytest.mark.parametrize("stationary", [False, True])
def test_ucbvi_counts_visits_of_states_by_step(stationary):
    """Bernstein's last term falls once 100^2 H^3 S^2 A L^2 / N' is below H^2: in the least problem, from 26,000 visits on."""
    setting = ar.Setting(n_states=1, n_actions=1, horizon=1, initial_state=0, stationary=stationary)
    explorer, N, delta = UCBVI(setting, [0.0], budget=1, delta=0.99), 60_000, 0.99
    explorer.tell(np.zeros((N, 2), int), np.zeros((N, 1), int))
    n = np.full((1, 1, 1) if stationary else (1, 1, 1, 1), N)
    Q, _ = slow.ucbvi(n, np.zeros((1, 1, 1)), delta, 1, "bernstein", visits=np.full((2, 1), N))
    with_most, _ = slow.ucbvi(n, np.zeros((1, 1, 1)), delta, 1, "bernstein", visits=np.zeros((2, 1)))
    assert explorer.index[0, 0, 0] == pytest.approx(Q[0, 0, 0], rel=1e-9)
    assert Q[0, 0, 0] < 0.95 * with_most[0, 0, 0]


@pytest.mark.parametrize("sharp", [False, True])
@pytest.mark.parametrize("stationary", [False, True])
def test_q_learning_replays_in_the_order_of_the_episodes(sharp, stationary):
    """By step, in a stationary setting too; below its first value, so that the order matters."""
    mdp, H, S, A, K, delta = random_mdp(3, 2, seed=2), 3, 3, 2, 3000, 0.3
    setting, r = mdp.setting(H, stationary=stationary), np.random.default_rng(1).random((H, S, A))
    explorer = OptimisticQLearning(setting, r, budget=K, sharp=sharp, delta=delta)
    states, actions = played(mdp, setting, K, seed=5)
    for begin, end in itertools.pairwise((0, 1, 2, 30, 1000, K)):
        explorer.tell(states[begin:end], actions[begin:end])
        Q, _ = slow.opt_qlearning(zip(states[:end], actions[:end], strict=True), r, H, S, A, K * H, delta, sharp)
        np.testing.assert_allclose(explorer.index, Q, rtol=1e-9)
    backwards, _ = slow.opt_qlearning(zip(states[::-1], actions[::-1], strict=True), r, H, S, A, K * H, delta, sharp)
    assert abs(backwards - Q).max() > 1e-6
    assert Q[-1].max() < (1 + 1e-9 if sharp else H)


def test_q_learning_forgets_where_it_began_at_the_first_visit():
    """alpha_1 = 1."""
    setting = ar.Setting(n_states=2, n_actions=1, horizon=1, initial_state=0)
    explorer = OptimisticQLearning(setting, [0.25, 0.0], budget=1, sharp=True)
    explorer.tell([0, 1], [0])
    assert explorer.index[0, 0, 0] == pytest.approx(0.25, abs=1e-15)
    assert explorer.index[0, 1, 0] == 1.0


# --- UCRL in phases ---


def phased(name, setting, r, delta=0.2, **options):
    more = {"budget": 20_000} if name == "kl-ucrl" else {}
    return ar.ALGORITHMS[name](setting, r, delta=delta, **more, **options)


def both_sides(explorer):
    """Q_up and Q_lo, (H, S, A), nan where there was no data when the phase began."""
    H, S, A = explorer.setting.horizon, explorer.setting.n_states, explorer.setting.n_actions
    node_of, sides = explorer.counts.table.node_of, explorer._values.sides
    out = np.full((2, H, S, A), np.nan)
    for h, s in np.ndindex(H, S):
        node, plane = int(node_of[min(h, len(node_of) - 1), s]), min(h, len(sides.V) - 1)
        if node and sides.settled[plane, node]:
            out[:, h, s] = [Q[plane, node * A : node * A + A] for Q in (sides.Q, sides.Q_lo)]
    return out


@pytest.mark.parametrize("name", ["ucrl2", "kl-ucrl"])
@pytest.mark.parametrize(
    ("stationary", "discount", "compiled"), [(False, 1.0, False), (True, 1.0, False), (False, 0.8, True), (True, 0.9, True)]
)
def test_both_bounds_of_ucrl_are_of_the_beginning_of_the_phase(name, stationary, discount, compiled):
    """A phase ends after the episode in which some pair has been seen as often again, or for the first time."""
    mdp, H, S, A, N = random_mdp(3, 2, seed=6), 3, 3, 2, 2500
    setting, rng = mdp.setting(H, discount, stationary), np.random.default_rng(2)
    r = rng.random((H, S, A))
    explorer = phased(name, setting, r)
    states, actions = played(mdp, setting, N, seed=9)
    n = np.zeros((H, S, A, S), int)
    begun, phases, t_begun = n.copy(), 0, 1  # the first transition is at t = 1
    for b in range(N):
        if compiled:
            states[b], actions[b] = mdp.rollout(explorer.ask(), seed=rng)
            explorer.tell(states[b], actions[b])
        n[np.arange(H), states[b, :-1], actions[b], states[b, 1:]] += 1
        now, then = (x.sum(axis=(0, 3))[None] if stationary else x.sum(axis=3) for x in (n, begun))
        steps = np.zeros(H, int) if stationary else np.arange(H)
        at = steps, states[b, :-1], actions[b]
        if ((now - then)[at] >= np.maximum(1, then[at])).any():
            begun, phases, t_begun = n.copy(), phases + 1, (b + 1) * H + 1
    if not compiled:
        for part in range(0, N, 777):
            explorer.tell(states[part : part + 777], actions[part : part + 777])
    assert 10 < phases < 150
    assert t_begun < N * H
    pooled = begun.sum(axis=0) if stationary else begun
    if name == "ucrl2":
        up, V_up, lo, V_lo = slow.ucrl2(pooled, r, 0.2, discount, t=t_begun)
    else:
        up, V_up, lo, V_lo = slow.kl_ucrl(pooled, r, 0.2, 20_000 * H, discount)
    found = both_sides(explorer)
    for side, right in zip(found, (up, lo), strict=True):
        seen = ~np.isnan(side)
        assert seen.mean() > 0.7
        np.testing.assert_allclose(side[seen], right[seen], rtol=1e-9, atol=1e-9)
    assert explorer.own_epsilon == pytest.approx(V_up[0, 0] - V_lo[0, 0], abs=1e-9)
    assert explorer.own_epsilon < 0.9 * setting.sigma[-1]
    recommended = np.take_along_axis(lo, explorer.recommendation[..., None], axis=2)[..., 0]
    np.testing.assert_allclose(recommended, V_lo[:-1], atol=2e-9)


@pytest.mark.parametrize("stationary", [False, True])
def test_ucrl2_counts_its_transitions_from_1(stationary):
    """After one episode of H = 3 steps t is 4, for the laws of pairs and for that of the start."""
    S, A, delta = 5, 2, 0.2
    setting = ar.Setting(n_states=S, n_actions=A, horizon=3, stationary=stationary)
    explorer = ar.ALGORITHMS["ucrl2"](setting, np.zeros(S), delta=delta)
    explorer.tell([0, 1, 2, 3], [0, 1, 0])
    n, radius = explorer.counts.table.n, explorer._values.sides.radius
    assert n.sum() == 4  # each of 3 pairs once, and the start
    np.testing.assert_allclose(radius[n > 0], slow.ucrl2_radius(1, S, A, 4, delta), rtol=1e-12)


def test_the_policy_of_ucrl_stays_within_a_phase():
    mdp = random_mdp(3, 2, seed=1)
    for name in ("ucrl2", "kl-ucrl"):
        explorer, rng = phased(name, mdp.setting(3), mdp.reward, ties="first"), np.random.default_rng(0)
        before, changes = explorer.ask(), 0
        for _ in range(1500):
            explorer.tell(*mdp.rollout(before, seed=rng))
            after, started = explorer.ask(), explorer._started[explorer.counts.table.n > 0]
            changes += (after != before).any()
            now = explorer.counts.table.n[explorer.counts.table.n > 0]
            assert (now[1:] < 2 * np.maximum(1, started[1:])).all()  # or another phase would have begun; 0 is the start draw
            before = after
        assert changes < 60


def test_kl_ucrl_refuses_what_its_constant_is_not_proved_for():
    """Below b = 6.1 the closed form falls short: with one state, one action and a large delta."""
    setting = ar.Setting(n_states=1, n_actions=1, horizon=2, initial_state=0)
    with pytest.raises(ValueError, match=r"delta is 0\.9"):
        KLUCRL(setting, [0.5], budget=5, delta=0.9)


# --- Sanity of each ---


@pytest.mark.parametrize(("stationary", "discount"), [(False, 1.0), (True, 0.9)])
def test_fiechter_with_a_fine_grain_is_rf_ucrl(stationary, discount):
    mdp = random_mdp(3, 2, seed=4)
    setting = mdp.setting(4, discount, stationary)
    states, actions = played(mdp, setting, 5000, seed=2)
    fine, paper = Fiechter(setting, eta=1e-9), ar.RFUCRL(setting, bounds="paper", replan="every")
    fine.tell(states, actions)
    paper.tell(states, actions)
    np.testing.assert_allclose(fine.index, paper.index, rtol=0, atol=1e-8)
    assert paper.error_bound < 0.9 * setting.discount * setting.sigma[-2]
    assert fine.own_epsilon == pytest.approx(2 * paper.error_bound, rel=1e-6)
    starts, n = reference.dense_counts(states, actions, setting)
    np.testing.assert_allclose(fine.index, np.array(reference.rf_ucrl(starts, n, setting, 0.1)[0], float), rtol=0, atol=1e-8)


def test_the_published_index_of_fiechter_is_below_a_true_error():
    """Why it has no guarantee: its bonus knows one function, not all. 600 equally likely successors, 10^6 visits of the pair."""
    S, N = 600, 10**6
    setting = ar.Setting(n_states=S, n_actions=1, horizon=2, initial_state=0, stationary=True)
    published, repaired = Fiechter(setting, variant="published", eta=1e-6), Fiechter(setting, eta=1e-6)
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(N, np.full(S, 1 / S))
    worst = np.abs(drawn / N - 1 / S).sum() / 2  # the error for a reward of 1 in the states that were seen too often
    bonus = math.sqrt(2 * math.log(2 * S * 2 / 0.1) / N)
    assert bonus < worst < math.sqrt(2 * slow.beta(N, S, S, 0.1) / N)
    assert published.own_epsilon is None
    assert repaired.own_epsilon is not None


def test_fiechter_stops_where_its_rule_says():
    """eta = epsilon / (8 H): F_0 <= 3 H implies an own guarantee of at most epsilon, and one grain more does not stop."""
    epsilon, H = 0.5, 2
    setting = ar.Setting(n_states=2, n_actions=1, horizon=H, initial_state=0)
    explorer = Fiechter(setting, eta=slow.fiechter_eta(epsilon, H))
    threshold, stopped = slow.fiechter_threshold(epsilon, explorer.eta, H), None
    assert threshold == 3 * H
    for t in range(1, 900):
        explorer.tell([0, 1, 1], [0, 0])
        if stopped is None and np.rint(explorer.index[0, 0, 0] / explorer.eta) <= threshold:
            stopped = t
            assert explorer.own_epsilon <= epsilon
    assert stopped is not None
    assert stopped > 361


def test_even_dar_eliminates_bad_actions_and_never_the_best():
    """Over 40 runs of delta = 1/10; false alarm below 1e-7. And it does eliminate."""
    runs, wrong, out = 40, 0, 0
    for seed in range(runs):
        mdp, H = random_mdp(2, 2, seed=seed), 3
        rng, setting = np.random.default_rng(seed), mdp.setting(H, (1.0, 0.8)[seed % 2], seed % 3 == 0)
        explorer = EvenDar(setting, mdp.reward, seed=seed)
        best = ar.backward_induction(mdp, mdp.reward, H, setting.discount)
        failed = False
        while explorer.episodes < 3000:
            explorer.advance(mdp, rng, 1000, 0.0)
            left = explorer.index >= explorer.lower_index.max(axis=2, keepdims=True)
            failed |= not np.take_along_axis(left, best.policy[..., None], axis=2).all()
        wrong += failed
        out += (~left).sum()
    assert wrong <= binom.isf(FALSE_ALARM, runs, 0.1)
    assert out > runs


def test_even_dar_with_a_state_that_cannot_be_reached_never_stops():
    """Its width there stays sigma: own_epsilon says so instead of a number that would be false."""
    P = np.zeros((3, 1, 3))
    P[:, 0, 0] = 1
    explorer = EvenDar(ar.TabularMDP(P).setting(3), [0.0, 0.0, 1.0])
    explorer.tell(np.zeros((5000, 4), int), np.zeros((5000, 3), int))
    assert explorer.own_epsilon >= 3 * 1.0
    assert (explorer.index - explorer.lower_index)[0, 0, 0] < 0.5


# --- Optimism and own guarantees, on models whose truth is known ---


def truth(mdp, r, setting):
    return ar.backward_induction(mdp, r, setting.horizon, setting.discount)


def loss_of(mdp, r, policy, setting):
    best, own = truth(mdp, r, setting), ar.evaluate_policy(mdp, policy, r, setting.horizon, setting.discount)
    return float(mdp.initial @ (best.V[0] - own.V[0]))


OPTIMISTS = {
    "ucbvi": {"bonus": "hoeffding", "budget": 6000},
    "euler": {"budget": 6000},
    "bpi-ucbvi": {},
    "ucrl2": {},
    "kl-ucrl": {"budget": 6000},
    "even-dar": {},
    "opt-qlearning": {"budget": 6000},
    "opt-qlearning, sharp": {"budget": 6000, "sharp": True},
}


@pytest.mark.parametrize("name", OPTIMISTS)
def test_the_upper_index_is_above_the_truth(name):
    """Q_up >= Q*, and Q_lo <= Q* where there is one, at all looks in at least 1 - delta of the runs. delta = 1/2.

    False alarm below 1e-7: 30 runs, of which each may fail with probability 1/2.
    """
    runs, delta, H, wrong, informative = 30, 0.5, 2, 0, 0
    for seed in range(runs):
        mdp = random_mdp(2, 2, seed=seed, H=None if seed % 2 else H, random_start=seed % 3 == 0)
        setting, rng = mdp.setting(H, 1.0, stationary=seed % 2 == 1 and seed % 4 == 1), np.random.default_rng(seed)
        explorer = ar.ALGORITHMS[name.split(",")[0]](setting, mdp.reward, delta=delta, seed=seed, **OPTIMISTS[name])
        Q, failed = truth(mdp, mdp.reward, setting).Q, False
        for upto in (1, 10, 100, 1000, 60_000 if name == "bpi-ucbvi" else 6000):
            while explorer.episodes < upto:
                explorer.advance(mdp, rng, upto - explorer.episodes, 0.0)
            if name in ("ucrl2", "kl-ucrl"):
                up, lo = both_sides(explorer)
                up, lo = np.where(np.isnan(up), np.inf, up), np.where(np.isnan(lo), 0, lo)
            else:
                up = explorer.index
                lo = np.zeros_like(up) if name.startswith(("opt", "ucbvi")) else lower(explorer)
            failed |= bool((up < Q - 1e-9).any() or (lo > Q + 1e-9).any())
        wrong += failed
        informative += (up[0] < H - 0.05).any()
    assert wrong <= binom.isf(FALSE_ALARM, runs, delta)
    # huge constants would be true as well; Hoeffding's 7 H L / sqrt(n) and Q-learning's sqrt(H^3 iota / t) are huge
    assert informative >= (0 if name in ("ucbvi", "opt-qlearning") else runs / 2)


BEST_POLICY = {
    "even-dar": ({}, 20_000),
    "bpi-ucbvi": ({}, 60_000),
    "ucrl2": ({}, 20_000),
    "kl-ucrl": ({"budget": 20_000}, 20_000),
}


@pytest.mark.parametrize("name", BEST_POLICY)
def test_the_recommendation_loses_no_more_than_it_says(name):
    """own_epsilon >= V* - V^recommendation at every look, in 1 - delta of the runs; delta = 1/2, false alarm below 1e-7."""
    options, last = BEST_POLICY[name]
    runs, delta, H, wrong, told = 30, 0.5, 2, 0, 0
    for seed in range(runs):
        mdp, stationary = random_mdp(2, 2, seed=seed, random_start=seed % 3 == 0), seed % 2 == 0
        discount = 1.0 if name == "bpi-ucbvi" or seed % 5 else 0.7
        setting, rng = mdp.setting(H, discount, stationary), np.random.default_rng(seed)
        explorer, failed = ar.ALGORITHMS[name](setting, mdp.reward, delta=delta, seed=seed, **options), False
        for upto in (0, 1, 3, 30, 300, 3000, last):
            while explorer.episodes < upto:
                explorer.advance(mdp, rng, upto - explorer.episodes, 0.0)
            own = explorer.own_epsilon
            if own is None:
                assert name == "bpi-ucbvi"
                assert setting.initial_state is None  # what its theorem does not cover
            else:
                failed |= own < loss_of(mdp, mdp.reward, explorer.recommendation, setting)
        wrong += failed
        told += own is not None and own < 0.9 * setting.sigma[-1]
    assert wrong <= binom.isf(FALSE_ALARM, runs, delta)
    assert told >= runs / 2


@pytest.mark.parametrize(("name", "last", "runs"), [("fiechter", 20_000, 30), ("rf-express", 2_000_000, 3)])
def test_every_plan_loses_no_more_than_it_says(name, last, runs):
    """own_epsilon >= the loss of the plan for the worst of 30 rewards drawn at random; delta = 1/2, false alarm below 1e-7.

    3 runs cannot fail a test at that level: RF-Express must hold in all of them, with delta = 1e-8.
    """
    H, S, A, wrong, told = 2, 2, 2, 0, 0
    delta = 0.5 if runs > 10 else 1e-8
    for seed in range(runs):
        mdp, rng = random_mdp(S, A, seed=seed), np.random.default_rng(seed)
        setting = mdp.setting(H, 1.0 if name == "rf-express" or seed % 3 else 0.8, stationary=seed % 2 == 1)
        explorer, failed = ar.ALGORITHMS[name](setting, delta=delta, seed=seed), False
        for upto in (0, 1, 10, 300, last):
            while explorer.episodes < upto:
                explorer.advance(mdp, rng, upto - explorer.episodes, 0.0)
            n = counts_of(explorer)
            n = slow.by_step(n, H)
            p_hat = np.apply_along_axis(slow.p_hat, -1, n)
            worst = 0.0
            for i in range(30):
                r = rng.random((H, S, A)) if i % 2 else rng.integers(0, 2, (H, S, A)).astype(float)
                plan = ar.backward_induction(p_hat, r, H, setting.discount).policy
                worst = max(worst, loss_of(mdp, r, plan, setting))
            failed |= explorer.own_epsilon < worst
        wrong += failed
        told += explorer.own_epsilon < 0.9 * setting.sigma[-1]
    assert wrong <= binom.isf(FALSE_ALARM, runs, delta)
    assert told >= runs / 3


# --- Where nothing is guaranteed ---

RANDOM_START = ar.Setting(n_states=3, n_actions=2, horizon=3)
FIXED_START = ar.Setting(n_states=3, n_actions=2, horizon=3, initial_state=0)
REWARD = np.array([0.0, 0.3, 1.0])


def some(name, setting, **options):
    kind = ar.ALGORITHMS[name]
    more = {"reward": REWARD} if kind.needs_reward else {}
    return kind(setting, **more, **({"budget": 60} if kind.needs_budget else {}), **options)


def told(explorer, episodes=60):
    rng, mdp = np.random.default_rng(0), random_mdp(3, 2, seed=0, random_start=explorer.setting.initial_state is None)
    for _ in range(episodes):
        explorer.tell(*mdp.rollout(explorer.ask(), seed=rng))
    return explorer


SCALED = [
    "fiechter", "rf-express", "jin2020", "bpi-ucbvi", "even-dar", "ucbvi", "euler", "ucrl2", "kl-ucrl", "opt-qlearning",
    "regret-uniform", "regret-instances",
]  # fmt: skip


@pytest.mark.parametrize("name", SCALED)
def test_another_scale_is_a_heuristic_without_a_guarantee(name):
    for scale in (0.5, 2.0, 1 + 1e-12):
        explorer = told(some(name, FIXED_START, scale=scale))
        assert explorer.own_epsilon is None
        assert explorer.heuristic
    assert not some(name, FIXED_START, scale=1).heuristic


@pytest.mark.parametrize("name", SCALED)
def test_a_scale_that_is_no_positive_number_is_refused_at_once(name):
    for scale in (0.0, -1.0, math.nan, "much"):
        with pytest.raises(ValueError, match="scale is"):
            some(name, FIXED_START, scale=scale)


@pytest.mark.parametrize("name", ["ucbvi", "euler", "opt-qlearning", "random", "generative", "jin2020"])
def test_regret_minimisers_and_baselines_guarantee_no_policy(name):
    explorer = told(some(name, FIXED_START))
    assert explorer.own_epsilon is None
    assert explorer.recommendation is None


@pytest.mark.parametrize("name", ["fiechter", "rf-express", "bpi-ucbvi"])
def test_a_random_start_has_no_guarantee_where_none_was_proved(name):
    assert told(some(name, RANDOM_START)).own_epsilon is None
    assert told(some(name, FIXED_START)).own_epsilon is not None


def test_published_fiechter_has_no_guarantee():
    assert told(Fiechter(FIXED_START, variant="published")).own_epsilon is None


def test_kl_ucrl_guarantees_nothing_beyond_its_budget():
    """T bounds every count in the union: once there are more transitions, nothing is proved."""
    explorer = KLUCRL(FIXED_START, REWARD, budget=20)
    assert told(explorer, 20).own_epsilon is not None
    assert told(explorer, 1).own_epsilon is None


@pytest.mark.parametrize("name", ["fiechter", "rf-express"])
def test_rewards_on_arrival_are_not_covered_by_indices_that_leave_them_out(name):
    """In one step nothing is unknown of a reward (h, s, a), but all of a reward (h, s, a, s'): the plan can lose 1."""
    setting = ar.Setting(n_states=2, n_actions=2, horizon=1, initial_state=0, arrival_rewards=True)
    own = ar.ALGORITHMS[name](setting).own_epsilon
    assert own is None or own >= 1


# --- Known pairs: states that are never left, actions that must not be played ---


@pytest.mark.parametrize(
    "name", ["ucbvi", "ucbvi, hoeffding", "opt-qlearning", "opt-qlearning, sharp", "euler", "even-dar", "bpi-ucbvi"]
)
@pytest.mark.parametrize("stationary", [False, True])
def test_optimism_holds_in_states_that_are_known_to_be_absorbing(name, stationary):
    """Nothing is unknown about where they lead, but they pay: an index of 0 there is no upper bound."""
    P = np.zeros((2, 2, 2))
    P[0, :, 1] = P[1, :, 1] = 1
    mdp = ar.TabularMDP(P, reward=np.array([[0.0, 0.0], [0.0, 1.0]]))
    setting = mdp.setting(3, stationary=stationary, absorbing_states=(1,))
    options = {"budget": 100} if ar.ALGORITHMS[name.split(",")[0]].needs_budget else {}
    options |= {"bonus": "hoeffding"} if "hoeffding" in name else {"sharp": True} if "sharp" in name else {}
    explorer, rng = ar.ALGORITHMS[name.split(",")[0]](setting, mdp.reward, **options), np.random.default_rng(0)
    Q = ar.backward_induction(mdp, mdp.reward, 3).Q
    for _ in range(100):
        explorer.tell(*mdp.rollout(explorer.ask(), seed=rng))
        assert (explorer.index >= Q - 1e-12).all()


@pytest.mark.parametrize("name", [name for name in ar.ALGORITHMS if name not in ("random", "generative")])
def test_actions_that_are_declared_illegal_can_be_lived_with(name):
    """Masks of an environment: it plays another action instead, and no index may stumble over it."""
    explorer = some(name, FIXED_START)
    for s in range(3):
        explorer.counts.declare_illegal(s, [1])
    states, _ = played(random_mdp(3, 2, seed=0), FIXED_START, 60, seed=1)
    for b in range(60):
        explorer.ask()
        explorer.tell(states[b], np.zeros(3, int))
        own = explorer.own_epsilon
        assert own is None or own >= 0
    if name not in ("jin2020", "regret-uniform", "regret-instances"):  # they have minimisers that are not told
        seen = counts_of(explorer).sum(axis=(2, 3)) > 0
        seen[-1] &= ar.ALGORITHMS[name].needs_reward  # where the last transition does not matter, nothing is better than 0
        assert (explorer.ask()[seen] == 0).all()


# --- What is refused ---


@pytest.mark.parametrize("name", [name for name, kind in ar.ALGORITHMS.items() if kind.needs_reward])
def test_a_reward_is_needed_and_has_to_be_in_0_to_1(name):
    more = {"budget": 9} if ar.ALGORITHMS[name].needs_budget else {}
    with pytest.raises(ValueError, match="reward is not given"):
        ar.ALGORITHMS[name](FIXED_START, **more)
    for bad in ([0, 0, 1.5], [0, math.nan, 0], [-0.1, 0, 0], [0, 1], "gold"):
        with pytest.raises(ValueError, match="reward"):
            ar.ALGORITHMS[name](FIXED_START, bad, **more)


@pytest.mark.parametrize("name", [name for name, kind in ar.ALGORITHMS.items() if kind.needs_budget])
def test_a_budget_is_needed_and_has_to_be_positive(name):
    more = {"reward": REWARD} if ar.ALGORITHMS[name].needs_reward else {}
    with pytest.raises(ValueError, match="budget is not given"):
        ar.ALGORITHMS[name](FIXED_START, **more)
    for bad in (0, -3, 2.5):
        with pytest.raises(ValueError, match="budget is"):
            ar.ALGORITHMS[name](FIXED_START, budget=bad, **more)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("fiechter", {"variant": "new"}),
        ("fiechter", {"eta": 0.0}),
        ("euler", {"variant": "new"}),
        ("jin2020", {"variant": "new"}),
        ("jin2020", {"n0": 0}),
        ("ucbvi", {"bonus": "best"}),
        ("regret-uniform", {"bonus": "best"}),
        ("regret-instances", {"bonus": "best"}),
        ("regret-instances", {"evaluation": 1.0}),
        ("ucbvi", {"ties": "last"}),
        ("opt-qlearning", {"ties": "last"}),
        ("ucrl2", {"rewards": "observed"}),
        ("random", {"ties": "first"}),
    ],
)
def test_unknown_options_are_refused_at_once(name, option):
    with pytest.raises(ValueError, match=next(iter(option))):
        some(name, FIXED_START, **option)


def test_by_step_models_depend_on_the_step():
    """The truth that these tests compare with is the model's own."""
    mdp = random_mdp(2, 2, seed=0, H=2)
    P = by_step(mdp, 2)
    r = np.random.default_rng(0).random((2, 2, 2))
    right = r[0] + P[0] @ (r[1]).max(axis=1)
    np.testing.assert_allclose(truth(mdp, r, mdp.setting(2)).Q[0], right, rtol=1e-12)


def test_fiechter_stops_by_a_threshold_in_whole_numbers_that_suits_its_target():
    """With eta = epsilon / (8H) the threshold is 3H, and stopping there certifies epsilon."""
    mdp, H, epsilon = random_mdp(2, 2, seed=0), 2, 1.0
    atlas = ar.explore(mdp, H, epsilon, algorithm="fiechter", stop="own", max_episodes=20_000)
    assert atlas.source["own"]["met"]
    explorer, rng = ar.ALGORITHMS["fiechter"](mdp.setting(H), eta=epsilon / (8 * H)), np.random.default_rng(0)
    assert not explorer.stops(epsilon)
    while not explorer.stops(epsilon):
        explorer.advance(mdp, rng, 1, -1.0)
    assert round(explorer.index[0, mdp.initial_state].max() / explorer.eta) <= 3 * H
    assert explorer.own_epsilon <= epsilon
    assert abs(explorer.episodes - atlas.episodes) <= 0.2 * atlas.episodes

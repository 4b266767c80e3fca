"""States of many parts: the decoupled bound against the bound on joint states, golden values, and values of policies.

It watches `docs/theory.md`, 15.7.
"""

import itertools
from math import log

import numpy as np
import pytest
from scipy.special import xlogy

import anyreward as ar
from anyreward.certificates.decoupled import error, smallest_error
from anyreward.certificates.deviances import deviance_quantile
from anyreward.certificates.factored import Factored
from anyreward.certificates.law_radii import law_radius, law_tv

from ..helpers.coverage import allowed
from ..helpers.structures import RUN, SERVICE, plant_model

LAWS = np.array([row for pair in zip(RUN, SERVICE, strict=True) for row in pair])


def machines(m, horizon=20, law=lambda i, level, a: (level, a == i + 1)):
    """m machines that wear alike, of which action i + 1 services machine i."""
    return Factored((4,) * m, m + 1, horizon, (0,) * m, law)


def played(model, episodes, seed=0, laws=(RUN, SERVICE)):
    """Episodes of machines under random actions."""
    rng, m, H = np.random.default_rng(seed), len(model.sizes), model.horizon
    states, actions = np.zeros((episodes, H + 1, m), int), rng.integers(0, m + 1, (episodes, H))
    steps = np.cumsum(np.array(laws), axis=2)
    for h in range(H):
        serviced = (actions[:, h, None] == np.arange(1, m + 1)).astype(int)
        states[:, h + 1] = (rng.random((episodes, m))[..., None] > steps[serviced, states[:, h]]).sum(axis=-1)
    return states, actions


def test_golden_value():
    """Three machines with some 10^5 transitions, without prices: measured by others as 1.817658."""
    run = (129455, 18318, 3011, 1525), (0, 31741, 5945, 2050), (0, 0, 11065, 3709), (0, 0, 0, 27304)
    service = (42110, 0, 0, 0), (8039, 888, 0, 0), (4045, 506, 567, 0), (6791, 0, 0, 2931)
    model, seen = machines(3), {((level,), bool(s)): (run, service)[s][level] for level in range(4) for s in (0, 1)}
    N = np.array([seen[law] for law in model.laws], float)
    c = np.array([law_radius(row, log(8 / 0.1)) for row in N])
    tau = np.array([law_tv(row, x) for row, x in zip(N, c, strict=True)])
    q, lam = N / N.sum(axis=1, keepdims=True), 0.05 * np.sqrt(np.arange(20))
    assert error(model._kinds, q, c, tau, lam, np.zeros(20))[0] == pytest.approx(1.817658, abs=1e-6)
    assert smallest_error(model._kinds, q, c, tau, 20) < 1.49  # with the best multipliers, 0.1486 H is 1.486


def random_problem(seed):
    """Parts of 2 or 3 values with laws, radii and multipliers at random: the arguments of `error`, and the model."""
    rng = np.random.default_rng(seed)
    sizes, A, H = tuple(rng.integers(2, 4, 3).tolist()), 4, 5
    start = tuple(int(rng.integers(n)) for n in sizes)
    model = Factored(sizes, A, H, start, law=lambda i, value, a: (i, value, a == i + 1))
    q = np.zeros((len(model.laws), 3))
    for g, K in enumerate(model.outcomes):
        q[g, :K] = rng.dirichlet(np.ones(K))
    c = rng.exponential(0.02, len(q))
    tau = np.sqrt(c / 2) * rng.uniform(0.7, 1, len(q))
    lam, nu = rng.uniform(0.02, 0.5, H), rng.exponential(0.1, H) * rng.integers(0, 2, H)
    lam[0] = nu[-1] = 0.0
    return model, q, c, tau, lam, nu


def joint_bound(model, q, c, tau, lam, gamma=1.0):
    """Phi by backward induction on joint states, with charges for each part (`docs/theory.md`, 15.7), in plain loops."""
    H, sizes = model.horizon, model.sizes
    V = dict.fromkeys(itertools.product(*map(range, sizes)), 0.0)
    for h in range(H - 2, -1, -1):
        w, kappa, new = sum(gamma**j for j in range(h + 1, H)), sum(gamma**j / (4 * lam[j]) for j in range(h + 1, H)), {}
        for s in V:
            top = 0.0
            for a in range(model.n_actions):
                laws = [model.keys[i][s[i], a] for i in range(len(s))]
                total = sum(min(kappa * c[g], w * tau[g]) for g in laws)
                for x in V:
                    total += np.prod([q[g, y] for g, y in zip(laws, x, strict=True)]) * V[x]
                top = max(top, min(w, total))
            new[s] = top
        V = new
    return sum(gamma**j * lam[j] / 2 for j in range(H)) + V[model.start]


def test_it_is_never_below_the_bound_on_joint_states():
    """For all multipliers and prices. If more were bought than there is, it would be below: prices matter in these problems."""
    below = 0
    for seed in range(12):
        model, *problem, nu = random_problem(seed)
        joint, discounted = joint_bound(model, *problem), joint_bound(model, *problem, 0.7)
        assert error(model._kinds, *problem, nu)[0] >= joint
        assert joint > error(model._kinds, *problem, 0 * nu, 0.7 ** np.arange(5))[0] >= discounted
        assert error(model._kinds, *problem, 0 * nu)[0] >= joint
        more = [kind._replace(share=3 * kind.share) for kind in model._kinds]
        below += any(error(more, *problem, np.full(5, price))[0] < joint for price in (0.03, 0.1, 0.3, 0.6))
    assert below >= 6


def test_the_derivatives_and_thesmallest_error():
    """Derivatives by finite differences; and the search ends below every multiplier that it starts from."""
    model, q, c, tau, lam, nu = random_problem(3)
    value, charged, demand = error(model._kinds, q, c, tau, lam, nu)
    for h in range(4):
        for sign in (-1, 1):
            moved = nu + sign * 1e-7 * (np.arange(5) == h)
            if moved.min() >= 0:
                assert error(model._kinds, q, c, tau, lam, moved)[0] - value == pytest.approx(sign * 1e-7 * demand[h], abs=1e-12)
    each = 1 / (4 * lam[1:] ** 2)
    for j in range(1, 5):
        moved = lam + 1e-7 * (np.arange(5) == j)
        slope = 0.5 - charged[:j].sum() * each[j - 1]
        assert error(model._kinds, q, c, tau, moved, nu)[0] - value == pytest.approx(1e-7 * slope, abs=1e-11)
    assert smallest_error(model._kinds, q, c, tau, 5) <= min(value, 4.0)


def test_counting_against_plain_loops():
    """Of all draws, and of the first ones, as many as the quotas."""
    model = machines(3, horizon=6)
    states, actions = played(model, 40)
    quotas = {law: 20 + 5 * g for law, g in model.laws.items()}
    plain, first = ({law: np.zeros(4, int) for law in model.laws} for _ in range(2))
    for s, a in zip(states, actions, strict=True):
        for h, i in itertools.product(range(6), range(3)):
            law = ((s[h, i].item(),), bool(a[h] == i + 1))
            plain[law][s[h + 1, i]] += 1
            if first[law].sum() < quotas[law]:
                first[law][s[h + 1, i]] += 1
    for given, expected in ((None, plain), (quotas, first)):
        counts = model.counts(given)
        for part in np.array_split(np.arange(40), 7):
            counts.add(states[part], actions[part])
        assert counts.episodes == 40
        for law, seen in counts.seen.items():
            assert seen.tolist() == expected[law].tolist()
    assert counts.full == all(first[law].sum() == n for law, n in quotas.items())


def test_calibrated_counts_are_certified_when_they_are_full():
    model = machines(10)
    scout = model.counts()
    scout.add(*played(model, 60, seed=1))
    quotas = {law: int(0.9 * 940 / 60 * n.sum()) for law, n in scout.seen.items()}
    calibrated, tight = model.counts(quotas), model.counts()
    for seed in (2, 3):
        assert calibrated.certify().says_nothing
        more = played(model, 500, seed=seed)
        calibrated.add(*more)
        tight.add(*more)
    assert calibrated.full
    one, other = calibrated.certify(), tight.certify()
    assert one.epsilon < 0.75 * other.epsilon < other.epsilon < 0.45 * 20
    assert "calibrated bounds, 1,000 episodes; assumes: 10 parts move independently, by 8 laws, as declared; every" in str(one)
    assert len(one.assumptions) == 1 + len(other.assumptions) == 3
    c, _ = calibrated._radii(0.1)
    seen = next(iter(calibrated.seen.values()))
    assert c[0] == pytest.approx(deviance_quantile(seen, 0.1 / 8) / seen.sum())


def test_values_of_policies():
    """With three machines, against the joint model: within the interval, which is centred at the empirical value."""
    model, mdp = machines(3), plant_model()
    counts = model.counts()
    counts.add(*played(model, 2_000))
    certificate = counts.certify()

    def worst(h, states):
        return np.where(states.max(axis=1) >= 2, states.argmax(axis=1) + 1, 0)

    def running(h, states, actions):
        return ((states < 3) & (actions[:, None] != np.arange(1, 4))).mean(axis=1)

    found = certificate.evaluate(worst, running, episodes=4_000)
    levels = np.stack(np.unravel_index(np.arange(64), (4, 4, 4)), axis=1)
    reward = np.stack([running(0, levels, np.full(64, a)) for a in range(4)], axis=1)
    policy = np.broadcast_to(worst(0, levels), (20, 64))
    value = ar.evaluate_policy(mdp, policy, reward, 20).V[0, 0]
    assert found.lower < value < found.upper
    assert abs(found.value - value) < 0.15  # it errs far less than is certain
    assert certificate.epsilon / 2 < found.value - found.lower < certificate.epsilon / 2 + 0.5
    again = certificate.evaluate(worst, running, episodes=4_000)
    assert again == found != certificate.evaluate(worst, running, episodes=4_000, seed=1)


def test_all_laws_are_in_their_balls():
    """Two parts of two values that move alike, with actions that depend on what was drawn, and delta = 0.5.

    At the quotas of calibrated counts and at all looks of tight ones; without psi, the latter fails.
    """
    model, p, delta, runs = Factored((2, 2), 3, 4, (0, 0), lambda i, v, a: (v[0], a == i + 1)), (0.3, 0.7, 0.5, 0.2), 0.5, 120
    q = np.array([(1 - p[2 * v + s], p[2 * v + s]) for v, s in model.laws])
    missed = np.zeros(3)
    for seed in range(runs):
        rng, counts = np.random.default_rng(seed), (model.counts(dict.fromkeys(model.laws, 200)), model.counts())
        outside = np.zeros(3, bool)
        while not counts[0].full:
            B = 20 + counts[1].episodes // 2
            s, a = np.zeros((B, 5, 2), int), np.zeros((B, 4), int)
            for h in range(4):
                a[:, h] = np.where(s[:, h].sum(axis=1) == 1, 1 + s[:, h].argmax(axis=1), rng.integers(0, 3, B))
                serviced = a[:, h, None] == (1, 2)
                s[:, h + 1] = rng.random((B, 2)) < np.array(p)[2 * s[:, h] + serviced]
            for one in counts:
                one.add(s, a)
            outside |= [False, misses(counts[1], q, delta), misses(counts[1], q, delta, log(1 / delta))]
        outside[0] = misses(counts[0], q, delta)
        missed += outside
    assert 0.3 * delta * runs < missed[0] <= allowed(delta, runs)
    assert missed[1] <= allowed(delta, runs) < missed[2]


def misses(counts, q, delta, threshold=None):
    """Whether some law is outside its ball, or outside n KL <= `threshold`."""
    N, (c, _) = np.array(list(counts.seen.values())), counts._radii(delta)
    n = N.sum(axis=1)
    deviance = xlogy(N, N / np.maximum(n, 1)[:, None]) - xlogy(N, q)
    return bool((deviance.sum(axis=1) > (n * c if threshold is None else threshold) * (1 + 1e-9)).any())


def test_machines_that_are_not_alike_are_noticed():
    """Machine 2 wears twice as fast: the declaration is refuted, and nothing is certified."""
    model = machines(3)
    states, actions = played(model, 400)
    counts = model.counts()
    counts.add(states, actions)
    assert counts.log_evidence < log(100)
    assert not counts.certify().refuted
    fast = np.array(((0.6, 0.3, 0.06, 0.04), *RUN[1:]))
    rng = np.random.default_rng(5)
    for h in range(20):
        serviced = (actions[:, h] == 3).astype(int)
        steps = np.cumsum(np.array((fast, SERVICE)), axis=2)[serviced, states[:, h, 2]]
        states[:, h + 1, 2] = (rng.random((400, 1)) > steps).sum(axis=1)
    wrong = model.counts()
    wrong.add(states, actions)
    certificate = wrong.certify()
    assert certificate.refuted
    assert certificate.says_nothing
    assert "the data contradict the declaration" in str(certificate)


def test_laws_without_data_and_one_step():
    model = Factored((2, 2), 2, 3, (0, 0))
    assert model.counts().certify().epsilon == 2 * 2.0
    assert Factored((2,), 1, 1, (0,)).counts().certify().epsilon == 0.0
    assert Factored((1, 1), 2, 5, (0, 0)).counts().certify().epsilon < 1e-6  # nothing can happen


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"sizes": 3}, "lists of whole numbers are needed"),
        ({"sizes": ()}, "there has to be at least one part"),
        ({"start": (0, 4)}, "start is"),
        ({"start": (0,)}, "it needs a value of each part"),
        ({"sizes": (4, 3), "law": lambda i, value, a: 0}, "parts that share a law have equally many"),
        ({"sizes": (9_000, 4)}, "possible transitions, which are too many"),
    ],
)
def test_declarations_that_are_refused(how, says):
    with pytest.raises(ValueError, match=says):
        Factored(**{"sizes": (4, 4), "n_actions": 2, "horizon": 3, "start": (0, 0), **how})


def test_data_that_are_refused():
    model = Factored((4, 4), 2, 3, (0, 0))
    s, a = np.zeros((5, 4, 2), int), np.zeros((5, 3), int)
    counts = model.counts()
    late = s.copy()
    late[2, 0, 1] = 1
    for states, actions, says in (
        (s[:, :3], a, r"states have shape \(5, 3, 2\)"),
        (s + 4, a, r"states\[0, 0, 0\] is 4: part 0 has values from 0 to 3"),
        (s, a + 2, "an action is outside 0 to 1"),
        (s.astype(float), a, "states are float64: they have to be whole numbers"),
        (late, a, r"episode 2 starts in \[0, 1\]: all have to start in \[0, 0\]"),
    ):
        with pytest.raises(ValueError, match=says):
            counts.add(states, actions)
    assert counts.episodes == 0
    for quotas, says in (
        (3, "it has to be a mapping"),
        ({"x": 3}, "it has to be a mapping"),
        ({(0, (0,), 0): -1}, "from 0 to 2"),
    ):
        with pytest.raises(ValueError, match=says):
            model.counts(quotas)
    counts.add(s[0], a[0])
    certificate = counts.certify()
    with pytest.raises(ValueError, match="the policy has to return 10 actions"):
        certificate.evaluate(lambda h, s: np.full(10, 2), lambda h, s, a: 0 * a, episodes=10)
    with pytest.raises(ValueError, match="the reward has to return 10 numbers from 0 to 1"):
        certificate.evaluate(lambda h, s: np.zeros(10, int), lambda h, s, a: a + 2.0, episodes=10)


def test_a_discount():
    """Against the certificate of numbered joint states, which is at most a little smaller, and the true value of a policy."""
    law, gamma = (lambda i, level, a: (level, a == i + 1)), 0.8
    model = Factored((4, 4), 3, 6, (0, 0), law, discount=gamma)
    states, actions = played(model, 2_000)
    counts = model.counts()
    counts.add(states, actions)
    certificate = counts.certify()
    joint = ar.Structure.factored((4, 4), law=law)
    setting = ar.Setting(n_states=16, n_actions=3, horizon=6, initial_state=0, discount=gamma, structure=joint)
    whole = ar.certify(ar.Counts.from_episodes(states @ np.array([4, 1]), actions, setting)).epsilon
    assert 0.98 * whole <= certificate.epsilon < 1.6 * whole
    assert certificate.epsilon < Factored((4, 4), 3, 6, (0, 0), law).counts().certify().epsilon
    found = certificate.evaluate(lambda h, s: 0 * s[:, 0], lambda h, s, a: 0.5 + 0 * a, episodes=50)
    assert found.value == pytest.approx(0.5 * sum(gamma**h for h in range(6)))
    assert found.lower <= found.value <= found.upper
    assert "discount 0.8" in str(certificate)
    with pytest.raises(ValueError, match="discount is 0"):
        Factored((4, 4), 3, 6, (0, 0), law, discount=0)

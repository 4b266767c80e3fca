"""The alarm that laws have changed: its formula, how often it is false, and how soon it notices.

It watches `docs/theory.md`, 16.1, 16.2 and 16.3.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.special import gammaln, xlogy

from anyreward.data.alarm import log_kt, log_ml
from anyreward.data.drift import combined, log_evidence, log_evidence_against_known

from ..helpers.coverage import allowed


def of_one(old, new):
    """log e of one law from its counts, (K,) each."""
    return float(log_evidence(np.zeros(len(old), np.int64), np.asarray(old, float), np.asarray(new, float), 1)[0])


def slow(old, new):
    """The formula with plain loops: predictions one after the other, and the probabilities of the sets of outcomes."""
    before = [x for x in range(len(old)) if old[x]]
    both = before + [x for x in range(len(old)) if new[x] and not old[x]]
    k, c = len(before), len(both) - len(before)

    def predicted(counts, among):
        """The probability of counts under predictions (N(x) + 1/2) / (n + K/2), in any order."""
        log_p, seen, n = 0.0, dict.fromkeys(among, 0), 0
        for x in among:
            for _ in range(counts[x]):
                log_p += math.log((seen[x] + 0.5) / (n + len(among) / 2))
                seen[x] += 1
                n += 1
        return log_p

    left = [old[x] + new[x] - 1 for x in both]
    likelihood = sum(n * math.log(n / sum(left)) for n in left if n)
    sets = math.log(math.factorial(k) / (k * (k + 1))) + math.log(math.factorial(c) / (2 * c * (c + 1)) if c else 0.5)
    return sets + predicted(old, before) + predicted(new, both) - likelihood


@pytest.mark.parametrize(
    ("old", "new"),
    [((3, 1, 0), (2, 2, 0)), ((5, 0, 0), (1, 0, 0)), ((4, 3, 0, 0), (0, 2, 1, 3)), ((9, 1), (0, 0)), ((1, 0), (0, 4))],
)
def test_a_slow_transcription(old, new):
    assert of_one(old, new) == pytest.approx(slow(old, new), abs=1e-9)
    assert of_one(old, new) <= slow(old, new)  # rounded to the safe side


def test_laws_are_apart_and_one_without_old_data_says_nothing():
    law = np.array([0, 2, 0, 1, 2, 1])
    old, new = np.array([3.0, 4, 1, 0, 3, 0]), np.array([2.0, 0, 2, 5, 6, 1])
    assert log_evidence(law, old, new, 3) == pytest.approx([of_one([3, 1], [2, 2]), 0.0, of_one([4, 3], [0, 6])])


def test_its_expectation_is_at_most_one_whenever_one_stops():
    """Summed over all data: the old data go on while outcome 0 has not appeared, the new ones while they look alike."""
    for q in ((0.7, 0.3), (0.9, 0.08, 0.02)):
        K, total = len(q), 0.0
        for n, m in itertools.product(range(1, 5), range(4)):
            for draws in itertools.product(range(K), repeat=n + m):
                old, new = draws[:n], draws[n:]
                ends = 0 in old[-1:] and 0 not in old[:-1] if n < 4 else 0 not in old[:-1]
                alike = all(x == 0 for x in new[:-1])
                if not (ends and alike and (m == 3 or (m > 0 and new[-1] != 0))):
                    continue
                e = of_one(np.bincount(old, minlength=K), np.bincount(new, minlength=K))
                total += math.exp(e) * math.prod(q[x] for x in draws)
        assert total <= 1.0


def test_known_laws():
    q, N = np.array([0.7, 0.3, 0.0]), np.array([3.0, 5.0, 0.0])
    assert log_evidence_against_known(q, N) == pytest.approx(float(log_kt(N)) - 3 * math.log(0.7) - 5 * math.log(0.3))
    assert log_evidence_against_known(q, np.array([1.0, 0, 1])) == math.inf


def test_all_laws_together():
    """An average over shares r of products; one changed law among many, all changed ones, and a certain one."""
    e = np.array([2.0, -1.0, 0.5])
    slowly = [math.prod(1 - 2.0**-j + 2.0**-j * math.exp(x) for x in e) / (j * (j + 1)) for j in range(1, 5)]
    assert combined(e) == pytest.approx(math.log(sum(slowly)))
    assert combined(e) <= math.log(sum(slowly))
    assert combined(np.zeros(0)) == pytest.approx(math.log(2 / 3))  # two of the weights, 1/2 and 1/6: nothing is known of no law
    alone = np.full(1000, -8.0)
    alone[0] = 30.0
    assert combined(alone) > 30 - math.log(1000) - 7
    assert combined(np.full(1000, 1.0)) > 500  # the mean of the e-values is e
    assert combined(np.append(alone, math.inf)) == math.inf


def without_price(old, new):
    """The old law taken for known: Dirichlet(1/2) predictions of new data against the empirical distribution of the old."""
    q = old / np.maximum(old.sum(axis=1, keepdims=True), 1)
    q = np.maximum(q, 1e-3)
    return float((log_kt(new) - xlogy(new, q).sum(axis=1)).max())


def flat(tables):
    return np.repeat(np.arange(len(tables)), tables.shape[1]), tables.reshape(-1)


def evidence(old, new):
    """log e of each law and of all together, from tables (G, K)."""
    law, was = flat(old)
    each = log_evidence(law, was, flat(new)[1], len(old))
    return each, combined(each[old.sum(axis=1) > 0])


def provoked(rng, laws, look, draws=60, most=40):
    """Old and new data collected by somebody who wants an alarm; `look(old, new)` is called after every few draws.

    Old data of a law end when its first outcome is rarest in a while; then the law that looks most different is drawn most often.
    """
    G, K = laws.shape
    old, new = np.zeros((G, K)), np.zeros((G, K))
    for g in range(G):
        for n in range(1, most + 1):
            old[g, rng.choice(K, p=laws[g])] += 1
            if n >= 3 and old[g, 0] / n < laws[g, 0] - 0.15:
                break
    for t in range(draws):
        away = np.abs((new + 0.2) / (new.sum(axis=1, keepdims=True) + 1) - old / old.sum(axis=1, keepdims=True)).sum(axis=1)
        g = int(away.argmax()) if rng.random() < 0.7 else int(rng.integers(G))
        new[g, rng.choice(K, p=laws[g])] += 1
        if t % 3 == 0:
            look(old, new)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.5, 0.1])
def test_false_alarms_are_as_rare_as_they_say(alpha):
    """Under sampling that provokes them. With old data taken for the truth most runs raise one (checked below)."""
    rng, runs, alarms, single, wrong = np.random.default_rng(0), 200, 0, 0, 0
    laws = np.array([[0.5, 0.5, 0], [0.6, 0.2, 0.2]])
    for _ in range(runs):
        most = [-math.inf] * 3

        def look(old, new, most=most):
            each, total = evidence(old, new)
            most[:] = np.maximum(most, [total, each.max() - math.log(len(each)), without_price(old, new) - math.log(2)])

        provoked(rng, laws, look)
        total, one, unpaid = (x >= -math.log(alpha) for x in most)
        alarms, single, wrong = alarms + total, single + one, wrong + unpaid
    assert alarms <= allowed(alpha, runs)
    assert single <= allowed(alpha, runs)
    assert wrong > allowed(alpha, runs)


@pytest.mark.slow
@pytest.mark.parametrize(("changed", "soonest", "latest"), [(1, 400, 900), (62, 60, 400)])
def test_how_soon_a_drift_is_noticed(changed, soonest, latest):
    """62 laws with slips of 0.1 and 5,000 old draws each, of which some slip in 0.2 from now on; alpha is 0.01.

    A changed law gains up to KL((.8, .2), (.9, .1)) = 0.0444 a draw, less as the new draws come to weigh in the common law. It
    pays about 12 for what it does not know, and log(62) + log(42) + log(100) if it is alone: some 600 of its draws.
    """
    rng, visits = np.random.default_rng(1), []
    for _ in range(30):
        old = rng.multinomial(5000, (0.9, 0.1), 62).astype(float)
        new = np.zeros_like(old)
        while evidence(old, new)[1] < math.log(100) and new[0].sum() < 3000:
            new[:changed] += rng.multinomial(20, (0.8, 0.2), changed)
            new[changed:] += rng.multinomial(20, (0.9, 0.1), 62 - changed)
        visits.append(new[0].sum())
    assert soonest < np.median(visits) < latest


def test_the_number_of_states_costs_nothing():
    """With a prior over all pairs of 441 outcomes the old data alone would cost log C(441, 2), 11.5, more."""
    counts, fresh = np.zeros(441), np.zeros(441)
    counts[:2], fresh[:2] = (900, 100), (40, 60)
    assert of_one(counts, fresh) == pytest.approx(of_one(counts[:2], fresh[:2]))
    dense = log_kt(counts[:2]) + log_kt(fresh[:2]) - log_ml(counts[:2] + fresh[:2])  # two outcomes are all that there are
    assert of_one(counts, fresh) > dense - 5
    assert dense - gammaln(442) + gammaln(3) + gammaln(440) < of_one(counts, fresh) < dense

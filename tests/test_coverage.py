"""Coverage by simulation: what is promised with probability 1 - delta is false in at most a share delta of the runs.

First the events of the tight certificate: 2,000 runs each, seeded; a run fails if the event is broken at *any* time, which is the
same as stopping as soon as the bound looks wrong. If the true share is at most delta, the number of failures is at most
`allowed(delta)` with probability 1 - 1e-7: with about a hundred such comparisons in this file, a false alarm has probability
below 1e-4 over all seeds there are.

Then everything that is promised around them, as a matrix: masks, ends, own rewards, random starts and merges, by plans, cautious
plans, evaluations, identified policies and certificates. Each case is a process that was once certified falsely, or a neighbour
of one. A run is explored in stages with the same seed, and fails if anything that it promises is false at any stage. All
layers share delta among many laws, so what is right fails hardly ever: the power is against mistakes of the kind that a case is
for, each of which made a third of the runs or more fail.
"""

import importlib
import itertools
import math
import warnings

import numpy as np
import pytest
from numba import njit
from scipy.stats import binom

import anyreward as ar
from anyreward import kernels
from anyreward.certificates.bounds import TightBound
from anyreward.rewards.observed import Paid

from .processes import Process, own_value, value

RUNS = 2000
DELTAS = (0.2, 0.5)
SEEDS, DELTA = 60, 0.2  # of the matrix


def allowed(delta, runs=RUNS):
    """The most failures that are not surprising: exceeded with probability at most 1e-7 at a true share of delta."""
    return int(binom.isf(1e-7, runs, delta))


psi_support, psi_size, tv_radius = kernels.radii.psi_support, kernels.radii.psi_size, kernels.radii.tv_radius


@njit  # not cached on disk: Numba would not notice a change in the kernels it calls
def tape(p, S, K, steps, levels, rng, seen, where, scratch, failed):
    """Draws `steps` samples of a law p and looks after each of them; returns the largest n KL - psi.

    The law has len(p) successors of S states, or of at most K if K > 0. failed[i] is set if the TV radius at log(1/delta) =
    levels[i] is exceeded in the first 150. seen and where are scratch: counts in the order of discovery, and where each
    successor has its own.
    """
    most, size = -np.inf, 0
    where[:] = -1
    cumulative = np.cumsum(p)
    for n in range(1, steps + 1):
        x = np.searchsorted(cumulative[:-1], rng.random(), side="right")
        if where[x] < 0:
            where[x] = size
            seen[size] = 0.0
            size += 1
        seen[where[x]] += 1.0
        kl, distance = 0.0, 0.0
        for i in range(len(p)):
            q = seen[where[i]] / n if where[i] >= 0 else 0.0
            kl += q * math.log(q / p[i]) if q > 0.0 else 0.0
            distance += 0.5 * abs(q - p[i])
        psi = psi_size(seen, 0, size, float(n), K) if K > 0 else psi_support(seen, 0, size, float(n), S)
        most = max(most, n * kl - psi)
        for i in range(len(levels) if n <= 150 else 0):
            c = max(0.0, levels[i] + psi) / n
            if distance > tv_radius(seen, 0, size, float(n), c, size < (K if K > 0 else S), scratch):
                failed[i] = True
    return most


LAWS = {  # name: law, number of states, number of successors if that is known
    "fair coin, S = 2": ([0.5, 0.5], 2, 0),
    "unfair coin, S = 2": ([0.9, 0.1], 2, 0),
    "nearly deterministic": ([0.995, 0.005], 31, 0),
    "nearly deterministic, S = 2": ([0.99, 0.01], 2, 0),
    "rare successors": ([0.94, 0.02, 0.02, 0.01, 0.01], 31, 0),
    "uniform on all states": ([0.2] * 5, 5, 0),
    "one successor": ([1.0], 31, 0),
    "one state": ([1.0], 1, 0),
    "two successors, known": ([0.5, 0.5], 31, 2),
    "two successors, known, one rare": ([0.98, 0.02], 31, 2),
    "fewer successors than the known number": ([0.7, 0.3], 31, 4),
}


@pytest.mark.parametrize("name", LAWS)
def test_kl_and_tv_events_hold_at_every_sample(name):
    p, S, K = LAWS[name]
    p, rng = np.array(p), np.random.default_rng(0)
    levels, scratch = np.log(1 / np.array(DELTAS)), np.zeros(1 << kernels.radii.ENUMERATED)
    most, failed = np.empty(RUNS), np.zeros((RUNS, len(DELTAS)), bool)
    for run in range(RUNS):
        most[run] = tape(p, S, K, 1000, levels, rng, np.zeros(len(p)), np.zeros(len(p), np.int64), scratch, failed[run])
    for i, delta in enumerate(DELTAS):
        broken = most > levels[i]
        assert broken.sum() <= allowed(delta)
        assert not (failed[:, i] & ~broken).any()  # TV follows from KL, always
    if len(p) == 1:
        assert (most <= 0).all()  # p_hat = p


def test_the_threshold_for_two_successors_is_nearly_sharp():
    """So that the tests above can fail: with log(2) nats less, the same event breaks more often than delta."""
    p, rng, most = np.array([0.5, 0.5]), np.random.default_rng(1), np.empty(RUNS)
    nothing, scratch = np.zeros(0), np.zeros(1 << kernels.radii.ENUMERATED)
    for run in range(RUNS):
        most[run] = tape(p, 31, 2, 2000, nothing, rng, np.zeros(2), np.zeros(2, np.int64), scratch, np.zeros(0, bool))
    delta = 0.2
    assert 0.5 * delta * RUNS < (most > math.log(1 / delta)).sum() <= allowed(delta)
    assert (most + math.log(2) > math.log(1 / delta)).sum() > allowed(delta)


# --- Value errors, through the library from episodes to bound ---


@njit(cache=True)
def play(P, starts, stationary, n, rng, states, actions):
    """One episode of an adversary: in every state it takes the action whose row looks most true, so what looks wrong stays."""
    H, S, A, _ = P.shape
    s = np.searchsorted(np.cumsum(starts)[:-1], rng.random(), side="right")
    states[0] = s
    for h in range(H):
        best, a = np.inf, 0
        for b in range(A):
            visits, kl = n[h, s, b].sum(), 0.0
            for x in range(S):
                if n[h, s, b, x] > 0:
                    kl += n[h, s, b, x] * math.log(n[h, s, b, x] / visits / P[h, s, b, x])
            # Unvisited rows first, and now and then any.
            if visits == 0 or rng.random() < 0.2:
                kl = -rng.random()
            if kl < best:
                best, a = kl, b
        x = np.searchsorted(np.cumsum(P[h, s, a])[:-1], rng.random(), side="right")
        if stationary:
            n[:, s, a, x] += 1
        else:
            n[h, s, a, x] += 1
        s = x
        states[h + 1], actions[h] = s, a


@njit(cache=True)
def worst(P, starts, n, drawn, gamma, policies):
    """The largest value error of any policy (L, H, S) under any reward: sum_h gamma^h TV(d_hat_h, d_h)."""
    H, S, A, _ = P.shape
    P_hat = np.full(P.shape, 1.0 / S)
    for h in range(H):
        for s in range(S):
            for a in range(A):
                visits = n[h, s, a].sum()
                if visits > 0:
                    P_hat[h, s, a] = n[h, s, a] / visits
    largest = 0.0
    for i in range(len(policies)):
        d, d_hat, error = starts.copy(), drawn / drawn.sum(), 0.0
        for h in range(H):
            error += gamma**h * 0.5 * np.abs(d - d_hat).sum()
            e, e_hat = np.zeros(S), np.zeros(S)
            for s in range(S):
                e += d[s] * P[h, s, policies[i, h, s]]
                e_hat += d_hat[s] * P_hat[h, s, policies[i, h, s]]
            d, d_hat = e, e_hat
        largest = max(largest, error)
    return largest


def every_policy(S, A, H):
    """All deterministic policies; the action of the last step leads nowhere."""
    return np.array([[*choice, *[0] * S] for choice in itertools.product(range(A), repeat=S * (H - 1))]).reshape(-1, H, S)


COIN, BIASED, NEARLY = [0.5, 0.5], [0.8, 0.2], [0.97, 0.03]
RARE = [[0.96, 0.02, 0.02], [0.0, 1.0, 0.0]]
MODELS = {  # P of each step as [s][a], start law, discount, episodes, options of the setting and of the bound
    "one law": ([[[COIN]] * 2] * 2, [1.0, 0.0], 1.0, 20, {}, {}),
    "one law, nearly deterministic": ([[[NEARLY]] * 2] * 2, [1.0, 0.0], 0.9, 15, {}, {}),
    "only the start": ([[[[0.0, 1.0, 0.0]]] * 3], [0.9, 0.05, 0.05], 1.0, 15, {}, {}),
    "steps that differ": ([[[COIN]] * 2, [[NEARLY], [BIASED]], [[COIN]] * 2], [1.0, 0.0], 1.0, 12, {}, {}),
    "rare successors, two actions": ([[RARE, RARE[::-1], RARE]] * 3, [1.0, 0.0, 0.0], 1.0, 12, {"stationary": True}, {}),
    "successors known": ([[[[0.5, 0.5, 0.0, 0.0]]] * 4] * 2, [1.0, 0.0, 0.0, 0.0], 1.0, 15, {}, {"max_successors": 2}),
}


@pytest.mark.parametrize("name", MODELS)
def test_no_value_error_exceeds_the_bound_at_any_episode(name):
    P, starts, gamma, episodes, kind, options = MODELS[name]
    P, starts = np.array(P), np.array(starts)
    H, S, A, _ = P.shape
    setting = ar.Setting(n_states=S, n_actions=A, horizon=H, discount=gamma, initial_state=0 if starts[0] == 1 else None, **kind)
    bound, policies, rng = TightBound(**options), every_policy(S, A, H), np.random.default_rng(2)
    failures = dict.fromkeys(DELTAS, 0)
    states, actions = np.zeros((1, H + 1), np.int64), np.zeros((1, H), np.int64)
    for _ in range(RUNS):
        counts, failed = ar.Counts(setting, transfer=True), set()
        n, drawn = np.zeros(P.shape, np.int64), np.zeros(S)
        for _ in range(episodes):
            play(P, starts, setting.stationary, n, rng, states[0], actions[0])
            drawn[states[0, 0]] += 1
            counts.add_episodes(states, actions)
            error = worst(P, starts, n, drawn, gamma, policies)
            # The bound grows as delta shrinks: the largest delta fails first.
            for delta in sorted(set(DELTAS) - failed, reverse=True):
                if error <= bound(counts, delta):
                    break
                failed.add(delta)
        for delta in failed:
            failures[delta] += 1
    for delta in DELTAS:
        assert failures[delta] <= allowed(delta)


@pytest.mark.parametrize("alike", [True, False])
def test_the_events_of_transfer_hold_at_every_episode(alike):
    """Each law on its own, with thresholds that learn from the other steps, whether these are like it or not."""
    H, episodes, small = 5, 18, 1e-9  # delta is small where the radii are read, so that no threshold is cut at 0
    laws = np.array([BIASED] * H if alike else [BIASED, NEARLY, COIN, NEARLY[::-1], BIASED[::-1]])  # the same from both states
    setting = ar.Setting(n_states=2, n_actions=1, horizon=H, initial_state=0)
    level = math.log((1 + 2 * (H - 2)) / small)
    rng, bound, largest = np.random.default_rng(3), TightBound(), np.full((RUNS, H - 1), -np.inf)
    for run in range(RUNS):
        states = np.zeros((episodes, H + 1), np.int64)
        states[:, 1:] = rng.random((episodes, H)) >= laws[:, 0]
        counts, n = ar.Counts(setting, transfer=True), np.zeros((H - 1, 2))  # of state 0
        for t in range(episodes):
            counts.add_episodes(states[t : t + 1], np.zeros((1, H), np.int64))
            radii = bound.radii(counts, small)[0]
            for h in np.flatnonzero(states[t, : H - 1] == 0):
                n[h, states[t, h + 1]] += 1
                visits = n[h].sum()
                kl = sum(k * math.log(k / visits / q) for k, q in zip(n[h], laws[h], strict=True) if k)
                psi = radii[counts.table.node_of[h, 0]] * visits - level
                largest[run, h] = max(largest[run, h], kl - psi)
    for delta in DELTAS:
        assert ((largest > math.log(1 / delta)).sum(axis=0) <= allowed(delta)).all()


# --- Everything around the core: a matrix of processes and promises ---


@pytest.fixture(autouse=True)
def quick_look(monkeypatch):
    """The audit before each exploration decides nothing: a few steps do."""
    audit = importlib.import_module("anyreward.environments.audit")  # not the function of that name
    play = audit._play
    monkeypatch.setattr(audit, "_play", lambda probe, steps, seed: play(probe, 5, seed))


def rare(p, S=3, A=2):
    """From state 0 to state 2 with probability p, else to state 1, from everywhere."""
    P = np.zeros((S, A, S))
    P[:, :, 1], P[:, :, 2] = 1 - p, p
    return P


FORBIDS = np.array([[1, 1], [1, 1], [1, 0]], bool)  # action 1 in state 2
TEMPTING = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])  # ... which would pay like everything else, and nothing else does not
BOTH = np.array([[0, 1], [1, 1], [1, 0]], bool)  # and action 0 in the start
AT_ONCE = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])  # ... which would pay
THREE = np.array([[0, 1, 1], [1, 1, 1], [0, 1, 1]], bool)  # action 0 is illegal where it would pay most ...
INSTEAD = np.array([[1.0, 0.0, 0.9], [1.0, 1.0, 1.0], [1.0, 0.0, 0.9]])  # ... and action 1, which pays nothing, is played instead
STARTS = np.array([0.6, 0.37, 0.03])

# name: a process, a reward (S, A), options of `explore`, episodes at which it is looked at
CASES = {
    # What is illegal in a state that was never met, valued as if it were not: plans and intervals count on it.
    "hidden mask of a rare state": (lambda: Process(rare(0.05), mask=FORBIDS), TEMPTING, {}, (1, 20)),
    "hidden mask, told only where it forbids": (lambda: Process(rare(0.05), mask=FORBIDS, shy=True), TEMPTING, {}, (1, 20)),
    "hidden mask, stationary": (lambda: Process(rare(0.05), mask=FORBIDS), TEMPTING, {"stationary": True}, (1, 20)),
    "hidden mask in the start": (lambda: Process(rare(0.05), mask=BOTH), AT_ONCE, {"initial_state": 0}, (0, 1, 8)),
    "hidden mask of three actions": (
        lambda: Process(rare(0.05, A=3), mask=THREE), INSTEAD, {"initial_state": 0}, (0, 1, 8),
    ),
    "mask of three actions known": (
        lambda: Process(rare(0.05, A=3), mask=THREE), INSTEAD, {"initial_state": 0, "action_masks": THREE}, (0, 1, 8),
    ),
    "mask known": (lambda: Process(rare(0.05), mask=FORBIDS), TEMPTING, {"action_masks": FORBIDS}, (0, 1, 20)),
    "mask known, as a function": (
        lambda: Process(rare(0.05), mask=BOTH), AT_ONCE, {"action_masks": lambda s: BOTH[s], "initial_state": 0}, (0, 5),
    ),
    "random start that hides a mask": (lambda: Process(rare(0.0), mask=FORBIDS, start=STARTS), TEMPTING, {}, (1, 12)),
    # An observation that nearly always ends an episode, taken for one that always does.
    "ends always": (lambda: Process(rare(0.3), end=[0, 0, 1]), np.eye(3)[2][:, None] * np.ones(2), {}, (1, 5, 30)),
    "ends always, as assumed": (
        lambda: Process(rare(0.3), end=[0, 0, 1]), np.eye(3)[2][:, None] * np.ones(2), {"terminal": "state"}, (1, 5, 30),
    ),
    "ends almost always": (
        lambda: Process(rare(0.5), end=[0, 0, 0.9]), np.eye(3)[1][:, None] * np.ones(2), {"stationary": True}, (1, 3, 6),
    ),
    "ends almost never": (
        lambda: Process(rare(0.5), end=[0, 0.05, 0.05]), np.eye(3)[1][:, None] * np.ones(2), {"stationary": True}, (1, 6, 20),
    ),
    "ends in one state for all": (
        lambda: Process(rare(0.5), end=[0, 0, 0.9]), np.eye(3)[1][:, None] * np.ones(2), {"terminal": "end"}, (1, 6),
    ),
    "ends and masks and a random start": (
        lambda: Process(rare(0.2), end=[0.1, 0, 0.9], mask=FORBIDS, start=STARTS), TEMPTING, {}, (1, 12),
    ),
}  # fmt: skip


def promises(atlas, process, reward, horizon):
    """What an atlas promises about a reward, as pairs of numbers of which the first is at most the second."""
    S, A = process.S, process.A
    r = np.broadcast_to(reward, (horizon, S, A))
    n = atlas.counts.setting.n_states
    given = np.concatenate([reward, np.zeros((n - S, A))])  # the one state for all ends pays nothing
    if n > S:
        process = with_an_end(process)
        r = np.broadcast_to(given, (horizon, n, A))
    best = value(process, r)
    for cautious in (False, True):
        plan = atlas.plan(given, cautious=cautious)
        mine = value(process, r, plan.policy)
        yield plan.lower, mine
        yield best, plan.upper
        if not cautious:
            yield best - mine, atlas.certificate.epsilon
    rng = np.random.default_rng(atlas.episodes)
    for _ in range(2):
        policy = rng.integers(0, A, (horizon, n))
        interval = atlas.evaluate(policy, given)
        mine = value(process, r, policy)
        yield interval.lower, mine
        yield mine, interval.upper


def with_an_end(process):
    """The same process with one more state, in which all episodes end."""
    S, A = process.S, process.A
    P = np.zeros((S + 1, A, S + 1))
    P[:S, :, :S] = process.P * (1 - process.end)
    P[:S, :, S] = process.P @ process.end
    P[S, :, S] = 1.0
    mask = None if process.mask is None else np.vstack([process.mask, np.ones((1, A), bool)])
    start = process.start if np.ndim(process.start) == 0 else np.append(process.start, 0.0)
    return Process(P, mask=mask, start=start)


def failing_runs(promised, runs=SEEDS):
    """How many runs break a promise: `promised(seed)` yields pairs of which the first is to be at most the second."""
    return sum(any(low > high + 1e-9 for low, high in promised(seed)) for seed in range(runs))


@pytest.mark.parametrize("name", CASES)
def test_plans_cautious_plans_evaluations_and_certificates_hold(name):
    """Notices: valuing an illegal or an unseen action, an end that is taken for granted, a start that is not estimated."""
    make, reward, options, looks = CASES[name]
    horizon = 3

    def promised(seed):
        for episodes in looks:
            process = make()
            atlas = ar.explore(process, horizon, delta=DELTA, max_episodes=episodes, seed=seed, algorithm="random", **options)
            yield from promises(atlas, process, reward, horizon)

    assert failing_runs(promised) <= allowed(DELTA, SEEDS)


@pytest.mark.parametrize("name", [name for name in CASES if name != "ends in one state for all"])
def test_identified_policies_lose_no_more_than_certified(name):
    """The same for BPI-UCRL: with a target that it meets before it has seen anything, and with one that it never meets."""
    make, reward, options, looks = CASES[name]
    horizon = 3

    def promised(seed):
        for epsilon, episodes in ((0.8, max(looks)), (1e-3, 0), (1e-3, 2), (1e-3, max(looks))):
            process = make()
            r = np.broadcast_to(reward, (horizon, process.S, process.A))
            atlas = ar.identify(process, reward, horizon, epsilon, DELTA, max_episodes=episodes, seed=seed, **options)
            yield value(process, r) - value(process, r, atlas.policy), atlas.certificate.epsilon

    assert failing_runs(promised, 40) <= allowed(DELTA, 40)


def coin(p):
    return lambda h, s, a, s_next, rng: float(rng.random() < p)


def first_step_only(h, s, a, s_next, rng):
    return float(h == 0)


AT_FIRST = np.eye(3)[0][:, None, None] * np.ones((3, 3, 2))
BY_STEP = np.zeros((3, 3, 2))  # of the process `Late`
BY_STEP[0, 0, 1] = 1.0


def TO_2(h, s, a, s_next, rng):
    return float(s_next == 2)


class Late(Process):
    """Action 0 stays in state 0. Action 1 leads from there to state 2 at the first step, and to state 1 later."""

    def step(self, a):
        self.P = np.zeros((3, 2, 3))
        self.P[0, 0, 0] = self.P[0, 1, 2 if self.h == 0 else 1] = self.P[1:, :, 1] = 1.0
        return super().step(a)


OWN = {  # name: pay, its means (H, S, A), options of `explore`, options of `plan`, episodes
    "random": (coin(0.05), np.full((3, 3, 2), 0.05), {}, {}, (1, 10)),
    "random, stationary": (coin(0.05), np.full((3, 3, 2), 0.05), {"stationary": True}, {}, (1, 10)),
    "random, alike at every step": (
        coin(0.05), np.full((3, 3, 2), 0.05), {"stationary": True}, {"stationary_rewards": True}, (1, 10, 30),
    ),
    "at the first step only": (first_step_only, AT_FIRST, {"stationary": True}, {}, (1, 10)),
    "at the first step only, deterministic": (
        first_step_only, AT_FIRST, {"stationary": True}, {"rewards": "deterministic"}, (5, 40),
    ),
    # What pays the same whenever it happens, but happens at some steps only: means of a state and action depend on the step.
    "on arrival, alike at every step": (TO_2, BY_STEP, {}, {"stationary_rewards": True}, (10, 300)),
    "on arrival, alike and deterministic": (
        TO_2, BY_STEP, {}, {"stationary_rewards": True, "rewards": "deterministic"}, (10, 300),
    ),
    "random, and ends": (coin(0.05), np.full((3, 3, 2), 0.05), {"terminal": "outcome"}, {}, (1, 10)),
}  # fmt: skip


@pytest.mark.parametrize("name", OWN)
def test_plans_for_the_own_reward_hold_with_the_printed_probability(name):
    """Notices: rewards taken for deterministic because they looked so, steps pooled because the transitions are."""
    pay, mean, options, assumed, looks = OWN[name]

    def promised(seed):
        for episodes in looks:
            kind = Late if "arrival" in name else Process
            process = kind(rare(0.3), end=[0, 0, 0.5 if "ends" in name else 0.0], pay=pay)
            atlas = ar.explore(process, 3, delta=DELTA, max_episodes=episodes, seed=seed, algorithm="random", **options)
            for cautious in (False, True):
                plan = atlas.plan("own", cautious=cautious, **assumed)
                assert plan.delta == DELTA
                if "arrival" in name:  # all that pays is action 1 at once
                    yield plan.lower, float(plan.policy[0, 0] == 1)
                    yield 1.0, plan.upper
                    continue
                yield plan.lower, own_value(process, mean, plan.policy)
                yield own_value(process, mean), plan.upper

    assert failing_runs(promised) <= allowed(DELTA, SEEDS)


def test_the_mean_of_one_law_fails_about_as_often_as_it_may():
    """One state, one action, one step: the only laws are the start, which is certain, and the mean. Half of delta is its own, so
    intervals that forgot the union over time, or the half, would fail more often than allowed."""
    delta, runs, episodes = 0.5, 200, 25
    rng, failures, bare = np.random.default_rng(0), 0, 0
    setting = ar.Setting(n_states=1, n_actions=1, horizon=1, initial_state=0)
    counts = ar.Counts.from_episodes([[0, 0]], [[0]], setting)
    for _ in range(runs):
        paid, draws = Paid(), rng.random(episodes) < 0.3
        false = naive = False
        for n, draw in enumerate(draws, 1):
            paid.add(0, 0, 0, 0, float(draw))
            atlas = ar.Atlas(counts, ar.certify(counts, delta), paid=paid)
            plan = atlas.plan("own")
            false |= not plan.lower <= 0.3 <= plan.upper
            mean = draws[:n].mean()
            naive |= n > 4 and abs(mean - 0.3) > 0.6745 * np.sqrt(0.21 / n)  # what holds with probability 1/2 at one time
        failures += false
        bare += naive
    assert failures <= allowed(delta / 2, runs)
    assert failures > 0.02 * runs
    assert bare > allowed(delta, runs)  # so the comparison can fail


def test_merged_runs_hold():
    """Runs of a process with a hidden mask and early ends, merged: what the one has not met the other may have."""
    reward = TEMPTING

    def promised(seed):
        process = Process(rare(0.05), end=[0, 0, 0.5], mask=FORBIDS)
        parts = [
            ar.explore(process, 3, delta=DELTA, max_episodes=episodes, seed=1000 * seed + i, algorithm="random")
            for i, episodes in enumerate((1, 8))
        ]
        yield from promises(parts[0].merge(parts[1], same_environment=True), process, reward, 3)

    assert failing_runs(promised) <= allowed(DELTA, SEEDS)


def test_asking_and_telling_in_a_loop_draws_afresh():
    """The README's loop: a fair coin, whose share of heads was certified to be in [0.997, 1] when every call drew the same."""
    mdp = ar.TabularMDP([[[0.5, 0.5]], [[0.5, 0.5]]])
    setting = mdp.setting(2)
    failures = 0
    for _ in range(20):
        explorer = ar.RFTrajectory(setting, delta=DELTA)
        for _ in range(60):
            explorer.tell(*mdp.rollout(explorer.ask()))
        atlas = ar.Atlas(explorer.counts, explorer.certificate())
        plan = atlas.plan([0.0, 1.0])
        failures += not plan.lower <= 0.5 <= plan.upper
    assert failures <= allowed(DELTA, 20)


def test_masks_that_are_known_give_narrower_intervals():
    process = Process(rare(0.05), mask=FORBIDS)
    hidden, known = (
        ar.explore(process, 3, delta=DELTA, max_episodes=8, seed=1, algorithm="random", action_masks=masks).plan(TEMPTING)
        for masks in (None, FORBIDS)
    )
    assert known.upper - known.lower < hidden.upper - hidden.lower
    assert "depends on the state alone" in str(hidden)
    assert "illegal actions: those of state 2" in str(known)


def test_nothing_is_warned_of_that_was_stated():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ar.explore(Process(rare(0.3), pay=coin(0.5)), 3, max_episodes=5).plan("own")

"""Coverage of certificates of logs, by simulation: whoever cuts episodes off may know the past, but not what follows.

A machine is logged, and the log is certified at several times. A run fails if, at any of them, a true law lies outside its ball,
or an interval for a policy, a plan or an improvement is false. If the share of such runs is at most delta, there are at most
`allowed(delta, RUNS)` of them with probability 1 - 1e-7. The wrong ways to keep a log, which void a certificate, fail far more
often: so the test would notice a mistake of that kind in the library.

It watches `docs/theory.md`, 9.3 and 9.5.
"""

import numpy as np
import pytest

import anyreward as ar
from anyreward.data.logs import CUT_OFF
from anyreward.planning import induct

from ..helpers.coverage import allowed
from ..helpers.tight_reference import dense, per_row

pytestmark = pytest.mark.slow

RUNS, DELTA, H, LOOKS = 60, 0.1, 4, (8, 50, 300)
STATES, ACTIONS = ["broken", "fine", "worn"], ["fix", "run"]
BROKEN, FINE, WORN = range(3)
P = np.zeros((3, 2, 3))  # (state, action, next state)
P[BROKEN] = [[0.7, 0.3, 0.0], [1.0, 0.0, 0.0]]
P[FINE] = [[0.0, 1.0, 0.0], [0.05, 0.65, 0.3]]
P[WORN] = [[0.0, 0.9, 0.1], [0.4, 0.0, 0.6]]
UP_TO = P.cumsum(axis=2) / P.cumsum(axis=2)[:, :, -1:]
REWARD = np.array([[0.0, 0.0], [0.2, 1.0], [0.1, 0.8]])
COLUMNS = {"episode": "id", "step": "t", "state": "where", "action": "what", "reward": "paid"}
KNOWN = {"states": STATES, "actions": ACTIONS, "initial_state": "fine"}


def play(rng, n, knows_past):
    """One episode as rows (state, action, next state); n (S, A, S) are the transitions so far, to which it adds.

    With `knows_past`, it is cut off by an adversary: as soon as the action that was chosen looks as if it breaks the machine more
    often than it does. The last row then has no next state: the action was not carried out.
    """
    s, rows = FINE, []
    for _ in range(H):
        a = int(rng.random() < 0.8)
        visits = n[s, a].sum()
        if knows_past and visits > 3 and n[s, a, BROKEN] / visits > P[s, a, BROKEN]:
            return [*rows, (s, a, None)]
        to = int(UP_TO[s, a].searchsorted(rng.random(), side="right"))
        n[s, a, to] += 1
        rows.append((s, a, to))
        s = to
    return rows


def table_of(episodes):
    rows = [
        (i, h, STATES[s], ACTIONS[a], None if to is None else STATES[to], REWARD[s, a])
        for i, steps in enumerate(episodes)
        for h, (s, a, to) in enumerate(steps)
    ]
    return dict(zip(("id", "t", "where", "what", "then", "paid"), zip(*rows, strict=True), strict=True))


def ended_when_broken(episodes):
    """The same episodes, if breaking terminates them."""
    cut = []
    for steps in episodes:
        first = next((h for h, (_, _, to) in enumerate(steps) if to == BROKEN), len(steps) - 1)
        cut.append(steps[: first + 1])
    return cut


def whole(episodes, rng):
    """Each row has its next state; an action that was not carried out has no row."""
    return table_of([[row for row in steps if row[2] is not None] for steps in episodes]), {"next": "then"}


def without_next(episodes, rng):
    """The next state is that of the next row; where a log ends is decided before anything happens."""
    lengths = rng.integers(1, H + 1, len(episodes))
    return table_of([steps[:k] for steps, k in zip(episodes, lengths, strict=True)]), {}


def terminating(episodes, rng):
    """Breaking terminates an episode. What the last of H steps leads to is only told if it terminates: it is never counted."""
    episodes = ended_when_broken(episodes)
    table = table_of(episodes)
    return {**table, "over": [then == "broken" for then in table["then"]]}, {"terminated": "over"}


def without_failures(episodes, rng):
    """Wrong: episodes that broke down are left out."""
    kept = [steps for steps in episodes if all(to != BROKEN for _, _, to in steps)]
    return table_of(kept or episodes[:1]), {"next": "then"}


def ends_at_failure(episodes, rng):
    """Wrong: the log of a machine that breaks down just ends, and nothing says why."""
    return table_of(ended_when_broken(episodes)), {}


def stops_after_two_rows(episodes, rng):
    """Wrong: where a log stops, it tells whether the episode terminated, but not where it went otherwise."""
    return terminating([steps[:2] for steps in episodes], rng)


def only_good_months(episodes, rng):
    """Wrong: of ten episodes in a row, the three that earned most are kept."""
    kept = []
    for i in range(0, len(episodes), 10):
        kept += sorted(episodes[i : i + 10], key=lambda steps: -sum(REWARD[s, a] for s, a, _ in steps))[:3]
    return table_of(kept), {"next": "then"}


def fails(atlas, truth, reward):
    """Whether something that the atlas says is false. `truth` is the true process, (S, A, S)."""
    counts, certificate, N = atlas.counts, atlas.certificate, len(truth)
    _, n = dense(counts)
    radii = per_row(counts, certificate.bound.kl_radii(counts, certificate.delta, False))[0]
    for s, a in np.argwhere(n[0].sum(-1) > 0):
        p_hat, p = n[0, s, a] / n[0, s, a].sum(), truth[s, a]
        with np.errstate(divide="ignore"):
            if (p_hat[p_hat > 0] * np.log(p_hat[p_hat > 0] / p[p_hat > 0])).sum() > radii[s, a]:
                return True
    mdp, r = ar.TabularMDP(truth, initial=FINE), np.broadcast_to(reward, (H, N, 2))
    value = lambda pi: float(mdp.initial @ induct(mdp, r, H, 1.0, pi).V[0])  # noqa: E731
    plan, done = atlas.plan(reward), atlas.evaluate(atlas.behaviour, reward)
    own = atlas.plan("own", rewards="deterministic", stationary_rewards=True) if len(atlas.paid) else plan
    better = atlas.improvement(plan)
    best = float(mdp.initial @ induct(mdp, r, H, 1.0).V[0])
    right = plan.lower <= value(plan.policy) <= best <= plan.upper
    right = right and own.lower <= value(own.policy) <= best <= own.upper
    right = right and done.lower <= value(atlas.behaviour) <= done.upper
    right = right and better.lower <= value(plan.policy) - value(atlas.behaviour) <= better.upper
    return not right


def failures(form, knows_past):
    """How many runs fail, and the assumptions that were printed."""
    failed, said = 0, set()
    for seed in range(RUNS):
        rng, n, episodes = np.random.default_rng(seed), np.zeros((3, 2, 3)), []
        for look in LOOKS:
            while len(episodes) < look:
                episodes.append(play(rng, n, knows_past))
            table, how = form(episodes, np.random.default_rng(seed))
            try:
                counts = ar.Counts.from_dataframe(table, horizon=H, stationary=True, **COLUMNS, **KNOWN, **how)
            except ValueError as problem:  # selection may depend on the step: then it is noticed before anything is certified
                if "the data contradict it: their transitions depend on the step" not in str(problem):
                    raise
                failed += 1
                break
            atlas = ar.Atlas(counts, ar.certify(counts, DELTA))
            truth, reward = P, REWARD
            if counts.setting.terminal == "end":  # what breaks goes to the last state, and earns nothing there
                truth, reward = np.zeros((4, 2, 4)), np.vstack([REWARD, np.zeros(2)])
                truth[:3, :, :3], truth[:3, :, 3], truth[3, :, 3] = P, P[:, :, BROKEN], 1.0
                truth[:3, :, BROKEN] = 0.0
            said |= set(counts.setting.assumed)
            if fails(atlas, truth, reward):
                failed += 1
                break
    return failed, said


@pytest.mark.parametrize("knows_past", [False, True])
@pytest.mark.parametrize("form", [whole, without_next, terminating])
def test_certificates_of_logs_hold_however_episodes_are_cut_off(form, knows_past):
    failed, said = failures(form, knows_past)
    assert failed <= allowed(DELTA, RUNS)
    assert said == ({CUT_OFF} if form is without_next or (form is terminating and knows_past) else set())


@pytest.mark.parametrize("form", [without_failures, ends_at_failure, stops_after_two_rows, only_good_months])
def test_logs_that_were_selected_by_what_happened_would_be_noticed(form):
    failed, _ = failures(form, False)
    assert failed > allowed(DELTA, RUNS)

"""Transfer between steps: every transition scored by a prediction that was made before it, from the counts of all steps.

It watches `docs/theory.md`, 3.1 and 3c.
"""

import itertools
import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anyreward as ar
from anyreward import kernels
from anyreward.certificates.bounds import TightBound
from anyreward.environments.tabular import play as play_model
from anyreward.testing import random_episodes

from ..helpers.problems import seeds
from ..helpers.tight_reference import Transfer, dense, fit, on_radii, per_row, psi_support, radius, relevant

SETTING = ar.Setting(n_states=3, n_actions=2, horizon=4, initial_state=0)


def evidence(counts):
    """The evidence of every (h, s, a, s')."""
    columns = counts.columns()
    edges = zip(*(columns[name].tolist() for name in ("h", "s", "a", "next", "evidence")), strict=True)
    return {edge[:4]: edge[4] for edge in edges if edge[0] >= 0}


def scored(episodes, seed=0, setting=SETTING):
    return ar.Counts.from_episodes(*random_episodes(setting, episodes, seed), setting)


def transcription(states, actions, setting=SETTING):
    slow = Transfer(setting)
    for path, moves in zip(states, actions, strict=True):
        slow.add(path, moves)
    return slow


# --- The scores ---


@settings(max_examples=40)
@given(st.integers(1, 3), st.integers(1, 2), st.integers(1, 4), st.integers(0, 150), st.booleans(), seeds)
def test_scores_are_those_of_a_transcription_one_episode_after_the_other(S, A, H, episodes, random_start, seed):
    setting = ar.Setting(n_states=S, n_actions=A, horizon=H, initial_state=None if random_start else 0)
    states, actions = random_episodes(setting, episodes, seed)
    expected = transcription(states, actions, setting).evidence
    found = evidence(ar.Counts.from_episodes(states, actions, setting))
    assert found.keys() == expected.keys()
    for edge, value in expected.items():
        assert found[edge] == pytest.approx(float(value), rel=1e-12, abs=1e-12)


def test_by_hand():
    """Two episodes 0 -> 1 -> 1 -> ... : the first is predicted by nothing, 1/S; the second by what was booked after the first."""
    setting = ar.Setting(n_states=2, n_actions=1, horizon=2, initial_state=0)
    counts = ar.Counts(setting, transfer=True)
    episode = np.array([[0, 1, 1]]), np.zeros((1, 2), int)
    counts.add_episodes(*episode)
    assert evidence(counts) == pytest.approx({(0, 0, 0, 1): math.log(1 / 2), (1, 1, 0, 1): math.log(1 / 2)})
    counts.add_episodes(*episode)
    second = math.log((1 + 1 / 4) / (1 + 1 / 2))  # (N + 1/(2S)) / (n + 1/2)
    assert evidence(counts)[0, 0, 0, 1] == pytest.approx(math.log(1 / 2) + second)


def test_a_prediction_does_not_know_what_it_predicts():
    """The scores of a run are those of its beginning plus what came after: nothing is scored again in hindsight."""
    states, actions = random_episodes(SETTING, 60, 1)
    slow, counts = Transfer(SETTING), ar.Counts(SETTING, transfer=True)
    for t in range(60):
        slow.add(states[t], actions[t])
        counts.add_episodes(states[t : t + 1], actions[t : t + 1])
        assert evidence(counts) == pytest.approx({edge: float(value) for edge, value in slow.evidence.items()}, rel=1e-12)


def test_predictions_are_probabilities():
    """Over all successors they sum to one, so `docs/theory.md`, 3.1, applies whatever was pooled."""
    counts = scored(30)
    for pair in np.ndindex(SETTING.n_states, SETTING.n_actions):
        law = np.zeros(SETTING.n_states)
        for x in range(SETTING.n_states):
            one_more = counts.copy()
            flows = np.array([[1, *pair, x, 1]])
            before = evidence(one_more).get((1, *pair, x), 0.0)
            one_more.add_flows(flows)
            law[x] = math.exp(evidence(one_more)[1, *pair, x] - before)
        assert law.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("replan", ["every", "path", "geometric"])
def test_every_way_to_take_in_episodes_scores_them(replan):
    """Under any schedule: every transition is scored, once, by counts that do not include it."""
    mdp = ar.envs.double_chain(5)
    explorer = ar.RFTrajectory(mdp.setting(4), replan=replan)
    rng = np.random.default_rng(0)
    while explorer.episodes < 500:
        play_model(explorer, mdp, rng, 500 - explorer.episodes, 0.0)
    table, counts = explorer.counts.table, explorer.counts
    assert counts.transfer
    pool, total = counts._pool.table, counts.n()
    booked = table.booked[: table.used[1]].sum()
    assert pool.n.sum() == booked <= total.sum()
    # The transitions of a pair, over all steps, cost no less than the best prediction in hindsight would have.
    for s, a in np.ndindex(5, 2):
        pooled = np.zeros(5, int)
        cost = 0.0
        for edge, value in evidence(counts).items():
            if edge[1:3] == (s, a):
                cost -= value
        columns = counts.columns()
        mine = (columns["h"] >= 0) & (columns["s"] == s) & (columns["a"] == a)
        np.add.at(pooled, columns["next"][mine], columns["count"][mine])
        assert cost >= -float(fit(pooled[pooled > 0])) - 1e-9


# --- Radii with transfer ---


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(0, 120), st.sampled_from([None, 3]), st.booleans(), seeds)
def test_radii_with_transfer(episodes, K, random_start, seed):
    """Half own mixture, half prediction; never below what 50 digits give, and the start law is left out of it."""
    setting = ar.Setting(n_states=3, n_actions=2, horizon=4, initial_state=None if random_start else 0)
    states, actions = random_episodes(setting, episodes, seed)
    counts = ar.Counts.from_episodes(states, actions, setting)
    slow = transcription(states, actions, setting).evidence
    starts, n = dense(counts)
    radii, _ = TightBound(max_successors=K).radii(counts, 0.1)
    found = per_row(counts, radii)
    for law in relevant(setting):
        if law is None:
            exact, radius_found = radius(starts, setting, on_radii(setting, 0.1), K, start=True), radii[0]
        else:
            score = sum((value for edge, value in slow.items() if edge[:3] == law), Decimal(0))
            exact, radius_found = radius(n[law], setting, on_radii(setting, 0.1), K, score), found[law]
        if exact is not None:
            assert exact <= Decimal(radius_found) <= exact + Decimal("1e-7")


def test_transfer_pays_if_steps_are_alike_and_costs_log_2_at_most_if_not():
    rng = np.random.default_rng(3)
    states = np.zeros((400, 7), int)
    states[:, 1:] = rng.random((400, 6)) < 0.1
    alike = ar.Setting(n_states=31, n_actions=1, horizon=6, initial_state=0)
    counts = ar.Counts.from_episodes(states, np.zeros((400, 6), int), alike)
    with_it, without = (per_row(counts, TightBound(transfer=t).radii(counts, 0.1)[0])[1, 0, 0] for t in (True, False))
    n = counts.n()[1, 0, 0]
    assert (without - with_it) * n > 3.0  # nats; its own mixture costs about log C(31,2) + 2 log 2 + log(n)/2
    for seed in range(20):
        counts = scored(40, seed)
        with_it, without = (per_row(counts, TightBound(transfer=t).radii(counts, 0.1)[0]) for t in (True, False))
        assert ((with_it - without) * counts.n() <= math.log(2) + 1e-6).all()


def test_transfer_assumes_nothing():
    """Two steps that contradict each other in the same state: their pool predicts both at 1/2 a time, which is worth nothing.

    What is left is half of the law's own mixture: its threshold and log 2.
    """
    setting = ar.Setting(n_states=2, n_actions=1, horizon=3, initial_state=0)
    states = np.array([[0, 0, 1, 0]] * 300)  # from state 0: step 0 stays, step 1 leaves
    counts = ar.Counts.from_episodes(states, np.zeros((300, 3), int), setting)
    thresholds = 300 * per_row(counts, TightBound(joint=False).radii(counts, 0.1)[0])[:2, 0, 0] - math.log(3 / 0.1)
    assert thresholds == pytest.approx(float(psi_support([300], 2)) + math.log(2), abs=1e-6)


# --- Rounding ---


@pytest.mark.parametrize("episodes", [10**6, 10**9, 10**11])
def test_scores_of_rows_that_are_nearly_deterministic_keep_their_digits(episodes):
    """log(1 - x) for a tiny x, times a huge count: rounding 1 - x first would cost n 2^-53 nats, on either side."""
    S = 5
    cycle = ar.TabularMDP(np.eye(S)[(np.arange(S) + 1) % S][:, None], initial=0)
    explorer, rng = ar.RFTrajectory(cycle.setting(3), replan="geometric"), np.random.default_rng(0)
    times, exact = [0], Decimal(0)
    while explorer.episodes < episodes:
        play_model(explorer, cycle, rng, episodes - explorer.episodes, 0.0)
        with localcontext(prec=50):
            exact += (explorer.episodes - times[-1]) * ((times[-1] + Decimal("0.1")) / (times[-1] + Decimal("0.5"))).ln()
        times.append(explorer.episodes)
    assert all(b >= max(a + 1, math.ceil(1.03 * a)) for a, b in itertools.pairwise(times[:-1]))  # booked each time
    counts = explorer.counts
    table, scores = counts.table, counts.scores()
    row = int(table.node_of[0, 0])
    n = float(table.n[row])
    assert n == episodes
    psi = kernels.radii.psi_transfer(table.seen, scores, int(table.first[row]), int(table.size[row]), n)
    assert -exact <= Decimal(psi) <= -exact + Decimal("1e-6")


@pytest.mark.parametrize("N", [(10**9, 1), (10**11, 3, 1), (10**6, 10**6), (5 * 10**10, 10**10)])
def test_the_threshold_of_a_prediction_is_never_below_the_exact_one(N):
    """Given scores that are exact, what is left is sum N log(N/n): for a predictor that knows the frequencies, psi is 0."""
    n = sum(N)
    scores = np.array([float(k * (Decimal(k) / n).ln()) for k in N])
    psi = kernels.radii.psi_transfer(np.array(N, float), scores, 0, len(N), float(n))
    exact = fit(N) - sum(Decimal(x) for x in scores)
    assert exact <= Decimal(psi) <= exact + Decimal("1e-7") + n * Decimal("1e-12")


# --- Keeping and merging ---


def test_merging_adds_evidence():
    one, other = scored(41, 1), scored(70, 2)
    both = one + other
    expected = dict(evidence(one))
    for edge, value in evidence(other).items():
        expected[edge] = expected.get(edge, 0.0) + value
    assert both.transfer
    assert evidence(both) == pytest.approx(expected, rel=1e-13)
    assert evidence(other + one) == pytest.approx(expected, rel=1e-13)
    assert evidence(one).keys() <= expected.keys()  # and the parts are as they were
    assert one == scored(41, 1)
    assert other == scored(70, 2)


def test_what_comes_after_a_merge_is_predicted_by_both_parts():
    one, other = scored(41, 1), scored(70, 2)
    both, more = one + other, random_episodes(SETTING, 1, 3)
    pooled = (one.n() + other.n()).sum(axis=0)
    before = evidence(both)
    both.add_episodes(*more)
    after, (states, actions) = evidence(both), more
    for h in range(SETTING.horizon):
        s, a, x = states[0, h], actions[0, h], states[0, h + 1]
        edges = one.columns(), other.columns()
        times = sum(c["count"][(c["h"] >= 0) & (c["s"] == s) & (c["a"] == a) & (c["next"] == x)].sum() for c in edges)
        predicted = math.log((times + 1 / 6) / (pooled[s, a] + 1 / 2))
        assert after[h, s, a, x] - before.get((h, s, a, x), 0.0) == pytest.approx(predicted, abs=1e-9)


@pytest.mark.parametrize("scored_part", [0, 1])
def test_a_part_without_scores_leaves_the_whole_without(scored_part):
    parts = [scored(20, 1), scored(20, 2)]
    plain = ar.Counts(SETTING)
    plain.add_episodes(*random_episodes(SETTING, 20, 2))
    parts[1 - scored_part] = plain
    both = parts[0] + parts[1]
    assert not both.transfer
    assert "evidence" not in both.columns()
    assert TightBound()(both, 0.1) == TightBound(transfer=False)(both, 0.1)


def test_scores_survive_a_file(tmp_path):
    """And exploration from there on is scored by all that is in it."""
    mdp = ar.envs.double_chain(5)
    atlas = ar.explore(mdp, horizon=4, max_episodes=101, seed=1)
    atlas.save(tmp_path / "chain.atlas")
    again = ar.load(tmp_path / "chain.atlas")
    assert again.counts.transfer
    assert evidence(again.counts) == evidence(atlas.counts)
    assert TightBound()(again.counts, 0.1) == pytest.approx(TightBound()(atlas.counts, 0.1), rel=1e-12)


def test_nothing_to_transfer_when_steps_are_pooled():
    setting = ar.Setting(n_states=3, n_actions=2, horizon=4, initial_state=0, stationary=True)
    counts = scored(20, setting=setting)
    assert not counts.transfer
    assert TightBound()(counts, 0.1) == TightBound(transfer=False)(counts, 0.1)


def test_looking_does_not_book():
    """Reading scores, columns, digests or bounds leaves the predictions as they are."""
    looked, left_alone = ar.Counts(SETTING, transfer=True), ar.Counts(SETTING, transfer=True)
    for states, actions in (random_episodes(SETTING, 1, seed) for seed in range(80)):
        looked.add_episodes(states, actions)
        left_alone.add_episodes(states, actions)
        looked.digest(), looked.scores(), TightBound()(looked, 0.1)
    assert evidence(looked) == evidence(left_alone)


@pytest.mark.parametrize("value", [1.0, 1e-3, math.nan, math.inf])
def test_evidence_that_no_prediction_can_have_is_refused(value):
    """A log probability is not positive. Taken at its word, it would certify anything."""
    columns = scored(20).columns()
    columns["evidence"][3] = value
    with pytest.raises(ValueError, match="evidence"):
        ar.Counts.from_columns(SETTING, columns)

"""Pairs of which something is known, told by the environment on the way: certificates and plans that do without them.

Each is compared with the same data under a reduction that needs no such knowledge: a setting that knew it before, illegal actions
that are copies of legal ones, and the true model.

It watches `docs/theory.md`, 9.1 and 9.2.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import anyreward as ar
from anyreward.certificates.bounds import TightBound, relevant_laws

from ..helpers.problems import rows
from ..helpers.reference import worst_error
from ..helpers.tabular import MASK, Tabular, transitions

pytestmark = pytest.mark.usefixtures("quick_look")
H = 4


def plain(counts, known=None):
    """The same counts without evidence, and without anything known of pairs unless it is said."""
    columns = {name: column for name, column in counts.columns().items() if name != "evidence"}
    setting = counts.setting if known is not None else replace(counts.setting, hidden_masks=False)
    return ar.Counts.from_columns(setting, columns, known)


def same_known(counts):
    return counts.declarations()


# Ends


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("start", [None, 0])
@pytest.mark.parametrize("bounds", ["tight", "paper"])
def test_ends_told_on_the_way_certify_like_ends_that_were_known(stationary, start, bounds):
    """All that differs is the share of delta that known states do not need; with that made up for, nothing does."""
    env = Tabular(transitions(5, 2, seed=1), ends=(3, 4))
    algorithm = "rf-ucrl" if bounds == "paper" else "rf-trajectory"
    options = {"stationary": stationary, "initial_state": start, "bounds": bounds, "algorithm": algorithm}
    atlas = ar.explore(env, H, max_episodes=300, record=True, growth=2.0, terminal="state", **options)
    assert set(atlas.counts.absorbing_states.tolist()) == {3, 4}
    before = replace(atlas.counts.setting, absorbing_states=(3, 4), terminal=None, hidden_masks=False)
    counts = ar.Counts.from_episodes(atlas.recording.states.astype(int), atlas.recording.actions.astype(int), before)
    free = {"clip": False} if bounds == "paper" else {}  # which says little from so few episodes, but not just the trivial
    assert ar.certify(counts, 0.1, bounds, **free).epsilon <= ar.certify(atlas.counts, 0.1, bounds, **free).epsilon
    if bounds == "tight":
        delta = 0.1 * relevant_laws(before) / relevant_laws(atlas.counts.setting)
        apart = TightBound(joint=False)  # the joint bound spends delta once, whatever the number of laws
        assert apart(counts, delta) == pytest.approx(apart(atlas.counts, 0.1), rel=1e-9)
    ignorant = ar.certify(plain(atlas.counts), 0.1, bounds, **free).epsilon
    informed = ar.certify(plain(atlas.counts, known=same_known(atlas.counts)), 0.1, bounds, **free).epsilon
    assert informed < ignorant


def test_an_extra_end_certifies_like_a_model_with_that_end():
    """Played through Gymnasium with terminal='end', and the same episodes with a setting that knows the last state."""
    atlas = ar.explore(Tabular(transitions(4), ends=(3,)), H, max_episodes=200, terminal="end", record=True)
    setting = ar.Setting(n_states=5, n_actions=2, horizon=H, absorbing_states=(4,))
    assert atlas.counts.setting == replace(setting, terminal="end", hidden_masks=True)
    counts = ar.Counts.from_episodes(atlas.recording.states.astype(int), atlas.recording.actions.astype(int), setting)
    assert rows(counts) == rows(atlas.counts)
    assert ar.certify(counts, 0.1).epsilon == atlas.certificate.epsilon


@pytest.mark.parametrize("stationary", [False, True])
def test_an_end_that_is_an_outcome_certifies_like_a_model_with_twice_the_states(stationary):
    """The same episodes as those of a process with 2 S states, of which the second half is known to be absorbing."""
    known = {"stationary": stationary, "initial_state": 0}
    env = Tabular(transitions(4), ends=(3,))
    atlas = ar.explore(env, H, max_episodes=200, record=True, action_masks="none", **known)
    setting = ar.Setting(n_states=8, n_actions=2, horizon=H, absorbing_states=(4, 5, 6, 7), **known)
    counts = ar.Counts.from_episodes(atlas.recording.states.astype(int), atlas.recording.actions.astype(int), setting)
    assert rows(counts) == rows(atlas.counts)
    assert ar.certify(counts, 0.1).epsilon == atlas.certificate.epsilon
    twice = ar.Atlas(counts, ar.certify(counts, 0.1))
    rng = np.random.default_rng(0)
    by_pair, on_arrival = rng.random((4, 2)), rng.random((4, 2, 4))
    for reward, whole in (
        (by_pair[:, 0], np.tile(by_pair[:, 0], 2)),
        (by_pair, np.tile(by_pair, (2, 1))),
        (lambda h, s, a: by_pair[s, a], np.tile(by_pair, (2, 1))),
        (on_arrival, np.tile(on_arrival, (2, 1, 2))),
        ({"s": [1], "a": [0], "next": [3], "reward": [0.5]}, {"s": [1, 1], "a": [0, 0], "next": [3, 7], "reward": [0.5, 0.5]}),
        (rng.random(8), None),  # of all outcomes: as it is
    ):
        mine, theirs = atlas.plan(reward), twice.plan(reward if whole is None else whole)
        assert mine.policy.shape == (H, 4)
        assert mine.upper == pytest.approx(theirs.upper, abs=1e-9)
        assert mine.lower <= theirs.lower + 1e-9  # which may act otherwise once an episode has ended
        if np.ndim(reward) == 1:
            assert mine.lower == pytest.approx(theirs.lower, abs=1e-9)
    policy = rng.integers(0, 2, (H, 4))
    for reward in (by_pair, on_arrival):
        free = np.tile(policy, (1, 2))
        interval, tied = atlas.evaluate(policy, reward), twice.evaluate(free, np.tile(reward, (2, 1, 2)[: reward.ndim]))
        assert interval.lower == pytest.approx(tied.lower, abs=1e-9)
        assert interval.upper >= tied.upper - 1e-9
        assert atlas.evaluate(free, reward).upper == pytest.approx(tied.upper, abs=1e-9)


def test_after_an_end_nothing_is_uncertain():
    """Everything ends at once: one law for each action of the start is all there is."""
    P = np.zeros((3, 2, 3))
    P[:, :, 1:] = 0.5
    atlas = ar.explore(Tabular(P, ends=(1, 2)), 10, max_episodes=400, initial_state=0, terminal="state")
    unaware = ar.certify(plain(atlas.counts), 0.1)
    assert atlas.certificate.epsilon < 0.5 * unaware.epsilon
    interval = atlas.evaluate(np.zeros((10, 3), int), [0.0, 1.0, 1.0])
    assert interval.value == pytest.approx(9.0)
    assert interval.lower == pytest.approx(9.0, abs=3.0)


# Illegal actions


def doubled(counts):
    """Counts in which each illegal action has the data of the legal one that is played in its place."""
    c = {name: column for name, column in counts.columns().items() if name != "evidence"}
    parts = [np.stack([c[name] for name in ("h", "s", "a", "next", "count")], axis=1)]
    for s, a in np.argwhere(counts.illegal):
        legal = np.flatnonzero(~counts.illegal[s])
        copied = parts[0][(parts[0][:, 0] >= 0) & (parts[0][:, 1] == s) & (parts[0][:, 2] == legal[a % len(legal)])].copy()
        copied[:, 2] = a
        parts.append(copied)
    columns = dict(zip(("h", "s", "a", "next", "count"), np.concatenate(parts).T, strict=True))
    return ar.Counts.from_columns(replace(counts.setting, hidden_masks=False), columns)


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("bounds", ["tight", "paper"])
@pytest.mark.parametrize("episodes", [3, 500])
def test_illegal_actions_certify_like_copies_of_legal_ones(stationary, bounds, episodes):
    atlas = ar.explore(Tabular(transitions(4, 3), mask=MASK), H, max_episodes=episodes, stationary=stationary, growth=2.0)
    counts = plain(atlas.counts, known=same_known(atlas.counts))
    free = {"clip": False} if bounds == "paper" else {}
    masked, copies, unaware = (
        ar.certify(c, 0.1, bounds, **free).epsilon for c in (counts, doubled(atlas.counts), plain(atlas.counts))
    )
    if bounds == "tight":  # the joint bound pays for the choice among legal actions, and so less than among their copies
        apart = TightBound(joint=False)
        assert apart(counts, 0.1) == pytest.approx(apart(doubled(atlas.counts), 0.1), rel=1e-9)
        assert masked <= copies
    else:
        assert masked == pytest.approx(copies, rel=1e-9)
    assert masked <= unaware  # never larger than without the mask
    if episodes == 500:
        assert masked < 0.9 * unaware  # and here much smaller


@pytest.mark.parametrize("stationary", [False, True])
def test_plans_are_those_of_copies_of_legal_actions(stationary):
    env = Tabular(transitions(4, 3), mask=MASK)
    atlas = ar.explore(env, H, max_episodes=200, stationary=stationary, terminal="state")
    counts = plain(atlas.counts, known=same_known(atlas.counts))
    masked, copies = (ar.Atlas(c, ar.certify(c, 0.1)) for c in (counts, doubled(atlas.counts)))
    for seed in range(5):
        r = np.random.default_rng(seed).random((H, 4, 3))
        shown = r.copy()
        for s, a in np.argwhere(~MASK):
            legal = np.flatnonzero(MASK[s])
            shown[:, s, a] = r[:, s, legal[a % len(legal)]]
        for cautious in (False, True):
            mine, theirs = masked.plan(r, cautious=cautious), copies.plan(shown, cautious=cautious)
            assert MASK[np.arange(4)[None].repeat(H, 0), mine.policy].all()
            for name in ("value", "lower", "upper"):
                assert getattr(mine, name) == pytest.approx(getattr(theirs, name), abs=1e-7)


def test_an_illegal_action_in_a_policy_means_the_one_played_instead():
    atlas = ar.explore(Tabular(transitions(4, 3), mask=MASK), H, max_episodes=100)
    rng = np.random.default_rng(0)
    reward, policy = rng.random((H, 4, 3)), rng.integers(0, 3, (H, 4))
    instead = policy.copy()
    for h, s in np.ndindex(H, 4):
        if not MASK[s, policy[h, s]]:
            legal = np.flatnonzero(MASK[s])
            instead[h, s] = legal[policy[h, s] % len(legal)]
    assert (instead != policy).any()
    assert atlas.evaluate(policy, reward) == atlas.evaluate(instead, reward)
    np.testing.assert_array_equal(atlas.legal(policy), instead)
    mixed = np.full((H, 4, 3), 1 / 3)
    moved = atlas.legal(mixed)
    assert not moved[:, ~MASK].any()
    np.testing.assert_allclose(moved.sum(axis=2), 1.0)
    interval = atlas.evaluate(mixed, reward)
    assert np.isfinite(interval).all()
    assert interval.lower <= interval.value <= interval.upper


def legal_policies(mask, horizon):
    S = len(mask)
    choices = [np.flatnonzero(mask[s]) for s in range(S)]
    for choice in itertools.product(*(choices[s] for _ in range(horizon - 1) for s in range(S))):
        yield np.array([*choice, *(c[0] for c in choices)]).reshape(horizon, S)


@pytest.mark.parametrize("stationary", [False, True])
def test_the_certificate_bounds_the_worst_error_of_every_legal_policy(stationary):
    """Against the true model, all legal policies and the worst reward of each: fails with probability at most delta."""
    mask = np.array([[1, 0], [1, 1], [0, 1]], dtype=bool)
    horizon, failures, ratios = 3, 0, []
    for seed in range(10):
        P = transitions(3, 2, seed)
        env = Tabular(P, mask=mask, ends=(2,) if seed % 2 else ())
        P = P.copy()
        if seed % 2:
            P[2] = [0, 0, 1]
        episodes = 20 * 4 ** (seed % 3)
        atlas = ar.explore(
            env, horizon, max_episodes=episodes, stationary=stationary, seed=seed, initial_state=0, growth=2.0,
            terminal="state",
        )  # fmt: skip
        model = atlas.counts.model()
        estimate = np.stack([np.stack([model.expect(h, row) for row in np.eye(3)], axis=-1) for h in range(horizon)])
        truth, start = np.broadcast_to(P, (horizon, 3, 2, 3)), np.eye(3)[0]
        worst = max(worst_error(estimate, start, truth, start, policy) for policy in legal_policies(mask, horizon))
        failures += worst > atlas.error_bound
        ratios.append(worst / atlas.error_bound)
    assert failures <= 4  # of 10, each with probability at most 0.1: more than 4 with 0.2%
    assert max(ratios) > 0.05  # the comparison is not with nothing


# What is kept, and what is refused


@pytest.mark.parametrize("stationary", [False, True])
def test_files_keep_what_is_known(tmp_path, stationary):
    env = Tabular(transitions(4, 3), mask=MASK, ends=(3,))
    atlas = ar.explore(env, H, max_episodes=80, stationary=stationary, terminal="state")
    atlas.save(tmp_path / "it.atlas")
    again = ar.load(tmp_path / "it.atlas")
    assert again == atlas
    np.testing.assert_array_equal(again.counts.illegal, atlas.counts.illegal)
    np.testing.assert_array_equal(again.counts.absorbing_states, [3])
    assert again.certificate.check(again.counts)
    assert ar.certify(again.counts, 0.1).epsilon == pytest.approx(atlas.certificate.epsilon, rel=1e-12)
    reward = np.random.default_rng(0).random((4, 3))
    mine, theirs = atlas.plan(reward), again.plan(reward)
    np.testing.assert_array_equal(mine.policy, theirs.policy)
    assert (mine.value, mine.lower, mine.upper) == pytest.approx((theirs.value, theirs.lower, theirs.upper), abs=1e-12)


def test_what_is_known_is_part_of_what_is_certified():
    atlas = ar.explore(Tabular(transitions(4, 3), mask=MASK, ends=(3,)), H, max_episodes=80)
    counts = atlas.counts.copy()
    assert atlas.certificate.check(counts)
    counts.declare_illegal(0, [1])  # as it was
    for state, actions in ((1, [0]), (0, []), (0, [0, 1]), (0, [0, 1, 2])):
        before = counts.declarations().tolist()
        with pytest.raises(ValueError, match=r"differently|every action|impossible"):
            counts.declare_illegal(state, actions)
        assert counts.declarations().tolist() == before
    assert not atlas.certificate.check(ar.Counts(atlas.counts.setting))
    assert not len(ar.Counts(atlas.counts.setting).illegal)


def test_merged_atlases_know_what_both_know():
    """A run of one episode has not met every state: the merged one knows of all."""
    env = Tabular(transitions(4, 3), mask=MASK, ends=(3,))
    long = ar.explore(env, H, max_episodes=100, seed=0, terminal="state")
    runs = (ar.explore(env, H, max_episodes=1, seed=seed, terminal="state") for seed in range(1, 9))
    short = next(run for run in runs if run.counts.illegal.sum() < 3)
    assert long.counts.illegal.sum() == 3
    merged = [short.merge(long, same_environment=True), long.merge(short, same_environment=True)]
    for both in merged:
        np.testing.assert_array_equal(both.counts.illegal, long.counts.illegal)
        assert both.counts.absorbing_states.tolist() == [3]
        assert both.certificate.check(both.counts)
    assert merged[0].certificate.epsilon == pytest.approx(merged[1].certificate.epsilon, rel=1e-9)


def test_contradictions_cannot_be_merged():
    P = transitions(4, 3)
    first = ar.explore(Tabular(P, mask=MASK), H, max_episodes=50, seed=1)
    other = ar.explore(Tabular(P, mask=~MASK | np.eye(4, 3, dtype=bool)), H, max_episodes=50, seed=2)
    free = ar.explore(Tabular(P), H, max_episodes=50, seed=3)
    always, never = (
        ar.explore(Tabular(P, ends=ends), H, max_episodes=50, seed=4 + len(ends), terminal="state") for ends in ((3,), ())
    )
    for one, two in ((first, other), (first, free), (free, first), (always, never), (never, always)):
        with pytest.raises(ValueError, match=r"impossible|contradict"):
            one.merge(two, same_environment=True)


def test_counts_that_contradict_what_is_known_are_refused():
    setting = ar.Setting(n_states=2, n_actions=2, horizon=2)
    columns = {"h": [-1, 0], "s": [0, 0], "a": [0, 1], "next": [0, 1], "count": [1, 1]}
    for known in ([[1, 2]], [[0, 1], [1, 1]]):  # state 0: action 1 is illegal; it stays
        with pytest.raises(ValueError, match="impossible"):
            ar.Counts.from_columns(setting, columns, np.array(known))
    assert ar.Counts.from_columns(setting, columns, np.array([[0, 2]])).illegal[0].tolist() == [True, False]
    for wrong in ([[4, 1]], [[-1, 1]], [[0, 3]], [[0, 0]], [[1, 1]], [[2, 2], [3, 2]]):  # half a state; nothing is legal
        with pytest.raises(ValueError, match="damaged"):
            ar.Counts.from_columns(setting, columns, np.array(wrong))


@pytest.mark.parametrize("replan", ["every", "path", "geometric"])
def test_exploring_ends_sooner_with_a_mask(replan):
    """The same environment, whose illegal actions do what the ones in their place do, without and with saying so."""
    P = transitions(4, 3)
    for s, a in np.argwhere(~MASK):
        legal = np.flatnonzero(MASK[s])
        P[s, a] = P[s, legal[a % len(legal)]]
    told, untold = (
        ar.explore(Tabular(P, mask=mask), 3, 2.0, stationary=True, replan=replan, initial_state=0) for mask in (MASK, None)
    )
    assert told.certificate.met
    assert untold.certificate.met
    assert told.episodes < untold.episodes

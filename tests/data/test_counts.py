"""Counts: the same numbers however they came in."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anyreward as ar
from anyreward.certificates.bounds import widest_of
from anyreward.testing import random_episodes

from ..helpers.problems import data, rows, seeds
from ..helpers.reference import dense_counts, empirical

SETTING = ar.Setting(n_states=3, n_actions=2, horizon=2, initial_state=0)


def expected_rows(states, actions, setting):
    starts, n = dense_counts(states, actions, setting)
    seen = {(-1, 0, 0, int(s), int(starts[s])) for s in np.flatnonzero(starts)}
    for h in range(1 if setting.stationary else setting.horizon):
        seen |= {(h, *map(int, at), int(n[h][tuple(at)])) for at in np.argwhere(n[h])}
    return seen


@given(data())
def test_every_transition_is_counted_once(problem):
    setting, states, actions = problem
    counts = ar.Counts.from_episodes(states, actions, setting)
    _, n = dense_counts(states, actions, setting)
    n = n[0] if setting.stationary else n
    assert rows(counts) == expected_rows(states, actions, setting)
    assert counts.episodes == len(states)
    assert counts.transitions == len(states) * setting.horizon
    assert counts.visited_pairs == np.count_nonzero(n.sum(axis=-1))
    np.testing.assert_array_equal(counts.n(), n.sum(axis=-1))
    np.testing.assert_array_equal(counts.state_visits(), np.bincount(states[:, :-1].ravel(), minlength=setting.n_states))


@given(data(), st.integers(0, 40))
def test_counts_add_up(problem, cut):
    setting, states, actions = problem
    first = ar.Counts.from_episodes(states[:cut], actions[:cut], setting)
    second = ar.Counts.from_episodes(states[cut:], actions[cut:], setting)
    before = first.digest(), second.digest()
    whole = expected_rows(states, actions, setting)
    assert rows(first + second) == rows(second + first) == whole
    assert (first + second).episodes == len(states)
    assert (first.digest(), second.digest()) == before, "adding changed a part"


@given(data())
def test_columns_give_back_the_same_counts(problem):
    setting, states, actions = problem
    counts = ar.Counts.from_episodes(states, actions, setting)
    again = ar.Counts.from_columns(setting, counts.columns())
    assert again == counts
    assert again.episodes == counts.episodes


def test_a_copy_is_separate():
    counts = ar.Counts.from_episodes([0, 1, 2], [0, 1], SETTING)
    twin, digest = counts.copy(), counts.digest()
    twin.add_episodes(np.array([[0, 2, 2]]), np.array([[1, 1]]))
    assert counts.digest() == digest != twin.digest()


def test_the_digest_tells_settings_and_counts_apart():
    episode = [0, 1, 2], [0, 1]
    discounted = ar.Setting(n_states=3, n_actions=2, horizon=2, initial_state=0, discount=0.5)
    digests = {
        ar.Counts(SETTING).digest(),
        ar.Counts.from_episodes(*episode, SETTING).digest(),
        ar.Counts.from_episodes(*episode, discounted).digest(),
        ar.Counts.from_episodes([0, 2, 1], [0, 1], SETTING).digest(),
        ar.Counts.from_episodes([[0, 1, 2]] * 2, [[0, 1]] * 2, SETTING).digest(),
    }
    assert len(digests) == 5


@pytest.mark.parametrize("stationary", [False, True])
def test_rows_with_many_successors(stationary):
    """A row's edges move to a bigger room again and again: none is lost, and rows beside it are not disturbed."""
    S, B = 300, 4_000
    setting = ar.Setting(n_states=S, n_actions=2, horizon=2, stationary=stationary)
    rng = np.random.default_rng(0)
    states, actions = rng.integers(0, S, (B, 3)), rng.integers(0, 2, (B, 2))
    states[:, 1] %= 3  # three states with up to 300 successors each, growing side by side
    counts = ar.Counts(setting)
    for i in np.split(np.arange(B), [1, 2, 5, 700, 701, 2_000]):  # parts of all sizes
        counts.add_episodes(states[i], actions[i])
    assert rows(counts) == expected_rows(states, actions, setting)
    assert widest_of(counts) > 250


def test_memory_follows_what_was_seen():
    """Wide rows (here the start, with thousands of states) must not make every other row reserve as much.

    4,000 episodes of 5 steps are at most 24,000 edges and as many nodes. A hundred megabytes are 4 kB for each.
    """
    S, H, B = 20_000, 5, 4_000
    setting = ar.Setting(n_states=S, n_actions=2, horizon=H, stationary=True)
    states = (np.random.default_rng(0).integers(0, S, (B, 1)) + np.arange(H + 1)) % S
    tracemalloc.start()
    ar.Counts.from_episodes(states, np.zeros((B, H), int), setting)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6


def test_a_large_state_space_costs_only_what_is_visited():
    setting = ar.Setting(n_states=10**6, n_actions=4, horizon=3, initial_state=999_999, stationary=True)
    counts = ar.Counts.from_episodes([999_999, 0, 999_998, 5], [3, 0, 3], setting)
    assert rows(counts) == {(-1, 0, 0, 999_999, 1), (0, 999_999, 3, 0, 1), (0, 0, 0, 999_998, 1), (0, 999_998, 3, 5, 1)}


@given(data(max_episodes=15), seeds)
def test_the_empirical_model(problem, seed):
    setting, states, actions = problem
    model = ar.Counts.from_episodes(states, actions, setting).model()
    initial, p_hat = empirical(*dense_counts(states, actions, setting), setting)
    np.testing.assert_allclose(model.initial, initial, atol=1e-15)
    V = np.random.default_rng(seed).random(setting.n_states)
    for h in range(setting.horizon):
        np.testing.assert_allclose(model.expect(h, V), p_hat[h] @ V, atol=1e-13)


@pytest.mark.parametrize(
    ("states", "actions", "names"),
    [
        ([0, 1, 3], [0, 1], r"states\[0, 2\] is 3: states go from 0 to 2"),
        ([0, -1, 2], [0, 1], r"states\[0, 1\] is -1"),
        ([0, 1, 2], [0, 2], r"actions\[0, 1\] is 2: actions go from 0 to 1"),
        ([0, 1, 2], [-1, 0], r"actions\[0, 0\] is -1"),
        ([1, 1, 2], [0, 1], "episode 0 starts in state 1, not in the initial_state 0"),
        ([[0, 1, 2], [2, 1, 2]], [[0, 1], [0, 1]], "episode 1 starts in state 2"),
        ([0, 1], [0], "an episode of horizon 2 has 3 states and 2 actions"),
        ([[0, 1, 2]], [[0, 1], [0, 1]], "states have shape"),
        ([[0, 1, 2]], [0, 1], "states have shape"),
        ([0.0, 1.0, 2.0], [0, 1], "states are float64"),
        ([0, 1, 2], [True, False], "actions are bool"),
    ],
)
def test_episodes_that_are_refused(states, actions, names):
    with pytest.raises(ValueError, match=names):
        ar.Counts.from_episodes(states, actions, SETTING)


GOOD = {"h": [-1, 0, 1], "s": [0, 0, 1], "a": [0, 0, 1], "next": [0, 1, 2], "count": [1, 1, 1]}


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"h": [-1, 0, 2]}, "row 2 of the counts has h = 2"),
        ({"h": [-2, 0, 1]}, "row 0 of the counts has h = -2"),
        ({"s": [0, 3, 1]}, "row 1 of the counts has s = 3"),
        ({"a": [0, 0, 2]}, "row 2 of the counts has a = 2"),
        ({"next": [0, 1, -1]}, "row 2 of the counts has next = -1"),
        ({"count": [1, 0, 1]}, "row 1 of the counts has count = 0"),
        ({"count": [1, -5, 1]}, "row 1 of the counts has count = -5"),
        ({"next": [1, 1, 2]}, "an episode starts in state 1, not in the initial_state 0"),
    ],
)
def test_columns_that_are_refused(changes, names):
    with pytest.raises(ValueError, match=names):
        ar.Counts.from_columns(SETTING, GOOD | changes)


def test_a_missing_column_is_named():
    with pytest.raises(ValueError, match="the column 'next' is missing"):
        ar.Counts.from_columns(SETTING, {name: GOOD[name] for name in GOOD if name != "next"})


@pytest.mark.parametrize("count", [[1, 2**53 + 1, 1], [1, 2**62, 2**62]])
def test_counts_too_large_to_be_exact_are_refused(count):
    """Edges are counted in floats: above 2^53 a count is rounded, and the visits of a row could overflow.

    A certificate must not follow from counts that are not the ones given.
    """
    columns = GOOD | {"h": [-1, 0, 0], "s": [0, 0, 0], "a": [0, 0, 0], "count": count}
    with pytest.raises(ValueError, match="count"):
        ar.Counts.from_columns(SETTING, columns)


def test_sums_too_large_to_be_exact_are_refused():
    columns = {name: values[:2] for name, values in GOOD.items()} | {"count": [1, 2**53 - 1]}
    counts = ar.Counts.from_columns(SETTING, columns)
    with pytest.raises(ValueError, match="2\\^53"):
        counts + counts


def test_counts_of_different_settings_do_not_add():
    other = ar.Setting(n_states=3, n_actions=2, horizon=2, initial_state=1)
    with pytest.raises(ValueError, match="different settings"):
        ar.Counts(SETTING) + ar.Counts(other)


def test_no_episodes():
    states, actions = random_episodes(SETTING, 0, seed=0)
    counts = ar.Counts.from_episodes(states, actions, SETTING)
    assert rows(counts) == set()
    assert (counts.episodes, counts.transitions, counts.visited_pairs) == (0, 0, 0)
    assert counts.n().sum() == 0


def test_a_revision_changes_with_everything_that_a_bound_depends_on():
    """Explorers keep bounds for a revision: one that stayed the same would leave them stale."""
    setting = ar.Setting(n_states=2, n_actions=2, horizon=2, initial_state=0, hidden_masks=True)
    counts, seen = ar.Counts(setting), []

    def is_new():
        seen.append(counts.revision)
        return len(set(seen)) == len(seen)

    assert is_new()
    counts.declare_illegal(0, [1])
    assert is_new()
    counts.declare_illegal(1, [])
    assert is_new()
    counts.add_episodes(*counts.checked([0, 1, 1], [0, 0]))
    assert is_new()
    counts.add_flows(np.array([[0, 0, 0, 1, 3]]))  # without a start, so the number of episodes stays the same
    assert is_new()

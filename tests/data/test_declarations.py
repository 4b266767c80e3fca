"""What is declared about states and actions: checked against the data, printed, or refused."""

from dataclasses import replace

import numpy as np
import pytest

import anyreward as ar
from anyreward.certificates.bounds import relevant_laws

from ..helpers.declared import SETTING, A, H, S, counted

pytestmark = pytest.mark.usefixtures("quick_look")


SHY = replace(SETTING, hidden_masks=True)


def test_declarations_that_the_data_contradict_are_refused_and_change_nothing():
    """Once, declaring every state absorbing brought epsilon from 6 to 0."""
    counts = counted()
    before, epsilon = counts.digest(), ar.certify(counts).epsilon
    for declare in (
        lambda: counts.declare_absorbing(range(S)),
        lambda: counts.declare_absorbing([1]),
        lambda: counts.declare_illegal(1, [0]),
    ):
        with pytest.raises(ValueError, match="known to be impossible"):
            declare()
    assert counts.digest() == before
    assert ar.certify(counts).epsilon == epsilon


@pytest.mark.parametrize(
    ("declare", "names"),
    [
        (lambda c: c.declare_illegal(S, [0]), "state 4"),
        (lambda c: c.declare_illegal(-1, [0]), "state -1"),
        (lambda c: c.declare_illegal(0, [A]), "actions go from 0 to 2"),
        (lambda c: c.declare_illegal(0, range(A)), "every action"),
        (lambda c: c.declare_absorbing([S]), "state 4"),
        (lambda c: c.declare_absorbing([0.5]), "whole number"),
        (lambda c: c.declare_absorbing(3), "list"),
        (lambda c: c.declare_illegal(0, 1), "list"),
    ],
)
def test_declarations_that_make_no_sense_are_refused(declare, names):
    counts = ar.Counts(SETTING)
    with pytest.raises(ValueError, match=names):
        declare(counts)
    assert counts == ar.Counts(SETTING)


@pytest.mark.parametrize("algorithm", sorted(ar.ALGORITHMS))
def test_episodes_that_contradict_declarations_are_refused_by_every_algorithm(algorithm):
    kind = ar.ALGORITHMS[algorithm]
    options = {"budget": 1000} if kind.needs_budget else {}
    reward = (np.eye(S)[0],) if kind.needs_reward else ()
    try:
        explorer = kind(SETTING, *reward, **options)
    except ValueError:  # some need a known start
        explorer = kind(replace(SETTING, initial_state=0), *reward, **options)
    explorer.counts.declare_illegal(1, [2])
    explorer.counts.declare_absorbing([3])
    before = explorer.counts.digest()
    for path, action in (([0, 1, 1, 1, 1], 2), ([0, 3, 3, 3, 2], 0)):
        with pytest.raises(ValueError, match="known to be impossible"):
            explorer.tell(path, [action] * H)
    assert explorer.counts.digest() == before
    explorer.tell([0, 1, 1, 3, 3], [0] * H)
    assert explorer.episodes == 1


def test_a_declaration_that_is_true_of_both_does_not_keep_counts_apart():
    setting = ar.Setting(n_states=2, n_actions=1, horizon=2, initial_state=0)
    told, untold = (ar.Counts.from_episodes([[0, 1, 1]], [[0, 0]], setting) for _ in range(2))
    told.declare_absorbing([1])
    for total in (told + untold, untold + told):
        assert total.absorbing_states.tolist() == [1]


def test_declarations_are_printed():
    counts = ar.Counts(SETTING)
    counts.declare_absorbing([3])
    counts.declare_illegal(1, [2])
    text = str(ar.certify(counts))
    assert "never left, as declared: state 3" in text
    assert "illegal actions as declared: in state 1" in text
    assert "declared" not in str(ar.certify(ar.Counts(SETTING)))


@pytest.mark.parametrize("algorithm", ["bpi-ucrl", "ucrl2", "kl-ucrl"])
def test_bounds_know_what_is_declared_after_they_were_computed(algorithm):
    """Once, BPI-UCRL's certificate still counted on an action that had been declared illegal since."""
    kind = ar.ALGORITHMS[algorithm]
    reward = np.zeros((2, 3, 2))
    reward[1, 1, 1], reward[1, 2] = 1.0, 0.5
    options = {"budget": 10_000} if kind.needs_budget else {}
    setting = ar.Setting(n_states=3, n_actions=2, horizon=2, initial_state=0)
    late, early = (kind(setting, reward=reward, **options) for _ in range(2))
    early.counts.declare_illegal(1, [1])
    for explorer in (late, early):
        for path, actions in (([0, 1, 0], [0, 0]), ([0, 2, 0], [1, 0])):
            explorer.tell([path] * 3000, [actions] * 3000)
    assert late.recommendation[0, 0] == 0
    late.counts.declare_illegal(1, [1])
    assert late.recommendation[0, 0] == early.recommendation[0, 0] == 1
    assert late.own_epsilon == pytest.approx(early.own_epsilon)


def test_with_hidden_masks_every_state_is_declared_before_it_is_met():
    counts = ar.Counts(SHY)
    assert all(counts.is_unsure(s) for s in range(S))
    with pytest.raises(ValueError, match="state 0 was visited, but its illegal actions were never declared"):
        counts.checked([0] * (H + 1), [0] * H)
    counts.declare_illegal(0, [])
    counts.declare_illegal(1, [2])
    assert [counts.is_unsure(s) for s in range(S)] == [False, False, True, True]
    counts.add_episodes(*counts.checked([0, 1, 0, 1, 0], [0, 1, 2, 0]))
    with pytest.raises(ValueError, match="state 2"):
        counts.checked([0, 1, 0, 1, 2], [0] * H)
    for again, actions in ((0, [0]), (1, [])):
        with pytest.raises(ValueError, match="declared differently before"):
            counts.declare_illegal(again, actions)
    twin = ar.Counts.from_columns(SHY, counts.columns(), counts.declarations())
    assert twin == counts
    with pytest.raises(ValueError, match="never declared"):
        ar.Counts.from_columns(SHY, counts.columns())


def test_illegal_actions_that_the_setting_names_have_no_share_of_delta():
    shape = {"n_states": 4, "n_actions": 3, "horizon": 5}
    illegal = ((0, 1), (2, 0), (2, 1))
    assert relevant_laws(ar.Setting(**shape, initial_state=0, illegal_actions=illegal)) == 2 + 9 * 3
    assert relevant_laws(ar.Setting(**shape, illegal_actions=illegal)) == 9 * 4 + 1
    assert relevant_laws(ar.Setting(**shape, illegal_actions=illegal, stationary=True)) == 10
    assert relevant_laws(ar.Setting(**shape, terminal="outcome")) == 12 * 4 + 1  # none for ends


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"illegal_actions": ((0, 3),)}, r"illegal_actions has \(0, 3\)"),
        ({"illegal_actions": ((4, 0),)}, r"illegal_actions has \(4, 0\)"),
        ({"illegal_actions": (0,)}, "pair"),
        ({"illegal_actions": ((1, 0), (1, 1), (1, 2))}, "every action in state 1"),
        ({"illegal_actions": ((1, 0),), "absorbing_states": (1,)}, "state 1 is absorbing"),
        ({"terminal": "sometimes"}, "terminal is 'sometimes'"),
        ({"assumed": "it is so"}, "assumed"),
        ({"assumed": (3,)}, "assumed"),
        ({"illegal_actions": 5}, "illegal_actions"),
        ({"absorbing_states": 5}, "absorbing_states"),
        ({"stationary": "false"}, "stationary is 'false'"),
        ({"hidden_masks": "no"}, "hidden_masks is 'no'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, names):
    with pytest.raises(ValueError, match=names):
        ar.Setting(n_states=4, n_actions=3, horizon=2, **changes)

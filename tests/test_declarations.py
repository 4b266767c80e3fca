"""What is declared of states, and evidence of a file: checked against the data, printed, or refused."""

import functools
import json
from dataclasses import replace

import numpy as np
import pytest

import anyreward as ar
from anyreward.atlas import container
from anyreward.certificates.bounds import relevant_laws

from .problems import random_episodes, random_mdp
from .test_simulator import quick_look

__all__ = ["quick_look"]  # a fixture for every test here too
S, A, H = 4, 3, 4
SETTING = ar.Setting(n_states=S, n_actions=A, horizon=H)
SHY = replace(SETTING, hidden_masks=True)


# Declarations


def counted(setting=SETTING, episodes=30, seed=0):
    counts = ar.Counts(setting, transfer=True)
    counts.add_episodes(*counts.checked(*random_episodes(setting, episodes, seed)))
    return counts


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
    with pytest.raises(ValueError, match="state 0 was met, but which of its actions are illegal was never declared"):
        counts.checked([0] * (H + 1), [0] * H)
    counts.declare_illegal(0, [])
    counts.declare_illegal(1, [2])
    assert [counts.is_unsure(s) for s in range(S)] == [False, False, True, True]
    counts.add_episodes(*counts.checked([0, 1, 0, 1, 0], [0, 1, 2, 0]))
    with pytest.raises(ValueError, match="state 2"):
        counts.checked([0, 1, 0, 1, 2], [0] * H)
    for again, actions in ((0, [0]), (1, [])):
        with pytest.raises(ValueError, match="declared before, and differently"):
            counts.declare_illegal(again, actions)
    twin = ar.Counts.from_columns(SHY, counts.columns(), counts.told())
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


# Evidence


def forged(counts, evidence):
    return ar.Counts.from_columns(counts.setting, {**counts.columns(), "evidence": evidence})


@pytest.mark.parametrize("seed", range(4))
def test_evidence_that_no_order_could_have_produced_is_refused(seed):
    """Once, a column of zeros brought epsilon from 2.76 to 0.53."""
    counts = counted(episodes=int(4 ** (seed + 1)), seed=seed)
    evidence = counts.columns()["evidence"]
    assert forged(counts, evidence) == counts
    for wrong in (np.zeros_like(evidence), np.where(np.arange(len(evidence)) == np.argmin(evidence), -1e-3, evidence)):
        with pytest.raises(ValueError, match="no order of these transitions gives so much"):
            forged(counts, wrong)
    with pytest.raises(ValueError, match="shape"):
        forged(counts, evidence[:-1])


def test_evidence_is_limited_over_all_steps_and_successors_together():
    """Once, a tenth less brought epsilon to 0: each successor alone could have had it, but not all of them."""
    atlas = ar.explore(ar.envs.double_chain(7, 0.4), 6, max_episodes=5_000)
    counts, columns = atlas.counts, atlas.counts.columns()
    for factor in (0.99, 0.9, 0.5):
        with pytest.raises(ValueError, match="no order"):
            forged(counts, factor * columns["evidence"])
    rng, move = np.random.default_rng(0), columns["h"] >= 0
    moved = columns["evidence"].copy()
    moved[move] = rng.permutation(moved[move])
    with pytest.raises(ValueError, match="no order"):
        forged(counts, moved)


def test_the_limit_over_successors_holds_for_every_order_and_every_schedule():
    """G(M) - G(M_0) against what any batches of any order are scored, and equal to it when each batch is one more of the same."""
    S, rng = 3, np.random.default_rng(1)
    setting = ar.Setting(n_states=S, n_actions=1, horizon=2, initial_state=0, stationary=False)
    for _ in range(300):
        pool, score, total = np.zeros(S), np.zeros(S), np.zeros(S, int)
        for _ in range(rng.integers(1, 12)):
            batch = rng.multinomial(rng.integers(1, 30), rng.dirichlet(np.full(S, 0.3)))
            score += batch * np.log((pool + 0.5 / S) / (pool.sum() + 0.5))
            pool, total = pool + batch, total + batch
        seen = np.flatnonzero(total)
        columns = {"h": 0 * seen, "s": 0 * seen, "a": 0 * seen, "next": seen, "count": total[seen], "evidence": score[seen]}
        start = {"h": -1, "s": 0, "a": 0, "next": 0, "count": int(total.sum()), "evidence": 0.0}
        ar.Counts.from_columns(setting, {name: np.append(columns[name], start[name]) for name in columns})


def test_where_no_law_is_likely_enough_nothing_is_certain():
    """Evidence that contradicts itself, as of merged runs, where that cannot be told: its rows are unknown, not exact."""
    counts = counted(ar.Setting(n_states=2, n_actions=1, horizon=3, initial_state=0), episodes=400)
    columns = counts.columns()
    wrong = {**columns, "evidence": 0.2 * columns["evidence"]}
    with pytest.raises(ValueError, match="no order"):
        ar.Counts.from_columns(counts.setting, wrong)
    merged = ar.Counts.from_columns(counts.setting, wrong, runs=2)
    assert ar.certify(merged).epsilon >= ar.certify(counts).epsilon > 0


def test_the_limit_of_evidence_is_reached_and_not_by_more():
    """One (s, a, s') throughout, told step by step: each transition is predicted from all before it, as well as can be.
    At the limit it is taken, a little above it is not."""
    setting = ar.Setting(n_states=3, n_actions=1, horizon=2, initial_state=0)
    n = 12
    total = sum(np.log((i + 1 / 6) / (i + 1 / 2)) for i in range(2 * n))
    last = sum(np.log((i + 1 / 6) / (i + 1 / 2)) for i in range(n, 2 * n))
    columns = {"h": [-1, 0, 1], "s": [0, 0, 0], "a": [0, 0, 0], "next": [0, 0, 0], "count": [n, n, n]}
    for evidence in ([0.0, total - last, last], [0.0, last, total - last], [0.0, total / 2, total / 2]):
        ar.Counts.from_columns(setting, {**columns, "evidence": evidence})
    for evidence in ([0.0, last, last], [0.0, total - last, last + 1e-3], [0.0, total / 2, total / 2 + 1e-3]):
        with pytest.raises(ValueError, match="no order"):
            ar.Counts.from_columns(setting, {**columns, "evidence": evidence})


@pytest.mark.parametrize("seed", range(6))
def test_honest_evidence_is_never_refused(seed, tmp_path):
    """Of runs of all lengths and schedules, merged and not."""
    rng = np.random.default_rng(seed)
    mdp = random_mdp(int(rng.integers(1, 6)), 2, seed=seed, H=5 if seed % 2 else None)
    replan = ("every", "path", "geometric")[seed % 3]
    sizes = (1, 3, 50, 4000) if replan != "geometric" else (5, 10**4, 10**7)
    parts = [ar.explore(mdp, 5, max_episodes=n, seed=100 * seed + n % 97, replan=replan) for n in sizes]
    for atlas in (*parts, functools.reduce(lambda a, b: a | b, parts)):
        atlas.save(tmp_path / "it.atlas")
        assert ar.load(tmp_path / "it.atlas") == atlas


def test_counts_and_evidence_of_a_file_follow_from_its_recording(tmp_path):
    mdp = random_mdp(3, 2, seed=1)
    one, two = (ar.explore(mdp, 3, max_episodes=n, seed=n, record=True) for n in (40, 70))
    both = one | two
    assert both.recorded == (40, 70)
    path = tmp_path / "it.atlas"
    both.save(path)
    assert ar.load(path) == both
    columns, about, arrays = container.read(path)
    for change in ("evidence", "recording", "runs"):
        forged_columns = {name: column.copy() for name, column in columns.items()}
        forged_arrays = {name: array.copy() for name, array in arrays.items()}
        text = json.loads(json.dumps(about))
        if change == "evidence":
            forged_columns["evidence"][3] *= 0.9
            counts = ar.Counts.from_columns(both.counts.setting, forged_columns)
            text["certificate"] = json.loads(json.dumps(ar.certify(counts).to_dict()))
        elif change == "recording":
            forged_arrays["recording.actions"][5] = 1 - forged_arrays["recording.actions"][5]
        else:
            text["recorded"] = [50, 60]
        container.write(path, forged_columns, text, forged_arrays)
        with pytest.raises(ValueError, match="not those of its recording"):
            ar.load(path)

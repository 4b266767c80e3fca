"""What is declared, merged, asked for, printed and loaded: each is checked against the data, or printed, or refused."""

import functools
import json
import re
import warnings
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward import files
from anyreward.bounds import PaperBound, TightBound, relevant_laws
from anyreward.cli import app
from anyreward.rewards import as_reward

from .problems import random_episodes, random_mdp
from .processes import Process
from .test_simulator import MASK, Tabular, quick_look, transitions

__all__ = ["quick_look"]  # a fixture for every test here too
EARLIER = Path(__file__).parent / "earlier"
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
    columns, about, arrays = files.read(path)
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
        files.write(path, forged_columns, text, forged_arrays)
        with pytest.raises(ValueError, match="not those of its recording"):
            ar.load(path)


# Merging


def test_different_environments_are_not_merged():
    calm, rough = (ar.explore(ar.envs.double_chain(9, p), 5, max_episodes=50, seed=i) for i, p in enumerate((0.02, 0.45)))
    for left, right in ((calm, rough), (rough, calm)):
        with pytest.raises(ValueError, match="different environments"):
            left | right
        with pytest.raises(ValueError, match="different environments"):
            left.merge(right, same_environment=True)
    again = ar.explore(ar.envs.double_chain(9, 0.02), 5, max_episodes=50, seed=7)
    third = ar.explore(ar.envs.double_chain(9, 0.02), 5, max_episodes=50, seed=8)
    assert ((calm | again) | third).episodes == 150
    with pytest.raises(ValueError, match="different environments"):
        (calm | again) | rough


def test_gymnasium_environments_are_known_by_how_they_were_made():
    def lake(seed, **options):
        return ar.explore("FrozenLake-v1", 4, max_episodes=20, seed=seed, env_args=options or None)

    assert (lake(1) | lake(2)).episodes == 40
    assert (lake(3) | ar.explore(gym.make("FrozenLake-v1"), 4, max_episodes=20, seed=4)).episodes == 40
    with pytest.raises(ValueError, match="different environments"):
        lake(1) | lake(2, is_slippery=False)


def test_runs_with_the_same_counts_are_still_two():
    """A model without chance: every run has the same counts, and leaving some out would be choosing by how they turned out."""
    mdp = ar.TabularMDP(np.ones((1, 1, 1)))
    one, two = (ar.explore(mdp, 3, max_episodes=5, seed=seed) for seed in (1, 2))
    assert one.counts == two.counts
    assert (one | two).episodes == 10
    for left, right in ((one, one), (one | two, two), (one, ar.Atlas(two.counts, ar.certify(two.counts)))):
        with pytest.raises(ValueError, match="share a run"):
            left.merge(right, same_environment=True)


def test_a_state_that_ended_in_one_run_and_went_on_in_another_is_not_merged():
    """Once, with masks known, a state that went on in itself was taken for one in which an episode had ended."""
    ends, goes_on = (Process(np.full((2, 1, 2), 0.5), end=[0, p]) for p in (1.0, 0.0))
    goes_on.P = np.array([[[0.5, 0.5]], [[0.0, 1.0]]])
    parts = [
        ar.explore(process, 4, max_episodes=20, seed=seed, terminal="state", action_masks="none")
        for seed, process in enumerate((ends, goes_on))
    ]
    for left, right in (parts, parts[::-1]):
        with pytest.raises(ValueError, match="disagree on whether episodes go on from state 1"):
            left.merge(right, same_environment=True)


def test_data_of_unknown_origin_need_a_word(tmp_path):
    P = transitions(S, A)
    one, two = (ar.explore(Tabular(P), H, max_episodes=20, seed=seed) for seed in (1, 2))
    with pytest.raises(ValueError, match=r"Tabular has no fingerprint.*same_environment=True"):
        one | two
    both = one.merge(two, same_environment=True)
    assert "the merged runs are of the same environment" in str(both.certificate)
    assert "the merged runs are of the same environment" in str(both.plan(np.eye(S)[0]))
    both.save(tmp_path / "both.atlas")
    assert ar.load(tmp_path / "both.atlas").certificate == both.certificate
    mdp = random_mdp(S, A, seed=0)
    known = ar.explore(mdp, H, max_episodes=20)
    counts = ar.Counts.from_episodes(*mdp.rollout(np.zeros((H, S), int), 5), known.counts.setting)
    data = ar.Atlas(counts, ar.certify(counts))
    with pytest.raises(ValueError, match="data of unknown origin has no fingerprint"):
        known | data
    mixed = known.merge(data, same_environment=True)
    assert mixed.episodes == 25
    more = ar.explore(mdp, H, max_episodes=20, seed=9)
    with pytest.raises(ValueError, match="has no fingerprint"):  # what was merged with it is of unknown origin too
        mixed | more
    for whole in (mixed.merge(more, same_environment=True), more.merge(mixed, same_environment=True)):
        assert str(whole.certificate).count("the merged runs are of the same environment") == 1


def test_an_environment_that_is_drawn_when_it_is_made_is_known_by_what_was_drawn():
    lakes = [
        ar.explore("FrozenLake-v1", 4, max_episodes=20, seed=seed, env_args={"desc": None, "map_name": None}) for seed in (1, 2)
    ]
    with pytest.raises(ValueError, match="different environments"):
        lakes[0] | lakes[1]


def test_merging_on_the_command_line(tmp_path):
    for seed in (1, 2):
        ar.explore(Tabular(transitions(S, A)), H, max_episodes=20, seed=seed).save(tmp_path / f"{seed}.atlas")
    names = [str(tmp_path / "1.atlas"), str(tmp_path / "2.atlas"), "--out", str(tmp_path / "both.atlas")]
    refused = CliRunner().invoke(app, ["merge", *names])
    assert refused.exit_code == 2
    assert "--same-environment" in refused.output
    done = CliRunner().invoke(app, ["merge", *names, "--same-environment", "--json"])
    assert done.exit_code == 0
    assert "the merged runs are of the same environment" in json.loads(done.stdout)["assumptions"]


# Rewards that are functions


class Callable4:
    def __call__(self, h, s, a, s_next):
        return float(s_next == 1)


@pytest.mark.parametrize(
    ("reward", "on_arrival"),
    [
        (lambda h, s, a: 1.0 * (s == 2), False),
        (lambda h, s, a, goal=2: 1.0 * (s == goal), False),
        (lambda h, s, a, *rest: 1.0 * (s == 2), False),
        (lambda *index: 1.0 * (index[1] == 2), False),
        (lambda h, s, a, *, goal=2: 1.0 * (s == goal), False),
        (functools.partial(lambda goal, h, s, a: 1.0 * (s == goal), 2), False),
        (lambda h, s, a, s_next: 1.0 * (s_next == 1), True),
        (lambda h, s, a, s_next, goal=1: 1.0 * (s_next == goal), True),
        (functools.partial(lambda h, s, a, s_next, goal: 1.0 * (s_next == goal), goal=1), True),
        (Callable4(), True),
    ],
)
def test_only_parameters_without_a_default_count(reward, on_arrival):
    r = as_reward(reward, 3, 2, 2)
    assert isinstance(r, np.ndarray) != on_arrival
    if on_arrival:
        assert r.at(0, np.arange(6), np.full(6, 1)).tolist() == [1.0] * 6
    else:
        np.testing.assert_array_equal(r, np.broadcast_to(np.eye(3)[2][:, None], (2, 3, 2)))


@pytest.mark.parametrize("reward", [lambda s: 1.0, lambda h, s, a, n, m: 1.0, lambda h, s, a, *, goal: 1.0])
def test_functions_of_other_arguments_are_refused(reward):
    with pytest.raises(ValueError, match="it has to take"):
        as_reward(reward, 3, 2, 2)


# Options


MDP = random_mdp(S, A, seed=0)


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: ar.explore(MDP, H, max_episodes=1, bounds="paper", max_successors=2), "'max_successors' is not an option of"),
        (lambda: ar.explore(MDP, H, max_episodes=1, bounds="paper", transfer=False), "'transfer' is not an option"),
        (lambda: ar.explore(MDP, H, max_episodes=1, bounds=TightBound(), max_successors=2), r"write bounds=TightBound\(max_suc"),
        (lambda: ar.explore(MDP, H, max_episodes=1, algorithm="rf-ucrl", bounds=PaperBound(), max_successors=2), "made already"),
        (lambda: ar.RFUCRL(SETTING, max_successors=2), "'max_successors' is not an option"),
        (lambda: ar.BPIUCRL(SETTING, np.zeros(S), bounds="paper", max_successors=2), "'max_successors' is not an option"),
        (lambda: ar.BPIUCRL(SETTING, np.zeros(S), transfer=True), "transfer does not suit"),
        (lambda: ar.certify(ar.Counts(SETTING), bounds=TightBound(), max_successors=2), "made already"),
        (lambda: ar.certify(ar.Counts(SETTING), max_sucessors=2), "perhaps 'max_successors' is meant"),
        (lambda: ar.explore(MDP, H, max_episodes=1, replam="path"), "'replam' is not an option .* perhaps 'replan' is meant"),
        (lambda: ar.explore(MDP, H, max_episodes=1, max_episode=3), "perhaps 'max_episodes' is meant"),
        (lambda: ar.explore(MDP, H, max_episodes=1, clip=False), "clip is False, but neither"),
        (lambda: ar.explore(MDP, H, max_episodes=1, action_masks="none"), "action_masks is for Gymnasium"),
        (lambda: ar.identify(MDP, MDP.reward, H, 1.0, stationary_rewards=True), "stationary_rewards is for observed"),
        (lambda: ar.identify(MDP, MDP.reward, H, 1.0, clip=False, bounds="paper"), "clip does not suit"),
        (lambda: ar.identify(MDP, MDP.reward, H, 1.0, bounds=TightBound(trajectory=False)), "exact_tv do not suit"),
        (lambda: ar.identify(MDP, MDP.reward, H, 1.0, algorithm="ucrl2"), "algorithm is not an option of identify"),
        (lambda: ar.explore(MDP, H, max_episodes=1, stationary=True, transfer=True), "transfer is between steps"),
        (lambda: ar.explore(MDP, H, max_episodes=1, checkpoint_every=3), "no checkpoint"),
        (lambda: ar.explore(MDP, H, max_episodes=1, algorithm=["x"]), "algorithm is"),
        (lambda: ar.explore(MDP, H, max_episodes=1, bounds=TightBound), "bounds is"),
        (lambda: ar.explore(MDP, H, max_episodes=1, bounds=None), "bounds is None"),
        (lambda: ar.certify(ar.Counts(SETTING), name="x"), "'name' is not an option"),
        (lambda: ar.audit(MDP, H, terminal="end"), "terminal is for Gymnasium"),
        (lambda: ar.explore(MDP, H, max_episodes=1).plan(MDP.reward, reward_range=5), "reward_range is 5"),
        (lambda: MDP.rollout(np.zeros((H, S), int), seed="x"), "seed is 'x'"),
        (lambda: MDP.rollout(np.zeros((H, S), int), episodes=1.5), "episodes is 1.5"),
        (lambda: ar.explore(MDP, H, max_episodes=1).plan(MDP.reward, rewards="deterministic"), "there is nothing to assume"),
        (lambda: ar.explore(Tabular(MDP.dense()), H, max_episodes=1).plan("own", rewards="certain"), "rewards is 'certain'"),
    ],
)  # fmt: skip
def test_options_that_would_do_nothing_are_refused(call, names):
    with pytest.raises(ValueError, match=names):
        call()


def test_options_that_do_something_are_taken():
    assert ar.explore(MDP, H, max_episodes=1, clip=True, max_successors=S, transfer=False).episodes == 1
    assert ar.RFUCRL(SETTING, bounds="tight", clip=False, max_successors=2).bound.max_successors == 2
    assert not ar.explore(MDP, H, max_episodes=1, bounds="paper", clip=False).certificate.options["clip"]


def test_a_mask_of_each_part_of_an_action_is_not_taken_for_one_of_actions():
    class Parts(Tabular):
        def info(self):
            return {"action_mask": (np.array([1, 0], np.int8), np.array([1, 1], np.int8))}

    with pytest.raises(ValueError, match=r"shape \(2, 2\): it needs one entry for each of 4 actions"):
        ar.explore(Parts(transitions(3, 4)), 3, max_episodes=2)


@pytest.mark.parametrize("masks", ["some", np.ones((S, A + 1)), np.ones((S, A)) * 0.5, np.zeros((S, A), int), lambda s: [1], 3])
def test_masks_that_make_no_sense_are_refused(masks):
    with pytest.raises(ValueError, match="action_masks"):
        ar.explore(Tabular(transitions(S, A)), H, max_episodes=2, action_masks=masks)


def test_masks_that_the_environment_contradicts_are_refused():
    wrong = MASK.copy()
    wrong[0, 1] = True
    with pytest.raises(ValueError, match="they have to agree"):
        ar.explore(Tabular(transitions(S, A), mask=MASK), H, max_episodes=50, action_masks=wrong)
    quiet = Tabular(transitions(S, A))  # says nothing, and is never asked for what is known to be illegal
    counts = ar.explore(quiet, H, max_episodes=50, action_masks=MASK).counts
    assert not counts.n()[:, ~MASK].any()


# What is printed


def printed(tmp_path, atlas, *reward):
    """All that the command line says of an atlas and a plan from it, as text and as JSON."""
    atlas.save(tmp_path / "it.atlas")
    name, run = str(tmp_path / "it.atlas"), CliRunner()
    info, facts = run.invoke(app, ["info", name]), run.invoke(app, ["info", name, "--json"])
    plan = run.invoke(app, ["plan", name, "--reward", *reward, "--html", str(tmp_path / "it.html")])
    numbers = run.invoke(app, ["plan", name, "--reward", *reward, "--json"])
    for done in (info, facts, plan, numbers):
        assert done.exit_code == 0, done.output
    page = (tmp_path / "it.html").read_text()
    return info.stdout, json.loads(facts.stdout), plan.stdout, json.loads(numbers.stdout), page


ASSUMED = {  # how to explore so that something is assumed, and the sentence about it
    "no state and action have more than 2 successors": (lambda: ar.explore(
        ar.envs.double_chain(5), 4, max_episodes=30, max_successors=2), "state == 1"),
    "every episode starts in state 2": (lambda: ar.explore(ar.envs.double_chain(5), 4, max_episodes=30), "state == 1"),
    "the transitions are the same at every step": (lambda: ar.explore(
        ar.envs.double_chain(5), 4, max_episodes=30, stationary=True), "state == 1"),
    "never left: state 3": (lambda: ar.explore(ending(), 4, max_episodes=30, absorbing_states=(3,)), "state == 1"),
    "which actions are legal depends on the state alone": (lambda: ar.explore(
        Tabular(transitions(S, A), mask=MASK), 4, max_episodes=30), "state == 1"),
    "illegal actions: those of states 0, 2 and 3 as given": (lambda: ar.explore(
        Tabular(transitions(S, A), mask=MASK), 4, max_episodes=30, action_masks=MASK), "state == 1"),
    "every action is legal everywhere": (lambda: ar.explore(
        Tabular(transitions(S, A)), 4, max_episodes=30, action_masks="none"), "state == 1"),
    "a state in which an episode ended once always ends it": (lambda: ar.explore(
        Tabular(transitions(S, A), ends=(3,)), 4, max_episodes=30, terminal="state"), "state == 1"),
    "there are at most 9 different observations": (lambda: ar.explore(
        Tabular(transitions(S, A)), 4, max_episodes=30, max_states=9), "state == 1"),
}  # fmt: skip


def ending():
    P = transitions(S, A)
    P[3] = np.eye(S)[3]
    return ar.TabularMDP(P)


@pytest.mark.parametrize("sentence", ASSUMED)
def test_what_is_assumed_is_printed_wherever_something_is_certified(sentence, tmp_path):
    make, reward = ASSUMED[sentence]
    atlas = make()
    info, facts, plan, numbers, page = printed(tmp_path, atlas, reward)
    for text in (str(atlas), str(atlas.certificate), str(atlas.plan(reward)), info, plan, page):
        assert sentence in text
    for listed in (facts["assumptions"], numbers["assumptions"], atlas.certificate.assumptions):
        assert sentence in listed


def test_plans_for_the_own_reward_print_what_they_assume_and_their_probability(tmp_path):
    atlas = ar.explore(Process(transitions(S, A), pay=lambda h, s, a, n, rng: 1.0), 4, max_episodes=30, stationary=True)
    _, _, plan, numbers, page = printed(tmp_path, atlas, "own", "--rewards", "deterministic", "--stationary-rewards")
    for sentence in ("rewards lie in [0, 1]", "the same transition always pays the same", "rewards do not depend on the step"):
        assert sentence in plan
        assert sentence in page
        assert sentence in numbers["assumptions"]
    _, _, plan, numbers, page = printed(tmp_path, atlas, "own")
    assert "always pays the same" not in plan
    assert numbers["delta"] == 0.1
    for text in (plan, page, str(atlas.plan("own"))):
        assert "0.9" in text
        assert "0.8" not in text.split("assumes")[0].split("png")[0]


def test_intervals_are_printed_outward(tmp_path):
    atlas = ar.explore(ar.envs.double_chain(7), 5, max_episodes=300)
    plan = atlas.plan("state == 6")
    info, facts, text, numbers, page = printed(tmp_path, atlas, "state == 6")
    assert facts["epsilon"] == atlas.certificate.epsilon
    assert (numbers["lower"], numbers["upper"]) == pytest.approx((plan.lower, plan.upper), rel=1e-12)
    loaded = ar.load(tmp_path / "it.atlas").plan("state == 6")
    said = text.split("with probability 0.9: ")[1].split("\n")[0].split(" <= ")
    assert float(said[0]) <= loaded.lower
    assert float(said[3]) >= loaded.upper
    for shown in (str(atlas.certificate), info):
        assert float(shown.split("epsilon ")[1].split()[0]) >= atlas.certificate.epsilon
    low, high = str(plan).split("[")[1].split("]")[0].split(", ")
    assert float(low) <= plan.lower
    assert float(high) >= plan.upper
    low, high = page.split("<strong>[")[1].split("]")[0].split(", ")
    assert float(low) <= loaded.lower
    assert float(high) >= loaded.upper


def test_a_certificate_that_says_nothing_says_so(tmp_path):
    atlas = ar.explore(ar.envs.double_chain(7), 5, max_episodes=1)
    assert atlas.certificate.epsilon >= 5
    assert "which says nothing: no value exceeds 5" in str(atlas.certificate)
    info, facts, *_ = printed(tmp_path, atlas, "state == 6")
    assert "says nothing" in info
    assert facts["says_nothing"]
    assert "says nothing" not in str(ar.explore(ar.envs.double_chain(7), 5, epsilon=4.5).certificate)


def test_a_certificate_of_zero_can_be_shown(tmp_path):
    atlas = ar.explore(ar.envs.double_chain(7), 1, epsilon=0.5)
    assert atlas.certificate.epsilon == 0
    info, facts, *_ = printed(tmp_path, atlas, "state == 3")
    assert "epsilon 0 with probability 0.9" in info
    assert facts["epsilon"] == 0


def test_what_is_said_to_be_saved_is_there(tmp_path):
    """Once, what was certified without a single episode was said to be saved and was not."""
    path = tmp_path / "it.atlas"
    call = ["explore", "double-chain", "--horizon", "1", "--epsilon", "1", "--out", str(path)]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0
    assert ar.load(path).certificate.met
    assert CliRunner().invoke(app, [*call, "--resume"]).exit_code == 0


def test_numbers_that_are_given_are_printed_as_they_are(tmp_path):
    atlas = ar.explore(ar.envs.double_chain(5), 3, epsilon=2.123456789, discount=0.99999999)
    assert "discount 0.99999999," in str(atlas.certificate)
    info, *_ = printed(tmp_path, atlas, "state == 1")
    assert "target: epsilon 2.123456789, reached" in info


def test_every_promise_in_the_documentation_is_watched_by_tests_that_exist():
    """The table of docs/theory.md, section 11: each test that it names is there."""
    tests, rows = Path(__file__).parent, 0
    for line in (tests.parent / "docs" / "theory.md").read_text().split("## 11.")[1].splitlines():
        if not line.startswith("| ") or line.startswith("| what"):
            continue
        rows += 1
        watched = line.split("|")[4]
        file = None
        for name in re.findall(r"`([^`]+)`", watched):
            path, _, beginning = name.partition("::")
            file = tests / path if path != "…" else file
            assert file.exists()
            assert not beginning or re.search(rf"def {beginning.rstrip('…')}", file.read_text())
    assert rows == 12


# The start, before it was met


def test_an_unknown_mask_of_the_start_is_an_error_of_the_first_reward():
    """Once, one step was certified with epsilon 0 after no episode, and the plan was an illegal action."""
    process = functools.partial(Process, np.ones((1, 2, 1)), mask=np.array([[0, 1]]))
    for bounds, algorithm in (("tight", "rf-trajectory"), ("paper", "rf-ucrl")):
        options = {"initial_state": 0, "bounds": bounds, "algorithm": algorithm}
        nothing, one = (ar.explore(process(), 1, max_episodes=n, **options) for n in (0, 1))
        assert nothing.certificate.epsilon >= 2.0
        assert one.certificate.epsilon == 0.0
        assert one.plan(np.ones((1, 2))).policy.tolist() == [[1]]
        known = ar.explore(process(), 1, max_episodes=0, action_masks=[[0, 1]], **options)
        assert known.certificate.epsilon == 0.0
        assert known.plan(np.ones((1, 2))).policy.tolist() == [[1]]


def test_the_own_guarantee_of_an_algorithm_that_does_not_know_masks_is_not_given():
    process = functools.partial(Process, np.full((2, 2, 2), 0.5), mask=np.array([[1, 1], [1, 0]]))
    for name, kind in ar.ALGORITHMS.items():
        if name == "generative" or kind.needs_budget:
            continue
        options = {"reward": np.eye(2)[0]} if kind.needs_reward else {}
        own = ar.explore(process(), 2, max_episodes=3, algorithm=name, initial_state=0, **options).source["own"]
        assert (own["epsilon"] is None) or kind.knows_masks


# Files of earlier versions


SAID = {
    "chain.atlas": [],
    "chain-paper.atlas": [],
    "masked.atlas": ["legal in states that were never met", "own reward"],
    "masked-one-reward.atlas": ["legal in states that were never met", "void", "own reward"],
    "ends-paid-pooled.atlas": ["always ends it", "pooled over the steps", "own reward"],
    "paid.atlas": ["own reward"],
}


@pytest.mark.parametrize("name", SAID)
def test_files_of_earlier_versions_are_read_and_say_what_they_no_longer_promise(name, tmp_path):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        atlas = ar.load(EARLIER / name)
    texts = [str(warning.message) for warning in said]
    assert len(texts) == len(SAID[name])
    for text, word in zip(texts, SAID[name], strict=True):
        assert "was saved by an earlier version" in text
        assert word in text
    if name.startswith("masked"):
        assert atlas.counts.setting.hidden_masks
        assert "which actions are legal" in str(atlas.certificate)
    if name == "masked-one-reward.atlas":
        assert not atlas.certificate.met
        assert "says nothing" in str(atlas.certificate)
    if name.startswith("ends"):
        assert "always ends it" in str(atlas.certificate)
        with pytest.raises(ValueError, match="pooled over the steps"):
            atlas.plan("own")
        assert atlas.plan("own", stationary_rewards=True).lower >= 0
    if name == "paid.atlas":
        assert "always pays the same at the same step" in str(atlas.plan("own", rewards="deterministic"))
        assert "always pays the same" not in str(atlas.plan("own"))
    plan = atlas.plan(np.eye(atlas.counts.setting.n_states)[0])
    assert 0 <= plan.lower <= plan.upper
    atlas.save(tmp_path / "again.atlas")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what is saved now says all that it has to
        again = ar.load(tmp_path / "again.atlas")
    assert again == atlas
    if atlas.paid is not None and len(atlas.paid):
        assert again.paid == atlas.paid
        assert again.paid.pooled == atlas.paid.pooled


# What goes wrong on the way


class Failing(Tabular):
    """Raises at the third step of an episode, from its 40th after `begin` resets on."""

    begin = 0

    def step(self, action):
        if self.resets > self.begin + 40 and self.t == 2:
            raise RuntimeError("the licence server is down")
        return super().step(action)


def test_an_environment_that_raises_loses_nothing(tmp_path, monkeypatch):
    make = functools.partial(Failing, transitions(S, A), pay=lambda s, a, n: 0.5)
    with pytest.raises(ar.EnvironmentFailure, match="failed while it was looked at, before it was explored: RuntimeError"):
        ar.explore(make(), H, max_episodes=100)
    monkeypatch.setattr(Failing, "begin", 125)  # the audit plays 500 steps
    with pytest.raises(
        ar.EnvironmentFailure, match=r"failed in episode \d+, at step 2, playing action \d in state \d: Run"
    ) as caught:
        ar.explore(make(), H, max_episodes=100)
    problem = caught.value
    assert isinstance(problem.__cause__, RuntimeError)
    assert 0 < problem.atlas.episodes < 100
    assert problem.atlas.plan("own").upper > 0
    problem.atlas.save(tmp_path / "so-far.atlas")
    assert ar.load(tmp_path / "so-far.atlas") == problem.atlas
    assert "attribute `atlas`" in problem.__notes__[0]
    path = tmp_path / "it.atlas"
    with pytest.raises(ar.EnvironmentFailure):
        ar.explore(make(), H, max_episodes=100, checkpoint=path)
    assert ar.load(path).episodes == problem.atlas.episodes
    assert "failed" not in str(ar.load(path).certificate)  # to stop there is valid, ...
    monkeypatch.setattr(Failing, "step", Tabular.step)
    atlas = ar.explore(make(), H, max_episodes=100, checkpoint=path)
    assert atlas.episodes == 100
    for certificate in (atlas.certificate, ar.load(path).certificate):  # ... to go on is to assume something
        assert "the episodes that failed, of which nothing was counted (1), were like the others" in str(certificate)


def test_what_contradicts_an_assumption_is_not_gone_on_with(tmp_path):
    """Once, the episode was dropped and the same call went on: repeated often enough, it certified what the data refute."""
    P, path = np.full((2, 1, 2), 0.5), tmp_path / "it.atlas"
    first = ar.explore(Process(P), 3, max_episodes=32, checkpoint=path, initial_state=0)
    elsewhere = Process(P, start=np.array([0.5, 0.5]))
    with pytest.raises(ValueError, match="not in the initial_state 0") as caught:
        ar.explore(elsewhere, 3, max_episodes=400, checkpoint=path, initial_state=0)
    assert caught.value.atlas.episodes >= first.episodes
    for _ in range(3):
        with pytest.raises(ValueError, match=r"cannot be gone on from, .* contradict .* not in the initial_state 0"):
            ar.explore(elsewhere, 3, max_episodes=400, checkpoint=path, initial_state=0)
    assert ar.load(path).episodes == caught.value.atlas.episodes


def test_an_episode_that_was_refused_was_not_paid_for(tmp_path):
    """A reward that was said to be always the same, and is not: what is saved holds together."""
    path = tmp_path / "it.atlas"
    coin = Process(np.full((2, 1, 2), 0.5), pay=lambda h, s, a, n, rng: float(rng.random() < 0.5))
    with pytest.raises(ValueError, match="paid something else before") as caught:
        ar.identify(coin, None, 3, 0.1, rewards="observed", max_episodes=200, checkpoint=path, checkpoint_every=-1.0)
    for atlas in (caught.value.atlas, ar.load(path) if path.exists() else caught.value.atlas):
        assert sum(entry[0] for entry in atlas.paid._table.values()) == 3 * atlas.episodes


def test_counts_that_would_not_be_exact_are_refused_before_the_first_episode():
    for episodes in (2**53, 10**18, 2**63, 10**30):
        with pytest.raises(ValueError, match="counts would not be exact"):
            ar.explore(MDP, H, max_episodes=episodes, replan="geometric")
    assert ar.explore(MDP, H, max_episodes=2**53 // (H + 1), replan="geometric", growth=4.0).episodes == 2**53 // (H + 1)


def test_rewards_that_differ_between_steps_beyond_chance_are_not_taken_for_alike():
    """Once, only deterministic rewards were compared."""
    late = Process(np.full((2, 1, 2), 0.5), pay=lambda h, s, a, n, rng: float(h >= 2))
    atlas = ar.explore(late, 4, max_episodes=400)
    for rewards in ("random", "deterministic"):
        with pytest.raises(ValueError, match="different"):
            atlas.plan("own", rewards=rewards, stationary_rewards=True)
    assert atlas.plan("own").upper >= 2.0
    fair = ar.explore(
        Process(np.full((2, 1, 2), 0.5), pay=lambda h, s, a, n, rng: float(rng.random() < 0.3)), 4, max_episodes=400
    )
    assert fair.plan("own", stationary_rewards=True).upper >= 1.2


def test_known_masks_and_ends_that_are_states_go_together(tmp_path):
    """Masks are moot where episodes end. Once, a final state with an illegal action was refused."""
    masks = np.array([[1, 1], [1, 0], [0, 1]], bool)
    process = functools.partial(Process, np.full((3, 2, 3), 1 / 3), end=[0, 0, 1], mask=masks)
    parts = [ar.explore(process(), 4, max_episodes=n, seed=n, terminal="state", action_masks=masks) for n in (1, 60)]
    assert 2 in parts[1].counts.absorbing_states
    parts[1].save(tmp_path / "it.atlas")
    assert ar.load(tmp_path / "it.atlas") == parts[1]
    for left, right in (parts, parts[::-1]):
        assert 2 in left.merge(right, same_environment=True).counts.absorbing_states
    tempting = np.zeros((3, 2))
    tempting[2, 0] = 1.0  # an illegal action of the state in which episodes end: no policy names it, before and after
    for atlas in parts:
        assert atlas.plan(tempting).upper == pytest.approx(0.0, abs=1e-9)
        assert atlas.evaluate(np.zeros((4, 3), int), tempting).upper == pytest.approx(0.0, abs=1e-9)


def test_after_an_end_a_policy_is_paid_for_what_it_names():
    """A reward of the action: a policy that never plays it earns nothing, one that always does earns it at every step."""
    process = Process(np.full((2, 2, 2), 0.5), end=[0, 0.5])
    atlas = ar.explore(process, 4, max_episodes=300)
    reward = np.array([[0.0, 1.0], [0.0, 1.0]])
    never, always = (atlas.evaluate(np.full((4, 2), a), reward) for a in (0, 1))
    assert (never.value, never.upper) == (0.0, pytest.approx(0.0, abs=1e-9))
    assert (always.value, always.upper) == (4.0, 4.0)
    assert atlas.plan(reward).lower == pytest.approx(4.0)


def test_what_speaks_against_an_assumption_is_warned_of():
    class Drifting(Tabular):
        def step(self, action):
            s, late = self.s, self.t >= 2
            out = super().step(action)
            self.s = s if late else self.s
            return self.s, *out[1:]

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ar.explore(Drifting(transitions(3)), 6, max_episodes=3, stationary=True)
    assert any("the dynamics depend on the step" in str(warning.message) for warning in said)


def test_texts_from_outside_do_not_reach_the_terminal_or_a_spreadsheet_as_commands(tmp_path):
    atlas = ar.explore(MDP, H, max_episodes=5)
    atlas.source["env"] = "x\x1b[2Jy"
    atlas.source["labels"] = ["=cmd|' /C calc'!A0", "plain", "-3", "@x"]
    atlas.save(tmp_path / "it.atlas")
    info = CliRunner().invoke(app, ["info", str(tmp_path / "it.atlas")])
    assert "\x1b" not in info.output
    call = ["plan", str(tmp_path / "it.atlas"), "--reward", "state == 1", "--out", str(tmp_path / "p.csv")]
    assert CliRunner().invoke(app, call).exit_code == 0
    cells = {line.split(",", 3)[3] for line in (tmp_path / "p.csv").read_text().splitlines()[1:]}
    assert cells == {"'=cmd|' /C calc'!A0", "plain", "-3", "'@x"}


@pytest.mark.parametrize("name", ['"../escaped"', '"/tmp/x"', "5", '["a"]', '""', '"a/b"', '".."', '"' + 200 * "x" + '"'])
def test_a_sweep_does_not_write_where_its_name_leads(tmp_path, name):
    config = tmp_path / "it.toml"
    config.write_text(
        f"name = {name}\nalgorithms = ['random']\nenvironments = ['double-chain']\n[parameters]\nhorizon = 2\nmax_episodes = 1\n"
    )
    done = CliRunner().invoke(app, ["sweep", str(config)])
    assert done.exit_code == 2
    assert "name" in done.output

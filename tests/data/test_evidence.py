"""Evidence in a file: what no order of the transitions could have produced is refused.

It watches `docs/theory.md`, 9.8.
"""

import functools
import json

import numpy as np
import pytest

import anyreward as ar
from anyreward.atlas import container

from ..helpers.declared import counted
from ..helpers.problems import random_mdp

pytestmark = pytest.mark.usefixtures("quick_look")


def forged(counts, evidence):
    return ar.Counts.from_columns(counts.setting, {**counts.columns(), "evidence": evidence})


@pytest.mark.parametrize("seed", range(4))
def test_evidence_that_no_order_could_have_produced_is_refused(seed):
    """Once, a column of zeros brought epsilon from 2.76 to 0.53."""
    counts = counted(episodes=int(4 ** (seed + 1)), seed=seed)
    evidence = counts.columns()["evidence"]
    assert forged(counts, evidence) == counts
    for wrong in (np.zeros_like(evidence), np.where(np.arange(len(evidence)) == np.argmin(evidence), -1e-3, evidence)):
        with pytest.raises(ValueError, match="no order of the data can produce it"):
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
        with pytest.raises(ValueError, match="do not match its recording"):
            ar.load(path)

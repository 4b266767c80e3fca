"""Models for other checkers: what is certified of them contains what is certified here.

It watches `docs/theory.md`, 19.1.
"""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

import anyreward as ar

from ..helpers.drn import arriving, read_drn
from ..helpers.problems import random_mdp
from ..helpers.structures import chain

H = 4


def explored(name):
    if name == "random start":
        return ar.explore(random_mdp(3, 2, seed=1, random_start=True), H, max_episodes=3000, stationary=True)
    if name == "known distribution of the start":
        mdp = random_mdp(3, 2, seed=1, random_start=True)
        return ar.explore(mdp, H, max_episodes=3000, stationary=True, initial=mdp.initial)
    if name == "step-dependent":
        return ar.explore(random_mdp(3, 2, seed=1), H, max_episodes=3000)
    if name == "few successors":
        return ar.explore(ar.envs.double_chain(length=5), H, max_episodes=300, stationary=True, max_successors=2)
    if name == "structure":
        return ar.explore(ar.envs.double_chain(length=5), H, max_episodes=100, structure=chain(5))
    if name == "terminations":
        return ar.explore("FrozenLake-v1", H, max_episodes=2000, stationary=True, initial_state=0)
    return ar.explore(random_mdp(3, 2, seed=1), H, max_episodes=3000, stationary=True)


CASES = {
    "stationary": 2, "random start": 2, "known distribution of the start": 2, "step-dependent": 2, "few successors": 4,
    "structure": 4, "terminations": 5,
}  # fmt: skip


def label_of(atlas, state):
    """The label of a state whose names are numbers."""
    name = atlas.state_name(state)
    return f"s{name}" if name[0].isdigit() else name


@pytest.mark.parametrize("name", CASES)
def test_what_is_certified_here_is_inside_what_the_file_certifies(tmp_path, name):
    atlas, state = explored(name), CASES[name]
    atlas.export(tmp_path / "it.drn")
    text = (tmp_path / "it.drn").read_text()
    steps = H + (atlas.counts.setting.initial_state is None)
    low, high = arriving(text, label_of(atlas, state), steps)
    plan, cautious = atlas.reach(state), atlas.reach(state, cautious=True)
    assert low - 1e-9 <= cautious.value.lower
    assert plan.best <= high + 1e-9
    assert high - low < 2.5 * (plan.best - cautious.value.lower) + 0.05  # larger, but not by much
    atlas.export(tmp_path / "it.drn", empirical=True)
    exact = arriving((tmp_path / "it.drn").read_text(), label_of(atlas, state), steps)
    assert exact[0] == pytest.approx(exact[1], abs=1e-9)
    best = atlas.reach(state).value.value
    assert exact[0] >= best - 1e-6  # unseen actions count there
    if name in ("stationary", "structure"):
        assert exact[0] == pytest.approx(best, abs=1e-6)


def test_intervals_are_the_projections_of_the_balls(tmp_path):
    atlas = explored("stationary")
    atlas.export(tmp_path / "it.drn")
    start, labels, rows = read_drn((tmp_path / "it.drn").read_text())
    assert start == 0
    assert labels[0] == {"init", "s0"}
    counts, radii = atlas.counts, atlas.certificate.bound.kl_radii(atlas.counts, 0.1, True)
    n = np.zeros((3, 2, 3))
    c = counts.columns()
    moves = c["h"] >= 0
    n[c["s"][moves], c["a"][moves], c["next"][moves]] = c["count"][moves]
    for s, a in np.ndindex(3, 2):
        radius = radii[int(counts.table.node_of[0, s]) * 2 + a]
        edges = list(rows[s].values())[a]
        for target, low, high in edges:
            q = n[s, a, target] / n[s, a].sum()

            def excess(p, q=q, radius=radius):
                return q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p)) - radius

            assert low == pytest.approx(brentq(excess, 1e-12, q), abs=1e-8)
            assert high == pytest.approx(brentq(excess, q, 1 - 1e-12), abs=1e-8)
            assert low <= brentq(excess, 1e-12, q, xtol=1e-15)
            assert high >= brentq(excess, q, 1 - 1e-12, xtol=1e-15)


def test_names_are_labels(tmp_path):
    mdp = random_mdp(3, 2, seed=1)
    atlas = ar.explore(ar.Gymnasium("FrozenLake-v1", state_names=[f"a place {i}!" for i in range(16)]), 3, max_episodes=50)
    atlas.export(tmp_path / "it.drn")
    text = (tmp_path / "it.drn").read_text()
    assert " a_place_0" in text
    assert "// The true model is in it with probability at least 1 - 0.1." in text
    assert mdp.n_states == 3
    labels = read_drn(text)[1]
    assert {"a_place_15", "done"} in labels


def test_a_model_that_is_too_large_is_refused(tmp_path, monkeypatch):
    import anyreward.atlas.exporting as exporting

    monkeypatch.setattr(exporting, "MOST_EDGES", 10)
    with pytest.raises(ValueError, match="state what is known"):
        explored("step-dependent").export(tmp_path / "it.drn")
    with pytest.raises(ValueError, match=r"\.drn or \.umb"):
        explored("stationary").export(tmp_path / "it.txt")
    assert list(tmp_path.iterdir()) == []


def test_umb_files(tmp_path):
    umbi = pytest.importorskip("umbi", reason="umbi, which reads UMB files, is not installed (pip install umbi)")
    atlas = explored("stationary")
    atlas.export(tmp_path / "it.drn")
    atlas.export(tmp_path / "it.umb")
    start, labels, rows = read_drn((tmp_path / "it.drn").read_text())
    ats = umbi.ats.read(str(tmp_path / "it.umb"))
    assert list(ats.initial_states) == [start]
    assert ats.num_states == len(rows)
    for s, row in enumerate(rows):
        for (action, edges), choice in zip(row.items(), ats.get_state_choices(s), strict=True):
            assert ats.choice_action_to_name[choice.action] == action
            assert [(b.target, b.prob.left, b.prob.right) for b in choice.branches] == edges
    propositions = umbi.umb.read(str(tmp_path / "it.umb")).annotations["aps"]  # the other reader keeps one of them alone
    assert set(propositions) == set().union(*labels) - {"init"}
    for label, values in propositions.items():
        assert [label in each for each in labels] == list(values["states"])


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_storm_agrees(tmp_path, name):
    """Storm reads the file, and its step-bounded values contain ours and are those of the independent recursion."""
    stormpy = pytest.importorskip("stormpy", reason="stormpy, a second opinion, is not installed (pip install stormpy)")
    if not hasattr(stormpy, "UncertaintyResolutionMode"):
        pytest.skip("this stormpy is too old for interval models")
    atlas, state = explored(name), CASES[name]
    atlas.export(tmp_path / "it.drn")
    label, steps = label_of(atlas, state), H + (atlas.counts.setting.initial_state is None)
    model = stormpy.build_model_from_drn[stormpy.Interval](str(tmp_path / "it.drn"))
    (formula,) = stormpy.parse_properties(f'Pmax=? [F<={steps} "{label}"]')
    mode = stormpy.UncertaintyResolutionMode
    ends = [
        stormpy.model_checking(model, formula, uncertainty_resolution_mode=how).get_value(model.initial_states[0])
        for how in (mode.ROBUST, mode.COOPERATIVE)
    ]
    assert ends == pytest.approx(arriving((tmp_path / "it.drn").read_text(), label, steps), abs=1e-6)
    assert ends[0] - 1e-6 <= atlas.reach(state, cautious=True).value.lower
    assert atlas.reach(state).best <= ends[1] + 1e-6

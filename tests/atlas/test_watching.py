"""`Atlas.watch`: new data in every form, what is compared, and what is refused."""

import numpy as np
import pytest

import anyreward as ar

from ..helpers.problems import random_mdp
from ..helpers.structures import chain

H = 4


def slipping(slip, at=()):
    """A chain of five states; the pairs in `at` slip half of the time."""
    P = np.zeros((5, 2, 5))
    for s in range(5):
        for a in range(2):
            here = 0.5 if (s, a) in at else slip
            ends = max(s - 1, 0), min(s + 1, 4)
            P[s, a, ends[a]] += 1 - here
            P[s, a, ends[1 - a]] += here
    return ar.TabularMDP(P, initial=2)


@pytest.fixture(scope="module")
def atlas():
    return ar.explore(slipping(0.1), H, max_episodes=2000, stationary=True)


def played(atlas, mdp, episodes, seed=1):
    return ar.explore(mdp, H, max_episodes=episodes, stationary=True, seed=seed)


def test_the_same_environment_and_another_one(atlas):
    same = atlas.watch(played(atlas, slipping(0.1), 1000))
    assert not same.changed
    assert same.p == 1.0
    assert str(same).startswith("no evidence that the environment has changed: p = 1, 4,000 new transitions against 2,000 ")
    other = atlas.watch(played(atlas, slipping(0.1, at=[(2, 1)]), 1000))
    assert other.changed
    assert other.p < 0.01
    assert [law.name for law in other.laws if law.certain] == ["state 2 with 1"]
    assert "the environment has changed" in str(other)
    assert "state 2 with 1: " in str(other)
    assert "false alarm has probability at most 0.01; assumes: the transitions are the same at every step" in str(other)
    assert other.laws[0].new["3"] / sum(other.laws[0].new.values()) == pytest.approx(0.5, abs=0.1)


def test_every_form_of_new_data_says_the_same(atlas):
    new = played(atlas, slipping(0.1, at=[(2, 1)]), 300)
    rng = np.random.default_rng(0)
    states = np.full((400, H + 1), 2)
    actions = rng.integers(0, 2, (400, H))
    for h in range(H):
        away = np.where(rng.random(400) < 0.3, 1 - actions[:, h], actions[:, h])
        states[:, h + 1] = np.clip(states[:, h] + 2 * away - 1, 0, 4)
    counts = ar.Counts.from_episodes(states, actions, atlas.counts.setting)
    steps = [
        {"id": b, "t": h, "where": int(states[b, h]), "what": int(actions[b, h]), "then": int(states[b, h + 1])}
        for b in range(400)
        for h in range(H)
    ]
    log = {name: [row[name] for row in steps] for name in steps[0]}
    table = {"h": log["t"], "s": log["where"], "a": log["what"], "next": log["then"]}
    found = atlas.watch(counts)
    columns = {"episode": "id", "step": "t", "state": "where", "action": "what", "next": "then"}
    for data, how in (((states, actions), {}), (table, {}), (log, columns)):
        again = atlas.watch(data, **how)
        assert (again.log_e, again.laws) == (found.log_e, found.laws)
    assert found.changed
    assert atlas.watch(new).log_e == atlas.watch(new.counts).log_e


def test_steps_and_starts_are_laws_of_their_own():
    P = np.full((3, 2, 3), 1 / 3)
    atlas = ar.explore(ar.TabularMDP(P, initial=[0.8, 0.1, 0.1]), 3, max_episodes=2000, initial_state=None)
    new = ar.explore(ar.TabularMDP(P, initial=[0.2, 0.7, 0.1]), 3, max_episodes=500, seed=2)
    found = atlas.watch(new)
    assert found.changed
    assert found.laws[0].name == "the initial state"
    assert any(law.name.endswith(" at step 2") for law in found.laws)


def test_with_a_structure_the_laws_are_those_of_the_structure():
    """Every slip counts, so that a change of all pairs that is too small for one of them is noticed."""
    atlas = ar.explore(slipping(0.1), H, max_episodes=2000, structure=chain(5))
    flat = ar.explore(slipping(0.15), H, max_episodes=1500, seed=3)
    found = atlas.watch(flat)  # counts without a structure get that of the atlas
    assert found.changed
    assert {law.name for law in found.laws} == {"law 0", "law 1"}
    known = ar.Structure(
        law=lambda s, a: a, outcomes=(-1, 1), successor=lambda s, a, x: min(max(s + x, 0), 4), known={0: (0.9, 0.1)}
    )
    atlas = ar.explore(slipping(0.1), H, max_episodes=20, structure=known)
    assert next(law for law in atlas.watch(flat).laws if law.name == "law 0").log_e > 0


def test_known_transitions_are_not_compared():
    mdp = random_mdp(4, 2, seed=0)
    atlas = ar.explore(mdp, H, max_episodes=200)
    assert all("state" in law.name for law in atlas.watch(ar.explore(mdp, H, max_episodes=50, seed=4)).laws)
    lake = ar.explore("FrozenLake-v1", H, max_episodes=300, terminal="state", initial_state=0, stationary=True)
    new = ar.explore("FrozenLake-v1", H, max_episodes=100, terminal="state", initial_state=0, stationary=True, seed=9)
    found = lake.watch(new)
    assert not found.changed
    assert not any(law.name.startswith("state 5 ") for law in found.laws)  # a hole, which is never left


def test_a_log_without_masks_is_compared_with_an_atlas_that_has_them():
    """What is legal is no law; but an action that the atlas knows to be illegal has been played, so the masks have changed."""
    taxi = ar.explore("Taxi-v3", 3, max_episodes=60, seed=1, stationary=True)
    columns = taxi.counts.columns()
    one = next(i for i in range(len(columns["s"])) if columns["h"][i] >= 0)
    s, a, ahead = (int(columns[name][one]) for name in ("s", "a", "next"))
    how = {"episode": "id", "step": "t", "state": "s", "action": "a", "next": "to", "terminated": "over"}
    log = {"id": [0], "t": [0], "s": [s], "a": [a], "to": [ahead % 500], "over": [False]}
    assert not taxi.watch(log, **how).changed
    illegal = int(np.flatnonzero(taxi.counts.illegal[s])[0])
    with pytest.raises(ValueError, match="it has changed, or that was wrong"):
        taxi.watch({**log, "a": [illegal], "to": [s]}, **how)
    with pytest.raises(ValueError, match="name the column that does by terminated"):
        taxi.watch(log, **{name: column for name, column in how.items() if name != "terminated"})


def test_no_p_value_is_zero():
    """It would be a stronger claim than was proved."""
    atlas = ar.explore(slipping(0.1), H, max_episodes=3000, stationary=True)
    found = atlas.watch(ar.explore(slipping(0.9), H, max_episodes=3000, stationary=True, seed=2))
    assert found.log_e > 1000
    assert 0 < found.p <= 1e-300
    assert "p = 1e-300" in str(found)


def test_what_is_declared_impossible_is_named():
    lake = ar.explore(
        "FrozenLake-v1", H, max_episodes=300, terminal="state", initial_state=0, stationary=True, action_masks="none"
    )
    assert 5 in lake.counts.absorbing_states
    counts = ar.Counts(lake.counts.setting)
    counts.add_flows(np.array([[-1, 0, 0, 0, 1], [0, 5, 0, 6, 1]]))
    with pytest.raises(ValueError, match="it has changed, or that was wrong"):
        lake.watch(counts)


def test_what_cannot_be_compared_is_refused(atlas):
    new = played(atlas, slipping(0.1), 10)
    for data, how, said in (
        (atlas, {}, "share a run"),
        (new, {"episode": "id"}, "episode is for a log"),
        (played(atlas, random_mdp(4, 2, seed=0), 5), {}, "numbered or named differently"),
        (ar.explore(slipping(0.1), H, max_episodes=5), {}, "differs from that of the atlas in stationary"),
        (5, {}, "the new data are 5: counts, an atlas"),
        ((np.zeros((2, 3), int),), {}, r"\(states, actions\)"),
        ({"id": [0], "s": [7], "a": [0]}, {"episode": "id", "state": "s", "action": "a"}, "which is not in states"),
        ({"id": [0], "s": [2], "a": [0]}, {"episode": "id", "state": "s", "action": "a", "horizon": 3}, "the atlas knows it"),
    ):
        with pytest.raises(ValueError, match=said):
            atlas.watch(data, **how)
    with pytest.raises(ValueError, match="alpha is 2"):
        atlas.watch(new, alpha=2)

"""RF-calibrated over shared laws: what it counts, how far it gets, that it resumes, and what becomes of its atlases."""

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms.rf_calibrated_laws import STEPS, RFCalibratedLaws
from anyreward.atlas import container
from anyreward.certificates.calibrated import CalibratedBound

from ..helpers.structures import chain, plant, plant_model, walk, walk_model

CHAIN, STILL = ar.envs.double_chain(), {"progress": False}


def explored(mdp, setting, epsilon, attempts, batch):
    """An explorer that was asked and told by hand until so many attempts were certified, and all its episodes."""
    explorer = RFCalibratedLaws(setting, epsilon=epsilon, seed=1)
    rng, states, actions = np.random.default_rng(1), [], []
    while explorer._attempt <= attempts:
        assert explorer.episodes < 20_000
        policy = np.broadcast_to(explorer.ask(), (batch if explorer._first else 1, *explorer.ask().shape))
        s, a = mdp.play_each(policy, rng)
        explorer.tell(s, a)
        states.append(s)
        actions.append(a)
    return explorer, np.concatenate(states), np.concatenate(actions)


def plainly_drawn(laws, quotas, states, actions, attempts):
    """The counted draws of every outcome after so many attempts, read one after the other."""
    t, drawn, attempt, done = laws.tables, np.zeros(int(laws.tables.offset[-1]), int), 1, []
    for episode, played in zip(states, actions, strict=True):
        for s, a, then in zip(episode, played, episode[1:], strict=False):
            pair = s * laws.n_actions + a
            for i, g in enumerate(laws.law_of[pair]):
                told = {
                    target: {t.code[e, i] for e in range(t.pointer[pair], t.pointer[pair + 1]) if t.target[e] == target}
                    for target in t.target[t.pointer[pair] : t.pointer[pair + 1]]
                }
                own = slice(t.offset[g], t.offset[g + 1])
                if all(len(codes) == 1 for codes in told.values()) and drawn[own].sum() < quotas[g] * STEPS ** (attempt - 1):
                    drawn[told[then].pop()] += 1
        filled = np.add.reduceat(drawn, t.offset[:-1])
        if (filled >= np.array(quotas) * STEPS ** (attempt - 1)).all():
            done.append(drawn.copy())
            attempt += 1
            if attempt > attempts:
                break
    return done


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("name", ["walk", "plant"])
def test_what_is_counted_is_what_a_plain_reading_counts(name, batch):
    """The first draws after scouting of each law, for two attempts; at the ends of the walk, none counts."""
    mdp, structure, H, epsilon = {
        "walk": (walk_model(7), walk(7), 6, 2.0),
        "plant": (plant_model(), plant(), 5, 4.0),
    }[name]
    S, A = mdp.n_states, mdp.n_actions
    start = int(mdp.initial.argmax())
    setting = ar.Setting(n_states=S, n_actions=A, horizon=H, initial_state=start, structure=structure)
    explorer, states, actions = explored(mdp, setting, epsilon, 2, batch)
    after = explorer._scouted
    done = plainly_drawn(setting.structure, explorer._first.quotas, states[after:], actions[after:], 2)
    assert len(done) == 2
    bound = explorer.certificate().bound
    assert isinstance(bound, CalibratedBound)
    assert explorer.counts.drawn.tolist() == done[bound.attempt - 1].tolist()
    assert bound.design.quotas == tuple(n * int(STEPS) ** (bound.attempt - 1) for n in explorer._first.quotas)
    assert explorer.certificate().check(explorer.counts)


@pytest.mark.parametrize(("name", "epsilon", "fewer"), [("chain", 2.0, 2.0), ("chain", 1.0, 2.8), ("inventory", 4.0, 2.0)])
def test_several_times_fewer_episodes(name, epsilon, fewer):
    mdp = {"chain": CHAIN, "inventory": ar.envs.inventory()}[name]
    tight = ar.explore(mdp, 20, epsilon, structure="own", **STILL)
    planned = ar.explore(mdp, 20, epsilon, structure="own", bounds="calibrated", **STILL)
    assert planned.certificate.met
    assert fewer * planned.episodes < tight.episodes


def test_files_plans_and_what_is_refused(tmp_path):
    atlas = ar.explore(CHAIN, 20, 2.0, structure=chain(), bounds="calibrated", **STILL)
    atlas.save(tmp_path / "chain.atlas")
    loaded = ar.load(tmp_path / "chain.atlas")
    assert loaded == atlas
    assert loaded.counts.drawn.tolist() == atlas.counts.drawn.tolist()
    assert loaded.certificate.check(loaded.counts)
    plan, again = atlas.plan(CHAIN.reward), loaded.plan(CHAIN.reward)
    assert (plan.lower, plan.value, plan.upper) == (again.lower, again.value, again.upper)
    best = ar.backward_induction(CHAIN, CHAIN.reward, 20).V[0, 15]
    assert plan.lower <= best <= plan.upper
    assert plan.upper - plan.lower < 2.0
    with pytest.raises(ValueError, match="calibrated bounds cannot be merged"):
        atlas | loaded
    with pytest.raises(ValueError, match="calibrated bounds cannot be extended"):
        atlas.extend(CHAIN, max_episodes=10)
    with pytest.raises(ValueError, match="leave out draws of laws"):
        ar.certify(atlas.counts)
    assert not ar.certify(atlas.counts.with_structure(chain())).says_nothing


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda drawn: drawn + 10**6, "more than its transitions reveal"),
        (lambda drawn: -drawn, "its draws of laws are damaged"),
        (lambda drawn: drawn[:-1], "its draws of laws are damaged"),
        (lambda drawn: drawn.astype(float), "its draws of laws are damaged"),
        (lambda drawn: drawn[[1, 0, 3, 2]], "more than its transitions reveal|its counts do not match"),
        (lambda drawn: np.maximum(0, drawn - 1), "its counts do not match its certificate"),
    ],
)
def test_forged_draws_are_refused(tmp_path, change, says):
    atlas = ar.explore(CHAIN, 20, 2.0, structure=chain(), bounds="calibrated", **STILL)
    atlas.save(tmp_path / "chain.atlas")
    columns, about, arrays = container.read(tmp_path / "chain.atlas")
    arrays["drawn"] = np.ascontiguousarray(change(arrays["drawn"]))
    container.write(tmp_path / "forged.atlas", columns, about, arrays)
    with pytest.raises(ValueError, match=says):
        ar.load(tmp_path / "forged.atlas")


def test_it_resumes_to_the_bit(tmp_path):
    """Stopped while scouting, while filling, and between two attempts: the same as without a stop."""
    how = {"structure": chain(), "bounds": "calibrated", "seed": 3, **STILL}
    whole = ar.explore(CHAIN, 20, max_episodes=1_100, **how)
    assert whole.certificate.bound.attempt == 2
    for stops in ((15,), (100, 700)):
        file = tmp_path / f"{stops[0]}.atlas"
        for most in (*stops, 1_100):
            atlas = ar.explore(CHAIN, 20, max_episodes=most, checkpoint=file, **how)
        assert atlas.counts == whole.counts
        assert atlas.certificate == whole.certificate


def test_data_that_contradict_the_structure_end_it():
    P = np.zeros((31, 2, 31))
    for s, a, move in np.ndindex(31, 2, 2):
        P[s, a, min(max(s + 2 * move - 1, 0), 30)] += 0.5 if s == 16 else 0.9 if move == a else 0.1
    atlas = ar.explore(ar.TabularMDP(P, initial=15), 20, 0.4, structure=chain(), bounds="calibrated", **STILL)
    assert atlas.counts.shared.refuted
    assert atlas.certificate.says_nothing


def test_seeds_and_options():
    runs = [ar.explore(CHAIN, 20, 2.0, structure=chain(), bounds="calibrated", seed=seed, **STILL) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    setting = runs[0].counts.setting
    with pytest.raises(ValueError, match="explores for the bounds 'calibrated'"):
        RFCalibratedLaws(setting, bounds="tight")
    with pytest.raises(ValueError, match="do not know of a structure: use 'tight' or 'calibrated'"):
        ar.explore(CHAIN, 20, 2.0, structure=chain(), bounds="paper", algorithm="rf-ucrl")

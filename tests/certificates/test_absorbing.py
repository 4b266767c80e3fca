"""States that are known never to be left: radius 0, no share of delta, and nothing to explore."""

from dataclasses import replace

import numpy as np
import pytest

import anyreward as ar
from anyreward.certificates.bounds import PaperBound, TightBound, relevant_laws

END, S, A, H = 3, 4, 2, 5


def ending(seed=0, p_end=0.4):
    """A random model of three states from which an episode may end at any step; state 3 is the end."""
    P = np.zeros((S, A, S))
    P[:3, :, :3] = (1 - p_end) * ar.envs.garnet(3, A, 2, seed=seed).dense()
    P[:3, :, END] = p_end
    P[END, :, END] = 1.0
    return ar.TabularMDP(P, initial=0, reward=np.random.default_rng(seed).random((S, A)))


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("bounds", ["paper", "tight"])
@pytest.mark.parametrize("algorithm", ["rf-ucrl", "rf-trajectory"])
@pytest.mark.parametrize("replan", ["every", "path", "geometric"])
def test_knowing_the_end_saves_episodes(stationary, bounds, algorithm, replan):
    """The same counts certify more, and an exploration that knows is over sooner."""
    mdp, options = ending(), {"algorithm": algorithm, "bounds": bounds, "stationary": stationary, "replan": replan}
    epsilon = 4.0 if bounds == "paper" else 1.0
    unaware = ar.explore(mdp, H, epsilon, **options)
    aware = ar.explore(mdp, H, epsilon, absorbing_states=(END,), **options)
    assert aware.episodes < unaware.episodes
    knowing = replace(unaware.counts.setting, absorbing_states=(END,))
    columns = {k: v for k, v in unaware.counts.columns().items() if k != "evidence"}
    same = [ar.certify(ar.Counts.from_columns(s, columns), bounds=bounds).epsilon for s in (knowing, unaware.counts.setting)]
    assert same[0] < same[1]


@pytest.mark.parametrize("bound", [PaperBound(), TightBound()], ids=lambda bound: bound.name)
def test_at_the_end_nothing_is_unknown(bound):
    """One visit of the end suffices: its index is 0 from then on, and its rows have radius 0 with or without data."""
    setting = ar.Setting(n_states=S, n_actions=A, horizon=H, initial_state=END, absorbing_states=(END,))
    counts = ar.Counts.from_episodes([END] * (H + 1), [0] * H, setting)
    assert bound(counts, 0.1) == 0
    assert not bound.kl_radii(counts, 0.1)[A:].any()  # what comes before is the start draw
    explorer = ar.RFUCRL(setting, bounds="paper")
    explorer.tell([END] * (H + 1), [0] * H)
    assert not explorer.index[:, END].any()


def test_known_transitions_have_no_share_of_delta():
    shape = {"n_states": S, "n_actions": A, "horizon": H, "initial_state": 0}
    assert relevant_laws(ar.Setting(**shape, absorbing_states=(END,))) == A + 3 * A * (H - 2)
    assert relevant_laws(ar.Setting(**shape, absorbing_states=(END,), stationary=True)) == 3 * A


def test_plans_stay_at_the_end_and_hold_what_they_promise():
    """Value after the end is known exactly, also where the end was never met in the data; on arrival too."""
    mdp = ending(seed=1)
    for episodes in (1, 300):
        atlas = ar.explore(mdp, H, max_episodes=episodes, absorbing_states=(END,))
        rng = np.random.default_rng(0)
        for reward in (rng.random((S, A)), rng.random((H, S, A, S))):
            plan, optimum = atlas.plan(reward), ar.backward_induction(mdp, reward, H).V[0, 0]
            value = ar.evaluate_policy(mdp, plan.policy, reward, H).V[0, 0]
            assert plan.lower <= value <= optimum <= plan.upper
        Q = ar.backward_induction(atlas.counts.model(), rng.random((S, A)), H).Q
        np.testing.assert_allclose(Q[0, END] - Q[1, END], Q[1, END] - Q[2, END])  # the same reward at every step


def test_one_reward_is_identified_all_the_same():
    mdp = ending(seed=2)
    atlas = ar.identify(mdp, mdp.reward, H, epsilon=1.0, absorbing_states=(END,))
    assert atlas.certificate.met
    value = ar.evaluate_policy(mdp, atlas.policy, mdp.reward, H).V[0, 0]
    assert ar.backward_induction(mdp, mdp.reward, H).V[0, 0] - value <= 1.0
    assert atlas.certificate.check(atlas.counts, mdp.reward)


def test_files_keep_it(tmp_path):
    atlas = ar.explore(ending(), H, max_episodes=50, absorbing_states=(END,))
    atlas.save(tmp_path / "it.atlas")
    assert ar.load(tmp_path / "it.atlas") == atlas


def test_what_contradicts_it_is_refused():
    setting = ar.Setting(n_states=S, n_actions=A, horizon=2, absorbing_states=(END,))
    explorer = ar.RFUCRL(setting, bounds="paper")
    with pytest.raises(ValueError, match="leaves state 3 at step 1"):
        explorer.tell([0, END, 0], [0, 0])
    assert explorer.episodes == 0
    with pytest.raises(ValueError, match="leaves a state"):
        ar.Counts.from_columns(setting, {"h": [0], "s": [END], "a": [0], "next": [1], "count": [1]})
    with pytest.raises(ValueError, match="can leave"):
        ar.explore(ending(), H, max_episodes=1, absorbing_states=(0,))
    with pytest.raises(ValueError, match="absorbing_states"):
        ar.Setting(n_states=2, n_actions=1, horizon=1, absorbing_states=(2,))

"""DisCo: which states join and when, against a slow transcription; what it certifies on the chain."""

import numpy as np
import pytest

import anyreward as ar
from anyreward.atlas.discovery import Passes
from anyreward.kernels.robust import LOWER

from ..helpers.problems import random_mdp


def joined(explorer, known):
    """The known states after one planning, in plain loops: K as it was, the counts, and the balls."""
    counts, setting, m = explorer.counts, explorer.setting, explorer.samples
    H, S, A = setting.horizon, setting.n_states, setting.n_actions
    n = np.zeros((1 if setting.stationary else H, S, A, S))
    c = counts.columns()
    for h, s, a, x, count in zip(*(c[name] for name in ("h", "s", "a", "next", "count")), strict=True):
        if h >= 0:
            n[h, s, a, x] += count
    model = by_step_of(counts, H)
    while True:
        V = np.zeros(S)  # the largest expected amount of what is missing
        for h in reversed(range(H)):
            layer, Q = min(h, len(n) - 1), np.zeros((S, A))
            for s, a in np.ndindex(S, A):
                missing = max(0.0, 1 - n[layer, s, a].sum() / m)
                Q[s, a] = missing * known[s] + sum(model[h, s, a, x] * V[x] for x in range(S))
            V = np.where(known, Q.max(axis=1), 0.0)
        if V[setting.initial_state] > 0:
            return known
        passes = Passes(counts, explorer.bound.kl_radii(counts, explorer.delta, True), S)
        candidates = [g for g in range(S) if not known[g] and n[:, known, :, g].sum() > 0]
        joining = [g for g in candidates if passes.run(LOWER, known, g, explorer.steps)[1] <= 1e-9]
        if not joining:
            return known
        known = known | np.isin(np.arange(S), joining)


def by_step_of(counts, H):
    """The empirical model, (H, S, A, S)."""
    model, S = counts.model(), counts.setting.n_states
    return np.stack([np.stack([model.expect(h, x) for x in np.eye(S)], axis=-1) for h in range(H)])


@pytest.mark.parametrize("stationary", [False, True])
def test_states_join_as_in_a_slow_transcription(stationary):
    mdp = ar.envs.double_chain(7)
    explorer = ar.ALGORITHMS["disco"](mdp.setting(5, stationary=stationary), steps=2.6, samples=60, seed=1, growth=1.2)
    rng, known, sizes = np.random.default_rng(0), np.arange(7) == 3, set()
    while not explorer.finished and explorer.episodes < 6000:
        planned = explorer._next_plan
        states, actions = mdp.rollout(explorer.ask(), planned - explorer.episodes, seed=rng)
        explorer.tell(states, actions)
        known = joined(explorer, known)
        np.testing.assert_array_equal(explorer.known, known)
        sizes.add(int(known.sum()))
    assert explorer.finished
    assert len(sizes) > 2  # it grew by and by
    n = explorer.visits()[:, known]
    assert stationary is False or n.min() >= 60


def test_it_finds_what_can_be_reached_on_the_chain_and_prints_what_is_certain():
    mdp = ar.envs.double_chain(15)
    atlas = ar.explore(mdp, 10, algorithm="disco", steps=4.2, samples=2000, stationary=True, max_episodes=50_000, growth=1.1)
    assert atlas.episodes < 50_000
    found = atlas.discover()  # the number of steps is what the algorithm was given; 3 steps away is tau = 3.8, 4 away 5.0
    right = np.isin(np.arange(15), range(4, 11))
    np.testing.assert_array_equal(found.inside, right)
    assert (found.outside <= ~right).all()
    assert found.certified[10] <= 4.2
    visits = atlas.counts.state_visits()
    assert visits[right].sum() > 0.8 * visits.sum()  # it has little business elsewhere


def test_a_random_start_is_where_episodes_were_seen_to_start():
    mdp = random_mdp(4, 2, seed=2, random_start=True)
    explorer = ar.ALGORITHMS["disco"](mdp.setting(3, stationary=True), samples=5)
    assert not explorer.known.any()
    explorer.tell([[1, 2, 3, 2], [0, 0, 0, 0]], np.zeros((2, 3), int))
    assert explorer.known[:2].all()
    atlas = ar.Atlas(explorer.counts, explorer.certificate())
    assert atlas.discover(1e-3).inside.tolist() == [True, True, False, False]


def test_goals_in_unknown_terminations_are_refused():
    setting = ar.Setting(n_states=3, n_actions=2, horizon=3, initial_state=0, terminal="end")
    with pytest.raises(ValueError, match="terminal='outcome'"):
        ar.ALGORITHMS["disco"](setting)
    with pytest.raises(ValueError, match="samples is 0"):
        ar.ALGORITHMS["disco"](ar.Setting(n_states=3, n_actions=2, horizon=3), samples=0)
    with pytest.raises(ValueError, match="steps is 0"):
        ar.ALGORITHMS["disco"](ar.Setting(n_states=3, n_actions=2, horizon=3), steps=0)

"""What UCRL2 and KL-UCRL share: phases, and both bounds as of the beginning of a phase."""

import numpy as np
import pytest

from ..helpers import rivals as slow
from ..helpers.explorers import both_sides, phased, played
from ..helpers.problems import random_mdp


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ucrl2", "kl-ucrl"])
@pytest.mark.parametrize(
    ("stationary", "discount", "compiled"), [(False, 1.0, False), (True, 1.0, False), (False, 0.8, True), (True, 0.9, True)]
)
def test_both_bounds_of_ucrl_are_of_the_beginning_of_the_phase(name, stationary, discount, compiled):
    """A phase ends after the episode in which some pair has been seen as often again, or for the first time."""
    mdp, H, S, A, N = random_mdp(3, 2, seed=6), 3, 3, 2, 2500
    setting, rng = mdp.setting(H, discount, stationary), np.random.default_rng(2)
    r = rng.random((H, S, A))
    explorer = phased(name, setting, r)
    states, actions = played(mdp, setting, N, seed=9)
    n = np.zeros((H, S, A, S), int)
    begun, phases, t_begun = n.copy(), 0, 1  # the first transition is at t = 1
    for b in range(N):
        if compiled:
            states[b], actions[b] = mdp.rollout(explorer.ask(), seed=rng)
            explorer.tell(states[b], actions[b])
        n[np.arange(H), states[b, :-1], actions[b], states[b, 1:]] += 1
        now, then = (x.sum(axis=(0, 3))[None] if stationary else x.sum(axis=3) for x in (n, begun))
        steps = np.zeros(H, int) if stationary else np.arange(H)
        at = steps, states[b, :-1], actions[b]
        if ((now - then)[at] >= np.maximum(1, then[at])).any():
            begun, phases, t_begun = n.copy(), phases + 1, (b + 1) * H + 1
    if not compiled:
        for part in range(0, N, 777):
            explorer.tell(states[part : part + 777], actions[part : part + 777])
    assert 10 < phases < 150
    assert t_begun < N * H
    pooled = begun.sum(axis=0) if stationary else begun
    if name == "ucrl2":
        up, V_up, lo, V_lo = slow.ucrl2(pooled, r, 0.2, discount, t=t_begun)
    else:
        up, V_up, lo, V_lo = slow.kl_ucrl(pooled, r, 0.2, 20_000 * H, discount)
    found = both_sides(explorer)
    for side, right in zip(found, (up, lo), strict=True):
        seen = ~np.isnan(side)
        assert seen.mean() > 0.7
        np.testing.assert_allclose(side[seen], right[seen], rtol=1e-9, atol=1e-9)
    assert explorer.own_epsilon == pytest.approx(V_up[0, 0] - V_lo[0, 0], abs=1e-9)
    assert explorer.own_epsilon < 0.9 * setting.sigma[-1]
    recommended = np.take_along_axis(lo, explorer.recommendation[..., None], axis=2)[..., 0]
    np.testing.assert_allclose(recommended, V_lo[:-1], atol=2e-9)


@pytest.mark.slow
def test_the_policy_of_ucrl_stays_within_a_phase():
    mdp = random_mdp(3, 2, seed=1)
    for name in ("ucrl2", "kl-ucrl"):
        explorer, rng = phased(name, mdp.setting(3), mdp.reward, ties="first"), np.random.default_rng(0)
        before, changes = explorer.ask(), 0
        for _ in range(1500):
            explorer.tell(*mdp.rollout(before, seed=rng))
            after, started = explorer.ask(), explorer._started[explorer.counts.table.n > 0]
            changes += (after != before).any()
            now = explorer.counts.table.n[explorer.counts.table.n > 0]
            assert (now[1:] < 2 * np.maximum(1, started[1:])).all()  # or another phase would have begun; 0 is the start draw
            before = after
        assert changes < 60

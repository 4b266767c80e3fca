"""Discovery: what is certainly inside and outside, against known numbers, slow recursions in known models, and few data."""

import numpy as np
import pytest

import anyreward as ar
from anyreward.atlas.discovery import Passes
from anyreward.kernels.robust import LOWER, UPPER

from ..helpers.bpi_reference import largest, smallest
from ..helpers.coverage import allowed
from ..helpers.dense import S
from ..helpers.problems import by_step, random_mdp
from .test_goals import in_large

H = 5


def exact(P, initial, inside, goal):
    """tau_K(goal) in a known model, P (H, S, A, S), by Dinkelbach's iteration in plain loops; inf if it cannot be reached."""
    horizon, n, A, _ = P.shape
    steps = 1e9
    for _ in range(50):
        V = [(0.0, 0.0)] * n  # E[min(T, H)] and P(T <= H) that are still to come
        for h in reversed(range(horizon)):
            ahead = [(0.0, 1.0) if x == goal else V[x] if inside[x] else (horizon - 1.0 - h, 0.0) for x in range(n)]
            each = [[tuple(b + sum(P[h, s, a, x] * ahead[x][i] for x in range(n)) for i, b in ((0, 1.0), (1, 0.0)))
                     for a in range(A)] for s in range(n)]  # fmt: skip
            V = [min(of, key=lambda pair: pair[0] - steps * pair[1]) for of in each]
        first = [(0.0, 1.0) if x == goal else V[x] if inside[x] else (float(horizon), 0.0) for x in range(n)]
        waited, arrived = (sum(p * first[x][i] for x, p in enumerate(initial)) for i in (0, 1))
        if arrived == 0:
            return np.inf
        if waited / arrived >= steps - 1e-12:
            return steps
        steps = waited / arrived
    raise AssertionError("it does not converge")


def reachable(P, initial, steps):
    """S_L in a known model."""
    inside = np.asarray(initial) > 0
    while True:
        joining = [g for g in np.flatnonzero(~inside) if exact(P, initial, inside, g) <= steps]
        if not joining:
            return inside
        inside[joining] = True


def steps_of(P, initial, policy, goal, inside):
    """tau of one policy that is lost outside of K."""
    only = np.stack([[[P[h, s, policy[h, s]]] for s in range(P.shape[1])] for h in range(P.shape[0])])
    return exact(only, initial, inside, goal)


def test_the_chain_and_a_geometric_law():
    """tau of 16, 20, 25 and 30, computed by somebody else: within 13 steps are the states 5 to 25."""
    atlas = in_large(ar.envs.double_chain(), 20, initial=15)
    found = atlas.discover(13)
    assert np.flatnonzero(found.inside).tolist() == list(range(5, 26))
    np.testing.assert_array_equal(found.outside, ~found.inside)
    for goal, steps in ((15, 0.0), (16, 1.25000), (20, 6.25078), (25, 12.59501)):
        assert steps <= found.certified[goal] <= 1.005 * steps
    assert set(found.certified) == set(range(5, 26))
    np.testing.assert_array_equal(found.policy(25)[0, 15:25], 1)
    assert str(found).startswith(
        "Discovery(within 13 steps: 21 states certainly, 10 certainly not, 0 undecided, with probability"
    )
    far = atlas.discover(25.3)
    assert far.inside.all()
    assert 25.26360 <= far.certified[30] <= 1.005 * 25.26360
    waiting = ar.TabularMDP(np.array([[[0.8, 0.2]], [[0.0, 1.0]]]), initial=0)
    assert 5 <= in_large(waiting, 5).discover(5.05).certified[1] <= 5.02
    assert in_large(waiting, 5).discover(4.95).outside.tolist() == [False, True]


@pytest.mark.parametrize("seed", range(4))
def test_with_many_data_it_is_what_a_slow_recursion_in_the_model_finds(seed):
    mdp = random_mdp(S, 2, seed=seed)
    P, atlas = by_step(mdp, H), in_large(mdp, H)
    for steps in (2.5, 4.0, 8.0):
        found = atlas.discover(steps)
        np.testing.assert_array_equal(found.inside, reachable(P, mdp.initial, steps))
        np.testing.assert_array_equal(found.outside, ~found.inside)
        for g, bound in found.certified.items():
            assert bound == pytest.approx(exact(P, mdp.initial, found.inside, g), rel=2e-3, abs=1e-9)


@pytest.mark.parametrize("stationary", [False, True])
def test_one_pass_is_that_of_plain_loops_over_the_balls(stationary):
    """V_h(s) = 1 + min_a extreme f_h, with an independent solver for the balls."""
    mdp = random_mdp(3, 2, seed=5)
    atlas = ar.explore(mdp, 3, max_episodes=12, stationary=stationary, algorithm="random")
    counts, certificate, H = atlas.counts, atlas.certificate, 3
    radii = certificate.bound.kl_radii(counts, certificate.transition_delta, True)
    n = np.zeros((1 if stationary else H, 3, 2, 3))
    c, node_of = counts.columns(), counts.table.node_of
    move = c["h"] >= 0
    n[c["h"][move], c["s"][move], c["a"][move], c["next"][move]] = c["count"][move]
    passes, inside, goal, steps = Passes(counts, radii, 3), np.array([True, True, False]), 2, 2.7
    for side, extreme in ((UPPER, largest), (LOWER, smallest)):
        V = [0.0] * 3
        for h in reversed(range(H)):
            f, layer = [-steps if x == goal else V[x] if inside[x] else H - 1 - h for x in range(3)], min(h, len(n) - 1)
            radius = [[radii[node_of[layer, s] * 2 + a] if node_of[layer, s] else None for a in range(2)] for s in range(3)]
            V = [1 + min(extreme(n[layer, s, a], f, radius[s][a], 3) for a in range(2)) for s in range(3)]
        assert passes.run(side, inside, goal, steps)[1] == pytest.approx(V[0], rel=1e-7)


def test_everything_about_discovery_holds_at_once():
    """Few laws and a large delta: inside, outside and all numbers of steps, whenever one looks. Narrower ones fail."""
    mdp, runs, delta, wrong, narrow, said = random_mdp(3, 1, seed=4), 30, 0.2, 0, 0, 0
    P = by_step(mdp, 3)
    true = {steps: reachable(P, mdp.initial, steps) for steps in (3.5, 9.0)}
    for seed in range(runs):
        false = close = False
        for episodes in (20, 60, 180):
            atlas = ar.explore(mdp, 3, max_episodes=episodes, seed=seed, delta=delta, stationary=True, algorithm="random")
            estimated = by_step(ar.TabularMDP(np.stack([atlas.counts.model().expect(0, x) for x in np.eye(3)], axis=-1)), 3)
            for steps, right in true.items():
                found = atlas.discover(steps)
                false |= bool((found.inside & ~right).any() or (found.outside & right).any())
                said += int(found.inside.sum() > 1) + int(found.outside.any())
                for g, bound in found.certified.items():
                    if bound < np.inf:
                        tau = steps_of(P, mdp.initial, found.policy(g), g, ~found.outside)
                        false |= tau > bound + 1e-9
                        guess = steps_of(estimated, mdp.initial, found.policy(g), g, ~found.outside)
                        close |= tau > guess + 0.05 * (bound - guess)
        wrong, narrow = wrong + false, narrow + close
    assert said > runs
    assert wrong <= allowed(delta, runs)
    assert narrow > allowed(delta, runs)


def test_bad_questions_are_named():
    atlas = ar.explore(random_mdp(3, 2, seed=0), 3, max_episodes=5)
    known = in_large(ar.TabularMDP(np.eye(2)[:, None]), 3, times=1000)
    with pytest.raises(ValueError, match="steps is -1"):
        atlas.discover(-1)
    with pytest.raises(ValueError, match="no number of steps is certified for state 1"):
        known.discover(2).policy(1)
    assert atlas.discover().steps == 3.0
    assert atlas.discover(2).lines()[0] == "0: within 0 steps"


@pytest.mark.slow
@pytest.mark.parametrize("terminal", ["outcome", "state"])
def test_terminations_are_arrivals_and_nothing_is_reached_beyond_them(terminal):
    """FrozenLake without slips: the number of steps to a field is its distance around the holes, 5, 7, 11 and 12."""
    lake = ar.explore(
        "FrozenLake-v1", 8, algorithm="disco", steps=4, samples=20, max_episodes=2000, stationary=True, initial_state=0,
        terminal=terminal, env_args={"is_slippery": False},
    )  # fmt: skip
    found, distance = lake.discover(), [0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6]
    assert lake.episodes < 2000
    assert {0, 1, 4} <= set(np.flatnonzero(found.inside))
    assert (np.array(distance)[found.inside] <= 4).all()
    assert not found.outside[np.array(distance) <= 4].any()
    assert all(bound >= distance[g] - 1e-9 for g, bound in found.certified.items())
    assert found.certified[5] < np.inf


def test_it_computes_the_balls_that_goals_and_rewards_on_arrival_use(tmp_path):
    """They are remembered for all three, in one order: otherwise plans of a loaded atlas would not be the same to the bit."""
    atlas = ar.explore(random_mdp(6, 2, seed=0), H, max_episodes=400)
    atlas.save(tmp_path / "it.atlas")
    again = ar.load(tmp_path / "it.atlas")
    assert atlas.discover(3).certified == again.discover(3).certified
    found = [it.radii(it.certificate.transition_delta, last_step=True) for it in (atlas, ar.load(tmp_path / "it.atlas"))]
    assert sorted(found[0]) == sorted(found[1])
    reward = np.random.default_rng(0).random((6, 2, 6))
    plan, other = (it.plan(reward) for it in (atlas, ar.load(tmp_path / "it.atlas")))
    assert (plan.lower, plan.value, plan.upper) == (other.lower, other.value, other.upper)

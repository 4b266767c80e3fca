"""MDP-GapE: its rules on the bounds of BPI-UCRL in plain loops, its numbers, and what it claims of the first action."""

import numpy as np
import pytest
from scipy.stats import binom

import anyreward as ar
from anyreward.algorithms.mdp_gape import MDPGapE
from anyreward.kernels.first import candidates

from ..helpers import bpi_reference, reference
from ..helpers.explorers import FALSE_ALARM, advanced, truth
from ..helpers.problems import random_mdp


def rule(U, L):
    """b, c, what is played, and the gap, for the actions of one state."""
    others = [max(U[a] for a in range(len(U)) if a != b) for b in range(len(U))]
    b = int(np.argmin([others[b] - L[b] for b in range(len(U))]))
    c = max((a for a in range(len(U)) if a != b), key=lambda a: (U[a], -a))
    return b, c, c if U[c] - L[c] > U[b] - L[b] else b, others[b] - L[b]


@pytest.mark.parametrize(("stationary", "random_start"), [(False, False), (True, False), (True, True)])
def test_its_rules(stationary, random_start):
    """On the bounds of a transcription: the wider of two candidates first, then what is best by the upper values."""
    S, A, H, delta, told = 3, 3, 3, 0.4, 0
    mdp, rng = random_mdp(S, A, seed=5), np.random.default_rng(0)
    P, r = mdp.dense(), rng.random((H, S, A))
    mdp = ar.TabularMDP(P, initial=[0.5, 0.5, 0] if random_start else 0, reward=r)
    setting = mdp.setting(H, stationary=stationary, initial=mdp.initial if random_start else None)
    explorer, data = MDPGapE(setting, r, delta=delta, bounds="paper", ties="first"), []
    for _ in range(60):
        data.append(mdp.rollout(explorer.ask(), seed=rng))
        explorer.tell(*data[-1])
        if len(data) not in (1, 5, 60):
            continue
        states, actions = (np.concatenate([np.atleast_2d(one[i]) for one in data]) for i in (0, 1))
        starts, n = reference.dense_counts(states, actions, setting)
        Q_lo, Q_up, *_ = bpi_reference.bpi_ucrl(starts, n, setting, delta, "paper", r, r)
        policy, gaps = explorer.ask(), []
        for s in (0, 1) if random_start else (0,):
            if explorer.counts.table.node_of[0, s] == 0:
                gaps.append(H)
                continue
            b, _, play, gap = rule(Q_up[0, s], Q_lo[0, s])
            assert policy[0, s] == play
            assert explorer.first_action(s) == b
            gaps.append(max(0.0, gap))
        assert explorer.own_epsilon == pytest.approx(np.mean(gaps), abs=1e-8)
        for h, s in np.ndindex(H, S):
            if h and n[h, s].sum():
                assert Q_up[h, s, policy[h, s]] == pytest.approx(Q_up[h, s].max(), abs=1e-9)
        told += 1
    assert told == 3


def test_its_numbers():
    U, L = np.array([[0.9, 0.8, 0.5]]), np.array([[0.3, 0.6, 0.1]])
    assert candidates(U, L, 3, 0, np.uint32(0)) == pytest.approx((1, 0, 0.3))
    assert rule(U[0], L[0]) == pytest.approx((1, 0, 0, 0.3))
    assert candidates(np.array([[0.9, -np.inf]]), np.array([[0.3, -np.inf]]), 2, 0, np.uint32(0)) == (0, 0, -np.inf)
    chain = ar.envs.double_chain()
    Q = ar.backward_induction(chain, chain.reward, 20).Q[0, 15]
    assert Q[1] - Q[0] == pytest.approx(1.03211, abs=5e-6)
    alone = MDPGapE(ar.Setting(n_states=3, n_actions=1, horizon=4, initial_state=0), np.zeros(3))
    assert alone.own_epsilon == 0.0
    alone.tell([0, 1, 2, 0, 0], [0, 0, 0, 0])
    assert alone.own_epsilon == 0.0


def test_it_stops_at_the_first_action():
    """On the chain, before the policy is known half as well; what it says then is about one action, in the atlas too."""
    chain, epsilon = ar.envs.double_chain(11), 0.5
    atlas = ar.explore(chain, 8, epsilon, algorithm="mdp-gape", stop="own", max_episodes=30_000, seed=1, progress=False)
    own = atlas.source["own"]
    assert own["met"]
    assert own["epsilon"] <= epsilon
    assert own["about"] == "first action"
    assert own["first_action"] == ar.backward_induction(chain, chain.reward, 8).Q[0, chain.initial_state].argmax()
    assert atlas.certificate.epsilon > epsilon
    assert atlas.episodes < 30_000


def test_the_first_action_loses_no_more_than_it_says():
    """At all looks, in 1 - delta of the runs; delta = 1/2, false alarm below 1e-7. Of the whole policy it would be false."""
    runs, delta, H, wrong, told, of_policy = 30, 0.5, 3, 0, 0, 0
    for seed in range(runs):
        mdp, rng = random_mdp(3, 3, seed=seed), np.random.default_rng(seed)
        setting = mdp.setting(H, stationary=seed % 2 == 1)
        explorer = MDPGapE(setting, mdp.reward, delta=delta, seed=seed)
        best, failed, later = truth(mdp, mdp.reward, setting), False, False
        for upto in (1, 10, 100, 1000):
            advanced(explorer, mdp, upto - explorer.episodes, rng)
            own = explorer.own_epsilon
            failed |= best.V[0, 0] - best.Q[0, 0, explorer.first_action()] > own + 1e-12
            value = ar.evaluate_policy(mdp, explorer.recommendation, mdp.reward, H).V[0, 0]
            later |= best.V[0, 0] - value > own + 1e-12
        wrong += failed
        of_policy += later
        told += own < 0.5
    assert wrong <= binom.isf(FALSE_ALARM, runs, delta)
    assert told > runs / 2
    assert of_policy > 0


def test_what_it_does_not_know():
    free = ar.Setting(n_states=3, n_actions=2, horizon=3)
    explorer = MDPGapE(free, np.zeros(3))
    assert explorer.own_epsilon is None
    assert explorer.facts == {}
    two = MDPGapE(ar.Setting(n_states=3, n_actions=2, horizon=3, initial=((0, 0.5), (2, 0.5))), np.zeros(3))
    assert two.own_epsilon == pytest.approx(3)
    assert two.facts == {"first_action": {"0": 0, "2": 0}}
    with pytest.raises(ValueError, match="state is not given"):
        two.first_action()
    with pytest.raises(ValueError, match="state is 1"):
        two.first_action(1)
    arriving = ar.Setting(n_states=3, n_actions=2, horizon=3, initial_state=0, arrival_rewards=True)
    with pytest.raises(ValueError, match="rewards on arrival"):
        MDPGapE(arriving, lambda h, s, a, x: float(x == 2))

"""UCBZero against a replay of its updates in plain loops, its numbers, and the policy that its own guarantee is about.

It watches `docs/theory.md`, 24.1.
"""

import math

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms.explorer import Learning
from anyreward.algorithms.ucb_zero import HistoryPolicy, UCBZero, history_policy
from anyreward.environments.tabular import outcome_of

from ..helpers.explorers import advanced, played
from ..helpers.problems import by_step, random_mdp


def replayed(episodes, H, S, A, iota, scale):
    W, t = np.zeros((H, S, A)) + (H - np.arange(H))[:, None, None], np.zeros((H, S, A), int)
    for states, actions in episodes:
        for h in range(H):
            i = (h, states[h], actions[h])
            t[i] += 1
            alpha = (H + 1) / (H + t[i])
            ahead = min(H - 1 - h, W[h + 1, states[h + 1]].max()) if h + 1 < H else 0.0
            b = scale * (H - 1 - h) * math.sqrt(H * iota / t[i])
            W[i] += alpha * (ahead + 2 * b - W[i])
    return W


@pytest.mark.parametrize("stationary", [False, True])
def test_it_replays_in_the_order_of_the_episodes(stationary):
    mdp, H, K, delta = random_mdp(3, 2, seed=2), 3, 2000, 0.3
    explorer = UCBZero(mdp.setting(H, stationary=stationary), budget=K, tasks=5, delta=delta, scale=0.02)
    (states, actions), before = played(mdp, explorer.setting, K, seed=5), 0
    iota = math.log(2 * 3 * 2 * H * K * 5 / delta)
    for upto in (1, 2, 30, K):
        explorer.tell(states[before:upto], actions[before:upto])
        W, before = replayed(zip(states[:upto], actions[:upto], strict=True), H, 3, 2, iota, 0.02), upto
        np.testing.assert_allclose(explorer.index, W, rtol=1e-9, atol=1e-12)
    assert W[0, 0].max() < H / 2


def test_its_numbers():
    """iota = 1, one pair, two steps: W = 2 sqrt 2 + 1, and so on; the last step is worth nothing after its first visit."""
    setting, seen = ar.Setting(n_states=1, n_actions=1, horizon=2, initial_state=0), []
    explorer = UCBZero(setting, budget=1, delta=0.5)
    explorer._rule = explorer._rule._replace(iota=1.0)
    for _ in range(3):
        explorer.tell([0, 0, 0], [0, 0])
        seen.append(explorer.index[0, 0, 0])
    assert seen == pytest.approx([3.8284, 2.4571, 1.9626], abs=5e-5)
    chain = UCBZero(ar.envs.double_chain().setting(20), budget=20_000, tasks=20).formulas
    assert chain.iota == pytest.approx(23.018, abs=5e-4)
    assert 19 * math.sqrt(20 * chain.iota) == pytest.approx(407.66, abs=5e-3)


def test_with_a_small_scale_it_goes_everywhere():
    mdp = ar.envs.double_chain(9)
    explorer = advanced(UCBZero(mdp.setting(6), budget=3000, scale=0.001), mdp, 3000, np.random.default_rng(0))
    visits = explorer.counts.n()
    reached = visits.sum(axis=2) > 0
    assert reached.sum() == 1 + 2 + 3 + 4 + 5 + 6
    assert visits[:-1][reached[:-1]].min() > 100
    with pytest.raises(ValueError, match="tasks is 0"):
        UCBZero(mdp.setting(6), budget=1, tasks=0)


# --- The history policy ---


def learnt(explorer, mdp, episodes, seed):
    """All episodes of an exploration, in their order."""
    return outcome_of(Learning(explorer, episodes, -1.0, "episodes"), mdp, np.random.default_rng(seed))


def replayed_for(r, states, actions, iota, scale=1.0):
    """Q before every episode, and after the last, (K+1, H, S, A): optimistic Q-learning with r and the bonus b."""
    H, S, A = r.shape
    Q, t, found = np.zeros((H, S, A)) + (H - np.arange(H))[:, None, None], np.zeros((H, S, A), int), []
    for k in range(len(states) + 1):
        found.append(Q.copy())
        if k == len(states):
            return np.array(found)
        for h in range(H):
            i = h, states[k, h], actions[k, h]
            t[i] += 1
            alpha, b = (H + 1) / (H + t[i]), scale * (H - 1 - h) * math.sqrt(H * iota / t[i])
            ahead = min(H - h - 1, found[-1][h + 1, states[k, h + 1]].max()) if h + 1 < H else 0.0
            Q[i] = (1 - alpha) * Q[i] + alpha * (r[i] + ahead + b)


def values_by_definition(P, r, Q, states, actions, k):
    """V of the history policy of k, (S,): its recursion written out, over all pairs of a past episode and a step."""
    H, S, _ = r.shape
    known = {}

    def value(k, h, s):
        if h == H:
            return 0.0
        if (k, h, s) not in known:
            a = Q[k, h, s].argmax()
            past = [i for i in range(k) if states[i, h] == s and actions[i, h] == a]
            alpha = [(H + 1) / (H + t) for t in range(1, len(past) + 1)]
            weights = [alpha[i] * math.prod(1 - x for x in alpha[i + 1 :]) for i in range(len(past))]
            assert not past or sum(weights) == pytest.approx(1)
            ahead = sum(w * P[h, s, a] @ [value(i, h + 1, x) for x in range(S)] for w, i in zip(weights, past, strict=True))
            known[k, h, s] = r[h, s, a] + (ahead if past else P[h, s, a] @ [value(0, h + 1, x) for x in range(S)])
        return known[k, h, s]

    return np.array([value(k, 0, s) for s in range(S)])


def values_of_all(P, r, Q, states, actions):
    """The same for all k, (K+1, S): the weights grow with every visit as those of Q do."""
    H, S, A = r.shape
    V, found, t = np.zeros((H + 1, S)), [], np.zeros((H, S, A), int)
    for h in reversed(range(H)):
        V[h] = r[h, :, 0] + P[h, :, 0] @ V[h + 1]  # before any episode it plays action 0
    ahead = np.stack([P[h] @ V[h + 1] for h in range(H)])
    for k in range(len(states) + 1):
        found.append(V[0].copy())
        if k == len(states):
            return np.array(found)
        before = V.copy()
        for h in range(H):
            i = h, states[k, h], actions[k, h]
            t[i] += 1
            ahead[i] += (H + 1) / (H + t[i]) * (P[i] @ before[h + 1] - ahead[i])
            best = Q[k + 1][i[:2]].argmax()
            V[i[:2]] = r[*i[:2], best] + ahead[*i[:2], best]


def test_it_plays_its_past_by_the_weights_of_its_updates():
    """The greedy actions of the replay, its value by two ways, and what is drawn."""
    mdp, H, S, K = random_mdp(2, 2, seed=1), 3, 2, 60
    P, r = by_step(mdp, H), np.random.default_rng(4).random((H, S, 2))
    states, actions = played(mdp, mdp.setting(H), K, seed=3)
    iota = 0.02
    Q, policy = replayed_for(r, states, actions, iota), HistoryPolicy(r, states, actions, 1.0, iota)
    for k, h, s in np.ndindex(K + 1, H, S):
        assert policy.action(k, h, s) == Q[k, h, s].argmax()
    values = values_of_all(P, r, Q, states, actions)
    for k in (0, 1, 7, K):
        np.testing.assert_allclose(values[k], values_by_definition(P, r, Q, states, actions, k), rtol=1e-9)
    assert np.ptp(values[:, 0]) > 0.1
    rng, earned, runs = np.random.default_rng(0), [], 4000
    for _ in range(runs):
        act, s, total = policy.draw(rng), 0, 0.0
        for h in range(H):
            a = act(h, s)
            total, s = total + r[h, s, a], rng.choice(S, p=P[h, s, a])
        earned.append(total)
    assert np.mean(earned) == pytest.approx(values[K, 0], abs=5.5 * np.std(earned) / math.sqrt(runs))


@pytest.mark.parametrize(("H", "K", "scale", "fails"), [(2, 1200, 1.0, False), (3, 400, 0.0003, True)])
def test_it_loses_no_more_than_the_index_at_the_start(H, K, scale, fails):
    """V* - V^k <= W^k at the start for all k and rewards at once, in every run with the proven bonus (delta = 0.1: each may fail
    with probability 0.1 by the proof, which has room to spare); with a bonus that is far too small, it is false in some.
    """
    S, A, tasks, false, told = 2, 2, 2, 0, 0
    for seed in range(5):
        mdp, rng = random_mdp(S, A, seed=seed, random_start=seed == 4), np.random.default_rng(seed)
        P = by_step(mdp, H)
        setting = mdp.setting(H, stationary=seed % 2 == 1, initial=mdp.initial if seed == 4 else None)
        explorer = UCBZero(setting, budget=K, tasks=tasks, delta=0.1, scale=scale, seed=seed)
        iota = explorer.formulas.iota
        states, actions = learnt(explorer, mdp, K, seed)
        W, starts = replayed_for(np.zeros((H, S, A)), states, actions, 4 * iota, scale), np.asarray(mdp.initial)
        least = np.minimum(H, W[:, 0].max(axis=2)) @ starts
        np.testing.assert_allclose(explorer.formulas.least, [least.min(), least.argmin()], rtol=1e-9)
        assert explorer.own_epsilon == (None if fails else pytest.approx(least.min(), rel=1e-6))
        wrong = False
        for _ in range(tasks):
            r = rng.random((H, S, A))
            values = values_of_all(P, r, replayed_for(r, states, actions, iota, scale), states, actions)
            loss = starts @ ar.backward_induction(P, r, H).V[0] - values @ starts
            wrong |= bool((loss > least + 1e-9).any())
            told += least.min() < 0.9 * H
        false += wrong
    assert false == 0 if not fails else false >= 2
    assert told == tasks * 5  # and that is less than any policy can lose


def test_the_atlas_keeps_what_the_policy_needs():
    mdp, H, r = random_mdp(3, 2, seed=2), 3, np.random.default_rng(0).random((3, 3, 2))
    atlas = ar.explore(mdp, H, max_episodes=80, algorithm="ucb-zero", tasks=2, record=True, delta=0.2, seed=3, progress=False)
    explorer = UCBZero(mdp.setting(H), budget=80, tasks=2, delta=0.2)
    states, actions = (np.asarray(part, int) for part in atlas.recording[:2])
    explorer.tell(states, actions)
    own, policy = atlas.source["own"], history_policy(atlas, r)
    assert own["epsilon"] == explorer.own_epsilon
    assert own["about"] == "history policy"
    assert policy.episodes == explorer.formulas.least[1]
    right = replayed_for(r, states, actions, explorer.formulas.iota)
    for k, h, s in np.ndindex(policy.episodes, H, 3):
        assert policy.action(k, h, s) == right[k, h, s].argmax()
    with pytest.raises(ValueError, match="not the episodes"):
        explorer.recommend(r, states[:-1], actions[:-1])
    with pytest.raises(ValueError, match="record=True"):
        history_policy(ar.explore(mdp, H, max_episodes=5, algorithm="ucb-zero", progress=False), r)
    with pytest.raises(ValueError, match="reward"):
        explorer.recommend(2 * r, states, actions)


def test_what_is_not_proved_is_not_claimed():
    mdp = random_mdp(3, 2, seed=2)
    setting, (states, actions) = mdp.setting(2), played(mdp, mdp.setting(2), 30, seed=1)
    assert UCBZero(setting, budget=30).own_epsilon == 2
    assert UCBZero(setting, budget=30, scale=0.5).own_epsilon is None
    assert UCBZero(ar.Setting(n_states=3, n_actions=2, horizon=2), budget=30).own_epsilon is None
    ends = ar.Setting(n_states=3, n_actions=2, horizon=2, initial_state=0, absorbing_states=(2,))
    assert UCBZero(ends, budget=30).own_epsilon is None
    explorer = UCBZero(setting, budget=29)
    explorer.tell(states[:29], actions[:29])
    assert explorer.own_epsilon is not None
    explorer.tell(states[29:], actions[29:])
    assert explorer.own_epsilon is None

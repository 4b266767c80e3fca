"""A generative model that draws every pair equally often: how it draws, and how many draws suffice."""

import numpy as np
import pytest
from scipy.stats import chi2

import anyreward as ar
from anyreward.algorithms import Generative, RandomPolicy
from anyreward.algorithms.generative import draws_for

from ..helpers import rivals as slow
from ..helpers.explorers import FALSE_ALARM, advanced, moves
from ..helpers.problems import random_mdp


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("by_step", [False, True])
def test_every_pair_has_as_many_draws_or_one_more_at_every_time(stationary, by_step):
    """In steps of all sizes: within a round, over its end, several rounds at once."""
    mdp = random_mdp(3, 2, seed=1, H=4 if by_step else None, random_start=True)
    setting = ar.Setting(n_states=3, n_actions=2, horizon=4, stationary=stationary)
    explorer, rng = Generative(setting, seed=3), np.random.default_rng(0)
    for more in (1, 1, 1, 2, 3, 1, 5, 17, 1, 100, 2, 1):
        advanced(explorer, mdp, more, rng)
        n = moves(explorer).sum(axis=3)
        assert n.max() - n.min() <= 1
        assert n.sum() == explorer.episodes * 4
    starts = explorer.counts.columns()
    assert starts["count"][starts["h"] < 0].sum() == explorer.episodes


def test_leftover_draws_are_spread_at_random():
    """One episode, two draws of six pairs: over 600 seeds each pair gets its share. False alarm below 1e-7."""
    mdp, runs = random_mdp(3, 2, seed=0), 600
    setting, hits = mdp.setting(2, stationary=True), np.zeros((3, 2))
    for seed in range(runs):
        hits += moves(advanced(Generative(setting, seed=seed), mdp, 1, np.random.default_rng(0))).sum(axis=(0, 3))
    expected = runs * 2 / 6
    assert ((hits - expected) ** 2).sum() / expected < chi2.isf(FALSE_ALARM, 5)
    assert hits.min() > 0


@pytest.mark.parametrize("stationary", [False, True])
def test_draws_follow_the_laws_of_the_model(stationary):
    """Of each step its own. False alarm below 1e-7 a law."""
    H, S, A = 2, 3, 2
    mdp = random_mdp(S, A, seed=5, H=None if stationary else H)
    explorer = advanced(Generative(mdp.setting(H, stationary=stationary)), mdp, 6000, np.random.default_rng(1))
    P = mdp.dense()
    n, P = moves(explorer), P[None] if P.ndim == 3 else P
    expected = n.sum(axis=3, keepdims=True) * P
    assert (((n - expected) ** 2 / expected).sum(axis=3) < chi2.isf(FALSE_ALARM, S - 1)).all()


def test_its_error_falls_as_one_over_the_root_of_the_draws():
    """A hundred times the draws, a tenth of the error: the mean of |p_hat - p|_1 over 72 laws, within 25%."""
    mdp = random_mdp(6, 3, seed=2)
    P, errors = mdp.dense(), []
    for episodes in (300, 30_000):
        off = []
        for seed in range(4):
            explorer = advanced(
                Generative(mdp.setting(3, stationary=True), seed=seed), mdp, episodes, np.random.default_rng(seed)
            )
            n = moves(explorer)[0]
            off.append(np.abs(n / n.sum(axis=2, keepdims=True) - P).sum(axis=2).mean())
        errors.append(np.mean(off))
    assert errors[0] / errors[1] == pytest.approx(10, rel=0.25)


def test_it_is_the_random_policy_where_there_is_no_model():
    setting = random_mdp(3, 2, seed=0).setting(3)
    drawn, random = Generative(setting, seed=2), RandomPolicy(setting, seed=2)
    for _ in range(20):
        np.testing.assert_array_equal(drawn.ask(), random.ask())
        drawn.tell([0, 1, 2, 0], [0, 1, 0])
        random.tell([0, 1, 2, 0], [0, 1, 0])


def test_recording_is_refused_or_keeps_the_draws_alike():
    """A recording holds episodes, which a generative model does not play: it must not become another algorithm silently."""
    mdp = ar.envs.double_chain(length=3)
    try:
        atlas = ar.explore(mdp, 3, max_episodes=60, algorithm="generative", record=True)
    except ValueError as refused:
        assert "record" in str(refused)  # noqa: PT017
        return
    columns = atlas.counts.columns()
    n = np.zeros((3, 3, 2), int)
    real = columns["h"] >= 0
    np.add.at(n, tuple(columns[k][real] for k in ("h", "s", "a")), columns["count"][real])
    assert n.max() - n.min() <= 1


def test_sizes_on_the_chain():
    """epsilon = H/10 = 2, delta = 0.1."""
    chain = {"n_states": 31, "n_actions": 2, "horizon": 20, "initial_state": 15}
    assert draws_for(ar.Setting(**chain), 2.0, 0.1) == 557_055
    assert draws_for(ar.Setting(**chain), 2.0, 0.1, "one reward") == 181_715
    assert 181_715 < draws_for(ar.Setting(**chain), 2.0, 0.1, "one reward", rewards=10) < 225_000
    assert draws_for(ar.Setting(**chain, stationary=True), 2.0, 0.1) == 503_907


@pytest.mark.parametrize("seed", range(12))
def test_sizes_are_those_of_the_formulas(seed):
    rng = np.random.default_rng(seed)
    S, A, H = int(rng.integers(2, 9)), int(rng.integers(1, 4)), int(rng.integers(2, 7))
    discount, stationary = float(rng.choice([1.0, 0.9, 0.5])), bool(seed % 2)
    delta = float(rng.uniform(0.01, 0.9))
    setting = ar.Setting(n_states=S, n_actions=A, horizon=H, discount=discount, stationary=stationary, initial_state=0)
    epsilon = float(rng.uniform(0.05, 1.0)) * setting.discount * setting.sigma[-2]
    for rewards in (None,) if stationary else (None, 1, 7):
        how = {} if rewards is None else {"claim": "one reward", "rewards": rewards}
        n = draws_for(setting, epsilon, delta, **how)
        lost = [slow.generative_error(k, S, A, H, delta, discount, stationary, rewards) for k in (n - 1 or 1, n)]
        assert lost[1] <= epsilon
        assert n == 1 or lost[0] > epsilon
    assert draws_for(setting, 2 * setting.sigma[-1], delta) == 0


@pytest.mark.parametrize("claim", ["every reward", "one reward"])
def test_so_many_draws_are_enough(claim):
    """Plans from n draws lose at most epsilon in 1 - delta of 60 runs; with a five-thousandth of the draws they do not."""
    H, S, A, delta, runs, wrong = 3, 2, 2, 0.5, 60, np.zeros(2, int)
    rng = np.random.default_rng(0)
    for _ in range(runs):
        P, reward = rng.dirichlet(np.ones(S), (H, S, A)), rng.random((H, S, A))
        mdp = ar.TabularMDP(P)
        n, best = draws_for(mdp.setting(H), 0.1, delta, claim), ar.backward_induction(P, reward, H).V[0, 0]
        for k, draws in enumerate((n, n // 5000 + 1)):
            p_hat = rng.multinomial(draws, P) / draws
            rewards = [reward] if claim == "one reward" else [(rng.random((H, S, A)) < 0.5) * 1.0 for _ in range(20)]
            lost = 0.0
            for r in rewards:
                best, plan = ar.backward_induction(P, r, H).V[0, 0], ar.backward_induction(p_hat, r, H).policy
                lost = max(lost, best - ar.evaluate_policy(P, plan, r, H).V[0, 0])
            wrong[k] += lost > 0.1
    assert wrong[0] == 0
    assert wrong[1] > 0


def test_claims_that_do_not_hold_are_refused():
    by_step = ar.Setting(n_states=3, n_actions=2, horizon=3, initial_state=0)
    pooled = ar.Setting(n_states=3, n_actions=2, horizon=3, initial_state=0, stationary=True)
    for setting, how, word in (
        (by_step, {"claim": "some rewards"}, "claim is"),
        (by_step, {"claim": "one reward", "rewards": 0}, "rewards is 0"),
        (by_step, {"rewards": 3}, "rewards is 3"),
        (pooled, {"claim": "one reward"}, "not independent"),
    ):
        with pytest.raises(ValueError, match=word):
            draws_for(setting, 0.5, 0.1, **how)


def test_rewards_on_arrival_need_draws_too():
    """Of a reward (h, s, a, s') everything is unknown at first, in one step as well: no draw at all cannot be enough."""
    setting = ar.Setting(n_states=2, n_actions=2, horizon=1, initial_state=0, arrival_rewards=True)
    try:
        assert draws_for(setting, 0.1, 0.1) > 0
    except ValueError as refused:
        assert "arrival" in str(refused)  # noqa: PT017


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (-1.0, 0.1), (1e-12, 0.1), (1.0, 0.0), (1.0, 1.0)])
def test_sizes_for_impossible_targets_are_refused(epsilon, delta):
    with pytest.raises(ValueError, match=r"epsilon|delta"):
        draws_for(ar.Setting(n_states=3, n_actions=2, horizon=3, initial_state=0), epsilon, delta)

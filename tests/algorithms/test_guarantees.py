"""What the rival algorithms guarantee, by simulation on models whose truth is known, and where they guarantee nothing."""

import math

import numpy as np
import pytest
from scipy.stats import binom

import anyreward as ar
from anyreward.environments.tabular import play as play_model

from ..helpers import rivals as slow
from ..helpers.explorers import (
    FALSE_ALARM,
    FIXED_START,
    RANDOM_START,
    both_sides,
    counts_of,
    loss_of,
    lower,
    played,
    some,
    told,
    truth,
)
from ..helpers.problems import by_step, random_mdp

OPTIMISTS = {
    "ucbvi": {"bonus": "hoeffding", "budget": 6000},
    "euler": {"budget": 6000},
    "bpi-ucbvi": {},
    "ucrl2": {},
    "kl-ucrl": {"budget": 6000},
    "even-dar": {},
    "opt-qlearning": {"budget": 6000},
    "opt-qlearning, sharp": {"budget": 6000, "sharp": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIMISTS)
def test_the_upper_index_is_above_the_truth(name):
    """Q_up >= Q*, and Q_lo <= Q* where there is one, at all looks in at least 1 - delta of the runs. delta = 1/2.

    False alarm below 1e-7: 30 runs, of which each may fail with probability 1/2.
    """
    runs, delta, H, wrong, informative = 30, 0.5, 2, 0, 0
    for seed in range(runs):
        mdp = random_mdp(2, 2, seed=seed, H=None if seed % 2 else H, random_start=seed % 3 == 0)
        setting, rng = mdp.setting(H, 1.0, stationary=seed % 2 == 1 and seed % 4 == 1), np.random.default_rng(seed)
        explorer = ar.ALGORITHMS[name.split(",")[0]](setting, mdp.reward, delta=delta, seed=seed, **OPTIMISTS[name])
        Q, failed = truth(mdp, mdp.reward, setting).Q, False
        for upto in (1, 10, 100, 1000, 60_000 if name == "bpi-ucbvi" else 6000):
            while explorer.episodes < upto:
                play_model(explorer, mdp, rng, upto - explorer.episodes, 0.0)
            if name in ("ucrl2", "kl-ucrl"):
                up, lo = both_sides(explorer)
                up, lo = np.where(np.isnan(up), np.inf, up), np.where(np.isnan(lo), 0, lo)
            else:
                up = explorer.index
                lo = np.zeros_like(up) if name.startswith(("opt", "ucbvi")) else lower(explorer)
            failed |= bool((up < Q - 1e-9).any() or (lo > Q + 1e-9).any())
        wrong += failed
        informative += (up[0] < H - 0.05).any()
    assert wrong <= binom.isf(FALSE_ALARM, runs, delta)
    # huge constants would be true as well; Hoeffding's 7 H L / sqrt(n) and Q-learning's sqrt(H^3 iota / t) are huge
    assert informative >= (0 if name in ("ucbvi", "opt-qlearning") else runs / 2)


BEST_POLICY = {
    "even-dar": ({}, 20_000),
    "bpi-ucbvi": ({}, 60_000),
    "ucrl2": ({}, 20_000),
    "kl-ucrl": ({"budget": 20_000}, 20_000),
    "mbie": ({}, 20_000),
    "ucfh": ({}, 20_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BEST_POLICY)
def test_the_recommendation_loses_no_more_than_it_says(name):
    """own_epsilon >= V* - V^recommendation at every look, in 1 - delta of the runs; delta = 1/2, false alarm below 1e-7."""
    options, last = BEST_POLICY[name]
    runs, delta, H, wrong, told = 30, 0.5, 2, 0, 0
    for seed in range(runs):
        mdp, stationary = random_mdp(2, 2, seed=seed, random_start=seed % 3 == 0), seed % 2 == 0
        discount = 1.0 if seed % 5 or not ar.ALGORITHMS[name].supports_discount else 0.7
        setting, rng = mdp.setting(H, discount, stationary), np.random.default_rng(seed)
        explorer, failed = ar.ALGORITHMS[name](setting, mdp.reward, delta=delta, seed=seed, **options), False
        for upto in (0, 1, 3, 30, 300, 3000, last):
            while explorer.episodes < upto:
                play_model(explorer, mdp, rng, upto - explorer.episodes, 0.0)
            own = explorer.own_epsilon
            if own is None:
                assert name == "bpi-ucbvi"
                assert setting.initial_state is None  # what its theorem does not cover
            else:
                failed |= own < loss_of(mdp, mdp.reward, explorer.recommendation, setting)
        wrong += failed
        told += own is not None and own < 0.9 * setting.sigma[-1]
    assert wrong <= binom.isf(FALSE_ALARM, runs, delta)
    assert told >= runs / 2


@pytest.mark.slow
@pytest.mark.parametrize(("name", "last", "runs"), [("fiechter", 20_000, 30), ("rf-express", 2_000_000, 3)])
def test_every_plan_loses_no_more_than_it_says(name, last, runs):
    """own_epsilon >= the loss of the plan for the worst of 30 rewards drawn at random; delta = 1/2, false alarm below 1e-7.

    3 runs cannot fail a test at that level: RF-Express must hold in all of them, with delta = 1e-8.
    """
    H, S, A, wrong, told = 2, 2, 2, 0, 0
    delta = 0.5 if runs > 10 else 1e-8
    for seed in range(runs):
        mdp, rng = random_mdp(S, A, seed=seed), np.random.default_rng(seed)
        setting = mdp.setting(H, 1.0 if name == "rf-express" or seed % 3 else 0.8, stationary=seed % 2 == 1)
        explorer, failed = ar.ALGORITHMS[name](setting, delta=delta, seed=seed), False
        for upto in (0, 1, 10, 300, last):
            while explorer.episodes < upto:
                play_model(explorer, mdp, rng, upto - explorer.episodes, 0.0)
            n = counts_of(explorer)
            n = slow.by_step(n, H)
            p_hat = np.apply_along_axis(slow.p_hat, -1, n)
            worst = 0.0
            for i in range(30):
                r = rng.random((H, S, A)) if i % 2 else rng.integers(0, 2, (H, S, A)).astype(float)
                plan = ar.backward_induction(p_hat, r, H, setting.discount).policy
                worst = max(worst, loss_of(mdp, r, plan, setting))
            failed |= explorer.own_epsilon < worst
        wrong += failed
        told += explorer.own_epsilon < 0.9 * setting.sigma[-1]
    assert wrong <= binom.isf(FALSE_ALARM, runs, delta)
    assert told >= runs / 3


SCALED = [
    "fiechter", "rf-express", "jin2020", "bpi-ucbvi", "even-dar", "ucbvi", "euler", "ucrl2", "kl-ucrl", "opt-qlearning",
    "regret-uniform", "regret-instances", "mbie", "ucfh", "ucb-zero",
]  # fmt: skip


@pytest.mark.parametrize("name", SCALED)
def test_another_scale_is_a_heuristic_without_a_guarantee(name):
    for scale in (0.5, 2.0, 1 + 1e-12):
        explorer = told(some(name, FIXED_START, scale=scale))
        assert explorer.own_epsilon is None
        assert explorer.heuristic
    assert not some(name, FIXED_START, scale=1).heuristic


@pytest.mark.parametrize("name", SCALED)
def test_a_scale_that_is_no_positive_number_is_refused_at_once(name):
    for scale in (0.0, -1.0, math.nan, "much"):
        with pytest.raises(ValueError, match="scale is"):
            some(name, FIXED_START, scale=scale)


@pytest.mark.parametrize("name", ["ucbvi", "euler", "opt-qlearning", "random", "generative", "jin2020"])
def test_regret_minimisers_and_baselines_guarantee_no_policy(name):
    explorer = told(some(name, FIXED_START))
    assert explorer.own_epsilon is None
    assert explorer.recommendation is None


@pytest.mark.parametrize("name", ["fiechter", "rf-express", "bpi-ucbvi"])
def test_a_random_start_has_no_guarantee_where_none_was_proved(name):
    assert told(some(name, RANDOM_START)).own_epsilon is None
    assert told(some(name, FIXED_START)).own_epsilon is not None


@pytest.mark.parametrize("name", ["fiechter", "rf-express"])
def test_rewards_on_arrival_are_not_covered_by_indices_that_leave_them_out(name):
    """In one step nothing is unknown of a reward (h, s, a), but all of a reward (h, s, a, s'): the plan can lose 1."""
    setting = ar.Setting(n_states=2, n_actions=2, horizon=1, initial_state=0, arrival_rewards=True)
    own = ar.ALGORITHMS[name](setting).own_epsilon
    assert own is None or own >= 1


# --- Known pairs: states that are never left, actions that must not be played ---


@pytest.mark.parametrize(
    "name", ["ucbvi", "ucbvi, hoeffding", "opt-qlearning", "opt-qlearning, sharp", "euler", "even-dar", "bpi-ucbvi"]
)
@pytest.mark.parametrize("stationary", [False, True])
def test_optimism_holds_in_states_that_are_known_to_be_absorbing(name, stationary):
    """Nothing is unknown about where they lead, but they pay: an index of 0 there is no upper bound."""
    P = np.zeros((2, 2, 2))
    P[0, :, 1] = P[1, :, 1] = 1
    mdp = ar.TabularMDP(P, reward=np.array([[0.0, 0.0], [0.0, 1.0]]))
    setting = mdp.setting(3, stationary=stationary, absorbing_states=(1,))
    options = {"budget": 100} if ar.ALGORITHMS[name.split(",")[0]].needs_budget else {}
    options |= {"bonus": "hoeffding"} if "hoeffding" in name else {"sharp": True} if "sharp" in name else {}
    explorer, rng = ar.ALGORITHMS[name.split(",")[0]](setting, mdp.reward, **options), np.random.default_rng(0)
    Q = ar.backward_induction(mdp, mdp.reward, 3).Q
    for _ in range(100):
        explorer.tell(*mdp.rollout(explorer.ask(), seed=rng))
        assert (explorer.index >= Q - 1e-12).all()


@pytest.mark.parametrize("name", [name for name in ar.ALGORITHMS if name not in ("random", "generative")])
def test_actions_that_are_declared_illegal_can_be_lived_with(name):
    """Masks of an environment: it plays another action instead, and no index may stumble over it."""
    explorer = some(name, FIXED_START)
    for s in range(3):
        explorer.counts.declare_illegal(s, [1])
    states, _ = played(random_mdp(3, 2, seed=0), FIXED_START, 60, seed=1)
    for b in range(60):
        explorer.ask()
        explorer.tell(states[b], np.zeros(3, int))
        own = explorer.own_epsilon
        assert own is None or own >= 0
    if name not in ("jin2020", "regret-uniform", "regret-instances"):  # they have minimisers that are not told
        seen = counts_of(explorer).sum(axis=(2, 3)) > 0
        seen[-1] &= ar.ALGORITHMS[name].needs_reward  # where the last transition does not matter, nothing is better than 0
        assert (explorer.ask()[seen] == 0).all()


def test_by_step_models_depend_on_the_step():
    """The truth that these tests compare with is the model's own."""
    mdp = random_mdp(2, 2, seed=0, H=2)
    P = by_step(mdp, 2)
    r = np.random.default_rng(0).random((2, 2, 2))
    right = r[0] + P[0] @ (r[1]).max(axis=1)
    np.testing.assert_allclose(truth(mdp, r, mdp.setting(2)).Q[0], right, rtol=1e-12)

"""The two conversions of regret into a policy: one of the policies played, and the best of several runs."""

import numpy as np
import pytest
from scipy.stats import binom, chi2

import anyreward as ar
from anyreward.algorithms import UCBVI, RegretInstances, RegretUniform
from anyreward.algorithms.from_regret import instances_for, ucbvi_regret

from ..helpers import rivals as slow
from ..helpers.conversions import CONVERSIONS, advanced, make
from ..helpers.explorers import FALSE_ALARM
from ..helpers.problems import random_mdp

# --- One of the policies played ---


def test_the_recommendation_is_one_of_the_policies_played():
    mdp, K = random_mdp(3, 3, seed=4), 60
    explorer, rng, played = RegretUniform(mdp.setting(3), mdp.reward, budget=K, seed=2), np.random.default_rng(0), []
    assert explorer.recommendation is None
    minimiser = UCBVI(mdp.setting(3), mdp.reward, budget=K, bonus="hoeffding", seed=2, delta=0.05, bounds="paper")
    for _ in range(K):
        played.append(explorer.ask())
        np.testing.assert_array_equal(played[-1], minimiser.ask())
        assert explorer.own_epsilon is None  # before the run is over
        episode = mdp.rollout(played[-1], seed=rng)
        explorer.tell(*episode)
        minimiser.tell(*episode)
    assert len(explorer.policies) == 1
    np.testing.assert_array_equal(explorer.recommendation, played[explorer._chosen_at[0]])
    assert explorer.own_epsilon == 3.0  # true, and no more: no better than the horizon
    rng.random()
    explorer.tell(*mdp.rollout(explorer.ask(), seed=rng))  # afterwards it plays what it recommends
    np.testing.assert_array_equal(explorer.ask(), explorer.recommendation)


@pytest.mark.slow
def test_which_of_the_policies_is_uniform():
    """Over 2000 seeds and K = 8. False alarm below 1e-7."""
    setting = ar.Setting(n_states=1, n_actions=1, horizon=1, initial_state=0)
    chosen = np.bincount([RegretUniform(setting, [0.5], budget=8, seed=s)._chosen_at[0] for s in range(2000)], minlength=8)
    assert ((chosen - 250) ** 2 / 250).sum() < chi2.isf(FALSE_ALARM, 7)


@pytest.mark.parametrize("stationary", [False, True])
def test_the_bound_on_regret_is_the_printed_one(stationary):
    setting = ar.Setting(n_states=31, n_actions=2, horizon=20, initial_state=0, stationary=stationary)
    for K in (10, 10**6, 10**13):
        right = slow.ucbvi_regret(K, 31 if stationary else 31 * 20, 2, 20, 0.05)
        assert ucbvi_regret(setting, K, 0.05) == pytest.approx(right, rel=1e-12)


# --- The best of several runs ---


@pytest.mark.parametrize("seed", range(10))
def test_sizes_of_the_instances(seed):
    rng = np.random.default_rng(seed)
    H, discount = int(rng.integers(1, 30)), float(rng.choice([1.0, 0.9]))
    setting = ar.Setting(n_states=3, n_actions=2, horizon=H, discount=discount, initial_state=0)
    epsilon, delta = float(rng.uniform(0.01, H)), float(rng.choice([0.5, 0.25, 0.1, 1e-6, rng.uniform(0, 1)]))
    found, right = instances_for(setting, epsilon, delta), slow.regret_to_bpi(epsilon, delta, H, discount, form="corrected")
    assert found[:2] == right[:2]
    assert found[2:] == pytest.approx(right[2:], rel=1e-12)


def test_sizes_on_the_chain():
    setting = ar.Setting(n_states=31, n_actions=2, horizon=20, initial_state=15)
    assert instances_for(setting, 2.0, 0.1)[:2] == (5, 3830)


def bandit(pay):
    """One state, one step: a policy is an action."""
    A = len(pay)
    return ar.TabularMDP(np.ones((1, A, 1)), reward=np.array([pay]))


@pytest.mark.slow
def test_a_planted_optimal_policy_is_returned():
    """Among M policies the best has a margin of 2 epsilon' and N is as prescribed: returned in 1 - delta' of 150 runs."""
    H, runs, delta, wrong = 2, 150, 0.5, 0
    P = np.zeros((3, 2, 3))
    P[:, 0], P[:, 1] = [0.5, 0.3, 0.2], [0.5, 0.2, 0.3]
    mdp = ar.TabularMDP(P, reward=np.array([0.0, 0.0, 1.0]))  # action 1 earns 0.3 at the second step, action 0 earns 0.2
    setting = mdp.setting(H)
    margin = 0.1
    sizes = instances_for(setting, 4 * margin / 2, delta)
    assert sizes.epsilon_evaluate == pytest.approx(margin / 2)
    for seed in range(runs):
        explorer = RegretInstances(setting, mdp.reward, budget=2, delta=delta, seed=seed)
        rng = np.random.default_rng(seed)
        advanced(explorer, mdp, explorer._exploring, rng)
        assert explorer.recommendation is None
        explorer.policies = [np.zeros((H, 3), int) for _ in range(explorer.runs)]
        planted = seed % explorer.runs
        explorer.policies[planted] = np.ones((H, 3), int)
        advanced(explorer, mdp, explorer._exploring + explorer.runs * sizes.evaluations, rng)
        assert explorer.evaluations == sizes.evaluations
        wrong += (explorer.recommendation != 1).any()
    assert wrong <= binom.isf(FALSE_ALARM, runs, sizes.delta_evaluate)
    assert wrong < runs / 10


def test_policies_are_evaluated_by_fresh_episodes_in_turn():
    mdp = bandit([0.2, 0.9])
    explorer = RegretInstances(mdp.setting(1), mdp.reward, budget=40, delta=0.1)
    assert explorer.runs == 5
    for _ in range(explorer._exploring):
        explorer.tell([0, 0], explorer.ask()[0])
    assert explorer.returns.tolist() == [0.0] * 5  # nothing of the runs is counted
    for t in range(15):
        np.testing.assert_array_equal(explorer.ask(), explorer.policies[t % 5])
        explorer.tell([0, 0], explorer.ask()[0])
    assert explorer.evaluations == 3
    right = [3 * mdp.reward[0, int(p[0, 0])] for p in explorer.policies]
    assert explorer.returns.tolist() == pytest.approx(right)


def test_the_best_average_wins_and_not_the_largest_sum():
    """In the middle of a turn some policies have one evaluation more than others."""
    mdp = bandit([0.6, 0.5])
    explorer = RegretInstances(mdp.setting(1), mdp.reward, budget=20, delta=0.5)
    for _ in range(explorer._exploring):
        explorer.tell([0, 0], explorer.ask()[0])
    explorer.policies = [np.array([[1]]), np.array([[0]])]
    for turn in range(6):
        explorer.tell([0, 0], explorer.ask()[0])
        if turn:
            assert explorer.recommendation.tolist() == [[0]], f"after {turn + 1} evaluations"


@pytest.mark.slow
def test_what_instances_guarantee():
    """epsilon_0 + 2 epsilon': nothing before the evaluation, the horizon at most, nothing for another bonus or scale."""
    mdp = bandit([0.2, 0.9])
    explorer = RegretInstances(mdp.setting(1), mdp.reward, budget=60)
    assert explorer.own_epsilon is None
    advanced(explorer, mdp, 60, np.random.default_rng(0))
    assert explorer.own_epsilon == 1.0
    for options in ({"bonus": "bernstein"}, {"scale": 0.1}):
        other = RegretInstances(mdp.setting(1), mdp.reward, budget=60, **options)
        assert advanced(other, mdp, 60, np.random.default_rng(0)).own_epsilon is None


# --- What is refused ---


@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_discount_is_refused_at_once(name):
    """Not only when the first episode is asked for."""
    with pytest.raises(ValueError, match=r"discount is 0\.5"):
        make(name, ar.Setting(n_states=2, n_actions=2, horizon=3, discount=0.5, initial_state=0))


@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_checkpoint_is_refused_before_anything_is_played(name, tmp_path):
    """And not at the end, when the episodes would be lost."""
    mdp, looks = random_mdp(2, 2, seed=0), []
    with pytest.raises(ValueError, match="cannot be saved half-way"):
        ar.explore(
            mdp, 2, max_episodes=100, algorithm=name, checkpoint=tmp_path / "one.atlas", progress=lambda *at: looks.append(at)
        )  # fmt: skip
    assert looks == [] or looks[-1][0] == 0


@pytest.mark.parametrize("name", CONVERSIONS)
def test_small_budgets_work(name):
    mdp = random_mdp(2, 2, seed=0)
    for budget in (1, 2, 5):
        atlas = ar.explore(mdp, 2, max_episodes=budget, algorithm=name)
        assert atlas.episodes == budget
        assert atlas.certificate.check(atlas.counts)


def test_the_sizes_are_those_of_the_proposition_if_there_is_a_target():
    setting = ar.Setting(n_states=3, n_actions=2, horizon=3, initial_state=0)
    sizes = ar.algorithms.instances_for(setting, 1.0, 0.1)
    budget = sizes.runs * (sizes.evaluations + 7) + 2
    explorer = ar.ALGORITHMS["regret-instances"](setting, np.zeros(3), budget=budget, target=1.0)
    assert explorer.runs == sizes.runs
    assert explorer.episodes_each == 7
    with pytest.raises(ValueError, match="takes"):
        ar.ALGORITHMS["regret-instances"](setting, np.zeros(3), budget=sizes.runs * sizes.evaluations, target=1.0)

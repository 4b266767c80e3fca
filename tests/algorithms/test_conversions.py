"""Algorithms made of others: RF-RL-Explore, and the two conversions of regret into a policy."""

import numpy as np
import pytest
from scipy.stats import binom, chi2

import anyreward as ar
from anyreward.algorithms import EULER, UCBVI, Jin2020, RegretInstances, RegretUniform
from anyreward.algorithms.from_regret import instances_for, ucbvi_regret

from .. import rivals_reference as slow
from ..problems import random_mdp

FALSE_ALARM = 1e-7
CONVERSIONS = {"jin2020": Jin2020, "regret-uniform": RegretUniform, "regret-instances": RegretInstances}


def make(name, setting, **options):
    more = {} if name == "jin2020" else {"reward": np.linspace(0, 1, setting.n_states)}
    return CONVERSIONS[name](setting, **more, **{"budget": 200, **options})


def advanced(explorer, mdp, upto, rng):
    while explorer.episodes < upto:
        explorer.advance(mdp, rng, upto - explorer.episodes, 0.0)
    return explorer


# --- RF-RL-Explore ---


def test_it_plays_euler_for_each_step_and_state_in_turn():
    """The first n0 episodes of a goal are those of EULER with the reward 1{s at step h}, budget n0, from no data."""
    mdp, H, S, n0 = random_mdp(2, 2, seed=0), 2, 2, 7
    setting, rng = mdp.setting(H), np.random.default_rng(0)
    explorer = Jin2020(setting, budget=100, n0=n0, seed=5)
    for goal in range(H * S):
        reward = np.zeros((H, S, 2))
        reward[divmod(goal, S)] = 1.0
        euler = EULER(setting, reward, budget=n0, bounds="paper", seed=5 * H * S + goal)
        for _ in range(n0):
            np.testing.assert_array_equal(explorer.ask(), euler.ask())
            episode = mdp.rollout(explorer.ask(), seed=rng)
            explorer.tell(*episode)
            euler.tell(*episode)
    assert explorer.counts.episodes == H * S * n0


def test_then_it_draws_uniformly_from_its_buffer_with_a_uniform_action_at_the_goal():
    """Each of H S n0 policies equally likely, and changed in one entry only. False alarm below 1e-7 a statistic."""
    mdp, H, S, A, n0 = random_mdp(2, 3, seed=1), 2, 2, 3, 5
    explorer, rng = Jin2020(mdp.setting(H), budget=100, n0=n0), np.random.default_rng(0)
    advanced(explorer, mdp, H * S * n0, rng)
    buffer = np.stack(explorer._buffer)  # (goals, n0, H, S)
    assert buffer.shape == (H * S, n0, H, S)
    drawn = explorer._drawn(H * S * n0, 3000)
    fits = np.zeros(len(drawn))
    for goal in range(H * S):
        h, s = divmod(goal, S)
        others = np.ones((H, S), bool)
        others[h, s] = False
        fits += (drawn[:, None][..., others] == buffer[goal][None][..., others]).all(axis=2).any(axis=1)
    assert (fits > 0).all()  # every one is a policy of the buffer but for the goal
    expected = np.zeros((H, S, A))  # of each entry: the mixture over the buffer, uniform at the goal
    for goal, k in np.ndindex(H * S, n0):
        law = np.eye(A)[buffer[goal, k]]
        law[divmod(goal, S)] = 1 / A
        expected += law / (H * S * n0)
    found = np.stack([(drawn == a).sum(axis=0) for a in range(A)], axis=2)
    chances = np.maximum(len(drawn) * expected, 1e-9)
    assert (found[expected == 0] == 0).all()
    assert (((found - chances) ** 2 / chances).sum(axis=2) < chi2.isf(FALSE_ALARM, A - 1)).all()
    rng.random()
    np.testing.assert_array_equal(explorer._drawn(H * S * n0 + 300, 40), drawn[300:340])  # the same in any portions


def test_it_visits_everything_that_can_be_reached():
    """N / (2 S A H) visits at least of every (h, s, a), though state 1 is reached by one action, which has to be repeated."""
    H, S, A, N0, N = 3, 2, 2, 400, 4000
    P = np.zeros((S, A, S))
    P[0, 0], P[0, 1], P[1, 0], P[1, 1] = [0.95, 0.05], [0.4, 0.6], [0.9, 0.1], [0.3, 0.7]
    mdp, rng = ar.TabularMDP(P), np.random.default_rng(3)
    explorer = Jin2020(mdp.setting(H), budget=S * H * N0 + N, n0=N0)
    advanced(explorer, mdp, S * H * N0, rng)
    before = explorer.counts.columns()
    advanced(explorer, mdp, S * H * N0 + N, rng)
    after = explorer.counts.columns()
    n = np.zeros((2, H, S, A))
    for side, columns in enumerate((before, after)):
        real = columns["h"] >= 0
        np.add.at(n[side], tuple(columns[k][real] for k in ("h", "s", "a")), columns["count"][real])
    second = n[1] - n[0]
    assert second.sum() == N * H
    reachable = np.ones((H, S), bool)
    reachable[0, 1] = False
    assert (second[reachable] >= N / (2 * S * A * H)).all()
    assert (second[~reachable] == 0).all()


def test_half_of_the_budget_is_for_the_goals_by_default():
    setting = ar.Setting(n_states=3, n_actions=2, horizon=4, initial_state=0)
    assert Jin2020(setting, budget=2400).n0 == 100
    assert Jin2020(setting, budget=5).n0 == 1


@pytest.mark.parametrize("portions", [(1,), (3, 11, 200), (10_000,)])
def test_portions_do_not_matter(portions):
    """The compiled loop played in any portions is the loop of ask and tell."""
    mdp = random_mdp(3, 2, seed=2)
    for name in CONVERSIONS:
        one, many, rng, other = (
            *(make(name, mdp.setting(2), seed=3) for _ in range(2)),
            *(np.random.default_rng(1) for _ in range(2)),
        )
        i = 0
        while one.episodes < 260:
            one.advance(mdp, rng, min(portions[i % len(portions)], 260 - one.episodes), 0.0)
            i += 1
        for _ in range(260):
            many.tell(*mdp.rollout(many.ask(), seed=other))
        assert one.counts == many.counts, name
        np.testing.assert_array_equal(one.ask(), many.ask())
        assert name == "jin2020" or [p.tolist() for p in one.policies] == [p.tolist() for p in many.policies]
        assert name != "regret-instances" or one.returns.tolist() == pytest.approx(many.returns.tolist(), rel=1e-12)


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

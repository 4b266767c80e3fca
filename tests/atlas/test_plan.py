"""What a plan can do: act, run, show itself as a table, and prefer what was seen."""

import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import anyreward as ar
from anyreward.kernels.robust import UPPER
from anyreward.planning import backward_induction, evaluate_policy

from ..helpers.problems import random_mdp
from ..helpers.tabular import Tabular, transitions

H = 5


class Lift(gym.Env):
    """A lift with a Dict of observations that do not begin at 0, and actions that do not either."""

    observation_space = spaces.Dict({"floor": spaces.Discrete(3, start=1), "door": spaces.Discrete(2)})
    action_space = spaces.Discrete(3, start=-1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.floor = 1
        return self.observation(), {}

    def observation(self):
        return {"floor": self.floor, "door": int(self.np_random.integers(2))}

    def step(self, action):
        assert self.action_space.contains(action)
        self.floor = int(np.clip(self.floor + action * (self.np_random.random() < 0.9), 1, 3))
        return self.observation(), float(self.floor == 3), False, False, {}


@pytest.fixture(scope="module")
def lift():
    return ar.explore(Lift(), H, max_episodes=600, stationary=True, action_names=("down", "stay", "up"))


def test_a_plan_takes_observations_and_gives_actions(lift, tmp_path):
    lift.save(tmp_path / "lift.atlas")
    for atlas in (lift, ar.load(tmp_path / "lift.atlas")):
        plan = atlas.plan("floor == 3")
        env = Lift()
        observation, _ = env.reset(seed=1)
        assert plan.act(observation, 0) == 1  # up
        s = atlas.numbering.observations.encode({"floor": 3, "door": 0})
        assert plan.act({"floor": 3, "door": 0}, 2) == int(plan.policy[2, s]) - 1
        assert plan.act({"floor": 1, "door": 1}, 0, action_mask=[1, 1, 0]) == -1  # the legal action number 2 mod 2
        with pytest.raises(ValueError, match="step is 5: an episode has the steps 0 to 4"):
            plan.act(observation, 5)
        with pytest.raises(ValueError, match=r"\.$"):
            plan.act({"floor": 7, "door": 0}, 0)


def test_running_earns_what_the_plan_is_worth(lift):
    plan = lift.plan("floor == 3")
    earned = plan.run(Lift(), episodes=2_000, seed=3)
    assert earned.shape == (2_000,)
    assert plan.lower <= earned.mean() + 0.1
    assert earned.mean() == pytest.approx(plan.value, abs=0.15)
    np.testing.assert_array_equal(plan.run(Lift(), episodes=20, seed=3), earned[:20])
    paid = plan.run(Lift(), episodes=2_000, seed=3, reward="own")
    # paid on arrival at the top, and the reward is for being there: what comes after the last step makes the difference
    assert earned.mean() <= paid.mean() <= earned.mean() + 1.0
    assert plan.run(Lift(), episodes=0).shape == (0,)


def test_the_table_of_a_plan_has_names_counts_values_and_probabilities(lift):
    plan = lift.plan("floor == 3")
    table = plan.to_pandas()
    S = lift.counts.setting.n_states
    assert len(table) == H * S
    row = table[(table.step == 0) & (table.name == "door=0, floor=1")].iloc[0]
    assert row.observation == {"door": 0, "floor": 1}
    assert row.action == "up"
    assert row.seen == lift.counts.n()[int(row.state), 2]
    assert row.lower <= row.value <= row.upper
    np.testing.assert_allclose(table.groupby("step").probability.sum(), 1.0)
    np.testing.assert_allclose((table[table.step == 0].probability * table[table.step == 0].value).sum(), plan.value)
    assert len(plan.to_pandas(visited=True)) == H * S  # all six were visited


@pytest.mark.parametrize("stationary", [False, True])
def test_values_and_probabilities_are_those_of_the_empirical_model(stationary):
    """Against dense arrays: the probabilities of the model, multiplied out."""
    mdp = ar.TabularMDP(transitions(4, 2), initial=[0.5, 0.5, 0, 0])
    atlas = ar.explore(mdp, H, max_episodes=12, stationary=stationary)
    reward = np.random.default_rng(0).random((H, 4, 2))
    plan = atlas.plan(reward)
    c, mean = atlas.counts.columns(), np.zeros((H, 4, 2, 4))
    for h, s, a, y, n in zip(c["h"], c["s"], c["a"], c["next"], c["count"], strict=True):
        if h >= 0:
            mean[slice(None) if stationary else h, s, a, y] += n
    n = mean.sum(axis=3, keepdims=True)
    p = np.where(n > 0, mean / np.maximum(n, 1), 0.25)
    starts = np.bincount(c["next"][c["h"] == -1], c["count"][c["h"] == -1], 4) / 12
    values = evaluate_policy(p, plan.policy, reward, H)
    np.testing.assert_allclose(plan.V, values.V)
    here = starts
    for h in range(H):
        np.testing.assert_allclose(plan.reach[h], here)
        here = np.einsum("s,sy->y", here, p[h, np.arange(4), plan.policy[h]])
    np.testing.assert_array_equal(plan.visits, n[np.arange(H)[:, None], np.arange(4), plan.policy, 0])


def test_values_from_everywhere_lie_between_their_bounds():
    """delta = 1e-9, so a miss would be a bug, in all steps and states at once."""
    mdp = ar.envs.double_chain(5)
    atlas = ar.explore(mdp, H, max_episodes=3_000, delta=1e-9, stationary=True)
    plan = atlas.plan(mdp.reward)
    of_plan = evaluate_policy(mdp, plan.policy, mdp.reward, H).V
    best = backward_induction(mdp, mdp.reward, H).V
    assert (plan.lower_V <= of_plan + 1e-12).all()
    assert (best <= plan.upper_V + 1e-12).all()
    assert (plan.upper_V - plan.lower_V)[0, 2] < 1.0  # which is not trivial
    assert (plan.lower_V <= plan.V + 1e-12).all()
    assert (plan.upper_V + 1e-12 >= plan.V).all()


def tried(atlas):
    n = atlas.counts.n()
    return np.broadcast_to(n > 0, (atlas.counts.setting.horizon, *n.shape[-2:]))


@pytest.mark.parametrize("reward", ["state == 3", "own", "0.5 + 0.1 * state - 0.3 * (action == 1)"])
@pytest.mark.parametrize("episodes", [1, 5, 40])
def test_a_plan_never_picks_an_action_that_was_never_seen_where_a_seen_one_exists(reward, episodes):
    env = Tabular(transitions(4, 3), pay=lambda s, a, s_next: s_next / 3)
    atlas = ar.explore(env, H, max_episodes=episodes, algorithm="random")
    plan, seen = atlas.plan(reward), tried(atlas)
    chosen = np.take_along_axis(seen, plan.policy[..., None], axis=2)[..., 0]
    wrong = ~chosen & seen.any(axis=2)
    assert plan.untried == wrong.sum()
    if "action" in reward:
        wrong = wrong[:-1]  # at the last step the reward, which is given, is all there is to know
    assert not wrong.any()
    never = atlas.plan(reward, only_seen=True)
    assert not (~np.take_along_axis(seen, never.policy[..., None], axis=2)[..., 0] & seen.any(axis=2)).any()
    assert never.untried == 0
    assert atlas.evaluate(never, reward).lower == pytest.approx(never.lower, abs=1e-12)
    assert never.upper == plan.upper
    daring = atlas.plan(reward, allow_unseen=True)
    assert daring.value >= plan.value - 1e-12
    assert daring.upper == plan.upper
    if "action" not in reward:  # otherwise the reward alone may guarantee more
        careful = atlas.plan(reward, cautious=True)
        assert not (~np.take_along_axis(seen, careful.policy[..., None], axis=2)[..., 0] & seen.any(axis=2)).any()
        assert careful.lower >= plan.lower - 1e-12


class Silent:
    """Robust planning that says nothing, so that the bound for all rewards decides."""

    def of(self, policy, side):
        return np.inf if side == UPPER else -np.inf


@pytest.mark.parametrize("known", [{}, {"stationary": True}, {"bounds": "paper"}, {"discount": 0.8, "arrival_rewards": True}])
def test_plans_keep_the_promise_of_the_certificate_with_actions_that_were_seen(known, monkeypatch):
    """By the worst completion of the empirical model (`docs/theory.md`, 6). A reward of states never asks for an action that was
    never seen; one of actions only where it alone is worth more than what was seen."""
    monkeypatch.setattr(ar.Atlas, "_robust", lambda self, scoring, which: Silent())
    N, rare = 10**6, {1: 600_000, 2: 370_000, 3: 30_000}  # state 3 is rare, and only action 0 is ever tried there
    rows = [(h, s, a, then, n) for h in range(H) for s in range(3) if h or not s for a in range(2) for then, n in rare.items()]
    rows += [(h, 3, 0, 3, N) for h in range(1, H)]
    setting = ar.Setting(n_states=4, n_actions=2, horizon=H, initial_state=0, **{k: v for k, v in known.items() if k != "bounds"})
    counts = ar.Counts.from_dataframe(dict(zip(("h", "s", "a", "next", "count"), zip(*rows, strict=True), strict=True)), setting)
    atlas = ar.Atlas(counts, ar.certify(counts, bounds=known.get("bounds", "tight")))
    seen = tried(atlas)
    assert not seen[:, 3, 1].any()
    for pays in np.array([[0.0, 1.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.2, 1.0, 0.0]]):
        plan = atlas.plan(np.broadcast_to(pays, (4, 2, 4)) if "arrival_rewards" in known else pays)
        assert plan.scoring.error < H / 4  # so that it matters
        assert plan.regret_bound <= 2 * plan.scoring.error + 1e-9
        assert plan.lower <= plan.value <= plan.upper
        chosen = np.take_along_axis(seen, plan.policy[..., None], axis=2)[..., 0]
        assert (chosen | ~seen.any(axis=2)).all()
    tempting = np.zeros((H, 4, 2))
    tempting[:-1, 3, 1] = 1.0  # more than all that state 3 can pay otherwise
    plan = atlas.plan(tempting)
    assert plan.regret_bound <= 2 * plan.scoring.error + 1e-9


@pytest.mark.parametrize("bounds", ["tight", "paper"])
@pytest.mark.parametrize("known", [{}, {"stationary": True}, {"discount": 0.8}])
def test_no_completion_of_the_empirical_model_moves_a_value_by_more_than_the_error_bound(known, bounds):
    """A pair without data may have any law, at each step another one. Also where there is one state, whose law is no secret."""
    rng = np.random.default_rng(1)
    for seed, S in enumerate([1, 2, 3, 4, 4, 5]):
        mdp = random_mdp(S, 2, seed=seed, random_start=seed % 2 == 1)
        counts = ar.Counts(mdp.setting(H, **known))
        for i in range(3):
            counts.add_episodes(*counts.checked(*mdp.rollout(rng.integers(0, 2, (H, S)), 10**i, seed=i)))
        bound, gamma, p = ar.certify(counts, bounds=bounds).error_bound, counts.setting.discount, np.zeros((H, 2 * S, S))
        for h in range(H):
            pair, then, chance = counts.model().edges_at(h)
            p[h, pair, then] = chance
        blank = np.broadcast_to(counts.n() == 0, (H, S, 2))
        for _ in range(20):
            policy, reward, values = rng.integers(0, 2, (H, S)), (rng.random((H, S, 2)) < 0.5) * 1.0, []
            for _ in range(2):
                laws = np.where(blank[..., None], np.eye(S)[rng.integers(0, S, (H, S, 2))], p.reshape(H, S, 2, S))
                V = np.zeros(S)
                for h in range(H - 1, -1, -1):
                    V = np.take_along_axis(reward[h] + gamma * laws[h] @ V, policy[h][:, None], axis=1)[:, 0]
                values.append(float(counts.model().initial @ V))
            assert abs(values[0] - values[1]) <= bound + 1e-12


def test_the_bounds_are_those_of_the_policy_that_is_returned():
    atlas = ar.explore(Tabular(transitions(4, 3)), H, max_episodes=3)
    reward = np.random.default_rng(1).random((4, 3))
    plan = atlas.plan(reward)
    assert atlas.evaluate(plan.policy, reward).value == pytest.approx(plan.value)
    assert atlas.evaluate(plan.policy, reward).lower == pytest.approx(plan.lower)


def test_the_promise_of_the_certificate_comes_before_the_preference_for_what_was_seen():
    """Once epsilon is certified, a plan is epsilon-optimal: if only an unseen action can promise it, it is chosen.

    One state and one step: no data are needed to know the best action. The explorer never plays action 1, which pays.
    """
    mdp = ar.TabularMDP(np.ones((1, 2, 1)))
    atlas = ar.explore(mdp, 3, epsilon=1e-9)
    assert atlas.certificate.met
    assert atlas.certificate.epsilon == 0
    plan = atlas.plan([[0.0, 1.0]])
    assert plan.regret_bound <= 1e-9
    assert plan.value == pytest.approx(3.0)


def test_a_plan_that_never_picks_unseen_actions_says_what_this_may_cost():
    """At the last step the reward alone asks for an unseen action. The loss of never playing one is bounded, and true."""
    rows = {"h": [-1, 0, 1, 2], "s": [0] * 4, "a": [0] * 4, "next": [0] * 4}
    counts = ar.Counts.from_dataframe(rows, ar.Setting(n_states=1, n_actions=2, horizon=3, initial_state=0))
    atlas = ar.Atlas(counts, ar.certify(counts))
    reward = [[0.25, 1.0]]
    plan, never = atlas.plan(reward), atlas.plan(reward, only_seen=True)
    assert plan.policy.tolist() == [[0], [0], [1]]
    assert plan.untried == 1
    assert "an action that was never seen there at 1 visited step and state, where another one was" in str(plan)
    assert never.policy.tolist() == [[0]] * 3
    assert never.untried == 0
    assert never.value == pytest.approx(0.75)
    assert never.regret_bound == pytest.approx(2.25)  # one state: everything is known, and the optimum is 3
    assert "no action that was never seen where another one was; it loses at most 2.25" in str(never)
    assert never != plan
    assert never.playing(plan.policy).untried == 1
    assert pickle.loads(pickle.dumps(never)) == never
    for other in ({"cautious": True}, {"allow_unseen": True}, {"subject_to": [(reward, "<=", 1.0)]}):
        with pytest.raises(ValueError, match="only_seen"):
            atlas.plan(reward, only_seen=True, **other)
    with pytest.raises(ValueError, match="only_seen is 1: it has to be True or False"):
        atlas.plan(reward, only_seen=1)


def test_a_plan_of_a_loaded_atlas_is_equal_and_plans_can_be_pickled(tmp_path):
    """To the bit, although files have an order of their own, in which sums could be rounded otherwise."""
    atlas = ar.explore(Tabular(transitions(6, 3)), H, max_episodes=500, stationary=True)
    atlas.save(tmp_path / "a.atlas")
    loaded, reward = ar.load(tmp_path / "a.atlas"), np.linspace(0, 1, 6)
    plan, again = atlas.plan(reward), loaded.plan(reward)
    assert (plan.lower, plan.value, plan.upper) == (again.lower, again.value, again.upper)
    assert plan == again
    for it in (plan, atlas.plan("own", reward_range=(0, 2))):
        copy = pickle.loads(pickle.dumps(it))
        assert copy == it
        assert copy.act(2, 1) == it.act(2, 1)
        assert copy.scoring.with_delta(0.01).delta == it.scoring.with_delta(0.01).delta


def test_plans_are_equal_if_they_say_the_same():
    mdp = ar.envs.double_chain(5)
    atlas, other = (ar.explore(mdp, H, max_episodes=50, seed=seed) for seed in (0, 1))
    assert atlas.plan(mdp.reward) == atlas.plan(mdp.reward)
    assert atlas.plan("state == 4") == atlas.plan(mdp.reward)
    assert atlas.plan(mdp.reward) != atlas.plan("state == 0")
    assert atlas.plan(mdp.reward) != other.plan(mdp.reward)
    assert atlas.plan(mdp.reward) != 3

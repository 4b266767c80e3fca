"""Goals: what is certified, against known numbers, slow recursions and played episodes.

It watches `docs/theory.md`, 18.1 and 18.2.
"""

import pickle

import numpy as np
import pytest

import anyreward as ar
from anyreward.atlas import goals

from ..helpers.coverage import allowed
from ..helpers.problems import by_step, random_mdp
from ..helpers.structures import chain

H, S, A = 5, 4, 2


def exact(mdp, automaton, policies=None, horizon=H, costs=None):
    """The value of an automaton in a known model, of policies (H, memories, S) or the best, by plain loops."""
    P, Q = by_step(mdp, horizon), automaton.size
    n = P.shape[1]
    final = np.array([float(q in automaton.accepting) for q in range(Q)])
    pays = (lambda q, s: 0.0) if automaton.pays is None else automaton.pays
    V = np.repeat(final[:, None], n, axis=1)
    for h in range(horizon - 1, -1, -1):
        ahead = np.zeros((Q, n))
        for q, s in np.ndindex(Q, n):
            worth = [sum(P[h, s, a, x] * (pays(q, x) + V[automaton.step(q, x), x]) for x in range(n)) for a in range(P.shape[2])]
            ahead[q, s] = (max(worth) if policies is None else worth[policies[h, q, s]]) + (0 if costs is None else costs[q])
        V = ahead
    return sum(p * (pays(automaton.start, s) + V[automaton.step(automaton.start, s), s]) for s, p in enumerate(mdp.initial))


def in_large(mdp, horizon, times=10**9, initial=0):
    """An atlas with so many observations that its intervals are narrow."""
    P = by_step(mdp, 1)[0]
    rows = [(0, s, a, x, round(times * P[s, a, x])) for s, a, x in np.ndindex(P.shape) if P[s, a, x] > 0]
    table = dict(zip(("h", "s", "a", "next", "count"), map(list, zip((-1, 0, 0, initial, 10), *rows, strict=True)), strict=True))
    setting = ar.Setting(n_states=P.shape[0], n_actions=P.shape[1], horizon=horizon, initial_state=initial, stationary=True)
    counts = ar.Counts.from_dataframe(table, setting)
    return ar.Atlas(counts, ar.certify(counts))


@pytest.fixture(scope="module")
def mdp():
    return random_mdp(S, A, seed=7)


@pytest.fixture(scope="module")
def atlas(mdp):
    return ar.explore(mdp, H, max_episodes=20_000, stationary=True)


TWICE = ar.Automaton(3, lambda q, s: min(q + (s == 3), 2), accepting=[2])
MACHINE = ar.Automaton(2, lambda q, s: int(s == 1) if s in (1, 2) else q, pays=lambda q, s: 2.0 * (q == 1 and s == 2) - 0.1 * q)
GOALS = {
    "reach": (lambda atlas: atlas.reach("state == 3"), ar.Automaton(2, lambda q, s: max(q, int(s == 3)), [1])),
    "reach before": (
        lambda atlas: atlas.reach(3, avoid=[1]),
        ar.Automaton(3, lambda q, s: q or (2 if s == 1 else int(s == 3)), [1]),
    ),
    "avoid": (lambda atlas: atlas.avoid("state in (1, 2)"), ar.Automaton(2, lambda q, s: max(q, int(s in (1, 2))), [0])),
    "one after the other": (
        lambda atlas: atlas.reach((2, [1, 3])),
        ar.Automaton(3, lambda q, s: 1 if q == 0 and s == 2 else 2 if q == 1 and s in (1, 3) else q, [2]),
    ),
    "automaton": (lambda atlas: atlas.reach(TWICE), TWICE),
    "reward machine": (lambda atlas: atlas.reach(MACHINE), MACHINE),
}


@pytest.mark.parametrize("name", GOALS)
def test_values_and_bounds_are_those_of_the_true_model(mdp, atlas, name):
    ask, automaton = GOALS[name]
    plan = ask(atlas)
    true = exact(mdp, plan.automaton, plan.policies)
    best = exact(mdp, automaton)
    assert exact(mdp, plan.automaton) == pytest.approx(best)  # both automata mean the same
    assert plan.value.lower <= true <= plan.value.upper <= plan.best + 1e-9
    assert best <= plan.best
    assert best - true < 0.05
    assert plan.best - plan.value.lower < 0.4
    assert plan.value.value == pytest.approx(true, abs=0.05)


def test_the_number_of_steps_of_known_problems():
    """The chain to 16, 20, 25, 30, with restarts, computed by somebody else; and a geometric law."""
    atlas = in_large(ar.envs.double_chain(), 20, initial=15)
    for goal, steps in ((16, 1.25000), (20, 6.25078), (25, 12.59501), (30, 25.26360)):
        plan = atlas.reach(goal)
        assert steps <= plan.steps <= 1.005 * steps
    waiting = ar.TabularMDP(np.array([[[0.8, 0.2]], [[0.0, 1.0]]]), initial=0)
    plan = in_large(waiting, 5).reach(1)
    assert tuple(plan.value) == pytest.approx((0.67232,) * 3, abs=1e-3)
    assert 5 <= plan.steps <= 5.02
    impossible = in_large(ar.TabularMDP(np.eye(2)[:, None], initial=0), 5, times=100).reach(1)
    assert impossible.steps == np.inf
    assert "no number of steps can be certified" in str(impossible)


def test_a_start_in_the_goal_and_the_last_step_count():
    mdp = ar.TabularMDP(np.array([[[0.5, 0.5]], [[0.0, 1.0]]]), initial=0)
    atlas = in_large(mdp, 1)
    assert atlas.reach(1).value.value == pytest.approx(0.5, abs=1e-3)
    there = atlas.reach(0)
    assert (there.value.lower, there.steps) == pytest.approx((1.0, 0.0), abs=1e-3)


def test_players_remember(mdp, atlas):
    plan = atlas.reach(TWICE)
    with pytest.raises(ValueError, match="needs a memory"):
        plan.policy  # noqa: B018
    rng, P, met = np.random.default_rng(0), by_step(mdp, H), 0
    for _ in range(3000):
        player, s, visits = plan.player(), 0, 0
        for h in range(H):
            s_next = rng.choice(S, p=P[h, s, player.act(s)])
            s, visits = s_next, visits + (s_next == 3)
        met += visits >= 2
    assert met / 3000 == pytest.approx(exact(mdp, TWICE, plan.policies), abs=0.04)
    with pytest.raises(ValueError, match="is over after 5 actions"):
        player.act(0)


def test_the_policy_of_a_goal_can_be_played_and_evaluated(mdp, atlas):
    plan = atlas.reach(3)
    assert plan.policy.shape == (H, S)
    cautious = atlas.reach(3, cautious=True)
    assert cautious.value.lower >= plan.value.lower - 1e-9
    assert cautious.best == plan.best


@pytest.mark.slow
def test_terminations_are_arrivals():
    """FrozenLake ends in its goal: that the episode is over there does not hide the arrival, with each form of termination."""
    for terminal in ("outcome", "state", "end"):
        lake = ar.explore(
            "FrozenLake-v1",
            8,
            max_episodes=3000,
            stationary=True,
            initial_state=0,
            terminal=terminal,
            env_args={"is_slippery": False},
        )
        if terminal == "end":  # one state for all terminations, so that nothing tells where an episode ended
            with pytest.raises(ValueError, match="goals need to know where"):
                lake.reach(15)
            continue
        hole, goal = lake.reach(5), lake.reach(15)
        assert (hole.value.value, goal.value.value) == pytest.approx((1.0, 1.0))
        assert goal.value.lower > 0.8
        assert goal.steps < 8
        assert lake.avoid([5, 7, 11, 12]).value.lower > 0.8
        if terminal == "state":
            with pytest.raises(ValueError, match="when it reads state 3 twice"):
                lake.reach(TWICE)
        else:  # the hole is read once, although the process stays there
            visits = lake.reach(ar.Automaton(3, lambda q, s: min(q + (s == 5), 2), accepting=[2]))
            assert visits.value.value == 0.0


def test_with_a_structure():
    P = np.zeros((5, 2, 5))
    for s, a in np.ndindex(5, 2):
        ends = max(s - 1, 0), min(s + 1, 4)
        P[s, a, ends[a]] += 0.9
        P[s, a, ends[1 - a]] += 0.1
    mdp = ar.TabularMDP(P, initial=2)
    flat = ar.explore(mdp, H, max_episodes=300, stationary=True).reach(4)
    shared = ar.explore(mdp, H, max_episodes=300, structure=chain(5)).reach(4)
    true = exact(mdp, shared.automaton, shared.policies)
    assert shared.value.lower <= true <= shared.value.upper
    assert shared.value.upper - shared.value.lower < 0.6 * (flat.value.upper - flat.value.lower)


@pytest.mark.slow
def test_everything_about_goals_holds_at_once():
    """Few laws and a large delta: probability, best and steps of several goals, whenever one looks. Narrower ones fail."""
    mdp, runs, delta, wrong, narrow = random_mdp(3, 1, seed=4), 30, 0.5, 0, 0
    for seed in range(runs):
        false = close = False
        for episodes in (10, 40, 160):
            atlas = ar.explore(mdp, 3, max_episodes=episodes, seed=seed, delta=delta, stationary=True, algorithm="random")
            for goal in (1, 2, (1, 2)):
                plan = atlas.reach(goal)
                true = exact(mdp, plan.automaton, plan.policies, 3)
                done = plan.automaton.accepting[0]
                waited = exact(mdp, plan.automaton, plan.policies, 3, [float(q != done) for q in range(done + 2)]) - true
                false |= not plan.value.lower <= true + 1e-12 or not true <= min(plan.value.upper, plan.best) + 1e-12
                false |= plan.steps < waited / true - 1e-9
                close |= abs(true - plan.value.value) > 0.08 * (plan.value.upper - plan.value.lower)
        wrong, narrow = wrong + false, narrow + close
    assert wrong <= allowed(delta, runs)
    assert narrow > allowed(delta, runs)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda a: a.reach("action == 1"), "a condition on the state alone"),
        (lambda a: a.reach(7), "goal is 7: it has to be states from 0 to 3"),
        (lambda a: a.reach("state > 9"), "no state is so"),
        (lambda a: a.reach(1, avoid=[1, 2]), "state 1 is in goal and in avoid"),
        (lambda a: a.reach(TWICE, avoid=1), "goal is an automaton"),
        (lambda a: a.reach(()), "tuple of 0 goals"),
        (lambda a: a.reach(ar.Automaton(2, lambda q, s: 5, [1])), "the next memory after 0 in state 0 is 5"),
        (lambda a: ar.Automaton(2, lambda q, s: 0), "either accepting memories, or pays"),
        (lambda a: ar.Automaton(2, lambda q, s: 0, [3]), "there is no memory 3"),
        (lambda a: ar.Automaton(0, lambda q, s: 0, [0]), "from 1 to 64"),
        (lambda a: ar.Automaton(2, 3, [0]), "step is 3: it has to be a function"),
        (lambda a: ar.Automaton(2, lambda q, s: 0, pays=1.0), "pays is 1.0: it has to be a function"),
        (lambda a: ar.Automaton(2, lambda q, s: 0, 1), "accepting are 1: a list is needed"),
    ],
)
def test_bad_goals_are_named(atlas, call, said):
    with pytest.raises(ValueError, match=said):
        call(atlas)


@pytest.mark.parametrize("terminal", [None, "outcome", "state"])
@pytest.mark.parametrize("stationary", [True, False])
@pytest.mark.parametrize("episodes", [0, 3, 30])
def test_states_that_are_alike_may_be_one(monkeypatch, terminal, stationary, episodes):
    """What was never visited and is read alike makes no difference: the same with every state by itself."""
    world = ar.envs.grid_world(5, 5, start=(2, 2), goal=(4, 4)) if terminal is None else "FrozenLake-v1"
    options = {} if terminal is None else {"terminal": terminal}
    atlas = ar.explore(world, 4, max_episodes=episodes, stationary=stationary, progress=False, **options)
    asked = [(lambda cautious: atlas.reach(("state == 6", "state == 7"), cautious=cautious)), (lambda _: atlas.avoid([1, 8]))]
    fewer = [ask(cautious) for ask in asked for cautious in (False, True)]
    N = atlas.counts.setting.n_outcomes
    assert all(len(one.kept) < len(one.first) for one in fewer)
    monkeypatch.setattr(goals, "alike", lambda *_: (np.arange(N), np.arange(N), np.ones(N)))
    for one, ask, cautious in zip(fewer, [ask for ask in asked for _ in range(2)], (False, True) * 2, strict=True):
        other = ask(cautious)
        assert len(other.kept) == len(other.first)
        np.testing.assert_array_equal(one.policies, other.policies)
        found, right = ((x.value.lower, x.value.value, x.value.upper, x.best, x.steps or 0.0) for x in (one, other))
        np.testing.assert_allclose(found, right, rtol=0, atol=1e-12)


@pytest.mark.parametrize("pays", [1.0, -1.0])
def test_a_reward_machine_with_discount_pays_for_the_start_and_for_each_step(pays):
    """One path: 1 for the start, 1 for the state after step 0, and gamma = 0.5 for the one after step 1."""
    P = np.zeros((2, 1, 2))
    P[:, :, 1] = 1
    atlas = ar.explore(ar.TabularMDP(P, initial=1), 2, max_episodes=20, discount=0.5, stationary=True, deterministic=True)
    plan = atlas.reach(ar.Automaton(1, lambda q, s: 0, pays=lambda q, s: pays * (s == 1)))
    assert plan.value.lower <= 2.5 * pays <= plan.value.upper
    assert plan.value.value == pytest.approx(2.5 * pays)


def test_a_plan_for_a_goal_can_be_pickled_and_is_equal_afterwards():
    """Also for an automaton of one's own, whose functions cannot be: a pickle keeps what they do."""
    atlas = ar.explore(ar.envs.double_chain(5), 4, max_episodes=200)
    twice = ar.Automaton(3, step=lambda q, s: min(q + (s == 3), 2), accepting=[2])
    paid = ar.Automaton(2, step=lambda q, s: int(s == 3 or q), pays=lambda q, s: 0.5 * (s == 3))
    goals_of = [atlas.reach("state == 3"), atlas.reach(("state == 3", "state == 1"), avoid=[0]), atlas.avoid("state == 0")]
    for plan in (*goals_of, atlas.reach(twice), atlas.reach(paid)):
        copy = pickle.loads(pickle.dumps(plan))
        assert copy == plan
        assert str(copy) == str(plan)
        assert np.array_equal(copy.policies, plan.policies)
        player, other = plan.player(), copy.player()
        assert [player.act(s) for s in (2, 3, 2, 3)] == [other.act(s) for s in (2, 3, 2, 3)]
    assert plan.automaton is paid  # which stays what was given
    different = [*goals_of, atlas.reach(twice), atlas.reach(paid), atlas.reach("state == 1"), 3]
    for i, one in enumerate(different):
        assert [one == other for other in different] == [i == j for j in range(len(different))]

"""Plans under constraints, and the trade-off of two rewards.

It watches `docs/theory.md`, 17.1 and 17.3.
"""

import numpy as np
import pytest
from scipy.optimize import linprog

import anyreward as ar

from ..helpers.problems import by_step, random_mdp

H, S, A = 4, 4, 2


@pytest.fixture(scope="module")
def mdp():
    return random_mdp(S, A, seed=3)


@pytest.fixture(scope="module")
def atlas(mdp):
    return ar.explore(mdp, H, max_episodes=60_000, stationary=True)


REWARD, COST = "state == 1 or action == 1", "0.5 * (state == 2) + (action == 1)"


def best_under(mdp, reward, cost, limit):
    """The constrained optimum in a known model, by the linear program of occupancies."""
    P = by_step(mdp, H)
    flow, start = np.zeros((H * S, H * S * A)), np.zeros(H * S)
    start[:S] = mdp.initial
    for h, s, a in np.ndindex(H, S, A):
        i = (h * S + s) * A + a
        flow[h * S + s, i] += 1
        if h + 1 < H:
            flow[(h + 1) * S : (h + 2) * S, i] -= P[h, s, a]
    tiled = [np.tile(np.asarray(r).reshape(-1), H) for r in (reward, cost)]
    return -linprog(-tiled[0], [tiled[1]], [limit], flow, start).fun


def arrays():
    s, a = np.arange(S)[:, None], np.arange(A)[None]
    return ((s == 1) | (a == 1)).astype(float), 0.5 * (s == 2) + (a == 1)


def truth(mdp, plan, reward):
    values = [float(mdp.initial @ ar.evaluate_policy(mdp, p.policy, reward, H).V[0]) for p in plan.plans]
    return float(np.dot(plan.weights, values))


def test_a_plan_under_a_constraint_is_nearly_the_constrained_optimum(mdp, atlas):
    reward, cost = arrays()
    plan, best = atlas.plan(REWARD, subject_to=[(COST, "<=", 1.5)]), best_under(mdp, reward, cost, 1.5)
    assert len(plan.plans) == 2
    assert sum(plan.weights) == pytest.approx(1)
    assert truth(mdp, plan, cost) <= plan.costs[0].upper <= 1.5
    assert plan.lower <= truth(mdp, plan, reward) <= best <= plan.upper
    assert plan.regret_bound < 0.25
    assert best - truth(mdp, plan, reward) < 0.1
    assert atlas.plan(REWARD).value > plan.value + 0.5  # the constraint binds
    assert "a mixture of 2 policies" in str(plan)
    assert "1.5] for 0.5 * (state == 2) + (action == 1) <= 1.5" in str(plan)


def test_a_constraint_that_does_not_bind_changes_nothing(atlas):
    plan = atlas.plan(REWARD, subject_to=[(COST, "<=", 100), ("state == 0", ">=", -1)])
    free = atlas.plan(REWARD)
    assert plan.weights == (1.0,)
    assert plan.lower == pytest.approx(max(free.lower, atlas.plan(REWARD, cautious=True).lower))
    assert plan.upper == pytest.approx(free.upper)


@pytest.mark.slow
def test_several_constraints_on_arrival_and_at_least(mdp, atlas):
    limits = [("action == 1", "<=", 2.0), ("next == 2", ">=", 0.5)]
    plan = atlas.plan("state == 1", subject_to=limits)
    assert plan.costs[0].upper <= 2.0
    assert plan.costs[1].lower >= 0.5
    P = by_step(mdp, H)
    assert truth(mdp, plan, P[0, :, :, 2]) >= plan.costs[1].lower
    assert truth(mdp, plan, np.array([[0.0, 1.0]] * S)) <= 2.0


def test_drawing_and_playing(mdp, atlas):
    _, cost = arrays()
    plan = atlas.plan(REWARD, subject_to=[(COST, "<=", 1.5)])
    rng = np.random.default_rng(0)
    drawn = [plan.draw(rng) for _ in range(2000)]
    assert np.mean([p is plan.plans[0] for p in drawn]) == pytest.approx(plan.weights[0], abs=0.05)
    earned = plan.run(mdp, 4000, reward=cost)
    assert earned.mean() == pytest.approx(truth(mdp, plan, cost), abs=0.08)
    assert (earned == plan.run(mdp, 4000, reward=cost)).all()
    for wrong in (lambda: atlas.verify(plan, mdp, 10), lambda: atlas.improvement(plan)):
        with pytest.raises(ValueError, match="a plan under constraints"):
            wrong()
    assert plan.plans[0].upper == pytest.approx(atlas.plan(REWARD).upper)  # of the optimum without constraints


def test_limits_that_nothing_meets_say_what_can_be_certified(atlas):
    least = -atlas.plan(-np.array([1.0, 0, 0, 0]), reward_range=(-1, 0), cautious=True).lower
    with pytest.raises(ValueError, match="the smallest state == 0 that can be certified is") as problem:
        atlas.plan(REWARD, subject_to=[("state == 0", "<=", 0.5)])
    assert float(str(problem.value).split("certified is ")[1].split(";")[0]) == pytest.approx(least, rel=1e-3)
    atlas.plan(REWARD, subject_to=[("state == 0", "<=", least + 1e-6)])
    with pytest.raises(ValueError, match=r"the largest action == 1 that can be certified is 3\.999"):
        atlas.plan(REWARD, subject_to=[("action == 1", ">=", 5)])
    with pytest.raises(ValueError, match="all of subject_to at once"):
        atlas.plan(REWARD, subject_to=[("action == 1", ">=", 3), ("action == 0", ">=", 3)])


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ([], "subject_to is"), ("x <= 3", "subject_to is"), ([("action", "<", 3)], r"subject_to\[0\] is"),
        ([("action", "<=", "3")], "has to be a number"), ([("action", "<=", float("nan"))], "finite"),
        ([("own", "<=", 1)], "'own'"),
        ([(np.zeros(7), "<=", 1)], "shape"),
    ],
)  # fmt: skip
def test_bad_constraints_are_named(atlas, limits, said):
    with pytest.raises(ValueError, match=said):
        atlas.plan(REWARD, subject_to=limits)


def test_the_trade_off(mdp, atlas):
    reward, cost = arrays()
    curve = atlas.trade_off(REWARD, -cost, points=5)
    assert len(curve.plans) == 5
    for plan, a, b in zip(curve.plans, curve.first, curve.second, strict=True):
        for interval, r in ((a, reward), (b, -cost)):
            true = float(mdp.initial @ ar.evaluate_policy(mdp, plan.policy, r, H).V[0])
            assert interval.lower <= true <= interval.upper
            assert interval.upper - interval.lower < 0.5
        assert b.lower <= curve.most(a.lower)
    for limit in (0.5, 1.0, 2.0, 3.0):  # nothing is beyond the line: not the constrained optimum either
        best = best_under(mdp, reward, cost, limit)
        assert curve.most(best) >= -limit - 1e-9
        assert curve.most(best + 0.6) < -limit + 0.9
    assert curve.most(5.0) == -np.inf
    with pytest.raises(ValueError, match="x is 'a': it has to be a number"):
        curve.most("a")
    assert len(curve.to_pandas()) == 5
    assert str(curve).count("\n") == 5
    assert curve.plot().axes[0].get_xlabel().startswith("state == 1 or action")
    with pytest.raises(ValueError, match="points is 1"):
        atlas.trade_off(REWARD, COST, points=1)

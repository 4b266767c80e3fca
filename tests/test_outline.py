"""What a plan does, in a few lines: they are the plan, and say no more than it."""

from itertools import pairwise

import numpy as np
import pytest

import anyreward as ar
from anyreward.outline import ANY, THIN, Outline, action_words, cells, is_thin, sign, thin_time

LEFT, RIGHT = 0, 1


def corridor(length=4, **names):
    """States in a row; left and right always succeed, and the ends are walls."""
    P = np.zeros((length, 2, length))
    for s in range(length):
        P[s, LEFT, max(0, s - 1)] = P[s, RIGHT, min(length - 1, s + 1)] = 1
    return ar.TabularMDP(P, initial=0, **names)


@pytest.fixture(scope="module")
def atlas():
    """Six steps in the corridor, after enough random episodes to have seen everything that can be reached often."""
    return ar.explore(corridor(), 6, max_episodes=5_000, algorithm="random")


@pytest.fixture(scope="module")
def messy():
    """A random model of which little was seen, so that plans are irregular."""
    rng = np.random.default_rng(1)
    return ar.explore(ar.TabularMDP(rng.dirichlet(np.full(7, 0.3), size=(7, 3))), 8, max_episodes=40, algorithm="random")


def test_a_walk_to_the_end_is_told_step_by_step(atlas):
    """It walks right in steps 0, 1 and 2, then stays at the wall, and at the last step nothing matters any more."""
    what = Outline(atlas.plan("state == 3"))
    lines = {line.state: line for line in what.lines()}
    assert what.states[0] == 3  # three of six steps
    assert [lines[s].time for s in (0, 1, 2, 3)] == [1, 1, 1, 3]
    assert [(x.steps, x.action) for x in lines[0].stretches] == [("step 0", RIGHT)]
    assert [(x.steps, x.action) for x in lines[2].stretches] == [("step 2", RIGHT)]
    assert [(x.steps, x.action) for x in lines[3].stretches] == [("steps 3–4", RIGHT), ("step 5", ANY)]
    assert what.going == 4
    assert not any(x.thin for line in lines.values() for x in line.stretches)


def test_states_in_which_it_never_gets_come_last_with_the_steps_at_which_they_were_visited(atlas):
    what = Outline(atlas.plan("state == 0"))
    assert what.states[0] == 0
    assert what.going == 1
    assert what.time_in(0, 1) == 6
    others = what.lines(1)
    assert {line.state for line in others} == {1, 2, 3}
    assert all(line.time == 0 for line in others)
    first = {line.state: line.stretches[0].first for line in others}
    assert first == {1: 1, 2: 2, 3: 3}  # a random walk from 0 cannot be there earlier


@pytest.mark.parametrize("reward", ["state == 3", "action == 1", "next == 2", "step * state / 60"])
def test_the_lines_are_the_plan(messy, reward):
    """At every step at which the plan may be in a state, exactly one stretch covers it and has the action of the plan."""
    plan = messy.plan(reward)
    for line in Outline(plan).lines():
        steps = np.flatnonzero(plan.reach[:, line.state] > 0) if line.time > 0 else []
        assert line.time == pytest.approx(plan.reach[:, line.state].sum())
        for h in steps:
            (stretch,) = (x for x in line.stretches if x.first <= h <= x.last)
            assert stretch.action == (ANY if plan.indifferent[h, line.state] else plan.policy[h, line.state])
            assert stretch.seen <= plan.visits[h, line.state]
            assert stretch.thin >= is_thin(plan)[h, line.state]
        neighbours = [x.action for x in line.stretches]
        assert all(a != b for a, b in pairwise(neighbours))
    times = [line.time for line in Outline(plan).lines()]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("stationary", [False, True])
def test_where_any_action_will_do(stationary):
    """By the definition: the values of all actions that were seen, at least two, computed one by one."""
    rng = np.random.default_rng(2)
    mdp = ar.TabularMDP(rng.dirichlet(np.ones(4), size=(4, 2)))
    atlas = ar.explore(mdp, 3, max_episodes=30, algorithm="random", stationary=stationary)
    plan = atlas.plan("(state == 1) * (step == 0)")
    counts, model = np.broadcast_to(atlas.counts.n(), (3, 4, 2)), atlas.counts.model()
    for h in range(3):
        follows = model.expect(h, plan.V[h + 1])
        for s in range(4):
            seen = [a for a in range(2) if counts[h, s, a] > 0]
            values = [float((s == 1) * (h == 0)) + follows[s, a] for a in seen]
            assert plan.indifferent[h, s] == (len(seen) > 1 and max(values) - min(values) <= 1e-12)


def test_thin_data_are_few_data_that_matter(messy):
    plan = messy.plan("state == 3")
    thin = is_thin(plan)
    assert not thin[-1].any()  # its reward is known, and nothing follows
    assert (thin[:-1] == (plan.visits < THIN)[:-1]).all()
    assert thin_time(plan) == pytest.approx(sum(plan.reach[h, s] for h, s in np.argwhere(thin)))
    arriving = messy.plan("next == 3")
    assert is_thin(arriving)[-1].any()  # here the last step is a transition like any other


def test_a_state_that_is_known_never_to_be_left_is_not_thin():
    P = np.zeros((3, 2, 3))
    P[0, :, 1:] = 0.5
    P[1, :, 1] = P[2, :, 2] = 1
    atlas = ar.explore(ar.TabularMDP(P, initial=0), 4, max_episodes=3, absorbing_states=(2,))
    plan = atlas.plan("(state == 1) * (action == 1) + 0.5 * (state == 2) * (action == 0)")
    assert not is_thin(plan)[:, 2].any()
    assert is_thin(plan)[0, 0]


def test_nothing_is_told_about_the_extra_state_of_terminations():
    atlas = ar.explore("FrozenLake-v1", 5, max_episodes=200, terminal="end")
    assert atlas.counts.setting.n_states == 17
    assert 16 not in Outline(atlas.plan("own")).states


def test_directions_are_arrows_and_other_names_stay():
    atlas = ar.explore(corridor(action_names=["West", "leap"]), 2, max_episodes=2)
    assert [sign(atlas, a) for a in range(2)] == ["←", "leap"]
    assert [action_words(atlas, a) for a in (0, 1, ANY)] == ["← West", "leap", "any"]
    plain = ar.explore(corridor(), 2, max_episodes=2)
    assert [action_words(plain, a) for a in range(2)] == ["0", "1"]


def test_cells_of_a_grid_tell_what_is_done_when_it_is_likeliest_there(atlas):
    plan = atlas.plan("state == 3")
    assert [goes for _, goes in cells(plan, 4)] == [True] * 4
    assert [text for text, _ in cells(plan, 3)] == ["1", "1", "1"]
    short = ar.explore(corridor(), 2, max_episodes=5)
    assert cells(short.plan("state == 3"), 4)[2:] == [("·", False), ("·", False)]  # two steps do not lead there

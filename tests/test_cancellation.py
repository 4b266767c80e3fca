"""Long computations end when they are not wanted any more, in their middle, and leave nothing half-done."""

import threading

import numpy as np
import pytest

import anyreward as ar
from anyreward import planning
from anyreward.cancellation import blocks, cancelled_by, proceed
from anyreward.certificates import intervals

H = 12


class Enough(Exception):
    pass


class Patience:
    """Raises when it is asked for the nth time."""

    def __init__(self, n):
        self.n, self.asked = n, 0

    def __call__(self):
        self.asked += 1
        if self.asked == self.n:
            raise Enough


@pytest.fixture(scope="module")
def counts():
    return ar.explore(ar.envs.double_chain(7), H, max_episodes=300, stationary=True).counts


@pytest.fixture
def atlas(counts):
    """An atlas that has planned nothing yet."""
    return ar.Atlas(counts, ar.certify(counts))


@pytest.fixture
def step_by_step(monkeypatch):
    """Every pass asks after each step, as it does after a few milliseconds in large problems."""
    monkeypatch.setattr(planning, "BLOCK", 0)
    monkeypatch.setattr(intervals, "BLOCK", 0)


@pytest.mark.parametrize(("last", "first", "size"), [(9, 0, 1), (9, 0, 4), (9, 0, 100), (7, 7, 3), (5, 2, 0)])
def test_blocks_are_all_steps_from_the_last(last, first, size):
    found = list(blocks(last, first, size))
    assert [h for begin, end in found for h in range(begin, end - 1, -1)] == list(range(last, first - 1, -1))
    assert all(begin - end < max(1, size) for begin, end in found)


QUESTIONS = {
    "plan": lambda atlas: atlas.plan("state == 6"),
    "cautious": lambda atlas: atlas.plan("state == 6", cautious=True),
    "arrival": lambda atlas: atlas.plan("0.5 * (next == 6) + 0.5 * (state == 0)"),
    "explain": lambda atlas: atlas.explain("state == 6"),
    "mixed": lambda atlas: atlas.evaluate(np.full((H, 7, 2), 0.5), "state == 6"),
    "reach": lambda atlas: atlas.reach("state == 6"),
    "limits": lambda atlas: atlas.plan("state == 6", subject_to=[("action == 1", "<=", 6)]),
    "trade": lambda atlas: atlas.trade_off("state == 6", "state == 0", 3),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_whatever_is_computed_ends_in_its_middle_and_can_be_asked_again(question, atlas, counts, step_by_step):
    ask = QUESTIONS[question]
    patience = Patience(0)
    with cancelled_by(patience):
        found = str(ask(ar.Atlas(counts, ar.certify(counts))))
    assert patience.asked >= 2 * H  # at each step of the passes that it needs
    for n in (1, H // 2, H + 3, patience.asked):
        with cancelled_by(late := Patience(n)), pytest.raises(Enough):
            ask(atlas)
        assert late.asked == n  # and nothing was computed afterwards
    assert str(ask(atlas)) == found


def test_a_pass_in_blocks_is_the_same_to_the_bit(atlas, counts, monkeypatch):
    rewards = "state == 6", "0.5 * (next == 6) + 0.5 * (state == 0) * (step < 4)"
    whole = [atlas.plan(reward, cautious=cautious) for reward in rewards for cautious in (False, True)]
    values = [(plan.V, plan.lower_V, plan.upper_V) for plan in whole]
    for size in (0, 40):
        monkeypatch.setattr(planning, "BLOCK", size)
        monkeypatch.setattr(intervals, "BLOCK", size)
        fresh = ar.Atlas(counts, ar.certify(counts))
        again = [fresh.plan(reward, cautious=cautious) for reward in rewards for cautious in (False, True)]
        for one, two, kept in zip(whole, again, values, strict=True):
            assert (one.value, one.lower, one.upper) == (two.value, two.lower, two.upper)
            assert all((a == b).all() for a, b in zip(kept, (two.V, two.lower_V, two.upper_V), strict=True))


def test_a_pass_of_several_threads_ends_too(atlas, monkeypatch):
    monkeypatch.setattr(planning, "MANY", 1)
    monkeypatch.setattr(planning.kernels, "processors", lambda: 2)
    with cancelled_by(patience := Patience(H // 2)), pytest.raises(Enough):
        atlas.plan("state == 6")
    assert patience.asked == H // 2


def test_other_threads_and_what_comes_later_go_on():
    with cancelled_by(Patience(1)):
        other = threading.Thread(target=proceed)
        other.start()
        other.join()
        with cancelled_by(Patience(2)):
            proceed()
        with pytest.raises(Enough):
            proceed()
    proceed()

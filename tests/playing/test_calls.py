"""What an environment answers is checked, and it may be given a time to answer."""

import functools
import gc
import threading

import numpy as np
import pytest

import anyreward as ar
from anyreward.playing.calls import Calls

from ..helpers.tabular import Tabular, transitions
from ..helpers.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.usefixtures("quick_look")
S, A, H = 4, 2, 4


class Odd(Tabular):
    """Answers something else after a while."""

    def __init__(self, reset=None, step=None):
        super().__init__(transitions(S, A))
        self._reset, self._step = reset, step

    def reset(self, **options):
        answer = super().reset(**options)
        return answer if self._reset is None or self.resets < 140 else self._reset(*answer)

    def step(self, action):
        answer = super().step(action)
        return answer if self._step is None or self.resets < 140 else self._step(*answer)


@pytest.mark.parametrize(
    ("odd", "says"),
    [
        (Odd(reset=lambda s, info: s), r"resetting it: TypeError, reset returned \d"),
        (Odd(reset=lambda s, info: (s, None)), r"reset returned \(\d, None\), it has to return an observation and a dict"),
        (Odd(step=lambda s, r, end, cut, info: (s, r, end, info)), r"playing action \d in state \d: TypeError, step returned"),
        (Odd(step=lambda s, r, end, cut, info: (s, "much", end, cut, info)), "it has to return an observation, a number, two"),
        (Odd(step=lambda s, r, end, cut, info: (s, r, np.zeros(2), cut, info)), "two truth values"),
        (Odd(step=lambda s, r, end, cut, info: (s, r, end, cut, None)), "None as its info, it has to be a dictionary"),
        (Odd(step=lambda *_: exit()), "at step 0, playing action . in state .: SystemExit"),
    ],
)
def test_an_answer_that_is_none_is_a_failure_that_says_where(odd, says):
    with pytest.raises(ar.EnvironmentFailure, match=says) as caught:
        ar.explore(odd, H, max_episodes=100)
    assert caught.value.atlas.episodes > 0


class Hanging(Tabular):
    """Hangs at the third step of an episode, from its 150th on."""

    def __init__(self, hang):
        super().__init__(transitions(S, A))
        self._hang = hang

    def step(self, action):
        if self.resets > 150 and self.t == 2:
            self._hang()
        return super().step(action)


def spin(until):
    while not until.is_set():
        pass


@pytest.mark.slow
@pytest.mark.parametrize("hang", [threading.Event.wait, spin])
def test_a_step_that_hangs_can_be_bounded_and_nothing_is_lost(tmp_path, hang):
    """The step hangs until the test lets it go, long after it was given up."""
    released = threading.Event()
    says = "failed in episode .*, at step 2, playing action . in state .: TimeoutError, it did not return within 2 seconds"
    try:
        with pytest.raises(ar.EnvironmentFailure, match=says):
            ar.explore(
                Hanging(functools.partial(hang, released)), H, max_episodes=100, step_timeout=2, checkpoint=tmp_path / "it.atlas"
            )
    finally:
        released.set()
    so_far = ar.load(tmp_path / "it.atlas").episodes
    assert so_far > 0
    atlas = ar.explore(Hanging(lambda: None), H, max_episodes=100, step_timeout=PATIENCE, checkpoint=tmp_path / "it.atlas")
    assert atlas.episodes == 100
    assert "episodes that failed" in str(atlas.certificate)


def test_a_timeout_that_is_not_needed_changes_nothing():
    with_, without = (ar.explore(Tabular(transitions(S, A)), H, max_episodes=60, step_timeout=t) for t in (PATIENCE, None))
    assert with_.counts == without.counts
    with pytest.raises(ValueError, match="step_timeout is 0"):
        ar.explore(Tabular(transitions(S, A)), H, max_episodes=60, step_timeout=0)
    with pytest.raises(ValueError, match="step_timeout is for Gymnasium environments"):
        ar.explore(ar.envs.double_chain(5), H, max_episodes=60, step_timeout=1)


@pytest.mark.slow
def test_its_thread_ends_with_it():
    before = threading.active_count()
    for _ in range(5):
        ar.explore(Tabular(transitions(S, A)), H, max_episodes=10, step_timeout=PATIENCE)
    gc.collect()
    wait_for(lambda: threading.active_count() <= before)


@pytest.mark.slow
def test_a_call_after_one_that_hangs_is_refused_at_once():
    released = threading.Event()
    calls = Calls(Hanging(released.wait), timeout=1)
    for _ in range(160):
        calls.reset()
    calls.env.t = 2
    try:
        for says in ("did not return within 1 seconds", "an earlier call has not returned yet"):
            with pytest.raises(TimeoutError, match=says):
                calls.step(0)
    finally:
        released.set()

"""Forecasts: exact where epsilon falls by a power of the episodes, silent where it does not fall."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyreward.exploring.forecast import FEWEST, episodes_for, in_words, is_low


def power_law(p, c=8.0, looks=60, growth=1.1):
    """epsilon = c t^-p at steadily growing numbers of episodes."""
    return [(t, c * t**-p) for t in sorted({math.ceil(growth**i) for i in range(looks)})]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.floats(0.5, 1.5), st.floats(0.1, 100.0), st.floats(1e-4, 0.9))
def test_a_power_law_is_continued_exactly(p, c, share):
    """c t^-p = target where t = (c / target)^(1/p), for p from 1/2 to 3/2."""
    history = power_law(p, c)
    target = share * history[-1][1]
    assert episodes_for(history, target) == pytest.approx((c / target) ** (1 / p), rel=1e-6)


@pytest.mark.parametrize(("p", "taken"), [(0.2, 0.5), (0.06, 0.5), (2.0, 1.5), (5.0, 1.5)])
def test_slopes_that_cannot_last_are_kept_within_bounds(p, taken):
    history = power_law(p)
    (t, e) = history[-1]
    assert episodes_for(history, e / 10) == pytest.approx(t * 10 ** (1 / taken), rel=1e-6)


@pytest.mark.parametrize("p", [0.0, 0.04, -0.3])
def test_what_does_not_fall_has_no_forecast(p):
    assert episodes_for(power_law(p), 1e-3) is None


def test_only_the_last_factor_of_four_counts():
    """It was flat for long and falls now, or the other way round."""
    late = [(t, 6.0) for t in range(1, 1_000, 10)] + [(t, 6.0 * 4_000 / t) for t in range(4_000, 16_001, 200)]
    assert episodes_for(late, 1.0) == pytest.approx(24_000, rel=1e-6)
    early = [(t, 6.0 / t) for t in range(1, 100)] + [(t, 0.05) for t in range(400, 1_601, 50)]
    assert episodes_for(early, 0.01) is None


def test_few_looks_are_taken_to_fall_like_one_over_the_root():
    history = power_law(1.0, looks=200)[-FEWEST + 1 :]
    (t, e) = history[-1]
    assert episodes_for(history, e / 3) == pytest.approx(9 * t)
    assert episodes_for([(100, 4.0)], 2.0) == pytest.approx(400.0)
    assert episodes_for([(1, 4.0), (2, 4.0), (3, 4.0)], 2.0) is None  # it has not begun to fall
    assert episodes_for([(2, 4.0), (3, 3.9)], 2.0) == pytest.approx(3 * 1.95**2)


def test_what_is_reached_is_reached():
    assert episodes_for([(10, 4.0), (50, 1.0)], 1.0) == 50
    assert episodes_for([(10, 4.0), (50, 1.0)], 2.0) == 50


@pytest.mark.parametrize("history", [[], [(0, 4.0)], [(5, 0.0)], [(0, 0.0), (0, 1.0)]])
def test_without_a_look_there_is_no_forecast(history):
    assert episodes_for(history, 1.0) is None


@pytest.mark.parametrize("looks", [3, 60])
@pytest.mark.parametrize("target", [1e-100, 1e-200, 1e-308, 5e-324])
def test_a_target_out_of_reach_is_no_error(looks, target):
    """More episodes than a float can say: unclear, or infinitely many."""
    forecast = episodes_for(power_law(0.5, looks=looks), target)
    assert forecast is None or forecast > 1e100


def test_looks_at_the_same_episode_are_no_slope():
    forecast = episodes_for([(50, 4.0)] * FEWEST, 2.0)
    assert forecast is None or forecast == pytest.approx(200.0)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 100)), max_size=30, unique_by=lambda look: look[0]),
    st.floats(1e-3, 10),
)
def test_any_history_gives_a_number_of_episodes_to_come_or_nothing(history, target):
    history.sort()
    forecast = episodes_for(history, target)
    assert forecast is None or forecast >= max(t for t, e in history if t > 0 and e > 0) * (1 - 1e-12)


@pytest.mark.parametrize(("p", "low"), [(0.5, False), (0.2, False), (0.54, False), (0.6, True), (1.0, True), (3.0, True)])
def test_what_falls_faster_than_it_will_has_a_low_forecast(p, low):
    """In the long run epsilon falls like one over the root."""
    assert is_low(power_law(p)) is low


@pytest.mark.parametrize("history", [[], [(0, 4.0)], [(5, 0.0)], [(100, 4.0)], [(50, 4.0)] * FEWEST])
def test_where_no_slope_is_seen_nothing_is_called_low(history):
    assert not is_low(history)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((230_000.0,), "about 2.3e+05 episodes"),
        ((230_000.0, 1_000.0), "about 2.3e+05 episodes (3.8 min at this rate)"),
        ((80.0, None, True), "about 80 episodes (a low estimate)"),
        ((80.0, 2.0, True, "more"), "about 80 more episodes (40 s at this rate, a low estimate)"),
        ((80.0, 0.0), "about 80 episodes"),
    ],
)
def test_forecasts_in_words(arguments, words):
    assert in_words(*arguments) == words

"""Numbers in words: nothing that is printed says more than the number does."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyreward.words import confidence_level, console, down, interval, up

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite, st.integers(1, 12))
def test_rounding_is_outward_and_by_less_than_a_digit(x, digits):
    above, below = Decimal(up(x, digits)), Decimal(down(x, digits))
    exact = Decimal(repr(x))  # what a reader would type
    assert below <= exact <= above
    assert above - below <= Decimal(1).scaleb(exact.adjusted() - digits + 1) if x else above == below


@pytest.mark.parametrize(
    ("x", "above", "below"),
    [
        (3.97213, "3.973", "3.972"), (0.1, "0.1", "0.1"), (2.0, "2", "2"), (20.0, "20", "20"), (-3.14159, "-3.141", "-3.142"),
        (0.99999, "1", "0.9999"), (1234567.8, "1.235e+06", "1.234e+06"), (1e-13, "1e-13", "1e-13"), (0.0, "0", "0"),
        (123456.7, "123500", "123400"), (float("inf"), "inf", "inf"),
    ],
)  # fmt: skip
def test_numbers_look_as_usual(x, above, below):
    assert (up(x), down(x)) == (above, below)


def test_intervals_open_outward():
    assert interval(1.23456, 2.34567) == "[1.234, 2.346]"


@pytest.mark.parametrize(
    ("delta", "text"), [(0.1, "0.9"), (0.05, "0.95"), (1e-12, "0.999999999999"), (1e-30, "1 - 1e-30"), (1 / 3, "1 - 0.333334")]
)
def test_a_probability_is_never_rounded_up(delta, text):
    assert confidence_level(delta) == text


def test_a_notebook_is_no_terminal(monkeypatch):
    """Rich would display progress with widgets there, and warn if these are not installed."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert not console().is_jupyter

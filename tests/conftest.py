"""What all tests share: Hypothesis runs the same examples every time, and takes as long as a first compilation needs."""

import importlib

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "repeatable", derandomize=True, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")


@pytest.fixture
def quick_look(monkeypatch):
    """The audit before each exploration is not what is tested: a tenth of it does."""
    audit = importlib.import_module("anyreward.exploring.audit")  # not the function of that name
    play = audit._play
    monkeypatch.setattr(audit, "_play", lambda probe, steps, seed: play(probe, steps // 10, seed))

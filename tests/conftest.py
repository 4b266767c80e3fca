"""What all tests share: Hypothesis runs the same examples every time, and takes as long as a first compilation needs.

Time is saved in four ways. The collector of garbage, which would look through thousands of tests again and again while kernels
are compiled, leaves alone what was there when the tests had been collected. Processes that tests start may keep the bytecode of
the modules that they import. Nothing waits for a disk: the power stays on. And `make test` has each of two processes begin at
one half of the list of all tests: the second one begins with tests that compile on their own in any case, while the first one
compiles what all the others need, and goes on with what takes so long that nobody should have to wait for it at the end.
"""

import gc
import importlib
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

gc.disable()  # until the tests are collected
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.fsync = lambda _: None
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")

HERE = Path(__file__).parent
ALONE = [HERE / "kernels" / f"test_{name}.py" for name in ("specialisations", "cache", "compiled")]
LONG = [HERE / "torture" / "test_torture.py"]


def pytest_collection_modifyitems(items):
    first = [item for path in ALONE + LONG for item in items if item.path == path]
    others, half = [item for item in items if item.path not in ALONE + LONG], len(items) // 2
    items[:] = others[:half] + first + others[half:]


def pytest_collection_finish():
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.fixture
def quick_look(monkeypatch):
    """The audit before each exploration is not what is tested: a tenth of it does."""
    audit = importlib.import_module("anyreward.exploring.audit")  # not the function of that name
    play = audit._play
    monkeypatch.setattr(audit, "_play", lambda probe, steps, seed: play(probe, steps // 10, seed))

"""A seeded part of every attack; `make torture` runs the rest."""

from pathlib import Path

import pytest

from .attacks import ATTACKS


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_breaks(name: str, tmp_path: Path) -> None:
    attack, _, tries = ATTACKS[name]
    tally = attack(tries, 1, tmp_path, lambda n: None)
    assert not tally.failures, "\n".join(tally.failures[:20])
    assert tally.tries >= min(tries, 5)

"""Where compiled code is cached, and what happens where that is not possible."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = "from anyreward import kernels; print(kernels.radii.psi_mean(0.25, 8.0))"


def run(cache, before=""):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", before + SCRIPT], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, done.stderr


def test_a_damaged_cache_is_thrown_away(tmp_path):
    """Once, it was a bare UnpicklingError, for ever."""
    value, said = run(tmp_path)
    assert "compiling" in said
    again, said = run(tmp_path)
    assert again == value
    assert "compiling" not in said
    files = [path for path in Path(tmp_path).rglob("*") if path.suffix in (".nbi", ".nbc")]
    assert files
    for path in files:
        path.write_bytes(path.read_bytes()[:40] + b"damage" * 20)
    again, said = run(tmp_path)
    assert again == value
    again, said = run(tmp_path)  # and it is whole again
    assert again == value
    assert "compiling" not in said


def test_without_a_place_for_the_cache_it_works_all_the_same(tmp_path):
    """Numba looks for places one after the other; here there is none."""
    value, said = run(tmp_path, "from numba.core.caching import CacheImpl; CacheImpl._locator_classes = []; ")
    assert float(value) > 0
    assert said.count("compiled code cannot be cached where it should be") == 1
    assert not list(tmp_path.rglob("*.nbi"))

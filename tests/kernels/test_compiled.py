"""Where compiled code is cached, and what happens where that is not possible."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from anyreward.kernels import compiled

from ..helpers.waiting import PATIENCE

SCRIPT = "from anyreward import kernels; print(kernels.radii.psi_mean(0.25, 8.0))"


def run(cache, before=""):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", before + SCRIPT], env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, done.stderr


@pytest.mark.slow
def test_a_damaged_cache_is_thrown_away(tmp_path):
    """Once, it was a bare UnpicklingError, for ever."""
    value, said = run(tmp_path)
    assert "compiling" in said
    files = [path for path in Path(tmp_path).rglob("*") if path.suffix in (".nbi", ".nbc")]
    assert files
    for path in files:
        path.write_bytes(path.read_bytes()[:40] + b"damage" * 20)
    again, said = run(tmp_path)
    assert again == value
    again, said = run(tmp_path)  # and it is whole again, and used
    assert again == value
    assert "compiling" not in said


@pytest.mark.slow
def test_without_a_place_for_the_cache_it_works_all_the_same(tmp_path):
    """A file is no folder: neither the one that was asked for nor one among the temporary files can be made."""
    (tmp_path / "file").touch()
    value, said = run(tmp_path / "file", f"import tempfile; tempfile.tempdir = {str(tmp_path / 'file')!r}; ")
    assert float(value) > 0
    assert said.count("compiled code cannot be cached where it should be") == 1
    assert not list(tmp_path.rglob("*.nbi"))


@pytest.mark.skipif(os.name != "posix", reason="owners and modes are a POSIX matter")
@pytest.mark.parametrize(("mode", "ours"), [(0o700, True), (0o755, True), (0o777, False), (0o720, False)])
def test_a_folder_that_others_can_write_to_is_no_place_for_code(tmp_path, mode, ours):
    """Numba unpickles what lies in its cache: whoever writes there runs code as us."""
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    assert compiled._is_ours(str(folder)) == ours
    (tmp_path / "link").symlink_to(folder)
    assert not compiled._is_ours(str(tmp_path / "link"))
    assert compiled._is_ours(str(tmp_path / "new"))
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700

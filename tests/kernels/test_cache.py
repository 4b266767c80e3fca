"""What is not part of Numba's documented interface can be missing: then kernels compile more slowly and compute the same."""

import os
import pickle
import shutil
import stat
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numba
import pytest

from anyreward.kernels import compiled, parts

ROOT = Path(compiled.__file__).parents[1]
VALUE = "from anyreward import kernels; print(kernels.radii.psi_mean(0.25, 8.0).hex())"
RUN = """
import anyreward as ar
import numpy as np
mdp, rng = ar.envs.double_chain(5), np.random.default_rng(0)
explorer = ar.RFUCRL(mdp.setting(4), bounds="paper", replan="every")
for _ in range(20):
    states, actions = rng.integers(0, 5, (500, 5)), rng.integers(0, 2, (500, 4))
    states[:, 0] = mdp.initial_state
    explorer.tell(states, actions)
    print(explorer.ask().tolist(), float(explorer.error_bound).hex())
"""
NO_OPTIONS = "import numba.core.cpu; numba.core.cpu.CPUTargetOptions = object\n"
NO_PARTS = """
from numba.core import compiler, typed_passes
del typed_passes.NativeLowering
"""
NO_CLASSES = "import numba.core.caching; del numba.core.caching.CompileResultCacheImpl\n"
NO_ATTRIBUTE = """
import numba.core.caching
class Renamed(numba.core.caching.FunctionCache):
    @property
    def cache_path(self):
        return "elsewhere"
numba.core.caching.FunctionCache = Renamed
"""
NO_WRITING = """
import filelock
def refuse(*_, **__):
    raise PermissionError("read-only")
filelock.FileLock = refuse
"""
WARNING = "compiled code cannot be cached where it should be: it is compiled again in every process."


def run(script, cache, **environment):
    settings = {**os.environ, "NUMBA_CACHE_DIR": str(cache), **environment}
    done = subprocess.run([sys.executable, "-c", script], env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, done.stderr


def cached(folder):
    return sorted(path.name for path in Path(folder).rglob("*.nbi"))


def test_everything_is_there_in_the_version_that_is_pinned():
    assert compiled.LOOP == {"_nrt": False}
    assert compiled.INLINED == {"_nrt": False, "forceinline": True}
    assert compiled.BARE == {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    assert compiled.WHOLE == {"no_cfunc_wrapper": True}
    assert {**compiled.BARE, "pipeline_class": parts.PartCompiler} == compiled.PART
    assert compiled._can_be_cached()


def test_parts_have_no_machine_code_of_their_own(tmp_path):
    """Whole kernels have. What this leaves out is a sixth of the time of a first use."""
    script = """
from anyreward.kernels import parts
from numba.core.codegen import JITCodeLibrary
wholes, made, finalize = [], [], JITCodeLibrary._finalize_specific
JITCodeLibrary._finalize_specific = lambda self: (wholes.append(type(self)), finalize(self))[1]
parts.PartLibrary.__init__ = lambda self, *about: (made.append(self), JITCodeLibrary.__init__(self, *about))[1]
from anyreward import kernels
kernels.radii.psi_mean(0.25, 8.0)
print(len(made), len(wholes), parts.PartLibrary in wholes)
"""
    made, wholes, some = run(script, tmp_path)[0].split()
    assert int(made) > 1
    assert int(wholes) >= 1
    assert some == "False"


@pytest.mark.slow
def test_without_parts_of_their_own_kind_results_are_the_same(tmp_path):
    usual, _ = run(RUN, tmp_path)
    plain, said = run(NO_PARTS + RUN, tmp_path)
    assert plain == usual
    assert "compiling" in said
    assert len(list(tmp_path.iterdir())) == 2


def test_parts_on_disk_are_linked_into_kernels_that_come_later(tmp_path):
    """Where only the whole kernel is missing, no part is compiled again."""
    script = f"""
from anyreward.kernels import compiled
with compiled.counted() as names:
    {VALUE}
print(len(names))
"""
    value, parts_made = run(script, tmp_path)[0].split()
    for folder in tmp_path.glob("*/whole"):
        shutil.rmtree(folder)
    again, made_again = run(script, tmp_path)[0].split()
    assert again == value
    assert int(parts_made) > 1
    assert int(made_again) == 0
    assert list(tmp_path.glob("*/whole/*"))  # it was compiled


def test_options_of_numba_are_left_as_they_were():
    before = os.environ.get("NUMBA_CACHE_DIR", "")
    assert before == numba.config.CACHE_DIR


@pytest.mark.slow
def test_without_the_options_and_the_cache_results_are_the_same(tmp_path):
    usual = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=True).stdout  # from the cache
    plain, said = run(NO_OPTIONS + NO_CLASSES + RUN, tmp_path / "plain")
    assert plain == usual
    assert len(usual.splitlines()) == 20
    assert said.count(WARNING) == 1
    assert not cached(tmp_path / "plain")


@pytest.mark.parametrize("missing", [NO_CLASSES, NO_ATTRIBUTE], ids=["classes", "folder"])
def test_a_cache_that_is_made_in_another_way_is_not_used(tmp_path, missing):
    value, said = run(missing + VALUE, tmp_path)
    assert float.fromhex(value) > 0
    assert said.count(WARNING) == 1
    assert not cached(tmp_path)


def test_code_with_other_options_lies_in_another_folder(tmp_path):
    usual, _ = run(VALUE, tmp_path)
    plain, said = run(NO_OPTIONS + VALUE, tmp_path)
    assert plain == usual
    assert "compiling" in said
    assert len(list(tmp_path.iterdir())) == 2


def test_a_temporary_folder_serves_with_one_warning(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "temporary").mkdir()
    before = f"import tempfile; tempfile.tempdir = {str(tmp_path / 'temporary')!r}\n"
    value, said = run(before + VALUE, tmp_path / "file")
    assert said.count("compiled code cannot be cached where it should be") == 1
    assert cached(tmp_path / "temporary")
    again, said = run(before + VALUE, tmp_path / "file")
    assert again == value
    assert "compiling" not in said


@pytest.mark.slow
def test_a_cache_that_can_only_be_read_is_read_and_nothing_is_said(tmp_path):
    """It was passed over once, and everything was compiled again: in containers, for all but the user who had installed it."""
    value, _ = run(VALUE, tmp_path)
    again, said = run(NO_WRITING + VALUE, tmp_path)
    assert again == value
    assert not said
    other, said = run(NO_WRITING + VALUE.replace("8.0", "8"), tmp_path)  # for other types it is compiled, and not kept
    assert other == value
    assert said.count(WARNING) == 1


def copied(folder):
    """A copy of the package, which is another installation of the same version."""
    shutil.copytree(ROOT, folder / "anyreward", ignore=shutil.ignore_patterns("__pycache__"))
    return {"PYTHONPATH": str(folder)}


@pytest.mark.slow
def test_installations_of_one_version_share_a_folder(tmp_path):
    one, other = copied(tmp_path / "one"), copied(tmp_path / "other")
    value, said = run(VALUE, tmp_path / "cache", **one)
    assert "compiling" in said
    again, said = run(VALUE, tmp_path / "cache", **other)
    assert again == value
    assert not said


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="modes are a POSIX matter")
def test_code_in_a_folder_of_the_user_that_others_can_write_to_is_not_run(tmp_path):
    """Numba unpickles what lies in its cache: whoever writes there would run code as us."""
    package = copied(tmp_path / "package")
    (tmp_path / "package" / "anyreward" / "kernels" / "__pycache__").touch()  # no folder: nothing can be cached there
    home = {**package, "XDG_CACHE_HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "temporary")}
    (tmp_path / "temporary").mkdir()
    value, said = run(VALUE, "", **home)
    folder = tmp_path / "home" / "anyreward"
    assert "compiling" in said
    assert cached(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert run(VALUE, "", **home) == (value, "")
    for index in folder.rglob("*.nbi"):
        index.write_bytes(pickle.dumps(Evil()))
    _, said = run(VALUE, "", **home)
    assert "run from the cache" in said  # in a folder of ours alone it is trusted, which shows that the file is read
    for index in folder.rglob("*.nbi"):
        index.write_bytes(pickle.dumps(Evil()))
    folder.chmod(0o777)
    again, said = run(VALUE, "", **home)
    assert again == value
    assert "run from the cache" not in said
    assert said.count("compiled code cannot be cached where it should be") == 1  # a temporary folder serves


class Evil:
    """Writes to stderr when it is unpickled."""

    def __reduce__(self):
        return os.write, (2, b"run from the cache")


SLOW_WRITING = """
import time
from numba.core.caching import IndexDataCacheFile
quickly = IndexDataCacheFile._save_index
def slowly(self, overloads):
    time.sleep(1 if self._index_name.startswith("radii.psi_mean") else 0)
    quickly(self, overloads)
IndexDataCacheFile._save_index = slowly
"""


@pytest.mark.slow
def test_processes_that_compile_at_the_same_time_lose_nothing(tmp_path):
    """Numba reads, changes and writes one index for each function; without a lock, the last process would win."""
    scripts = [VALUE, VALUE.replace("8.0", "8")]  # two lists of types
    settings = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    running = [subprocess.Popen([sys.executable, "-c", SLOW_WRITING + script], env=settings) for script in scripts]
    assert [process.wait() for process in running] == [0, 0]
    for script in scripts:
        assert "compiling" not in run(script, tmp_path)[1]


def test_without_numba_nothing_is_cached_and_nothing_is_said(tmp_path):
    value, said = run(VALUE, tmp_path, NUMBA_DISABLE_JIT="1")
    assert float.fromhex(value) > 0
    assert not said
    assert not cached(tmp_path)


@pytest.mark.slow
def test_a_change_in_any_file_that_is_compiled_makes_another_folder(tmp_path):
    """Also one in a file whose functions are only called from the others."""
    copy = tmp_path / "src" / "anyreward"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    script = "from anyreward.kernels import compiled; print(compiled.VERSION, compiled.__file__)"
    version, where = run(script, tmp_path / "cache", PYTHONPATH=str(tmp_path / "src"))[0].split()
    assert version == compiled.VERSION
    assert Path(where).is_relative_to(tmp_path)
    for changed in ("kernels/greedy.py", "algorithms/ucbvi.py", "certificates/thresholds.py"):
        text = (copy / changed).read_text()
        (copy / changed).write_text(text + "# changed\n")
        assert run(script, tmp_path / "cache", PYTHONPATH=str(tmp_path / "src"))[0].split()[0] != version
        (copy / changed).write_text(text)


def test_the_version_of_numba_is_capped():
    """What was tried with one version may be different in the next."""
    requirements = [line for line in metadata.requires("anyreward") or [] if line.startswith("numba")]
    assert len(requirements) == 1
    assert "<" in requirements[0]

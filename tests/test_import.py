"""Importing is fast, and compiling happens once."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import anyreward

HEAVY = (
    "numba", "llvmlite", "pyarrow", "matplotlib", "rich", "typer", "scipy", "gymnasium", "pandas", "jinja2", "starlette",
    "uvicorn", "anywidget",
)  # fmt: skip


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_import_is_fast():
    """Below half a second of processor time, which does not depend on what else is running; the best of a few."""
    code = "import time; start = time.process_time(); import anyreward; print(time.process_time() - start)"
    assert min(float(run(code).stdout) for _ in range(3)) < 0.5


def test_import_is_light():
    """What takes long to import is imported when it is used."""
    code = f"import sys, anyreward; print([name for name in {HEAVY} if name in sys.modules])"
    assert run(code).stdout.strip() == "[]"


def test_import_draws_nothing_and_prints_nothing():
    code = "import numpy as np; a = np.random.get_state()[1].tolist(); import anyreward; "
    done = run(code + "assert a == np.random.get_state()[1].tolist()")
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.slow
def test_kernels_are_compiled_once():
    """The first process says so if it compiles; the second finds everything on disk and says nothing.

    With the cache that all tests share: compiling everything anew takes a minute. `kernels/test_compiled.py` begins with none.
    """
    code = (
        "import anyreward as ar; mdp = ar.envs.double_chain(5); "
        "[ar.explore(mdp, 3, max_episodes=20, algorithm='rf-ucrl', bounds='paper', replan=replan, stationary=pooled)"
        " for replan in ('every', 'path') for pooled in (False, True)]; "
        "explorer = ar.RFUCRL(mdp.setting(3), bounds='paper'); explorer.tell(*mdp.rollout(explorer.ask(), 3)); "
        "explorer.index"
    )
    first, second = (run(code) for _ in range(2))
    assert first.stderr.count("compiling") <= 1
    assert second.stderr == ""
    assert first.stdout == second.stdout == ""


def test_names_that_are_promised():
    promised = "Atlas, Certificate, Counts, Explorer, Interval, Plan, RFUCRL, Setting, TabularMDP"
    promised += ", backward_induction, certify, envs, explore, load"
    assert set(promised.split(", ")) <= set(anyreward.__all__)
    assert all(hasattr(anyreward, name) for name in anyreward.__all__)


ROOMS = (
    "setting shared_laws structure words _files _checks executors cancellation", "outline plots pages", "kernels", "data rewards",
    "planning envs", "playing", "certificates theory", "atlas", "algorithms", "environments", "exploring", "studio",
    "testing experiments", "cli __main__",
)  # fmt: skip


def nodes_that_run(tree):
    """All nodes of a module except those for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            yield node
            yield from nodes_that_run(node)


def test_no_room_imports_one_above_it():
    """The map in CONTRIBUTING.md is true: imports lead from a room to itself or to those before it, also inside functions."""
    package = Path(anyreward.__file__).parent
    level = {room: i for i, rooms in enumerate(ROOMS) for room in rooms.split()}
    wrong = []
    for path in package.rglob("*.py"):
        parts = path.relative_to(package).with_suffix("").parts
        if parts == ("__init__",):
            continue
        for node in nodes_that_run(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == len(parts):
                names = [node.module.split(".")[0]] if node.module else [alias.name for alias in node.names]
                wrong += [f"{'/'.join(parts)} imports {name}" for name in names if level.get(name, 0) > level[parts[0]]]
    assert wrong == []


def test_the_studio_is_opened_by_the_command_line_and_by_name_alone():
    """What it needs is optional: no other room imports it."""
    package = Path(anyreward.__file__).parent
    paths = [path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in ("studio", "cli", "__init__.py")]
    assert not [path for path in paths if re.search(r"^\s*(?:from|import) .*\bstudio\b", path.read_text(), re.M)]

"""Compiling beforehand: afterwards no kernel and no formula is left to compile, and a second time there is nothing to do."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import anyreward as ar
from anyreward.kernels import compiled

from ..helpers.waiting import PATIENCE

PACKAGE = Path(ar.__file__).parent
COVERAGE = """
import importlib, json, pkgutil
from anyreward import algorithms, certificates, kernels
from anyreward.exploring import warmup

compiled = warmup.warm_up(False).compiled
modules = [getattr(kernels, name) for name in kernels.__all__]
forms = {f"{m.__name__}.{name}": len(x.signatures) for m in modules for name, x in vars(m).items() if hasattr(x, "signatures")}
methods = "radius", "bonus", "entry", "update"  # a class of formulas has one of these
formulas = {}
for room in (algorithms, certificates):
    for info in pkgutil.iter_modules(room.__path__):
        for name, kind in vars(importlib.import_module(f"{room.__name__}.{info.name}")).items():
            formula = isinstance(kind, type) and issubclass(kind, tuple) and any(hasattr(kind, method) for method in methods)
            if formula and kind.__module__ != "anyreward.kernels.formulas":  # which has what formulas are given
                formulas[name] = "_of_" in kind.__name__  # as kernels call it once they were compiled for it
print(json.dumps([compiled, forms, formulas]))
"""
COMMANDS = """
import json, sys
from anyreward.cli import app

for command in json.load(open(sys.argv[1])):
    print(command, file=sys.stderr)
    try:
        app(command)
    except SystemExit as end:
        if end.code not in (None, 0, 3):
            raise
"""
IN_FORMULAS = {"table.row_of", "greedy.settle", "escape.escape"}  # called from methods that are compiled, and not from Python


def run(*command, code=0, **environment):
    settings = {**os.environ, **environment}
    done = subprocess.run([sys.executable, *command], env=settings, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == code, done.stderr[-2000:]
    return done


def called_from_python():
    """All that this package calls of its kernels by their full names, and the two that it asks for by their short names."""
    text = "".join(path.read_text() for path in PACKAGE.rglob("*.py") if path.parent.name != "kernels")
    found = {f"{module}.{name}" for module, name in re.findall(r"\bkernels\.(\w+)\.(\w+)\(", text)}
    found |= {f"{module}.{name}" for module, name in re.findall(r"getattr\(kernels\.(\w+), (\w+)\)", text)}
    return found


WARM = "-m", "anyreward", "warmup"


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A copy of a cache in which everything is compiled, and the settings of a process that uses it."""
    first = run(*WARM).stdout
    assert re.match(r"compiled [\d,]+ functions? in |everything was compiled already", first)
    folder = Path(re.search("^cache: (.*)$", first, re.M)[1])
    assert folder.name == f"anyreward-{compiled.VERSION}"
    place = tmp_path_factory.mktemp("cache")
    shutil.copytree(folder, place / folder.name)
    return place / folder.name, {"NUMBA_CACHE_DIR": str(place), "XDG_CACHE_HOME": str(place), "TMPDIR": str(place)}


@pytest.mark.slow
def test_every_kernel_and_every_formula_is_compiled(warm):
    """One that is missing in the cache, that is, with those of its parts that are nowhere else; and all are loaded."""
    folder, cache = warm
    for path in (folder / "whole").glob("robust.values*"):
        path.unlink()
    again, forms, formulas = json.loads(run("-c", COVERAGE, **cache).stdout)
    assert 0 < again < 60
    assert json.loads(run(*WARM, "--json", **cache).stdout)["compiled"] == 0
    kernels = {f"anyreward.kernels.{name}" for name in called_from_python() - IN_FORMULAS} & set(forms)
    assert len(kernels) > 25
    assert not sorted(name for name in kernels if not forms[name])
    for name in ("loop.run", "loop.learn"):  # one for each learner and its formulas
        assert forms[f"anyreward.kernels.{name}"] >= len(formulas)
    assert len(formulas) >= 12
    assert all(formulas.values()), formulas


@pytest.mark.slow
def test_the_second_time_everything_is_compiled_already(warm, tmp_path):
    folder, cache = warm
    again = run(*WARM, **cache)
    assert again.stdout == f"everything was compiled already\ncache: {folder}\n"
    assert not again.stderr
    assert run(*WARM, "--quiet", **cache).stdout == ""

    atlas, ucbvi, plan = tmp_path / "chain.atlas", tmp_path / "u.atlas", ("--reward", "state == 3")
    chain = ("double-chain", "--env-arg", "length=5", "--horizon", 4)
    commands = (
        ("explore", *chain, "--max-episodes", 200, "--stationary", "--out", atlas),
        ("plan", atlas, *plan, "--cautious"),
        ("plan", atlas, "--reward", "next == 3"),
        ("info", atlas),
        ("verify", atlas, "double-chain", *plan, "--env-arg", "length=5", "--episodes", 20),
        ("explore", *chain, "--max-episodes", 200, "--stationary", "--seed", 1, "--out", tmp_path / "other.atlas"),
        ("merge", atlas, tmp_path / "other.atlas", "--out", tmp_path / "both.atlas"),
        ("explore", *chain, "--algorithm", "bpi-ucrl", "--max-episodes", 200, "--out", tmp_path / "bpi.atlas"),
        ("explore", *chain, *("--algorithm", "ucbvi", "--option", "bonus=hoeffding"), *("--max-episodes", 200, "--out", ucbvi)),
        ("explore", "FrozenLake-v1", "--horizon", 5, "--max-episodes", 50, "--out", tmp_path / "lake.atlas"),
        ("plan", tmp_path / "lake.atlas", "--reward", "own"),
        ("audit", "FrozenLake-v1", "--horizon", 5, "--epsilon", 2),
    )
    (tmp_path / "commands.json").write_text(json.dumps([[str(word) for word in command] for command in commands]))
    assert "compiling" not in run("-c", COMMANDS, tmp_path / "commands.json", **cache).stderr

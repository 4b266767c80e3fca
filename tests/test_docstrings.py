"""The examples in the docstrings of what is public run as they are, with smaller budgets, in the double chain."""

import inspect
import json
import pydoc
import re
import textwrap
from ast import literal_eval
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas
import pytest
from gymnasium.spaces import Dict, Discrete

import anyreward

ROOT = Path(__file__).parents[1]
FORMULAS = (
    "lower <= ",
    "every state with ",
    "value.lower <= ",
    "the true expected sum",
    "H = log(",
    "beta(n, delta) =",
    "by step  ",
)
NOT_RUN = ("ar.studio(", "from anyreward.testing", "check_explorer(", "@pytest")  # what tests/studio and tests/contracts do
SMALLER = {
    "epsilon=2.0": "epsilon=8.0",
    "max_seconds=60": "max_seconds=0.1",
    "step=...": "step=lambda q, s: min(q + (s == 30), 2)",
    "env.observation_space": "parts",
}
LISTS = ("Parameters", "Attributes", "Returns", "Raises")


def shown():
    """What the pages of the reference show: names and objects, with the members that are listed, or else all public ones."""
    for page in sorted((ROOT / "docs" / "reference").glob("*.md")):
        module = ""
        for line, options in re.findall(r"^\.\. ((?:auto|current)\w+:: \S+)((?:\n   .*)*)", page.read_text(), re.M):
            what, name = line.split(":: ")
            if what == "currentmodule":
                module = name
                continue
            path = name if name.startswith("anyreward") else f"{module}.{name}"
            value = import_module(path) if what == "automodule" else pydoc.locate(path)
            assert value is not None, f"{page.name} shows {path}, which does not exist"
            yield path.removeprefix("anyreward."), value
            members = re.search(r":members:((?:[^:]|\n {4,})*)", options)
            for member in [] if members is None else re.findall(r"\w+", members[1]) or public_members(value):
                yield f"{path.removeprefix('anyreward.')}.{member}", inspect.getattr_static(value, member)


def public_members(value):
    """What autodoc shows of a class or module: its own members that have a docstring."""
    own = getattr(value, "__all__", vars(value))
    return [
        name
        for name in own
        if not name.startswith("_")
        and inspect.getdoc(vars(value)[name])
        and (not inspect.ismodule(value) or getattr(vars(value)[name], "__module__", None) == value.__name__)
        and (callable(vars(value)[name]) or hasattr(vars(value)[name], "__get__"))
    ]


def examples(text):
    """The indented blocks of a docstring, without those that say what parameters are."""
    lines, found, block, listing = text.splitlines(), [], [], False
    for i, line in enumerate(lines):
        if i + 1 < len(lines) and re.fullmatch("-{3,}", lines[i + 1]):
            listing = line in LISTS
        if not listing and line.startswith("    ") and (block or i == 0 or not lines[i - 1].strip()):
            block.append(line)
        elif line.strip() and block:
            found.append(block)
            block = []
    return [textwrap.dedent("\n".join(block)) for block in [*found, block] if block]


def documented(value):
    """The docstring of what is shown, whatever wraps it."""
    return inspect.getdoc(getattr(value, "__func__", value)) or ""


SHOWN = {"anyreward": anyreward, **dict(shown())}
EXAMPLES = [
    pytest.param(code, id=f"{name}-{i}")
    for name, value in SHOWN.items()
    for i, code in enumerate(examples(documented(value)))
    if not code.startswith((*FORMULAS, *NOT_RUN))
]


@pytest.fixture(scope="module")
def world():
    """What the examples name."""
    env = anyreward.envs.double_chain()
    atlas = anyreward.explore(env, horizon=20, max_episodes=1_500, structure="own")
    reward = env.reward
    plan, other = atlas.plan(reward), atlas.plan("state == 0")
    setting = anyreward.Setting(n_states=31, n_actions=2, horizon=20, initial_state=15)
    states, actions = env.rollout(plan.policy, episodes=50)
    rows = [(e, h, states[e, h], actions[e, h], states[e, h + 1], 0.5) for e in range(50) for h in range(20)]
    log = dict(zip(("id", "t", "where", "what", "then", "paid"), map(list, zip(*rows, strict=True)), strict=True))
    short = {name: [x for x, t in zip(column, log["t"], strict=True) if t < 5] for name, column in log.items()}

    def after(i, j, arrived, served):
        return 10 * min(i + arrived - (served and i > 0), 9) + min(j + (served and i > 0), 9)

    counts = anyreward.Counts.from_episodes(states, actions, setting)
    return {
        "np": np, "pandas": pandas, "json": json, "mean_interval": anyreward.certificates.betting.mean_interval,
        "counts": counts, "certificate": anyreward.certify(counts), "explorer": anyreward.RFTrajectory(setting),
        "curve": atlas.trade_off(reward, "state == 0", points=3),
        "anyreward": anyreward, **{name: getattr(anyreward, name) for name in anyreward.__all__},
        "tau_bound": anyreward.theory.tau_bound, "env": env, "mdp": env, "P": env.dense(), "atlas": atlas, "other_atlas": atlas,
        "reward": reward, "plan": plan, "other": other, "policy": plan.policy, "observation": 15, "step": 0, "setting": setting,
        "states": states, "actions": actions, "df": short, "log": log, "after": after,
        "parts": Dict({"wear": Discrete(3), "stock": Discrete(4)}),
        "new_counts": anyreward.explore(env, horizon=20, max_episodes=100, stationary=True, seed=3).counts.with_structure(
            atlas.counts.setting.structure
        ),
    }  # fmt: skip


def test_everything_that_is_called_has_an_example():
    """Classes, functions and methods. Attributes are shown by those of their class."""
    called = {name: documented(value) for name, value in SHOWN.items() if callable(getattr(value, "__func__", value))}
    assert len(called) >= 90
    without = {name for name, text in called.items() if not [code for code in examples(text) if not code.startswith(FORMULAS)]}
    assert without == set()


def test_everything_public_is_shown():
    tables = {"ALGORITHMS", "envs", "theory"}
    assert {name for name in anyreward.__all__ if name not in tables and name not in SHOWN} <= {"studio"}
    assert {f"envs.{made.__name__}" for made in anyreward.envs.ENVIRONMENTS.values()} <= set(SHOWN)


SAID = re.compile(r"^(\S.*?)\s{2,}# (True|-?\d+(?:\.\d+)?|\"[^\"]*\")(?:$|[:;,] )", re.M)  # an expression, and what it is


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs(code, world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    for said, meant in SMALLER.items():
        code = code.replace(said, meant)
    if "other_atlas" in code:
        code = code.replace("other_atlas", "anyreward.explore(env, horizon=20, epsilon=8.0, seed=1)")
    names = dict(world)
    exec(compile(code, "<example>", "exec"), names)
    for expression, value in SAID.findall(code):
        assert eval(expression, names) == pytest.approx(literal_eval(value)), expression
    for certificate in (names.get("certificate"), names["atlas"].certificate):
        assert certificate is None or np.isfinite(certificate.epsilon)

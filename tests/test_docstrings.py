"""The examples in the docstrings of what is public run as they are, with smaller budgets, in the double chain."""

import inspect
import re
import textwrap

import numpy as np
import pytest
from gymnasium.spaces import Dict, Discrete

import anyreward

NOT_RUN = ("lower <= true value", "H = log(", "ar.studio(")  # formulas; what opens a page, which tests/studio does
SMALLER = {
    "epsilon=2.0": "epsilon=8.0",
    "max_seconds=60": "max_seconds=0.1",
    "step=...": "step=lambda q, s: min(q + (s == 30), 2)",
    "env.observation_space": "parts",
}
LISTS = ("Parameters", "Attributes", "Returns", "Raises")


def public():
    """Everything in `anyreward.__all__`, with the methods of its classes, by name."""
    yield "anyreward", anyreward
    for name in anyreward.__all__:
        value = getattr(anyreward, name)
        yield name, value
        if inspect.isclass(value):
            for method, it in vars(value).items():
                if not method.startswith("_"):
                    yield f"{name}.{method}", getattr(it, "__func__", it)


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


EXAMPLES = [
    pytest.param(code, id=f"{name}-{i}")
    for name, value in public()
    for i, code in enumerate(examples(inspect.getdoc(value) or ""))
    if not code.startswith(NOT_RUN)
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

    return {
        "anyreward": anyreward, **{name: getattr(anyreward, name) for name in anyreward.__all__},
        "tau_bound": anyreward.theory.tau_bound, "env": env, "mdp": env, "P": env.dense(), "atlas": atlas, "other_atlas": atlas,
        "reward": reward, "plan": plan, "other": other, "policy": plan.policy, "observation": 15, "step": 0, "setting": setting,
        "states": states, "actions": actions, "df": short, "log": log, "after": after,
        "parts": Dict({"wear": Discrete(3), "stock": Discrete(4)}),
        "new_counts": anyreward.explore(env, horizon=20, max_episodes=100, stationary=True, seed=3).counts.with_structure(
            atlas.counts.setting.structure
        ),
    }  # fmt: skip


def test_there_are_examples():
    assert len(EXAMPLES) >= 20


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs(code, world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for said, meant in SMALLER.items():
        code = code.replace(said, meant)
    if "other_atlas" in code:
        code = code.replace("other_atlas", "anyreward.explore(env, horizon=20, epsilon=8.0, seed=1)")
    names = dict(world)
    exec(compile(code, "<example>", "exec"), names)
    for certificate in (names.get("certificate"), names["atlas"].certificate):
        assert certificate is None or np.isfinite(certificate.epsilon)

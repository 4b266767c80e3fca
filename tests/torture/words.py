"""Words from outside: sweep files, reward files, and names, options and expressions on the command line."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import anyreward as ar
from anyreward.experiments import sweep
from anyreward.rewards.files import read_reward

from . import Broken, Tally, in_processes

TOML = {
    "name": '"small"',
    "seeds": "2",
    "seed": "0",
    "algorithms": '["rf-trajectory", "ucbvi:scale=0.01", "random"]',
    "environments": '["double-chain", { name = "grid-world", rows = 3, cols = 3, start = [1, 1], goal = [2, 2] }]',
    "parameters.horizon": "4",
    "parameters.max_episodes": "60",
    "parameters.stationary": "[false, true]",
    "parameters.epsilon": "[1.0, 2]",
    "parameters.delta": "0.1",
}
TOML_VALUES = (
    "1", "-1", "0", "1.5", "nan", "inf", "-inf", "true", "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z",
    '""', '"x"', "[]", "{}",
    "[[[[]]]]", "[1, 'a', 2020-01-01]", "9223372036854775807", "0x" + "f" * 5000, "1" + "0" * 300, "1e400",
    "'../escaped'", "'a/b'",
    "'\u202e'", '"\\u001b[2J"', "'[link=x]a[/b]'", "'" + "x" * 50_000 + "'", "[" * 900 + "]" * 900, "[" * 9000 + "]" * 9000,
    "{ name = 'double-chain', length = 1000000000 }", "[{ name = 'garnet', n_states = 100000, n_actions = 9, branching = 2 }]",
    "['ucbvi:scale=((((((', 'random']", "['rf-ucrl:replan=\"never\"']", "['random:seed=3']", "['bpi-ucrl:reward=None']", "[[1]]",
    "[" + ", ".join(str(i) for i in range(3000)) + "]", "[1.0, 'x']", "{ a.b.c = 1 }", "'''\n'''", "[100000000]", "[7, 7]",
)  # fmt: skip
TOKENS = (
    "state", "action", "step", "next", "horizon", "==", "<=", "+", "-", "*", "/", "%", "**", "(", ")", "and", "or",
    "not", "min", "max",
    "abs", ",", "0", "1", "3", "1e308", "1e-320", "9" * 400, "if", "else", "lambda", "import", "__import__('os')", ".",
    "[0]", "{}", "x",
    "'a'", "\x1b[31m", "\n", "\x00", "é", "\u202e", "[link=https://x]", "[/b]", ":", ";", "=", "~", "<<", "@",
    "(" * 300, "-" * 900,
)  # fmt: skip
NAMES = (
    "", ".", "..", "/", "\x1b[2J", "[bold]x[/bold]", "[link=https://x]y[/link]", "a[/b]", "=cmd|' /C calc'!A0",
    "x" * 10_000, "\ud800x",
    "\x00", "é\u202e", "module:Env-v0", "FrozenLake-v999", "double-chain ", "NoSuch-v0", "-x", "--", "%s%n", "{0}",
    "$(id)", "\n", "a\nb",
)  # fmt: skip


def sweeps(tries: int, seed: int, folder: Path, tick: Callable[[int], None]) -> Tally:
    """Sweep files with entries that are missing, repeated, of the wrong kind, too many or too large."""
    tally = Tally(
        "A sweep file is refused in one sentence before anything runs, or every cell of it can be run",
        "TOML files with entries that are missing, misspelt, of the wrong kind, too many, too deep, too large, or damaged bytes",
    )
    path = folder / "sweep.toml"

    def attempt(number: int) -> str:
        rng = np.random.default_rng([seed, 3, number])
        entries = dict(TOML)
        for _ in range(int(rng.choice([0, 1, 1, 1, 2, 3]))):
            key = str(rng.choice(list(entries)))
            kind = int(rng.integers(5))
            if kind == 0:
                del entries[key]
            elif kind == 1:
                entries[str(rng.choice(["x", "parameters.x", "parameters", "parameters.horizon.y", '"" ', "名", key + "s"]))] = (
                    entries[key]
                )
            else:
                entries[key] = str(rng.choice(np.array(TOML_VALUES, dtype=object)))
        content = "\n".join(f"{key} = {value}" for key, value in entries.items()).encode("utf-8", "surrogatepass")
        if rng.random() < 0.1:
            at = int(rng.integers(len(content)))
            content = content[:at] + rng.bytes(int(rng.integers(4))) + content[at + 1 :]
        path.write_bytes(content)
        config = sweep.load_config(path)
        for cell in sweep.cells(config)[:: max(1, len(sweep.cells(config)) // 2)][:2]:
            if json.loads(cell.parameters).get("max_episodes", 10**9) <= 100:
                sweep.run_cell(cell)
        return "taken"

    return in_processes(tally, range(tries), attempt, tick)


def rewards(tries: int, seed: int, folder: Path, tick: Callable[[int], None]) -> Tally:
    """Reward files of every kind."""
    tally = Tally(
        "A reward file is refused in one sentence, or is a reward whose plan has its value inside its interval",
        "CSV, JSON and NumPy files with wrong shapes, kinds, headers, numbers, nesting, encodings, or damaged bytes",
    )
    atlas = ar.explore(ar.envs.double_chain(5), 4, max_episodes=60, arrival_rewards=True)
    setting = atlas.counts.setting
    atlas.plan("next == 3")

    def attempt(number: int) -> str:
        rng = np.random.default_rng([seed, 4, number])
        ending = (".csv", ".json", ".npy")[number % 3]
        path = folder / f"reward{ending}"
        content = {".csv": _csv, ".json": _json, ".npy": _npy}[ending](rng)
        if rng.random() < 0.3:
            at = int(rng.integers(len(content) + 1))
            content = content[:at] + rng.bytes(int(rng.integers(6))) + content[at + int(rng.integers(6)) :]
        path.write_bytes(content)
        reward = read_reward(str(path), setting)
        plan = atlas.plan(reward, reward_range=(0.0, 1.0) if rng.random() < 0.5 else None)
        if not plan.lower - 1e-9 <= plan.value <= plan.upper + 1e-9:
            raise Broken(f"the value {plan.value} is not in [{plan.lower}, {plan.upper}]")
        return "taken"

    return in_processes(tally, range(tries), attempt, tick)


def _csv(rng: np.random.Generator) -> bytes:
    columns = [name for name in ("h", "s", "a", "next", "reward", "x", "") if rng.random() < (0.1 if name in ("x", "") else 0.6)]
    sizes = {"h": 4, "s": 5, "a": 2, "next": 5}
    lines = [",".join(columns)]
    for _ in range(int(rng.integers(6))):
        cells = [str(rng.random()) if name not in sizes else str(int(rng.integers(sizes[name]))) for name in columns]
        if cells and rng.random() < 0.2:
            odd = ["nan", "inf", "-1", "1e999", "x", "", '"', "1_0", "0x3", "９", "9" * 500, " 1 "]
            cells[int(rng.integers(len(cells)))] = str(rng.choice(odd))
        lines.append(",".join(cells))
    return str(rng.choice(["\n", "\r\n", "\r"])).join(lines).encode(str(rng.choice(["utf-8", "utf-16", "utf-8-sig"])))


def _json(rng: np.random.Generator) -> bytes:
    odd = [None, True, "x", "1", 1e400, -1, 10**400, [], {}, [[1]], {"reward": 1}]

    def value() -> Any:
        return float(rng.random()) if rng.random() < 0.9 else odd[int(rng.integers(len(odd)))]

    kind = int(rng.integers(5))
    shape = [(5,), (5, 2), (4, 5, 2), (5, 2, 5), (3,)][int(rng.integers(5))]
    if kind == 0:
        data: Any = rng.random(shape).tolist()
    elif kind == 1:
        data = {name: [value() for _ in range(3)] for name in ("s", "reward", "a")[: int(rng.integers(1, 4))]}
    elif kind == 2:
        data = [{"s": int(rng.integers(6)), "reward": value()} for _ in range(int(rng.integers(4)))]
    elif kind == 3:
        data = [value() for _ in range(5)]
    else:
        depth = int(rng.choice([10, 900, 100_000]))
        return b"[" * depth + b"1" + b"]" * depth
    return json.dumps(data).encode()


def _npy(rng: np.random.Generator) -> bytes:
    shape = [(5,), (5, 2), (4, 5, 2), (4, 5, 2, 5), (5, 2, 5), (3,), (0,), ()][int(rng.integers(8))]
    kind = str(rng.choice(["f8", "f4", "f2", "i8", "u1", "b1", "c16", "U3", "M8[s]", ">f8"]))
    array = (rng.random(shape) * float(rng.choice([1, 1, 2, 300]))).astype("f8")
    if array.size and rng.random() < 0.2:
        array.reshape(-1)[0] = float(rng.choice([np.nan, np.inf, -1.0]))
    buffer = io.BytesIO()
    with np.errstate(all="ignore"):
        np.save(buffer, np.nan_to_num(array).astype(kind) if kind[0] not in "f>" else array.astype(kind))
    content = buffer.getvalue()
    if rng.random() < 0.2:
        content = content.replace(b"(5, 2)", str(rng.choice(["(5, 9)", "(9**9,", "(-1, 2)", "((((5"])).encode())
    return content


def commands(tries: int, seed: int, folder: Path, tick: Callable[[int], None]) -> Tally:
    """Command lines."""
    from typer.testing import CliRunner

    from anyreward.cli import app

    tally = Tally(
        "A command line ends with one sentence and its exit code, and prints nothing that a terminal would obey",
        "Names, expressions and options with control characters, markup, formulas, nonsense and great length",
    )
    atlas = folder / "good.atlas"
    ar.explore(ar.envs.double_chain(5), 4, max_episodes=60).save(atlas)
    runner = CliRunner()

    def attempt(number: int) -> str:
        rng = np.random.default_rng([seed, 5, number])

        def pick(of: tuple[str, ...], usual: str = "") -> str:
            if usual and rng.random() < 0.5:
                return usual
            return str(of[int(rng.integers(len(of)))])

        plain = ["state == 3", "min(state, 2) / 4", "next == 1 and step < 2", "abs(state - 2) / 3", "action", "state * 2"]
        expression = (
            str(rng.choice(plain))
            if rng.random() < 0.4
            else "".join(pick(TOKENS) + " " * int(rng.integers(2)) for _ in range(int(rng.integers(1, 9))))
        )
        out = folder / "out.atlas"
        out.unlink(missing_ok=True)
        kind = number % 8
        explore = ["explore", "double-chain", "--horizon", "3", "--max-episodes", "8", "--out", str(out)]
        arguments = [
            ["plan", str(atlas), "--reward", expression],
            ["plan", str(atlas), "--reward", expression, "--reward-range", pick(NAMES, "-1,3"), "--json"],
            ["explore", pick(NAMES, "double-chain"), "--horizon", "3", "--max-episodes", "8", "--out", str(out)],
            [*explore, "--env-arg", f"{pick(('length', 'x', ''))}={pick(NAMES, '7')}"],
            [
                *explore,
                "--option",
                f"{pick(('replan', 'clip', 'x'))}={pick(NAMES, 'every')}",
                "--algorithm",
                pick(NAMES, "rf-ucrl"),
            ],
            ["info", pick(NAMES, str(atlas))],
            ["plan", str(atlas), "--reward", "state == 1", "--grid", pick(NAMES, "1x5")],
            [*explore, "--bins", pick(NAMES), "--terminal", pick(NAMES), "--stop", pick(NAMES, "own")],
        ][kind]
        result = runner.invoke(app, arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise Broken(f"{arguments}: {type(result.exception).__name__}: {result.exception}")
        if result.exit_code not in (0, 2, 3):
            raise Broken(f"{arguments}: it ended with {result.exit_code}")
        said = result.output
        if any(ord(c) < 32 and c != "\n" for c in said) or "Traceback" in said:
            raise Broken(f"{arguments}: it prints {said[:200]!r}")
        if result.exit_code == 2 and said.startswith("error") and said.count("\n") > 1:
            raise Broken(f"{arguments}: its error is not one sentence")
        return f"ended with {result.exit_code}"

    return in_processes(tally, range(tries), attempt, tick)

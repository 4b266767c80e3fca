"""Files: damaged bytes, and forgeries with structure that are sealed again with the right checksum."""

from __future__ import annotations

import contextlib
import copy
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import anyreward as ar
from anyreward.atlas import container
from anyreward.certificates.certificate import OBSERVED

from ..helpers.checkpoints import go
from . import Broken, Tally, in_processes

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 255, 2**31 - 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**30, 10**400,
    0.0, -0.0, 0.5, 1e-9, 1e-300, 5e-324, 1e308, -1.5, float("nan"), float("inf"), float("-inf"), "", "x", "tight", "paper",
    "observed", "\x1b[2J", "[link=x]a[/b]", "é" * 50, "x" * 100_000, "../../etc/passwd", "=cmd|' /C calc'!A0", "\x00", "\ud800",
    [], [[]], [0], [None], ["x"], [1, 2, 3], [[0, 1]], [[-1, -1]], {}, {"x": 1}, {"t": [1]}, {"epsilon": 0.0}, [10**30],
)  # fmt: skip
NUMBERS = (0, 1, -1, 2, 3, 127, 255, 2**31 - 1, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63), 10**6)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-300, 1e300, np.nan, np.inf, -np.inf, -1e-12, 5e-324)


def originals(folder: Path) -> list[Path]:
    """Files of every kind that the library writes."""
    made = []
    for name in ("path", "geometric", "bpi random", "frozen lake", "rooms end"):
        made.append(folder / name.replace(" ", "-"))
        go(name, made[-1], max_episodes=96)
    chain = ar.envs.double_chain(4)
    one = ar.identify(chain, "state == 3", 3, max_episodes=60)
    one.save(folder / "one-reward")
    ar.identify(chain, "next == 3", 3, max_episodes=60).save(folder / "arrival")
    a, b = (ar.explore(chain, 3, max_episodes=40, seed=seed, record=True) for seed in (1, 2))
    a.merge(b).save(folder / "merged")
    ar.explore(chain, 3, max_episodes=64, stationary=True, bounds="paper", discount=0.9).save(folder / "paper")
    return [*made, *(folder / name for name in ("one-reward", "arrival", "merged", "paper"))]


def paths_in(tree: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value of a JSON text."""
    found = [at] if at else []
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in entries:
        if not isinstance(tree, list) or key < 3 or key == len(tree) - 1:  # of long lists, the beginning and the end
            found += paths_in(value, (*at, key))
    return found


def change_text(rng: np.random.Generator, about: dict[str, Any], other: dict[str, Any]) -> None:
    """One value of what is said becomes another one, vanishes, moves, or comes from another file."""
    ways = paths_in(about)
    way = ways[int(rng.integers(len(ways)))]
    holder: Any = about
    for key in way[:-1]:
        holder = holder[key]
    key, kind = way[-1], int(rng.integers(6))
    if kind == 0 and isinstance(holder, dict):
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[str(rng.choice(["x", "epsilon", "format", "options", "reward", "known", "delta"]))] = holder[key]
    elif kind == 2:
        there: Any = other
        with contextlib.suppress(LookupError, TypeError):
            for part in way:
                there = there[part]
            holder[key] = there
    elif kind == 3 and isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
        holder[key] = (
            holder[key] * float(rng.choice([0.5, 2, 1e-6, -1])) if rng.random() < 0.5 else holder[key] + int(rng.choice([-1, 1]))
        )
    elif kind == 4 and isinstance(holder[key], list):
        holder[key] = [holder[key][::-1], holder[key] * 2, holder[key][:-1], [holder[key]]][int(rng.integers(4))]
    else:
        holder[key] = copy.deepcopy(VALUES[int(rng.integers(len(VALUES)))])


def change_array(rng: np.random.Generator, arrays: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    """One array becomes longer, shorter, of another kind or shape, or has other numbers in it."""
    name = str(rng.choice(list(arrays)))
    array = arrays[name].copy()
    kind = int(rng.integers(10))
    flat = array.reshape(-1)
    if kind == 0 and array.size:
        flat[int(rng.integers(array.size))] = _number(rng, array.dtype)
    elif kind == 1 and array.size:
        flat[rng.random(array.size) < 0.3] = _number(rng, array.dtype)
    elif kind == 2:
        array = array[: int(rng.integers(len(array) + 1))] if array.ndim else array
    elif kind == 3:
        array = np.concatenate([array, array]) if array.ndim else array
    elif kind == 4:
        array = array[::-1].copy() if array.ndim else array
    elif kind == 5:
        array = array.reshape(-1) if array.ndim > 1 else array[:, None] if array.ndim else array
    elif kind == 6:
        with np.errstate(all="ignore"):
            array = array.astype(str(rng.choice(container.KINDS)))
    elif kind == 7:
        name = str(rng.choice(["state.Q", "reward.values", "paid.keys", "recording.states", "column.evidence", name]))
    elif kind == 8 and array.size > 1:
        i, j = rng.integers(array.size, size=2)
        flat[i], flat[j] = flat[j], flat[i]
    elif name in other:
        array = other[name]
    else:
        del arrays[name]
        return
    arrays[name] = array


def _number(rng: np.random.Generator, kind: np.dtype) -> Any:
    value = rng.choice(FLOATS) if kind.kind == "f" else rng.choice(np.array(NUMBERS, dtype=object))
    if kind.kind == "f":
        return value
    info = np.iinfo(kind)
    return min(max(int(value), info.min), info.max)


def write(path: Path, about: dict[str, Any], arrays: dict[str, np.ndarray], rng: np.random.Generator) -> None:
    """A file that says that, sealed; now and then the places of its arrays lie as well. Without a table, which is not read."""
    places, blob = [], b""
    for name, array in arrays.items():
        places.append([name, array.dtype.str, list(array.shape), len(blob)])
        blob += array.tobytes()
    said: dict[str, Any] = {"about": about, "arrays": places}
    if rng.random() < 0.1:
        change_text(rng, said, {"arrays": places[::-1], "about": {}})
    text = json.dumps(said).encode("utf-8", "surrogatepass")
    lengths = [len(text), len(blob)]
    if rng.random() < 0.02:
        lengths[int(rng.integers(2))] += int(rng.choice([-1, 1, 100, 2**62]))
    content = bytearray(b"PAR1" + text + blob + container.SEAL.pack(*lengths, bytes(32), container.MAGIC) + bytes(4) + b"PAR1")
    container.seal(content)
    path.write_bytes(content)


def use(path: Path, call: Callable[[], Any] | None) -> str:
    """Does with a file what people do; what it says must follow from what it holds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        atlas = ar.load(path)
        certificate, counts = atlas.certificate, atlas.counts
        if certificate.every_reward:
            if not certificate.check(counts):
                raise Broken("a certificate was taken that does not follow from the counts")
        elif (certificate.reward == OBSERVED or atlas.reward is None) and (
            certificate.met or not certificate.claimed or "claimed by the file" not in str(certificate)
        ):
            raise Broken("what a file claims without proof is not shown as a claim")
        if not 0 <= certificate.epsilon < np.inf or (certificate.met and certificate.epsilon > (certificate.target or 0)):
            raise Broken(f"epsilon {certificate.epsilon} for {certificate.target}, met: {certificate.met}")
        str(certificate), repr(atlas), certificate.assumptions
        plan = atlas.plan("state == 1")
        if not 0 <= plan.lower <= plan.upper <= certificate.setting.sigma[-1] + 1e-9:
            raise Broken(f"a plan's interval is [{plan.lower}, {plan.upper}]")
        if call is not None:
            call()
    return "taken"


def show(path: Path, folder: Path) -> None:
    """The command line on a file: every command that reads one."""
    from typer.testing import CliRunner

    from anyreward.cli import app

    for arguments in (
        ["info", str(path)],
        ["info", str(path), "--json"],
        ["plan", str(path), "--reward", "state == 1", "--out", str(folder / "policy.csv"), "--html", str(folder / "page.html")],
        ["merge", str(path), str(path), "--out", str(folder / "merged.atlas")],
    ):
        result = CliRunner().invoke(app, arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise Broken(f"{arguments[0]}: {type(result.exception).__name__}: {result.exception}")
        if any(ord(c) < 32 and c != "\n" for c in result.output):
            raise Broken(f"{arguments[0]} prints control characters")


def sealed(tries: int, seed: int, folder: Path, tick: Callable[[int], None]) -> Tally:
    """Forgeries."""
    tally = Tally(
        "A file from a stranger is refused in one sentence, or what it says follows from what it holds",
        "Forgeries with structure, sealed again with the right checksum: loaded, planned with, shown, merged, resumed",
    )
    good = originals(folder)
    parts = [container.read(path) for path in good]
    for path in good:  # what has to be compiled is compiled before the clock runs
        use(path, None)
        show(path, folder)

    def attempt(number: int) -> str:
        rng = np.random.default_rng([seed, number])
        which, whence = rng.integers(len(good), size=2)
        (columns, about, arrays), (_, others, strange) = copy.deepcopy(parts[which]), parts[whence]
        arrays = {**{f"column.{name}": column for name, column in columns.items()}, **arrays}
        for _ in range(int(rng.choice([1, 1, 1, 2, 4]))):
            change_text(rng, about, others) if rng.random() < 0.5 else change_array(rng, arrays, strange)
        path = folder / "forged"
        write(path, about, arrays, rng)
        before = path.read_bytes()
        name = good[which].name
        if number % 5 == 0 and name in ("path", "geometric", "bpi-random", "frozen-lake", "rooms-end"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    go(name.replace("-", " "), path, max_episodes=128)
                except ValueError:
                    if path.read_bytes() != before:
                        raise Broken("a file that was refused was changed") from None
                    raise
            return "resumed"
        return use(path, (lambda: show(path, folder)) if number % 20 == 1 else None)

    return in_processes(tally, range(tries), attempt, tick)


def damaged(tries: int, seed: int, folder: Path, tick: Callable[[int], None]) -> Tally:
    """Bytes that were changed, cut, swapped or mixed without a new checksum."""
    tally = Tally(
        "A damaged file is noticed",
        "Bits flipped, stretches cut, zeroed, repeated or taken from another file, under the old checksum",
    )
    contents = [path.read_bytes() for path in originals(folder)]

    def attempt(number: int) -> str:
        rng = np.random.default_rng([seed, 1, number])
        which, whence = rng.integers(len(contents), size=2)
        whole, other, kind = contents[which], contents[whence], number % 8
        a, b = sorted(rng.integers(0, len(whole), 2).tolist())
        flipped = bytearray(whole)
        flipped[a] ^= 1 << int(rng.integers(8))
        content = [
            bytes(flipped), whole[:a], whole[:a] + rng.bytes(b - a) + whole[b:], whole[:a] + bytes(b - a) + whole[b:],
            whole[:a] + whole[b:], whole[:b] + whole[a:], whole[:a] + other[a:], b"PAR1" + rng.bytes(a) + b"PAR1",
        ][kind]  # fmt: skip
        if content in contents:
            return "unchanged"
        path = folder / "damaged"
        path.write_bytes(content)
        ar.load(path)
        raise Broken("damage was not noticed")

    return in_processes(tally, range(tries), attempt, tick)

"""Rewards from CSV, JSON and NumPy files. Nothing in a file is executed, and all of its contents are checked."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from .._files import read_file
from ..data.numbering import Numbering
from ..setting import Setting
from .forms import Reward

ENDINGS = (".csv", ".json", ".npy")
MAX_ROWS = 10**7  # of a table on arrival
# The largest files in bytes: of CSV and JSON, which need much more memory once they are parsed, and of arrays.
MAX_TEXT_BYTES, MAX_BYTES = 2**25, 2**31
COLUMNS = ("h", "s", "a", "next", "reward", "state", "action")
NAMED = {"state": "s", "action": "a"}  # columns of names, and those of numbers that they stand for


def read_reward(source: str, setting: Setting, numbering: Numbering | None = None) -> Reward:
    """A reward from a file, chosen by its ending; a text with another ending is returned unchanged, as an expression.

    - `.npy` holds an array: (S,), (S, A) or (H, S, A), or one on arrival, (S, A, S) or (H, S, A, S).
    - `.json` holds the same as nested lists, or a table: an object of columns, or a list of objects.
    - `.csv` holds a table with a header.

    A table has the column `reward` and any of `h`, `s`, `a` and `next`. A row sets the reward of what it names, for all values of
    the columns that are missing. Whatever no row names pays 0. The columns `state` and `action` are names in place of the numbers
    `s` and `a`, and `next` may hold names as well (`numbering`).
    """
    path = Path(source)
    if path.suffix.lower() not in ENDINGS:
        return source
    most = MAX_BYTES if path.suffix.lower() == ".npy" else MAX_TEXT_BYTES
    content = read_file(path, most, "a reward file, or an expression such as 'state == 30', is needed")
    return parse_reward(path, content, setting, numbering)


def parse_reward(path: Path, content: bytes, setting: Setting, numbering: Numbering | None = None) -> Reward:
    """A reward from the contents of a file, whose name says by its ending how to read them. No file is opened."""
    match path.suffix.lower():
        case ".npy":
            with np.errstate(all="ignore"):  # overflow gives inf, which the range check refuses with its position
                return array_from(path, content).astype(float)
        case ".json":
            return _from_json(path, content, setting, numbering)
        case _:
            return _table(path, csv_columns(path, content)[0], setting, numbering)


def array_from(path: Path, content: bytes) -> np.ndarray:
    """The array of numbers in the contents of a .npy file."""
    try:
        stream = io.BytesIO(content)
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, kind = read(stream, max_header_size=10_000)
        if kind.hasobject or kind.kind not in "fiub" or np.prod(shape, dtype=float) * kind.itemsize > len(content):
            raise ValueError
        return np.load(io.BytesIO(content), allow_pickle=False)
    except Exception:  # NumPy's parser raises whatever its parts raise
        raise ValueError(f"{path} is not a readable array of numbers: save one with numpy.save.") from None


def _from_json(path: Path, content: bytes, setting: Setting, numbering: Numbering | None) -> Reward:
    """A reward from the contents of a JSON file."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is not readable JSON.") from None
    if isinstance(data, dict):
        return _table(path, data, setting, numbering)
    if isinstance(data, list) and data and all(isinstance(row, dict) for row in data):
        names = {name for row in data for name in row}
        missing = next((i for i, row in enumerate(data) if set(row) != names), None)
        if missing is not None:
            raise ValueError(f"{path}: entry {missing} does not have the same names as the others.")
        return _table(path, {name: [row[name] for row in data] for name in names}, setting, numbering)
    try:
        array = np.array(data, dtype=float)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise ValueError(f"{path} holds neither nested lists of numbers of equal length nor a table.") from None
    return array


def csv_columns(path: Path, content: bytes) -> tuple[dict[str, list[str]], list[int]]:
    """The columns of a CSV file with a header, by name, and the line of the file in which each row ends."""
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        numbered = [(reader.line_num, row) for row in reader if row]
    except (UnicodeDecodeError, csv.Error):
        raise ValueError(f"{path} is not readable as CSV text.") from None
    if not numbered:
        raise ValueError(f"{path} is empty: it needs a header and lines.")
    rows = [row for _, row in numbered]
    header = [name.strip() for name in rows[0]]
    for i, row in numbered[1:]:
        if len(row) != len(header):
            raise ValueError(f"{path}, line {i}: it has {len(row)} values for {len(header)} columns.")
    if len(set(header)) < len(header):
        raise ValueError(f"{path}: a column appears twice in its header.")
    columns = {name: [row[k] for row in rows[1:]] for k, name in enumerate(header)}
    return columns, [line for line, _ in numbered[1:]]


def _table(path: Path, columns: dict[str, Any], setting: Setting, numbering: Numbering | None) -> Reward:
    """A reward from columns: an array (H, S, A), or a sparse table on arrival if there is a column `next`."""
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown or "reward" not in columns:
        wrong = f"has the column {str(unknown[0])[:40]!r}" if unknown else "has no column 'reward'"
        raise ValueError(f"{path} {wrong}: the columns are reward and any of h, s or state, a or action, and next.")
    lengths = {len(values) if isinstance(values, list) else -1 for values in columns.values()}
    if len(lengths) > 1 or -1 in lengths:
        raise ValueError(f"{path}: its columns have to be lists of equal length.")
    sizes = {"h": setting.horizon, "s": setting.n_states, "a": setting.n_actions, "next": setting.n_states}
    columns = _numbers_of(path, columns, setting, numbering)
    table: dict[str, np.ndarray] = {}
    for name, values in columns.items():
        numbers = np.array([_number(path, name, i, value) for i, value in enumerate(values)], dtype=float)
        if name != "reward":
            bad = np.flatnonzero(~((numbers >= 0) & (numbers < sizes[name]) & (numbers == np.floor(numbers))))
            if len(bad):
                raise ValueError(
                    f"{path}, entry {bad[0]}: {name} is {numbers[bad[0]]:g}, it has to be from 0 to {sizes[name] - 1}."
                )
            numbers = numbers.astype(np.int64)
        table[name] = numbers
    named = [name for name in ("h", "s", "a", "next") if name in table]
    keys = np.stack([table[name] for name in named], axis=1) if named else np.zeros((len(table["reward"]), 0), np.int64)
    if len(np.unique(keys, axis=0)) < len(keys) or (not named and len(keys) > 1):
        raise ValueError(f"{path} sets the same reward twice: each combination may appear once.")
    if "next" in table:
        return _spread(path, table, setting)
    shape = tuple(sizes[name] if name in table else 1 for name in ("h", "s", "a"))
    r = np.zeros(shape)
    nowhere = np.zeros(len(table["reward"]), np.int64)
    r[tuple(table.get(name, nowhere) for name in ("h", "s", "a"))] = table["reward"]
    return np.broadcast_to(r, (setting.horizon, setting.n_states, setting.n_actions))


def _numbers_of(path: Path, columns: dict[str, Any], setting: Setting, numbering: Numbering | None) -> dict[str, Any]:
    """Columns with the numbers of states and actions in place of their names."""
    numbering, found = Numbering.of_setting(setting) if numbering is None else numbering, {}
    for name, values in columns.items():
        kind, key = "action" if name == "action" else "state", NAMED.get(name, name)
        if key != name and key in columns:
            raise ValueError(f"{path} has both the columns {key} and {name}: leave out one of them.")
        texts = [x for x in values if isinstance(x, str) and (key != name or (name == "next" and not _is_number(x)))]
        try:
            numbers = numbering.numbers_of(kind, texts, setting.n_states) if texts else {}
        except ValueError as problem:
            raise ValueError(f"{path}, column {name}: {problem}") from None
        found[key] = [numbers.get(x, x) if isinstance(x, str) else x for x in values]
    return found


def _is_number(text: str) -> bool:
    """Whether a cell is written like a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _spread(path: Path, table: dict[str, np.ndarray], setting: Setting) -> dict[str, np.ndarray]:
    """A sparse table on arrival with columns s and a, whose rows are repeated over all states or actions if one was missing."""
    lacking = [size for name, size in (("s", setting.n_states), ("a", setting.n_actions)) if name not in table]
    if np.prod([len(table["reward"]), *lacking], dtype=float) > MAX_ROWS:
        raise ValueError(f"{path} has too many transitions without columns s and a: name the states and actions that pay.")
    for name, size in (("s", setting.n_states), ("a", setting.n_actions)):
        if name not in table:
            rows = len(table["reward"])
            table = {key: np.repeat(values, size) for key, values in table.items()}
            table[name] = np.tile(np.arange(size), rows)
    return table


def _number(path: Path, name: str, i: int, value: Any) -> float:
    """An entry of a table as a float."""
    try:
        if isinstance(value, bool | list | dict) or value is None:
            raise ValueError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{path}, entry {i}: {name} is {str(value)[:40]!r}, it has to be a number.") from None

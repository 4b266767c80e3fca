"""Policies as files: what `anyreward plan --out` writes, and what `anyreward evaluate --policy` reads."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._files import read_file, replace_file
from ..planning import each_action
from ..rewards.files import MAX_BYTES, MAX_TEXT_BYTES, array_from, csv_columns
from ..setting import nearest, shown

if TYPE_CHECKING:
    from ..kernels.planning import Choice
    from .atlas import Atlas

ENDINGS = (".csv", ".json", ".npy")
COLUMNS = ("h", "s", "a", "state", "action")


def write_policy(path: Path, atlas: Atlas, policy: np.ndarray | Choice) -> None:
    """Writes a policy, (H, S), to a CSV file (`policy_lines`), one step after the other: it is never in memory as a whole."""
    replace_file(path, policy_lines(atlas, policy))


def policy_csv(atlas: Atlas, policy: np.ndarray | Choice) -> str:
    """A policy, (H, S), as the text of a CSV file (`policy_lines`)."""
    return b"".join(policy_lines(atlas, policy)).decode()


def policy_lines(atlas: Atlas, policy: np.ndarray | Choice) -> Iterator[bytes]:
    """A policy, (H, S), as CSV: the header, and then a line for each step h and state s with its action a, a step at a time.

    The columns `state` and `action` are added, with the names of both, if states or actions have names.
    """
    setting, named = atlas.counts.setting, not atlas.numbering.is_plain
    H, S, A = setting.horizon, setting.n_states, setting.n_actions
    rows = policy if isinstance(policy, np.ndarray) else each_action(policy, H, setting.n_outcomes, A)
    states = [as_cell(atlas.state_name(s)) for s in range(S)] if named else []
    actions = [as_cell(atlas.action_name(a)) for a in range(A)] if named else []
    yield as_csv([COLUMNS if named else COLUMNS[:3]])
    for h, row in enumerate(rows):
        taken = row[:S].tolist()
        names = (states, [actions[a] for a in taken]) if named else ()
        yield as_csv(zip(repeat(h, S), range(S), taken, *names, strict=True))


def as_csv(rows: Iterable[Sequence[Any]]) -> bytes:
    """Rows of cells as lines of a CSV file."""
    buffer = io.StringIO()
    csv.writer(buffer).writerows(rows)
    return buffer.getvalue().encode()


def read_policy(path: Path, atlas: Atlas) -> np.ndarray:
    """A policy from a file, chosen by its ending: (H, S) actions, or (H, S, A) probabilities.

    - `.csv` has a header and a line for each step and state, as `write_policy` writes it. States are given by their numbers, `s`,
      or by their names, `state`; actions by `a` or `action`; numbers and names have to agree if both are given. Without a column
      `h`, the policy is the same at every step. The extra state of terminations needs no line.
    - `.npy` and `.json` hold an array, or nested lists, of either shape.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(f"the policy {path} cannot be read: the name has to end in .csv, .json or .npy.")
    content = read_file(path, MAX_BYTES if ending == ".npy" else MAX_TEXT_BYTES, "a file with a policy is needed")
    if ending == ".npy":
        return array_from(path, content)
    if ending == ".csv":
        return _from_csv(path, content, atlas)
    try:
        array = np.array(json.loads(content))
    except (ValueError, RecursionError):
        array = np.array(None)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{path} does not hold nested lists of numbers of equal length.")
    return array


def as_cell(text: str) -> str:
    """A text as a cell of a CSV file; it is quoted if a spreadsheet would take it for a formula."""
    return (
        f"'{text}" if text and text[0] in "=+-@\t\r\n＝＋－＠" and not text.lstrip("+-").replace(".", "", 1).isdigit() else text
    )


def _from_csv(path: Path, content: bytes, atlas: Atlas) -> np.ndarray:
    """A policy from the contents of a CSV file."""
    setting = atlas.counts.setting
    H, S, A = setting.horizon, setting.n_states, setting.n_actions
    columns, lines = csv_columns(path, content)
    unknown = next((name for name in columns if name not in COLUMNS), None)
    if unknown is not None:
        raise ValueError(f"{path} has the column {shown(unknown)}: the columns of a policy are {', '.join(COLUMNS)}.")

    def column(number: str, name: str, size: int, name_of: Callable[[int], str]) -> list[int]:
        """The states or actions of all lines, from the column of numbers, of names, or both."""
        if number not in columns and name not in columns:
            raise ValueError(f"{path} has neither the column {number} nor {name}: the {name} is needed, by number or by name.")
        names = {text: i for i in range(size) for text in (name_of(i), as_cell(name_of(i)))} if name in columns else {}
        found = []
        for i, line in enumerate(lines):
            if number in columns:
                found.append(_whole(path, line, number, columns[number][i], size))
            if name in columns:
                text = columns[name][i]
                if text not in names:
                    raise ValueError(f"{path}, line {line}: there is no {name} {shown(text)}{nearest(text, list(names)[:1000])}.")
                if number in columns and names[text] != found[-1]:
                    raise ValueError(
                        f"{path}, line {line}: {number} is {found[-1]}, but {shown(text)} is the name of {name} {names[text]}: "
                        "change both, or leave out one of the columns."
                    )
                if number not in columns:
                    found.append(names[text])
        return found

    states = column("s", "state", S, atlas.state_name)
    actions = column("a", "action", A, atlas.action_name)
    whole = "h" not in columns  # one line for all steps
    steps = [_whole(path, line, "h", text, H) for line, text in zip(lines, columns.get("h", ["0"] * len(lines)), strict=True)]
    policy = np.full((1 if whole else H, S), -1, dtype=np.int64)
    for line, h, s, a in zip(lines, steps, states, actions, strict=True):
        if policy[h, s] >= 0:
            raise ValueError(f"{path}, line {line}: {_place(h, s, whole, atlas)} has an action already.")
        policy[h, s] = a
    if setting.terminal == "end":  # where nothing is done any more, and nobody has to say what
        policy[:, -1] = np.maximum(policy[:, -1], 0)
    missing = np.argwhere(policy < 0)
    if len(missing):
        h, s = missing[0].tolist()
        raise ValueError(f"{path} has no action for {_place(h, s, whole, atlas)}: every step and state needs one.")
    return np.ascontiguousarray(np.broadcast_to(policy, (H, S)))


def _place(h: int, s: int, whole: bool, atlas: Atlas) -> str:
    """A step and a state in words."""
    name = atlas.state_name(s)
    state = f"state {s}" if name == str(s) else f"state {s} ({name})"
    return state if whole else f"step {h}, {state}"


def _whole(path: Path, line: int, name: str, text: str, size: int) -> int:
    """A number of a CSV file that has to be from 0 to size - 1."""
    number = int(text) if text.strip().isdecimal() and len(text) < 20 else -1
    if not 0 <= number < size:
        raise ValueError(f"{path}, line {line}: {name} is {shown(text)}, it has to be a whole number from 0 to {size - 1}.")
    return number

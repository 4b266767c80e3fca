"""Atlas files with any content and the right checksum."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import anyreward as ar
from anyreward.atlas import container

from .checkpoints import same

Arrays = dict[str, np.ndarray]
Change = Callable[[Arrays, dict[str, Any], Arrays], Any]  # of columns, what is said about them, and arrays


def one_sentence(problem: BaseException, path: str | Path) -> bool:
    text = str(problem)
    assert text.startswith(str(path))
    assert text.endswith(".")
    assert "\n" not in text
    assert len(text) < 600
    return True


def listed(wrong: dict[Any, str]) -> str:
    return "\n".join(f"{name}: {what}" for name, what in wrong.items())


def refused_or_equal(path: str | Path, atlas: ar.Atlas) -> bool:
    """Whether a file was refused, with one sentence; if it was not, then it holds the atlas."""
    try:
        again = ar.load(path)
    except ValueError as problem:
        return one_sentence(problem, path)
    assert same(atlas, again)
    return False


def seal(content: bytes | bytearray) -> bytes:
    """Content with the right sum, if it has a place for it."""
    content = bytearray(content)
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    if footer >= container.SEAL.size and content[footer - 8 : footer] == container.MAGIC:
        container.seal(content)
    return bytes(content)


def forge(path: str | Path, said: Any, blob: bytes = b"", text: bytes | None = None) -> None:
    """A file that says anything of any bytes, and has the right sum; without a table, which is not looked at."""
    text = json.dumps(said).encode() if text is None else text
    content = b"PAR1" + text + blob + container.SEAL.pack(len(text), len(blob), bytes(32), container.MAGIC) + bytes(4) + b"PAR1"
    Path(path).write_bytes(seal(content))


def parts_of(path: str | Path) -> tuple[Arrays, dict[str, Any], Arrays]:
    """Columns, what is said about them, and arrays of a file, to be changed."""
    return container.read(Path(path))


def laid_out(columns: Arrays, arrays: Arrays) -> tuple[list[list[Any]], bytes]:
    """Places and bytes of arrays, as a file has them."""
    places, blob = [], b""
    for name, array in {**{f"column.{name}": column for name, column in columns.items()}, **arrays}.items():
        places.append([name, array.dtype.str, list(array.shape), len(blob)])
        blob += array.tobytes()
    return places, blob


def with_setting(**setting: Any) -> Callable[..., None]:
    def make(path: Path, columns: Arrays, about: dict[str, Any], arrays: Arrays) -> None:
        about["certificate"]["setting"].update(setting)
        container.write(path, columns, about, arrays)

    return make


def changed(good: Sequence, path: Path, change: Change) -> Path:
    columns, about, arrays = parts_of(good[0])
    columns = {name: column.copy() for name, column in columns.items()}
    change(columns, about, arrays)
    container.write(path, columns, about, arrays)
    return path


def put(where: str, name: str, value: Any) -> Change:
    def change(columns: Arrays, about: dict[str, Any], arrays: Arrays) -> None:
        place = {
            "columns": columns,
            "about": about,
            "certificate": about["certificate"],
            "setting": about["certificate"]["setting"],
        }
        place[where][name] = value(place[where].get(name)) if callable(value) else value

    return change


def at(i: Any, value: Any) -> Callable[[np.ndarray], np.ndarray]:
    def change(column: np.ndarray) -> np.ndarray:
        column = column.copy()
        column[i] = value
        return column

    return change

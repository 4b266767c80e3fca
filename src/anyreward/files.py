"""Files that appear whole or not at all, and that are trusted for nothing when they are read.

An atlas is a Parquet file: a table of columns, and in its metadata a JSON text under the key `anyreward` and the SHA-256 of the
whole file (taken with that sum as zeros) under `anyreward.sha256`. Arrays that go with it, such as what an exploration needs to
be taken up again, lie one after the other in the column `attached` of the first row; the JSON says where each begins.

Reading. The checksum is verified before anything is parsed, so that damage is never interpreted. A hostile file has the right
sum: so nothing in it is executed, and nothing it declares is believed. Its pages are not compressed and may not claim to be
larger than the file, so reading takes memory in proportion to the size of the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import stat
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

KEY, SUM, ATTACHED = b"anyreward", b"anyreward.sha256", "attached"
BLANK = b"0" * 64
MARK = re.compile(rb"anyreward\.sha256.{1,3}?([0-9a-f]{64})", re.DOTALL)
MOST_ROWS_PER_BYTE = 8  # repeated values take little room, but not less than a bit each
KINDS = ("<f8", "<i8", "<i4", "<u4", "|u1")  # of attached arrays


def check_writable(path: Path) -> None:
    """Raises if a file cannot be written there."""
    if not path.parent.is_dir():
        raise ValueError(f"{path} cannot be written: there is no folder {path.parent}.")
    if path.is_dir():
        raise ValueError(f"{path} cannot be written: it is a folder.")
    if path.exists() and not stat.S_IMODE(path.stat().st_mode) & 0o222:
        raise ValueError(f"{path} cannot be written: it is read-only. Make it writable, or choose another name.")


def replace_file(path: Path, content: bytes | bytearray) -> None:
    """Puts `content` in the place of a file, whole or not at all, even if the machine stops on the way."""
    check_writable(path)
    draft = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    try:
        with open(draft, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as problem:
        draft.unlink(missing_ok=True)
        reason = (problem.strerror or str(problem)).rstrip(".")
        raise ValueError(f"{path} cannot be written: {reason}. What was there before is untouched.") from None
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write(path: Path, columns: dict[str, np.ndarray], about: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Writes a table, what is to be said about it, and arrays that go with it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_writable(path)
    small = ("h", "s", "a", "next")
    table = pa.table({name: pa.array(column.astype(np.int32) if name in small else column) for name, column in columns.items()})
    if arrays:
        if not len(table):
            raise ValueError("nothing can be attached to an empty table.")
        places, blob = [], bytearray()
        for name, array in arrays.items():
            kind = array.dtype.str if array.dtype.str in KINDS else "<f8" if array.dtype.kind == "f" else "<i8"
            places.append([name, kind, list(array.shape), len(blob)])
            blob += np.ascontiguousarray(array, dtype=kind).tobytes()
        about = {**about, ATTACHED: places}
        table = table.append_column(ATTACHED, pa.array([bytes(blob)] + [None] * (len(table) - 1), pa.large_binary()))
    text = json.dumps(about, default=lambda number: number.item())  # NumPy's numbers as plain ones
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema.remove_metadata(), compression="none", store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({KEY: text, SUM: BLANK})
    content = bytearray(sink.getvalue())
    begin, end = _mark(bytes(content[-len(text) - 10_000 :]))
    begin, end = begin + max(0, len(content) - len(text) - 10_000), end + max(0, len(content) - len(text) - 10_000)
    content[begin:end] = hashlib.sha256(content).hexdigest().encode()
    replace_file(path, content)


def _mark(content: bytes) -> tuple[int, int]:
    """Where the checksum stands."""
    found = list(MARK.finditer(content))
    if not found:
        raise LookupError
    return found[-1].span(1)


def read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any], dict[str, np.ndarray]]:
    """What `write` wrote. Any other file, and any damage, is refused with a ValueError of one sentence."""
    if not path.is_file():
        raise ValueError(f"{path} is not there: an atlas file is needed.")
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise ValueError(f"{path} cannot be read: {problem.strerror}.") from None
    if content[:4] != b"PAR1":
        raise ValueError(f"{path} is not an atlas: it was not written by anyreward.")
    if content[-4:] != b"PAR1" or len(content) < 12:
        raise ValueError(f"{path} was cut short: restore it from a copy.")
    try:
        begin, end = _mark(content)
    except LookupError:
        raise ValueError(f"{path} is a Parquet file but not an atlas of this version of anyreward.") from None
    sha = hashlib.sha256(content[:begin])
    sha.update(BLANK)
    sha.update(memoryview(content)[end:])
    if sha.hexdigest().encode() != content[begin:end]:
        raise ValueError(f"{path} is damaged, its checksum is wrong: restore it from a copy.")
    return _parse(path, content)


def _parse(path: Path, content: bytes) -> tuple[dict[str, np.ndarray], dict[str, Any], dict[str, np.ndarray]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    refused = ValueError(f"{path} does not hold a valid atlas: it was not written by anyreward as it is.")
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        meta = file.metadata
        if meta.num_rows > MOST_ROWS_PER_BYTE * len(content) or meta.num_columns > 64:
            raise refused
        for group in range(meta.num_row_groups):
            for column in range(meta.num_columns):
                chunk = meta.row_group(group).column(column)
                if chunk.compression != "UNCOMPRESSED" or chunk.total_uncompressed_size > len(content):
                    raise refused
                if chunk.num_values > meta.num_rows:
                    raise refused
        about = json.loads(meta.metadata[KEY])
        if not isinstance(about, dict):
            raise refused
        table = file.read()
        columns, arrays = {}, {}
        for name in table.column_names:
            if name == ATTACHED:
                arrays = _attached(table[name], about[ATTACHED])
            elif table[name].null_count or not (pa.types.is_integer(table[name].type) or pa.types.is_floating(table[name].type)):
                raise ValueError(f"{path} does not hold a valid atlas: the column {name!r} has the wrong kind of values.")
            else:
                columns[name] = table[name].to_numpy()
    except (
        pa.ArrowException,
        OSError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        RecursionError,
        MemoryError,
        OverflowError,
    ):
        raise refused from None
    except ValueError as problem:  # of ours, or of the parsers
        raise (problem if str(problem).startswith(str(path)) else refused) from None
    return columns, about, arrays


def _attached(column: Any, places: list[Any]) -> dict[str, np.ndarray]:
    blob = column[0].as_py()
    arrays = {}
    for name, kind, shape, begin in places:
        size = prod(int(n) for n in shape)
        if kind not in KINDS or begin < 0 or size < 0 or begin + size * np.dtype(kind).itemsize > len(blob):
            raise ValueError(f"the attached array {name!r} is out of place.")
        arrays[str(name)] = np.frombuffer(blob, kind, size, begin).reshape(shape).copy()
    return arrays

"""Files that appear whole or not at all, and that are trusted for nothing when they are read.

An atlas is a Parquet file, for whoever wants to look into it: a table of the counts. What anyreward itself reads lies in the
same file, between the last page and the footer, where Parquet readers do not look: a JSON text, the arrays that it names one
after the other, and a seal of fixed size: how long both are, and the SHA-256 of the whole file (taken with that sum as zeros).

Reading. The sum is verified before anything is parsed, so that damage is never interpreted. A hostile file has the right sum:
so nothing in it is executed and nothing it claims is believed. Arrays are copies of its bytes, of kinds from a short list and
none of them twice, so reading takes memory in proportion to the size of the file; no Parquet is parsed.
"""

from __future__ import annotations

import hashlib
import json
import struct
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from .._files import check_writable, read_file, replace_file

MAGIC = b"anyrewrd"
SEAL = struct.Struct("<QQ32s8s")  # length of the text, length of the arrays, SHA-256, magic
MOST_BYTES = 2**34  # of an atlas
KINDS = ("<f8", "<i8", "<i4", "<u4", "|u1")  # of arrays


def write(path: Path, columns: dict[str, np.ndarray], about: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Writes a table, what is to be said about it, and arrays that go with it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_writable(path)
    small = ("h", "s", "a", "next")
    table = pa.table({name: pa.array(column.astype(np.int32) if name in small else column) for name, column in columns.items()})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content = bytearray(sink.getvalue())
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    places, blob = [], bytearray()
    for name, array in {**{f"column.{name}": column for name, column in columns.items()}, **arrays}.items():
        kind = array.dtype.str if array.dtype.str in KINDS else "<f8" if array.dtype.kind == "f" else "<i8"
        places.append([name, kind, list(array.shape), len(blob)])
        blob += np.ascontiguousarray(array, dtype=kind).tobytes()
    text = json.dumps(
        {"about": about, "arrays": places}, default=lambda number: number.item()
    ).encode()  # NumPy's numbers as plain
    content[footer:footer] = text + blob + SEAL.pack(len(text), len(blob), bytes(32), MAGIC)
    seal(content)
    replace_file(path, content)


def seal(content: bytearray) -> None:
    """Puts the right sum into the seal of a file."""
    begin = len(content) - 8 - int.from_bytes(content[-8:-4], "little") - 40
    content[begin : begin + 32] = bytes(32)
    content[begin : begin + 32] = hashlib.sha256(content).digest()


def read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any], dict[str, np.ndarray]]:
    """What `write` wrote: columns, what is said about them, arrays. All else is refused with a ValueError of one sentence."""
    content = read_file(path, MOST_BYTES, "an atlas file is needed", b"PAR1")
    if content[:4] != b"PAR1":
        raise ValueError(f"{path} is not an atlas: it was not written by anyreward.")
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    if content[-4:] != b"PAR1" or footer < 4:
        raise ValueError(f"{path} was cut short: restore it from a copy.")
    if footer < 4 + SEAL.size or content[footer - 8 : footer] != MAGIC:
        raise ValueError(f"{path} is a Parquet file but not an atlas of this version of anyreward, or it is damaged.")
    text_size, blob_size, digest, _ = SEAL.unpack_from(content, footer - SEAL.size)
    sha = hashlib.sha256(memoryview(content)[: footer - 40])
    sha.update(bytes(32))
    sha.update(memoryview(content)[footer - 8 :])
    if sha.digest() != digest:
        raise ValueError(f"{path} is damaged, its checksum is wrong: restore it from a copy.")
    begin = footer - SEAL.size - blob_size - text_size
    if begin < 4:
        raise ValueError(f"{path} does not hold a valid atlas: it is shorter than it says.")
    try:
        said = json.loads(content[begin : begin + text_size])
        about, arrays = said["about"], _arrays(memoryview(content)[begin + text_size : footer - SEAL.size], said["arrays"])
        if not isinstance(about, dict):
            raise TypeError
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, MemoryError, OverflowError):
        raise ValueError(f"{path} does not hold a valid atlas: its contents are not described as anyreward does.") from None
    columns = {name.removeprefix("column."): array for name, array in arrays.items() if name.startswith("column.")}
    return columns, about, {name: array for name, array in arrays.items() if not name.startswith("column.")}


def _arrays(blob: memoryview, places: list[Any]) -> dict[str, np.ndarray]:
    """Views of the bytes, one after the other: none may overlap another, so that they are never larger than the file."""
    arrays: dict[str, np.ndarray] = {}
    end = 0
    for name, kind, shape, begin in places:
        sizes = [int(n) for n in shape]
        size = prod(sizes)
        if kind not in KINDS or begin != end or min(sizes, default=0) < 0 or len(sizes) > 4 or name in arrays:
            raise ValueError
        end += size * np.dtype(kind).itemsize
        if end > len(blob):
            raise ValueError
        arrays[str(name)] = np.frombuffer(blob, kind, size, begin).reshape(sizes).copy()
    return arrays

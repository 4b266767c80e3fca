"""The container of atlas files: written completely or not at all, and read without trusting their contents.

**Layout.** An atlas is a Parquet file whose table, the counts, anybody can read. What anyreward itself reads is in the same file,
between the last data page and the footer, where Parquet readers do not look: a JSON text, the arrays that it lists one after the
other, and a seal of fixed size, which holds the lengths of both and the SHA-256 checksum of the whole file (computed with zeros
in place of the checksum).

**Reading.** The checksum is verified before anything is parsed, so accidental damage is never interpreted. A hostile file can
have the right checksum; therefore nothing in a file is executed, and nothing that it claims is believed without a check. Arrays
are copies of its bytes, with types from a short list, and no byte belongs to two arrays, so the memory for reading is
proportional to the size of the file. No Parquet is parsed.
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
MAX_BYTES = 2**34  # the largest file that is read
KINDS = ("<f8", "<i8", "<i4", "<u4", "|u1")  # the types that arrays may have


def write(path: Path, columns: dict[str, np.ndarray], about: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Writes a file.

    Parameters
    ----------
    path : Path
    columns : dict of str to ndarray
        The columns of the table.
    about : dict
        The description, in plain values for JSON.
    arrays : dict of str to ndarray
        Further arrays.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_writable(path)
    small = ("h", "s", "a", "next")
    numbers = [np.ascontiguousarray(column, dtype=np.int32 if name in small else None) for name, column in columns.items()]
    table = pa.Table.from_arrays(  # not from NumPy's arrays, for which pyarrow imports pandas if it is there
        [pa.Array.from_buffers(pa.from_numpy_dtype(one.dtype), len(one), [None, pa.py_buffer(one)]) for one in numbers],
        names=list(columns),
    )
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
    """Writes the right checksum into the seal of a file."""
    begin = len(content) - 8 - int.from_bytes(content[-8:-4], "little") - 40
    content[begin : begin + 32] = bytes(32)
    content[begin : begin + 32] = hashlib.sha256(content).digest()


def read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any], dict[str, np.ndarray]]:
    """The columns, the description and the arrays that `write` wrote. Anything else is refused with a `ValueError`."""
    content = read_file(path, MAX_BYTES, "an atlas file is needed", b"PAR1")
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
        raise ValueError(f"{path} does not hold a valid atlas: it is shorter than its seal says.")
    try:
        said = json.loads(content[begin : begin + text_size])
        about, arrays = said["about"], _arrays(memoryview(content)[begin + text_size : footer - SEAL.size], said["arrays"])
        if not isinstance(about, dict):
            raise TypeError
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, MemoryError, OverflowError):
        raise ValueError(f"{path} does not hold a valid atlas: the description of its contents cannot be read.") from None
    columns = {name.removeprefix("column."): array for name, array in arrays.items() if name.startswith("column.")}
    return columns, about, {name: array for name, array in arrays.items() if not name.startswith("column.")}


def _arrays(blob: memoryview, places: list[Any]) -> dict[str, np.ndarray]:
    """Copies of the arrays in a file, which must not overlap: together they are never larger than the file."""
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

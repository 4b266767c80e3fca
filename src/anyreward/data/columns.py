"""Columns of tables: data frames of any library, dictionaries of lists, CSV and Parquet files.

pandas and Polars need not be installed. A table is whatever gives a column for a name (`table["where"]`); a `Column` holds the
different values of a column, whatever they are, and for each row the number of its value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._files import read_file
from ..setting import shown
from .spaces import as_key

ENDINGS = (".csv", ".parquet")
MAX_BYTES, MAX_ROWS = 2**31 - 1, 2**26  # of a file; a Parquet file of a few bytes can have any number of rows
MISSING = -1  # the number of a missing value


@dataclass
class Column:
    """The values of a column.

    Attributes
    ----------
    name : str
    values : list
        The different values, in the order of their first rows.
    codes : ndarray of int64, (n,)
        For each row the position of its value in `values`, or `MISSING`.
    """

    name: str
    values: list[Any]
    codes: np.ndarray

    def row_of(self, value: int) -> int:
        """The first row with value number `value`."""
        return int((self.codes == value).argmax())

    def check_complete(self, needed: np.ndarray | bool = True) -> None:
        """Raises if a value is missing in a row where it is needed (all rows, or booleans)."""
        missing = (self.codes == MISSING) & needed
        if missing.any():
            raise ValueError(f"row {int(missing.argmax())} of the log has no value in the column {shown(self.name)}: fill it in.")

    def numbers(self) -> np.ndarray:
        """The column as floats, (n,); missing values are NaN. Raises if a value is not a finite number."""
        found = np.full(len(self.values) + 1, np.nan)
        for i, value in enumerate(self.values):
            try:
                found[i] = np.nan if isinstance(value, str | bytes) else float(value)
            except (TypeError, ValueError, OverflowError):
                found[i] = np.nan
            if not np.isfinite(found[i]):
                raise ValueError(
                    f"row {self.row_of(i)} of the log has {shown(value)} in the column {shown(self.name)}: "
                    "it has to be a finite number."
                )
        return found[self.codes]

    def booleans(self) -> np.ndarray:
        """The column as booleans, (n,). Raises if a value is missing or is not true or false (or 1 or 0)."""
        self.check_complete()
        wrong = next((i for i, value in enumerate(self.values) if not (isinstance(value, int | float) and value in (0, 1))), None)
        if wrong is not None:
            raise ValueError(
                f"row {self.row_of(wrong)} of the log has {shown(self.values[wrong])} in the column {shown(self.name)}: "
                "it has to be true or false."
            )
        return np.array([*map(bool, self.values), False])[self.codes]


def column(table: Any, name: Any) -> Column:
    """The column of that name. Raises if the table has none."""
    given = _given(table, name)
    if hasattr(given, "combine_chunks"):  # a column of pyarrow: its different values are found without making a list of it
        encoded = _from_arrow(given)
        if encoded is not None:
            return _factorised(str(name), *encoded)
    return _factorised(str(name), _as_list(given, name))


def cells(table: Any, name: Any) -> list[Any]:
    """The cells of the column of that name as they are, with None for those that are missing."""
    return [None if _is_missing(cell) else cell for cell in _as_list(_given(table, name), name)]


def _given(table: Any, name: Any) -> Any:
    """A column as the table gives it. Raises if it has none of that name."""
    try:
        return table[name]
    except Exception:  # each library raises exceptions of its own
        known = columns_of(table)
        what = (
            f"its columns are {', '.join(map(str, known[:20]))}"
            if known
            else "it has to be a data frame, or a dictionary of lists"
        )
        raise ValueError(f"the log has no column {shown(name)}: {what}.") from None


def _as_list(given: Any, name: Any) -> list[Any]:
    """A column as a list of Python values."""
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(given, method):
            given = getattr(given, method)()
            break
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise ValueError(f"the column {shown(name)} of the log is a {type(given).__name__}: it has to be a list.")
    return list(given)


def columns_of(table: Any) -> list[Any]:
    """The names of the columns of a table, as far as it tells them."""
    for attribute in ("column_names", "columns", "keys"):
        names = getattr(table, attribute, None)
        try:
            return list(names() if callable(names) else names)  # type: ignore[arg-type]
        except TypeError:
            continue
    return list(getattr(getattr(table, "dtype", None), "names", None) or [])


def several(table: Any, names: Sequence[Any]) -> Column:
    """Several columns as one, whose values are tuples. A row is missing if one of its parts is."""
    parts = [column(table, name) for name in names]
    check_lengths(parts)
    codes = np.stack([part.codes for part in parts], axis=1)
    whole = (codes != MISSING).all(axis=1)
    unique, inverse = np.unique(codes[whole], axis=0, return_inverse=True)
    joined = np.full(len(codes), MISSING)
    joined[whole] = inverse.reshape(-1)
    values = [tuple(part.values[i] for part, i in zip(parts, row, strict=True)) for row in unique.tolist()]
    return in_order(" and ".join(part.name for part in parts), values, joined)


def in_order(name: str, values: list[Any], codes: np.ndarray) -> Column:
    """A column with values in the order of their first rows, without those that no row has."""
    used, first = np.unique(codes, return_index=True)
    used, first = used[used != MISSING], first[used != MISSING]
    place = np.full(len(values) + 1, MISSING)
    place[used[np.argsort(first)]] = np.arange(len(used))
    return Column(name, [values[i] for i in used[np.argsort(first)]], place[codes])


def check_lengths(columns: Sequence[Column]) -> None:
    """Raises if columns differ in length."""
    for part in columns[1:]:
        if len(part.codes) != len(columns[0].codes):
            raise ValueError(
                f"the column {shown(part.name)} of the log has {len(part.codes)} rows, but {shown(columns[0].name)} has "
                f"{len(columns[0].codes)}: they have to be of equal length."
            )


def _from_arrow(given: Any) -> tuple[list[Any], np.ndarray] | None:
    """The different values of a pyarrow column and the position of each row's value, or None if its type has no dictionary."""
    import pyarrow as pa

    try:
        whole = given.combine_chunks()
        whole = pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
        encoded = whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()
        indices = encoded.indices.fill_null(MISSING).to_numpy(zero_copy_only=False)
        return encoded.dictionary.to_pylist(), indices.astype(np.int64)
    except (pa.ArrowException, ValueError, TypeError, AttributeError):
        return None


def _factorised(name: str, values: list[Any], rows: np.ndarray | None = None) -> Column:
    """A column of these values or, if `rows` is given, of values[i] for each i in it (`MISSING` if i is)."""
    numbers: dict[Any, int] = {}
    known: dict[Any, int] = {}
    codes = np.empty(len(values) + 1, np.int64)
    codes[MISSING] = MISSING

    def new(value: Any, i: int) -> int:
        if _is_missing(value):
            return MISSING
        try:
            key = as_key(value)
            return numbers.setdefault(key, len(numbers))
        except (TypeError, ValueError):
            raise ValueError(
                f"row {i} of the log has a {type(value).__name__} in the column {shown(name)}, which is not hashable: "
                "use texts, numbers or tuples."
            ) from None

    for i, value in enumerate(values):
        try:
            code = known.get(value, -2)
        except TypeError:  # it is not hashable itself, but may have a key that is
            codes[i] = new(value, i)
            continue
        if code == -2:
            code = new(value, i)
            if code != MISSING:
                known[value] = code
        codes[i] = code
    return in_order(name, list(numbers), codes[:-1] if rows is None else codes[rows])


def _is_missing(value: Any) -> bool:
    """Whether a cell is empty: None, NaN, or what pandas and NumPy write in its place."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, float | np.floating | np.datetime64 | np.timedelta64):
        return bool(value != value)
    return False


def read_table(path: Path, names: Sequence[str]) -> Any:
    """The named columns of a CSV or Parquet file, chosen by its ending, as a pyarrow table. Nothing in it is executed."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(f"{path} does not end in .csv or .parquet: give a log in one of these formats, or minari:DATASET-ID.")
    content = pa.BufferReader(read_file(path, MAX_BYTES, "the CSV or Parquet file of a log is needed"))
    try:
        if ending == ".parquet":
            file = parquet.ParquetFile(content, read_dictionary=list(names))  # texts are not repeated in memory
            about = file.metadata
            _check_table(path, names, file.schema_arrow.names, about.num_rows)
            if sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups)) > 8 * MAX_BYTES:
                raise ValueError(f"{path} holds more than {8 * MAX_BYTES:,} bytes: split the log, and merge the atlases.")
            return file.read(columns=list(names))
        # In one block, so that the type of a column is inferred from all of its rows.
        options = csv.ReadOptions(block_size=max(1, content.size()), use_threads=False)
        cells = csv.ConvertOptions(null_values=[""], strings_can_be_null=True)
        table = csv.read_csv(content, options, csv.ParseOptions(newlines_in_values=True), cells)
        _check_table(path, names, table.column_names, table.num_rows)
        garbled = next((name for name in names if pa.types.is_binary(table.schema.field(name).type)), None)
        if garbled is not None:
            raise ValueError(f"{path}: the column {shown(garbled)} is not text in UTF-8: save the file in that encoding.")
        return table.select(list(names))
    except (pa.ArrowException, OSError, MemoryError, OverflowError) as problem:
        raise ValueError(f"{path} is not a readable {ending[1:]} file: {' '.join(str(problem).split())[:200]}.") from None


def _check_table(path: Path, names: Sequence[str], known: list[str], rows: int) -> None:
    """Raises if a file has too many rows, lacks a column, or has it more than once."""
    if rows > MAX_ROWS:
        raise ValueError(f"{path} has {rows:,} rows, more than {MAX_ROWS:,}: split the log, and merge the atlases.")
    for name in names:
        if known.count(name) != 1:
            many = "has no column" if name not in known else "has more than one column"
            raise ValueError(f"{path} {many} {shown(name)}: its columns are {', '.join(map(str, known[:20]))}.")

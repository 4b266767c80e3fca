"""Numbering the values of Gymnasium spaces: observations and actions become integers from 0.

`codec` chooses how. In finite spaces (Discrete, MultiDiscrete, MultiBinary, and Tuple or Dict of them), every value has a fixed
number (`Whole`, `Ravelled`). Continuous spaces (Box) are divided into bins that the user gives (`Binned`). All others are
numbered in the order of appearance, up to a largest number that the user gives (`Indexed`).

A numbering can be written to a file and read again (`Codec.describe`, `codec_from`), so that a plan can act after it was loaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..setting import MAX_NODES, as_list, shown, whole_number

if TYPE_CHECKING:
    from gymnasium import Space

ARRAY, MEMBER = "array", "enum"  # the first entry of a tuple that stands for a NumPy array or an Enum member, see `as_key`
MAX_DEPTH = 20  # of nested spaces in a file
Bins = Sequence[int | Sequence[float] | np.ndarray]  # for each dimension a number of equal bins, or the inner edges of its bins


class Codec(Protocol):
    """A numbering of the values of a space, from 0 to size - 1."""

    size: int

    def encode(self, value: Any) -> int:
        """The number of a value."""

    def decode(self, number: int) -> Any:
        """A value with that number."""

    def describe(self) -> dict[str, Any]:
        """The numbering as values that JSON can hold, for `codec_from`."""


class Whole:
    """The numbering of a Discrete space with values start ... start + size - 1."""

    def __repr__(self) -> str:
        return f"Whole({self.size}, {self.start})"

    def __init__(self, size: int, start: int) -> None:
        self.size, self.start = int(size), int(start)

    def encode(self, value: Any) -> int:
        number = int(value) - self.start
        if not 0 <= number < self.size or number + self.start != value:
            raise ValueError(f"{shown(value)} is not in the space, which goes from {self.start} to {self.start + self.size - 1}.")
        return number

    def decode(self, number: int) -> int:
        return self.start + int(number)

    def describe(self) -> dict[str, Any]:
        return {"kind": "whole", "size": self.size, "start": self.start}


class Ravelled:
    """The numbering of a product of finite spaces, in row-major order: the last part varies fastest.

    Parameters
    ----------
    parts
        The numbering of each part.
    keys
        If values are dictionaries: the key of each part.
    array
        If values are arrays: their shape and type. If neither is given, values are tuples.
    """

    def __repr__(self) -> str:
        return f"Ravelled({self.parts})"

    def __init__(
        self, parts: list[Codec], keys: list[Any] | None = None, array: tuple[tuple[int, ...], Any] | None = None
    ) -> None:
        self.parts, self.keys, self._array = parts, keys, array
        self.size = int(np.prod([part.size for part in parts], dtype=object)) if parts else 1

    def _split(self, value: Any) -> Sequence[Any] | np.ndarray:
        if self._array is not None:
            return np.asarray(value).reshape(-1)
        return list(value) if self.keys is None else [value[key] for key in self.keys]

    def encode(self, value: Any) -> int:
        number, items = 0, self._split(value)
        if len(items) != len(self.parts):
            raise ValueError(f"it has {len(items)} parts where the space has {len(self.parts)}.")
        for part, item in zip(self.parts, items, strict=True):
            number = number * part.size + part.encode(item)
        return number

    def decode(self, number: int) -> Any:
        items = []
        for part in reversed(self.parts):
            number, digit = divmod(int(number), part.size)
            items.append(part.decode(digit))
        items.reverse()
        if self._array is not None:
            return np.array(items, self._array[1]).reshape(self._array[0])
        return tuple(items) if self.keys is None else dict(zip(self.keys, items, strict=True))

    def describe(self) -> dict[str, Any]:
        about: dict[str, Any] = {"kind": "product", "parts": [part.describe() for part in self.parts]}
        if self._array is not None:
            about["array"] = [list(self._array[0]), np.dtype(self._array[1]).str]
        if self.keys is not None:
            about["keys"] = [_plain(as_key(key)) for key in self.keys]
        return about


class Binned:
    """The numbering of a Box that is divided into cells, in row-major order.

    `bins` gives for each dimension a number of equal bins, or the inner edges between bins. Several observations have the same
    number.
    """

    def __repr__(self) -> str:
        return f"Binned({[edges.tolist() for edges in self.edges]})"

    def __init__(self, space: Any, bins: Bins) -> None:
        low, high = (np.asarray(end, dtype=float).reshape(-1) for end in (space.low, space.high))
        if not isinstance(bins, Sequence | np.ndarray) or isinstance(bins, str):
            raise ValueError(f"bins is {shown(bins)}: it has to be a list with an entry for each dimension.")
        if len(bins) != len(low):
            raise ValueError(f"bins has {len(bins)} entries, but the observation has {len(low)} dimensions: give one for each.")
        self.edges: list[np.ndarray] = []
        for i, part in enumerate(bins):
            if np.ndim(part) == 0:
                count = whole_number(part, f"bins[{i}]")
                if count < 1:
                    raise ValueError(f"bins[{i}] is {count}: it has to be at least 1.")
                if count > 1 and not (np.isfinite(low[i]) and np.isfinite(high[i]) and high[i] - low[i] < 1e30):
                    raise ValueError(
                        f"bins[{i}] is {count}, but that dimension has no finite bounds: give the edges between its bins."
                    )
                self.edges.append(np.linspace(low[i], high[i], count + 1)[1:-1] if count > 1 else np.zeros(0))
            else:
                edges = np.asarray(part, dtype=float)
                if edges.ndim != 1 or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
                    raise ValueError(f"bins[{i}] has to be a number of bins or increasing edges between them.")
                self.edges.append(edges)
        self._count()

    def _count(self) -> None:
        self.counts = [len(edges) + 1 for edges in self.edges]
        self.size = int(np.prod(self.counts, dtype=object))

    def encode(self, value: Any) -> int:
        number = 0
        for edges, count, x in zip(self.edges, self.counts, np.asarray(value, dtype=float).reshape(-1), strict=True):
            if np.isnan(x):
                raise ValueError("an observation is NaN: it belongs to no bin.")
            number = number * count + int(edges.searchsorted(x, side="right"))
        return number

    def decode(self, number: int) -> list[int]:
        """The cell of a number: the index of its bin in each dimension."""
        cell = []
        for count in reversed(self.counts):
            number, digit = divmod(int(number), count)
            cell.append(digit)
        return cell[::-1]

    def describe(self) -> dict[str, Any]:
        return {"kind": "bins", "edges": [edges.tolist() for edges in self.edges]}

    @classmethod
    def from_edges(cls, edges: list[np.ndarray]) -> Binned:
        """The numbering of cells between the given inner edges of each dimension."""
        self = cls.__new__(cls)
        self.edges = edges
        self._count()
        return self


class Indexed:
    """The numbering of hashable values in the order of appearance, up to `size` of them.

    Parameters
    ----------
    size
        The largest number of different values.
    columns
        If a value is a row of several columns: their names. Such a value is a dictionary, or a tuple in the order of the columns.
    """

    def __repr__(self) -> str:
        return f"Indexed({self.size})"

    def __init__(self, size: int, columns: Sequence[str] = ()) -> None:
        self.size = whole_number(size, "max_states")
        if self.size < 1:
            raise ValueError(f"max_states is {size}: it has to be at least 1.")
        self.columns = tuple(columns)
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def key(self, value: Any) -> Any:
        """The hashable value by which a value is known; equal values have equal keys."""
        if self.columns and isinstance(value, Mapping):
            value = tuple(value[name] for name in self.columns)
        key = as_key(value)
        if self.columns and (not isinstance(key, tuple) or len(key) != len(self.columns)):
            raise ValueError(f"{shown(value)} is not a row of the columns {', '.join(self.columns)}: give a value for each.")
        return key

    def encode(self, value: Any) -> int:
        key = self.key(value)
        number = self._numbers.get(key)
        if number is None:
            number = len(self.values)
            if number == self.size:
                raise ValueError(
                    f"the state {shown(value)} is one more than max_states = {self.size} allows, which the "
                    "certificate assumes. Explore again with a larger max_states."
                )
            self._numbers[key] = number
            self.values.append(key)
        return number

    def known(self, value: Any) -> int:
        """The number of a value, or the first number that is not used if it has not appeared before; it is not numbered then."""
        number = self._numbers.get(self.key(value), len(self.values))
        if number == self.size:
            raise ValueError(
                f"{shown(value)} never appeared before, and there are at most max_states = {self.size} states: correct it, or "
                "make the atlas anew with a larger max_states."
            )
        return number

    def decode(self, number: int) -> Any:
        value = self.values[number]
        return dict(zip(self.columns, value, strict=True)) if self.columns else value

    def describe(self) -> dict[str, Any]:
        about = {"kind": "appearance", "size": self.size, "values": self.dump()}
        return {**about, "columns": list(self.columns)} if self.columns else about

    def dump(self) -> list[Any]:
        """The values that were numbered so far, as values that JSON can hold."""
        return [_plain(value) for value in self.values]

    def restore(self, values: list[Any]) -> None:
        """Continue the numbering that `dump` returned."""
        self.values = [_unplain(value) for value in values]
        right = all(not self.columns or (isinstance(x, tuple) and len(x) == len(self.columns)) for x in self.values)
        if not right or len(self.values) > self.size or len(set(self.values)) < len(self.values):
            raise ValueError("the labels of its states are damaged.")
        self._numbers = {value: number for number, value in enumerate(self.values)}


def codec(space: Space, bins: Bins | None = None, max_states: int | None = None, name: str = "observation") -> Codec:
    """Choose the numbering of a space.

    Parameters
    ----------
    space
        A Gymnasium space.
    bins
        For a Box: one entry for each dimension, a number of equal bins or the inner edges between bins.
    max_states
        The largest number of different values that can occur; they are numbered in the order of appearance.
    name
        What the space is of, for error messages.
    """
    from gymnasium import spaces

    try:
        finite = _finite(space)
    except RecursionError:
        raise ValueError(f"the {name} space is nested too deeply.") from None
    if finite is not None and max_states is None and bins is None:
        return finite
    if bins is not None:
        if not isinstance(space, spaces.Box):
            raise ValueError(f"bins are for a Box, but the {name} space is {described(space)}: leave them out.")
        return Binned(space, bins)
    if max_states is not None:
        return Indexed(max_states)
    if isinstance(space, spaces.Box):
        raise ValueError(
            f"the {name} space is {described(space)}: give bins=, one entry for each of its "
            f"{int(np.prod(space.shape))} dimensions, or max_states= if only so many different values occur."
        )
    raise ValueError(
        f"the {name} space is {described(space)}, whose size is unknown: give max_states=, the most values that can occur."
    )


def assumed_by(numbering: Codec) -> tuple[str, ...]:
    """What the numbering of observations assumes, as phrases for printing."""
    if isinstance(numbering, Binned):
        return ("what follows depends on the bins of an observation alone",)
    if isinstance(numbering, Indexed):
        return (f"there are at most {numbering.size:,} different observations",)
    return ()


def codec_from(about: Any, depth: int = 0) -> Codec:
    """The numbering that `Codec.describe` described. Raises a ValueError if it is not such a description."""
    damaged = ValueError("the numbering of its states or actions is damaged.")
    if not isinstance(about, dict) or depth > MAX_DEPTH:
        raise damaged
    try:
        match about["kind"]:
            case "whole":
                size, start = whole_number(about["size"], "size"), whole_number(about["start"], "start")
                if 1 <= size <= MAX_NODES and abs(start) < 2**63:
                    return Whole(size, start)
            case "product":
                return _product_from(about, [codec_from(part, depth + 1) for part in about["parts"]])
            case "bins":
                edges = [np.array(part, dtype=float).reshape(len(part)) for part in about["edges"]]
                if all(np.isfinite(part).all() and (np.diff(part) > 0).all() for part in edges):
                    return Binned.from_edges(edges)
            case "appearance":
                columns = about.get("columns", [])
                if not isinstance(columns, list) or not all(isinstance(name, str) and name.isprintable() for name in columns):
                    raise damaged
                numbering = Indexed(about["size"], columns)
                numbering.restore(about["values"])
                return numbering
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
        raise damaged from None
    raise damaged


def _product_from(about: dict[str, Any], parts: list[Codec]) -> Ravelled:
    """A product from its description. Raises a LookupError if it is none."""
    keys, array = about.get("keys"), about.get("array")
    if keys is not None:
        keys = [_unplain(key) for key in keys]
        if len(keys) != len(parts) or len(set(keys)) < len(keys):
            raise LookupError
    if array is not None:
        shape, kind = tuple(whole_number(n, "a size") for n in array[0]), np.dtype(str(array[1]))
        if kind.kind not in "iub" or min(shape, default=1) < 0 or int(np.prod(shape, dtype=object)) != len(parts):
            raise LookupError
        array = shape, kind
    return Ravelled(parts, keys, array)


def checked_size(numbering: Codec, name: str) -> Codec:
    """The numbering, if it is small enough for arrays with an entry for each value; else raises a ValueError."""
    if numbering.size > MAX_NODES:
        raise ValueError(
            f"the {name} space has {numbering.size:,} values: no more than {MAX_NODES:,} can be numbered. "
            "Use bins, or max_states if only a few of them occur."
        )
    return numbering


def known_start(initial: Any, observations: Codec, n_states: int) -> Any:
    """A known distribution of the initial state, one probability for each observation, for a `Setting` of so many states."""
    if initial is None:
        return ()
    if isinstance(observations, Indexed):
        raise ValueError("initial is for states that are numbered beforehand: with max_states, the start has to be estimated.")
    law = as_list(initial, "initial")
    if not law:
        raise ValueError("initial is empty: it needs a probability for each state, or has to be left out.")
    return [*law, *[0.0] * (n_states - observations.size)] if len(law) == observations.size and np.ndim(law[0]) == 0 else law


def described(space: Any) -> str:
    """A space as text, for messages."""
    return " ".join(shown(space).split())


def _finite(space: Any) -> Codec | None:
    """The numbering of a finite space, or None if the space is not finite."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return Whole(int(space.n), int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        start = np.asarray(getattr(space, "start", np.zeros_like(space.nvec))).reshape(-1)
        shape, kind = space.nvec.shape, space.dtype
        parts: list[Codec] = [Whole(int(n), int(s)) for n, s in zip(space.nvec.reshape(-1), start, strict=True)]
        return Ravelled(parts, array=(shape, kind))
    if isinstance(space, spaces.MultiBinary):
        size, binary = int(np.prod(space.shape)), space.shape
        parts = [Whole(2, 0) for _ in range(size)]
        return Ravelled(parts, array=(binary, np.dtype(np.int8)))
    if isinstance(space, spaces.Tuple | spaces.Dict):
        keys = list(space.spaces) if isinstance(space, spaces.Dict) else None
        inner = [_finite(part) for part in (space.spaces.values() if isinstance(space.spaces, dict) else space.spaces)]
        if any(part is None for part in inner):
            return None
        whole = [part for part in inner if part is not None]
        return Ravelled(whole, keys)
    return None


def as_key(value: Any) -> Any:
    """A hashable value that identifies an observation; arrays become tuples that begin with `ARRAY`."""
    if isinstance(value, np.ndarray):
        return (ARRAY, str(value.dtype), value.shape, value.tobytes())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Enum) and not isinstance(value, int | str):
        return (MEMBER, type(value).__name__, value.name)
    if isinstance(value, tuple | list):
        return tuple(as_key(item) for item in value)
    if isinstance(value, dict):
        return tuple((as_key(k), as_key(value[k])) for k in sorted(value, key=repr))
    try:
        hash(value)
    except TypeError:
        raise ValueError(
            f"an observation is a {type(value).__name__}, which is not hashable and so cannot be numbered."
        ) from None
    return value


def _plain(value: Any) -> Any:
    """A key of an observation as a value that JSON can hold."""
    if isinstance(value, tuple):
        return {"t": [_plain(item) for item in value]}
    if isinstance(value, bytes):
        return {"b": value.hex()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"an observation is a {type(value).__name__}, which cannot be written to a file.")


def _unplain(value: Any) -> Any:
    """The key of an observation from what `_plain` returned."""
    if isinstance(value, dict):
        return bytes.fromhex(value["b"]) if "b" in value else tuple(_unplain(item) for item in value["t"])
    if isinstance(value, list):
        raise ValueError("the labels of its states are damaged.")
    return value


def label(value: Any) -> str:
    """An observation as a short text, for tables."""
    if isinstance(value, tuple) and len(value) == 4 and value[0] == ARRAY:
        try:
            value = np.frombuffer(value[3], value[1]).reshape(value[2])
        except (TypeError, ValueError):  # a value from a file that only looks like an array
            return shown(value)
    if isinstance(value, tuple) and len(value) == 3 and value[0] == MEMBER:
        return str(value[2])
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return ", ".join(f"{key}={label(part)}" for key, part in value.items())
    return json.dumps(value, default=str) if isinstance(value, list | dict) else str(value)

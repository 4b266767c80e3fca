"""Checks of arrays that come from files, and of functions that users give.

Compiled code does not check bounds: with an array that is too short, or an index that points beyond another array, it would read
arbitrary memory. So every array of a file passes through `checked_array` before a kernel uses it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def called(where: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of the user's returns. Raises a ValueError that begins with `where` if it fails in another way."""
    try:
        return function(*arguments)
    except ValueError:
        raise
    except Exception as problem:
        raise ValueError(f"{where}: {type(problem).__name__}, {' '.join(str(problem).split())}.") from problem


def checked_array(
    values: Any, kind: Any, shape: tuple[int | None, ...], what: str, low: Any = None, high: Any = None
) -> np.ndarray:
    """`values` as a contiguous array that compiled code may use, or a `ValueError` that says that it is damaged.

    Parameters
    ----------
    values : Any
        Has to be an array without NaN.
    kind : dtype
        The type that it has to have.
    shape : tuple of int or None
        The shape that it has to have; None allows any length.
    what : str
        The beginning of the error message, such as "its counts are".
    low, high : optional
        The smallest and the largest allowed entry, as numbers or arrays that broadcast.
    """
    right = isinstance(values, np.ndarray) and values.dtype == np.dtype(kind) and values.ndim == len(shape)
    right = right and all(wanted in (None, found) for found, wanted in zip(values.shape, shape, strict=True))
    if right and values.dtype.kind == "f":
        right = not np.isnan(values).any()
    right = right and (low is None or bool((values >= low).all())) and (high is None or bool((values <= high).all()))
    if not right:
        raise ValueError(f"{what} damaged.")
    return np.ascontiguousarray(values)

"""What comes from outside is checked once, at the door.

Compiled code does not look: an array that is too short, or a number that points beyond another array, would be read all the same.
So every array of a file passes through `checked_array` before a kernel sees it.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def checked_array(
    values: Any, kind: Any, shape: tuple[int | None, ...], what: str, low: Any = None, high: Any = None
) -> np.ndarray:
    """`values` as compiled code may see it, or a ValueError that says that `what` is damaged.

    That is an array of that kind and shape (None: any length), contiguous, without NaN, with numbers from `low` to `high`.
    """
    right = isinstance(values, np.ndarray) and values.dtype == np.dtype(kind) and values.ndim == len(shape)
    right = right and all(wanted in (None, found) for found, wanted in zip(values.shape, shape, strict=True))
    if right and values.dtype.kind == "f":
        right = not np.isnan(values).any()
    right = right and (low is None or bool((values >= low).all())) and (high is None or bool((values <= high).all()))
    if not right:
        raise ValueError(f"{what} damaged.")
    return np.ascontiguousarray(values)

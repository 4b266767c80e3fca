"""How kernels are compiled: one place for the options.

All are cached on disk, and a division by zero gives inf or nan instead of an exception that every loop would have to
be ready for. A `loop` works only on the arrays it is given: compiled without Numba's memory manager, it counts no
references, which in loops of a few nanoseconds a turn is worth a third of the time. What allocates says so.

Numba renews a cached function when its own file changes, but not when a function that it calls has changed in another file.
So the cache lies in a folder that is named after the contents of all kernels: code of another version is never run.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

HERE = Path(__file__).parent
VERSION = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(HERE.glob("*.py")))).hexdigest()[:16]


def _cached(**options: Any) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        given = numba.config.CACHE_DIR
        beside = str(HERE / "__pycache__") if os.access(HERE, os.W_OK) else ""  # else Numba finds a place of its own
        folder = given or beside
        try:
            numba.config.CACHE_DIR = os.path.join(folder, f"anyreward-{VERSION}") if folder else given
            return numba.njit(cache=True, error_model="numpy", **options)(function)
        finally:
            numba.config.CACHE_DIR = given

    return decorate


loop = _cached(_nrt=False)
inlined = _cached(_nrt=False, forceinline=True)
allocates = _cached()

"""How kernels are compiled: one place for the options.

All are cached on disk, and a division by zero gives inf or nan instead of an exception that every loop would have to
be ready for. A `loop` works only on the arrays it is given: compiled without Numba's memory manager, it counts no
references, which in loops of a few nanoseconds a turn is worth a third of the time. What allocates says so.

Numba renews a cached function when its own file changes, but not when a function that it calls has changed in another file.
So the cache lies in a folder that is named after the contents of all kernels: code of another version is never run. Where it
cannot be written, a temporary folder serves, or none, with a warning; what is damaged is thrown away and compiled again.
"""

from __future__ import annotations

import functools
import hashlib
import os
import stat
import tempfile
import warnings
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
        elsewhere = os.path.join(tempfile.gettempdir(), f"anyreward-{os.getuid() if hasattr(os, 'getuid') else 'cache'}")
        try:
            for folder in (given or beside, elsewhere if _is_ours(elsewhere) else None):
                if folder is None:
                    continue
                numba.config.CACHE_DIR = os.path.join(folder, f"anyreward-{VERSION}") if folder else given
                try:
                    dispatcher = numba.njit(cache=True, error_model="numpy", **options)(function)
                except RuntimeError:  # no place to cache it
                    _warn_once(elsewhere)
                    continue
                return _forgiving(dispatcher)
        finally:
            numba.config.CACHE_DIR = given
        return numba.njit(error_model="numpy", **options)(function)

    return decorate


@functools.cache
def _is_ours(folder: str) -> bool:
    """Whether a folder among everybody's temporary files, made if need be, is ours alone: what lies there is run."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        about = os.lstat(folder)
        return stat.S_ISDIR(about.st_mode) and (
            not hasattr(os, "getuid") or (about.st_uid == os.getuid() and not about.st_mode & 0o022)
        )
    except OSError:
        return False


@functools.cache
def _warn_once(elsewhere: str) -> None:
    warnings.warn(f"compiled code cannot be cached where it should be: {elsewhere} is used, or no cache at all.", stacklevel=2)


def _forgiving(dispatcher: Any) -> Any:
    """The same compiled function, for which a damaged cache is an empty one."""
    cache = getattr(dispatcher, "_cache", None)
    if cache is not None and hasattr(cache, "load_overload"):
        load = cache.load_overload

        def load_or_forget(*arguments: Any) -> Any:
            try:
                return load(*arguments)
            except Exception:  # whatever unpickling a damaged file raises
                cache.flush()
                return None

        cache.load_overload = load_or_forget
    return dispatcher


loop = _cached(_nrt=False)
inlined = _cached(_nrt=False, forceinline=True)
allocates = _cached()

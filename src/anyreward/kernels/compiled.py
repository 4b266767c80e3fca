"""How kernels are compiled: one place for the options.

All are cached on disk, and a division by zero gives inf or nan instead of an exception that every loop would have to
be ready for. A `loop` works only on the arrays it is given: compiled without Numba's memory manager, it counts no
references, which in loops of a few nanoseconds a turn is worth a third of the time. What allocates says so.

Numba renews a cached function when its own file changes, but not when a function that it calls has changed in another file.
So the cache lies in a folder that is named after the contents of all kernels and of the formulas that they compile: code of
another version is never run. Where it cannot be written, a temporary folder serves, or none, with a warning; what is damaged is
thrown away and compiled again.
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
from numba import types
from numba.extending import overload, register_jitable

from . import formulas

HERE = Path(__file__).parent
SOURCES = [path for folder in (HERE, HERE.parent / "algorithms", HERE.parent / "certificates") for path in folder.glob("*.py")]
VERSION = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCES))).hexdigest()[:16]


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


LOOP: dict[str, Any] = {"_nrt": False}
INLINED: dict[str, Any] = {"_nrt": False, "forceinline": True}

loop = _cached(**LOOP)
inlined = _cached(**INLINED)
allocates = _cached()
inner = numba.njit(error_model="numpy", **INLINED)  # part of others that are cached, and with formulas that may be anybody's

for formula in formulas.SHARED:
    register_jitable(error_model="numpy", **INLINED)(formula)


def method(name: str, default: Any = None) -> Any:
    """A function (constants, ...) for kernels: the method of that name of a named tuple of constants, compiled for its type."""

    def call(constants: Any, *arguments: Any) -> Any:
        return getattr(constants, name)(*arguments)

    @overload(call, strict=False, jit_options={"error_model": "numpy", **INLINED})
    def choose(constants: Any, *arguments: Any) -> Any:
        return getattr(constants.instance_class, name, default) if isinstance(constants, types.BaseNamedTuple) else None

    return call


def fitting(dispatcher: Any, constants: Any) -> Any:
    """A kernel for constants with formulas. Formulas that are not of this package get a compiled copy of their own.

    It is not cached on disk, where the folder is named after the files of this package: other files may change without its
    noticing. And it is not shared: Numba takes named tuples for the same whose names and fields are the same, whatever their
    methods are. (So the names of those in this package differ.)
    """
    ours = type(constants).__module__.split(".")[0] == __name__.split(".")[0]
    return dispatcher if ours else _copy_for(dispatcher, type(constants))


@functools.cache
def _copy_for(dispatcher: Any, _: type) -> Any:
    options = {name: value for name, value in dispatcher.targetoptions.items() if name in INLINED}
    return numba.njit(error_model="numpy", **options)(dispatcher.py_func)

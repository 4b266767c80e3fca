"""How kernels are compiled: one place for the options and for the cache on disk.

A division by zero gives inf or nan instead of an exception that every loop would have to be ready for. A `loop` works only on
the arrays it is given: compiled without Numba's memory manager, it counts no references, which in loops of a few nanoseconds a
turn is worth a third of the time. What allocates says so.

Numba renews a cached function when its own file changes, but not when a function that it calls has changed in another file.
So the cache lies in a folder that is named after the contents of all kernels and of the formulas that they compile: code of
another version is never run. Where it cannot be written, a temporary folder serves, or none, with a warning; what is damaged is
thrown away and compiled again.

Two things here are not part of Numba's documented interface: the options `_nrt` and `forceinline`, and the class of a cache. So
`pyproject.toml` caps Numba's version, and both are looked for on import. A Numba without the options compiles without them, and
a Numba without the class compiles anew in every process: both take longer and compute the same.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import re
import stat
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.extending import overload, register_jitable

from . import formulas

HERE = Path(__file__).parent
SOURCES = [path for folder in (HERE, HERE.parent / "algorithms", HERE.parent / "certificates") for path in folder.glob("*.py")]


def _known(**options: Any) -> dict[str, Any]:
    """Those options that this version of Numba knows. They make code faster and do not change what it computes."""
    try:
        from numba.core.cpu import CPUTargetOptions
    except ImportError:
        return {}
    return {name: value for name, value in options.items() if hasattr(CPUTargetOptions, name)}


LOOP: dict[str, Any] = _known(_nrt=False)
INLINED: dict[str, Any] = _known(_nrt=False, forceinline=True)
VERSION = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCES)) + repr(INLINED).encode()).hexdigest()[:16]


def _folders() -> list[str]:
    """Where the cache may lie, the best place first; the last one is among everybody's temporary files."""
    temporary = os.path.join(tempfile.gettempdir(), f"anyreward-{os.getuid() if hasattr(os, 'getuid') else 'cache'}")
    if numba.config.CACHE_DIR:  # the user's choice: NUMBA_CACHE_DIR
        return [numba.config.CACHE_DIR, temporary]
    of_user = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return [str(HERE / "__pycache__"), os.path.join(of_user, "anyreward"), temporary]


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
def _warn_once(instead: str) -> None:
    warnings.warn(f"compiled code cannot be cached where it should be: {instead}.", stacklevel=2)


@functools.cache
def _kernel_cache() -> Any:
    """The class of our caches, or None if this version of Numba does not have what it is made from."""
    try:
        from numba.core import caching

        locator = getattr(caching, "InTreeCacheLocator", None) or caching._InTreeCacheLocator  # its name until Numba 0.61

        class Place(locator):
            """A folder for the compiled forms of a function."""

            folder = ""

            def __init__(self, function: Any, file: str) -> None:
                super().__init__(function, file)
                self.path = os.path.join(self.folder, f"anyreward-{VERSION}", self.get_suitable_cache_subpath(file))

            def get_cache_path(self) -> str:
                return self.path

            def get_source_stamp(self) -> Any:
                return VERSION, super().get_source_stamp()

        class Temporary(Place):
            @classmethod
            def from_function(cls, function: Any, file: str) -> Any:
                place = super().from_function(function, file) if _is_ours(cls.folder) else None
                if place is not None:
                    _warn_once(f"{cls.folder} is used")
                return place

        *folders, temporary = _folders()
        places = [type("Place", (Place,), {"folder": folder}) for folder in folders]
        places.append(type("Place", (Temporary,), {"folder": temporary}))

        class Implementation(caching.CompileResultCacheImpl):
            _locator_classes = places

        class KernelCache(caching.FunctionCache):
            """Numba's cache in a folder of ours, where damaged files count as missing and a full disk is no error."""

            _impl_class = Implementation

            def load_overload(self, *arguments: Any) -> Any:
                try:
                    return super().load_overload(*arguments)
                except Exception:  # whatever unpickling a damaged file raises
                    with suppress(OSError):
                        self.flush()
                    return None

            def save_overload(self, *arguments: Any) -> None:
                with suppress(OSError):
                    super().save_overload(*arguments)

    except (ImportError, AttributeError, TypeError):
        return None
    return KernelCache


def _keep_on_disk(dispatcher: Any) -> None:
    """Lets a compiled function be cached, if that is possible."""
    if numba.config.DISABLE_JIT:  # then it is a plain function
        return
    try:
        cache = _kernel_cache()(dispatcher.py_func)
        if f"anyreward-{VERSION}" in cache.cache_path and hasattr(dispatcher, "_cache"):
            dispatcher._cache = cache
            return
    except (AttributeError, RuntimeError, TypeError):  # no place for it, or a Numba that works in another way
        pass
    _warn_once("it is compiled again in every process")


def _cached(**options: Any) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        dispatcher = numba.njit(error_model="numpy", **options)(function)
        _keep_on_disk(dispatcher)
        return dispatcher

    return decorate


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
    """A kernel for a named tuple of constants whose methods are formulas, which are compiled into it.

    Formulas that are not of this package get a compiled copy of the kernel that is not cached on disk: the folder of the cache is
    named after the files of this package, so a change of other files would not be noticed.
    """
    kind = type(constants)
    _make_distinct(kind)
    return dispatcher if _is_of_this_package(kind) else _copy_for(dispatcher, kind)


def _is_of_this_package(kind: type) -> bool:
    return kind.__module__.split(".")[0] == __name__.split(".")[0]


@functools.cache
def _make_distinct(kind: type) -> None:
    """Gives a class of formulas a name that no other class has.

    Numba names compiled code after the *names* of the types that it is compiled for. With two classes of the same name and the
    same fields, the code of the one would be run for the other. Where the class is found, its qualified name, stays as it is.
    """
    where = re.sub(r"\W", "_", kind.__module__)
    number = "" if _is_of_this_package(kind) else f"_{next(_numbers)}"  # a notebook may define a class again and again
    kind.__name__ = f"{kind.__name__}_of_{where}{number}"


@functools.cache
def _copy_for(dispatcher: Any, _: type) -> Any:
    options = {name: value for name, value in dispatcher.targetoptions.items() if name in INLINED}
    return numba.njit(error_model="numpy", **options)(dispatcher.py_func)


_numbers = itertools.count()

"""How kernels are compiled: one place for the options and for the cache on disk.

A division by zero gives inf or nan instead of an exception that every loop would have to be ready for. A `loop` works only on
the arrays it is given: compiled without Numba's memory manager, it counts no references, which in loops of a few nanoseconds a
turn is worth a third of the time. What allocates says so.

To compile takes seconds, so as little as possible is compiled. A kernel that is only called by other kernels gets no code for
being called from Python, which for our large tuples of arrays would be most of it, and no machine code of its own (`parts`); no
kernel gets code for being called from C; and whether an argument is a constant, a short
or a long integer makes no difference between kernels, so that there is one compiled form of each and not several.

Numba renews a cached function when its own file changes, but not when a function that it calls has changed in another file.
So the cache lies in a folder that is named after the contents of all kernels and of the formulas that they compile: code of
another version is never run, and all installations of one version can share a folder. Compiled code is looked for in every folder
of `_folders` and saved in the first one that can be written; if that is one for temporary files, or none, a warning says so. What
is damaged is thrown away and compiled again.

Four things are not part of Numba's documented interface: some options, the class of a cache, how a kernel finds the compiled form
of another, and what `parts` uses. So `pyproject.toml` caps Numba's version, and all four are looked for on import. A Numba
without the options, or without what `parts` uses, compiles without them, a Numba without the class compiles anew in every
process, and a Numba that finds compiled forms in another way finds those for Python: all this takes longer and computes the same.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import re
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numba
from numba import types
from numba.extending import overload, register_jitable

from . import formulas, parts

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
WHOLE: dict[str, Any] = _known(no_cfunc_wrapper=True)
BARE: dict[str, Any] = _known(no_cpython_wrapper=True, no_cfunc_wrapper=True)
PART: dict[str, Any] = BARE | parts.PIPELINE
MADE_FROM = b"".join(path.read_bytes() for path in sorted(SOURCES)) + repr((INLINED, sorted(PART), numba.__version__)).encode()
VERSION = hashlib.sha256(MADE_FROM).hexdigest()[:16]


class Folder(NamedTuple):
    """A folder in which compiled code may lie. What lies there is run."""

    path: str
    private: bool  # whether it is only used if nobody else can write there
    temporary: bool = False

    @property
    def of_version(self) -> str:
        return os.path.join(self.path, f"anyreward-{VERSION}")

    def is_trusted(self, make: bool = False) -> bool:
        """Whether what lies there may be run: the folder is not private, or it is ours alone; it is made if asked to."""
        return not self.private or ((make or os.path.exists(self.path)) and _is_ours(self.path))


def _folders() -> list[Folder]:
    """Where the cache may lie, the best place first; the last one is among everybody's temporary files.

    The folder that NUMBA_CACHE_DIR names is the user's choice. Whoever can write beside our own files can change these as well.
    """
    user = os.getuid() if hasattr(os, "getuid") else "cache"
    temporary = Folder(os.path.join(tempfile.gettempdir(), f"anyreward-{user}"), private=True, temporary=True)
    if numba.config.CACHE_DIR:
        return [Folder(numba.config.CACHE_DIR, private=False), temporary]
    of_user = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    own = Folder(os.path.join(of_user, "anyreward"), private=True)
    return [Folder(str(HERE / "__pycache__"), private=False), own, temporary]


def _is_ours(folder: str) -> bool:
    """Whether a folder, made if need be, is ours alone."""
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
def _shelf(path: str, kind: str) -> Any:
    """The class of Numba's caches in a folder, or None if this version of Numba does not have what it is made from."""
    try:
        from numba.core import caching

        locator = getattr(caching, "InTreeCacheLocator", None) or caching._InTreeCacheLocator  # its name until Numba 0.61

        class Place(locator):
            @classmethod
            def from_function(cls, function: Any, file: str) -> Any:
                return cls(function, file)

            def get_cache_path(self) -> str:
                return path

            def get_source_stamp(self) -> str:
                return VERSION

        class Implementation(parts.PartsOnDisk if kind == "parts" and parts.PIPELINE else caching.CompileResultCacheImpl):
            _locator_classes = (Place,)

        class Shelf(caching.FunctionCache):
            _impl_class = Implementation

    except (ImportError, AttributeError, TypeError):
        return None
    return Shelf


class KernelCache:
    """The compiled forms of a function on disk, as Numba asks for them.

    Several processes may read and write at the same time: they lock a folder to write in it. Damaged files count as missing, and
    a full disk is no error.
    """

    def __init__(self, function: Any, kind: str) -> None:
        self.function, self.kind = function, kind

    @functools.cached_property
    def shelves(self) -> list[tuple[Folder, Any]]:
        """The folders that may have it, each with Numba's cache of the function in that folder."""
        return [(folder, _shelf(os.path.join(folder.of_version, self.kind), self.kind)(self.function)) for folder in _folders()]

    @property
    def cache_path(self) -> str:
        return str(self.shelves[0][1].cache_path)

    def load_overload(self, signature: Any, context: Any) -> Any:
        for folder, shelf in self.shelves:
            if not os.path.isdir(shelf.cache_path) or not folder.is_trusted():
                continue
            try:
                found = shelf.load_overload(signature, context)
            except Exception:  # whatever unpickling a damaged file raises
                with suppress(OSError):
                    shelf.flush()
                continue
            if found is not None and tuple(found.signature.args) == tuple(signature):
                return found
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        from filelock import FileLock

        for folder, shelf in self.shelves:
            with suppress(OSError, NotImplementedError):  # it cannot be written, is full, or cannot be locked
                if folder.is_trusted(make=True):
                    os.makedirs(folder.of_version, exist_ok=True)
                    with FileLock(os.path.join(folder.of_version, ".lock"), timeout=5):
                        shelf.save_overload(signature, result)
                    if folder.temporary:
                        _warn_once(f"{folder.path} is used")
                    return
        _warn_once("it is compiled again in every process")

    def flush(self) -> None:
        for _, shelf in self.shelves:
            shelf.flush()


def folders_in_use() -> list[str]:
    """The folders in which there is compiled code of this version that may be run."""
    return [folder.of_version for folder in _folders() if os.path.isdir(folder.of_version) and folder.is_trusted()]


def machine() -> str:
    """The processor, the version of Python and the versions of libraries that compiled code is for."""
    from numba.core.registry import cpu_target

    return repr((sys.version_info[:2], VERSION, cpu_target.target_context.codegen().magic_tuple()))


@contextmanager
def counted() -> Iterator[list[str]]:
    """Yields a list of the names of our functions that are compiled meanwhile; those that are loaded from disk are not."""
    from numba.core import event

    names: list[str] = []

    class Listener(event.Listener):
        def on_start(self, about: event.Event) -> None:
            function = about.data["dispatcher"].py_func
            if _is_of_this_package(function):
                names.append(f"{function.__module__}.{function.__qualname__}")

        def on_end(self, about: event.Event) -> None: ...

    with event.install_listener("numba:compile", Listener()):
        yield names


def _keep_on_disk(dispatcher: Any, kind: str) -> None:
    """Lets a compiled function be cached, if that is possible."""
    if numba.config.DISABLE_JIT:  # then it is a plain function
        return
    if _can_be_cached():
        dispatcher._cache = KernelCache(dispatcher.py_func, kind)
    else:
        _warn_once("it is compiled again in every process")


@functools.cache
def _can_be_cached() -> bool:
    """Whether caches work in this version of Numba as they do in the versions that we know."""
    try:
        return VERSION in KernelCache(_is_ours, "").cache_path and hasattr(numba.njit(_is_ours), "_cache")
    except (AttributeError, RuntimeError, TypeError):
        return False


def _kernel(cached: bool = True, **options: Any) -> Callable[[Any], Any]:
    """Compiles a function twice if need be: to be called from Python, and as a part of other kernels, which needs less."""

    def decorate(function: Any) -> Any:
        dispatcher, part = (numba.njit(error_model="numpy", **options, **more)(function) for more in (WHOLE, PART))
        if cached:
            _keep_on_disk(dispatcher, "whole")
            _keep_on_disk(part, "parts")
        if hasattr(dispatcher, "get_call_template") and hasattr(dispatcher, "get_overload"):
            _let_kernels_call(dispatcher, part)
        return dispatcher

    return decorate


def _let_kernels_call(dispatcher: Any, part: Any) -> None:
    """Kernels that name `dispatcher` get what it was compiled to for Python, if it was, or else `part`."""
    of_python = dispatcher.get_call_template, dispatcher.get_overload

    def template(kinds: Any, named: Any) -> Any:
        kinds, named = [_wide(kind) for kind in kinds], {name: _wide(kind) for name, kind in named.items()}
        return of_python[0](kinds, named) if tuple(kinds) in dispatcher.overloads else part.get_call_template(kinds, named)

    def overload_of(kinds: Any) -> Any:
        return of_python[1](kinds) if tuple(kinds) in dispatcher.overloads else part.get_overload(kinds)

    dispatcher.get_call_template, dispatcher.get_overload = template, overload_of


def _wide(kind: Any) -> Any:
    """The type of an argument of a call between kernels: a constant and a short integer are passed as any other integer."""
    kind = types.unliteral(kind)
    return types.int64 if isinstance(kind, types.Integer) and kind.signed else kind


loop = _kernel(**LOOP)
inlined = _kernel(**INLINED)
allocates = _kernel()
threaded = _kernel(nogil=True)  # allocates, and lets other threads run meanwhile
inner = _kernel(cached=False, **INLINED)  # part of others that are cached, and with formulas that may be anybody's

for formula in formulas.SHARED:
    register_jitable(error_model="numpy", **INLINED, **PART)(formula)


def method(name: str, default: Any = None) -> Any:
    """A function (constants, ...) for kernels: the method of that name of a named tuple of constants, compiled for its type."""

    def call(constants: Any, *arguments: Any) -> Any:
        return getattr(constants, name)(*arguments)

    @overload(call, strict=False, jit_options={"error_model": "numpy", **INLINED, **PART})
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


def _is_of_this_package(kind: Any) -> bool:
    """Whether a class or a function is defined in this package."""
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

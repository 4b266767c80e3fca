"""Files: written completely or not at all, locked against other processes, and read only if regular and not too large."""

from __future__ import annotations

import os
import re
import secrets
import socket
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .words import plain


def as_path(path: Any) -> Path:
    """The path that a user gave. Raises if it is none."""
    try:
        return Path(path)
    except TypeError:
        raise ValueError(f"the path is a {type(path).__name__}: it has to be the name of a file, as a text or a Path.") from None


def check_writable(path: Path, folder: bool = False) -> Path:
    """The path at which a file is written, with links resolved. Raises if no file can be written there.

    With `folder=True`, an existing folder is accepted too.
    """
    if not possible(path):
        raise ValueError(f"{str(path)!a} cannot be written: no file can have such a name.")
    try:
        target = Path(os.path.realpath(path))
        if not target.parent.is_dir():
            missing = target.parent if path.is_symlink() else path.parent
            raise ValueError(f"{path} cannot be written: there is no folder {missing}.")
        if target.is_symlink():
            raise ValueError(f"{path} cannot be written: it is a symbolic link that points to itself.")
        mode = target.stat().st_mode if target.exists() else None
    except OSError as problem:
        raise ValueError(f"{str(path)[:200]} cannot be written: {reason(problem)}.") from None
    if mode is not None and stat.S_ISDIR(mode) and folder:
        return target
    if mode is not None and stat.S_ISDIR(mode):
        raise ValueError(f"{path} cannot be written: it is a folder.")
    if mode is not None and not stat.S_ISREG(mode):
        raise ValueError(f"{path} cannot be written: it is a pipe or a device. Choose the name of a file.")
    if mode is not None and not stat.S_IMODE(mode) & 0o222:
        raise ValueError(f"{path} cannot be written: it is read-only. Make it writable, or choose another name.")
    return target


def possible(path: Path) -> bool:
    """Whether a file can have such a name at all."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def check_folder(path: Path) -> None:
    """Raises if results cannot be written into that folder, which may not exist yet."""
    try:
        there = path.exists() or path.is_symlink()
    except OSError as problem:
        raise ValueError(f"{str(path)[:200]} cannot be written: {reason(problem)}.") from None
    if there and not path.is_dir():
        raise ValueError(f"{path} cannot be written into: it is not a folder.")
    check_writable(path / "x" if there else path)


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Locks a file, or a folder of results, for this process; another process that wants to write there is told who holds it.

    The lock is one of the operating system, on a file `.<name>.lock` beside the file, or `.lock` in the folder, which says who
    holds it. It ends with the process, however the process ends, and is not inherited by processes that it started. The lock file
    that a killed process leaves behind has no effect, and is removed by the next process that takes the lock.
    """
    target = check_writable(path, folder=True)
    name = target / ".lock" if target.is_dir() else target.parent / f".{target.name}.lock"
    lock = _locked(name, path)
    try:
        with suppress(OSError):
            os.ftruncate(lock, 0)
            said = f"process {os.getpid()} on {socket.gethostname()}, since {time.strftime('%Y-%m-%d %H:%M:%S')}"
            os.write(lock, said.encode())
        yield
    finally:
        if lock in LOCKS:  # otherwise this is a forked process, and the lock belongs to its parent
            with suppress(OSError):
                # Removed while it is still locked: a process that has opened it meanwhile notices, and opens a new one.
                name.unlink()
            LOCKS.discard(lock)
            with suppress(OSError):
                os.close(lock)


LOCKS: set[int] = set()  # descriptors of the lock files that this process holds


def _forget_locks() -> None:
    """Closes the locks of the parent in a forked process, so that the child does not keep them alive."""
    while LOCKS:
        with suppress(OSError):
            os.close(LOCKS.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


def _locked(name: Path, path: Path) -> int:
    """Opens and locks the lock file; returns its descriptor. Raises if another process holds it."""
    from filelock import lock_descriptor

    for _ in range(10):
        try:
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
            lock = os.open(name, flags, 0o644)
        except OSError as problem:
            raise ValueError(f"{path} cannot be written: its lock {name} cannot be opened, {reason(problem)}.") from None
        try:
            about = os.fstat(lock)
            if not stat.S_ISREG(about.st_mode):
                raise ValueError(f"{path} cannot be written: its lock {name} is not a file.")
            if not lock_descriptor(lock, blocking=False):
                raise ValueError(f"{path} is being written by {_holder(name)}: wait for it to end, or choose another name.")
            if os.fstat(lock).st_nlink:  # otherwise its holder removed it while we were opening it: try again
                LOCKS.add(lock)
                return lock
        except OSError as problem:
            os.close(lock)
            raise ValueError(f"{path} cannot be written: it cannot be locked, {reason(problem)}.") from None
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
    raise ValueError(f"{path} is being written by one process after another: choose another name.")


def _holder(name: Path) -> str:
    """Who holds a lock, according to the lock file. The file is written shortly after it was locked, so this waits a little."""
    for _ in range(5):
        with suppress(ValueError):
            text = plain(read_file(name, 1000, "").decode(errors="replace"))
            if text:
                return text
        time.sleep(0.05)
    return "another process"


def reason(problem: OSError) -> str:
    """Why the operating system refused something."""
    return (problem.strerror or str(problem)).rstrip(".")


def clear_drafts(path: Path) -> None:
    """Removes unfinished drafts of that file that a killed process left behind, if they are at least a minute old."""
    path = Path(os.path.realpath(path))
    pattern = re.compile(re.escape(f".{path.name}.") + "[0-9a-f]{16}")
    with suppress(OSError):
        for draft in path.parent.iterdir():
            if pattern.fullmatch(draft.name) and time.time() - draft.stat().st_mtime > 60:
                draft.unlink(missing_ok=True)


def replace_file(path: Path, content: bytes | bytearray | Iterable[bytes]) -> None:
    """Replaces a file by `content`, or by its parts, completely or not at all, even if the machine stops in between.

    If the path is a link, the file that it points to is replaced. An existing file keeps its mode, and its owner if permitted.
    """
    target = check_writable(path)
    draft = target.parent / f".{target.name}.{secrets.token_hex(8)}"
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, 0o600 if target.exists() else 0o666)) as file:
            _take_after(file.fileno(), target)
            for part in [content] if isinstance(content, bytes | bytearray) else content:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except OSError as problem:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise ValueError(f"{path} cannot be written: {reason(problem)}. What was there before is untouched.") from None
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # makes the new name durable; some file systems cannot, but the file is in its place
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _take_after(draft: int, target: Path) -> None:
    """Gives an open file the owner and the mode of the file that it will replace, if there is one."""
    with suppress(FileNotFoundError):
        before = target.stat()
        if hasattr(os, "fchown"):
            with suppress(PermissionError):
                os.fchown(draft, before.st_uid, before.st_gid)
            os.fchmod(draft, stat.S_IMODE(before.st_mode))


def read_file(path: Path, most: int, needed: str, begins: bytes = b"") -> bytes:
    """The contents of a regular file. Raises if it does not exist, is not a regular file, or is too large.

    Pipes and devices are refused without waiting for them, since reading them might never end.

    Parameters
    ----------
    path : Path
    most : int
        The largest allowed size in bytes.
    needed : str
        What is needed, for the error message if the file does not exist.
    begins : bytes, default b""
        How the file has to begin. If it begins differently, only these first bytes are returned.
    """
    if not possible(path):
        raise ValueError(f"{str(path)!a} cannot be read: no file can have such a name.")
    try:
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            about = os.fstat(number)
            if not stat.S_ISREG(about.st_mode):
                what = "a folder" if stat.S_ISDIR(about.st_mode) else "a pipe or a device"
                raise ValueError(f"{path} cannot be read: it is {what}, not a file.")
            with open(number, "rb", closefd=False) as file:
                content = file.read(len(begins))
                if content == begins and about.st_size <= most:
                    content += file.read(about.st_size - len(begins))
        finally:
            os.close(number)
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"{path} does not exist: {needed}.") from None
    except OSError as problem:
        raise ValueError(f"{str(path)[:200]} cannot be read: {reason(problem)}.") from None
    except MemoryError:
        raise ValueError(f"{path} does not fit into memory.") from None
    if content[: len(begins)] == begins and about.st_size > most:
        raise ValueError(f"{path} is larger than {most / 2**20:g} MiB, the largest size that is read.")
    return content

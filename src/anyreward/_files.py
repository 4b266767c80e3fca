"""Files that are written whole or not at all, by one process at a time, and read only if they are files of a sane size."""

from __future__ import annotations

import os
import re
import secrets
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .words import plain


def check_writable(path: Path, folder: bool = False) -> Path:
    """Where a file of that name is written: links are followed. Raises if it cannot be; `folder` says that it may be a folder."""
    if not possible(path):
        raise ValueError(f"{str(path)!a} cannot be written: no file can have such a name.")
    try:
        target = Path(os.path.realpath(path))
        if not target.parent.is_dir():
            missing = target.parent if path.is_symlink() else path.parent
            raise ValueError(f"{path} cannot be written: there is no folder {missing}.")
        if target.is_symlink():
            raise ValueError(f"{path} cannot be written: it is a link that leads back to itself.")
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
    """Raises if results cannot be written into a folder of that name, which may have to be made."""
    try:
        there = path.exists() or path.is_symlink()
    except OSError as problem:
        raise ValueError(f"{str(path)[:200]} cannot be written: {reason(problem)}.") from None
    if there and not path.is_dir():
        raise ValueError(f"{path} cannot be written into: it is not a folder.")
    check_writable(path / "x" if there else path)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keeps a file, or a folder of results, for this process; another one that wants to write there is told who has it.

    The lock is the operating system's, on a file `.<name>.lock` beside it, or `.lock` in the folder, that says who holds it: it
    ends with the process, however that ends, whatever it has started. What a killed process leaves of it means nothing, and is
    removed by the next one.
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
        if lock in LOCKS:  # not in a process that was forked meanwhile: the lock is its parent's
            with suppress(OSError):
                name.unlink()  # while it is held: whoever has opened it in vain opens it anew
            LOCKS.discard(lock)
            with suppress(OSError):
                os.close(lock)


LOCKS: set[int] = set()  # open files that this process has locked


def _forget_locks() -> None:
    """A process that is forked must not keep what its parent has locked."""
    while LOCKS:
        with suppress(OSError):
            os.close(LOCKS.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


def _locked(name: Path, path: Path) -> int:
    """An open file of that name that is locked; raises if another process has it."""
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
            if os.fstat(lock).st_nlink:  # else its holder ended, and removed it, while we opened it
                LOCKS.add(lock)
                return lock
        except OSError as problem:
            os.close(lock)
            raise ValueError(f"{path} cannot be written: it cannot be locked, {reason(problem)}.") from None
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
    raise ValueError(f"{path} is being written by other processes, one after the other: choose another name.")


def _holder(name: Path) -> str:
    """Who holds a lock, as the file says, which is written right after it was locked."""
    for _ in range(5):
        with suppress(ValueError):
            text = plain(read_file(name, 1000, "").decode(errors="replace"))
            if text:
                return text
        time.sleep(0.05)
    return "another process"


def reason(problem: OSError) -> str:
    """Why the system refused something."""
    return (problem.strerror or str(problem)).rstrip(".")


def clear_drafts(path: Path) -> None:
    """Removes what writing that file left behind when it was killed, if it is a minute old."""
    path = Path(os.path.realpath(path))
    pattern = re.compile(re.escape(f".{path.name}.") + "[0-9a-f]{16}")
    with suppress(OSError):
        for draft in path.parent.iterdir():
            if pattern.fullmatch(draft.name) and time.time() - draft.stat().st_mtime > 60:
                draft.unlink(missing_ok=True)


def replace_file(path: Path, content: bytes | bytearray) -> None:
    """Puts `content` in the place of a file, whole or not at all, even if the machine stops on the way.

    A link stays one: the file that it points to is replaced. A file that was there keeps its mode, and its owner if we may.
    """
    target = check_writable(path)
    draft = target.parent / f".{target.name}.{secrets.token_hex(8)}"
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, 0o600 if target.exists() else 0o666)) as file:
            _take_after(file.fileno(), target)
            file.write(content)
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
    with suppress(OSError):  # the file is in its place; some file systems cannot make the name of it last
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _take_after(draft: int, target: Path) -> None:
    """Gives an open file the owner and the mode of the one that it will replace, if there is one."""
    with suppress(FileNotFoundError):
        before = target.stat()
        if hasattr(os, "fchown"):
            with suppress(PermissionError):
                os.fchown(draft, before.st_uid, before.st_gid)
            os.fchmod(draft, stat.S_IMODE(before.st_mode))


def read_file(path: Path, most: int, needed: str, begins: bytes = b"") -> bytes:
    """The contents of a regular file of at most so many bytes; `needed` says what is needed if it is not there.

    A pipe could wait for ever, a device never end: both are refused, without waiting. Of a file that does not begin as it should,
    no more than that is read.
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
        raise ValueError(f"{path} is not there: {needed}.") from None
    except OSError as problem:
        raise ValueError(f"{str(path)[:200]} cannot be read: {reason(problem)}.") from None
    except MemoryError:
        raise ValueError(f"{path} is larger than there is memory for it.") from None
    if content[: len(begins)] == begins and about.st_size > most:
        raise ValueError(f"{path} is larger than {most / 2**20:g} MiB, which is more than such a file may have.")
    return content

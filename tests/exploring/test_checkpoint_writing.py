"""Writing checkpoints where there is no room, no folder or no permission: the last checkpoint stays."""

import errno
import os
from pathlib import Path

import pytest

import anyreward as ar
from anyreward.environments.gymnasium import GymnasiumEnvironment
from anyreward.environments.tabular import TabularEnvironment

from ..helpers.checkpoints import go, same, script


def test_everything_is_synced_before_it_takes_the_place(tmp_path, monkeypatch):
    """The order is what makes it safe: content on the disk, then the new name, then the folder."""
    steps = []
    fsync, replace = os.fsync, os.replace

    def synced(number):
        steps.append("folder" if os.path.isdir(f"/proc/self/fd/{number}") else "file")
        fsync(number)

    def replaced(draft, path):
        assert Path(draft).parent == Path(path).parent  # on the same file system
        steps.append("replace")
        replace(draft, path)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    go("path", tmp_path / "it", 0.01)
    assert steps == ["file", "replace", "folder"]


# --- no room, no folder, no permission ---

FULL = """
import resource, signal, sys
from tests.helpers.checkpoints import go
go("path", sys.argv[1], 0.01)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
try:
    go("path", sys.argv[1], 0.05, checkpoint_every=0.0)
except ValueError as problem:
    print(problem)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="limits are a POSIX matter")
def test_a_full_disk_is_one_sentence_and_the_last_checkpoint_stays(tmp_path):
    path = tmp_path / "it"
    expected = go("path", path, 0.01)
    before = path.read_bytes()
    assert len(before) > 4096
    done = script(FULL, path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{path} cannot be written: File too large. What was there before is untouched.\n"
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["it"]
    assert same(ar.load(path), expected)
    assert go("path", path, 0.05).counts == go("path", None, 0.05).counts


def failing(at, code):
    """os.fsync that fails at its call number `at`."""
    calls = [0]

    def fsync(_):
        calls[0] += 1
        if calls[0] == at:
            raise OSError(code, os.strerror(code))

    return fsync


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_disk_that_fails_when_synced_leaves_the_last_checkpoint(tmp_path, monkeypatch, code):
    path = tmp_path / "it"
    go("path", path, 0.01)
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", failing(1, code))
    with pytest.raises(ValueError, match=f"it cannot be written: {os.strerror(code)}. What was there before is untouched"):
        go("path", path, 0.05)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["it"]
    monkeypatch.undo()
    assert go("path", path, 0.05).counts == go("path", None, 0.05).counts


def test_a_folder_that_cannot_be_synced_is_not_said_to_have_kept_the_old_file(tmp_path, monkeypatch):
    """Once the new file is in place, nobody may say that the old one is untouched."""
    path = tmp_path / "it"
    go("path", path, 0.01)
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", failing(2, errno.EIO))
    try:
        go("path", path, 0.05)
    except ValueError as problem:
        assert path.read_bytes() == before or "untouched" not in str(problem)  # noqa: PT017


def test_a_rename_that_fails_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "it"
    go("path", path, 0.01)
    before = path.read_bytes()

    def refuse(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(ValueError, match="it cannot be written: Operation not permitted"):
        go("path", path, 0.05)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["it"]


def unplayed(monkeypatch):
    def never(*_):
        raise AssertionError("an episode was played")

    for environment in (TabularEnvironment, GymnasiumEnvironment):
        monkeypatch.setattr(environment, "play", never)


def test_where_nothing_can_be_written_nothing_is_explored(tmp_path, monkeypatch):
    """Not after an hour: before the first episode."""
    unplayed(monkeypatch)
    with pytest.raises(ValueError, match=r"it\.atlas cannot be written: there is no folder .*nowhere"):
        go("path", tmp_path / "nowhere" / "it.atlas")
    with pytest.raises(ValueError, match="cannot be written: it is a folder"):
        go("path", tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="modes of files are a POSIX matter")
def test_a_read_only_file_is_not_written_to_not_even_by_root(tmp_path, monkeypatch):
    path = tmp_path / "it"
    expected = go("path", path, 0.01)
    before = path.read_bytes()
    path.chmod(0o444)
    unplayed(monkeypatch)
    with pytest.raises(ValueError, match=r"it cannot be written: it is read-only\. Make it writable, or choose another name\."):
        go("path", path)
    with pytest.raises(ValueError, match="it is read-only"):
        expected.save(path)
    assert path.read_bytes() == before
    assert same(ar.load(path), expected)
    assert os.listdir(tmp_path) == ["it"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write to any folder")
def test_a_read_only_folder_is_one_sentence(tmp_path):
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(ValueError, match="cannot be written"):
            go("path", tmp_path / "it", 0.01)
    finally:
        tmp_path.chmod(0o755)


def test_a_relative_name_and_a_string_are_fine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    go("path", "it", 0.01)
    assert os.listdir(tmp_path) == ["it"]
    assert same(go("path", b"it".decode(), 0.01), ar.load("it"))


def test_a_link_to_a_checkpoint_is_gone_on_with(tmp_path):
    go("path", tmp_path / "it", 0.01)
    (tmp_path / "link").symlink_to(tmp_path / "it")
    assert go("path", tmp_path / "link", 0.05).counts == go("path", None, 0.05).counts

"""Where results are written: links are followed, modes are kept, pipes are refused, and two processes never write at once."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward import _files
from anyreward.cli import app

from .helpers.waiting import PATIENCE, little_work

posix = pytest.mark.skipif(os.name != "posix", reason="links, modes and signals are a POSIX matter")
CHAIN = ("explore", "double-chain", "--env-arg", "length=5", "--horizon", "4")


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def small(path, seed=0, **options):
    return ar.explore(ar.envs.double_chain(5), 4, max_episodes=50, seed=seed, checkpoint=path, **options)


@posix
def test_a_link_stays_a_link_and_what_it_points_to_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "it.atlas", tmp_path / "there" / "real.atlas"
    link.symlink_to(target)  # to nothing yet
    atlas = small(link)
    assert link.is_symlink()
    assert ar.load(target) == atlas
    small(link).save(link)
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["it.atlas", "there"]
    assert os.listdir(tmp_path / "there") == ["real.atlas"]


@posix
@pytest.mark.parametrize("target", ["itself", "no-folder/real"])
def test_a_link_that_leads_nowhere_is_refused(tmp_path, target):
    link = tmp_path / "itself"
    link.symlink_to(tmp_path / target)
    with pytest.raises(
        ValueError, match=r"cannot be written: (it is a symbolic link that points|there is no folder .*no-folder)"
    ):
        _files.replace_file(link, b"x")
    assert link.is_symlink()
    assert os.listdir(tmp_path) == ["itself"]


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_modes_are_kept_also_while_it_is_written(tmp_path, mode, monkeypatch):
    path, seen = tmp_path / "it", []
    path.write_bytes(b"old")
    path.chmod(mode)
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (seen.append(stat.S_IMODE(os.stat(a).st_mode)), replace(a, b)))
    _files.replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert seen == [mode] == [stat.S_IMODE(path.stat().st_mode)]


@posix
def test_a_new_file_has_the_mode_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        _files.replace_file(tmp_path / "it", b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "it").stat().st_mode) == 0o640


@posix
def test_pipes_and_devices_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe.npy")
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    atlas = tmp_path / "it.atlas"
    small(atlas)
    for arguments in (
        (*CHAIN, "--max-episodes", 10, "--out", tmp_path / "pipe"),
        ("plan", atlas, "--reward", "state == 3", "--out", tmp_path / "pipe"),
        ("plan", atlas, "--reward", tmp_path / "pipe.npy"),
        ("plan", atlas, "--reward", tmp_path / "zero.csv"),
        ("info", tmp_path / "pipe"),
        ("sweep", tmp_path / "pipe"),
        ("explore", "FrozenLake-v1", "--horizon", 4, "--max-episodes", 5, "--action-masks", tmp_path / "pipe.npy", "--out", "x"),
    ):
        with little_work(20):
            result = call(*arguments)
        assert result.exit_code == 2, arguments
        assert "pipe or a device" in result.stderr or "exists already" in result.stderr
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_what_is_too_large_is_not_read(tmp_path):
    atlas = small(tmp_path / "it.atlas")
    for name in ("large.csv", "large.json", "large.npy", "large.toml"):
        with open(tmp_path / name, "wb") as file:
            file.truncate(2**33)
    from anyreward.experiments.sweep import load_config
    from anyreward.rewards.files import read_reward

    for name in ("large.csv", "large.json", "large.npy"):
        with pytest.raises(ValueError, match=r"is larger than \d+ MiB"):
            read_reward(str(tmp_path / name), atlas.counts.setting)
    with pytest.raises(ValueError, match=r"is larger than 0.25 MiB"):
        load_config(tmp_path / "large.toml")


HOLD = """
import sys, time
from pathlib import Path
from anyreward import _files
with _files.file_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(10_000)
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds a file."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "it.atlas")], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.slow
def test_a_file_that_another_process_writes_is_refused_with_its_name(tmp_path, holder):
    path = tmp_path / "it.atlas"
    says = rf"it.atlas is being written by process {holder.pid} on .*, since 20.*: wait for it to end, or choose another name\."
    with pytest.raises(ValueError, match=says):
        small(path)
    with pytest.raises(ValueError, match="is being written by process"):
        ar.explore(ar.envs.double_chain(5), 4, max_episodes=5).save(path)
    result = call(*CHAIN, "--max-episodes", 10, "--out", path)
    assert result.exit_code == 2
    assert f"being written by process {holder.pid}" in result.stderr
    assert not path.exists()
    small(tmp_path / "other.atlas")  # another file is free


@pytest.mark.slow
@posix
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_a_lock_dies_with_its_holder(tmp_path, holder, sign):
    holder.send_signal(sign)
    holder.wait()
    small(tmp_path / "it.atlas")
    assert os.listdir(tmp_path) == ["it.atlas"]


def test_a_lock_is_for_one_call_at_a_time_also_in_one_process(tmp_path):
    path, seen = tmp_path / "it.atlas", []

    def meanwhile(episodes, epsilon):
        if not seen:
            with pytest.raises(ValueError, match=f"being written by process {os.getpid()} "):
                small(path, seed=1)
            seen.append(episodes)

    small(path, progress=meanwhile)
    assert seen
    small(path)
    assert os.listdir(tmp_path) == ["it.atlas"]


@posix
@pytest.mark.slow
def test_two_runs_on_one_file_at_the_same_moment_never_both_go_on(tmp_path):
    """Of five processes that begin at once, each either has the file to itself or is told who has it."""
    code = "import sys; from anyreward.cli import app; print(flush=True); sys.stdin.readline(); app()"
    arguments = [sys.executable, "-c", code, *CHAIN, "--max-episodes", "3000", "--record", "--out", str(tmp_path / "it.atlas")]
    processes = [
        subprocess.Popen([*arguments, "--seed", str(seed)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         stdout=subprocess.PIPE)
        for seed in range(5)
    ]  # fmt: skip
    for process in processes:
        assert process.stdout.readline() == "\n"  # it is ready
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    errors = [process.communicate(timeout=PATIENCE)[1] for process in processes]
    codes = [process.returncode for process in processes]
    assert codes.count(0) == 1
    assert codes.count(2) == 4
    for error in (error for error, code in zip(errors, codes, strict=True) if code):
        assert "being written by " in error or "exists already" in error or "another exploration" in error
    seed = codes.index(0)
    assert ar.load(tmp_path / "it.atlas").source["seed"] == seed
    assert os.listdir(tmp_path) == ["it.atlas"]


def test_a_folder_of_results_is_held_as_well(tmp_path):
    from anyreward.experiments import reproduce, sweep

    config = {
        "name": "it",
        "algorithms": ["random"],
        "environments": [{"name": "double-chain", "length": 4}],
        "parameters": {"horizon": 3, "max_episodes": 5},
    }
    out = tmp_path / "out"
    out.mkdir()
    with _files.file_lock(out):
        for run in (lambda: sweep.run(config, out), lambda: reproduce.run(out)):
            with pytest.raises(ValueError, match="is being written by process"):
                run()
    sweep.run(config, out)
    assert sorted(os.listdir(out)) == ["cells", "table.parquet"]
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="it is not a folder"):
        sweep.run(config, tmp_path / "file")


@pytest.mark.parametrize("name", ["\0", "x" * 300, "\ud800"])
def test_names_that_no_file_can_have(name):
    for action in (lambda: _files.check_writable(Path(name)), lambda: _files.read_file(Path(name), 10, "something")):
        with pytest.raises(ValueError, match=r"cannot be (written|read): ") as caught:
            action()
        assert len(str(caught.value)) < 400


@pytest.mark.slow
@posix
def test_a_lock_does_not_outlive_its_holder_in_what_it_forked(tmp_path):
    """An environment may fork; once, its child kept the lock of a run that was gone."""
    path = tmp_path / "it.atlas"
    code = (
        "import os, sys, time; from pathlib import Path; from anyreward import _files\n"
        "with _files.file_lock(Path(sys.argv[1])):\n"
        "    if os.fork() == 0:\n        print(os.getpid(), flush=True); time.sleep(10_000); os._exit(0)\n"
        "    time.sleep(0.5); os.kill(os.getpid(), 9)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    child = int(process.stdout.readline())
    process.wait()
    try:
        small(path)
    finally:
        os.kill(child, signal.SIGKILL)
        process.stdout.close()
    assert os.listdir(tmp_path) == ["it.atlas"]


def test_a_lock_whose_holder_ends_while_it_is_opened_is_opened_anew(tmp_path, monkeypatch):
    """The file that is locked must still be there: else two processes could hold two files of one name."""
    path, name = tmp_path / "it", tmp_path / ".it.lock"
    import filelock

    lock, seen = filelock.lock_descriptor, []

    def late(number, **options):
        if not seen:
            name.unlink()  # as its holder does in this moment
        seen.append(number)
        return lock(number, **options)

    monkeypatch.setattr(filelock, "lock_descriptor", late)
    with _files.file_lock(path):
        assert len(seen) == 2
        assert name.exists()
    assert not name.exists()


@posix
@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_a_lock_that_is_no_file_is_refused_and_left_alone(tmp_path, kind):
    name, victim = tmp_path / ".it.lock", tmp_path / "victim"
    victim.write_text("untouched")
    {"folder": name.mkdir, "link": lambda: name.symlink_to(victim), "pipe": lambda: os.mkfifo(name)}[kind]()
    with pytest.raises(ValueError, match="cannot be written: its lock"), _files.file_lock(tmp_path / "it"):
        pass
    assert victim.read_text() == "untouched"


@pytest.mark.slow
@posix
def test_a_call_that_is_refused_leaves_the_drafts_of_the_holder_alone(tmp_path, holder):
    draft = tmp_path / f".it.atlas.{'0' * 16}"
    draft.write_bytes(b"half of it")
    os.utime(draft, (0, 0))
    with pytest.raises(ValueError, match="is being written"):
        small(tmp_path / "it.atlas")
    assert draft.exists()


@posix
@pytest.mark.parametrize("length", [238, 250, 255])
def test_names_so_long_that_no_draft_fits_beside_them(tmp_path, length):
    name = "x" * (length - 4) + ".csv"
    small(tmp_path / "it.atlas")
    with pytest.raises(ValueError, match="cannot be written: "):
        _files.replace_file(tmp_path / name, b"x")
    result = call("plan", tmp_path / "it.atlas", "--reward", "state == 1", "--out", tmp_path / name)
    assert result.exit_code == 2
    result = call(*CHAIN, "--max-episodes", 5, "--out", tmp_path / ("y" * 300))
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


@pytest.mark.slow
@posix
def test_a_forked_process_that_ends_leaves_the_lock_of_its_parent_alone(tmp_path):
    """It runs through the same frames: once, it removed the lock's file, and closed whatever had its number by then."""
    code = (
        "import os, sys; from pathlib import Path; from anyreward import _files\n"
        "path = Path(sys.argv[1]); name = path.parent / '.it.lock'\n"
        "with _files.file_lock(path):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n        sys.exit(3)\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3\n"
        "    assert name.exists()\n"
        "assert not name.exists()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "it")], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr

"""Explorations that are killed, interrupted or refused room: they are gone on with, and nobody can tell the difference.

The strongest comparison there is: the checkpoint that a finished exploration leaves holds its counts in the order of discovery,
its index, its generator, its history, its certificate and what was paid. That of a run which was killed on the way has to be the
same file, byte for byte, as that of one which was not.
"""

import errno
import importlib
import os
import signal
import subprocess
import sys
import types
from itertools import pairwise
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms import Explorer
from anyreward.atlas import container
from anyreward.atlas.format import read
from anyreward.environments.base import Environment, KnownModel
from anyreward.exploring.explore import Interrupted

from .problems import random_mdp

explore_module = importlib.import_module("anyreward.exploring.explore")  # the function has the same name
ROOT = Path(__file__).parents[1]
H = 5


class Rooms(gymnasium.Env):
    """Numbered as it appears, with masks, ends and random pay: everything that a simulator has to remember."""

    def __init__(self):
        self.observation_space = gymnasium.spaces.Text(8)
        self.action_space = gymnasium.spaces.Discrete(3)

    def _info(self):
        return {"action_mask": np.array([1, 1, self.room % 2], np.int8)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.room = int(self.np_random.integers(0, 3))
        return f"room {self.room}", self._info()

    def step(self, action):
        self.room = min(9, max(0, self.room + int(self.np_random.integers(-1, 2)) + int(action)))
        return f"room {self.room}", float(self.np_random.random() < 0.5), self.room == 9, False, self._info()


class Wanderer(Explorer):
    """An explorer of one's own that remembers something beside its counts."""

    def __init__(self, setting, **options):
        super().__init__(setting, **options)
        self.turn = 0

    def ask(self):
        shape = self.setting.horizon, self.setting.n_states
        return np.random.default_rng((self.seed, self.turn)).integers(0, self.setting.n_actions, shape)

    def _learn(self, states, actions):
        super()._learn(states, actions)
        self.turn += 1 + int(states.sum()) % 3

    def state(self):
        return {**super().state(), "turn": np.array([self.turn])}

    def restore(self, state):
        super().restore(state)
        self.turn = int(state["turn"][0])


def chain(**_):
    return ar.envs.double_chain(length=7)


def garnet(random_start=False, by_step=False):
    return random_mdp(5, 2, seed=3, random_start=random_start, H=H if by_step else None)


def reward():
    return np.random.default_rng(5).random((7, 2)).round(2)


CASES = {  # name: what is explored, episodes, options
    "path": (chain, 30_000, {}),
    "every": (chain, 15_000, {"replan": "every"}),
    "geometric": (chain, 60_000, {"replan": "geometric"}),
    "to a target": (chain, None, {"epsilon": 0.9}),
    "rf-ucrl": (chain, 30_000, {"algorithm": "rf-ucrl"}),
    "rf-ucrl every to a target": (chain, None, {"algorithm": "rf-ucrl", "bounds": "paper", "replan": "every", "epsilon": 4.9}),
    "paper": (chain, 20_000, {"bounds": "paper", "clip": False, "ties": "first"}),
    "bpi known": (chain, 10_000, {"algorithm": "bpi-ucrl", "reward": reward()}),
    "bpi observed": (chain, 10_000, {"algorithm": "bpi-ucrl", "reward": reward(), "rewards": "observed"}),
    "bpi random": (chain, 10_000, {"algorithm": "bpi-ucrl", "reward": reward(), "rewards": "random", "stationary": True}),
    "bpi on arrival": (chain, 60, {"algorithm": "bpi-ucrl", "reward": lambda h, s, a, s_next: float(s_next == 6)}),
    "stationary": (chain, 40_000, {"stationary": True, "discount": 0.9}),
    "random start": (lambda: garnet(random_start=True), 20_000, {"arrival_rewards": True}),
    "random start bpi": (lambda: garnet(random_start=True), 4_000, {"algorithm": "bpi-ucrl", "reward": np.eye(5)[4]}),
    "by step": (lambda: garnet(by_step=True), 20_000, {"growth": 1.2}),
    "stationary geometric": (lambda: garnet(random_start=True), 60_000, {"stationary": True, "replan": "geometric"}),
    "recorded": (chain, 400, {"record": True}),
    "wanderer": (chain, 800, {"algorithm": Wanderer}),
    "frozen lake": (lambda: "FrozenLake-v1", 900, {}),
    "frozen lake geometric": (lambda: "FrozenLake-v1", 900, {"replan": "geometric", "record": True}),
    "frozen lake bpi": (lambda: "FrozenLake-v1", 500, {"algorithm": "bpi-ucrl", "rewards": "random", "initial_state": 0}),
    "rooms": (lambda: Rooms, 600, {"max_states": 12, "record": True}),
    "rooms end": (lambda: Rooms, 600, {"max_states": 12, "terminal": "end", "stationary": True}),
}


KILLED = [
    "path",
    "every",
    "geometric",
    "rf-ucrl",
    "bpi known",
    "bpi observed",
    "bpi random",
    "stationary",
    "random start",
    "to a target",
]
KILLED += ["frozen lake", "rooms"]


def whole_scale(name):
    """Known models are so fast that they have to be explored for longer to be killed on the way."""
    return 1 if CASES[name][1] is None or CASES[name][1] < 1_000 else 3


def go(name, path, scale=1, **options):
    """The exploration of a case, whole or as far as it comes."""
    env, episodes, given = CASES[name]
    episodes = None if episodes is None else max(1, round(episodes * scale))
    call = {"max_episodes": episodes, "seed": 11, "progress": False, "checkpoint": path, **given, **options}
    return ar.explore(env(), H, **call)


def same(one, other):
    """Whether two atlases are the same to the last bit."""
    assert one.counts.digest() == other.counts.digest()
    for name, column in one.counts.columns().items():
        np.testing.assert_array_equal(column, other.counts.columns()[name])
    assert one.certificate == other.certificate
    assert one.history == other.history
    assert one.runs == other.runs
    assert one.paid == other.paid
    assert (one.policy is None) == (other.policy is None)
    assert one.policy is None or (one.policy == other.policy).all()
    S = one.counts.setting.n_states
    plans = [atlas.plan(np.linspace(0, 1, S)) for atlas in (one, other)]
    assert (plans[0].policy == plans[1].policy).all()
    assert [(p.value, p.lower, p.upper) for p in plans[:1]] == [(p.value, p.lower, p.upper) for p in plans[1:]]
    assert (one.recording is None) == (other.recording is None)
    if one.recording is not None:
        for mine, theirs in zip(one.recording, other.recording, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    return True


# --- killed ---

NURSERY = """
import os, random, signal, sys, time
from itertools import pairwise
from pathlib import Path
import pyarrow.parquet
import anyreward as ar
from anyreward.atlas.format import read
from tests.test_checkpoint import go, whole_scale

where, kills, names = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
draw = random.Random(f"{names}")
for name in names:  # whatever has to be compiled or loaded is there before the clock runs
    go(name, None, scale=0.02)


def child(task):
    pid = os.fork()
    if pid == 0:
        try:
            task()
            sys.stdout.flush()
            os._exit(0)
        except BaseException as problem:
            print(f"{type(problem).__name__}: {problem}", flush=True)
            os._exit(1)
    return pid


def finish(pid, of):
    status = os.waitpid(pid, 0)[1]
    if status:
        sys.exit(f"{of} failed: {status}")


def readable(path):
    atlas, progress, state = read(path)
    assert state and progress["world"] is not None and atlas.episodes > 0


for name in names:
    whole, cut = where / f"{name}.whole", where / f"{name}.cut"
    begin = time.monotonic()
    finish(child(lambda: go(name, whole, whole_scale(name), checkpoint_every=1e9)), f"{name}, uninterrupted")
    lasts = time.monotonic() - begin
    killed = 0
    for _ in range(kills):
        pid = child(lambda: go(name, cut, whole_scale(name), checkpoint_every=0.005))
        time.sleep(draw.random() * max(0.05, 0.7 * lasts))
        os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            sys.exit(f"{name} could not be gone on with")
        killed += os.WIFSIGNALED(status)
        if cut.exists():
            finish(child(lambda: readable(cut)), f"{name}, reading")
    finish(child(lambda: go(name, cut, whole_scale(name), checkpoint_every=0.005)), f"{name}, the end")
    print(f"{name}: killed {killed}", flush=True)
"""


def script(text, *arguments, timeout=120, **options):
    done = subprocess.run(
        [sys.executable, "-c", text, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=timeout, **options
    )
    return done


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("half", [0, 1])
def test_killed_at_any_moment_it_reaches_the_same_atlas(tmp_path, half):
    """kill -9 at random moments, many times; no checkpoint is ever unreadable, and the end is the same to the last bit."""
    names = KILLED[half::2]
    done = script(NURSERY, tmp_path, 4, *names)
    assert done.returncode == 0, done.stdout + done.stderr
    killed = sum(int(line.rsplit(maxsplit=1)[1]) for line in done.stdout.splitlines() if ": killed " in line)
    assert killed >= 20, done.stdout
    for name in names:
        whole, cut = tmp_path / f"{name}.whole", tmp_path / f"{name}.cut"
        assert same(ar.load(whole), ar.load(cut)), name
        assert whole.read_bytes() == cut.read_bytes(), name


class Stop(Exception):
    pass


def stopped_at(monkeypatch, moments):
    """Saves after every advance; raises Stop at the given ones, counted from the last stop."""
    left = list(moments)
    count = [0]

    def counting(advance):
        def wrapped(self, *arguments):
            if left and count[0] >= left[0]:
                count[0] = 0
                left.pop(0)
                raise Stop
            count[0] += 1
            return advance(self, *arguments)

        return wrapped

    save = explore_module._Run.save

    def save_always(self, path):
        save(self, path)
        self.pace = -1.0

    for world in (KnownModel, Environment):
        monkeypatch.setattr(world, "advance", counting(world.advance))
    monkeypatch.setattr(explore_module._Run, "save", save_always)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # thousands of them: the power stays on


@pytest.mark.parametrize("name", CASES)
def test_stopped_at_any_advance_it_reaches_the_same_atlas(tmp_path, monkeypatch, name):
    scale = {"recorded": 0.3, "wanderer": 0.2}.get(name, 0.5 if CASES[name][1] and CASES[name][1] < 1000 else 0.05)
    whole = go(name, tmp_path / "whole", scale, checkpoint_every=1e9)
    assert same(go(name, None, scale), whole)  # to save changes nothing
    rng = np.random.default_rng(len(name))
    moments = rng.integers(1, 25, 8).tolist()
    stopped_at(monkeypatch, moments)
    stops = 0
    while True:
        try:
            cut = go(name, tmp_path / "cut", scale, checkpoint_every=-1.0)
            break
        except Stop:
            stops += 1
            assert stops <= len(moments)
    assert stops >= 2
    assert same(whole, cut)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "cut").read_bytes()


@pytest.mark.parametrize("name", ["path", "geometric", "frozen lake", "bpi random"])
def test_a_finished_exploration_is_not_explored_again(tmp_path, monkeypatch, name):
    first = go(name, tmp_path / "it", 0.1)
    before = (tmp_path / "it").read_bytes()

    def never(*_):
        raise AssertionError("an episode was played")

    for world in (KnownModel, Environment):
        monkeypatch.setattr(world, "advance", never)
    assert same(go(name, tmp_path / "it", 0.1), first)
    assert (tmp_path / "it").read_bytes() == before


@pytest.mark.parametrize("name", ["path", "every", "bpi known", "frozen lake", "rooms"])
def test_more_episodes_go_on_from_a_checkpoint(tmp_path, name):
    """The looks at the certificate fall elsewhere, but the same episodes are played (here from where a block of them begins)."""
    go(name, tmp_path / "it", max_episodes=320)
    longer, whole = go(name, tmp_path / "it", max_episodes=500), go(name, None, max_episodes=500)
    assert longer.episodes == whole.episodes
    assert longer.counts == whole.counts
    assert longer.certificate == whole.certificate
    t = [t for t, _ in longer.history]
    assert t == sorted(set(t))
    assert t[-1] == whole.episodes


def test_a_smaller_epsilon_goes_on_from_a_checkpoint(tmp_path):
    go("to a target", tmp_path / "it", epsilon=1.5)
    closer, whole = go("to a target", tmp_path / "it"), go("to a target", None)
    assert closer.certificate.met
    assert closer.episodes == pytest.approx(whole.episodes, rel=0.05)


# --- Ctrl-C ---


@pytest.fixture(autouse=True)
def ctrl_c_interrupts():
    """Whatever was inherited: the background jobs of a script ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


INTERRUPTIBLE = """
import signal, sys, time
import anyreward as ar
from anyreward.exploring.explore import Interrupted
from tests.test_checkpoint import go
assert issubclass(Interrupted, KeyboardInterrupt)
go(sys.argv[1], None, 0.01)
from anyreward.environments import base as world
for kind in (world.KnownModel, world.Environment):
    def slowly(self, *arguments, advance=kind.advance):
        print("going", flush=True)
        time.sleep(0.01)
        return advance(self, *arguments)
    kind.advance = slowly
try:
    go(sys.argv[1], sys.argv[2], float(sys.argv[3]))
    print("done", flush=True)
except Interrupted as message:
    print("message:", message, flush=True)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are a POSIX matter")
@pytest.mark.parametrize("name", ["path", "frozen lake", "bpi observed"])
def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path, name):
    path, scale = tmp_path / "run.atlas", 0.3
    whole = go(name, tmp_path / "whole", scale, checkpoint_every=1e9)
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, name, str(path), str(scale)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    for _ in range(20):  # 20 advances in
        assert process.stdout.readline() == "going\n"
    assert not path.exists()  # every 10 s: it is not time yet
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    message = rest.splitlines()[-1]
    assert message.startswith("message: stopped after "), rest
    assert str(path) in message
    assert "the same call" in message
    atlas = ar.load(path)
    assert 0 < atlas.episodes < whole.episodes
    assert f"{atlas.episodes:,} episodes" in message
    assert same(go(name, path, scale), whole)
    assert path.read_bytes() == (tmp_path / "whole").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["run.atlas", "whole"]


def interrupt(*_):
    signal.raise_signal(signal.SIGINT)


def test_ctrl_c_in_the_same_process(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    calls = []

    def third_look(*_):
        calls.append(1)
        if len(calls) == 3:
            interrupt()

    with pytest.raises(Interrupted, match="same call goes on"):
        go("path", tmp_path / "it", 0.1, progress=third_look)
    assert signal.getsignal(signal.SIGINT) is before
    assert same(go("path", tmp_path / "it", 0.1), go("path", None, 0.1))


def test_without_a_checkpoint_ctrl_c_is_what_it_always_was():
    with pytest.raises(KeyboardInterrupt) as caught:
        go("path", None, 0.1, progress=interrupt)
    assert not isinstance(caught.value, Interrupted)


def test_a_second_ctrl_c_stops_at_once_and_leaves_the_checkpoint(tmp_path, monkeypatch):
    go("path", tmp_path / "it", 0.05)
    before = (tmp_path / "it").read_bytes()

    def twice(*_):
        interrupt()
        interrupt()

    with pytest.raises(KeyboardInterrupt) as caught:
        go("path", tmp_path / "it", 0.1, progress=twice)
    assert not isinstance(caught.value, Interrupted)
    assert (tmp_path / "it").read_bytes() == before
    monkeypatch.setattr(os, "fsync", twice)  # while it is being written
    with pytest.raises(KeyboardInterrupt):
        go("path", tmp_path / "it", 0.1, checkpoint_every=0.0)
    assert (tmp_path / "it").read_bytes() == before
    assert os.listdir(tmp_path) == ["it"]


def test_an_exception_from_outside_leaves_the_last_checkpoint(tmp_path):
    go("path", tmp_path / "it", 0.05)
    before = (tmp_path / "it").read_bytes()

    def fail(*_):
        raise RuntimeError("from outside")

    with pytest.raises(RuntimeError, match="from outside"):
        go("path", tmp_path / "it", 0.1, progress=fail)
    assert (tmp_path / "it").read_bytes() == before
    assert same(go("path", tmp_path / "it", 0.05), go("path", None, 0.05))


# --- the pace ---


@pytest.mark.parametrize(("lasts", "pace"), [(0.0, 4.0), (0.125, 4.0), (0.5, 10.0)])
def test_saves_come_at_a_steady_pace_and_take_a_twentieth_of_the_time(tmp_path, monkeypatch, lasts, pace):
    """By a clock of its own, on which an advance takes a second: every 4 seconds, or 20 times as long as it takes to save."""
    now, saves = [0.0], []
    advance, write = KnownModel.advance, ar.Atlas._write

    def second(self, *arguments):
        now[0] += 1.0
        return advance(self, *arguments)

    def slowly(self, *arguments):
        saves.append(now[0])
        now[0] += lasts
        return write(self, *arguments)

    monkeypatch.setattr(explore_module, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(KnownModel, "advance", second)
    monkeypatch.setattr(ar.Atlas, "_write", slowly)
    go("path", tmp_path / "it", 0.05, checkpoint_every=4.0)
    assert len(saves) > 10
    assert saves[0] == 5.0  # the first moment after more than 4 s
    gaps = [later - earlier - lasts for earlier, later in pairwise(saves[:-1])]  # the last one is at the end, whenever that is
    assert min(gaps) > pace
    assert max(gaps) <= pace + 1.0


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
from tests.test_checkpoint import go
go("path", sys.argv[1], 0.01)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
try:
    go("path", sys.argv[1], 0.05, checkpoint_every=0.0)
except ValueError as problem:
    print(problem)
"""


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

    for world in (KnownModel, Environment):
        monkeypatch.setattr(world, "advance", never)


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


# --- of another exploration ---


def refused(path, names, call):
    before = path.read_bytes()
    with pytest.raises(ValueError, match=names) as caught:
        call()
    text = str(caught.value)
    assert str(path) in text
    assert text.endswith(".")
    assert "\n" not in text
    assert path.read_bytes() == before
    return True


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"env": ar.envs.double_chain(length=7, fail_prob=0.2)}, "env"),
        ({"env": ar.envs.double_chain(length=5)}, "env|setting"),
        ({"env": "FrozenLake-v1"}, "env"),
        ({"horizon": H + 1}, "setting|horizon"),
        ({"discount": 0.9}, "setting|discount"),
        ({"stationary": True}, "setting|stationary"),
        ({"arrival_rewards": True}, "setting|arrival_rewards"),
        ({"absorbing_states": (0,)}, "env|setting|absorbing_states"),
        ({"delta": 0.2}, "delta"),
        ({"algorithm": "rf-ucrl"}, "algorithm"),
        ({"algorithm": Wanderer}, "algorithm"),
        ({"bounds": "paper"}, "bounds"),
        ({"max_successors": 3}, "bounds|max_successors"),
        ({"transfer": False}, "bounds|transfer"),
        ({"seed": 12}, "seed"),
        ({"replan": "every"}, "options|replan"),
        ({"ties": "first"}, "options|ties"),
        ({"growth": 1.5}, "options|growth"),
        ({"record": True}, "record"),
    ],
)
def test_the_checkpoint_of_another_exploration_is_refused_and_the_difference_named(tmp_path, change, names):
    path = tmp_path / "it"
    call = {"env": chain(), "horizon": H, "max_episodes": 50, "seed": 11, "progress": False, "checkpoint": path}
    ar.explore(**call)
    if change == {"absorbing_states": (0,)}:  # a state that is never left, said or not
        P = np.full((3, 2, 3), 1 / 3)
        P[0] = [1, 0, 0]
        call["env"] = ar.TabularMDP(P, initial=1)
        path.unlink()
        ar.explore(**call)
    assert refused(
        path, f"checkpoint of another exploration, its ({names}) is not the same", lambda: ar.explore(**{**call, **change})
    )


def closure(pay):
    return lambda h, s, a: pay if s == 6 else 0.0


def test_a_reward_that_is_another_one_is_noticed(tmp_path):
    """Also when both are functions with the same name: going on would certify one reward with the values of another."""
    for i, (one, other) in enumerate(
        [
            (reward(), reward() / 2),
            (reward()[:, 0], reward()[:, 1]),
            (closure(1.0), closure(0.25)),
            ("state == 6", "state == 5"),
        ]
    ):
        path = tmp_path / f"{i}"
        go("bpi known", path, 0.01, reward=one)
        assert go("bpi known", path, 0.01, reward=one).episodes == 100
        assert refused(path, "another exploration", lambda path=path, other=other: go("bpi known", path, 0.02, reward=other))


class Line(gymnasium.Env):
    """A place in [0, 1]."""

    def __init__(self):
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0.5
        return np.array([self.x]), {}

    def step(self, action):
        self.x = self.np_random.random()
        return np.array([self.x]), 0.0, False, False, {}


@pytest.mark.filterwarnings("ignore:.*cut into bins")
@pytest.mark.parametrize("change", [{"bins": [[0.2, 0.8]]}, {"bins": [3]}, {"terminal": "end"}, {"initial_state": 1}])
def test_an_environment_that_is_seen_otherwise_is_noticed(tmp_path, change):
    """Other bins number other states: counts of both together would be counts of nothing."""
    path = tmp_path / "it"
    call = {"env": Line, "horizon": 3, "max_episodes": 40, "progress": False, "checkpoint": path, "bins": [[0.4, 0.6]]}
    call["terminal"] = "state"
    ar.explore(**call)
    assert refused(path, "another exploration", lambda: ar.explore(**{**call, "max_episodes": 80, **change}))


@pytest.mark.parametrize("change", [{"env_args": {"is_slippery": False}}, {"env_args": {"map_name": "8x8"}}, {"max_states": 16}])
def test_an_environment_made_otherwise_is_noticed(tmp_path, change):
    path = tmp_path / "it"
    go("frozen lake", path, 0.05)
    assert refused(path, "another exploration", lambda: go("frozen lake", path, 0.1, **change))


def test_an_atlas_that_is_no_checkpoint_is_refused(tmp_path):
    path = tmp_path / "it"
    go("path", None, 0.01).save(path)
    assert refused(path, "is an atlas, but not a checkpoint to go on from", lambda: go("path", path))


@pytest.mark.parametrize("content", [b"", b"notes of mine\n", b"PAR1", b"PAR1" * 100, bytes(range(256)) * 40])
def test_a_file_that_is_no_atlas_is_neither_taken_up_nor_overwritten(tmp_path, content):
    path = tmp_path / "it"
    path.write_bytes(content)
    assert refused(path, "atlas|cut short|damaged", lambda: go("path", path, 0.01))


def test_a_checkpoint_that_is_damaged_is_neither_taken_up_nor_overwritten(tmp_path):
    path = tmp_path / "it"
    go("path", path, 0.01)
    whole = path.read_bytes()
    for at in range(0, len(whole), 211):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        assert refused(path, "is not an atlas|is damaged|was cut short|is a Parquet file but not", lambda: go("path", path, 0.05))
        path.write_bytes(whole[:at])
        assert refused(path, "is not an atlas|was cut short", lambda: go("path", path, 0.05))


def test_a_checkpoint_can_be_planned_from_and_merged(tmp_path):
    """It is an atlas like any other."""
    go("path", tmp_path / "it", 0.01)
    atlas, progress, state = read(tmp_path / "it")
    assert progress["call"]["seed"] == 11
    assert state
    assert atlas == ar.load(tmp_path / "it")
    other = ar.explore(chain(), H, max_episodes=100, seed=12)
    assert (atlas | other).episodes == atlas.episodes + 100
    atlas.save(tmp_path / "plain")
    assert len((tmp_path / "plain").read_bytes()) < len((tmp_path / "it").read_bytes())
    assert container.read(tmp_path / "plain")[2] == {}


def test_nothing_is_saved_before_the_first_episode(tmp_path):
    """There is nothing to go on from yet; the name stays free."""
    ar.explore(chain(), H, max_episodes=0, checkpoint=tmp_path / "it")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("pace", [0.0, -1.0, 1e-9, 1e9, float("inf")])
def test_any_pace_gives_the_same(tmp_path, monkeypatch, pace):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    assert same(go("path", tmp_path / "it", 0.05, checkpoint_every=pace), go("path", None, 0.05))

"""Explorations that are killed or stopped are resumed, and the result does not show it.

The comparison is the strictest that there is: the checkpoint that a finished exploration leaves holds its counts in the order of
discovery, its index, its generator, its history, its certificate and what was paid. The checkpoint of a run that was killed on
the way has to be the same file, byte for byte, as that of a run that was not.
"""

import os
import types
from itertools import pairwise

import numpy as np
import pytest

import anyreward as ar
from anyreward.atlas import container
from anyreward.atlas.format import read
from anyreward.environments.gymnasium import GymnasiumEnvironment
from anyreward.environments.tabular import TabularEnvironment
from anyreward.exploring import checkpoint as checkpoints

from ..helpers.checkpoints import CASES, H, chain, go, same, script
from ..helpers.forging import parts_of

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
    "shared laws",
]
KILLED += ["frozen lake", "rooms"]


# --- killed ---

NURSERY = """
import os, random, signal, sys
from itertools import pairwise
from pathlib import Path
import pyarrow.parquet
import anyreward as ar
from anyreward.atlas.format import read
from tests.helpers.checkpoints import go, whole_scale
from tests.helpers.waiting import processor_time_of, processor_time_of_children, wait_for

where, kills, names = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
draw = random.Random(f"{names}")
for name in names:  # whatever has to be compiled or loaded is there before the processor time is measured
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


def ended(pid):
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def readable(path):
    atlas, progress, state = read(path)
    assert state and progress["world"] is not None and atlas.episodes > 0


for name in names:
    whole, cut = where / f"{name}.whole", where / f"{name}.cut"
    begin = processor_time_of_children()
    finish(child(lambda: go(name, whole, whole_scale(name), checkpoint_every=1e9)), f"{name}, uninterrupted")
    lasts = processor_time_of_children() - begin
    killed = 0
    for _ in range(kills):
        pid = child(lambda: go(name, cut, whole_scale(name), checkpoint_every=0.005))
        moment = draw.random() * max(0.05, 0.7 * lasts)  # in processor time, which does not depend on what else is running
        wait_for(lambda: processor_time_of(pid) >= moment or ended(pid), pause=0.001)
        os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            sys.exit(f"{name} could not be resumed")
        killed += os.WIFSIGNALED(status)
        if cut.exists():
            finish(child(lambda: readable(cut)), f"{name}, reading")
    finish(child(lambda: go(name, cut, whole_scale(name), checkpoint_every=0.005)), f"{name}, the end")
    print(f"{name}: killed {killed}", flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("half", [0, 1])
def test_killed_at_any_moment_it_reaches_the_same_atlas(tmp_path, half):
    """kill -9 at random moments; no checkpoint is ever unreadable, and the end is the same to the last bit."""
    names = KILLED[half::2]
    done = script(NURSERY, tmp_path, 2, *names)
    assert done.returncode == 0, done.stdout + done.stderr
    killed = sum(int(line.rsplit(maxsplit=1)[1]) for line in done.stdout.splitlines() if ": killed " in line)
    assert killed >= 8, done.stdout  # of 12: some end before they are killed for the second time
    for name in names:
        whole, cut = tmp_path / f"{name}.whole", tmp_path / f"{name}.cut"
        assert same(ar.load(whole), ar.load(cut)), name
        assert whole.read_bytes() == cut.read_bytes(), name


class Stop(Exception):
    pass


def stopped_at(monkeypatch, moments):
    """Saves after every call of `play`; raises Stop at the given ones, counted from the last stop."""
    left = list(moments)
    count = [0]

    def counting(play):
        def wrapped(self, *arguments):
            if left and count[0] >= left[0]:
                count[0] = 0
                left.pop(0)
                raise Stop
            count[0] += 1
            return play(self, *arguments)

        return wrapped

    save = checkpoints.Checkpoint.save

    def save_always(self, *arguments):
        save(self, *arguments)
        self.seconds = -1.0

    for environment in (TabularEnvironment, GymnasiumEnvironment):
        monkeypatch.setattr(environment, "play", counting(environment.play))
    monkeypatch.setattr(checkpoints.Checkpoint, "save", save_always)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # thousands of them: the power stays on


@pytest.mark.slow
@pytest.mark.usefixtures("quick_look")
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

    for environment in (TabularEnvironment, GymnasiumEnvironment):
        monkeypatch.setattr(environment, "play", never)
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


@pytest.mark.slow
@pytest.mark.parametrize(("lasts", "pace"), [(0.0, 4.0), (0.125, 4.0), (0.5, 10.0)])
def test_saves_come_at_a_steady_pace_and_take_a_twentieth_of_the_time(tmp_path, monkeypatch, lasts, pace):
    """By a clock of its own, on which a call of `play` takes a second: every 4 seconds, or 20 times as long as saving takes."""
    now, saves = [0.0], []
    play, write = TabularEnvironment.play, ar.Atlas._write

    def second(self, *arguments):
        now[0] += 1.0
        return play(self, *arguments)

    def slowly(self, *arguments):
        saves.append(now[0])
        now[0] += lasts
        return write(self, *arguments)

    monkeypatch.setattr(checkpoints, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(TabularEnvironment, "play", second)
    monkeypatch.setattr(ar.Atlas, "_write", slowly)
    go("path", tmp_path / "it", 0.05, checkpoint_every=4.0)
    assert len(saves) > 10
    assert saves[0] == 5.0  # the first moment after more than 4 s
    gaps = [later - earlier - lasts for earlier, later in pairwise(saves[:-1])]  # the last one is at the end, whenever that is
    assert min(gaps) > pace
    assert max(gaps) <= pace + 1.0


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
    assert set(container.read(tmp_path / "plain")[2]) == {"own.reward"}  # the model's own


def test_nothing_is_saved_before_the_first_episode(tmp_path):
    """There is nothing to go on from yet; the name stays free."""
    ar.explore(chain(), H, max_episodes=0, checkpoint=tmp_path / "it")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("pace", [0.0, -1.0, 1e-9, 1e9, float("inf")])
def test_any_pace_gives_the_same(tmp_path, monkeypatch, pace):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    assert same(go("path", tmp_path / "it", 0.05, checkpoint_every=pace), go("path", None, 0.05))


@pytest.mark.parametrize("options", [{}, {"algorithm": "bpi-ucrl"}])
def test_checkpoints_of_version_0_2_are_resumed(tmp_path, options):
    """They knew nothing of `initial`, and kept a radius for a start that was known."""
    path, mdp = tmp_path / "run.atlas", ar.envs.double_chain(length=5)
    ar.explore(mdp, 4, max_episodes=100, checkpoint=path, **options)
    columns, about, arrays = parts_of(path)
    del about["progress"]["call"]["setting"]["initial"], about["certificate"]["setting"]["initial"]
    if "state.radius" in arrays:
        arrays["state.radius"] = arrays["state.radius"].copy()
        arrays["state.radius"][0] = 0.25
    container.write(path, columns, about, arrays)
    assert ar.explore(mdp, 4, max_episodes=300, checkpoint=path, **options) == ar.explore(mdp, 4, max_episodes=300, **options)

"""Ctrl-C during an exploration: what was explored is returned, and saved if there is a checkpoint; a second one ends it."""

import os
import signal
import subprocess
import sys
import threading

import pytest

import anyreward as ar
from anyreward.exploring.interrupts import Interrupted

from ..helpers.checkpoints import ROOT, chain, go, same
from ..helpers.tabular import Tabular, transitions
from ..helpers.waiting import PATIENCE


@pytest.fixture(autouse=True)
def ctrl_c_interrupts():
    """Whatever was inherited: the background jobs of a script ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


INTERRUPTIBLE = """
import signal, sys, time
import anyreward as ar
from anyreward.exploring.interrupts import Interrupted
from tests.helpers.checkpoints import go
assert issubclass(Interrupted, KeyboardInterrupt)
go(sys.argv[1], None, 0.01)
from anyreward.environments.gymnasium import GymnasiumEnvironment
from anyreward.environments.tabular import TabularEnvironment
for kind in (TabularEnvironment, GymnasiumEnvironment):
    def slowly(self, *arguments, play=kind.play):
        print("going", flush=True)
        time.sleep(0.01)
        return play(self, *arguments)
    kind.play = slowly
try:
    atlas = go(sys.argv[1], sys.argv[2], float(sys.argv[3]), checkpoint_every=1e9, on_interrupt=sys.argv[4])
    print("returned:", f"{atlas.episodes:,} episodes", flush=True)
except Interrupted as message:
    print("message:", message, flush=True)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are a POSIX matter")
@pytest.mark.parametrize(
    ("name", "then"), [("path", "return"), ("frozen lake", "return"), ("frozen lake", "raise"), ("bpi observed", "raise")]
)
def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path, name, then):
    path, scale = tmp_path / "run.atlas", 0.3
    whole = go(name, tmp_path / "whole", scale, checkpoint_every=1e9)
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, name, str(path), str(scale), then],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(20):  # 20 advances in
        assert process.stdout.readline() == "going\n"
    assert not path.exists()  # it is not time yet
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    atlas, message = ar.load(path), rest.splitlines()[-1]
    assert 0 < atlas.episodes < whole.episodes
    assert f"{atlas.episodes:,} episodes" in message
    assert message.startswith({"return": "returned: ", "raise": "message: stopped after "}[then])
    if then == "raise":
        assert str(path) in message
        assert "the same call" in message
    assert errors.startswith("interrupted after ")
    assert errors.endswith("press Ctrl-C again to abort\n")
    assert len(errors.splitlines()) == 1
    assert same(go(name, path, scale), whole)
    assert path.read_bytes() == (tmp_path / "whole").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["run.atlas", "whole"]


def interrupt(*_):
    signal.raise_signal(signal.SIGINT)


def at_the_third_look():
    """A listener that presses Ctrl-C once."""
    calls = []

    def listen(*_):
        calls.append(1)
        if len(calls) == 3:
            interrupt()

    return listen


@pytest.mark.parametrize("name", ["path", "geometric", "bpi known", "frozen lake"])
def test_ctrl_c_returns_the_atlas_so_far(name, capfd):
    before = signal.getsignal(signal.SIGINT)
    atlas = go(name, None, progress=at_the_third_look())
    assert signal.getsignal(signal.SIGINT) is before
    assert atlas.episodes == 2
    assert same(atlas, go(name, None, max_episodes=2))
    message = "interrupted after 2 episodes: returning the atlas so far; press Ctrl-C again to abort"
    assert message in capfd.readouterr().err.splitlines()


def test_with_a_checkpoint_it_is_saved_as_well(tmp_path, capfd):
    atlas = go("path", tmp_path / "it", 0.1, progress=at_the_third_look())
    assert atlas.episodes == ar.load(tmp_path / "it").episodes == 2
    assert atlas == ar.load(tmp_path / "it")
    assert "saving and returning the atlas so far" in capfd.readouterr().err
    assert same(go("path", tmp_path / "it", 0.1), go("path", None, 0.1))


def test_a_program_that_is_to_end_with_ctrl_c_says_so(tmp_path, capfd):
    """Without a checkpoint Ctrl-C is then what it always was; with one, it is saved before that."""
    with pytest.raises(KeyboardInterrupt) as caught:
        go("path", None, 0.1, progress=interrupt, on_interrupt="raise")
    assert not isinstance(caught.value, Interrupted)
    assert capfd.readouterr().err == ""
    with pytest.raises(Interrupted, match=r"stopped after 2 episodes, saved in .*it: the same call resumes"):
        go("path", tmp_path / "it", 0.1, progress=at_the_third_look(), on_interrupt="raise")
    assert "interrupted after 2 episodes: saving what was explored" in capfd.readouterr().err
    assert same(go("path", tmp_path / "it", 0.1), go("path", None, 0.1))


def test_before_the_first_episode_there_is_nothing_to_save(tmp_path):
    atlas = go("path", tmp_path / "it", 0.1, progress=interrupt)
    assert atlas.episodes == 0
    with pytest.raises(KeyboardInterrupt) as caught:
        go("path", tmp_path / "it", 0.1, progress=interrupt, on_interrupt="raise")
    assert not isinstance(caught.value, Interrupted)
    assert os.listdir(tmp_path) == []


def test_a_second_ctrl_c_stops_at_once_and_leaves_the_checkpoint(tmp_path, monkeypatch):
    go("path", tmp_path / "it", 0.05)
    before = (tmp_path / "it").read_bytes()

    def twice(*_):
        interrupt()
        interrupt()

    with pytest.raises(KeyboardInterrupt) as caught:
        go("path", None, 0.1, progress=twice)
    assert not isinstance(caught.value, Interrupted)
    with pytest.raises(KeyboardInterrupt):
        go("path", tmp_path / "it", 0.1, progress=twice)
    assert (tmp_path / "it").read_bytes() == before
    monkeypatch.setattr(os, "fsync", twice)  # while it is being written
    with pytest.raises(KeyboardInterrupt):
        go("path", tmp_path / "it", 0.1, checkpoint_every=0.0)
    assert (tmp_path / "it").read_bytes() == before
    assert os.listdir(tmp_path) == ["it"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class Pressed(Tabular):
    """An environment in whose step number `when`, counted over all episodes, Ctrl-C is pressed."""

    when, steps = 0, 0

    def step(self, action):
        self.steps += 1
        if self.steps == self.when:
            interrupt()
        return super().step(action)


@pytest.mark.usefixtures("quick_look")
def test_in_a_step_of_an_environment_the_episode_is_played_to_its_end():
    """Whole episodes are counted: one that is given up because it takes long would be missing for what happened in it."""
    env = Pressed(transitions())
    ar.audit(env, 5)
    env.when = 2 * env.steps + 33  # after the next audit, in the seventh episode
    atlas = ar.explore(env, 5, max_episodes=1_000)
    assert atlas.episodes == 7
    assert atlas.counts.transitions == 35
    assert atlas == ar.explore(Tabular(transitions()), 5, max_episodes=7)


@pytest.mark.usefixtures("quick_look")
def test_in_the_audit_there_is_nothing_to_return_yet():
    env = Pressed(transitions())
    env.when = 10
    with pytest.raises(KeyboardInterrupt):
        ar.explore(env, 5, max_episodes=1_000)
    assert env.steps == 10


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None], ids=["ignored", "handled"])
def test_a_program_that_handles_ctrl_c_itself_goes_on_doing_so(handler):
    signal.signal(signal.SIGINT, handler)
    assert go("path", None, max_episodes=20, progress=interrupt).episodes == 20
    assert signal.getsignal(signal.SIGINT) is handler


def test_in_another_thread_no_signal_is_handled():
    done = []
    thread = threading.Thread(target=lambda: done.append(go("path", None, max_episodes=20).episodes))
    thread.start()
    thread.join(PATIENCE)
    assert done == [20]


def test_an_answer_that_cannot_be_written_is_no_error(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert go("path", None, progress=at_the_third_look()).episodes == 2


def test_what_ctrl_c_can_do_is_checked():
    with pytest.raises(ValueError, match="on_interrupt is 'stop': it has to be 'return' or 'raise'"):
        ar.explore(chain(), 3, max_episodes=5, on_interrupt="stop")

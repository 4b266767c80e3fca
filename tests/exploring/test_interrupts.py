"""Ctrl-C during an exploration: what was explored is saved, and the message says how to resume."""

import os
import signal
import subprocess
import sys

import pytest

import anyreward as ar
from anyreward.exploring.checkpoint import Interrupted

from ..helpers.checkpoints import ROOT, go, same
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
from anyreward.exploring.checkpoint import Interrupted
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
    go(sys.argv[1], sys.argv[2], float(sys.argv[3]), checkpoint_every=1e9)
    print("done", flush=True)
except Interrupted as message:
    print("message:", message, flush=True)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


@pytest.mark.slow
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
    assert not path.exists()  # it is not time yet
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=PATIENCE)
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

    with pytest.raises(Interrupted, match="same call resumes"):
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

"""Resuming from a forged checkpoint: refused with one sentence, or harmless; never a crash, never an endless run."""

import numpy as np
import pytest

import anyreward as ar

from ..helpers.checkpoints import go, script
from ..helpers.forging import changed, listed


def anywhere(name, value):
    """A state array with another value somewhere in the middle."""

    def change(columns, about, arrays):
        array = arrays[f"state.{name}"].copy()
        array.reshape(-1)[array.size // 2] = value
        arrays[f"state.{name}"] = array

    return change


def whole(name, make):
    def change(columns, about, arrays):
        array = arrays[f"state.{name}"]
        arrays[f"state.{name}"] = make(array)

    return change


def without(name):
    return lambda columns, about, arrays: arrays.pop(f"state.{name}")


def progress(key, value):
    def change(columns, about, arrays):
        about["progress"][key] = value(about["progress"][key]) if callable(value) else value

    return change


def generator(**values):
    return progress("world", lambda world: {**world, "generator": {**world["generator"], **values}})


LIES = {
    **{f"nodes {v}": anywhere("nodes", v) for v in (-1, 7, 2**31, 2**62, -(2**63))},
    **{f"edges {v}": anywhere("edges", v) for v in (-1, 0, 10**6, 2**62, -(2**63))},
    **{f"values {v}": anywhere("values", v) for v in (-1.0, 0.5, 2.0**60, np.nan, np.inf, -np.inf, 1e308)},
    "nodes twice": whole("nodes", lambda a: np.concatenate([a, a])),
    "nodes backwards": whole("nodes", lambda a: a[::-1].copy()),
    "nodes all the same": whole("nodes", lambda a: np.zeros_like(a)),
    "edges twice": whole("edges", lambda a: np.concatenate([a, a])),
    "edges to one node": whole("edges", lambda a: np.column_stack([a[:, 0], np.ones(len(a), np.int64)])),
    "edges turned": whole("edges", lambda a: a[:, ::-1].copy()),
    "edges backwards": whole("edges", lambda a: a[::-1].copy()),
    "no nodes": whole("nodes", lambda a: a[:0]),
    "no edges": whole("edges", lambda a: a[:0]),
    "flat": whole("nodes", lambda a: a.reshape(-1)),
    "float nodes": whole("nodes", lambda a: a.astype(float)),
    "counts of others": whole("values", lambda a: a + np.array([1.0, 0.0, 0.0])),
    "booked at -1": whole("booked_at", lambda a: a * 0 - 1),
    "booked at nothing": whole("booked_at", lambda a: a[:0]),
    "booked at nan": whole("booked_at", lambda a: np.array([np.nan])),
    "booked at 2^62": whole("booked_at", lambda a: a * 0 + 2**62),
    "known pairs": whole("known", lambda a: np.array([[10**9, 1]])),
    "known nan": whole("known", lambda a: np.array([[np.nan, 1.0]])),
    "Q nan": anywhere("Q", np.nan),
    "Q too short": whole("Q", lambda a: a[:, :-1].copy()),
    "Q too long": whole("Q", lambda a: np.concatenate([a, a], axis=1)),
    "Q more planes": whole("Q", lambda a: np.concatenate([a, a])),
    "settled short": whole("settled", lambda a: a[:, 1:].copy()),
    "settled nan": whole("settled", lambda a: np.full(a.shape, np.nan)),
    "unvisited nan": anywhere("unvisited", np.nan),
    "unvisited long": whole("unvisited", lambda a: np.concatenate([a, a])),
    "planned at nothing": whole("planned_at", lambda a: a[:0]),
    "planned at nan": whole("planned_at", lambda a: np.array([np.nan])),
    "planned at inf": whole("planned_at", lambda a: np.array([np.inf])),
    **{
        f"without {name}": without(name)
        for name in ("nodes", "edges", "values", "booked_at", "known", "Q", "settled", "planned_at")
    },
    "call": progress("call", 5),
    "call is a list": progress("call", []),
    "world": progress("world", None),
    "world is a list": progress("world", []),
    "no generator": progress("world", {}),
    "generator": progress("world", {"generator": 5}),
    "another generator": generator(bit_generator="MT19937"),
    "generator state": generator(state={"state": -1, "inc": 3}),
    "generator state huge": generator(state={"state": 2**200, "inc": 3}),
    "generator state text": generator(state={"state": "x", "inc": 3}),
    "generator has": generator(has_uint32=10**30),
    "generator word": generator(uinteger=10**30),
    "history ahead": lambda columns, about, arrays: about.update(history=[[10**15, 1.0]]),
    "history far ahead": lambda columns, about, arrays: about.update(history=[[10**30, 1.0]]),
    "history backwards": lambda columns, about, arrays: about.update(history=about["history"][::-1]),
    "history nan": lambda columns, about, arrays: about.update(history=[[0, float("nan")]]),
}
HARMLESS = {"history nan", "history backwards"}  # they may be taken: nothing is decided by them
GOING_ON = """
import importlib, os, resource, signal, sys, warnings
from pathlib import Path
import pyarrow.parquet
import anyreward as ar
from tests.exploring.test_forged_checkpoint import KINDS, explored_on, lies_of
from tests.helpers.forging import changed
class Late(BaseException):
    pass
def late(*_):
    raise Late("it goes on for ever")
def judge(kind, name, change, path):
    changed((where / kind, None, None), path, change)
    before = path.read_bytes()
    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, 5)  # of processor time, which does not depend on what else is running
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))  # for compiled code, which is not interrupted by a signal
    resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            explored_on(kind, path)
        what = "taken"
    except ValueError as problem:
        kept = path.read_bytes() == before
        what = "refused" if str(problem).startswith(str(path)) and kept else f"refused badly: {problem}"
    except BaseException as problem:
        what = f"{type(problem).__name__}: {problem}"
    print(f"{kind}|{name}|{' '.join(what.split())}", flush=True)
where = Path(sys.argv[1])
audit = importlib.import_module("anyreward.exploring.audit")
play = audit._play
audit._play = lambda probe, steps, seed: play(probe, steps // 10, seed)  # it is not what is tested
for kind in KINDS:
    explored_on(kind, where / "warm")  # what has to be compiled is compiled before the processor time is measured
    (where / "warm").unlink()
for kind in KINDS:
    for name, change in lies_of(kind).items():
        pid = os.fork()
        if pid == 0:
            judge(kind, name, change, where / "it")
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        if status:
            print(f"{kind}|{name}|crashed with {status}", flush=True)
        (where / "it").unlink(missing_ok=True)
"""
KINDS = {
    "path": "path",
    "geometric": "geometric",
    "bpi": "bpi random",
    "frozen": "frozen lake",
    "rooms": "rooms end",
}


def explored_on(kind, path, more=40):
    return go(KINDS[kind], path, max_episodes=100 + more)


def bpi_lies():
    lies = {}
    for name in ("Q", "Q_lo", "V_lo", "u", "radius", "total", "up", "lo", "far"):
        lies[f"{name} nan"] = anywhere(name, np.nan)
        lies[f"{name} short"] = whole(name, lambda a: a[..., :-1].copy())
    return lies


def bpi_numbers():
    """Numbers that are none of theirs: they may be taken or not, but nothing hangs."""
    lies = {}
    for name in ("Q", "Q_lo", "V_lo", "u", "radius", "total", "up", "lo", "far"):
        for value in (np.inf, -np.inf, -1.0):
            lies[f"{name} all {value}"] = whole(name, lambda a, value=value: np.full(a.shape, value))
    lies["dirty 0"] = whole("dirty", lambda a: a * 0)
    lies["settled 0"] = whole("settled", lambda a: a * 0)
    return lies


def index_numbers():
    lies = {}
    for name in ("Q", "unvisited"):
        for value in (np.inf, -np.inf):
            lies[f"{name} all {value}"] = whole(name, lambda a, value=value: np.full(a.shape, value))
    for value in (-(2**63), -1, 0, 1, 2**62, 2**63 - 1):
        lies[f"planned at {value}"] = whole("planned_at", lambda a, value=value: np.array([value]))
    lies["settled 0"] = whole("settled", lambda a: a * 0)
    lies["settled 255"] = whole("settled", lambda a: a * 0 + 255)
    return lies


def world(**values):
    return progress("world", lambda world: {**world, **values})


def environment_lies(n_states):
    return {
        "alive": world(alive=[n_states + 5]),
        "alive below": world(alive=[-1]),
        "alive far": world(alive=[10**30]),
        "alive text": world(alive=["x"]),
        "ended": world(ended=5),
        "ended text": world(ended=["x"]),
        "ended out of range": world(ended=[10**9]),
        "nothing allowed": world(allowed=[[s, []] for s in range(n_states)]),
        "actions out of range": world(allowed=[[s, [99]] for s in range(n_states)]),
        "actions below": world(allowed=[[s, [-7]] for s in range(n_states)]),
        "allowed text": world(allowed=[["x", "y"]]),
        "allowed number": world(allowed=7),
        "no world": progress("world", {}),
    }


def label_lies():
    deep = "x"
    for _ in range(440):
        deep = {"t": [deep]}
    rooms = [f"room {i}" for i in range(10)]
    return {
        "more labels than states": world(labels=[f"x{i}" for i in range(5_000)] + rooms),
        "a few more": world(labels=["y", "z", "w", "v", *rooms]),
        "labels twice": world(labels=["room 1"] * 12),
        "labels list": world(labels=[["room 0"]]),
        "labels deep": world(labels=[deep]),
        "labels null": world(labels=None),
        "labels number": world(labels=3),
        "labels unhashable": world(labels=[{"t": [{}]}]),
        "labels bytes": world(labels=[{"b": "zz"}]),
        "labels bytes number": world(labels=[{"b": 5}]),
    }


def recording_lies():
    def put_recording(name, make):
        def change(columns, about, arrays):
            arrays[f"recording.{name}"] = make(arrays[f"recording.{name}"])

        return change

    return {
        "recorded states": put_recording("states", lambda a: a[:, :-1].copy()),
        "recorded fewer": put_recording("states", lambda a: a[:-1].copy()),
        "recorded flat": put_recording("states", lambda a: a.reshape(-1)),
        "recorded lengths": put_recording("lengths", lambda a: a * 0 - 3),
        "recorded out of range": put_recording("states", lambda a: a + 1000),
        "recorded rewards": put_recording("rewards", lambda a: a[:, :1].copy()),
    }


def lies_of(kind):
    lies = {"unchanged": lambda columns, about, arrays: None}
    if kind == "path":
        lies |= LIES
    elif kind == "bpi":
        lies |= {**bpi_lies(), **bpi_numbers()}
    elif kind == "frozen":
        lies |= environment_lies(16)
    elif kind == "rooms":
        lies |= {**environment_lies(13), **label_lies()}
    else:
        lies |= index_numbers()
    return lies


@pytest.mark.slow
def test_going_on_from_a_forged_state_never_crashes(tmp_path):
    """Out of range, out of order, out of shape: one sentence, and the file stays. In processes of their own, which may crash."""
    for kind, name in KINDS.items():
        go(name, tmp_path / kind, max_episodes=96)  # where a block of episodes ends
    done = script(GOING_ON, tmp_path)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr[-2000:]
    results = {tuple(line.split("|")[:2]): line.split("|", 2)[2] for line in done.stdout.splitlines()}
    assert set(results) == {(kind, name) for kind in KINDS for name in lies_of(kind)}
    may_be_taken = {*HARMLESS, *bpi_numbers(), *index_numbers(), "alive below", "ended out of range", "unchanged"}
    wrong = {k: v for k, v in results.items() if v != "refused" and not (v == "taken" and k[1] in may_be_taken)}
    # An environment that contradicts what is said of it may say so itself, in its own sentence.
    wrong = {k: v for k, v in wrong.items() if not (k[0] in ("frozen", "rooms") and v.startswith("refused badly: "))}
    wrong |= {k: v for k, v in results.items() if k[1] == "unchanged" and v != "taken"}
    assert not wrong, listed(wrong)


@pytest.mark.slow
def test_going_on_with_a_forged_recording_is_refused(tmp_path):
    wrong = {}
    for name, change in recording_lies().items():
        path = tmp_path / "it"
        path.unlink(missing_ok=True)
        go("rooms", path, max_episodes=64)
        changed((path, None, None), path, change)
        try:
            go("rooms", path, max_episodes=96)
            wrong[name] = "taken"
        except ValueError as problem:
            if not str(problem).startswith(str(path)):
                wrong[name] = str(problem)
        except Exception as problem:
            wrong[name] = repr(problem)
    assert not wrong, listed(wrong)


def test_a_forged_history_does_not_outlast_max_episodes(tmp_path):
    path = tmp_path / "it"
    go("path", path, max_episodes=50)
    changed((path, None, None), path, lambda columns, about, arrays: about.update(history=[[20_000, 1.0]]))
    try:
        episodes = go("path", path, max_episodes=60).episodes
    except ValueError:
        episodes = 60  # refused is as good
    assert episodes <= 60


def test_bounds_of_a_checkpoint_are_those_of_its_counts(tmp_path):
    """Once, V_lo = inf in a file made epsilon -inf, and met."""
    mdp = ar.envs.double_chain(5)
    path = tmp_path / "it"

    def go_on(episodes):
        return ar.identify(mdp, mdp.reward, 3, epsilon=1e-3, max_episodes=episodes, checkpoint=path)

    go_on(40)
    good = path.read_bytes()
    for name, value in (("V_lo", np.inf), ("Q_lo", 2.9), ("far", 1.0), ("radius", 0.0), ("Q", -1.0)):
        path.write_bytes(good)

        def change(columns, about, arrays, name=name, value=value):
            arrays[f"state.{name}"][...] = value

        changed((path, None, None), path, change)
        with pytest.raises(ValueError, match="cannot be resumed"):
            go_on(50)
    path.write_bytes(good)
    assert go_on(50).episodes == 50

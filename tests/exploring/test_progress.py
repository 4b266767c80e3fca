"""The display of long explorations."""

import sys
import types
from itertools import pairwise

import pytest
from rich.console import Console

import anyreward as ar
import anyreward.exploring.progress as progress_module
from anyreward.exploring.forecast import duration
from anyreward.exploring.progress import LONGEST, PATIENCE, Progress
from anyreward.words import is_shown


@pytest.fixture
def terminal(monkeypatch):
    """stderr is a wide terminal."""
    plain = {"stderr": True, "markup": False, "highlight": False, "force_terminal": True, "color_system": None, "width": 200}
    monkeypatch.setattr(progress_module.words, "console", lambda **_: Console(**plain))


def test_a_function_hears_of_every_look_and_of_nothing_else():
    heard = []
    with Progress(lambda *report: heard.append(report), target=1.0, max_episodes=None) as show:
        show(0, 4.0)
        show(5)
        show(10, 2.0)
    assert heard == [(0, 4.0), (10, 2.0)]


@pytest.mark.usefixtures("terminal")
def test_a_display_shows_episodes_and_epsilon(capfd):
    with Progress(True, target=0.5, max_episodes=100) as show:
        show(0, 4.0)
        show(70, 0.0)  # as certain as can be: the bar is full, nothing is divided by zero
    out, err = capfd.readouterr()
    assert out == ""
    assert "exploring" in err
    assert "0.5" in err


def test_no_display_unless_asked_where_nobody_looks(capfd):
    """stderr is no terminal here."""
    show = Progress(None, target=0.5, max_episodes=100)
    show._start -= 1_000  # patience is long over
    with show:
        show(0, 4.0)
        show(10, 2.0)
    assert capfd.readouterr() == ("", "")


def passing(monkeypatch, seconds):
    """So many seconds pass between the beginning and whatever comes after it."""
    times = iter([0.0])
    monkeypatch.setattr(progress_module, "time", types.SimpleNamespace(monotonic=lambda: next(times, seconds)))


@pytest.mark.usefixtures("terminal")
def test_a_display_that_goes_on_says_its_rate_and_what_is_left(capfd, monkeypatch):
    """The episodes of before took none of the time: 40 more in 2 s are 20/s. A 1/t law reaches 1.0 at 400 episodes, 260 later.
    400/140 = 2.8571... is shown rounded up. The law in the long run is 1/sqrt(t), so this is a low estimate."""
    passing(monkeypatch, 2.0)
    with Progress(True, target=1.0, max_episodes=None, episodes=100, history=[(100, 4.0)]) as show:
        for t in range(100, 141, 4):
            show(t, 400.0 / t)
    err = capfd.readouterr().err
    assert "140 episodes" in err
    assert "20/s" in err
    assert "2.858 → 1" in " ".join(err.split())
    assert "about 400 in all (a low estimate), 13 s left" in " ".join(err.split())


@pytest.mark.usefixtures("terminal")
def test_the_episodes_that_are_allowed_come_before_a_forecast(capfd, monkeypatch):
    passing(monkeypatch, 14.0)
    with Progress(True, target=1.0, max_episodes=200) as show:
        for t in range(100, 141, 4):
            show(t, 400.0 / t)
    assert "about 200 in all, 6 s left" in " ".join(capfd.readouterr().err.split())


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("seconds", "left"), [(20.0, "stops in 6 s"), (21.0, "about 210 in all, 7 s left")])
def test_the_time_that_is_allowed_comes_before_the_episodes_if_it_is_up_first(capfd, monkeypatch, seconds, left):
    """140 episodes in 14 s, so that the 70 that are left take 7 s."""
    passing(monkeypatch, 14.0)
    with Progress(True, target=None, max_episodes=210, max_seconds=seconds) as show:
        show(140, 3.0)
    assert left in " ".join(capfd.readouterr().err.split())


@pytest.mark.usefixtures("terminal")
def test_an_epsilon_that_says_nothing_is_called_so(capfd):
    with Progress(True, target=1.0, max_episodes=100, largest=4.0) as show:
        show(1, 4.0)
    assert "4 (says nothing) → 1" in " ".join(capfd.readouterr().err.split())
    with Progress(True, target=1.0, max_episodes=100, largest=4.0) as show:
        show(1, 3.999)
    assert "nothing" not in capfd.readouterr().err


def test_where_there_is_no_terminal_lines_come_at_growing_distances(capfd, monkeypatch):
    """After 2 s, then 3 s, 4.5 s, ... later, at last once a minute; and one when it is over."""
    now = [0.0]
    monkeypatch.setattr(progress_module, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    said = []
    with Progress(True, target=1.0, max_episodes=None, largest=3.0) as show:
        for second in range(1, 601):
            now[0] = float(second)
            show(second * 20, 400.0 / second)
            lines = capfd.readouterr().err.splitlines()
            said += [(second, line) for line in lines]
    times = [second for second, _ in said]
    assert times[:4] == [PATIENCE, 5, 10, 17]
    gaps = [b - a for a, b in pairwise(times)]
    assert gaps == sorted(gaps)
    assert gaps[-1] == LONGEST
    assert said[0][1] == "exploring: 40 episodes, 20/s, epsilon 200 (says nothing) → 1, about 1.6e+06 in all, 22 h left"
    assert dict(said)[17].endswith("epsilon 23.53 (says nothing) → 1, about 8e+03 in all (a low estimate), 6.4 min left")
    assert capfd.readouterr().err == "explored: 12,000 episodes, 10 min, epsilon 0.6667 → 1\n"
    assert all("\x1b" not in line for _, line in said)


def test_the_rate_is_that_of_playing(monkeypatch):
    """Time after the last episode, as for saving, does not count, nor does that of the first ones, if there are more."""
    now = [0.0]
    monkeypatch.setattr(progress_module, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    with Progress(False, target=1.0, max_episodes=None, episodes=10) as show:
        assert show.rate == 0.0
        now[0] = 2.0
        show(50)
        now[0] = 9.0
        show(50, 2.0)
        assert show.rate == 20.0
        now[0] = 11.0
        show(85)
        assert show.rate == (85 - 50) / (11.0 - 2.0)


def test_a_short_exploration_has_one_line(capfd):
    with Progress(True, target=None, max_episodes=5) as show:
        show(5, 2.0)
    assert capfd.readouterr().err == "explored: 5 episodes, 0 s, epsilon 2\n"


@pytest.mark.parametrize("stream", [None, "closed"])
def test_without_a_stream_nothing_is_shown(monkeypatch, tmp_path, stream):
    if stream == "closed":
        stream = open(tmp_path / "x", "w")  # noqa: SIM115
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    assert not is_shown(None)


@pytest.mark.parametrize(
    ("target", "most", "begun", "history", "looks"),
    [
        (None, None, 0, [], [(0, 4.0), (10, 4.0)]),
        (None, 5, 10, [(10, 2.0)], [(10, 2.0)]),  # more than are allowed already
        (1.0, 0, 0, [], [(0, 4.0)]),
        (1.0, None, 0, [], []),
        (1.0, None, 0, [], [(t, 4.0) for t in range(20)]),  # it does not fall
        (5.0, 100, 0, [], [(3, 4.0)]),  # it is there
        (1.0, None, 0, [(0, float("inf"))], [(1, 4.0)]),
        (1e-200, None, 0, [], [(t, 4.0 / t) for t in range(1, 20)]),  # out of reach
    ],
)
@pytest.mark.parametrize("screen", ["terminal", "pipe"])
def test_something_is_shown_in_every_case(target, most, begun, history, looks, screen, capfd, request):
    if screen == "terminal":
        request.getfixturevalue("terminal")
    with Progress(True, target=target, max_episodes=most, episodes=begun, history=history) as show:
        for look in looks:
            show(*look)
            show._shown_at = 0.0  # so that the next one is shown at once
    out, err = capfd.readouterr()
    assert out == ""
    assert ("explor" in err) == bool(looks)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0 s"),
        (0.4, "0 s"),
        (89.0, "89 s"),
        (90.0, "1.5 min"),
        (180.0, "3 min"),
        (5_400.0, "1.5 h"),
        (9_000.0, "2.5 h"),
        (345_600.0, "4 d"),
        (1e12, "1.2e+07 d"),
        (1e300, "1.2e+295 d"),
    ],
)
def test_durations_in_words(seconds, words):
    assert duration(seconds) == words


def test_an_exploration_that_is_taken_up_reports_from_there(tmp_path, capfd):
    """The display starts where the file ends, and a listener hears of no earlier look."""
    mdp, heard = ar.envs.garnet(4, 2, 2, seed=0), []
    more = {"epsilon": 0.01, "checkpoint": tmp_path / "half.atlas"}
    ar.explore(mdp, 3, max_episodes=300, progress=False, **more)
    ar.explore(mdp, 3, max_episodes=500, progress=lambda *look: heard.append(look), **more)
    assert [heard[0][0], heard[-1][0]] == [300, 500]
    capfd.readouterr()
    ar.explore(mdp, 3, max_episodes=700, progress=True, **more)
    assert "700 episodes" in capfd.readouterr().err

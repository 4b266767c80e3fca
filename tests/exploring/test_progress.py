"""The display of long explorations."""

import types

import pytest

import anyreward as ar
import anyreward.exploring.progress as progress_module
from anyreward.exploring.progress import Progress, duration


def test_a_function_hears_of_every_look_and_of_nothing_else():
    heard = []
    with Progress(lambda *report: heard.append(report), target=1.0, max_episodes=None) as show:
        show(0, 4.0)
        show(5)
        show(10, 2.0)
    assert heard == [(0, 4.0), (10, 2.0)]


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


def test_a_display_that_goes_on_says_its_rate_and_what_is_left(capfd, monkeypatch):
    """The episodes of before took none of the time: 40 more in 2 s are 20/s. A 1/t law reaches 1.0 at 400 episodes, 260 later.
    400/140 = 2.8571... is shown rounded up."""
    passing(monkeypatch, 2.0)
    with Progress(True, target=1.0, max_episodes=None) as show:
        show.begin(100, 4.0)
        for t in range(100, 141, 4):
            show(t, 400.0 / t)
    err = capfd.readouterr().err
    assert "140 episodes" in err
    assert "20/s" in err
    assert "2.858 → 1" in " ".join(err.split())
    assert "about 400 in all, 13 s left" in " ".join(err.split())


def test_the_episodes_that_are_allowed_come_before_a_forecast(capfd, monkeypatch):
    passing(monkeypatch, 14.0)
    with Progress(True, target=1.0, max_episodes=200) as show:
        show.begin(0, None)
        for t in range(100, 141, 4):
            show(t, 400.0 / t)
    assert "about 200 in all, 6 s left" in " ".join(capfd.readouterr().err.split())


@pytest.mark.parametrize(
    ("target", "most", "begun", "looks"),
    [
        (None, None, (0, None), [(0, 4.0), (10, 4.0)]),
        (None, 5, (10, 2.0), [(10, 2.0)]),  # more than are allowed already
        (1.0, 0, (0, None), [(0, 4.0)]),
        (1.0, None, (0, None), []),
        (1.0, None, (0, None), [(t, 4.0) for t in range(20)]),  # it does not fall
        (5.0, 100, (0, None), [(3, 4.0)]),  # it is there
        (1.0, None, (0, float("inf")), [(1, 4.0)]),
        (1e-200, None, (0, None), [(t, 4.0 / t) for t in range(1, 20)]),  # out of reach
    ],
)
def test_a_display_has_something_to_show_in_every_case(target, most, begun, looks, capfd):
    with Progress(True, target=target, max_episodes=most) as show:
        show.begin(*begun)
        for look in looks:
            show(*look)
            show._shown_at = 0.0  # so that the next one is shown at once
    out, err = capfd.readouterr()
    assert out == ""
    assert ("exploring" in err) == bool(looks)


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

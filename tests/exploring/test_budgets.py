"""Explorations that end when their time is up: by a clock of its own, on which only what a test says takes time."""

import os
import types

import pytest

import anyreward as ar
import anyreward.exploring.run as run_module
from anyreward.environments.gymnasium import GymnasiumEnvironment
from anyreward.environments.tabular import TabularEnvironment

from ..helpers.checkpoints import CASES, H, chain, go, same

PLAYED = ("path", "every", "geometric", "bpi known", "bpi observed", "random start", "recorded", "frozen lake", "rooms")


@pytest.fixture
def clock(monkeypatch):
    """A clock on which every episode takes a hundredth of a second, unless a test sets another time."""
    it = types.SimpleNamespace(now=0.0, episode=0.01, calls=[])

    def timed(play):
        def wrapped(self, explorer, episodes, goal):
            before = explorer.episodes
            arrived = play(self, explorer, episodes, goal)
            it.now += it.episode * (explorer.episodes - before)
            it.calls.append(explorer.episodes - before)
            return arrived

        return wrapped

    for environment in (TabularEnvironment, GymnasiumEnvironment):
        monkeypatch.setattr(environment, "play", timed(environment.play))
    monkeypatch.setattr(run_module, "time", types.SimpleNamespace(monotonic=lambda: it.now))
    return it


@pytest.mark.parametrize("name", PLAYED)
def test_a_stop_by_time_is_as_if_max_episodes_had_been_reached(clock, name):
    """The same counts, looks, certificate, recording and rewards, at whatever episode that was."""
    timed = go(name, None, max_episodes=None, max_seconds=2.345)
    assert 200 <= timed.episodes <= 260
    assert not timed.certificate.met
    assert timed.history[-1] == (timed.episodes, timed.certificate.epsilon)
    assert same(timed, go(name, None, max_episodes=timed.episodes))


@pytest.mark.parametrize("name", ["path", "every", "bpi known", "frozen lake"])
@pytest.mark.parametrize(("episode", "seconds"), [(0.00002, 0.3), (0.001, 4.0), (0.03, 5.0), (1.0, 30.0)])
def test_it_stops_soon_after_its_time(clock, name, episode, seconds):
    """The compiled loop is asked for fewer episodes at a time where they are slow: a tenth of a second's worth, or one."""
    clock.episode = episode
    go(name, None, max_episodes=None, max_seconds=seconds)
    assert seconds <= clock.now + 1e-9
    assert clock.now <= seconds + max(2 * run_module.SLICE, episode)


def test_without_a_limit_slow_episodes_are_asked_for_a_few_at_a_time_too(clock):
    """So that Ctrl-C is heard and progress is shown."""
    clock.episode = 0.02
    go("path", None, max_episodes=600)
    assert max(clock.calls) <= 5


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_how_many_episodes_are_asked_for_at_a_time_changes_nothing(monkeypatch, name):
    """Hence the clock, which decides it, does not either."""
    scale = 0.5 if CASES[name][1] and CASES[name][1] < 1000 else 0.02
    whole = go(name, None, scale)
    monkeypatch.setattr(run_module, "SLICE", 0.0)  # one at a time
    assert same(go(name, None, scale), whole)


@pytest.mark.parametrize("name", ["jin2020", "regret-uniform", "regret-instances", "generative", "random"])
def test_nor_does_it_for_algorithms_that_work_in_parts(monkeypatch, name):
    whole, again = [], []
    for atlases, part in ((whole, run_module.SLICE), (again, 0.0)):
        monkeypatch.setattr(run_module, "SLICE", part)
        atlases += [ar.explore(chain(), 3, max_episodes=150, algorithm=name, stationary=pooled) for pooled in (False, True)]
    assert whole == again


def test_the_last_look_is_part_of_the_time(clock, monkeypatch):
    """A certificate that takes a second to compute is begun a second before the end."""
    look = run_module.Run.bound

    def slow(self):
        clock.now += 1.0
        return look(self)

    clock.episode = 1.0
    monkeypatch.setattr(run_module.Run, "bound", slow)
    go("path", None, max_episodes=None, max_seconds=50.0)
    assert 49.0 <= clock.now <= 51.0


def test_an_episode_is_played_at_least(clock):
    """However short the time: or an exploration that is resumed again and again would never move."""
    clock.episode = 10.0
    assert go("path", None, max_episodes=None, max_seconds=1e-9).episodes == 1


def test_what_is_certified_first_ends_it_first(clock):
    whole = go("to a target", None)
    timed = go("to a target", None, max_seconds=1e6)
    assert timed.certificate.met
    assert same(timed, whole)
    assert go("path", None, max_episodes=20, max_seconds=1e6).episodes == 20


@pytest.mark.parametrize("name", ["path", "geometric", "bpi observed", "to a target"])
def test_the_seconds_are_those_of_one_call_and_parts_of_a_run_are_the_run(clock, tmp_path, name):
    """A model is explored for some seconds at a time; the last part ends as the whole does, to the byte."""
    clock.episode = 0.0005
    whole = go(name, tmp_path / "whole", 0.5)
    parts = []
    while not parts or parts[-1].episodes < whole.episodes:
        begin = clock.now
        parts.append(go(name, tmp_path / "parts", 0.5, max_seconds=0.7))
        assert clock.now <= begin + (0.9 if name != "geometric" else 0.7 + 0.04 * parts[-1].episodes * clock.episode)
        assert parts[-1].history[-1][0] == parts[-1].episodes
    assert len(parts) > 2
    assert same(parts[-1], whole)
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()


def test_an_environment_is_resumed_from_where_time_was_up(clock, tmp_path):
    first = go("frozen lake", tmp_path / "it", max_episodes=None, max_seconds=0.5)
    assert 50 <= first.episodes <= 60
    assert ar.load(tmp_path / "it") == first
    more = go("frozen lake", tmp_path / "it", max_episodes=None, max_seconds=0.5)
    assert 100 <= more.episodes <= 120
    assert os.listdir(tmp_path) == ["it"]


def test_identifying_has_a_time_too(clock):
    atlas = ar.identify(chain(), "state == 6", H, max_seconds=1.0)
    assert 100 <= atlas.episodes <= 111
    assert atlas.policy is not None


@pytest.mark.parametrize("seconds", [0, 0.0, -1.0, float("nan"), "5", [1]])
def test_a_time_that_is_none_is_refused(seconds):
    with pytest.raises(ValueError, match="max_seconds is"):
        ar.explore(chain(), H, max_seconds=seconds)


def test_an_algorithm_that_has_to_know_its_episodes_says_so():
    with pytest.raises(ValueError, match="max_episodes is not given"):
        ar.explore(chain(), H, algorithm="ucbvi", max_seconds=1.0)

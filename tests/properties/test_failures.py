"""What goes wrong on the way: nothing is lost, nothing false is certified, nothing gets out that should not."""

import functools
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.cli import app

from ..helpers.problems import random_mdp
from ..helpers.processes import Process
from ..helpers.tabular import Tabular, transitions

pytestmark = pytest.mark.usefixtures("quick_look")
S, A, H = 4, 3, 4
MDP = random_mdp(S, A, seed=0)


class Failing(Tabular):
    """Raises at the third step of an episode, from its 40th after `begin` resets on."""

    begin = 0

    def step(self, action):
        if self.resets > self.begin + 40 and self.t == 2:
            raise RuntimeError("the licence server is down")
        return super().step(action)


def test_an_environment_that_raises_loses_nothing(tmp_path, monkeypatch):
    make = functools.partial(Failing, transitions(S, A), pay=lambda s, a, n: 0.5)
    with pytest.raises(ar.EnvironmentFailure, match="failed during the audit, before it was explored: RuntimeError"):
        ar.explore(make(), H, max_episodes=100)
    monkeypatch.setattr(Failing, "begin", 125)  # the audit plays 500 steps
    with pytest.raises(
        ar.EnvironmentFailure, match=r"failed in episode \d+, at step 2, playing action \d in state \d: Run"
    ) as caught:
        ar.explore(make(), H, max_episodes=100)
    problem = caught.value
    assert isinstance(problem.__cause__, RuntimeError)
    assert 0 < problem.atlas.episodes < 100
    assert problem.atlas.plan("own").upper > 0
    problem.atlas.save(tmp_path / "so-far.atlas")
    assert ar.load(tmp_path / "so-far.atlas") == problem.atlas
    assert "attribute `atlas`" in problem.__notes__[0]
    path = tmp_path / "it.atlas"
    with pytest.raises(ar.EnvironmentFailure):
        ar.explore(make(), H, max_episodes=100, checkpoint=path)
    assert ar.load(path).episodes == problem.atlas.episodes
    assert "failed" not in str(ar.load(path).certificate)  # to stop there is valid, ...
    monkeypatch.setattr(Failing, "step", Tabular.step)
    atlas = ar.explore(make(), H, max_episodes=100, checkpoint=path)
    assert atlas.episodes == 100
    for certificate in (atlas.certificate, ar.load(path).certificate):  # ... to go on is to assume something
        assert "the episodes that failed, of which nothing was counted (1), were like the others" in str(certificate)


def test_what_contradicts_an_assumption_is_not_gone_on_with(tmp_path):
    """Once, the episode was dropped and the same call went on: repeated often enough, it certified what the data refute."""
    P, path = np.full((2, 1, 2), 0.5), tmp_path / "it.atlas"
    first = ar.explore(Process(P), 3, max_episodes=32, checkpoint=path, initial_state=0)
    elsewhere = Process(P, start=np.array([0.5, 0.5]))
    with pytest.raises(ValueError, match="not in the initial_state 0") as caught:
        ar.explore(elsewhere, 3, max_episodes=400, checkpoint=path, initial_state=0)
    assert caught.value.atlas.episodes >= first.episodes
    for _ in range(3):
        with pytest.raises(ValueError, match=r"cannot be resumed, .* contradict .* not in the initial_state 0"):
            ar.explore(elsewhere, 3, max_episodes=400, checkpoint=path, initial_state=0)
    assert ar.load(path).episodes == caught.value.atlas.episodes


def test_an_episode_that_was_refused_was_not_paid_for(tmp_path):
    """A reward that was said to be always the same, and is not: what is saved holds together."""
    path = tmp_path / "it.atlas"
    coin = Process(np.full((2, 1, 2), 0.5), pay=lambda h, s, a, n, rng: float(rng.random() < 0.5))
    with pytest.raises(ValueError, match="paid something else before") as caught:
        ar.identify(coin, None, 3, 0.1, rewards="deterministic", max_episodes=200, checkpoint=path, checkpoint_every=-1.0)
    for atlas in (caught.value.atlas, ar.load(path) if path.exists() else caught.value.atlas):
        assert sum(entry[0] for entry in atlas.paid._table.values()) == 3 * atlas.episodes


def test_counts_that_would_not_be_exact_are_refused_before_the_first_episode():
    for episodes in (2**53, 10**18, 2**63, 10**30):
        with pytest.raises(ValueError, match="counts would not be exact"):
            ar.explore(MDP, H, max_episodes=episodes, replan="geometric")
    assert ar.explore(MDP, H, max_episodes=2**53 // (H + 1), replan="geometric", growth=4.0).episodes == 2**53 // (H + 1)


def test_rewards_that_differ_between_steps_beyond_chance_are_not_taken_for_alike():
    """Once, only deterministic rewards were compared."""
    late = Process(np.full((2, 1, 2), 0.5), pay=lambda h, s, a, n, rng: float(h >= 2))
    atlas = ar.explore(late, 4, max_episodes=400)
    for rewards in ("random", "deterministic"):
        with pytest.raises(ValueError, match=r"depends on the step|paid different rewards"):
            atlas.plan("own", rewards=rewards, stationary_rewards=True)
    assert atlas.plan("own").upper >= 2.0
    fair = ar.explore(
        Process(np.full((2, 1, 2), 0.5), pay=lambda h, s, a, n, rng: float(rng.random() < 0.3)), 4, max_episodes=400
    )
    assert fair.plan("own", stationary_rewards=True).upper >= 1.2


def test_known_masks_and_ends_that_are_states_go_together(tmp_path):
    """Masks are moot where episodes end. Once, a final state with an illegal action was refused."""
    masks = np.array([[1, 1], [1, 0], [0, 1]], bool)
    process = functools.partial(Process, np.full((3, 2, 3), 1 / 3), end=[0, 0, 1], mask=masks)
    parts = [ar.explore(process(), 4, max_episodes=n, seed=n, terminal="state", action_masks=masks) for n in (1, 60)]
    assert 2 in parts[1].counts.absorbing_states
    parts[1].save(tmp_path / "it.atlas")
    assert ar.load(tmp_path / "it.atlas") == parts[1]
    for left, right in (parts, parts[::-1]):
        assert 2 in left.merge(right, same_environment=True).counts.absorbing_states
    tempting = np.zeros((3, 2))
    tempting[2, 0] = 1.0  # an illegal action of the state in which episodes end: no policy names it, before and after
    for atlas in parts:
        assert atlas.plan(tempting).upper == pytest.approx(0.0, abs=1e-9)
        assert atlas.evaluate(np.zeros((4, 3), int), tempting).upper == pytest.approx(0.0, abs=1e-9)


def test_after_an_end_a_policy_is_paid_for_what_it_names():
    """A reward of the action: a policy that never plays it earns nothing, one that always does earns it at every step."""
    process = Process(np.full((2, 2, 2), 0.5), end=[0, 0.5])
    atlas = ar.explore(process, 4, max_episodes=300)
    reward = np.array([[0.0, 1.0], [0.0, 1.0]])
    never, always = (atlas.evaluate(np.full((4, 2), a), reward) for a in (0, 1))
    assert (never.value, never.upper) == (0.0, pytest.approx(0.0, abs=1e-9))
    assert (always.value, always.upper) == (4.0, 4.0)
    assert atlas.plan(reward).lower == pytest.approx(4.0)


def test_what_speaks_against_an_assumption_is_warned_of():
    class Drifting(Tabular):
        def step(self, action):
            s, late = self.s, self.t >= 2
            out = super().step(action)
            self.s = s if late else self.s
            return self.s, *out[1:]

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ar.explore(Drifting(transitions(3)), 6, max_episodes=3, stationary=True)
    assert any("the transitions depend on the step" in str(warning.message) for warning in said)


def test_texts_from_outside_do_not_reach_the_terminal_or_a_spreadsheet_as_commands(tmp_path):
    atlas = ar.explore(MDP, H, max_episodes=5)
    for name, value in (("env", "x\x1b[2Jy"), ("algorithm", "a\nepsilon 0"), ("alarms", ["\r"]), ("arrows", "\n")):
        odd = ar.explore(MDP, H, max_episodes=5)
        odd.source[name] = value
        odd.save(tmp_path / "odd.atlas")
        with pytest.raises(ValueError, match="the description of its origin is damaged"):
            ar.load(tmp_path / "odd.atlas")
    atlas.source["labels"] = ["=cmd|' /C calc'!A0", "", "-3", "@x\x1b"]
    atlas.save(tmp_path / "it.atlas")
    info = CliRunner().invoke(app, ["info", str(tmp_path / "it.atlas")])
    assert "\x1b" not in info.output
    call = ["plan", str(tmp_path / "it.atlas"), "--reward", "state == 1", "--out", str(tmp_path / "p.csv")]
    assert CliRunner().invoke(app, call).exit_code == 0
    cells = {line.split(",", 4)[3] for line in (tmp_path / "p.csv").read_text().splitlines()[1:]}
    assert cells == {"'=cmd|' /C calc'!A0", "", "-3", "'@x\\x1b"}


@pytest.mark.parametrize("name", ['"../escaped"', '"/tmp/x"', "5", '["a"]', '""', '"a/b"', '".."', '"' + 200 * "x" + '"'])
def test_a_sweep_does_not_write_where_its_name_leads(tmp_path, name):
    config = tmp_path / "it.toml"
    config.write_text(
        f"name = {name}\nalgorithms = ['random']\nenvironments = ['double-chain']\n[parameters]\nhorizon = 2\nmax_episodes = 1\n"
    )
    done = CliRunner().invoke(app, ["sweep", str(config)])
    assert done.exit_code == 2
    assert "name" in done.output

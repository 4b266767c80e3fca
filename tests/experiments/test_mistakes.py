"""The gap of every episode: the same run, with the policies that were played, evaluated by the exact planner."""

import numpy as np
import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.algorithms import make_explorer
from anyreward.cli import app
from anyreward.environments.tabular import play
from anyreward.experiments import compare as experiment
from anyreward.experiments.mistakes import Gaps, mistakes

from ..helpers.problems import random_mdp


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("r-max", {"samples": 5}),
        ("rf-trajectory", {"replan": "geometric"}),
        pytest.param("regret-uniform", {}, marks=pytest.mark.slow),
        pytest.param("jin2020", {"n0": 2}, marks=pytest.mark.slow),
    ],
)
def test_gaps_are_those_of_the_policies_that_are_asked_for(name, options):
    """A run by `ask` and `tell` meets the same policies, in the same order, but for those that are played many times at once."""
    mdp, H, K = random_mdp(4, 2, seed=1, H=3, random_start=True), 3, 60
    setting = mdp.setting(H, initial=mdp.initial)
    one, two = (make_explorer(name, setting, {"seed": 3, **options}, own_reward=mdp.reward, max_episodes=K) for _ in range(2))
    kept, rng, again = Gaps(mdp, mdp.reward, H), np.random.default_rng(5), np.random.default_rng(5)
    while one.episodes < K:
        kept.play(one, rng, K - one.episodes)
    best, right = ar.backward_induction(mdp, mdp.reward, H).V[0], []
    for _ in range(K):
        policy = two.ask()
        right.append(mdp.initial @ (best - ar.evaluate_policy(mdp, policy, mdp.reward, H).V[0]))
        if name != "rf-trajectory":
            two.tell(*mdp.rollout(policy, seed=again))
        else:  # the policy is that of the last pass, whatever was met since
            before = two.episodes
            play(two, mdp, again, 1)
            assert two.episodes == before + 1
    assert len(kept.all) == K
    if name != "rf-trajectory":
        assert one.counts == two.counts
        np.testing.assert_allclose(kept.all, right, atol=1e-12)
    assert kept.all.max() > kept.all.min() >= 0


def test_noting_changes_nothing_and_a_generative_model_has_no_policies():
    mdp = ar.envs.double_chain(5)
    runs = [experiment.one_run(mdp, "r-max:samples=3", 3, 150, 4, gaps=gaps) for gaps in (False, True)]
    assert runs[0].error == runs[1].error
    assert runs[0].gaps is None
    assert len(runs[1].gaps) == 150
    assert runs[1].best == pytest.approx(ar.backward_induction(mdp, mdp.reward, 4).V[0, 2])
    assert np.isnan(experiment.one_run(mdp, "generative", 3, 50, 4, gaps=True).gaps).all()


def test_mistakes_for_one_epsilon_and_for_all():
    gaps = np.array([3.0, 1.0, 0.5, 0.0])
    assert mistakes(gaps, 0.9) == 2
    assert mistakes(gaps, 1.0) == 1
    assert mistakes(gaps, np.array([-1.0, 0.0, 0.4, 5.0])).tolist() == [4, 3, 3, 0]


@pytest.mark.slow
def test_the_command_draws_them(tmp_path, monkeypatch):
    call = ["compare", "--env-arg", "length=5", "--algorithms", "r-max:samples=3,random,generative", "--episodes", "200"]
    call += ["--seeds", "2", "--horizon", "4", "--mistakes", "m.png", "--table", "t.csv"]
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*call, "--workers", "1"])
    assert done.exit_code == 0, done.output
    assert "bad episodes" in done.stdout
    assert (tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")
    heads, *lines = (line.split(",") for line in (tmp_path / "t.csv").read_text().splitlines())
    assert heads[-2:] == ["regret", "bad_episodes"]
    assert [len(line) for line in lines] == [len(heads)] * 6


def test_gaps_are_packed_in_runs():
    from anyreward.experiments.mistakes import packed, runs_of, unpacked

    for gaps in ([0.5, 0.5, 0.1, 0.5], [np.nan, np.nan, 0.0], [], [1.0]):
        values, times = unpacked(packed(np.array(gaps)))
        np.testing.assert_array_equal(np.repeat(values, times), gaps)
        assert len(values) == len(runs_of(np.array(gaps))[0])
    assert unpacked(packed(np.array([0.5, 0.5, 0.1, 0.5])))[1].tolist() == [2, 1, 1]
    assert len(packed(np.zeros(100_000))) < 100

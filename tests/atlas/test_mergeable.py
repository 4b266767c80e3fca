"""Which atlases may be merged, and what that assumes."""

import json

import gymnasium as gym
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


def test_different_environments_are_not_merged():
    calm, rough = (ar.explore(ar.envs.double_chain(9, p), 5, max_episodes=50, seed=i) for i, p in enumerate((0.02, 0.45)))
    for left, right in ((calm, rough), (rough, calm)):
        with pytest.raises(ValueError, match="different environments"):
            left | right
        with pytest.raises(ValueError, match="different environments"):
            left.merge(right, same_environment=True)
    again = ar.explore(ar.envs.double_chain(9, 0.02), 5, max_episodes=50, seed=7)
    third = ar.explore(ar.envs.double_chain(9, 0.02), 5, max_episodes=50, seed=8)
    assert ((calm | again) | third).episodes == 150
    with pytest.raises(ValueError, match="different environments"):
        (calm | again) | rough


def test_gymnasium_environments_are_known_by_how_they_were_made():
    def lake(seed, **options):
        return ar.explore("FrozenLake-v1", 4, max_episodes=20, seed=seed, env_args=options or None)

    assert (lake(1) | lake(2)).episodes == 40
    assert (lake(3) | ar.explore(gym.make("FrozenLake-v1"), 4, max_episodes=20, seed=4)).episodes == 40
    with pytest.raises(ValueError, match="different environments"):
        lake(1) | lake(2, is_slippery=False)


def test_runs_with_the_same_counts_are_still_two():
    """A model without chance: every run has the same counts, and leaving some out would be choosing by how they turned out."""
    mdp = ar.TabularMDP(np.ones((1, 1, 1)))
    one, two = (ar.explore(mdp, 3, max_episodes=5, seed=seed) for seed in (1, 2))
    assert one.counts == two.counts
    assert (one | two).episodes == 10
    for left, right in ((one, one), (one | two, two), (one, ar.Atlas(two.counts, ar.certify(two.counts)))):
        with pytest.raises(ValueError, match="share a run"):
            left.merge(right, same_environment=True)


def test_a_state_that_ended_in_one_run_and_went_on_in_another_is_not_merged():
    """Once, with masks known, a state that went on in itself was taken for one in which an episode had ended."""
    ends, goes_on = (Process(np.full((2, 1, 2), 0.5), end=[0, p]) for p in (1.0, 0.0))
    goes_on.P = np.array([[[0.5, 0.5]], [[0.0, 1.0]]])
    parts = [
        ar.explore(process, 4, max_episodes=20, seed=seed, terminal="state", action_masks="none")
        for seed, process in enumerate((ends, goes_on))
    ]
    for left, right in (parts, parts[::-1]):
        with pytest.raises(ValueError, match="in one of them state 1 is terminal"):
            left.merge(right, same_environment=True)


def test_data_of_unknown_origin_need_a_word(tmp_path):
    P = transitions(S, A)
    one, two = (ar.explore(Tabular(P), H, max_episodes=20, seed=seed) for seed in (1, 2))
    with pytest.raises(ValueError, match=r"Tabular has no fingerprint.*same_environment=True"):
        one | two
    both = one.merge(two, same_environment=True)
    assert "the merged runs are of the same environment" in str(both.certificate)
    assert "the merged runs are of the same environment" in str(both.plan(np.eye(S)[0]))
    both.save(tmp_path / "both.atlas")
    assert ar.load(tmp_path / "both.atlas").certificate == both.certificate
    mdp = random_mdp(S, A, seed=0)
    known = ar.explore(mdp, H, max_episodes=20)
    counts = ar.Counts.from_episodes(*mdp.rollout(np.zeros((H, S), int), 5), known.counts.setting)
    data = ar.Atlas(counts, ar.certify(counts))
    with pytest.raises(ValueError, match="data of unknown origin has no fingerprint"):
        known | data
    mixed = known.merge(data, same_environment=True)
    assert mixed.episodes == 25
    more = ar.explore(mdp, H, max_episodes=20, seed=9)
    with pytest.raises(ValueError, match="has no fingerprint"):  # what was merged with it is of unknown origin too
        mixed | more
    for whole in (mixed.merge(more, same_environment=True), more.merge(mixed, same_environment=True)):
        assert str(whole.certificate).count("the merged runs are of the same environment") == 1


def test_an_environment_that_is_drawn_when_it_is_made_is_known_by_what_was_drawn():
    lakes = [
        ar.explore("FrozenLake-v1", 4, max_episodes=20, seed=seed, env_args={"desc": None, "map_name": None}) for seed in (1, 2)
    ]
    with pytest.raises(ValueError, match="different environments"):
        lakes[0] | lakes[1]


@pytest.mark.slow
def test_merging_on_the_command_line(tmp_path):
    for seed in (1, 2):
        ar.explore(Tabular(transitions(S, A)), H, max_episodes=20, seed=seed).save(tmp_path / f"{seed}.atlas")
    names = [str(tmp_path / "1.atlas"), str(tmp_path / "2.atlas"), "--out", str(tmp_path / "both.atlas")]
    refused = CliRunner().invoke(app, ["merge", *names])
    assert refused.exit_code == 2
    assert "--same-environment" in refused.output
    done = CliRunner().invoke(app, ["merge", *names, "--same-environment", "--json"])
    assert done.exit_code == 3  # after so few episodes the certificate says nothing, which is said
    assert "the merged runs are of the same environment" in json.loads(done.stdout)["assumptions"]

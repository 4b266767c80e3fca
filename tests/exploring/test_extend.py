"""Going on from an atlas: the counts of both, fresh random numbers, a certificate of all of them, and what is refused."""

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms import make_explorer

from ..helpers.explorers import advanced
from ..helpers.structures import chain

CHAIN, H = ar.envs.double_chain(7), 6
CONTINUING = [name for name, kind in ar.ALGORITHMS.items() if kind.continues and not kind.needs_budget and name != "generative"]


@pytest.fixture(scope="module")
def atlas():
    return ar.explore(CHAIN, H, max_episodes=60, stationary=True, seed=3)


def test_the_counts_are_those_of_both(atlas):
    before = atlas.counts.digest()
    longer = atlas.extend(CHAIN, max_episodes=40)
    assert (atlas.episodes, longer.episodes) == (60, 100)
    assert atlas.counts.digest() == before  # it stays as it is
    more = longer.counts.n() - atlas.counts.n()
    assert more.min() >= 0
    assert more.sum() == 40 * H
    assert longer.certificate.check(longer.counts)
    assert longer.certificate.every_reward
    assert longer.certificate.epsilon == ar.certify(longer.counts, 0.1).epsilon
    assert longer.history[: len(atlas.history)] == atlas.history
    assert longer.history[-1] == (100, longer.certificate.epsilon)
    assert longer.source["own"]["epsilon"] is None  # no theorem of the algorithm is about data of another one
    assert atlas.extend(CHAIN, max_episodes=40) == longer  # the same seed
    assert atlas.extend(CHAIN, max_episodes=40, seed=1) != longer


def test_random_numbers_are_not_used_again(atlas):
    """With those of the exploration, the same policy would meet the same again: no new data, and a certificate that is void."""
    one = ar.explore(CHAIN, H, max_episodes=30, algorithm="random", stationary=True, seed=3)
    two = one.extend(CHAIN, max_episodes=30, algorithm="random", seed=3)
    assert (two.counts.n() - one.counts.n() != one.counts.n()).any()
    three = two.extend(CHAIN, max_episodes=30, algorithm="random", seed=3)
    assert (three.counts.n() - two.counts.n() != two.counts.n() - one.counts.n()).any()
    for other in (one, three):
        with pytest.raises(ValueError, match="share a run"):
            two | other
    assert (two | ar.explore(CHAIN, H, max_episodes=30, stationary=True, seed=8)).episodes == 90


@pytest.mark.parametrize("name", CONTINUING)
def test_any_algorithm_that_needs_no_more_than_counts(atlas, name):
    longer = atlas.extend(CHAIN, max_episodes=25, algorithm=name)
    assert longer.episodes == 85
    assert longer.certificate.epsilon <= atlas.certificate.largest * 2
    assert longer.source["algorithm"] == name


@pytest.mark.parametrize("name", ["bpi-ucrl", "multi-bpi"])
@pytest.mark.parametrize("stationary", [False, True])
def test_bounds_are_those_of_an_explorer_that_was_told_everything(name, stationary):
    setting = CHAIN.setting(H, stationary=stationary)
    options = {"reward": CHAIN.reward} if name == "bpi-ucrl" else {"rewards": [CHAIN.reward, np.eye(7)[0]]}
    told, new = (make_explorer(name, setting, {**options, "seed": 1}) for _ in range(2))
    advanced(told, CHAIN, 80, np.random.default_rng(0))
    new.go_on_from(told.counts.copy())
    assert new.error_bound == pytest.approx(told.error_bound, abs=1e-9)
    np.testing.assert_array_equal(new.recommendation, told.recommendation)
    for explorer in (told, new):
        advanced(explorer, CHAIN, 5, np.random.default_rng(1))
    assert new.counts == told.counts


def test_to_given_rewards_and_back(atlas):
    rewards = ["state == 6", "state == 0"]
    given = atlas.extend(CHAIN, epsilon=1.0, rewards=rewards)
    assert given.certificate.met
    assert given.certificate.names == tuple(rewards)
    assert max(given.plan(reward).regret_bound for reward in rewards) <= 1.0
    mixed = given.extend(CHAIN, epsilon=0.9, rewards=given.rewards, mixtures=True)
    assert mixed.certificate.mixtures
    back = given.extend(CHAIN, max_episodes=10)
    assert back.certificate.every_reward
    assert back.certificate.check(back.counts)
    assert given.certificate.epsilon not in [epsilon for _, epsilon in back.history]  # another statement


@pytest.mark.parametrize("how", [{"structure": chain(7)}, {"max_successors": 2}, {"bounds": "paper"}, {"discount": 0.9}])
def test_what_was_assumed_is_assumed_still(tmp_path, how):
    before = ar.explore(CHAIN, H, max_episodes=40, delta=0.2, **how)
    for options in ({}, {"rewards": ["state == 6", "own"]}):
        after = before.extend(CHAIN, max_episodes=40, **options)
        assert after.certificate.delta == 0.2
        assert after.certificate.bounds == before.certificate.bounds
        assert set(before.certificate.assumptions) <= set(after.certificate.assumptions)
        again = after.extend(CHAIN, max_episodes=5)
        assert set(before.certificate.assumptions) <= set(again.certificate.assumptions)
        after.save(tmp_path / "it.atlas")
        assert ar.load(tmp_path / "it.atlas") == after
        assert ar.load(tmp_path / "it.atlas").extend(CHAIN, max_episodes=5).episodes == 85


@pytest.mark.parametrize("terminal", ["outcome", "state", "end"])
@pytest.mark.parametrize("record", [False, True])
def test_a_gymnasium_environment(tmp_path, terminal, record):
    how = {"terminal": terminal, "record": record, "progress": False}
    before = ar.explore("FrozenLake-v1", 5, max_episodes=50, initial_state=0, **how)
    after = before.extend("FrozenLake-v1", max_episodes=50)
    assert after.episodes == 100
    assert after.paid.range == (0.0, 0.0) or after.paid.range[1] == 1.0
    assert (after.recorded == (50, 50)) == record
    after.save(tmp_path / "it.atlas")
    assert ar.load(tmp_path / "it.atlas") == after
    assert ar.load(tmp_path / "it.atlas").extend("FrozenLake-v1", max_episodes=5).episodes == 105


def test_data_of_unknown_origin_need_a_word():
    states, actions = CHAIN.play_each(np.random.default_rng(0).integers(0, 2, (30, H, 7)), np.random.default_rng(1))
    counts = ar.Counts.from_episodes(states, actions, CHAIN.setting(H))
    atlas = ar.Atlas(counts, ar.certify(counts))
    with pytest.raises(ValueError, match="it cannot be verified that"):
        atlas.extend(CHAIN, max_episodes=10)
    longer = atlas.extend(CHAIN, max_episodes=10, same_environment=True)
    assert longer.episodes == 40
    assert "of the same environment" in str(longer.certificate)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({}, "neither epsilon nor max_episodes nor max_seconds is given"),
        ({"max_episodes": -1}, "max_episodes is -1"),
        ({"max_episodes": 5, "env": ar.envs.double_chain(9)}, "this is not the environment that was explored"),
        ({"max_episodes": 5, "env": ar.envs.double_chain(7, fail_prob=0.2)}, "their fingerprints differ"),
        ({"max_episodes": 5, "env": "FrozenLake-v1"}, "this cannot be gone on from with 'FrozenLake-v1' as it was explored"),
        ({"max_episodes": 5, "rewards": []}, "rewards is an empty list"),
        ({"max_episodes": 5, "rewards": [np.zeros(8)]}, r"rewards\[0\] cannot be used"),
        ({"max_episodes": 5, "mixtures": True}, "no list of rewards is given"),
        ({"max_episodes": 5, "algorithm": "even-dar"}, "EvenDar cannot go on from data that it did not collect itself"),
        ({"max_episodes": 5, "algorithm": "ucrl2"}, "UCRL2 cannot go on from data"),
        ({"max_episodes": 5, "algorithm": "rf-ucrl", "rewards": ["own"]}, "which RFUCRL does not explore for"),
        ({"max_episodes": 5, "replam": "every"}, "'replam' is not an option"),
    ],
)
def test_what_is_refused_is_one_sentence(atlas, how, says):
    how = dict(how)
    with pytest.raises(ValueError, match=says) as problem:
        atlas.extend(how.pop("env", CHAIN), **how)
    assert str(problem.value).endswith(".")


def test_calibrated_bounds_are_refused():
    mdp = ar.envs.double_chain(3)
    atlas = ar.explore(mdp, 2, epsilon=1.5, bounds="calibrated", max_episodes=20_000)
    with pytest.raises(ValueError, match="an atlas with calibrated bounds cannot be extended"):
        atlas.extend(mdp, max_episodes=5)

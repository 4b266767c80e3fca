"""Mixtures of rewards: what holds for all weights, and that the given rewards alone do not tell.

It watches `docs/theory.md`, 20.2.
"""

import numpy as np
import pytest

import anyreward as ar
from anyreward import kernels
from anyreward.certificates.bounds import TightBound
from anyreward.certificates.given import GivenBounds
from anyreward.certificates.mixtures import Mixtures, distance
from anyreward.rewards.given import given_rewards

from ..helpers.mixing import CHOICE, CORNERS, choice_counts
from ..helpers.problems import random_mdp

BOUND = TightBound(joint=False, transfer=False)


def explored(k, episodes=60, seed=0, stationary=True):
    """What counts of a random model prove for k random rewards."""
    mdp, rng = random_mdp(4, 3, seed=seed), np.random.default_rng(seed)
    setting = mdp.setting(4, stationary=stationary)
    counts = ar.Counts.from_episodes(*mdp.play_each(rng.integers(0, 3, (episodes, 4, 4)), rng), setting)
    rewards = [rng.random((4, 3)) for _ in range(k)]
    return GivenBounds(counts, BOUND, 0.1, given_rewards(rewards, setting), (0.0, 1.0)), rewards


def cautious_width(found, reward):
    robust = found.robust(np.broadcast_to(reward, found.rewards[0].reward.shape))
    return robust.best(kernels.robust.UPPER)[1] - robust.best(kernels.robust.LOWER)[1]


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("stationary", [False, True])
def test_no_mixture_has_a_wider_interval(k, stationary):
    found, rewards = explored(k, seed=k, stationary=stationary)
    mixed, rng = Mixtures(found), np.random.default_rng(1)
    widths = [cautious_width(found, np.tensordot(w, rewards, 1)) for w in [*np.eye(k), *rng.dirichlet(np.ones(k), 40)]]
    before = np.inf
    for enough in (10.0, 1.2 * mixed.lowest, 1.05 * mixed.lowest):
        epsilon = mixed.refine(enough).epsilon
        assert max(widths) <= epsilon <= before  # dividing never makes it worse
        assert mixed.lowest <= epsilon
        before = epsilon
    assert mixed.epsilon <= max(1.05 * mixed.lowest, np.nextafter(mixed.lowest, 9))


def test_cells_cover_all_weights():
    """Every weight is in a cell, and the cells have the volume of the whole."""
    found, _ = explored(3, episodes=400)
    mixed = Mixtures(found).refine(1.02 * max(found.widths))
    corners = [np.array(cell.corners) for cell in mixed._cells]
    assert len(corners) > 3
    assert sum(abs(np.linalg.det(each)) for each in corners) == pytest.approx(1.0)
    for w in np.random.default_rng(0).dirichlet(np.ones(3), 50):
        assert any((np.linalg.solve(each.T, w) >= -1e-12).all() for each in corners)


def test_the_given_rewards_alone_do_not_tell():
    """For each of them an action is known to be best; for their mean it is one of which little is known."""
    counts = choice_counts(np.random.default_rng(0), 2)
    found = GivenBounds(counts, BOUND, 0.1, given_rewards(CORNERS, counts.setting), (0.0, 1.0))
    mixed = Mixtures(found).refine()
    assert max(found.widths) < 1e-6
    assert mixed.epsilon >= cautious_width(found, np.mean(CORNERS, axis=0)[:, None]) > 0.3
    np.testing.assert_allclose(mixed.widest, 0.5)
    assert mixed.index()[0, 0].argmax() == 2  # it is worth a try


def test_a_target_ends_the_division():
    found, _ = explored(3)
    reached = Mixtures(found).refine(1.1 * max(found.widths))
    assert reached.epsilon <= 1.1 * max(found.widths)
    hopeless = Mixtures(found).refine(0.5 * max(found.widths))
    assert len(hopeless._cells) == 1  # a given reward is wider: that is clear at once
    assert hopeless.epsilon >= hopeless.lowest > 0.5 * max(found.widths)


def test_distances():
    assert distance((1.0, 0.0), (0.0, 1.0)) == 1.0
    assert distance((0.5, 0.5), (0.0, 1.0)) == 0.5


def test_explored_for_all_mixtures(tmp_path):
    rewards, atlas = CORNERS, None
    for most in (3, None):
        atlas = ar.explore(
            CHOICE.mdp, 2, epsilon=0.4, rewards=rewards, mixtures=True, structure=CHOICE.structure, max_episodes=most,
            checkpoint=tmp_path / "it.atlas",
        )  # fmt: skip
        assert ar.load(tmp_path / "it.atlas").certificate == atlas.certificate
    assert atlas.certificate.met
    assert atlas.certificate.mixtures
    assert "each mixture of 2 rewards" in str(atlas.certificate)
    again = ar.load(tmp_path / "it.atlas")
    for w in np.linspace(0, 1, 21):
        assert again.plan(w * rewards[0] + (1 - w) * rewards[1]).regret_bound <= 0.4
    fewer = ar.explore(CHOICE.mdp, 2, epsilon=0.4, rewards=rewards, structure=CHOICE.structure)
    assert fewer.episodes < atlas.episodes
    claim = ar.Certificate.from_dict(atlas.certificate.to_dict() | {"epsilon": 0.7 * atlas.certificate.epsilon})
    assert not claim.check(atlas.counts, rewards)
    assert atlas.certificate.check(atlas.counts, rewards)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"mixtures": True}, "mixtures is True, but no list of rewards is given"),
        ({"mixtures": 3, "rewards": CORNERS}, "mixtures is 3"),
        ({"mixtures": True, "rewards": ["next == 1", "state == 2"]}, "mixtures is True, but a reward is paid on arrival"),
    ],
)
def test_what_cannot_be_mixed_is_one_sentence(wrong, says):
    with pytest.raises(ValueError, match=says):
        ar.explore(CHOICE.mdp, 2, max_episodes=5, **wrong)

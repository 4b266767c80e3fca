"""Merged atlases: certified afresh, and no run is counted twice."""

import pytest

import anyreward as ar

from ..helpers.atlases import explored
from ..helpers.problems import random_mdp, rows


def test_merged_counts_are_certified_afresh():
    one, other = explored(seed=0), explored(seed=1, episodes=500)
    both = one | other
    assert rows(both.counts) == rows(one.counts + other.counts)
    assert both.episodes == 800
    assert both.certificate.check(both.counts)
    assert both.certificate.epsilon == ar.certify(one.counts + other.counts, 0.1, "paper").epsilon
    assert rows((other | one).counts) == rows(both.counts)
    assert (other | one).error_bound == pytest.approx(both.error_bound, rel=1e-12)


def test_more_runs_certify_more():
    runs = [
        explored(seed=seed, episodes=20_000, mdp=ar.envs.double_chain(3), stationary=True, replan="geometric")
        for seed in range(3)
    ]
    merged = runs[0] | runs[1] | runs[2]
    assert merged.error_bound < min(run.error_bound for run in runs)
    assert rows((runs[0] | (runs[1] | runs[2])).counts) == rows(merged.counts)


def test_the_target_of_a_merge_is_the_common_one():
    one, other = (explored(seed=seed, epsilon=5.0) for seed in (0, 1))
    assert (one | other).certificate.target == 5.0
    assert (one | explored(seed=1, epsilon=4.0)).certificate.target is None


@pytest.mark.parametrize("through_a_file", [False, True])
def test_a_run_is_not_counted_twice(tmp_path, through_a_file):
    one, two, three = (explored(seed=seed) for seed in range(3))
    mixed = two | three
    if through_a_file:
        for name, atlas in (("one", one), ("mixed", mixed)):
            atlas.save(tmp_path / name)
        one, mixed = ar.load(tmp_path / "one"), ar.load(tmp_path / "mixed")
    for left, right in ((one, one), (one | two, mixed), (mixed, three), (one | mixed, one)):
        with pytest.raises(ValueError, match="share"):
            left | right


def test_counts_are_not_counted_twice_under_another_certificate():
    """An atlas made by hand from the counts of an exploration holds the same episodes."""
    atlas = explored()
    by_hand = ar.Atlas(atlas.counts, ar.certify(atlas.counts, 0.1, "paper"))
    for left, right in ((atlas, by_hand), (by_hand, atlas), (explored(seed=1) | atlas, by_hand)):
        with pytest.raises(ValueError, match="share"):
            left | right


def test_the_beginning_of_a_run_is_part_of_it():
    """The same seed plays the same first episodes: 300 of the 500 would be counted twice."""
    one, longer = explored(seed=0, episodes=300), explored(seed=0, episodes=500)
    with pytest.raises(ValueError, match="share"):
        one | longer


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"delta": 0.2}, "delta 0.1 and 0.2"),
        ({"clip": False}, "options"),
        ({"stationary": True}, "different settings"),
        ({"discount": 0.5}, "different settings"),
        ({"mdp": random_mdp(3, 2, seed=0)}, "different settings"),
    ],
)
def test_what_does_not_fit_is_not_merged(options, names):
    with pytest.raises(ValueError, match=names):
        explored(seed=0) | explored(seed=1, **options)


def test_only_atlases_are_merged():
    with pytest.raises(TypeError):
        explored() | {"counts": 1}

"""Which parts of an observation the audit suggests to declare independent: only those that may be, and none is ever chosen."""

import gymnasium as gym
import numpy as np
import pytest

import anyreward as ar
from anyreward.exploring.parts import can_tell, parents_of, part_lines, parts_of

from ..helpers.structures import plant_model
from ..helpers.tabular import Tabular


def plant_env(observe=None, space=None):
    """The plant as an environment whose observation has three parts."""
    levels = np.array(np.unravel_index(np.arange(64), (4, 4, 4))).T
    return Tabular(
        plant_model().dense(), observe=observe or (lambda s: levels[s]), space=space or gym.spaces.MultiDiscrete([4, 4, 4])
    )


def random_transitions(P, n, seed=0):
    """Transitions from random pairs."""
    rng = np.random.default_rng(seed)
    S, A, _ = P.shape
    s, a = rng.integers(S, size=n), rng.integers(A, size=n)
    then = (rng.random((n, 1)) > P[s, a].cumsum(axis=1)).sum(axis=1)
    return list(zip([0] * n, s.tolist(), a.tolist(), then.tolist(), strict=True))


def test_independent_parts_are_suggested_with_the_declaration_to_write():
    lines = ar.audit(plant_env(), 20).lines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Parts: ") and "the next value of each depends on" in line)
    assert "the structure ar.Structure.factored((4, 4, 4)) needs far fewer episodes" in lines[at + 1]
    assert "48 laws in place of 256" in lines[at + 1]
    atlas = ar.explore(
        plant_env(),
        20,
        max_episodes=2_000,
        structure=ar.Structure.factored((4, 4, 4)),
        terminal="state",
        action_masks="none",
        progress=False,
    )
    assert len(atlas.counts.setting.structure.sizes) == 48
    assert not atlas.certificate.says_nothing
    assert ar.certify(atlas.counts.with_structure(None)).says_nothing


def test_nothing_is_assumed_because_it_was_suggested():
    atlas = ar.explore(plant_env(), 20, max_episodes=50, progress=False)
    assert atlas.counts.setting.structure is None


def test_a_part_that_depends_on_another_one_gets_it_as_a_parent():
    """The second of three parts copies the first with probability 0.9."""
    P = np.zeros((8, 1, 8))
    for s in range(8):
        x, _, z = np.unravel_index(s, (2, 2, 2))
        for t in range(8):
            u, v, w = np.unravel_index(t, (2, 2, 2))
            P[s, 0, t] = (0.7 if u == x else 0.3) * (0.9 if v == x else 0.1) * (0.6 if w == z else 0.4)
    assert parents_of(random_transitions(P, 2000), (2, 2, 2), 1) == [(0,), (0, 1), (2,)]
    space = gym.spaces.Dict({"lamp": gym.spaces.Discrete(2), "mirror": gym.spaces.Discrete(2), "other": gym.spaces.Discrete(2)})
    numbering = ar.audit(
        Tabular(
            P, observe=lambda s: dict(zip(("lamp", "mirror", "other"), np.unravel_index(s, (2, 2, 2)), strict=True)), space=space
        ),
        10,
    )
    text = " ".join(numbering.lines())
    assert "that of 'mirror' on more than 'lamp' and 'mirror'" in text
    assert "factored({'lamp': 2, 'mirror': 2, 'other': 2}, parents={'mirror': ['lamp', 'mirror']})" in text


def test_parts_that_are_drawn_together_are_not_suggested():
    """Each part has the right law given itself, but both are drawn with the same random number."""
    P = np.zeros((4, 1, 4))
    P[:, 0, 0] = P[:, 0, 3] = 0.5
    assert parents_of(random_transitions(P, 1000), (2, 2), 1) is None


def test_false_suggestions_are_rare_and_missed_ones_too():
    """Over 40 random models of two parts that move independently, at most a few are not suggested; of dependent ones, none is."""
    rng, missed, wrong = np.random.default_rng(3), 0, 0
    for seed in range(40):
        one, two = rng.dirichlet(np.ones(3), (3, 2)), rng.dirichlet(np.ones(3), (3, 2))
        P = np.einsum("iax,jay->ijaxy", one, two).reshape(9, 2, 9)
        missed += parents_of(random_transitions(P, 1500, seed), (3, 3), 2) != [(0,), (1,)]
        wrong += parents_of(random_transitions(rng.dirichlet(np.ones(9), (9, 2)), 1500, seed), (3, 3), 2) is not None
    assert missed <= 3  # three tests with false-alarm probability 0.01 each
    assert wrong <= 2


def test_it_says_where_there_are_too_few_samples_to_tell():
    """One part goes to 1 with probability 0.21 or 0.41, depending on the other. Few samples miss it, and say so; many find it."""
    from anyreward.data.spaces import codec

    P = np.zeros((4, 1, 4))
    for x, y, u, v in np.ndindex(2, 2, 2, 2):
        p = 0.41 if y else 0.21
        P[2 * x + y, 0, 2 * u + v] = (p if u else 1 - p) * 0.5
    told = []
    for n in (60, 300, 8_000):
        for seed in range(10):
            data = random_transitions(P, n, seed)
            parents = parents_of(data, (2, 2), 1)
            missed = parents == [(0,), (1,)]
            sure = missed and can_tell(data, (2, 2), 1, parents)
            told.append((n, missed, sure))
            line = part_lines(codec(gym.spaces.MultiDiscrete([2, 2])), data, 1) if missed else []
            assert not missed or ("too few samples to tell" in line[0]) != sure
    assert sum(missed for n, missed, _ in told if n == 60) >= 8
    assert not any(sure for n, _, sure in told if n < 8_000)
    assert not any(missed for n, missed, _ in told if n == 8_000)
    alone = np.full((4, 1, 4), 0.25)  # nothing depends on anything, and there are samples enough to say so
    assert can_tell(random_transitions(alone, 8_000), (2, 2), 1, [(0,), (1,)])


@pytest.mark.parametrize(
    ("space", "bins", "found"),
    [
        (gym.spaces.MultiDiscrete([4, 3]), None, (["part 0", "part 1"], (4, 3))),
        (gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.Discrete(5)]), None, (["part 0", "part 1"], (2, 5))),
        (gym.spaces.Box(0.0, 1.0, (2,)), [3, [0.5]], (["part 0", "part 1"], (3, 2))),
        (gym.spaces.Discrete(12), None, ([], ())),
        (gym.spaces.MultiDiscrete([4, 1]), None, ([], ())),
    ],
)
def test_which_observations_have_parts(space, bins, found):
    from anyreward.data.spaces import codec

    assert parts_of(codec(space, bins)) == found


def test_without_transitions_nothing_is_said():
    from anyreward.data.spaces import codec

    assert part_lines(codec(gym.spaces.MultiDiscrete([4, 3])), [], 2) == []

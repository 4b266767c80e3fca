"""Numbers of observations and actions: one each, all of them, and the same one every time."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from anyreward.data.spaces import Binned, Indexed, codec

SIZES = st.integers(1, 4)


@st.composite
def finite_spaces(draw, depth=2):
    kind = draw(st.sampled_from(["discrete", "multi", "binary", *(["tuple", "dict"] if depth else [])]))
    if kind == "discrete":
        return spaces.Discrete(draw(SIZES), start=draw(st.integers(-5, 5)))
    if kind == "multi":
        sizes = draw(st.lists(SIZES, min_size=1, max_size=3))
        return spaces.MultiDiscrete(sizes, start=draw(st.lists(st.integers(-3, 3), min_size=len(sizes), max_size=len(sizes))))
    if kind == "binary":
        return spaces.MultiBinary(draw(st.sampled_from([1, 2, 3, (2, 2)])))
    parts = draw(st.lists(finite_spaces(depth=depth - 1), min_size=1, max_size=2))
    return spaces.Tuple(parts) if kind == "tuple" else spaces.Dict({f"k{9 - i}": part for i, part in enumerate(parts)})


@given(finite_spaces())
def test_every_value_of_a_finite_space_has_one_number(space):
    numbering = codec(space)
    for number in range(0, numbering.size, max(1, numbering.size // 50)):
        value = numbering.decode(number)
        assert space.contains(value)
        assert numbering.encode(value) == number
    space.seed(0)
    for _ in range(20):
        assert 0 <= numbering.encode(space.sample()) < numbering.size


def size_of(space):
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(np.prod(space.nvec))
    if isinstance(space, spaces.MultiBinary):
        return 2 ** int(np.prod(space.shape))
    return int(np.prod([size_of(part) for part in (space.values() if isinstance(space, spaces.Dict) else space)]))


@given(finite_spaces())
def test_there_are_as_many_numbers_as_values(space):
    assert codec(space).size == size_of(space)


def test_a_grid_of_several_dimensions_is_ravelled_as_numpy_does():
    numbering = codec(spaces.MultiDiscrete([[2, 3], [4, 5]]))
    value = np.array([[1, 2], [0, 4]])
    assert numbering.encode(value) == np.ravel_multi_index((1, 2, 0, 4), (2, 3, 4, 5))
    np.testing.assert_array_equal(numbering.decode(numbering.encode(value)), value)


def test_products_do_not_overflow():
    assert codec(spaces.MultiDiscrete([2**31] * 3)).size == 2**93


@pytest.mark.parametrize("value", [4, -1, 9, 1.5, float("nan")])
def test_what_is_not_in_a_discrete_space_is_refused(value):
    with pytest.raises(ValueError, match=r"space|whole|NaN"):
        codec(spaces.Discrete(4)).encode(value)


@pytest.mark.parametrize("value", [np.int32(2), np.array(2), np.uint8(2), True + 1])
def test_whole_numbers_of_any_kind_are_taken(value):
    assert codec(spaces.Discrete(4)).encode(value) == 2


def test_a_part_outside_its_space_is_not_carried_into_the_next():
    with pytest.raises(ValueError, match="not in the space"):
        codec(spaces.MultiDiscrete([2, 3])).encode(np.array([0, 3]))
    with pytest.raises(ValueError, match=r"."):
        codec(spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)])).encode((1,))


# Bins


def test_equal_bins_divide_a_box():
    numbering = codec(spaces.Box(np.array([0.0, -1.0]), np.array([1.0, 1.0]), dtype=float), bins=[4, 2])
    assert numbering.size == 8
    for x, i in ((0.0, 0), (0.2499, 0), (0.25, 1), (0.74, 2), (0.75, 3), (1.0, 3)):
        for y, j in ((-1.0, 0), (-1e-9, 0), (0.0, 1), (1.0, 1)):
            assert numbering.encode(np.array([x, y])) == 2 * i + j
            assert numbering.decode(2 * i + j) == [i, j]


def test_edges_need_no_finite_bounds_and_outside_is_the_outermost_bin():
    numbering = codec(spaces.Box(-np.inf, np.inf, (1,)), bins=[[-1.0, 0.0, 2.0]])
    assert numbering.size == 4
    assert [numbering.encode(np.array([x])) for x in (-np.inf, -2.0, -1.0, 0.5, 2.0, np.inf)] == [0, 0, 1, 2, 3, 3]


def test_one_bin_leaves_a_dimension_out():
    numbering = codec(spaces.Box(-np.inf, np.inf, (2,)), bins=[1, [0.0]])
    assert {numbering.encode(np.array([x, -1.0])) for x in (-9.0, 0.0, 9.0)} == {0}
    assert numbering.size == 2


@pytest.mark.parametrize(
    ("bins", "names"),
    [
        ([2], "1 entries, but the observation has 2 dimensions"),
        ([2, 2, 2], "3 entries"),
        ([0, 2], r"bins\[0\] is 0"),
        ([2, -1], r"bins\[1\] is -1"),
        ([2, 1.5], r"bins\[1\]"),
        ([2, [0.5, 0.5]], r"bins\[1\] has to be .* increasing"),
        ([2, [0.5, 0.1]], "increasing"),
        ([2, [np.nan]], "increasing"),
        ([2, [[0.5]]], "increasing"),
        (4, "bins"),
    ],
)
def test_bins_that_make_no_sense_are_refused(bins, names):
    with pytest.raises(ValueError, match=names):
        codec(spaces.Box(0.0, 1.0, (2,)), bins=bins)


def test_a_number_of_bins_needs_bounds():
    with pytest.raises(ValueError, match=r"no finite bounds.* give the edges"):
        codec(spaces.Box(-np.inf, np.inf, (1,)), bins=[3])
    with pytest.raises(ValueError, match="bins are for a Box"):
        codec(spaces.Discrete(3), bins=[3])


def test_not_a_number_is_in_no_bin():
    with pytest.raises(ValueError, match="is NaN"):
        Binned(spaces.Box(0.0, 1.0, (1,)), [2]).encode(np.array([np.nan]))


# Numbered as they appear


VALUES = [
    "a text",
    7,
    (1, 2),
    (1, (2, 3)),
    np.array([1, 2]),
    np.array([1.0, 2.0]),
    np.array([[1, 2]]),
    {"x": 1, "y": np.array([0])},
    {"x": 1, "y": np.array([1])},
    b"bytes",
    None,
    frozenset({1}),
]


def test_observations_of_every_kind_are_told_apart():
    numbering = Indexed(50)
    assert [numbering.encode(value) for value in VALUES] == list(range(len(VALUES)))
    assert [numbering.encode(value) for value in VALUES] == list(range(len(VALUES)))
    assert numbering.encode({"y": np.array([0]), "x": 1}) == 7  # in any order
    assert numbering.encode(np.array([1, 2]).copy()) == 4
    assert numbering.encode(np.int64(7)) == 1


def test_numbers_survive_a_file():
    numbering, again = Indexed(50), Indexed(50)
    for value in VALUES[:-1]:
        numbering.encode(value)
    again.restore(numbering.dump())
    assert [again.encode(value) for value in VALUES[:-1]] == list(range(len(VALUES) - 1))
    assert again.encode("new") == len(VALUES) - 1


def test_no_more_than_promised():
    numbering = Indexed(2)
    assert [numbering.encode(x) for x in "aba"] == [0, 1, 0]
    with pytest.raises(ValueError, match="max_states = 2"):
        numbering.encode("c")
    assert [numbering.encode(x) for x in "ab"] == [0, 1]  # and nothing has changed


@pytest.mark.parametrize("size", [0, -1, 2.5, "3"])
def test_a_number_of_states_is_a_positive_whole_number(size):
    with pytest.raises(ValueError, match="max_states"):
        Indexed(size)


def test_what_cannot_be_told_apart_is_refused():
    with pytest.raises(ValueError, match="is not hashable"):
        Indexed(5).encode({1, 2})


@pytest.mark.parametrize(
    "space", [spaces.Text(5), spaces.Sequence(spaces.Discrete(2)), spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (1,))])]
)
def test_spaces_of_unknown_size_ask_for_max_states(space):
    with pytest.raises(ValueError, match="max_states="):
        codec(space)
    numbering = codec(space, max_states=5)
    space.seed(0)
    assert numbering.encode(space.sample()) == 0


def test_a_finite_space_may_be_numbered_as_it_appears_to_leave_out_what_never_does():
    numbering = codec(spaces.MultiDiscrete([1000, 1000]), max_states=3)
    assert numbering.size == 3
    assert numbering.encode(np.array([999, 999])) == 0

"""Rewards written as text: the same numbers as Python gives cell by cell."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anyreward as ar
from anyreward.rewards.expressions import reward_of
from anyreward.rewards.forms import core

from ..helpers.texts import A, H, S, expressions, outcome, refusal


def cells(arrival):
    """Every cell of a reward with what the names mean there."""
    sizes = (H, S, A, S) if arrival else (H, S, A)
    for index in itertools.product(*map(range, sizes)):
        h, s, a = map(float, index[:3])
        names = {
            "step": h,
            "h": h,
            "state": s,
            "s": s,
            "action": a,
            "a": a,
            "horizon": 1.0 * H,
            "states": 1.0 * S,
            "actions": 1.0 * A,
        }
        yield index, names | ({"next": float(index[3])} if arrival else {})


def real(x):
    if isinstance(x, complex) or not math.isfinite(x):
        raise ValueError("no real number")
    return float(x)


HELPERS = {
    "abs": abs,
    "min": min,
    "max": max,
    "floor": lambda x: float(math.floor(x)),
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "truth": lambda x: 1.0 if x else 0.0,
    "power": lambda x, y: real(x**y),
    "choose": lambda c, x, y: x if c else y,
    "both": lambda *xs: 1.0 if all(xs) else 0.0,
    "either": lambda *xs: 1.0 if any(xs) else 0.0,
}
UNDEFINED = (ZeroDivisionError, OverflowError, ValueError, TypeError)


def by_python(text, names):
    """What Python makes of a text, None if there is no real number."""
    try:
        return real(eval(text, {"__builtins__": {}, **HELPERS}, names))
    except UNDEFINED:
        return None


@pytest.mark.slow
@settings(max_examples=300, deadline=None, derandomize=True)
@given(expressions())
def test_an_expression_means_in_every_cell_what_python_makes_of_it(texts):
    """To the last bit; and it is refused only if a part of it has no value somewhere."""
    text, lazy, eager = texts
    arrival = "next" in text
    r = outcome(text)
    if isinstance(r, str):
        undefined = any(by_python(eager, names) is None for _, names in cells(arrival))
        assert "cannot be computed" in refusal(text)
        assert undefined, text
        return
    assert r.ndim == 3 + arrival
    for index, names in cells(arrival):
        assert r[index] == by_python(lazy, names), (text, index)


TOKENS = ["state", "a", "step", "horizon", "1.0", "2.0", "0.5", "3.0"]
JOINS = [
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "<",
    "<=",
    "==",
    "!=",
    "and",
    "or",
    "and not",
    "or not",
    "- -",
    "* +",
    "+ not",
    "if 1.0 else",
]


@pytest.mark.slow
@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from(TOKENS), st.sampled_from(JOINS)), max_size=6), st.sampled_from(TOKENS), st.booleans())
def test_operators_bind_as_in_python(parts, last, negated):
    """Without brackets: precedence, associativity (** to the right), chains, and what Python cannot parse is refused."""
    text = ("not " if negated else "") + " ".join(f"{x} {op}" for x, op in parts) + f" {last}"
    r = outcome(text)
    try:
        code = compile(text.strip(), "reward", "eval")
    except SyntaxError:
        assert isinstance(r, str)
        return
    for index, names in cells(False):
        try:
            expected = eval(code, {"__builtins__": {}}, names)
        except UNDEFINED:
            expected = None
        if isinstance(r, str):  # parts that Python skipped, or infinities on the way
            assert "cannot be computed" in refusal(text)
            assert any(op in text for op in ("/", "%", "**"))
            return
        assert expected is not None
        if {"and", "or"} & set(text.split()):  # which Python answers with one of the two, and rewards with 1 or 0
            assert bool(r[index]) == bool(expected), (text, index)
        else:
            assert r[index] == expected, (text, index)


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "floor", "abs"])
def test_functions_are_those_of_the_textbook(name):
    r = reward_of(f"{name}(state + step / 4 + 0.5)", S, A, H)
    for (h, s, a), _ in cells(False):
        assert r[h, s, a] == pytest.approx(HELPERS[name](s + h / 4 + 0.5), rel=1e-14)


def test_the_examples_of_the_documentation():
    h, s, a, n = np.indices((H, S, A, S))
    np.testing.assert_array_equal(reward_of("state == 3", S, A, H), (s == 3)[..., 0])
    np.testing.assert_array_equal(reward_of("0.5*(action==1) + step/horizon", S, A, H), (0.5 * (a == 1) + h / H)[..., 0])
    np.testing.assert_array_equal(reward_of("next in (3,1)", S, A, H), (n == 3) | (n == 1))
    np.testing.assert_array_equal(reward_of("1 <= s < 3 and not a", S, A, H), ((s >= 1) & (s < 3) & (a == 0))[..., 0])
    np.testing.assert_array_equal(reward_of("1 if next == state else 0.25", S, A, H), np.where(n == s, 1, 0.25))
    np.testing.assert_array_equal(reward_of("states + actions * 10", S, A, H), np.full((H, S, A), S + 10 * A))
    np.testing.assert_array_equal(reward_of("2 and 3", S, A, H), np.ones((H, S, A)))  # truth counts as 1


def test_a_reward_takes_memory_for_what_it_names_and_cannot_be_written_to():
    """Its cells may be views of one number: changing one of them would change others."""
    for text, size in (("1", 1), ("state == 3", S), ("action * step", A * H), ("state * action * step", S * A * H)):
        r = reward_of(text, S, A, H)
        assert r.shape == (H, S, A)
        assert core(r).size == size
        with pytest.raises(ValueError, match="read-only"):
            r[0, 0, 0] = 5.0


@pytest.fixture(scope="module")
def atlas():
    return ar.explore(ar.envs.garnet(S, A, 2, seed=1), H, max_episodes=200, arrival_rewards=True)


@pytest.mark.parametrize(
    ("text", "array"),
    [
        ("state == 3", lambda h, s, a: float(s == 3)),
        ("0.5*(action==1) + 0.5*step/horizon", lambda h, s, a: 0.5 * (a == 1) + 0.5 * h / H),
        ("next in (3, 1)", lambda h, s, a, n: float(n in (3, 1))),
        ("0.25", lambda h, s, a: 0.25),
    ],
)
@pytest.mark.parametrize("cautious", [False, True])
def test_a_plan_for_a_text_is_the_plan_for_its_array(atlas, text, array, cautious):
    one, two = atlas.plan(text, cautious=cautious), atlas.plan(array, cautious=cautious)
    np.testing.assert_array_equal(one.policy, two.policy)
    assert (one.value, one.lower, one.upper) == (two.value, two.lower, two.upper)
    assert atlas.evaluate(one.policy, text) == atlas.evaluate(one.policy, array)


def test_everything_that_takes_a_reward_takes_a_text():
    mdp = ar.envs.garnet(S, A, 2, seed=1)
    r = np.arange(S) == 2
    np.testing.assert_array_equal(ar.backward_induction(mdp, "state == 2", H).Q, ar.backward_induction(mdp, r, H).Q)
    one, two = (ar.identify(mdp, reward, H, epsilon=1.0) for reward in ("state == 2", r.astype(float)))
    assert one == two
    np.testing.assert_array_equal(one.policy, two.policy)


def test_a_text_out_of_range_is_refused_by_a_plan(atlas):
    with pytest.raises(ValueError, match=r"reward\[0, 2, 0\] is 2, outside \[0, 1\]"):
        atlas.plan("state")
    assert atlas.plan("state", reward_range=(0.0, 3.0)).value == pytest.approx(3 * atlas.plan("state / 3").value, rel=1e-12)


@pytest.fixture(scope="module")
def rooms():
    """Two columns are a state, and both are texts; the episodes end."""
    rows = [("a", "kitchen", "day", "wait", False), ("a", "hall", "day", "go", True), ("b", "kitchen", "night", "go", True)]
    names = ("id", "room", "time", "did", "over")
    log = dict(zip(names, zip(*(row for row in rows * 20), strict=True), strict=True))
    log["id"] = [f"{name}{i // 3}" for i, name in enumerate(log["id"])]
    columns = {"episode": "id", "state": ["room", "time"], "action": "did", "terminated": "over", "terminal": "end"}
    counts = ar.Counts.from_dataframe(log, horizon=2, **columns)
    return ar.Atlas(counts, ar.certify(counts))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("room == 'kitchen'", ["kitchen, day", "kitchen, night"]),
        ("room in ('hall', 'kitchen') and time != 'day'", ["kitchen, night"]),
        ("state == ('kitchen', 'day')", ["kitchen, day"]),
        ("state in (('kitchen', 'day'), ('hall', 'day'))", ["kitchen, day", "hall, day"]),
        ("state == 'terminated'", ["terminated"]),
    ],
)
def test_texts_tuples_and_the_end_have_names(rooms, text, named):
    reward = rooms.plan(text).scoring.pays.average[0, :, 0]
    pays = [rooms.state_name(s).replace("room=", "").replace("time=", "") for s in np.flatnonzero(reward)]
    assert sorted(pays) == sorted(named)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("room == 'hal'", "compares room with 'hal', which it never is; perhaps 'hall' is meant."),
        ("room + 1", "uses room, which is a text"),
        ("room == 0", "uses room, which is a text"),
        ("room == time", "uses room, which is a text"),
        ("room < 'hall'", "uses room, which is a text"),
        ("(room == 'hall') + room", "uses room, which is a text"),
        ("state == ('hall', 'night')", "never appeared before"),
        ("state == (step, 1)", "contains Tuple"),
    ],
)
def test_a_text_that_is_no_value_of_its_column_is_refused(rooms, text, says):
    with pytest.raises(ValueError, match=says.replace("(", r"\(")):
        rooms.plan(text)

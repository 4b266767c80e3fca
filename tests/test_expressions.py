"""Rewards written as text: the same numbers as Python gives cell by cell, and one sentence for whatever is no reward."""

import builtins
import itertools
import math
import time
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anyreward as ar
from anyreward.rewards.expressions import reward_of

S, A, H = 4, 2, 3
REFUSED = "refused"


def outcome(text, n_states=S, n_actions=A, horizon=H):
    """The reward that a text describes, or `REFUSED` if that was said in one sentence; anything else is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem = None
        try:
            r = reward_of(text, n_states, n_actions, horizon)
        except ValueError as raised:
            problem = raised
    if problem is not None:
        assert type(problem) is ValueError  # not one of its kinds, such as UnicodeError
        assert "\n" not in str(problem)
        assert str(problem).endswith(".")
        assert len(str(problem)) < 500 + 12 * min(len(text), 2_000)
        return REFUSED
    assert r.dtype == float
    assert r.shape in ((horizon, n_states, n_actions), (horizon, n_states, n_actions, n_states))
    return r


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


NUMBERS = st.sampled_from(["0", "1", "2", "3", "7", "0.5", "0.1", "2.5e-1", "True"])
NAMES = st.sampled_from(["state", "s", "action", "a", "step", "h", "next", "horizon", "states", "actions"])
COMPARE = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])


@st.composite
def expressions(draw, depth=4):
    """An expression in three texts: as a reward, in Python, and in Python with every part computed, whether it matters or not."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        if draw(st.booleans()):
            name = draw(NAMES)
            return name, name, name
        number = draw(NUMBERS)
        return number, repr(float(eval(number))), repr(float(eval(number)))

    def part():
        return draw(expressions(depth=depth - 1))

    def many(join, *parts):
        return tuple(join(*(p[k] for p in parts)) for k in range(3))

    kind = draw(st.sampled_from(["sum", "product", "power", "sign", "compare", "in", "logic", "not", "if", "one", "several"]))
    match kind:
        case "sum" | "product":
            op = draw(st.sampled_from(["+", "-"] if kind == "sum" else ["*", "/", "//", "%"]))
            return many(lambda x, y: f"({x} {op} {y})", part(), part())
        case "power":
            base, exponent = part(), draw(st.sampled_from(["0", "1", "2", "3", "0.5", "(-1)"]))
            return f"({base[0]})**{exponent}", f"power({base[1]}, {exponent})", f"power({base[2]}, {exponent})"
        case "sign":
            op = draw(st.sampled_from(["-", "+"]))
            return many(lambda x: f"({op}{x})", part())
        case "compare":
            x, y, z, one, two = part(), part(), part(), draw(COMPARE), draw(COMPARE)
            eager = f"both({x[2]} {one} {y[2]}, {y[2]} {two} {z[2]})"
            return f"({x[0]} {one} {y[0]} {two} {z[0]})", f"truth({x[1]} {one} {y[1]} {two} {z[1]})", eager
        case "in":
            x, items, op = (
                part(),
                draw(st.lists(expressions(depth=depth - 1), max_size=3)),
                draw(st.sampled_from(["in", "not in"])),
            )
            left, right = draw(st.sampled_from(["()", "[]", "{}"])) if items else "()"
            inner = [", ".join(item[k] for item in items) + ("," if items else "") for k in range(3)]
            lazy, eager = (f"truth({x[k]} {op} ({inner[k]}))" for k in (1, 2))
            return f"({x[0]} {op} {left}{inner[0]}{right})", lazy, eager
        case "logic":
            op, parts = draw(st.sampled_from(["and", "or"])), [part() for _ in range(draw(st.integers(2, 3)))]
            eager = ("both" if op == "and" else "either") + f"({', '.join(p[2] for p in parts)})"
            text, lazy = (f" {op} ".join(p[k] for p in parts) for k in (0, 1))
            return f"({text})", f"truth({lazy})", eager
        case "not":
            x = part()
            return f"(not {x[0]})", f"truth(not {x[1]})", f"truth(not {x[2]})"
        case "if":
            x, c, y = part(), part(), part()
            return f"({x[0]} if {c[0]} else {y[0]})", f"({x[1]} if {c[1]} else {y[1]})", f"choose({c[2]}, {x[2]}, {y[2]})"
        case "one":
            name = draw(st.sampled_from(["abs", "floor", "sqrt"]))
            return many(lambda x: f"{name}({x})", part())
        case _:
            name, parts = draw(st.sampled_from(["min", "max"])), [part() for _ in range(draw(st.integers(2, 4)))]
            return many(lambda *xs: f"{name}({', '.join(xs)})", *parts)


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


def refusal(text, **sizes):
    with pytest.raises(ValueError, match="reward") as caught:
        reward_of(text, sizes.get("n_states", S), sizes.get("n_actions", A), sizes.get("horizon", H))
    return str(caught.value)


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


def test_a_reward_may_be_written_to():
    """It is nobody's view: changing one cell changes one cell."""
    r = reward_of("1", S, A, H)
    r[0, 0, 0] = 5.0
    assert r.sum() == 5 + S * A * H - 1


HOSTILE = [
    "9**9**9**9",
    "((((",
    "))))",
    "lambda: 1",
    "(lambda s: s)(1)",
    "state.real",
    "state.__class__.__base__.__subclasses__()",
    "().__class__",
    "__import__('os').system('true')",
    "__builtins__",
    "open('/etc/passwd')",
    "eval('1')",
    "print(1)",
    "[x for x in (1, 2)]",
    "sum(x for x in (1, 2))",
    "{x: 1 for x in (1,)}",
    "f'{state}'",
    "(x := 1)",
    "(state := 1)",
    "state\x00",
    "\x00",
    "9" * 1_999,
    "0x" + "f" * 1_900,
    "1e" + "9" * 1_000 + " - 1e999",
    "1j",
    "2 ** 1j",
    "None",
    "...",
    "'text'",
    "b'bytes'",
    "'a' * 10**9",
    "(1,) * 10**9",
    "[1, 2]",
    "{1: 2}",
    "{*state}",
    "state[0]",
    "state[:]",
    "min(*(1, 2))",
    "min(**{})",
    "min()",
    "min(1)",
    "max(key=1)",
    "abs()",
    "abs(1, 2)",
    "abs(x=1)",
    "min(1, 2)(3)",
    "min",
    "next(3)",
    "state in state",
    "state in 3",
    "state in (*(1, 2),)",
    "state is 1",
    "state is not 1",
    "state @ action",
    "state | action",
    "state << 70",
    "1 << 10**10",
    "~state",
    "await state",
    "yield",
    "(yield state)",
    "*state",
    "state,",
    "state; action",
    "state = 1",
    "state == ",
    "import os",
    "if state: 1",
    "state if action",
    "1 / state",
    "state % 0",
    "0 // 0",
    "0 ** -1",
    "(-8) ** 0.5",
    "(0 - 1) ** (1/3)",
    "exp(1000)",
    "log(0)",
    "log(-1)",
    "sqrt(-1)",
    "1e308 * 10",
    "1e999 - 1e999",
    "0 * 1e999",
    "nan",
    "inf",
    "pi",
    "S",
    "State",
    "states_",
    "reward",
    "",
    " ",
    "\n",
    "\t\n\r\f",
    "#",
    "# state",
    "state\n== 3",
    "\\",
    "state \\",
    "0777",
    "1__0",
    "1.2.3",
    "\ud800",
    "'\ud800'",
    "state\ud800",
    "∞",
    "státe",
    "\u202estate",
    "\ufeffstate",
    "\U0001f600",
    "-" * 1_999,
    "-" * 1_998 + "1",
    "+" * 1_000 + "1",
    "~" * 1_998 + "1",
    "not " * 499 + "1",
    "(" * 999 + "1" + ")" * 999,
    "[" * 150 + "]" * 150,
    "{" * 1_999,
    "abs(" * 400 + "1" + ")" * 400,
    "1 if 1 else " * 150 + "1",
    "1 ** " * 390 + "1",
    "lambda: " * 240 + "1",
    "s." * 900 + "s",
    "s" + "[s" * 600 + "]" * 600,
    "1" + "+1" * 999,
    "state " * 20_000,
    "(" * 100_000,
    "-" * 100_000 + "1",
    "x" * 10**6,
    "state == 30 " + " " * 100_000,
    "%" * 2_000,
    "{text!r}",
    "%s",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:30]))
def test_what_is_no_reward_gets_one_sentence(text, monkeypatch):
    """At once, in little memory, without running anything."""
    monkeypatch.setattr(builtins, "eval", forbidden)
    monkeypatch.setattr(builtins, "exec", forbidden)
    begin = time.perf_counter()
    assert isinstance(outcome(text), str)
    assert time.perf_counter() - begin < 1.0


def forbidden(*_):
    raise AssertionError("something was run")


@pytest.mark.parametrize(
    "text",
    ["__import__('pathlib').Path({path!r}).touch()", "[open({path!r}, 'w') for s in (1,)]", "f'{{open({path!r}, chr(119))}}'"],
)
def test_nothing_is_run(text, tmp_path):
    assert isinstance(outcome(text.format(path=str(tmp_path / "trace"))), str)
    assert not list(tmp_path.iterdir())


FRAGMENTS = [
    *"()[]{}+-*/%<>=!,.:;'\"\\\n \t#@&|^~`$?0123456789eEjxX_",
    "**",
    "//",
    "==",
    "in ",
    " not ",
    " and ",
    " or ",
    " if ",
    " else ",
]
FRAGMENTS += [
    "state",
    "s",
    "action",
    "a",
    "h",
    "next",
    "horizon",
    "abs(",
    "min(",
    "exp(",
    "log(",
    "lambda ",
    "for ",
    "await ",
    ":=",
    "f'",
    "__",
]


@settings(max_examples=250, deadline=None, derandomize=True)
@given(
    st.one_of(
        st.text(max_size=60),
        st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join),
        st.binary(max_size=40).map(lambda b: b.decode("latin1")),
    )
)
def test_any_text_gives_a_reward_or_one_sentence(text):
    outcome(text)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(expressions(depth=3), st.data())
def test_a_reward_with_a_slip_of_the_pen_gives_a_reward_or_one_sentence(texts, data):
    text = texts[0]
    i = data.draw(st.integers(0, len(text)))
    j = data.draw(st.integers(i, min(len(text), i + 3)))
    outcome(text[:i] + data.draw(st.one_of(st.sampled_from(["", *FRAGMENTS]), st.text(max_size=2))) + text[j:])


def test_the_middle_of_a_chain_is_computed_once():
    """`1 < (1 < (...) < 1) < 1` within the depth that is allowed must not take 2^depth steps."""
    text = "1"
    for _ in range(16):
        text = f"(1<{text}<1)"
    begin = time.perf_counter()
    assert (reward_of(text, 1, 1, 1) == 0).all()
    assert time.perf_counter() - begin < 0.3
    for _ in range(34):
        text = f"(1<{text}<1)"
    assert (reward_of(text, 1, 1, 1) == 0).all()


@pytest.mark.parametrize(
    "text",
    [
        "min(" + "s+a+h+next," * 150 + "1)",
        "s in (" + "s+a+h+next," * 150 + ")",
        "s+a+h+next<0 or " * 110 + "1",
        "1<" * 200 + "s+a+h+next",
    ],
    ids=["min", "in", "or", "chain"],
)
def test_memory_does_not_grow_with_the_length_of_the_text(text):
    sizes = {"n_states": 50, "n_actions": 4, "horizon": 20}
    reward_of("next", **sizes)
    tracemalloc.start()
    r = reward_of(text, **sizes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * r.nbytes


@pytest.mark.parametrize("text", ["s==1or s==2", "1if s else 0", r"'\d'", "0xfor s"])
def test_parsing_says_nothing_beside_its_sentence(text):
    """No warning of Python about its own syntax: the result does not depend on how warnings are treated."""
    results = []
    for filter_ in ("always", "error"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter(filter_)
            try:
                results.append(reward_of(text, S, A, H).tolist())
            except ValueError:
                results.append(REFUSED)
        assert not caught
    assert results[0] == results[1]


def test_a_reward_with_too_many_values_is_refused_before_they_are_made():
    tracemalloc.start()
    message = refusal("next", n_states=10**5, n_actions=2, horizon=10)
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()
    assert "too many values" in message
    assert "table" in message


@pytest.mark.parametrize(
    ("text", "says"),
    [("stat == 1", "'stat'"), ("1/state", "divide by zero"), ("1e999", None), ("state is 1", "Is"), ("abs(1, 2)", "abs")],
)
def test_a_refusal_names_what_is_wrong(text, says):
    if says is None:  # infinite everywhere: whoever asks for a range says so
        with pytest.raises(ValueError, match="finite"):
            ar.backward_induction(ar.envs.garnet(S, A, 2, seed=0), text, H)
        return
    assert says in refusal(text)


ATLAS = ar.explore(ar.envs.garnet(S, A, 2, seed=1), H, max_episodes=200, arrival_rewards=True)


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
def test_a_plan_for_a_text_is_the_plan_for_its_array(text, array, cautious):
    one, two = ATLAS.plan(text, cautious=cautious), ATLAS.plan(array, cautious=cautious)
    np.testing.assert_array_equal(one.policy, two.policy)
    assert (one.value, one.lower, one.upper) == (two.value, two.lower, two.upper)
    assert ATLAS.evaluate(one.policy, text) == ATLAS.evaluate(one.policy, array)


def test_everything_that_takes_a_reward_takes_a_text():
    mdp = ar.envs.garnet(S, A, 2, seed=1)
    r = np.arange(S) == 2
    np.testing.assert_array_equal(ar.backward_induction(mdp, "state == 2", H).Q, ar.backward_induction(mdp, r, H).Q)
    one, two = (ar.identify(mdp, reward, H, epsilon=1.0) for reward in ("state == 2", r.astype(float)))
    assert one == two
    np.testing.assert_array_equal(one.policy, two.policy)


def test_a_text_out_of_range_is_refused_by_a_plan():
    with pytest.raises(ValueError, match=r"reward\[0, 2, 0\] is 2, outside \[0, 1\]"):
        ATLAS.plan("state")
    assert ATLAS.plan("state", reward_range=(0.0, 3.0)).value == pytest.approx(3 * ATLAS.plan("state / 3").value, rel=1e-12)

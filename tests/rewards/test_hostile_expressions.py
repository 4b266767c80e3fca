"""Texts that are no rewards: one sentence, at once, in little memory, and nothing is run."""

import builtins
import sys
import tracemalloc
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anyreward as ar
from anyreward.rewards.expressions import reward_of

from ..helpers.texts import REFUSED, A, H, S, expressions, outcome, refusal
from ..helpers.waiting import little_work

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
    with little_work(1.0):
        assert isinstance(outcome(text), str)


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


@pytest.mark.slow
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


@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True)
@given(expressions(depth=3), st.data())
def test_a_reward_with_a_slip_of_the_pen_gives_a_reward_or_one_sentence(texts, data):
    text = texts[0]
    i = data.draw(st.integers(0, len(text)))
    j = data.draw(st.integers(i, min(len(text), i + 3)))
    outcome(text[:i] + data.draw(st.one_of(st.sampled_from(["", *FRAGMENTS]), st.text(max_size=2))) + text[j:])


def test_the_middle_of_a_chain_is_computed_once():
    """`1 < (1 < (...) < 1) < 1` within the depth that is allowed must not take 2^depth steps."""
    text, calls = "1", []
    for depth in range(1, 51):
        text = f"(1<{text}<1)"
        if depth in (4, 8, 12, 50):
            calls.append(0)

            def count(*_):
                calls[-1] += 1

            sys.setprofile(count)
            try:
                r = reward_of(text, 1, 1, 1)
            finally:
                sys.setprofile(None)
            assert (r == 0).all()
            if depth == 12:
                assert calls[2] - calls[1] < 2 * (calls[1] - calls[0])  # the same for every 4 more levels, not 16 times as much


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

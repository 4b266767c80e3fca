"""Rewards written as text: random expressions, and what comes of any text."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

from anyreward.rewards.expressions import reward_of

S, A, H = 4, 2, 3
REFUSED = "refused"


def outcome(text: str, n_states: int = S, n_actions: int = A, horizon: int = H) -> Any:
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


NUMBERS = st.sampled_from(["0", "1", "2", "3", "7", "0.5", "0.1", "2.5e-1", "True"])
NAMES = st.sampled_from(["state", "s", "action", "a", "step", "h", "next", "horizon", "states", "actions"])
COMPARE = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])


@st.composite
def expressions(draw: st.DrawFn, depth: int = 4) -> tuple[str, ...]:
    """An expression in three texts: as a reward, in Python, and in Python with every part computed, whether it matters or not."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        if draw(st.booleans()):
            name = draw(NAMES)
            return name, name, name
        number = draw(NUMBERS)
        return number, repr(float(eval(number))), repr(float(eval(number)))

    def part() -> tuple[str, ...]:
        return draw(expressions(depth=depth - 1))

    def many(join: Callable[..., str], *parts: tuple[str, ...]) -> tuple[str, ...]:
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
            left, right = tuple(draw(st.sampled_from(["()", "[]", "{}"])) if items else "()")
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


def refusal(text: str, **sizes: int) -> str:
    with pytest.raises(ValueError, match="reward") as caught:
        reward_of(text, sizes.get("n_states", S), sizes.get("n_actions", A), sizes.get("horizon", H))
    return str(caught.value)

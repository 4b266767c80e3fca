"""Rewards written as expressions, such as `state == 30` or `0.5 * (action == 1) + 0.1 * step / horizon`.

An expression may contain

- the names state (or s), action (a), step (h), next (the successor), and the sizes horizon, states and actions;
- names of states and actions in quotes, compared with state, next or action: `state == "kitchen" and action != "wait"`; an
  observation that is a tuple: `state == (3, 1)`; the parts of a state that have names, such as the keys of a dictionary that is
  observed, `floor == 3`, or the columns of a log, `room == "kitchen"`;
- numbers, and the operators + - * / // % **;
- comparisons, also chained ones and `in (1, 2, 3)`; and, or, not; `x if condition else y`;
- the functions abs, min, max, floor, sqrt, exp and log.

True counts as 1 and false as 0. An expression that contains `next` is a reward on arrival.

An expression is parsed and then evaluated on arrays by this module. It is never run as Python code, and names other than those
above are refused.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np

from ..data.numbering import Numbering
from ..setting import nearest, shown

# Limits that keep an expression from using too much time or memory.
MAX_WORK = 1e9  # number of values times number of nodes in the syntax tree
MAX_CHARACTERS, MAX_DEPTH, MAX_CELLS = 2_000, 60, 10**8  # characters; levels of nesting; values
EXAMPLE = "for example 'state == 30'"

BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "abs": (1, np.abs),
    "floor": (1, np.floor),
    "sqrt": (1, np.sqrt),
    "exp": (1, np.exp),
    "log": (1, np.log),
    "min": (2, np.minimum),
    "max": (2, np.maximum),
}
NAMES = {"s": "state", "a": "action", "h": "step"}
SIZES = ("state", "action", "step", "next", "horizon", "states", "actions")


def _warned(sentence: str) -> None:
    warnings.warn(sentence, stacklevel=4)


def reward_of(
    text: str, n_states: int, n_actions: int, horizon: int, numbering: Numbering | None = None,
    warn: Callable[[str], object] = _warned,
) -> np.ndarray:  # fmt: skip
    """The reward that an expression describes, as a read-only array: (H, S, A), or (H, S, A, S) if it contains `next`.

    `numbering` has the names of states and actions that the expression may contain; `warn` is told, in a sentence each, what can
    hardly be meant.
    """
    S, A, H = n_states, n_actions, horizon
    tree = _parse(text)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    shape = (H, S, A, S) if "next" in names else (H, S, A)
    sizes = [np.prod(shape if "next" in names else _named(part, shape), dtype=float) for part in ast.walk(tree)]
    size, work = sizes[0], sum(sizes)
    if size > MAX_CELLS:
        raise ValueError(f"the reward {shown(text)} has too many values, {shape}: give it as a table.")
    if work > MAX_WORK:
        raise ValueError(f"the reward {shown(text)} has too many parts for its {shape} values: give it as a table.")
    axes = [np.arange(n, dtype=float).reshape([-1 if i == k else 1 for i in range(len(shape))]) for k, n in enumerate(shape)]
    values: dict[str, Any] = dict(zip(("step", "state", "action", "next"), axes, strict=False))
    values |= {"horizon": np.float64(H), "states": np.float64(S), "actions": np.float64(A)}
    parts = {} if numbering is None else numbering.variables()
    for name, part in parts.items():  # one value for each state; a termination that is one extra state has none
        if name not in values and name not in NAMES:
            values[name] = np.append(part, np.full(S - len(part), -1.0)).reshape(axes[1].shape)
    try:
        with np.errstate(all="raise", under="ignore"):
            body = numbered(worded(tree.body, numbering, text), numbering, text, (S, A), parts, warn)
            r = np.asarray(_value(body, values, text), dtype=float)
    except MemoryError:
        raise ValueError(f"the reward {shown(text)} takes more memory than there is: give it as a table.") from None
    except FloatingPointError as problem:
        raise ValueError(f"the reward {shown(text)} cannot be computed everywhere: {problem}.") from None
    return np.broadcast_to(r, shape)  # the axes that it does not name take no memory


def _named(tree: ast.AST, shape: tuple[int, ...]) -> list[int]:
    """How long each axis is of what a part of an expression is computed for: 1 if the part does not name it."""
    names = {NAMES.get(node.id, node.id) for node in ast.walk(tree) if isinstance(node, ast.Name)}
    given = ("step" in names, bool(names - {"step", "action", "next", "horizon", "states", "actions"}), "action" in names)
    return [n if named else 1 for n, named in zip(shape, given, strict=False)]


def worded(tree: ast.expr, numbering: Numbering | None, text: str) -> ast.expr:
    """The expression with numbers in place of the texts with which parts of a state that are texts are compared."""
    words, compared = {} if numbering is None else numbering.words(), set()
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id in words):
            continue
        name, known = node.left.id, words[node.left.id]
        items = [item for side in node.comparators for item in elements(side)]
        equal = all(isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in node.ops)
        texts = {item: item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)}
        if equal and len(texts) == len(items):
            for item, word in texts.items():
                if word not in known:
                    says = f"the reward {shown(text)} compares {name} with {shown(word)}, which it never is"
                    raise ValueError(f"{says}{nearest(word, list(known)[:1000])}.")
                item.value = known[word]
            compared.add(node.left)
    wrong = next((n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id in words and n not in compared), None)
    if wrong is not None:
        raise ValueError(f"the reward {shown(text)} uses {wrong.id}, which is a text: compare it with one, {wrong.id} == '...'.")
    return tree


def numbered(
    tree: ast.expr, numbering: Numbering | None, text: str, sizes: tuple[int, int], parts: Mapping[str, np.ndarray],
    warn: Callable[[str], object],
) -> ast.expr:  # fmt: skip
    """The expression with names of states and actions replaced by their numbers, where they are compared with state or action.

    Warns where state, next or action, or one of the named `parts` of a state, is compared with a number that none of them has.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        _number_tuples(node, numbering)
        sides = [node.left, *node.comparators]
        equal = all(isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in node.ops)
        items = [item for side in sides for item in elements(side)]
        constants = [item for item in items if isinstance(item, ast.Constant) and equal]
        compared = {NAMES.get(side.id, side.id) for side in sides if isinstance(side, ast.Name)}
        for part in compared & set(parts):
            for item in constants:
                if isinstance(item.value, int | float) and item.value not in parts[part]:
                    low, high = parts[part].min(), parts[part].max()
                    warn(
                        f"the reward {shown(text)} compares {part} with {item.value}, but {part} goes from {low:g} to {high:g}: "
                        "that is never true."
                    )
        kinds = compared & {"state", "next", "action"}
        if len(kinds) != 1:
            continue
        kind = "action" if kinds == {"action"} else "state"
        for item in constants:
            if isinstance(item.value, str):
                if numbering is None:
                    raise ValueError(
                        f"the reward {shown(text)} names the {kind} {shown(item.value)}, but {kind}s have no names here."
                    )
                item.value = numbering.lookup(kind, item.value, sizes[0])
            size = sizes[kind == "action"]
            if isinstance(item.value, int | float) and not 0 <= item.value < size:
                warn(
                    f"the reward {shown(text)} compares {kind} with {item.value}, but {kind}s go from 0 to {size - 1}: "
                    "that is never true."
                )
    return tree


def elements(side: ast.expr) -> list[ast.expr]:
    """What one side of a comparison lists, or the side itself."""
    return side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side]


def _number_tuples(node: ast.Compare, numbering: Numbering | None) -> None:
    """Puts numbers in place of observations that are tuples, where state or next is compared with them."""
    if numbering is None or not isinstance(node.left, ast.Name) or NAMES.get(node.left.id, node.left.id) not in ("state", "next"):
        return

    def as_number(item: ast.expr) -> ast.expr:
        try:
            observation = ast.literal_eval(item) if isinstance(item, ast.Tuple) else None
        except (ValueError, TypeError, MemoryError, RecursionError):
            return item  # which is refused where it is computed
        return item if observation is None else ast.Constant(numbering.known_state(observation))

    for i, (op, side) in enumerate(zip(node.ops, node.comparators, strict=True)):
        if isinstance(op, ast.Eq | ast.NotEq):
            node.comparators[i] = as_number(side)
        elif isinstance(side, ast.Tuple | ast.List | ast.Set):
            side.elts = list(map(as_number, side.elts))


def _parse(text: str) -> ast.Expression:
    """The syntax tree of an expression. Raises if the expression is not one, too long or too deeply nested."""
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"the reward expression has {len(text)} characters, more than {MAX_CHARACTERS}: give it as a table.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns about style, such as a missing space in "1if"
            tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as problem:
        raise ValueError(f"the reward {shown(text)} is not an expression ({problem.msg}): write one, {EXAMPLE}.") from None
    except (ValueError, MemoryError, RecursionError):
        raise ValueError(f"the reward {shown(text)} is not an expression: write one, {EXAMPLE}.") from None
    if _depth(tree) > MAX_DEPTH:
        raise ValueError(f"the reward {shown(text)} is nested too deeply: give it as a table.")
    return tree


def _depth(tree: ast.AST) -> int:
    """The depth of a syntax tree."""
    deepest, stack = 0, [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        stack.extend((child, depth + 1) for child in ast.iter_child_nodes(node))
    return deepest


def _value(node: ast.expr, names: dict[str, Any], text: str) -> Any:
    """The value of a part of an expression: an array that broadcasts to the shape of the reward."""

    def of(part: ast.expr) -> Any:
        return _value(part, names, text)

    def truth(part: ast.expr) -> Any:
        return np.asarray(of(part)) != 0

    match node:
        case ast.Constant(value=bool() | int() | float() as number):
            return _number(number, text)
        case ast.Name(id=name):
            if NAMES.get(name, name) in names:
                return names[NAMES.get(name, name)]
            known = ", ".join(dict.fromkeys((*SIZES, *names)))
            raise ValueError(f"the reward {shown(text)} contains the unknown name {shown(name)}: the names are {known}.")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
            return BINARY[type(op)](np.float64(1) * of(left), np.float64(1) * of(right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return np.float64(-1) * of(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return of(operand)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return (~truth(operand)).astype(float)
        case ast.BoolOp(op=op, values=parts):
            join = np.logical_and if isinstance(op, ast.And) else np.logical_or
            return reduce(lambda whole, part: join(whole, truth(part)), parts[1:], truth(parts[0])).astype(float)
        case ast.IfExp(test=test, body=body, orelse=otherwise):
            return np.where(truth(test), of(body), of(otherwise))
        case ast.Compare(left=left, ops=ops, comparators=rights):
            return _chain(left, ops, rights, of, text)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            least, function = FUNCTIONS[name]
            if len(args) < least or (least == 1 and len(args) > 1):
                raise ValueError(
                    f"the reward {shown(text)} calls {name} with {len(args)} arguments: "
                    f"it takes {'one' if least == 1 else 'at least two'}."
                )
            first = function(np.float64(1) * of(args[0])) if least == 1 else np.float64(1) * of(args[0])
            # One argument at a time, to save memory.
            return reduce(lambda whole, arg: function(whole, np.float64(1) * of(arg)), args[1:], first)
    raise ValueError(f"the reward {shown(text)} contains {type(node).__name__}, which is not allowed: write one, {EXAMPLE}.")


def _number(number: float, text: str) -> np.float64:
    """A number of an expression as a float."""
    try:
        return np.float64(number)
    except OverflowError:
        raise ValueError(f"the reward {shown(text)} has a number that is too large.") from None


def _chain(left: ast.expr, ops: list[ast.cmpop], rights: list[ast.expr], of: Callable[[ast.expr], Any], text: str) -> Any:
    """The value of a comparison: a < b < c, or a in (1, 2)."""
    result: Any = True
    here = of(left)
    for op, right in zip(ops, rights, strict=True):
        if isinstance(op, ast.In | ast.NotIn):
            if not isinstance(right, ast.Tuple | ast.List | ast.Set):
                raise ValueError(f"the reward {shown(text)} has an 'in' that is not followed by numbers in brackets.")
            among: Any = np.False_
            for item in right.elts:
                among = np.logical_or(among, here == of(item))
            result = np.logical_and(result, ~np.asarray(among) if isinstance(op, ast.NotIn) else among)
            if right is not rights[-1]:
                raise ValueError(f"the reward {shown(text)} continues after 'in (...)': put brackets around it.")
        elif type(op) in COMPARE:
            there = of(right)
            result = np.logical_and(result, COMPARE[type(op)](here, there))
            here = there
        else:
            raise ValueError(f"the reward {shown(text)} contains {type(op).__name__}, which is not allowed.")
    return np.asarray(result).astype(float)

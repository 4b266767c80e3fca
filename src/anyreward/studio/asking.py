"""What the page asks for, checked: rewards, states, numbers. Whatever comes from a browser is a text or a number, never a path.

A reward is a sum of named terms with weights. A term is painted, an expression, the contents of a file, or the environment's own.
Painting is a list of strokes, later ones on top: ``{"states": [[first, last], ...], "actions": [...] or null, "steps": [first,
last] or null, "value": x}``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..atlas.atlas import Atlas
from ..rewards.expressions import reward_of
from ..rewards.files import ENDINGS, parse_reward
from ..rewards.forms import OWN, reward_of_setting
from ..rewards.terms import Terms, term
from ..setting import shown

MAX_TERMS, MAX_STROKES, MAX_RANGES = 20, 20_000, 200_000
MAX_CELLS, MAX_TOTAL = 2 * 10**7, 10**8  # values of an expression, which is computed at every key; of all terms together
MAX_WORK = 2 * 10**8  # values times characters of an expression
KEPT_FILES, MAX_FILE = 16, 2**23  # files that were uploaded, and the bytes of one
KNOWN = {"rewards": str, "stationary_rewards": bool, "paid_once": bool}  # what may be assumed of observed rewards


class Unanswerable(ValueError):
    """A question that has no answer: the sentence that says why, and the number of the term that it is about, if of one."""

    def __init__(self, sentence: str, term: int | None = None) -> None:
        super().__init__(sentence)
        self.term = term


class Wanted(NamedTuple):
    """A reward that the page asks for, as `Atlas.plan` takes it, and what can hardly be meant: sentences about terms."""

    reward: Any
    arguments: dict[str, Any]
    notes: tuple[tuple[int, str], ...] = ()

    @property
    def own(self) -> bool:
        """Whether it is the reward that the environment was observed to pay."""
        return isinstance(self.reward, str)


class Uploads:
    """Contents of files that the reader chose, by a name that follows from the contents. The oldest ones are forgotten."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[str, bytes]] = OrderedDict()

    def add(self, name: Any, content: Any) -> str:
        """Keeps the contents of a file, base64, and returns by which name to ask for them."""
        name = text_of(name, "the name of the file", 200)
        if not name.lower().endswith(ENDINGS):
            raise ValueError(f"the file {shown(name)} cannot be a reward: its name has to end in {', '.join(ENDINGS)}.")
        try:
            raw = base64.b64decode(content, validate=True) if isinstance(content, str) else None
        except (binascii.Error, ValueError):
            raw = None
        if raw is None or len(raw) > MAX_FILE:
            raise ValueError(f"the file {shown(name)} cannot be read: it may have at most {MAX_FILE // 2**20} MB.")
        key = hashlib.sha256(name.encode() + b"\0" + raw).hexdigest()[:32]
        self._kept[key] = name, raw
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT_FILES:
            self._kept.popitem(last=False)
        return key

    def reward(self, key: Any, atlas: Atlas) -> Any:
        """The reward in an uploaded file."""
        if not isinstance(key, str) or key not in self._kept:
            raise ValueError("the file of this term is not here any more: choose it again.")
        name, raw = self._kept[key]
        return parse_reward(Path(name), raw, atlas.counts.setting)


def wanted(asked: Any, atlas: Atlas, uploads: Uploads) -> Wanted:
    """The reward that the page asks for. Raises `Unanswerable` if it is none."""
    terms = field(asked, "terms", list)
    if not 1 <= len(terms) <= MAX_TERMS:
        raise ValueError(f"a reward has {len(terms)} terms: it can have from 1 to {MAX_TERMS}.")
    if any(field(each, "kind", str) == OWN for each in terms) and atlas.own_reward is None:
        if len(terms) > 1 or number(terms[0].get("weight", 1.0), "the weight") != 1.0:
            raise ValueError(
                "the environment's own reward is only observed here, so that it cannot be combined with other terms: "
                "let it be the only term, with weight 1."
            )
        return Wanted(OWN, observed(terms[0]))
    setting = atlas.counts.setting
    if len(terms) * float(setting.horizon) * setting.n_states * setting.n_actions > MAX_TOTAL:
        raise ValueError(f"{len(terms)} terms are too many for so many states: combine them in fewer.")
    total: Terms | None = None
    notes: list[tuple[int, str]] = []
    for i, each in enumerate(terms):
        said: list[str] = []
        try:
            name = text_of(each.get("name") or f"term {i + 1}", "the name of a term", 60)
            weight = number(each.get("weight", 1.0), f"the weight of {shown(name)}")
            part = weight * term(name, array_of(each, atlas, uploads, said.append))
            notes += [(i, text) for text in said]
            total = part if total is None else total + part
        except ValueError as problem:
            raise Unanswerable(str(problem), i) from None
    return Wanted(total, {}, tuple(notes))


def array_of(asked: dict[str, Any], atlas: Atlas, uploads: Uploads, warn: Callable[[str], object]) -> Any:
    """What one term pays, before its weight: an array, or a table on arrival; `warn` is told what can hardly be meant."""
    match field(asked, "kind", str):
        case "paint":
            return painted(field(asked, "strokes", list), atlas)
        case "expression":
            return expression(field(asked, "text", str), atlas, warn)
        case "file":
            reward = uploads.reward(asked.get("file"), atlas)
            reward_of_setting(reward, atlas.counts.setting, None, atlas.numbering)  # raises if it does not fit
            return reward
        case "own" if atlas.own_reward is not None:
            return atlas.own_reward
    raise ValueError(f"the term is {shown(asked['kind'])}: it has to be paint, expression, file or own.")


def expression(text: str, atlas: Atlas, warn: Callable[[str], object]) -> np.ndarray:
    """The reward that an expression describes. It is never taken for the name of a file."""
    setting = atlas.counts.setting
    H, S, A = setting.horizon, setting.n_states, setting.n_actions
    cells = float(H) * S * A * (S if "next" in text else 1)
    if cells > MAX_CELLS or cells * len(text) > MAX_WORK:
        raise ValueError(f"the reward {shown(text)} has too many parts for {cells:.3g} values: give it as a file.")
    return reward_of(text, S, A, H, atlas.numbering, warn)


def painted(strokes: list[Any], atlas: Atlas) -> np.ndarray:
    """The reward that strokes paint: (S,), (S, A) or (H, S, A), the smallest that can say it."""
    setting = atlas.counts.setting
    H, S, A = setting.horizon, setting.n_states, setting.n_actions
    if len(strokes) > MAX_STROKES:
        raise ValueError(f"the painting has {len(strokes)} strokes, more than {MAX_STROKES}: give the reward as a file.")
    parts = [
        (
            states_in(field(stroke, "states", list), S),
            None if stroke.get("actions") is None else whole(stroke["actions"], A, "an action"),
            None if stroke.get("steps") is None else steps_in(stroke["steps"], H),
            number(stroke.get("value"), "the value of a stroke"),
        )
        for stroke in strokes
    ]
    by_step = any(steps is not None for *_, steps, _ in parts)
    by_action = by_step or any(actions is not None for _, actions, _, _ in parts)
    r = np.zeros((H if by_step else 1, S, A if by_action else 1))
    for states, actions, steps, value in parts:
        which = np.arange(A if by_action else 1) if actions is None else actions
        when = np.arange(H if by_step else 1) if steps is None else steps
        r[np.ix_(when, states, which)] = value
    return r if by_step else r[0] if by_action else r[0, :, 0]


def observed(asked: dict[str, Any]) -> dict[str, Any]:
    """What is assumed of rewards that were observed: arguments of `Atlas.plan`. Nothing that the reader did not say."""
    known = {name: asked[name] for name in KNOWN if asked.get(name) not in (None, False)}
    for name, kind in KNOWN.items():
        if name in known and not isinstance(known[name], kind):
            raise ValueError(f"{name} is {shown(known[name])}: it has to be a {kind.__name__}.")
    if asked.get("range") is not None:
        ends = field(asked, "range", list)
        if len(ends) != 2:
            raise ValueError("the range of the rewards needs two numbers, the smallest and the largest.")
        known["reward_range"] = number(ends[0], "the smallest reward"), number(ends[1], "the largest reward")
    return known


def states_in(ranges: list[Any], S: int) -> np.ndarray:
    """The states of a list of ranges [first, last]."""
    if len(ranges) > MAX_RANGES:
        raise ValueError(f"a stroke has {len(ranges)} ranges of states: it can have at most {MAX_RANGES}.")
    found = np.zeros(S, bool)
    for pair in ranges:
        if not isinstance(pair, list) or len(pair) != 2:
            raise ValueError(f"states are {shown(pair)}: a range is [first, last].")
        first, last = whole(pair, S, "a state").tolist()
        found[first : last + 1] = True
    return np.flatnonzero(found)


def steps_in(pair: Any, H: int) -> np.ndarray:
    """The steps of a range [first, last]."""
    if not isinstance(pair, list) or len(pair) != 2:
        raise ValueError(f"steps are {shown(pair)}: a range is [first, last].")
    first, last = whole(pair, H, "a step").tolist()
    return np.arange(first, last + 1)


def states_of(asked: Any, atlas: Atlas, warn: Callable[[str], object]) -> Any:
    """A set of states for `Atlas.reach`: an expression of the state, or painted states; None if there is none."""
    if not isinstance(asked, dict):
        return None
    S = atlas.counts.setting.n_states
    if "text" in asked:
        text = field(asked, "text", str)
        if not text.strip():
            return None
        r = expression(text, atlas, warn)
        if r.ndim == 4 or (r != r[:1, :, :1]).any() or not np.isin(r, (0.0, 1.0)).all():
            raise ValueError(f"{shown(text)} has to be a condition on the state alone, such as 'state == 3'.")
        return r[0, :, 0] == 1.0
    chosen = states_in(field(asked, "states", list), S)
    return np.isin(np.arange(S), chosen) if len(chosen) else None


def field(asked: Any, name: str, kind: type) -> Any:
    """A field of what the page sends. Raises if it is missing or of another type."""
    value = asked.get(name) if isinstance(asked, dict) else None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"the question has no {name}, or one of another type: reload the page.")
    return value


def number(value: Any, what: str) -> float:
    """A finite number of moderate size."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or abs(value) > 1e9:
        raise ValueError(f"{what} is {shown(value)}: it has to be a number between -1e9 and 1e9.")
    return float(value)


def whole(values: Any, size: int, what: str) -> np.ndarray:
    """Whole numbers from 0 to size - 1."""
    if not isinstance(values, list) or not all(isinstance(x, int) and not isinstance(x, bool) for x in values):
        raise ValueError(f"{what} is missing or not a whole number: reload the page.")
    wrong = next((x for x in values if not 0 <= x < size), None)
    if wrong is not None:
        raise ValueError(f"{what} is {shown(wrong)}: it has to be from 0 to {size - 1}.")
    return np.array(values, dtype=np.int64)


def text_of(value: Any, what: str, most: int) -> str:
    """A printable text that is not too long."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > most:
        raise ValueError(f"{what} is {shown(value)}: it has to be a text of at most {most} characters.")
    return value.strip()

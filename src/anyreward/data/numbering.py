"""`Numbering`: how an environment's observations and actions are numbered, and what they are called."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, EnumMeta
from typing import Any

import numpy as np

from ..setting import Setting, nearest, shown, whole_number
from ..words import plain
from .spaces import Binned, Codec, Indexed, Ravelled, Whole, codec_from, label

MAX_LETTERS = 200  # of a name
TERMINATED = "terminated"  # the name of the extra state of all terminations
# States and actions by their numbers, as sentences mention them: "state 3", "states 3, 4 and 5", "states 3, 4 and 94 more".
MENTIONED = re.compile(r"\b(?:(state|action) \d+|(states) \d+(?:, \d+)*(?: and \d+(?![\d,]* more))?)")
Names = Sequence[str] | Mapping[int, str] | type[Enum]


@dataclass(frozen=True, eq=False)
class Numbering:
    """How observations and actions are numbered, and what they are called.

    Certificates and plans are about states and actions with numbers. A numbering leads from an observation of the environment to
    the number of its state (`state`), from the number of an action to the environment's own action (`action`), and from numbers
    to names (`state_name`, `action_name`).

    Attributes
    ----------
    observations, actions : Codec
        The numbering of both spaces.
    state_names, action_names : tuple of str
        Names that the user gave. Empty: a name is what the number stands for, such as "floor=3, door=1", or the number itself.
    """

    observations: Codec
    actions: Codec
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()

    @classmethod
    def of_setting(cls, setting: Setting) -> Numbering:
        """The numbering of states and actions that are numbers already."""
        return cls(Whole(setting.n_states - (setting.terminal == "end"), 0), Whole(setting.n_actions, 0))

    def named(self, state_names: Names | None = None, action_names: Names | None = None) -> Numbering:
        """The same numbering with names that the user gives: a list, a mapping from numbers to names, or an `Enum` class."""
        names = self
        if state_names is not None:
            names = replace(names, state_names=checked_names(state_names, self.observations.size, "state_names"))
        if action_names is not None:
            names = replace(names, action_names=checked_names(action_names, self.actions.size, "action_names"))
        return names

    def copy(self) -> Numbering:
        """An independent copy: observations that are numbered in it, as they appear, are not numbered here."""
        return replace(self, observations=copy.deepcopy(self.observations)) if isinstance(self.observations, Indexed) else self

    @property
    def is_plain(self) -> bool:
        """Whether states and actions are their own numbers, and have no names."""
        return all(isinstance(part, Whole) and part.start == 0 for part in (self.observations, self.actions)) and not (
            self.state_names or self.action_names
        )

    def state(self, observation: Any) -> int:
        """The number of the state that an observation belongs to. Nothing new is numbered.

        An observation that has not appeared before, where observations are numbered in the order of appearance, gets the first
        number that is not used.
        """
        if isinstance(self.observations, Indexed):
            return self.observations.known(observation)
        try:
            return self.observations.encode(observation)
        except Exception as problem:  # whatever a strange object raises when it is looked at
            why = str(problem) if isinstance(problem, ValueError) and str(problem).endswith(".") else ""
            if why and not isinstance(self.observations, Ravelled):
                raise
            is_none = f"{shown(observation)} is not an observation of the environment that was explored"
            raise ValueError(f"{is_none}: {why}" if why else f"{is_none}.") from None

    def known_state(self, observation: Any) -> int:
        """`state`, but refuses an observation that has not appeared where observations are numbered as they appear."""
        number = self.state(observation)
        if isinstance(self.observations, Indexed) and number >= len(self.observations.values):
            raise ValueError(f"there is no state {shown(observation)}: it never appeared.")
        return number

    def observation(self, number: int) -> Any:
        """An observation that belongs to a state; the cell, for bins. None if there is none, or none is known."""
        known = len(self.observations.values) if isinstance(self.observations, Indexed) else self.observations.size
        return self.observations.decode(number) if number < known else None

    def action(self, number: int) -> Any:
        """The environment's own action with that number."""
        return self.actions.decode(number)

    def state_name(self, s: int) -> str:
        """What state number s is called. States beyond the observations are terminations, see `Atlas.state_name`."""
        if s < len(self.state_names):
            return self.state_names[s]
        return described(self.observations, s)

    def action_name(self, a: int) -> str:
        """What action number a is called."""
        return self.action_names[a] if a < len(self.action_names) else described(self.actions, a)

    def names_in(self, text: str) -> str:
        """A sentence with the names of the states and actions that it mentions: "state 3" becomes "state 3 (kitchen)"."""
        if self.is_plain:
            return text

        def named(mention: re.Match[str]) -> str:
            kind = mention[1] or "state"
            return re.sub(r"\d+", lambda number: self._called(kind, int(number[0])), mention[0])

        return MENTIONED.sub(named, text)

    def _called(self, kind: str, number: int) -> str:
        """The number of a state or action (`kind`), with its name if that says more."""
        codec, name_of = (self.observations, self.state_name) if kind == "state" else (self.actions, self.action_name)
        known = number < (len(codec.values) if isinstance(codec, Indexed) else codec.size)
        name = name_of(number) if known else str(number)
        return name if name == str(number) else f"{number} ({name})"

    def lookup(self, kind: str, name: str, size: int = 0) -> int:
        """The number of the state or action (`kind`) of that name, as in `numbers_of`."""
        return self.numbers_of(kind, [name], size)[name]

    def numbers_of(self, kind: str, texts: Iterable[str], size: int = 0) -> dict[str, int]:
        """The numbers of the states or actions (`kind`) of these names. Raises if there is none of a name.

        Of `size` states the last may be that of all terminations, which has a name as well.
        """
        names: dict[str, int] = {}
        wanted = dict.fromkeys(texts)
        for number, text in self._all(kind):
            if text in wanted and text in names:
                raise ValueError(f"two {kind}s are called {shown(text)}, {names[text]} and {number}: use their numbers.")
            names[text] = number
        if kind == "state" and size > self.observations.size:
            names.setdefault(TERMINATED, size - 1)
        for name in wanted:
            if name not in names:
                raise ValueError(f"there is no {kind} {shown(name)}{nearest(name, list(names)[:1000])}.")
        return {name: names[name] for name in wanted}

    def _all(self, kind: str) -> Iterator[tuple[int, str]]:
        codec, name = (self.observations, self.state_name) if kind == "state" else (self.actions, self.action_name)
        count = len(codec.values) if isinstance(codec, Indexed) else codec.size
        return ((number, name(number)) for number in range(count))

    def variables(self) -> dict[str, np.ndarray]:
        """The parts of a state that have names and numbers as values, as arrays over all states.

        They are the keys of a Dict, or the columns of a log. Texts in a column have the numbers of `words`.
        """
        codec, found = self.observations, {}
        if isinstance(codec, Ravelled) and codec.keys is not None:
            numbers = np.arange(codec.size)
            for key, part in zip(reversed(codec.keys), reversed(codec.parts), strict=True):
                numbers, digit = np.divmod(numbers, part.size)
                if isinstance(part, Whole) and isinstance(key, str) and key.isidentifier():
                    found[key] = digit.astype(float) + part.start
        if isinstance(codec, Indexed) and len(codec.values) == codec.size:  # otherwise some states have no values yet
            for i, key in enumerate(codec.columns):
                values = [value[i] for value in codec.values]
                if key.isidentifier() and all(isinstance(x, int | float) and abs(x) <= 2**53 for x in values):
                    found[key] = np.array(values, dtype=float)
            for key, known in self.words().items():
                found[key] = np.array([known[value[codec.columns.index(key)]] for value in codec.values], dtype=float)
        return found

    def words(self) -> dict[str, dict[str, int]]:
        """The columns of a log that are parts of a state and hold texts: each text with a number."""
        codec, found = self.observations, {}
        if isinstance(codec, Indexed) and len(codec.values) == codec.size:
            for i, key in enumerate(codec.columns):
                values = [value[i] for value in codec.values]
                if key.isidentifier() and all(isinstance(x, str) for x in values):
                    found[key] = {text: number for number, text in enumerate(sorted(set(values)))}
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Numbering) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """The numbering as values that JSON can hold, for `from_dict`."""
        return {
            "observations": self.observations.describe(),
            "actions": self.actions.describe(),
            "state_names": list(self.state_names),
            "action_names": list(self.action_names),
        }

    @classmethod
    def from_dict(cls, fields: Any, setting: Setting) -> Numbering:
        """The numbering that `to_dict` gave. Raises if it is damaged or does not fit the setting."""
        if not isinstance(fields, dict) or not {"observations", "actions"} <= set(fields):
            raise ValueError("the numbering of its states or actions is damaged.")
        numbering = cls(codec_from(fields["observations"]), codec_from(fields["actions"]))
        sizes = numbering.observations.size + (setting.terminal == "end"), numbering.actions.size
        if sizes != (setting.n_states, setting.n_actions):
            raise ValueError("the numbering of its states or actions does not fit its setting.")
        given = {name: fields.get(name) or None for name in ("state_names", "action_names")}
        if not all(names is None or isinstance(names, list) for names in given.values()):
            raise ValueError("the names of its states or actions are damaged.")
        return numbering.named(**given)


def described(codec: Codec, number: int) -> str:
    """What a number stands for, as a short text: a value of the space or, for bins, the interval of each dimension."""
    if isinstance(codec, Indexed) and number >= len(codec.values):
        return f"state {number}, not met yet"
    if isinstance(codec, Binned):
        cells = zip(codec.decode(number), codec.edges, strict=True)
        return " × ".join(interval_of(bin, edges) for bin, edges in cells)
    return label(codec.decode(number)) if number < codec.size else str(number)


def interval_of(bin: int, edges: np.ndarray) -> str:
    """Bin number `bin` between the inner edges of a dimension, as an interval."""
    low = f"[{edges[bin - 1]:.4g}" if bin > 0 else "(-∞"
    return f"{low}, {edges[bin]:.4g})" if bin < len(edges) else f"{low}, ∞)"


def checked_names(names: Any, size: int, what: str) -> tuple[str, ...]:
    """Names that a user or a file gives, as a tuple. Raises if they are not so many different printable texts."""
    if isinstance(names, EnumMeta):
        names = list(names.__members__)
    if isinstance(names, Mapping):
        numbers = {whole_number(number, f"a key of {what}"): name for number, name in names.items()}
        wrong = next((number for number in numbers if not 0 <= number < size), None)
        if wrong is not None:
            raise ValueError(f"{what} names number {wrong}: numbers go from 0 to {size - 1}.")
        names = [numbers.get(i, str(i)) for i in range(size)]
    if isinstance(names, str) or not isinstance(names, Sequence | np.ndarray):
        raise ValueError(f"{what} is {shown(names)}: it has to be a list of {size} names.")
    if len(names) != size:
        raise ValueError(f"{what} has {len(names)} entries: it needs one for each of {size}.")
    texts = tuple(plain(str(name))[:MAX_LETTERS] for name in names)
    if len(set(texts)) < len(texts):
        twice = next(text for i, text in enumerate(texts) if text in texts[:i])
        raise ValueError(f"{what} has {shown(twice)} twice: names have to be different.")
    return texts

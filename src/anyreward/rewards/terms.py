"""Rewards that are sums of named terms: a plan's value is then split by term.

reward = 2 * anyreward.term("goal", "state == 30") - anyreward.term("wear", "action == 1")
atlas.plan(reward).terms["wear"]        # what wear costs under the plan, with certified bounds
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from ..setting import real_number, shown
from .combining import combined
from .forms import OWN, ArrivalReward, Composite, Reward


@dataclass(frozen=True, eq=False)
class Terms(Composite):
    """A sum of named rewards with factors. `term` makes one; add, subtract and multiply them by numbers.

    Attributes
    ----------
    parts : tuple of (str, float, reward)
        Name, factor and reward of each term.
    """

    parts: tuple[tuple[str, float, Reward], ...]
    __array_ufunc__ = None  # so that NumPy leaves sums and products with its numbers to these methods

    def each(
        self, as_array: Callable[[Reward], np.ndarray | ArrivalReward], shape: tuple[int, int, int]
    ) -> dict[str, np.ndarray | ArrivalReward]:
        """What each term pays, with its factor, by its name; `as_array` turns a reward of any form into an array (`shape`)."""
        return {name: combined([factor], [as_array(reward)], shape) for name, factor, reward in self.parts}

    def total(
        self, as_array: Callable[[Reward], np.ndarray | ArrivalReward], shape: tuple[int, int, int]
    ) -> np.ndarray | ArrivalReward:
        """What all terms pay together."""
        return combined([f for _, f, _ in self.parts], [as_array(reward) for *_, reward in self.parts], shape)

    def __add__(self, other: Terms) -> Terms:
        if not isinstance(other, Terms):
            raise ValueError(f"{shown(other)} is added to a term: only terms can be, anyreward.term(name, reward).")
        sums = {name: (factor, reward) for name, factor, reward in self.parts}
        for name, factor, reward in other.parts:
            before, same = sums.get(name, (0.0, reward))
            if same is not reward and not (isinstance(same, str) and same == reward):
                raise ValueError(f"two different terms are called {shown(name)}: give each a name of its own.")
            sums[name] = before + factor, reward
        return Terms(tuple((name, factor, reward) for name, (factor, reward) in sums.items()))

    def __radd__(self, other: object) -> Terms:
        return self if isinstance(other, int) and other == 0 else self + other  # type: ignore[operator]  # 0 is how sum begins

    def __mul__(self, number: float) -> Terms:
        factor = _factor(number)
        return Terms(tuple((name, before * factor, reward) for name, before, reward in self.parts))

    __rmul__ = __mul__

    def __truediv__(self, number: float) -> Terms:
        factor = _factor(number)
        if factor == 0:
            raise ValueError("a term is divided by 0: it has to be another number.")
        return self * (1 / factor)

    def __neg__(self) -> Terms:
        return self * -1.0

    def __sub__(self, other: Terms) -> Terms:
        return self + (-other if isinstance(other, Terms) else other)

    def __rsub__(self, other: Any) -> Terms:
        return self + other

    def __repr__(self) -> str:
        said = " + ".join(f"{factor:g} * term({name!r}, {shown(reward)})" for name, factor, reward in self.parts)
        return said.replace("+ -", "- ")


def _factor(number: Any) -> float:
    """The factor of a term as a float."""
    if isinstance(number, bool) or not isinstance(number, int | float | np.integer | np.floating):
        raise ValueError(f"a term is multiplied or divided by {shown(number)}: it has to be a number.")
    factor = real_number(number, "the factor of a term")
    if not isfinite(factor):
        raise ValueError(f"a term is multiplied or divided by {factor}: it has to be a finite number.")
    return factor


def term(name: str, reward: Any) -> Terms:
    """A named term of a reward, to be added to others.

        reward = 2 * anyreward.term("goal", "state == 30") - anyreward.term("wear", "action == 1")

    Parameters
    ----------
    name : str
    reward : reward
        A given reward of any form and range.
    """
    if not isinstance(name, str) or not name.isprintable() or not name.strip():
        raise ValueError(f"the name of a term is {shown(name)}: it has to be a text.")
    if isinstance(reward, Terms) or (isinstance(reward, str) and reward == OWN):
        raise ValueError(f"the term {shown(name)} is {shown(reward)}: it has to be a given reward without terms of its own.")
    return Terms(((name, 1.0, reward),))

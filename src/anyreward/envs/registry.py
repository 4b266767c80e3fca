"""Environments by name, with their arguments as a file or a command line gives them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from math import isfinite
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from ..data.tabular import TabularMDP
from ..setting import nearest, real_number, shown, whole_number

Function = TypeVar("Function", bound=Callable[..., TabularMDP])
ENVIRONMENTS: dict[str, Callable[..., TabularMDP]] = {}  # every registered environment by its name


def register(name: str) -> Callable[[Function], Function]:
    """A decorator that makes a function that builds a model available under a name, in `explore` and on the command line."""

    def note(function: Function) -> Function:
        ENVIRONMENTS[name] = function
        return function

    return note


def make(name: str, **arguments: Any) -> TabularMDP:
    """Make an environment by its name, with arguments that come from a file or a command line and are checked by type.

        mdp = anyreward.envs.make("double-chain", length=51)

    Parameters
    ----------
    name
        A key of `ENVIRONMENTS`, such as `"double-chain"`.
    arguments
        Arguments of the function of that name.
    """
    function = ENVIRONMENTS[name]
    kinds, parameters = get_type_hints(function), inspect.signature(function).parameters
    unknown = next((key for key in arguments if key not in parameters), None)
    if unknown is not None:
        raise ValueError(f"{name} has no argument {shown(unknown)}{nearest(str(unknown), parameters)}.")
    missing = next((key for key, p in parameters.items() if p.default is p.empty and key not in arguments), None)
    if missing is not None:
        raise ValueError(f"{name} needs the argument {missing}.")
    mdp = function(**{key: checked(value, kinds[key], f"{key} of {name}") for key, value in arguments.items()})
    mdp.name = name
    return mdp


def checked(value: Any, kind: Any, name: str) -> Any:
    """An argument if it has the type that a function wants (int, float, str, or a tuple of them); else raises a ValueError."""
    if kind == int | None:
        return None if value is None else checked(value, int, name)
    if kind is int and (isinstance(value, bool) or abs(whole_number(value, name)) > 2**62):
        raise ValueError(f"{name} is {shown(value)}: it has to be a whole number of at most 2^62.")
    if kind is float and (isinstance(value, bool) or not isfinite(real_number(value, name))):
        raise ValueError(f"{name} is {shown(value)}: it has to be a finite number.")
    if kind is str and not isinstance(value, str):
        raise ValueError(f"{name} is {shown(value)}: it has to be a text.")
    if get_origin(kind) is tuple:
        if not isinstance(value, tuple | list) or len(value) != len(get_args(kind)):
            raise ValueError(f"{name} is {shown(value)}: it has to be {len(get_args(kind))} whole numbers.")
        return tuple(checked(part, wanted, name) for part, wanted in zip(value, get_args(kind), strict=True))
    return value

"""What is named on the command line: environments, ours and Gymnasium's, and things of your own as package.module:Name."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from ..playing.opening import Gymnasium, in_short
from ..setting import nearest, shown
from .app import arguments

if TYPE_CHECKING:
    from ..structure import Structure

T = TypeVar("T")


def environment(name: str, env_arg: list[str] | None) -> tuple[Any, dict[str, Any] | None]:
    """The environment that ENV names, and the arguments with which it has yet to be made.

    The name of an environment of ours or of Gymnasium stays as it is. For `package.module:Name` the module is imported, which
    runs its code; the current folder is on the path. `Name` is in that module a `TabularMDP`, a Gymnasium environment,
    `anyreward.Gymnasium(...)`, or a class or function that makes one of them from the values of --env-arg; or it is the id of an
    environment that the module registers with Gymnasium.

    Parameters
    ----------
    name : str
        The value of ENV.
    env_arg : list of str or None
        The values of --env-arg.

    Returns
    -------
    env, env_args
        Two arguments of `explore` and `audit`.
    """
    args = arguments(env_arg, "--env-arg") or None
    if ":" not in name:
        return name, args
    found = looked_up(name, "ENV", "an environment of your own", is_registered)
    return (found, args) if isinstance(found, str) and is_registered(found) else (made(found, args, name), None)


def structure(name: str | None) -> Structure | str | None:
    """The value of --structure: a declaration in a module of yours, or a function that makes it, or the environment's own."""
    from ..rewards.forms import OWN
    from ..structure import Structure

    return name if name is None or name == OWN else thing(name, "--structure", "a structure of your own", Structure)


def thing(name: str, option: str, kind: str, wanted: type[T]) -> T:
    """What `package.module:Name` names, which is of the wanted type or is a function that makes such a thing."""
    found = looked_up(name, option, kind)
    if not isinstance(found, wanted) and callable(found):
        try:
            found = found()
        except (Exception, SystemExit) as problem:  # whatever its code raises
            raise ValueError(f"{name} cannot be made: {in_short(problem)}.") from problem
    if not isinstance(found, wanted):
        raise ValueError(f"{name} is of the type {type(found).__name__}: it has to be an ar.{wanted.__name__}, or to make one.")
    return found


def looked_up(name: str, option: str, kind: str, instead: Callable[[str], bool] = lambda name: False) -> Any:
    """What `package.module:Name` names. The module is imported. If it has no such thing, the name itself may do `instead`."""
    where, _, what = name.partition(":")
    if not all(part.isidentifier() for part in where.split(".")) or not what:
        raise ValueError(f"{option} is {shown(name)}: write package.module:Name for {kind}.")
    module = imported(where)
    try:
        return functools.reduce(getattr, what.split("."), module)
    except AttributeError:
        if instead(what):
            return what
        names = [text for text, value in vars(module).items() if not (text.startswith("_") or isinstance(value, ModuleType))]
        raise ValueError(f"the module {where} has no {shown(what)}{nearest(what, names)}.") from None


def imported(where: str) -> Any:
    """The module of that name, which may lie in the current folder."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(where)
    except (Exception, SystemExit) as problem:  # whatever its code raises
        raise ValueError(f"the module {where} cannot be imported: {in_short(problem)}.") from problem


def is_registered(name: str) -> bool:
    """Whether Gymnasium knows an environment of that id."""
    import gymnasium

    try:
        gymnasium.spec(name)
    except gymnasium.error.Error:
        return False
    return True


def made(found: Any, args: dict[str, Any] | None, name: str) -> Any:
    """The environment that an object of a module is, or makes."""
    import gymnasium

    from ..data.tabular import TabularMDP

    kinds = (TabularMDP, Gymnasium, gymnasium.Env)
    if isinstance(found, kinds):
        if args:
            raise ValueError(f"--env-arg is for classes and functions: {name} is an environment that is made already.")
        return found
    if not callable(found):
        raise ValueError(f"{name} is of the type {type(found).__name__}: it has to be an environment, or make one.")
    try:
        result = found(**(args or {}))
    except (Exception, SystemExit) as problem:  # whatever its code raises
        raise ValueError(f"{name} cannot be made: {in_short(problem)}.") from problem
    if not isinstance(result, kinds):
        raise ValueError(
            f"{name} made something of the type {type(result).__name__}: it has to make a Gymnasium environment or a TabularMDP."
        )
    return result

"""The library's sentences in the words of the command line: `max_episodes` is `--max-episodes` there.

The library speaks of its parameters, as in "max_episodes is -1: it cannot be negative." or "pass stationary_rewards=True". A
command has options instead. `Wording` knows the options of a command and translates everything that the library says while the
command runs: errors, warnings and reports. Only words that are parameters are touched: those with an underscore or an equals
sign, and single words where they are the subject of the sentence. What stands in quotes stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from functools import cached_property
from typing import Any, NamedTuple, get_type_hints

import typer

NAME = r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*"
VALUE = r"(?:'[^']*'|\((?:[^()]|\([^()]*\))*\)|-?[\w.]*\w|(?=[,. ]|$))"
# A quoted text; then name=value, perhaps after "use" or "pass"; then a name with an underscore, but not in the name of a file.
TOKEN = re.compile(
    rf"""(?P<quoted>(?<!\w)'[^']*'(?!\w)|"[^"]*")"""
    rf"|(?P<verb>\b(?:use|pass) )?(?<![\w.:+-])(?P<name>{NAME})=(?P<value>{VALUE})"
    rf"|(?<![\w/.-])(?P<word>[a-z][a-z0-9]*(?:_[a-z0-9]+)+)(?![\w/-]|\.\w)"
)
NAMES = rf"{NAME}(?:(?:, | and | nor | or ){NAME})*"
SUBJECT = re.compile(rf"^((?:neither |none of )?)({NAMES})(?= (?:is|are|has|have|was|does|do|allows|cannot)\b)")
SAID_OTHERWISE = (  # what cannot be said by options; a test checks that the library still says it
    (", or a subclass of Explorer", ""),
    (", or a bound such as TightBound()", ""),
    ("plan('own', ...)", "'anyreward plan --reward own'"),
    ("with reward 'own'", "with --reward own"),
    ("the reward 'own'", "--reward own"),
    ("make the environment with max_episode_steps=", "pass --env-arg max_episode_steps="),
    (", or None", ""),
)


class Option(NamedTuple):
    """An option or an argument of a command.

    Attributes
    ----------
    name : str
        What is written on the command line.
    flag : bool
        Whether it has no value.
    metavar : str or None
        How its value is described.
    pair : bool
        Whether it is one of the values of --option or --env-arg, written name=value.
    """

    name: str
    flag: bool = False
    metavar: str | None = None
    pair: bool = False


def options_of(command: Callable[..., None]) -> dict[str, Option]:
    """The options of a command by the names of parameters, as its annotations say."""
    found: dict[str, Option] = {}
    for name, hint in get_type_hints(command, include_extras=True).items():
        for info in getattr(hint, "__metadata__", ()):
            if isinstance(info, typer.models.ArgumentInfo):
                found[name] = Option(info.metavar or name.upper())
            elif isinstance(info, typer.models.OptionInfo):
                long = [text for text in info.param_decls or () if text.startswith("--")]
                written = long[0] if long else f"--{name.replace('_', '-')}"
                found[name] = Option(written, hint.__origin__ is bool, info.metavar)
    if "env_arg" in found:
        found["env_args"] = found["env_arg"]
    if "resume" in found:
        found["checkpoint"] = found["out"]
    if "scheduler" in found:
        found["executor"] = found["scheduler"]
    return found


class Wording:
    """How one command says what the library says.

    Parameters
    ----------
    command : callable
        The function of the command; its annotations say what its options are called.
    given : dict
        The values that it was called with.
    """

    def __init__(self, command: Callable[..., None], given: dict[str, Any]) -> None:
        self._given, self._options = given, options_of(command)

    def __call__(self, text: str) -> str:
        """A sentence of the library, in the words of the command."""
        for said, instead in SAID_OTHERWISE:
            text = text.replace(said, instead)
        text = text.replace("the same call", f"the same command{' with --resume' if 'resume' in self._options else ''}")
        text = re.sub(rf"\b(use|pass) ({NAME})=False or ", r"\1 \2=False, or \1 ", text)
        subject = SUBJECT.match(text)
        head = "" if subject is None else subject[1] + re.sub(NAME, self._subject, subject[2])
        text = head + TOKEN.sub(self._token, text[subject.end() if subject else 0 :])
        flags = "|".join(re.escape(option.name) for option in self._options.values() if option.flag)
        return re.sub(rf"^({flags}) is True\b", r"\1 is given", text) if flags else text

    @cached_property
    def _algorithm_options(self) -> set[str]:
        """The names that --option may have, if the command has that option."""
        if "option" not in self._options:
            return set()
        from ..algorithms import ALGORITHMS
        from ..algorithms.registry import option_names
        from ..certificates.bounds import BOUNDS

        of_bounds = {field.name for bound in BOUNDS.values() for field in fields(bound)}
        return of_bounds.union(*map(option_names, ALGORITHMS.values()))

    @cached_property
    def _elsewhere(self) -> dict[str, Option]:
        """The options of all commands, if this one is about an environment or an atlas: it may recommend what another one has."""
        if not {"env", "atlas"} & set(self._options):
            return {}
        from .app import app

        found: dict[str, Option] = {}
        for other in app.registered_commands:
            if other.callback is not None:
                found = options_of(other.callback) | found
        return found

    def _option(self, name: str, elsewhere: bool = False) -> Option | None:
        """The option of a parameter; None if it is not one of this command's nor, with `elsewhere`, of another's."""
        if name in self._options:
            return self._options[name]
        if any(pair.startswith(f"{name}=") for pair in self._given.get("env_arg") or ()):
            return Option(f"--env-arg {name}", pair=True)
        if name in self._algorithm_options:
            return Option(f"--option {name}", pair=True)
        return self._elsewhere.get(name) if elsewhere else None

    def _subject(self, match: re.Match[str]) -> str:
        option = self._option(match[0])
        return match[0] if option is None else option.name

    def _token(self, match: re.Match[str]) -> str:
        if match["quoted"] is not None:
            return match[0]
        option = self._option(match["word"] or match["name"], elsewhere=True)
        if option is None:
            return match[0]
        if match["word"] is not None:
            return option.name
        value, verb = match["value"].strip("'"), match["verb"] or ""
        if option.flag:
            return f"{verb}{option.name}" if value != "False" else f"{'leave out' if verb else 'no'} {option.name}"
        if option.pair:
            return f"{verb}{option.name}={value}"
        value = option.metavar if value.startswith("(") and option.metavar else value
        return f"{verb}{option.name}{' ' if value else ''}{value}"

"""Durable explorations: saved on the way, and resumed to the last bit."""

from __future__ import annotations

import hashlib
import json
import logging
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._files import as_path, check_writable, reason
from ..atlas.format import one_sentence, read
from ..certificates.bounds import bound_options, with_later_options
from ..certificates.certificate import OBSERVED, fingerprint
from ..rewards.given import is_list
from ..setting import LATER_FIELDS, shown
from ..words import plain

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from ..algorithms import Explorer
    from ..atlas.atlas import Atlas
    from ..environments.base import Environment

log = logging.getLogger(__name__)


class Checkpoint:
    """A file that an exploration is saved to, and resumed from by the same call.

    Parameters
    ----------
    path
        The file.
    seconds
        Between two saves; more if saving takes long, so that it takes a twentieth of the time at most.
    """

    def __init__(self, path: str | os.PathLike[str], seconds: float) -> None:
        self.path, self.seconds = absolute(as_path(path)), seconds
        check_writable(self.path)
        self.call: dict[str, Any] = {}
        self.wrong: dict[str, Any] = {}  # what went wrong in the environment, if anything did
        self.due = 0  # after how many episodes the certificate is worth a look (`Run.look`)
        self._saved_at = time.monotonic()

    @property
    def failures(self) -> int:
        """How many episodes failed in the environment, and are missing."""
        return int(self.wrong.get("failures", 0))

    def is_due(self) -> bool:
        """Whether it is time to save."""
        return time.monotonic() - self._saved_at > self.seconds

    def save(self, atlas: Callable[[], Atlas], environment: Environment, explorer: Explorer) -> None:
        """Replaces the file by one from which this exploration can be resumed. To make the atlas is part of saving it."""
        begin = time.monotonic()
        progress = {"call": self.call, "world": environment.state(), "wrong": self.wrong, "due": self.due}
        atlas()._write(self.path, progress, explorer.state())
        self._saved_at = time.monotonic()
        log.debug("saved %d episodes in %s", explorer.episodes, plain(str(self.path)))
        self.seconds = max(self.seconds, 20 * (self._saved_at - begin))

    def resume(self, explorer: Explorer, environment: Environment) -> Atlas | None:
        """Takes up the exploration in the file, if there is one: it has to be one of the same call. Returns its atlas."""
        path = self.path
        if not path.exists():
            return None
        atlas, progress, state = read(path)
        if atlas.episodes == 0:  # there is nothing to resume from
            return None
        if not state or not isinstance(progress.get("call"), dict):
            raise ValueError(
                f"{path} is an atlas, but not a checkpoint that can be resumed: choose another name, or move it away."
            )
        call = {"batch": None, **progress["call"]}  # earlier versions knew no other
        if isinstance(call.get("setting"), dict):  # of a version that did not have some fields
            call["setting"] = {**json.loads(json.dumps(LATER_FIELDS)), **call["setting"]}
        if isinstance(call.get("bounds"), list) and len(call["bounds"]) == 2 and isinstance(call["bounds"][1], dict):
            name, options = call["bounds"]
            same = self.call["bounds"][1].get("joint") if explorer.setting.stationary else False
            call["bounds"] = [name, with_later_options(name, options, same)]
        for name, value in self.call.items():
            if call.get(name) != value:
                raise ValueError(
                    f"{path} is the checkpoint of another exploration, {differing(name, call.get(name), value)}: choose another "
                    "name."
                )
        wrong = progress.get("wrong", {})
        if not isinstance(wrong, dict) or type(wrong.get("failures", 0)) is not int or wrong.get("failures", 0) < 0:
            raise ValueError(f"{path} cannot be resumed: what it says of failures is damaged.")
        if "refused" in wrong:
            raise ValueError(f"{path} cannot be resumed, its data contradict what the call assumes: {wrong['refused']}")
        self.wrong = dict(wrong)
        due = progress.get("due", 0)  # earlier versions did not have it
        self.due = due if type(due) is int else 0
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # NumPy's, about numbers that are none
                explorer.restore(state)
                environment.restore(progress["world"], atlas.paid, atlas.recording)
                environment.check(explorer.counts)
            if explorer.certified.digest() != atlas.certificate.digest:
                raise ValueError("the state in it is not that of its counts.")
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeWarning) as problem:
            raise ValueError(f"{path} cannot be resumed: {one_sentence(problem)}") from None
        return atlas


def absolute(path: Path) -> Path:
    """The path as it is now, whatever an environment does to the current folder."""
    if path.is_absolute():
        return path
    try:
        return Path.cwd() / path
    except OSError as problem:
        raise ValueError(f"{path} cannot be written: there is no current folder, {reason(problem)}.") from None


def differing(name: str, theirs: Any, mine: Any) -> str:
    """In what the call of a checkpoint differs from this one; of options, the first one and its values."""
    if isinstance(theirs, dict) and isinstance(mine, dict):
        which = next((key for key in (*mine, *theirs) if theirs.get(key) != mine.get(key)), None)
        if which is not None and name == "options":
            return f"its {name} are not the same ({which} was {shown(theirs.get(which))} and is {shown(mine.get(which))})"
    return f"its {name} {'are' if name.endswith('s') else 'is'} not the same"


def call_of(
    environment: Environment, explorer: Explorer, algorithm: str, seed: int, options: dict[str, Any], record: bool
) -> dict[str, Any]:
    """What two calls of `explore` have to have in common for one to resume the other, as plain JSON."""
    reward = getattr(explorer, "reward", None)
    return {
        "env": environment.fingerprint,
        "setting": json.loads(json.dumps(asdict(environment.setting))),  # as a file gives it back
        "delta": explorer.delta,
        "algorithm": algorithm,
        "bounds": [explorer.bound.name, bound_options(explorer.bound)],
        "seed": seed,
        "options": {
            key: option_fingerprint(value)
            for key, value in sorted(options.items())
            if key != "reward" and not (key == "rewards" and is_list(value))
        },
        "reward": None if reward is None else fingerprint(reward),
        "rewards": [OBSERVED if one.observed else fingerprint(one.reward) for one in explorer.given] or None,
        "record": record,
        "batch": environment.batch,
    }


def option_fingerprint(value: Any) -> Any:
    """A JSON value by which options are compared with those of a checkpoint."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__name__)}"
    try:
        return hashlib.sha256(np.ascontiguousarray(value, dtype=float).tobytes()).hexdigest()
    except (TypeError, ValueError):
        return repr(value)

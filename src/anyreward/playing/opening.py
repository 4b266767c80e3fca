"""Opening an environment from its id, a function or itself; how it becomes a process of numbered states (`Gymnasium`)."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import EnumMeta
from typing import Any

import numpy as np

from .. import envs
from ..data.numbering import Names
from ..data.spaces import Bins, Codec, Indexed
from ..data.tabular import TabularMDP
from ..setting import TERMINALS, shown
from ..words import plain


class EnvironmentFailure(ValueError):
    """An environment raised an exception, which is the cause of this one. `atlas` is what was explored until then.

    Example:

        try:
            anyreward.explore(env, horizon=20, max_episodes=100)
        except anyreward.EnvironmentFailure as failure:
            atlas = failure.atlas
    """

    atlas: Any = None


@dataclass(frozen=True, eq=False)
class Gymnasium:
    """A Gymnasium environment, and how it becomes a process with numbered states. What you do not say is not assumed.

        lake = anyreward.Gymnasium("FrozenLake-v1", terminal="state", initial_state=0)
        atlas = anyreward.explore(lake, horizon=20, max_episodes=100)

    Parameters
    ----------
    env
        An environment, the id of one (`"FrozenLake-v1"`), or a function without arguments that makes one.
    bins
        For a Box: for each dimension the number of equal bins, or the edges between bins.
    max_states
        For observations that cannot be numbered beforehand: no more than this many different ones exist. That is an
        assumption of the certificate, which shares delta and the mass of the unseen among so many states.
    terminal
        `"outcome"` (the default), `"end"` or `"state"`, see above.
    action_masks
        Which actions are legal, if that is known beforehand: an (S, A) array, a function of the state's number that gives A truth
        values, or `"none"` if no action is ever illegal. What the environment says must agree. None: masks show as states are
        met.
    initial_state
        The state in which every episode starts, if you know it: its number, or the observation if that is not a number. None: the
        start is estimated, unless `initial` is given.
    initial
        The distribution of the initial state, if you know it: S probabilities, or pairs (state, probability).
    env_args
        Arguments of `gymnasium.make` if an id is given.
    step_timeout
        Seconds that a reset or a step may take before it counts as failed. The environment then runs in a thread of its own,
        which goes on hanging: make another environment to resume. None: as long as it takes.
    state_names, action_names
        What states and actions are called in tables and pictures: a list, a mapping from numbers to names, or an `Enum` class.
        None: states are called after their observations, actions after an `Enum` of the environment if it has one.
    """

    env: Any
    bins: Bins | None = None
    max_states: int | None = None
    terminal: str | None = None
    action_masks: Any = None
    initial_state: Any = None
    env_args: dict[str, Any] | None = None
    step_timeout: float | None = None
    state_names: Names | None = None
    action_names: Names | None = None
    initial: Any = None

    def __post_init__(self) -> None:
        if self.terminal is not None and self.terminal not in TERMINALS:
            raise ValueError(f"terminal is {shown(self.terminal)}: it has to be one of {', '.join(map(repr, TERMINALS))}.")


ADAPTER = tuple(field.name for field in fields(Gymnasium) if field.name != "env")
NAMES = ("state_names", "action_names")


def as_model(env: Any, adapter: dict[str, Any]) -> TabularMDP | Gymnasium:
    """What users give as an environment, with the arguments that say how a Gymnasium environment is numbered (`ADAPTER`)."""
    if isinstance(env, str) and env in envs.ENVIRONMENTS:
        env = envs.make(env, **(adapter.pop("env_args", None) or {}))
    given = {name: value for name, value in adapter.items() if value is not None}
    if isinstance(env, TabularMDP):
        names = {name: given.pop(name) for name in NAMES if name in given}
        for name in given:
            if name != "initial":  # which can be known for both
                raise ValueError(f"{name} is for Gymnasium environments: a TabularMDP says itself what it is.")
        if names:
            env = copy.copy(env)
            env.numbering = env.numbering.named(**names)
        return env
    if not isinstance(env, Gymnasium):
        return Gymnasium(env, **given)
    for name in given:
        if getattr(env, name) is not None:
            raise ValueError(f"{name} is given twice, to Gymnasium(...) and beside it: leave one out.")
    return replace(env, **given)


def in_short(problem: BaseException) -> str:
    """An exception of somebody else's program, in one line."""
    try:
        what = " ".join(str(problem).split())[:300].rstrip(".")
    except Exception:  # some cannot even be printed
        what = ""
    return plain(f"{type(problem).__name__}, {what}" if what else type(problem).__name__)


def all_legal(n_actions: int) -> bytes:
    """The mask that allows every action."""
    return bytes([1]) * n_actions


def known_masks(action_masks: Any, observations: Codec, n_actions: int) -> np.ndarray | None:
    """Masks that are known beforehand as (S, A) booleans, checked; None if they are not."""
    if action_masks is None:
        return None
    S = observations.size
    if isinstance(action_masks, str):
        if action_masks != "none":
            raise ValueError(f"action_masks is {shown(action_masks)}: it has to be an array, a function of the state, or 'none'.")
        return np.ones((S, n_actions), bool)
    if isinstance(observations, Indexed):
        raise ValueError("action_masks is for states that are numbered beforehand: with max_states, masks show as states appear.")
    try:
        rows = [action_masks(s) for s in range(S)] if callable(action_masks) else action_masks
        masks = np.array(rows)
    except Exception as problem:  # whatever the function raises
        kind = type(problem).__name__
        raise ValueError(f"action_masks does not give {n_actions} truth values for every state: {kind}, {problem}.") from None
    if masks.shape != (S, n_actions) or masks.dtype.kind not in "biuf" or not np.isin(masks, (0, 1)).all():
        raise ValueError(f"action_masks has shape {masks.shape} of {masks.dtype}: it has to be ({S}, {n_actions}) truth values.")
    masks = masks.astype(bool)
    if not masks.any(axis=1).all():
        raise ValueError(f"action_masks allows no action in state {int((~masks.any(axis=1)).argmax())}: one has to be legal.")
    return masks


def checked_mask(mask: Any, n_actions: int, s: int, named: Callable[[str], str]) -> bytes:
    """Which actions are legal in state s, as a byte each. Errors are given names by `named` (`Numbering.names_in`)."""
    try:
        array = np.asarray(mask)
    except Exception:  # whatever NumPy has against it
        raise ValueError(f"info['action_mask'] is {shown(mask)}: it needs one truth value for each action.") from None
    if array.ndim != 1:
        raise ValueError(f"info['action_mask'] has shape {array.shape}: it needs one entry for each of {n_actions} actions.")
    word = array.astype(bool).tobytes()
    if len(word) != n_actions:
        raise ValueError(f"info['action_mask'] has {len(word)} entries: it needs one for each of {n_actions} actions.")
    if not any(word):
        raise ValueError(named(f"info['action_mask'] allows no action in state {s}: at least one has to be possible."))
    return word


def make(env: Any, env_args: dict[str, Any] | None = None) -> tuple[Any, str]:
    """An environment from an id, a function or itself, and its name."""
    import gymnasium

    if env_args and not isinstance(env, str):
        raise ValueError(
            "arguments for the environment are for ids: bind them in the function, or make the environment with them."
        )
    if isinstance(env, str):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there is a newer version, as errors say as well
            try:
                made = gymnasium.make(env, **(env_args or {}))
            except Exception as problem:  # whatever its own code raises
                text = " ".join(str(problem).split())[:500].rstrip(".")
                known = isinstance(problem, gymnasium.error.Error | ModuleNotFoundError | TypeError | ValueError)
                text = text if known else in_short(problem)
                raise ValueError(f"the environment {shown(env)} cannot be made: {plain(text)}.") from None
        return made, env
    if isinstance(env, gymnasium.Env):
        try:
            return env, env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        except Exception:  # these may be properties of somebody's own
            return env, type(env).__name__
    if callable(env):
        try:
            made = env()
        except Exception as problem:
            raise ValueError(f"env is a function that makes no environment: {in_short(problem)}.") from problem
        if isinstance(made, gymnasium.Env):
            return make(made)
        raise ValueError(f"env is a function that made a {type(made).__name__}: it has to make a Gymnasium environment.")
    raise ValueError(
        f"env is a {type(env).__name__}: it has to be a TabularMDP, a Gymnasium environment, its id or a function making one."
    )


def written(env: Any) -> str:
    """How Gymnasium would make the environment again, down to its arguments and wrappers; nothing if it does not know.

    With the transitions and the map of those that have them, as toy-text environments do.
    """
    try:
        spec = env.spec
        if spec is None or any(wrapper.kwargs is None for wrapper in spec.additional_wrappers):
            return ""
        inner = env.unwrapped  # some are drawn when they are made: then what was drawn counts
        return f"{spec.to_json()} {getattr(inner, 'P', '')!r} {getattr(inner, 'desc', '')!r}"
    except Exception:  # arguments that cannot be written down; Gymnasium raises whatever json does
        return ""


def time_limit(env: Any) -> int | None:
    """After how many steps the environment truncates, as far as it says: the smallest limit of its `TimeLimit` wrappers.

    A wrapper writes its limit into the spec of what it wraps, if that has one, which an environment made without
    `gymnasium.make` does not. So a copy of the wrapper is asked, around an environment that is nothing but a spec.
    """
    import gymnasium

    limits = []
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            alone, nothing = copy.copy(env), gymnasium.Env[Any, Any]()
            nothing.spec = gymnasium.envs.registration.EnvSpec("anyreward/Nothing-v0")
            alone.env = nothing
            if alone.spec is not None and alone.spec.max_episode_steps is not None:
                limits.append(alone.spec.max_episode_steps)
        env = env.env
    return min(limits) if limits else None


# The actions of environments that come with Gymnasium, as its documentation names them.
ACTIONS = {
    "FrozenLake": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
    "Taxi": ("south", "north", "east", "west", "pick up", "drop off"),
    "Blackjack": ("stick", "hit"),
}


def own_action_names(env: Any, name: str) -> list[str] | None:
    """The names that an environment itself has for its actions, as far as it says; None if it does not.

    An attribute `actions` or `Actions` that is an `Enum` class (as in MiniGrid), a method `get_action_meanings` (as in Atari), or
    one of Gymnasium's toy-text environments. Names that do not fit the number of actions are ignored.
    """
    try:
        size = int(env.action_space.n)
        inner = env.unwrapped
        for enum in (getattr(inner, "actions", None), getattr(inner, "Actions", None)):
            members: dict[str, Any] = dict(enum.__members__) if isinstance(enum, EnumMeta) else {}
            if [member.value for member in members.values()] == list(range(size)):
                return list(members)
        meanings = getattr(inner, "get_action_meanings", None)
        if callable(meanings):
            found = [str(text) for text in meanings()]
            return found if len(set(found)) == len(found) == size else None
    except Exception:  # spaces without a number of actions, and whatever attributes of somebody's own raise
        return None
    return next((list(names) for start, names in ACTIONS.items() if name.startswith(start) and len(names) == size), None)

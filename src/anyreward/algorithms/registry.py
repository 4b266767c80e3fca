"""Algorithms by name, and the one way in which explorers are made, by `explore`, sweeps, comparisons and the reproduction."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ..certificates.calibrated import CalibratedBound
from ..certificates.certificate import OBSERVED
from ..rewards.forms import OWN, Reward
from ..rewards.given import is_list
from ..setting import Setting, nearest, shown
from .explorer import Explorer

Kind = TypeVar("Kind", bound=Explorer)
ALGORITHMS: dict[str, type[Explorer]] = {}  # every registered algorithm by its name


def register(name: str) -> Callable[[type[Kind]], type[Kind]]:
    """A decorator that makes an explorer class available under a name, in `explore`, sweeps and on the command line."""

    def note(kind: type[Kind]) -> type[Kind]:
        if name in ALGORITHMS and ALGORITHMS[name].__qualname__ != kind.__qualname__:
            raise ValueError(f"the algorithm {shown(name)} is registered already, as {ALGORITHMS[name].__name__}.")
        kind.name = name
        ALGORITHMS[name] = kind
        return kind

    return note


def for_bounds(algorithm: str | type[Explorer], bounds: Any) -> tuple[str | type[Explorer], Any]:
    """The algorithm and the bounds that are meant: the bounds "calibrated" have an algorithm of their own, and the reverse."""
    own, default = "rf-calibrated", "rf-trajectory"
    wanted = isinstance(bounds, str) and bounds == CalibratedBound.name
    if wanted and algorithm == default:
        return own, bounds
    if explorer_class(algorithm) is ALGORITHMS[own]:
        return algorithm, CalibratedBound.name if isinstance(bounds, str) and bounds == "tight" else bounds
    if wanted or isinstance(bounds, CalibratedBound):
        raise ValueError(f"the bounds 'calibrated' do not suit {explorer_class(algorithm).__name__}: use the algorithm {own!r}.")
    return algorithm, bounds


def for_rewards(algorithm: str | type[Explorer]) -> str | type[Explorer]:
    """The algorithm that is meant if several rewards are given: there is one for that."""
    own, default = "multi-bpi", "rf-trajectory"
    if algorithm != default and explorer_class(algorithm) is not ALGORITHMS[own]:
        raise ValueError(f"rewards are given, which {explorer_class(algorithm).__name__} does not explore for: use {own!r}.")
    return own


def meant(algorithm: str | type[Explorer], bounds: Any, several: bool) -> tuple[type[Explorer], str, Any]:
    """The algorithm that is meant, as its class and as its name, and the bounds, if there are `several` rewards or not."""
    algorithm, bounds = for_bounds(for_rewards(algorithm) if several else algorithm, bounds)
    kind = explorer_class(algorithm)
    return kind, algorithm if isinstance(algorithm, str) else kind.__name__, bounds


def explorer_class(algorithm: str | type[Explorer]) -> type[Explorer]:
    """The class of a name, or the class itself."""
    if isinstance(algorithm, type) and issubclass(algorithm, Explorer):
        return algorithm
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        names = ", ".join(map(repr, ALGORITHMS))
        raise ValueError(f"algorithm is {shown(algorithm)}: it has to be one of {names}, or a subclass of Explorer.")
    return ALGORITHMS[algorithm]


def option_names(kind: type[Explorer]) -> set[str]:
    """The options of an explorer: the parameters of its constructor and of those that it hands on to."""
    names: set[str] = set()
    for part in kind.__mro__:
        if "__init__" in vars(part) and part is not object:
            parameters = inspect.signature(part.__init__).parameters.values()  # type: ignore[misc]
            names |= {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return names - {"self", "setting"}


def make_explorer(
    algorithm: str | type[Explorer],
    setting: Setting,
    options: Mapping[str, Any] | None = None,
    *,
    own_reward: Reward = None,
    max_episodes: int | None = None,
    epsilon: float | None = None,
    also: Iterable[str] = (),
) -> Explorer:
    """An explorer of a setting.

    Parameters
    ----------
    algorithm
        A name from `ALGORITHMS`, or a subclass of `Explorer`.
    options
        Options of the algorithm and of its bounds, among them delta, bounds and seed. One that it does not have is refused.
    own_reward
        The environment's own reward, for algorithms that need one and are given no other, or the reward `"own"`. `OBSERVED` if
        the environment pays it without saying beforehand what it is; it then has to be asked for.
    max_episodes
        For algorithms that have to know it beforehand: how many episodes there will be. `budget` says the same.
    epsilon
        The target, if there is one: some algorithms have options that depend on it.
    also
        Names that the caller knows beside these options, to be suggested where an option is misspelt.
    """
    options = dict(options or {})
    if "bounds" in options:
        algorithm, options["bounds"] = for_bounds(algorithm, options["bounds"])
    kind = explorer_class(algorithm).for_setting(setting, options)
    observed = isinstance(own_reward, str) and own_reward == OBSERVED
    if kind.needs_reward and isinstance(options.get("reward"), str) and options["reward"] == OWN:
        del options["reward"]
        if observed and "rewards" not in option_names(kind):
            raise ValueError(
                f"reward is 'own', which is only observed: {kind.__name__} has to know it. Use the algorithm 'bpi-ucrl'."
            )
        if observed:
            options.setdefault("rewards", "random")
    several = "rewards" in options and is_list(options["rewards"])
    if kind.needs_reward and own_reward is not None and not observed and not several:
        options = {"reward": own_reward, **options}
    if kind.needs_reward and "reward" not in options and "rewards" not in options:
        its = "give it, or 'own' for what the environment pays" if observed else "this environment has none of its own"
        raise ValueError(f"reward is not given: {kind.__name__} is for one reward; {its}.")
    if kind.needs_budget and "budget" not in options:
        if max_episodes is None:
            raise ValueError(
                f"max_episodes is not given: {kind.__name__} has to know beforehand how many episodes there will be."
            )
        options["budget"] = max(1, max_episodes)
    if epsilon is not None:
        options = {**kind.defaults(setting, epsilon), **options}
    try:
        explorer = kind(setting, **options)
        explorer.options = {name: value for name, value in options.items() if name not in ("delta", "bounds", "seed")}
        return explorer
    except TypeError as problem:
        known = option_names(kind)
        unknown = next((name for name in options if name not in known), None)
        if unknown == "rewards":
            raise ValueError(
                f"rewards is not an option of {kind.__name__}: what is assumed of own rewards goes to plan('own', ...)."
            ) from None
        if unknown is not None:
            meant = nearest(unknown, (known | set(also)) - {"options"})
            raise ValueError(f"{shown(unknown)} is not an option of {kind.__name__}{meant}.") from None
        raise ValueError(f"an option does not suit {kind.__name__}: {problem}.") from None

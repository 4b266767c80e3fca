"""Explore an environment until every plan is certain to be good: the loop from episodes to a certified atlas."""

from __future__ import annotations

import hashlib
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from .algorithms import ALGORITHMS, Explorer
from .atlas import Atlas
from .bounds import Bound
from .mdp import TabularMDP
from .progress import Progress
from .rewards import Reward
from .setting import positive, probability, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable


def explore(
    env: TabularMDP,
    horizon: int,
    epsilon: float | None = None,
    delta: float = 0.1,
    algorithm: str | type[Explorer] = "rf-trajectory",
    bounds: str | Bound = "tight",
    stationary: bool = False,
    discount: float = 1.0,
    max_episodes: int | None = None,
    seed: int = 0,
    progress: bool | Callable[[int, float], None] | None = None,
    arrival_rewards: bool = False,
    absorbing_states: tuple[int, ...] = (),
    **options: Any,
) -> Atlas:
    """Explores, without a reward unless the algorithm needs one, until epsilon is certified or max_episodes are done.

    Parameters
    ----------
    env
        What to explore: a `TabularMDP`. Its transitions are used to simulate and for nothing else.
    horizon
        Steps of an episode, H >= 1.
    epsilon
        Stop as soon as every plan is certain to be epsilon-optimal; in units of reward, where the most an episode can earn
        is sigma_H (H without discount). None: go on to max_episodes.
    delta
        The certificate may fail with at most this probability, in (0, 1).
    algorithm
        A name from `algorithms.ALGORITHMS`, or an `Explorer` class of your own.
    bounds
        The certificate: `"tight"`, or the paper's own, `"paper"`, which means the same and needs hundreds of times more episodes.
    stationary
        Whether to assume that the transitions do not depend on the step, which takes far fewer episodes.
    discount
        gamma in (0, 1].
    max_episodes
        Stop there at the latest. The atlas is usable all the same; `certificate.met` is then False.
    seed
        Runs with the same arguments and the same seed are identical.
    progress
        True or False to show or hide a progress display; None shows it on a terminal, after two seconds. A function is
        called instead with (episodes, certified epsilon) at every look.
    arrival_rewards
        Whether the certificate is to cover rewards r(h, s, a, s') that depend on the successor as well.
    absorbing_states
        States that are known beforehand never to be left: nothing has to be estimated there.
    options
        Options of the algorithm, such as `replan` and `clip` of `RFUCRL`, and of the bounds, such as `max_successors`.

    The certificate is looked at whenever the number of episodes has grown by the explorer's `growth` (3%) and whenever the
    explorer says that it is there; under `replan="every"` that is the first episode at which the bound is at most epsilon/2.
    """
    if not isinstance(env, TabularMDP):
        raise ValueError(f"env is a {type(env).__name__}: it has to be a TabularMDP.")
    if epsilon is None and max_episodes is None:
        raise ValueError("neither epsilon nor max_episodes is given: exploration needs at least one of them to stop.")
    epsilon = None if epsilon is None else positive(epsilon, "epsilon")
    seed = whole_number(seed, "seed")
    if seed < 0:
        raise ValueError(f"seed is {seed}: it cannot be negative.")
    if max_episodes is not None and whole_number(max_episodes, "max_episodes") < 0:
        raise ValueError(f"max_episodes is {max_episodes}: it cannot be negative.")
    setting = env.setting(horizon, discount, stationary, arrival_rewards, absorbing_states)
    kind = _explorer_class(algorithm)
    try:
        explorer = kind(setting, delta=probability(delta, "delta"), bounds=bounds, seed=seed, **options)
    except TypeError as problem:
        raise ValueError(f"an option does not suit {kind.__name__}: {problem}.") from None
    rng = np.random.default_rng(seed)
    goal = -1.0 if epsilon is None else epsilon / 2  # without a target, none is reached
    history: list[tuple[int, float]] = []
    with Progress(progress, epsilon, max_episodes) as show:
        while True:
            t, bound = explorer.episodes, explorer.error_bound
            history.append((t, 2 * bound))
            show(t, 2 * bound)
            if bound <= goal or t == max_episodes:
                break
            look = max(t + 1, ceil(t * explorer.growth))
            look = look if max_episodes is None else min(look, max_episodes)
            arrived = False
            while not arrived and explorer.episodes < look:
                arrived = explorer.advance(env, rng, look - explorer.episodes, goal)
                show(explorer.episodes)
    name = algorithm if isinstance(algorithm, str) else algorithm.__name__
    plain = {key: value for key, value in options.items() if isinstance(value, str | int | float | bool)}
    # Explorations with the same seed draw from the environment alike, whatever they do with it: they are not independent.
    run = hashlib.sha256(f"{setting} {seed}".encode()).hexdigest()
    return Atlas(
        explorer.counts,
        explorer.certificate(epsilon),
        tuple(history),
        {"algorithm": name, "seed": seed, "options": plain},
        (run,),
        explorer.recommendation,
    )


def identify(
    env: TabularMDP, reward: Reward, horizon: int, epsilon: float | None = None, delta: float = 0.1, **options: Any
) -> Atlas:
    """Finds a policy that is epsilon-optimal for one reward, by BPI-UCRL: `atlas.policy` is the recommendation.

    Far fewer episodes than for every reward. `options` are those of `explore` and of `BPIUCRL`; the certificate is about this
    reward and this policy only.
    """
    return explore(env, horizon, epsilon, delta, algorithm="bpi-ucrl", reward=reward, **options)


def _explorer_class(algorithm: str | type[Explorer]) -> type[Explorer]:
    if isinstance(algorithm, type) and issubclass(algorithm, Explorer):
        return algorithm
    if algorithm not in ALGORITHMS:
        names = ", ".join(map(repr, ALGORITHMS))
        raise ValueError(f"algorithm is {algorithm!r}: it has to be one of {names}, or a subclass of Explorer.")
    return ALGORITHMS[algorithm]

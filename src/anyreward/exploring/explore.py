"""Explore an environment until every plan is certain to be good: the loop from episodes to a certified atlas."""

from __future__ import annotations

import hashlib
import inspect
import json
import signal
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from math import ceil, inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import envs
from .._files import check_writable, clear_drafts, held, reason
from ..algorithms import ALGORITHMS, Explorer
from ..atlas.atlas import Atlas
from ..atlas.format import in_words, read
from ..certificates.bounds import Bound, bound_options
from ..certificates.certificate import OBSERVED, fingerprint
from ..data.counts import MOST
from ..data.tabular import TabularMDP
from ..environments.audit import audit, audited
from ..environments.base import Environment, KnownModel, World
from ..environments.gymnasium import EnvironmentFailure
from ..rewards.forms import Reward
from ..setting import nearest, positive, probability, real_number, shown, whole_number
from .progress import Progress, is_shown

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from ..environments.spaces import Bins


LOST = "the episodes that failed, of which nothing was counted ({}), were like the others"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during an exploration that was saved: says how to go on."""


def explore(
    env: Any,
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
    initial_state: int | None = None,
    bins: Bins | None = None,
    max_states: int | None = None,
    terminal: str | None = None,
    action_masks: Any = None,
    env_args: dict[str, Any] | None = None,
    step_timeout: float | None = None,
    record: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float | None = None,
    stop: str = "certificate",
    **options: Any,
) -> Atlas:
    """Explores, without a reward unless the algorithm needs one, until epsilon is certified or max_episodes are done.

    Parameters
    ----------
    env
        What to explore: a `TabularMDP`, whose transitions are used to simulate and for nothing else; or a Gymnasium
        environment, the id of one (`"FrozenLake-v1"`), or a function that makes one (`environments.gymnasium` tells what is done
        to it); or the name of one of ours (`envs.ENVIRONMENTS`, such as `"double-chain"`).
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
        True or False to show or hide what was found about the environment and how far the exploration is; None shows it on a
        terminal, after two seconds. A function is called instead with (episodes, certified epsilon) at every look.
    arrival_rewards
        Whether the certificate is to cover rewards r(h, s, a, s') that depend on the successor as well.
    absorbing_states
        States of a model that are known beforehand never to be left: nothing has to be estimated there.
    initial_state
        Where every episode of a Gymnasium environment is known to start. None: that is estimated as well.
    bins, max_states, terminal, action_masks, env_args
        How a Gymnasium environment becomes a process with numbered states: see `environments.gymnasium.Simulator`. By default
        nothing is assumed about where episodes end (`terminal="outcome"`) and which actions are legal. `terminal="state"` and
        `action_masks` say more and need fewer episodes; the data are checked against them, and the certificate prints them.
    step_timeout
        Seconds that a Gymnasium environment may take for one step before the exploration ends with an `EnvironmentFailure`. None:
        as long as it takes.
    record
        Whether to keep every episode (`Atlas.recording`, `Atlas.to_minari`).
    checkpoint
        A file to save to while exploring. If it is there already, the exploration that it holds is gone on with: the same call
        reaches the same atlas, bit for bit, as if it had never been interrupted. A larger max_episodes or a smaller epsilon go on
        from there too, but for algorithms that have to know the number of episodes beforehand.
    checkpoint_every
        Seconds between two saves to the checkpoint, 10 unless it is given.
    stop
        `"certificate"`: epsilon is what the bounds certify from the counts. `"own"`: epsilon is what the algorithm's own theorem
        guarantees (`Explorer.own_epsilon`), which is kept in `atlas.source["own"]`.
    options
        Options of the algorithm, such as `replan` and `clip` of `RFUCRL`, and of the bounds, such as `max_successors`.

    The certificate is looked at whenever the number of episodes has grown by the explorer's `growth` (3%) and whenever the
    explorer says that it is there; under `replan="every"` that is the first episode at which the bound is at most epsilon/2.
    """
    if epsilon is None and max_episodes is None:
        raise ValueError("neither epsilon nor max_episodes is given: exploration needs at least one of them to stop.")
    epsilon = None if epsilon is None else positive(epsilon, "epsilon")
    seed = whole_number(seed, "seed")
    if seed < 0:
        raise ValueError(f"seed is {seed}: it cannot be negative.")
    most = check_episodes(max_episodes, horizon)
    delta, kind = probability(delta, "delta"), _explorer_class(algorithm)
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and not path.is_absolute():
        try:
            path = Path.cwd() / path  # which an environment may change
        except OSError as problem:
            raise ValueError(f"{path} cannot be written: there is no current folder, {reason(problem)}.") from None
    if checkpoint_every is not None and path is None:
        raise ValueError("checkpoint_every is given, but no checkpoint to save to: give that too, or leave it out.")
    pace = 10.0 if checkpoint_every is None else real_number(checkpoint_every, "checkpoint_every")
    if path is not None:
        check_writable(path)
    world: World
    if isinstance(env, str) and env in envs.ENVIRONMENTS:
        env, env_args = envs.make(env, **(env_args or {})), None
    if isinstance(env, TabularMDP):
        given = {
            "initial_state": initial_state,
            "bins": bins,
            "max_states": max_states,
            "terminal": terminal,
            "action_masks": action_masks,
            "env_args": env_args,
            "step_timeout": step_timeout,
        }
        for name, value in given.items():
            if value is not None:
                raise ValueError(f"{name} is for Gymnasium environments: a TabularMDP says itself what it is.")
        setting = env.setting(horizon, discount, stationary, arrival_rewards, absorbing_states)
        audit(env, setting.horizon).show(progress, None, delta)
        world = KnownModel(env, setting, seed, record)
    else:
        if absorbing_states:
            raise ValueError("absorbing_states is for models: a Gymnasium environment tells where its episodes end.")
        simulator, report = audited(
            env, horizon, stationary, seed, bins, max_states, terminal, action_masks, env_args, step_timeout, progress=progress
        )
        report.show(progress, epsilon, delta)
        if not is_shown(progress):
            for alarm in report.alarms:
                warnings.warn(f"{simulator.name}: {alarm.removeprefix('warning: ')}", stacklevel=2)
        setting = simulator.setting(discount, stationary, arrival_rewards, initial_state)
        world = Environment(simulator, setting, seed, record, report.alarms)
    if kind.needs_reward and "reward" not in options and "rewards" not in options:
        if getattr(env, "reward", None) is None:
            raise ValueError(f"reward is not given: {kind.__name__} is for one reward, and this environment has none of its own.")
        options["reward"] = env.reward
    if kind.needs_budget and "budget" not in options:
        if max_episodes is None:
            raise ValueError(
                f"max_episodes is not given: {kind.__name__} has to know beforehand how many episodes there will be."
            )
        options["budget"] = max(1, max_episodes)
    if epsilon is not None:
        options = {**kind.defaults(setting, epsilon), **options}
    try:
        explorer = kind(setting, delta=delta, bounds=bounds, seed=seed, **options)
    except TypeError as problem:
        unknown = next((name for name in options if name not in option_names(kind)), None)
        if unknown is not None:
            if unknown == "rewards":
                raise ValueError(
                    f"rewards is not an option of {kind.__name__}: what is assumed of own rewards goes to plan('own', ...)."
                ) from None
            known = option_names(kind) | set(inspect.signature(explore).parameters) - {"options"}
            raise ValueError(f"{shown(unknown)} is not an option of {kind.__name__}{nearest(unknown, known)}.") from None
        raise ValueError(f"an option does not suit {kind.__name__}: {problem}.") from None
    if stop not in ("certificate", "own"):
        raise ValueError(f"stop is {shown(stop)}: it has to be 'certificate' or 'own'.")
    if stop == "own" and not kind.knows_masks and (setting.hidden_masks or setting.illegal_actions):
        raise ValueError(
            f"stop is 'own', but the guarantee of {kind.__name__} says nothing where actions may be illegal: leave it out, "
            "or pass action_masks='none' if none ever is."
        )
    if record and not kind.plays_episodes:
        raise ValueError(f"record is True, but {kind.__name__} plays no episodes that could be kept.")
    if path is not None:
        explorer.state()  # says so if it cannot be saved, before anything is played
    name = algorithm if isinstance(algorithm, str) else algorithm.__name__
    end = most if max_episodes is None else max_episodes
    with nullcontext() if path is None else held(path):
        if path is not None:
            clear_drafts(path)
        run = _Run(world, explorer, name, epsilon, end, seed, options, path, pace, stop)
        with Progress(progress, epsilon, max_episodes) as show, run.interruptible():
            run.go(show)
    return run.atlas()


def check_episodes(max_episodes: int | None, horizon: int) -> int:
    """How many episodes can be counted exactly; raises if more are asked for."""
    if max_episodes is not None and whole_number(max_episodes, "max_episodes") < 0:
        raise ValueError(f"max_episodes is {max_episodes}: it cannot be negative.")
    most = MOST // (max(1, whole_number(horizon, "horizon")) + 1)
    if max_episodes is not None and max_episodes > most:
        raise ValueError(f"max_episodes is {max_episodes}: beyond {most:,} episodes of this horizon, counts would not be exact.")
    return most


def option_names(kind: type[Explorer]) -> set[str]:
    """The options of an explorer: the parameters of its constructor and of those it hands on to."""
    names: set[str] = set()
    for part in kind.__mro__:
        if "__init__" in vars(part) and part is not object:
            parameters = inspect.signature(part.__init__).parameters.values()  # type: ignore[misc]
            names |= {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return names - {"self", "setting"}


class _Run:
    """An exploration under way."""

    def __init__(
        self,
        world: World,
        explorer: Explorer,
        algorithm: str,
        epsilon: float | None,
        max_episodes: int,
        seed: int,
        options: dict[str, Any],
        path: Path | None,
        pace: float,
        stop_by: str,
    ) -> None:
        self.world, self.explorer, self.epsilon, self.max_episodes = world, explorer, epsilon, max_episodes
        plain = {key: value for key, value in options.items() if isinstance(value, str | int | float | bool)}
        self.source = {"env": world.name, "algorithm": algorithm, "seed": seed, "options": plain}
        if world.origin is not None:
            self.source["fingerprint"] = world.origin
        # Explorations with the same seed draw from the environment alike, whatever they do with it: they are not independent.
        self.mark = hashlib.sha256(f"{world.setting} {seed}".encode()).hexdigest()
        self.call = {
            "env": world.fingerprint,
            "setting": json.loads(json.dumps(asdict(world.setting))),  # as a file gives it back
            "delta": explorer.delta,
            "algorithm": algorithm,
            "bounds": [explorer.bound.name, bound_options(explorer.bound)],
            "seed": seed,
            "options": {key: _fingerprint(value) for key, value in sorted(options.items()) if key != "reward"},
            "reward": None if getattr(explorer, "reward", None) is None else fingerprint(explorer.reward),  # type: ignore[attr-defined]
            "record": world.recording is not None,
        }
        self.history: list[tuple[int, float]] = []
        self.stop_by = stop_by
        self.path, self.pace = path, pace
        self.saved_at, self.stop = time.monotonic(), False
        self.lost, self.wrong = 0, dict[str, Any]()  # episodes that failed, and what to say of the last one
        if path is not None and path.exists():
            self.resume(path)

    def go(self, show: Progress) -> None:
        """Explores until it is certified or until it has to stop."""
        explorer, goal = self.explorer, -1.0 if self.epsilon is None else self.epsilon / 2  # without a target, none is reached
        t = self.history[-1][0] if self.history else 0
        show.begin(explorer.episodes, self.history[-1][1] if self.history else None)
        look = t if explorer.episodes == t else self.next_look(t)
        arrived = False
        while True:
            t = explorer.episodes
            if arrived or t >= look:
                bound = self.bound()
                if not self.history or self.history[-1][0] < t:
                    self.history.append((t, 2 * bound))
                show(t, 2 * bound)
                if bound <= goal or t >= self.max_episodes:
                    break
                look = self.next_look(t)
            try:
                arrived = self.world.advance(explorer, look - t, goal)
            except Exception as problem:
                self.keep(problem)
                raise
            show(explorer.episodes)
            due = self.stop or time.monotonic() - self.saved_at > self.pace
            if self.path is not None and due and not arrived and self.world.rests(explorer.episodes):
                self.save(self.path)
                if self.stop:
                    raise Interrupted(
                        f"stopped after {explorer.episodes:,} episodes, saved in {self.path}: the same call goes on from there."
                    )
        if self.path is not None and self.explorer.episodes:
            self.save(self.path)

    def keep(self, problem: Exception) -> None:
        """Does not lose what was explored because of something that went wrong: it is saved, or goes with the exception.

        To stop there is valid. To go on is not without saying so: the episode that failed is missing, whatever happened in it
        (`LOST`). What contradicts an assumption of the call cannot be gone on with at all.
        """
        try:
            problem.atlas = self.atlas()  # type: ignore[attr-defined]
        except Exception:  # what went wrong left nothing that could be kept
            return
        where = "the atlas so far is the attribute `atlas` of this exception"
        if self.path is not None and self.explorer.episodes and isinstance(problem, ValueError):  # of the world, not of Python
            self.wrong = {"failures": self.lost + 1} if isinstance(problem, EnvironmentFailure) else {"refused": str(problem)}
            self.save(self.path)
            where = f"the atlas so far is saved in {self.path}"
            where += ", and the same call goes on from there" if "failures" in self.wrong else ""
        problem.add_note(f"After {self.explorer.episodes:,} episodes: {where}.")

    def bound(self) -> float:
        """What it is stopped by: the certificate, or the algorithm's own guarantee if that is asked for."""
        if self.stop_by == "certificate":
            return self.explorer.error_bound
        own = self.explorer.guaranteed()
        return inf if own is None else own / 2

    def next_look(self, t: int) -> int:
        look = max(t + 1, ceil(t * self.explorer.growth))
        return max(t, min(look, self.max_episodes))

    def atlas(self) -> Atlas:
        explorer, world = self.explorer, self.world
        certificate = explorer.certificate(self.epsilon)
        if self.lost:
            certificate = replace(certificate, assumed=(*certificate.assumed, LOST.format(self.lost)))
        return Atlas(
            explorer.counts,
            certificate,
            tuple(self.history),
            {**self.source, **world.facts, "own": self.own()},
            (self.mark,),
            explorer.recommendation,
            world.paid,
            world.recording,
            reward=None if certificate.every_reward or certificate.reward == OBSERVED else getattr(explorer, "reward", None),
        )

    def own(self) -> dict[str, Any]:
        """What the algorithm itself guarantees."""
        explorer, epsilon = self.explorer, self.explorer.guaranteed()
        met = epsilon is not None and self.epsilon is not None and epsilon <= self.epsilon
        about = "heuristic, no guarantee" if explorer.heuristic else explorer.guarantee
        return {"epsilon": epsilon, "met": met, "guarantee": about}

    def save(self, path: Path) -> None:
        begin = time.monotonic()
        progress = {"call": self.call, "world": self.world.state(), "wrong": self.wrong}
        self.atlas()._write(path, progress, self.explorer.state())
        self.saved_at = time.monotonic()
        self.pace = max(self.pace, 20 * (self.saved_at - begin))  # saving is to take a twentieth of the time at most

    def resume(self, path: Path) -> None:
        """Goes on from a file, if it is one of this exploration."""
        atlas, progress, state = read(path)
        if atlas.episodes == 0:  # there is nothing to go on from
            return
        if not state or not isinstance(progress.get("call"), dict):
            raise ValueError(f"{path} is an atlas, but not a checkpoint to go on from: choose another name, or move it away.")
        for name, value in self.call.items():
            if progress["call"].get(name) != value:
                raise ValueError(
                    f"{path} is the checkpoint of another exploration, its {name} is not the same: choose another name."
                )
        wrong = progress.get("wrong", {})
        if not isinstance(wrong, dict) or type(wrong.get("failures", 0)) is not int or wrong.get("failures", 0) < 0:
            raise ValueError(f"{path} cannot be gone on from: what it says of failures is damaged.")
        if "refused" in wrong:
            raise ValueError(f"{path} cannot be gone on from, its data contradict what the call assumes: {wrong['refused']}")
        self.lost = wrong.get("failures", 0)
        self.wrong = dict(wrong)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # NumPy's, about numbers that are none
                self.explorer.restore(state)
                self.world.restore(progress["world"], atlas.paid, atlas.recording)
                self.world.check(self.explorer.counts)
            if self.explorer.counts.digest() != atlas.certificate.digest:
                raise ValueError("the state in it is not that of its counts.")
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeWarning) as problem:
            raise ValueError(f"{path} cannot be gone on from: {in_words(problem)}") from None
        self.history = list(atlas.history)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Ctrl-C lets the episodes under way end, saves and stops; a second one stops at once. Without a checkpoint, as ever."""
        if self.path is None or threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(*_: Any) -> None:
            if self.stop:
                raise KeyboardInterrupt
            self.stop = True

        before = signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def _fingerprint(value: Any) -> Any:
    """A JSON value by which options are compared with those of a checkpoint."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__name__)}"
    try:
        return hashlib.sha256(np.ascontiguousarray(value, dtype=float).tobytes()).hexdigest()
    except (TypeError, ValueError):
        return repr(value)


def identify(env: Any, reward: Reward, horizon: int, epsilon: float | None = None, delta: float = 0.1, **options: Any) -> Atlas:
    """Finds a policy that is epsilon-optimal for one reward, by BPI-UCRL: `atlas.policy` is the recommendation.

    Far fewer episodes than for every reward. `options` are those of `explore` and of `BPIUCRL`; the certificate is about this
    reward and this policy only.
    """
    if "algorithm" in options:
        raise ValueError("algorithm is not an option of identify, which is BPI-UCRL: use explore for another one.")
    return explore(env, horizon, epsilon, delta, algorithm="bpi-ucrl", reward=reward, **options)


def _explorer_class(algorithm: str | type[Explorer]) -> type[Explorer]:
    if isinstance(algorithm, type) and issubclass(algorithm, Explorer):
        return algorithm
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        names = ", ".join(map(repr, ALGORITHMS))
        raise ValueError(f"algorithm is {shown(algorithm)}: it has to be one of {names}, or a subclass of Explorer.")
    return ALGORITHMS[algorithm]

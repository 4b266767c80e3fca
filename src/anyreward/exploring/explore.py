"""Explore an environment until every plan is certain to be good: what can be asked for, checked before anything is played.

The loop itself is `run.Run`; files are `checkpoint`, and Ctrl-C is `interrupts`.
"""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

from .._files import clear_drafts, file_lock
from ..algorithms import Explorer, make_explorer
from ..algorithms.registry import meant
from ..atlas.atlas import Atlas
from ..certificates.bounds import Bound, TightBound
from ..certificates.calibrated import CalibratedBound
from ..certificates.certificate import OBSERVED
from ..data.counts import LARGEST_COUNT
from ..data.tabular import TabularMDP
from ..environments.base import Environment
from ..environments.tabular import TabularEnvironment
from ..playing.lanes import is_vector
from ..playing.opening import ADAPTER, Gymnasium, as_model
from ..rewards.forms import OWN, UNIT, Reward, checked_range
from ..rewards.given import given_rewards, is_list
from ..setting import boolean, checked, positive, probability, real_number, shown, whole_number
from ..structure import Structure
from ..words import console, is_shown, plain, worded
from .audit import audit, audited_environment
from .checkpoint import Checkpoint, call_of
from .progress import Progress
from .run import Run
from .suggestions import outlook

if TYPE_CHECKING:
    import os

    from ..environments.parallel import Parallel

log = logging.getLogger(__name__)


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
    initial: Any = None,
    deterministic: bool = False,
    record: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float | None = None,
    stop: str = "certificate",
    max_seconds: float | None = None,
    on_interrupt: str = "return",
    structure: Structure | str | None = None,
    rewards: Sequence[Reward] | str | None = None,
    mixtures: bool = False,
    workers: int | None = None,
    n_envs: int | None = None,
    batch: int | None = None,
    executor: Any = None,
    **options: Any,
) -> Atlas:
    """Explores until epsilon is certified or a budget is spent: for all rewards, or for those that are given.

    The budget is `max_episodes`, `max_seconds`, or your patience: Ctrl-C returns the atlas so far.

        atlas = anyreward.explore(env, horizon=20, epsilon=2.0)                        # until all plans are that good
        atlas = anyreward.explore(env, horizon=20, max_seconds=60, stationary=True)    # as good as a minute makes it

    Parameters
    ----------
    env
        What to explore: a `TabularMDP`, whose transitions are used to simulate and for nothing else; a Gymnasium environment,
        the id of one (`"FrozenLake-v1"`), or a function that makes one; `ar.Gymnasium(env, ...)`, which also says how it becomes
        a process with numbered states; or the name of one of ours (`envs.ENVIRONMENTS`, such as `"double-chain"`).
    horizon
        Steps of an episode, H >= 1.
    epsilon
        Stop as soon as every plan is certain to be epsilon-optimal; in units of reward, where the most an episode can earn
        is sigma_H (H without discount). None: go on until the budget is spent.
    delta
        The certificate may fail with at most this probability, in (0, 1).
    algorithm
        A name from `algorithms.ALGORITHMS`, or an `Explorer` class of your own.
    bounds
        The certificate: `"tight"`; the paper's own, `"paper"`, which means the same and needs hundreds of times more episodes; or
        `"calibrated"`, which needs several times fewer for a small epsilon. That one fixes beforehand how much data it takes,
        says nothing until it has them, and plans from the data that count. Choose before you see results
        (`docs/algorithms.md`).
    stationary
        Whether to assume that the transitions do not depend on the step, which takes far fewer episodes.
    discount
        gamma in (0, 1].
    max_episodes
        Stop there at the latest. The atlas is usable all the same; `certificate.met` is then False.
    seed
        Runs with the same arguments and the same seed are identical, unless they are stopped by time or by Ctrl-C.
    progress
        True or False to show or hide what was found about the environment, how far the exploration is, and, if epsilon was not
        certified, a forecast and what could be assumed if it is known (`suggestions`). None shows it on a terminal, after two
        seconds. Where stderr is no terminal, True writes a line now and then. A function is called instead with (episodes,
        certified epsilon) at every look.
    arrival_rewards
        Whether the certificate is to cover rewards r(h, s, a, s') that depend on the successor as well.
    absorbing_states
        States of a model that are known beforehand never to be left: nothing has to be estimated there.
    initial
        The distribution of a random initial state, if it is known beforehand: S probabilities, or pairs (state, probability). It
        then need not be estimated. Data that contradict it are refused.
    deterministic
        Whether you know beforehand that every transition is deterministic: one visit of a pair is then enough. It is an
        assumption, which the certificate prints; data that contradict it are refused.
    record
        Whether to keep every episode (`Atlas.recording`, `Atlas.to_minari`).
    checkpoint
        A file to save to while exploring. If it is there already, the exploration that it holds is resumed: the same call
        reaches the same atlas, bit for bit, as if it had never been interrupted. A larger max_episodes or a smaller epsilon
        resume it too, except for algorithms that have to know the number of episodes beforehand; with calibrated bounds, epsilon
        has to be the same.
    checkpoint_every
        Seconds between two saves to the checkpoint, 10 unless it is given.
    stop
        `"certificate"`: epsilon is what the bounds certify from the counts. `"own"`: epsilon is what the algorithm's own theorem
        guarantees (`Explorer.own_epsilon`), which is kept in `atlas.source["own"]`.
    max_seconds
        Stop as soon as possible after this many seconds of exploration, as if max_episodes had been reached there. The
        certificate is valid, since it holds at all times at once (calibrated bounds: once their quotas are filled). Such a run
        cannot be repeated by its seed, as it depends on the machine when time is up: explore with the max_episodes that it
        reached. An episode that has begun is played to its end. The audit of an environment does not count, compiling for the
        first time does. With a checkpoint, these are the seconds of this call.
    on_interrupt
        `"return"`: Ctrl-C stops the exploration as if max_episodes had been reached, saves it if there is a checkpoint, and
        returns the atlas so far; a second Ctrl-C raises KeyboardInterrupt at once. `"raise"`: Ctrl-C raises KeyboardInterrupt,
        after saving if there is a checkpoint, for programs that are to end with it. Either is so in the main thread, and unless
        the program handles Ctrl-C in a way of its own.
    structure
        How transitions are drawn, if you know that many states and actions share few laws: a `Structure`, or `"own"` for the one
        that the environment itself has as its attribute `structure`. It takes far fewer episodes. It is an assumption, which the
        certificate prints; transitions that are impossible under it are refused, and if the data contradict it otherwise, the
        exploration ends and the certificate says so.
    rewards
        A list of the rewards that you have in mind, each in any form that `Atlas.plan` takes; `"own"` is that of a model, or what
        a Gymnasium environment pays, which is observed: half of delta is then for its means, of which nothing is assumed but
        `reward_range`, and it takes many more episodes than a reward that is given in full. The exploration then ends as soon as
        each of them has a plan that is certain to be epsilon-optimal, which takes fewer episodes than for every reward, and the
        certificate is about these rewards alone. The algorithm is `"multi-bpi"`, and `reward_range` the range of all of them,
        (0, 1) unless it is given. (A text is an option of BPI-UCRL: what is known of one reward that is observed.)
    mixtures
        Whether the same is wanted for all convex mixtures of these rewards, w_1 r_1 + w_2 r_2 + ... with weights that sum to one:
        when weights are still to be negotiated.
    workers
        Processes of this machine that play episodes side by side, each with a copy of the environment: give its id, a function
        that makes it, or one that can be pickled. For simulators that take 100 µs a step or more.
    n_envs
        Copies of the environment in a vector environment of Gymnasium (`AsyncVectorEnv`), instead of `workers`. A
        `SyncVectorEnv` or `AsyncVectorEnv` of your own can be passed as `env`.
    batch
        Episodes that are played side by side: their policies are fixed before the first of them begins. 8 with `workers`,
        `n_envs` or `executor`. The result depends on the seed and on this number, not on how many workers there are.
    executor
        Who plays the episodes, instead of `workers`: a Dask client, or an executor like those of `concurrent.futures`
        (`docs/workers.md`).
    options
        Options of the algorithm, such as `replan` and `clip` of `RFUCRL`; of the bounds, such as `max_successors`; and all
        arguments of `Gymnasium` (bins, max_states, terminal, action_masks, initial_state, env_args, step_timeout, state_names,
        action_names) by their names.

    Whenever the number of episodes has grown by the explorer's `growth` (3%), the certificate is looked at if it may be what is
    wanted, and for the history now and then (`docs/theory.md`, 23); and whenever the explorer says that it is there: under
    `replan="every"`, with its own bound, that is the first episode at which the bound is at most epsilon/2.
    """
    if epsilon is None and max_episodes is None and max_seconds is None:
        raise ValueError(
            "neither epsilon nor max_episodes nor max_seconds is given: exploration needs at least one of them to stop."
        )
    epsilon, seed, delta, seconds, pace, horizon, max_episodes = checked(
        (positive, "epsilon", epsilon, None),
        (whole_number, "seed", seed),
        (probability, "delta", delta),
        (positive, "max_seconds", max_seconds, inf),
        (real_number, "checkpoint_every", checkpoint_every, 10.0),
        (whole_number, "horizon", horizon),
        (whole_number, "max_episodes", max_episodes, None),
    )
    if seed < 0:
        raise ValueError(f"seed is {seed}: it cannot be negative.")
    most = most_episodes(max_episodes, horizon)
    several, shown_at_once = rewards is not None and is_list(rewards), is_shown(progress)
    kind, name, bounds = meant(algorithm, bounds, several)
    if checkpoint_every is not None and checkpoint is None:
        raise ValueError("checkpoint_every is given, but no checkpoint to save to: give that too, or leave it out.")
    file = None if checkpoint is None else Checkpoint(checkpoint, pace)
    if stop not in ("certificate", "own"):
        raise ValueError(f"stop is {shown(stop)}: it has to be 'certificate' or 'own'.")
    if on_interrupt not in ("return", "raise"):
        raise ValueError(f"on_interrupt is {shown(on_interrupt)}: it has to be 'return' or 'raise'.")
    if record and bounds == CalibratedBound.name:
        raise ValueError("record is True, but with calibrated bounds only counts are kept: leave it out, or use tight bounds.")
    if record and not kind.plays_episodes:
        raise ValueError(f"record is True, but {kind.__name__} plays no episodes that could be kept.")
    parallel, env = side_by_side(kind, env, batch=batch, workers=workers, n_envs=n_envs, executor=executor)
    adapter = {name: options.pop(name) for name in ADAPTER if name in options}
    environment: Environment
    env = as_model(env, adapter if initial is None else {**adapter, "initial": initial})
    if structure is not None:
        structure = declared(structure, env, stationary, bounds)
        stationary = not structure.step_dependent
    if isinstance(env, TabularMDP):
        if parallel is not None:
            raise ValueError(f"{parallel.argument} is for Gymnasium environments: a known model is simulated at compiled speed.")
        setting = env.setting(horizon, discount, stationary, arrival_rewards, absorbing_states, initial)
        if shown_at_once:
            audit(env, setting.horizon).show(progress, None, delta)
        environment, p_stationary = TabularEnvironment(env, setting, seed, record), float(env.n_steps is None)
    else:
        if absorbing_states:
            raise ValueError("absorbing_states is for models: a Gymnasium environment tells where its episodes end.")
        environment, report = audited_environment(
            env, horizon, stationary, seed, progress=progress, made_by=None if parallel is None else parallel.environment(env),
            discount=discount, arrival_rewards=arrival_rewards, record=record,
        )  # fmt: skip
        p_stationary = report.stationary
        report.show(progress, epsilon, delta)
        for line in report.lines():
            log.info("%s", plain(line))
        if not shown_at_once:
            for alarm in report.alarms:
                warnings.warn(f"{environment.name}: {alarm.removeprefix('warning: ')}", stacklevel=2)
    if structure is not None:
        environment.setting = replace(environment.setting, structure=structure)  # type: ignore[arg-type]
    if several:
        own = env.reward if isinstance(env, TabularMDP) else None
        within = checked_range(options.get("reward_range", UNIT))
        observed = not isinstance(env, TabularMDP)
        options["rewards"] = given_rewards(rewards, environment.setting, within, environment.numbering, own, observed)
        options |= {"mixtures": boolean(mixtures, "mixtures")}
    elif rewards is not None:
        options["rewards"] = rewards
    if mixtures and not several:
        raise ValueError("mixtures is True, but no list of rewards is given: give one, or leave it out.")
    explorer = make_explorer(
        kind,
        environment.setting,
        {
            "delta": delta,
            "bounds": bounds,
            "seed": seed,
            **({"deterministic": deterministic} if deterministic else {}),
            **options,
        },
        own_reward=env.reward if isinstance(env, TabularMDP) else OBSERVED,
        max_episodes=max_episodes,
        epsilon=epsilon,
        also=inspect.signature(explore).parameters,
    )
    explorer.counts.numbering = environment.numbering
    masked = environment.setting.hidden_masks or environment.setting.illegal_actions
    if stop == "own" and not kind.handles_masks and masked:
        raise ValueError(
            f"stop is 'own', but the guarantee of {kind.__name__} says nothing where actions may be illegal: leave it out, "
            "or pass action_masks='none' if none ever is."
        )
    with ExitStack() as stack:
        if file is not None:
            explorer.state()  # says so if it cannot be saved, before anything is played
            file.call = call_of(environment, explorer, name, seed, explorer.options, record)
            stack.enter_context(file_lock(file.path))
            clear_drafts(file.path)
        if parallel is not None:
            stack.enter_context(parallel.opened(environment))
        run = Run(
            environment,
            explorer,
            algorithm=name,
            options=explorer.options,
            seed=seed,
            epsilon=epsilon,
            max_episodes=most if max_episodes is None else max_episodes,
            max_seconds=seconds,
            stop_by=stop,
            checkpoint=file,
            on_interrupt=on_interrupt,
        )
        if file is not None or on_interrupt == "return":
            stack.enter_context(run.interrupts.heard())
        low, high = explorer.reward_range
        largest = (high - low) * (1.0 if getattr(explorer, "paid_once", False) else float(environment.setting.sigma[-1]))
        with Progress(progress, epsilon, max_episodes, seconds, largest, run.t, run.history) as show:
            atlas = run.go(show)
        if shown_at_once and not run.is_done(atlas) and not run.interrupts.requested:
            screen = console(stderr=True)
            with suppress(Exception):  # advice is not worth the loss of what was explored
                for line in outlook(atlas, show.rate, p_stationary):
                    screen.print(worded(line), style="dim", soft_wrap=not screen.is_terminal)
        return atlas


def declared(structure: Any, env: TabularMDP | Gymnasium, stationary: bool, bounds: Any) -> Structure:
    """The structure that is meant. Raises if there is none, or if it does not go together with what else is asked for."""
    if isinstance(structure, str) and structure == OWN:
        own = env if isinstance(env, TabularMDP) else getattr(env.env, "unwrapped", env.env)
        structure = getattr(own, "structure", None)
        if structure is None:
            raise ValueError(
                "structure is 'own', but the environment has no attribute structure: declare it with ar.Structure. (An "
                "environment that is only named, or a function that makes one, does not count: pass the environment itself.)"
            )
    if not isinstance(structure, Structure):
        raise ValueError(f"structure is {shown(structure)}: it has to be a Structure, or 'own'.")
    if stationary and structure.step_dependent:
        raise ValueError("structure has laws that depend on the step, but stationary is True: leave one of them out.")
    named = isinstance(bounds, str) and bounds in ("tight", CalibratedBound.name)
    if not (named or isinstance(bounds, TightBound)):
        raise ValueError(f"the bounds {shown(bounds)} do not know of a structure: use 'tight' or 'calibrated'.")
    return structure


def side_by_side(kind: type[Explorer], env: Any, **asked: Any) -> tuple[Parallel | None, Any]:
    """How episodes are played side by side, if that is asked for (`Parallel`), and what is explored: of a vector, one part."""
    given = env.env if isinstance(env, Gymnasium) else env
    vector = None if isinstance(given, TabularMDP | str) or not is_vector(given) else given
    name = next((name for name, value in asked.items() if value is not None), None)
    if name is None and vector is None:
        return None, env
    if not (kind.batches and kind.plays_episodes):
        what = "env is a vector environment" if name is None else f"{name} is given"
        raise ValueError(f"{what}, but {kind.__name__} cannot play episodes side by side: use another algorithm.")
    from ..environments.parallel import Parallel  # whoever does not ask for it does not wait for what it imports

    parallel = Parallel.of(**asked, vector=vector)
    return parallel, parallel.part(env)


def check_episodes(max_episodes: int | None, horizon: int) -> int:
    """How many episodes can be counted exactly; raises if more are asked for, or what is not a number of them."""
    return most_episodes(*checked((whole_number, "max_episodes", max_episodes, None), (whole_number, "horizon", horizon)))


def most_episodes(max_episodes: int | None, horizon: int) -> int:
    """How many episodes can be counted exactly; raises if more are asked for."""
    if max_episodes is not None and max_episodes < 0:
        raise ValueError(f"max_episodes is {max_episodes}: it cannot be negative.")
    most = LARGEST_COUNT // (max(1, horizon) + 1)
    if max_episodes is not None and max_episodes > most:
        raise ValueError(f"max_episodes is {max_episodes}: beyond {most:,} episodes of this horizon, counts would not be exact.")
    return most


def identify(env: Any, reward: Reward, horizon: int, epsilon: float | None = None, delta: float = 0.1, **options: Any) -> Atlas:
    """Finds a policy that is epsilon-optimal for one reward, by BPI-UCRL: `atlas.policy` is the recommendation.

        atlas = anyreward.identify(env, reward, horizon=20, epsilon=2.0)
        atlas.policy                                            # (H, S) integers

    Far fewer episodes than for every reward. `options` are those of `explore` and of `BPIUCRL`; the certificate is about this
    reward and this policy only. The reward `"own"` is that of the model or what the environment pays, which is then observed on
    the way; say what you know of it as to `Atlas.plan` (`reward_range`, `paid_once`, `stationary_rewards`;
    `rewards="deterministic"` if the same step, state and action always pay the same).
    """
    if "algorithm" in options:
        raise ValueError("algorithm is not an option of identify, which is BPI-UCRL: use explore for another one.")
    return explore(env, horizon, epsilon, delta, algorithm="bpi-ucrl", reward=reward, **options)

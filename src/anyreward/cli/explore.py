"""The command explore."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..words import is_terminal, up
from .app import (
    NOT_MET,
    ActionNames,
    AsJson,
    Bins,
    Env,
    EnvArgs,
    Initial,
    Masks,
    MaxStates,
    Quiet,
    RewardRange,
    Scheduler,
    Seed,
    StateNames,
    StructureOf,
    Terminal,
    app,
    arguments,
    certificate_facts,
    examples,
    initial_of,
    known_algorithms,
    literal,
    masks_of,
    names_of,
    report_errors,
    say,
    say_json,
    two_numbers,
)
from .environment import environment
from .environment import structure as structure_of


@app.command(
    epilog=examples(
        "anyreward explore double-chain --horizon 20 --epsilon 2 --out chain.atlas",
        "anyreward explore FrozenLake-v1 --horizon 20 --epsilon 2 --stationary --out lake.atlas",
        "anyreward explore FrozenLake-v1 --horizon 8 --epsilon 0.5 --algorithm bpi-ucrl --reward own --out lake.atlas",
        'anyreward explore double-chain --horizon 20 --epsilon 2 --reward "state == 30" --reward own --out two.atlas',
    )
)
@report_errors
def explore(
    env: Env,
    horizon: Annotated[int, typer.Option(help="Number of steps of an episode.", show_default=False)],
    out: Annotated[
        Path, typer.Option(help="The atlas file to write. It is saved every ten seconds and at the end.", show_default=False)
    ],
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Stop as soon as every plan is certified to be epsilon-optimal. In units of reward: an episode earns at most "
            "the horizon. By default explore until --max-episodes or --max-seconds."
        ),
    ] = None,
    delta: Annotated[float, typer.Option(help="The probability with which the certificate may fail, at most.")] = 0.1,
    max_episodes: Annotated[int | None, typer.Option(help="Stop after this many episodes. By default there is no limit.")] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(
            help="Stop after this many seconds of exploration, counted anew with --resume. By default there is no limit."
        ),
    ] = None,
    algorithm: Annotated[
        str,
        typer.Option(help="The exploration algorithm; 'anyreward algorithms' lists them.", autocompletion=known_algorithms),
    ] = "rf-trajectory",
    bounds: Annotated[
        str,
        typer.Option(
            help="The certificate: tight; calibrated, which plans its data beforehand and needs fewer episodes for a small "
            "epsilon; or paper, the paper's own, which needs far more."
        ),
    ] = "tight",
    stationary: Annotated[
        bool,
        typer.Option("--stationary", help="Assume that the transitions do not depend on the step; needs far fewer episodes."),
    ] = False,
    deterministic: Annotated[
        bool,
        typer.Option("--deterministic", help="Assume that every transition is deterministic; one visit of each is enough then."),
    ] = False,
    structure: StructureOf = None,
    discount: Annotated[float, typer.Option(help="The discount, above 0 and at most 1.")] = 1.0,
    env_arg: EnvArgs = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="K=V", help="An option of the algorithm or of the bounds, such as replan=every. May be repeated."),
    ] = None,
    reward: Annotated[
        list[str] | None,
        typer.Option(
            help="Explore for this reward only, until it has a plan that is certain to be epsilon-optimal: a file, an "
            "expression, or own, as for 'anyreward plan'. May be repeated, for several rewards."
        ),
    ] = None,
    mixtures: Annotated[
        bool, typer.Option("--mixtures", help="With several --reward: certify all their convex mixtures as well.")
    ] = False,
    reward_range: RewardRange = None,
    initial_state: Annotated[
        int | None,
        typer.Option(help="The number of the state in which every episode starts, if you know it. By default it is estimated."),
    ] = None,
    initial: Initial = None,
    arrival_rewards: Annotated[
        bool, typer.Option("--arrival-rewards", help="Certify also for rewards that depend on the next state.")
    ] = False,
    bins: Bins = None,
    max_states: MaxStates = None,
    terminal: Terminal = None,
    action_masks: Masks = None,
    state_names: StateNames = None,
    action_names: ActionNames = None,
    step_timeout: Annotated[
        float | None,
        typer.Option(help="The seconds that one step of a Gymnasium environment may take. By default there is no limit."),
    ] = None,
    stop: Annotated[
        str, typer.Option(metavar="certificate|own", help="Stop on our certificate, or on the algorithm's own guarantee.")
    ] = "certificate",
    workers: Annotated[
        int | None,
        typer.Option(help="Play the episodes of a Gymnasium environment in that many processes. By default in this one."),
    ] = None,
    n_envs: Annotated[
        int | None,
        typer.Option(help="Play them in a Gymnasium vector environment of that many copies, in place of --workers."),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            help="Episodes that are played side by side, 8 with --workers, --n-envs or --scheduler. The result depends on this "
            "number and the seed, not on the number of workers."
        ),
    ] = None,
    scheduler: Scheduler = None,
    record: Annotated[bool, typer.Option("--record", help="Keep every episode in the file.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the exploration that is saved in the file of --out.")] = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Explore an environment until every plan is certified.

    The result is an atlas file: the counts of all transitions, with a certificate that says how far from optimal a plan can be,
    for every reward at once. Give --epsilon, --max-episodes, --max-seconds, or several of them. Interrupted explorations are
    resumed with --resume.
    """
    from .._files import check_writable
    from ..executors import cluster
    from ..exploring.explore import explore as run

    check_writable(out)
    if out.exists() and not resume:
        raise ValueError(f"{out} exists already: pass --resume to continue its exploration, or choose another name.")
    if resume and not out.exists():
        raise ValueError(f"{out} does not exist: leave out --resume to start a new exploration.")
    options = {**arguments(option, "--option")}
    known = set(inspect.signature(run).parameters) - {"rewards"}  # as an option it tells what is known of an observed reward
    taken = next((name for name in options if name in known), None)
    if taken is not None:
        raise ValueError(f"--option {taken}=... is not for options of the algorithm: write --{taken.replace('_', '-')} instead.")
    if reward is not None:
        options |= {"reward": reward[0]} if len(reward) == 1 and needs_reward(algorithm) else {"rewards": reward}
    if reward_range is not None:
        options["reward_range"] = two_numbers(reward_range)
    if initial_state is not None:
        options["initial_state"] = initial_state
    chosen, env_args = environment(env, env_arg)
    progress = False if quiet or as_json else None if is_terminal(sys.stderr) else True
    with cluster(scheduler) as executor:
        atlas = run(
            chosen, horizon, epsilon, delta, algorithm, bounds, stationary, discount, max_episodes, seed, progress,
            arrival_rewards=arrival_rewards, deterministic=deterministic, bins=literal(bins, "--bins"),
            initial=initial_of(initial), max_states=max_states, terminal=terminal, action_masks=masks_of(action_masks),
            env_args=env_args, step_timeout=step_timeout, record=record, checkpoint=out, stop=stop,
            state_names=names_of(state_names, "--state-names"), action_names=names_of(action_names, "--action-names"),
            max_seconds=max_seconds, mixtures=mixtures, on_interrupt="raise", structure=structure_of(structure),
            workers=workers, n_envs=n_envs, batch=batch, executor=executor, **options,
        )  # fmt: skip
    if not out.exists():  # certified without a single episode: no checkpoint was written, but there is an atlas
        atlas.save(out)
    if as_json:
        say_json({**certificate_facts(atlas), "out": str(out)})
    elif not quiet:
        found = [str(atlas.discover())] if for_goals(algorithm) else []
        say(str(atlas.certificate), *own_lines(atlas.source["own"]), *found, f"saved in {out}")
    missing = "" if for_goals(algorithm) and epsilon is None else shortfall(atlas, epsilon, stop)
    if missing:
        if not quiet:
            typer.echo(missing, err=True)
        raise typer.Exit(NOT_MET)


def own_lines(own: dict[str, Any]) -> list[str]:
    """What an algorithm says of its result itself, in a line, if it is not about plans or a recommended policy."""
    if own.get("excess") is not None:
        return [f"visits as a design: {own['excess']:.2%} above the least possible, over {own['pairs']:,} pairs (h, s, a)"]
    if "about" not in own or own["epsilon"] is None:
        return []
    action = f", {own['first_action']}" if "first_action" in own else ""
    return [f"the algorithm's own guarantee: epsilon {up(own['epsilon'])} for its {own['about']}{action} alone"]


def needs_reward(algorithm: str) -> bool:
    """Whether an algorithm is for one reward."""
    from ..algorithms.registry import explorer_class

    return explorer_class(algorithm).needs_reward


def for_goals(algorithm: str) -> bool:
    """Whether what an algorithm certifies is about reaching states."""
    from ..algorithms.registry import explorer_class

    return explorer_class(algorithm).goal == "goals"


def shortfall(atlas: Any, epsilon: float | None, stop: str) -> str:
    """Why an atlas is not what was asked for, in a sentence; nothing if it is."""
    it, go_on = atlas.certificate, "use --resume with a larger --max-episodes or --max-seconds to continue"
    if stop == "own" and epsilon is not None and atlas.source["own"]["met"]:
        return ""
    if it.says_nothing and it.met:
        apart = f"no two values differ by more than {up(it.largest)}"
        return f"epsilon {epsilon:g} says nothing, since {apart}: ask for a smaller --epsilon."
    if it.says_nothing:
        return f"this certificate says nothing yet, since no two values differ by more than {up(it.largest)}: {go_on}."
    return "" if epsilon is None or it.met else f"epsilon {epsilon:g} was not certified: {go_on}."

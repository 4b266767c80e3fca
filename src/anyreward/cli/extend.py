"""The command extend."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..words import is_terminal
from .app import (
    NOT_MET,
    AsJson,
    AtlasFile,
    Bins,
    Env,
    EnvArgs,
    MaxStates,
    Quiet,
    RewardRange,
    Seed,
    app,
    arguments,
    certificate_facts,
    examples,
    known_algorithms,
    literal,
    report_errors,
    say,
    say_json,
    two_numbers,
)
from .environment import environment


@app.command(
    epilog=examples(
        "anyreward extend chain.atlas double-chain --epsilon 1",
        'anyreward extend lake.atlas FrozenLake-v1 --reward "state == 15" --epsilon 0.5 --out goal.atlas',
    )
)
@report_errors
def extend(
    atlas: AtlasFile,
    env: Env,
    epsilon: Annotated[
        float | None, typer.Option(help="Stop as soon as so much is certified: for every reward, or for each --reward.")
    ] = None,
    max_episodes: Annotated[int | None, typer.Option(help="Stop after this many further episodes.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Stop after this many seconds.")] = None,
    reward: Annotated[
        list[str] | None,
        typer.Option(help="Explore for this reward only, as for 'anyreward explore'. May be repeated, for several rewards."),
    ] = None,
    mixtures: Annotated[
        bool, typer.Option("--mixtures", help="With several --reward: certify all their convex mixtures as well.")
    ] = False,
    reward_range: RewardRange = None,
    algorithm: Annotated[
        str,
        typer.Option(
            help="The algorithm, if no --reward is given; it needs no more than counts.", autocompletion=known_algorithms
        ),
    ] = "rf-trajectory",
    option: Annotated[
        list[str] | None, typer.Option(metavar="K=V", help="An option of the algorithm, such as replan=every. May be repeated.")
    ] = None,
    env_arg: EnvArgs = None,
    bins: Bins = None,
    max_states: MaxStates = None,
    out: Annotated[
        Path | None, typer.Option(help="The file to write. By default the atlas file is replaced, once it is done.")
    ] = None,
    same_environment: Annotated[
        bool,
        typer.Option(
            "--same-environment", help="State that this is the environment that was explored, where that cannot be checked."
        ),
    ] = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Play further episodes into the counts of an atlas.

    The result is an atlas of all episodes, certified for every reward or, with --reward, for those that are given. Ctrl-C ends it
    early and keeps what was played; it is written at the end, not on the way.
    """
    from .. import load
    from .._files import check_writable
    from .explore import shortfall

    it, target = load(atlas), atlas if out is None else out
    check_writable(target)
    options = arguments(option, "--option")
    if reward_range is not None:
        options["reward_range"] = two_numbers(reward_range)
    chosen, env_args = environment(env, env_arg)
    progress = False if quiet or as_json else None if is_terminal(sys.stderr) else True
    longer = it.extend(
        chosen, epsilon=epsilon, max_episodes=max_episodes, max_seconds=max_seconds, rewards=reward, mixtures=mixtures,
        algorithm=algorithm, seed=seed, progress=progress, same_environment=same_environment, env_args=env_args,
        bins=literal(bins, "--bins"), max_states=max_states, **options,
    )  # fmt: skip
    longer.save(target)
    if as_json:
        say_json({**certificate_facts(longer), "out": str(target)})
    elif not quiet:
        say(str(longer.certificate), f"saved in {target}")
    missing = shortfall(longer, epsilon, "certificate").replace("use --resume with a larger", "extend it further with a larger")
    if missing:
        if not quiet:
            typer.echo(missing, err=True)
        raise typer.Exit(NOT_MET)

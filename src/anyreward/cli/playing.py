"""The commands run and verify, which play a plan in its environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..words import confidence_level, down, interval, up
from .app import (
    AsJson,
    AtlasFile,
    Env,
    EnvArgs,
    OwnRewards,
    PaidOnce,
    Quiet,
    RewardOf,
    RewardRange,
    Seed,
    StationaryRewards,
    app,
    assumed_lines,
    examples,
    report_errors,
    say,
    say_json,
    two_numbers,
)
from .environment import environment

PolicyFile = Annotated[
    Path | None,
    typer.Option(help="Play the policy in this file, as for 'anyreward evaluate'. By default the plan for the reward is played."),
]


@app.command(
    epilog=examples(
        'anyreward run lake.atlas FrozenLake-v1 --reward "state == 15" --episodes 1000',
        "anyreward run taxi.atlas Taxi-v3 --reward own --reward-range=-10,20",
    )
)
@report_errors
def run(
    atlas: AtlasFile,
    env: Env,
    reward: RewardOf,
    episodes: Annotated[int, typer.Option(help="How many episodes to play.")] = 100,
    policy: PolicyFile = None,
    reward_range: RewardRange = None,
    rewards: OwnRewards = None,
    stationary_rewards: StationaryRewards = False,
    paid_once: PaidOnce = False,
    cautious: Annotated[bool, typer.Option("--cautious", help="Play the policy whose guaranteed value is largest.")] = False,
    env_arg: EnvArgs = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Play a plan in its environment, and show what it earns.

    The average of a few episodes proves nothing; 'anyreward verify' bounds the true value.
    """
    from .. import load

    it = load(atlas)
    made = it.plan(reward, two_numbers(reward_range), cautious, rewards, stationary_rewards, paid_once=paid_once)
    world, args = environment(env, env_arg)
    played = made if policy is None else made.playing(read(policy, it))
    earned = played.run(world, episodes, seed=seed, env_args=args)
    if as_json:
        say_json({"episodes": len(earned), "mean": earned.mean() if len(earned) else None, "earned": earned.tolist()})
        return
    if not len(earned):
        say("no episode was played")
        return
    say(f"{len(earned):,} episodes earned {earned.mean():.6g} on average, between {earned.min():.6g} and {earned.max():.6g}")
    if policy is None:
        say(f"the plan has the value {made.value:.6g} in the empirical model")
        say(f"with probability {confidence_level(made.delta)}: its true value lies in {interval(made.lower, made.upper, 6)}")


@app.command(
    epilog=examples(
        'anyreward verify chain.atlas double-chain --reward "state == 30" --episodes 2000',
        'anyreward verify chain.atlas double-chain --reward "state == 30" --width 0.1 --against old-policy.csv',
    )
)
@report_errors
def verify(
    atlas: AtlasFile,
    env: Env,
    reward: RewardOf,
    episodes: Annotated[int | None, typer.Option(help="Stop after this many episodes.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Stop after this many seconds.")] = None,
    width: Annotated[float | None, typer.Option(help="Stop when the interval by playing is this narrow.")] = None,
    policy: PolicyFile = None,
    against: Annotated[
        Path | None,
        typer.Option(help="Another policy, as for --policy: bounds by how much the plan is better, in pairs of episodes."),
    ] = None,
    reward_range: RewardRange = None,
    rewards: OwnRewards = None,
    stationary_rewards: StationaryRewards = False,
    paid_once: PaidOnce = False,
    cautious: Annotated[bool, typer.Option("--cautious", help="Verify the policy whose guaranteed value is largest.")] = False,
    delta: Annotated[
        float | None, typer.Option(help="The probability with which the interval may fail. By default that of the atlas.")
    ] = None,
    attempt: Annotated[
        int | None,
        typer.Option(help="If you verify several plans and take the best: the number of this try, from 1. Tries share delta."),
    ] = None,
    env_arg: EnvArgs = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Play a plan on fresh episodes, and bound its true value.

    The interval combines what is earned with what was explored. It holds at all times at once: you may stop with Ctrl-C whenever
    you like what you see.
    """
    from .. import load

    it = load(atlas)
    made = it.plan(reward, two_numbers(reward_range), cautious, rewards, stationary_rewards, paid_once=paid_once)
    if policy is not None:
        made = made.playing(read(policy, it))
    other = None if against is None else read(against, it)
    world, args = environment(env, env_arg)
    found = it.verify(
        made, world, episodes, max_seconds=max_seconds, width=width, against=other, delta=delta, attempt=attempt, seed=seed,
        progress=False if quiet or as_json else None, env_args=args,
    )  # fmt: skip
    if as_json:
        facts: dict[str, Any] = {**found._asdict(), "played": found.played, "explored": found.explored}
        facts |= {"episodes": found.episodes, "delta": found.delta, "played_delta": found.played_delta}
        say_json({**facts, "optimum": found.optimum if against is None else None, "assumptions": found.assumptions})
        return
    sure = f"with probability {confidence_level(found.delta)}"
    if against is None:
        say(f"{found.episodes:,} episodes earned {found.value:.6g} on average")
        say(
            f"{sure}: {down(found.lower, 6)} <= its true value <= {up(found.upper, 6)}, and the optimum <= {up(found.optimum, 6)}"
        )
    else:
        say(f"{found.episodes:,} pairs of episodes: the plan earned {found.value:.6g} more than the other policy on average")
        say(f"{sure}: {down(found.lower, 6)} <= the difference of their true values <= {up(found.upper, 6)}")
        if found.lower > 0:
            say(f"the plan is better by at least {down(found.lower, 6)}")
        elif found.upper < 0:
            say(f"the other policy is better by at least {down(-found.upper, 6)}")
    say(f"by playing alone: {interval(*found.played, 6)}; by what was explored alone: {interval(*found.explored, 6)}")
    say(*assumed_lines(found.assumptions))


def read(path: Path, atlas: Any) -> Any:
    """The policy in a file, (H, S), legal where that is known."""
    from ..atlas.policies import read_policy

    policy = read_policy(path, atlas)
    if policy.ndim != 2:
        raise ValueError(f"{path} holds a policy that chooses its actions at random: only policies (H, S) can be played.")
    return atlas.legal(policy)

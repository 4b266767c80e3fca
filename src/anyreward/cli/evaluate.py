"""The command evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..words import confidence_level, down, up
from .app import (
    AsJson,
    AtlasFile,
    OwnRewards,
    PaidOnce,
    RewardOf,
    RewardRange,
    StationaryRewards,
    app,
    assumed_lines,
    examples,
    report_errors,
    say,
    say_json,
    two_numbers,
)

BEHAVIOUR = "behaviour"  # in place of a file: the policy of the data


@app.command(
    epilog=examples(
        'anyreward evaluate chain.atlas --policy policy.csv --reward "state == 30"',
        "anyreward evaluate lake.atlas --policy mine.npy --reward own",
        "anyreward evaluate desk.atlas --policy behaviour --reward own",
    )
)
@report_errors
def evaluate(
    atlas: AtlasFile,
    policy: Annotated[
        Path,
        typer.Option(
            help="The policy: a .csv file with the columns h, s and a, as 'anyreward plan --out' writes it, or with the names of "
            "states and actions in the columns state and action; or a .npy or .json array of shape (H, S), or (H, S, A) for "
            "probabilities; or behaviour for what was done: the frequencies of the actions in the data.",
            show_default=False,
        ),
    ],
    reward: RewardOf,
    reward_range: RewardRange = None,
    rewards: OwnRewards = None,
    stationary_rewards: StationaryRewards = False,
    paid_once: PaidOnce = False,
    as_json: AsJson = False,
) -> None:
    """Bound the value of a policy of your own, for any reward.

    The true value of the policy lies in the interval with probability 1 - delta, the confidence level of the atlas. This holds
    for all policies and all rewards that are given at once.
    """
    from .. import load
    from ..atlas.policies import read_policy

    it = load(atlas)
    played = it.behaviour if str(policy) == BEHAVIOUR else read_policy(policy, it)
    found = it.evaluate(played, reward, two_numbers(reward_range), rewards, stationary_rewards, paid_once)
    if as_json:
        say_json({**found._asdict(), "delta": found.delta, "assumptions": found.assumptions})
        return
    say(f"value {found.value:.6g} in the empirical model")
    say(f"with probability {confidence_level(found.delta)}: {down(found.lower, 6)} <= its true value <= {up(found.upper, 6)}")
    say(*assumed_lines(found.assumptions))

"""The command plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..words import confidence_level, down, up
from .app import (
    AsJson,
    AtlasFile,
    Grid,
    OwnRewards,
    PaidOnce,
    Quiet,
    RewardOf,
    RewardRange,
    StationaryRewards,
    app,
    assumed_lines,
    examples,
    grid_shape,
    report_errors,
    say,
    say_json,
    two_numbers,
)


@app.command(
    epilog=examples(
        'anyreward plan chain.atlas --reward "state == 30" --out policy.csv --html report.html',
        "anyreward plan lake.atlas --reward own --rewards deterministic",
    )
)
@report_errors
def plan(
    atlas: AtlasFile,
    reward: RewardOf,
    out: Annotated[Path | None, typer.Option(help="Write the policy to this CSV file, with the columns h, s, a.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with the plan, its interval and figures to this file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the plan to this file (.png, .pdf or .svg).")] = None,
    reward_range: RewardRange = None,
    rewards: OwnRewards = None,
    stationary_rewards: StationaryRewards = False,
    paid_once: PaidOnce = False,
    cautious: Annotated[bool, typer.Option("--cautious", help="Choose the policy whose guaranteed value is largest.")] = False,
    allow_unseen: Annotated[
        bool,
        typer.Option(
            "--allow-unseen",
            help="Let the plan choose actions that were never seen in a state where others were. By default it does so only "
            "where the certificate would not hold otherwise.",
        ),
    ] = False,
    improvement: Annotated[
        bool,
        typer.Option(
            "--improvement",
            help="Also certify by how much the plan is better than what was done: the frequencies of the actions.",
        ),
    ] = False,
    grid: Grid = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Find the best policy for a reward, with a certified interval.

    The true value of the policy and the optimum lie in the interval with probability 1 - delta, the confidence level
    of the atlas.

    An expression may use the names state, action, step, next, horizon, states and actions, numbers, + - * / // % **,
    comparisons, and, or, not, "x if c else y", and the functions min, max, abs, floor, sqrt, exp and log.
    """
    from .. import load, plots
    from .._files import check_writable, replace_file
    from ..atlas.policies import write_policy
    from ..pages import plan_page

    it, shape = load(atlas), grid_shape(grid)
    for path in (out, html, plot):
        if path is not None:
            check_writable(path)
    made = it.plan(reward, two_numbers(reward_range), cautious, rewards, stationary_rewards, allow_unseen, paid_once)
    if out is not None:
        write_policy(out, it, made.policy)
    if plot is not None:
        plots.save_figure(plot, made.plot(shape))
    if html is not None:
        replace_file(html, plan_page(made, reward, plots.grid_of(it, shape)).encode())
    better = it.improvement(made) if improvement else None
    if as_json:
        facts = {"value": made.value, "lower": made.lower, "upper": made.upper, "regret_bound": made.regret_bound}
        gain = {} if better is None else {"improvement": better._asdict()}
        say_json({**facts, **gain, "delta": made.delta, "assumptions": made.assumptions, "policy": made.policy.tolist()})
        return
    say(f"value {made.value:.6g} in the empirical model")
    ends = f"{down(made.lower, 6)} <= its true value <= the optimum <= {up(made.upper, 6)}"
    say(f"with probability {confidence_level(made.delta)}: {ends}")
    if better is not None:
        gained = f"{down(better.lower, 6)} <= its true value - the value of what was done <= {up(better.upper, 6)}"
        say(f"at once with that: {gained}; {better.value:.6g} in the empirical model")
    say(*assumed_lines(made.assumptions))
    if not quiet:
        say("", *plots.plan_text(made, shape))
        say(*(f"written: {path}" for path in (out, html, plot) if path is not None))

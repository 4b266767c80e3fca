"""The command plan."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated, Any

import typer

from ..words import confidence_level, down, up
from .app import (
    AsJson,
    AtlasFile,
    Grid,
    Quiet,
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
    reward: Annotated[
        str,
        typer.Option(
            help="A file (.csv, .json or .npy), an expression, or own for what the environment paid while it was explored.",
            show_default=False,
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Write the policy to this CSV file, with the columns h, s, a.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with the plan, its interval and figures to this file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the plan to this file (.png, .pdf or .svg).")] = None,
    reward_range: Annotated[
        str | None, typer.Option(metavar="LOW,HIGH", help="The smallest and the largest possible reward. By default 0,1.")
    ] = None,
    rewards: Annotated[
        str | None,
        typer.Option(
            metavar="random|deterministic",
            help="For --reward own: random (the default) assumes nothing; deterministic assumes that a transition always pays "
            "the same.",
        ),
    ] = None,
    stationary_rewards: Annotated[
        bool, typer.Option("--stationary-rewards", help="For --reward own: assume that rewards do not depend on the step.")
    ] = False,
    cautious: Annotated[bool, typer.Option("--cautious", help="Choose the policy whose guaranteed value is largest.")] = False,
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
    from .._files import check_writable
    from ..rewards.files import read_reward

    it, shape = load(atlas), grid_shape(grid)
    for path in (out, html, plot):
        if path is not None:
            check_writable(path)
    given = reward if reward == "own" else read_reward(reward, it.counts.setting)
    made = it.plan(given, two_numbers(reward_range), cautious, rewards, stationary_rewards)
    if out is not None:
        write_policy(out, it, made)
    if plot is not None:
        plots.save_picture(plot, it, made, shape)
    if html is not None:
        plots.save_report(html, it, made, reward, shape)
    if as_json:
        facts = {"value": made.value, "lower": made.lower, "upper": made.upper, "regret_bound": made.regret_bound}
        say_json({**facts, "delta": made.delta, "assumptions": made.assumptions, "policy": made.policy.tolist()})
        return
    say(f"value {made.value:.6g} in the empirical model")
    ends = f"{down(made.lower, 6)} <= its true value <= the optimum <= {up(made.upper, 6)}"
    say(f"with probability {confidence_level(made.delta)}: {ends}", *assumed_lines(made.assumptions))
    if not quiet:
        say(*(["", "actions at step 0:", *plots.plan_text(it, made, shape)] if plots.grid_of(it, shape) else []))
        say(*(f"written: {path}" for path in (out, html, plot) if path is not None))


def as_cell(text: str) -> str:
    """A text as a cell of a CSV file; it is quoted if a spreadsheet would take it for a formula."""
    return (
        f"'{text}" if text and text[0] in "=+-@\t\r\n＝＋－＠" and not text.lstrip("+-").replace(".", "", 1).isdigit() else text
    )


def write_policy(path: Path, atlas: Any, made: Any) -> None:
    """Write the policy of a plan as CSV: a line for each step and state, with the observation if states have names."""
    from .._files import replace_file

    buffer = io.StringIO()
    writer = csv.writer(buffer)
    named = not atlas.numbering.is_plain
    writer.writerow(["h", "s", "a", *(["state", "action"] if named else [])])
    states = [as_cell(atlas.state_name(s)) for s in range(made.policy.shape[1])] if named else []
    actions = [as_cell(atlas.action_name(a)) for a in range(atlas.counts.setting.n_actions)] if named else []
    for h, row in enumerate(made.policy.tolist()):
        for s, a in enumerate(row):
            writer.writerow([h, s, a, *([states[s], actions[a]] if named else [])])
    replace_file(path, buffer.getvalue().encode())

"""The command trade-off."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .app import AsJson, AtlasFile, RewardOf, app, examples, report_errors, say, say_json


@app.command(
    "trade-off",
    epilog=examples('anyreward trade-off chain.atlas --reward "state == 30" --against "state == 0" --plot trade-off.png'),
)
@report_errors
def trade_off(
    atlas: AtlasFile,
    reward: RewardOf,
    against: Annotated[str, typer.Option(help="The second reward: a file or an expression.", show_default=False)],
    points: Annotated[int, typer.Option(help="How many plans, for shares of the second reward from 0 to 1.")] = 9,
    plot: Annotated[Path | None, typer.Option(help="Draw the curve to this file (.png, .pdf or .svg).")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what can be had of one reward for so much of another.

    Plans for sums of both rewards, with two certified intervals for each, and a line that no policy is beyond.
    """
    from .. import load, plots

    if plot is not None:
        plots.check_drawable(plot)
    curve = load(atlas).trade_off(reward, against, points)
    if plot is not None:
        plots.save_figure(plot, curve.plot())
    if as_json:
        rows = [
            {"share": share, "first": a._asdict(), "second": b._asdict(), "upper": upper}
            for share, a, b, upper in zip(curve.shares.tolist(), curve.first, curve.second, curve.uppers.tolist(), strict=True)
        ]
        say_json({"points": rows, "scales": curve.scales, "delta": curve.delta, "assumptions": curve.assumptions})
        return
    say(*str(curve).split("\n"))
    if plot is not None:
        say(f"drawn in {plot}")

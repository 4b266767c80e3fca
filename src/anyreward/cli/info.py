"""The command info."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..words import exact, up
from .app import AsJson, AtlasFile, Grid, app, certificate_facts, examples, grid_shape, report_errors, say, say_json


@app.command(epilog=examples("anyreward info chain.atlas --plot chain.png", "anyreward info room.atlas --grid 21x21 --json"))
@report_errors
def info(
    atlas: AtlasFile,
    plot: Annotated[
        Path | None,
        typer.Option(help="Also draw the visits of each state and epsilon over time to this file (.png, .pdf or .svg)."),
    ] = None,
    grid: Grid = None,
    as_json: AsJson = False,
) -> None:
    """Show what an atlas certifies and which states it visited.

    Also forecasts how many more episodes would halve its epsilon.
    """
    from .. import load, plots
    from ..exploring.forecast import episodes_for

    it, shape = load(atlas), grid_shape(grid)
    visits = it.counts.state_visits()
    seen, setting = int((visits > 0).sum()), it.counts.setting
    half = it.certificate.epsilon / 2
    more = episodes_for([*it.history, (it.episodes, it.certificate.epsilon)], half)
    more = None if more is None else more - it.episodes
    if plot is not None:
        plots.save_figure(plot, it.plot(shape))
    if as_json:
        facts = {"states_seen": seen, "pairs_seen": it.counts.visited_pairs, "episodes_to_halve": more, "source": it.source}
        say_json({**certificate_facts(it), **facts})
        return
    laws = setting.n_distributions - setting.estimates_start
    lines = [
        str(it.certificate),
        f"explored: {it.source.get('env', 'counts')} with {it.source.get('algorithm', 'data from elsewhere')}",
        f"coverage: {seen:,} of {setting.n_states:,} states, {it.counts.visited_pairs:,} of {laws:,} "
        + ("(s, a)" if setting.stationary else "(h, s, a)"),
    ]
    if it.certificate.target is not None:
        lines.append(f"target: epsilon {exact(it.certificate.target)}, {'reached' if it.certificate.met else 'not reached'}")
    if it.paid is not None:
        low, high = it.paid.range
        units = "" if 0.0 <= low <= high <= 1.0 else " --reward-range LOW,HIGH"
        lines.append(
            f"rewards of the environment: from {low:g} to {high:g}; plan for them with --reward own{units}, "
            "and with --rewards deterministic if you know that a transition always pays the same"
        )
    lines += it.source.get("alarms", [])
    if half > 0:
        aim = f"half of epsilon, {up(half)}"
        lines.append(
            f"forecast: about {more:.2g} more episodes for {aim}" if more is not None else f"forecast: none yet for {aim}"
        )
    say(*lines, "", "visits per state:", *plots.visits_text(it, shape))
    if plot is not None:
        say(f"drawn in {plot}")

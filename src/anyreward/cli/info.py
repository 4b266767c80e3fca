"""The command info."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ..setting import positive
from ..words import exact, up, worded
from .app import (
    AsJson,
    AtlasFile,
    Grid,
    RewardRange,
    app,
    certificate_facts,
    examples,
    grid_shape,
    report_errors,
    say,
    say_json,
    two_numbers,
)
from .certify import found_lines


@app.command(epilog=examples("anyreward info chain.atlas --plot chain.png", "anyreward info room.atlas --grid 21x21 --json"))
@report_errors
def info(
    atlas: AtlasFile,
    plot: Annotated[
        Path | None,
        typer.Option(help="Also draw the visits of each state and epsilon over time to this file (.png, .pdf or .svg)."),
    ] = None,
    grid: Grid = None,
    per_second: Annotated[
        float | None,
        typer.Option(
            help="How many episodes a second can be played, as explore shows it: forecasts are then in time as well. A file does "
            "not know it, since it is the same wherever it was explored."
        ),
    ] = None,
    reward: Annotated[
        str | None,
        typer.Option(help="Also show what makes the interval of the plan for this reward wide: a file, an expression, or own."),
    ] = None,
    reward_range: RewardRange = None,
    as_json: AsJson = False,
) -> None:
    """Show what an atlas certifies and which states it visited.

    Also forecasts how many more episodes its target would take, unless it was reached, and half of its epsilon; and says what
    could be assumed if it is known, and how much that would save. With --reward, shows which steps, states and actions make
    the interval of its plan wide, and forecasts the episodes that would halve it if they were explored for this reward.
    """
    from .. import load, plots
    from ..exploring.forecast import duration, episodes_for, in_words, is_low
    from ..exploring.suggestions import suggestions

    it, shape = load(atlas), grid_shape(grid)
    visits = it.counts.state_visits()
    seen, setting = int((visits > 0).sum()), it.counts.setting
    rate = None if per_second is None else positive(per_second, "per_second")
    half, target = it.certificate.epsilon / 2, it.certificate.target
    looks = [*it.history, (it.episodes, it.certificate.epsilon)]
    aims = {"target": None if it.certificate.met else target, "halve": half}
    needed = {name: None if aim is None else episodes_for(looks, aim) for name, aim in aims.items()}
    more, too_low = {name: None if n is None else n - it.episodes for name, n in needed.items()}, is_low(looks)
    suggested = [] if it.certificate.met else suggestions(it)
    why = None if reward is None else it.explain(reward, two_numbers(reward_range))
    if plot is not None:
        plots.save_figure(plot, it.plot(shape))
    if as_json:
        facts: dict[str, Any] = {
            "states_seen": seen,
            "pairs_seen": it.counts.visited_pairs,
            **{f"episodes_to_{name}": n for name, n in more.items()},
            **{f"seconds_to_{name}": None if n is None or rate is None else n / rate for name, n in more.items()},
            "forecast_is_low": too_low,
        }
        if why is not None:
            facts["interval"] = {"width": why.plan.regret_bound, "episodes_to_halve": why.episodes_to_halve}
            facts["charges"] = [asdict(one) for one in why.charges]
        say_json({**certificate_facts(it), **facts, "suggestions": [asdict(each) for each in suggested], "source": it.source})
        return
    laws = setting.n_distributions - setting.estimates_start
    lines = [
        str(it.certificate),
        f"explored: {it.source.get('env', 'counts')} with {it.source.get('algorithm', 'data from elsewhere')}",
        f"coverage: {seen:,} of {setting.n_states:,} states, {it.counts.visited_pairs:,} of {laws:,} "
        + ("(s, a)" if setting.stationary else "(h, s, a)"),
    ]
    if "log" in it.source:
        lines[2:2] = found_lines(it.source["log"], setting.horizon)
    if target is not None:
        lines.append(f"target: epsilon {exact(target)}, {'reached' if it.certificate.met else 'not reached'}")
    if it.own_reward is not None:
        lines.append("the model has a reward of its own: plan for it with --reward own")
    if it.paid is not None:
        low, high = it.paid.range
        units = "" if 0.0 <= low <= high <= 1.0 else " --reward-range LOW,HIGH"
        lines.append(
            f"rewards of the environment: from {low:g} to {high:g}; plan for them with --reward own{units}, "
            "and with --rewards deterministic if you know that a transition always pays the same"
        )
    lines += map(worded, it.source.get("alarms", []))
    for name, aim in aims.items():
        if aim is not None and aim > 0:
            n, what = more[name], f"epsilon {exact(aim)}" if name == "target" else f"half of epsilon, {up(aim)}"
            lines.append(f"forecast: {'none yet' if n is None else in_words(n, rate, too_low, 'more')} for {what}")
    lines += [worded(str(each)) for each in suggested]
    if why is not None:
        lines += ["", *str(why).splitlines()]
        if rate and why.episodes_to_halve is not None:
            lines[-1] += f", {duration(why.episodes_to_halve / rate)} at this rate"
        lines[-1] += " (anyreward extend --reward)"
    say(*lines, "", "visits per state:", *plots.visits_text(it, shape))
    if plot is not None:
        say(f"drawn in {plot}")

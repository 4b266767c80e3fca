"""HTML: small cards for notebooks, and the report of a plan as one page.

What they look like is in the folder `templates`, where every value is escaped that is not `Markup`. There is no script, and
nothing is loaded from elsewhere. The colours follow the reader's choice of light or dark, and printing keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Undefined
from markupsafe import Markup

from . import outline
from .outline import Line, Outline, Stretch
from .words import confidence_level, down, exact, plain, up

if TYPE_CHECKING:
    from .atlas.atlas import Atlas
    from .atlas.plan import Plan
    from .certificates.certificate import Certificate

CARD_LINES = 6  # states whose actions a card shows
PAGE_LINES = 2_000  # states whose actions a page shows
BARS = 60  # of a chart
MAX_CELLS = 10_000  # of a grid that is drawn


def rendered(name: str, **values: Any) -> str:
    """A page from a template of the folder `templates`. Every value is escaped unless it is `Markup`."""
    return _templates().get_template(name).render(**values)


@cache
def _templates() -> Any:
    """The templates, in which every value is escaped and a missing one is an error."""
    loader = PackageLoader("anyreward")
    return Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, finalize=_shown, trim_blocks=True, lstrip_blocks=True
    )


def part(name: str, *values: Any) -> Markup:
    """A part of a page: one of the macros of the template `parts.html`."""
    return Markup(getattr(_templates().get_template("parts.html").module, name)(*values))


def _shown(value: Any) -> Any:
    """A value as it is displayed: control characters are written as escapes. What is markup already stays as it is."""
    return value if isinstance(value, Markup | Undefined) else plain(str(value))


def interval_bar(lower: float, upper: float, lowest: float, highest: float, value: float | None = None) -> Markup:
    """An interval as a bar within the range of what is possible, with a mark at `value`."""
    width = highest - lowest

    def place(x: float) -> float:
        """Where x is on the bar, in percent."""
        return round(100 * min(1.0, max(0.0, (x - lowest) / width)), 2) if width > 0 else 0.0

    left, right = (place(lower), place(upper)) if width > 0 else (0.0, 100.0)
    said = f"from {down(lower)} to {up(upper)}, where {down(lowest)} to {up(highest)} are possible"
    ends = f"{round(lowest, 9) + 0.0:.6g}", f"{round(highest, 9) + 0.0:.6g}"
    return part("bar", left, round(right - left, 2), None if value is None else place(value), said, *ends)


def certificate_card(certificate: Certificate) -> str:
    """What a certificate says, as a card."""
    return rendered("certificate.html", **certificate_view(certificate))


def certificate_view(certificate: Certificate, *more: tuple[str, Any]) -> dict[str, Any]:
    """The headline of a certificate, its bar, what it is about, and further facts."""
    it, setting = certificate, certificate.setting
    sure = f"with probability at least {confidence_level(it.delta)}"
    claimed = "Claimed by the file, not verified: " if it.claimed else ""
    of_given = (
        "the recommended policy is"
        if not it.rewards
        else f"the cautious plan for each given reward{' and mixture' if it.mixtures else ''} is"
    )
    about = "every plan for every reward is" if it.every_reward else of_given
    head = (
        f"{claimed}{about[0].upper() if not claimed else about[0]}{about[1:]} within ε = {up(it.epsilon)} of the optimum, {sure}."
    )
    if it.says_nothing:
        head = f"{claimed}Nothing is certified yet: ε = {up(it.epsilon)}, and no two values differ by more than {up(it.largest)}."
    of = "a transition" if setting.arrival_rewards else "a step, state and action"
    low, high = it.reward_range
    aim = None
    if it.target is not None:
        aim = f"ε = {exact(it.target)}, {'reached' if it.met else 'not reached'}"
    facts = [
        ("target", aim),
        (
            "rewards",
            f"of {of}, in [{exact(low)}, {exact(high)}]"
            if it.every_reward
            else ("mixtures of " if it.mixtures else "") + "; ".join(it.names) or "one",
        ),
        ("problem", problem(setting)),
        ("data", f"{it.played:,} episodes, {it.kind_of_bounds}"),
        ("assumes", it.assumptions or "only the Markov property"),
        *more,
    ]
    return {"head": head, "bar": interval_bar(0.0, min(it.epsilon, it.largest), 0.0, it.largest), "facts": facts, "chart": None}


def problem(setting: Any) -> str:
    """The sizes of a setting in words."""
    discount = "" if setting.discount == 1.0 else f", discount {exact(setting.discount)}"
    kind = "stationary" if setting.stationary else "step-dependent"
    return f"{setting.n_states:,} states, {setting.n_actions:,} actions, {setting.horizon:,} steps, {kind}{discount}"


def explored(atlas: Atlas) -> str:
    """What was explored, and how."""
    return f"{atlas.source.get('env', 'counts')} with {atlas.source.get('algorithm', 'data from elsewhere')}"


def atlas_card(atlas: Atlas) -> str:
    """What an atlas certifies and which states it visited, as a card."""
    visits, setting = atlas.counts.state_visits(), atlas.counts.setting
    seen = f"{int((visits > 0).sum()):,} of {setting.n_states:,} states visited"
    more = ("explored", explored(atlas)), ("coverage", seen), ("warnings", atlas.source.get("alarms"))
    return rendered("certificate.html", **{**certificate_view(atlas.certificate, *more), "chart": visits_chart(atlas)})


def visits_chart(atlas: Atlas) -> Markup:
    """The visits of each state as bars; with more than `BARS` states, each bar is the most visited of a few."""
    visits = atlas.counts.state_visits().astype(float)
    size = -(-len(visits) // BARS)
    heights = np.pad(visits, (0, -len(visits) % size)).reshape(-1, size).max(axis=1)
    top, many = max(float(heights.max()), 1.0), len(heights)
    step = 600 / max(many, 20)
    bars = [
        tuple(f"{x:.1f}" for x in (i * step, 60 - 58 * height / top, step * 0.85, 58 * height / top))
        for i, height in enumerate(heights.tolist())
        if height > 0
    ]
    each = "each state" if size == 1 else f"the most visited of every {size} states"
    said = f"Visits of {each}, in their order; the highest bar is {int(top):,}."
    return part("chart", bars, f"{max(many, 20) * step:.0f}", said)


def audit_card(lines: Sequence[str]) -> str:
    """The report of an audit as a card; warnings are marked."""
    return rendered("audit.html", head=lines[0], lines=lines[1:])


def result_card(found: Any, bar: Markup | None = None) -> str:
    """What is printed of an answer as a card: its first line, a bar if there is one, further lines, and what is assumed."""
    text, name = str(found), f"{type(found).__name__}("
    head, *lines = (text.removeprefix(name).removesuffix(")") if text.startswith(name) else text).splitlines()
    head, _, assumed = head.partition("; assumes: ")
    facts = [("assumes", assumed or None)]
    return rendered("result.html", head=head, bar=bar, lines=[line.strip() for line in lines], facts=facts)


def plan_card(plan: Plan) -> str:
    """What a plan is worth and what it does, as a card."""
    what = Outline(plan)
    facts = [("thin data", thin_words(plan)), ("assumes", plan.assumptions or "only the Markov property")]
    rows = plan_rows(plan, what.lines(0, CARD_LINES))
    more = len(what.states) - CARD_LINES
    return rendered("plan.html", worth=worth(plan), bar=plan_bar(plan), rows=rows, more=more, facts=facts)


def worth(plan: Plan) -> str:
    """What the interval of a plan means, in a sentence."""
    discounted = "" if plan.atlas.counts.setting.discount == 1.0 else ", discounted"
    scoring, sure = plan.scoring, f"With probability at least {confidence_level(plan.delta)}"
    if plan.lower <= scoring.lowest < scoring.highest <= plan.upper and plan.regret_bound > 1e-9 * abs(plan.upper):
        return "The data say nothing yet about the value of this plan: its interval is the whole range of what is possible."
    return (
        f"{sure}, an episode of this plan earns {down(plan.lower)} to {up(plan.upper)} on average{discounted}, and no policy "
        f"earns more than {up(plan.upper)}: it is at most {up(plan.regret_bound)} worse than the best."
    )


def plan_bar(plan: Plan) -> Markup:
    """The interval of a plan within the range of what its reward can pay at all."""
    return interval_bar(plan.lower, plan.upper, plan.scoring.lowest, plan.scoring.highest, plan.value)


def thin_words(plan: Plan) -> str | None:
    """Where a plan relies on few data, in a sentence; None if it does not."""
    time = outline.thin_time(plan)
    if time <= 0.0:
        return None
    return (
        f"in an average episode, {up(time, 2)} of {plan.atlas.counts.setting.horizon:,} steps rely on an action that was seen "
        f"fewer than {outline.THIN} times there"
    )


def plan_rows(plan: Plan, lines: Sequence[Line]) -> list[dict[str, Any]]:
    """What a plan does in some states: a row for each, with the time that it spends there and how often its actions were seen."""
    return [
        {
            "name": plan.atlas.state_name(line.state),
            "does": [does(plan, stretch, len(line.stretches) > 1) for stretch in line.stretches],
            "time": f"{100 * line.time / plan.atlas.counts.setting.horizon:.2g}%" if line.time > 0 else "–",
        }
        for line in lines
    ]


def does(plan: Plan, stretch: Stretch, several: bool) -> dict[str, Any]:
    """What a plan does in one state for some steps, which are named if there are `several` such stretches."""
    return {
        "steps": f"{stretch.steps}: " if several else "",
        "words": outline.action_words(plan.atlas, stretch.action),
        "soft": stretch.action == outline.ANY,
        "few": ("never seen" if stretch.seen == 0 else f"seen {stretch.seen}×") if stretch.thin else "",
    }


def plan_page(plan: Plan, reward: str, grid: tuple[int, int] | None = None) -> str:
    """The report of a plan as one page: what it is worth, what it does, where the data are thin, and what is assumed.

    Parameters
    ----------
    plan : Plan
    reward : str
        A description of the reward.
    grid : (int, int), optional
        Rows and columns, if the states are the cells of a grid.
    """
    atlas, what = plan.atlas, Outline(plan)
    of = "all plans for the environment's own reward" if plan.scoring.own else "the plans for all given rewards"
    return rendered(
        "report.html",
        reward=reward,
        worth=worth(plan),
        bar=plan_bar(plan),
        value=f"{plan.value:.4g}",
        thin=thin_words(plan),
        grid=None if grid is None else grid_map(plan, grid),
        goes=plan_table(plan, what, 0, what.going),
        elsewhere=plan_table(plan, what, what.going, len(what.states)) if what.going < len(what.states) else None,
        assumed=[
            ("probability", f"at least {confidence_level(plan.delta)}, for {of} from these data at once"),
            ("assumes", plan.assumptions or "only the Markov property"),
        ],
        chart=visits_chart(atlas),
        data=[
            ("explored", explored(atlas)),
            ("problem", problem(atlas.counts.setting)),
            ("warnings", atlas.source.get("alarms")),
            ("certificate", str(atlas.certificate)),
        ],
    )


def plan_table(plan: Plan, what: Outline, start: int, stop: int) -> dict[str, Any]:
    """What a plan does in the states from one place to another of its outline, and how many of them are not shown."""
    shown, rest = min(stop, start + PAGE_LINES), ""
    if shown < stop:
        share = up(100 * what.time_in(shown, stop) / plan.atlas.counts.setting.horizon, 2)
        time = f", in which the plan spends {share}% of its time" if start == 0 else ""
        count = "1 more state is" if stop - shown == 1 else f"{stop - shown:,} more states are"
        rest = f"{count} not shown{time}."
    return {"rows": plan_rows(plan, what.lines(start, shown)), "rest": rest}


def grid_map(plan: Plan, grid: tuple[int, int]) -> dict[str, Any] | None:
    """The cells of a grid, shaded by the time that the plan spends there, with what it does when it is likeliest there."""
    rows, cols = grid
    if rows * cols > MAX_CELLS:
        return None
    time = plan.reach.sum(axis=0)
    top, size = max(float(time[: rows * cols].max()), 1e-300), 600 / max(cols, 8)
    cells = []
    for s, (text, goes) in enumerate(outline.cells(plan, rows * cols)):
        x, y = s % cols * size, s // cols * size
        look = ("#3b7dc4", f"{0.85 * (float(time[s]) / top) ** 0.5:.2f}", "1") if goes else ("#808080", "0.1", "0.35")
        places = (x + 1, y + 1, x + size / 2, y + size / 2, min(0.55, 1.5 / len(text)) * size)
        numbers = dict(zip(("left", "top", "x", "y", "size"), (f"{place:.1f}" for place in places), strict=True))
        cells.append({**numbers, **dict(zip(("fill", "shade", "look"), look, strict=True)), "text": text})
    said = "In each cell, what the plan does at the step at which it is most likely to be there; faint where it never gets."
    wide, tall, side = f"{cols * size:.0f}", f"{rows * size:.0f}", f"{size - 2:.1f}"
    return {"wide": wide, "tall": tall, "side": side, "cells": cells, "said": said}

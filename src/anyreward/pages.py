"""HTML: small cards for notebooks, and the report of a plan as one page.

There is no script, nothing is loaded from elsewhere, and every text is escaped: `element` escapes whatever is not `Html`. The
colours follow the reader's choice of light or dark, and printing keeps them.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from . import outline
from .outline import Line, Outline
from .words import confidence_level, down, exact, plain, up

if TYPE_CHECKING:
    from .atlas.atlas import Atlas
    from .atlas.plan import Plan
    from .certificates.certificate import Certificate

CARD_LINES = 6  # states whose actions a card shows
PAGE_LINES = 2_000  # states whose actions a page shows
BARS = 60  # of a chart
MAX_CELLS = 10_000  # of a grid that is drawn
STYLE = """
.anyreward { font: 14px/1.5 system-ui, sans-serif; max-width: 46rem;
  -webkit-print-color-adjust: exact; print-color-adjust: exact }
.anyreward.card { border: 1px solid rgba(128, 128, 128, .35); border-radius: 8px; padding: .7rem 1rem .8rem; margin: .3rem 0 }
.anyreward .head { font-weight: 600; margin: 0 0 .3rem }
.anyreward p { margin: .3rem 0 .6rem }
.anyreward dl { display: grid; grid-template-columns: minmax(5.5rem, max-content) 1fr; gap: .15rem 1rem; margin: .5rem 0 0 }
.anyreward dt { opacity: .7; margin: 0 } .anyreward dd { margin: 0; overflow-wrap: anywhere }
.anyreward .soft { opacity: .7 } .anyreward .thin { color: #c2620e; font-weight: 600 }
.anyreward ul { margin: 0; padding-left: 1.1rem }
.anyreward .bar { position: relative; height: 1.1rem; margin: .7rem 0 .1rem; border-radius: 4px;
  background: rgba(128, 128, 128, .22) }
.anyreward .bar i { position: absolute; top: 0; bottom: 0; min-width: 2px; border-radius: 4px; background: #3b7dc4 }
.anyreward .bar b { position: absolute; top: -4px; bottom: -4px; width: 3px; margin-left: -1.5px; background: currentColor }
.anyreward .ends { display: flex; justify-content: space-between; font-size: 12px; opacity: .75; margin-bottom: .4rem }
.anyreward table { border-collapse: collapse; width: 100%; margin: .5rem 0; font-variant-numeric: tabular-nums }
.anyreward th, .anyreward td { text-align: left; padding: .22rem .8rem .22rem 0; vertical-align: top; background: none;
  border-bottom: 1px solid rgba(128, 128, 128, .25); overflow-wrap: break-word }
.anyreward th { font-weight: 600 } .anyreward thead th { font-weight: 400; opacity: .7; white-space: nowrap }
.anyreward .right { text-align: right; padding-right: 0; white-space: nowrap }
.anyreward .does { padding-right: .8rem } .anyreward .does span { white-space: nowrap }
.anyreward svg { display: block; max-width: 100%; height: auto; margin: .5rem 0 }
.anyreward tr { break-inside: avoid }
@media (max-width: 32rem) {
  .anyreward thead { display: none }
  .anyreward tr { display: grid; grid-template-columns: 1fr auto; border-bottom: 1px solid rgba(128, 128, 128, .25) }
  .anyreward th, .anyreward td { border: 0; min-width: 0 } .anyreward .does { grid-row: 2; grid-column: 1 / 3 }
}
"""
PAGE_STYLE = """
:root { color-scheme: light dark }
body { margin: 0; background: Canvas; color: CanvasText }
main.anyreward { font-size: 15px; margin: 0 auto; padding: 1.5rem 1rem 3rem }
main.anyreward h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .2rem }
main.anyreward h2 { font-size: 1.1rem; margin: 2rem 0 .2rem }
main.anyreward .lead { font-size: 1.05rem } main.anyreward .bar { height: 1.6rem; margin-top: 1.2rem }
@media print { :root { color-scheme: light } main.anyreward { max-width: none; padding: 0; font-size: 11pt } }
"""


def rendered(name: str, **values: Any) -> str:
    """A page from a template of the folder `templates`. Every value is escaped unless it is `Markup`."""
    return _templates().get_template(name).render(**values)


@cache
def _templates() -> Any:
    """The templates, in which every value is escaped and a missing one is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(loader=PackageLoader("anyreward"), autoescape=True, undefined=StrictUndefined)


class Html(str):
    """A text that is HTML already, and is not escaped again."""

    def __add__(self, other: str) -> Html:
        return Html(super().__add__(other if isinstance(other, Html) else escaped(other)))


def element(name: str, *children: Any, **attributes: Any) -> Html:
    """An HTML element. Children and values of attributes are escaped, except for `Html`; an attribute may be called `class_`."""
    written = "".join(f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"' for key, value in attributes.items())
    inner = "".join(child if isinstance(child, Html) else escaped(child) for child in children)
    return Html(f"<{name}{written}>{inner}</{name}>")


def escaped(text: Any) -> str:
    """A text as HTML displays it literally; control characters are written as escapes."""
    return html.escape(plain(str(text)))


def joined(parts: Iterable[str]) -> Html:
    """Pieces of HTML, one after the other."""
    return Html("".join(parts))


def card(*parts: Html) -> str:
    """A card for a notebook, with its style."""
    return element("div", Html(f"<style>{STYLE}</style>"), *parts, class_="anyreward card")


def facts(rows: Iterable[tuple[str, Any]]) -> Html:
    """Names with their values; what is None or empty is left out, and several values are a list."""
    return element(
        "dl",
        *(
            element("dt", name) + element("dd", listed(value) if isinstance(value, list | tuple) else value)
            for name, value in rows
            if value is not None and value != () and value != []
        ),
    )


def listed(values: Sequence[Any]) -> Html:
    """Values as a list; a single one as it is."""
    if len(values) == 1:
        return Html(escaped(values[0]))
    return element("ul", *(element("li", value) for value in values))


def interval_bar(lower: float, upper: float, lowest: float, highest: float, value: float | None = None) -> Html:
    """An interval as a bar within the range of what is possible, with a mark at `value`."""
    width = highest - lowest

    def place(x: float) -> float:
        """Where x is on the bar, in percent."""
        return round(100 * min(1.0, max(0.0, (x - lowest) / width)), 2) if width > 0 else 0.0

    left, right = (place(lower), place(upper)) if width > 0 else (0.0, 100.0)
    parts = [element("i", style=f"left:{left}%;width:{round(right - left, 2)}%")]
    if value is not None:
        parts.append(element("b", style=f"left:{place(value)}%"))
    said = f"from {down(lower)} to {up(upper)}, where {down(lowest)} to {up(highest)} are possible"
    ends = element("span", f"{round(lowest, 9) + 0.0:.6g}"), element("span", f"{round(highest, 9) + 0.0:.6g}")
    return element("div", *parts, class_="bar", role="img", aria_label=said) + element("div", *ends, class_="ends")


def certificate_card(certificate: Certificate) -> str:
    """What a certificate says, as a card."""
    return card(*certificate_parts(certificate))


def certificate_parts(certificate: Certificate, *more: tuple[str, Any]) -> list[Html]:
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
    return [
        element("p", head, class_="head"),
        interval_bar(0.0, min(it.epsilon, it.largest), 0.0, it.largest),
        facts(
            [
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
        ),
    ]


def problem(setting: Any) -> str:
    """The sizes of a setting in words."""
    discount = "" if setting.discount == 1.0 else f", discount {exact(setting.discount)}"
    kind = "stationary" if setting.stationary else "step-dependent"
    return f"{setting.n_states:,} states, {setting.n_actions:,} actions, {setting.horizon:,} steps, {kind}{discount}"


def atlas_card(atlas: Atlas) -> str:
    """What an atlas certifies and which states it visited, as a card."""
    visits, setting = atlas.counts.state_visits(), atlas.counts.setting
    env, algorithm = atlas.source.get("env", "counts"), atlas.source.get("algorithm", "data from elsewhere")
    seen = f"{int((visits > 0).sum()):,} of {setting.n_states:,} states visited"
    more = ("explored", f"{env} with {algorithm}"), ("coverage", seen), ("warnings", atlas.source.get("alarms"))
    return card(*certificate_parts(atlas.certificate, *more), visits_chart(atlas))


def visits_chart(atlas: Atlas) -> Html:
    """The visits of each state as bars; with more than `BARS` states, each bar is the most visited of a few."""
    visits = atlas.counts.state_visits().astype(float)
    size = -(-len(visits) // BARS)
    heights = np.pad(visits, (0, -len(visits) % size)).reshape(-1, size).max(axis=1)
    top, many = max(float(heights.max()), 1.0), len(heights)
    step = 600 / max(many, 20)
    bars = [
        element("rect", x=f"{i * step:.1f}", y=f"{60 - 58 * height / top:.1f}", width=f"{step * 0.85:.1f}",
                height=f"{58 * height / top:.1f}", fill="#3b7dc4")
        for i, height in enumerate(heights.tolist()) if height > 0
    ]  # fmt: skip
    each = "each state" if size == 1 else f"the most visited of every {size} states"
    said = f"Visits of {each}, in their order; the highest bar is {int(top):,}."
    picture = element("svg", *bars, viewBox=f"0 0 {max(many, 20) * step:.0f} 60", width=600, role="img", aria_label=said)
    return picture + element("p", said, class_="soft")


def audit_card(lines: Sequence[str]) -> str:
    """The report of an audit as a card; warnings are marked."""
    parts = [element("li", line.strip(), **({"class_": "thin"} if line.startswith("warning") else {})) for line in lines[1:]]
    return card(element("p", lines[0], class_="head"), element("ul", *parts))


def plan_card(plan: Plan) -> str:
    """What a plan is worth and what it does, as a card."""
    what = Outline(plan)
    more = len(what.states) - CARD_LINES
    return card(
        element("p", *worth(plan), class_="head"),
        plan_bar(plan),
        plan_table(plan, what.lines(0, CARD_LINES)),
        element("p", f"and {more:,} more state{'s' if more > 1 else ''}", class_="soft") if more > 0 else Html(),
        facts([("thin data", thin_words(plan)), ("assumes", plan.assumptions or "only the Markov property")]),
    )


def worth(plan: Plan) -> tuple[str, ...]:
    """What the interval of a plan means, in a sentence."""
    discounted = "" if plan.atlas.counts.setting.discount == 1.0 else ", discounted"
    scoring, sure = plan.scoring, f"With probability at least {confidence_level(plan.delta)}"
    if plan.lower <= scoring.lowest < scoring.highest <= plan.upper and plan.regret_bound > 1e-9 * abs(plan.upper):
        return ("The data say nothing yet about the value of this plan: its interval is the whole range of what is possible.",)
    return (
        f"{sure}, an episode of this plan earns {down(plan.lower)} to {up(plan.upper)} on average{discounted}, and no policy "
        f"earns more than {up(plan.upper)}: it is at most {up(plan.regret_bound)} worse than the best.",
    )


def plan_bar(plan: Plan) -> Html:
    """The interval of a plan within the range of what its reward can pay at all."""
    return interval_bar(plan.lower, plan.upper, plan.scoring.lowest, plan.scoring.highest, plan.value)


def thin_words(plan: Plan) -> str | None:
    """Where a plan relies on few data, in a sentence; None if it does not."""
    time = outline.thin_time(plan)
    if time <= 0.0:
        return None
    return (
        f"in an average episode, {up(time, 2)} of {len(plan.policy):,} steps rely on an action that was seen fewer than "
        f"{outline.THIN} times there"
    )


def plan_table(plan: Plan, lines: Sequence[Line]) -> Html:
    """What a plan does in some states: a row for each, with the time that it spends there and how often its actions were seen."""
    heads = element("tr", element("th", "state"), element("th", "what it does"), element("th", "time there", class_="right"))
    rows = [
        element(
            "tr",
            element("th", plan.atlas.state_name(line.state), scope="row"),
            element("td", *does(plan, line), class_="does"),
            element("td", f"{100 * line.time / len(plan.policy):.2g}%" if line.time > 0 else "–", class_="right"),
        )
        for line in lines
    ]
    return element("table", element("thead", heads), element("tbody", *rows))


def does(plan: Plan, line: Line) -> list[Html]:
    """What a plan does in one state, stretch by stretch."""
    parts: list[Html] = []
    for stretch in line.stretches:
        steps = "" if len(line.stretches) == 1 else f"{stretch.steps}: "
        few = "never seen" if stretch.seen == 0 else f"seen {stretch.seen}×"
        mark = [Html(" "), element("span", few, class_="thin")] if stretch.thin else []
        look = {"class_": "soft"} if stretch.action == outline.ANY else {}
        parts += [Html("<br>")] if parts else []
        parts += [
            element("span", steps, class_="soft"),
            element("span", outline.action_words(plan.atlas, stretch.action), **look),
        ]
        parts += mark
    return parts


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
    atlas, what, thin = plan.atlas, Outline(plan), thin_words(plan)
    of = "all plans for the environment's own reward" if plan.scoring.own else "the plans for all given rewards"
    body = [
        element("h1", "A plan and what it is worth"),
        element("p", "for the reward ", element("code", reward), class_="soft"),
        element("p", *worth(plan), class_="lead"),
        plan_bar(plan),
        element("p", "The bar is the certified interval, within all that the reward can pay in an episode. The mark is the value "
                f"of the plan in the model that was estimated from the data, {plan.value:.4g}.", class_="soft"),
        element("p", element("span", "Thin data: ", class_="thin"), f"{thin}.") if thin else Html(),
        element("h2", "What it does"),
        element("p", "The states in which the plan spends most of its time come first. Steps at which it does not get to a state "
                "are left out. Any: all actions that were tried are equally good there. The time is that in the estimated model.",
                class_="soft"),
        grid_map(plan, grid) if grid is not None else Html(),
        *plan_tables(plan, what, 0, what.going),
    ]  # fmt: skip
    if what.going < len(what.states):
        body += [
            element("h2", "Elsewhere"),
            element("p", "States that were visited while exploring, in which the plan never gets in the estimated model.",
                    class_="soft"),
            *plan_tables(plan, what, what.going, len(what.states)),
        ]  # fmt: skip
    body += [
        element("h2", "What is assumed"),
        facts(
            [
                (
                    "probability",
                    f"at least {confidence_level(plan.delta)}, for {of} from these data at once",
                ),
                ("assumes", plan.assumptions or "only the Markov property"),
            ]
        ),
        element("h2", "The data"),
        visits_chart(atlas),
        facts(
            [
                ("explored", f"{atlas.source.get('env', 'counts')} with {atlas.source.get('algorithm', 'data from elsewhere')}"),
                ("problem", problem(atlas.counts.setting)),
                ("warnings", atlas.source.get("alarms")),
                ("certificate", str(atlas.certificate)),
            ]
        ),
    ]
    return document("A plan and what it is worth", body)


def plan_tables(plan: Plan, what: Outline, start: int, stop: int) -> list[Html]:
    """What a plan does in the states from one place to another of its outline, and how many of them are not shown."""
    shown = min(stop, start + PAGE_LINES)
    parts = [plan_table(plan, what.lines(start, shown))]
    if shown < stop:
        share = up(100 * what.time_in(shown, stop) / len(plan.policy), 2)
        time = f", in which the plan spends {share}% of its time" if start == 0 else ""
        count = "1 more state is" if stop - shown == 1 else f"{stop - shown:,} more states are"
        parts.append(element("p", f"{count} not shown{time}.", class_="soft"))
    return parts


def grid_map(plan: Plan, grid: tuple[int, int]) -> Html:
    """The cells of a grid, shaded by the time that the plan spends there, with what it does when it is likeliest there."""
    rows, cols = grid
    if rows * cols > MAX_CELLS:
        return Html()
    time = plan.reach.sum(axis=0)
    top, size = max(float(time[: rows * cols].max()), 1e-300), 600 / max(cols, 8)
    cells = []
    for s, (text, goes) in enumerate(outline.cells(plan, rows * cols)):
        x, y = s % cols * size, s // cols * size
        fill = {"fill": "#3b7dc4", "fill_opacity": f"{0.85 * (float(time[s]) / top) ** 0.5:.2f}"}
        place = {"x": f"{x + 1:.1f}", "y": f"{y + 1:.1f}", "width": f"{size - 2:.1f}", "height": f"{size - 2:.1f}"}
        cells.append(element("rect", **place, **(fill if goes else {"fill": "#808080", "fill_opacity": "0.1"})))
        place = {"x": f"{x + size / 2:.1f}", "y": f"{y + size / 2:.1f}", "font_size": f"{min(0.55, 1.5 / len(text)) * size:.1f}"}
        look = {"fill": "currentColor", "opacity": "1" if goes else "0.35", "text_anchor": "middle"}
        cells.append(element("text", text, **place, **look, dominant_baseline="central"))
    said = "In each cell, what the plan does at the step at which it is most likely to be there; faint where it never gets."
    picture = element("svg", *cells, viewBox=f"0 0 {cols * size:.0f} {rows * size:.0f}", width=f"{cols * size:.0f}", role="img",
                      aria_label=said)  # fmt: skip
    return picture + element(
        "p", f"{said} The darker, the more time it spends there; a dot: no action was ever played there.", class_="soft"
    )


def document(title: str, body: Iterable[Html]) -> str:
    """A whole page, with its style."""
    head = [
        Html('<meta charset="utf-8">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        element("title", title),
        Html(f"<style>{STYLE}{PAGE_STYLE}</style>"),
    ]
    main = element("main", *body, class_="anyreward")
    return f"<!doctype html>\n{element('html', element('head', *head), element('body', main), lang='en')}\n"

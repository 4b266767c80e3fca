"""Plots of an atlas and of its plans: text for the terminal, and figures."""

from __future__ import annotations

import io
import textwrap
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import outline
from ._files import check_writable, replace_file
from .words import confidence_level, interval, plain

if TYPE_CHECKING:
    from .atlas.atlas import Atlas
    from .atlas.plan import Plan
    from .atlas.tradeoff import TradeOff

SHADES = " ·░▒▓█"
STEPS = "▁▂▃▄▅▆▇█"
MAX_GRID_ROWS = 200  # the most rows of a grid in a terminal
COLUMNS, WIDTH = 80, 60  # of a terminal, and the number of bars in it
TEXT_LINES, TEXT_STRETCHES = 8, 5  # states, and stretches of steps for each, that are shown in a terminal
FIGURE_LINES = 40  # the number of states whose actions are drawn
BLUE, GREY = "#1f5fa8", "#888888"


def grid_of(atlas: Atlas, grid: tuple[int, int] | None = None) -> tuple[int, int] | None:
    """The rows and columns of the states, if they are the cells of a grid, otherwise None.

    Parameters
    ----------
    atlas : Atlas
    grid : (int, int), optional
        Rows and columns; taken from the atlas if it was explored in a grid world.
    """
    shape = grid or atlas.source.get("grid")
    S = atlas.counts.setting.n_states
    if shape is None:
        return None
    rows, cols = int(shape[0]), int(shape[1])
    if rows < 1 or cols < 1 or not rows * cols <= S <= rows * cols + 1:  # one state more may stand for terminations
        raise ValueError(f"the grid is {rows} x {cols}, but there are {S} states.")
    return rows, cols


def visits_text(atlas: Atlas, grid: tuple[int, int] | None = None) -> list[str]:
    """The visits of each state as lines for a terminal: shades on a grid, otherwise a row of bars.

    Parameters
    ----------
    atlas : Atlas
    grid : (int, int), optional
        Rows and columns, if the states are the cells of a grid.

    Returns
    -------
    list of str
    """
    visits, shape = atlas.counts.state_visits().astype(float), grid_of(atlas, grid)
    if shape is not None and shape[0] <= MAX_GRID_ROWS and shape[1] <= COLUMNS:
        field = visits[: shape[0] * shape[1]].reshape(shape)
        level = np.log1p(field) / max(np.log1p(field.max()), 1e-9)
        wide = 2 if 2 * shape[1] <= COLUMNS else 1
        return ["".join(SHADES[int(np.ceil(x * (len(SHADES) - 1)))] * wide for x in row) for row in level]
    size = -(-len(visits) // WIDTH)
    padded = np.pad(visits, (0, -len(visits) % size))
    bars = padded.reshape(-1, size).max(axis=1)
    top = max(bars.max(), 1.0)
    line = "".join(STEPS[int(x / top * (len(STEPS) - 1))] if x > 0 else " " for x in bars)
    each = "one bar for each state" if size == 1 else f"one bar for the most visited of every {size} states"
    return [line, f"{each}; highest: {int(top):,} visits"]


def plan_text(plan: Plan, grid: tuple[int, int] | None = None) -> list[str]:
    """What a plan does, as lines for a terminal.

    On a grid the action in each cell at the step at which the plan is most likely to be there, and a dot where no action was ever
    played. Otherwise a line for each of the states in which the plan spends most of its time, with equal stretches of steps
    merged.

    Parameters
    ----------
    plan : Plan
    grid : (int, int), optional
        Rows and columns, if the states are the cells of a grid.
    """
    atlas, shape = plan.atlas, grid_of(plan.atlas, grid)
    if shape is not None and shape[0] <= MAX_GRID_ROWS:
        cells = [text for text, _ in outline.cells(plan, shape[0] * shape[1])]
        wide = max(map(len, cells))
        gap = " " if shape[1] * (wide + 1) <= COLUMNS + 1 else ""
        if shape[1] * (wide + len(gap)) <= COLUMNS + len(gap) and (gap or wide == 1):
            rows = [cells[r * shape[1] : (r + 1) * shape[1]] for r in range(shape[0])]
            said = "what it does in each cell, at the step at which it is most likely to be there:"
            return [said, *(gap.join(sign.rjust(wide) for sign in row) for row in rows)]
    what = outline.Outline(plan)
    shown: list[str] = []
    for line in what.lines(0, TEXT_LINES):
        does = [_stretch_text(plan, line, stretch) for stretch in line.stretches[:TEXT_STRETCHES]]
        does += ["..."] if len(line.stretches) > TEXT_STRETCHES else []
        shown += textwrap.wrap(f"{atlas.state_name(line.state)}: {', '.join(does)}", COLUMNS, subsequent_indent="    ")
    more = len(what.states) - TEXT_LINES
    return [
        "what it does, in the states in which it spends most time:",
        *shown,
        *([f"and {more:,} more state{'s' if more > 1 else ''}"] if more > 0 else []),
    ]


def _stretch_text(plan: Plan, line: outline.Line, stretch: outline.Stretch) -> str:
    """What a plan does in a stretch of steps, in words."""
    steps = "" if len(line.stretches) == 1 else f" ({stretch.steps})"
    few = f" [seen {stretch.seen} times]" if stretch.thin else ""
    return f"{outline.action_words(plan.atlas, stretch.action)}{steps}{few}"


@cache
def _figure_class() -> Any:
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A figure that a notebook displays, also without pyplot."""

        def _repr_png_(self) -> bytes:
            return _picture(self, "png")

    return Picture


def figure(width: float, height: float) -> Any:
    """An empty figure of that size in inches, which belongs to nobody: pyplot neither knows nor keeps it."""
    return _figure_class()(figsize=(width, height), layout="constrained")


def draw_atlas(atlas: Atlas, grid: tuple[int, int] | None = None) -> Any:
    """A figure with the visits of each state, and the certified epsilon over time.

    Parameters
    ----------
    atlas : Atlas
    grid : (int, int), optional
        Rows and columns, if the states are the cells of a grid.

    Returns
    -------
    matplotlib.figure.Figure
    """
    shape, picture = grid_of(atlas, grid), figure(10, 4)
    left, right = picture.subplots(1, 2)
    visits = atlas.counts.state_visits()
    if shape is None:
        left.bar(np.arange(len(visits)), visits, width=1.0 if len(visits) > WIDTH else 0.85, color=BLUE)
        left.set(xlabel="state", ylabel="visits", title="Visits per state")
        if len(visits) <= TEXT_LINES and not atlas.numbering.is_plain:
            left.set_xticks(np.arange(len(visits)), [_label(atlas.state_name(s)) for s in range(len(visits))], rotation=30)
    else:
        field = visits[: shape[0] * shape[1]].reshape(shape)
        image = left.imshow(np.log10(np.maximum(field, 0.5)), cmap="Blues")
        picture.colorbar(image, ax=left, label="log10 of visits", shrink=0.8)
        _whole_ticks(left)
        left.set(title="Visits per state", xlabel="column", ylabel="row")
    most = atlas.certificate.largest
    history = [(t, min(e, most)) for t, e in atlas.history if t > 0]
    if history:
        right.loglog(*zip(*history, strict=True), color=BLUE)
    right.loglog([max(1, atlas.episodes)], [min(max(atlas.certificate.epsilon, 1e-12), most)], "o", color=BLUE)
    if atlas.certificate.target is not None:
        right.axhline(atlas.certificate.target, color=GREY, linestyle=":")
    right.set(xlabel="episodes", ylabel="certified ε", title="Certified ε", ylim=(None, 1.2 * most))
    right.grid(alpha=0.3)
    return picture


def draw_plan(plan: Plan, grid: tuple[int, int] | None = None) -> Any:
    """A figure with the certified interval of a plan within what is possible, and with what the plan does.

    On a grid, what it does in each cell at the step at which it is most likely to be there. Otherwise a table of colours, with a
    line for each of the states in which it spends most of its time, and a column for each step at which it may get there.

    Parameters
    ----------
    plan : Plan
    grid : (int, int), optional
        Rows and columns, if the states are the cells of a grid.

    Returns
    -------
    matplotlib.figure.Figure
    """
    shape, lines = grid_of(plan.atlas, grid), outline.Outline(plan).lines(0, FIGURE_LINES)
    tall = 5.0 if shape is not None else max(1.5, 0.22 * len(lines) + 0.9)
    picture = figure(9, tall + 1.5)
    top, below = picture.subplots(2, 1, height_ratios=(1.0, tall))
    _draw_interval(top, plan)
    if shape is None:
        _draw_steps(below, plan, lines)
    else:
        _draw_grid(below, plan, shape)
    return picture


def draw_trade_off(curve: TradeOff) -> Any:
    """A figure with the intervals of the plans of a trade-off as boxes, and the line beyond which no policy is.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.patches import Rectangle

    picture = figure(6.5, 5)
    axis = picture.subplots()
    for a, b in zip(curve.first, curve.second, strict=True):
        axis.add_patch(Rectangle((a.lower, b.lower), a.upper - a.lower, b.upper - b.lower, color=BLUE, alpha=0.15, linewidth=0))
    axis.plot([a.value for a in curve.first], [b.value for b in curve.second], "o-", color=BLUE, label="plans, empirical model")
    low, high = min(a.lower for a in curve.first), max(a.upper for a in curve.first)
    xs = np.linspace(low, high, 200)
    beyond = np.array([curve.most(x) for x in xs.tolist()])
    top = max(b.upper for b in curve.second)
    shown = np.isfinite(beyond)
    axis.plot(xs[shown], np.minimum(beyond[shown], top), color="black", linewidth=1, label="no policy is beyond")
    axis.set(
        xlabel=_label(curve.names[0]),
        ylabel=_label(curve.names[1]),
        title=f"Trade-off; boxes and line with probability {confidence_level(curve.delta)}",
    )
    axis.legend(loc="lower left", frameon=False)
    return picture


def _draw_interval(axis: Any, plan: Plan) -> None:
    """Draw the interval of a plan as a bar within the range of what its reward can pay at all."""
    lowest, highest = plan.scoring.lowest, plan.scoring.highest
    axis.barh(0, highest - lowest, left=lowest, height=0.5, color=GREY, alpha=0.25)
    axis.barh(0, plan.upper - plan.lower, left=plan.lower, height=0.5, color=BLUE)
    axis.plot([plan.value] * 2, [-0.4, 0.4], color="black", linewidth=2)
    sure = f"{interval(plan.lower, plan.upper)} with probability {confidence_level(plan.delta)}"
    axis.set(title=f"Value of the plan: {sure}", yticks=[], ylim=(-0.5, 0.5))
    axis.spines[["top", "left", "right"]].set_visible(False)


def _draw_steps(axis: Any, plan: Plan, lines: list[outline.Line]) -> None:
    """Draw what a plan does at each step in some states, as a table of colours."""
    from matplotlib import colormaps
    from matplotlib.patches import Patch

    H, atlas = len(plan.policy), plan.atlas
    used = sorted({stretch.action for line in lines for stretch in line.stretches} - {outline.ANY})
    palette = colormaps["tab10" if len(used) <= 10 else "tab20"]
    colour = {a: palette(i % palette.N) for i, a in enumerate(used)} | {outline.ANY: (0.85, 0.85, 0.85, 1.0)}
    cells, thin = np.ones((max(1, len(lines)), H, 4)), outline.is_thin(plan)
    for i, line in enumerate(lines):
        for stretch in line.stretches:
            for h in range(stretch.first, stretch.last + 1):
                if line.time <= 0 or plan.reach[h, line.state] > 0:
                    cells[i, h] = colour[stretch.action]
        few = np.flatnonzero(thin[:, line.state] & ((plan.reach[:, line.state] > 0) | (line.time <= 0)))
        axis.plot(few, np.full(len(few), i), ".", color="black", markersize=3)
    axis.imshow(cells, aspect="auto", interpolation="nearest", extent=(-0.5, H - 0.5, len(cells) - 0.5, -0.5))
    axis.set_yticks(range(len(lines)), [_label(atlas.state_name(line.state)) for line in lines], fontsize=8)
    axis.set(xlabel="step", ylabel="state, most time first", title=f"What it does (dots: seen fewer than {outline.THIN} times)")
    axis.xaxis.get_major_locator().set_params(integer=True)
    shown = [*used[:20], *([outline.ANY] if any(x.action == outline.ANY for line in lines for x in line.stretches) else [])]
    handles = [Patch(color=colour[a], label=_label(outline.action_words(atlas, a))) for a in shown]
    axis.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _draw_grid(axis: Any, plan: Plan, shape: tuple[int, int]) -> None:
    """Draw what a plan does in each cell of a grid, over the time that it spends there."""
    time = plan.reach.sum(axis=0)
    axis.imshow(np.sqrt(time[: shape[0] * shape[1]].reshape(shape)), cmap="Blues", alpha=0.6)
    size = max(4, min(14, 160 // max(shape)))
    for s, (text, goes) in enumerate(outline.cells(plan, shape[0] * shape[1])):
        place = {"ha": "center", "va": "center", "fontsize": size, "color": "black" if goes else GREY}
        axis.text(s % shape[1], s // shape[1], _label(text), **place)
    _whole_ticks(axis)
    axis.set(title="What it does when it is most likely there (darker: more time)", xlabel="column", ylabel="row")


def _whole_ticks(axis: Any) -> None:
    """Label the rows and columns of a grid with whole numbers."""
    for side in (axis.xaxis, axis.yaxis):
        side.get_major_locator().set_params(integer=True)


def _label(text: str, most: int = 24) -> str:
    """A name for a figure: short, and without signs that Matplotlib would take for mathematics."""
    text = plain(text)
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    return text.replace("$", r"\$")


def check_drawable(path: Path) -> None:
    """Raises if a figure cannot be written to that path."""
    if path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise ValueError(f"{path} cannot be drawn: the name has to end in .png, .pdf or .svg.")
    check_writable(path)


def save_figure(path: Path, figure: Any) -> None:
    """Saves a Matplotlib figure as a PNG, PDF or SVG file, chosen by the ending of the name."""
    check_drawable(path)
    replace_file(path, _picture(figure, path.suffix.lower().lstrip(".")))


def _picture(figure: Any, kind: str) -> bytes:
    """A figure as the bytes of a PNG, PDF or SVG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=120)
    return buffer.getvalue()

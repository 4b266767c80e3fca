"""Plots of an atlas and of its plans: text for the terminal, figures as files, and a report as one self-contained HTML page."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._files import check_writable, replace_file
from .words import confidence_level, down, interval, up

if TYPE_CHECKING:
    from .atlas.atlas import Atlas
    from .atlas.plan import Plan

SHADES = " ·░▒▓█"
STEPS = "▁▂▃▄▅▆▇█"
MAX_GRID_ROWS = 200  # the most rows of a grid in a terminal
WIDTH = 60  # the number of bars in a terminal
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
    if shape is not None and shape[0] <= MAX_GRID_ROWS and shape[1] <= 2 * WIDTH:
        field = visits[: shape[0] * shape[1]].reshape(shape)
        level = np.log1p(field) / max(np.log1p(field.max()), 1e-9)
        return ["".join(SHADES[int(np.ceil(x * (len(SHADES) - 1)))] * 2 for x in row) for row in level]
    size = -(-len(visits) // WIDTH)
    padded = np.pad(visits, (0, -len(visits) % size))
    bars = padded.reshape(-1, size).max(axis=1)
    top = max(bars.max(), 1.0)
    line = "".join(STEPS[int(x / top * (len(STEPS) - 1))] if x > 0 else " " for x in bars)
    each = "one bar for each state" if size == 1 else f"one bar for the most visited of every {size} states"
    return [line, f"{each}; highest: {int(top):,} visits"]


def plan_text(atlas: Atlas, plan: Plan, grid: tuple[int, int] | None = None, step: int = 0) -> list[str]:
    """The actions of a plan at one step on a grid, as lines for a terminal; a dot marks states that were never visited.

    Parameters
    ----------
    atlas : Atlas
    plan : Plan
    grid : (int, int), optional
        Rows and columns, if the states are the cells of a grid.
    step : int, default 0

    Returns
    -------
    list of str
        Empty if the states are not the cells of a grid, or the grid is too tall.
    """
    shape = grid_of(atlas, grid)
    if shape is None or shape[0] > MAX_GRID_ROWS:
        return []
    looks = atlas.source.get("arrows") or ""
    visited = atlas.counts.state_visits() > 0
    signs = [
        (looks[a] if a < len(looks) else str(a)) if seen else "·" for a, seen in zip(plan.policy[step], visited, strict=True)
    ]
    wide = max(len(sign) for sign in signs)
    return [" ".join(sign.rjust(wide) for sign in signs[r * shape[1] : (r + 1) * shape[1]]) for r in range(shape[0])]


def draw(atlas: Atlas, plan: Plan | None = None, grid: tuple[int, int] | None = None) -> Any:
    """A figure with the visits of each state, epsilon over time and, on a grid, the actions of a plan.

    Parameters
    ----------
    atlas : Atlas
    plan : Plan, optional
    grid : (int, int), optional
        Rows and columns, if the states are the cells of a grid.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.figure import Figure

    shape = grid_of(atlas, grid)
    panels = 2 + (plan is not None and shape is not None)
    figure = Figure(figsize=(5 * panels, 4), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    visits = atlas.counts.state_visits()
    if shape is None:
        axes[0].bar(np.arange(len(visits)), visits, width=1.0, color=BLUE)
        axes[0].set(xlabel="state", ylabel="visits", title="Visits per state")
    else:
        field = visits[: shape[0] * shape[1]].reshape(shape)
        image = axes[0].imshow(np.log10(np.maximum(field, 0.5)), cmap="Blues")
        figure.colorbar(image, ax=axes[0], label="log10 of visits", shrink=0.8)
        axes[0].set(title="Visits per state", xlabel="column", ylabel="row")
    history = [(t, e) for t, e in atlas.history if t > 0]
    if history:
        axes[1].loglog(*zip(*history, strict=True), color=BLUE)
    axes[1].loglog([max(1, atlas.episodes)], [max(atlas.certificate.epsilon, 1e-12)], "o", color=BLUE)
    if atlas.certificate.target is not None:
        axes[1].axhline(atlas.certificate.target, color=GREY, linestyle=":")
    axes[1].set(xlabel="episodes", ylabel="certified ε", title="Certified accuracy")
    axes[1].grid(alpha=0.3)
    if plan is not None and shape is not None:
        axes[2].imshow(np.log10(np.maximum(visits[: shape[0] * shape[1]].reshape(shape), 0.5)), cmap="Blues", alpha=0.35)
        for r, line in enumerate(plan_text(atlas, plan, grid)):
            for c, sign in enumerate(line.split()):
                axes[2].text(c, r, sign, ha="center", va="center", fontsize=max(4, min(14, 160 // max(shape))))
        axes[2].set(title="Actions of the plan at step 0", xlabel="column", ylabel="row")
    return figure


def save_picture(path: Path, atlas: Atlas, plan: Plan | None = None, grid: tuple[int, int] | None = None) -> None:
    """Saves the figure of `draw` as a PNG, PDF or SVG file, chosen by the ending of the name."""
    check_drawable(path)
    save_figure(path, draw(atlas, plan, grid))


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


def save_report(path: Path, atlas: Atlas, plan: Plan, reward: str, grid: tuple[int, int] | None = None) -> None:
    """Saves an HTML page with a plan, its certified bounds, all assumptions and the plots, in one file.

    Parameters
    ----------
    path : Path
    atlas : Atlas
    plan : Plan
    reward : str
        A description of the reward, for the page.
    grid : (int, int), optional
        Rows and columns, if the states are the cells of a grid.
    """
    image = base64.b64encode(_picture(draw(atlas, plan, grid), "png")).decode()
    rows = [
        ("reward", reward),
        ("value in the empirical model", f"{plan.value:.6g}"),
        ("true value of the plan", f"at least {down(plan.lower, 6)}"),
        ("true optimum", f"at most {up(plan.upper, 6)}"),
        ("largest possible distance from the optimum", up(plan.regret_bound, 6)),
        ("probability", f"at least {confidence_level(plan.delta)}"),
        ("assumes", "; ".join(plan.assumptions) or "only the Markov property"),
        ("certificate of the atlas", str(atlas.certificate)),
        ("explored", f"{atlas.source.get('env', 'counts')} with {atlas.source.get('algorithm', 'other data')}"),
    ]
    table = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>" for name, text in rows)
    H, S = plan.policy.shape
    names = [atlas.state_name(s) for s in range(S)]
    seen = np.flatnonzero(atlas.counts.state_visits() > 0)[:200]
    header = "".join(f"<th>{h}</th>" for h in range(H))
    lines = "".join(
        f"<tr><th>{html.escape(str(names[s]))}</th>" + "".join(f"<td>{plan.policy[h, s]}</td>" for h in range(H)) + "</tr>"
        for s in seen
    )
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>anyreward plan</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #222 }}
th {{ text-align: left; padding-right: 1rem; font-weight: 600; vertical-align: top }} img {{ max-width: 100% }}
.policy {{ overflow-x: auto; font-size: 12px }} .policy td, .policy th {{ padding: 1px 6px; text-align: right }}
</style></head><body>
<h1>A plan and its certified bounds</h1>
<p>With probability at least {confidence_level(plan.delta)}, the true value of this plan lies in
<strong>{interval(plan.lower, plan.upper, 6)}</strong>, and so does the optimum.</p>
<table>{table}</table>
<p><img alt="Visits per state and certified epsilon" src="data:image/png;base64,{image}"></p>
<h2>Actions by state (rows) and step (columns)</h2>
<p>States that were visited{", the first 200 of them" if len(seen) == 200 else ""}.</p>
<div class="policy"><table><tr><th>state</th>{header}</tr>{lines}</table></div>
</body></html>
"""
    replace_file(path, page.encode())

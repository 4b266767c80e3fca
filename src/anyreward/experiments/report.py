"""The report of a reproduction: figures like those of the paper, and an HTML page with figures, claims, verdicts and timings."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from .._files import replace_file
from .claims import BARE, BEYOND, KNOWN, PAPER, SIDE, Claim, Rows, errors_of, exponents, scaling_of, taus_of, visits_of
from .statistics import bootstrap_interval, permutation_test

COLOURS = {
    "random policy": "tab:gray",
    "generative model": "tab:purple",
    "RF-UCRL": "tab:blue",
    "BPI-UCRL": "tab:green",
    BARE: "yellowgreen",
    "RF-trajectory, tight": "tab:cyan",
    "BPI-UCRL, tight": "tab:olive",
    KNOWN: "tab:orange",
}
TIGHT = ("random policy", "generative model", "RF-trajectory, tight", "BPI-UCRL, tight", KNOWN)
THEOREMS = """<h3>Measured episodes beside the theorems</h3><p>The theorems' proofs use the minimum in the index, which these runs
are without; for pooled counts and for BPI-UCRL their statements are those of the appendix.</p>"""
AUTHORS = {"RF-UCRL": 19_000, "BPI-UCRL": 280}  # transitions a second of the authors' scripts
TITLES = {
    "by step": "By step: n_h(s, a), the text of the paper",
    "pooled": "Pooled: n(s, a), as in the authors' code and in the stationary variants",
}


def write_report(out: Path, tables: dict[str, Rows], claims: list[Claim], about: dict[str, Any], took: float) -> None:
    """Write every figure as PNG and PDF, and `report.html`, which contains the figures and needs no other file.

    Parameters
    ----------
    out
        The folder to write to.
    tables
        All tables of a reproduction, by name.
    claims
        The claims with their verdicts.
    about
        Budget, seed and configuration of the reproduction.
    took
        Seconds that this call took.
    """
    pictures: dict[str, bytes] = {}
    for name, figure in figures_of(tables, about["budget"]).items():
        for kind in ("pdf", "png"):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, dpi=100, metadata={"CreationDate": None} if kind == "pdf" else None)
            figure.set_layout_engine("none")  # keep the layout of the first format for the second
            replace_file(out / f"{name}.{kind}", buffer.getvalue())
        pictures[name] = buffer.getvalue()
    replace_file(out / "report.html", page(pictures, tables, claims, about, took).encode())


def counts_in(tables: dict[str, Rows]) -> list[str]:
    """The ways of counting ("by step", "pooled") that the tables have."""
    return sorted({row["counts"] for row in tables["errors"]})


def figures_of(tables: dict[str, Rows], budget: dict[str, int]) -> dict[str, Any]:
    """All figures by name; `budget` has the number of transitions after which each kind of run ended."""
    found: dict[str, Any] = {}
    for counts in counts_in(tables):
        word = counts.replace(" ", "-")
        found[f"chain-{word}"] = draw_chain(tables, counts, (*PAPER, BARE), budget)
        found[f"grid-{word}"] = draw_grid(tables, counts, (*PAPER, BARE), budget)
        found[f"tight-chain-{word}"] = draw_chain(tables, counts, TIGHT, budget)
        found[f"tight-grid-{word}"] = draw_grid(tables, counts, TIGHT, budget)
    found["scaling"] = draw_scaling(tables["scaling"], counts_in(tables))
    return found


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def logarithmic(axis: Any) -> None:
    """Make both axes logarithmic, with labels at 1, 2 and 5 times powers of ten, so that less than a decade has labels too."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    def label(value: float, _: Any) -> str:
        digit, _, power = f"{value:.0e}".partition("e")
        if -3 <= int(power) <= 3:
            return f"{value:g}"
        return (
            ("" if digit == "1" else f"{digit}·") + "10" + str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        )

    axis.set(xscale="log", yscale="log")
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        side.set_major_formatter(FuncFormatter(label))
        side.set_minor_locator(LogLocator(subs=(1.0,)))
    axis.grid(alpha=0.3)


def draw_chain(tables: dict[str, Rows], counts: str, agents: tuple[str, ...], budget: dict[str, int]) -> Any:
    """A figure with the four panels of the paper's figure 2: errors, visits, and the stopping times of both algorithms."""
    figure = _figure(11, 8)
    (error, visits), (rf, bpi) = figure.subplots(2, 2)
    draw_errors(error, tables, "chain", counts, agents)
    seen = visits_of(tables["visits"], "chain", counts)
    for agent in agents:
        visits.plot(seen[agent].mean(axis=0), color=COLOURS[agent], label=agent, drawstyle="steps-mid")
    logarithmic(visits)
    title = f"Visits of each state at n = {budget['chain_visits']:,}, mean over runs"
    visits.set(xlabel="state", ylabel="visits", xscale="linear", title=title)
    certified = [agent for agent in agents[2:] if agent != BARE]
    for axis, some, end in ((rf, certified[:1], budget["tau_rf"]), (bpi, certified[1:], budget["tau_bpi"])):
        draw_taus(axis, {agent: taus_of(tables["tau"], agent, counts) for agent in some}, end)
    return figure


def draw_errors(axis: Any, tables: dict[str, Rows], name: str, counts: str, agents: Iterable[str]) -> None:
    """Draw the mean error of each agent against the transitions, with its 95% bootstrap interval."""
    looks, errors = errors_of(tables["errors"], name, counts)
    for agent in agents:
        bands = [bootstrap_interval(errors[agent][:, i].tolist(), 500) for i in range(len(looks))]
        axis.plot(looks, [b.mean for b in bands], color=COLOURS[agent], label=f"{agent} ({len(errors[agent])} runs)")
        axis.fill_between(looks, [b.low for b in bands], [b.high for b in bands], color=COLOURS[agent], alpha=0.15, linewidth=0)
    logarithmic(axis)
    axis.set(xlabel="transitions n", ylabel="|V̂* − V*|", title="Error, mean over runs and 95% band")
    axis.legend()


def draw_taus(axis: Any, of_agents: dict[str, dict[float, np.ndarray]], end: int) -> None:
    """Draw the mean tau of the runs that certified epsilon, against epsilon / H.

    The dotted line is proportional to 1/epsilon^2; it goes through the smallest epsilon that all runs certified.
    """
    title = f"E[τ | τ before n = {end:,}]"
    logarithmic(axis)
    axis.set(xlabel="ε / H", ylabel="episodes τ", title=title)
    widest = 0.0
    for agent, taus in of_agents.items():
        levels = np.array(sorted(taus))
        reached = [taus[level][~np.isnan(taus[level])] for level in levels]
        means = np.array([float(values.mean()) for values in reached])
        whole = np.array([len(values) == len(taus[level]) for values, level in zip(reached, levels, strict=True)], bool)
        axis.plot(levels, means, "-", color=COLOURS[agent], label=agent if taus else f"{agent}: no ε was certified")
        axis.plot(levels[whole], means[whole], "o", color=COLOURS[agent])
        axis.plot(levels[~whole], means[~whole], "o", color=COLOURS[agent], mfc="white")
        if taus:
            at = int(np.argmax(whole)) if whole.any() else 0
            axis.plot(levels, means[at] * (levels[at] / levels) ** 2, ":", color="black")
            widest = max(widest, float(levels[-1]))
    if widest > 1.0:
        axis.axvspan(1.0, widest * 1.1, color="black", alpha=0.06, label="ε ≥ H says nothing", linewidth=0)
    axis.legend(title="dotted: 1/ε²; open: by some of the runs only")


def draw_grid(tables: dict[str, Rows], counts: str, agents: tuple[str, ...], budget: dict[str, int]) -> Any:
    """A figure like the paper's figure 3: errors, and a map of the visits of each agent."""
    figure = _figure(11, 7.5)
    left, right = figure.subfigures(1, 2)
    draw_errors(left.subplots(), tables, "grid", counts, agents)
    seen = visits_of(tables["visits"], "grid", counts)
    maps = {agent: np.log10(seen[agent].mean(axis=0).reshape(SIDE, SIDE) + 1) for agent in agents}
    most = max(float(grid.max()) for grid in maps.values())
    axes = right.subplots((len(agents) + 1) // 2, 2).ravel()
    for axis in axes[len(agents) :]:
        axis.axis("off")
    for axis, agent in zip(axes, agents, strict=False):
        image = axis.imshow(maps[agent], cmap="viridis", vmin=0.0, vmax=most)
        axis.plot(16, 16, "r+")
        axis.set(title=agent, xticks=[], yticks=[])
    label = f"log10(1 + mean visits) at n = {budget['grid_visits']:,}; + is the reward"
    right.colorbar(image, ax=list(axes), location="bottom", label=label)
    return figure


def draw_scaling(rows: Rows, modes: list[str]) -> Any:
    """A figure of RF-UCRL's tau against each parameter, beside the theorem's bound scaled to end in the same point."""
    figure = _figure(15, 3.6)
    parameters = list(dict.fromkeys(row["parameter"] for row in rows))
    for axis, parameter in zip(figure.subplots(1, len(parameters)), parameters, strict=True):
        for counts, colour in zip(modes, ("tab:blue", "tab:orange"), strict=False):
            x, means, bounds = scaling_of(rows, counts, parameter)
            axis.plot(x, means, "o-", color=colour, label=counts)
            axis.plot(x, bounds * means[-1] / bounds[-1], ":", color=colour)
        logarithmic(axis)
        axis.set(xlabel=parameter)
    axis.legend(title="dotted: the theorem's\nbound, shifted", fontsize=8)
    figure.supylabel("episodes of RF-UCRL")
    return figure


def html_table(heads: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """An HTML table with the given column heads; all cells are escaped."""
    cells = "".join(f"<tr>{''.join(f'<td>{html.escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{html.escape(head)}</th>' for head in heads)}</tr>{cells}</table>"


def section(title: str, picture: bytes, claims: list[Claim]) -> str:
    """The HTML of a figure, with a table of the claims about it."""
    shown = f'<h3>{title}</h3><p><img alt="{title}" src="data:image/png;base64,{base64.b64encode(picture).decode()}"></p>'
    if not claims:
        return shown
    lines = [(claim.verdict, claim.text, claim.source, claim.measured) for claim in claims]
    return shown + html_table(("verdict", "claim", "from", "measured"), lines)


def claims_table(claims: list[Claim], modes: list[str]) -> str:
    """An HTML table with one line for each claim and its verdict for each way of counting."""
    found = {(claim.text, claim.counts): claim.verdict for claim in claims}
    texts = dict.fromkeys((claim.text, claim.source) for claim in claims)
    return html_table(
        ("claim", "from", *modes), [(text, source, *(found[text, counts] for counts in modes)) for text, source in texts]
    )


def error_comparisons(rows: Rows, counts: str) -> str:
    """HTML tables of which agent has the smaller error at the end: the adjusted p-values of all pairs, for each environment."""
    parts = []
    for name in ("chain", "grid"):
        looks, errors = errors_of(rows, name, counts)
        final = np.stack([errors[agent][:, -1] for agent in PAPER])
        if final.shape[1] < 2:
            continue
        p = permutation_test(final)
        lines = [
            [
                f"{agent} ({bootstrap_interval(final[i].tolist())})",
                *("" if i == j else f"{p[i, j]:.2g}" for j in range(len(PAPER))),
            ]
            for i, agent in enumerate(PAPER)
        ]
        parts.append(f"<p>{name}, n = {looks[-1]:,}</p>" + html_table(("smaller than:", *PAPER), lines))
    return "".join(parts)


def timings(rows: Rows) -> str:
    """An HTML table of the time that each kind of run took, and of what the authors' scripts would have needed."""
    kinds = dict.fromkeys((row["part"], row["environment"], row["counts"], row["agent"]) for row in rows)
    lines: list[list[str]] = []
    for kind in kinds:
        mine = [row for row in rows if (row["part"], row["environment"], row["counts"], row["agent"]) == kind]
        seconds = sum(row["seconds"] for row in mine)
        played = sum(row["transitions"] or 0 for row in mine)
        theirs = played / AUTHORS[kind[3]] / 3600 if kind[3] in AUTHORS and played else None
        lines.append(
            [*kind, str(len(mine)), f"{played:,}" if played else "", f"{seconds:,.1f}",
             f"{played / seconds:,.0f}" if played else "", "" if theirs is None else f"{theirs:,.2f}"]
        )  # fmt: skip
    heads = "part", "environment", "counts", "agent", "runs", "transitions", "core seconds", "transitions/s"
    return html_table((*heads, "authors' scripts, core hours"), lines)


def page(pictures: dict[str, bytes], tables: dict[str, Rows], claims: list[Claim], about: dict[str, Any], took: float) -> str:
    """The HTML of `report.html`; `pictures` are PNG images by name."""
    from .. import __version__

    parts = []
    for counts in counts_in(tables):
        word = counts.replace(" ", "-")
        mine = [claim for claim in claims if claim.counts == counts]
        bounds = [
            (row["agent"], f"{row['epsilon']:g}", f"{row['tau']:,.0f}", f"{row['implicit']:.2e}", f"{row['printed']:.2e}")
            for row in tables["theorems"]
            if row["counts"] == counts
        ]
        powers = [
            (name, f"{seen:.2f}", f"{there:.2f}", f"{power:g}")
            for name, seen, there, power in exponents(tables["scaling"], counts)
        ]
        parts += [
            f"<h2>{TITLES[counts]}</h2>",
            section("Double chain (figure 2)", pictures[f"chain-{word}"], [claim for claim in mine if claim.about != "grid"]),
            section("Grid world (figure 3)", pictures[f"grid-{word}"], [claim for claim in mine if claim.about == "grid"]),
            "<h3>Which error is smaller?</h3><p>Adjusted p-values of the permutation test over paired runs, for all pairs at"
            " once; in brackets the mean and its approximate 95% interval (bootstrap).</p>",
            error_comparisons(tables["errors"], counts),
            section("Beyond the paper: tight bounds, double chain", pictures[f"tight-chain-{word}"], []),
            section("Beyond the paper: tight bounds, grid world", pictures[f"tight-grid-{word}"], []),
            THEOREMS if bounds else "",
            html_table(("agent", "ε/H", "E[τ | τ before the end]", "largest τ of the proof", "as printed"), bounds)
            if bounds
            else "",
            "<h3>Exponents of RF-UCRL's τ on random models</h3><p>Between the two last values of each parameter; clipped.</p>",
            html_table(("in", "measured", "of the theorem's bound at these values", "asymptotic"), powers),
        ]
    paper = [claim for claim in claims if claim.source != BEYOND]
    told = json.dumps(about["budget"]) + (", the authors' published configuration" if about["as_published"] else "")
    seconds, seen = sum(row["seconds"] for row in tables["timings"]), sum(claim.verdict == "observed" for claim in paper)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Adaptive Reward-Free Exploration, reproduced</title>
<style>body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #222 }}
td, th {{ padding: 3px 1rem 3px 0; vertical-align: top; text-align: left }} img {{ max-width: 100% }}</style></head><body>
<h1>Adaptive Reward-Free Exploration, reproduced</h1>
<p>{seen} of {len(paper)} claims of the paper are observed.
{took / 60:.1f} minutes for this call, {seconds / 60:.1f} core minutes in all.
anyreward {__version__}, seed {about["seed"]}, {html.escape(told)}.</p>
{claims_table(claims, counts_in(tables))}
{"".join(parts)}
<h2>Scaling of RF-UCRL's τ on random models</h2>{section("Scaling", pictures["scaling"], [])}
<h2>Timings</h2>{timings(tables["timings"])}</body></html>
"""

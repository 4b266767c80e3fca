"""The paper's experiments (Kaufmann et al. 2021, section 6 and appendix), with its budgets, beside what it says about them.

Four agents: the random policy, a generative model, RF-UCRL without clipping (as in the paper's figures, with a full pass after
every episode) and BPI-UCRL, which observes the rewards; the paper's thresholds, delta = 0.1, H = 20. On the double chain (31
states) and on the 21 x 21 grid: the error |V_hat*(s_1; r) - V*(s_1; r)| against the transitions n, and the visits of each state;
on the chain the number of episodes tau at which each epsilon is certified, one run serving all of them.

Counts are pooled over the steps, as in the authors' published code; the text of the paper is by step. At the paper's budgets its
figures cannot be had otherwise: by step, RF-UCRL needs 1.3 10^7 episodes for 0.5 H, and 10^8 transitions are 5 10^6 episodes.
"""

from __future__ import annotations

import base64
import html
import io
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import envs
from ..algorithms import ALGORITHMS
from ..files import check_writable, replace_file
from ..mdp import TabularMDP
from ..planning import backward_induction
from .statistics import band, smaller

H, DELTA = 20, 0.1
AGENTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "random policy": ("random", {}, "tab:gray"),
    "generative model": ("generative", {}, "tab:purple"),
    "RF-UCRL": ("rf-ucrl", {"clip": False, "replan": "every"}, "tab:blue"),
    "BPI-UCRL": ("bpi-ucrl", {"rewards": "observed"}, "tab:green"),
}
LEVELS = (4.0, 3.0, 2.5, 2.0, 1.5, 1.2, 1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.07, 0.05)  # of epsilon / H


@dataclass(frozen=True)
class Budget:
    """How much is run; all but `runs` are transitions."""

    runs: int
    chain: int  # to the end of the error curves
    grid: int
    chain_visits: int
    grid_visits: int
    tau_rf: int
    tau_bpi: int


FULL = Budget(48, 100_000, 100_000, 5_000, 30_000, 10**8, 10**6)
QUICK = Budget(4, 60_000, 30_000, 5_000, 30_000, 2 * 10**7, 10**5)


@dataclass(frozen=True)
class Claim:
    """What the paper says, and what the data say about it."""

    text: str
    measured: str
    observed: bool


def environment(name: str) -> TabularMDP:
    return envs.double_chain() if name == "chain" else envs.grid_world()


def explorer_of(agent: str, mdp: TabularMDP, seed: int) -> Any:
    name, options, _ = AGENTS[agent]
    kind = ALGORITHMS[name]
    given: dict[str, Any] = {**options, **({"reward": mdp.reward} if kind.needs_reward else {})}
    return kind(mdp.setting(H, stationary=True), delta=DELTA, bounds="paper", seed=seed, **given)


def play(explorer: Any, mdp: TabularMDP, rng: np.random.Generator, end: int, goal: float = -1.0) -> bool:
    """To episode `end`, or until the explorer's bound is at most `goal`."""
    while explorer.episodes < end:
        if explorer.advance(mdp, rng, end - explorer.episodes, goal):
            return True
    return False


def curve(name: str, agent: str, run: int, seed: int, transitions: int, visits_at: int) -> list[dict[str, Any]]:
    """Errors along the way, and visits when there were so many transitions."""
    mdp = environment(name)
    explorer, rng = explorer_of(agent, mdp, seed), np.random.default_rng(seed)
    best = float(mdp.initial @ backward_induction(mdp, mdp.reward, H).V[0])
    looks = {int(t) for t in np.geomspace(500 // H, transitions // H, 16)} | {visits_at // H}
    rows: list[dict[str, Any]] = []
    for t in sorted(looks):
        play(explorer, mdp, rng, t)
        model = explorer.counts.model()
        error = abs(float(model.initial @ backward_induction(model, mdp.reward, H).V[0]) - best)
        visits = explorer.counts.state_visits().tolist() if t == visits_at // H else None
        rows.append({"environment": name, "agent": agent, "run": run, "transitions": t * H, "error": error, "visits": visits})
    return rows


def stops(agent: str, run: int, seed: int, transitions: int) -> list[dict[str, Any]]:
    """The first episode at which each epsilon is certified on the chain, in one run."""
    mdp = environment("chain")
    explorer, rng = explorer_of(agent, mdp, seed), np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for level in LEVELS:
        reached = explorer.error_bound <= level * H / 2 or play(explorer, mdp, rng, transitions // H, level * H / 2)
        rows.append({"agent": agent, "run": run, "epsilon": level, "tau": explorer.episodes if reached else None})
        if not reached:
            break
    return rows


def run(
    out: Path,
    budget: Budget = FULL,
    seed: int = 0,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Claim]:
    """Runs everything and writes tables, figures and a report into a folder; returns the claims with their verdicts."""
    check_writable(out / "x") if out.is_dir() else check_writable(out)
    out.mkdir(exist_ok=True)
    if executor is None:
        with ProcessPoolExecutor(workers or os.cpu_count()) as own:
            return run(out, budget, seed, own, None, progress)
    start = time.perf_counter()
    seeds = [int(child.generate_state(1)[0]) for child in np.random.SeedSequence(seed).spawn(budget.runs)]
    jobs: list[tuple[Any, ...]] = []
    for i, number in enumerate(seeds):  # the longest first
        jobs.append((stops, "RF-UCRL", i, number, budget.tau_rf))
    for i, number in enumerate(seeds):
        jobs.append((stops, "BPI-UCRL", i, number, budget.tau_bpi))
        for agent in reversed(AGENTS):
            jobs.append((curve, "grid", agent, i, number, budget.grid, budget.grid_visits))
            jobs.append((curve, "chain", agent, i, number, budget.chain, budget.chain_visits))
    futures = {executor.submit(*job): k for k, job in enumerate(jobs)}
    results: dict[int, list[dict[str, Any]]] = {}
    for future in as_completed(futures):
        results[futures[future]] = future.result()
        if progress is not None:
            progress(len(results), len(jobs))
    rows = [row for k in range(len(jobs)) for row in results[k]]
    curves = [row for row in rows if "transitions" in row]
    taus = [row for row in rows if "tau" in row]
    took = time.perf_counter() - start
    about = {"budget": asdict(budget), "seed": seed}
    kept = [{k: v for k, v in row.items() if k != "visits"} for row in curves]
    visits = [row | {"state": s, "visits": n} for row in curves if row["visits"] is not None for s, n in enumerate(row["visits"])]
    for name, table in (
        ("errors", kept),
        ("visits", [{k: v for k, v in row.items() if k != "error"} for row in visits]),
        ("tau", taus),
    ):
        replace_file(out / f"{name}.parquet", parquet(table, about))
    claims = verdicts(curves, taus)
    figures = {"errors": draw_errors(curves), "visits": draw_visits(curves), "tau": draw_taus(taus)}
    pictures = {}
    for name, figure in figures.items():
        for kind in ("png", "pdf"):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, dpi=120, metadata={"CreationDate": None} if kind == "pdf" else None)
            replace_file(out / f"{name}.{kind}", buffer.getvalue())
            pictures[name, kind] = buffer.getvalue()
    replace_file(out / "report.html", report(claims, pictures, about, took).encode())
    return claims


def parquet(rows: list[dict[str, Any]], about: dict[str, Any]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from .. import __version__

    table = pa.Table.from_pylist(rows)
    told = {"anyreward.reproduce": json.dumps(about, sort_keys=True), "anyreward.version": __version__}
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(told), sink, compression="zstd")
    return sink.getvalue()


def errors_of(curves: list[dict[str, Any]], name: str) -> tuple[list[int], dict[str, np.ndarray]]:
    """The looks of an environment and, for each agent, errors (runs, looks)."""
    mine = [row for row in curves if row["environment"] == name]
    looks = sorted({row["transitions"] for row in mine})
    runs = 1 + max(row["run"] for row in mine)
    errors = {agent: np.zeros((runs, len(looks))) for agent in AGENTS}
    for row in mine:
        errors[row["agent"]][row["run"], looks.index(row["transitions"])] = row["error"]
    return looks, errors


def visits_of(curves: list[dict[str, Any]], name: str) -> dict[str, np.ndarray]:
    """Mean visits of each state, for each agent."""
    mine = [row for row in curves if row["environment"] == name and row["visits"] is not None]
    return {agent: np.mean([row["visits"] for row in mine if row["agent"] == agent], axis=0) for agent in AGENTS}


def mean_taus(taus: list[dict[str, Any]], agent: str) -> dict[float, float]:
    """E[tau | tau before the end] for each epsilon / H that was reached by some run."""
    found: dict[float, list[int]] = {}
    for row in taus:
        if row["agent"] == agent and row["tau"]:  # what is certain from the start says nothing
            found.setdefault(row["epsilon"], []).append(row["tau"])
    return {level: float(np.mean(values)) for level, values in found.items()}


def verdicts(curves: list[dict[str, Any]], taus: list[dict[str, Any]]) -> list[Claim]:
    """Each claim of the paper's section 6 and of its appendix, and whether the data show it."""
    claims = []
    for name, where in (("chain", "On the double chain"), ("grid", "On the grid")):
        looks, errors = errors_of(curves, name)
        early = next(i for i, n in enumerate(looks) if n >= 5_000)
        fall = {agent: float(e[:, early].mean() / e[:, -1].mean()) for agent, e in errors.items()}
        last = {agent: float(e[:, -1].mean()) for agent, e in errors.items()}
        text = ", ".join(f"{agent} {value:.3g}" for agent, value in fall.items())
        claims.append(
            Claim(
                f"{where}, the error decays the fastest under BPI-UCRL.",
                f"from n = {looks[early]:,} to {looks[-1]:,} the mean error falls by a factor of: {text}",
                max(fall, key=lambda agent: fall[agent]) == "BPI-UCRL",
            )
        )
        ratio = last["RF-UCRL"] / last["generative model"]
        claims.append(
            Claim(
                f"{where}, RF-UCRL is close to the agent with a generative model.",
                f"mean errors at the end {last['RF-UCRL']:.3g} and {last['generative model']:.3g}, a ratio of {ratio:.2f}",
                0.4 <= ratio <= 2.5,
            )
        )
        if len(errors["RF-UCRL"]) > 1:
            p = smaller(np.stack([errors["RF-UCRL"][:, early], errors["random policy"][:, early]]))[0, 1]
            claims.append(
                Claim(
                    f"{where}, RF-UCRL estimates better than the random policy.",
                    f"at n = {looks[early]:,}: mean errors {errors['RF-UCRL'][:, early].mean():.3g} and "
                    f"{errors['random policy'][:, early].mean():.3g}, permutation test p = {p:.2g}",
                    bool(errors["RF-UCRL"][:, early].mean() < errors["random policy"][:, early].mean()),
                )
            )
        claims += visit_claims(name, where, visits_of(curves, name))
    rf, bpi = (mean_taus(taus, agent) for agent in ("RF-UCRL", "BPI-UCRL"))
    both = sorted(set(rf) & set(bpi))
    if both:
        claims.append(
            Claim(
                "BPI-UCRL has a much smaller sample complexity than RF-UCRL.",
                f"at epsilon = {both[0]:g} H: {bpi[both[0]]:,.0f} and {rf[both[0]]:,.0f} episodes on average",
                rf[both[0]] > 2 * bpi[both[0]],
            )
        )
    for agent, means in (("RF-UCRL", rf), ("BPI-UCRL", bpi)):
        levels = sorted(means)[:6]
        if len(levels) >= 3:
            slope = float(np.polyfit(np.log(levels), np.log([means[level] for level in levels]), 1)[0])
            text = f"slope of log tau over log epsilon, smallest {len(levels)} epsilons reached: {slope:.2f}"
            claims.append(Claim(f"The sample complexity of {agent} grows like 1/epsilon^2.", text, -3.0 <= slope <= -1.5))
    return claims


def visit_claims(name: str, where: str, visits: dict[str, np.ndarray]) -> list[Claim]:
    """What the paper says of where the agents have been."""
    S = len(visits["RF-UCRL"])
    if name == "chain":
        ends = np.array([0, 1, 2, S - 3, S - 2, S - 1])
        reward_side, other = np.arange(S // 2 + 1, S), np.arange(S // 2)
    else:
        rows, cols = np.divmod(np.arange(S), 21)
        ends = np.flatnonzero((rows % 20 == 0) | (cols % 20 == 0))
        reward_side, other = np.flatnonzero((rows > 10) & (cols > 10)), np.flatnonzero((rows < 10) & (cols < 10))
    even = visits["generative model"]
    border = "borders of the chain" if name == "chain" else "walls of the grid"
    rp, rf = (
        visits["random policy"][ends].sum() / visits["random policy"].sum(),
        visits["RF-UCRL"][ends].sum() / visits["RF-UCRL"].sum(),
    )
    return [
        Claim(
            f"{where}, the random policy does not reach the {border}, and RF-UCRL does.",
            f"share of visits there: {rp:.2%} and {rf:.2%}",
            bool(rf > 5 * rp and rf > 0),
        ),
        Claim(
            f"{where}, the generative model spreads its visits evenly.",
            f"visits of a state from {even.min():.0f} to {even.max():.0f}",
            bool(even.max() <= 1.3 * even.min() + 5),
        ),
        Claim(
            f"{where}, BPI-UCRL focuses on the part with the highest reward.",
            f"visits on the side of the reward and on the other: {visits['BPI-UCRL'][reward_side].sum():,.0f} and "
            f"{visits['BPI-UCRL'][other].sum():,.0f}",
            bool(visits["BPI-UCRL"][reward_side].sum() > 1.2 * visits["BPI-UCRL"][other].sum()),
        ),
    ]


def _figure(width: float, columns: int, rows: int = 1) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 4 * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def draw_errors(curves: list[dict[str, Any]]) -> Any:
    figure, axes = _figure(11, 2)
    for axis, name in zip(axes[0], ("chain", "grid"), strict=True):
        looks, errors = errors_of(curves, name)
        for agent, values in errors.items():
            bands = [band(values[:, i].tolist(), 500) for i in range(len(looks))]
            colour = AGENTS[agent][2]
            axis.plot(looks, [b.mean for b in bands], color=colour, label=agent)
            axis.fill_between(looks, [b.low for b in bands], [b.high for b in bands], color=colour, alpha=0.15, linewidth=0)
        axis.set(xscale="log", yscale="log", xlabel="transitions n", ylabel="|V̂* − V*|", title=f"Estimation error, {name}")
        axis.grid(alpha=0.3)
    axes[0][0].legend()
    return figure


def draw_visits(curves: list[dict[str, Any]]) -> Any:
    figure, axes = _figure(14, 4, 2)
    for column, (agent, visits) in enumerate(visits_of(curves, "chain").items()):
        axes[0][column].bar(np.arange(len(visits)), visits, width=1.0, color=AGENTS[agent][2])
        axes[0][column].set(title=f"{agent}, chain", xlabel="state", ylabel="visits")
    for column, (agent, visits) in enumerate(visits_of(curves, "grid").items()):
        axes[1][column].imshow(np.log10(visits.reshape(21, 21) + 1), cmap="viridis")
        axes[1][column].set(title=f"{agent}, grid (log)", xticks=[], yticks=[])
    return figure


def draw_taus(taus: list[dict[str, Any]]) -> Any:
    figure, axes = _figure(11, 2)
    for axis, agent in zip(axes[0], ("RF-UCRL", "BPI-UCRL"), strict=True):
        means = mean_taus(taus, agent)
        if means:
            levels = np.array(sorted(means))
            values = np.array([means[level] for level in levels])
            axis.loglog(levels, values, "o-", color=AGENTS[agent][2], label=f"E[τ] of {agent}")
            axis.loglog(levels, values[0] * (levels[0] / levels) ** 2, ":", color="black", label="1/ε²")
            axis.legend()
        axis.set(xlabel="ε / H", ylabel="episodes", title=f"Sample complexity, {agent}")
        axis.grid(alpha=0.3)
    return figure


def encoded(picture: bytes) -> str:
    return base64.b64encode(picture).decode()


def report(claims: list[Claim], pictures: dict[tuple[str, str], bytes], about: dict[str, Any], took: float) -> str:
    """One page with everything."""
    lines = "".join(
        f"<tr><td>{'observed' if claim.observed else '<b>not observed</b>'}</td><td>{html.escape(claim.text)}</td>"
        f"<td>{html.escape(claim.measured)}</td></tr>"
        for claim in claims
    )
    images = "".join(
        f'<h2>{title}</h2><p><img alt="{title}" src="data:image/png;base64,{encoded(pictures[name, "png"])}"></p>'
        for name, title in (("errors", "Estimation error"), ("visits", "Visits of each state"), ("tau", "Episodes to each ε"))
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Adaptive Reward-Free Exploration, reproduced</title>
<style>body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #222 }}
td {{ padding: 3px 1rem 3px 0; vertical-align: top }} img {{ max-width: 100% }}</style></head><body>
<h1>Adaptive Reward-Free Exploration, reproduced</h1>
<p>{html.escape(json.dumps(about))}; {took:.0f} seconds. Bands are 95% bootstrap intervals of the mean over the runs.</p>
<h2>What the paper says, and what is seen here</h2><table>{lines}</table>{images}</body></html>
"""

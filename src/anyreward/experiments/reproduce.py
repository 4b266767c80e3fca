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
from dataclasses import asdict, dataclass, replace
from math import ceil, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from .. import envs, theory
from ..algorithms import ALGORITHMS, RFUCRL
from ..confidence import paper_rule
from ..explore import explore
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
TIGHT = "RF-trajectory, tight", "BPI-UCRL, tight"  # beyond the paper: our certificate, and the explorer that goes with it
MORE: dict[str, tuple[str, dict[str, Any], str]] = {
    TIGHT[0]: ("rf-trajectory", {"bounds": "tight"}, "tab:cyan"),
    TIGHT[1]: ("bpi-ucrl", {"rewards": "observed", "bounds": "tight"}, "tab:olive"),
}
# How tau depends on each parameter, on random models: its values, and the exponent in the paper's stationary bound.
SCALING: dict[str, tuple[tuple[float, ...], float]] = {
    "S": ((5, 10, 20, 40), 2.0),
    "A": ((2, 4, 8, 16), 1.0),
    "H": ((4, 8, 16, 32), 3.0),
    "epsilon": ((3.2, 1.6, 0.8, 0.4), -2.0),
    "log(1/delta)": ((1e-2, 1e-6, 1e-18, 1e-54), 1.0),
}
BASE = {"S": 10, "A": 4, "H": 8, "epsilon": 1.6, "log(1/delta)": 0.1}
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


class AuthorsRFUCRL(RFUCRL):
    """RF-UCRL with the constants of the authors' published code: log(2 S A H / delta) for pooled counts, sqrt(beta/n) in place of
    sqrt(2 beta/n), and one step more in sigma. Its index is a valid bound too: sigma_{H-h} sqrt(beta/(2n)) is what is needed."""

    def rule(self) -> Any:
        setting = self.setting
        by_step = paper_rule(replace(setting, stationary=False), self.delta, self.clip)
        sigma = setting.sigma[1:][::-1]  # of H-h steps, from h = 0
        return paper_rule(setting, self.delta, self.clip)._replace(weight=setting.discount * sigma / sqrt(2), level=by_step.level)

    @property
    def error_bound(self) -> float:
        return self._index.value()

    @property
    def follows_its_bound(self) -> bool:
        return True


def environment(name: str, published: bool = False) -> TabularMDP:
    """The paper's environment, or that of the authors' published configuration."""
    if name == "chain":
        return envs.double_chain(31, 0.05, variant="authors") if published else envs.double_chain()
    return envs.grid_world(variant="authors") if published else envs.grid_world()


def discount_of(published: bool) -> float:
    return 0.99 if published else 1.0


def explorer_of(agent: str, mdp: TabularMDP, seed: int, published: bool = False) -> Any:
    name, options, _ = (AGENTS | MORE)[agent]
    kind = AuthorsRFUCRL if published and agent == "RF-UCRL" else ALGORITHMS[name]
    given: dict[str, Any] = {"bounds": "paper", **options, **({"reward": mdp.reward} if kind.needs_reward else {})}
    return kind(mdp.setting(H, discount_of(published), stationary=True), delta=DELTA, seed=seed, **given)


def play(explorer: Any, mdp: TabularMDP, rng: np.random.Generator, end: int, goal: float = -1.0) -> bool:
    """To episode `end`, or until the explorer's bound is at most `goal`."""
    while explorer.episodes < end:
        if explorer.advance(mdp, rng, end - explorer.episodes, goal):
            return True
    return False


def curve(
    name: str, agent: str, run: int, seed: int, transitions: int, visits_at: int, published: bool = False
) -> list[dict[str, Any]]:
    """Errors along the way, and visits when there were so many transitions."""
    mdp, discount = environment(name, published), discount_of(published)
    explorer, rng = explorer_of(agent, mdp, seed, published), np.random.default_rng(seed)
    best = float(mdp.initial @ backward_induction(mdp, mdp.reward, H, discount).V[0])
    looks = {int(t) for t in np.geomspace(500 // H, transitions // H, 16)} | {visits_at // H}
    rows: list[dict[str, Any]] = []
    for t in sorted(looks):
        play(explorer, mdp, rng, t)
        model = explorer.counts.model()
        error = abs(float(model.initial @ backward_induction(model, mdp.reward, H, discount).V[0]) - best)
        visits = explorer.counts.state_visits().tolist() if t == visits_at // H else None
        rows.append({"environment": name, "agent": agent, "run": run, "transitions": t * H, "error": error, "visits": visits})
    return rows


def stops(agent: str, run: int, seed: int, transitions: int, published: bool = False) -> list[dict[str, Any]]:
    """The first episode at which each epsilon is certified on the chain, in one run."""
    mdp = environment("chain", published)
    explorer, rng = explorer_of(agent, mdp, seed, published), np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for level in LEVELS:
        goal, end = level * H / 2, transitions // H
        if agent == TIGHT[0]:  # its certificate is looked at whenever the episodes have grown by 1%
            while explorer.error_bound > goal and explorer.episodes < end:
                play(explorer, mdp, rng, min(end, ceil(1.01 * explorer.episodes) + 1))
            reached = explorer.error_bound <= goal
        else:
            reached = explorer.error_bound <= goal or play(explorer, mdp, rng, end, goal)
        rows.append({"agent": agent, "run": run, "epsilon": level, "tau": explorer.episodes if reached else None})
        if not reached:
            break
    return rows


def scaling(parameter: str, value: float, run: int, seed: int) -> list[dict[str, Any]]:
    """How many episodes RF-UCRL needs on a random model with one parameter changed."""
    p = {**BASE, parameter: value}
    mdp = envs.garnet(int(p["S"]), int(p["A"]), 2, seed=run)
    atlas = explore(
        mdp, int(p["H"]), p["epsilon"], p["log(1/delta)"], "rf-ucrl", "paper", stationary=True, seed=seed, replan="geometric",
        max_episodes=10**13, progress=False,
    )  # fmt: skip
    return [{"parameter": parameter, "value": value, "run": run, "episodes": atlas.episodes if atlas.certificate.met else None}]


def exponents(rows: list[dict[str, Any]]) -> list[tuple[str, float, float]]:
    """For each parameter, the exponent of tau that was measured over its two largest values, and the predicted one."""
    found = []
    for parameter, (values, predicted) in SCALING.items():
        means = []
        for value in values:
            taus = [row["episodes"] for row in rows if row["parameter"] == parameter and row["value"] == value]
            means.append(float(np.mean([tau for tau in taus if tau is not None])))
        x = [log(1 / value) for value in values] if parameter.startswith("log") else list(values)
        found.append((parameter, float(np.log(means[-1] / means[-2]) / np.log(x[-1] / x[-2])), predicted))
    return found


def run(
    out: Path,
    budget: Budget = FULL,
    seed: int = 0,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    published: bool = False,
) -> list[Claim]:
    """Runs everything and writes tables, figures and a report into a folder; returns the claims with their verdicts.

    `published` takes the authors' published configuration where it differs from the text: moves fail with probability 0.05 on the
    chain, discount 0.99, rewards and walls as in their code, and RF-UCRL's constants (`AuthorsRFUCRL`).
    """
    check_writable(out / "x") if out.is_dir() else check_writable(out)
    out.mkdir(exist_ok=True)
    if executor is None:
        with ProcessPoolExecutor(workers or os.cpu_count()) as own:
            return run(out, budget, seed, own, None, progress, published)
    start = time.perf_counter()
    seeds = [int(child.generate_state(1)[0]) for child in np.random.SeedSequence(seed).spawn(budget.runs)]
    jobs: list[tuple[Any, ...]] = []
    for i, number in enumerate(seeds):  # the longest first
        jobs.append((stops, "RF-UCRL", i, number, budget.tau_rf, published))
    for i, number in enumerate(seeds):
        jobs.append((stops, "BPI-UCRL", i, number, budget.tau_bpi, published))
        more = 4 * i < budget.runs  # beyond the paper, a quarter of its runs
        if more:
            jobs.append((stops, TIGHT[1], i, number, budget.tau_bpi, published))
            jobs.append((stops, TIGHT[0], i, number, budget.tau_rf, published))
        if i < 3:
            jobs += [(scaling, name, value, i, number) for name, (values, _) in SCALING.items() for value in values]
        for agent in reversed(AGENTS | MORE if more else AGENTS):
            jobs.append((curve, "grid", agent, i, number, budget.grid, budget.grid_visits, published))
            jobs.append((curve, "chain", agent, i, number, budget.chain, budget.chain_visits, published))
    futures = {executor.submit(*job): k for k, job in enumerate(jobs)}
    results: dict[int, list[dict[str, Any]]] = {}
    for future in as_completed(futures):
        results[futures[future]] = future.result()
        if progress is not None:
            progress(len(results), len(jobs))
    rows = [row for k in range(len(jobs)) for row in results[k]]
    curves = [row for row in rows if "transitions" in row]
    taus = [row for row in rows if "tau" in row]
    scales = [row for row in rows if "parameter" in row]
    took = time.perf_counter() - start
    about = {"budget": asdict(budget), "seed": seed, "as_published": published}
    kept = [{k: v for k, v in row.items() if k != "visits"} for row in curves]
    visits = [row | {"state": s, "visits": n} for row in curves if row["visits"] is not None for s, n in enumerate(row["visits"])]
    seen = [{k: v for k, v in row.items() if k != "error"} for row in visits]
    for name, table in {"errors": kept, "visits": seen, "tau": taus, "scaling": scales}.items():
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
    replace_file(out / "report.html", report(claims, pictures, about, took, taus, scales).encode())
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
    runs = {agent: 1 + max(row["run"] for row in mine if row["agent"] == agent) for agent in AGENTS | MORE}
    errors = {agent: np.zeros((runs[agent], len(looks))) for agent in AGENTS | MORE}
    for row in mine:
        errors[row["agent"]][row["run"], looks.index(row["transitions"])] = row["error"]
    return looks, errors


def visits_of(curves: list[dict[str, Any]], name: str) -> dict[str, np.ndarray]:
    """Mean visits of each state, for each agent."""
    mine = [row for row in curves if row["environment"] == name and row["visits"] is not None]
    return {agent: np.mean([row["visits"] for row in mine if row["agent"] == agent], axis=0) for agent in AGENTS | MORE}


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
        fall = {agent: float(errors[agent][:, early].mean() / errors[agent][:, -1].mean()) for agent in AGENTS}
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
            colour = (AGENTS | MORE)[agent][2]
            axis.plot(looks, [b.mean for b in bands], color=colour, label=agent)
            axis.fill_between(looks, [b.low for b in bands], [b.high for b in bands], color=colour, alpha=0.15, linewidth=0)
        axis.set(xscale="log", yscale="log", xlabel="transitions n", ylabel="|V̂* − V*|", title=f"Estimation error, {name}")
        axis.grid(alpha=0.3)
    axes[0][0].legend()
    return figure


def draw_visits(curves: list[dict[str, Any]]) -> Any:
    figure, axes = _figure(20, 6, 2)
    for column, (agent, visits) in enumerate(visits_of(curves, "chain").items()):
        axes[0][column].bar(np.arange(len(visits)), visits, width=1.0, color=(AGENTS | MORE)[agent][2])
        axes[0][column].set(title=f"{agent}, chain", xlabel="state", ylabel="visits")
    grids = visits_of(curves, "grid")
    most = max(float(np.log10(visits.max() + 1)) for visits in grids.values())
    for column, (agent, visits) in enumerate(grids.items()):
        axes[1][column].imshow(np.log10(visits.reshape(21, 21) + 1), cmap="viridis", vmin=0.0, vmax=most)
        axes[1][column].set(title=f"{agent}, grid (log)", xticks=[], yticks=[])
    return figure


def draw_taus(taus: list[dict[str, Any]]) -> Any:
    figure, axes = _figure(11, 2)
    for axis, pair in zip(axes[0], (("RF-UCRL", TIGHT[0]), ("BPI-UCRL", TIGHT[1])), strict=True):
        for agent in pair:
            means = mean_taus(taus, agent)
            if means:
                levels = np.array(sorted(means))
                values = np.array([means[level] for level in levels])
                axis.loglog(levels, values, "o-", color=(AGENTS | MORE)[agent][2], label=f"E[τ] of {agent}")
                axis.loglog(levels, values[0] * (levels[0] / levels) ** 2, ":", color="black")
        if axis.get_legend_handles_labels()[0]:
            axis.legend(title="dotted: 1/ε²")
        axis.set(xlabel="ε / H", ylabel="episodes", title=f"Sample complexity, {pair[0]}")
        axis.grid(alpha=0.3)
    return figure


def encoded(picture: bytes) -> str:
    return base64.b64encode(picture).decode()


def beside_the_theorem(taus: list[dict[str, Any]]) -> list[tuple[str, float, float, float, float]]:
    """Agent, epsilon / H, measured tau, the largest tau that the paper's inequality allows, and the bound as it is printed."""
    setting = environment("chain").setting(H, stationary=True)
    out = []
    for agent in ("RF-UCRL", "BPI-UCRL"):
        for level, tau in sorted(mean_taus(taus, agent).items()):
            given = setting, level * H, DELTA, agent.lower()
            out.append((agent, level, tau, theory.tau_implicit(*given), theory.tau_printed(*given)))
    return out


def report(
    claims: list[Claim],
    pictures: dict[tuple[str, str], bytes],
    about: dict[str, Any],
    took: float,
    taus: list[dict[str, Any]],
    scales: list[dict[str, Any]],
) -> str:
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
    bounds = "".join(
        f"<tr><td>{agent}</td><td>{level:g}</td><td>{tau:,.0f}</td><td>{implicit:.2e}</td><td>{printed:.2e}</td></tr>"
        for agent, level, tau, implicit, printed in beside_the_theorem(taus)
    )
    powers = "".join(
        f"<tr><td>{name}</td><td>{seen:.2f}</td><td>{predicted:g}</td></tr>" for name, seen, predicted in exponents(scales)
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Adaptive Reward-Free Exploration, reproduced</title>
<style>body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #222 }}
td {{ padding: 3px 1rem 3px 0; vertical-align: top }} img {{ max-width: 100% }}</style></head><body>
<h1>Adaptive Reward-Free Exploration, reproduced</h1>
<p>{html.escape(json.dumps(about))}; {took:.0f} seconds. Bands are 95% bootstrap intervals of the mean over the runs.</p>
<h2>What the paper says, and what is seen here</h2><table>{lines}</table>{images}
<h2>Measured episodes beside the theorems</h2>
<table><tr><th>agent</th><th>ε/H</th><th>E[τ]</th><th>largest τ the proof allows</th><th>bound as printed</th></tr>
{bounds}</table>
<h2>Scaling of RF-UCRL's τ on random models</h2>
<p>Exponents between the two largest values of each parameter; predicted: the paper's stationary bound, S²AH³ log(1/δ)/ε².</p>
<table><tr><th>in</th><th>measured</th><th>predicted at most</th></tr>{powers}</table></body></html>
"""

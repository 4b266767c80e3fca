"""The experiments of the paper (Kaufmann et al. 2021, section 6 and appendix A), with its budgets.

`run` plays them, writes tables, figures and a report, and returns the paper's claims with a verdict on each (`claims`).

There are four agents: the random policy; an agent with a generative model; RF-UCRL without clipping and with a full backward
pass after every episode, as in the paper's figures; and BPI-UCRL, which observes the rewards. All have the paper's thresholds
with delta = 0.1 and H = 20. On the double chain (31 states) and on the 21 x 21 grid, the error |V_hat*(s_1; r) - V*(s_1; r)| is
measured against the number of transitions n, and so are the visits of each state. On the chain, so is the number of episodes tau
at which each epsilon is certified; one run serves all epsilons.

Everything is run twice. The paper's text counts by step, n_h(s, a). The authors' published code pools the steps, n(s, a), as the
stationary variants in the paper's appendix do. The paper's figures must have been made with pooled counts: by step, RF-UCRL
certifies no epsilon of 0.65 H or less within 10^8 transitions.

Three experiments go beyond the paper: BPI-UCRL with the threshold log(1/delta), which some versions of the authors' code have
and which guarantees nothing; the same figures with `bounds="tight"`, with a quarter of the runs; and how tau depends on each
parameter, on random models.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from math import ceil, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from .. import envs, theory
from .._files import check_folder, file_lock, replace_file
from ..algorithms import BPIUCRL, RFUCRL, make_explorer
from ..certificates.thresholds import paper_radius, paper_rule
from ..data.tabular import TabularMDP
from ..environments.tabular import play
from ..exploring.explore import explore
from ..planning import backward_induction
from ..setting import Setting
from .claims import BARE, CLIPPED, KNOWN, Claim, taus_of, verdicts
from .jobs import Failure, run_jobs
from .report import TIGHT, write_report

H, DELTA = 20, 0.1
COUNTS = ("by step", "pooled")
AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "random policy": ("random", {}),
    "generative model": ("generative", {}),
    "RF-UCRL": ("rf-ucrl", {"clip": False, "replan": "every"}),
    "BPI-UCRL": ("bpi-ucrl", {"rewards": "deterministic"}),
}
MORE_AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    CLIPPED: ("rf-ucrl", {"clip": True, "replan": "every"}),
    BARE: ("bpi-ucrl", {"rewards": "deterministic"}),
    "RF-trajectory, tight": ("rf-trajectory", {"bounds": "tight"}),  # our certificate and its explorer
    "BPI-UCRL, tight": ("bpi-ucrl", {"rewards": "deterministic", "bounds": "tight"}),
    KNOWN: ("bpi-ucrl", {"rewards": "deterministic", "bounds": "tight"}),  # and K is known
}
# The values of each parameter in the experiment on how tau depends on it; the others are those of BASE.
SCALING: dict[str, tuple[float, ...]] = {
    "S": (5, 10, 20, 40),
    "A": (2, 4, 8, 16),
    "H": (4, 8, 16, 32),
    "epsilon": (3.2, 1.6, 0.8, 0.4),
    "log(1/delta)": (1e-2, 1e-6, 1e-18, 1e-54),
}
BASE = {"S": 10, "A": 4, "H": 8, "epsilon": 1.6, "log(1/delta)": 0.1}
LEVELS = (4.0, 3.0, 2.5, 2.0, 1.5, 1.2, 1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.07, 0.05)  # epsilon / H
LOOKS = 16  # numbers of transitions at which the error is measured, evenly spaced on a logarithmic scale


@dataclass(frozen=True)
class Budget:
    """The size of a reproduction: numbers of runs, and transitions after which each kind of run ends."""

    runs: int  # of each agent in the error curves
    tau_runs: int  # of BPI-UCRL in the stopping times
    chain: int  # transitions of the error curves on the chain
    grid: int  # transitions of the error curves on the grid
    chain_visits: int  # transitions at which the visits of the chain are shown
    grid_visits: int  # transitions at which the visits of the grid are shown
    tau_rf: int  # transitions of the stopping times of RF-UCRL
    tau_bpi: int  # transitions of the stopping times of BPI-UCRL
    tau_rf_runs: int  # of RF-UCRL in the stopping times, which are by far the longest: 10 in the authors' own configuration


FULL = Budget(48, 48, 100_000, 100_000, 5_000, 30_000, 10**8, 10**6, 10)
QUICK = Budget(8, 2, 60_000, 30_000, 5_000, 30_000, 2 * 10**7, 10**5, 2)


@dataclass(frozen=True)
class Job:
    """One run of one agent: the name of a function in `PARTS`, and its arguments."""

    part: str
    given: dict[str, Any]


class AuthorsRFUCRL(RFUCRL):
    """RF-UCRL with the constants of the authors' published code.

    It has log(2 S A H / delta) for pooled counts, sqrt(beta/n) in place of sqrt(2 beta/n), and one step more in sigma. Its index
    is a valid bound too: sigma_{H-h} sqrt(beta/(2n)) would be enough.
    """

    def rule(self) -> Any:
        setting = self.setting
        sigma = setting.sigma[1:][::-1]  # of H-h steps, from h = 0
        by_step = paper_radius(replace(setting, stationary=False), self.delta)
        return paper_rule(setting, self.delta, self.clip)._replace(weight=setting.discount * sigma / sqrt(2), radius=by_step)

    @property
    def error_bound(self) -> float:
        return self._index.value()

    @property
    def follows_its_bound(self) -> bool:
        return True


class AuthorsBPIUCRL(BPIUCRL):
    """BPI-UCRL with log(2 S A H / delta) for pooled counts, as in the authors' published code.

    Its bounds are valid, and a little wider than needed.
    """

    def _make_constants(self) -> Any:
        setting = self.setting
        laws = 2 * setting.n_states * setting.n_actions * setting.horizon
        return super()._make_constants()._replace(log_laws=log(laws / self.delta))


class BareBPIUCRL(BPIUCRL):
    """BPI-UCRL with the threshold log(1/delta) for every n.

    The threshold has no union bound and is not uniform in time, so nothing is guaranteed.
    """

    heuristic = True

    def _make_constants(self) -> Any:
        return super()._make_constants()._replace(n_states=1, log_laws=log(1 / self.delta))  # beta has (S - 1) log(...) more


def environment(name: str, published: bool = False) -> TabularMDP:
    """The paper's environment "chain" or "grid"; with `published`, that of the authors' published configuration."""
    if name == "chain":
        return envs.double_chain(31, 0.05, variant="authors") if published else envs.double_chain()
    return envs.grid_world(variant="authors") if published else envs.grid_world()


def discount_of(published: bool) -> float:
    """The discount of the paper's text, or that of the authors' published configuration."""
    return 0.99 if published else 1.0


def explorer_of(agent: str, counts: str, mdp: TabularMDP, seed: int, published: bool = False) -> Any:
    """The explorer of an agent (a key of `AGENTS` or `MORE_AGENTS`) with one way of counting, ready to play."""
    name, options = (AGENTS | MORE_AGENTS)[agent]
    theirs = {"RF-UCRL": AuthorsRFUCRL, CLIPPED: AuthorsRFUCRL, "BPI-UCRL": AuthorsBPIUCRL} if published else {}
    kind: Any = BareBPIUCRL if agent == BARE else theirs.get(agent, name)
    given: dict[str, Any] = {"bounds": "paper", **options}
    if agent == KNOWN:
        given["max_successors"] = mdp.model.shape[-1]
    if published and "rewards" in given:
        given["rewards"] = "known"
    setting = mdp.setting(H, discount_of(published), stationary=counts == "pooled")
    return make_explorer(kind, setting, {"delta": DELTA, "seed": seed, **given}, own_reward=mdp.reward)


def play_until(explorer: Any, mdp: TabularMDP, rng: np.random.Generator, end: int, goal: float = -1.0) -> bool:
    """Play until episode `end`, or until the explorer's bound is at most `goal`; returns whether the goal was reached."""
    while explorer.episodes < end:
        if play(explorer, mdp, rng, end - explorer.episodes, goal):
            return True
    return False


def error_curve(
    environment_name: str, agent: str, counts: str, run: int, seed: int, transitions: int, visits_at: int, published: bool
) -> list[dict[str, Any]]:
    """One run of an error curve: the error and the agent's own bound on it along the way.

    The row at `visits_at` transitions also has the visits of each state. The arguments are those of a `Job`.
    """
    mdp, discount = environment(environment_name, published), discount_of(published)
    explorer, rng = explorer_of(agent, counts, mdp, seed, published), np.random.default_rng(seed)
    best = float(mdp.initial @ backward_induction(mdp, mdp.reward, H, discount).V[0])
    looks = {int(t) for t in np.geomspace(500 // H, transitions // H, LOOKS)} | {visits_at // H}
    rows: list[dict[str, Any]] = []
    for t in sorted(looks):
        play_until(explorer, mdp, rng, t)
        model = explorer.counts.model()
        error = abs(float(model.initial @ backward_induction(model, mdp.reward, H, discount).V[0]) - best)
        row = {"environment": environment_name, "counts": counts, "agent": agent, "run": run, "transitions": t * H}
        bound = float(explorer.error_bound) if agent in ("RF-UCRL", CLIPPED) else None
        visits = explorer.counts.state_visits().tolist() if t == visits_at // H else None
        rows.append({**row, "error": error, "bound": bound, "visits": visits})
    return rows


def stopping_times(agent: str, counts: str, run: int, seed: int, transitions: int, published: bool) -> list[dict[str, Any]]:
    """One run of the stopping times on the chain: the first episode at which each epsilon is certified.

    If the transitions end before all are certified, the last row is that of the first epsilon that was not.
    """
    mdp = environment("chain", published)
    explorer, rng = explorer_of(agent, counts, mdp, seed, published), np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for level in LEVELS:
        goal, end = level * H / 2, transitions // H
        if agent == "RF-trajectory, tight":  # the certificate is computed whenever the episodes have grown by 1%
            while explorer.error_bound > goal and explorer.episodes < end:
                play_until(explorer, mdp, rng, min(end, ceil(1.01 * explorer.episodes) + 1))
            reached = explorer.error_bound <= goal
        else:
            reached = explorer.error_bound <= goal or play_until(explorer, mdp, rng, end, goal)
        row = {"agent": agent, "counts": counts, "run": run, "epsilon": level, "episodes": explorer.episodes}
        rows.append({**row, "tau": explorer.episodes if reached else None})
        if not reached:
            break
    return rows


def scaling(parameter: str, value: float, counts: str, run: int, seed: int) -> list[dict[str, Any]]:
    """The number of episodes that RF-UCRL needs on a random model whose parameters are those of `BASE` but for one."""
    p = {**BASE, parameter: value}
    mdp = envs.garnet(int(p["S"]), int(p["A"]), 2, seed=run)
    atlas = explore(
        mdp, int(p["H"]), p["epsilon"], p["log(1/delta)"], "rf-ucrl", "paper", stationary=counts == "pooled", seed=seed,
        replan="geometric", max_episodes=10**13, progress=False, on_interrupt="raise",
    )  # fmt: skip
    episodes = atlas.episodes if atlas.certificate.met else None
    return [{"parameter": parameter, "value": value, "counts": counts, "run": run, "episodes": episodes}]


PARTS: dict[str, Callable[..., list[dict[str, Any]]]] = {
    "error curves": error_curve,
    "stopping times": stopping_times,
    "scaling": scaling,
}


def do_job(job: Job) -> dict[str, Any]:
    """Do a job: the rows that it measured, and the seconds of CPU time that it took, on one core."""
    start = time.thread_time()
    rows = PARTS[job.part](**job.given)
    return {"rows": rows, "seconds": time.thread_time() - start}


def jobs_of(budget: Budget, seed: int, published: bool) -> Iterator[Job]:
    """All jobs of a reproduction, roughly the longest first."""
    most = max(budget.runs, budget.tau_runs, budget.tau_rf_runs)
    seeds = [int(child.generate_state(1)[0]) for child in np.random.SeedSequence(seed).spawn(most)]
    pooled_first = ("pooled",) if published else COUNTS[::-1]  # the published code has pooled counts only

    def job(part: str, counts: str, i: int, **given: Any) -> Job:
        return Job(part, {**given, "counts": counts, "run": i, "seed": seeds[i]})

    def taus(agent: str, counts: str, runs: int) -> Iterator[Job]:
        n = budget.tau_bpi if agent.startswith("BPI") else budget.tau_rf
        for i in range(runs):
            yield job("stopping times", counts, i, agent=agent, transitions=n, published=published)

    def curves(agent: str, counts: str, runs: int) -> Iterator[Job]:
        for name, n, at in (("grid", budget.grid, budget.grid_visits), ("chain", budget.chain, budget.chain_visits)):
            given = {"environment_name": name, "agent": agent, "transitions": n, "visits_at": at, "published": published}
            for i in range(runs):
                yield job("error curves", counts, i, **given)

    for counts in pooled_first:
        yield from taus("RF-UCRL", counts, budget.tau_rf_runs)
        yield from taus("BPI-UCRL", counts, budget.tau_runs)
        for agent in TIGHT[2:]:
            yield from taus(agent, counts, ceil(budget.tau_runs / 4))
        for agent in (*reversed(AGENTS), BARE, CLIPPED):
            yield from curves(agent, counts, budget.runs)
        for agent in TIGHT[2:]:
            yield from curves(agent, counts, ceil(budget.runs / 4))
        for parameter, values in SCALING.items():
            for value in values:
                for i in range(min(3, budget.runs)):
                    yield job("scaling", counts, i, parameter=parameter, value=value)


def run(
    out: Path,
    budget: Budget = FULL,
    seed: int = 0,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    published: bool = False,
) -> tuple[list[Claim], list[Failure]]:
    """Run the paper's experiments and write tables, figures and a report into a folder.

    `out/cells/` keeps the result of each job: an interrupted call resumes with the jobs that are missing. If any job fails, there
    are no tables, no report and no claims, but the failures; the next call tries the failed jobs again.

    Parameters
    ----------
    out
        The folder to write to.
    budget
        The numbers of runs and transitions: `FULL` is the paper's, `QUICK` takes under a minute.
    seed
        The seeds of all runs are derived from it.
    executor
        Where to run, like the executors of `concurrent.futures`. None: processes on this machine.
    workers
        Number of processes, if no executor is given. None: one for each core.
    progress
        Called with the number of jobs done and the number of all jobs.
    published
        Whether to use the authors' published configuration where it differs from the text: counts are pooled, moves fail with
        probability 0.05 on the chain, the discount is 0.99, rewards and walls are as in their code, BPI-UCRL knows the rewards,
        and both algorithms have the constants of their code (`AuthorsRFUCRL`, `AuthorsBPIUCRL`). The tolerance of their KL
        solver, which voids the guarantee, is not used.

    Returns
    -------
    claims, failures
        The paper's claims with their verdicts, and the jobs that failed; one of the two lists is empty.
    """
    check_folder(out)
    out.mkdir(parents=True, exist_ok=True)
    with file_lock(out):
        return _run(out, budget, seed, executor, workers, progress, published)


def _run(
    out: Path,
    budget: Budget,
    seed: int,
    executor: Executor | None,
    workers: int | None,
    progress: Callable[[int, int], None] | None,
    published: bool,
) -> tuple[list[Claim], list[Failure]]:
    start, jobs = time.perf_counter(), list(jobs_of(budget, seed, published))
    results, failures = run_jobs(do_job, jobs, out / "cells", executor, workers, progress)
    if failures:
        return [], failures
    tables = tables_of(jobs, results)
    tables["theorems"] = [] if published else theorems_table(tables["tau"])
    about = {"budget": asdict(budget), "seed": seed, "as_published": published, "delta": DELTA, "horizon": H}
    about |= {"discount": discount_of(published), "agents": AGENTS | MORE_AGENTS, "levels": LEVELS}
    for name, rows in tables.items():
        replace_file(out / f"{name}.parquet", parquet(name, rows, about))
    claims = verdicts(tables)
    write_report(out, tables, claims, about, time.perf_counter() - start)
    return claims, []


COLUMNS = {
    "errors": "environment counts agent run:int seed:int transitions:int error:float bound:float",
    "visits": "environment counts agent run:int seed:int transitions:int state:int visits:int",
    "tau": "agent counts run:int seed:int epsilon:float episodes:int tau:int",
    "scaling": "parameter value:float counts run:int seed:int episodes:int bound:float",
    "theorems": "counts agent epsilon:float tau:float implicit:float printed:float",
    "timings": "part environment counts agent run:int seed:int transitions:int seconds:float",
}


def tables_of(jobs: list[Job], results: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The tables of a reproduction, from its jobs and their results. All but `timings` depend on budget and seed alone."""
    tables: dict[str, list[dict[str, Any]]] = {name: [] for name in ("errors", "visits", "tau", "scaling", "timings")}
    for job, result in zip(jobs, results, strict=True):
        given, rows = job.given, [{**row, "seed": job.given["seed"]} for row in result["rows"]]
        timing = {"part": job.part, "environment": given.get("environment_name", "chain"), "transitions": None}
        if job.part == "error curves":
            tables["errors"] += rows
            seen = next(row for row in rows if row["visits"] is not None)
            tables["visits"] += [{**seen, "state": s, "visits": n} for s, n in enumerate(seen["visits"])]
            timing["transitions"] = rows[-1]["transitions"]
        elif job.part == "stopping times":
            tables["tau"] += rows
            timing["transitions"] = rows[-1]["episodes"] * H
        else:
            tables["scaling"] += [{**row, "bound": scaling_bound(row)} for row in rows]
            timing["environment"] = "random models"
        timing |= {"counts": given["counts"], "agent": given.get("agent", "RF-UCRL, geometric"), "run": given["run"]}
        tables["timings"].append({**timing, "seed": given["seed"], "seconds": result["seconds"]})
    return tables


def scaling_bound(row: dict[str, Any]) -> float:
    """The largest tau that the paper's inequality allows, for the parameters of a row of the table "scaling"."""
    p = {**BASE, row["parameter"]: row["value"]}
    S, A, horizon = int(p["S"]), int(p["A"]), int(p["H"])
    setting = Setting(n_states=S, n_actions=A, horizon=horizon, initial_state=0, stationary=row["counts"] == "pooled")
    return theory.tau_implicit(setting, p["epsilon"], p["log(1/delta)"])


def theorems_table(taus: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The table "theorems": mean tau, the largest tau that the paper's inequality allows, and the bound that the paper prints."""
    rows = []
    for counts in dict.fromkeys(row["counts"] for row in taus):
        setting = environment("chain").setting(H, stationary=counts == "pooled")
        for agent in ("RF-UCRL", "BPI-UCRL"):
            for level, found in sorted(taus_of(taus, agent, counts).items()):
                given = setting, level * H, DELTA, agent.lower()
                bounds = {"implicit": theory.tau_implicit(*given), "printed": theory.tau_printed(*given)}
                rows.append({"counts": counts, "agent": agent, "epsilon": level, "tau": float(np.nanmean(found)), **bounds})
    return rows


def parquet(name: str, rows: list[dict[str, Any]], about: dict[str, Any]) -> bytes:
    """The content of a Parquet file with the columns of a table; `about` goes into its metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from .. import __version__

    kinds = {"int": pa.int64(), "float": pa.float64(), "": pa.string()}
    columns = [column.partition(":") for column in COLUMNS[name].split()]
    told = {"anyreward.reproduce": json.dumps(about, sort_keys=True), "anyreward.version": __version__}
    schema = pa.schema([(column, kinds[kind]) for column, _, kind in columns], metadata=told)
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink, compression="zstd")
    return sink.getvalue()

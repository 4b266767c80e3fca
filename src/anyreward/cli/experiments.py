"""The commands that run experiments: compare, sweep, reproduce and demo."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..setting import shown
from ..words import console, is_terminal, plain, verbatim
from .app import (
    FAILED,
    INTERRUPTED,
    AsJson,
    EnvArgs,
    Quiet,
    Scheduler,
    Seed,
    app,
    arguments,
    examples,
    report_errors,
    say,
    say_json,
)

Wait = Annotated[float, typer.Option(help="With --scheduler: the seconds to wait while the cluster has no worker.")]
Workers = Annotated[int | None, typer.Option(help="Number of processes on this machine. By default one for each core.")]


@contextmanager
def resumable() -> Iterator[None]:
    """On Ctrl-C, say that the finished runs are kept and how to resume, and exit with the code of an interruption."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("interrupted: the finished runs are kept, and the same command resumes with those that are missing", err=True)
        raise typer.Exit(INTERRUPTED) from None


@app.command(
    epilog=examples(
        "anyreward compare --env double-chain --algorithms all --episodes 20000 --seeds 10",
        "anyreward compare --algorithms rf-trajectory,ucbvi:scale=0.0001 --table runs.csv",
    )
)
@report_errors
def compare(
    env: Annotated[
        str, typer.Option(help="An environment of this library, such as double-chain, river-swim or taxi.")
    ] = "double-chain",
    algorithms: Annotated[
        str,
        typer.Option(
            help="Names separated by commas, with options as in ucbvi:scale=0.0001+bonus=hoeffding; or all, which also runs some "
            "of them with smaller bonuses."
        ),
    ] = "all",
    episodes: Annotated[int, typer.Option(help="Number of episodes of each run.")] = 20_000,
    seeds: Annotated[int, typer.Option(help="Number of runs of each algorithm, each with a seed of its own.")] = 10,
    horizon: Annotated[int, typer.Option(help="Number of steps of an episode.")] = 20,
    delta: Annotated[float, typer.Option(help="The probability with which each guarantee may fail, at most.")] = 0.1,
    stationary: Annotated[
        bool, typer.Option("--stationary", help="Assume that the transitions do not depend on the step.")
    ] = False,
    env_arg: EnvArgs = None,
    out: Annotated[Path, typer.Option(help="Draw the error curves to this file (.png, .pdf or .svg).")] = Path(
        "anyreward-compare.png"
    ),
    table: Annotated[Path | None, typer.Option(help="Also write the result of every run to this CSV file.")] = None,
    mistakes: Annotated[
        Path | None,
        typer.Option(
            help="Keep what the policy of every episode loses, print the regret and the number of episodes that lose more than a "
            "tenth of the optimum, and draw both, for every such limit, to this file. Takes longer."
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(help="Number of processes. With more than one for each core, the speeds mean nothing.")
    ] = 1,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compare algorithms on a known model, with significance tests.

    For each algorithm: the error of planning for the model's reward and for 20 others, the states that it visited, its speed,
    what its own theorem guarantees, and what our certificate says about its counts.
    """
    from rich import box
    from rich.progress import Progress
    from rich.table import Column, Table

    from .. import envs
    from .._files import check_writable
    from ..experiments import compare as experiment
    from ..experiments import mistakes as experiment_mistakes
    from ..experiments import statistics
    from ..plots import check_drawable

    if env not in envs.ENVIRONMENTS:
        raise ValueError(f"--env is {shown(env)}: it has to be one of {', '.join(envs.ENVIRONMENTS)}, whose optimum is known.")
    mdp = envs.make(env, **arguments(env_arg, "--env-arg"))
    check_drawable(out)
    if table is not None:
        check_writable(table)
    if mistakes is not None:
        check_drawable(mistakes)
    names = None if algorithms == "all" else [name.strip() for name in algorithms.split(",")]
    with Progress(console=console(stderr=True), disable=quiet or as_json or not is_terminal(sys.stderr)) as bar:
        task = bar.add_task("comparing", total=seeds * len(names or experiment.all_algorithms()))
        runs = experiment.compare(
            mdp, names, episodes, seeds, horizon, delta, stationary, seed, None, workers,
            lambda run: bar.update(task, advance=1, description=verbatim(run.algorithm)), mistakes is not None,
        )  # fmt: skip
    title = f"{env}, H = {horizon}, {seeds} runs"
    experiment.save_picture(out, runs, title)
    if mistakes is not None:
        experiment_mistakes.save_picture(mistakes, runs, title, experiment.styles_of(runs))
    if table is not None:
        experiment.save_table(table, runs)
    rows = experiment.summary(runs)
    if as_json:
        say_json(
            [
                {key: vars(value) if isinstance(value, statistics.BootstrapInterval) else value for key, value in row.items()}
                for row in rows
            ]
        )
        return
    out_to = console()
    tables = [("error", "beats", "worst error", "beats there"), ("goal", "states", "transitions/s", "own ε", "our ε")]
    for columns in [*tables, *[("regret", "bad episodes")] * (mistakes is not None)]:
        longest = min(16, max(len(row["algorithm"]) for row in rows))  # names with many options are folded
        heads = Column("algorithm", overflow="fold", min_width=longest), *(Column(column) for column in columns)
        result = Table(*heads, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
        for row in rows:
            result.add_row(verbatim(row["algorithm"]), *(in_short(row[column]) for column in columns))
        out_to.print(result)
        say("")
    if not quiet:
        say("Numbers are means over the runs, with approximate 95% intervals (bootstrap).")
        say("error: |V̂* − V*| for the model's reward; worst error: the largest of those for", "20 other rewards.")
        say(
            "beats: how many other algorithms have a larger error, by a permutation test at",
            "the level 5% for all pairs at once.",
        )
        if mistakes is not None:
            say("regret: the sum of V* − V^π over all episodes; bad episodes: how many of them lose more", "than a tenth of V*.")
        say(
            f"drawn in {out}",
            *([f"and {mistakes}"] if mistakes is not None else []),
            *([f"every run in {table}"] if table is not None else []),
        )


def in_short(value: Any) -> str:
    """A cell of the table of `compare`: a mean with its interval, if they differ; large numbers without."""
    if not hasattr(value, "mean"):
        return "–" if value is None else str(value)
    mean, low, high = (f"{x:.3g}" for x in (value.mean, value.low, value.high))
    if value.mean >= 1e4:
        return f"{float(mean):,.0f}"
    return mean if low == mean == high else f"{mean} [{low}, {high}]"


@app.command(
    epilog=examples(
        "anyreward sweep chain.toml --out results",
        "anyreward sweep chain.toml --out results --scheduler tcp://HOST:8786",
    )
)
@report_errors
def sweep(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="A TOML file as described in docs/sweeps.md.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option(help="The folder to write the results to. By default the name of the sweep.")
    ] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    wait: Wait = 60.0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run many explorations, as listed in a TOML file.

    A sweep runs every combination of algorithms, environments, parameters and seeds. Each result is kept as soon as it is there:
    after an interruption, the same command resumes with the runs that are missing. All results are collected in table.parquet.
    """
    from rich.progress import Progress

    from ..executors import cluster
    from ..experiments import sweep as experiment

    if workers is not None and workers < 1:
        raise ValueError(f"--workers is {workers}: it has to be at least 1.")
    sweep = experiment.load_config(config)
    folder = Path(sweep["name"]) if out is None else out
    with Progress(console=console(stderr=True), disable=quiet or as_json or not is_terminal(sys.stderr)) as bar:
        task = bar.add_task(verbatim(sweep["name"]), total=len(experiment.cells(sweep)))

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done)

        with resumable(), cluster(scheduler, wait) as executor:
            table, failures = experiment.run(sweep, folder, executor, workers, show)
    if as_json:
        say_json({"table": str(table), "failures": [{"cell": vars(f.job), "error": f.error} for f in failures]})
    else:
        for failure in failures:
            typer.echo(plain(f"failed: {failure.job.algorithm} on {failure.job.environment}: {failure.error}"), err=True)
        if not quiet:
            say(f"written: {table}")
    if failures:
        raise typer.Exit(FAILED)


@app.command(
    epilog=examples(
        "anyreward reproduce --quick --out reproduced",
        "anyreward reproduce --as-published",
    )
)
@report_errors
def reproduce(
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder to write tables, figures and the report to. By default anyreward-reproduced, followed by -quick and "
            "-as-published where these options are given."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Use small budgets: takes under a minute.")] = False,
    as_published: Annotated[
        bool,
        typer.Option("--as-published", help="Use the authors' published configuration where it differs from the paper's text."),
    ] = False,
    rf_runs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How often RF-UCRL is run to its stopping times, 10^8 transitions each: 10 times, as in the authors' own "
            "configuration (2 with --quick). Most else is run 48 times.",
        ),
    ] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    wait: Wait = 60.0,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run the paper's experiments and test each of its claims.

    Writes tables, figures and report.html. Without --quick, the paper's budgets are used, which takes about ten minutes on two
    cores. After an interruption, the same command resumes with the runs that are missing.
    """
    from rich.progress import Progress

    from ..executors import cluster
    from ..experiments import reproduce as experiment

    if workers is not None and workers < 1:
        raise ValueError(f"--workers is {workers}: it has to be at least 1.")
    budget = experiment.QUICK if quick else experiment.FULL
    if rf_runs is not None:
        budget = replace(budget, tau_rf_runs=rf_runs)
    if out is None:
        out = Path("anyreward-reproduced" + "-quick" * quick + "-as-published" * as_published)
    with Progress(console=console(stderr=True), disable=quiet or as_json or not is_terminal(sys.stderr)) as bar:
        task = bar.add_task("reproducing", total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        with resumable(), cluster(scheduler, wait) as executor:
            claims, failures = experiment.run(out, budget, seed, executor, workers, show, as_published)
    for failure in failures:
        typer.echo(plain(f"failed: {failure.job.part} {failure.job.given}: {failure.error}"), err=True)
    if failures:
        raise typer.Exit(FAILED)
    if as_json:
        say_json([vars(claim) for claim in claims])
        return
    for claim in claims:
        say(f"{claim.verdict:12}  {claim.text} (counts {claim.counts})", f"              {claim.measured}")
    say(f"written: {out / 'report.html'}")


@app.command(epilog=examples("anyreward demo --out chain.png"))
@report_errors
def demo(
    out: Annotated[Path, typer.Option(help="Draw the picture to this file (.png, .pdf or .svg).")] = Path("anyreward-demo.png"),
    seed: Seed = 0,
) -> None:
    """Explore the paper's double chain, plan for six rewards.

    Prints each plan's certified interval beside the true optimum and the true value of the plan, and compares the number of
    episodes with what the paper's bound needs.
    """
    from ..experiments import demo as experiment

    experiment.run(out, seed)

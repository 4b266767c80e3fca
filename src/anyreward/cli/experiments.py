"""Commands that run experiments: compare, sweep, reproduce, demo."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ..setting import shown
from ..words import console, plain, verbatim
from .main import FAILED, INTERRUPTED, AsJson, EnvArgs, Quiet, Seed, app, arguments, clear_errors, is_terminal, say, say_json

Wait = Annotated[float, typer.Option(help="With --scheduler: seconds to wait while the cluster has no worker.")]


@contextmanager
def going_on() -> Iterator[None]:
    """Says at Ctrl-C that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("interrupted: what is done is kept, the same command goes on from there", err=True)
        raise typer.Exit(INTERRUPTED) from None


@app.command()
@clear_errors
def compare(
    env: Annotated[str, typer.Option(help="One of our environments, with a reward of its own.")] = "double-chain",
    algorithms: Annotated[
        str, typer.Option(help="Names with commas between them, name:option=value for options, or all.")
    ] = "all",
    episodes: Annotated[int, typer.Option(help="Episodes of each run.")] = 20_000,
    seeds: Annotated[int, typer.Option(help="Runs of each algorithm.")] = 10,
    horizon: Annotated[int, typer.Option(help="Steps of an episode.")] = 20,
    delta: Annotated[float, typer.Option(help="Of every guarantee.")] = 0.1,
    stationary: Annotated[bool, typer.Option("--stationary", help="Assume the same transitions at every step.")] = False,
    env_arg: EnvArgs = None,
    out: Annotated[Path, typer.Option(help="Where to draw it (PNG, PDF or SVG).")] = Path("anyreward-compare.png"),
    table: Annotated[Path | None, typer.Option(help="Also write every run to a CSV file.")] = None,
    workers: Annotated[
        int, typer.Option(help="Processes to run in; more than the machine has cores makes speeds meaningless.")
    ] = 1,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run algorithms side by side: errors for the model's reward and for others, coverage, speed, what is certified.

    Example: anyreward compare --env double-chain --algorithms all --episodes 20000 --seeds 10
    """
    from rich.progress import Progress
    from rich.table import Table

    from .. import envs
    from .._files import check_writable
    from ..experiments import compare as experiment
    from ..experiments import statistics
    from ..plots import check_drawable

    if env not in envs.ENVIRONMENTS:
        raise ValueError(f"--env is {shown(env)}: it has to be one of {', '.join(envs.ENVIRONMENTS)}, whose optimum is known.")
    mdp = envs.make(env, **arguments(env_arg, "--env-arg"))
    check_drawable(out)
    if table is not None:
        check_writable(table)
    names = None if algorithms == "all" else [name.strip() for name in algorithms.split(",")]
    with Progress(console=console(stderr=True), disable=quiet or as_json or not is_terminal(sys.stderr)) as bar:
        task = bar.add_task("comparing", total=seeds * len(names or experiment.everything()))
        runs = experiment.compare(
            mdp, names, episodes, seeds, horizon, delta, stationary, seed, None, workers,
            lambda run: bar.update(task, advance=1, description=verbatim(run.algorithm)),
        )  # fmt: skip
    experiment.save_picture(out, runs, f"{env}, H = {horizon}, {seeds} runs")
    if table is not None:
        experiment.save_table(table, runs)
    rows = experiment.summary(runs)
    if as_json:
        say_json(
            [{key: vars(value) if isinstance(value, statistics.Band) else value for key, value in row.items()} for row in rows]
        )
        return
    result = Table(*rows[0])
    for row in rows:
        result.add_row(*("–" if value is None else str(value) for value in row.values()))
    console(width=None if is_terminal(sys.stdout) else 190).print(result)
    if not quiet:
        say("means over the runs with approximate 95% bands (bootstrap)")
        say("error: |V̂* − V*| for the model's reward, and the worst over 20 others")
        say("beats: how many others have a larger error, by a permutation test that holds for all pairs at once (5%)")
        say(f"drawn in {out}", *([f"every run in {table}"] if table is not None else []))


@app.command()
@clear_errors
def sweep(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A TOML file, see docs/sweeps.md.", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="A folder for the results; by default the name of the sweep.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes on this machine; by default one for each core.")] = None,
    scheduler: Annotated[str | None, typer.Option(metavar="tcp://...", help="Run on the Dask cluster of this scheduler.")] = None,
    wait: Wait = 60.0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run algorithms x environments x parameters x seeds; what is finished is kept, and an interrupted sweep goes on.

    Example: anyreward sweep chain.toml --out results
    """
    from rich.progress import Progress

    from ..experiments import jobs
    from ..experiments import sweep as experiment

    if workers is not None and workers < 1:
        raise ValueError(f"--workers is {workers}: it has to be at least 1.")
    sweep = experiment.load_config(config)
    folder = Path(sweep["name"]) if out is None else out
    with Progress(console=console(stderr=True), disable=quiet or as_json or not is_terminal(sys.stderr)) as bar:
        task = bar.add_task(verbatim(sweep["name"]), total=len(experiment.cells(sweep)))

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done)

        with going_on(), jobs.cluster(scheduler, wait) as executor:
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


@app.command()
@clear_errors
def reproduce(
    out: Annotated[
        Path | None, typer.Option(help="A folder for tables, figures and the report; by default anyreward-reproduced...")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Everything small, in under a minute.")] = False,
    as_published: Annotated[
        bool, typer.Option("--as-published", help="The authors' published configuration, where it differs from the text.")
    ] = False,
    workers: Annotated[int | None, typer.Option(help="Processes on this machine; by default one for each core.")] = None,
    scheduler: Annotated[str | None, typer.Option(metavar="tcp://...", help="Run on the Dask cluster of this scheduler.")] = None,
    wait: Wait = 60.0,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run the paper's experiments and say of each of its claims whether it is seen; an interrupted call goes on where it was.

    Example: anyreward reproduce --quick --out reproduced
    """
    from rich.progress import Progress

    from ..experiments import jobs
    from ..experiments import reproduce as experiment

    if workers is not None and workers < 1:
        raise ValueError(f"--workers is {workers}: it has to be at least 1.")
    budget = experiment.QUICK if quick else experiment.FULL
    if out is None:
        out = Path("anyreward-reproduced" + "-quick" * quick + "-as-published" * as_published)
    with Progress(console=console(stderr=True), disable=quiet or as_json or not is_terminal(sys.stderr)) as bar:
        task = bar.add_task("reproducing", total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        with going_on(), jobs.cluster(scheduler, wait) as executor:
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


@app.command()
@clear_errors
def demo(
    out: Annotated[Path, typer.Option(help="Where to write the picture (PNG, PDF or SVG by its ending).")] = Path(
        "anyreward-demo.png"
    ),
    seed: Seed = 0,
) -> None:
    """Explore the paper's double chain once, then plan for several rewards.

    Example: anyreward demo --out chain.png
    """
    from ..experiments import demo as experiment

    experiment.run(out, seed)

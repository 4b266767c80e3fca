"""The command line: a thin shell over the library.

Exit codes: 0 it did what was asked; 2 an argument or a file is wrong; 3 it ended before epsilon was certified; 4 a cell of a
sweep failed; 130 it was interrupted.
"""

from __future__ import annotations

import ast
import csv
import functools
import inspect
import io
import json
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from ..setting import shown
from ..words import certain, console, down, exact, plain, up

NOT_MET, FAILED, INTERRUPTED = 3, 4, 130

app = typer.Typer(
    help="Explore once. Plan for any reward. Know how wrong you can be.",
    epilog="Exit codes: 0 done, 2 bad argument or file, 3 epsilon not certified, 4 a cell of a sweep failed, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    rich_markup_mode=None,
)

AtlasFile = Annotated[Path, typer.Argument(metavar="ATLAS", help="An atlas file.", show_default=False)]
Env = Annotated[
    str, typer.Argument(metavar="ENV", help="double-chain, grid-world, garnet, inventory, or a Gymnasium id.", show_default=False)
]
EnvArgs = Annotated[
    list[str] | None, typer.Option("--env-arg", metavar="K=V", help="An argument of the environment; repeatable.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else, to stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no report, only what was asked for.")]
Seed = Annotated[int, typer.Option(help="Runs with the same seed are identical.")]
Grid = Annotated[str | None, typer.Option(metavar="ROWSxCOLS", help="The states are the fields of a grid, row by row.")]
Bins = Annotated[
    str | None,
    typer.Option(metavar="LIST", help="For continuous observations: bins of each dimension, such as '[10, [-1, 0, 1]]'."),
]
MaxStates = Annotated[int | None, typer.Option(help="For observations of unknown number: there are no more than this many.")]
Terminal = Annotated[
    str | None,
    typer.Option(
        metavar="outcome|end|state",
        help="What an early end is. outcome (default) and end assume nothing; state: what ended an episode once always does.",
    ),
]
Masks = Annotated[
    str | None,
    typer.Option(
        metavar="none|FILE", help="Legal actions known beforehand: none is illegal, or an (S, A) array of 0 and 1 in a .npy."
    ),
]


@app.callback()
def main() -> None:
    """Explore once. Plan for any reward. Know how wrong you can be."""


def clear_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Bad input as one sentence on stderr, warnings as one line each."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        from ..exploring.checkpoint import Interrupted

        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: typer.echo(plain(f"warning: {message}"), err=True)
            try:
                command(*args, **kwargs)
            except ValueError as problem:
                notes = " ".join(getattr(problem, "__notes__", ()))
                typer.echo(plain(f"error: {problem} {notes}".rstrip()), err=True)
                raise typer.Exit(2) from None
            except Interrupted as problem:
                text = str(problem).replace("the same call goes", "the same command with --resume goes")
                typer.echo(plain(text), err=True)
                raise typer.Exit(INTERRUPTED) from None
            except BrokenPipeError:  # nobody reads on: that is no error
                raise
            except OSError as problem:  # of the output: files have errors of their own
                with suppress(OSError):
                    typer.echo(f"error: the output cannot be written: {problem.strerror}.", err=True)
                raise typer.Exit(2) from None
            except KeyboardInterrupt:
                typer.echo("interrupted", err=True)
                raise typer.Exit(INTERRUPTED) from None

    return run


@app.command()
@clear_errors
def explore(
    env: Env,
    horizon: Annotated[int, typer.Option(help="Steps of an episode.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Where to save, along the way and at the end.", show_default=False)],
    epsilon: Annotated[float | None, typer.Option(help="Stop once every plan is certain to be epsilon-optimal.")] = None,
    delta: Annotated[float, typer.Option(help="The certificate may fail with at most this probability.")] = 0.1,
    max_episodes: Annotated[int | None, typer.Option(help="Stop there at the latest.")] = None,
    algorithm: Annotated[str, typer.Option(help="See: anyreward algorithms.")] = "rf-trajectory",
    bounds: Annotated[str, typer.Option(help="tight, or paper: the same meaning, far more episodes.")] = "tight",
    stationary: Annotated[bool, typer.Option("--stationary", help="Assume the same transitions at every step.")] = False,
    discount: Annotated[float, typer.Option(help="In (0, 1].")] = 1.0,
    env_arg: EnvArgs = None,
    option: Annotated[list[str] | None, typer.Option(metavar="K=V", help="An option of the algorithm; repeatable.")] = None,
    reward: Annotated[str | None, typer.Option(help="For algorithms that need one: a file or an expression.")] = None,
    initial_state: Annotated[int | None, typer.Option(help="Where every episode is known to start.")] = None,
    arrival_rewards: Annotated[bool, typer.Option("--arrival-rewards", help="Cover rewards that depend on the arrival.")] = False,
    bins: Bins = None,
    max_states: MaxStates = None,
    terminal: Terminal = None,
    action_masks: Masks = None,
    step_timeout: Annotated[float | None, typer.Option(help="Seconds that one step of the environment may take.")] = None,
    stop: Annotated[str, typer.Option(metavar="certificate|own", help="Stop on our certificate, or on the algorithm's own.")] = (
        "certificate"
    ),
    record: Annotated[bool, typer.Option("--record", help="Keep every episode in the file.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the exploration that is in the file.")] = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Explore an environment without a reward, until every plan is certain to be good.

    Example: anyreward explore double-chain --horizon 20 --epsilon 2 --out chain.atlas

    Example: anyreward explore FrozenLake-v1 --horizon 20 --epsilon 2 --stationary --out lake.atlas
    """
    from .._files import check_writable
    from ..exploring.explore import explore as run

    check_writable(out)
    if out.exists() and not resume:
        raise ValueError(f"{out} is there already: pass --resume to go on with it, or choose another name.")
    if resume and not out.exists():
        raise ValueError(f"{out} is not there: leave out --resume to begin.")
    options = {**arguments(option, "--option")}
    taken = next((name for name in options if name in inspect.signature(run).parameters), None)
    if taken is not None:
        raise ValueError(f"--option {taken}=... is an option of its own: write --{taken.replace('_', '-')}.")
    if reward is not None:
        options["reward"] = reward
    if initial_state is not None:
        options["initial_state"] = initial_state
    atlas = run(
        env, horizon, epsilon, delta, algorithm, bounds, stationary, discount, max_episodes, seed,
        progress=False if quiet or as_json else None, arrival_rewards=arrival_rewards, bins=literal(bins, "--bins"),
        max_states=max_states, terminal=terminal, action_masks=masks_of(action_masks),
        env_args=arguments(env_arg, "--env-arg") or None, step_timeout=step_timeout, record=record,
        checkpoint=out, stop=stop, **options,
    )  # fmt: skip
    if not out.exists():  # certified without a single episode: there was nothing to go on from, but there is an atlas
        atlas.save(out)
    if as_json:
        say_json({**certificate_facts(atlas), "out": str(out)})
    elif not quiet:
        say(str(atlas.certificate), f"saved in {out}")
    if epsilon is not None and not (atlas.certificate.met or (stop == "own" and atlas.source["own"]["met"])):
        if not quiet:
            typer.echo(f"epsilon {epsilon:g} was not reached: go on with a larger --max-episodes and --resume.", err=True)
        raise typer.Exit(NOT_MET)


@app.command()
@clear_errors
def info(
    atlas: AtlasFile,
    plot: Annotated[Path | None, typer.Option(help="Also draw visits and epsilon over time (PNG, PDF or SVG).")] = None,
    grid: Grid = None,
    as_json: AsJson = False,
) -> None:
    """What an atlas certifies, what it has seen, and what half of its epsilon would take.

    Example: anyreward info chain.atlas --plot chain.png
    """
    from .. import load, plots
    from ..exploring.forecast import episodes_for

    it, shape = load(atlas), grid_shape(grid)
    visits = it.counts.state_visits()
    seen, setting = int((visits > 0).sum()), it.counts.setting
    half = it.certificate.epsilon / 2
    more = episodes_for([*it.history, (it.episodes, it.certificate.epsilon)], half)
    more = None if more is None else more - it.episodes
    if plot is not None:
        plots.save_picture(plot, it, None, shape)
    if as_json:
        facts = {"states_seen": seen, "pairs_seen": it.counts.visited_pairs, "episodes_to_halve": more, "source": it.source}
        say_json({**certificate_facts(it), **facts})
        return
    laws = setting.n_rows - (setting.initial_state is None)
    lines = [
        str(it.certificate),
        f"explored: {it.source.get('env', 'counts')} with {it.source.get('algorithm', 'data from elsewhere')}",
        f"coverage: {seen:,} of {setting.n_states:,} states, {it.counts.visited_pairs:,} of {laws:,} "
        + ("(s, a)" if setting.stationary else "(h, s, a)"),
    ]
    if it.certificate.target is not None:
        lines.append(f"target: epsilon {exact(it.certificate.target)}, {'reached' if it.certificate.met else 'not reached'}")
    if it.paid is not None:
        low, high = it.paid.range
        units = "" if 0.0 <= low <= high <= 1.0 else " --reward-range LOW,HIGH"
        lines.append(
            f"rewards of the environment: from {low:g} to {high:g}; plan for them with --reward own{units}, "
            "and --rewards deterministic if you know that a transition always pays the same"
        )
    lines += it.source.get("alarms", [])
    if half > 0:
        aim = f"half of epsilon, {up(half)}"
        lines.append(
            f"forecast: about {more:.2g} more episodes for {aim}" if more is not None else f"forecast: none yet for {aim}"
        )
    say(*lines, "", "visits per state:", *plots.visits_text(it, shape))
    if plot is not None:
        say(f"drawn in {plot}")


@app.command()
@clear_errors
def plan(
    atlas: AtlasFile,
    reward: Annotated[str, typer.Option(help="A file (.csv, .json, .npy), an expression, or own.", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="Write the policy as CSV: h, s, a.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with the plan, its interval and pictures.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it (PNG, PDF or SVG).")] = None,
    reward_range: Annotated[str | None, typer.Option(metavar="LOW,HIGH", help="Units of the reward, if not 0 to 1.")] = None,
    rewards: Annotated[
        str | None,
        typer.Option(
            metavar="random|deterministic", help="For own: whether a transition always pays the same. Random assumes nothing."
        ),
    ] = None,
    stationary_rewards: Annotated[
        bool, typer.Option("--stationary-rewards", help="For own: assume that rewards do not depend on the step.")
    ] = False,
    cautious: Annotated[bool, typer.Option("--cautious", help="The policy with the best guaranteed value.")] = False,
    grid: Grid = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """The best policy for a reward, with an interval that its true value and the optimum are certain to lie in.

    An expression may use state, action, step, next, horizon, numbers, + - * / % **, comparisons, and, or, not, min, max, abs.

    Example: anyreward plan chain.atlas --reward "state == 30" --out policy.csv --html report.html
    """
    from .. import load, plots
    from .._files import check_writable
    from ..rewards.files import read_reward

    it, shape = load(atlas), grid_shape(grid)
    for path in (out, html, plot):
        if path is not None:
            check_writable(path)
    given = reward if reward == "own" else read_reward(reward, it.counts.setting)
    made = it.plan(given, two_numbers(reward_range), cautious, rewards, stationary_rewards)
    if out is not None:
        write_policy(out, it, made)
    if plot is not None:
        plots.save_picture(plot, it, made, shape)
    if html is not None:
        plots.save_report(html, it, made, reward, shape)
    if as_json:
        facts = {"value": made.value, "lower": made.lower, "upper": made.upper, "regret_bound": made.regret_bound}
        say_json({**facts, "delta": made.delta, "assumptions": made.assumptions, "policy": made.policy.tolist()})
        return
    say(f"value {made.value:.6g} in the empirical model")
    ends = f"{down(made.lower, 6)} <= its true value <= the optimum <= {up(made.upper, 6)}"
    say(f"with probability {certain(made.delta)}: {ends}", *assumed_lines(made.assumptions))
    if not quiet:
        say(*(["", "actions at step 0:", *plots.plan_text(it, made, shape)] if plots.grid_of(it, shape) else []))
        say(*(f"written: {path}" for path in (out, html, plot) if path is not None))


@app.command()
@clear_errors
def audit(
    env: Env,
    horizon: Annotated[int | None, typer.Option(help="Steps of an episode; by default the environment's limit, or 100.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Also forecast how many episodes this takes.")] = None,
    stationary: Annotated[bool, typer.Option("--stationary", help="Also test whether the steps are all alike.")] = False,
    env_arg: EnvArgs = None,
    bins: Bins = None,
    max_states: MaxStates = None,
    terminal: Terminal = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Look at an environment before exploring it: sizes, start, ends, limits, signs of trouble, how long it is likely to take.

    Example: anyreward audit FrozenLake-v1 --horizon 20 --stationary --epsilon 2
    """
    from ..environments.audit import audit as look

    report = look(
        env, horizon, stationary=stationary, seed=seed, bins=literal(bins, "--bins"), max_states=max_states, terminal=terminal,
        env_args=arguments(env_arg, "--env-arg") or None,
    )  # fmt: skip
    if as_json:
        facts = {key: value for key, value in vars(report).items() if not key.startswith("_")}
        say_json({**facts, "forecast": None if epsilon is None else report.forecast(epsilon)})
        return
    say(*report.lines())
    if epsilon is not None:
        say(report.forecast_line(epsilon))


@app.command()
@clear_errors
def merge(
    atlases: Annotated[list[Path], typer.Argument(metavar="ATLAS...", help="Two or more atlas files.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Where to write the merged atlas.", show_default=False)],
    same_environment: Annotated[
        bool, typer.Option("--same-environment", help="You know that data without a fingerprint are of the same environment.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Put explorations of the same environment together and certify them afresh.

    The certificate is valid if it was decided beforehand which runs to merge, or if all are merged: choosing them by how they
    turned out voids it.

    Example: anyreward merge a.atlas b.atlas --out c.atlas
    """
    from .. import load

    if len(atlases) < 2:
        raise ValueError("merging needs at least two atlases.")
    merged = functools.reduce(lambda a, b: a.merge(b, same_environment), [load(path) for path in atlases])
    merged.save(out)
    if as_json:
        say_json({**certificate_facts(merged), "out": str(out)})
    else:
        say(str(merged.certificate), f"saved in {out}")


@app.command()
@clear_errors
def algorithms(as_json: AsJson = False) -> None:
    """What can be explored with.

    Example: anyreward algorithms
    """
    from ..algorithms import ALGORITHMS

    facts = [
        {"name": name, "goal": kind.goal, "guarantee": kind.guarantee, "status": kind.status, "reference": kind.reference}
        for name, kind in ALGORITHMS.items()
    ]
    if as_json:
        say_json(facts)
        return
    from rich.table import Table

    table = Table("name", "goal", "guarantee", "status", "reference")
    for fact in facts:
        table.add_row(*fact.values())
    console(width=None if is_terminal(sys.stdout) else 150).print(table)


def is_terminal(stream: Any) -> bool:
    """Whether somebody looks at it; it may be closed."""
    return stream is not None and not stream.closed and stream.isatty()


def say(*lines: str) -> None:
    """Prints lines."""
    for line in lines:
        typer.echo(plain(line))


def say_json(facts: Any) -> None:
    typer.echo(json.dumps(facts, default=lambda x: x.item() if hasattr(x, "item") else str(x)))


def certificate_facts(atlas: Any) -> dict[str, Any]:
    it = atlas.certificate
    return {
        "epsilon": it.epsilon, "delta": it.delta, "bounds": it.bounds, "met": it.met, "target": it.target,
        "episodes": it.episodes, "horizon": it.horizon, "stationary": it.stationary, "every_reward": it.every_reward,
        "n_states": it.setting.n_states, "n_actions": it.setting.n_actions, "assumptions": it.assumptions,
        "says_nothing": it.epsilon >= it.largest,
    }  # fmt: skip


def assumed_lines(assumptions: tuple[str, ...]) -> list[str]:
    return [f"assumes: {'; '.join(assumptions)}"] if assumptions else []


def masks_of(text: str | None) -> Any:
    """Masks by the word `none`, or from a file."""
    if text is None or text == "none":
        return text
    from .._files import read_file
    from ..rewards.files import MOST_BYTES, array_from

    path = Path(text)
    needed = "--action-masks has to be none, or a .npy file with an (S, A) array of 0 and 1"
    return array_from(path, read_file(path, MOST_BYTES, needed))


def literal(text: str | None, name: str) -> Any:
    """A number, a list, a truth value or a plain text, as it is written in Python."""
    if text is None:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        if name == "--bins":
            raise ValueError(f"{name} is {shown(text)}: write a list such as '[10, [-1, 0, 1]]'.") from None
        return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def arguments(pairs: list[str] | None, name: str) -> dict[str, Any]:
    """K=V pairs."""
    found = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            raise ValueError(f"{name} is {shown(pair)}: write it as name=value.")
        found[key] = literal(value, name)
    return found


def grid_shape(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    rows, _, cols = text.lower().partition("x")
    if not (rows.isdecimal() and cols.isdecimal() and max(len(rows), len(cols)) < 10):
        raise ValueError(f"--grid is {shown(text)}: write it as ROWSxCOLS, such as 4x4.")
    return int(rows), int(cols)


def two_numbers(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--reward-range is {shown(text)}: write it as LOW,HIGH, such as -1,1.") from None
    return low, high


def as_cell(text: str) -> str:
    """A text as a cell of a table, which spreadsheets must not take for a formula."""
    return (
        f"'{text}" if text and text[0] in "=+-@\t\r\n＝＋－＠" and not text.lstrip("+-").replace(".", "", 1).isdigit() else text
    )


def write_policy(path: Path, atlas: Any, made: Any) -> None:
    from .._files import replace_file

    buffer = io.StringIO()
    writer = csv.writer(buffer)
    labels = atlas.source.get("labels")
    writer.writerow(["h", "s", "a", *(["observation"] if labels else [])])
    for h, row in enumerate(made.policy.tolist()):
        for s, a in enumerate(row):
            writer.writerow([h, s, a, *([as_cell(labels[s]) if s < len(labels) else ""] if labels else [])])
    replace_file(path, buffer.getvalue().encode())

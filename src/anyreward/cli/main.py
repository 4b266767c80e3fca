"""The commands explore, info, plan, audit, merge and algorithms, and what all commands share.

Exit codes: 0 the command did what was asked; 2 an argument or a file is wrong; 3 the exploration ended before epsilon was
certified; 4 a run of `sweep` or `reproduce` failed; 130 the command was interrupted.
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
from ..words import confidence_level, console, down, exact, plain, up

NOT_MET, FAILED, INTERRUPTED = 3, 4, 130

app = typer.Typer(
    epilog="Exit codes: 0 done; 2 a wrong argument or file; 3 epsilon was not certified; 4 a run of sweep or reproduce failed; "
    "130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    rich_markup_mode=None,
)

AtlasFile = Annotated[Path, typer.Argument(metavar="ATLAS", help="An atlas file, as explore writes it.", show_default=False)]
Env = Annotated[
    str,
    typer.Argument(
        metavar="ENV",
        help="double-chain, grid-world, garnet or inventory, or the id of a Gymnasium environment such as FrozenLake-v1.",
        show_default=False,
    ),
]
EnvArgs = Annotated[
    list[str] | None,
    typer.Option("--env-arg", metavar="K=V", help="An argument of the environment, such as length=51. May be repeated."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object to stdout, and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no report.")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers. Runs with the same seed are identical.")]
Grid = Annotated[
    str | None,
    typer.Option(metavar="ROWSxCOLS", help="Draw the states as the cells of a grid, numbered row by row, such as 4x4."),
]
Bins = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="For continuous observations: for each dimension a number of equal bins, or the edges between bins, such as "
        "'[10, [-1, 0, 1]]'. The certificate then assumes that the process of the bins is Markov.",
    ),
]
MaxStates = Annotated[
    int | None,
    typer.Option(
        help="For observations that are not finite in number: the largest number of different ones that can occur. They are "
        "numbered as they appear.",
    ),
]
Terminal = Annotated[
    str | None,
    typer.Option(
        metavar="outcome|end|state",
        help="What is assumed about episodes that terminate before the horizon. outcome (the default): nothing. end: nothing; "
        "all terminations are one extra state. state: an observation that terminated an episode once always does; needs fewer "
        "episodes.",
    ),
]
Masks = Annotated[
    str | None,
    typer.Option(
        metavar="none|FILE",
        help="Which actions are legal, if you know it beforehand: none if no action is ever illegal, or a .npy file with an "
        "(S, A) array of 0 (illegal) and 1 (legal). By default masks are learned from info['action_mask'].",
    ),
]


@app.callback()
def main() -> None:
    """Explore once. Plan for any reward. Know how wrong you can be.

    anyreward explores an environment with finitely many states and actions without a reward, keeps the result in a file (an
    atlas), and then plans for any reward, with an interval in which the true value is certified to lie.
    """


def examples(*lines: str) -> str:
    """The epilog of a command: its examples, one a line, which the help does not wrap."""
    return "\b\n" + "\n".join(f"Example: {line}" for line in lines)


def report_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command print bad input as one sentence and each warning as one line, both on stderr, and set the exit code."""

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
                text = str(problem).replace("the same call", "the same command with --resume")
                typer.echo(plain(text), err=True)
                raise typer.Exit(INTERRUPTED) from None
            except BrokenPipeError:  # the reader of our output has closed it: that is not an error
                raise
            except OSError as problem:  # stdout cannot be written; errors of files are ValueErrors
                with suppress(OSError):
                    typer.echo(f"error: the output cannot be written: {problem.strerror}.", err=True)
                raise typer.Exit(2) from None
            except KeyboardInterrupt:
                typer.echo("interrupted", err=True)
                raise typer.Exit(INTERRUPTED) from None

    return run


@app.command(
    epilog=examples(
        "anyreward explore double-chain --horizon 20 --epsilon 2 --out chain.atlas",
        "anyreward explore FrozenLake-v1 --horizon 20 --epsilon 2 --stationary --out lake.atlas",
    )
)
@report_errors
def explore(
    env: Env,
    horizon: Annotated[int, typer.Option(help="Number of steps of an episode.", show_default=False)],
    out: Annotated[
        Path, typer.Option(help="The atlas file to write. It is saved every ten seconds and at the end.", show_default=False)
    ],
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Stop as soon as every plan is certified to be epsilon-optimal. In units of reward: an episode earns at most "
            "the horizon. By default explore until --max-episodes."
        ),
    ] = None,
    delta: Annotated[float, typer.Option(help="The probability with which the certificate may fail, at most.")] = 0.1,
    max_episodes: Annotated[int | None, typer.Option(help="Stop after this many episodes. By default there is no limit.")] = None,
    algorithm: Annotated[
        str, typer.Option(help="The exploration algorithm; 'anyreward algorithms' lists them.")
    ] = "rf-trajectory",
    bounds: Annotated[
        str, typer.Option(help="The certificate: tight, or paper for the paper's own, which needs far more episodes.")
    ] = "tight",
    stationary: Annotated[
        bool,
        typer.Option("--stationary", help="Assume that the transitions do not depend on the step; needs far fewer episodes."),
    ] = False,
    discount: Annotated[float, typer.Option(help="The discount factor, above 0 and at most 1.")] = 1.0,
    env_arg: EnvArgs = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="K=V", help="An option of the algorithm or of the bounds, such as replan=every. May be repeated."),
    ] = None,
    reward: Annotated[
        str | None, typer.Option(help="For algorithms that need a reward: a file or an expression, as for 'anyreward plan'.")
    ] = None,
    initial_state: Annotated[
        int | None,
        typer.Option(help="The number of the state in which every episode starts, if you know it. By default it is estimated."),
    ] = None,
    arrival_rewards: Annotated[
        bool, typer.Option("--arrival-rewards", help="Certify also for rewards that depend on the next state.")
    ] = False,
    bins: Bins = None,
    max_states: MaxStates = None,
    terminal: Terminal = None,
    action_masks: Masks = None,
    step_timeout: Annotated[
        float | None,
        typer.Option(help="The seconds that one step of a Gymnasium environment may take. By default there is no limit."),
    ] = None,
    stop: Annotated[
        str, typer.Option(metavar="certificate|own", help="Stop on our certificate, or on the algorithm's own guarantee.")
    ] = "certificate",
    record: Annotated[bool, typer.Option("--record", help="Keep every episode in the file.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the exploration that is saved in the file of --out.")] = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Explore an environment until every plan is certified.

    The result is an atlas file: the counts of all transitions, with a certificate that says how far from optimal a plan can be,
    for every reward at once. Give --epsilon, --max-episodes, or both. Interrupted explorations are resumed with --resume.
    """
    from .._files import check_writable
    from ..exploring.explore import explore as run

    check_writable(out)
    if out.exists() and not resume:
        raise ValueError(f"{out} exists already: pass --resume to continue its exploration, or choose another name.")
    if resume and not out.exists():
        raise ValueError(f"{out} does not exist: leave out --resume to start a new exploration.")
    options = {**arguments(option, "--option")}
    taken = next((name for name in options if name in inspect.signature(run).parameters), None)
    if taken is not None:
        raise ValueError(f"--option {taken}=... is not for options of the algorithm: write --{taken.replace('_', '-')} instead.")
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
    if not out.exists():  # certified without a single episode: no checkpoint was written, but there is an atlas
        atlas.save(out)
    if as_json:
        say_json({**certificate_facts(atlas), "out": str(out)})
    elif not quiet:
        say(str(atlas.certificate), f"saved in {out}")
    if epsilon is not None and not (atlas.certificate.met or (stop == "own" and atlas.source["own"]["met"])):
        if not quiet:
            typer.echo(f"epsilon {epsilon:g} was not certified: use --resume with a larger --max-episodes to continue.", err=True)
        raise typer.Exit(NOT_MET)


@app.command(epilog=examples("anyreward info chain.atlas --plot chain.png", "anyreward info room.atlas --grid 21x21 --json"))
@report_errors
def info(
    atlas: AtlasFile,
    plot: Annotated[
        Path | None,
        typer.Option(help="Also draw the visits of each state and epsilon over time to this file (.png, .pdf or .svg)."),
    ] = None,
    grid: Grid = None,
    as_json: AsJson = False,
) -> None:
    """Show what an atlas certifies and which states it visited.

    Also forecasts how many more episodes would halve its epsilon.
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
    laws = setting.n_distributions - (setting.initial_state is None)
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
            "and with --rewards deterministic if you know that a transition always pays the same"
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


@app.command(
    epilog=examples(
        'anyreward plan chain.atlas --reward "state == 30" --out policy.csv --html report.html',
        "anyreward plan lake.atlas --reward own --rewards deterministic",
    )
)
@report_errors
def plan(
    atlas: AtlasFile,
    reward: Annotated[
        str,
        typer.Option(
            help="A file (.csv, .json or .npy), an expression, or own for what the environment paid while it was explored.",
            show_default=False,
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Write the policy to this CSV file, with the columns h, s, a.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with the plan, its interval and figures to this file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the plan to this file (.png, .pdf or .svg).")] = None,
    reward_range: Annotated[
        str | None, typer.Option(metavar="LOW,HIGH", help="The smallest and the largest possible reward. By default 0,1.")
    ] = None,
    rewards: Annotated[
        str | None,
        typer.Option(
            metavar="random|deterministic",
            help="For --reward own: random (the default) assumes nothing; deterministic assumes that a transition always pays "
            "the same.",
        ),
    ] = None,
    stationary_rewards: Annotated[
        bool, typer.Option("--stationary-rewards", help="For --reward own: assume that rewards do not depend on the step.")
    ] = False,
    cautious: Annotated[bool, typer.Option("--cautious", help="Choose the policy whose guaranteed value is largest.")] = False,
    grid: Grid = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Find the best policy for a reward, with a certified interval.

    The true value of the policy and the optimum lie in the interval with probability 1 - delta, the confidence level
    of the atlas.

    An expression may use the names state, action, step, next, horizon, states and actions, numbers, + - * / // % **,
    comparisons, and, or, not, "x if c else y", and the functions min, max, abs, floor, sqrt, exp and log.
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
    say(f"with probability {confidence_level(made.delta)}: {ends}", *assumed_lines(made.assumptions))
    if not quiet:
        say(*(["", "actions at step 0:", *plots.plan_text(it, made, shape)] if plots.grid_of(it, shape) else []))
        say(*(f"written: {path}" for path in (out, html, plot) if path is not None))


@app.command(
    epilog=examples(
        "anyreward audit FrozenLake-v1 --horizon 20 --stationary --epsilon 2",
        "anyreward audit CartPole-v1 --horizon 20 --bins '[4, [-0.5, 0.5], 4, [-1, 1]]'",
    )
)
@report_errors
def audit(
    env: Env,
    horizon: Annotated[
        int | None,
        typer.Option(help="Number of steps of an episode. By default the environment's time limit, or 100 without one."),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Also forecast the number of episodes until this epsilon is certified.")
    ] = None,
    stationary: Annotated[
        bool, typer.Option("--stationary", help="Also test whether the transitions depend on the step.")
    ] = False,
    env_arg: EnvArgs = None,
    bins: Bins = None,
    max_states: MaxStates = None,
    terminal: Terminal = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Look at an environment before exploring it.

    Plays 5,000 random steps and reports the number of states and actions, initial and terminal states, the time limit, the range
    of the rewards, and tests of the assumptions that it is Markov and, with --stationary, that it does not depend on the step.
    """
    from ..exploring.audit import audit as look

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


@app.command(epilog=examples("anyreward merge a.atlas b.atlas --out c.atlas"))
@report_errors
def merge(
    atlases: Annotated[list[Path], typer.Argument(metavar="ATLAS...", help="Two or more atlas files.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The file to write the merged atlas to.", show_default=False)],
    same_environment: Annotated[
        bool,
        typer.Option(
            "--same-environment",
            help="State that all atlases are of the same environment, where that cannot be checked (data of unknown origin).",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Add up explorations of the same environment in one atlas.

    The merged counts get a certificate of their own. It is valid if it was decided beforehand which runs to merge, or if all runs
    are merged: choosing runs by how they turned out voids it.
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


@app.command(epilog=examples("anyreward algorithms"))
@report_errors
def algorithms(as_json: AsJson = False) -> None:
    """List the exploration algorithms and their guarantees."""
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
    """Whether a stream is an open terminal. It may be None or closed."""
    return stream is not None and not stream.closed and stream.isatty()


def say(*lines: str) -> None:
    """Print lines to stdout, with control characters escaped."""
    for line in lines:
        typer.echo(plain(line))


def say_json(facts: Any) -> None:
    """Print one JSON document to stdout. NumPy numbers become numbers, and what JSON does not know becomes text."""
    typer.echo(json.dumps(facts, default=lambda x: x.item() if hasattr(x, "item") else str(x)))


def certificate_facts(atlas: Any) -> dict[str, Any]:
    """What the JSON output of a command says about the certificate of an atlas."""
    it = atlas.certificate
    return {
        "epsilon": it.epsilon, "delta": it.delta, "bounds": it.bounds, "met": it.met, "target": it.target,
        "episodes": it.episodes, "horizon": it.horizon, "stationary": it.stationary, "every_reward": it.every_reward,
        "n_states": it.setting.n_states, "n_actions": it.setting.n_actions, "assumptions": it.assumptions,
        "says_nothing": it.epsilon >= it.largest,
    }  # fmt: skip


def assumed_lines(assumptions: tuple[str, ...]) -> list[str]:
    """The line that lists what a plan assumes, if it assumes anything."""
    return [f"assumes: {'; '.join(assumptions)}"] if assumptions else []


def masks_of(text: str | None) -> Any:
    """The value of --action-masks: None, the word `none`, or the array of a .npy file."""
    if text is None or text == "none":
        return text
    from .._files import read_file
    from ..rewards.files import MAX_BYTES, array_from

    path = Path(text)
    needed = "--action-masks has to be none, or a .npy file with an (S, A) array of 0 and 1"
    return array_from(path, read_file(path, MAX_BYTES, needed))


def literal(text: str | None, name: str) -> Any:
    """The value of a text that is written like a Python literal (a number, a list, True); any other text stays as it is."""
    if text is None:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        if name == "--bins":
            raise ValueError(f"{name} is {shown(text)}: write a list such as '[10, [-1, 0, 1]]'.") from None
        return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def arguments(pairs: list[str] | None, name: str) -> dict[str, Any]:
    """A dictionary from texts of the form K=V; `name` is the option that they come from, for error messages."""
    found = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            raise ValueError(f"{name} is {shown(pair)}: write it as name=value.")
        found[key] = literal(value, name)
    return found


def grid_shape(text: str | None) -> tuple[int, int] | None:
    """Rows and columns from ROWSxCOLS, the value of --grid."""
    if text is None:
        return None
    rows, _, cols = text.lower().partition("x")
    if not (rows.isdecimal() and cols.isdecimal() and max(len(rows), len(cols)) < 10):
        raise ValueError(f"--grid is {shown(text)}: write it as ROWSxCOLS, such as 4x4.")
    return int(rows), int(cols)


def two_numbers(text: str | None) -> tuple[float, float] | None:
    """The smallest and the largest reward from LOW,HIGH, the value of --reward-range."""
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--reward-range is {shown(text)}: write it as LOW,HIGH, such as -1,1.") from None
    return low, high


def as_cell(text: str) -> str:
    """A text as a cell of a CSV file; it is quoted if a spreadsheet would take it for a formula."""
    return (
        f"'{text}" if text and text[0] in "=+-@\t\r\n＝＋－＠" and not text.lstrip("+-").replace(".", "", 1).isdigit() else text
    )


def write_policy(path: Path, atlas: Any, made: Any) -> None:
    """Write the policy of a plan as CSV: a line for each step and state, with the observation if states have names."""
    from .._files import replace_file

    buffer = io.StringIO()
    writer = csv.writer(buffer)
    labels = atlas.source.get("labels")
    writer.writerow(["h", "s", "a", *(["observation"] if labels else [])])
    for h, row in enumerate(made.policy.tolist()):
        for s, a in enumerate(row):
            writer.writerow([h, s, a, *([as_cell(labels[s]) if s < len(labels) else ""] if labels else [])])
    replace_file(path, buffer.getvalue().encode())

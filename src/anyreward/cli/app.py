"""What all commands share: the application, options that several commands have, errors, and printing.

Exit codes: 0 the command did what was asked; 2 an argument or a file is wrong; 3 the exploration ended before epsilon was
certified; 4 a run of `sweep` or `reproduce` failed; 5 `watch` found that the environment has changed; 130 the command was
interrupted.
"""

from __future__ import annotations

import ast
import functools
import json
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from ..setting import shown
from ..words import plain, worded, wording
from .wording import Wording

NOT_MET, FAILED, CHANGED, INTERRUPTED = 3, 4, 5, 130

app = typer.Typer(
    epilog="Exit codes: 0 done; 2 a wrong argument or file; 3 epsilon was not certified; 4 a run of sweep or reproduce failed; "
    "5 watch found a change; 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode=None,
)


def known_environments(incomplete: str) -> list[str]:
    """Names of environments that begin so, for the completion in a shell."""
    import gymnasium

    from ..envs import ENVIRONMENTS

    return [name for name in (*ENVIRONMENTS, *gymnasium.registry) if name.startswith(incomplete)]


def known_algorithms(incomplete: str) -> list[str]:
    """Names of algorithms that begin so, for the completion in a shell."""
    from ..algorithms import ALGORITHMS

    return [name for name in ALGORITHMS if name.startswith(incomplete)]


AtlasFile = Annotated[Path, typer.Argument(metavar="ATLAS", help="An atlas file, as explore writes it.", show_default=False)]
Env = Annotated[
    str,
    typer.Argument(
        metavar="ENV",
        help="double-chain, grid-world, garnet, inventory, river-swim, deep-sea, n-room or taxi; the id of a Gymnasium "
        "environment such as FrozenLake-v1; or one of your own as package.module:Name, which imports that module and so "
        "runs its code.",
        show_default=False,
        autocompletion=known_environments,
    ),
]
EnvArgs = Annotated[
    list[str] | None,
    typer.Option("--env-arg", metavar="K=V", help="An argument of the environment, such as length=51. May be repeated."),
]
RewardOf = Annotated[
    str,
    typer.Option(
        help="A file (.csv, .json or .npy), an expression, or own for what the environment paid while it was explored.",
        show_default=False,
    ),
]
RewardRange = Annotated[
    str | None, typer.Option(metavar="LOW,HIGH", help="The smallest and the largest possible reward. By default 0,1.")
]
OwnRewards = Annotated[
    str | None,
    typer.Option(
        metavar="random|deterministic",
        help="For --reward own: random (the default) assumes nothing; deterministic assumes that a transition always pays the "
        "same.",
    ),
]
StationaryRewards = Annotated[
    bool, typer.Option("--stationary-rewards", help="For --reward own: assume that rewards do not depend on the step.")
]
PaidOnce = Annotated[
    bool, typer.Option("--paid-once", help="For --reward own: assume that at most one reward of an episode is not zero.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object to stdout, and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no report.")]
Scheduler = Annotated[
    str | None,
    typer.Option(metavar="tcp://HOST:PORT", help="Run on the Dask cluster of this scheduler. By default on this machine."),
]
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
Initial = Annotated[
    str | None,
    typer.Option(
        metavar="LIST|FILE",
        help="The distribution of the initial state, if you know it: a list of probabilities such as '[0.5, 0.5, 0]', of pairs "
        "(state, probability), or a .npy file with a probability for each state. By default it is estimated.",
    ),
]
StructureOf = Annotated[
    str | None,
    typer.Option(
        "--structure",
        metavar="own|MODULE:NAME",
        help="State how transitions are drawn: a declaration of yours as package.module:Name, an ar.Structure or a function that "
        "makes one; that module is imported, which runs its code. own is that of the environment itself, if it has one.",
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

StateNames = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES|FILE",
        help="What the states are called, by their numbers: names with commas between them, or a .txt file with a name in each "
        "line. By default after their observations.",
    ),
]
ActionNames = Annotated[
    str | None,
    typer.Option(metavar="NAMES|FILE", help="What the actions are called, likewise, such as left,right. By default as they are."),
]


def say_version(asked: bool) -> None:
    """Print the version and end, if it was asked for."""
    if asked:
        from .. import __version__

        typer.echo(f"anyreward {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=say_version, is_eager=True)
    ] = False,
) -> None:
    """Explore once. Plan for any reward. Know how wrong you can be.

    anyreward explores an environment with finitely many states and actions without a reward, keeps the result in a file (an
    atlas), and then plans for any reward, with an interval in which the true value is certified to lie.
    """


def examples(*lines: str) -> str:
    """The epilog of a command: its examples, one a line, which the help does not wrap."""
    return "\b\n" + "\n".join(f"Example: {line}" for line in lines)


def report_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command print bad input as one sentence and each warning as one line, both on stderr, and set the exit code.

    Sentences of the library name the options of the command instead of parameters (`Wording`).
    """

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        from ..exploring.interrupts import Interrupted

        with warnings.catch_warnings(), wording(Wording(command, kwargs)):
            warnings.showwarning = lambda message, *_, **__: typer.echo(plain(f"warning: {worded(str(message))}"), err=True)
            try:
                command(*args, **kwargs)
            except ValueError as problem:
                typer.echo(plain("error: " + " ".join(map(worded, [str(problem), *notes_of(problem)]))), err=True)
                raise typer.Exit(2) from None
            except Interrupted as problem:
                typer.echo(plain(worded(str(problem))), err=True)
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


def notes_of(problem: Exception) -> list[str]:
    """What was added to an exception while it was on its way, except for what only a Python program can use."""
    return [note for note in getattr(problem, "__notes__", ()) if "attribute `atlas`" not in note]


def say(*lines: str) -> None:
    """Print lines to stdout, with control characters escaped."""
    for line in lines:
        typer.echo(plain(line))


def say_json(facts: Any) -> None:
    """Print one JSON document to stdout. NumPy numbers become numbers, infinite ones null, and what JSON does not know text."""
    text = json.dumps(facts, default=lambda x: x.item() if hasattr(x, "item") else str(x))
    typer.echo(json.dumps(json.loads(text, parse_constant=lambda name: None)))


def certificate_facts(atlas: Any) -> dict[str, Any]:
    """What the JSON output of a command says about the certificate of an atlas."""
    it = atlas.certificate
    return {
        "epsilon": it.epsilon, "delta": it.delta, "bounds": it.bounds, "met": it.met, "target": it.target,
        "episodes": it.played, "horizon": it.horizon, "stationary": it.stationary, "every_reward": it.every_reward,
        "n_states": it.setting.n_states, "n_actions": it.setting.n_actions, "assumptions": it.assumptions,
        "says_nothing": it.says_nothing,
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


def initial_of(text: str | None) -> Any:
    """The value of --initial: None, a list of probabilities or of pairs, or the array of a .npy file."""
    if text is None:
        return None
    if not text.lower().endswith(".npy"):
        law = literal(text, "--initial")
        if not isinstance(law, list | tuple):
            raise ValueError(f"--initial is {shown(text)}: write a list such as '[0.5, 0.5, 0]', or the name of a .npy file.")
        return law
    from .._files import read_file
    from ..rewards.files import MAX_BYTES, array_from

    path = Path(text)
    return array_from(path, read_file(path, MAX_BYTES, "--initial has to be a list, or a .npy file with S probabilities"))


def names_of(text: str | None, name: str) -> list[str] | None:
    """The value of --state-names or --action-names (`name`): names with commas between them, or the lines of a .txt file."""
    if text is None:
        return None
    names, place = text.split(","), f"{name} is {shown(text)}"
    if text.lower().endswith(".txt"):
        from .._files import read_file
        from ..rewards.files import MAX_TEXT_BYTES

        content = read_file(Path(text), MAX_TEXT_BYTES, f"{name} has to be names with commas between them, or a file with them")
        try:
            names, place = content.decode().splitlines(), text
        except UnicodeDecodeError:
            raise ValueError(f"{text} is not text in UTF-8: write a name in each line.") from None
    names = [each.strip() for each in names]
    if not all(names):
        raise ValueError(f"{place}: name number {names.index('')} is empty.")
    return names


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

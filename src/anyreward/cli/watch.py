"""The command watch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .app import CHANGED, AsJson, AtlasFile, app, examples, report_errors, say, say_json
from .certify import Columns, one_or_list

NUMBERED = ["h", "s", "a", "next"]  # the columns of a table of transitions between numbered states


@app.command(
    epilog=examples(
        "anyreward watch chain.atlas today.atlas",
        "anyreward watch tickets.atlas october.csv --episode ticket --step step --state status --action action --next then "
        "--terminated closed",
    )
)
@report_errors
def watch(
    atlas: AtlasFile,
    new_data: Annotated[
        Path,
        typer.Argument(
            metavar="NEW",
            help="Data that were collected afterwards: an atlas, or a .csv or .parquet log whose columns the options name. "
            "A .csv file without options has the columns h, s, a and next.",
            show_default=False,
        ),
    ],
    alpha: Annotated[float, typer.Option(help="The probability of a false alarm, at most.")] = 0.01,
    episode: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column that says which rows belong together.")
    ] = None,
    state: Annotated[Columns, typer.Option(metavar="COLUMN", help="The column of the state. May be repeated.")] = None,
    action: Annotated[Columns, typer.Option(metavar="COLUMN", help="The column of the action. May be repeated.")] = None,
    next_state: Annotated[
        Columns, typer.Option("--next", metavar="COLUMN", help="The column of the next state. May be repeated.")
    ] = None,
    step: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column with the number of the step.")] = None,
    time: Annotated[str | None, typer.Option(metavar="COLUMN", help="Instead of --step: a column that orders the rows.")] = None,
    terminated: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column that says whether the action terminated the episode.")
    ] = None,
    legal: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column of the legal actions.")] = None,
    as_json: AsJson = False,
) -> None:
    """Tell whether the environment is still the one that was explored.

    Compares new data with the atlas, law by law, and names the laws of which there is most evidence. A false alarm has
    probability at most alpha, however often you look at more and more new data. The exit code is 5 if the environment has
    changed.
    """
    from .. import load
    from ..data.columns import read_table

    it = load(atlas)
    given = {
        "episode": episode, "state": one_or_list(state), "action": one_or_list(action), "next": one_or_list(next_state),
        "step": step, "time": time, "terminated": terminated, "legal": legal,
    }  # fmt: skip
    how = {name: value for name, value in given.items() if value is not None}
    if how or new_data.suffix.lower() == ".csv":
        needed = next((name for name in ("episode", "state", "action") if how and name not in how), None)
        if needed is not None:
            raise ValueError(f"--{needed} is missing: name the column.")
        named = [name for value in how.values() for name in (value if isinstance(value, list) else [value])]
        found = it.watch(read_table(new_data, list(dict.fromkeys(named or NUMBERED))), alpha, **how)
    else:
        found = it.watch(load(new_data), alpha)
    if as_json:
        laws = [law._asdict() for law in found.laws]
        facts = {"changed": found.changed, "p": found.p, "log_e": found.log_e, "alpha": found.alpha, "laws": laws}
        say_json({**facts, "new_transitions": found.new_transitions, "assumptions": found.assumptions})
    else:
        say(*str(found).split("\n"))
    if found.changed:
        raise typer.Exit(CHANGED)

"""The command certify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..words import plain
from .app import (
    NOT_MET,
    ActionNames,
    AsJson,
    Bins,
    Quiet,
    StateNames,
    StructureOf,
    app,
    arguments,
    certificate_facts,
    examples,
    literal,
    names_of,
    report_errors,
    say,
    say_json,
)
from .environment import structure as structure_of

MINARI = "minari:"  # the beginning of a log that is a Minari dataset
Columns = list[str] | None


@app.command(
    epilog=examples(
        "anyreward certify tickets.csv --horizon 6 --episode ticket --step step --state status --action action --next then "
        "--reward score --terminated closed --stationary --out tickets.atlas",
        "anyreward certify minari:lake/exploration-v0 --horizon 20 --out lake.atlas",
    )
)
@report_errors
def certify(
    log: Annotated[
        str,
        typer.Argument(
            metavar="LOG",
            help="A .csv or .parquet file with a row for each step of an episode, or minari:ID for a local Minari dataset.",
            show_default=False,
        ),
    ],
    horizon: Annotated[int, typer.Option(help="Number of steps of an episode.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The atlas file to write.", show_default=False)],
    episode: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column that says which rows belong together.")
    ] = None,
    state: Annotated[
        Columns,
        typer.Option(metavar="COLUMN", help="The column of the state. Repeat it if several columns are the state together."),
    ] = None,
    action: Annotated[Columns, typer.Option(metavar="COLUMN", help="The column of the action. May be repeated.")] = None,
    next_state: Annotated[
        Columns,
        typer.Option(
            "--next",
            metavar="COLUMN",
            help="The column of the next state. By default it is the state of the next row; the last row of an episode is then "
            "not counted.",
        ),
    ] = None,
    step: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column with the number of the step. Missing steps are refused.")
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Instead of --step: a column that only orders the rows of an episode, such as a date."
        ),
    ] = None,
    reward: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of the reward; plan for it with --reward own.")
    ] = None,
    terminated: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The column that says, true or false, whether the action terminated the episode. Episodes that end otherwise "
            "were cut off: nothing is assumed about what would have followed.",
        ),
    ] = None,
    legal: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column of the legal actions: a list, or a text such as 'wait|serve'."),
    ] = None,
    terminal: Annotated[
        str | None,
        typer.Option(
            metavar="outcome|end|state",
            help="How terminations are counted. outcome (the default if --next is given): the state in which an episode "
            "terminated is told apart. end (the default otherwise): all terminations are one extra state. state: assume that a "
            "state that terminated an episode once always does.",
        ),
    ] = None,
    states: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="All states that there are, such as open,closed, or as a Python list. By default the certificate assumes that "
            "there are no others than those that appear in the log.",
        ),
    ] = None,
    actions: Annotated[str | None, typer.Option(metavar="LIST", help="All actions that there are, likewise.")] = None,
    max_states: Annotated[
        int | None, typer.Option(help="Instead of --states: the largest number of different states that there can be.")
    ] = None,
    initial_state: Annotated[
        str | None, typer.Option(metavar="STATE", help="The state in which every episode starts, if you know it.")
    ] = None,
    initial: Annotated[
        str | None,
        typer.Option(
            metavar="DICT",
            help='The distribution of the initial state, if you know it, such as \'{"open": 0.9, "closed": 0.1}\'; for a Minari '
            "dataset a list of probabilities. By default it is estimated.",
        ),
    ] = None,
    stationary: Annotated[
        bool, typer.Option("--stationary", help="Assume that the transitions do not depend on the step.")
    ] = False,
    structure: StructureOf = None,
    order: Annotated[
        bool,
        typer.Option(
            "--order", help="Assume that the episodes were played one after the other, in the order of their first rows."
        ),
    ] = False,
    discount: Annotated[float, typer.Option(help="The discount, above 0 and at most 1.")] = 1.0,
    arrival_rewards: Annotated[
        bool, typer.Option("--arrival-rewards", help="Certify also for rewards that depend on the next state.")
    ] = False,
    bins: Bins = None,
    state_names: StateNames = None,
    action_names: ActionNames = None,
    delta: Annotated[float, typer.Option(help="The probability with which the certificate may fail, at most.")] = 0.1,
    epsilon: Annotated[
        float | None, typer.Option(help="The epsilon that is wanted: the exit code is 3 if it is not certified.")
    ] = None,
    bounds: Annotated[str, typer.Option(help="The certificate: tight, or paper for the paper's own.")] = "tight",
    deterministic: Annotated[
        bool,
        typer.Option("--deterministic", help="State that transitions are deterministic; data that contradict it are refused."),
    ] = False,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="K=V", help="An option of the bounds, such as max_successors=2. May be repeated."),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Certify a log: data that somebody else collected.

    Counts the transitions of a log, computes how far from optimal a plan from them can be, and writes an atlas from which
    'anyreward plan' plans. The certificate is valid if the log is complete, and each action was chosen, and each episode cut off,
    by somebody who knew only the past. Leaving out episodes because of how they turned out voids it.
    """
    from .. import Atlas
    from .. import certify as certificate_for
    from .._files import check_writable
    from ..data.counts import Counts

    target = check_writable(out)
    if not log.startswith(MINARI) and target == Path(log).resolve():
        raise ValueError(f"--out is the log itself, {log}: choose another name.")
    columns = {
        "episode": episode, "state": one_or_list(state), "action": one_or_list(action), "next": one_or_list(next_state),
        "step": step, "time": time, "reward": reward, "terminated": terminated, "legal": legal,
    }  # fmt: skip
    shared = {
        "horizon": horizon, "discount": discount, "stationary": stationary, "arrival_rewards": arrival_rewards,
        "max_states": max_states, "initial_state": literal(initial_state, "--initial-state"),
        "initial": literal(initial, "--initial"),
        **({} if terminal is None else {"terminal": terminal}),
    }  # fmt: skip
    if log.startswith(MINARI):
        given = next(
            (name for name, value in {**columns, "states": states, "actions": actions}.items() if value is not None), None
        )
        if given is not None or order:
            raise ValueError(f"--{given or 'order'} is for tables: leave it out for a Minari dataset.")
        counts = Counts.from_minari(
            log.removeprefix(MINARI), bins=literal(bins, "--bins"), state_names=names_of(state_names, "--state-names"),
            action_names=names_of(action_names, "--action-names"), **shared,
        )  # fmt: skip
    else:
        needed = next((name for name in ("episode", "state", "action") if columns[name] is None), None)
        if needed is not None:
            raise ValueError(f"--{needed} is missing: name the column.")
        for name, value in {"bins": bins, "state-names": state_names, "action-names": action_names}.items():
            if value is not None:
                raise ValueError(f"--{name} is for Minari datasets: states and actions of a table are what its columns say.")
        known = {"states": listed(states, "--states"), "actions": listed(actions, "--actions"), "order": order}
        counts = counts_of_file(Path(log), columns, {**shared, **known})
        counts.source["env"] = plain(Path(log).name)
    declaration = structure_of(structure)
    if declaration is not None:
        if isinstance(declaration, str):
            raise ValueError("--structure own is for environments: a log has none, write package.module:Name.")
        counts = counts.with_structure(declaration)
    atlas = Atlas(
        counts, certificate_for(counts, delta, bounds, epsilon, deterministic=deterministic, **arguments(option, "--option"))
    )
    atlas.save(out)
    found = counts.source["log"]
    if as_json:
        say_json({**certificate_facts(atlas), "found": found, "out": str(out)})
    elif not quiet:
        say(*found_lines(found, horizon), str(atlas.certificate), f"saved in {out}")
    missing = ""
    if epsilon is not None and not atlas.certificate.met:
        missing = f"epsilon {epsilon:g} was not certified: more episodes are needed."
    elif atlas.certificate.says_nothing:
        missing = (
            "the certificate for every reward says nothing yet: more episodes are needed, or look at the plan for one reward."
        )
    if missing:
        if not quiet:
            typer.echo(missing, err=True)
        raise typer.Exit(NOT_MET)


def one_or_list(names: list[str] | None) -> str | list[str] | None:
    """The value of an option that may be repeated: one name, or a list of several."""
    return None if not names else names[0] if len(names) == 1 else names


def listed(text: str | None, name: str) -> list[Any] | None:
    """The value of --states or --actions."""
    if text is None:
        return None
    value = literal(text, name)
    if not isinstance(value, list | tuple):
        value = [part.strip() for part in text.split(",")] if isinstance(value, str) else [value]
        if "" in value:
            raise ValueError(f"{name} has an empty name: write it as open,closed.")
    return list(value)


def counts_of_file(path: Path, columns: dict[str, Any], options: dict[str, Any]) -> Any:
    """The counts of the log in a file."""
    from ..data.columns import read_table
    from ..data.counts import Counts

    names = [name for value in columns.values() if value is not None for name in (value if isinstance(value, list) else [value])]
    table = read_table(path, list(dict.fromkeys(names)))
    return Counts.from_dataframe(table, **columns, **options)


def found_lines(found: dict[str, int], horizon: int) -> list[str]:
    """What was found in a log, as lines."""
    lines = [f"found {found['episodes']:,} episodes with {found['transitions']:,} transitions"]
    if {"rows", "states", "actions"} <= set(found):
        lines[0] += f" in {found['rows']:,} rows, {found['states']:,} states and {found['actions']:,} actions"
    lines.append(f"{found['terminated']:,} episodes terminated; {found['cut_off']:,} were cut off before step {horizon}")
    if found.get("reordered"):
        lines.append(f"the rows of {found['reordered']:,} episodes were not in order: they were sorted")
    return lines

"""The command merge."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated

import typer

from .app import NOT_MET, AsJson, app, certificate_facts, examples, report_errors, say, say_json


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
    if merged.certificate.says_nothing:
        typer.echo("the certificate for every reward says nothing yet: more episodes are needed.", err=True)
        raise typer.Exit(NOT_MET)

"""The command export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .app import AtlasFile, Quiet, app, examples, report_errors, say


@app.command(epilog=examples("anyreward export chain.atlas chain.drn", "anyreward export chain.atlas chain.umb --empirical"))
@report_errors
def export(
    atlas: AtlasFile,
    out: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The file to write, .drn for Storm or .umb.", show_default=False),
    ],
    empirical: Annotated[
        bool, typer.Option("--empirical", help="Write the empirical model, with probabilities instead of intervals.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Write the model for other checkers, such as Storm and PRISM.

    An interval model that contains every model that the certificate allows: with probability 1 - delta also the true one.
    """
    from .. import load
    from .._files import check_writable

    check_writable(out)
    load(atlas).export(out, empirical)
    if not quiet:
        say(f"written: {out}")

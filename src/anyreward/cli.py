"""The command line: a thin shell over the library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Explore once. Plan for any reward. Know how wrong you can be.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)


@app.callback()
def main() -> None:
    """Explore once. Plan for any reward. Know how wrong you can be."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where to write the picture (PNG, PDF or SVG by its ending).")] = Path(
        "anyreward-demo.png"
    ),
    seed: Annotated[int, typer.Option(help="Runs with the same seed are identical.")] = 0,
) -> None:
    """Explore the paper's double chain once, then plan for several rewards.

    Example: anyreward demo --out chain.png
    """
    from .experiments import demo as experiment

    if not out.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {out.parent}.", param_hint="--out")
    experiment.run(out, seed)

"""The command studio."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .app import EnvArgs, Grid, app, examples, grid_shape, report_errors
from .environment import environment


@app.command(
    epilog=examples(
        "anyreward studio chain.atlas",
        "anyreward studio grid.atlas --env grid-world --port 8000 --no-browser",
    )
)
@report_errors
def studio(
    files: Annotated[
        list[Path], typer.Argument(metavar="ATLAS...", help="Atlas files, as explore writes them.", show_default=False)
    ],
    env: Annotated[
        str | None,
        typer.Option(
            help="The environment of the first atlas, as for 'anyreward extend', so that the page can explore it further."
        ),
    ] = None,
    env_arg: EnvArgs = None,
    grid: Grid = None,
    out: Annotated[
        Path,
        typer.Option(
            help="Where what is explored on the page is saved. If the file is there already, a number is added to the name."
        ),
    ] = Path("explored.atlas"),
    port: Annotated[int, typer.Option(help="The port of the page; 0 for any that is free.")] = 0,
    host: Annotated[
        str,
        typer.Option(
            help="Where to listen. With another address than the default one, others who have the page's address can use it."
        ),
    ] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Open a page on which to paint a reward, and see its plan, its certified interval and what makes it wide.

    The page is served on this machine until Ctrl-C. Its address is printed; what follows the # is its key.
    """
    from .. import load
    from ..studio.opening import studio as opened

    chosen = None
    if env is not None:
        chosen, env_args = environment(env, env_arg)
        if env_args:
            from ..playing.opening import as_model

            chosen = as_model(chosen, {"env_args": env_args})
    names = [path.stem for path in files]
    atlases = {str(path) if names.count(name) > 1 else name: load(path) for name, path in zip(names, files, strict=True)}
    opened(atlases, env=chosen, grid=grid_shape(grid), out=out, port=port, host=host, browser=browser, wait=True)

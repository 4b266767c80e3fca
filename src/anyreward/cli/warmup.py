"""The command warmup."""

from __future__ import annotations

from ..exploring.forecast import duration
from .app import AsJson, Quiet, app, examples, report_errors, say, say_json


@app.command(epilog=examples("anyreward warmup", "NUMBA_CACHE_DIR=/srv/anyreward anyreward warmup"))
@report_errors
def warmup(quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Compile everything now, so that no later command has to.

    Compiled code is kept in a cache on disk, which all processes of this installation share. It says where.
    """
    from ..exploring.warmup import warm_up

    done = warm_up(False if quiet or as_json else None)
    if as_json:
        say_json(done._asdict())
    elif not quiet:
        many = f"compiled {done.compiled:,} function{'s' if done.compiled > 1 else ''} in {duration(done.seconds)}"
        say(
            many if done.compiled else "everything was compiled already",
            *(f"cache: {folder}" for folder in done.folders),
        )

"""The command discover."""

from __future__ import annotations

from typing import Annotated

import typer

from ..words import confidence_level
from .app import AsJson, AtlasFile, app, assumed_lines, examples, report_errors, say, say_json


@app.command(
    epilog=examples(
        "anyreward explore double-chain --horizon 20 --stationary --algorithm disco --max-episodes 9000 --out it.atlas",
        "anyreward discover it.atlas --steps 13",
    )
)
@report_errors
def discover(
    atlas: AtlasFile,
    steps: Annotated[
        float | None,
        typer.Option(help="Within how many expected steps. By default what the algorithm disco was given, or the horizon."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the states that can be reached within so many expected steps, with a certified number for each.

    A state counts if a policy that stays among states which count reaches it; an episode that does not arrive is restarted.
    """
    from .. import load

    found = load(atlas).discover(steps)
    if as_json:
        kinds = {name: getattr(found, name).nonzero()[0].tolist() for name in ("inside", "outside")}
        facts = {"steps": found.steps, **kinds, "certified": found.certified, "delta": found.delta}
        say_json({**facts, "assumptions": found.assumptions})
        return
    inside, outside = int(found.inside.sum()), int(found.outside.sum())
    undecided = len(found.inside) - inside - outside
    say(f"with probability {confidence_level(found.delta)}: within {found.steps:g} expected steps, if restarts are free,")
    say(f"{inside} states can certainly be reached, {outside} certainly cannot, {undecided} are undecided")
    say("at once with that, each by a policy of its own:")
    say(*(f"  {line}" for line in found.lines()))
    say(*assumed_lines(found.assumptions))

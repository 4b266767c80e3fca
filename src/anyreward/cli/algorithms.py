"""The command algorithms."""

from __future__ import annotations

import textwrap

from .app import AsJson, app, examples, report_errors, say, say_json

WIDTH = 80  # columns of a terminal


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
    for fact in facts:
        say(f"{fact['name']}: {fact['goal']}, {fact['status']}")
        for text in (fact["guarantee"], fact["reference"]):
            say(*textwrap.wrap(text, WIDTH, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False))

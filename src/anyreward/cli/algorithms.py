"""The command algorithms."""

from __future__ import annotations

import sys

from ..words import console, is_terminal
from .app import AsJson, app, examples, report_errors, say_json


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
    from rich.table import Table

    table = Table("name", "goal", "guarantee", "status", "reference")
    for fact in facts:
        table.add_row(*fact.values())
    console(width=None if is_terminal(sys.stdout) else 150).print(table)

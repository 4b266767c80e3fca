"""A small log with names, and how it is counted."""

from __future__ import annotations

from typing import Any

import anyreward as ar

NAMES = {"episode": "id", "state": "where", "action": "what"}


def small(**changes: Any) -> dict[str, Any]:
    """A log of three episodes, the second of which terminates."""
    table: dict[str, Any] = {
        "id": ["x", "x", "y", "y", "z"],
        "t": [0, 1, 0, 1, 0],
        "where": ["hall", "attic", "hall", "cellar", "attic"],
        "what": ["up", "down", "down", "up", "up"],
        "then": ["attic", "hall", "cellar", "hall", "attic"],
        "paid": [1.0, 0.0, 0.5, 1, 0],
        "over": [False, False, False, True, False],
    }
    return table | changes


def counted(table: Any = None, **options: Any) -> ar.Counts:
    return ar.Counts.from_dataframe(small() if table is None else table, **{**NAMES, "horizon": 2, "next": "then", **options})

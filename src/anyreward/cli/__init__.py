"""The command line of anyreward, one file a command: it parses options, calls one function of the library, prints the result.

The order of the imports is the order of the commands in `anyreward --help`.
"""

# ruff: noqa: I001
from .app import app
from . import (
    explore,
    extend,
    certify,
    info,
    plan,
    evaluate,
    playing,
    reach,
    discover,
    tradeoff,
    studio,
    watch,
    export,
    audit,
    merge,
    algorithms,
    experiments,
    warmup,
)

__all__ = [
    "algorithms",
    "app",
    "audit",
    "certify",
    "discover",
    "evaluate",
    "experiments",
    "explore",
    "export",
    "extend",
    "info",
    "merge",
    "plan",
    "playing",
    "reach",
    "studio",
    "tradeoff",
    "warmup",
    "watch",
]

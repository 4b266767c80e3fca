"""The command line of anyreward: each command parses its options, calls one function of the library, and prints the result."""

from . import experiments
from .main import app

__all__ = ["app", "experiments"]

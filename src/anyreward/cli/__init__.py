"""The command line: a thin shell over the library."""

from . import experiments
from .main import app

__all__ = ["app", "experiments"]

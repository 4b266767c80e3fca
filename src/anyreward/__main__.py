"""`python -m anyreward` is the command `anyreward`."""

from .cli import app

app(prog_name="anyreward")

"""How many failures a simulation of coverage may show."""

from scipy.stats import binom

RUNS = 2000


def allowed(delta: float, runs: int = RUNS) -> int:
    """The most failures that are not surprising: exceeded with probability at most 1e-7 at a true share of delta."""
    return int(binom.isf(1e-7, runs, delta))

"""Explorers: algorithms that propose a policy for the next episode (`ask`) and learn from what it met (`tell`).

===============  ================================================================================
`rf-trajectory`  `RFTrajectory`, greedy for the trajectory certificate: the default
`rf-ucrl`        `RFUCRL`, the paper's reward-free algorithm (Kaufmann et al. 2021)
`bpi-ucrl`       `BPIUCRL`, the paper's algorithm for one reward: best-policy identification
===============  ================================================================================

A new algorithm is a new file with a subclass of `Explorer` and a line here.
"""

from __future__ import annotations

from .bpi_ucrl import BPIUCRL
from .explorer import Explorer
from .rf_trajectory import RFTrajectory
from .rf_ucrl import RFUCRL

ALGORITHMS: dict[str, type[Explorer]] = {"rf-trajectory": RFTrajectory, "rf-ucrl": RFUCRL, "bpi-ucrl": BPIUCRL}

__all__ = ["ALGORITHMS", "BPIUCRL", "RFUCRL", "Explorer", "RFTrajectory"]

"""Explorers: algorithms that propose a policy for the next episode (`ask`) and learn from what it met (`tell`).

===============  ================================================================================
`rf-trajectory`  `RFTrajectory`, greedy for the trajectory certificate: the default
`rf-ucrl`        `RFUCRL`, the paper's reward-free algorithm (Kaufmann et al. 2021)
===============  ================================================================================

A new algorithm is a new file with a subclass of `Explorer` and a line here.
"""

from __future__ import annotations

from .explorer import Explorer
from .rf_trajectory import RFTrajectory
from .rf_ucrl import RFUCRL

ALGORITHMS: dict[str, type[Explorer]] = {"rf-trajectory": RFTrajectory, "rf-ucrl": RFUCRL}

__all__ = ["ALGORITHMS", "RFUCRL", "Explorer", "RFTrajectory"]

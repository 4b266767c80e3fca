"""`Plan`: a policy for one reward with certified bounds; `Interval`: the value of a policy with certified bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..words import confidence_level, interval


class Interval(NamedTuple):
    """The value of a policy, with certified bounds.

    The true value lies between `lower` and `upper` with the probability of the certificate, 1 - delta.

    Attributes
    ----------
    lower : float
    value : float
        The value in the empirical model.
    upper : float
    """

    lower: float
    value: float
    upper: float

    def __str__(self) -> str:
        return f"{self.value:.4g} in {interval(self.lower, self.upper)}"


@dataclass(frozen=True)
class Plan:
    """A policy for one reward, with certified bounds on its value and on the optimal value. `Atlas.plan` makes plans.

    On the certificate's event,

        lower <= true value of the policy <= true optimal value <= upper.

    This holds for every plan made from the same counts at once: any number of rewards may be asked for, chosen after seeing the
    data, and no further delta is spent. *Proof.* The event says that every true transition distribution lies in its KL ball, and
    does not mention rewards. `lower` is the smallest value of the policy, and `upper` the largest optimal value, over all models
    in the balls.

    A plan for the environment's own reward has an event of its own, of the same probability (`Atlas.plan_own`).

    Attributes
    ----------
    policy : ndarray of int, (H, S)
        The action at each step and state: optimal in the empirical model or, if `cautious` was asked for, with the best
        guaranteed value.
    value : float
        The value of the policy from the start in the empirical model.
    lower, upper : float
        The certified bounds.
    reward_range : (float, float)
        The range of the reward.
    delta : float
        The bounds hold with probability at least 1 - delta ...
    assumptions : tuple of str
        ... if all of these assumptions are true.
    """

    policy: np.ndarray
    value: float
    lower: float
    upper: float
    reward_range: tuple[float, float]
    delta: float
    assumptions: tuple[str, ...]

    @property
    def regret_bound(self) -> float:
        """The largest possible difference between the optimal value and the value of the policy: upper - lower."""
        return self.upper - self.lower

    def __repr__(self) -> str:
        H, S = self.policy.shape
        sure = f"{interval(self.lower, self.upper)} with probability {confidence_level(self.delta)}"
        assumes = f"; assumes: {'; '.join(self.assumptions)}" if self.assumptions else ""
        return f"Plan(value {self.value:.4g} in {sure}, policy for {H} steps and {S} states{assumes})"

"""The random policy: every action equally likely, whatever was seen. What exploration has to be better than.

Sampling   a policy is drawn uniformly before each episode; as an episode visits a step once, that is a uniform action each time.
Guarantee: none of its own. Its counts can be certified like any others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from ..setting import Setting
from .greedy import GreedyExplorer
from .registry import register
from .rf_trajectory import InverseRadius

if TYPE_CHECKING:
    from ..kernels.rf import Rule


@register("random")
class RandomPolicy(GreedyExplorer):
    """Uniform actions: greedy for an index that is 0 everywhere, where all actions tie."""

    goal = "baseline"
    guarantee = "none of its own"
    status = "none"
    reference = "Kaufmann et al. 2021, section 6"

    def __init__(self, setting: Setting, **options: Any) -> None:
        for name in ("replan", "ties"):
            if name in options:
                raise ValueError(f"{name} does not suit RandomPolicy: it does not plan.")
        super().__init__(setting, replan="path", ties="random", **options)

    def rule(self) -> Rule:
        setting = self.setting
        return kernels.rf.Rule(
            weight=np.zeros(setting.horizon),
            cap=np.zeros(setting.horizon),
            discount=0.0,
            start_weight=0.0,
            start_cap=np.inf,
            n_states=setting.n_outcomes,
            n_actions=setting.n_actions,
            radius=InverseRadius(),
        )

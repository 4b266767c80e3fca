"""anyreward: explore once, plan for any reward, know how wrong you can be.

    atlas = anyreward.explore(env, horizon=20, epsilon=2.0)     # reward-free exploration, until certified
    plan = atlas.plan(reward)                                   # a policy and an interval that holds, for any reward

Reward-free exploration and planning in finite-horizon Markov decision processes, after *Adaptive Reward-Free Exploration*
(Kaufmann et al., ALT 2021).
"""

from . import envs, theory
from .algorithms import ALGORITHMS, BPIUCRL, RFUCRL, Explorer, RFTrajectory
from .atlas.atlas import Atlas, Interval, Plan
from .atlas.format import load
from .certificates.certificate import Certificate, certify
from .data.counts import Counts
from .data.tabular import TabularMDP
from .environments.audit import Audit, audit
from .environments.gymnasium import EnvironmentFailure, Gymnasium
from .exploring.explore import explore, identify
from .planning import backward_induction, evaluate_policy
from .setting import Setting
from .theory import horizon_for_discount

__version__ = "0.1.0"

__all__ = [
    "ALGORITHMS",
    "BPIUCRL",
    "RFUCRL",
    "Atlas",
    "Audit",
    "Certificate",
    "Counts",
    "EnvironmentFailure",
    "Explorer",
    "Gymnasium",
    "Interval",
    "Plan",
    "RFTrajectory",
    "Setting",
    "TabularMDP",
    "audit",
    "backward_induction",
    "certify",
    "envs",
    "evaluate_policy",
    "explore",
    "horizon_for_discount",
    "identify",
    "load",
    "theory",
]

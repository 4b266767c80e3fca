"""anyreward: explore once, plan for any reward, know how wrong you can be.

    atlas = anyreward.explore(env, horizon=20, epsilon=2.0)     # reward-free exploration, until epsilon is certified
    plan = atlas.plan(reward)                                   # a policy with certified bounds on its value, for any reward

Reward-free exploration and planning in finite-horizon Markov decision processes with finitely many states and actions, after
*Adaptive Reward-Free Exploration* (Kaufmann et al., ALT 2021).

===============================================  ==============================================================================
`explore`, `identify`                            explore an environment for every reward, or for one reward
`Atlas`, `Plan`, `Interval`, `load`              the result of an exploration: plan, evaluate, merge, save and load
`Certificate`, `certify`                         what data prove, also data that somebody else collected (`Counts`)
`Setting`, `Counts`, `TabularMDP`                the sizes of a problem, observed transitions, known models
`term`                                           names a part of a reward, by which a plan's value is split
`Automaton`                                      a goal that remembers, or a reward machine, for `Atlas.reach`
`Structure`                                      declares that many states and actions share few laws
`studio`                                         a page on which to paint a reward and see its plan
`audit`                                          checks whether an environment is Markov, and stationary
`ALGORITHMS`, `Explorer`, `RFUCRL`, ...          exploration algorithms, to use with `ask` and `tell`
`backward_induction`, `evaluate_policy`          exact planning in a known model
`envs`, `theory`                                 example environments; the paper's formulas
===============================================  ==============================================================================
"""

from typing import TYPE_CHECKING

from . import envs, theory
from .algorithms import ALGORITHMS, BPIUCRL, RFUCRL, Explorer, RFTrajectory
from .atlas.atlas import Atlas
from .atlas.automata import Automaton
from .atlas.format import load
from .atlas.plan import Interval, Plan
from .certificates.certificate import Certificate, certify
from .certificates.factored import Factored
from .data.counts import Counts
from .data.tabular import TabularMDP
from .exploring.audit import Audit, audit
from .exploring.explore import explore, identify
from .exploring.extend import extend as _extend  # noqa: F401 - makes it a method of atlases
from .planning import backward_induction, evaluate_policy
from .playing.opening import EnvironmentFailure, Gymnasium
from .rewards.terms import term
from .setting import Setting
from .structure import Structure
from .theory import horizon_for_discount

if TYPE_CHECKING:
    from .studio.opening import studio
else:
    from . import studio  # a package that can be called: what it needs is imported then

__version__ = "0.2.0"

__all__ = [
    "ALGORITHMS",
    "BPIUCRL",
    "RFUCRL",
    "Atlas",
    "Audit",
    "Automaton",
    "Certificate",
    "Counts",
    "EnvironmentFailure",
    "Explorer",
    "Factored",
    "Gymnasium",
    "Interval",
    "Plan",
    "RFTrajectory",
    "Setting",
    "Structure",
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
    "studio",
    "term",
    "theory",
]

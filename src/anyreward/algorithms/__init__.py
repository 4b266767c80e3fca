"""Explorers: algorithms that propose a policy for the next episode (`ask`) and learn from what it met (`tell`).

==================  ========================  ============================================================================
name                class                     what it is
==================  ========================  ============================================================================
`rf-trajectory`     `RFTrajectory`            greedy for the trajectory certificate: the default
`rf-calibrated`     `RFCalibrated`            fills quotas for the calibrated certificate, several times fewer episodes
`rf-ucrl`           `RFUCRL`                  the paper's reward-free algorithm (Kaufmann et al. 2021)
`bpi-ucrl`          `BPIUCRL`                 the paper's algorithm for one reward: best-policy identification
`multi-bpi`         `MultiBPI`                several rewards on shared counts: the widest interval next
`mdp-gape`          `MDPGapE`                 the first action for one reward (Jonsson et al. 2020)
`random`            `RandomPolicy`            uniform actions
`ucb-zero`          `UCBZero`                 for rewards that come later, without a model (Zhang, Ma & Singla 2020)
`rf-linear`         `RFLinear`                reward-free by least squares, with features or without (Wang et al. 2020)
`count`             `Count`                   a bonus of visits: its root, inverse or logarithm
`log-coverage`      `LogCoverage`             even coverage of what can be reached (after Li et al. 2023)
`ent-game`          `EntGame`                 visits of large entropy, and how large it can be (Tiapkin et al. 2023)
`maxent`            `MaxEnt`                  visits of states of large entropy (Hazan et al. 2019)
`info-gain`         `InfoGain`                expected information about the laws
`progress`          `Progress`                what the last visit of a pair has taught (Schmidhuber 1991)
`empowerment`       `Empowerment`             where actions decide what comes next (Mohamed & Rezende 2015)
`coverage`          `Coverage`                so many samples of every pair (after Al-Marjani et al. 2023)
`disco`             `Disco`                   which states can be reached within so many steps (after Lim & Auer 2012)
`psrl`              `PSRL`                    posterior sampling (Strens 2000; Osband et al. 2013)
`generative`        `Generative`              draws of every pair alike (Kearns & Singh 1998; Azar et al. 2012)
`fiechter`          `Fiechter`                a rounded error index (Fiechter 1994), as published or repaired
`rf-express`        `RFExpress`               reward-free with a 1/n bonus (Ménard et al. 2021)
`jin2020`           `Jin2020`                 a regret minimiser for every (h, s), then a buffer of policies (Jin et al. 2020)
`bpi-ucbvi`         `BPIUCBVI`                one reward, with variances (Ménard et al. 2021)
`even-dar`          `EvenDar`                 one reward, action elimination (Even-Dar et al. 2006)
`ucbvi`             `UCBVI`                   regret (Azar et al. 2017)
`euler`             `EULER`                   regret (Zanette & Brunskill 2019)
`ucrl2`             `UCRL2`                   regret, L1 balls (Jaksch et al. 2010)
`kl-ucrl`           `KLUCRL`                  regret, KL balls (Filippi et al. 2010)
`opt-qlearning`     `OptimisticQLearning`     regret, without a model (Jin et al. 2018)
`mbie-eb`           `MBIEEB`                  PAC-MDP, one bonus for V* (Strehl & Littman 2008)
`mbie`              `MBIE`                    PAC-MDP, L1 balls (Strehl & Littman 2008)
`r-max`             `RMax`                    PAC-MDP, what is unknown pays most (Brafman & Tennenholtz 2002)
`delayed-q`         `DelayedQ`                PAC-MDP, without a model (Strehl et al. 2006)
`ucfh`              `UCFH`                    PAC-MDP, an interval for each probability (Dann & Brunskill 2015)
`ubev`              `UBEV`                    PAC-MDP for every epsilon at once (Dann et al. 2017)
`e3`                `E3`                      reward-free, escapes from what is known (Kearns & Singh 2002)
`regret-uniform`    `RegretUniform`           from regret to a policy: one of those played (Jin et al. 2018)
`regret-instances`  `RegretInstances`         from regret to a policy: the best of several runs (Kaufmann et al. 2021)
==================  ========================  ============================================================================

Every file in this folder is imported, and what it registers (`registry.register`) is an algorithm: a new one is a new file.
`explorer.py` tells what an explorer is and which classes algorithms of a kind share.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from .bpi_ucbvi import BPIUCBVI
from .bpi_ucrl import BPIUCRL
from .euler import EULER
from .even_dar import EvenDar
from .explorer import Explorer
from .fiechter import Fiechter
from .from_regret import RegretInstances, RegretUniform, instances_for
from .generative import Generative, draws_for
from .jin2020 import Jin2020
from .kl_ucrl import KLUCRL
from .opt_qlearning import OptimisticQLearning
from .random_policy import RandomPolicy
from .registry import ALGORITHMS, make_explorer, register
from .rf_calibrated import RFCalibrated
from .rf_express import RFExpress
from .rf_trajectory import RFTrajectory
from .rf_ucrl import RFUCRL
from .ucbvi import UCBVI
from .ucrl2 import UCRL2

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

# The order of tables and legends: by what the algorithms are for, the paper's and ours first.
_GOALS = (
    "reward-free", "best policy", "first action", "several rewards", "regret", "PAC-MDP", "goals", "entropy", "generative",
    "baseline",
)  # fmt: skip
_FIRST = ("rf-trajectory", "rf-ucrl", "bpi-ucrl")


def _place(goal: str) -> tuple[int, str]:
    return _GOALS.index(goal) if goal in _GOALS else len(_GOALS), goal


for _name in sorted(ALGORITHMS, key=lambda name: (name not in _FIRST, *_place(ALGORITHMS[name].goal), name)):
    ALGORITHMS[_name] = ALGORITHMS.pop(_name)
globals().update({kind.__name__: kind for kind in ALGORITHMS.values()})  # those that are not named above, too

__all__ = [
    "ALGORITHMS",
    "BPIUCBVI",
    "BPIUCRL",
    "EULER",
    "KLUCRL",
    "RFUCRL",
    "UCBVI",
    "UCRL2",
    "EvenDar",
    "Explorer",
    "Fiechter",
    "Generative",
    "Jin2020",
    "OptimisticQLearning",
    "RFCalibrated",
    "RFExpress",
    "RFTrajectory",
    "RandomPolicy",
    "RegretInstances",
    "RegretUniform",
    "draws_for",
    "instances_for",
    "make_explorer",
    "register",
]

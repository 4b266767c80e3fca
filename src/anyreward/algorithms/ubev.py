"""UBEV (Dann, Lattimore & Brunskill 2017): Uniform-PAC, few mistakes for every epsilon at once.

    Q_h(s,a) = r + min(H-1-h, p_hat V_{h+1} + (H-1-h) phi(n)),   V = max_a Q,   steps from 0;   r + H-1-h without data
    phi(n)   = sqrt((2 llnp(n) + log(18 S A H / delta)) / n),    llnp(n) = log log max(n, e)

Sampling   play argmax_a Q.

Guarantee, on trust: for all epsilon at once, at most O((S A H^4 / epsilon^2) min(1 + epsilon S^2 A, S)) episodes are worse than
V* - epsilon, up to logarithms, with probability 1 - delta. Its constants are not published, so that `mistake_bound` gives none;
on a known model `anyreward compare --mistakes FILE` draws the curve. A bonus for V* says nothing of the policy that is played:
no certificate.

Q >= Q* follows from p V* <= p_hat V* + (H-1-h) phi(n), a law of the iterated logarithm for one function with values in [0,
H-1-h], which is taken from the original. The formula was read in the authors' public code, which differs in three points. It
has max V_{h+1} as the cap where H-1-h is here: the same as long as some state of the next step has not been met. It has max V -
min V as the range in the bonus, which is not what is proved: the range of V* is needed. And it has log(3 S A H / (delta/7)). No
discount."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np

from ..rewards.forms import Reward
from ..setting import Setting
from .explorer import RewardedExplorer
from .optimistic import OptimisticExplorer
from .registry import register
from .visit_index import ITERATED, VisitIndex


@register("ubev")
class UBEV(OptimisticExplorer, RewardedExplorer):
    """UBEV as ask and tell; see `OptimisticExplorer` and `RewardedExplorer` for options."""

    goal = "PAC-MDP"
    guarantee = "~ S A H^4 / epsilon^2 bad episodes for every epsilon at once; none for a policy"
    status = "no certificate"
    reference = "Dann et al. 2017"
    supports_discount = False
    blind_by_reward = True

    def __init__(self, setting: Setting, reward: Reward = None, **options: Any) -> None:
        super().__init__(setting, reward, **options)

    def rule(self) -> VisitIndex:
        setting = self.setting
        level = log(18 * setting.n_outcomes * setting.n_actions * setting.horizon / self.delta)
        return VisitIndex(ITERATED, float(setting.horizon), float(self.scale), level)

    def _blank(self) -> np.ndarray:
        H, shape = self.setting.horizon, (self.setting.horizon, self.setting.n_outcomes, self.setting.n_actions)
        return np.broadcast_to(self.reward, shape) + (H - 1 - np.arange(H))[:, None, None]

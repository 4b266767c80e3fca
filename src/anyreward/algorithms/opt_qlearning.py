"""Optimistic Q-learning (Jin, Allen-Zhu, Bubeck & Jordan 2018): regret for one known reward, without a model.

At the t-th visit of (h, s, a), going to s' (steps from 0):

    Q_h(s,a) <- (1 - alpha) Q_h(s,a) + alpha (r_h(s,a) + V_{h+1}(s') + b_t),   alpha = (H+1)/(H+t)
    V_h(s)    = min(H, max_a Q_h(s,a))
    b_t = sqrt(H^3 iota / t), or sharp (H-1-h) sqrt(H iota / t) with V_h <= H-h;    iota = log(2 S A T / delta)

Q = H (sharp: H-h) before any visit; T = K H, fixed beforehand. Values ahead are those of the episode before. Visits are by
step, in a stationary setting too.

Guarantee: regret of order sqrt(H^4 S A T); no certificate. The form is from memory, the constant 1 was derived: the weights of
the visits have squares that sum to at most 2H/t, so the Azuma-Hoeffding inequality gives (H-1-h) sqrt(H log(S A T/delta)/t),
and the weighted bonuses sum to at least b_t: Q >= Q* with probability 1 - delta. No discount.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np

from .. import kernels
from ..rewards.forms import Reward
from ..setting import Setting
from .explorer import RewardedExplorer, transitions
from .optimistic import OptimisticExplorer
from .registry import register


class QLearningIndex(NamedTuple):
    """Q, which is learnt forwards from every episode; how often a row was visited at a step is kept in the place of Q_lo.

    Without a reward it is UCBZero's index (`ucb_zero`), of which the least value at the start is kept.
    """

    scale: float
    iota: float
    sharp: bool
    least: np.ndarray  # (2,) float64: the least value at a known start so far, and after how many episodes it was so
    times: float = 1.0  # the bonus is taken so many times

    def begin(self, problem: Any, table: Any, greedy: Any, indices: Any, rows: Any) -> None:
        for h in range(problem.horizon):
            greedy.unvisited[h] = float(problem.horizon - h if self.sharp else problem.horizon)

    def renew(self, problem: Any, table: Any, greedy: Any, indices: Any, rows: Any) -> None:
        """Nothing depends on the visits of a row alone."""

    def update(
        self, problem: Any, table: Any, greedy: Any, indices: Any, rows: Any, nodes: np.ndarray, actions: np.ndarray
    ) -> None:
        Q, V, visits = greedy.Q, greedy.V, indices.Q_lo
        H, A, reward = problem.horizon, problem.n_actions, problem.reward
        for h in range(H):  # every value ahead is still that of the episode before
            plane, plane_next, node = min(h, len(V) - 1), min(h + 1, len(V) - 1), nodes[h]
            row = kernels.table.row_of(node, A, actions[h])
            visits[plane, row] += 1.0
            t = visits[plane, row]
            alpha, left = (H + 1.0) / (H + t), float(H - 1 - h)
            ahead = 0.0 if h == H - 1 else min(left if self.sharp else float(H), V[plane_next, nodes[h + 1]])
            b = (
                self.times
                * self.scale
                * (left * sqrt(H * self.iota / t) if self.sharp else sqrt(float(H) * H * H * self.iota / t))
            )
            r = 0.0 if len(reward) == 0 else reward[min(h, len(reward) - 1), table.state[node], actions[h]]
            Q[plane, row] = (1.0 - alpha) * Q[plane, row] + alpha * (r + ahead + b)
            kernels.greedy.settle(Q, V, greedy.settled, A, plane, node)
        if len(reward) == 0 and len(table.starts) > 0:
            start = 0.0
            for k in range(len(table.starts)):
                node = table.node_of[0, table.starts[k]]
                start += table.start_p[k] * (min(float(H), V[0, node]) if node != 0 else float(H))
            if start < self.least[0]:
                self.least[0], self.least[1] = start, float(table.used[kernels.table.EPISODES])


@register("opt-qlearning")
class OptimisticQLearning(OptimisticExplorer, RewardedExplorer):
    """Optimistic Q-learning as ask and tell.

    Parameters
    ----------
    reward, reward_range
        See `RewardedExplorer`.
    budget
        How many episodes there will be, K.
    sharp
        Whether to use the sharper bonus, which has the same proof.
    setting, delta, bounds, scale, ties, seed, growth
        See `OptimisticExplorer`.
    """

    continues = False  # it keeps what counts do not tell
    goal = "regret"
    guarantee = "regret ~ sqrt(H^4 S A T)"
    status = "no certificate"
    reference = "Jin et al. 2018"
    supports_discount = False
    needs_budget = True

    def __init__(
        self, setting: Setting, reward: Reward = None, *, budget: int | None = None, sharp: bool = False, **options: Any
    ) -> None:
        self.sharp, self.transitions = bool(sharp), transitions(budget, setting, "optimistic Q-learning")
        super().__init__(setting, reward, **options)

    def rule(self) -> QLearningIndex:
        iota = log(2 * self.setting.n_outcomes * self.setting.n_actions * self.transitions / self.delta)
        return QLearningIndex(float(self.scale), iota, self.sharp, np.array([np.inf, 0.0]))

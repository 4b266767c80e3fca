"""Delayed Q-learning (Strehl, Li, Wiewiora, Langford & Littman 2006), in a form for episodes: PAC-MDP without a model.

Q_h = H - h before any visit, steps from 0; the last step needs no learning, Q = r. At every step h < H-1 of an episode, in
order, for its pair (h, s, a), also in a stationary setting, with the numbers AU = l = b = 0 and LEARN = true of each pair and
t* = 0:

    now += 1
    if b <= t*:  LEARN = true
    if LEARN:    b = now if l = 0;   l += 1;   AU += r + max Q_{h+1}(s')
                 if l = m:  if Q - AU/m >= 2 eps_1:  Q = AU/m + eps_1,  t* = now
                            else if b > t*:          LEARN = false
                            AU = l = 0
    eps_1 = epsilon / (6H),   m = ceil((H-1)^2 / (2 eps_1^2) log(3 N (1 + N kappa) / delta)),   kappa = H / eps_1,   N = S A (H-1)

Sampling   play argmax_a Q, as it is when the episode begins.

Guarantee, derived here (`docs/theory.md`, 22.1 and 22.7): V* - V^{played} > epsilon in at most (4H/epsilon) (2 m N kappa +
log(3/delta)) episodes, with probability 1 - delta: `mistake_bound`. It keeps no model: no certificate of a policy.

The original is discounted; the rules were read in two public implementations. One of them has eps_1 = epsilon/(3H), which leaves
nothing of epsilon for episodes that escape, and kappa = 1/eps_1, which lacks the largest value. No discount.
"""

from __future__ import annotations

from math import ceil, inf, log
from typing import Any, NamedTuple

import numpy as np

from .. import kernels
from .._checks import checked_array
from ..rewards.forms import UNIT, Reward, checked_range
from ..setting import Setting, positive, probability
from .explorer import RewardedExplorer
from .optimistic import OptimisticExplorer
from .r_max import given_samples
from .registry import register

KEPT = ("total", "times", "since", "idle")


class DelayedIndex(NamedTuple):
    """Q, with what is gathered for each pair until its next update; P is 1, or H + 1 if stationary."""

    m: int
    eps_1: float
    total: np.ndarray  # (P, N * A) float64: AU
    times: np.ndarray  # (P, N * A) float64: l
    since: np.ndarray  # (P, N * A) float64: b
    idle: np.ndarray  # (P, N * A) float64: 1 if LEARN is false
    clock: np.ndarray  # (2,) float64: now and t*

    def begin(self, problem: Any, table: Any, greedy: Any, indices: Any, rows: Any) -> None:
        for h in range(problem.horizon):
            greedy.unvisited[h] = float(problem.horizon - h)

    def renew(self, problem: Any, table: Any, greedy: Any, indices: Any, rows: Any) -> None:
        """Nothing depends on the visits of a row alone."""

    def update(
        self, problem: Any, table: Any, greedy: Any, indices: Any, rows: Any, nodes: np.ndarray, actions: np.ndarray
    ) -> None:
        Q, V, clock = greedy.Q, greedy.V, self.clock
        H, A, reward = problem.horizon, problem.n_actions, problem.reward
        last = min(H - 1, len(V) - 1)
        for h in range(H + 1):  # what is met at any step may be met at the last one, if nodes are those of all steps
            if h == H - 1 or last > 0:
                for a in range(A):
                    row = kernels.table.row_of(nodes[h], A, a)
                    if Q[last, row] > -np.inf:
                        Q[last, row] = reward[len(reward) - 1, table.state[nodes[h]], a]
                kernels.greedy.settle(Q, V, greedy.settled, A, last, nodes[h])
        for h in range(H - 1):
            plane, plane_next, node = min(h, len(V) - 1), min(h + 1, len(V) - 1), nodes[h]
            row = kernels.table.row_of(node, A, actions[h])
            clock[0] += 1.0
            if self.since[plane, row] <= clock[1]:
                self.idle[plane, row] = 0.0
            if self.idle[plane, row] == 0.0:
                if self.times[plane, row] == 0.0:
                    self.since[plane, row] = clock[0]
                self.times[plane, row] += 1.0
                r = reward[min(h, len(reward) - 1), table.state[node], actions[h]]
                self.total[plane, row] += r + V[plane_next, nodes[h + 1]]
                if self.times[plane, row] == self.m:
                    mean = self.total[plane, row] / self.m
                    if Q[plane, row] - mean >= 2.0 * self.eps_1:
                        Q[plane, row] = mean + self.eps_1
                        clock[1] = clock[0]
                        kernels.greedy.settle(Q, V, greedy.settled, A, plane, node)
                    elif self.since[plane, row] > clock[1]:
                        self.idle[plane, row] = 1.0
                    self.total[plane, row] = self.times[plane, row] = 0.0


@register("delayed-q")
class DelayedQ(OptimisticExplorer, RewardedExplorer):
    """Delayed Q-learning as ask and tell.

    Parameters
    ----------
    target
        The epsilon of the guarantee, in units of the reward. By default a tenth of the largest possible value.
    samples
        m, in place of what the target asks for: a heuristic without a guarantee.
    setting, reward, reward_range, delta, bounds, ties, seed, growth
        See `OptimisticExplorer` and `RewardedExplorer`.
    """

    continues = False  # it keeps what counts do not tell
    goal = "PAC-MDP"
    guarantee = "at most F(epsilon) bad episodes; none for a policy"
    status = "no certificate"
    reference = "Strehl et al. 2006"
    supports_discount = False
    blind_by_reward = True

    def __init__(
        self,
        setting: Setting,
        reward: Reward = None,
        *,
        delta: float = 0.1,
        target: float | None = None,
        samples: int | None = None,
        reward_range: tuple[float, float] = UNIT,
        **options: Any,
    ) -> None:
        if "scale" in options:
            raise ValueError("scale does not suit DelayedQ: it has no bonus. Its option samples does what you want.")
        low, high = checked_range(reward_range)
        H, delta = setting.horizon, probability(delta, "delta")
        self.target = H / 10 if target is None else positive(target, "target") / (high - low)
        self.eps_1 = self.target / (6 * H)
        self._laws = setting.n_outcomes * setting.n_actions * max(1, H - 1)
        self._successes = self._laws * H / self.eps_1  # N kappa
        m = (H - 1) ** 2 / (2 * self.eps_1**2) * log(3 * self._laws * (1 + self._successes) / delta)
        self.samples = max(1, ceil(m)) if samples is None else given_samples(samples)
        super().__init__(setting, reward, delta=delta, reward_range=reward_range, **options)
        self.heuristic = samples is not None

    @classmethod
    def defaults(cls, setting: Setting, epsilon: float) -> dict[str, Any]:
        return {"target": epsilon}

    def rule(self) -> DelayedIndex:
        rows = self.setting.planes, self.counts.capacity * self.setting.n_actions
        arrays: dict[str, Any] = {name: np.zeros(rows) for name in KEPT}
        return DelayedIndex(m=int(self.samples), eps_1=float(self.eps_1), clock=np.zeros(2), **arrays)

    def _fit(self) -> None:
        super()._fit()
        if self._rule.total.shape[1] < self.counts.capacity * self.setting.n_actions:
            self._rule = self.counts.fitted(self._rule, rows=KEPT)

    def _blank(self) -> np.ndarray:
        H, S, A = self.setting.horizon, self.setting.n_outcomes, self.setting.n_actions
        blank = np.broadcast_to((H - np.arange(H, dtype=float))[:, None, None], (H, S, A)).copy()
        blank[-1] = self.reward[-1]
        return blank

    def _mistakes(self, epsilon: float) -> float | None:
        if self.heuristic:
            return None
        if epsilon < self.target:
            return inf
        H = self.setting.horizon
        spare = epsilon - self.target / 2
        return 2 * H / spare * (2 * self.samples * self._successes + log(3 / self.delta))

    def state(self) -> dict[str, np.ndarray]:
        rows = self.counts.n_nodes * self.setting.n_actions
        kept = {name: getattr(self._rule, name)[:, :rows].copy() for name in KEPT}
        return {**super().state(), **kept, "clock": self._rule.clock.copy()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        rows = self.counts.n_nodes * self.setting.n_actions
        for name in KEPT:
            array = getattr(self._rule, name)
            array[...] = 0.0
            array[:, :rows] = checked_array(state[name], float, (len(array), rows), "what it gathered is", 0)
        self._rule.clock[:] = checked_array(state["clock"], float, (2,), "its clock is", 0)

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

from math import log
from typing import Any

import numpy as np

from .. import kernels
from ..counts import grown
from ..index import NOTHING
from ..mdp import TabularMDP
from ..rewards import Reward
from ..setting import Setting, positive
from .optimistic import CHUNK, NODES, RewardedExplorer, only_undiscounted, transitions


class OptimisticQLearning(RewardedExplorer):
    """Optimistic Q-learning as ask and tell.

    Parameters
    ----------
    reward
        The reward, with values in [0, 1].
    budget
        How many episodes there will be, K.
    sharp
        Whether to use the sharper bonus, which has the same proof.
    scale
        Multiplies the bonuses; any number but 1 is a heuristic.
    setting, delta, bounds, seed, growth
        See `Explorer`.
    """

    goal = "regret"
    guarantee = "regret ~ sqrt(H^4 S A T)"
    status = "no certificate"
    reference = "Jin et al. 2018"
    needs_budget = True

    def __init__(
        self,
        setting: Setting,
        reward: Reward = None,
        *,
        budget: int | None = None,
        sharp: bool = False,
        scale: float = 1.0,
        ties: str = "random",
        **options: Any,
    ) -> None:
        only_undiscounted(setting, "optimistic Q-learning")
        super().__init__(setting, reward, **options)
        if ties not in ("random", "first"):
            raise ValueError(f"ties is {ties!r}: it has to be 'random' or 'first'.")
        S, A, H = setting.n_states, setting.n_actions, setting.horizon
        T = transitions(budget, setting, "optimistic Q-learning")
        self.sharp, self.scale, self.heuristic = bool(sharp), positive(scale, "scale"), scale != 1.0
        self._iota, self._seed_key = log(2 * S * A * T / self.delta), self._tie_key(ties)
        planes, N = (H + 1 if setting.stationary else 1), len(self.counts._table.state)
        before = np.append(np.arange(H, 0, -1.0) if sharp else np.full(H, float(H)), 0.0)
        self._greedy = kernels.greedy.Greedy(
            Q=np.zeros((planes, N * A)),
            V=np.zeros((planes, N)),
            best=np.zeros((planes, N), np.uint32),
            ties=np.zeros((planes, N), np.uint32),
            unvisited=before,
        )
        self._visits = np.zeros((planes, N * A))
        self._scratch = np.zeros(H + 1, np.uint32), np.zeros(H, np.uint32)

    @property
    def _constants(self) -> tuple[Any, ...]:
        return self.reward, self.setting.horizon, self._iota, self.sharp, float(self.scale)

    def _fit(self) -> None:
        N, A = len(self.counts._table.state), self.setting.n_actions
        if self._greedy.V.shape[1] < N:
            self._greedy = self._greedy._replace(**{k: grown(getattr(self._greedy, k), N * A if k == "Q" else N) for k in NODES})
            self._visits = grown(self._visits, N * A)

    def ask(self) -> np.ndarray:
        """The greedy policy, (H, S)."""
        node_of, key = self.counts._table.node_of, kernels.greedy.episode_key(np.uint64(self._seed_key), self.episodes)
        return kernels.greedy.policy(self._greedy, NOTHING, self.setting.n_actions, node_of, self.setting.horizon, np.uint64(key))

    @property
    def index(self) -> np.ndarray:
        """Q of every pair, (H, S, A)."""
        return kernels.greedy.dense(self._greedy, self.setting.n_actions, self.counts._table.node_of, self.setting.horizon)

    def _learn(self, states: np.ndarray, actions: np.ndarray) -> None:
        i = 0
        while i < len(states):
            step = min(256, self.counts.until_booking)
            self.counts.reserve(step * states.shape[1])
            self._fit()
            part = states[i : i + step], actions[i : i + step]
            kernels.optimism.tell_q(self.counts._table, self._greedy, self._visits, *self._constants, *part)
            self.counts.book_if_due()
            i += step

    def advance(self, mdp: TabularMDP, rng: np.random.Generator, episodes: int, goal: float) -> bool:
        """Plays on a known model at compiled speed; the same decisions as with `ask` and `tell`."""
        self.counts.reserve(64 * (self.setting.horizon + 1))
        self._fit()
        kernels.optimism.run_q(
            mdp.model, self.counts._table, self._greedy, self._visits, NOTHING, *self._constants,
            np.uint64(self._seed_key), rng, min(episodes, CHUNK, self.counts.until_booking), *self._scratch,
        )  # fmt: skip
        self.counts.book_if_due()
        return False

    def state(self) -> dict[str, np.ndarray]:
        N, A = int(self.counts._table.used[0]), self.setting.n_actions
        settled = (self._greedy.ties[:, :N] > 0).astype(np.uint8)
        kept = {"Q": self._greedy.Q[:, : N * A].copy(), "visits": self._visits[:, : N * A].copy(), "settled": settled}
        return {**super().state(), **kept}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        self._fit()
        N, A, greedy = int(self.counts._table.used[0]), self.setting.n_actions, self._greedy
        for place, name in ((greedy.Q, "Q"), (self._visits, "visits")):
            if state[name].shape != (len(greedy.V), N * A) or np.isnan(state[name]).any():
                raise ValueError("its index is damaged.")
            place[:, : N * A] = state[name]
        if state["settled"].shape != (len(greedy.V), N):
            raise ValueError("its index is damaged.")
        kernels.greedy.settle_all(greedy.Q, greedy.V, greedy.best, greedy.ties, A, N, state["settled"].astype(np.uint8))

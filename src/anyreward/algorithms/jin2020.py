"""RF-RL-Explore (Jin, Krishnamurthy, Simchowitz & Yu 2020): reward-free exploration by a regret minimiser for every (h, s).

1. For every step h and state s in turn: run EULER for N_0 episodes with the reward 1{being in s at step h}. Its N_0 policies,
with a
   uniform action in s at step h, go into a buffer.
2. N episodes, each with a policy drawn uniformly from the buffer.
Planning: for any reward, backward induction on p_hat.

Guarantee: with N_0 = c S^3 A H^6 iota^3 / epsilon and N = c S^2 A H^5 iota / epsilon^2, every plan is epsilon-optimal; c is not
published, so N_0 and N are for the user to give and there is no certificate of its own. The proof counts the second part only.
All episodes are counted here: our certificate allows any rule that knows the past only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..setting import Setting, whole_number
from .euler import EULER
from .explorer import Explorer, Learning, Policies, Request, transitions
from .registry import register

CHUNK, BLOCK = 1_000, 256


@register("jin2020")
class Jin2020(Explorer):
    """RF-RL-Explore as ask and tell.

    Parameters
    ----------
    budget
        How many episodes there will be in all.
    n0
        Episodes of EULER for each (h, s); by default such that they are half of the budget, at least one each.
    scale, variant
        Of EULER, see there.
    setting, delta, bounds, seed, growth
        See `Explorer`.
    """

    guarantee = "every plan epsilon-optimal with constants that are not published"
    status = "constants unknown"
    reference = "Jin et al. 2020"
    needs_budget = True
    batches = False  # which episode was played by which policy matters
    supports_discount = False
    resumable = False  # its buffer of policies is not kept

    def __init__(
        self,
        setting: Setting,
        *,
        budget: int | None = None,
        n0: int | None = None,
        scale: float = 1.0,
        variant: str = "repaired",
        **options: Any,
    ) -> None:
        super().__init__(setting, **options)
        self.heuristic = scale != 1.0
        self.budget = transitions(budget, setting, "RF-RL-Explore") // setting.horizon
        self._goals = setting.horizon * setting.n_states
        self.n0 = max(1, self.budget // (2 * self._goals)) if n0 is None else whole_number(n0, "n0")
        if self.n0 < 1:
            raise ValueError(f"n0 is {self.n0}: it has to be at least 1.")
        self._euler: dict[str, Any] = {"scale": scale, "variant": variant, "delta": self.delta, "budget": self.n0}
        self._minimiser: EULER | None = None
        self._buffer: list[np.ndarray] = []  # (n0, H, S) policies of each (h, s)
        self._asked: np.ndarray | None = None
        self._explorer()  # says so if an option does not suit it

    def ask(self) -> np.ndarray:
        """The policy of the next episode, (H, S)."""
        if self._asked is None:
            t = self.episodes
            if t < self._goals * self.n0:
                self._asked = self._explorer().ask()
            else:
                self._asked = self._drawn(t, 1)[0]
        return self._asked.copy()

    def _drawn(self, t: int, episodes: int) -> np.ndarray:
        """The policies of episodes from t on, of the second part: (episodes, H, S), drawn by numbers of their own."""
        blocks = range(t // BLOCK, (t + episodes - 1) // BLOCK + 1)
        draws = [np.random.default_rng([self.seed, 11, block]).random((BLOCK, 2)) for block in blocks]
        numbers = np.concatenate(draws)[t % BLOCK :][:episodes]
        chosen = (numbers[:, 0] * self._goals * self.n0).astype(np.int64)
        goal, k = np.divmod(chosen, self.n0)
        policies = np.stack([self._buffer[i][j] for i, j in zip(goal, k, strict=True)]).astype(np.int64)
        h, s = np.divmod(goal, self.setting.n_states)
        policies[np.arange(episodes), h, s] = (numbers[:, 1] * self.setting.n_actions).astype(np.int64)
        return policies

    def _explorer(self) -> EULER:
        """The regret minimiser of the present (h, s)."""
        goal = self.episodes // self.n0
        if self._minimiser is None:
            h, s = divmod(goal, self.setting.n_states)
            reward = np.zeros((self.setting.horizon, self.setting.n_outcomes, self.setting.n_actions))
            reward[h, s] = 1.0
            self._minimiser = EULER(self.setting, reward, bounds="paper", seed=self.seed * self._goals + goal, **self._euler)
        return self._minimiser

    def _learn(self, states: np.ndarray, actions: np.ndarray) -> None:
        for b in range(len(states)):
            t = self.episodes
            if t < self._goals * self.n0:
                self._keep(self.ask()[None])
                self._explorer()._learn(states[b : b + 1], actions[b : b + 1])
            self.counts.add_episodes(states[b : b + 1], actions[b : b + 1])
            self._asked = None
            if (t + 1) % self.n0 == 0:
                self._minimiser = None

    def _keep(self, policies: np.ndarray) -> None:
        kind = np.uint8 if self.setting.n_actions <= 256 else np.int32
        goal = self.episodes // self.n0
        if goal == len(self._buffer):
            self._buffer.append(policies.astype(kind))
        else:
            self._buffer[goal] = np.concatenate([self._buffer[goal], policies.astype(kind)])

    def ask_many(self, episodes: int, goal: float) -> Request:
        t, episodes = self.episodes, min(episodes, self.per_call)
        if t < self._goals * self.n0:
            return Learning(self._explorer(), min(episodes, self.n0 - t % self.n0), written="policies")
        return Policies(self._drawn(t, min(episodes, CHUNK)))

    def tell_many(self, request: Request, *outcome: np.ndarray) -> None:
        states, actions, *policies = outcome
        if policies:
            self._keep(*policies)
            if (self.episodes + len(states)) % self.n0 == 0:
                self._minimiser = None
        self.counts.add_episodes(states, actions)
        self._asked = None

"""Gymnasium environments with masks, early ends and own rewards whose truth is known, by plain loops, for coverage tests."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

Pay = Callable[[int, int, int, int, np.random.Generator], float]


class Process(gym.Env):
    """An environment with transitions P (S, A, S), of which an episode that arrives in s ends there with probability end[s].

    `mask` (S, A) says which actions are legal; it is told in `info` everywhere, or, with `shy`, only where it forbids something.
    `pay(h, s, a, s_next, rng)` is the environment's own reward. An illegal action raises.
    """

    def __init__(
        self,
        P: npt.ArrayLike,
        end: npt.ArrayLike | None = None,
        mask: npt.ArrayLike | None = None,
        pay: Pay | None = None,
        start: Any = 0,
        shy: bool = False,
    ) -> None:
        self.P = np.asarray(P, dtype=float)
        self.S, self.A, _ = self.P.shape
        self.end = np.zeros(self.S) if end is None else np.asarray(end, dtype=float)
        self.mask, self.shy = None if mask is None else np.asarray(mask, dtype=bool), shy
        self.pay, self.start = pay or (lambda h, s, a, s_next, rng: 0.0), start
        self.observation_space, self.action_space = spaces.Discrete(self.S), spaces.Discrete(self.A)

    def info(self) -> dict[str, Any]:
        if self.mask is None or (self.shy and self.mask[self.s].all()):
            return {}
        return {"action_mask": self.mask[self.s].astype(np.int8)}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.h = 0
        self.s = int(self.start if np.ndim(self.start) == 0 else self.np_random.choice(self.S, p=self.start))
        return self.s, self.info()

    def step(self, a: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        assert self.mask is None or self.mask[self.s, a], "an illegal action was played"
        s, up_to = self.s, self.P[self.s, a].cumsum()
        self.s = int((up_to / up_to[-1]).searchsorted(self.np_random.random(), side="right"))  # as `choice` does, in less time
        reward = self.pay(self.h, s, int(a), self.s, self.np_random)
        self.h += 1
        return self.s, float(reward), bool(self.np_random.random() < self.end[self.s]), False, self.info()


def played(policy: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    """What a policy (H, S) plays: an illegal action a becomes legal action number a mod k."""
    out = np.array(policy)
    if mask is not None:
        for h, s in np.ndindex(*out.shape):
            legal = np.flatnonzero(mask[s])
            if not mask[s][out[h, s]]:
                out[h, s] = legal[out[h, s] % len(legal)]
    return out


def value(process: Process, reward: np.ndarray, policy: np.ndarray | None = None, start: Any = None) -> float:
    """The true value from the start for a reward (H, S, A): of a policy (H, S) as it is played, or of the best one.

    After an early end a reward of the state goes on being paid, for the action of the policy, or the best one.
    """
    H, S, A = reward.shape
    mask = np.ones((S, A), bool) if process.mask is None else process.mask
    policy = None if policy is None else played(policy, mask)
    alive, over = np.zeros(S), np.zeros(S)
    for h in reversed(range(H)):
        ahead = (1 - process.end) * alive + process.end * over
        Q = reward[h] + process.P @ ahead
        stays = reward[h] + over[:, None]
        if policy is None:
            alive, over = np.where(mask, Q, -np.inf).max(axis=1), stays.max(axis=1)
        else:
            alive, over = Q[np.arange(S), policy[h]], stays[np.arange(S), policy[h]]
    return float(alive @ law(process))


def own_value(process: Process, mean: np.ndarray, policy: np.ndarray | None = None) -> float:
    """The same for the environment's own reward with means (H, S, A), of which nothing is paid after an end."""
    H, S, A = mean.shape
    mask = np.ones((S, A), bool) if process.mask is None else process.mask
    policy = None if policy is None else played(policy, mask)
    alive = np.zeros(S)
    for h in reversed(range(H)):
        Q = mean[h] + process.P @ ((1 - process.end) * alive)
        alive = np.where(mask, Q, -np.inf).max(axis=1) if policy is None else Q[np.arange(S), policy[h]]
    return float(alive @ law(process))


def law(process: Process) -> np.ndarray:
    return np.eye(process.S)[process.start] if np.ndim(process.start) == 0 else np.asarray(process.start)

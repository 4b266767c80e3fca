"""Gymnasium environments with given transitions, terminal states, masks and rewards, and their true values."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces


class Tabular(gym.Env):
    """Transitions P (S, A, S) with terminal states, a mask (S, A), pay(s, a, s') and a start; raises on illegal play."""

    def __init__(
        self,
        P: npt.ArrayLike,
        ends: Iterable[int] = (),
        mask: np.ndarray | None = None,
        pay: Callable[[int, int, int], Any] | None = None,
        start: Any = 0,
        cut: int | None = None,
        observe: Callable[[int], Any] | None = None,
        space: spaces.Space | None = None,
    ) -> None:
        self.P, self.ends, self.mask, self.pay = np.asarray(P), set(ends), mask, pay or (lambda s, a, s_next: 0.0)
        self.cumulative = self.P.cumsum(axis=2)
        self.start, self.cut, self.observe, self.resets = start, cut, observe or (lambda s: s), 0
        S, A, _ = self.P.shape
        self.observation_space: spaces.Space = space or spaces.Discrete(S)
        self.action_space: spaces.Discrete = spaces.Discrete(A)
        self.s = -1  # before the first reset

    def info(self) -> dict[str, Any]:
        return {} if self.mask is None else {"action_mask": np.asarray(self.mask[self.s], dtype=np.int8)}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.resets += 1
        self.t = 0
        self.s = int(self.start if np.ndim(self.start) == 0 else self.np_random.choice(len(self.start), p=self.start))
        return self.observe(self.s), self.info()

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action!r} is no action"
        a = int(action) - int(self.action_space.start)
        assert self.s not in self.ends, "the episode is over"
        assert self.mask is None or self.mask[self.s][a], f"action {a} is illegal in state {self.s}"
        s, self.s = (
            self.s,
            min(int(self.cumulative[self.s, a].searchsorted(self.np_random.random(), side="right")), len(self.P) - 1),
        )
        self.t += 1
        return (
            self.observe(self.s),
            self.pay(s, a, self.s),
            self.s in self.ends,
            self.cut is not None and self.t >= self.cut,
            self.info(),
        )


def transitions(S: int = 4, A: int = 2, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(S), (S, A))


def own_truth(
    P: np.ndarray,
    ends: Collection[int],
    pay: np.ndarray,
    horizon: int,
    policy: np.ndarray | None = None,
    mask: np.ndarray | None = None,
    discount: float = 1.0,
    start: Any = 0,
) -> float:
    """The value from the start, of a policy (H, S) or the best legal one; P is (S, A, S), pay (S, A, S). Plain loops."""
    S, A, _ = P.shape
    V = np.zeros(S)
    for h in reversed(range(horizon)):
        new = np.zeros(S)
        for s in range(S):
            if s in ends:
                continue
            legal = [a for a in range(A) if mask is None or mask[s][a]]
            q = {a: float(P[s, a] @ (pay[s, a] + discount * V)) for a in legal}
            new[s] = max(q.values()) if policy is None else q[int(policy[h, s])]
        V = new
    return float(V[start]) if np.ndim(start) == 0 else float(start @ V)


def texts(S: int = 4) -> dict[str, Any]:
    return {"observe": lambda s: f"state {s}", "space": spaces.Text(20)}


def box(S: int = 4) -> dict[str, Any]:
    return {"observe": lambda s: np.array([s / S + 0.1], np.float32), "space": spaces.Box(0.0, 1.0, (1,))}


MASK = np.array([[1, 0, 1], [1, 1, 1], [0, 0, 1], [0, 1, 1]], dtype=bool)

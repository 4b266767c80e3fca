"""An error index over what was visited: the arrays behind the compiled recursion (`kernels.rf`), grown as the counts grow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from .._checks import checked_array
from ..data.counts import Counts, grown

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..data.tabular import TabularMDP
    from ..kernels.rf import Rule

NOTHING = np.zeros((0, 0, 0))  # known beforehand of states without data
CHUNK = 10_000  # episodes the compiled loop plays before Python looks in: some milliseconds


class ErrorIndex:
    """The recursion of an error index (`kernels.rf`) on counts, with its greedy policy."""

    def __init__(self, counts: Counts, rule: Rule) -> None:
        self.counts, self.rule = counts, rule
        setting = counts.setting
        planes, N, A = setting.planes, counts.capacity, setting.n_actions
        self._greedy = kernels.greedy.Greedy(
            Q=np.zeros((planes, N * A)),
            V=np.zeros((planes, N)),
            settled=np.zeros((planes, N), np.uint8),
            unvisited=np.zeros(setting.horizon + 1),
        )
        self._rows = kernels.rf.Rows(np.zeros(N * A), np.zeros(N * A))
        self._scratch = np.zeros(setting.horizon + 1, np.uint32), np.zeros(setting.horizon, np.uint32)
        self.plan()

    def _kernel(self, name: str) -> Callable[..., Any]:
        return kernels.compiled.fitting(getattr(kernels.rf, name), self.rule.radius)

    def _fit(self) -> None:
        """Lets the arrays follow the table."""
        N, A = self.counts.capacity, self.rule.n_actions
        if self._greedy.V.shape[1] < N:
            g = self._greedy
            sizes = {"Q": N * A, "V": N, "settled": N}
            self._greedy = g._replace(**{name: grown(getattr(g, name), size) for name, size in sizes.items()})
            self._rows = kernels.rf.Rows(*(grown(rows, N * A) for rows in self._rows))

    def plan(self) -> float:
        """A full backward pass from the counts alone; returns the index before the first step."""
        self._fit()
        return float(self._kernel("plan")(self.counts.table, self._rows, self._greedy, self.rule))

    def learn(self, states: np.ndarray, actions: np.ndarray, schedule: int) -> None:
        """Takes in episodes, (B, H+1) and (B, H) integers in range."""
        i = 0
        while i < len(states):
            step = min(256, self.counts.until_booking)
            self.counts.reserve(step * states.shape[1])
            self._fit()
            part = states[i : i + step], actions[i : i + step]
            self._kernel("learn")(self.counts.table, self._rows, self._greedy, self.rule, schedule, *part)
            self.counts.book_if_due()
            i += step

    def run(self, mdp: TabularMDP, rng: np.random.Generator, episodes: int, goal: float, schedule: int, key: int) -> bool:
        """Plays and takes in up to `episodes` episodes of a known model; ends and says so once the start value is <= goal."""
        self.counts.reserve(64 * (self.counts.setting.horizon + 1))
        self._fit()
        self._kernel("run")(
            mdp.model, self.counts.table, self._rows, self._greedy, NOTHING, self.rule, schedule, np.uint64(key), rng,
            min(episodes, CHUNK, self.counts.until_booking), goal, *self._scratch,
        )  # fmt: skip
        self.counts.book_if_due()
        return self.value() <= goal

    def value(self) -> float:
        """The index before the first step, as it stands."""
        return float(self._kernel("start_value")(self.counts.table, self._rows, self._greedy, self.rule))

    def walk(self, mdp: TabularMDP, rng: np.random.Generator, episodes: int, key: int) -> None:
        """Plays and takes in that many episodes of the present policy at once; the index is left as it is."""
        node_of, H = self.counts.table.node_of, len(self.rule.weight)
        self.counts.add_flows(kernels.simulate.walk(mdp.model, self._greedy, NOTHING, node_of, H, np.uint64(key), episodes, rng))
        self.counts.book_if_due()
        self._fit()

    def state(self) -> dict[str, np.ndarray]:
        """The index as it stands, for `restore`."""
        N, A, g = self.counts.n_nodes, self.rule.n_actions, self._greedy
        return {"Q": g.Q[:, : N * A].copy(), "settled": g.settled[:, :N].copy(), "unvisited": g.unvisited.copy()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Takes up an index of these counts that `state` gave."""
        self.plan()  # for what depends on the counts alone
        N, A, g = self.counts.n_nodes, self.rule.n_actions, self._greedy
        Q = checked_array(state["Q"], float, (len(g.Q), N * A), "its index is")
        unvisited = checked_array(state["unvisited"], float, g.unvisited.shape, "its index is")
        settled = checked_array(state["settled"], np.uint8, (len(g.Q), N), "its index is")
        for array in (g.Q, g.V, g.settled):  # whatever was there before
            array[:] = 0
        g.Q[:, : N * A], g.unvisited[:] = Q, unvisited
        kernels.greedy.settle_all(g.Q, g.V, g.settled, A, N, settled)

    def act(self, key: int) -> Callable[[int, int], int]:
        """The greedy policy as a function of step and state: asks only where it is called."""
        node_of, A, greedy, word = self.counts.table.node_of, self.rule.n_actions, self._greedy, np.uint64(key)
        return lambda h, s: kernels.greedy.act(greedy, NOTHING, A, node_of, h, s, word)

    def policy(self, key: int) -> np.ndarray:
        """The greedy policy, (H, S), with the ties broken under an episode's key."""
        node_of, H = self.counts.table.node_of, len(self.rule.weight)
        return kernels.greedy.policy(self._greedy, NOTHING, self.rule.n_actions, node_of, H, np.uint64(key))

    def dense(self) -> np.ndarray:
        """The index of every pair, (H, S, A)."""
        node_of, H = self.counts.table.node_of, len(self.rule.weight)
        return kernels.greedy.dense(self._greedy, self.rule.n_actions, node_of, H)

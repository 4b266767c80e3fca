"""Explorers with an index of their own and a full backward pass after every episode: what the rivals have in common.

Every one plays the greedy policy of its index. Its own guarantee, where one is proved with its constants, is `own_epsilon`; a
`scale` other than 1 multiplies its bonuses, as people do to make them practical, and withdraws it. The certificate of the atlas
is ours, from the counts: it holds whatever the constants are.
"""

from __future__ import annotations

from abc import abstractmethod
from math import fsum, inf
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .. import kernels
from .._checks import checked_array
from ..data.counts import Counts
from ..setting import Setting, positive
from .explorer import NOTHING, IndexExplorer

if TYPE_CHECKING:
    from ..kernels.optimism import OptimisticLearner


class OptimisticExplorer(IndexExplorer):
    """Plays the greedy policy of an optimistic index; a subclass gives its constants with its formulas, `rule`.

    What they have to be is told in `kernels.optimism`; `rf_express` is a short example.

    Parameters
    ----------
    scale
        Multiplies the bonuses. 1 is what is proved; any other number is a heuristic without a guarantee of its own.
    setting, delta, bounds, max_successors, transfer, seed, growth, ties
        See `Explorer` and `IndexExplorer`.
    """

    continues = True
    blind_by_reward: ClassVar[bool] = False  # a state without data is played by what its actions pay
    lower_at_policy: ClassVar[bool] = False  # the lower value is that of the greedy action, not the largest of all actions
    reward = np.zeros((1, 1, 1))  # nothing, for those that need none

    def __init__(self, setting: Setting, *args: Any, scale: float = 1.0, **options: Any) -> None:
        super().__init__(setting, *args, **options)
        self.scale, self.heuristic = positive(scale, "scale"), scale != 1.0
        planes, N, A = setting.planes, self.counts.capacity, setting.n_actions
        self._greedy = kernels.greedy.Greedy(
            Q=np.zeros((planes, N * A)),
            V=np.zeros((planes, N)),
            settled=np.zeros((planes, N), np.uint8),
            unvisited=np.zeros(setting.horizon + 1),
        )
        self._indices = kernels.optimism.Indices(
            Q_lo=np.zeros((planes, N * A)), V_lo=np.zeros((planes, N)), G=np.zeros((planes, N)), met=np.zeros((planes, N))
        )
        self._rows = kernels.optimism.Rows(np.zeros(N * A), np.zeros(N * A))
        self._rule = self.rule()
        self._problem = kernels.optimism.Problem(
            horizon=setting.horizon,
            n_states=setting.n_outcomes,
            n_actions=setting.n_actions,
            reward=self.reward if self.needs_reward else NOTHING,
            lower_at_policy=self.lower_at_policy,
        )
        self._from_counts("refresh")

    @abstractmethod
    def rule(self) -> Any:
        """The constants of the index, a named tuple with its formulas as methods."""

    @property
    def formulas(self) -> Any:
        return self._rule

    def learner(self) -> OptimisticLearner:
        self._fit()
        prior = self.reward if self.blind_by_reward else NOTHING
        return kernels.optimism.OptimisticLearner(
            self._greedy, prior, self.setting.n_actions, self._indices, self._rows, self._problem, self._rule
        )

    def _from_counts(self, name: str) -> None:
        """Brings what depends on the counts alone up to date, by a function of `kernels.optimism`."""
        kernel = kernels.compiled.fitting(getattr(kernels.optimism, name), self._rule)
        kernel(self.counts.table, self._greedy, self._indices, self._rows, self._problem, self._rule)

    def _fit(self) -> None:
        """Enlarges the arrays to the capacity of the table of counts."""
        counts = self.counts
        if self._greedy.V.shape[1] < counts.capacity:
            self._greedy, self._indices, self._rows = counts.fitted_each(
                (self._greedy, ("Q",), ("V", "settled")),
                (self._indices, ("Q_lo",), ("V_lo", "G", "met")),
                (self._rows, self._rows._fields, ()),
            )

    def _start(self, values: np.ndarray, blank: float) -> float:
        """The expectation of an entry of step 0 over the start, `blank` without data; infinite if the start is estimated."""
        if self.setting.estimates_start:
            return inf
        states, p = self.setting.starts
        nodes = self.counts.table.node_of[0, states]
        return fsum(p * np.where(nodes > 0, values[0, nodes], blank))

    def dense(self, values: np.ndarray, blank: Any) -> np.ndarray:
        """An index of every pair, (H, S, A); `blank` (H,) or (H, S, A) where there is no data. For looking, not for loops."""
        setting, node_of = self.setting, self.counts.table.node_of
        H, S, A = setting.horizon, setting.n_outcomes, setting.n_actions
        out = np.broadcast_to(np.asarray(blank, float).reshape((H, 1, 1) if np.ndim(blank) == 1 else (H, S, A)), (H, S, A)).copy()
        for h in range(H):
            nodes = node_of[min(h, len(node_of) - 1)].astype(np.int64)
            met = np.flatnonzero(nodes)
            out[h, met] = values[min(h, len(values) - 1)].reshape(-1, A)[nodes[met]]
        return out

    @property
    def index(self) -> np.ndarray:
        """The index of every pair, (H, S, A)."""
        return self.dense(self._greedy.Q, self._blank())

    def _blank(self) -> np.ndarray:
        """The index of pairs without data, (H,) or (H, S, A)."""
        return self._greedy.unvisited[:-1]

    def go_on_from(self, counts: Counts) -> None:
        super().go_on_from(counts)
        self._fit()
        self._from_counts("refresh")

    def state(self) -> dict[str, np.ndarray]:
        N, A = self.counts.n_nodes, self.setting.n_actions
        settled = self._greedy.settled[:, :N].copy()
        kept = {k: v[:, : N * A if k == "Q_lo" else N].copy() for k, v in self._indices._asdict().items()}
        return {**super().state(), **kept, "Q": self._greedy.Q[:, : N * A].copy(), "settled": settled}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        self._fit()
        N, A, greedy = self.counts.n_nodes, self.setting.n_actions, self._greedy
        for array in (greedy.Q, greedy.V, greedy.settled, *self._indices, *self._rows):  # whatever was there before
            array[...] = 0
        places = [(v[:, : N * A if k == "Q_lo" else N], k) for k, v in self._indices._asdict().items()]
        for place, name in [*places, (greedy.Q[:, : N * A], "Q")]:
            place[...] = checked_array(state[name], float, place.shape, "its index is", 0)
        settled = checked_array(state["settled"], np.uint8, (len(greedy.V), N), "its index is")
        kernels.greedy.settle_all(greedy.Q, greedy.V, greedy.settled, A, N, settled)
        self._from_counts("renew_all")

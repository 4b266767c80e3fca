"""The error index of counts: the arrays of the compiled backward recursion (`kernels.rf`), which grow with the counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from .._checks import checked_array
from ..data.counts import Counts

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..kernels.rf import Rule


class ErrorIndex:
    """An error index with its greedy policy: how large value errors can still be after each visited step, state and action.

    It keeps the recursion of `kernels.rf` up to date while counts grow. With the paper's constants (`PaperBound`, RF-UCRL) it is
    an upper bound on the value errors of all policies. RF-trajectory uses it with constants of its own, to decide where to
    explore.

    Parameters
    ----------
    counts : Counts
    rule : kernels.rf.Rule
        The constants of the recursion.
    """

    def __init__(self, counts: Counts, rule: Rule) -> None:
        self.counts, self.rule = counts, rule
        setting = counts.setting
        planes, N, A = setting.planes, len(counts.table.state), setting.n_actions
        self.greedy = kernels.greedy.Greedy(
            Q=np.zeros((planes, N * A)),
            V=np.zeros((planes, N)),
            settled=np.zeros((planes, N), np.uint8),
            unvisited=np.zeros(setting.horizon + 1),
        )
        self.rows = kernels.rf.Rows(np.zeros(N * A), np.zeros(N * A))
        self.plan()

    def _kernel(self, name: str) -> Callable[..., Any]:
        """A compiled function of `kernels.rf` for this rule."""
        return kernels.compiled.fitting(getattr(kernels.rf, name), self.rule.radius)

    def fit(self) -> None:
        """Enlarges the arrays to what the table of counts has room for."""
        counts = self.counts
        if self.greedy.V.shape[1] < len(counts.table.state):
            self.greedy, self.rows = counts.fitted_each(
                (self.greedy, ("Q",), ("V", "settled")), (self.rows, self.rows._fields, ())
            )

    def plan(self) -> float:
        """Computes the whole index from the counts; returns its value before the first step."""
        self.fit()
        return float(self._kernel("plan")(self.counts.table, self.rows, self.greedy, self.rule))

    def value(self) -> float:
        """The index before the first step, without recomputing the rest."""
        return float(self._kernel("start_value")(self.counts.table, self.rows, self.greedy, self.rule))

    def state(self) -> dict[str, np.ndarray]:
        """The index as arrays, for `restore`."""
        self.fit()
        N, A, g = self.counts.n_nodes, self.rule.n_actions, self.greedy
        return {"Q": g.Q[:, : N * A].copy(), "settled": g.settled[:, :N].copy(), "unvisited": g.unvisited.copy()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restores an index of the same counts that `state` returned."""
        self.plan()  # for what depends on the counts alone
        N, A, g = self.counts.n_nodes, self.rule.n_actions, self.greedy
        Q = checked_array(state["Q"], float, (len(g.Q), N * A), "its index is")
        unvisited = checked_array(state["unvisited"], float, g.unvisited.shape, "its index is")
        settled = checked_array(state["settled"], np.uint8, (len(g.Q), N), "its index is")
        for array in (g.Q, g.V, g.settled):  # whatever was there before
            array[:] = 0
        g.Q[:, : N * A], g.unvisited[:] = Q, unvisited
        kernels.greedy.settle_all(g.Q, g.V, g.settled, A, N, settled)

    def dense(self) -> np.ndarray:
        """The index of every step, state and action, (H, S, A)."""
        node_of, H = self.counts.table.node_of, len(self.rule.weight)
        return kernels.greedy.dense(self.greedy, self.rule.n_actions, node_of, H)

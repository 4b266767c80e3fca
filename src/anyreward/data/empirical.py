"""The empirical model of counts, in which plans are computed."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from .. import kernels
from ..cancellation import proceed

if TYPE_CHECKING:
    from ..kernels.planning import Pay
    from ..rewards.forms import ArrivalReward
    from .counts import Counts


def total_by(index: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """For each index below `size`, the sum of its values. Always floats, even if there are no values."""
    return np.bincount(index, values, size).astype(float)


class EmpiricalModel:
    """The model that counts estimate: p_hat(s'|s,a) = n(s,a,s') / n(s,a) at each step, for `planning.backward_induction`.

    State-action pairs without data have a uniform distribution, as in the paper, and so has an initial state that was never
    observed. If a structure is declared, each pair has the product of the empirical distributions of its laws instead, and a law
    without data is uniform over its outcomes (`data.shared`): the model has no successor that the structure excludes. A
    distribution of the initial state that the setting gives is that of the model. Absorbing states stay where they are. With
    `terminal="outcome"` the states of the model are all outcomes, terminations included.

    Attributes
    ----------
    places : kernels.planning.Places
        The visited states of each step.
    nodes : ndarray of uint32
        The node of each place in `Counts.model_table`.
    rows : kernels.planning.Rows
        The transitions from there.
    """

    many: np.ndarray | None = None  # for how many outcomes each one stands, if that is not one (`of_fewer`)

    def __init__(self, counts: Counts) -> None:
        setting, table = counts.setting, counts.model_table
        self.n_states, self.n_actions = setting.n_outcomes, setting.n_actions  # terminations included
        self._stationary, self._horizon, A = setting.stationary, setting.horizon, setting.n_actions
        nodes, begin = kernels.table.nodes_of(table, 1 if setting.stationary else setting.horizon)
        state = table.state[nodes].astype(np.int32)
        layer = np.repeat(np.arange(len(begin) - 1), np.diff(begin))
        order = np.argsort(layer * self.n_states + state)
        self.nodes = nodes[order]
        self.places = kernels.planning.Places(begin, state[order], table.known.copy(), counts.stays().astype(np.int32))
        row = (self.nodes.astype(np.int64)[:, None] * A + np.arange(A)).reshape(-1)
        seen = table.n[row] > 0 if setting.structure is None else counts.shared.known_pairs[row - A]
        if setting.structure is not None:  # which gives a pair without data its successors, too
            table = table._replace(n=np.minimum(table.size, 1).astype(np.int64))
        first, target, p = kernels.table.transitions_of(table, A, self.nodes)
        self.rows = kernels.planning.Rows(first, target, p, seen)
        self.initial = np.zeros(self.n_states)
        if not setting.estimates_start:
            self.initial[setting.starts[0]] = setting.starts[1]
        elif table.n[0] == 0:
            self.initial[:] = 1 / self.n_states
        else:
            edges = slice(int(table.first[0]), int(table.first[0]) + int(table.size[0]))
            self.initial[table.state[table.target[edges]]] = table.seen[edges]
            self.initial /= self.initial.sum()

    def of_fewer(self, kept: np.ndarray, number: np.ndarray, many: np.ndarray) -> EmpiricalModel:
        """The same model with the outcomes `kept` alone, in order, each of which stands for so `many` that are alike.

        `number` is the new number of each outcome; those that were visited stand for themselves.
        """
        fewer, stays = copy(self), np.zeros(self.n_states, bool)
        stays[self.places.stays] = True
        known = self.places.known
        fewer.places = self.places._replace(
            state=number[self.places.state].astype(np.int32),
            known=known.reshape(-1, self.n_actions)[kept].reshape(-1) if len(known) else known,
            stays=np.flatnonzero(stays[kept]).astype(np.int32),
        )
        fewer.rows = self.rows._replace(target=number[self.rows.target].astype(np.int32))
        fewer.n_states, fewer.many, fewer.initial = len(kept), many, self.initial[kept] * many
        return fewer

    def check_horizon(self, horizon: int) -> None:
        """Raises if the counts have no data for that many steps."""
        if not self._stationary and horizon > self._horizon:
            raise ValueError(f"horizon is {horizon} but these counts are of {self._horizon} steps only.")

    def edges_at(self, h: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All transitions of step h that have data: the pair s A + a, the successor and its probability."""
        A, begin = self.n_actions, self.places.begin
        layer = min(h, len(begin) - 2)
        rows = np.arange(begin[layer] * A, begin[layer + 1] * A)
        edges = slice(*self.rows.first[begin[layer : layer + 2] * A])
        row = np.repeat(rows, np.diff(self.rows.first[begin[layer] * A : begin[layer + 1] * A + 1]))
        pair = self.places.state[row // A].astype(np.int64) * A + row % A
        return pair, self.rows.target[edges], self.rows.p[edges]

    def expect(self, h: int, V: np.ndarray) -> np.ndarray:
        """The expectation of V(s') over the successors of each state-action pair at step h: V is (S,), the result (S, A)."""
        proceed()
        out = np.empty((self.n_states, self.n_actions))
        mean = float(V.mean() if self.many is None else self.many @ V / self.many.sum())
        kernels.planning.expect(self.places, self.rows, h, np.ascontiguousarray(V, float), mean, out)
        return out

    def expect_at(self, h: int, V: np.ndarray, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """The same for some pairs, (K,) states and actions: the result is (K,)."""
        out = np.empty(len(states))
        kernels.planning.expect_at(
            self.places, self.rows, h, np.ascontiguousarray(V, float), float(V.mean()), states, actions, out
        )
        return out

    def rows_at(self, h: int, states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of some pairs at step h, and which of these have one."""
        begin, end = self.places.begin[min(h, len(self.places.begin) - 2) :][:2]
        if begin == end:
            return np.zeros(len(states), np.int64), np.zeros(len(states), bool)
        place = begin + np.minimum(np.searchsorted(self.places.state[begin:end], states), end - begin - 1)
        return place * self.n_actions + actions, self.places.state[place] == states

    def is_seen_at(self, h: int, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Which of some pairs have data at step h."""
        row, visited = self.rows_at(h, states, actions)
        found = visited.copy()
        found[visited] = self.rows.seen[row[visited]]
        return found

    def pay_at(self, pay: Pay, h: int, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """What some pairs are paid at step h."""
        T, S, A = pay.everywhere.shape
        found = pay.everywhere[min(h, T - 1), states if S > 1 else 0 * states, actions if A > 1 else 0 * actions]
        if len(pay.visited):
            row, visited = self.rows_at(h, states, actions)
            found[visited] = pay.visited[min(h, len(pay.visited) - 1), row[visited]]
        return found

    def push(self, h: int, mass: np.ndarray, policy: np.ndarray) -> np.ndarray:
        """The distribution of the state after step h, (S,), from the one before it, `mass`, under a policy, (S,)."""
        proceed()
        out = np.empty(self.n_states)
        kernels.planning.push(self.places, self.rows, h, np.ascontiguousarray(mass), policy.astype(np.int64), out)
        return out

    def pay(self, reward: ArrivalReward, horizon: int, worst: bool = False) -> Pay:
        """The expectation of a reward on arrival: where nothing was seen, that of a uniform successor, or the least (`worst`)."""
        T, A = reward.shape[0], self.n_actions
        everywhere = np.stack([reward.least(h) if worst else reward.mean(h) for h in range(T)])
        stays = self.places.stays.astype(np.int64)
        pairs = stays[:, None] * A + np.arange(A)
        for h in range(T):
            everywhere[h, stays] = reward.at(h, pairs, np.broadcast_to(stays[:, None], pairs.shape))
        begin, state = self.places.begin, self.places.state.astype(np.int64)
        first, target, p, seen = self.rows
        edges = np.diff(first)
        row = np.repeat(np.arange(len(edges)), edges)
        pair = state[row // A] * A + row % A
        steps = np.repeat(np.arange(len(begin) - 1), np.diff(begin))  # of each place
        planes = []
        for t in range(T if self._stationary else 1):
            step, at = (np.full(len(state), t), t) if self._stationary else (np.minimum(steps, T - 1), steps[row // A])
            paid = total_by(row, p * reward.at(at, pair, target), len(edges)).reshape(-1, A)
            blank = ((edges == 0) | (~seen if worst else False)).reshape(-1, A) | np.isin(state, stays)[:, None]
            planes.append(np.where(blank, everywhere[step, state], paid).reshape(-1))
        return kernels.planning.Pay(everywhere, np.stack(planes))

    def dense_pay(self, reward: ArrivalReward, horizon: int) -> np.ndarray:
        """The expectation of a reward on arrival for each step, state and action, (H, S, A): for inspection."""
        everywhere, visited = self.pay(reward, horizon)
        begin, state = self.places.begin, self.places.state
        out = np.array(np.broadcast_to(everywhere, (horizon, self.n_states, self.n_actions)))
        for h in range(horizon):
            here = slice(*begin[min(h, len(begin) - 2) :][:2])
            out[h, state[here]] = visited[min(h, len(visited) - 1)].reshape(-1, self.n_actions)[here]
        return out

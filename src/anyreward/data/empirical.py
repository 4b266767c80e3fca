"""The empirical model of counts, in which plans are computed."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from .. import kernels

if TYPE_CHECKING:
    from ..kernels.planning import Rows
    from ..rewards.forms import ArrivalReward
    from .counts import Counts


def total_by(index: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """For each index below `size`, the sum of its values. Always floats, even if there are no values."""
    return np.bincount(index, values, size).astype(float)


def layers_of(counts: Counts) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """For each step, or once if stationary: the pair, successor and probability of each edge, and which pairs have no data."""
    shared, laws = counts.shared, counts.setting.structure
    assert laws is not None
    pairs, t = laws.n_states * laws.n_actions, shared.tables
    p, layers = shared.edge_probabilities(shared.estimated_outcomes), []
    blank = ~shared.known_pairs | shared.refuted
    p[np.repeat(blank, np.diff(t.edge_first))] = 0.0
    for h in range(laws.steps):
        first = t.edge_first[h * pairs : (h + 1) * pairs + 1]
        pair = np.repeat(np.arange(pairs), np.diff(first))
        here = slice(first[0], first[-1])
        layers.append((pair, t.edge_target[here], p[here], blank[h * pairs : (h + 1) * pairs]))
    return layers


class EmpiricalModel:
    """The model that counts estimate: p_hat(s'|s,a) = n(s,a,s') / n(s,a) at each step, for `planning.backward_induction`.

    If a structure is declared, each pair has the product of the empirical distributions of its laws instead (`data.shared`).
    State-action pairs without data have a uniform distribution, as in the paper, and so has an initial state that was never
    observed. A distribution of the initial state that the setting gives is that of the model. Absorbing states stay where they
    are. With `terminal="outcome"` the states of the model are all outcomes, terminations included.
    """

    def __init__(self, counts: Counts) -> None:
        setting, c = counts.setting, counts.columns()
        self.n_states, self.n_actions = setting.n_outcomes, setting.n_actions  # terminations included
        self._stationary, self._horizon = setting.stationary, setting.horizon
        self._absorbing = counts.stays()
        self.illegal = (
            np.pad(counts.illegal, ((0, self.n_states - setting.n_states), (0, 0)))
            if len(counts.illegal)
            else np.zeros((0, 0), bool)
        )
        self.initial = np.zeros(self.n_states)
        if setting.estimates_start:
            start = c["h"] == -1
            self.initial = total_by(c["next"][start], c["count"][start], self.n_states)
            self.initial = self.initial / self.initial.sum() if start.any() else np.full(self.n_states, 1 / self.n_states)
        else:
            self.initial[setting.starts[0]] = setting.starts[1]
        if setting.structure is not None:
            self._layers = layers_of(counts)
            return
        pair = c["s"] * self.n_actions + c["a"]
        bounds = np.searchsorted(c["h"], np.arange(1 if setting.stationary else setting.horizon + 1))
        ends = np.append(bounds[1:], len(pair))
        self._layers = []
        for i, j in zip(bounds, ends, strict=True):
            count = c["count"][i:j].astype(float)
            n = total_by(pair[i:j], count, self.n_states * self.n_actions)
            self._layers.append((pair[i:j], c["next"][i:j], count / n[pair[i:j]], n == 0))

    def check_horizon(self, horizon: int) -> None:
        """Raises if the counts have no data for that many steps."""
        if not self._stationary and horizon > self._horizon:
            raise ValueError(f"horizon is {horizon} but these counts are of {self._horizon} steps only.")

    @cached_property
    def rows(self) -> Rows:
        """The transitions of all steps, for planning."""
        stays = np.zeros(self.n_states if len(self._absorbing) else 0, bool)
        stays[self._absorbing] = True
        pair, target, p, blank = zip(*self._layers, strict=True)
        many = [np.bincount(x, minlength=self.n_states * self.n_actions) for x in pair]
        first = np.concatenate([[0], np.cumsum(np.concatenate(many))])
        return kernels.planning.Rows(
            first, np.concatenate(target).astype(np.int32), np.concatenate(p), np.concatenate(blank), stays
        )

    def expect(self, h: int, V: np.ndarray) -> np.ndarray:
        """The expectation of V(s') over the successors of each state-action pair at step h: V is (S,), the result (S, A)."""
        out = np.empty((self.n_states, self.n_actions))
        kernels.planning.expect(self.rows, 0 if self._stationary else h, np.ascontiguousarray(V, float), float(V.mean()), out)
        return out

    def push(self, h: int, mass: np.ndarray, policy: np.ndarray) -> np.ndarray:
        """The distribution of the state after step h, (S,), from the one before it, `mass`, under a policy, (S,)."""
        pair, target, p, unvisited = self._layers[0 if self._stationary else h]
        played = np.zeros((self.n_states, self.n_actions))
        played[np.arange(self.n_states), policy] = mass
        played[self._absorbing] = 0.0
        flat = played.reshape(-1)
        out = total_by(target, p * flat[pair], self.n_states) + flat[unvisited].sum() / self.n_states
        out[self._absorbing] += mass[self._absorbing]
        return out

    def expect_pay(self, h: int, reward: ArrivalReward) -> np.ndarray:
        """The expectation of a reward on arrival for each state-action pair at step h, (S, A)."""
        pair, target, p, unvisited = self._layers[0 if self._stationary else h]
        out = total_by(pair, p * reward.at(h, pair, target), self.n_states * self.n_actions)
        out[unvisited] = reward.mean(h).reshape(-1)[unvisited]
        for s in self._absorbing:
            pairs = s * self.n_actions + np.arange(self.n_actions)
            out[pairs] = reward.at(h, pairs, np.full(self.n_actions, s))
        return out.reshape(self.n_states, self.n_actions)

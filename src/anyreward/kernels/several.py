"""The indices of BPI-UCRL (`bpi`) for several rewards on the same counts: the one whose interval is widest is played."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .bpi import Constants, Rewards, ValueBoundArrays, start_values, sweep
from .bpi import take_in as take_in_one
from .compiled import allocates, inlined, loop
from .table import NODES, row_of


class Played(NamedTuple):
    """The index whose greedy policy is played: a copy of Q_up of the widest reward on the visited nodes."""

    Q: np.ndarray  # (P, N * A) float64
    settled: np.ndarray  # (P, N) uint8


@inlined
def arrays_of(bounds, i):
    """The bounds of reward i. All rewards have the same radii."""
    return ValueBoundArrays(
        bounds.Q[i], bounds.V[i], bounds.settled[i], bounds.Q_lo[i], bounds.V_lo[i], bounds.u[i], bounds.extremes[i],
        bounds.radius, bounds.dirty[i], bounds.moved[i],
    )  # fmt: skip


@inlined
def reward_of(rewards, i):
    """What is known about reward i."""
    return Rewards(
        rewards.kind, rewards.known[i], rewards.peak[i], rewards.order[i], rewards.least[i], rewards.order_least[i],
        rewards.total, rewards.up, rewards.lo, rewards.ended, rewards.floor, rewards.ceiling,
    )  # fmt: skip


@loop
def choose_widest(learner, table):
    """Lets the index that is played be that of the reward with the widest interval, the first of several."""
    widest = 0
    for i in range(1, len(learner.width)):
        if learner.width[i] > learner.width[widest]:
            widest = i
    prior, chosen = learner.prior, learner.priors[widest]
    if learner.widest[0] != widest:
        for t in range(prior.shape[0]):
            for s in range(prior.shape[1]):
                for a in range(prior.shape[2]):
                    prior[t, s, a] = chosen[t, s, a]
    learner.widest[0] = widest
    Q, settled = learner.bounds.Q[widest], learner.bounds.settled[widest]
    nodes = table.used[NODES]
    for plane in range(len(Q)):
        for row in range(nodes * learner.n_actions):
            learner.index.Q[plane, row] = Q[plane, row]
        for node in range(nodes):
            learner.index.settled[plane, node] = settled[plane, node]


@loop
def measure(learner, table):
    """Computes the widths of all intervals from the bounds as they stand, and chooses the widest."""
    for i in range(len(learner.width)):
        up, lo = start_values(table, arrays_of(learner.bounds, i), reward_of(learner.rewards, i), learner.constants, learner.g)
        learner.width[i] = up - lo
    choose_widest(learner, table)


@allocates
def prepare(learner, table):
    """`measure`, before the loop begins."""
    measure(learner, table)


class SeveralLearner(NamedTuple):
    """Upper and lower values of several known rewards, updated after every episode: a learner for `loop`."""

    index: Played
    prior: np.ndarray  # (H', S, A) float64: the reward that is played for
    n_actions: int
    bounds: ValueBoundArrays  # with an axis for the rewards in front, except for the radii
    rewards: Rewards  # the same, for what differs between known rewards
    priors: np.ndarray  # (R, H', S, A) float64
    constants: Constants
    width: np.ndarray  # (R,) float64: V_up - V_lo from the start
    widest: np.ndarray  # (1,) int64: the reward that is played for; -1 before one was chosen
    g: np.ndarray  # (S,) float64: scratch space for the search in a ball

    def take_in(self, table, nodes, actions, payments, met):
        take_in_one(table, arrays_of(self.bounds, 0), reward_of(self.rewards, 0), self.constants, nodes, actions, payments)
        dirty = self.bounds.dirty
        for i in range(1, len(dirty)):
            for plane in range(dirty.shape[1]):
                dirty[i, plane, 0] = 1
                for h in range(len(actions)):
                    dirty[i, plane, row_of(nodes[h], self.n_actions, actions[h])] = 1

    def plan(self, table):
        for i in range(len(self.width)):
            sweep(table, arrays_of(self.bounds, i), reward_of(self.rewards, i), self.constants, self.g)
        measure(self, table)

    def bound(self, table):
        return self.width[self.widest[0]]

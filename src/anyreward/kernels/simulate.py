"""Simulation of a known model: one step, whole episodes, and many episodes of one policy at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compiled import allocates, inlined, loop
from .greedy import choose, choose_without_data
from .planning import Choice, action


class Model(NamedTuple):
    """A sparse model. T is 1 if its transitions do not depend on the step.

    The successors of a row are in decreasing order of probability, padded by repeating the last one, so that rounding can never
    lead to a state of probability zero; `cumulative` ends with exactly 1.
    """

    shape: tuple[int, int, int, int]  # (T, S, A, K)
    successors: np.ndarray  # (T * S * A * K,) int32
    probabilities: np.ndarray  # (T * S * A * K,) float64, 0 in the padding
    cumulative: np.ndarray  # (T * S * A * K,) float64
    starts: np.ndarray  # (K0,) int32
    start_probabilities: np.ndarray  # (K0,) float64
    start_cumulative: np.ndarray  # (K0,) float64


@inlined
def draw(cumulative, begin, width, u):
    """The position of the first one of `width` entries from `begin` that is greater than u."""
    low, high = begin, begin + width - 1
    if width <= 16:
        while u >= cumulative[low]:
            low += 1
        return low
    while low < high:
        middle = (low + high) // 2
        if u < cumulative[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@loop
def start(model, rng):
    """An initial state; no random number is drawn if there is only one."""
    if len(model.starts) == 1:
        return model.starts[0]
    return model.starts[draw(model.start_cumulative, 0, len(model.starts), rng.random())]


@inlined
def step(successors, cumulative, shape, t, s, a, rng):
    """A successor of (s, a) under the transitions of time t."""
    _, S, A, K = shape
    return successors[draw(cumulative, ((t * S + s) * A + a) * K, K, rng.random())]


@loop
def rollout(model, choice, rng, states, actions):
    """Plays episodes under a policy (`planning.Choice`), and writes states (B, H+1) and actions (B, H)."""
    B, H = actions.shape
    _, S, A, _ = model.shape
    successors, cumulative = model.successors, model.cumulative
    last = model.shape[0] - 1
    for b in range(B):
        s = start(model, rng)
        states[b, 0] = s
        for h in range(H):
            a = action(choice, h, s, S, A)
            s = step(successors, cumulative, model.shape, min(h, last), s, a, rng)
            actions[b, h] = a
            states[b, h + 1] = s


@loop
def rollout_each(model, policies, nobody, rng, states, actions):
    """Plays one episode under each of the policies (B, H, S), and writes states (B, H+1) and actions (B, H)."""
    _, chosen, begin, state, known, everywhere, ahead, low, high, ended = nobody
    for b in range(len(policies)):
        choice = Choice(policies[b], chosen, begin, state, known, everywhere, ahead, low, high, ended)
        rollout(model, choice, rng, states[b : b + 1], actions[b : b + 1])


@loop
def visits(model, policy, rng, episodes, out):
    """Plays episodes and only counts their final states, out (S,): to measure the speed of pure simulation."""
    H = policy.shape[0]
    successors, cumulative = model.successors, model.cumulative
    last = model.shape[0] - 1
    for _ in range(episodes):
        s = start(model, rng)
        for h in range(H):
            s = step(successors, cumulative, model.shape, min(h, last), s, policy[h, s], rng)
        out[s] += 1


@inlined
def split(walkers, probabilities, rng, out):
    """Distributes walkers over the entries of a distribution by one multinomial draw, as a chain of binomial draws."""
    K = len(probabilities)
    left, mass = walkers, 1.0
    for k in range(K):
        p = probabilities[k]
        if k == K - 1 or p >= mass:
            out[k] = left
        elif left == 0 or p <= 0.0:
            out[k] = 0
        else:
            out[k] = rng.binomial(left, p / mass)
        left -= out[k]
        mass -= p


@allocates
def walk(model, greedy, prior, node_of, H, key, walkers, rng):
    """Plays `walkers` episodes of one greedy policy together; the result has the same distribution as playing them one by one.

    Step by step, the walkers in each state are distributed over its successors by one multinomial draw, so the cost depends on
    the number of states that are reached and not on the number of walkers. Returns the transitions as rows for
    `table.record_flows`.
    """
    T, S, A, K = model.shape
    Q, V, settled, _ = greedy
    planes, layers = len(V), node_of.shape[0]
    flows = np.empty((256, 5), np.int64)
    m = 0
    here, there = np.zeros(S, np.int64), np.zeros(S, np.int64)
    frontier, coming = np.empty(S, np.int32), np.empty(S, np.int32)
    parts = np.empty(max(K, len(model.starts)), np.int64)

    width = 0
    split(walkers, model.start_probabilities, rng, parts)
    for k in range(len(model.starts)):
        if parts[k] > 0:
            s = model.starts[k]
            if m == len(flows):
                flows = np.concatenate((flows, np.empty_like(flows)))
            flows[m, 0], flows[m, 1], flows[m, 2], flows[m, 3], flows[m, 4] = -1, 0, 0, s, parts[k]
            m += 1
            here[s] = parts[k]
            frontier[width] = s
            width += 1

    for h in range(H):
        t, plane, layer = min(h, T - 1), min(h, planes - 1), min(h, layers - 1)
        ahead = 0
        for i in range(width):
            s = frontier[i]
            node = node_of[layer, s]
            a = choose_without_data(prior, A, h, s, key) if node == 0 else choose(Q, settled, prior, A, plane, node, h, s, key)
            begin = ((t * S + s) * A + a) * K
            split(here[s], model.probabilities[begin : begin + K], rng, parts)
            here[s] = 0
            for k in range(K):
                if parts[k] > 0:
                    s_next = model.successors[begin + k]
                    if m == len(flows):
                        flows = np.concatenate((flows, np.empty_like(flows)))
                    flows[m, 0], flows[m, 1], flows[m, 2], flows[m, 3], flows[m, 4] = h, s, a, s_next, parts[k]
                    m += 1
                    if there[s_next] == 0:
                        coming[ahead] = s_next
                        ahead += 1
                    there[s_next] += parts[k]
        here, there = there, here
        frontier, coming = coming, frontier
        width = ahead
    return flows[:m]

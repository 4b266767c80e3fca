"""Indices of rival algorithms on visited nodes: one backward pass over all of them after every episode.

They differ in what a row adds to the expectation of what is ahead. What depends on the visits of a row alone is kept (`Rows`) and
renewed when the row is visited; what depends on the values ahead, such as their variance, is computed in the pass. The formulas,
and what they guarantee, are in `algorithms/`.
"""

from __future__ import annotations

from math import floor, inf, log, sqrt
from typing import NamedTuple

import numpy as np

from .compiled import allocates, inlined, loop
from .episode import play
from .greedy import begin_new, choose, choose_blind, episode_key, settle
from .simulate import start
from .table import EPISODES, NODES, error_without_data, has_room, is_illegal, record_episode, row_of

FIECHTER, EXPRESS, HOEFFDING, BERNSTEIN, EULER, EVEN_DAR, UCBVI_BPI, Q_LEARNING = 0, 1, 2, 3, 4, 5, 6, 7  # which index
SAFE = 1.0 + 1e-12  # undoes the rounding of a division before a floor


class Indices(NamedTuple):
    """Beside the upper index (`greedy.Greedy`): what else some algorithms need. P planes are 1, or H + 1 when stationary."""

    Q_lo: np.ndarray  # (P, N * A) float64: a lower index; Q-learning: how often a row was visited at a step
    V_lo: np.ndarray  # (P, N) float64
    G: np.ndarray  # (P, N) float64: what the policy can lose
    met: np.ndarray  # (P, N) float64: how often a node was the state at a step


class Rows(NamedTuple):
    """What depends on the visits of a row alone."""

    bonus: np.ndarray  # (N * A,) float64
    root: np.ndarray  # (N * A,) float64: what multiplies a standard deviation


class Rule(NamedTuple):
    """The constants of an index."""

    kind: int
    horizon: int
    n_states: int
    n_actions: int
    discount: float
    scale: float  # of the bonuses; only 1 has a proof
    level: float  # the logarithm of the formula, or its part that does not depend on n
    grain: float  # Fiechter: eta
    size: float  # S where the formula has it: S H by step for some
    variant: bool  # Fiechter: with RF-UCRL's beta; EULER: repaired; Q-learning: the sharp bonus
    cap: np.ndarray  # (H,) float64: sigma_{H-1-h}, the most that is ahead of a step


@inlined
def renew(bonus, root, row, n, rule):
    """Brings what depends on the visits of a row up to date; n >= 1."""
    H, S, L, kind = float(rule.horizon), float(rule.n_states), rule.level, rule.kind
    if kind == FIECHTER:
        m = S - 1.0
        beta = L + (m * log(max(1.0, m + n)) if rule.variant else 0.0)
        bonus[row] = rule.scale * sqrt(2.0 * beta / n)
    elif kind == EXPRESS:
        bonus[row] = rule.scale * 15.0 * H * H * (L + S * log(21.746254627672363 * (n + 1.0))) / n  # 8 e
    elif kind == HOEFFDING:
        bonus[row] = rule.scale * 7.0 * H * L / sqrt(n)
    elif kind == BERNSTEIN:
        bonus[row] = rule.scale * 14.0 * H * L / (3.0 * n)
        root[row] = rule.scale * sqrt(8.0 * L / n)
    elif kind == EULER:
        less = max(1.0, n - 1.0)
        B_p = 2.0 * H * L if rule.variant else H * sqrt(2.0 * L)
        bonus[row] = rule.scale * (H * L / (3.0 * less) + (4.0 * H * L / 3.0 + B_p) / n)
        root[row] = rule.scale * sqrt(2.0 * L / n)
    elif kind == EVEN_DAR:
        bonus[row] = rule.scale * sqrt((L + 2.0 * log(n)) / (2.0 * n))
    else:
        bonus[row] = rule.scale * H * H * (L + S * log(21.746254627672363 * (n + 1.0))) / n
        root[row] = rule.scale * sqrt((L + log(21.746254627672363 * (n + 1.0))) / n)


@inlined
def sweep(state, known, following, head, n, first, size, target, seen, Q, V, settled, unvisited, Q_lo, V_lo, G, met,
          bonus, root, reward, rule):  # fmt: skip
    """The full backward pass."""
    H, A, kind, gamma = rule.horizon, rule.n_actions, rule.kind, rule.discount
    steps = float(H)
    for h in range(H - 1, -1, -1):
        plane, plane_next, layer, t = min(h, len(V) - 1), min(h + 1, len(V) - 1), min(h, len(head) - 1), min(h, len(reward) - 1)
        ahead_most = gamma * rule.cap[h]
        free = kind <= EXPRESS  # of a reward
        top_most = ahead_most if kind == FIECHTER else 1.0 + ahead_most if kind == EULER else steps
        if kind == FIECHTER:
            top_most = rule.grain * floor(top_most / rule.grain * SAFE)
        unvisited[h] = top_most
        node = head[layer]
        while node != 0:
            s = state[node]
            top, lowest, lo_at, g_at = -inf, -inf, 0.0, 0.0
            row = row_of(node, A, 0)
            for a in range(A):
                r = 0.0 if free else reward[t, s, a]
                q, lo, g = top_most, 0.0, steps
                if kind == EVEN_DAR:
                    q, lo = r + ahead_most, r
                if size[row] == 0:
                    if free:
                        q = error_without_data(known, A, s, a, q)
                    elif is_illegal(known, A, s, a):
                        q = lo = -inf
                else:
                    m1, m2, l1, l2, d2, g1, w1 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
                    for e in range(first[row], first[row] + size[row]):
                        y = target[e]
                        v, times = V[plane_next, y], seen[e]
                        m1 += times * v
                        if kind >= BERNSTEIN:
                            m2 += times * v * v
                        if kind >= EULER:
                            u = V_lo[plane_next, y]
                            l1 += times * u
                            l2 += times * u * u
                            d2 += times * (v - u) * (v - u)
                            g1 += times * G[plane_next, y]
                        if kind == BERNSTEIN:
                            worst = steps * steps
                            if met[plane_next, y] > 0.0:
                                L = rule.level
                                worst = min(
                                    worst, 1e4 * steps * steps * steps * rule.size * rule.size * A * L * L / met[plane_next, y]
                                )
                            w1 += times * worst
                    share = 1.0 / n[row]
                    m1, m2, l1, l2, d2, g1, w1 = (
                        m1 * share,
                        m2 * share,
                        l1 * share,
                        l2 * share,
                        d2 * share,
                        g1 * share,
                        w1 * share,
                    )
                    b = bonus[row]
                    if kind == FIECHTER:
                        q = min(ahead_most, ahead_most * b + gamma * m1)
                        q = rule.grain * floor(q / rule.grain * SAFE)
                    elif kind == EXPRESS:
                        q = min(steps, b + (1.0 + 1.0 / steps) * m1)
                    elif kind == HOEFFDING:
                        q = min(Q[plane, row], min(steps, r + m1 + b))
                    elif kind == BERNSTEIN:
                        b += root[row] * sqrt(max(0.0, m2 - m1 * m1)) + rule.scale * sqrt(8.0 * share * w1)
                        q = min(Q[plane, row], min(steps, r + m1 + b))
                    elif kind == EULER:
                        b += root[row] * sqrt(d2)
                        q = min(top_most, r + m1 + b + root[row] * sqrt(max(0.0, m2 - m1 * m1)))
                        lo = max(0.0, r + l1 - b - root[row] * sqrt(max(0.0, l2 - l1 * l1)))
                    elif kind == EVEN_DAR:
                        if h < H - 1:
                            q = min(q, r + gamma * m1 + ahead_most * b)
                            lo = max(lo, r + gamma * l1 - ahead_most * b)
                    else:
                        spread = root[row] * sqrt(max(0.0, m2 - m1 * m1))
                        wide = 3.0 * spread + 14.0 * b + (m1 - l1) / steps
                        q = min(steps, r + wide + m1)
                        lo = max(0.0, r - wide + l1)
                        g = min(steps, 6.0 * spread + 36.0 * b + (1.0 + 3.0 / steps) * g1)
                Q[plane, row] = q
                Q_lo[plane, row] = lo
                lowest = max(lowest, lo)
                if q > top:
                    lo_at, g_at = lo, g
                top = max(q, top)
                row += np.uint64(1)
            V[plane, node], settled[plane, node] = top, 1
            V_lo[plane, node] = lo_at if kind == EULER else lowest
            G[plane, node] = g_at
            node = following[node]


@loop
def begin(greedy, table, A, nodes, before, kind):
    """Gives the nodes of an episode that were just discovered the index of pairs without data, in every plane they have."""
    if kind <= EXPRESS:  # an error, of which there is none where everything is known
        begin_new(greedy, table, A, nodes, before)
        return
    planes = len(greedy.V)
    for h in range(len(nodes)):
        if nodes[h] >= before:
            for plane in range(planes):
                for a in range(A):
                    legal = not is_illegal(table.known, A, table.state[nodes[h]], a)
                    greedy.Q[plane, row_of(nodes[h], A, a)] = greedy.unvisited[plane if planes > 1 else h] if legal else -inf
                settle(greedy.Q, greedy.V, greedy.settled, A, plane, nodes[h])


@inlined
def take_in(table_n, met, bonus, root, nodes, actions, A, rule):
    """What the visits of an episode change."""
    pooled = len(met) > 1
    for h in range(len(nodes)):
        met[h if pooled else 0, nodes[h]] += 1.0
    for h in range(len(actions)):
        row = row_of(nodes[h], A, actions[h])
        renew(bonus, root, row, float(table_n[row]), rule)


@inlined
def learn_q(state, Q, V, settled, visits, nodes, actions, reward, rule):
    """Optimistic Q-learning from one episode, forwards: every value ahead is still that of the episode before."""
    H, A, sharp = rule.horizon, rule.n_actions, rule.variant
    for h in range(H):
        plane, plane_next, node = min(h, len(V) - 1), min(h + 1, len(V) - 1), nodes[h]
        row = row_of(node, A, actions[h])
        visits[plane, row] += 1.0
        t = visits[plane, row]
        alpha, left = (H + 1.0) / (H + t), float(H - 1 - h)
        ahead = 0.0 if h == H - 1 else min(left if sharp else float(H), V[plane_next, nodes[h + 1]])
        b = rule.scale * (left * sqrt(H * rule.level / t) if sharp else sqrt(float(H) * H * H * rule.level / t))
        r = reward[min(h, len(reward) - 1), state[node], actions[h]]
        Q[plane, row] = (1.0 - alpha) * Q[plane, row] + alpha * (r + ahead + b)
        settle(Q, V, settled, A, plane, node)


@loop
def renew_all(table, rows, rule):
    """What depends on visits alone, for every row with data."""
    A = rule.n_actions
    bonus, root = rows
    if rule.kind == Q_LEARNING:
        return
    for row in range(A, table.used[NODES] * A):
        if table.n[row] > 0:
            renew(bonus, root, row, float(table.n[row]), rule)


@loop
def refresh(table, greedy, indices, rows, reward, rule):
    """Everything from the counts as they stand, but for the minimum with earlier indices."""
    _, state, following, head, n, first, size, _, target, seen, _, _, _, known = table
    Q, V, settled, unvisited = greedy
    Q_lo, V_lo, G, met = indices
    bonus, root = rows
    if rule.kind == Q_LEARNING:
        for h in range(rule.horizon):
            unvisited[h] = float(rule.horizon - h if rule.variant else rule.horizon)
        return
    renew_all(table, rows, rule)
    sweep(state, known, following, head, n, first, size, target, seen, Q, V, settled, unvisited, Q_lo, V_lo, G, met,
          bonus, root, reward, rule)  # fmt: skip


@allocates
def learn(table, greedy, indices, rows, reward, rule, states, actions):
    """Takes in episodes that were played elsewhere, (B, H+1) and (B, H), with a pass after each."""
    _, state, following, head, n, first, size, _, target, seen, _, _, used, known = table
    Q, V, settled, unvisited = greedy
    Q_lo, V_lo, G, met = indices
    bonus, root = rows
    A = rule.n_actions
    nodes = np.empty(states.shape[1], np.uint32)
    for b in range(len(states)):
        before = used[NODES]
        record_episode(table, A, states[b], actions[b], nodes)
        begin(greedy, table, A, nodes, before, rule.kind)
        if rule.kind == Q_LEARNING:
            learn_q(state, Q, V, settled, Q_lo, nodes, actions[b], reward, rule)
            continue
        take_in(n, met, bonus, root, nodes, actions[b], A, rule)
        sweep(state, known, following, head, n, first, size, target, seen, Q, V, settled, unvisited, Q_lo, V_lo, G, met,
              bonus, root, reward, rule)  # fmt: skip


@loop
def run(model, table, greedy, indices, rows, prior, reward, rule, seed_key, rng, episodes, nodes, actions):
    """Explores a known model for `episodes` more episodes, or until the table is full; returns how many."""
    node_of, state, following, head, n, first, size, _, target, seen, _, _, used, known = table
    Q, V, settled, unvisited = greedy
    Q_lo, V_lo, G, met = indices
    bonus, root = rows
    shape, successors, _, cumulative, _, _, _ = model
    A = rule.n_actions
    for done in range(episodes):
        if not has_room(len(state), len(target), node_of.size, used, len(nodes)):
            return done
        before, key, s = used[NODES], episode_key(seed_key, used[EPISODES]), start(model, rng)
        play(
            table, state, n, first, size, target, seen, used, Q, settled, prior, A,
            shape, successors, cumulative, s, key, rng, nodes, actions,
        )  # fmt: skip
        begin(greedy, table, A, nodes, before, rule.kind)
        if rule.kind == Q_LEARNING:
            learn_q(state, Q, V, settled, Q_lo, nodes, actions, reward, rule)
            continue
        take_in(n, met, bonus, root, nodes, actions, A, rule)
        sweep(state, known, following, head, n, first, size, target, seen, Q, V, settled, unvisited, Q_lo, V_lo, G, met,
              bonus, root, reward, rule)  # fmt: skip
    return episodes


@loop
def run_noted(model, table, greedy, indices, rows, prior, reward, rule, seed_key, rng, nodes, states, actions, policies):
    """As `run`, but writes the states (B, H+1), actions (B, H) and, if there is room, policies (B, H, S) of its episodes."""
    node_of, state, following, head, n, first, size, _, target, seen, _, _, used, known = table
    Q, V, settled, unvisited = greedy
    Q_lo, V_lo, G, met = indices
    bonus, root = rows
    shape, successors, _, cumulative, _, _, _ = model
    A, H = rule.n_actions, rule.horizon
    for b in range(len(states)):
        if not has_room(len(state), len(target), node_of.size, used, len(nodes)):
            return b
        before, key = used[NODES], episode_key(seed_key, used[EPISODES])
        if b < len(policies):
            for h in range(H):
                layer, plane = min(h, len(node_of) - 1), min(h, len(V) - 1)
                for s in range(rule.n_states):
                    node = node_of[layer, s]
                    if node == 0:
                        policies[b, h, s] = choose_blind(prior, A, h, s, key)
                    else:
                        policies[b, h, s] = choose(Q, settled, prior, A, plane, node, h, s, key)
        s = start(model, rng)
        play(
            table, state, n, first, size, target, seen, used, Q, settled, prior, A,
            shape, successors, cumulative, s, key, rng, nodes, actions[b],
        )  # fmt: skip
        for h in range(H + 1):
            states[b, h] = state[nodes[h]]
        begin(greedy, table, A, nodes, before, rule.kind)
        if rule.kind == Q_LEARNING:
            learn_q(state, Q, V, settled, Q_lo, nodes, actions[b], reward, rule)
            continue
        take_in(n, met, bonus, root, nodes, actions[b], A, rule)
        sweep(state, known, following, head, n, first, size, target, seen, Q, V, settled, unvisited, Q_lo, V_lo, G, met,
              bonus, root, reward, rule)  # fmt: skip
    return len(states)

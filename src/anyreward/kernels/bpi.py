"""Upper and lower values of one reward on visited nodes, over confidence balls: the indices of BPI-UCRL.

    Q_up_h(s,a) = r_up + gamma max { p.V_up_{h+1} : KL(p_hat, p) <= c },    Q_lo_h(s,a) = r_lo + gamma min { p.V_lo_{h+1} : ... }

and V = max_a Q for both. The balls may also be those of the L1 norm, or boxes.

A distribution in the ball may put mass on successors that were never observed, so the largest V_up and the smallest V_lo over
*all* states of a step matter. The values of states without data depend on their rewards alone, and only the extreme ones are
computed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .ball import BOX, L1, gap, gap_box, gap_l1
from .compiled import allocates, inlined, loop
from .radii import SIZE, SUPPORT, kl_interval, kl_radius
from .table import NODES, is_illegal, is_known, is_unsure, row_of

KNOWN, FIXED, RANDOM = 0, 1, 2  # kinds of rewards: known beforehand; observed and deterministic; observed and random
SETTLED, LATER = 1, 2  # of what is new, when both sides have taken it in; and when only the lower side is still to do so


class ValueBoundArrays(NamedTuple):
    """The upper and the lower index of every node, and the extreme values over all states. P is 1, or H + 1 if stationary."""

    Q: np.ndarray  # (P, N * A) float64: Q_up
    V: np.ndarray  # (P, N) float64: V_up
    settled: np.ndarray  # (P, N) uint8: 0 for a node that is new since the last pass, LATER for the lower side alone
    Q_lo: np.ndarray  # (P, N * A) float64
    V_lo: np.ndarray  # (P, N) float64
    u: np.ndarray  # (2, P, N * A) float64: where the searches over the balls ended, to start from next time
    extremes: np.ndarray  # (2, H + 1) float64: the largest V_up and the smallest V_lo over all states of a step
    radius: np.ndarray  # (N * A,) float64: the radius of the ball of a row
    dirty: np.ndarray  # (P, N * A) uint8: 1 for rows with new data since the last pass, LATER for the lower side alone
    moved: np.ndarray  # (P, N) uint8: 1 for nodes whose value changed in the last pass, of whichever side


class Rewards(NamedTuple):
    """What is known about the reward. H' is 1 if it does not depend on the step, otherwise H."""

    kind: int
    known: np.ndarray  # (H', S, A) float64 if known, else empty
    peak: np.ndarray  # (H', S) float64 if known: max_a r; else empty
    order: np.ndarray  # (H', S) int64 if known: states by increasing peak; else empty
    least: np.ndarray  # (H', S) float64 if known: min_a r; else empty
    order_least: np.ndarray  # (H', S) int64 if known: states by increasing least; else empty
    total: np.ndarray  # (N * A,) float64: the sum of the observed rewards; 0 for row 0 and rows without data
    up: np.ndarray  # (N * A,) float64: an upper bound on the mean of the observed rewards; 1 without data
    lo: np.ndarray  # (N * A,) float64: a lower bound; 0 without data
    ended: float  # what is paid after an episode has terminated, if rewards are observed; nan if it is observed as well
    floor: np.ndarray  # (H,) float64: no value at a step can be smaller, -inf if that is not known
    ceiling: np.ndarray  # (H,) float64: no value at a step can be larger


class Constants(NamedTuple):
    """The constants of the recursion."""

    discount: float
    horizon: int
    n_states: int
    n_actions: int
    threshold: int  # a kind of threshold of `radii`
    most: int  # the largest possible number of successors of a pair
    log_laws: float  # log(laws / delta): delta is shared among that many distributions
    reward_level: float  # log(laws / delta) for the means of random rewards
    norm: int  # which kind of balls, of `ball`


@loop
def reward_bounds(rewards, table_known, A, h, s, a, row, side):
    """The upper (side 0) or lower (side 1) bound on r_h(s, a) of a legal action."""
    if rewards.kind == KNOWN:
        return rewards.known[min(h, len(rewards.known) - 1), s, a]
    if not np.isnan(rewards.ended) and is_known(table_known, A, s, a):
        return rewards.ended
    return rewards.up[row] if side == 0 else rewards.lo[row]


@inlined
def reward_without_data(reward, table_known, A, s, side):
    """The reward of the best action in a state without data, given its rewards (A,).

    That is the best legal action. If the legal actions are unknown, it is the best (side 0) or the worst (side 1) of all actions,
    which may be the only legal one.
    """
    unsure = is_unsure(table_known, A, s)
    best = -np.inf
    for a in range(A):
        if not is_illegal(table_known, A, s, a):
            best = max(best, -reward[a] if unsure and side == 1 else reward[a])
    return -best if unsure and side == 1 else best


@loop
def extreme_reward_without_data(rewards, node_of, table_known, A, layer, h, side):
    """The largest (side 0) or smallest (side 1) `reward_without_data` over the states of a layer without data.

    There is such a state. Without marks, `reward_without_data` is max_a r, by which the states are sorted. With marks it
    may be as small as min_a r, or smaller than max_a r if actions are illegal. States are examined in the order of these
    bounds until no other can be more extreme.
    """
    S = node_of.shape[1]
    if rewards.kind != KNOWN:
        for s in range(S):
            if node_of[layer, s] == 0:
                return 1.0 - side
        return np.nan
    t = min(h, len(rewards.known) - 1)
    found = np.nan
    for i in range(S):
        if side == 0:
            s = rewards.order[t, S - 1 - i]
            limit = rewards.peak[t, s]
        else:
            s = rewards.order[t, i] if len(table_known) == 0 else rewards.order_least[t, i]
            limit = rewards.peak[t, s] if len(table_known) == 0 else rewards.least[t, s]
        if (side == 0 and limit <= found) or (side == 1 and limit >= found):
            return found
        if node_of[layer, s] == 0:
            value = limit if len(table_known) == 0 else reward_without_data(rewards.known[t, s], table_known, A, s, side)
            if np.isnan(found) or (value > found if side == 0 else value < found):
                found = value
    return found


@inlined
def ball_value(n, first, size, target, seen, row, radius, most, V, extreme, sign, u, g, norm):
    """The extreme expectation of V over the ball of a row, and the u at which the search ended.

    `extreme` is the extreme of V over all states, seen or not. `sign` is 1 for the largest expectation, -1 for the smallest.
    """
    begin, wide = np.uint64(first[row]), np.uint64(size[row])
    if wide >= most:
        extreme = V[target[begin]]
        for k in range(np.uint64(1), wide):
            extreme = sign * max(sign * extreme, sign * V[target[begin + k]])
    for k in range(wide):
        g[k] = sign * (extreme - V[target[begin + k]])
    if norm == L1:
        return extreme - sign * gap_l1(seen, begin, wide, float(n[row]), g, radius), u
    if norm == BOX:
        unseen = float(most - min(most, wide))
        return extreme - sign * gap_box(seen, begin, wide, float(n[row]), g, radius, unseen), u
    shift, u = gap(seen, begin, wide, float(n[row]), g, radius, u)
    return extreme - sign * shift, u


@inlined
def is_stale(first, size, target, moved, row):
    """Whether the value of a successor of this row has changed in this pass; `moved` is that of the next step."""
    stale, begin = np.uint8(0), np.uint64(first[row])
    for e in range(begin, begin + np.uint64(size[row])):
        stale |= moved[target[e]]
    return stale != 0


@loop
def sweep_side(table, bound_arrays, rewards, constants, g, side):
    """A full backward pass of the upper (side 0) or the lower (side 1) index.

    A row is recomputed if it has new data, or a value it depends on has changed, since the last pass of this side. The upper
    side comes first: what it has taken in, it leaves as LATER for the lower one.
    """
    node_of, state, following, head = table.node_of, table.state, table.following, table.head
    n, first, size, target, seen, known = table.n, table.first, table.size, table.target, table.seen, table.known
    Q, V, settled, Q_lo, V_lo, all_u, all_extremes, radius, dirty, moved = bound_arrays
    if side == 1:
        Q, V = Q_lo, V_lo
    u, extremes, sign = all_u[side], all_extremes[side], 1.0 - 2.0 * side  # of the lower side, the negatives are maximised
    limits = rewards.ceiling if side == 0 else rewards.floor
    left = np.uint8(LATER) if side == 0 else np.uint8(0)
    taken_in = left if side == 0 else np.uint8(SETTLED)
    gamma, H, A, norm = constants.discount, constants.horizon, constants.n_actions, constants.norm
    most = np.uint64(constants.most)
    extreme_moved = False
    for h in range(H - 1, -1, -1):
        plane, plane_next, layer = min(h, len(V) - 1), min(h + 1, len(V) - 1), min(h, len(head) - 1)
        Q_h, V_h, u_h, dirty_h, settled_h, moved_h = Q[plane], V[plane], u[plane], dirty[plane], settled[plane], moved[plane]
        ahead_of, moved_ahead = V[plane_next], moved[plane_next]
        extreme, limit = extremes[h + 1], limits[h]
        furthest, count, node = -np.inf, 0, np.uint64(head[layer])
        while node != 0:
            s, new = state[node], settled_h[node] == 0 or (side == 1 and settled_h[node] == LATER)
            top, row = -np.inf, row_of(node, A, 0)
            for a in range(A):
                if is_illegal(known, A, s, a):
                    Q_h[row] = -np.inf
                elif (
                    new or extreme_moved or (dirty_h[row] != 0 and dirty_h[row] != left)
                    or is_stale(first, size, target, moved_ahead, row) or is_known(known, A, s, a)
                ):  # fmt: skip
                    ahead = extreme
                    if size[row] == 0 and is_known(known, A, s, a):
                        # Absorbing: the visit that created this node stayed here, so the next step has a node of s too.
                        ahead = ahead_of[node_of[min(h + 1, len(head) - 1), s]]
                    elif size[row] > 0 and h < H - 1:
                        ahead, u_h[row] = ball_value(
                            n, first, size, target, seen, row, radius[row], most, ahead_of, extreme, sign, u_h[row], g, norm
                        )
                    value = reward_bounds(rewards, known, A, h, s, a, row, side) + gamma * ahead
                    Q_h[row] = limit if sign * value > sign * limit else value
                    if dirty_h[row] != 0:
                        dirty_h[row] = left
                top = max(top, Q_h[row])
                row += np.uint64(1)
            moved_h[node] = new or top != V_h[node]
            V_h[node] = top
            if new:
                settled_h[node] = taken_in
            furthest, count, node = max(furthest, sign * top), count + 1, np.uint64(following[node])
        if count < node_of.shape[1]:
            without = extreme_reward_without_data(rewards, node_of, known, A, layer, h, side) + gamma * extreme
            furthest = max(furthest, min(sign * limit, sign * without))
        furthest *= sign
        extreme_moved = extremes[h] != furthest
        extremes[h] = furthest


@loop
def sweep(table, bound_arrays, rewards, constants, g):
    """A full backward pass of both indices."""
    sweep_side(table, bound_arrays, rewards, constants, g, 0)
    sweep_side(table, bound_arrays, rewards, constants, g, 1)


@loop
def sweep_anew(table, bound_arrays, rewards, constants, g):
    """The lower index from the counts alone: no search starts from where an earlier one ended, and every row is computed."""
    settled, u = bound_arrays.settled, bound_arrays.u[1]
    for plane in range(len(settled)):
        for node in range(table.used[NODES]):
            if settled[plane, node] == SETTLED:
                settled[plane, node] = LATER
        for row in range(table.used[NODES] * constants.n_actions):
            u[plane, row] = 0.0
    sweep_side(table, bound_arrays, rewards, constants, g, 1)


@inlined
def value_without_data(rewards, table_known, constants, extremes, s, side):
    """V_up (side 0) or V_lo (side 1) at the first step in a state without data: a reward, and anything afterwards."""
    first = 1.0 - side
    if rewards.kind == KNOWN:
        first = reward_without_data(rewards.known[0, s], table_known, constants.n_actions, s, side)
    value = first + constants.discount * extremes[side, 1]
    return min(rewards.ceiling[0], value) if side == 0 else max(rewards.floor[0], value)


@loop
def start_values(table, bound_arrays, rewards, constants, g):
    """V_up and V_lo before the first step: expectations over a known distribution of the initial state, or over a ball."""
    V, V_lo, extremes = bound_arrays.V[0], bound_arrays.V_lo[0], bound_arrays.extremes
    if len(table.starts) > 0:
        up, lo = 0.0, 0.0
        for k in range(len(table.starts)):
            s, p = table.starts[k], table.start_p[k]
            node = table.node_of[0, s]
            if node != 0 and bound_arrays.settled[0, node] != 0:
                up += p * V[node]
                lo += p * V_lo[node]
            else:
                up += p * value_without_data(rewards, table.known, constants, extremes, s, 0)
                lo += p * value_without_data(rewards, table.known, constants, extremes, s, 1)
        return up, lo
    if table.n[0] == 0:
        return extremes[0, 0], extremes[1, 0]
    S, c, norm, row = np.uint64(constants.n_states), bound_arrays.radius[0], constants.norm, np.uint64(0)
    n, first, size, target, seen = table.n, table.first, table.size, table.target, table.seen
    up, _ = ball_value(n, first, size, target, seen, row, c, S, V, extremes[0, 0], 1.0, 0.0, g, norm)
    lo, _ = ball_value(n, first, size, target, seen, row, c, S, V_lo, extremes[1, 0], -1.0, 0.0, g, norm)
    return up, lo


@loop
def observe(table, bound_arrays, rewards, constants, row, payment):
    """Updates the radius of a row after a visit and records one observed reward of it."""
    n = float(table.n[row])
    A = constants.n_actions
    at_start = row < A
    certain = len(table.starts) > 0
    if not at_start:
        certain = is_known(table.known, A, table.state[row // np.uint64(A)], row % np.uint64(A))
    bound_arrays.radius[row] = 0.0 if certain else kl_radius(
        table.seen, np.int64(table.first[row]), np.int64(table.size[row]), n, constants.n_states,
        SUPPORT if at_start and constants.threshold == SIZE else constants.threshold, constants.most, constants.log_laws,
    )  # fmt: skip
    bound_arrays.dirty[:, row] = 1
    if rewards.kind != KNOWN and not at_start:
        rewards.total[row] += payment
        if rewards.kind == FIXED:
            rewards.up[row] = rewards.lo[row] = payment


@loop
def settle_rewards(table, rewards, constants, row):
    """Updates the bounds on the mean of a row's random rewards, once all rewards of an episode are recorded."""
    if rewards.kind == RANDOM:
        n = float(table.n[row])
        rewards.lo[row], rewards.up[row] = kl_interval(rewards.total[row] / n, n, constants.reward_level)


@loop
def take_in(table, bound_arrays, rewards, constants, nodes, actions, payments):
    """Updates the radii and reward bounds of the rows of one episode that was just recorded."""
    A = constants.n_actions
    observe(table, bound_arrays, rewards, constants, np.uint64(0), 0.0)
    for h in range(len(actions)):
        observe(table, bound_arrays, rewards, constants, row_of(nodes[h], A, actions[h]), payments[h])
    for h in range(len(actions)):
        settle_rewards(table, rewards, constants, row_of(nodes[h], A, actions[h]))


@allocates
def contradiction(table, up, A, states, actions, payments):
    """The first (episode, step) whose reward differs from an earlier one of the same row, or (-1, -1).

    The earlier reward may be in the table or in these episodes.
    """
    layers = len(table.head)
    paid = {(0, 0, 0): 0.0}
    paid.clear()
    for b in range(len(states)):
        for h in range(actions.shape[1]):
            layer, s, a = min(h, layers - 1), states[b, h], actions[b, h]
            node = table.node_of[layer, s]
            row = row_of(node, A, a)
            if node != 0 and table.n[row] > 0 and up[row] != payments[b, h]:
                return b, h
            if (layer, s, a) in paid and paid[(layer, s, a)] != payments[b, h]:
                return b, h
            paid[(layer, s, a)] = payments[b, h]
    return -1, -1


class BoundsLearner(NamedTuple):
    """The upper values of one reward, which decide what is played, updated after every episode: a learner for `loop`.

    The lower values decide when it stops, and are followed only if there is a goal.
    """

    index: ValueBoundArrays
    prior: np.ndarray  # (H', S, A) float64: the reward if it is known, otherwise empty
    n_actions: int
    rewards: Rewards
    constants: Constants
    pays: np.ndarray  # (H', S, A) float64: the rewards of a known model; if random, their means, and it pays 0 or 1
    g: np.ndarray  # (S,) float64: scratch space for the search in a ball
    stops: bool  # whether there is a goal

    def take_in(self, table, nodes, actions, payments, met):
        take_in(table, self.index, self.rewards, self.constants, nodes, actions, payments)

    def plan(self, table):
        sweep_side(table, self.index, self.rewards, self.constants, self.g, 0)
        if self.stops:
            sweep_side(table, self.index, self.rewards, self.constants, self.g, 1)

    def pay(self, table, nodes, actions, rng, payments):
        if self.rewards.kind != KNOWN:
            for h in range(len(actions)):
                mean = self.pays[min(h, len(self.pays) - 1), table.state[nodes[h]], actions[h]]
                payments[h] = mean if self.rewards.kind == FIXED else 1.0 if rng.random() < mean else 0.0

    def bound(self, table):
        if not self.stops:
            return np.inf
        up, lo = start_values(table, self.index, self.rewards, self.constants, self.g)
        return up - lo

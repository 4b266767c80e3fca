"""The loop of exploration, compiled: play an episode of a known model, learn from it, go on.

It is a fast form of the two calls of an explorer, `ask` and `tell`, and the only compiled loop over episodes there is. What an
algorithm does with an episode is told by its *learner*: a named tuple of its arrays and constants, with the fields

    index      a tuple with Q and settled, whose greedy policy is played (`greedy`)
    prior      (H', S, A) float64: by what to choose in a state without data; empty for no preference
    n_actions  A

and the methods, of which only the first is needed,

    take_in(table, nodes, actions, payments, met)   learn from an episode that was just recorded; nodes from `met` on are new
    plan(table)                                     bring the index up to date, once a batch of episodes was taken in
    pay(table, nodes, actions, rng, payments)       draw what an episode of a known model pays, for learners that observe it
    bound(table)                                    what exploration stops by; infinite for those that stop by something else
"""

from __future__ import annotations

import numpy as np

from .compiled import allocates, loop, method
from .episode import play
from .greedy import episode_key, write_policy
from .table import EPISODES, NODES, has_room, record_episode


def nothing_to_plan(learner, table):
    """For learners whose index is up to date after every episode."""


def nothing_to_pay(learner, table, nodes, actions, rng, payments):
    """For learners that know the reward, or need none."""


def unbounded(learner, table):
    """For learners whose stop does not depend on their index."""
    return np.inf


take_in = method("take_in")
plan_of, pay_of, bound_of = method("plan", nothing_to_plan), method("pay", nothing_to_pay), method("bound", unbounded)


@loop
def plan(table, learner):
    """Brings the index up to date."""
    plan_of(learner, table)


@loop
def bound(table, learner):
    """What exploration stops by, as the index stands."""
    return bound_of(learner, table)


@allocates
def learn(table, learner, states, actions, payments):
    """Learns from episodes that were played elsewhere: states (B, H+1), actions (B, H), payments (B, H) or, if unused, (1, H).

    Needs room in the table for all of them.
    """
    nodes = np.empty(states.shape[1], np.uint32)
    for b in range(len(states)):
        met = table.used[NODES]
        record_episode(table, learner.n_actions, states[b], actions[b], nodes)
        take_in(learner, table, nodes, actions[b], payments[min(b, len(payments) - 1)], met)
    plan_of(learner, table)


@loop
def run(model, table, learner, seed_key, rng, episodes, goal, nodes, actions, payments, states, policies):
    """Plays and learns from `episodes` more episodes, fewer if the bound is at most `goal` before or the table is full.

    Returns the number of episodes done. Each is played with the greedy policy of what the episodes before it left. nodes (H+1),
    actions (1 or B, H) and payments (H) are room to work in. Episodes are written down where there are rows for them: their
    states (B, H+1) with their actions (B, H), and their policies (B, H, S).
    """
    A, used = learner.n_actions, table.used
    for done in range(episodes):
        if not has_room(table, len(nodes)):
            return done
        met, key, b = used[NODES], episode_key(seed_key, used[EPISODES]), min(done, len(actions) - 1)
        if done < len(policies):
            write_policy(learner.index, learner.prior, A, table.node_of, key, policies[done])
        play(model, table, learner.index, learner.prior, A, key, rng, nodes, actions[b])
        pay_of(learner, table, nodes, actions[b], rng, payments)
        take_in(learner, table, nodes, actions[b], payments, met)
        plan_of(learner, table)
        if done < len(states):
            for h in range(len(nodes)):
                states[done, h] = table.state[nodes[h]]
        if bound_of(learner, table) <= goal:
            return done + 1
    return episodes

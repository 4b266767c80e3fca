"""The compiled loop of exploration: play an episode of a known model, learn from it, repeat.

It is a fast form of an explorer's two calls `ask` and `tell`, and the only compiled loop over episodes. What an algorithm does
with an episode is defined by its *learner*: a named tuple of its arrays and constants, with the fields

    index      a named tuple with Q and settled, whose greedy policy is played (`greedy`)
    prior      (H', S, A) float64: preferences among the actions of states without data; empty if there are none
    n_actions  A

and the following methods, of which only the first is required:

    take_in(table, nodes, actions, payments, met)   learn from an episode that was just recorded; nodes from `met` on are new
    plan(table)                                     update the index after a batch of episodes
    pay(table, nodes, actions, rng, payments)       draw the rewards of an episode in a known model, if the learner observes them
    bound(table)                                    the value that decides when exploration stops; inf if it does not decide
"""

from __future__ import annotations

import numpy as np

from .compiled import loop, method
from .episode import play
from .greedy import episode_key, write_policy
from .table import EPISODES, NODES, has_room, record_episode


def nothing_to_plan(learner, table):
    """The default `plan`, for learners whose index is up to date after every episode."""


def nothing_to_pay(learner, table, nodes, actions, rng, payments):
    """The default `pay`, for learners that know the reward or need none."""


def unbounded(learner, table):
    """The default `bound`, for learners whose index does not decide when exploration stops."""
    return np.inf


take_in = method("take_in")
plan_of, pay_of, bound_of = method("plan", nothing_to_plan), method("pay", nothing_to_pay), method("bound", unbounded)


@loop
def learn(table, learner, states, actions, payments, nodes):
    """Records episodes that were played elsewhere, and learns from them. Needs room in the table for all of them.

    `states` is (B, H+1), `actions` (B, H), and `payments`, the rewards, (B, H), or (1, H) if they are not used. `nodes` (H+1) is
    scratch space.
    """
    for b in range(len(states)):
        met = table.used[NODES]
        record_episode(table, learner.n_actions, states[b], actions[b], nodes)
        take_in(learner, table, nodes, actions[b], payments[min(b, len(payments) - 1)], met)
    plan_of(learner, table)


@loop
def run(model, table, learner, seed_key, rng, episodes, goal, nodes, actions, payments, states, policies):
    """Plays `episodes` more episodes and learns from each; returns the number of episodes.

    It stops earlier when the learner's bound is at most `goal`, or the table is full. Each episode is played with the greedy
    policy of the index after the previous one. nodes (H+1), actions (1 or B, H) and payments (H) are scratch space. The first
    episodes are written into states (B, H+1) with their actions (B, H), and into policies (B, H, S) unless that is None, as far
    as these arrays have rows.
    """
    A, used = learner.n_actions, table.used
    for done in range(episodes):
        if not has_room(table, len(nodes)):
            return done
        met, key, b = used[NODES], episode_key(seed_key, used[EPISODES]), min(done, len(actions) - 1)
        if policies is not None and done < len(policies):
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

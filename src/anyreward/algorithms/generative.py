"""The agent with a generative model (Kearns & Singh 1998; Azar, Munos & Kappen 2012): it may draw a successor of any pair.

Sampling   an episode is worth H draws. They go round all pairs, (h, s, a), or (s, a) when stationary, in a random order that is
           new in each round: after any number of draws every pair has n or n + 1 of them, the leftovers spread at random.
Planning   for any reward, backward induction on p_hat.

Guarantee: with n = `draws_for(...)` draws of every pair, fixed beforehand, plans are epsilon-optimal with probability 1 -
delta. With w_h = gamma sigma_{H-1-h} (steps from 0), W = sum_h gamma^h w_h, which is H(H-1)/2 without a discount, and N laws
that matter,

    n = ceil(2 level (W / epsilon)^2)    level = S log 2 + log(N/delta)    for every reward at once
                                         level = log(2 N M / delta)        for M rewards that were chosen beforehand, by step only

Every reward: ||p_hat - p||_1 <= sqrt(2 level / n) for all laws (Weissman et al. 2003), so every value errs by at most W/2 times
that, half the span of what is ahead at each step: epsilon/2. One reward: the plan and the values ahead depend on the draws of
later steps alone, which are independent of those of a step, so Hoeffding's inequality serves the value of the plan as it serves
V*: 2 W sqrt(level / 2n) = epsilon. Pooled draws are not independent in this way. With more draws of every pair than n, the
first claim stays true (`docs/theory.md`, 22.2).

(Both were derived here. The constants 68 and 12 that are quoted for Azar et al. are from memory and are not used.)

Where there is no model to draw from, with `ask` and `tell`, it is the random policy.
"""

from __future__ import annotations

from math import ceil, log

import numpy as np

from ..certificates.thresholds import paper_rule
from ..setting import Setting, positive, probability, shown, whole_number
from .explorer import Draws, Request
from .random_policy import RandomPolicy
from .registry import register

MAX_DRAWS = 2**53
CLAIMS = ("every reward", "one reward")


@register("generative")
class Generative(RandomPolicy):
    """Draws of every pair alike. It needs a `TabularMDP`: an environment has to be walked through."""

    goal = "generative"
    guarantee = "every plan epsilon-optimal with `draws_for` draws of every pair"
    status = "proved"
    reference = "Kearns & Singh 1998; Azar et al. 2012"
    plays_episodes = False

    def ask_many(self, episodes: int, goal: float) -> Request:
        """As many draws as these episodes have transitions, and as many starts."""
        setting = self.setting
        episodes = min(episodes, self.counts.until_booking)
        shape = 1 if setting.stationary else setting.horizon, setting.n_outcomes, setting.n_actions
        times = np.zeros(int(np.prod(shape)), np.int64)
        begin, left = self.episodes * setting.horizon, episodes * setting.horizon
        while left > 0:  # whole rounds at once, the first and the last one in parts
            turn, place = divmod(begin, len(times))
            if place == 0 and left >= len(times):
                times += left // len(times)
                begin, left = begin + left // len(times) * len(times), left % len(times)
                continue
            order = np.random.default_rng([self.seed, 7, turn]).permutation(len(times))
            part = min(left, len(times) - place)
            times[order[place : place + part]] += 1
            begin, left = begin + part, left - part
        return Draws(times.reshape(shape), episodes)

    def tell_many(self, request: Request, *outcome: np.ndarray) -> None:
        self.counts.add_flows(outcome[0])
        self.counts.book_if_due()


def draws_for(setting: Setting, epsilon: float, delta: float = 0.1, claim: str = CLAIMS[0], rewards: int = 1) -> int:
    """The fewest draws of every (h, s, a), or (s, a) when stationary, with which plans are epsilon-optimal.

    The start is taken to be known.

    Parameters
    ----------
    setting, epsilon, delta
        As for `explore`.
    claim
        `"every reward"`: every plan for every reward. `"one reward"`: the plan for one reward that is chosen before the draws are
        made, in a setting by step.
    rewards
        How many rewards are chosen beforehand, for the second claim.
    """
    epsilon, delta = positive(epsilon, "epsilon"), probability(delta, "delta")
    if claim not in CLAIMS:
        raise ValueError(f"claim is {shown(claim)}: it has to be {' or '.join(map(repr, CLAIMS))}.")
    if whole_number(rewards, "rewards") < 1 or (claim == CLAIMS[0] and rewards != 1):
        raise ValueError(f"rewards is {rewards}: it has to be at least 1, and goes with the claim 'one reward'.")
    if claim == CLAIMS[1] and setting.stationary:
        raise ValueError("claim is 'one reward', but draws that steps share are not independent of the plan: use 'every reward'.")
    weight = paper_rule(setting, delta, True).weight  # with the last step if rewards may depend on the arrival
    if weight[0] <= epsilon / 2 or setting.n_outcomes == 1:
        return 0
    laws = setting.n_outcomes * setting.n_actions * (1 if setting.stationary else int((weight > 0).sum()))
    level = setting.n_outcomes * log(2) + log(laws / delta) if claim == CLAIMS[0] else log(2 * laws * rewards / delta)
    total = float(weight @ setting.discount ** np.arange(len(weight)))
    draws = 2 * level * (total / epsilon) ** 2
    if draws > MAX_DRAWS:
        raise ValueError(f"epsilon is {epsilon:g}: it would take more than 2^53 draws of every pair.")
    return ceil(draws * (1 + 1e-12))

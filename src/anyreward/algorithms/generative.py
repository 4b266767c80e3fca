"""The agent with a generative model (Kearns & Singh 1998; Azar, Munos & Kappen 2012): it may draw a successor of any pair.

Sampling   an episode is worth H draws. They go round all pairs, (h, s, a), or (s, a) when stationary, in a random order that is
           new in each round: after any number of draws every pair has n or n + 1 of them, the leftovers spread at random.
Planning   for any reward, backward induction on p_hat.

Guarantee: with n draws of every pair RF-UCRL's index is the same everywhere, so `draws_for` needs no data:

    E_h = min(w_h, w_h sqrt(2 beta(n)/n) + gamma E_{h+1}),   w_h = gamma sigma_{H-1-h} (steps from 0);   E_0 <= epsilon/2.

(Derived from Lemma 1 of Kaufmann et al. The constants 68 and 12 that are quoted for Azar et al. are from memory and are not
used.)

Where there is no model to draw from, with `ask` and `tell`, it is the random policy.
"""

from __future__ import annotations

import numpy as np

from ..certificates.thresholds import paper_beta, paper_rule
from ..setting import Setting, positive, probability
from .explorer import Draws, Request
from .random_policy import RandomPolicy
from .registry import register

MAX_DRAWS = 2**53


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


def draws_for(setting: Setting, epsilon: float, delta: float = 0.1) -> int:
    """The fewest draws of every (h, s, a), or (s, a) when stationary, with which every plan for every reward is epsilon-optimal.

    The start is taken to be known.
    """
    epsilon, delta = positive(epsilon, "epsilon"), probability(delta, "delta")
    rule = paper_rule(setting, delta, True)  # with the last step if rewards may depend on the arrival

    def error(n: int) -> float:
        radius = np.sqrt(2 * paper_beta(np.array([n]), setting, delta)[0] / n)
        E = 0.0
        for weight, cap in zip(rule.weight[::-1], rule.cap[::-1], strict=True):
            E = min(cap, weight * radius + setting.discount * E)
        return float(E)

    if rule.cap[0] <= epsilon / 2:
        return 0
    low, high = 0, 1
    while error(high) > epsilon / 2:
        low, high = high, 2 * high
        if high > MAX_DRAWS:
            raise ValueError(f"epsilon is {epsilon:g}: it would take more than 2^53 draws of every pair.")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if error(middle) > epsilon / 2 else (low, middle)
    return high

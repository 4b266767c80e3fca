"""UCBZero (Zhang, Ma & Singla 2020): explores without a reward and without a model, for N rewards that are given later.

At the t-th visit of (h, s, a), going to s' (steps from 0; visits are by step, in a stationary setting too):

    W_h(s,a) <- (1 - alpha) W_h(s,a) + alpha (min(H-1-h, max_b W_{h+1}(s',b)) + 2 b_t),    alpha = (H+1) / (H+t)
    b_t      = scale (H-1-h) sqrt(H iota / t),    iota = log(2 S A H K N / delta);    W_h = H-h before any visit

Sampling   play argmax_a W. An episode costs O(H), whatever the size of the problem.

Guarantee: none that is offered here. Replaying the episodes through optimistic Q-learning with the bonus b_t, for any of N
rewards that were chosen beforehand, gives a mixture of past policies that loses at most W_0(s_1), with probability 1 - delta
(Azuma's inequality once for V* and once for the value of the mixture). On the double chain that says less than the horizon
below some billion episodes, and the mixture needs the whole record of episodes; so it is left out, and the certificate is that
of the counts, which holds for every reward.

The exploring bonus is twice that of the replay, as in a public implementation, whose H^3 + iota in place of H^3 iota is a slip.
Without a reward, the policy depends on `scale` only through where W is cut off: with a small one, such as 0.001, it is one of
the best samplers there are. No discount."""

from __future__ import annotations

from math import log
from typing import Any

from ..setting import Setting, whole_number
from .explorer import transitions
from .opt_qlearning import QLearningIndex
from .optimistic import OptimisticExplorer
from .registry import register


@register("ucb-zero")
class UCBZero(OptimisticExplorer):
    """UCBZero as ask and tell.

    Parameters
    ----------
    budget
        How many episodes there will be, K.
    tasks
        How many rewards will be given later, N.
    setting, delta, bounds, scale, ties, seed, growth
        See `OptimisticExplorer`.
    """

    continues = False  # it keeps what counts do not tell
    goal = "several rewards"
    guarantee = "none of its own here; log N H^5 S A / epsilon^2 episodes in the original"
    status = "no certificate"
    reference = "Zhang et al. 2020"
    supports_discount = False
    needs_budget = True

    def __init__(self, setting: Setting, *, budget: int | None = None, tasks: int = 1, **options: Any) -> None:
        self.transitions, self.tasks = transitions(budget, setting, "UCBZero"), whole_number(tasks, "tasks")
        if self.tasks < 1:
            raise ValueError(f"tasks is {self.tasks}: it has to be at least 1.")
        super().__init__(setting, **options)

    def rule(self) -> QLearningIndex:
        setting = self.setting
        iota = log(2 * setting.n_outcomes * setting.n_actions * self.transitions * self.tasks / self.delta)
        return QLearningIndex(float(self.scale), iota, True, 2.0)

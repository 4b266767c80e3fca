"""MDP-GapE (Jonsson, Kaufmann, Ménard, Domingues, Leurent & Valko 2020): which action to take first, for one reward.

U and L are BPI-UCRL's upper and lower values (`bpi_ucrl.py`) of the actions at the start s_1:

    b = argmin_b [max_{a != b} U(a) - L(b)],      c = argmax_{a != b} U(a)

Sampling         at the first step, the wider of b and c, by U - L; then argmax_a Q_up_h(s,a).
Stopping         once U(c) - L(b) <= epsilon (`explore(..., stop="own")`).
Recommendation   the action b, `first_action`; no policy.

Guarantee: on the event that all laws lie in their balls, of probability at least 1 - delta, at every time

    V*(s_1) - Q*(s_1, b) <= max(0, U(c) - L(b)) = `own_epsilon`: it is about the *first action*, if the best follows

since Q*(b) >= L(b) and the others are worth at most U(c). With a single action it is 0 at once. Of what to do after it this says
nothing: the policy argmax_a Q_lo (`recommendation`) and the certificate of the atlas are BPI-UCRL's, and come later.

The original plans with a simulator, in a tree of histories with at most B successors, and pays log 3 (B K)^H for them. Here nodes
are pairs (h, s), so that there are S A H laws, and beta or the tight radii take the place of its thresholds (which are from
memory; the rules were read in a public implementation). The start is known: one state, or a known distribution, over which
own_epsilon is an average. Rewards are known or observed as for BPI-UCRL, but not on arrival, and no structure is declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from ..rewards.forms import Reward
from ..setting import Setting
from .bpi_ucrl import BPIUCRL
from .registry import register

if TYPE_CHECKING:
    from ..kernels.first import FirstActionLearner


@register("mdp-gape")
class MDPGapE(BPIUCRL):
    """MDP-GapE as ask and tell; see `BPIUCRL` for options.

    Example:

        atlas = anyreward.explore(env, horizon=20, max_episodes=100, algorithm="mdp-gape")
        atlas.source["own"]["epsilon"]                  # how much its first action can lose
    """

    goal = "first action"
    guarantee = "its first action epsilon-optimal at the stop; nothing about later ones"
    reference = "Jonsson et al. 2020"
    certifies = "first action"
    plays_by_both = True

    def __init__(self, setting: Setting, reward: Reward = None, **options: Any) -> None:
        super().__init__(setting, reward, **options)
        if self._everywhere:
            raise ValueError("MDPGapE follows visited pairs: it is not for rewards on arrival, or a structure. Use 'bpi-ucrl'.")
        arrays = self._values.bound_arrays
        self._played = kernels.several.Played(np.zeros_like(arrays.Q), np.zeros_like(arrays.settled))

    def learner(self) -> FirstActionLearner:  # type: ignore[override]
        values = super().learner()
        if self._played.Q.shape != values.index.Q.shape:
            self._played = kernels.several.Played(np.zeros_like(values.index.Q), np.zeros_like(values.index.settled))
        learner = kernels.first.FirstActionLearner(self._played, values.prior, values.n_actions, values)
        kernels.first.choose_first(learner, self.counts.table)
        return learner

    def _candidates(self) -> list[tuple[int, float, int, float]]:
        """Of each start: the state, its probability, b, and U(c) - L(b) on the scale of rewards in [0, 1]."""
        self._catch_up()
        setting, arrays, A, found = self.setting, self._values.bound_arrays, self.setting.n_actions, []
        for s, p in zip(*setting.starts, strict=True):
            node = self.counts.table.node_of[0, s]
            if node == 0 or not arrays.settled[0, node]:
                b, gap = 0, float(setting.sigma[-1]) if A > 1 else 0.0
            else:
                b, gap = kernels.first.first_action(arrays.Q, arrays.Q_lo, A, np.int64(node))
            found.append((int(s), float(p), int(b), float(min(max(0.0, gap), setting.sigma[-1]))))
        return found

    def first_action(self, state: int | None = None) -> int:
        """The recommended first action, b, in an initial state, which has to be given unless there is only one.

        Example:

            explorer = anyreward.ALGORITHMS["mdp-gape"](setting, reward)
            explorer.tell(*env.rollout(explorer.ask()))
            explorer.first_action()
        """
        actions = {s: b for s, _, b, _ in self._candidates()}
        if state is None and len(actions) != 1:
            raise ValueError("state is not given: episodes can start in several states.")
        if state is not None and state not in actions:
            raise ValueError(f"state is {state}: it has to be one of those in which episodes start, {sorted(actions)}.")
        return next(iter(actions.values())) if state is None else actions[state]

    @property
    def own_epsilon(self) -> float | None:
        """U(c) - L(b), for the first action; None if the distribution of the start is estimated."""
        if self.setting.estimates_start:
            return None
        self.counts.check_start()
        self.bound.check(self.counts)
        gap = sum(p * gap for _, p, _, gap in self._candidates())
        low, high = self.reward_range
        return (gap + self._slack / 2 if gap > 0 else 0.0) * (high - low)

    @property
    def facts(self) -> dict[str, Any]:  # type: ignore[override]
        if self.setting.estimates_start:
            return {}
        found = self._candidates()
        return {"first_action": found[0][2] if len(found) == 1 else {str(s): b for s, _, b, _ in found}}

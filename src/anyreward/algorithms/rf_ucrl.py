"""RF-UCRL, reward-free UCRL (Kaufmann, Ménard, Darwiche Domingues, Jonsson, Leurent, Valko; ALT 2021, section 3).

Index, with steps h = 1 ... H as in the paper, sigma_k = 1 + gamma + ... + gamma^(k-1) and E_{H+1} = 0:

    E_h(s,a) = min( gamma sigma_{H-h},
                    gamma sigma_{H-h} sqrt(2 beta(n_h(s,a)) / n_h(s,a)) + gamma sum_s' p_hat_h(s'|s,a) max_b E_{h+1}(s',b) )
    beta(n)  = log(2 S A H / delta) + (S-1) log(e (1 + n/(S-1)))

Sampling   play argmax_a E_h(s,a).
Stopping   before the first episode at which max_a E_1(s_1,a) <= epsilon/2.
Planning   for any reward, backward induction on p_hat.

Guarantee (Lemma 1 and Theorem 1): on an event of probability at least 1 - delta/2 (`confidence`), at every time, E_1 bounds
|V_hat^pi(s_1; r) - V^pi(s_1; r)| for all policies and all rewards in [0, 1] at once; hence every plan made after the stop is
epsilon-optimal. The other half of delta serves the paper's bound on how long it takes.

Variants. Stationary (the paper's appendix): n and p_hat are pooled over the steps and log(2 S A / delta) suffices. Random start:
an extra state s_0 in front, E_0 = min(sigma_H, sigma_H sqrt(2 beta(t)/t) + sum_s P_hat_0(s) max_b E_1(s,b)),
one law more in beta.
Without clipping (`clip=False`, the variant of the paper's figures) the outer min is dropped; at n = 0 the bonus is then taken
with n = 1, that is gamma sigma sqrt(2 beta(0)) >= gamma sigma, which keeps the bound valid where the printed 1/0 would make all
indices infinite.

Why the schedule does not matter for correctness. The bound is a function of the counts, and the event it needs speaks of all
counts that any sampling rule can produce. Stale or unclipped indices change which episodes are played, never what is concluded
from them: `error_bound` is computed afresh from the counts.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from ..confidence import paper_rule
from ..index import Index
from ..setting import Setting
from .explorer import Explorer

if TYPE_CHECKING:
    from ..mdp import TabularMDP

SCHEDULES = ("every", "path", "geometric")


class RFUCRL(Explorer):
    """RF-UCRL as ask and tell.

    Parameters
    ----------
    replan
        When the index is brought up to date. `"every"`: a full backward pass after each episode, as in the paper.
        `"path"`: after each episode, only the entries that it visited, backwards; the cost does not depend on the number
        of states. `"geometric"`: a full pass whenever the number of episodes has grown by the factor `growth`; the policy
        is fixed in between, so on a known model a whole stretch is played at once, exactly in law (`kernels.simulate.walk`).
    ties
        `"random"`: one of the maximisers, drawn anew whenever the index is brought up to date; or `"first"`.
    setting, delta, bounds, clip, seed, growth
        See `Explorer`.
    """

    def __init__(self, setting: Setting, *, replan: str = "path", ties: str = "random", **options: Any) -> None:
        super().__init__(setting, **options)
        if replan not in SCHEDULES:
            raise ValueError(f"replan is {replan!r}: it has to be one of {', '.join(map(repr, SCHEDULES))}.")
        if ties not in ("random", "first"):
            raise ValueError(f"ties is {ties!r}: it has to be 'random' or 'first'.")
        self.replan, self.ties = replan, ties
        self._schedule = SCHEDULES.index(replan)
        self._index = Index(self.counts, paper_rule(setting, self.delta, self.clip))
        self._planned_at = 0
        # A stream of its own: the environment's draws, seeded by the same number, are independent of the ties.
        word = np.random.SeedSequence(self.seed, spawn_key=(1,)).generate_state(1, np.uint64)[0] | np.uint64(1)
        self._seed_key = int(word) if ties == "random" else 0

    def ask(self) -> np.ndarray:
        """The greedy policy of the index, (H, S)."""
        return self._index.policy(self._episode_key)

    def _learn(self, states: np.ndarray, actions: np.ndarray) -> None:
        self._index.learn(states, actions, self._schedule)
        if self.replan != "geometric":
            self._planned_at = self.episodes
        elif self.episodes >= self._next_pass:
            self._pass()

    def advance(self, mdp: TabularMDP, rng: np.random.Generator, episodes: int, goal: float) -> bool:
        """Plays on a known model at compiled speed; under "every", the same decisions as with `ask` and `tell`."""
        if self.replan == "geometric":
            self._index.walk(mdp, rng, min(episodes, self._next_pass - self.episodes), self._episode_key)
            if self.episodes >= self._next_pass:
                self._pass()
            return False
        arrived = self._index.run(mdp, rng, episodes, goal, self._schedule, self._seed_key)
        self._planned_at = self.episodes
        if arrived and self.error_bound > goal:  # by a stale entry, or by the last bit: not there yet
            arrived = False
            self._pass()
        return arrived

    def _pass(self) -> None:
        self._index.plan()
        self._planned_at = self.episodes

    @property
    def _next_pass(self) -> int:
        return max(self._planned_at + 1, ceil(self._planned_at * self.growth))

    @property
    def _episode_key(self) -> int:
        return kernels.greedy.episode_key(np.uint64(self._seed_key), self._planned_at)

    @property
    def index(self) -> np.ndarray:
        """E of every pair as the sampling rule sees it, (H, S, A): exact under "every", as stale as it is otherwise."""
        return self._index.dense()

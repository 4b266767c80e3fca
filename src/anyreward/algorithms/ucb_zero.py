"""UCBZero (Zhang, Ma & Singla 2020): explores without a reward and without a model, for N rewards that are given later.

At the t-th visit of (h, s, a), going to s' (steps from 0; visits are by step, in a stationary setting too):

    W_h(s,a) <- (1 - alpha) W_h(s,a) + alpha (min(H-1-h, max_b W_{h+1}(s',b)) + 2 b_t),    alpha = (H+1) / (H+t)
    b_t      = scale (H-1-h) sqrt(H iota / t),    iota = log(2 S A H K N / delta);    W_h = H-h before any visit

Sampling         play argmax_a W. An episode costs O(H), whatever the size of the problem.
Recommendation   for a reward r, the *history policy* pi^k (`recommend`, `history_policy`). Replay the episodes through optimistic
                 Q-learning with r and the bonus b_t, which gives Q^k before episode k. In (h, s) take a = argmax_a Q^k_h(s,a); if
                 (h, s, a) had t visits before episode k, in the episodes k_1 < ... < k_t, go on as pi^{k_i} with i drawn with
                 probability alpha_i prod_{j > i} (1 - alpha_j).

Guarantee, derived here (`docs/theory.md`, 24.1): with probability at least 1 - delta, for N rewards in [0, 1] that were fixed
without looking at the data, and for all k <= K + 1 at once,

    V* - V^{pi^k} <= W^k_0(s_1);    `own_epsilon` is the smallest W^k_0(s_1) so far, for the *history policy* of that k

with the proven bonus, scale = 1, and K and N fixed beforehand. The policy needs every episode in its order (`explore(...,
record=True)`). It says nothing of plans on the counts, whose certificate is as always. On the double chain it says less than the
horizon below some billion episodes.

The exploring bonus is twice that of the replay, as in a public implementation, whose H^3 + iota in place of H^3 iota is a slip.
The constants and the bound are ours; the original has K of order log N H^5 S A / epsilon^2. Without a reward, the policy depends
on `scale` only through where W is cut off: with a small one, such as 0.001, it is one of the best samplers there are. No
discount."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from math import log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import checked_array
from ..data.counts import Counts
from ..rewards.forms import UNIT, ArrivalReward, Reward, reward_of_setting
from ..setting import Setting, whole_number
from .explorer import transitions
from .opt_qlearning import QLearningIndex
from .optimistic import OptimisticExplorer
from .registry import make_explorer, register

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..atlas.atlas import Atlas


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
    guarantee = "for N rewards fixed beforehand, its history policy loses at most min_k W^k"
    status = "certified"
    reference = "Zhang et al. 2020"
    certifies = "history policy"
    supports_discount = False
    needs_budget = True
    proved = True

    def __init__(self, setting: Setting, *, budget: int | None = None, tasks: int = 1, **options: Any) -> None:
        self.transitions, self.tasks = transitions(budget, setting, "UCBZero"), whole_number(tasks, "tasks")
        if self.tasks < 1:
            raise ValueError(f"tasks is {self.tasks}: it has to be at least 1.")
        super().__init__(setting, **options)

    def rule(self) -> QLearningIndex:
        setting = self.setting
        iota = log(2 * setting.n_outcomes * setting.n_actions * self.transitions * self.tasks / self.delta)
        return QLearningIndex(float(self.scale), iota, True, np.array([float(setting.horizon), 0.0]), 2.0)

    @property
    def _claims(self) -> bool:
        """Whether the proof is about this: known start, nothing declared of pairs, its own constants, and no more than K."""
        within = self.episodes * self.setting.horizon <= self.transitions
        return within and not self.heuristic and not self.setting.estimates_start and not len(self.counts.table.known)

    @property
    def own_epsilon(self) -> float | None:
        """The least W_0(s_1) so far, for the history policy of each of the N rewards; None where nothing is proved."""
        if not self._claims:
            return None
        self.counts.check_start()
        return min(float(self.setting.horizon), float(self._rule.least[0]) * (1 + 1e-9))

    def recommend(self, reward: Reward, states: ArrayLike, actions: ArrayLike) -> HistoryPolicy:
        """The history policy for a reward with values in [0, 1], from all episodes in their order, (B, H+1) and (B, H).

        Of the k with the least W, which is what `own_epsilon` is about if this is one of the N rewards.
        """
        rows = self.counts.checked(states, actions)
        mine, again = self.counts.columns(), Counts(self.setting)
        again.add_episodes(*rows)
        theirs = again.columns()
        if any(not np.array_equal(mine[name], theirs[name]) for name in ("h", "s", "a", "next", "count")):
            raise ValueError("these are not the episodes that it has learnt from: give all of them, in their order.")
        given = reward_of_setting(reward, self.setting, UNIT)
        if isinstance(given, ArrivalReward):
            raise ValueError("a reward on arrival does not suit UCBZero: give one of step, state and action.")
        until = int(self._rule.least[1])
        return HistoryPolicy(np.asarray(given, float), rows[0][:until], rows[1][:until], self.scale, self._rule.iota)

    def state(self) -> dict[str, np.ndarray]:
        return {**super().state(), "least": self._rule.least.copy()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        self._rule.least[:] = checked_array(state["least"], float, (2,), "its least value is", 0)


class HistoryPolicy:
    """A policy that goes on as it would have done before some past episode, drawn anew at every step.

        from anyreward.algorithms.ucb_zero import history_policy

        atlas = anyreward.explore(env, horizon=20, max_episodes=50, algorithm="ucb-zero", record=True)
        policy = history_policy(atlas, reward)

    What it does depends on (h, s) and on the episode k that it is at, so it is no (H, S) array: `draw` gives an actor for one
    episode.

    Parameters
    ----------
    reward
        (H, S, A), in [0, 1].
    states, actions
        The episodes before the one that it begins with, (B, H+1) and (B, H).
    scale, iota
        Of the bonus.
    """

    def __init__(self, reward: np.ndarray, states: np.ndarray, actions: np.ndarray, scale: float, iota: float) -> None:
        H, S, A = reward.shape
        self.horizon, self.episodes = H, len(states)
        self._visits: dict[tuple[int, int, int], list[int]] = {}  # of each pair, in which episodes
        self._greedy: dict[tuple[int, int], tuple[list[int], list[int]]] = {}  # from which episode on which action is the best
        left = H - np.arange(H, dtype=float)
        Q, V = np.tile(left[:, None, None], (1, S, A)), np.tile(left[:, None], (1, S))
        for k in range(len(states)):
            ahead = [V[h + 1, states[k, h + 1]] if h + 1 < H else 0.0 for h in range(H)]
            for h in range(H):
                s, a = int(states[k, h]), int(actions[k, h])
                past = self._visits.setdefault((h, s, a), [])
                past.append(k)
                t = len(past)
                alpha, b = (H + 1) / (H + t), scale * (H - 1 - h) * sqrt(H * iota / t)
                Q[h, s, a] += alpha * (reward[h, s, a] + ahead[h] + b - Q[h, s, a])
                V[h, s] = min(H - h, Q[h, s].max())
                since, best = self._greedy.setdefault((h, s), ([], []))
                since.append(k + 1)
                best.append(int(Q[h, s].argmax()))

    def action(self, k: int, h: int, s: int) -> int:
        """argmax_a Q^k_h(s,a), the first of several, for the Q before episode k (from 0)."""
        since, best = self._greedy.get((h, s), ([], []))
        i = bisect_left(since, k + 1)
        return best[i - 1] if i else 0

    def before(self, k: int, h: int, s: int, a: int) -> list[int]:
        """The episodes before k that visited (h, s, a)."""
        past = self._visits.get((h, s, a), [])
        return past[: bisect_left(past, k)]

    def draw(self, rng: np.random.Generator) -> Callable[[int, int], int]:
        """How to play one episode: a function of step and state, to be asked at every step from the first on.

        Example:

            from anyreward.algorithms.ucb_zero import history_policy

            atlas = anyreward.explore(env, horizon=20, max_episodes=50, algorithm="ucb-zero", record=True)
            act = history_policy(atlas, reward).draw(np.random.default_rng(0))
            action = act(0, 15)                             # at step 0 in state 15
        """
        k, H = self.episodes, self.horizon

        def act(h: int, s: int) -> int:
            nonlocal k
            a = self.action(k, h, s)
            past = self.before(k, h, s, a)
            i = len(past)
            while i > 1 and rng.random() >= (H + 1) / (H + i):
                i -= 1
            k = past[i - 1] if i else 0
            return a

        return act


def history_policy(atlas: Atlas, reward: Reward) -> HistoryPolicy:
    """The history policy for a reward, from an atlas that was explored by "ucb-zero" with `record=True`.

        from anyreward.algorithms.ucb_zero import history_policy

        atlas = anyreward.explore(env, horizon=20, max_episodes=50, algorithm="ucb-zero", record=True)
        policy = history_policy(atlas, reward)

    It loses at most `atlas.source["own"]["epsilon"]` if that is a number and this is one of the rewards fixed beforehand.
    """
    source, recording = atlas.source, atlas.recording
    if source.get("algorithm") != UCBZero.name or recording is None or len(atlas.recorded) != 1:
        raise ValueError("this atlas has no episodes of UCBZero: explore with algorithm='ucb-zero' and record=True.")
    options = {"delta": atlas.certificate.delta, **source["options"]}
    explorer = make_explorer(UCBZero, atlas.counts.setting, options)
    assert isinstance(explorer, UCBZero)
    states, actions = (np.asarray(part, np.int64) for part in recording[:2])
    explorer.tell(states, actions)
    return explorer.recommend(reward, states, actions)

"""From regret to a best policy: two conversions of a regret minimiser.

`regret-uniform` (Jin et al. 2018, section 3.1). Run K episodes and recommend one of the K policies that were played, uniformly
at random. Its expected loss is Regret(K)/K, so by Markov's inequality it loses more than epsilon with probability at most
Regret(K)/(K epsilon).

`regret-instances` (Kaufmann et al. 2021, last appendix). M independent runs of K episodes, one policy of each as above, N fresh
episodes to evaluate each, and the best average is recommended:

    M = ceil(log2(2/delta)),   delta' = delta/2,   epsilon_0 = epsilon/2,   epsilon' = (epsilon - epsilon_0)/2,
    N = ceil(sigma_H^2 / (2 epsilon'^2) log((M+1)/delta')).

Guarantee: if Regret(K)/K <= epsilon_0/2, each run finds an epsilon_0-optimal policy with probability at least 1/2, so one of
them does with probability 1 - delta/2; on the event of the evaluation, of probability 1 - delta', the winner is within 2
epsilon' of it. (The paper's log(M/delta') is enough: one event for the best policy, one for each other. M+1 is on the safe
side.)

What is known of Regret(K): for UCB-VI with Hoeffding's bonus in a stationary setting, 20 H^1.5 L sqrt(S A K) + 250 H^2 S^2 A
L^2 with probability 1 - delta_r (Azar et al. 2017, Theorem 1, from memory: a half of what Markov's inequality may fail by is
spent on it); S is S H by step. `own_loss` is what this gives for the K episodes there are: at laptop budgets, no better than
the horizon.
"""

from __future__ import annotations

from math import ceil, log, log2, sqrt
from typing import Any, NamedTuple

import numpy as np

from ..rewards.forms import UNIT, Reward, checked_range
from ..setting import Setting, positive, probability
from .explorer import Learning, Policies, Request, RewardedExplorer, transitions
from .registry import register
from .ucbvi import UCBVI

CHUNK = 1_000


class Instances(NamedTuple):
    """The sizes of the second conversion."""

    runs: int  # M
    evaluations: int  # N, for each policy
    epsilon_run: float  # epsilon_0
    epsilon_evaluate: float  # epsilon'
    delta_evaluate: float  # delta'


def instances_for(setting: Setting, epsilon: float, delta: float) -> Instances:
    """M, N, epsilon_0, epsilon' and delta' for a target."""
    epsilon, delta = positive(epsilon, "epsilon"), probability(delta, "delta")
    M = ceil(log2(2 / delta))
    N = ceil(float(setting.sigma[-1]) ** 2 / (2 * (epsilon / 4) ** 2) * log((M + 1) / (delta / 2)))
    return Instances(M, N, epsilon / 2, epsilon / 4, delta / 2)


def ucbvi_regret(setting: Setting, episodes: int, delta: float) -> float:
    """A bound on the regret of UCB-VI with Hoeffding's bonus that holds with probability 1 - delta; K `episodes`."""
    H, A, K = setting.horizon, setting.n_actions, episodes
    S = setting.n_outcomes * (1 if setting.stationary else H)
    L = log(5 * H * S * A * K * H / delta)
    return 20 * H**1.5 * L * sqrt(S * A * K) + 250 * H**2 * S**2 * A * L**2


@register("regret-uniform")
class RegretUniform(RewardedExplorer):
    """A policy drawn uniformly among those that UCB-VI played; `budget` is K, the other options are UCB-VI's."""

    goal = "best policy"
    guarantee = "its recommendation Regret(K)/(K delta)-optimal"
    status = "proved, vacuous at small budgets"
    reference = "Jin et al. 2018"
    needs_budget = True
    batches = False  # which episode was played by which policy matters
    supports_discount = False
    resumable = False  # its runs are not kept
    proved = True
    runs = 1

    def __init__(
        self, setting: Setting, reward: Reward = None, *, budget: int | None = None, bonus: str = "hoeffding", scale: float = 1.0,
        **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(setting, reward, **options)
        self._given = self.reward[0] if len(self.reward) == 1 else self.reward
        self.budget = transitions(budget, setting, type(self).__name__) // setting.horizon
        self.scale, self.heuristic, self.bonus = scale, scale != 1.0, bonus
        self.episodes_each = self._episodes_each()
        self._minimiser: dict[str, Any] = {"budget": self.episodes_each, "bonus": bonus, "scale": scale, "bounds": "paper"}
        self._minimiser["delta"] = self.regret_delta
        self._inner: UCBVI | None = None
        draws = np.random.default_rng([self.seed, 13])
        self._chosen_at = draws.integers(self.episodes_each, size=self.runs)  # which of the policies played, for each run
        self.policies: list[np.ndarray] = []
        self.returns, self._turns = np.zeros(self.runs), np.zeros(self.runs)  # in all, over so many episodes
        self._run()  # says so if an option does not suit it

    def _episodes_each(self) -> int:
        return self.budget

    @property
    def regret_delta(self) -> float:
        """With which probability the bound on the regret of a run may fail."""
        return self.delta / 2

    @property
    def _exploring(self) -> int:
        """Episodes of the runs, before any evaluation."""
        return self.runs * self.episodes_each

    def _run(self) -> UCBVI:
        if self._inner is None:
            number = self.episodes // self.episodes_each
            self._inner = UCBVI(self.setting, self._given, seed=self.seed * self.runs + number, **self._minimiser)
        return self._inner

    def ask(self) -> np.ndarray:
        """The policy of the next episode, (H, S): the minimiser's, or one that is evaluated."""
        if self.episodes < self._exploring:
            return self._run().ask()
        return self.policies[(self.episodes - self._exploring) % self.runs].copy()

    def _learn(self, states: np.ndarray, actions: np.ndarray) -> None:
        for b in range(len(states)):
            episode = states[b : b + 1], actions[b : b + 1]
            if self.episodes < self._exploring:
                self._keep_if_chosen()
                self._run()._learn(*episode)
                self._count_played(1)
            else:
                self._evaluate(self._turn(1), *episode)
            self.counts.add_episodes(*episode)

    def ask_many(self, episodes: int, goal: float) -> Request:
        episodes = min(episodes, self.per_call)
        if self.episodes >= self._exploring:
            return Policies(np.stack(self.policies)[self._turn(min(episodes, CHUNK))])
        self._keep_if_chosen()
        run, k = divmod(self.episodes, self.episodes_each)
        ahead = int(self._chosen_at[run]) - k
        count = min(episodes, self.episodes_each - k, ahead if ahead > 0 else CHUNK, CHUNK)
        return Learning(self._run(), count, written="episodes")

    def tell_many(self, request: Request, *outcome: np.ndarray) -> None:
        states, actions = outcome
        if isinstance(request, Learning):
            self._count_played(len(states))
        else:
            self._evaluate(self._turn(len(states)), states, actions)
        self.counts.add_episodes(states, actions)

    def _turn(self, episodes: int) -> np.ndarray:
        """Which of the policies is evaluated in each of the next episodes."""
        return (self.episodes - self._exploring + np.arange(episodes)) % self.runs

    def _count_played(self, episodes: int) -> None:
        """The run under way has learnt from so many episodes; if it is over, the next one begins."""
        if self.episodes % self.episodes_each + episodes == self.episodes_each:
            self._inner = None

    def _keep_if_chosen(self) -> None:
        """Keeps the policy of the next episode if it is the one that was drawn for its run."""
        run, k = divmod(self.episodes, self.episodes_each)
        if k == self._chosen_at[run] and len(self.policies) == run:
            self.policies.append(self.ask())

    def _evaluate(self, turns: np.ndarray, states: np.ndarray, actions: np.ndarray) -> None:
        """Adds what episodes paid to the policies whose turn it was."""
        H = self.setting.horizon
        steps = np.minimum(np.arange(H), len(self.reward) - 1)
        paid = self.reward[steps, states[:, :-1], actions] @ self.setting.discount ** np.arange(H)
        np.add.at(self.returns, turns, paid)
        np.add.at(self._turns, turns, 1.0)

    @property
    def recommendation(self) -> np.ndarray | None:  # type: ignore[override]
        """The policy that is recommended, (H, S), once there is one."""
        return self.policies[0].copy() if self.policies else None

    @property
    def _proved(self) -> bool:
        """Whether the bound on the regret applies: Hoeffding's bonus as it is, and a known start, whose draws it leaves out."""
        return not self.heuristic and self.bonus == "hoeffding" and self.setting.initial_state is not None

    @property
    def own_loss(self) -> float | None:
        """What Markov's inequality and the bound on the regret give, once the run is over."""
        if not self._proved or self.episodes < self._exploring:
            return None
        regret = ucbvi_regret(self.setting, self.episodes_each, self.regret_delta)
        return float(min(self.setting.sigma[-1], regret / (self.episodes_each * self.delta / 2)))


@register("regret-instances")
class RegretInstances(RegretUniform):
    """The best of M policies, one of each of M runs of UCB-VI, by N fresh episodes each.

    With a `target`, N is what the proposition says for that epsilon (`instances_for`) and the runs share the rest of the
    `budget`. Without, the share `evaluation` of it is spent on evaluating. The other options are UCB-VI's.
    """

    guarantee = "its recommendation epsilon-optimal if Regret(K)/K is small enough"
    status = "proved, vacuous at small budgets"
    reference = "Kaufmann et al. 2021, last appendix"

    def __init__(
        self,
        setting: Setting,
        reward: Reward = None,
        *,
        delta: float = 0.1,
        evaluation: float = 0.5,
        target: float | None = None,
        reward_range: tuple[float, float] = UNIT,
        **options: Any,
    ) -> None:
        self.evaluation = probability(evaluation, "evaluation")
        low, high = checked_range(reward_range)
        self.target = None if target is None else instances_for(setting, positive(target, "target") / (high - low), delta)
        self.runs = ceil(log2(2 / probability(delta, "delta")))
        super().__init__(setting, reward, delta=delta, reward_range=reward_range, **options)

    @property
    def regret_delta(self) -> float:
        return 0.25

    def _episodes_each(self) -> int:
        if self.target is None:
            return max(1, int(self.budget * (1 - self.evaluation)) // self.runs)
        left = self.budget // self.runs - self.target.evaluations
        if left < 1:
            needed = self.runs * (self.target.evaluations + 1)
            raise ValueError(f"budget is {self.budget}: evaluating {self.runs} policies for that target takes {needed} at least.")
        return left

    @property
    def evaluations(self) -> int:
        """N so far: how often every policy has been evaluated."""
        return max(0, self.episodes - self._exploring) // self.runs

    @property
    def recommendation(self) -> np.ndarray | None:  # type: ignore[override]
        """The policy with the best average return, (H, S), once all were evaluated."""
        return self.policies[int((self.returns / self._turns).argmax())].copy() if self.evaluations else None

    @property
    def own_loss(self) -> float | None:
        """epsilon_0 + 2 epsilon' for the episodes there were."""
        N = self.evaluations
        if not self._proved or N == 0:
            return None
        sigma, delta = float(self.setting.sigma[-1]), self.delta / 2
        # each run: regret at most R with probability 3/4, and then a loss of at most 4 R / K with probability 3/4
        loss = 4 * ucbvi_regret(self.setting, self.episodes_each, self.regret_delta) / self.episodes_each
        width = sigma * sqrt(log((self.runs + 1) / delta) / (2 * N))
        return float(min(sigma, loss + 2 * width))

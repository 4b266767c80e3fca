"""BPI-UCRL for several rewards on the same counts.

For rewards r_1, ..., r_N in [0, 1] let V_up^i and V_lo^i be the upper and lower values of BPI-UCRL (`bpi_ucrl.py`) for r_i, all
over the same KL balls.

Sampling         play argmax_a Q_up^i_h(s,a) for the reward i whose interval V_up^i - V_lo^i at the start is widest.
Stopping         before the first episode at which V_up^i - V_lo^i <= epsilon at the start for every i.
Recommendation   for each i, argmax_a Q_lo^i_h(s,a): what `Atlas.plan(r_i, cautious=True)` returns.

Guarantee: on the event that all laws lie in their balls, of probability at least 1 - delta, at every time and for every i,
V_lo^i <= value of its recommendation <= V*_i <= V_up^i at the start. The event mentions no reward, so that delta is not shared
among them (`docs/theory.md`, 20.1). With one reward this is BPI-UCRL, episode for episode.

If it is only observed what the environment itself pays, `"own"`, half of delta is for the balls and half for the means of its
rewards, of which nothing is assumed but their range.

On visited nodes all bounds are brought up to date after every episode. If a reward is paid on arrival or observed, if pairs share
laws, or for mixtures, they are computed by robust planning in all states, whenever the episodes have grown by `growth`.

With `mixtures` the same is wanted for all convex mixtures of the rewards. The mixture whose interval is the widest of those that
were looked at is played for, and it stops when all mixtures are certified (`certificates.mixtures`).
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from .._checks import checked_array
from ..certificates.bounds import relevant_laws
from ..certificates.certificate import Certificate
from ..certificates.given import GivenBounds, certificate_of_given, margin_of
from ..certificates.mixtures import Mixtures
from ..data.counts import Counts
from ..rewards.forms import UNIT, ArrivalReward, Reward, checked_range, to_unit
from ..rewards.given import Given, given_rewards
from ..rewards.observed import ObservedRewards
from ..setting import Setting, boolean
from .bpi_ucrl import BPIUCRL
from .explorer import IndexExplorer, Policies, Request
from .registry import register
from .value_bounds import NODES, ROWS, ValueBounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from ..kernels.several import SeveralLearner

BY_REWARD = ("known", "peak", "order", "least", "order_least")  # what is known of a reward and differs between them


@register("multi-bpi")
class MultiBPI(IndexExplorer):
    """BPI-UCRL for several known rewards; `explore` takes it if it is given `rewards`.

    Parameters
    ----------
    reward
        The reward, if there is one only.
    rewards
        A list of rewards, each in any form that a reward can have (`rewards.forms`).
    mixtures
        Whether all convex mixtures of the rewards are meant.
    reward_range
        The range of all rewards, (0, 1) unless it is given. epsilon is in the units of the rewards.
    setting, delta, bounds, max_successors, seed, growth, ties
        See `Explorer` and `IndexExplorer`. `bounds="tight"` is used without transfer.
    """

    goal = "several rewards"
    needs_reward = True
    guarantee = "for every given reward a plan that is epsilon-optimal at the stop"
    reference = "Kaufmann et al. 2021"
    proved = True
    continues = True
    handles_masks = True
    per_call = 1_000

    def __init__(
        self,
        setting: Setting,
        reward: Reward = None,
        *,
        rewards: Sequence[Reward] | None = None,
        mixtures: bool = False,
        reward_range: tuple[float, float] = UNIT,
        **options: Any,
    ) -> None:
        if reward is None and rewards is None:
            raise ValueError("reward is not given: MultiBPI needs one, or a list of several.")
        if reward is not None and rewards is not None:
            raise ValueError("reward is given together with a list of rewards: leave it out.")
        super().__init__(setting, **options)
        self.reward_range = checked_range(reward_range)
        self.given = given_rewards([reward] if rewards is None else rewards, setting, self.reward_range)
        self.paid = ObservedRewards() if any(one.observed for one in self.given) else None
        one = BPIUCRL(setting, self.given[0].reward, reward_range=self.reward_range, **options)  # which checks the options
        self.bound, self.counts = one.bound, one.counts
        self.reward = self.given[0].reward if len(self.given) == 1 and self.paid is None else None
        self.mixtures = boolean(mixtures, "mixtures") and len(self.given) > 1
        if boolean(mixtures, "mixtures") and rewards is None:
            raise ValueError("mixtures is True, but there is one reward only: give several, or leave it out.")
        if self.mixtures and self.paid is not None:
            raise ValueError("mixtures is True, but what 'own' pays is only observed: leave out one of them.")
        self._mixed: tuple[Any, Mixtures] | None = None  # likewise
        self._margin = margin_of(setting, self.reward_range)
        self._found: tuple[Any, GivenBounds] | None = None  # with the revision of the counts that it is of
        on_arrival = any(isinstance(each.reward, ArrivalReward) for each in self.given)
        self._everywhere = on_arrival or setting.structure is not None or self.mixtures or self.paid is not None
        if self._everywhere:
            self._plan_everywhere()
        else:
            self._constants = one._make_constants()
            self._prepare([self._pay(each) for each in self.given])

    def _pay(self, given: Given) -> np.ndarray:
        """A reward on the scale on which its range is [0, 1], (1 or H, n_outcomes, A)."""
        reward = np.asarray(given.reward)
        return np.array(to_unit(reward[:1] if (reward == reward[:1]).all() else reward, self.reward_range))

    def _prepare(self, pays: list[np.ndarray]) -> None:
        """Makes the bounds of all rewards, whose arrays are parts of the same few."""
        steps = max(map(len, pays))
        pays = [np.repeat(pay, steps // len(pay), axis=0) for pay in pays]
        self._values = [ValueBounds(self.counts, self._constants, "known", pay) for pay in pays]
        each, R = [values.bound_arrays for values in self._values], len(pays)
        stacked = {name: np.stack([getattr(one, name) for one in each]) for name in each[0]._fields if name != "radius"}
        self._spread(each[0]._replace(**stacked))
        known = [values.rewards for values in self._values]
        differing: dict[str, Any] = {name: np.stack([getattr(one, name) for one in known]) for name in BY_REWARD}
        self._known = known[0]._replace(**differing)
        self._played = kernels.several.Played(np.zeros_like(each[0].Q), np.zeros_like(each[0].settled))
        self._prior, self._width, self._widest = np.zeros_like(pays[0]), np.zeros(R), np.full(1, -1)
        self._priors: tuple[int, np.ndarray] = -1, np.zeros((0, *pays[0].shape))

    def _spread(self, bounds: Any) -> None:
        """Lets the bounds of each reward be its part of these arrays."""
        self._stack = bounds
        for i, values in enumerate(self._values):
            parts = {name: array if name == "radius" else array[i] for name, array in bounds._asdict().items()}
            values.bound_arrays = bounds._replace(**parts)

    def _fit(self) -> None:
        """Enlarges the arrays to the capacity of the table of counts."""
        if self._stack.V.shape[-1] < self.counts.capacity:
            self._spread(self.counts.fitted(self._stack, rows=ROWS, nodes=NODES))
            self._played = self.counts.fitted(self._played, rows=("Q",), nodes=("settled",))
            for values in self._values:
                values.fit_rewards()

    def _fit_to_new_counts(self) -> None:
        """Lets all bounds be about the present counts, which are not those that they were made for."""
        for values in self._values:
            values.counts = self.counts
        self._fit()
        self._widest[0], self._priors = -1, (-1, self._priors[1])

    @property
    def formulas(self) -> Any:
        return self._constants

    def learner(self) -> SeveralLearner:
        self._fit()
        if self._priors[0] != self.counts.outdating_declarations:  # actions may have turned out to be illegal
            self._priors = self.counts.outdating_declarations, np.stack([values.prior for values in self._values])
            self._widest[0] = -1
        learner = kernels.several.SeveralLearner(
            self._played, self._prior, self.setting.n_actions, self._stack, self._known, self._priors[1], self._constants,
            self._width, self._widest, self._values[0].gaps,
        )  # fmt: skip
        kernels.several.prepare(learner, self.counts.table)
        return learner

    def _catch_up(self) -> None:
        """Brings the bounds up to date with what was declared since they were computed."""
        if self._everywhere:
            if self.counts.outdating_declarations != self._outdating_declarations or self._is_due:
                self._plan_everywhere()
            return
        for values in self._values:
            if values.outdated_by_declarations():
                values.sweep()

    @property
    def _is_due(self) -> bool:
        """Whether to plan everywhere again, once episodes have grown by `growth`."""
        return self.episodes >= max(self._scheduled_at + 1, ceil(self._scheduled_at * self.growth))

    def _plan_everywhere(self) -> None:
        """Lets the index be that of the reward, or mixture, that is widest now."""
        if self.mixtures:
            self._weights, self._to_play = self.mixed.widest, self.mixed.index()
        else:
            widest = int(self.found.widths.argmax())
            self._weights, self._to_play = np.eye(len(self.given))[widest], self.found.ends[widest][0]
        self._scheduled_at = self.episodes
        self._outdating_declarations = self.counts.outdating_declarations

    @property
    def found(self) -> GivenBounds:
        """What the present counts prove for the given rewards."""
        now = self.counts.revision
        if self._found is None or self._found[0] != now:
            self._found = now, GivenBounds(self.counts, self.bound, self.delta, self.given, self.reward_range, self.paid)
        return self._found[1]

    @property
    def mixed(self) -> Mixtures:
        """What the present counts prove for all mixtures."""
        now = self.counts.revision
        if self._mixed is None or self._mixed[0] != now:
            self._mixed = now, Mixtures(self.found).refine()
        return self._mixed[1]

    @property
    def phase(self) -> str:  # type: ignore[override]
        """The reward whose interval is widest, or the mixture."""
        weights = self._weights if self._everywhere else np.eye(len(self.given))[max(0, int(self._widest[0]))]
        parts = [one.name if w == 1.0 else f"{w:.2g} {one.name}" for w, one in zip(weights, self.given, strict=True) if w]
        return "" if len(self.given) == 1 else f"widest: {' + '.join(parts)}"

    @property
    def finished(self) -> bool:  # type: ignore[override]
        """Whether the data contradict the structure, so that nothing will ever be certified with it."""
        return self.setting.structure is not None and self.counts.shared.refuted

    def greedy_policy(self, key: np.uint64) -> np.ndarray:
        """The policy that is greedy for the upper values of what is played for, (H, S), with ties broken under a key."""
        return kernels.greedy.greedy_of(self._to_play, key) if self._everywhere else super().greedy_policy(key)

    def ask_many(self, episodes: int, goal: float) -> Request:
        if self._everywhere:
            return Policies(self.ask()[None])
        low, high = self.reward_range
        return super().ask_many(episodes, (2 * goal - self._margin) / (high - low))

    def tell_many(self, request: Request, *outcome: np.ndarray) -> None:
        if isinstance(request, Policies):
            self.tell(*outcome)

    @property
    def observes_rewards(self) -> bool:  # type: ignore[override]
        return self.paid is not None

    def tell(self, states: ArrayLike, actions: ArrayLike, rewards: ArrayLike | None = None) -> None:
        """Learns from an episode, or a batch of them, with what was paid, (H,) or (B, H), if `"own"` is observed."""
        states, actions = self.counts.checked(states, actions)
        if self.paid is None:
            self._learn(states, actions)
            return
        if rewards is None:
            raise ValueError("rewards are missing: tell(states, actions, rewards) needs them unless they are known.")
        paid, (low, high) = np.asarray(rewards, dtype=float), self.reward_range
        if paid.size != actions.size:
            raise ValueError(f"rewards have shape {paid.shape}: they have to be like actions, {actions.shape}.")
        paid = paid.reshape(actions.shape)
        b, h = np.nonzero(~np.isin(states[:, :-1], self.counts.stays()))  # nothing is paid after an end
        wrong = np.flatnonzero(~((paid[b, h] >= low) & (paid[b, h] <= high)))
        if len(wrong):
            raise ValueError(
                f"step {h[wrong[0]]} paid {paid[b, h][wrong[0]]:g}: it has to be in [{low:g}, {high:g}]. "
                "Pass reward_range=(lowest, highest), the range of what can be paid."
            )
        self.paid.add_many(b, np.stack([h, states[b, h], actions[b, h], states[b, h + 1]], axis=1), paid[b, h])
        self._learn(states, actions)

    def _learn(self, states: np.ndarray, actions: np.ndarray, payments: np.ndarray | None = None) -> None:
        if not self._everywhere:
            super()._learn(states, actions)
            return
        self.counts.add_episodes(states, actions)
        if self._is_due:
            self._plan_everywhere()

    def reached(self, goal: float) -> bool:
        if self._everywhere:  # it is looked at when it is planned again
            if self._scheduled_at != self.episodes:
                return False
            if self.mixtures and goal >= 0:
                self.mixed.refine(2 * goal)
            return self.error_bound <= goal
        low, high = self.reward_range
        return bool(self._width.max() * (high - low) <= 2 * goal) and self.error_bound <= goal

    @property
    def error_bound(self) -> float:
        """Half of the widest upper - lower of the given rewards, or of a bound on that of all their mixtures."""
        return (self.mixed if self.mixtures else self.found).epsilon / 2

    @property
    def own_epsilon(self) -> float | None:
        return 2 * self.error_bound

    @property
    def recommendation(self) -> np.ndarray | None:  # type: ignore[override]
        """With one reward, the policy that is greedy for its lower values, (H, S)."""
        return self.found.ends[0][2].argmax(axis=2) if len(self.given) == 1 else None

    def certificate(self, epsilon: float | None = None) -> Certificate:
        """What is certified for the given rewards: each has a plan that is `epsilon`-optimal."""
        mixed = self.mixed.epsilon if self.mixtures else None
        return certificate_of_given(self.found, self.delta, self.bound, epsilon, self.reward_range, mixed)

    def go_on_from(self, counts: Counts) -> None:
        if self.paid is not None:
            raise ValueError("the reward 'own' is only observed: data from elsewhere cannot be gone on from.")
        super().go_on_from(counts)
        self._found = self._mixed = None
        if self._everywhere:
            self._plan_everywhere()
            return
        self._fit_to_new_counts()
        radii = self.bound.kl_radii(counts, self.delta)
        for values in self._values:
            values.begin_with(counts, radii)

    def state(self) -> dict[str, np.ndarray]:
        self._catch_up()
        state = super().state()
        if self._everywhere:
            own = {} if self.paid is None else {f"own.{name}": array for name, array in self.paid.arrays().items()}
            at = np.array([self._scheduled_at])
            return {**state, **own, "upper": self._to_play, "scheduled_at": at, "weights": self._weights}
        parts = enumerate(values.state() for values in self._values)
        return {**state, **{f"{name}.{i}": array for i, part in parts for name, array in part.items()}}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        self._found = self._mixed = None
        if self.paid is not None:
            self.paid = ObservedRewards.from_arrays(state["own.keys"], state["own.values"], self.setting)
            self.paid.check(self.counts.columns(), self.setting.stationary, self.counts.stays())
        if self._everywhere:
            self._to_play = checked_array(state["upper"], float, self._to_play.shape, "its index is")
            self._weights = checked_array(state["weights"], float, self._weights.shape, "its index is", 0.0, 1.0)
            at = checked_array(state["scheduled_at"], np.int64, (1,), "its schedule is", 0, self.episodes)
            self._scheduled_at = int(at[0])
            self._outdating_declarations = self.counts.outdating_declarations
            return
        self._fit_to_new_counts()
        radii = self.bound.kl_radii(self.counts, self.delta)
        for i, values in enumerate(self._values):
            end = f".{i}"
            values.restore(self.counts, {key.removesuffix(end): array for key, array in state.items() if key.endswith(end)})
            values.check(radii if relevant_laws(self.setting) else np.maximum(0.0, self._stack.radius))

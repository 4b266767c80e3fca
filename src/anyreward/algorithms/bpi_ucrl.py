"""BPI-UCRL, best-policy identification (Kaufmann et al., ALT 2021, section 5 and appendix).

For one reward r in [0, 1], over the KL balls C_h(s,a) = {p : KL(p_hat_h(.|s,a), p) <= c_h(s,a)}, all laws if there is no data:

    Q_up_h(s,a) = r_h(s,a) + gamma max_{p in C} p.V_up_{h+1}      V_up_h(s) = max_a Q_up_h(s,a)
    Q_lo_h(s,a) = r_h(s,a) + gamma min_{p in C} p.V_lo_{h+1}      V_lo_h(s) = max_a Q_lo_h(s,a)

with c = beta(n)/n and the paper's beta (`bounds="paper"`), or the radii of the tight certificate (`bounds="tight"`).

Sampling         play argmax_a Q_up_h(s,a).
Stopping         before the first episode at which V_up_1(s_1) - V_lo_1(s_1) <= epsilon.
Recommendation   argmax_a Q_lo_h(s,a).

So the lower values are followed after every episode only if there is an epsilon to stop at. What is reported of them is computed
from the counts alone, when somebody asks.

Guarantee: on the event that all laws lie in their balls, of probability at least 1 - delta, at every time V_lo <= value of the
recommendation <= V* <= V_up at the start. (Robust dynamic programming over independent balls: V_lo is the smallest value of the
recommended policy over all models in the balls, and V_up the largest optimum.)

Rewards. `rewards="known"`: r is given. `"random"`: it is random in [0, 1] and seen along the way; its mean lies in a KL interval
(`docs/theory.md`, 8.1), half of delta. `"deterministic"`: it is always the same and seen along the way, anywhere in [0, 1] until
then.
After an episode has terminated, nothing is paid. Rewards of another range [low, high] are rescaled to [0, 1], and everything that
is reported is in their own units.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, log, nan
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .. import kernels
from .._checks import checked_array
from ..certificates.bounds import PaperBound, TightBound, bound_options, relevant_laws
from ..certificates.certificate import OBSERVED, Certificate, fingerprint, range_of
from ..certificates.intervals import Robust
from ..data.counts import Counts
from ..rewards.forms import UNIT, ArrivalReward, Reward, checked_range, from_unit, reward_of_setting, to_unit
from ..rewards.observed import PAID_ONCE
from ..setting import Setting, boolean, shown
from ..words import exact
from .explorer import IndexExplorer, Policies, Request
from .registry import register
from .value_bounds import REWARDS, ValueBounds

ROUNDING = 1e-9  # much more than two computations of an interval differ by, relative to the largest value

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..kernels.bpi import BoundsLearner


@register("bpi-ucrl")
class BPIUCRL(IndexExplorer):
    """BPI-UCRL as ask and tell: `tell` takes the observed rewards as well, unless they are known.

        explorer = anyreward.BPIUCRL(setting, reward)
        explorer.tell(*env.rollout(explorer.ask(), episodes=10))
        explorer.recommendation, explorer.own_epsilon   # a policy, and how much it can lose

    Parameters
    ----------
    reward
        The reward, with values in [0, 1]: (S,), (S, A) or (H, S, A), a function (h, s, a), or on arrival (`rewards`). If it is
        observed it may be None for ask and tell; on a known model it is what the model pays (on average, as 0 or 1, if random).
    rewards
        `"known"`, or what you know of rewards that are observed, in the words of `Atlas.plan`: `"random"` (nothing) or
        `"deterministic"` (the same step, state and action always pay the same), an assumption that is checked on all data and
        printed with the certificate. Where the pay depends on the next state too, it is `"random"` here, since the index is one
        of states and actions. (`"observed"` is an earlier name of `"deterministic"`.)
    reward_range
        The range of the rewards, (0, 1) unless it is given. epsilon and the interval are in the units of the reward.
    paid_once
        Whether to assume that at most one observed reward of an episode is not zero, so that no value exceeds one reward.
    stationary_rewards
        Whether to assume that observed rewards do not depend on the step. A stationary setting pools the steps and needs it,
        unless `reward` tells; that the transitions are stationary does not imply it.
    setting, delta, bounds, max_successors, seed, growth, ties
        See `Explorer` and `IndexExplorer`. `bounds="tight"` is used without transfer.
    """

    goal = "best policy"
    needs_reward = True
    guarantee = "its recommendation epsilon-optimal for the reward at the stop"
    reference = "Kaufmann et al. 2021"
    proved = True
    continues = True
    handles_masks = True
    per_call = 1_000
    plays_by_both: ClassVar[bool] = False  # whether the lower values, too, decide what is played: they are then always followed

    def __init__(
        self,
        setting: Setting,
        reward: Reward = None,
        *,
        rewards: str = "known",
        stationary_rewards: bool = False,
        reward_range: tuple[float, float] = UNIT,
        paid_once: bool = False,
        **options: Any,
    ) -> None:
        if options.get("transfer"):
            raise ValueError(f"transfer does not suit {type(self).__name__}: its radii follow every episode. Leave it out.")
        super().__init__(setting, **options)
        if isinstance(self.bound, TightBound):
            self.bound = replace(self.bound, transfer=False, joint=False)  # each row on its own, with all of delta
            self.counts = Counts(setting)
            if not (self.bound.trajectory and self.bound.exact_tv):
                raise ValueError(
                    f"trajectory and exact_tv do not suit {type(self).__name__}, which uses KL radii only: leave them out."
                )
        if not self.clip:
            raise ValueError(f"clip does not suit {type(self).__name__}, which clips nothing: leave it out.")
        rewards = "deterministic" if rewards == "observed" else rewards
        if rewards not in REWARDS:
            raise ValueError(f"rewards is {shown(rewards)}: it has to be one of {', '.join(map(repr, REWARDS))}.")
        if reward is None and rewards == "known":
            raise ValueError("reward is not given: BPI-UCRL needs it, or rewards='random' or rewards='deterministic'.")
        S, A = setting.n_outcomes, setting.n_actions
        self.rewards = rewards
        self.reward_range = checked_range(reward_range)
        self.reward = None if reward is None else reward_of_setting(reward, setting, self.reward_range)
        self.paid_once = boolean(paid_once, "paid_once")
        if self.paid_once and rewards == "known":
            raise ValueError("paid_once is for rewards that are observed: this reward is known. Leave it out.")
        self._on_arrival = isinstance(self.reward, ArrivalReward)
        self._everywhere = self._on_arrival or setting.structure is not None
        self._follows_both = self.plays_by_both  # or what is played next may stop by the interval
        if self._everywhere and rewards != "known":
            what = "a reward on arrival" if self._on_arrival else "with a structure, the reward"
            raise ValueError(f"{what} has to be known: rewards='known' is the only choice with it.")
        self._pay = np.zeros((0, S, A))
        if isinstance(self.reward, np.ndarray):
            self._pay = to_unit(np.array(self.reward[:1] if np.ndim(reward) in (1, 2) else self.reward), self.reward_range)
        self.stationary_rewards = bool(stationary_rewards)
        if rewards == "known" and stationary_rewards:
            raise ValueError("stationary_rewards is for observed rewards: this reward is known.")
        if rewards != "known" and setting.stationary and len(self._pay) > 1:
            raise ValueError("observed rewards that depend on the step cannot be pooled: use stationary=False or a known reward.")
        if stationary_rewards and not setting.stationary:
            raise ValueError(
                "stationary_rewards is True, but rewards are kept by step unless the setting is stationary: leave it out."
            )
        if rewards != "known" and setting.stationary:
            if reward is None and not stationary_rewards:
                raise ValueError(
                    "stationary=True pools observed rewards over the steps: if they do not depend on the step, pass "
                    "stationary_rewards=True as well; if they may, use stationary=False."
                )
            self.stationary_rewards = True  # or else the reward that is given says so
        if self._everywhere:
            self._plan_everywhere()
            return
        known = self._pay if rewards == "known" else np.zeros((0, S, A))
        ended = nan if setting.terminal is None else float(to_unit(np.zeros(1), self.reward_range)[0])
        self._values = ValueBounds(self.counts, self._make_constants(), rewards, known, ended, self._limits)

    @property
    def _limits(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Between which values lie at each step, (H,) each, on the scale of [0, 1], if rewards are paid once."""
        if not self.paid_once:
            return None
        low, high = self.reward_range
        least = low * self.setting.sigma[:0:-1]  # what 0 stands for at each step
        return (min(0.0, low) - least) / (high - low), (max(0.0, high) - least) / (high - low)

    def _plan_everywhere(self, to_play: bool = True) -> None:
        """Both bounds of all states, by robust planning: for rewards on arrival, and where pairs share laws.

        It is slower than following what was visited. Without `to_play`, the policy of the next episodes stays as it is.
        """
        assert self.reward is not None
        radii = self.bound.kl_radii(self.counts, self.delta, last_step=self._on_arrival)
        robust = Robust(self.counts, radii, self.bound.most_successors(self.setting), self.reward)
        (self._Q_up, up), (self._Q_lo, lo) = robust.best(kernels.robust.UPPER), robust.best(kernels.robust.LOWER)
        low, high = self.reward_range
        up, lo = ((x - low * float(self.setting.sigma[-1])) / (high - low) for x in (up, lo))
        self._ends, self._outdating_declarations = (up, lo), self.counts.outdating_declarations
        self._planned = self.counts.revision
        if to_play:
            self._to_play, self._scheduled_at = self._Q_up, self.episodes

    def _make_constants(self) -> Any:
        setting, delta = self.setting, self.delta
        if self.rewards == "random":
            delta = delta / 2
        if isinstance(self.bound, PaperBound):
            threshold, laws = kernels.radii.PAPER, 2 * setting.n_distributions
        else:
            assert isinstance(self.bound, TightBound)
            threshold, laws = self.bound.kind, max(1, relevant_laws(setting))
        pairs = setting.n_states * setting.n_actions * (1 if setting.stationary else setting.horizon)
        return kernels.bpi.Constants(
            discount=setting.discount,
            horizon=setting.horizon,
            n_states=setting.n_outcomes,
            n_actions=setting.n_actions,
            threshold=threshold,
            most=self.bound.most_successors(setting),
            log_laws=log(laws / delta),
            reward_level=log(pairs / delta),
            norm=kernels.ball.KL,
        )

    @property
    def formulas(self) -> Any:
        return self._values.constants

    def learner(self) -> BoundsLearner:
        self._values.fit()
        values, A = self._values, self.setting.n_actions
        return kernels.bpi.BoundsLearner(
            values.bound_arrays, values.prior, A, values.rewards, values.constants, self._pay, values.gaps, self._follows_both
        )

    def _catch_up(self) -> None:
        """Brings the bounds up to date with what was declared since they were computed."""
        if self._everywhere:
            if self.counts.outdating_declarations != self._outdating_declarations or self._is_due:
                self._plan_everywhere()
        elif self._values.outdated_by_declarations():
            self._values.sweep()

    @property
    def _is_due(self) -> bool:
        """Whether to plan everywhere again: after every episode or, with shared laws, once episodes have grown by `growth`."""
        before = self._scheduled_at
        return self.episodes > (before if self.setting.structure is None else max(before, ceil(before * self.growth) - 1))

    def greedy_policy(self, key: np.uint64) -> np.ndarray:
        """The policy that is greedy for the upper values, (H, S), with ties broken under a key."""
        return kernels.greedy.greedy_of(self._to_play, key) if self._everywhere else super().greedy_policy(key)

    def ask_many(self, episodes: int, goal: float) -> Request:
        if self.reward is None:
            raise ValueError("reward is not given: a known model has to be told what it pays.")
        if self.paid_once:
            raise ValueError("paid_once is for rewards that are observed, and a known model says what it pays: leave it out.")
        if self._everywhere:
            return Policies(self.ask()[None])
        self._follows_both = goal >= 0 or self.plays_by_both
        return super().ask_many(episodes, self._width_at(goal))

    def _width_at(self, goal: float) -> float:
        """V_up - V_lo, on the scale of [0, 1], above which `error_bound` is above `goal`.

        There is room for what searches that start elsewhere leave open: `error_bound` itself decides.
        """
        low, high = self.reward_range
        return 2 * goal / (high - low) - self._slack + ROUNDING * float(self.setting.sigma[-1])

    def tell_many(self, request: Request, *outcome: np.ndarray) -> None:
        if isinstance(request, Policies):
            self.tell(*outcome)

    @property
    def recommendation(self) -> np.ndarray:  # type: ignore[override]
        """The policy that is greedy for the lower values, (H, S): its true value is at least `lower`."""
        self._bring_up_to_date()
        return self._Q_lo.argmax(axis=2) if self._everywhere else self._values.cautious_policy()

    @property
    def observes_rewards(self) -> bool:  # type: ignore[override]
        return self.rewards != "known"

    def _bring_up_to_date(self) -> None:
        """Lets both bounds be those of the present counts."""
        self._catch_up()
        if self.plays_by_both:
            self._values.follow_below()
        elif not self._everywhere:
            self._values.compute_below()
        elif self._planned != self.counts.revision:
            self._plan_everywhere(to_play=False)

    def reached(self, goal: float) -> bool:
        if goal < 0:
            return False
        if self._everywhere:  # it is looked at when it is planned again
            return self._planned == self.counts.revision and self.error_bound <= goal
        self._catch_up()
        self._values.follow_below()
        upper, lower = self._values.at_the_start()
        return upper - lower <= self._width_at(goal) and self.error_bound <= goal

    def state(self) -> dict[str, np.ndarray]:
        self._bring_up_to_date()
        state = super().state()
        if self._everywhere:
            return {**state, "upper": self._to_play, "scheduled_at": np.array([self._scheduled_at])}
        return {**state, **self._values.state()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        if self._everywhere:
            self._plan_everywhere()
            if "upper" in state:  # earlier versions planned after every episode
                self._to_play = checked_array(state["upper"], float, self._Q_up.shape, "its index is")
                at = checked_array(state["scheduled_at"], np.int64, (1,), "its schedule is", 0, self.episodes)
                self._scheduled_at = int(at[0])
            return
        self._values.restore(self.counts, state)
        radii = self.bound.kl_radii(self.counts, self.delta / 2 if self.rewards == "random" else self.delta)
        if not relevant_laws(self.setting):  # nothing depends on them
            radii = np.maximum(0.0, self._values.bound_arrays.radius)
        self._values.check(radii)

    def go_on_from(self, counts: Counts) -> None:
        if self.rewards != "known":
            raise ValueError(f"rewards is {self.rewards!r}: only for a known reward can data from elsewhere be gone on from.")
        super().go_on_from(counts)
        if self._everywhere:
            self._plan_everywhere()
        else:
            self._values.begin_with(counts, self.bound.kl_radii(counts, self.delta))

    def tell(self, states: ArrayLike, actions: ArrayLike, rewards: ArrayLike | None = None) -> None:
        """Learns from an episode, or a batch of them, with the rewards that were paid, (H,) or (B, H), if they are observed."""
        states, actions = self.counts.checked(states, actions)
        paid = self._checked_rewards(rewards, states, actions)
        if self._everywhere:
            self.counts.add_episodes(states, actions)
            if self._is_due:
                self._plan_everywhere()
        else:
            self._learn(states, actions, paid)

    def _checked_rewards(self, rewards: ArrayLike | None, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Observed rewards as (B, H), in [0, 1] and, unless they are random, always the same for a pair."""
        if self.rewards == "known":
            return np.zeros(actions.shape)
        if rewards is None:
            raise ValueError("rewards are missing: tell(states, actions, rewards) needs them unless they are known.")
        try:
            paid = np.asarray(rewards, dtype=float)
        except (TypeError, ValueError):
            raise ValueError("rewards have to be numbers.") from None
        if paid.shape not in (actions.shape, actions.shape[1:] if len(actions) == 1 else actions.shape):
            raise ValueError(f"rewards have shape {paid.shape}: they have to be like actions, {actions.shape}.")
        paid = np.ascontiguousarray(paid.reshape(actions.shape))
        low, high = self.reward_range
        wrong = np.argwhere(~((paid >= low) & (paid <= high)))
        if len(wrong):
            b, h = (int(i) for i in wrong[0])
            raise ValueError(
                f"rewards[{b}, {h}] is {paid[b, h]:g}: it has to be in [{low:g}, {high:g}]. "
                "Pass reward_range=(lowest, highest), the range of what can be paid."
            )
        over = np.argwhere(np.isin(states[:, :-1], self.counts.stays()) & (paid != 0.0))
        if len(over) and self.setting.terminal is not None:
            b, h = (int(i) for i in over[0])
            raise ValueError(f"rewards[{b}, {h}] is {paid[b, h]:g}, but episode {b} has terminated: nothing is paid any more.")
        again = np.flatnonzero(np.count_nonzero(paid, axis=1) > 1)
        if self.paid_once and len(again):
            raise ValueError(
                f"paid_once is True, but episode {again[0]} paid more than one reward that is not zero: leave it out."
            )
        paid = np.ascontiguousarray(to_unit(paid, self.reward_range))
        if self.rewards == "deterministic":
            table, A = self.counts.table, self.setting.n_actions
            b, h = (int(i) for i in kernels.bpi.contradiction(table, self._values.rewards.up, A, states, actions, paid))
            if b >= 0:
                now = low + (high - low) * paid[b, h]
                pair = self.counts.named(f"state {states[b, h]} with action {actions[b, h]}")
                raise ValueError(
                    f"rewards[{b}, {h}] is {now:g}, but {pair} paid something else before: use rewards='random' if rewards are "
                    "not always the same."
                )
        return paid

    @property
    def _slack(self) -> float:
        """Room for rounding in sums of H rewards of at most 1, and over all initial states."""
        return max(1e-12, len(self.setting.starts[0]) * 2.0**-50) * float(self.setting.sigma[-1])

    @property
    def interval(self) -> tuple[float, float]:
        """Certified bounds from the start: lower <= value of the recommendation <= optimum <= upper."""
        self.counts.check_start()
        self.bound.check(self.counts)
        self._bring_up_to_date()
        up, lo = self._ends if self._everywhere else self._values.at_the_start()
        lo, up = max(0.0, lo - self._slack / 2), min(float(self.setting.sigma[-1]), up + self._slack / 2)
        return from_unit(lo, up, self.reward_range, float(self.setting.sigma[-1]))

    @property
    def own_epsilon(self) -> float | None:
        return 2 * self.error_bound

    @property
    def error_bound(self) -> float:
        """Half of upper - lower for this reward."""
        lower, upper = self.interval
        return (upper - lower) / 2

    def certificate(self, epsilon: float | None = None) -> Certificate:
        """What is certified for this one reward: the recommendation is `epsilon`-optimal."""
        achieved = 2 * self.error_bound
        known = self.reward if self.rewards == "known" else None
        named = None if known is None else range_of(known, self.reward_range)
        return Certificate(
            epsilon=float(achieved),
            delta=self.delta,
            bounds=self.bound.name,
            met=bool(epsilon is not None and achieved <= epsilon),
            target=None if epsilon is None else float(epsilon),
            options=bound_options(self.bound),
            reward_range=self.reward_range if named is None else named,
            reward=OBSERVED if known is None else fingerprint(known),
            transition_delta=self.delta / 2 if self.rewards == "random" else self.delta,
            **self.counts.described(*self._assumed),
        )

    @property
    def _assumed(self) -> tuple[str, ...]:
        if self.rewards == "known":
            return ()
        low, high = self.reward_range
        said = {
            f"rewards lie in [{exact(low)}, {exact(high)}]": True,
            "the same step, state and action always pay the same": self.rewards == "deterministic",
            "rewards do not depend on the step": self.stationary_rewards,
            PAID_ONCE: self.paid_once,
        }
        return tuple(text for text, true in said.items() if true)

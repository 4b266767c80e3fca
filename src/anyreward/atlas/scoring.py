"""`Scoring`: a reward as an atlas sees it, given by the user or observed in the environment, with what it can pay at all."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from ..certificates.calibrated import CalibratedBound
from ..rewards.combining import combined, on_arrival, range_of
from ..rewards.forms import OWN, UNIT, ArrivalReward, Reward, checked_range, core, known_reward, reward_of_setting
from ..rewards.observed import PAID_ONCE, ObservedRewards, RewardBounds
from ..rewards.terms import Terms
from ..setting import boolean, shown
from ..words import exact

if TYPE_CHECKING:
    from collections.abc import Callable

    from .atlas import Atlas

LEAST, AVERAGE, MOST = 0, 1, 2  # positions in `RewardBounds`
REWARDS = ("random", "deterministic")  # what may be assumed about the environment's own reward


@dataclass(frozen=True, eq=False)
class Scoring:
    """A reward, given or observed, and what follows for values.

    Attributes
    ----------
    pays : RewardBounds
        A lower bound, an estimate and an upper bound of the reward; all the same for a reward that is given.
    reward_range : (float, float)
        The range of the reward.
    lowest, highest : float
        The smallest and the largest value of an episode that the reward allows at all.
    slack : float
        A margin for rounding.
    error : float
        The bound on the value error of every policy in units of this reward; inf if the certificate does not cover it.
    delta : float
        The probability with which the transitions may lie outside their balls.
    own : bool
        Whether it is the environment's own reward.
    assumed : tuple of str
        What is assumed of the reward.
    ends : (float, float)
        Between which the value from every step and state that can be reached is known to lie (`paid_once`; `docs/theory.md`,
        9.7).
    with_delta : callable
        The same reward for intervals that fail with another probability.
    terms : dict of str to reward
        What each term pays, if the reward is a sum of named terms.
    """

    pays: RewardBounds
    reward_range: tuple[float, float]
    lowest: float
    highest: float
    slack: float
    error: float
    delta: float
    own: bool = False
    assumed: tuple[str, ...] = ()
    ends: tuple[float, float] = (-inf, inf)
    with_delta: Callable[[float], Scoring] = field(repr=False, default=None)  # type: ignore[assignment]
    terms: dict[str, np.ndarray | ArrivalReward] = field(repr=False, default_factory=dict)

    def earned(self, states: np.ndarray, actions: np.ndarray, paid: np.ndarray, discount: float) -> np.ndarray:
        """What episodes earned, (B,): the sum of discounted rewards.

        Parameters
        ----------
        states : ndarray of int, (B, H+1)
            As the process counts them: an episode that has terminated stays where it is.
        actions : ndarray of int, (B, H)
        paid : ndarray, (B, H)
            What the environment paid.
        discount : float
        """
        H, reward = actions.shape[1], self.pays.average
        if not self.own:
            if isinstance(reward, ArrivalReward):
                A = reward.shape[2]
                steps = [reward.at(h, states[:, h] * A + actions[:, h], states[:, h + 1]) for h in range(H)]
                paid = np.stack(steps, axis=1)
            else:
                paid = reward[np.arange(H), states[:, :H], actions]
        return np.asarray(paid @ discount ** np.arange(H))

    def pays_as(self, other: Scoring) -> bool:
        """Whether both are the same reward."""
        if (self.own, self.ends, self.pays.base) != (other.own, other.ends, other.pays.base):
            return False
        for mine, theirs in zip(self.pays[:3], other.pays[:3], strict=True):
            if type(mine) is not type(theirs):
                return False
            if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray):
                if mine.shape != theirs.shape or not (core(mine) == core(theirs)).all():  # without making them dense
                    return False
                continue
            parts = [(x.pointer, x.target, x.pay) for x in (mine, theirs) if isinstance(x, ArrivalReward)]
            if not all(np.array_equal(a, b) for a, b in zip(*parts, strict=True)):
                return False
        return True


def earnings(atlas: Atlas, reward: Reward) -> Callable[..., np.ndarray]:
    """`Scoring.earned` for a reward of any form and any range; `"own"` is what the environment pays."""
    if isinstance(reward, str) and reward == OWN and atlas.own_reward is not None:
        reward = atlas.own_reward
    own = isinstance(reward, str) and reward == OWN
    r = np.zeros((1, 1, 1)) if own else reward_of_setting(reward, atlas.counts.setting, None, atlas.numbering)
    return Scoring(RewardBounds(r, r, r, (0.0, 0.0, 0.0)), (0.0, 1.0), 0.0, 0.0, 0.0, 0.0, 0.0, own).earned


def scoring_of(
    atlas: Atlas,
    reward: Reward,
    reward_range: tuple[float, float] | None = None,
    rewards: str | None = None,
    stationary_rewards: bool = False,
    paid_once: bool = False,
    delta: float | None = None,
) -> Scoring:
    """The scoring of a reward of any form, or of `"own"`. Arguments as for `Atlas.plan`.

    `delta` is the probability with which intervals may fail, that of the certificate unless it is given.
    """
    if isinstance(reward, str) and reward == OWN and atlas.own_reward is not None:
        if rewards is not None or stationary_rewards or paid_once:
            raise ValueError(
                "rewards, stationary_rewards and paid_once are for rewards that were observed: leave them out, since the reward "
                "of this model is known."
            )
        reward = atlas.own_reward
    if isinstance(reward, str) and reward == OWN:
        known = (
            "random" if rewards is None else rewards,
            boolean(stationary_rewards, "stationary_rewards"),
            boolean(paid_once, "paid_once"),
        )
        scoring = _own(atlas, reward_range, *known, delta)
        return replace(scoring, with_delta=partial(_own, atlas, reward_range, *known))
    if rewards is not None or stationary_rewards or paid_once:
        raise ValueError(
            "rewards, stationary_rewards and paid_once are only for the reward 'own': leave them out if you give it."
        )
    terms = {}
    if isinstance(reward, Terms):
        setting = atlas.counts.setting
        shape = setting.horizon, setting.n_outcomes, setting.n_actions
        terms = reward.each(lambda r: reward_of_setting(r, setting, None, atlas.numbering), shape)
        reward = combined([1.0] * len(terms), list(terms.values()), shape)
        if isinstance(reward, ArrivalReward):  # all terms on the event of rewards on arrival
            terms = {name: on_arrival(r, shape) for name, r in terms.items()}
        reward_range = range_of(reward) if reward_range is None else reward_range
    scoring = replace(_given(atlas, reward, UNIT if reward_range is None else reward_range, delta), terms=terms)
    return replace(scoring, with_delta=partial(_with_delta, scoring))


def _with_delta(scoring: Scoring, delta: float) -> Scoring:
    """The scoring of a given reward for another probability, whose balls are not those of the certificate: nor is its error."""
    return replace(scoring, delta=delta, error=inf)


def _given(atlas: Atlas, reward: Reward, reward_range: tuple[float, float], delta: float | None) -> Scoring:
    """The scoring of a reward that the user gives."""
    setting, certificate = atlas.counts.setting, atlas.certificate
    r, (low, high), *extremes = known_reward(reward, setting, reward_range, atlas.numbering)
    gammas = setting.discount ** np.arange(setting.horizon)
    lowest, highest = (float(gammas @ extreme) for extreme in extremes)
    exact_ends = [sum(map(Fraction, extreme.tolist())) for extreme in extremes] if setting.discount == 1.0 else []
    slack = 1e-12 * float(gammas.sum()) * max(abs(low), abs(high))
    # A reward that the certificate does not cover, or not with this delta, has the bounds of robust planning alone.
    error = inf if delta is not None else certificate.error_in((low, high), isinstance(r, ArrivalReward)) + slack
    if [lowest, highest] != exact_ends:  # unless nothing was rounded, as is usual for rewards that are whole numbers
        rounding = 1e-15 * (setting.horizon + 10)  # the relative error of a sum over the steps
        lowest, highest = lowest - rounding * abs(lowest), highest + rounding * abs(highest)
    pays = RewardBounds(r, r, r, (0.0, 0.0, 0.0))
    share = certificate.transition_delta if delta is None else delta
    return Scoring(pays, reward_range, lowest, highest, slack, error, share)


def _own(
    atlas: Atlas,
    reward_range: tuple[float, float] | None,
    rewards: str,
    stationary_rewards: bool,
    paid_once: bool,
    delta: float | None,
) -> Scoring:
    """The scoring of the reward that the environment itself paid."""
    paid, setting = atlas.paid, atlas.counts.setting
    if paid is None or not len(paid):
        if atlas.certificate.bounds == CalibratedBound.name:
            raise ValueError("observed rewards are not kept with calibrated bounds: give a reward, or explore with tight bounds.")
        raise ValueError("this atlas has no observed rewards: explore an environment that pays rewards, or give a reward.")
    if rewards not in REWARDS:
        raise ValueError(f"rewards is {shown(rewards)}: it has to be one of {', '.join(map(repr, REWARDS))}.")
    low, high = checked_range((0.0, 1.0) if reward_range is None else reward_range)
    seen = paid.range
    if not low <= seen[0] <= seen[1] <= high:
        raise ValueError(
            f"the environment paid rewards from {seen[0]:g} to {seen[1]:g}, outside [{low:g}, {high:g}]: "
            "pass reward_range=(lowest, highest), the range of what it can pay."
        )
    if paid.pooled and not stationary_rewards:
        raise ValueError(
            "the rewards in this atlas were pooled over the steps when it was saved: if you know that they do not depend on "
            "the step, pass stationary_rewards=True; otherwise explore again."
        )
    called = atlas.called
    stays, delta = atlas.counts.stays(), atlas.certificate.delta if delta is None else delta
    assumed = [f"rewards lie in [{exact(low)}, {exact(high)}]"]
    if rewards == "deterministic":
        against = paid.contradiction(stationary_rewards)
        if against is not None:
            h, s, a, s_next = against
            raise ValueError(
                f"rewards is 'deterministic', but the transition from {called(s)} with action {atlas.action_name(a)} to "
                f"{called(s_next)} "
                f"paid different rewards (for example at step {h}): pass rewards='random'"
                + (", or leave out stationary_rewards." if stationary_rewards and paid.contradiction() is None else ".")
            )
        assumed.append("the same transition always pays the same" + ("" if stationary_rewards else " at the same step"))
        pays = paid.deterministic(setting, stays, (low, high), stationary_rewards)
    else:
        pays = paid.random(setting, stays, (low, high), stationary_rewards, delta / 2)
    drift = paid.drift(setting, (low, high)) if stationary_rewards and not paid.pooled else None
    if drift is not None:
        here, action, there = called(drift[0]), atlas.action_name(drift[1]), called(drift[2])
        raise ValueError(
            f"stationary_rewards is True, but the mean reward of going from {here} with action {action} to {there} depends on "
            "the step (false-alarm probability 1 in a million): leave it out."
        )
    if stationary_rewards:
        assumed.append("rewards do not depend on the step")
    total = float(setting.sigma[-1])
    slack = 1e-12 * total * max(abs(low), abs(high))
    share = delta / 2 if rewards == "random" else delta
    lowest, highest, ends = low * total - slack, high * total + slack, (-inf, inf)
    if paid_once:
        check_paid_once(paid)
        assumed.append(PAID_ONCE)
        lowest, highest = ends = (min(0.0, low), max(0.0, high))
    return Scoring(pays, (low, high), lowest, highest, slack, inf, share, True, tuple(assumed), ends)


def check_paid_once(paid: ObservedRewards) -> None:
    """Raises if an episode paid more than one reward, or if that is not known."""
    if paid.paid_again is None:
        raise ValueError(
            "paid_once is True, but this atlas does not know which rewards were paid in the same episode, as it was made by an "
            "earlier version: explore again, or leave it out."
        )
    if paid.paid_again:
        episodes = "1 episode" if paid.paid_again == 1 else f"{paid.paid_again:,} episodes"
        raise ValueError(f"paid_once is True, but {episodes} paid more than one reward that is not zero: leave it out.")

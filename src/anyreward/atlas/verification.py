"""Checking a plan by playing it: `Atlas.verify`, and what it returns.

The interval of a plan is about all models that the data allow, and is wide long before the plan is bad. Playing the plan on fresh
episodes bounds its value without any model, by betting (`certificates.betting`), at all times, so that one may look and stop at
any moment. The two intervals are combined: half of delta is spent on the model and half on the playing, so that the result holds
with probability at least 1 - delta (`docs/theory.md`, 12.1 and 12.2).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from ..certificates.betting import mean_interval
from ..planning import as_policy
from ..playing.rollouts import rollouts
from ..rewards.observed import PAID_ONCE
from ..setting import positive, probability, shown, whole_number
from ..words import Countdown, assumed, confidence_level, interval
from .plan import Interval, Plan
from .scoring import MOST, Scoring, scoring_of

if TYPE_CHECKING:
    from ..kernels.planning import Choice
    from .atlas import Atlas

GROWTH = 1.05  # of the number of episodes between two looks
SAME = "the episodes that were played are of the environment that was explored"


class Verification(Interval):
    """The value of a plan, bounded by playing it and by what was explored; or the difference of the values of two plans.

        found = atlas.verify(plan, env, episodes=2000)
        found.lower, found.upper

    With probability at least 1 - delta, the true value lies between `lower` and `upper`.

    Attributes
    ----------
    lower, value, upper : float
        `value` is the average of what was earned.
    played : (float, float)
        The interval by playing alone, which holds with probability at least 1 - played_delta.
    explored : (float, float)
        The interval by what was explored alone, which holds with probability at least 1 - delta/2.
    optimum : float
        An upper bound on the optimum; nan for a difference.
    scores : dict of str to Interval
        The same for further rewards, which were scored on the same episodes. All intervals of a verification hold at once.
    episodes : int
        How many episodes, or pairs of episodes, were played.
    played_delta : float
    """

    played: tuple[float, float]
    explored: tuple[float, float]
    optimum: float
    scores: dict[str, Interval]
    episodes: int
    played_delta: float

    @property
    def regret_bound(self) -> float:
        """The largest possible difference between the optimum and the value of the plan."""
        return self.optimum - self.lower

    def __str__(self) -> str:
        sure = f"{interval(self.lower, self.upper)} with probability {confidence_level(self.delta)}"
        alone = f"{self.episodes:,} fresh episode{'s' if self.episodes > 1 else ''} alone: {interval(*self.played)}"
        parts = f"{alone}; what was explored alone: {interval(*self.explored)}"
        return f"{self.value:.4g} on average, in {sure} ({parts}){assumed(self.assumptions)}"

    __repr__ = __str__


def verify(
    atlas: Atlas,
    plan: Any,
    env: Any,
    *,
    episodes: int | None,
    max_seconds: float | None,
    width: float | None,
    reward: Any,
    reward_range: tuple[float, float] | None,
    known: tuple[str | None, bool, bool],
    against: Any,
    also: Mapping[str, Any] | None,
    delta: float | None,
    attempt: int | None,
    seed: int,
    progress: bool | None,
    adapter: dict[str, Any],
) -> Verification:
    """Plays a plan and bounds its value; see `Atlas.verify`."""
    if episodes is None and max_seconds is None and width is None:
        raise ValueError("none of episodes, max_seconds and width is given: playing needs one of them to stop.")
    most = None if episodes is None else whole_number(episodes, "episodes")
    if most is not None and most < 1:
        raise ValueError(f"episodes is {most}: it has to be at least 1.")
    seconds = None if max_seconds is None else positive(max_seconds, "max_seconds")
    narrow = None if width is None else positive(width, "width")
    delta = atlas.certificate.delta if delta is None else probability(delta, "delta")
    if also is not None and not isinstance(also, Mapping):
        raise ValueError(f"also is {shown(also)}: it has to be a dictionary from names to rewards.")
    scoring = _scoring(atlas, plan, reward, reward_range, known, delta / 2)
    others = {str(name): scoring_of(atlas, extra, scoring.reward_range, delta=delta / 2) for name, extra in (also or {}).items()}
    share = delta / 2 / (1 + len(others))
    if attempt is not None:
        k = whole_number(attempt, "attempt")
        if k < 1:
            raise ValueError(f"attempt is {k}: the first plan that you verify is number 1.")
        share /= k * (k + 1)
    policies = [_policy(atlas, plan)] + ([] if against is None else [_policy(atlas, against)])
    setting = atlas.counts.setting
    streams = [rollouts(setting, atlas.numbering, policy, env, seed, adapter) for policy in policies]
    scorings = [scoring, *others.values()]
    found: list[list[np.ndarray]] = [[] for _ in scorings]

    def intervals() -> list[tuple[float, float]]:
        """The intervals by playing, at the present number of episodes."""
        return [
            _played(np.concatenate(x)[:most], one, share, against is not None) for x, one in zip(found, scorings, strict=True)
        ]

    begin, n, look = time.monotonic(), 0, 1.0
    with Countdown(progress, "playing", most) as show:
        try:
            while (most is None or n < most) and (seconds is None or n == 0 or time.monotonic() - begin < seconds):
                batch = [next(stream) for stream in streams]
                for x, one in zip(found, scorings, strict=True):
                    earned = [_earned(one, part, setting.discount) for part in batch]
                    x.append(earned[0] if against is None else earned[0] - earned[1])
                n += len(batch[0].states)
                show(n)
                if narrow is not None and n >= look:
                    low, high = intervals()[0]
                    if high - low <= narrow:
                        break
                    look = n * GROWTH
        except KeyboardInterrupt:  # the interval holds at any time
            if n == 0:
                raise
    n = n if most is None else min(n, most)
    results = []
    for (low, high), one, x in zip(intervals(), scorings, found, strict=True):
        bounds = [atlas._evaluate(policy, one) for policy in policies]
        explored = (bounds[0].lower, bounds[0].upper)
        if against is not None:
            explored = (bounds[0].lower - bounds[1].upper, bounds[0].upper - bounds[1].lower)
        lower, upper = max(low, explored[0]), min(high, explored[1])
        if lower > upper:
            raise ValueError(
                f"{n:,} episodes put the value into {interval(low, high)}, but what was explored into {interval(*explored)}. If "
                f"everything that is assumed is true, this happens with probability at most {delta:g}: the environment has "
                "changed, is another one, or an assumption is false."
            )
        said = (*atlas._assumptions(one), SAME)
        average = float(np.concatenate(x)[:most].mean())
        results.append((Interval(lower, average, upper, delta, said), (low, high), explored))
    first = Verification(*results[0][0], delta, results[0][0].assumptions)
    first.played, first.explored = results[0][1:]
    first.optimum = float("nan") if against is not None else _optimum(atlas, scoring)
    first.scores = {name: result[0] for name, result in zip(others, results[1:], strict=True)}
    first.episodes, first.played_delta = n, share
    return first


def _scoring(
    atlas: Atlas,
    plan: Any,
    reward: Any,
    reward_range: tuple[float, float] | None,
    known: tuple[str | None, bool, bool],
    delta: float,
) -> Scoring:
    """The reward by which episodes are scored: that of the plan, unless another one is given with what is known of it."""
    if reward is not None:
        return scoring_of(atlas, reward, reward_range, *known, delta=delta)
    if not isinstance(plan, Plan):
        raise ValueError("reward is missing: a policy that is not a plan has none of its own.")
    names = ("reward_range", "rewards", "stationary_rewards", "paid_once")
    given = next((name for name, value in zip(names, (reward_range, *known), strict=True) if value), None)
    if given is not None:
        raise ValueError(f"{given} is given without a reward: the plan has its own.")
    return plan.scoring.with_delta(delta)


def _policy(atlas: Atlas, plan: Any) -> np.ndarray | Choice:
    """The policy of a plan or of somebody's own, (H, S), legal where that is known."""
    setting = atlas.counts.setting
    if isinstance(plan, Plan):
        return plan.choice
    if np.ndim(plan) == 3:
        raise ValueError("the policy chooses its actions at random: only policies (H, S) can be played.")
    return atlas.legal(as_policy(plan, setting.n_states, setting.n_actions, setting.horizon))


def _earned(scoring: Scoring, batch: Any, discount: float) -> np.ndarray:
    """What a batch of episodes earned. Raises if the environment paid something outside the range of the reward."""
    low, high = scoring.reward_range
    if scoring.own and not (low <= batch.paid.min() and batch.paid.max() <= high):
        wrong = batch.paid[(batch.paid < low) | (batch.paid > high)][0]
        raise ValueError(f"the environment paid {wrong:g}, outside reward_range, which is {shown(scoring.reward_range)}.")
    if PAID_ONCE in scoring.assumed and (np.count_nonzero(batch.paid, axis=1) > 1).any():
        raise ValueError("paid_once is True, but an episode paid more than one reward that is not zero: leave it out.")
    return scoring.earned(batch.states, batch.actions, batch.paid, discount)


def _played(x: np.ndarray, scoring: Scoring, delta: float, difference: bool) -> tuple[float, float]:
    """The interval by playing alone, for a value or for a difference of values; `slack` covers the rounding of sums."""
    low, high = scoring.lowest, scoring.highest
    if difference:
        low, high = low - high, high - low
    lower, upper = mean_interval(np.clip(x, low, high), delta, low, high)
    margin = 2 * scoring.slack
    return max(low, lower - margin), min(high, upper + margin)


def _optimum(atlas: Atlas, scoring: Scoring) -> float:
    """An upper bound on the optimum, on the event of the scoring."""
    return min(scoring.highest, atlas._robust(scoring, MOST).of(None, kernels.robust.UPPER) + scoring.slack)

"""The certificate: what an error bound means, under which assumptions, and how it is checked again from the counts."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from .. import kernels
from ..data.counts import Counts
from ..rewards.forms import ArrivalReward, Reward, reward_of_setting
from ..setting import LEAST, Setting, positive, probability, whole_number
from ..words import certain, exact, up
from .bounds import BOUNDS, Bound, as_bound, bound_options
from .intervals import Robust

OBSERVED = "observed"  # in place of a fingerprint: the one reward was not known


@dataclass(frozen=True)
class Certificate:
    """With probability at least 1 - delta: every plan from these counts, for every reward, is epsilon-optimal.

    (If `reward` is not None, then for that reward alone, of which it is the fingerprint, and the recommended policy.)

    More exactly: for all policies and all rewards r_h(s, a) within `reward_range` at once (r_h(s, a, s') too if the setting says
    `arrival_rewards`), the value of a policy in the
    empirical model is within epsilon/2 of its true value, provided that the setting holds (that the transitions do not
    depend on the step if it says stationary, and so on) and that episodes were not selected by how they turned out.
    """

    epsilon: float  # in units of reward; the largest possible value is sigma_H
    delta: float
    bounds: str
    met: bool  # whether a target was asked for and reached
    target: float | None
    options: dict[str, Any]  # of the bound
    setting: Setting
    episodes: int
    digest: str  # of the counts
    reward_range: tuple[float, float] = (0.0, 1.0)
    reward: str | None = None  # fingerprint of the one reward it is about, or OBSERVED; None: every reward
    transition_delta: float = 0.0  # the part of delta that is spent on transitions; 0 means all
    assumed: tuple[str, ...] = ()  # what it takes for granted beyond the setting and the bound, in sentences
    claimed: bool = False  # whether it is only said by a file that holds nothing to verify it by

    def __post_init__(self) -> None:
        if not self.transition_delta:
            object.__setattr__(self, "transition_delta", self.delta)

    @property
    def every_reward(self) -> bool:
        """Whether it is about every reward at once."""
        return self.reward is None

    def covers(self, arrival: bool) -> bool:
        """Whether it is about a reward that may depend on the successor (`arrival`), or on step, state and action only."""
        return self.every_reward and (self.setting.arrival_rewards or not arrival)

    @property
    def bound(self) -> Bound:
        """The bound that epsilon comes from."""
        return BOUNDS[self.bounds](**self.options)

    @property
    def error_bound(self) -> float:
        """epsilon / 2."""
        return self.epsilon / 2

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Everything it takes for granted beside the process being Markov, in sentences; whatever data can show is checked."""
        return (*self.setting.assumptions, *self.bound.assumptions(self.setting), *self.assumed)

    @property
    def largest(self) -> float:
        """The most that any two policies can differ by: an epsilon that is no smaller says nothing."""
        return float(self.setting.sigma[-1]) * (self.reward_range[1] - self.reward_range[0])

    @property
    def horizon(self) -> int:
        return self.setting.horizon

    @property
    def discount(self) -> float:
        return self.setting.discount

    @property
    def stationary(self) -> bool:
        return self.setting.stationary

    def check(self, counts: Counts, reward: Reward = None, policy: np.ndarray | None = None) -> bool:
        """Whether these are the counts it was made from and its epsilon follows from them.

        A certificate for one known reward needs that reward, and says whether the policy, if it is given, is that good. One
        for observed rewards cannot be checked from the counts, which do not hold what was paid.
        """
        if counts.setting != self.setting or counts.digest() != self.digest:
            return False
        if not self.every_reward:
            reached = self.target is not None and self.epsilon <= self.target
            if self.episodes != counts.episodes or self.reward_range != (0.0, 1.0) or self.met > reached:
                return False
            if reward is None or self.reward == OBSERVED:
                raise ValueError("this certificate is about one reward: it is checked with that reward, if it was known.")
            setting = self.setting
            reward = reward_of_setting(reward, setting)
            if fingerprint(reward) != self.reward:
                return False
            radii = self.bound.kl_radii(counts, self.transition_delta, isinstance(reward, ArrivalReward))
            robust = Robust(counts, radii, self.bound.most_successors(setting), reward)
            lower = robust.best(kernels.robust.LOWER)[1] if policy is None else robust.of(policy, kernels.robust.LOWER)
            gap = robust.best(kernels.robust.UPPER)[1] - lower
            return bool(gap <= self.epsilon + 1e-7 * self.setting.sigma[-1]) and set(counts.declared) <= set(self.assumed)
        again = certify(counts, self.delta, self.bound, self.target)
        if not set(again.assumed) <= set(self.assumed):  # it may say more, such as that merged runs are of the same environment
            return False
        same = replace(again, epsilon=self.epsilon, assumed=self.assumed) == self
        return same and abs(again.epsilon - self.epsilon) <= 1e-9 * again.epsilon

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Certificate:
        setting, low_high = Setting(**fields["setting"]), fields["reward_range"]  # lists in a file are tuples again in a setting
        assumed = fields.get("assumed", ())
        if not isinstance(assumed, list | tuple):  # the letters of a text are no sentences
            raise ValueError("its certificate is damaged.")
        ends = (float(low_high[0]), float(low_high[1]))
        certificate = cls(**{**fields, "setting": setting, "reward_range": ends, "assumed": tuple(assumed)})
        certificate._check_fields()
        return certificate

    def _check_fields(self) -> None:
        """Raises if a field is not what it has to be: for what comes from a file."""
        numbers = (self.epsilon, self.delta, self.transition_delta, *self.reward_range)
        right = all(isinstance(x, float | int) and not isinstance(x, bool) and isfinite(x) for x in numbers)
        right = right and self.epsilon >= 0 and LEAST <= self.transition_delta <= self.delta < 1
        right = right and self.reward_range[0] < self.reward_range[1]
        right = right and all(isinstance(flag, bool) for flag in (self.met, self.claimed))
        right = right and isinstance(self.digest, str) and isinstance(self.reward, str | None)
        right = (
            right
            and isinstance(self.options, dict)
            and all(isinstance(text, str) and text.isprintable() for text in (*self.assumed, *self.setting.assumed))
        )
        if not right or self.bounds not in BOUNDS or whole_number(self.episodes, "episodes") < 0:
            raise ValueError("its certificate is damaged.")
        if self.target is not None:
            positive(self.target, "target")
        as_bound(self.bounds, **self.options)  # or raises

    def __str__(self) -> str:
        kind = "stationary" if self.stationary else "step-dependent"
        scope = "one reward"
        if self.every_reward:
            of = "a transition" if self.setting.arrival_rewards else "a step, state and action"
            scope = f"any reward of {of} in [{exact(self.reward_range[0])}, {exact(self.reward_range[1])}]"
        nothing = f" (which says nothing: no value exceeds {up(self.largest)})" if self.epsilon >= self.largest else ""
        assumes = f"; assumes: {'; '.join(self.assumptions)}" if self.assumptions else ""
        claimed = "claimed by the file, not verified: " if self.claimed else ""
        sure = f"with probability {certain(self.delta)}"
        return (
            f"{claimed}epsilon {up(self.epsilon)}{nothing} {sure}, {scope}, horizon {self.horizon}, "
            f"discount {exact(self.discount)}, {kind}, {self.bounds} bounds, {self.episodes:,} episodes{assumes}"
        )


def fingerprint(reward: np.ndarray | ArrivalReward) -> str:
    """A digest of a reward, (H, S, A) or on arrival."""
    parts = (reward.pointer, reward.target, reward.pay) if isinstance(reward, ArrivalReward) else (reward,)
    return hashlib.sha256(b"".join(np.ascontiguousarray(part, dtype="<f8").tobytes() for part in parts)).hexdigest()


def certify(
    counts: Counts, delta: float = 0.1, bounds: str | Bound = "tight", epsilon: float | None = None, **options: Any
) -> Certificate:
    """What can be certified from these counts, whoever collected them; `epsilon` is the target, if there is one.

    Valid for episodes that were played one after the other, each by a policy that was fixed before it and may depend on
    the earlier ones, and counted all, up to any time. Leaving out episodes because of what happened in them voids it.

    `bounds` is `"tight"` or `"paper"`; `options` are those of the bound, such as `max_successors` of `TightBound`. What the
    certificate assumes, and what was declared to the counts, is printed with it.
    """
    bound = as_bound(bounds, **options)
    return certificate_of(counts, delta, bound, bound(counts, probability(delta, "delta")), epsilon)


def certificate_of(counts: Counts, delta: float, bound: Bound, error: float, epsilon: float | None) -> Certificate:
    """The certificate of counts whose `bound` at this delta is `error`; `epsilon` is the target, if there is one."""
    target = None if epsilon is None else positive(epsilon, "epsilon")
    return Certificate(
        epsilon=float(2 * error),
        delta=float(delta),
        bounds=bound.name,
        met=bool(target is not None and 2 * error <= target),
        target=target,
        options=bound_options(bound),
        setting=counts.setting,
        episodes=counts.episodes,
        digest=counts.digest(),
        assumed=counts.declared,
    )

"""The certificate: what an error bound means, under which assumptions, and how it is checked again from the counts."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from . import kernels
from .bounds import BOUNDS, Bound, as_bound, bound_options
from .counts import Counts
from .robust import Robust
from .setting import Setting, probability


@dataclass(frozen=True)
class Certificate:
    """With probability at least 1 - delta: every plan from these counts, for every reward, is epsilon-optimal.

    (If `reward` is not None, then for that reward alone, of which it is the fingerprint, and the recommended policy.)

    More exactly: for all policies and all rewards r_h(s, a) within `reward_range` at once, the value of a policy in the
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
    reward: str | None = None  # fingerprint of the one reward it is about; None: every reward
    transition_delta: float = 0.0  # the part of delta that is spent on transitions; 0 means all

    def __post_init__(self) -> None:
        if not self.transition_delta:
            object.__setattr__(self, "transition_delta", self.delta)

    @property
    def every_reward(self) -> bool:
        """Whether it is about every reward at once."""
        return self.reward is None

    @property
    def bound(self) -> Bound:
        """The bound that epsilon comes from."""
        return BOUNDS[self.bounds](**self.options)

    @property
    def error_bound(self) -> float:
        """epsilon / 2."""
        return self.epsilon / 2

    @property
    def horizon(self) -> int:
        return self.setting.horizon

    @property
    def discount(self) -> float:
        return self.setting.discount

    @property
    def stationary(self) -> bool:
        return self.setting.stationary

    def check(self, counts: Counts, reward: np.ndarray | None = None) -> bool:
        """Whether these are the counts it was made from and its epsilon follows from them.

        A certificate for one known reward needs that reward, (H, S, A). One for observed rewards cannot be checked from the
        counts, which do not hold what was paid.
        """
        if counts.setting != self.setting or counts.digest() != self.digest:
            return False
        if not self.every_reward:
            if reward is None or self.transition_delta != self.delta:
                raise ValueError("this certificate is about one reward: it is checked with that reward, if it was known.")
            if fingerprint(reward) != self.reward:
                return False
            robust = Robust(counts, self.bound, self.delta, reward)
            gap = robust.best(kernels.robust.UPPER)[1] - robust.best(kernels.robust.LOWER)[1]
            return abs(gap - self.epsilon) <= 1e-7 * self.setting.sigma[-1]
        again = certify(counts, self.delta, self.bound, self.target)
        return abs(again.epsilon - self.epsilon) <= 1e-9 * self.epsilon and again.met == self.met

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Certificate:
        setting, low_high = Setting(**fields["setting"]), fields["reward_range"]
        return cls(**{**fields, "setting": setting, "reward_range": (float(low_high[0]), float(low_high[1]))})

    def __str__(self) -> str:
        kind = "stationary" if self.stationary else "step-dependent"
        scope = "any reward in [{:g}, {:g}]".format(*self.reward_range) if self.every_reward else "one reward"
        return (
            f"epsilon {self.epsilon:.4g} with probability {1 - self.delta:g}, {scope}, horizon {self.horizon}, "
            f"discount {self.discount:g}, {kind}, {self.bounds} bounds, {self.episodes:,} episodes"
        )


def fingerprint(reward: np.ndarray) -> str:
    """A digest of a reward, (H, S, A)."""
    return hashlib.sha256(np.ascontiguousarray(reward, dtype="<f8").tobytes()).hexdigest()


def certify(
    counts: Counts, delta: float = 0.1, bounds: str | Bound = "tight", epsilon: float | None = None, **options: Any
) -> Certificate:
    """What can be certified from these counts, whoever collected them; `epsilon` is the target, if there is one.

    Valid for episodes that were played one after the other, each by a policy that was fixed before it and may depend on
    the earlier ones, and counted all, up to any time. Leaving out episodes because of what happened in them voids it.

    `bounds` is `"tight"` or `"paper"`; `options` are those of the bound, such as `max_successors` of `TightBound`.
    """
    bound = as_bound(bounds, strict=True, **options)
    achieved = 2 * bound(counts, probability(delta, "delta"))
    return Certificate(
        epsilon=achieved,
        delta=float(delta),
        bounds=bound.name,
        met=epsilon is not None and achieved <= epsilon,
        target=epsilon,
        options=bound_options(bound),
        setting=counts.setting,
        episodes=counts.episodes,
        digest=counts.digest(),
    )

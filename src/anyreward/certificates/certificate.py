"""`Certificate` and `certify`: what counts prove, with all assumptions, in a form that can be checked again."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from ..data.counts import Counts
from ..data.numbering import Numbering
from ..rewards.forms import UNIT, ArrivalReward, Reward, checked_range, reward_of_setting
from ..rewards.given import given_rewards
from ..rewards.observed import PAID_ONCE
from ..setting import MIN_PROBABILITY, Setting, positive, probability, shown, whole_number
from ..words import assumed, confidence_level, exact, up
from .bounds import BOUNDS, Bound, as_bound, bound_options, with_later_options
from .calibrated import CalibratedBound, Design
from .calibrated_laws import LawQuotas
from .intervals import Robust

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..structure import Structure

OBSERVED = "observed"  # in place of the fingerprint of a reward that was observed, not given
SEVERAL = "several"  # in place of the fingerprint of one reward, if there are several


@dataclass(frozen=True)
class Certificate:
    """A proved sentence: with probability at least 1 - delta, every plan from the counts is epsilon-optimal.

        certificate = anyreward.certify(counts, delta=0.1)
        print(certificate)
        certificate.check(counts)                       # True

    `explore` and `certify` make certificates. Print one to see what it says; `check` computes it again from the counts.

    More exactly, with probability at least 1 - delta, for all policies and all rewards r_h(s, a) within `reward_range` at once
    (and all r_h(s, a, s') if the setting has `arrival_rewards`), the value of the policy in the empirical model is within
    epsilon/2 of its true value. The statement is about the given `reward` and the recommended policy alone if `reward` is not
    None; and about each of the given `rewards` and its plan `atlas.plan(reward, cautious=True)` alone if there are any. Once
    epsilon is met, `atlas.plan(reward)` is as good.

    Why a bound on value errors is one on what plans lose, and why it holds at all times: `docs/theory.md`, 1.1 and 1.2.

    It assumes that `assumptions` are true (for instance that the transitions do not depend on the step, if the setting is
    stationary) and that no episodes were selected by how they turned out.

    Attributes
    ----------
    epsilon : float
        How much a plan can lose, in units of reward. An epsilon that is not below `largest` says nothing.
    delta : float
        The probability that the statement is false is at most delta.
    bounds : str
        The name of the error bound, "tight" or "paper".
    met : bool
        Whether a target was asked for and reached.
    target : float or None
        The epsilon that was asked for.
    options : dict
        The options of the error bound.
    setting : Setting
    episodes : int
        The number of episodes in the counts.
    digest : str
        The fingerprint of the counts, `Counts.digest`.
    reward_range : (float, float)
        The range of the rewards, (0, 1) unless changed.
    reward : str or None
        None: the certificate is about every reward. Otherwise the fingerprint of the one reward that it is about; "observed" if
        that reward was not known but observed; or "several".
    transition_delta : float
        The part of delta that is spent on the transitions; the rest is spent on observed rewards. 0 stands for all of delta.
    assumed : tuple of str
        Assumptions in addition to those of the setting and of the error bound.
    rewards : tuple of (str, str)
        The names and fingerprints of the rewards that it is about, if these are several.
    mixtures : bool
        Whether it is about all convex mixtures of these rewards as well.
    claimed : bool
        True if the certificate was read from a file that does not contain what is needed to verify it.
    numbering : Numbering or None
        The names of states and actions, with which the assumptions are printed. It is no part of what is certified.
    """

    epsilon: float
    delta: float
    bounds: str
    met: bool
    target: float | None
    options: dict[str, Any]
    setting: Setting
    episodes: int
    digest: str
    reward_range: tuple[float, float] = UNIT
    reward: str | None = None
    transition_delta: float = 0.0
    assumed: tuple[str, ...] = ()
    claimed: bool = False
    rewards: tuple[tuple[str, str], ...] = ()
    mixtures: bool = False
    numbering: Numbering | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.transition_delta:
            object.__setattr__(self, "transition_delta", self.delta)

    @property
    def every_reward(self) -> bool:
        """Whether the certificate is about every reward at once."""
        return self.reward is None

    @property
    def names(self) -> tuple[str, ...]:
        """What the rewards are called that it is about, if these are several."""
        return tuple(name for name, _ in self.rewards)

    @property
    def of_observed(self) -> bool:
        """Whether one of the rewards that it is about was not known, but observed."""
        return OBSERVED in (self.reward, *(print_ for _, print_ in self.rewards))

    @cached_property
    def promised(self) -> float | None:
        """How good plans for the given rewards are certain to be; None if no rewards were given."""
        if self.every_reward:
            return None
        return self.target if self.met else self.epsilon

    def covers(self, arrival: bool) -> bool:
        """Whether the certificate is about all rewards r_h(s, a) or, with `arrival`, about all rewards r_h(s, a, s')."""
        return self.every_reward and (self.setting.arrival_rewards or not arrival)

    @cached_property
    def bound(self) -> Bound:
        """The error bound that epsilon was computed with."""
        bound: Bound = BOUNDS[self.bounds](**self.options)
        return bound

    @property
    def error_bound(self) -> float:
        """epsilon / 2: the bound on the value error of every policy."""
        return self.epsilon / 2

    def error_in(self, reward_range: tuple[float, float], arrival: bool = False) -> float:
        """The bound on the value error of every policy for rewards of another range, up to rounding: it grows with the width.

        It is inf if the certificate does not cover them.
        """
        if not self.covers(arrival):
            return inf
        (low, high), (least, most) = reward_range, self.reward_range
        return self.error_bound * (high - low) / (most - least)

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """Everything that is assumed in addition to the Markov property, as phrases. Data that contradict one are refused."""
        said = (*self.setting.assumptions, *self.bound.assumptions(self.setting), *self.assumed)
        return said if self.numbering is None else tuple(map(self.numbering.names_in, said))

    @property
    def largest(self) -> float:
        """The largest possible difference between the values of two policies. An epsilon that is not smaller says nothing."""
        steps = 1.0 if PAID_ONCE in self.assumed else float(self.setting.sigma[-1])
        return steps * (self.reward_range[1] - self.reward_range[0])

    @property
    def says_nothing(self) -> bool:
        """Whether epsilon is at least `largest`: any policy at all is that good."""
        return self.epsilon >= self.largest

    @property
    def played(self) -> int:
        """The number of episodes that were played: more than those in the counts if not all data are counted."""
        return max(self.episodes, self.bound.episodes if isinstance(self.bound, CalibratedBound) else 0)

    @property
    def kind_of_bounds(self) -> str:
        """The error bound in words."""
        return str(self.bound) if isinstance(self.bound, CalibratedBound) else f"{self.bounds} bounds"

    @property
    def horizon(self) -> int:
        """The number of steps of an episode."""
        return self.setting.horizon

    @property
    def discount(self) -> float:
        """The discount gamma."""
        return self.setting.discount

    @property
    def stationary(self) -> bool:
        """Whether transitions are assumed to be the same at every step."""
        return self.setting.stationary

    def check(self, counts: Counts, reward: Reward = None, policy: np.ndarray | None = None) -> bool:
        """Whether the certificate was made from these counts and its epsilon follows from them.

            atlas.certificate.check(atlas.counts)           # True: the same counts give the same epsilon

        Parameters
        ----------
        counts : Counts
        reward : optional
            The reward, if the certificate is about one reward, and the list of them if it is about several. A certificate about
            observed rewards cannot be checked, because the counts do not contain the rewards; a `ValueError` says so.
        policy : ndarray, (H, S) or (H, S, A), optional
            With a certificate about one reward: checks that this policy is epsilon-optimal.
        """
        if counts.setting != self.setting or counts.digest() != self.digest:
            return False
        if not self.every_reward:
            reached = self.target is not None and self.epsilon <= self.target
            if self.episodes != counts.episodes or self.met > reached:
                return False
            if reward is None or self.of_observed:
                which = "several rewards: pass these as a list" if self.rewards else "one reward: pass that reward"
                raise ValueError(
                    f"this certificate is about {which} to check it. A certificate about observed rewards cannot be checked."
                )
            if self.rewards:
                return self._check_several(counts, reward)
            setting = self.setting
            reward = reward_of_setting(reward, setting)
            if fingerprint(reward) != self.reward or self.reward_range != range_of(reward, self.reward_range):
                return False
            radii = self.bound.kl_radii(counts, self.transition_delta, isinstance(reward, ArrivalReward))
            robust = Robust(counts, radii, self.bound.most_successors(setting), reward)
            lower = robust.best(kernels.robust.LOWER)[1] if policy is None else robust.of(policy, kernels.robust.LOWER)
            gap = robust.best(kernels.robust.UPPER)[1] - lower
            least, most = extremes(reward)  # the reward's own, since a file may claim any range around them
            rounding = 1e-7 * float(setting.sigma[-1]) * max(1.0, abs(least), abs(most))
            return bool(gap <= self.epsilon + rounding) and set(counts.declared) <= set(self.assumed)
        again = certify(counts, self.delta, self.bound, self.target, self.reward_range)
        # The certificate may assume more than the counts show, such as that merged runs are of the same environment.
        if not set(again.assumed) <= set(self.assumed):
            return False
        same = replace(again, epsilon=self.epsilon, assumed=self.assumed) == self
        return same and abs(again.epsilon - self.epsilon) <= 1e-9 * again.epsilon

    def _check_several(self, counts: Counts, rewards: Any) -> bool:
        """`check` for given rewards: each has a plan with an interval that is not wider than epsilon."""
        from .given import GivenBounds
        from .mixtures import Mixtures

        given = given_rewards(rewards, self.setting, (-inf, inf), self.numbering)
        arrays = [one.reward for one in given]
        if [fingerprint(r) for r in arrays] != [print_ for _, print_ in self.rewards]:
            return False
        if self.reward_range != range_of_all(arrays, self.reward_range) or not set(counts.declared) <= set(self.assumed):
            return False
        found = GivenBounds(counts, self.bound, self.transition_delta, given, self.reward_range)
        limit = self.epsilon * (1 + 1e-9) + found.margin
        return (Mixtures(found).refine(limit) if self.mixtures else found).epsilon <= limit

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values, for `from_dict`; without the names, which belong to the atlas.

        Example:

            json.dumps(certificate.to_dict())
        """
        about = asdict(replace(self, numbering=None))
        del about["numbering"]
        return about

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Certificate:
        """The certificate that `to_dict` returned. Raises if a field is not what it has to be.

        Example:

            Certificate.from_dict(certificate.to_dict()) == certificate
        """
        setting, low_high = Setting(**fields["setting"]), fields["reward_range"]  # Setting turns the lists of a file into tuples
        assumed = fields.get("assumed", ())
        if not isinstance(assumed, list | tuple) or "numbering" in fields:  # a text would be taken apart into letters
            raise ValueError("its certificate is damaged.")
        ends = (float(low_high[0]), float(low_high[1]))
        options = with_later_options(fields["bounds"], fields["options"], setting.stationary and fields.get("reward") is None)
        rewards = tuple((name, print_) for name, print_ in fields.get("rewards", ()))
        said = {"setting": setting, "reward_range": ends, "assumed": tuple(assumed), "options": options, "rewards": rewards}
        certificate = cls(**{**fields, **said})
        certificate._check_fields()
        return certificate

    def _check_fields(self) -> None:
        """Raises if a field has a wrong type or value. For certificates from files."""
        numbers = (self.epsilon, self.delta, self.transition_delta, *self.reward_range)
        right = all(isinstance(x, float | int) and not isinstance(x, bool) and isfinite(x) for x in numbers)
        right = right and self.epsilon >= 0 and MIN_PROBABILITY <= self.transition_delta <= self.delta < 1
        right = right and all(isinstance(flag, bool) for flag in (self.met, self.claimed, self.mixtures))
        right = right and isinstance(self.digest, str) and isinstance(self.reward, str | None)
        right = (
            right
            and isinstance(self.options, dict)
            and all(isinstance(text, str) and text.isprintable() for text in (*self.assumed, *self.setting.assumed))
            and all(isinstance(text, str) and text.isprintable() for pair in self.rewards for text in pair)
            and (self.reward == SEVERAL) == (len(self.rewards) > 1)
            and (not self.mixtures or self.reward == SEVERAL)
        )
        if not right or self.bounds not in BOUNDS or whole_number(self.episodes, "episodes") < 0:
            raise ValueError("its certificate is damaged.")
        checked_range(self.reward_range)
        if self.target is not None:
            positive(self.target, "target")
        as_bound(self.bounds, **self.options)  # raises if an option is unknown or wrong

    def __str__(self) -> str:
        kind = "stationary" if self.stationary else "step-dependent"
        each = "each mixture" if self.mixtures else "each"
        scope = f"{each} of {len(self.rewards)} rewards ({'; '.join(self.names)})" if self.rewards else "one reward"
        if self.reward_range != (0.0, 1.0):
            scope += f" in [{exact(self.reward_range[0])}, {exact(self.reward_range[1])}]"
        if self.every_reward:
            of = "a transition" if self.setting.arrival_rewards else "a step, state and action"
            scope = f"any reward of {of} in [{exact(self.reward_range[0])}, {exact(self.reward_range[1])}]"
        nothing = f" (which says nothing: no two values differ by more than {up(self.largest)})" if self.says_nothing else ""
        claimed = "claimed by the file, not verified: " if self.claimed else ""
        sure = f"with probability {confidence_level(self.delta)}"
        return (
            f"{claimed}epsilon {up(self.epsilon)}{nothing} {sure}, {scope}, horizon {self.horizon}, "
            f"discount {exact(self.discount)}, {kind}, {self.kind_of_bounds}, {self.played:,} episodes{assumed(self.assumptions)}"
        )

    def _repr_html_(self) -> str:
        from ..pages import certificate_card

        return certificate_card(self)


def fingerprint(reward: np.ndarray | ArrivalReward) -> str:
    """A SHA-256 fingerprint of a reward, (H, S, A) or on arrival."""
    parts = (reward.pointer, reward.target, reward.pay) if isinstance(reward, ArrivalReward) else (reward,)
    return hashlib.sha256(b"".join(np.ascontiguousarray(part, dtype="<f8").tobytes() for part in parts)).hexdigest()


def range_of(reward: np.ndarray | ArrivalReward, stated: tuple[float, float]) -> tuple[float, float] | None:
    """The range that a certificate about a known reward names: (0, 1) if the reward lies there, else the one that was stated.

    None if the reward does not lie in that range either.
    """
    return range_of_all([reward], stated)


def range_of_all(rewards: Sequence[np.ndarray | ArrivalReward], stated: tuple[float, float]) -> tuple[float, float] | None:
    """`range_of` for several rewards: (0, 1) if all lie there, else the range that was stated, or None."""
    ends = [extremes(reward) for reward in rewards]
    least, most = min(low for low, _ in ends), max(high for _, high in ends)
    return next((it for it in ((0.0, 1.0), stated) if it[0] <= least and most <= it[1]), None)


def extremes(reward: np.ndarray | ArrivalReward) -> tuple[float, float]:
    """The smallest and the largest value of a reward."""
    least, most = reward.extremes() if isinstance(reward, ArrivalReward) else (reward.min(), reward.max())
    return float(np.min(least)), float(np.max(most))


def in_units(error: float, reward_range: tuple[float, float]) -> float:
    """A bound on errors of values for rewards in [0, 1], for rewards of another range; rounded up."""
    low, high = reward_range
    return float(error) if reward_range == UNIT else float(np.nextafter(error * (high - low), np.inf))


def certify(
    counts: Counts,
    delta: float = 0.1,
    bounds: str | Bound = "tight",
    epsilon: float | None = None,
    reward_range: tuple[float, float] = UNIT,
    structure: Structure | None = None,
    **options: Any,
) -> Certificate:
    """The epsilon that these counts prove, whoever collected the data.

        counts = Counts.from_episodes(states, actions, setting)
        certificate = certify(counts, delta=0.1)
        certificate.epsilon        # with probability at least 0.9, every plan from these counts is this close to optimal

    Parameters
    ----------
    counts : Counts
    delta : float, default 0.1
        The probability that the certificate may be wrong.
    bounds : {"tight", "paper", "calibrated"} or Bound, default "tight"
        The error bound. `"calibrated"` is for batches whose sizes were fixed before they were drawn, and needs `quotas`.
    epsilon : float, optional
        A target; `Certificate.met` then says whether it is reached.
    reward_range : (float, float), default (0, 1)
        The range of the rewards that the certificate is about. epsilon is in their units.
    structure : Structure, optional
        How transitions are drawn, if you know it: the certificate is then about `counts.with_structure(structure)`.
    **options
        Options of the error bound, such as `max_successors` of `TightBound`; or `deterministic=True` if you know beforehand that
        every transition is deterministic. With `bounds="calibrated"`: `quotas`, the number of samples of each law that was fixed
        beforehand, (H, S, A), or (S, A) if stationary; the counts have to have exactly that many. Also `successors`, a mask of
        the outcomes that were expected, and `starts`, the number of initial states (`Design.of_quotas`). With a structure,
        `quotas` is a mapping from laws to numbers of draws.

    Returns
    -------
    Certificate
        It prints all assumptions, including what was declared to the counts.

    Notes
    -----
    The certificate is valid if the episodes were played one after the other, each with a policy that was fixed before the episode
    and may depend on earlier ones, and if all episodes up to some time are counted. The time may depend on the data. Leaving out
    episodes because of what happened in them voids the certificate.
    """
    if not isinstance(counts, Counts):
        raise ValueError(f"counts is {shown(counts)}: it has to be the counts of transitions.")
    if structure is not None:
        counts = counts.with_structure(structure)
    if (
        isinstance(bounds, str)
        and bounds == CalibratedBound.name
        and "quotas" in options
        and counts.setting.structure is not None
    ):
        options = {"design": LawQuotas.of(counts.setting, options.pop("quotas")), "attempt": 0, **options}
    elif isinstance(bounds, str) and bounds == CalibratedBound.name and "quotas" in options:
        how = {name: options.pop(name) for name in ("quotas", "successors", "starts") if name in options}
        options = {"design": Design.of_quotas(counts.setting, delta=delta, **how), "attempt": 0, **options}
    elif isinstance(bounds, str) and bounds == CalibratedBound.name and not options:
        raise ValueError("the bounds 'calibrated' need quotas that were fixed before the data: give them, or use tight bounds.")
    bound = as_bound(bounds, **options)
    if counts.selected and not isinstance(bound, CalibratedBound):
        raise ValueError(
            "these counts cannot be certified with other bounds than their own: with calibrated bounds, samples of laws that "
            "started again were left out."
        )
    if counts.drawn is not None and not isinstance(bound, CalibratedBound):
        raise ValueError(
            "these counts leave out draws of laws whose quota is full, for calibrated bounds: for others, take "
            "counts.with_structure(structure), which counts all draws."
        )
    counts.check_start()
    ends = checked_range(reward_range)
    return certificate_of(counts, delta, bound, bound(counts, probability(delta, "delta")), epsilon, ends)


def certificate_of(
    counts: Counts, delta: float, bound: Bound, error: float, epsilon: float | None, reward_range: tuple[float, float] = UNIT
) -> Certificate:
    """The certificate for counts whose error bound has been computed already.

    Parameters
    ----------
    counts : Counts
    delta : float
    bound : Bound
        The error bound.
    error : float
        The value of `bound` for these counts and this delta.
    epsilon : float or None
        The target, if there is one.
    reward_range : (float, float)
        The range of the rewards that it is about.
    """
    error = in_units(error, reward_range)
    target = None if epsilon is None else positive(epsilon, "epsilon")
    return Certificate(
        epsilon=float(2 * error),
        delta=float(delta),
        bounds=bound.name,
        met=bool(target is not None and 2 * error <= target),
        target=target,
        options=bound_options(bound),
        reward_range=reward_range,
        numbering=counts.numbering,
        **counts.described(),
    )

"""What exploration leaves behind: counts and a certificate, to plan from for any reward, to keep and to merge."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import kernels
from .._files import held
from ..certificates.certificate import Certificate, certify
from ..certificates.intervals import Robust
from ..data.counts import Counts
from ..data.empirical import EmpiricalModel
from ..planning import _induct, as_policy
from ..rewards.forms import ArrivalReward, Reward, reward_of_setting
from ..rewards.observed import Paid
from ..setting import shown, truth
from ..words import certain, exact, interval
from .recording import Recording

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

OWN = "own"  # the environment's own reward, as it was observed
REWARDS = ("random", "deterministic")  # what may be assumed of it
COUNTS = "counts:"  # before the digest of the counts of runs that have marks
SAME = "the merged runs are of the same environment"


class Interval(NamedTuple):
    """A value that is certain to lie between two numbers, with the certificate's probability."""

    lower: float
    value: float  # in the empirical model
    upper: float

    def __str__(self) -> str:
        return f"{self.value:.4g} in {interval(self.lower, self.upper)}"


@dataclass(frozen=True)
class Plan:
    """A policy for one reward, with an interval of its own: optimal in the empirical model, or `cautious`.

    On the certificate's event, lower <= true value of the policy <= true optimal value <= upper, for every plan made from
    the same counts at once, at no further delta: any number of rewards may be asked, chosen after seeing the data.
    *Proof.* The event says that every true law lies in its KL ball and does not mention rewards; `lower` is the smallest value
    of the policy, and `upper` the largest optimal value, over all models in the balls.

    A plan for the environment's own reward has an event of its own, of the same probability (`Atlas.plan_own`).
    """

    policy: np.ndarray  # (H, S) integers
    value: float  # of the policy in the empirical model, from the start
    lower: float
    upper: float
    reward_range: tuple[float, float]
    delta: float  # the interval holds with probability at least 1 - delta ...
    assumptions: tuple[str, ...]  # ... if all of this is true

    @property
    def regret_bound(self) -> float:
        """How far from optimal the policy can be."""
        return self.upper - self.lower

    def __repr__(self) -> str:
        H, S = self.policy.shape
        sure = f"{interval(self.lower, self.upper)} with probability {certain(self.delta)}"
        assumes = f"; assumes: {'; '.join(self.assumptions)}" if self.assumptions else ""
        return f"Plan(value {self.value:.4g} in {sure}, policy for {H} steps and {S} states{assumes})"


@dataclass(frozen=True, eq=False)
class Atlas:
    """Counts of a setting with what they certify. Made by `explore`, `load` or from counts of your own."""

    counts: Counts
    certificate: Certificate
    history: tuple[tuple[int, float], ...] = ()  # (episodes, certified epsilon) along the way
    source: dict[str, Any] = field(default_factory=dict)  # how it was explored
    runs: tuple[str, ...] = ()  # marks of the separate runs in it, by which merging notices that it would count one twice
    policy: np.ndarray | None = None  # what was recommended for the one reward that was explored for, (H, S), if any
    paid: Paid | None = None  # what the environment paid, if it paid anything
    recording: Recording | None = None  # the episodes themselves, if they were to be recorded
    recorded: tuple[int, ...] = ()  # how many of them each run has
    reward: np.ndarray | ArrivalReward | None = None  # the one reward that was explored for, if it was known

    def __post_init__(self) -> None:
        if self.policy is not None:
            object.__setattr__(self, "policy", self.legal(self.policy[:, : self.counts.setting.n_states]))
        if self.recording is not None and not self.recorded:
            object.__setattr__(self, "recorded", (len(self.recording.states),))
        digest = self.certificate.digest
        if not self.runs:  # data from elsewhere are known by their counts alone
            object.__setattr__(self, "runs", (digest,))
        elif digest not in self.runs and COUNTS + digest not in self.runs:
            object.__setattr__(self, "runs", (*self.runs, COUNTS + digest))

    @property
    def episodes(self) -> int:
        """How many episodes it took."""
        return self.counts.episodes

    @property
    def error_bound(self) -> float:
        """E-bar at the start: the bound on every policy's value error under every reward. epsilon is twice that."""
        return self.certificate.error_bound

    def plan(
        self,
        reward: Reward,
        reward_range: tuple[float, float] | None = None,
        cautious: bool = False,
        rewards: str | None = None,
        stationary_rewards: bool = False,
    ) -> Plan:
        """The optimal policy of the empirical model for a reward, with its certified interval.

        `reward` is an array (S,), (S, A) or (H, S, A), or a function (h, s, a) -> float, with values in [0, 1]; or a reward on
        arrival, as an array (S, A, S) or (H, S, A, S), a function (h, s, a, s_next) or a sparse table (`rewards`). Rewards in
        other units need their `reward_range`: value and interval are then in those units, and the any-reward error bound is
        stretched with the range. An expression such as `"state == 30"` is a reward too (`expressions`). `"own"` is what the
        environment itself paid; `rewards` and `stationary_rewards` are for it alone, see `plan_own`. With `cautious`, the policy
        with the best guaranteed value is returned instead: the one whose smallest value over all models that the data allow is
        largest.

        The interval is that of robust planning over the KL balls, cut by the any-reward error bound and by what the reward
        allows at all. For a reward on arrival from an atlas that was certified without them, the balls are those of an event
        that covers the last step too: such intervals hold at once among themselves, with the same probability.
        """
        if isinstance(reward, str) and reward == OWN:
            return self.plan_own(reward_range, cautious, "random" if rewards is None else rewards, stationary_rewards)
        if rewards is not None or stationary_rewards:
            raise ValueError(
                "rewards and stationary_rewards are for 'own', the environment's reward; of yours there is nothing to assume."
            )
        reward_range = (0.0, 1.0) if reward_range is None else reward_range
        r, slack, error, lowest, highest = self._units(reward, reward_range)
        model, setting = self._model, self.counts.setting
        robust = self._robust(r)
        if cautious:
            policy = robust.best(kernels.robust.LOWER)[0].argmax(axis=2)
        else:
            policy = _induct(model, r, setting.horizon, setting.discount, None).policy
        policy = policy[:, : setting.n_states]
        lowest_policy, played = (after_ends(self.counts, policy, r, best) for best in (False, True))
        value = float(model.initial @ _induct(model, r, setting.horizon, setting.discount, played).V[0])
        value = min(highest, max(lowest, value))  # but for rounding it is
        # The bound on the optimum is about the best value in the empirical model, which a cautious policy may not have.
        best = value if not cautious else float(model.initial @ _induct(model, r, setting.horizon, setting.discount, None).V[0])
        floor = float(model.initial @ _induct(model, r, setting.horizon, setting.discount, lowest_policy).V[0])
        lower = max(lowest, floor - error, robust.of(lowest_policy, kernels.robust.LOWER) - slack)
        upper = min(highest, best + error, robust.best(kernels.robust.UPPER)[1] + slack)
        certificate = self.certificate
        return Plan(policy, value, lower, max(lower, upper), reward_range, certificate.delta, self._assumptions())

    def _assumptions(self, *more: str) -> tuple[str, ...]:
        """What an interval assumes: all that the certificate does, and perhaps more."""
        return (*self.certificate.assumptions, *more)

    def plan_own(
        self,
        reward_range: tuple[float, float] | None = None,
        cautious: bool = False,
        rewards: str = "random",
        stationary_rewards: bool = False,
    ) -> Plan:
        """A plan for the reward that the environment itself paid while it was explored.

        Parameters
        ----------
        reward_range
            What the environment can pay, [0, 1] unless it is given. It is what a transition that was never seen may pay.
        cautious
            Whether to return the policy with the best guaranteed value.
        rewards
            `"random"`: nothing is assumed, the mean reward of each step, state and action lies in a KL interval
            (`docs/theory.md`, 8). Half of delta goes to these means and half to the transitions, so the interval of the plan
            holds with probability 1 - delta. `"deterministic"`: you know that the same transition always pays the same, so one
            payment tells all. Data that contradict it are refused.
        stationary_rewards
            Whether you know that rewards do not depend on the step. That the transitions do not (`stationary`) does not say so.

        Such intervals, for the same `rewards`, hold at once among themselves. Together with intervals for given rewards, they
        hold at once with probability at least 1 - 2 delta.
        """
        stationary_rewards = truth(stationary_rewards, "stationary_rewards")
        if self.paid is None or not len(self.paid):
            raise ValueError("this atlas has no rewards of its own: explore an environment that pays some, or give a reward.")
        if rewards not in REWARDS:
            raise ValueError(f"rewards is {shown(rewards)}: it has to be one of {', '.join(map(repr, REWARDS))}.")
        low, high = checked_range((0.0, 1.0) if reward_range is None else reward_range)
        seen = self.paid.range
        if not low <= seen[0] <= seen[1] <= high:
            raise ValueError(
                f"rewards from {seen[0]:g} to {seen[1]:g} were paid, outside [{low:g}, {high:g}]: "
                "pass reward_range=(lowest, highest), what the environment can pay."
            )
        if self.paid.pooled and not stationary_rewards:
            raise ValueError(
                "the rewards in this atlas were pooled over the steps when it was saved: if you know that they do not depend on "
                "the step, pass stationary_rewards=True; otherwise explore again."
            )
        setting, stays, delta = self.counts.setting, self.counts.stays(), self.certificate.delta
        assumed = [f"rewards lie in [{exact(low)}, {exact(high)}]"]
        if rewards == "deterministic":
            against = self.paid.contradiction(stationary_rewards)
            if against is not None:
                h, s, a, s_next = against
                raise ValueError(
                    f"rewards is 'deterministic', but from state {s} with action {a} to {s_next} different rewards were paid "
                    f"(among others at step {h}): leave it out"
                    + (", or leave out stationary_rewards." if stationary_rewards and self.paid.contradiction() is None else ".")
                )
            assumed.append("the same transition always pays the same" + ("" if stationary_rewards else " at the same step"))
            own = self.paid.deterministic(setting, stays, (low, high), stationary_rewards)
        else:
            own = self.paid.random(setting, stays, (low, high), stationary_rewards, delta / 2)
        drift = self.paid.drift(setting, (low, high)) if stationary_rewards and not self.paid.pooled else None
        if drift is not None:
            raise ValueError(
                f"stationary_rewards is True, but going from state {drift[0]} with action {drift[1]} to {drift[2]} pays "
                "differently at different steps, beyond chance (1 in a million): leave it out."
            )
        if stationary_rewards:
            assumed.append("rewards do not depend on the step")
        share = delta / 2 if rewards == "random" else delta
        least, most = (self._robust(r, share) for r in (own.least, own.most))
        model, total, H, gamma = self._model, float(setting.sigma[-1]), setting.horizon, setting.discount
        if cautious:
            policy = least.best(kernels.robust.LOWER)[0].argmax(axis=2)
        else:
            policy = _induct(model, own.average, H, gamma, None).policy
        policy = policy[:, : setting.n_states]
        played = after_ends(self.counts, policy, own.average, best=False)
        value = float(model.initial @ _induct(model, own.average, H, gamma, played).V[0]) + own.base[1] * total
        slack = 1e-12 * total * max(abs(low), abs(high))
        lower = max(low * total - slack, least.of(played, kernels.robust.LOWER) + own.base[0] * total - slack)
        upper = min(high * total + slack, most.best(kernels.robust.UPPER)[1] + own.base[2] * total + slack)
        return Plan(policy, value, lower, max(lower, upper), (low, high), delta, self._assumptions(*assumed))

    def legal(self, policy: np.ndarray) -> np.ndarray:
        """A policy, (H, S) or (H, S, A), as it is played: an illegal action a is replaced by legal action number a mod k.

        k is how many actions are legal there. In a state that was never met that is not known: intervals allow for any.
        """
        illegal = self.counts.illegal
        if not len(illegal):
            return policy
        A = self.counts.setting.n_actions
        allowed = ~illegal
        order = np.argsort(illegal, axis=1, kind="stable")  # the legal ones first
        instead = np.take_along_axis(order, np.arange(A)[None] % np.maximum(allowed.sum(axis=1, keepdims=True), 1), axis=1)
        instead = np.where(allowed, np.arange(A), instead)  # (S, A)
        if policy.ndim == 2:
            return instead[np.arange(len(instead))[None], policy]
        moved = np.zeros_like(policy)
        for a in range(A):
            moved[:, np.arange(len(instead)), instead[:, a]] += policy[:, :, a]
        return moved

    def evaluate(self, policy: ArrayLike, reward: Reward, reward_range: tuple[float, float] = (0.0, 1.0)) -> Interval:
        """The value of any policy, (H, S) actions or (H, S, A) probabilities, with its certified interval.

        All such intervals, for all policies and rewards, hold at once on the certificate's event: see `Plan`.
        """
        if isinstance(reward, str) and reward == OWN:
            raise ValueError("evaluate does not take 'own': plan('own') gives an interval for its own policy.")
        r, slack, error, lowest, highest = self._units(reward, reward_range)
        model, setting, robust = self._model, self.counts.setting, self._robust(r)
        S, N = setting.n_states, setting.n_outcomes
        whole = N > S and np.ndim(policy) in (2, 3) and np.shape(policy)[1] == N
        states = as_policy(policy, N if whole else S, setting.n_actions, setting.horizon)
        legal = self.legal(states[:, :S])
        pi = np.concatenate([legal, states[:, S:]], axis=1) if whole else after_ends(self.counts, legal, r, best=False)
        value = float(model.initial @ _induct(model, r, setting.horizon, setting.discount, pi).V[0])
        value = min(highest, max(lowest, value))  # but for rounding it is
        lower = max(lowest, value - error, robust.of(pi, kernels.robust.LOWER) - slack)
        upper = min(highest, value + error, robust.of(pi, kernels.robust.UPPER) + slack)
        return Interval(lower, value, max(lower, upper))

    @cached_property
    def _model(self) -> EmpiricalModel:
        return self.counts.model()

    @cached_property
    def _radii(self) -> dict[tuple[float, bool], np.ndarray]:
        """KL radii for a delta, with and without the laws of the last step, as they are asked for."""
        return {}

    def _robust(self, reward: np.ndarray | ArrivalReward, delta: float | None = None) -> Robust:
        bound, last_step = self.certificate.bound, isinstance(reward, ArrivalReward)
        key = (self.certificate.transition_delta if delta is None else delta, last_step)
        if key not in self._radii:
            self._radii[key] = bound.kl_radii(self.counts, *key)
        return Robust(self.counts, self._radii[key], bound.most_successors(self.counts.setting), reward)

    def _units(
        self, reward: Reward, reward_range: tuple[float, float]
    ) -> tuple[np.ndarray | ArrivalReward, float, float, float, float]:
        """The reward, checked; room for rounding; the any-reward error; the lowest and highest value it can give."""
        setting = self.counts.setting
        low, high = checked_range(reward_range)
        r = reward_of_setting(reward, setting, (low, high))
        gammas = setting.discount ** np.arange(setting.horizon)
        arrival = isinstance(r, ArrivalReward)
        extremes = r.extremes() if isinstance(r, ArrivalReward) else (r.min(axis=(1, 2)), r.max(axis=(1, 2)))
        lowest, highest = (float(gammas @ extreme) for extreme in extremes)
        exact_ends = [sum(map(Fraction, extreme.tolist())) for extreme in extremes] if setting.discount == 1.0 else []
        slack = 1e-12 * float(gammas.sum()) * max(abs(low), abs(high))
        # What the certificate does not cover has the interval of robust planning alone.
        error = self.error_bound * (high - low) + slack if self.certificate.covers(arrival) else np.inf
        rounding = 1e-15 * (setting.horizon + 10)  # relative, of a sum over the steps
        if [lowest, highest] == exact_ends:  # whole numbers, mostly: nothing was rounded
            return r, slack, error, lowest, highest
        return r, slack, error, lowest - rounding * abs(lowest), highest + rounding * abs(highest)

    def __or__(self, other: Atlas) -> Atlas:
        """Both together, see `merge`."""
        return self.merge(other) if isinstance(other, Atlas) else NotImplemented

    def merge(self, other: Atlas, same_environment: bool = False) -> Atlas:
        """Both together: counts added, certified afresh.

        The merged certificate is valid if which runs to merge was decided before they were seen, or if all are merged:
        put the runs in a row, each law's samples are still independent draws. Choosing runs by how they turned out voids it,
        and so does counting a run twice, which is refused.

        Both have to come from the same environment, by the fingerprint that `explore` keeps. Data of unknown origin have none,
        and neither does an environment of your own, of which only the class is known: pass `same_environment=True` if you know
        it.
        """
        if not isinstance(other, Atlas):
            raise ValueError(f"a {type(other).__name__} cannot be merged with an atlas: make an atlas of it first.")
        mine, theirs = self.certificate, other.certificate
        if not (mine.every_reward and theirs.every_reward):
            raise ValueError("an atlas certified for one reward cannot be merged: certify its counts for every reward first.")
        for name in ("delta", "bounds", "options"):
            if getattr(mine, name) != getattr(theirs, name):
                raise ValueError(f"atlases with {name} {getattr(mine, name)} and {getattr(theirs, name)} cannot be merged.")
        if shared_runs(self.runs, other.runs):
            raise ValueError("these atlases share a run: counting the same episodes twice would void the certificate.")
        if self.counts.setting != other.counts.setting:
            one, two = asdict(self.counts.setting), asdict(other.counts.setting)
            differ = ", ".join(
                f"{name} ({str(one[name])[:40]} and {str(two[name])[:40]})" for name in one if one[name] != two[name]
            )
            raise ValueError(f"atlases of different settings cannot be merged, they differ in {differ}: explore both alike.")
        prints = self.source.get("fingerprint"), other.source.get("fingerprint")
        names = [atlas.source.get("env", "data of unknown origin") for atlas in (self, other)]
        if None not in prints and prints[0] != prints[1]:
            raise ValueError(
                f"these atlases are of different environments, {names[0]} and {names[1]} (by their fingerprints): merged, they "
                "would certify neither."
            )
        if None in prints and not same_environment:
            unknown = names[prints.index(None)]
            raise ValueError(
                f"whether these atlases are of the same environment cannot be told: {unknown} has no fingerprint. "
                "If you know that it is the same, say so: a.merge(b, same_environment=True), or --same-environment."
            )
        if self.source.get("labels") != other.source.get("labels"):
            raise ValueError("these atlases numbered their states differently as they appeared: they cannot be merged.")
        counts = self.counts + other.counts
        target = mine.target if mine.target == theirs.target else None
        certificate = certify(counts, mine.delta, mine.bounds, target, **mine.options)
        said = (*certificate.assumed, *mine.assumed, *theirs.assumed, *((SAME,) if None in prints else ()))
        certificate = replace(certificate, assumed=tuple(dict.fromkeys(said)))
        paid = None if self.paid is None or other.paid is None else self.paid + other.paid
        recording = None
        if self.recording is not None and other.recording is not None:
            recording = Recording(*(np.concatenate(parts) for parts in zip(self.recording, other.recording, strict=True)))
        kept = ("labels", "grid", "arrows", "env", *(() if None in prints else ("fingerprint",)))
        source = {"merged": [self.source, other.source]} | {k: v for k, v in self.source.items() if k in kept}
        recorded = self.recorded + other.recorded if recording is not None else ()
        return Atlas(counts, certificate, (), source, self.runs + other.runs, None, paid, recording, recorded)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a Parquet file: a table of (h, s, a, next, count), h = -1 for the starts, the rest in its metadata.

        A step-dependent atlas with transfer has the column `evidence` as well (`Counts`); one of an environment with rewards has
        what was paid. The file appears whole or not at all; an older one of that name stays until then.
        """
        with held(Path(path)):
            self._write(Path(path), {}, {})

    def _write(self, path: Path, progress: dict[str, Any], state: dict[str, np.ndarray]) -> None:
        """Saves, with what an exploration needs to go on from here."""
        from .format import write

        write(self, path, progress, state)

    def to_minari(self, dataset_id: str, **options: Any) -> Any:
        """The recorded episodes as a Minari dataset, if exploration was asked to `record` them (`data.importers.to_minari`)."""
        from ..data.importers import to_minari

        return to_minari(self, dataset_id, **options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atlas) and self.certificate == other.certificate and self.counts == other.counts

    __hash__ = None  # type: ignore[assignment]  # counts grow

    def __repr__(self) -> str:
        return f"Atlas({self.certificate})"


def after_ends(counts: Counts, policy: np.ndarray, reward: np.ndarray | ArrivalReward, best: bool) -> np.ndarray:
    """A policy of the states, (H, S), for all outcomes, where to end in a state is one: what it names after an early end.

    Nothing is played there, but a reward may depend on the action. A policy that is given names what it plays in the state in
    which the episode ended; a plan names the action that pays best (`best`), which is never less.
    """
    setting = counts.setting
    S, N, A, H = setting.n_states, setting.n_outcomes, setting.n_actions, setting.horizon
    if N == S:
        return policy
    if not best:
        return np.concatenate([policy, policy], axis=1)
    pay = np.zeros((H, N, A)) if isinstance(reward, ArrivalReward) else reward
    if isinstance(reward, ArrivalReward):
        pairs, stay = np.arange(S * A, N * A), np.repeat(np.arange(S, N), A)
        for h in range(H):
            pay[h, S:] = reward.at(h, pairs, stay).reshape(S, A)
    return np.concatenate([policy, pay[:, S:].argmax(axis=2)], axis=1)


def shared_runs(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether a run may be in both. Explorations are told apart by their marks, even if their counts happen to be the same; data
    from elsewhere are known by their counts, and may be those of an exploration."""
    mine, theirs = ({run for run in runs if not run.startswith(COUNTS)} for runs in (one, other))
    return bool(mine & theirs or any(COUNTS + run in other for run in mine) or any(COUNTS + run in one for run in theirs))


def checked_range(reward_range: Any) -> tuple[float, float]:
    """Two finite numbers of which the first is below the second."""
    try:
        low, high = (float(x) for x in reward_range)
    except (TypeError, ValueError):
        raise ValueError(f"reward_range is {shown(reward_range)}: it has to be two numbers, (lowest, highest).") from None
    if not (isfinite(low) and isfinite(high) and low < high):
        raise ValueError(f"reward_range is {reward_range}: the first number has to be below the second, both finite.")
    return low, high

"""`Atlas`: the result of an exploration, from which to plan for any reward."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from .._files import file_lock
from ..certificates.certificate import Certificate, certify
from ..certificates.intervals import Robust
from ..data.counts import Counts
from ..data.empirical import EmpiricalModel
from ..data.numbering import Numbering
from ..planning import as_policy, induct
from ..rewards.forms import ArrivalReward, Reward, reward_of_setting
from ..rewards.observed import ObservedRewards
from ..setting import boolean, shown
from ..words import exact
from .plan import Interval, Plan
from .recording import Recording

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

OWN = "own"  # stands for the environment's own reward, as it was observed
REWARDS = ("random", "deterministic")  # what may be assumed about the environment's own reward
COUNTS = "counts:"  # prefix of the digest of the counts, for runs that have an identifier
SAME = "the merged runs are of the same environment"  # an assumption that is printed


@dataclass(frozen=True, eq=False)
class Atlas:
    """The result of an exploration: counts and their certificate, from which to plan for any reward.

        atlas = anyreward.explore(env, horizon=20, epsilon=2.0)
        plan = atlas.plan(reward)                       # a policy, and bounds on its value
        atlas.evaluate(policy, reward)                  # bounds on the value of a policy of your own
        atlas.save("chain.atlas")
        anyreward.load("chain.atlas") | other_atlas     # merged and certified again

    An atlas is made by `explore`, `load` and `merge`, or from counts of your own: ``Atlas(counts, certify(counts))``.

    Attributes
    ----------
    counts : Counts
    certificate : Certificate
    history : tuple of (int, float)
        Pairs (episodes, certified epsilon) during the exploration.
    source : dict
        How the data were collected: environment, algorithm, options.
    runs : tuple of str
        Identifiers of the separate runs that it contains; merging uses them to refuse counting a run twice.
    policy : ndarray of int, (H, S), or None
        The recommended policy, if the exploration was for one reward.
    paid : ObservedRewards or None
        The rewards that the environment paid, if any.
    recording : Recording or None
        The episodes themselves, if they were recorded.
    recorded : tuple of int
        The number of recorded episodes of each run.
    reward : ndarray, ArrivalReward or None
        The reward that the exploration was for, if it was one known reward.
    numbering : Numbering
        How observations and actions are numbered, and what they are called.
    """

    counts: Counts
    certificate: Certificate
    history: tuple[tuple[int, float], ...] = ()
    source: dict[str, Any] = field(default_factory=dict)
    runs: tuple[str, ...] = ()
    policy: np.ndarray | None = None
    paid: ObservedRewards | None = None
    recording: Recording | None = None
    recorded: tuple[int, ...] = ()
    reward: np.ndarray | ArrivalReward | None = None
    numbering: Numbering = None  # type: ignore[assignment]  # numbers without names unless it is given

    def __post_init__(self) -> None:
        if self.numbering is None:
            object.__setattr__(self, "numbering", Numbering.of_setting(self.counts.setting))
        if self.policy is not None:
            object.__setattr__(self, "policy", self.legal(self.policy[:, : self.counts.setting.n_states]))
        if self.recording is not None and not self.recorded:
            object.__setattr__(self, "recorded", (len(self.recording.states),))
        digest = self.certificate.digest
        if not self.runs:  # imported data are identified by their counts alone
            object.__setattr__(self, "runs", (digest,))
        elif digest not in self.runs and COUNTS + digest not in self.runs:
            object.__setattr__(self, "runs", (*self.runs, COUNTS + digest))

    @property
    def episodes(self) -> int:
        """The number of episodes."""
        return self.counts.episodes

    def state_name(self, s: int) -> str:
        """What state number s is called; numbers beyond the states are terminations (`Setting.terminal`)."""
        setting = self.counts.setting
        if s >= setting.n_states:
            return f"terminated in {self.numbering.state_name(s - setting.n_states)}"
        return "terminated" if setting.terminal == "end" and s == setting.n_states - 1 else self.numbering.state_name(s)

    def action_name(self, a: int) -> str:
        """What action number a is called."""
        return self.numbering.action_name(a)

    @property
    def error_bound(self) -> float:
        """E-bar at the start: the bound on the value error of every policy under every reward. epsilon is twice that."""
        return self.certificate.error_bound

    def plan(
        self,
        reward: Reward,
        reward_range: tuple[float, float] | None = None,
        cautious: bool = False,
        rewards: str | None = None,
        stationary_rewards: bool = False,
    ) -> Plan:
        """The optimal policy of the empirical model for a reward, with certified bounds.

        Parameters
        ----------
        reward : array_like, callable, mapping or str
            An array (S,), (S, A) or (H, S, A), or a function (h, s, a) -> float; or a reward on arrival: an array (S, A, S) or
            (H, S, A, S), a function (h, s, a, s_next) -> float or a sparse table (`rewards.forms`). An expression such as `"state
            == 30"` (`rewards.expressions`) or the name of a file (`rewards.files`). `"own"` is the reward that the environment
            itself paid.
        reward_range : (float, float), optional
            The range of the reward, (0, 1) by default. With another range, value and bounds are in the units of the reward, and
            the error bound for all rewards is multiplied by the width of the range.
        cautious : bool, default False
            Return the policy with the best guaranteed value instead: its smallest value over all models that the data allow is
            largest.
        rewards, stationary_rewards
            For `"own"` only, see `plan_own`.

        Returns
        -------
        Plan

        Notes ----- The bounds are those of robust planning over the KL balls, cut off by the error bound for all rewards and by
        the smallest and largest value that the reward allows at all. For a reward on arrival, from an atlas that was certified
        without them, the balls are those of an event that covers the last step too: such bounds hold at once among themselves,
        with the same probability.
        """
        if isinstance(reward, str) and reward == OWN:
            return self.plan_own(reward_range, cautious, "random" if rewards is None else rewards, stationary_rewards)
        if rewards is not None or stationary_rewards:
            raise ValueError(
                "rewards and stationary_rewards are only for the reward 'own': leave them out for a reward that you give."
            )
        reward_range = (0.0, 1.0) if reward_range is None else reward_range
        r, slack, error, lowest, highest = self._units(reward, reward_range)
        model, setting = self._model, self.counts.setting
        robust = self._robust(r)
        optimum = induct(model, r, setting.horizon, setting.discount)
        policy = robust.best(kernels.robust.LOWER)[0].argmax(axis=2) if cautious else optimum.policy
        policy = policy[:, : setting.n_states]
        lowest_policy = extended_to_terminations(self.counts, policy, r, best=False)
        best = float(model.initial @ optimum.V[0])
        value, floor = best, best
        if cautious or setting.n_outcomes > setting.n_states:
            played = extended_to_terminations(self.counts, policy, r, best=True)
            value, floor = (
                float(model.initial @ induct(model, r, setting.horizon, setting.discount, pi).V[0])
                for pi in (played, lowest_policy)
            )
        value = min(highest, max(lowest, value))  # rounding may have moved it outside
        # The upper bound needs the optimal value in the empirical model, which a cautious policy may not have.
        best = best if cautious else value
        lower = max(lowest, floor - error, robust.of(lowest_policy, kernels.robust.LOWER) - slack)
        upper = min(highest, best + error, robust.best(kernels.robust.UPPER)[1] + slack)
        certificate = self.certificate
        return Plan(policy, value, lower, max(lower, upper), reward_range, certificate.delta, self._assumptions())

    def _assumptions(self, *more: str) -> tuple[str, ...]:
        """The assumptions of a certified interval: those of the certificate, and perhaps more."""
        return (*self.certificate.assumptions, *more)

    def plan_own(
        self,
        reward_range: tuple[float, float] | None = None,
        cautious: bool = False,
        rewards: str = "random",
        stationary_rewards: bool = False,
    ) -> Plan:
        """A plan for the reward that the environment itself paid while it was explored; `plan("own")` calls it.

        Parameters
        ----------
        reward_range : (float, float), optional
            The range of the rewards that the environment can pay, (0, 1) by default. A transition that was never observed may pay
            anything in it.
        cautious : bool, default False
            Return the policy with the best guaranteed value instead.
        rewards : {"random", "deterministic"}, default "random"
            "random": nothing is assumed. The mean reward of each step, state and action lies in a KL confidence interval
            (`docs/theory.md`, 8). Half of delta is spent on these means and half on the transitions, so the bounds of the plan
            hold with probability at least 1 - delta.

            "deterministic": you know that the same transition always pays the same, so one observation is enough. Data that
            contradict this are refused.
        stationary_rewards : bool, default False
            Whether you know that rewards do not depend on the step. Stationary transitions do not imply it.

        Returns
        -------
        Plan

        Notes ----- Such bounds, for the same `rewards`, hold at once among themselves. Together with the bounds of plans for
        given rewards, they hold at once with probability at least 1 - 2 delta.
        """
        stationary_rewards = boolean(stationary_rewards, "stationary_rewards")
        if self.paid is None or not len(self.paid):
            raise ValueError("this atlas has no observed rewards: explore an environment that pays rewards, or give a reward.")
        if rewards not in REWARDS:
            raise ValueError(f"rewards is {shown(rewards)}: it has to be one of {', '.join(map(repr, REWARDS))}.")
        low, high = checked_range((0.0, 1.0) if reward_range is None else reward_range)
        seen = self.paid.range
        if not low <= seen[0] <= seen[1] <= high:
            raise ValueError(
                f"the environment paid rewards from {seen[0]:g} to {seen[1]:g}, outside [{low:g}, {high:g}]: "
                "pass reward_range=(lowest, highest), the range of what it can pay."
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
                    f"rewards is 'deterministic', but the transition from state {s} with action {a} to {s_next} "
                    f"paid different rewards (for example at step {h}): pass rewards='random'"
                    + (", or leave out stationary_rewards." if stationary_rewards and self.paid.contradiction() is None else ".")
                )
            assumed.append("the same transition always pays the same" + ("" if stationary_rewards else " at the same step"))
            own = self.paid.deterministic(setting, stays, (low, high), stationary_rewards)
        else:
            own = self.paid.random(setting, stays, (low, high), stationary_rewards, delta / 2)
        drift = self.paid.drift(setting, (low, high)) if stationary_rewards and not self.paid.pooled else None
        if drift is not None:
            raise ValueError(
                f"stationary_rewards is True, but the mean reward of going from state {drift[0]} with action {drift[1]} "
                f"to {drift[2]} depends on the step (false-alarm probability 1 in a million): leave it out."
            )
        if stationary_rewards:
            assumed.append("rewards do not depend on the step")
        share = delta / 2 if rewards == "random" else delta
        least, most = (self._robust(r, share) for r in (own.least, own.most))
        model, total, H, gamma = self._model, float(setting.sigma[-1]), setting.horizon, setting.discount
        policy = least.best(kernels.robust.LOWER)[0].argmax(axis=2) if cautious else induct(model, own.average, H, gamma).policy
        policy = policy[:, : setting.n_states]
        played = extended_to_terminations(self.counts, policy, own.average, best=False)
        value = float(model.initial @ induct(model, own.average, H, gamma, played).V[0]) + own.base[1] * total
        slack = 1e-12 * total * max(abs(low), abs(high))
        lower = max(low * total - slack, least.of(played, kernels.robust.LOWER) + own.base[0] * total - slack)
        upper = min(high * total + slack, most.best(kernels.robust.UPPER)[1] + own.base[2] * total + slack)
        return Plan(policy, value, lower, max(lower, upper), (low, high), delta, self._assumptions(*assumed))

    def legal(self, policy: np.ndarray) -> np.ndarray:
        """A policy with every illegal action a replaced by legal action number a mod k, where k actions are legal in that state.

        In a state that was never visited the legal actions are unknown; nothing is replaced there, and certified intervals allow
        for any.

        Parameters
        ----------
        policy : ndarray, (H, S) or (H, S, A)
        """
        illegal = self.counts.illegal
        if not len(illegal):
            return policy
        A = self.counts.setting.n_actions
        allowed = ~illegal
        order = np.argsort(illegal, axis=1, kind="stable")  # the legal actions first
        instead = np.take_along_axis(order, np.arange(A)[None] % np.maximum(allowed.sum(axis=1, keepdims=True), 1), axis=1)
        instead = np.where(allowed, np.arange(A), instead)  # (S, A)
        if policy.ndim == 2:
            return instead[np.arange(len(instead))[None], policy]
        moved = np.zeros_like(policy)
        for a in range(A):
            moved[:, np.arange(len(instead)), instead[:, a]] += policy[:, :, a]
        return moved

    def evaluate(self, policy: ArrayLike, reward: Reward, reward_range: tuple[float, float] = (0.0, 1.0)) -> Interval:
        """The value of any policy under any reward, with certified bounds.

        Parameters
        ----------
        policy : array_like
            (H, S) actions, or (H, S, A) probabilities of actions.
        reward, reward_range
            As in `plan`; `"own"` is not possible.

        Returns
        -------
        Interval
            All such intervals, for all policies and rewards, hold at once on the certificate's event (see `Plan`).
        """
        if isinstance(reward, str) and reward == OWN:
            raise ValueError("evaluate does not take the reward 'own': plan('own') gives bounds for its policy.")
        r, slack, error, lowest, highest = self._units(reward, reward_range)
        model, setting, robust = self._model, self.counts.setting, self._robust(r)
        S, N = setting.n_states, setting.n_outcomes
        whole = N > S and np.ndim(policy) in (2, 3) and np.shape(policy)[1] == N
        states = as_policy(policy, N if whole else S, setting.n_actions, setting.horizon)
        legal = self.legal(states[:, :S])
        pi = (
            np.concatenate([legal, states[:, S:]], axis=1)
            if whole
            else extended_to_terminations(self.counts, legal, r, best=False)
        )
        value = float(model.initial @ induct(model, r, setting.horizon, setting.discount, pi).V[0])
        value = min(highest, max(lowest, value))  # rounding may have moved it outside
        lower = max(lowest, value - error, robust.of(pi, kernels.robust.LOWER) - slack)
        upper = min(highest, value + error, robust.of(pi, kernels.robust.UPPER) + slack)
        return Interval(lower, value, max(lower, upper))

    @cached_property
    def _model(self) -> EmpiricalModel:
        """The empirical model, computed once."""
        return self.counts.model()

    @cached_property
    def _radii(self) -> dict[tuple[float, bool], np.ndarray]:
        """KL radii that were computed already, by delta and by whether the event covers the last step."""
        return {}

    def _robust(self, reward: np.ndarray | ArrivalReward, delta: float | None = None) -> Robust:
        """Robust planning for a reward over the certificate's KL balls, or over those for another delta."""
        bound, last_step = self.certificate.bound, isinstance(reward, ArrivalReward)
        key = (self.certificate.transition_delta if delta is None else delta, last_step)
        if key not in self._radii:
            self._radii[key] = bound.kl_radii(self.counts, *key)
        return Robust(self.counts, self._radii[key], bound.most_successors(self.counts.setting), reward)

    def _units(
        self, reward: Reward, reward_range: tuple[float, float]
    ) -> tuple[np.ndarray | ArrivalReward, float, float, float, float]:
        """The checked reward, a margin for rounding, the any-reward error bound, the lowest and the highest possible value."""
        setting = self.counts.setting
        low, high = checked_range(reward_range)
        r = reward_of_setting(reward, setting, (low, high))
        gammas = setting.discount ** np.arange(setting.horizon)
        arrival = isinstance(r, ArrivalReward)
        extremes = r.extremes() if isinstance(r, ArrivalReward) else (r.min(axis=(1, 2)), r.max(axis=(1, 2)))
        lowest, highest = (float(gammas @ extreme) for extreme in extremes)
        exact_ends = [sum(map(Fraction, extreme.tolist())) for extreme in extremes] if setting.discount == 1.0 else []
        slack = 1e-12 * float(gammas.sum()) * max(abs(low), abs(high))
        # A reward that the certificate does not cover has the bounds of robust planning alone.
        error = self.error_bound * (high - low) + slack if self.certificate.covers(arrival) else np.inf
        rounding = 1e-15 * (setting.horizon + 10)  # the relative error of a sum over the steps
        if [lowest, highest] == exact_ends:  # nothing was rounded, as is usual for rewards that are whole numbers
            return r, slack, error, lowest, highest
        return r, slack, error, lowest - rounding * abs(lowest), highest + rounding * abs(highest)

    def __or__(self, other: Atlas) -> Atlas:
        """Both atlases merged; see `merge`."""
        return self.merge(other) if isinstance(other, Atlas) else NotImplemented

    def merge(self, other: Atlas, same_environment: bool = False) -> Atlas:
        """Both atlases together: the counts are added and certified again. ``a | b`` does the same.

        The merged certificate is valid if it was decided which runs to merge before they were seen, or if all runs are merged:
        with the runs in a row, the samples of each transition distribution are still independent draws. Choosing runs by how they
        turned out voids it, and so does counting a run twice, which is refused.

        Parameters
        ----------
        other : Atlas
            Of the same environment, setting, delta and error bound.
        same_environment : bool, default False
            Whether you know that both are of the same environment. It is needed only if this cannot be verified: `explore` keeps
            a fingerprint of the environment, but imported data have none, nor has an environment of your own, of which only the
            class is known.
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
                f"these atlases are of different environments, {names[0]} and {names[1]} (their fingerprints "
                "differ): they cannot be merged."
            )
        if None in prints and not same_environment:
            unknown = names[prints.index(None)]
            raise ValueError(
                f"it cannot be verified that these atlases are of the same environment: {unknown} has no fingerprint. "
                "If you know that it is the same, call a.merge(b, same_environment=True), or pass --same-environment."
            )
        if self.numbering != other.numbering:
            raise ValueError(
                "these atlases cannot be merged: their states or actions were numbered or named differently, for instance in the "
                "order in which they appeared."
            )
        counts = self.counts + other.counts
        target = mine.target if mine.target == theirs.target else None
        certificate = certify(counts, mine.delta, mine.bounds, target, **mine.options)
        said = (*certificate.assumed, *mine.assumed, *theirs.assumed, *((SAME,) if None in prints else ()))
        certificate = replace(certificate, assumed=tuple(dict.fromkeys(said)))
        paid = None if self.paid is None or other.paid is None else self.paid + other.paid
        recording = None
        if self.recording is not None and other.recording is not None:
            recording = Recording(*(np.concatenate(parts) for parts in zip(self.recording, other.recording, strict=True)))
        kept = ("grid", "arrows", "env", *(() if None in prints else ("fingerprint",)))
        source = {"merged": [self.source, other.source]} | {k: v for k, v in self.source.items() if k in kept}
        recorded = self.recorded + other.recorded if recording is not None else ()
        runs = self.runs + other.runs
        return Atlas(counts, certificate, (), source, runs, None, paid, recording, recorded, None, self.numbering)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves the atlas as a Parquet file, which `load` reads.

        Its table has the columns h, s, a, next and count, with h = -1 for initial states. The column `evidence` is added if the
        counts have transfer evidence (`Counts`), and columns of observed rewards if the environment paid any. Everything else is
        inside the same file, where Parquet readers do not look (`atlas.container`). The file is written completely or not at all;
        an older file of that name stays until then.
        """
        with file_lock(Path(path)):
            self._write(Path(path), {}, {})

    def _write(self, path: Path, progress: dict[str, Any], state: dict[str, np.ndarray]) -> None:
        """Saves the atlas together with what is needed to resume the exploration."""
        from .format import write

        write(self, path, progress, state)

    def to_minari(self, dataset_id: str, **options: Any) -> Any:
        """Stores the recorded episodes as a Minari dataset and returns it; see `recording.to_minari`.

        The exploration must have been asked to `record` them.
        """
        from .recording import to_minari

        return to_minari(self, dataset_id, **options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atlas) and self.certificate == other.certificate and self.counts == other.counts

    __hash__ = None  # type: ignore[assignment]  # counts are mutable

    def __repr__(self) -> str:
        return f"Atlas({self.certificate})"


def extended_to_terminations(counts: Counts, policy: np.ndarray, reward: np.ndarray | ArrivalReward, best: bool) -> np.ndarray:
    """Extends a policy for states, (H, S), to all outcomes of a setting with `terminal="outcome"`.

    After an episode has terminated no action is taken, but a reward may depend on the action. With `best=False` the policy keeps
    naming the action of the state in which the episode terminated; with `best=True` it names the action that pays best, which is
    never less.
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
    """Whether two atlases may contain the same run.

    Explorations have unique identifiers, and are different runs even if their counts happen to be the same. Imported data are
    identified by their counts alone, which may be those of an exploration.
    """
    mine, theirs = ({run for run in runs if not run.startswith(COUNTS)} for runs in (one, other))
    return bool(mine & theirs or any(COUNTS + run in other for run in mine) or any(COUNTS + run in one for run in theirs))


def checked_range(reward_range: Any) -> tuple[float, float]:
    """`reward_range` as two floats. Raises if they are not finite or the first is not below the second."""
    try:
        low, high = (float(x) for x in reward_range)
    except (TypeError, ValueError):
        raise ValueError(f"reward_range is {shown(reward_range)}: it has to be two numbers, (lowest, highest).") from None
    if not (isfinite(low) and isfinite(high) and low < high):
        raise ValueError(f"reward_range is {reward_range}: the first number has to be below the second, both finite.")
    return low, high

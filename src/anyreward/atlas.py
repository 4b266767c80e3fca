"""What exploration leaves behind: counts and a certificate, to plan from for any reward, to keep and to merge."""

from __future__ import annotations

import os
import warnings
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import files, kernels
from .certificate import OBSERVED, Certificate, certify
from .counts import COLUMNS, Counts, EmpiricalModel
from .mdp import checked_policy
from .paid import PAID, Paid
from .planning import _induct, as_policy
from .rewards import ArrivalReward, Reward, reward_of_setting
from .robust import Robust
from .setting import Setting, truth
from .words import certain, exact, interval

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

FORMAT = 3
OWN = "own"  # the environment's own reward, as it was observed
REWARDS = ("random", "deterministic")  # what may be assumed of it
COUNTS = "counts:"  # before the digest of the counts of runs that have marks
SAME = "the merged runs are of the same environment"
MOST_CELLS, MOST_STEPS = 2**25, 2**16  # that a small file may ask for: time and memory follow from them


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


class Recording(NamedTuple):
    """Episodes as they were played, one a row; after an early end, they stay where they ended."""

    states: np.ndarray  # (B, H+1) int32
    actions: np.ndarray  # (B, H) int32
    rewards: np.ndarray  # (B, H) float64: what was paid, 0 after the end
    lengths: np.ndarray  # (B,) int32: steps that were played
    terminated: np.ndarray  # (B,) uint8: 1 if the episode ended of itself

    def check(self, setting: Setting, episodes: int) -> None:
        """Raises if this is no recording of that many episodes of a setting."""
        B, H = episodes, setting.horizon
        shapes = ((B, H + 1), (B, H), (B, H), (B,), (B,))
        right = [part.shape for part in self] == list(shapes) and "".join(part.dtype.kind for part in self) == "iifiu"
        tops = ((self.states, 0, setting.n_outcomes - 1), (self.actions, 0, setting.n_actions - 1), (self.lengths, 1, H))
        if right:
            n = self.lengths[:, None]
            after = self.states[np.arange(B)[:, None], np.minimum(np.arange(H + 1)[None], n)]
            right = bool((self.terminated <= 1).all() and (self.states == after).all())  # it stays where it ended
        if not right or not np.isfinite(self.rewards).all() or any(((x < low) | (x > top)).any() for x, low, top in tops):
            raise ValueError("its recording is damaged.")

    def check_counts(self, counts: Counts, runs: tuple[int, ...]) -> None:
        """Raises if counting these episodes, run by run, does not give these counts and their evidence."""
        if sum(runs) != len(self.states) or min(runs, default=0) < 0:
            raise ValueError("its recording is damaged.")
        again = Counts(counts.setting, counts.transfer)
        again.declare(counts.told())
        again.runs = 0
        empty, begin = again.copy(), 0
        for run in runs:
            part = empty.copy()
            rows = slice(begin, begin + run)
            part.add_episodes(*part.checked(self.states[rows].astype(np.int64), self.actions[rows].astype(np.int64)))
            again, begin = again + part, begin + run
        mine, theirs = again.columns(), counts.columns()
        same = all(np.array_equal(mine[name], theirs[name]) for name in COLUMNS)
        if not same or not np.allclose(mine.get("evidence", 0.0), theirs.get("evidence", 0.0), rtol=1e-9, atol=1e-9):
            raise ValueError("its counts are not those of its recording.")

    def check_paid(self, paid: Paid, setting: Setting) -> None:
        """Raises if what was paid is not what these episodes were paid."""
        again = Paid()
        for b, n in enumerate(self.lengths.tolist()):
            for h in range(n):
                s, a, s_next = int(self.states[b, h]), int(self.actions[b, h]), int(self.states[b, h + 1])
                again.add(0 if paid.pooled else h, s, a, s_next, float(self.rewards[b, h]))
        mine, theirs = again._table, paid._table
        if mine.keys() != theirs.keys() or any(not np.allclose(mine[key], theirs[key], rtol=1e-9, atol=1e-12) for key in mine):
            raise ValueError("the table of observed rewards is not that of its recording.")


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

        Such intervals, for the same `rewards`, hold at once among themselves. With those for other rewards they hold at once with
        probability 1 - 3/2 delta (1 - delta if deterministic).
        """
        stationary_rewards = truth(stationary_rewards, "stationary_rewards")
        if self.paid is None or not len(self.paid):
            raise ValueError("this atlas has no rewards of its own: explore an environment that pays some, or give a reward.")
        if rewards not in REWARDS:
            raise ValueError(f"rewards is {rewards!r}: it has to be one of {', '.join(map(repr, REWARDS))}.")
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
        self._write(Path(path), {}, {})

    def _write(self, path: Path, progress: dict[str, Any], state: dict[str, np.ndarray]) -> None:
        """Saves, with what an exploration needs to go on from here."""
        from . import __version__

        columns = self.counts.columns()
        arrays = {f"state.{name}": array for name, array in state.items()}
        if self.paid is not None:
            columns |= self.paid.columns([columns[name] for name in COLUMNS[:4]], self.counts.setting.stationary)
            arrays |= {f"paid.{name}": array for name, array in self.paid.arrays().items()}
        about = {
            "format": FORMAT,
            "version": __version__,
            "certificate": self.certificate.to_dict(),
            "history": self.history,
            "source": self.source,
            "runs": self.runs,
            "policy": None if self.policy is None else self.policy.tolist(),
            "known": self.counts.told().tolist(),
            "recorded": self.recorded,
            "added": self.counts.runs,
            "pooled": self.paid is not None and self.paid.pooled,
            "progress": progress,
        }
        if self.reward is not None:
            arrays |= {f"reward.{name}": array for name, array in reward_arrays(self.reward).items()}
        if self.recording is not None:
            arrays |= {f"recording.{name}": array for name, array in self.recording._asdict().items()}
        files.write(path, columns, about, arrays)

    def to_minari(self, dataset_id: str, **options: Any) -> Any:
        """The recorded episodes as a Minari dataset, if exploration was asked to `record` them; see `data.to_minari`."""
        from .data import to_minari

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


def reward_arrays(reward: np.ndarray | ArrivalReward) -> dict[str, np.ndarray]:
    """A reward as arrays for a file; of one that is the same at every step, one step."""
    if isinstance(reward, ArrivalReward):
        return {"steps": np.array([reward.shape[0]]), "pointer": reward.pointer, "target": reward.target, "pay": reward.pay}
    return {"values": np.array(reward[:1] if (reward == reward[:1]).all() else reward)}


def reward_from(arrays: dict[str, np.ndarray], setting: Setting) -> np.ndarray | ArrivalReward | None:
    """What `reward_arrays` gave, if a file has it, checked."""
    S, A, H = setting.n_outcomes, setting.n_actions, setting.horizon
    if "reward.values" in arrays:
        values = arrays["reward.values"]
        if values.dtype.kind != "f" or values.shape not in ((1, S, A), (H, S, A)) or not ((values >= 0) & (values <= 1)).all():
            raise ValueError("its reward is damaged.")
        return np.broadcast_to(values, (H, S, A))
    if "reward.pay" not in arrays:
        return None
    steps, pointer, target, pay = (arrays[f"reward.{name}"] for name in ("steps", "pointer", "target", "pay"))
    right = steps.shape == (1,) and steps[0] in (1, H) and pointer.shape == (int(steps[0]) * S * A + 1,)
    right = (
        right
        and [x.dtype.kind for x in (pointer, target, pay)] == ["i", "i", "f"]
        and target.shape == pay.shape == (pointer[-1],)
    )
    right = right and pointer[0] == 0 and bool((np.diff(pointer) >= 0).all() and ((target >= 0) & (target < S)).all())
    if not right or not ((pay >= 0) & (pay <= 1)).all():
        raise ValueError("its reward is damaged.")
    keys = np.repeat(np.arange(len(pointer) - 1), np.diff(pointer)) * S + target
    if (np.diff(keys) <= 0).any():
        raise ValueError("its reward is damaged.")
    return ArrivalReward((int(steps[0]), S, A, H), *(np.ascontiguousarray(x) for x in (pointer, target, pay)))


def checked_runs(runs: Any) -> tuple[str, ...]:
    """Marks of runs from a file."""
    if not isinstance(runs, list) or not all(isinstance(run, str) and len(run) <= 200 for run in runs):
        raise ValueError("its marks of runs are damaged.")
    return tuple(runs)


def checked_source(source: Any, setting: Setting) -> dict[str, Any]:
    """How an atlas was explored, from a file: each entry that is used somewhere is of the kind that is used."""
    if not isinstance(source, dict):
        raise ValueError("what it says of its origin is damaged.")
    texts = {name: source[name] for name in ("env", "algorithm", "fingerprint", "arrows") if source.get(name) is not None}
    lists = {name: source[name] for name in ("labels", "alarms") if name in source}
    grid, own = source.get("grid"), source.get("own", {})
    right = all(isinstance(text, str) for text in texts.values())
    right = right and all(isinstance(x, list) and all(isinstance(text, str) for text in x) for x in lists.values())
    right = right and len(lists.get("labels", ())) <= setting.n_states
    right = right and isinstance(own, dict) and isinstance(source.get("options", {}), dict)
    right = right and (own.get("epsilon") is None or isinstance(own["epsilon"], float | int))
    if grid is not None:
        whole = isinstance(grid, list) and len(grid) == 2 and all(type(n) is int and n > 0 for n in grid)
        right = right and whole and grid[0] * grid[1] <= setting.n_states
    if not right or not all(isinstance(part, dict) for part in source.get("merged", [])):
        raise ValueError("what it says of its origin is damaged.")
    return dict(source)


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
        raise ValueError(f"reward_range is {reward_range!r}: it has to be two numbers, (lowest, highest).") from None
    if not (isfinite(low) and isfinite(high) and low < high):
        raise ValueError(f"reward_range is {reward_range}: the first number has to be below the second, both finite.")
    return low, high


def load(path: str | os.PathLike[str]) -> Atlas:
    """Reads an atlas that `Atlas.save` or a checkpoint wrote. Nothing in the file is executed; a damaged one is refused."""
    return read(Path(path))[0]


def read(path: Path) -> tuple[Atlas, dict[str, Any], dict[str, np.ndarray]]:
    """An atlas, and what an exploration needs to go on from there, if the file has it."""
    columns, about, arrays = files.read(path)
    try:
        if about["format"] > FORMAT:
            raise ValueError(f"it has format {about['format']}; this anyreward reads up to {FORMAT}: install a newer one.")
        certificate = Certificate.from_dict(about["certificate"])
        setting = certificate.setting
        size = path.stat().st_size
        cells = max(setting.layers * setting.n_outcomes, setting.n_outcomes * setting.n_actions)
        if cells > max(MOST_CELLS, 64 * size) or setting.horizon > max(MOST_STEPS, size):
            raise ValueError(
                f"{setting.horizon} steps of {setting.n_outcomes} states are more than a file of this size may ask for."
            )
        if any(columns[name].ndim != 1 or columns[name].dtype.kind != "i" for name in COLUMNS):
            raise ValueError("its counts are not columns of whole numbers.")
        known = np.array(about["known"], dtype=np.int64).reshape(-1, 2)
        table = {name: columns[name] for name in columns if name not in PAID}
        counts = Counts.from_columns(setting, table, known, about["added"] if about["format"] == FORMAT else 2)
        if about["format"] < FORMAT:
            certificate = replace(certificate, assumed=counts.declared)  # which earlier versions did not print
        history = tuple((int(t), float(e)) for t, e in about["history"])
        times = [-1, *(t for t, _ in history)]
        if any(a >= b for a, b in pairwise(times)) or times[-1] > counts.episodes:
            raise ValueError("its history is not that of these counts.")
        policy = None if about["policy"] is None else np.array(about["policy"], dtype=np.int64)
        if counts.digest() != certificate.digest:
            raise ValueError("its counts are not those that were certified.")
        reward = reward_from(arrays, setting)
        if policy is not None:
            policy = checked_policy(policy, setting.n_states, setting.n_actions, setting.horizon)
        if certificate.every_reward:
            if not certificate.check(counts):
                raise ValueError("its certificate does not follow from its counts.")
        elif reward is None or certificate.reward == OBSERVED:
            certificate = replace(certificate, claimed=True, met=False)
        elif policy is None or not certificate.check(counts, reward, after_ends(counts, policy, reward, True)):
            raise ValueError("its certificate does not follow from its counts and its reward.")
        paid = None
        if "paid.keys" in arrays:
            paid = Paid.from_arrays(arrays["paid.keys"], arrays["paid.values"], setting, bool(about["pooled"]))
        elif set(PAID) <= set(columns):
            paid = Paid.from_columns(columns, pooled=setting.stationary)
        if paid is not None:
            paid.check(table, setting.stationary, counts.stays())
        recording, recorded = None, tuple(int(n) for n in about.get("recorded", ()))
        if "recording.states" in arrays:
            recording = Recording(*(arrays[f"recording.{name}"] for name in Recording._fields))
            recording.check(setting, counts.episodes)
            if about["format"] == FORMAT or "merged" not in about["source"]:  # earlier ones did not say where a run ends
                recording.check_counts(counts, recorded or (counts.episodes,))
            if paid is not None and len(paid):
                recording.check_paid(paid, setting)
        news: list[str] = []
        if about["format"] < FORMAT:
            counts, certificate, news = from_older(counts, certificate, paid)
        runs, source = checked_runs(about["runs"]), checked_source(about["source"], setting)
        if about["format"] < FORMAT and len(counts.illegal) and "own" in source:
            source["own"] = {"epsilon": None, "met": False, "guarantee": "none: of an earlier version that did not know of masks"}
        atlas = Atlas(counts, certificate, history, source, runs, policy, paid, recording, recorded, reward)
        state = {name.removeprefix("state."): array for name, array in arrays.items() if name.startswith("state.")}
        for text in news:
            warnings.warn(f"{path} was saved by an earlier version: {text}", stacklevel=3)
        return atlas, dict(about["progress"]), state
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError, RecursionError) as problem:
        raise ValueError(f"{path} does not hold a valid atlas: {in_words(problem)}") from None


def from_older(counts: Counts, certificate: Certificate, paid: Paid | None) -> tuple[Counts, Certificate, list[str]]:
    """What earlier versions (formats 1 and 2) saved, with what it says now, and sentences on what it no longer promises."""
    setting, columns, news = counts.setting, counts.columns(), []
    known, A = counts.told(), setting.n_actions
    stays = np.setdiff1d(counts.stays(), setting.absorbing_states)
    if len(stays):
        setting = replace(setting, terminal="state")
        news.append(
            "it assumes that a state in which an episode ended once always ends it, which its certificate did not say; "
            "it is printed now."
        )
    if len(counts.illegal):
        setting = replace(setting, hidden_masks=True)
        met = np.unique(np.concatenate([columns["s"][columns["h"] >= 0], columns["next"]]))
        pairs = np.setdiff1d((met[:, None] * A + np.arange(A)).reshape(-1), known[:, 0])
        known = np.concatenate([known, np.column_stack([pairs, np.zeros_like(pairs)])])
        news.append(
            "it took every action to be legal in states that were never met; plans and intervals allow for any legal set now."
        )
        if not certificate.every_reward:
            certificate = replace(certificate, epsilon=certificate.largest, met=False)
            news.append("its certificate for one reward is void for that reason: identify the policy again.")
    if paid is not None and paid.pooled:
        news.append("its rewards were pooled over the steps; a plan for them needs stationary_rewards=True, if that is true.")
    if paid is not None and len(paid):
        news.append(
            "plans for its own reward took rewards that were always the same for deterministic; say so, or they are random."
        )
    if setting is not counts.setting:
        counts = Counts.from_columns(setting, columns, known, counts.runs)
        certificate = replace(certificate, setting=setting, digest=counts.digest(), assumed=counts.declared)
        if certificate.every_reward:
            certificate = certify(counts, certificate.delta, certificate.bounds, certificate.target, **certificate.options)
    return counts, certificate, news


def in_words(problem: Exception) -> str:
    """What is wrong: our own sentence, or that something is, where Python stumbled over it."""
    text = str(problem)
    return text if isinstance(problem, ValueError) and text.endswith(".") else "what it says does not fit together."

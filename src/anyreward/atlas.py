"""What exploration leaves behind: counts and a certificate, to plan from for any reward, to keep and to merge."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import files, kernels
from .certificate import Certificate, certify
from .counts import COLUMNS, Counts, EmpiricalModel
from .paid import PAID, Paid
from .planning import _induct, as_policy
from .rewards import ArrivalReward, Reward, as_reward
from .robust import Robust
from .setting import Setting

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

FORMAT = 2
OWN = "own"  # the environment's own reward, as it was observed
MOST_CELLS = 2**28  # steps times states of an atlas that is loaded: what a file may ask for without being large itself


class Interval(NamedTuple):
    """A value that is certain to lie between two numbers, with the certificate's probability."""

    lower: float
    value: float  # in the empirical model
    upper: float


@dataclass(frozen=True)
class Plan:
    """A policy for one reward, with an interval of its own: optimal in the empirical model, or `cautious`.

    On the certificate's event, lower <= true value of the policy <= true optimal value <= upper, for every plan made from
    the same counts at once, at no further delta: any number of rewards may be asked, chosen after seeing the data.
    *Proof.* The event says that every true law lies in its KL ball and does not mention rewards; `lower` is the smallest value
    of the policy, and `upper` the largest optimal value, over all models in the balls.
    """

    policy: np.ndarray  # (H, S) integers
    value: float  # of the policy in the empirical model, from the start
    lower: float
    upper: float
    reward_range: tuple[float, float]

    @property
    def regret_bound(self) -> float:
        """How far from optimal the policy can be."""
        return self.upper - self.lower

    def __repr__(self) -> str:
        H, S = self.policy.shape
        return f"Plan(value {self.value:.4g} in [{self.lower:.4g}, {self.upper:.4g}], policy for {H} steps and {S} states)"


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
        tops = ((self.states, 0, setting.n_states - 1), (self.actions, 0, setting.n_actions - 1), (self.lengths, 1, H))
        if not right or not np.isfinite(self.rewards).all() or any(((x < low) | (x > top)).any() for x, low, top in tops):
            raise ValueError("its recording is damaged.")


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

    def __post_init__(self) -> None:
        if self.policy is not None:
            object.__setattr__(self, "policy", self.legal(self.policy))
        if self.certificate.digest not in self.runs:  # whatever else they are, they are these counts
            object.__setattr__(self, "runs", (*self.runs, self.certificate.digest))

    @property
    def episodes(self) -> int:
        """How many episodes it took."""
        return self.counts.episodes

    @property
    def error_bound(self) -> float:
        """E-bar at the start: the bound on every policy's value error under every reward. epsilon is twice that."""
        return self.certificate.error_bound

    def plan(self, reward: Reward, reward_range: tuple[float, float] | None = None, cautious: bool = False) -> Plan:
        """The optimal policy of the empirical model for a reward, with its certified interval.

        `reward` is an array (S,), (S, A) or (H, S, A), or a function (h, s, a) -> float, with values in [0, 1]; or a reward on
        arrival, as an array (S, A, S) or (H, S, A, S), a function (h, s, a, s_next) or a sparse table (`rewards`). Rewards in
        other units need their `reward_range`: value and interval are then in those units, and the any-reward error bound is
        stretched with the range. An expression such as `"state == 30"` is a reward too (`expressions`). `"own"` is what the
        environment itself paid, see `plan_own`. With `cautious`, the policy with the best guaranteed value is returned instead:
        the one whose smallest value over all models that the data allow is largest.

        The interval is that of robust planning over the KL balls, cut by the any-reward error bound and by what the reward
        allows at all. For a reward on arrival from an atlas that was certified without them, the balls are those of an event
        that covers the last step too: such intervals hold at once among themselves, with the same probability.
        """
        if isinstance(reward, str) and reward == OWN:
            return self.plan_own(reward_range, cautious)
        reward_range = (0.0, 1.0) if reward_range is None else reward_range
        r, slack, error, lowest, highest = self._units(reward, reward_range)
        model, setting = self._model, self.counts.setting
        robust = self._robust(r)
        if cautious:
            policy = robust.best(kernels.robust.LOWER)[0].argmax(axis=2)
        else:
            policy = _induct(model, r, setting.horizon, setting.discount, None).policy
        value = float(model.initial @ _induct(model, r, setting.horizon, setting.discount, policy).V[0])
        # The bound on the optimum is about the best value in the empirical model, which a cautious policy may not have.
        best = value if not cautious else float(model.initial @ _induct(model, r, setting.horizon, setting.discount, None).V[0])
        lower = max(lowest, value - error, robust.of(policy, kernels.robust.LOWER) - slack)
        upper = min(highest, best + error, robust.best(kernels.robust.UPPER)[1] + slack)
        return Plan(policy, value, lower, max(lower, upper), reward_range)

    def plan_own(self, reward_range: tuple[float, float] | None = None, cautious: bool = False) -> Plan:
        """A plan for the reward that the environment itself paid while it was explored.

        It is known for the transitions that were seen. For the lower end of the interval all others pay the least, for the upper
        end the most, of `reward_range`: what the environment can pay, [0, 1] unless it is given. If a transition was seen to pay
        differently, rewards are random: each mean then lies in a KL interval (`docs/theory.md`, 8), all of them at once with
        probability 1 - delta, so that the interval holds with probability 1 - 2 delta; a warning says so.
        """
        if self.paid is None or not len(self.paid):
            raise ValueError("this atlas has no rewards of its own: explore an environment that pays some, or give a reward.")
        low, high = (float(x) for x in ((0.0, 1.0) if reward_range is None else reward_range))
        if not low < high:
            raise ValueError(f"reward_range is {reward_range}: the first number has to be below the second.")
        seen = self.paid.range
        if not low <= seen[0] <= seen[1] <= high:
            raise ValueError(
                f"rewards from {seen[0]:g} to {seen[1]:g} were paid, outside [{low:g}, {high:g}]: "
                "pass reward_range=(lowest, highest), what the environment can pay."
            )
        setting, absorbing, delta = self.counts.setting, self.counts.absorbing_states, self.certificate.delta
        if self.paid.random:
            warnings.warn(f"rewards are random: the interval holds with probability {1 - 2 * delta:g}.", stacklevel=3)
        total = float(setting.sigma[-1])
        least, average, most = (self.paid.reward(setting, absorbing, (low, high), side, delta) for side in (-1, 0, 1))
        mean = self.plan(average, (0.0, high - low), cautious)
        slack = 1e-12 * total * max(abs(low), abs(high))
        lower = self.evaluate(mean.policy, least, (0.0, high - low)).lower + low * total - slack
        upper = self.plan(most, (low - high, 0.0)).upper + high * total + slack
        return Plan(mean.policy, mean.value + low * total, lower, max(lower, upper), (low, high))

    def legal(self, policy: np.ndarray) -> np.ndarray:
        """A policy, (H, S) or (H, S, A), as it is played where actions are illegal: number (action mod how many are legal)."""
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
        r, slack, error, lowest, highest = self._units(reward, reward_range)
        model, setting = self._model, self.counts.setting
        pi, robust = self.legal(as_policy(policy, model, setting.horizon)), self._robust(r)
        value = float(model.initial @ _induct(model, r, setting.horizon, setting.discount, pi).V[0])
        lower = max(lowest, value - error, robust.of(pi, kernels.robust.LOWER) - slack)
        upper = min(highest, value + error, robust.of(pi, kernels.robust.UPPER) + slack)
        return Interval(lower, value, max(lower, upper))

    @cached_property
    def _model(self) -> EmpiricalModel:
        return self.counts.model()

    @cached_property
    def _radii(self) -> dict[bool, np.ndarray]:
        """KL radii, with and without the laws of the last step, as they are asked for."""
        return {}

    def _robust(self, reward: np.ndarray | ArrivalReward) -> Robust:
        bound, last_step = self.certificate.bound, isinstance(reward, ArrivalReward)
        if last_step not in self._radii:
            self._radii[last_step] = bound.kl_radii(self.counts, self.certificate.transition_delta, last_step)
        return Robust(self.counts, self._radii[last_step], bound.most_successors(self.counts.setting), reward)

    def _units(
        self, reward: Reward, reward_range: tuple[float, float]
    ) -> tuple[np.ndarray | ArrivalReward, float, float, float, float]:
        """The reward, checked; room for rounding; the any-reward error; the lowest and highest value it can give."""
        setting = self.counts.setting
        low, high = (float(x) for x in reward_range)
        if not low < high:
            raise ValueError(f"reward_range is {reward_range}: the first number has to be below the second.")
        r = as_reward(reward, setting.n_states, setting.n_actions, setting.horizon, (low, high))
        gammas = setting.discount ** np.arange(setting.horizon)
        arrival = isinstance(r, ArrivalReward)
        extremes = r.extremes() if isinstance(r, ArrivalReward) else (r.min(axis=(1, 2)), r.max(axis=(1, 2)))
        lowest, highest = (float(gammas @ extreme) for extreme in extremes)
        slack = 1e-12 * float(gammas.sum()) * max(abs(low), abs(high))
        # What the certificate does not cover has the interval of robust planning alone.
        error = self.error_bound * (high - low) + slack if self.certificate.covers(arrival) else np.inf
        rounding = 1e-15 * (setting.horizon + 10)  # relative, of a sum over the steps
        return r, slack, error, lowest - rounding * abs(lowest), highest + rounding * abs(highest)

    def __or__(self, other: Atlas) -> Atlas:
        """Both together: counts added, certified afresh.

        The merged certificate is valid if which runs to merge was decided before they were seen, or if all are merged:
        put the runs in a row, each law's samples are still independent draws. Choosing runs by how they turned out voids it,
        and so does counting a run twice, which is refused.
        """
        if not isinstance(other, Atlas):
            return NotImplemented
        mine, theirs = self.certificate, other.certificate
        if not (mine.every_reward and theirs.every_reward):
            raise ValueError("an atlas certified for one reward cannot be merged: certify its counts for every reward first.")
        if self.source.get("labels") != other.source.get("labels"):
            raise ValueError("these atlases numbered their states differently as they appeared: they cannot be merged.")
        for name in ("delta", "bounds", "options"):
            if getattr(mine, name) != getattr(theirs, name):
                raise ValueError(f"atlases with {name} {getattr(mine, name)} and {getattr(theirs, name)} cannot be merged.")
        if set(self.runs) & set(other.runs):
            raise ValueError("these atlases share a run: counting the same episodes twice would void the certificate.")
        counts = self.counts + other.counts
        target = mine.target if mine.target == theirs.target else None
        certificate = certify(counts, mine.delta, mine.bounds, target, **mine.options)
        paid = None if self.paid is None or other.paid is None else self.paid + other.paid
        recording = None
        if self.recording is not None and other.recording is not None:
            recording = Recording(*(np.concatenate(parts) for parts in zip(self.recording, other.recording, strict=True)))
        source = {"merged": [self.source, other.source]} | {k: v for k, v in self.source.items() if k in ("labels", "grid")}
        return Atlas(counts, certificate, (), source, self.runs + other.runs, None, paid, recording)

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
        if self.paid is not None:
            columns |= self.paid.columns(*(columns[name] for name in COLUMNS[:4]))
        known = self.counts.state()["known"] if not state else state["known"]
        about = {
            "format": FORMAT,
            "version": __version__,
            "certificate": self.certificate.to_dict(),
            "history": self.history,
            "source": self.source,
            "runs": self.runs,
            "policy": None if self.policy is None else self.policy.tolist(),
            "known": known.tolist(),
            "progress": progress,
        }
        arrays = {f"state.{name}": array for name, array in state.items()}
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
        if (
            setting.layers * setting.n_states > MOST_CELLS
            or max(setting.horizon, setting.n_states * setting.n_actions) > MOST_CELLS
        ):
            raise ValueError(f"{setting.horizon} steps of {setting.n_states} states are more than a file may ask for.")
        if any(columns[name].ndim != 1 or columns[name].dtype.kind != "i" for name in COLUMNS):
            raise ValueError("its counts are not columns of whole numbers.")
        known = np.array(about["known"], dtype=np.int64).reshape(-1, 2)
        counts = Counts.from_columns(setting, {name: columns[name] for name in columns if name not in PAID}, known)
        history = tuple((int(t), float(e)) for t, e in about["history"])
        times = [-1, *(t for t, _ in history)]
        if any(a >= b for a, b in pairwise(times)) or times[-1] > counts.episodes:
            raise ValueError("its history is not that of these counts.")
        policy = None if about["policy"] is None else np.array(about["policy"], dtype=np.int64)
        paid = Paid.from_columns(columns) if set(PAID) <= set(columns) else None
        recording = None
        if "recording.states" in arrays:
            recording = Recording(*(arrays[f"recording.{name}"] for name in Recording._fields))
            recording.check(setting, counts.episodes)
        atlas = Atlas(counts, certificate, history, dict(about["source"]), tuple(about["runs"]), policy, paid, recording)
        if counts.digest() != certificate.digest:
            raise ValueError("its counts are not those that were certified.")
        if certificate.every_reward and not certificate.check(counts):
            raise ValueError("its certificate does not follow from its counts.")
        state = {name.removeprefix("state."): array for name, array in arrays.items() if name.startswith("state.")}
        return atlas, dict(about["progress"]), state
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError, RecursionError) as problem:
        raise ValueError(f"{path} does not hold a valid atlas: {in_words(problem)}") from None


def in_words(problem: Exception) -> str:
    """What is wrong: our own sentence, or that something is, where Python stumbled over it."""
    text = str(problem)
    return text if isinstance(problem, ValueError) and text.endswith(".") else "what it says does not fit together."

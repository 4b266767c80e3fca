"""What exploration leaves behind: counts and a certificate, to plan from for any reward, to keep and to merge."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import kernels
from .certificate import Certificate, certify
from .counts import COLUMNS, Counts, EmpiricalModel
from .planning import _induct, as_policy
from .rewards import ArrivalReward, Reward, as_reward
from .robust import Robust

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

FORMAT = 1
KEY, SUM = b"anyreward", b"anyreward.sha256"  # metadata, and its checksum


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


@dataclass(frozen=True, eq=False)
class Atlas:
    """Counts of a setting with what they certify. Made by `explore`, `load` or from counts of your own."""

    counts: Counts
    certificate: Certificate
    history: tuple[tuple[int, float], ...] = ()  # (episodes, certified epsilon) along the way
    source: dict[str, Any] = field(default_factory=dict)  # how it was explored
    runs: tuple[str, ...] = ()  # marks of the separate runs in it, by which merging notices that it would count one twice
    policy: np.ndarray | None = None  # what was recommended for the one reward that was explored for, (H, S), if any

    def __post_init__(self) -> None:
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

    def plan(self, reward: Reward, reward_range: tuple[float, float] = (0.0, 1.0), cautious: bool = False) -> Plan:
        """The optimal policy of the empirical model for a reward, with its certified interval.

        `reward` is an array (S,), (S, A) or (H, S, A), or a function (h, s, a) -> float, with values in [0, 1]; or a reward on
        arrival, as an array (S, A, S) or (H, S, A, S), a function (h, s, a, s_next) or a sparse table (`rewards`). Rewards in
        other units need their `reward_range`: value and interval are then in those units, and the any-reward error bound is
        stretched with the range. With `cautious`, the policy with the best guaranteed value is returned instead: the one whose
        smallest value over all models that the data allow is largest.

        The interval is that of robust planning over the KL balls, cut by the any-reward error bound and by what the reward
        allows at all. For a reward on arrival from an atlas that was certified without them, the balls are those of an event
        that covers the last step too: such intervals hold at once among themselves, with the same probability.
        """
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

    def evaluate(self, policy: ArrayLike, reward: Reward, reward_range: tuple[float, float] = (0.0, 1.0)) -> Interval:
        """The value of any policy, (H, S) actions or (H, S, A) probabilities, with its certified interval.

        All such intervals, for all policies and rewards, hold at once on the certificate's event: see `Plan`.
        """
        r, slack, error, lowest, highest = self._units(reward, reward_range)
        model, setting = self._model, self.counts.setting
        pi, robust = (
            as_policy(policy, model, setting.horizon),
            self._robust(r),
        )
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
        for name in ("delta", "bounds", "options"):
            if getattr(mine, name) != getattr(theirs, name):
                raise ValueError(f"atlases with {name} {getattr(mine, name)} and {getattr(theirs, name)} cannot be merged.")
        if set(self.runs) & set(other.runs):
            raise ValueError("these atlases share a run: counting the same episodes twice would void the certificate.")
        counts = self.counts + other.counts
        target = mine.target if mine.target == theirs.target else None
        certificate = certify(counts, mine.delta, mine.bounds, target, **mine.options)
        return Atlas(counts, certificate, (), {"merged": [self.source, other.source]}, self.runs + other.runs)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a Parquet file: a table of (h, s, a, next, count), h = -1 for the starts, the rest in its metadata.

        A step-dependent atlas with transfer has the column `evidence` as well (`Counts`).

        The file appears whole or not at all; an older one of that name stays until then.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = self.counts.columns()
        kinds = {"count": pa.int64(), "evidence": pa.float64()}
        table = pa.table({name: pa.array(column, kinds.get(name, pa.int32())) for name, column in columns.items()})
        from . import __version__

        about = {
            "format": FORMAT,
            "version": __version__,
            "certificate": self.certificate.to_dict(),
            "history": self.history,
            "source": self.source,
            "runs": self.runs,
            "policy": None if self.policy is None else self.policy.tolist(),
        }
        text = json.dumps(about, default=lambda number: number.item())  # NumPy's numbers as plain ones
        path = Path(path)
        if not path.parent.is_dir():
            raise ValueError(f"{path} cannot be written: there is no folder {path.parent}.")
        draft = path.parent / f".{path.name}.{secrets.token_hex(8)}"
        try:
            with open(draft, "xb") as file:
                metadata = {KEY: text, SUM: hashlib.sha256(text.encode()).hexdigest()}
                pq.write_table(table.replace_schema_metadata(metadata), file, compression="zstd")
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atlas) and self.certificate == other.certificate and self.counts == other.counts

    __hash__ = None  # type: ignore[assignment]  # counts grow

    def __repr__(self) -> str:
        return f"Atlas({self.certificate})"


def load(path: str | os.PathLike[str]) -> Atlas:
    """Reads an atlas that `Atlas.save` wrote. Nothing in the file is executed; a damaged file is refused."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path} is not there: an atlas file is needed.")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError):
        raise ValueError(f"{path} is not a readable Parquet file: it is not an atlas, or it was cut short.") from None
    metadata = table.schema.metadata or {}
    if KEY not in metadata or not set(COLUMNS) <= set(table.column_names):
        raise ValueError(f"{path} is a Parquet file but not an atlas: it was not written by anyreward.")
    damaged = ValueError(f"{path} has damaged metadata: restore it from a copy.")
    try:
        about = json.loads(metadata[KEY])
        newer = about["format"] > FORMAT
    except (ValueError, KeyError, TypeError):
        raise damaged from None
    if not newer and hashlib.sha256(metadata[KEY]).hexdigest().encode() != metadata.get(SUM):
        raise damaged
    if newer:
        raise ValueError(f"{path} has format {about['format']}; this anyreward reads up to {FORMAT}: install a newer one.")
    try:
        certificate = Certificate.from_dict(about["certificate"])
        counts = Counts.from_columns(certificate.setting, {name: _numbers(table, name) for name in table.column_names})
        history = tuple((int(t), float(e)) for t, e in about["history"])
        policy = None if about["policy"] is None else np.array(about["policy"], dtype=np.int64)
        atlas = Atlas(counts, certificate, history, dict(about["source"]), tuple(about["runs"]), policy)
        if counts.digest() != certificate.digest:
            raise ValueError("its counts are not those that were certified.")
        if certificate.every_reward and not certificate.check(counts):
            raise ValueError("its certificate does not follow from its counts.")
    except (ValueError, KeyError, TypeError, IndexError) as problem:
        raise ValueError(f"{path} does not hold a valid atlas: {problem}") from None
    return atlas


def _numbers(table: Any, name: str) -> np.ndarray:
    """A column of counts: whole numbers, none missing; evidence are floats."""
    import pyarrow.types as kinds

    column = table[name]
    right = kinds.is_floating(column.type) if name == "evidence" else kinds.is_integer(column.type)
    if not right or column.null_count:
        raise ValueError(f"the column {name!r} has the wrong kind of values.")
    return column.to_numpy()

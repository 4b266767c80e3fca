"""Error bounds: functions of counts that no value error exceeds, with probability at least 1 - delta.

Every bound Phi(counts, delta) here means the same: on one event of probability at least 1 - delta, at all times, for all
policies and all rewards in [0, 1] at once, the value from the start in the empirical model is within Phi of the true one.

=======  =====================  =================================================================================
paper    `PaperBound`           Lemma 1 of the paper: square roots of KL radii, added up along the way
tight    `TightBound`           square roots of added-up KL radii, radii that adapt to the support (`docs/theory.md`)
=======  =====================  =================================================================================
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from math import log
from typing import Any, ClassVar, Protocol

import numpy as np

from .. import kernels
from ..data.counts import Counts
from ..setting import Setting, nearest, probability, shown, truth, whole_number
from .error_index import ErrorIndex
from .thresholds import paper_beta, paper_rule

THRESHOLDS = ("paper", "support")
SEARCH = (20, 12)  # scales of multipliers that are tried, each half the one before; steps of refinement from the best


class Bound(Protocol):
    """An error bound: a function of counts and delta."""

    name: ClassVar[str]

    def __call__(self, counts: Counts, delta: float) -> float:
        """The bound Phi."""

    def kl_radii(self, counts: Counts, delta: float, last_step: bool = False) -> np.ndarray:
        """For each row of the table, a radius within which KL(p_hat, p) lies on the event of the bound; 0 without data.

        With `last_step`, on an event that covers the laws of the last step as well, which only rewards on arrival need.
        """

    def most_successors(self, setting: Setting) -> int:
        """How many successors a pair can have at most."""

    def check(self, counts: Counts) -> None:
        """Raises if the counts contradict what the bound assumes."""

    def assumptions(self, setting: Setting) -> tuple[str, ...]:
        """What it takes for granted beyond the setting, in sentences."""


def before_the_start(counts: Counts) -> float:
    """The largest value there is, as long as it is not known what can be played in the start state; else 0.

    The reward of the first step has no error once the action is known that a policy plays: that of the start state, whose illegal
    actions show when it is first met.
    """
    start = counts.setting.initial_state
    return float(counts.setting.sigma[-1]) if start is not None and counts.is_unsure(start) else 0.0


def rounded_up(value: float, counts: Counts) -> float:
    """`value` to the safe side of all rounding in a backward pass.

    Every term of such a recursion is positive, so each rounding changes the result by a factor within 1 +- 2^-53; along a
    path there are fewer than (K + 32)(H + 1) of them for rows of up to K successors.
    """
    return value * (1 + 2 * (counts.widest + 32) * (counts.setting.horizon + 1) * 2.0**-53)


@dataclass(frozen=True)
class PaperBound:
    """The paper's E-bar at the start, on the event of `confidence.paper_beta`.

    `clip=False` leaves out the minimum with the trivial bound, as the paper does for its figures: larger, and valid as well.
    """

    name: ClassVar[str] = "paper"
    clip: bool = True

    def __call__(self, counts: Counts, delta: float) -> float:
        value = ErrorIndex(counts, paper_rule(counts.setting, probability(delta, "delta"), self.clip)).plan()
        return max(rounded_up(value, counts), before_the_start(counts))

    def kl_radii(self, counts: Counts, delta: float, last_step: bool = False) -> np.ndarray:
        n = counts.table.n
        radii = np.where(n > 0, paper_beta(n, counts.setting, delta) / np.maximum(n, 1), 0.0) * (1 + 1e-14)
        return np.where(counts.known_rows(), 0.0, radii)

    def most_successors(self, setting: Setting) -> int:
        return setting.n_outcomes

    def check(self, counts: Counts) -> None:
        """Nothing is assumed that counts could contradict."""

    def assumptions(self, setting: Setting) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class TightBound:
    """The trajectory certificate with support-adaptive radii, never larger than the TV recursion.

    Parameters
    ----------
    max_successors
        A number K of which you know beforehand that no pair has more successors. A small K makes the radii smaller; a K near S
        does not. Counts that show more are refused.
    transfer
        Whether the evidence of other steps is used, where the counts have it (`Counts`). It assumes nothing. Decide beforehand:
        the smaller of the bounds with and without it fails with probability up to 2 delta.
    trajectory, threshold, exact_tv
        Ingredients, to be left out for comparison: the trajectory certificate (else the TV recursion alone), the mixture over
        supports (`"support"`, else `"paper"`), the exact TV radius of a KL ball (else Pinsker's).
    """

    name: ClassVar[str] = "tight"
    max_successors: int | None = None
    transfer: bool = True
    trajectory: bool = True
    threshold: str = "support"
    exact_tv: bool = True

    def __post_init__(self) -> None:
        if self.max_successors is not None and whole_number(self.max_successors, "max_successors") < 1:
            raise ValueError(f"max_successors is {self.max_successors}: it has to be at least 1.")
        for name in ("transfer", "trajectory", "exact_tv"):
            object.__setattr__(self, name, truth(getattr(self, name), name))
        if self.threshold not in THRESHOLDS:
            raise ValueError(f"threshold is {shown(self.threshold)}: it has to be one of {', '.join(map(repr, THRESHOLDS))}.")

    def __call__(self, counts: Counts, delta: float) -> float:
        return self.details(counts, delta).value

    def details(self, counts: Counts, delta: float) -> Details:
        """The bound with the radii and multipliers behind it."""
        setting, table = counts.setting, counts.table
        H = setting.horizon
        radii, tv = self.radii(counts, delta)
        discounts = setting.discount ** np.arange(H)
        w = discounts * (setting.sigma[:0:-1] if setting.arrival_rewards else setting.discount * setting.sigma[H - 1 :: -1])
        w_start = float(setting.sigma[-1]) if setting.initial_state is None else 0.0
        value, multipliers = kernels.trajectory.search(
            table,
            setting.n_actions,
            radii,
            tv,
            w,
            w_start,
            discounts,
            setting.arrival_rewards,
            setting.planes,
            *(SEARCH if self.trajectory else (0, 0)),
        )
        return Details(max(rounded_up(float(value), counts), before_the_start(counts)), radii, tv, multipliers)

    @property
    def kind(self) -> int:
        """Which threshold, as the kernels call it."""
        if self.threshold == "paper":
            return kernels.radii.PAPER
        return kernels.radii.SUPPORT if self.max_successors is None else kernels.radii.SIZE

    def kl_radii(self, counts: Counts, delta: float, last_step: bool = False) -> np.ndarray:
        return self.radii(counts, delta, last_step)[0]

    def most_successors(self, setting: Setting) -> int:
        return min(setting.n_outcomes, self.max_successors or setting.n_outcomes)

    def check(self, counts: Counts) -> None:
        K = self.max_successors
        if K is not None and counts.widest_pair > K:
            raise ValueError(f"max_successors is {K} but a pair with {counts.widest_pair} successors was seen: it is not true.")

    def assumptions(self, setting: Setting) -> tuple[str, ...]:
        K = self.max_successors
        apart = ", where to go on from a state and to end there are two" if setting.terminal == "outcome" else ""
        return () if K is None else (f"no state and action have more than {K} successor{'s' if K > 1 else ''}{apart}",)

    def radii(self, counts: Counts, delta: float, last_step: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """KL and TV radii of every row of the table, 0 where there is no data; see `relevant_laws`."""
        setting, table = counts.setting, counts.table
        S, A = setting.n_outcomes, setting.n_actions
        self.check(counts)
        radii, tv = np.zeros(len(table.n)), np.zeros(len(table.n))
        laws = relevant_laws(setting, last_step)
        if laws:
            kernels.radii.all_radii(
                table, A, S, self.kind, self.most_successors(setting), log(laws / probability(delta, "delta")),
                counts.scores() if self.transfer else np.zeros(0), self.exact_tv,
                np.zeros(1 << kernels.radii.ENUMERATED), radii, tv,
            )  # fmt: skip
        return radii, tv


@dataclass(frozen=True)
class Details:
    """A tight bound and what it was made of."""

    value: float
    radii: np.ndarray  # of the rows of the table, KL
    tv: np.ndarray  # of the rows of the table, total variation
    multipliers: np.ndarray  # (H,), all 0 if the TV recursion was best


def relevant_laws(setting: Setting, last_step: bool = False) -> int:
    """How many laws the values from the start depend on: delta is shared among them and no others.

    Known transitions and illegal actions that the setting names need none. The last step matters only to rewards on arrival (the
    setting's, or asked for by `last_step`), the first one only in the start state if that is known.
    """
    pairs = (setting.n_states - len(setting.absorbing_states)) * setting.n_actions - len(setting.illegal_actions)
    random_start = setting.initial_state is None
    first = setting.n_actions - sum(s == setting.initial_state for s, _ in setting.illegal_actions)
    steps = setting.horizon if setting.arrival_rewards or last_step else setting.horizon - 1
    if steps == 0:
        return int(random_start)
    if setting.stationary:
        return pairs + random_start
    return pairs * steps + 1 if random_start else first + pairs * (steps - 1)


BOUNDS: dict[str, type[PaperBound] | type[TightBound]] = {"paper": PaperBound, "tight": TightBound}


def as_bound(bounds: str | Bound, **options: Any) -> Bound:
    """The bound of a name with these options, or the bound that is given. An option that it does not have is refused."""
    if not isinstance(bounds, str):
        if isinstance(bounds, type) or not callable(bounds) or not hasattr(bounds, "kl_radii"):
            raise ValueError(
                f"bounds is {shown(bounds)}: it has to be one of {', '.join(map(repr, BOUNDS))}, or a bound such as TightBound()."
            )
        if options:
            name, value = next(iter(options.items()))
            kind = type(bounds).__name__
            raise ValueError(f"{name} is given beside a bound that is made already: write bounds={kind}({name}={shown(value)}).")
        return bounds
    if bounds not in BOUNDS:
        raise ValueError(f"bounds is {shown(bounds)}: it has to be one of {', '.join(map(repr, BOUNDS))}.")
    own = {field.name for field in fields(BOUNDS[bounds])}
    for name in options:
        if name not in own:
            raise ValueError(f"{shown(name)} is not an option of the bounds {shown(bounds)}{nearest(name, own)}.")
    return BOUNDS[bounds](**options)


def bound_options(bound: Bound) -> dict[str, Any]:
    """What is needed to make the bound again."""
    return asdict(bound)  # type: ignore[call-overload]

"""Error bounds: upper bounds, computed from counts, on how wrong the empirical model can be about any policy and reward.

Two bounds are available by name (`bounds="tight"` or `bounds="paper"`):

=======  =====================  =================================================================================
tight    `TightBound`           square roots of summed KL charges, which adapt to the support (`docs/theory.md`, 5.2)
paper    `PaperBound`           Lemma 1 of the paper: a sum of square roots of KL radii along the way
=======  =====================  =================================================================================

**What they guarantee.** Every bound Phi(counts, delta) means the same: on one event of probability at least 1 - delta, at all
times, for all policies and all rewards in [0, 1] at once, the value from the start in the empirical model is within Phi of the
true value.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from math import log
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from .. import kernels
from ..data.counts import Counts
from ..setting import MIN_PROBABILITY, Setting, boolean, check_fields, nearest, probability, shown, whole_number
from .error_index import ErrorIndex
from .law_radii import law_radii, pair_radii, shared_laws
from .thresholds import paper_beta, paper_rule

THRESHOLDS = ("paper", "support")
JOINT = 0.1  # the share of delta that the joint bound of all rows of a trajectory takes
SEARCH = (20, 12)  # how many scales of multipliers are tried, each half the previous one; steps of refinement from the best one


class Bound(Protocol):
    """The interface of an error bound. Write a class with these methods to use a bound of your own."""

    name: ClassVar[str]

    def __call__(self, counts: Counts, delta: float) -> float:
        """The error bound Phi."""

    def kl_radii(self, counts: Counts, delta: float, last_step: bool = False) -> np.ndarray:
        """For each row of the table of counts, a radius c such that KL(p_hat, p) <= c on the event of the bound; 0 without data.

        With a declared structure, one for each draw of a row: (rows, m).
        With `last_step`, the event also covers the distributions of the last step, which only rewards on arrival need.
        """

    def most_successors(self, setting: Setting) -> int:
        """The largest possible number of successors of a state-action pair."""

    def check(self, counts: Counts) -> None:
        """Raises if the counts contradict an assumption of the bound."""

    def assumptions(self, setting: Setting) -> tuple[str, ...]:
        """What the bound assumes in addition to the setting, as phrases for printing."""


def error_of_first_reward(counts: Counts) -> float:
    """The probability that an episode starts in a state whose legal actions are unknown: so large can the error of its reward be.

    The reward of the first step has no error once it is known which action a policy takes there. In a setting with `hidden_masks`
    that is unknown until the state has been visited (`docs/theory.md`, 9.1). A start that is estimated is charged for the first
    reward already, and so is every transition if rewards may depend on the successor.
    """
    setting = counts.setting
    if not setting.hidden_masks or setting.arrival_rewards:
        return 0.0
    return float(sum(p for s, p in zip(*setting.starts, strict=True) if counts.is_unsure(int(s))))


def rounded_up(value: float, counts: Counts) -> float:
    """`value` enlarged so that it is an upper bound in spite of all rounding in a backward pass.

    Every term of such a recursion is positive, so each rounding changes the result by a factor within 1 +- 2^-53. Along a path
    there are fewer than (K + 32)(H + 1) roundings, for rows of up to K successors and a sum over at most K initial states.
    """
    widest = max(widest_of(counts), len(counts.setting.starts[0]))
    return value * (1 + 2 * (widest + 32) * (counts.setting.horizon + 1) * 2.0**-53)


def widest_of(counts: Counts) -> int:
    """The largest number of different outcomes of one distribution, the initial one included.

    With a structure, the combinations of outcomes of all draws of a pair are counted.
    """
    laws = counts.setting.structure
    return max(0 if laws is None else int(laws.widest), int(counts.table.size.max()))


def weights(setting: Setting) -> tuple[np.ndarray, float]:
    """What an error of a law can cost: the largest value after each step, (H,), and after the start, 0 if its law is known."""
    H = setting.horizon
    discounts = setting.discount ** np.arange(H)
    w = discounts * (setting.sigma[:0:-1] if setting.arrival_rewards else setting.discount * setting.sigma[H - 1 :: -1])
    return w, float(setting.sigma[-1]) if setting.estimates_start else 0.0


@dataclass(frozen=True)
class PaperBound:
    """The paper's error bound at the start, E-bar, on the event of `certificates.thresholds` (`docs/theory.md`, 2.1).

    Parameters
    ----------
    clip : bool, default True
        False leaves out the minimum with the trivial bound at each step, as the paper does for its figures. The result is larger,
        and valid as well.
    """

    name: ClassVar[str] = "paper"
    clip: bool = True

    def __post_init__(self) -> None:
        check_fields(self, boolean, "clip")

    def __call__(self, counts: Counts, delta: float) -> float:
        """The error bound Phi."""
        self.check(counts)
        value = ErrorIndex(counts, paper_rule(counts.setting, probability(delta, "delta"), self.clip)).plan()
        return rounded_up(value + error_of_first_reward(counts), counts)

    def kl_radii(self, counts: Counts, delta: float, last_step: bool = False) -> np.ndarray:
        """The KL radius beta(n)/n of each row of the table, 0 without data; see `Bound.kl_radii`."""
        self.check(counts)
        n = counts.table.n
        radii = np.where(n > 0, paper_beta(n, counts.setting, delta) / np.maximum(n, 1), 0.0) * (1 + 1e-14)
        return np.where(counts.known_rows(), 0.0, radii)

    def most_successors(self, setting: Setting) -> int:
        """The number of outcomes: nothing is assumed about successors."""
        return setting.n_outcomes

    def check(self, counts: Counts) -> None:
        """Raises if a structure is declared, of which the paper's bound knows nothing; it makes no assumption of its own."""
        if counts.setting.structure is not None:
            raise ValueError(
                "the paper's bounds do not know of a structure: use the bounds 'tight', and an algorithm other than rf-ucrl."
            )

    def assumptions(self, setting: Setting) -> tuple[str, ...]:
        """None."""
        return ()


@dataclass(frozen=True)
class TightBound:
    """The default error bound, much smaller than the paper's: the trajectory certificate with support-adaptive radii.

    It adds up KL radii along a trajectory before it takes the square root. The radii come from a mixture over all supports that a
    distribution can have, so they are small where few successors were observed (`docs/theory.md`, 3b, 3c and 4.1). It is never
    larger than the recursion with total variation radii (`docs/theory.md`, 4.2 and 5.3). If transitions depend on the step, a
    tenth of delta is spent on a joint bound of all rows of a trajectory, which saves most of the union bound over rows
    (`docs/theory.md`, 13.1, 13.2 and 13.3).

    Parameters
    ----------
    max_successors : int, optional
        A number K such that you know beforehand that no state-action pair has more than K successors. A small K makes the radii
        smaller; a K close to S does not. K = 1 says that transitions are deterministic: `deterministic=True` does the same in
        `explore` and `certify`. Counts that show more successors are refused.
    transfer : bool, default True
        Whether to use the evidence of other steps, if the counts have it (`Counts`). It assumes nothing. Decide before you see
        the results: the smaller one of the bounds with and without it fails with probability up to 2 delta.
    joint, trajectory, threshold, exact_tv
        Ingredients that can be left out for comparison; decide this too before you see results. `joint=False` bounds each row on
        its own. This is also for data from several sources with common noise: the joint bound needs an order of all transitions
        in which each, given all earlier ones, is a draw from its law. `trajectory=False` uses the recursion with total variation
        radii alone; `threshold="paper"` uses the paper's threshold instead of the mixture over supports (`"support"`);
        `exact_tv=False` uses Pinsker's inequality instead of the exact total variation radius of a KL ball.
    """

    name: ClassVar[str] = "tight"
    max_successors: int | None = None
    transfer: bool = True
    trajectory: bool = True
    threshold: str = "support"
    exact_tv: bool = True
    joint: bool = True

    def __post_init__(self) -> None:
        if self.max_successors is not None:
            check_fields(self, whole_number, "max_successors")
            if self.max_successors < 1:
                raise ValueError(f"max_successors is {self.max_successors}: it has to be at least 1.")
        check_fields(self, boolean, "transfer", "trajectory", "exact_tv", "joint")
        if self.threshold not in THRESHOLDS:
            raise ValueError(f"threshold is {shown(self.threshold)}: it has to be one of {', '.join(map(repr, THRESHOLDS))}.")

    def __call__(self, counts: Counts, delta: float) -> float:
        """The error bound Phi: `details(counts, delta).value`, without radii while it is certain to be the largest."""
        setting = counts.setting
        weight, w_start = weights(setting)
        most = w_start if setting.estimates_start else float(weight[0])
        alone = setting.estimates_start or len(setting.starts[0]) == 1
        if alone and not setting.stationary and setting.structure is None and self.is_above(counts, delta, most, setting.horizon):
            self.check(counts)
            return rounded_up(most + error_of_first_reward(counts), counts)
        plain = type(self) is TightBound and setting.structure is None  # others may have radii of their own
        if plain and self.exact_tv and self.trajectory and relevant_laws(setting):
            self.check(counts)
            found = self.row_radii(counts, delta, False, kernels.radii.LEAST)
            return self._searched(counts, delta, found.radii, found.tv, found.exact).value
        return self.details(counts, delta).value

    def details(self, counts: Counts, delta: float) -> TightBoundDetails:
        """The error bound together with the radii and multipliers that it was computed from."""
        return self._searched(counts, delta, *self.radii(counts, delta))

    def _searched(
        self, counts: Counts, delta: float, radii: np.ndarray, tv: np.ndarray, exact: np.ndarray | None = None
    ) -> TightBoundDetails:
        """The error bound for given radii. Where tv is not `exact`, it is a lower bound, which is replaced if need be."""
        setting = counts.setting
        on_radii = self.radii_delta(setting, delta)
        joint = log(max(1, relevant_laws(setting)) / on_radii), -log(delta - on_radii) if on_radii < delta else 0.0
        search = SEARCH if self.trajectory else (0, 0)
        return TightBoundDetails(
            *trajectory_error(counts, radii, tv, search, joint, exact, self.kind, self.most_successors(setting))
        )

    def is_above(self, counts: Counts, delta: float, goal: float, depth: int | None = None) -> bool:
        """Whether the bound is certain to be above `goal`, whatever its multipliers, from a look at the visits alone.

        It takes a few backward passes and no radii. False says nothing. It decides when the bound is worth computing and nothing
        else (`docs/theory.md`, 23.1).
        """
        setting, table, laws = counts.setting, counts.table, counts.setting.structure
        if type(self) is not TightBound or not self.trajectory or not 0 < goal < np.inf:
            return False  # others may have radii of their own
        if laws is not None and not laws.apart:
            return False  # a law is seen elsewhere, too
        on_radii, (w, w_start) = self.radii_delta(setting, delta), weights(setting)
        return bool(
            kernels.trajectory.is_above(
                float(goal),
                depth or max(1, setting.horizon // 4),
                table,
                setting.n_actions,
                setting.n_outcomes,
                w,
                w_start,
                setting.discount ** np.arange(setting.horizon),
                setting.arrival_rewards,
                setting.planes,
                log(max(1, relevant_laws(setting)) / on_radii),
                on_radii < delta,
                self.kind == kernels.radii.SIZE or laws is not None,
            )
        )

    def radii_delta(self, setting: Setting, delta: float) -> float:
        """The part of delta that is spent on the radii of single rows; the rest is spent on the joint bound."""
        if not (isinstance(delta, float) and MIN_PROBABILITY <= delta < 1.0):  # the usual case is asked for at every look
            delta = probability(delta, "delta")
        joint = self.joint and self.trajectory and not setting.stationary and setting.structure is None
        return (1 - JOINT) * delta if joint else delta

    @property
    def kind(self) -> int:
        """The number of the threshold in `kernels.radii`: PAPER, SUPPORT or SIZE."""
        if self.threshold == "paper":
            return kernels.radii.PAPER
        return kernels.radii.SUPPORT if self.max_successors is None else kernels.radii.SIZE

    def kl_radii(self, counts: Counts, delta: float, last_step: bool = False) -> np.ndarray:
        """The KL radius of each row of the table, 0 without data; see `Bound.kl_radii`."""
        return self.radii(counts, delta, last_step)[0]

    def most_successors(self, setting: Setting) -> int:
        """`max_successors`, or the number of outcomes."""
        return min(setting.n_outcomes, self.max_successors or setting.n_outcomes)

    def check(self, counts: Counts) -> None:
        """Raises if a state-action pair has more than `max_successors` observed successors, or if a structure says how many."""
        if counts.setting.structure is not None and (self.max_successors is not None or self.threshold != "support"):
            raise ValueError(
                "max_successors, deterministic and threshold do not suit a structure, which says what the successors are: "
                "leave them out."
            )
        K = self.max_successors
        if K is None:
            return
        s, a, seen = counts.widest_pair
        if seen > K:
            given = "deterministic is True, which is max_successors=1," if K == 1 else f"max_successors is {K},"
            pair = counts.named(f"state {s} with action {a}")
            raise ValueError(f"{given} but {pair} has {seen} observed successors: leave it out.")

    def assumptions(self, setting: Setting) -> tuple[str, ...]:
        """The assumption about `max_successors`, if there is one."""
        K, outcomes = self.max_successors, setting.terminal == "outcome"
        if K is None:
            return ()
        if K == 1:
            return ("every transition is deterministic" + (", and so is whether it terminates the episode" if outcomes else ""),)
        apart = ", where continuing from a state and terminating there count as two" if outcomes else ""
        return (f"no state and action have more than {K} successors{apart}",)

    def radii(self, counts: Counts, delta: float, last_step: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """The KL and total variation radii of every row of the table, 0 without data; `relevant_laws` explains `last_step`.

        With a structure, the radii of each draw of every row.
        """
        setting, table = counts.setting, counts.table
        A = setting.n_actions
        self.check(counts)
        if setting.structure is not None:
            log_laws = log(max(1, relevant_laws(setting, last_step)) / probability(delta, "delta"))
            return pair_radii(counts, law_radii(counts, log_laws, self.exact_tv), log_laws)
        if not relevant_laws(setting, last_step):
            return np.zeros(len(table.n)), np.zeros(len(table.n))
        found = self.row_radii(counts, delta, last_step, kernels.radii.EXACT if self.exact_tv else kernels.radii.PINSKER)
        radii, tv, used = np.zeros(len(table.n)), np.zeros(len(table.n)), counts.n_nodes * A
        radii[:used], tv[:used] = found.radii[:used], found.tv[:used]
        return radii, tv

    def row_radii(self, counts: Counts, delta: float, last_step: bool, which_tv: int) -> LastRadii:
        """The radii of every row, which `counts` remember: rows without new observations keep theirs. Entries behind the last
        row mean nothing. `which_tv` is one of those in `kernels.radii`.
        """
        setting, table = counts.setting, counts.table
        level = log(relevant_laws(setting, last_step) / self.radii_delta(setting, delta))
        K, transfer = self.most_successors(setting), self.transfer and counts.transfer
        scored = counts.scores() if transfer else np.zeros(0)
        last = counts.remembered(("radii", self.kind, K, level, transfer, self.exact_tv), LastRadii.of(len(table.n)))
        kernels.radii.all_radii(
            table, setting.n_actions, setting.n_outcomes, self.kind, K, level, scored, which_tv,
            np.zeros(1 << kernels.radii.ENUMERATED), np.full(kernels.radii.FEW, np.nan), *last,
        )  # fmt: skip
        return last


def trajectory_error(
    counts: Counts,
    radii: np.ndarray,
    tv: np.ndarray,
    search: tuple[int, int] = SEARCH,
    joint: tuple[float, float] = (0.0, 0.0),
    exact: np.ndarray | None = None,
    kind: int | None = None,
    K: int = 0,
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, float]:
    """The fields of `TightBoundDetails` for given radii of the rows of `Counts.model_table`, on the event on which these hold.

    Parameters
    ----------
    counts : Counts
    radii, tv : ndarray
    search : (int, int)
        See `SEARCH`.
    joint : (float, float)
        log(M / delta) of the radii, and log(1 / delta_1) of the joint bound; 0 without one.
    exact : ndarray of uint8, optional
        Which entries of `tv` are what they have to be; others are lower bounds, which are replaced where the result depends on
        them. Without it all are.
    kind, K : int
        The kind of the thresholds, support-adaptive unless given, and the largest number of successors: for entries of `tv` that
        are lower bounds.
    """
    setting = counts.setting
    w, w_start = weights(setting)
    each = (radii.reshape(-1), tv.reshape(-1)) if radii.shape[1:] == (1,) else (radii, tv)  # one draw is a row of its own
    value, multipliers, u = kernels.trajectory.search(
        counts.model_table,
        setting.n_actions,
        *each,
        w,
        w_start,
        setting.discount ** np.arange(setting.horizon),
        setting.arrival_rewards,
        setting.planes,
        *search,
        *joint,
        kernels.trajectory.Unsettled(
            np.zeros(0, np.uint8) if exact is None else exact,
            setting.n_outcomes,
            kernels.radii.SUPPORT if kind is None else kind,
            K,
            np.zeros(1 << kernels.radii.ENUMERATED),
            np.zeros(setting.horizon),
            np.full(setting.horizon, np.inf),
        ),
    )
    return rounded_up(float(value) + error_of_first_reward(counts), counts), radii, tv, multipliers, u


class LastRadii(NamedTuple):
    """The radii of rows when they were last asked for: those of rows without new observations are what they were."""

    radii: np.ndarray
    tv: np.ndarray
    done: np.ndarray  # the visits of each row for which it has its final radii; 0 if it has none
    exact: np.ndarray  # whether its total variation radius is what it has to be; otherwise there is a lower bound

    @classmethod
    def of(cls, rows: int) -> LastRadii:
        """Of no rows yet."""
        return cls(np.zeros(rows), np.zeros(rows), np.zeros(rows, np.int64), np.zeros(rows, np.uint8))


@dataclass(frozen=True)
class TightBoundDetails:
    """A tight error bound and what it was computed from.

    Attributes
    ----------
    value : float
        The error bound.
    radii, tv : ndarray
        The KL and total variation radius of each row of the table of counts or, with a structure, of each draw of a row.
    multipliers : ndarray, (H,)
        The multipliers lambda of the trajectory certificate; all 0 if the recursion with total variation radii was better.
    u : float
        The multiplier of the joint bound of all rows of a trajectory; 0 if it was not better.
    """

    value: float
    radii: np.ndarray
    tv: np.ndarray
    multipliers: np.ndarray
    u: float


def relevant_laws(setting: Setting, last_step: bool = False) -> int:
    """The number of laws that values from the start depend on: delta is shared among these and no others.

    Absorbing states and illegal actions of the setting are not counted. The last step counts only for rewards on arrival (if the
    setting has `arrival_rewards`, or with `last_step`). At the first step only the states count in which an episode can start, if
    these are known; otherwise all of them do, and the distribution of the initial state.
    """
    if setting.structure is not None:
        return shared_laws(setting, last_step)
    absorbing, A = set(setting.absorbing_states), setting.n_actions
    pairs = (setting.n_states - len(absorbing)) * A - len(setting.illegal_actions)
    steps = setting.horizon if setting.arrival_rewards or last_step else setting.horizon - 1
    if steps == 0:
        return int(setting.estimates_start)
    if setting.stationary:
        return pairs + setting.estimates_start
    if setting.estimates_start:
        return pairs * steps + 1
    possible = set(setting.starts[0].tolist())
    first = len(possible - absorbing) * A - sum(s in possible for s, _ in setting.illegal_actions)
    return first + pairs * (steps - 1)


BOUNDS: dict[str, Any] = {"paper": PaperBound, "tight": TightBound}


def as_bound(bounds: str | Bound, deterministic: bool = False, **options: Any) -> Bound:
    """The error bound with a given name and options, or the bound object that is given. Raises if an option is unknown.

    Parameters
    ----------
    bounds : {"tight", "paper"} or Bound
    deterministic : bool, default False
        Another name for `max_successors=1`.
    **options
        Fields of `TightBound` or `PaperBound`, only for a name.
    """
    if deterministic is not False and boolean(deterministic, "deterministic"):
        if options.get("max_successors", 1) != 1:
            raise ValueError(f"deterministic is True, but max_successors is {options['max_successors']}: leave one of them out.")
        if isinstance(bounds, str) and bounds in BOUNDS and bounds != TightBound.name:
            raise ValueError(f"deterministic is not an option of the bounds {shown(bounds)}: use the bounds 'tight'.")
        options["max_successors"] = 1
    if not isinstance(bounds, str):
        if isinstance(bounds, type) or not callable(bounds) or not hasattr(bounds, "kl_radii"):
            raise ValueError(
                f"bounds is {shown(bounds)}: it has to be one of {', '.join(map(repr, BOUNDS))}, or a bound such as TightBound()."
            )
        if options:
            name, value = next(iter(options.items()))
            kind = type(bounds).__name__
            raise ValueError(f"{name} cannot be given together with a bound object: write bounds={kind}({name}={shown(value)}).")
        return bounds
    if bounds not in BOUNDS:
        raise ValueError(f"bounds is {shown(bounds)}: it has to be one of {', '.join(map(repr, BOUNDS))}.")
    own = {field.name for field in fields(BOUNDS[bounds])}
    for name in options:
        if name not in own:
            raise ValueError(f"{shown(name)} is not an option of the bounds {shown(bounds)}{nearest(name, own)}.")
    return BOUNDS[bounds](**options)


def with_later_options(name: Any, options: Any, joint: bool | None) -> Any:
    """The options of a bound from a file, with those that earlier versions did not have.

    Their bounds were not joint. `joint` may be given as True where that makes no difference: with stationary transitions.
    """
    if name == TightBound.name and isinstance(options, dict):
        return {**options, "joint": options.get("joint", bool(joint))}
    return options


def bound_options(bound: Bound) -> dict[str, Any]:
    """The options from which `as_bound` makes the bound again."""
    return bound.options if hasattr(bound, "options") else asdict(bound)  # type: ignore[call-overload]

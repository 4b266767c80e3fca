"""The certified trade-off of two rewards: what can be had of the second for so much of the first."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from ..rewards.combining import combined, on_arrival, range_of
from ..rewards.forms import OWN, ArrivalReward, Reward, reward_of_setting
from ..setting import real_number, whole_number
from ..words import assumed, confidence_level, interval
from .plan import Interval, Plan
from .scoring import scoring_of

if TYPE_CHECKING:
    from .atlas import Atlas


@dataclass(frozen=True, eq=False)
class TradeOff:
    """The certified trade-off curve of two rewards: what `Atlas.trade_off` found.

        curve = atlas.trade_off(reward, "state == 0", points=3)
        curve.first, curve.second                       # the two intervals of each plan

    On the certificate's event, for all shares and all policies at once: the true values of every plan are in its two intervals,
    and no policy whatever, mixtures included, is worth x of the first reward and more than `most(x)` of the second
    (`docs/theory.md`, 17.3).

    Attributes
    ----------
    names : (str, str)
    shares : ndarray, (points,)
        The share of the second reward in the sum that each plan is for; both are measured by the largest value that they allow.
    plans : tuple of Plan
        For these sums.
    first, second : tuple of Interval
        The value of each plan by the two rewards.
    uppers : ndarray, (points,)
        An upper bound on the optimal sum, for each share.
    scales : (float, float)
        What each reward is divided by in the sums.
    delta : float
    assumptions : tuple of str
    """

    names: tuple[str, str]
    shares: np.ndarray
    plans: tuple[Plan, ...] = field(repr=False)
    first: tuple[Interval, ...]
    second: tuple[Interval, ...]
    uppers: np.ndarray
    scales: tuple[float, float]
    delta: float
    assumptions: tuple[str, ...]

    def __eq__(self, other: object) -> bool:
        """Whether both are the same curve of the same rewards."""
        if not isinstance(other, TradeOff):
            return NotImplemented
        alike = np.array_equal(self.shares, other.shares) and np.array_equal(self.uppers, other.uppers)
        mine, theirs = ((it.names, it.plans, it.first, it.second, it.scales, it.delta, it.assumptions) for it in (self, other))
        return alike and mine == theirs

    __hash__ = None  # type: ignore[assignment]

    def most(self, x: float) -> float:
        """No policy worth at least x of the first reward is worth more than this of the second; -inf if no policy is worth x.

        Example:

            curve.most(1.0)                                 # of the second reward, where the first is worth 1
        """
        x, best = real_number(x, "x"), inf
        for share, upper in zip(self.shares.tolist(), self.uppers.tolist(), strict=True):
            left = upper - (1 - share) * x / self.scales[0]
            if share > 0:
                best = min(best, self.scales[1] * left / share)
            elif left < 0:
                return -inf
        return best

    def to_pandas(self) -> Any:
        """A pandas data frame with a row for each share: both values with their bounds.

        Example:

            curve.to_pandas()
        """
        try:
            import pandas as pd
        except ImportError:
            raise ValueError("pandas is not installed: pip install pandas.") from None
        columns = {"share": self.shares}
        for i, values in enumerate((self.first, self.second), 1):
            for k, end in enumerate(("lower", "value", "upper")):
                columns[f"{end}_{i}"] = np.array([v[k] for v in values])
        return pd.DataFrame(columns)

    def plot(self) -> Any:
        """A Matplotlib figure: the intervals of the plans, and beyond which line nothing can be.

        Example:

            curve.plot().savefig("trade-off.png")
        """
        from ..plots import draw_trade_off

        return draw_trade_off(self)

    def _repr_html_(self) -> str:
        from ..pages import result_card

        return result_card(self)

    def __str__(self) -> str:
        rows = [
            f"{share:.3f}  {a.value:10.4g} in {interval(a.lower, a.upper):22}  {b.value:10.4g} in {interval(b.lower, b.upper)}"
            for share, a, b in zip(self.shares, self.first, self.second, strict=True)
        ]
        return "\n".join(
            [
                f"share  {self.names[0]}, then {self.names[1]}, at once with probability {confidence_level(self.delta)}"
                f"{assumed(self.assumptions)}",
                *rows,
            ]
        )


def trade_off(atlas: Atlas, first: Reward, second: Reward, points: int) -> TradeOff:
    """See `Atlas.trade_off`."""
    points = whole_number(points, "points")
    if points < 2:
        raise ValueError(f"points is {points}: it has to be at least 2.")
    for r in (first, second):
        if isinstance(r, str) and r == OWN:
            raise ValueError("a trade-off is between rewards that are given: give the reward itself instead of 'own'.")
    setting = atlas.counts.setting
    shape = setting.horizon, setting.n_outcomes, setting.n_actions
    rewards = [reward_of_setting(r, setting, None, atlas.numbering) for r in (first, second)]
    if any(isinstance(r, ArrivalReward) for r in rewards):
        rewards = [on_arrival(r, shape) for r in rewards]
    scorings = [scoring_of(atlas, r, range_of(r)) for r in rewards]
    scales = [max(s.highest - s.lowest, 1e-9) for s in scorings]
    shares, plans, uppers = np.linspace(0.0, 1.0, points), [], []
    values: tuple[list[Interval], list[Interval]] = ([], [])
    said = atlas._assumptions(scorings[0])
    for share in shares.tolist():
        r = combined([(1 - share) / scales[0], share / scales[1]], rewards, shape)
        plan = atlas._plan(scoring_of(atlas, r, range_of(r)), False, False)
        plans.append(plan)
        uppers.append(plan.upper + 1e-12 * (1 + abs(plan.upper)))
        for found, scoring in zip(values, scorings, strict=True):
            found.append(Interval(*atlas._evaluate(plan.choice, scoring), atlas.certificate.delta, said))
    names = [r if isinstance(r, str) else word for r, word in ((first, "the first reward"), (second, "the second reward"))]
    return TradeOff(
        (names[0], names[1]), shares, tuple(plans), tuple(values[0]), tuple(values[1]), np.array(uppers), (scales[0], scales[1]),
        atlas.certificate.delta, said,
    )  # fmt: skip

"""UCRL in phases, on a finite horizon: what UCRL2, KL-UCRL, MBIE and UCFH have in common.

Over balls around the empirical laws, both bounds by backward induction, V = max_a Q:

    Q_up = r + gamma max_{p in ball} p.V_up,      Q_lo = r + gamma min_{p in ball} p.V_lo

Sampling         play argmax_a Q_up, computed when a phase begins; a phase ends after the episode in which some count has doubled.
Recommendation   argmax_a Q_lo; V_up - V_lo at the start bounds what it can lose, on the event that all laws lie in their balls.

The originals maximise an average reward on an infinite horizon, by extended value iteration; the balls and the phases are
theirs, the backward induction and the certificate follow from the balls.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .. import kernels
from .._checks import checked_array
from ..certificates.bounds import TightBound
from ..data.counts import Counts, enlarged
from ..rewards.forms import UNIT, Reward, from_unit
from ..setting import Setting, positive
from .explorer import IndexExplorer, RewardedExplorer
from .value_bounds import ValueBounds

if TYPE_CHECKING:
    from ..kernels.phases import PhasedLearner


class PhasedUCRL(IndexExplorer, RewardedExplorer):
    """UCRL in phases for one known reward of step, state and action; a subclass gives its balls.

    Parameters
    ----------
    scale
        Multiplies the radii. 1 is what is proved; any other number is a heuristic without a guarantee of its own.
    setting, reward, delta, bounds, max_successors, seed, growth, ties
        See `Explorer` and `IndexExplorer`. `bounds="tight"` is used without transfer.
    """

    goal = "regret"
    proved = True
    handles_masks = True
    norm: ClassVar[str] = "kl"  # which kind of balls, of `kernels.ball.NORMS`
    least = 1  # so many new visits of a pair are needed, at least, for a new phase

    def __init__(self, setting: Setting, reward: Reward = None, *, scale: float = 1.0, **options: Any) -> None:
        if options.get("transfer"):
            raise ValueError(f"transfer does not suit {type(self).__name__}: its counts are not scored. Leave it out.")
        super().__init__(setting, reward, **options)
        if isinstance(self.bound, TightBound):
            self.bound = replace(self.bound, transfer=False)
            self.counts = Counts(setting)
        self.scale, self.heuristic = positive(scale, "scale"), scale != 1.0
        self._balls = self.balls()
        constants = kernels.bpi.Constants(
            discount=setting.discount,
            horizon=setting.horizon,
            n_states=setting.n_outcomes,
            n_actions=setting.n_actions,
            threshold=kernels.radii.PAPER,  # of which nothing is used: the radii are those of `balls`
            most=self.most,
            log_laws=0.0,
            reward_level=0.0,
            norm=kernels.ball.NORMS.index(self.norm),
        )
        self._values = ValueBounds(self.counts, constants, "known", self.reward)
        self._started = np.zeros(len(self.counts.table.n), np.int64)  # the count of every row when the phase began

    @property
    def most(self) -> int:
        """How many outcomes a pair can have, at most."""
        return self.setting.n_outcomes

    @abstractmethod
    def balls(self) -> Any:
        """A named tuple with the method radius(n, log_t): the radius after n visits, in a phase that begins at transition t."""

    @property
    def formulas(self) -> Any:
        return self._balls

    def learner(self) -> PhasedLearner:
        self._fit()
        values, A = self._values, self.setting.n_actions
        return kernels.phases.PhasedLearner(
            values.bound_arrays, values.prior, A, values.rewards, values.constants, self._balls, self._started, values.gaps,
            self.least,
        )  # fmt: skip

    def _fit(self) -> None:
        """Enlarges the arrays to the capacity of the table of counts."""
        self._values.fit()
        if len(self._started) < len(self.counts.table.n):
            self._started = enlarged(self._started, len(self.counts.table.n))

    def _catch_up(self) -> None:
        """Begins a phase if something was declared since the last one began."""
        values = self._values
        if not values.outdated_by_declarations():
            return
        self._fit()
        kernels.compiled.fitting(kernels.phases.replan, self._balls)(
            self.counts.table, values.bound_arrays, values.rewards, values.constants, self._balls, self._started, values.gaps
        )

    @property
    def recommendation(self) -> np.ndarray:  # type: ignore[override]
        """The policy that is greedy for the lower values, (H, S)."""
        self._catch_up()
        return self._values.cautious_policy()

    @property
    def _unit_interval(self) -> tuple[float, float]:
        """`interval` on the scale on which the reward lies in [0, 1]."""
        self._catch_up()
        up, lo = self._values.at_the_start()
        most, slack = float(self.setting.sigma[-1]), 0.5e-12 * float(self.setting.sigma[-1])  # for rounding in sums of H rewards
        return max(0.0, lo - slack), min(most, up + slack)

    @property
    def interval(self) -> tuple[float, float]:
        """Bounds from the start, as of the beginning of the phase: lower <= value of the recommendation <= optimum <= upper."""
        rounding = 0.0 if self.reward_range == UNIT else 1e-12 * float(self.setting.sigma[-1])  # of the rescaled reward
        lower, upper = self._unit_interval
        return from_unit(lower - rounding, upper + rounding, self.reward_range, float(self.setting.sigma[-1]))

    @property
    def own_loss(self) -> float | None:
        """V_up - V_lo at the start, as of the beginning of the phase: what the recommendation can lose."""
        lower, upper = self._unit_interval
        return None if self.heuristic else upper - lower

    def state(self) -> dict[str, np.ndarray]:
        self._catch_up()
        rows = self.counts.n_nodes * self.setting.n_actions
        return {**super().state(), **self._values.state(), "started": self._started[:rows].copy()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Goes on from where `state` was taken. The bounds are those of the counts when the phase began, which are not kept."""
        super().restore(state)
        self._values.restore(self.counts, state)
        rows = self.counts.n_nodes * self.setting.n_actions
        started = checked_array(state["started"], np.int64, (rows,), "its phase is")
        self._started = np.zeros(len(self.counts.table.n), np.int64)
        self._started[:rows] = started

"""UCRL in phases, on a finite horizon: what UCRL2 and KL-UCRL have in common.

Over balls around the empirical laws, both bounds by backward induction, V = max_a Q:

    Q_up = r + gamma max_{p in ball} p.V_up,      Q_lo = r + gamma min_{p in ball} p.V_lo

Sampling         play argmax_a Q_up, computed when a phase begins; a phase ends after the episode in which some count has doubled.
Recommendation   argmax_a Q_lo; V_up - V_lo at the start bounds what it can lose, on the event that all laws lie in their balls.

The originals maximise an average reward on an infinite horizon, by extended value iteration; the balls and the phases are
theirs, the backward induction and the certificate follow from the balls.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from .._checks import checked_array
from ..data.counts import grown
from ..rewards.forms import Reward
from ..setting import Setting, positive
from .bpi_ucrl import BPIUCRL
from .explorer import Explorer

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..certificates.certificate import Certificate
    from ..data.tabular import TabularMDP

CHUNK = 1_000


class PhasedUCRL(BPIUCRL):
    """UCRL in phases for one known reward in [0, 1] of step, state and action; a subclass gives its balls.

    Parameters
    ----------
    scale
        Multiplies the radii. 1 is what is proved; any other number is a heuristic without a guarantee of its own.
    setting, reward, delta, bounds, ties, seed, growth
        See `BPIUCRL`.
    """

    goal = "regret"
    norm_l1 = False

    def __init__(self, setting: Setting, reward: Reward = None, *, scale: float = 1.0, **options: Any) -> None:
        if "rewards" in options:
            raise ValueError(f"rewards does not suit {type(self).__name__}: its reward is known.")
        self.scale, self.heuristic = positive(scale, "scale"), scale != 1.0
        super().__init__(setting, reward, **options)
        if self._on_arrival:
            raise ValueError(f"a reward on arrival does not suit {type(self).__name__}: give one of step, state and action.")
        self._constants = self._constants._replace(l1=self.norm_l1, most=setting.n_outcomes)
        self._started = np.zeros(len(self.counts._table.n), np.int64)
        self._level = float(self.level())

    @abstractmethod
    def level(self) -> float:
        """The constant of the radii, see `kernels.phases.replan`."""

    def _fit(self) -> None:
        super()._fit()
        if len(self._started) < len(self.counts._table.n):
            self._started = grown(self._started, len(self.counts._table.n))

    def tell(self, states: ArrayLike, actions: ArrayLike, rewards: ArrayLike | None = None) -> None:
        """Learns from an episode, or a batch of them."""
        self._learn(*self.counts.checked(states, actions))

    def _learn(self, states: np.ndarray, actions: np.ndarray) -> None:
        for i in range(0, len(states), 64):
            self.counts.reserve(64 * states.shape[1])
            self._fit()
            kernels.phases.learn(*self._phase, states[i : i + 64], actions[i : i + 64], self._scratch[3])

    @property
    def _phase(self) -> tuple[Any, ...]:
        return self.counts._table, self._sides, self._known, self._constants, self._level, float(self.scale), self._started

    def advance(self, mdp: TabularMDP, rng: np.random.Generator, episodes: int, goal: float) -> bool:
        """Plays on a known model at compiled speed; the same decisions as with `ask` and `tell`."""
        self.counts.reserve(64 * (self.setting.horizon + 1))
        self._fit()
        nodes, actions, _, g = self._scratch
        kernels.phases.run(mdp.model, *self._phase, np.uint64(self._seed_key), rng, min(episodes, CHUNK), nodes, actions, g)
        return False

    def _verify(self) -> None:
        """Bounds are those of the counts when the phase began, which are not kept."""

    def _renew(self) -> None:
        kernels.phases.replan(*self._phase, self._scratch[3])

    def reached(self, goal: float) -> bool:
        return False

    def state(self) -> dict[str, np.ndarray]:
        N, A = int(self.counts._table.used[0]), self.setting.n_actions
        return {**super().state(), "started": self._started[: N * A].copy()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        N, A = int(self.counts._table.used[0]), self.setting.n_actions
        started = checked_array(state["started"], np.int64, (N * A,), "its phase is")
        self._started[:] = 0
        self._started[: N * A] = started

    @property
    def own_epsilon(self) -> float | None:
        """V_up - V_lo at the start, as of the beginning of the phase: what the recommendation can lose."""
        lower, upper = self.interval
        return None if self.heuristic else upper - lower

    @property
    def error_bound(self) -> float:
        """The bound for every reward, from the counts."""
        return self.bound(self.counts, self.delta)

    def certificate(self, epsilon: float | None = None) -> Certificate:
        """What can be certified for every reward, from the counts."""
        return Explorer.certificate(self, epsilon)

"""RF-trajectory for shared laws: the index of a pair falls when one of its laws is seen anywhere.

If a structure is declared (`Structure`), the certificate charges kappa_h c(s,a) for passing through a pair, where c(s,a) is the
sum of the radii of its laws (`certificates.law_radii`). So the explorer goes where the laws that were seen least add up to
most:

    W_h(s,a) = kappa_h sum_i 1{draw i of (s,a) counts} / n_{g_i} + sum_s' p(s'|s,a) max_b W_{h+1}(s',b),     W_H = 0 (steps from
    0)

with the kappa of `rf_trajectory`, n = 0.1 for a law that was not seen, and p the product of the estimates (N(x) + 1/2) / (n +
K/2) of the laws, so that every outcome is thought possible. A draw that does not count is charged nothing: otherwise the
explorer would stay where nothing is learnt. At the last step, which later values do not depend on, the least visited laws are
preferred.

Sampling   play argmax_a W_h(s,a); the index is computed anew when the episodes have grown by `growth`.
Stopping   when the certificate is at most epsilon/2, looked at whenever the episodes have grown by `growth`.
Planning   for any reward, backward induction on the model of the laws.

Guarantee: that of the certificate. For constant kappa the design that this approaches has a bound of the order H sqrt(M/t) for
M laws after t episodes, without S and A (`docs/theory.md`, 15).
"""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from .. import kernels
from .._checks import checked_array
from ..setting import Setting
from .explorer import Explorer, Repeated, Request
from .rf_trajectory import RFTrajectory, weights

LEAST = 0.1  # what counts as the number of draws of a law that was never seen
LAST = 1e-9  # the weight of the last step relative to the first, where it has none: it decides only between equals


class RFLaws(Explorer):
    """RF-trajectory over the laws of a declared structure; `explore` takes it for `rf-trajectory` if there is one.

    Parameters
    ----------
    setting, delta, bounds, seed, growth
        See `Explorer`.
    """

    name = RFTrajectory.name
    guarantee = RFTrajectory.guarantee
    reference = RFTrajectory.reference
    continues = True
    proved = True
    handles_masks = True

    def __init__(self, setting: Setting, **options: Any) -> None:
        super().__init__(setting, **options)
        if setting.structure is None:
            raise ValueError("RFLaws explores the laws of a structure: declare one, or use RFTrajectory.")
        kappa = weights(setting)
        self._weight = np.where(kappa > 0.0, kappa, LAST * max(1.0, float(kappa[0])))
        self._planned_at, self._policy = -1, np.zeros((setting.horizon, setting.n_states), np.int64)

    @property
    def own_epsilon(self) -> float | None:
        return 2 * self.bound_of(self.bound)

    @property
    def finished(self) -> bool:  # type: ignore[override]
        """Whether the data contradict the structure, so that nothing will ever be certified with it."""
        return self.counts.shared.refuted

    @property
    def phase(self) -> str:  # type: ignore[override]
        return "the data contradict the structure" if self.finished else ""

    def ask(self) -> np.ndarray:
        """The policy of the next episode, (H, S)."""
        if self.episodes >= self._next_pass:
            self._plan()
        return self._policy

    def ask_many(self, episodes: int, goal: float) -> Request:
        policy = self.ask()
        return Repeated.of(policy, min(episodes, self._next_pass - self.episodes))

    def tell_many(self, request: Request, *outcome: np.ndarray) -> None:
        self.counts.add_flows(outcome[0])

    @property
    def _next_pass(self) -> int:
        return self._planned_at + 1 if self._planned_at < 1 else max(self._planned_at + 1, ceil(self._planned_at * self.growth))

    def _plan(self) -> None:
        """Computes the index and its greedy policy from the counts. Ties are broken at random."""
        shared, setting, t = self.counts.shared, self.setting, self.counts.shared.tables
        counted = np.append(np.where(shared.laws.estimated, 1.0 / np.maximum(LEAST, shared.n), 0.0), 0.0)
        charge = (counted[shared.laws.law_of] * t.revealed).sum(axis=1)
        charge *= 1.0 + 1e-6 * np.random.default_rng((self.seed, self.episodes, 1)).random(len(charge))
        S, A, H = setting.n_states, setting.n_actions, setting.horizon
        V, policy = np.zeros((H + 1, S)), np.zeros((H, S), np.int64)
        kernels.shared.greedy(
            t.edge_first,
            t.edge_target,
            shared.edge_probabilities(shared.smoothed_outcomes),
            charge,
            self.counts.table.known,
            S,
            A,
            self._weight,
            V,
            policy,
        )
        self._policy, self._planned_at = policy, self.episodes

    def state(self) -> dict[str, np.ndarray]:
        return {**super().state(), "planned_at": np.array([self._planned_at]), "policy": self._policy}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        H, S, A = self.setting.horizon, self.setting.n_states, self.setting.n_actions
        self._planned_at = int(checked_array(state["planned_at"], np.int64, (1,), "its schedule is", -1, self.episodes)[0])
        self._policy = checked_array(state["policy"], np.int64, (H, S), "its policy is", 0, A - 1)

"""E3, explicit explore or exploit (Kearns & Singh 2002), in a form for episodes. It turns out to be reward-free.

A state of a step (h, s) before the last (or a state, if stationary) is known once each of its actions has m samples:

    E_h(s) = 1 if (h, s) is not known, else max_a p_hat E_{h+1};   0 at the last step          (steps from 0)
    m = ceil(2 (S log 2 + log(2N/delta)) / alpha^2),   alpha = epsilon / (2 H (H-1)),   N = S A (H-1), or S A if stationary

Sampling   play argmax_a p_hat E_{h+1} in known states, the policy that escapes from them with the largest probability in the
empirical
           model, and the action that was tried least in the others (balanced wandering).

Guarantee, derived here (`docs/theory.md`, 22.3 and 22.8), on the event that ||p_hat - p||_1 <= alpha for all known states at all
times, of probability at least 1 - delta/2. With eps_1 = alpha H (H-1) / 4, at all times and for every reward at once:

    V* - V^{plan} <= 4 eps_1 + 2 H E_0(s_1) for backward induction on p_hat: `own_epsilon`

So it ends at 4 eps_1 = epsilon/2, once nothing unknown can be met. While H E_0 > epsilon/2, unknown states are met with
probability at least epsilon/(4H): with probability 1 - delta that is so for at most (8H/epsilon) (N m + log(2/delta)) episodes.

In the original there is one reward, whose optimum is known, no reset, and a policy is good where it halts; it explores or
exploits by whether the known part of the model is good enough for that value. Without that value exploring alone is left, and
neither the policy that escapes nor the rule for stopping looks at a reward. As in R-MAX no samples are discarded. No discount.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from .. import kernels
from ..setting import Setting, positive, probability
from .optimistic import OptimisticExplorer
from .r_max import given_samples, level_of, samples_for
from .registry import register


class E3Index(NamedTuple):
    """E, which is computed from the counts alone."""

    m: int

    def begin(self, problem: Any, table: Any, greedy: Any, indices: Any, rows: Any) -> None:
        for h in range(problem.horizon - 1):
            greedy.unvisited[h] = 1.0
        kernels.escape.escape(table, greedy, problem.horizon, problem.n_actions, self.m)

    def renew(self, problem: Any, table: Any, greedy: Any, indices: Any, rows: Any) -> None:
        """Nothing is kept for each row."""

    def update(
        self, problem: Any, table: Any, greedy: Any, indices: Any, rows: Any, nodes: np.ndarray, actions: np.ndarray
    ) -> None:
        kernels.escape.escape(table, greedy, problem.horizon, problem.n_actions, self.m)


@register("e3")
class E3(OptimisticExplorer):
    """E3 as ask and tell.

    Parameters
    ----------
    target
        The epsilon of the guarantee. By default a tenth of the largest possible value.
    samples
        m, in place of what the target asks for. The guarantee is then that of the epsilon that suits it.
    setting, delta, bounds, ties, seed, growth
        See `OptimisticExplorer`.
    """

    guarantee = "every plan epsilon-optimal once nothing unknown can be met"
    status = "certified"
    reference = "Kearns & Singh 2002"
    supports_discount = False
    proved = True

    def __init__(
        self, setting: Setting, *, delta: float = 0.1, target: float | None = None, samples: int | None = None, **options: Any
    ) -> None:
        if "scale" in options:
            raise ValueError("scale does not suit E3: it has no bonus. Its option samples does what you want.")
        H, delta = setting.horizon, probability(delta, "delta")
        aim = H / 10 if target is None else positive(target, "target")
        needed = samples_for(setting, aim / (2 * H * (H - 1)), delta) if H > 1 else 1
        self.samples = needed if samples is None else given_samples(samples)
        self.eps_1 = min(2.0, sqrt(2 * level_of(setting, delta) / self.samples)) * H * (H - 1) / 4
        super().__init__(setting, delta=delta, **options)

    @classmethod
    def defaults(cls, setting: Setting, epsilon: float) -> dict[str, Any]:
        return {"target": epsilon}

    def rule(self) -> E3Index:
        return E3Index(int(self.samples))

    @property
    def own_epsilon(self) -> float | None:
        """4 eps_1 + 2 H E_0 at the start; None if the distribution of the start is estimated."""
        H = float(self.setting.horizon)
        E = self._start(self._greedy.V, 1.0 if H > 1 else 0.0)
        return None if inf == E else min(H, 4 * self.eps_1 + 2 * H * E) * (1 + 1e-12)

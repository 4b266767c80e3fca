"""Active coverage (after CovGame and PCE, Al-Marjani, Tirinzoni & Kaufmann 2023): at least so many samples of every pair.

Sampling   play the optimal policy on p_hat for r_h(s,a) = max(0, 1 - n_h(s,a)/c), c being the number that is wanted (of pooled
visits, if stationary).

Guarantee: none. `fewest_episodes` says how few episodes can do, in expectation, when the model is known: over the expected
visits x of all mixtures of policies, a linear program,

    phi* = min { phi : x_0(s,a) sums to phi P_0(s) over a,  x_{h+1}(s',.) sums to sum x_h(s,a) p_h(s'|s,a),  x_h(s,a) >=
    c_h(s,a) }

The originals play games of multiplicative weights, with bonuses whose constants keep them at the cap at any affordable budget;
this is their goal with the simplest reward that points to it. For a certificate equal coverage is not what is needed most."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from ..data.tabular import TabularMDP
from ..setting import Setting, whole_number
from .planned import PlannedExplorer
from .registry import register


@register("coverage")
class Coverage(PlannedExplorer):
    """Exploration for equal coverage as ask and tell.

    Parameters
    ----------
    least
        How many samples of every pair are wanted, c. When nothing is missing that can be reached, any policy is played.
    setting, delta, bounds, seed, growth
        See `PlannedExplorer`.
    """

    goal = "baseline"
    guarantee = "none of its own"
    status = "none"
    reference = "Al-Marjani et al. 2023"

    def __init__(self, setting: Setting, *, least: int = 1000, **options: Any) -> None:
        self.least = whole_number(least, "least")
        if self.least < 1:
            raise ValueError(f"least is {self.least}: it has to be at least 1.")
        super().__init__(setting, **options)

    def pays(self) -> np.ndarray:
        return np.maximum(0.0, 1.0 - self.visits() / self.least)


def fewest_episodes(mdp: TabularMDP, targets: np.ndarray) -> float:
    """phi*: how many episodes are needed so that the expected visits of every (h, s, a) are at least `targets`, (H, S, A).

    Infinite if a pair with a positive target cannot be reached.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    c = np.asarray(targets, float)
    (H, S, _), shape = c.shape, mdp.model.shape
    mdp.check_horizon(H)
    successors, p = mdp.model.successors.reshape(shape), mdp.model.probabilities.reshape(shape)
    h, s, a = (part.ravel() for part in np.indices(c.shape))
    number = np.arange(c.size)
    rows, columns, values = [h * S + s], [number], [np.ones(c.size)]
    for k in range(shape[3]):
        on = h < H - 1
        at = np.minimum(h[on], shape[0] - 1), s[on], a[on], k
        rows.append((h[on] + 1) * S + successors[at])
        columns.append(number[on])
        values.append(-p[at])
    rows.append(np.arange(S))
    columns.append(np.full(S, c.size))
    values.append(-mdp.initial)
    flow = coo_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(H * S, c.size + 1))
    cost = np.zeros(c.size + 1)
    cost[-1] = 1.0
    found: Any = linprog(
        cost,
        A_eq=flow.tocsr(),
        b_eq=np.zeros(H * S),
        bounds=np.column_stack([np.append(c.ravel(), 0.0), np.full(c.size + 1, inf)]),
    )
    return float(found.fun) if found.status == 0 else inf

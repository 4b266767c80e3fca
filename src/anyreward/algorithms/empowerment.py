"""Exploring for empowerment, of one step (Mohamed & Rezende 2015): go where the action decides most about what comes next.

    g_h(s) = max_omega I(A; S') = max_omega sum_a omega(a) KL(p(.|s,a), sum_b omega(b) p(.|s,b))    (the capacity of a channel)

on the means p = (counts + kappa) / (n + 1) of Dirichlet laws with kappa = 1/S, by the algorithm of Blahut and Arimoto: omega(a)
<- omega(a) exp(D_a) / Z with D_a = KL(p(.|s,a), sum_b omega(b) p(.|s,b)), until max_a D_a and log Z, between which g lies, agree.

Sampling   play the optimal policy for g on p_hat.

Guarantee: none. It does not even explore: on the double chain g is log 2 - h(0.1) in every state. A baseline."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..setting import Setting
from .planned import PlannedExplorer
from .registry import register

MOST = 2**24  # probabilities in the means of all laws
ROUNDS = 1000  # of the iteration, at most


def capacity(p: np.ndarray, legal: np.ndarray | None = None, tolerance: float = 1e-7) -> np.ndarray:
    """The capacity of channels p (..., A, S), in nats, from below; of the `legal` inputs (..., A) only."""
    omega = np.ones(p.shape[:-1]) if legal is None else np.where(legal, 1.0, 0.0)
    omega /= np.maximum(omega.sum(axis=-1, keepdims=True), 1.0)
    entropy = (p * np.log(np.where(p > 0, p, 1.0))).sum(axis=-1)
    for _ in range(ROUNDS):
        mixed = np.einsum("...a,...as->...s", omega, p)
        D = entropy - np.einsum("...as,...s->...a", p, np.log(np.where(mixed > 0, mixed, 1.0)))
        weighted = omega * np.exp(D)
        Z = weighted.sum(axis=-1, keepdims=True)
        top = np.where(omega > 0, D, 0.0).max(axis=-1)
        low = np.log(np.maximum(Z[..., 0], 1.0))
        if (top - low <= tolerance).all():
            break
        omega = weighted / np.where(Z > 0, Z, 1.0)
    return low


@register("empowerment")
class Empowerment(PlannedExplorer):
    """Exploration for empowerment as ask and tell; see `PlannedExplorer` for options."""

    goal = "baseline"
    guarantee = "none of its own"
    status = "none"
    reference = "Mohamed & Rezende 2015"

    def __init__(self, setting: Setting, *args: Any, **options: Any) -> None:
        size = (1 if setting.stationary else setting.horizon) * setting.n_outcomes**2 * setting.n_actions
        if size > MOST:
            raise ValueError(f"empowerment would need the means of all laws, {size:,} numbers: at most {MOST:,}.")
        super().__init__(setting, *args, **options)

    def pays(self) -> np.ndarray:
        n, c, S = self.visits(), self.counts.columns(), self.setting.n_outcomes
        p, move = np.full((*n.shape, S), 1 / S), c["h"] >= 0
        np.add.at(p, tuple(c[name][move] for name in ("h", "s", "a", "next")), c["count"][move])
        p /= n[..., None] + 1
        stays = self.counts.stays()
        p[:, stays] = np.eye(S)[stays][:, None]
        legal = np.ones(n.shape[1:], bool)
        legal[: len(self.counts.illegal)] = ~self.counts.illegal
        return np.broadcast_to(capacity(p, legal, 1e-3)[..., None], n.shape).copy()

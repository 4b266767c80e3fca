"""Exploring for information: curiosity as expected learning (after Schmidhuber 1991; Still & Precup 2012; Sun et al. 2011).

The law of each pair has the prior Dirichlet(kappa, ..., kappa) on S outcomes, kappa = 1/S. With alpha = counts + kappa, alpha_0
= sum alpha and m = alpha / alpha_0, a draw is worth the information that it is expected to give about the law:

    I = - sum_k m_k log m_k - psi(alpha_0 + 1) + sum_k m_k psi(alpha_k + 1)        about (successors - 1) / (2n)

Sampling   play the optimal policy for I on p_hat.

Guarantee: none. The closed form, the mutual information of a Dirichlet law and its next draw, was derived here.
"""

from __future__ import annotations

import numpy as np

from .planned import PlannedExplorer
from .registry import register


def information(alpha: np.ndarray) -> np.ndarray:
    """The expected information of a draw about a law with the posterior Dirichlet(alpha), over the last axis."""
    from scipy.special import digamma

    total = alpha.sum(axis=-1, keepdims=True)
    m = alpha / total
    return (m * (digamma(alpha + 1) - np.log(m))).sum(axis=-1) - digamma(total[..., 0] + 1)


@register("info-gain")
class InfoGain(PlannedExplorer):
    """Exploration for information as ask and tell; see `PlannedExplorer` for options."""

    goal = "baseline"
    guarantee = "none of its own"
    status = "none"
    reference = "Schmidhuber 1991; Still & Precup 2012; Sun et al. 2011"

    def pays(self) -> np.ndarray:
        """I of each pair, from its successors that were seen; the others have kappa each."""
        from scipy.special import digamma

        n, c, S = self.visits(), self.counts.columns(), self.setting.n_outcomes
        kappa, total = 1 / S, n + 1.0
        move = c["h"] >= 0
        at, alpha = (c["h"][move], c["s"][move], c["a"][move]), c["count"][move] + kappa
        m, seen, value = alpha / total[at], np.zeros_like(n), np.zeros_like(n)
        np.add.at(seen, at, 1.0)
        np.add.at(value, at, m * (digamma(alpha + 1) - np.log(m)))
        rest = kappa / total
        value += (S - seen) * rest * (digamma(kappa + 1) - np.log(rest))
        return np.maximum(0.0, value - digamma(total + 1))

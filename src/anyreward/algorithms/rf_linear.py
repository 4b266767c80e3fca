"""Reward-free exploration in linear models (Wang, Du, Yang & Salakhutdinov 2020): one feature for each pair, or any features.

With one-hot features least squares are counts: Lambda = diag(n+1), and w(V) = n p_hat V / (n+1), shrunk. Steps from 0, m = H-1-h:

    Q_h(s,a) = min(H-h, n/(n+1) p_hat V_{h+1} + (1 + 1/H) u_h(n)),   V = max_a Q,   H-h without data
    u_h(n)   = scale m (sqrt(beta(n)/2) + 1) / sqrt(n+1),     beta(n): RF-UCRL's

Sampling   play argmax_a Q. (The original's exploration reward is u/H, and its bonus u.)

Guarantee: none for plans on p_hat. For the original's own plans, which are greedy for min(H-h, r + w(V) + u), a loss of at most
D_0(s_1) follows on the event of beta, for every reward at once, D_h = min(H-h, 2 u_h + n/(n+1) p_hat max_b D_{h+1}), as |w(V) -
pV| <= u for all V in [0, m]: the law is wrong by at most sqrt(n beta/2)/(n+1) in total variation, the shrinkage by 1/(n+1). It
is never better than RF-UCRL's bound with half the span, which is about plans on p_hat, so that it is not offered.

With `features` phi(s,a) in R^d it is the original's regression, on the same schedule of constants, for all pairs, seen or not:

    Lambda_h = I + sum phi phi^T,   w_h(V) = Lambda_h^-1 sum phi V(s'),   both over what was counted at step h (or at all steps)
    Q_h(s,a) = min(H-h, phi.w_h(V_{h+1}) + (1 + 1/H) u_h),   u_h = scale m (sqrt(beta(n)/2) + 1) sqrt(q),   q = phi Lambda^-1 phi

and H-h where phi has no part in what was seen; n = |phi|^2/q - 1 is the number of visits that would leave as much unknown.
One-hot features give the numbers above. That a model is linear in features cannot be checked, and without it nothing can be
claimed: no guarantee of its own. The certificate of the counts knows nothing of features, and stays valid. It plans whenever the
episodes have grown by `growth`, from Lambda and the sums of the counts, so that no inverse has to be updated episode by episode.

The original's constants, beta = c d H sqrt(log(d H/(delta epsilon))), are not published; those above were derived here. No
discount."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..certificates.thresholds import log_laws
from ..kernels.formulas import beta_level
from ..setting import Setting, positive
from .explorer import Explorer
from .optimistic import OptimisticExplorer
from .planned import TINY, PlannedExplorer
from .registry import register
from .visit_index import LINEAR, VisitIndex

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@register("rf-linear")
class RFLinear(OptimisticExplorer):
    """Reward-free exploration by least squares as ask and tell.

    Parameters
    ----------
    features
        phi, (S, A, d), for `explore` and `make_explorer`, which then make a `LinearFeatures`. Without, one for each pair.
    setting, delta, bounds, scale, ties, seed, growth
        See `OptimisticExplorer`.
    """

    guarantee = "none for plans on the empirical model"
    status = "no certificate"
    reference = "Wang et al. 2020"
    supports_discount = False

    def __init__(self, setting: Setting, *, features: None = None, **options: Any) -> None:
        if features is not None:
            raise ValueError("features do not suit RFLinear, which has one for each pair: use LinearFeatures, or make_explorer.")
        super().__init__(setting, **options)

    @classmethod
    def for_setting(cls, setting: Setting, options: Mapping[str, Any]) -> type[Explorer]:
        """The form for features, if there are any."""
        return LinearFeatures if options.get("features") is not None and cls is RFLinear else cls

    def rule(self) -> VisitIndex:
        setting = self.setting
        m = float(setting.n_outcomes - 1)
        level = beta_level(log_laws(setting, self.delta), m)
        return VisitIndex(LINEAR, float(setting.horizon), float(self.scale), level, m)


class LinearFeatures(PlannedExplorer):
    """Reward-free exploration with features of the pairs as ask and tell, a form of `rf-linear`.

    Parameters
    ----------
    features
        phi, (S, A, d) finite numbers.
    scale
        Multiplies u. Nothing is guaranteed whatever it is.
    setting, delta, bounds, seed, growth
        See `PlannedExplorer`.
    """

    guarantee = RFLinear.guarantee
    status, reference = RFLinear.status, RFLinear.reference
    supports_discount = False

    def __init__(self, setting: Setting, *, features: ArrayLike, scale: float = 1.0, **options: Any) -> None:
        try:
            phi = np.asarray(features, float)
        except (TypeError, ValueError):
            raise ValueError("features have to be numbers, (S, A, d).") from None
        if phi.ndim != 3 or phi.shape[:2] != (setting.n_states, setting.n_actions) or phi.shape[2] == 0:
            wanted = f"({setting.n_states}, {setting.n_actions}, d)"
            raise ValueError(f"features have shape {phi.shape}: they have to have the shape {wanted}, d numbers for each pair.")
        if not np.isfinite(phi).all():
            s, a, i = (int(k) for k in np.argwhere(~np.isfinite(phi))[0])
            raise ValueError(f"features[{s}, {a}, {i}] is {phi[s, a, i]}: it has to be finite.")
        ended = np.zeros((setting.n_outcomes - setting.n_states, *phi.shape[1:]))  # of ends nothing is unknown
        self.features = np.concatenate([phi, ended])
        self.scale, self.heuristic = positive(scale, "scale"), scale != 1.0
        super().__init__(setting, **options)

    def pays(self) -> np.ndarray:
        """(1 + 1/H) u of every pair, (H, n_outcomes, A); H where nothing is known in the direction of its features."""
        return self._pays(self._inverses())

    @property
    def _of_step(self) -> np.ndarray:
        """Which counts are those of each step, (H,)."""
        H = self.setting.horizon
        return np.zeros(H, int) if self.setting.stationary else np.arange(H)

    def _inverses(self) -> list[np.ndarray]:
        """Lambda^-1 of each step, or of all steps if stationary."""
        phi, eye = self.features, np.eye(self.features.shape[2])
        return [np.linalg.inv(eye + np.einsum("sa,sai,saj->ij", n, phi, phi)) for n in self.visits()]

    def _unknown(self, inverse: np.ndarray) -> np.ndarray:
        """u / m of every pair, (n_outcomes, A); -1 where nothing is known in the direction of its features."""
        setting, phi = self.setting, self.features
        size = (phi * phi).sum(axis=2)
        q = np.minimum(size, np.maximum(0.0, np.einsum("sai,ij,saj->sa", phi, inverse, phi)))
        n = np.divide(size, q, out=np.ones_like(q), where=q > 0) - 1
        m = setting.n_outcomes - 1.0
        beta = beta_level(log_laws(setting, self.delta), m) + m * np.log(np.maximum(1.0, m + n))
        u = self.scale * (np.sqrt(np.maximum(0.0, beta) / 2) + 1) * np.sqrt(q)
        return np.where((q > 0) & (q >= size * (1 - 1e-12)), -1.0, u)

    def _pays(self, inverses: list[np.ndarray]) -> np.ndarray:
        H = self.setting.horizon
        unknown = np.stack([self._unknown(inverse) for inverse in inverses])[self._of_step]
        left = (H - 1 - np.arange(H))[:, None, None]
        return np.where(unknown < 0, float(H), (1 + 1 / H) * left * unknown)

    @property
    def index(self) -> np.ndarray:
        """Q of every pair for the present counts, (H, n_outcomes, A)."""
        setting, c, phi, H = self.setting, self.counts.columns(), self.features, self.setting.horizon
        inverses, illegal = self._inverses(), self.counts.illegal
        pays = self._pays(inverses)
        Q, V = np.zeros((H, *phi.shape[:2])), np.zeros(setting.n_outcomes)
        for h in reversed(range(H)):
            k = self._of_step[h]
            at = c["h"] == k
            w = inverses[k] @ (phi[c["s"][at], c["a"][at]].T @ (c["count"][at] * V[c["next"][at]]))
            Q[h] = np.minimum(H - h, phi @ w + pays[h])
            Q[h, self.counts.stays()] = 0.0
            Q[h, : len(illegal)][illegal] = -np.inf
            V = Q[h].max(axis=1)
        return Q

    def _planned(self, rng: np.random.Generator) -> np.ndarray:
        Q = self.index
        return (Q + TINY * self.setting.horizon * rng.random(Q.shape)).argmax(axis=2)

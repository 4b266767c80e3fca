"""RF-trajectory: reward-free exploration for the trajectory certificate.

The certificate (`bounds.TightBound`, proved in `docs/theory.md`, 5.2 and 13.3) charges kappa_h c_h(s,a) for passing through a
pair, where the KL radius c_h(s,a) is a slowly growing threshold over n_h(s,a). So the explorer goes where kappa_h / n_h(s,a) adds
up to most:

    W_h(s,a) = kappa_h / n_h(s,a) + sum_s' p_hat_h(s'|s,a) max_b W_{h+1}(s',b),     W_{H} = 0 (steps from 0)
    kappa_h  = sum_{j > h} gamma^j / lambda_j,   lambda_j = sqrt(j), or sqrt(j + 1) if the start is estimated

(with rewards on arrival, j >= h and one more under the roots), with n = 0.1 for a pair that was not visited, and not clipped: at
a cap, indices tie and exploration loses its direction. The shape of lambda is that of the certificate when all charges are alike;
its scale does not matter to a greedy policy.

Sampling   play argmax_a W_h(s,a).
Stopping   when the certificate is at most epsilon/2, looked at where the episodes have grown by `growth` and it may be so.
Planning   for any reward, backward induction on p_hat.

Guarantee: that of the certificate, which is a function of the counts and does not depend on how they were collected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import kernels
from ..certificates.bounds import TightBound
from ..setting import Setting, shown
from .greedy import GreedyExplorer
from .registry import register

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..kernels.rf import Rule
    from .explorer import Explorer


class InverseRadius(NamedTuple):
    """1 / n."""

    least: float = 0.1  # what counts as the number of visits where there were none

    def charge(self, n: float, size: float) -> float:
        return 1.0 / max(self.least, n)


class PerSuccessor(NamedTuple):
    """k / n for k observed successors, as the threshold of the certificate grows with them."""

    least: float = 0.1

    def charge(self, n: float, size: float) -> float:
        return max(1.0, size) / max(self.least, n)


CHARGES: dict[str, Any] = {"visits": InverseRadius, "successors": PerSuccessor}


def weights(setting: Setting) -> np.ndarray:
    """kappa_h for every step, (H,)."""
    j = np.arange(setting.horizon)
    laws = j + setting.estimates_start + setting.arrival_rewards  # how many laws stand behind time j
    charge = np.where(laws > 0, setting.discount**j / np.sqrt(np.maximum(laws, 1)), 0.0)
    behind = np.cumsum(charge[::-1])[::-1]
    return behind if setting.arrival_rewards else np.append(behind[1:], 0.0)


@register("rf-trajectory")
class RFTrajectory(GreedyExplorer):
    """RF-trajectory as ask and tell.

        explorer = anyreward.RFTrajectory(setting, delta=0.1)
        explorer.tell(*env.rollout(explorer.ask(), episodes=10))
        explorer.certificate().epsilon

    Parameters
    ----------
    charge
        What a pair is charged: `"visits"`, 1/n, or `"successors"`, k/n where k successors were observed, since the certificate's
        radii grow with k. The latter certifies a smaller epsilon where few pairs are random, and a larger one elsewhere
        (`docs/algorithms.md`, Samplers).
    setting, delta, bounds, clip, max_successors, transfer, seed, growth, ties, replan
        See `GreedyExplorer`.
    """

    guarantee = "every plan epsilon-optimal at the stop (trajectory certificate)"
    reference = "docs/theory.md"
    proved = True
    handles_masks = True

    def __init__(self, setting: Setting, *, charge: str = "visits", **options: Any) -> None:
        if charge not in CHARGES:
            raise ValueError(f"charge is {shown(charge)}: it has to be {' or '.join(map(repr, CHARGES))}.")
        self.charge = charge
        super().__init__(setting, **options)

    @property
    def own_epsilon(self) -> float | None:
        """Twice the tight bound, whatever it is stopped by."""
        return 2 * self.bound_of(self.bound if isinstance(self.bound, TightBound) else TightBound())

    @classmethod
    def for_setting(cls, setting: Setting, options: Mapping[str, Any]) -> type[Explorer]:
        """The form of this algorithm for laws that pairs share, if the setting declares any (`rf_laws`)."""
        from .rf_laws import RFLaws

        shared = setting.structure is not None and not setting.structure.apart
        return RFLaws if shared and cls is RFTrajectory else cls

    def rule(self) -> Rule:
        setting = self.setting
        return kernels.rf.Rule(
            weight=weights(setting),
            cap=np.full(setting.horizon, np.inf),
            discount=1.0,
            start_weight=0.0,
            start_cap=np.inf,
            n_states=setting.n_outcomes,
            n_actions=setting.n_actions,
            radius=CHARGES[self.charge](),
        )

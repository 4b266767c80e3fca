"""RF-trajectory: reward-free exploration for the trajectory certificate.

The certificate (`bounds.TightBound`, proved in `docs/theory.md`, 5.2 and 13.3) charges kappa_h c_h(s,a) for passing through a
pair, where the KL radius c_h(s,a) is a slowly growing threshold over n_h(s,a). So the explorer goes where kappa_h / n_h(s,a) adds
up to most:

    W_h(s,a) = kappa_h / n_h(s,a) + sum_s' p_hat_h(s'|s,a) max_b W_{h+1}(s',b),     W_{H} = 0 (steps from 0)
    kappa_h  = sum_{j > h} gamma^j / lambda_j,   lambda_j = sqrt(j), or sqrt(j + 1) if the start is estimated

(with rewards on arrival, j >= h and one more under the roots), with n = 0.1 for a pair that was not visited, and not clipped: at
a cap, indices tie and exploration loses its direction. The shape of lambda is that of the certificate when all charges are alike;
its scale does not matter to a greedy policy.

The threshold grows with the number of successors, too: on DeepSea with slips it is 15 nats where one was seen, and 23 where two
were. So pairs of which one successor was seen are charged half as much, SINGLE kappa_h / n, but only once little is left to
discover. Before that it would do harm: a pair with few visits has shown few of its successors, and would be passed over. With
Lambda = sum_j gamma^j lambda_j and charges of b nats each, the certificate is about 2 sqrt(2 b Lambda W), where W is the index
before the first step. Little is left once that is below 0.4 sigma_H for b = 20, which is Lambda W <= NEAR sigma_H^2.

Sampling   play argmax_a W_h(s,a).
Stopping   when the certificate is at most epsilon/2, looked at where the episodes have grown by `growth` and it may be so.
Planning   for any reward, backward induction on p_hat.

Guarantee: that of the certificate, which is a function of the counts and does not depend on how they were collected.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import kernels
from .._checks import checked_array
from ..certificates.bounds import TightBound
from ..data.counts import Counts
from ..setting import Setting
from .explorer import NEVER
from .greedy import GreedyExplorer
from .registry import register

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..kernels.rf import Rule
    from .explorer import Explorer


SINGLE = 0.5  # the charge of a pair of which one successor was seen, relative to others, ...
NEAR = 0.004  # ... once Lambda W is at most this, in units of sigma_H^2
ASKED_FROM, ASKED_AGAIN = 256, 1.2  # after how many episodes that is asked first, and by how many times more it is asked again


class InverseRadius(NamedTuple):
    """1 / n."""

    least: float = 0.1  # what counts as the number of visits where there were none
    single: float = 1.0  # the part that is charged where one successor was seen

    def charge(self, n: float, size: float) -> float:
        return (self.single if size == 1.0 else 1.0) / max(self.least, n)


def laws_behind(setting: Setting) -> np.ndarray:
    """How many laws stand behind the reward of each time, (H,)."""
    return np.arange(setting.horizon) + setting.estimates_start + setting.arrival_rewards


def weights(setting: Setting) -> np.ndarray:
    """kappa_h for every step, (H,)."""
    j, laws = np.arange(setting.horizon), laws_behind(setting)
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
    setting, delta, bounds, clip, max_successors, transfer, seed, growth, ties, replan
        See `GreedyExplorer`.
    """

    guarantee = "every plan epsilon-optimal at the stop (trajectory certificate)"
    reference = "docs/theory.md"
    proved = True
    handles_masks = True

    def __init__(self, setting: Setting, **options: Any) -> None:
        self.refines, self._asked_at = False, 0  # whether little is left to discover, and when that was asked last
        self.due = ASKED_FROM
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
            radius=InverseRadius(single=SINGLE if self.refines else 1.0),
        )

    def _ask_later(self) -> None:
        """Says when it is to be asked again, if at all."""
        self.due = NEVER if self.refines else max(ASKED_FROM, ceil(ASKED_AGAIN * self._asked_at))

    def _when_due(self) -> None:
        """Charges pairs with one successor less from now on, if little is left to discover."""
        setting, self._asked_at = self.setting, self.episodes
        total = float((setting.discount ** np.arange(setting.horizon) * np.sqrt(laws_behind(setting))).sum())
        if total * self._index.value() <= NEAR * float(setting.sigma[-1]) ** 2:
            self.refines = True
            self._index.rule = self.rule()
            self._plan()
        self._ask_later()

    def state(self) -> dict[str, np.ndarray]:
        return {**super().state(), "refines": np.array([self.refines, self._asked_at])}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        given = state.get("refines", np.zeros(2, np.int64))  # earlier versions did not
        refines, self._asked_at = map(int, checked_array(given, np.int64, (2,), "its charges are", 0, [1, 2**53]))
        self.refines = bool(refines)
        self._ask_later()
        self._index.rule = self.rule()
        super().restore(state)

    def go_on_from(self, counts: Counts) -> None:
        self.refines = False
        self._index.rule = self.rule()
        super().go_on_from(counts)
        self._when_due()

"""RF-UCRL, reward-free UCRL (Kaufmann, Ménard, Darwiche Domingues, Jonsson, Leurent, Valko; ALT 2021, section 3).

Index, with steps h = 1 ... H as in the paper, sigma_k = 1 + gamma + ... + gamma^(k-1) and E_{H+1} = 0:

    E_h(s,a) = min( gamma sigma_{H-h},
                    gamma sigma_{H-h} sqrt(2 beta(n_h(s,a)) / n_h(s,a)) + gamma sum_s' p_hat_h(s'|s,a) max_b E_{h+1}(s',b) )
    beta(n)  = log(2 S A H / delta) + (S-1) log(e (1 + n/(S-1)))

Sampling   play argmax_a E_h(s,a).
Stopping   before the first episode at which max_a E_1(s_1,a) <= epsilon/2.
Planning   for any reward, backward induction on p_hat.

Guarantee (Lemma 1 and Theorem 1): on an event of probability at least 1 - delta/2 (`confidence`), at every time, E_1 bounds
|V_hat^pi(s_1; r) - V^pi(s_1; r)| for all policies and all rewards in [0, 1] at once; hence every plan made after the stop is
epsilon-optimal. The other half of delta serves the paper's bound on how long it takes.

Variants. Stationary (the paper's appendix): n and p_hat are pooled over the steps and log(2 S A / delta) suffices. Random start:
an extra state s_0 in front, E_0 = min(sigma_H, sigma_H sqrt(2 beta(t)/t) + sum_s P_hat_0(s) max_b E_1(s,b)),
one law more in beta.
Without clipping (`clip=False`, the variant of the paper's figures) the outer min is dropped; at n = 0 the bonus is then taken
with n = 1, that is gamma sigma sqrt(2 beta(0)) >= gamma sigma, which keeps the bound valid where the printed 1/0 would make all
indices infinite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..certificates.bounds import PaperBound
from ..certificates.thresholds import paper_rule
from .greedy import GreedyExplorer
from .registry import register

if TYPE_CHECKING:
    from ..kernels.rf import Rule


@register("rf-ucrl")
class RFUCRL(GreedyExplorer):
    """RF-UCRL as ask and tell; see `GreedyExplorer` for options. With `bounds="paper"` it is stopped as in the paper.

    Example:

        explorer = anyreward.RFUCRL(setting, bounds="paper")
        explorer.tell(*env.rollout(explorer.ask(), episodes=10))
        explorer.error_bound
    """

    guarantee = "every plan epsilon-optimal at the stop (Theorem 1)"
    reference = "Kaufmann et al. 2021"
    proved = True
    handles_masks = True
    clips = True

    def rule(self) -> Rule:
        return paper_rule(self.setting, self.delta, self.clip)

    @property
    def own_epsilon(self) -> float | None:
        """Twice the paper's bound, whatever it is stopped by."""
        return 2 * self.bound_of(PaperBound(self.clip))

    @property
    def follows_its_bound(self) -> bool:
        return isinstance(self.bound, PaperBound) and self.bound.clip == self.clip

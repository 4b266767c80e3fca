"""What counts prove for several given rewards: for each of them a plan that is certain to be epsilon-optimal.

For reward r let V_up(r) be the largest optimum and V_lo(r) the largest guaranteed value over all models in the KL balls
(`intervals`). On the event that all laws lie in their balls, which mentions no reward, V_lo(r) <= value of the policy that is
greedy for the lower values <= V* <= V_up(r) for every r. So

    epsilon = max_r V_up(r) - V_lo(r)

holds for all given rewards at once, with no union over them (`docs/theory.md`, 20.1).

One of them may be the environment's own, of which only payments were observed. Half of delta is then for the balls, and half for
its means (`docs/theory.md`, 8.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from .. import kernels
from ..data.counts import Counts
from ..rewards.forms import ArrivalReward
from ..rewards.given import Given
from ..rewards.observed import ObservedRewards
from ..setting import Setting
from ..words import exact
from .bounds import Bound, bound_options
from .certificate import OBSERVED, SEVERAL, Certificate, fingerprint, range_of_all
from .intervals import Robust

MARGIN = 1e-9  # relative to the largest value: far more than the rounding of all ways to plan


def margin_of(setting: Setting, reward_range: tuple[float, float]) -> float:
    """By how much widths are enlarged, so that no way of planning finds a wider interval."""
    low, high = reward_range
    return float(setting.sigma[-1]) * max(MARGIN * (high - low), 4e-12 * max(abs(low), abs(high)))


class GivenBounds:
    """Robust planning for several rewards, over the same balls.

    Parameters
    ----------
    counts : Counts
    bound : Bound
    delta : float
    rewards : sequence of Given
    reward_range : (float, float)
        In which all rewards lie.
    paid : ObservedRewards, optional
        What was paid, if one of the rewards is only observed.
    """

    def __init__(
        self,
        counts: Counts,
        bound: Bound,
        delta: float,
        rewards: Sequence[Given],
        reward_range: tuple[float, float],
        paid: ObservedRewards | None = None,
    ) -> None:
        counts.check_start()
        bound.check(counts)
        self.counts, self.rewards = counts, tuple(rewards)
        self.last_step = any(isinstance(one.reward, ArrivalReward) for one in rewards)
        self.observed, self.reward_range, self.delta = paid, reward_range, delta / (1 if paid is None else 2)
        self.radii = bound.kl_radii(counts, self.delta, self.last_step)
        self.most = bound.most_successors(counts.setting)
        self.largest = float(counts.setting.sigma[-1]) * (reward_range[1] - reward_range[0])
        self.margin = margin_of(counts.setting, reward_range)

    def robust(self, reward: np.ndarray | ArrivalReward) -> Robust:
        """Robust planning for a reward, over these balls."""
        return Robust(self.counts, self.radii, self.most, reward)

    def _best(self, one: Given) -> tuple[np.ndarray, float, np.ndarray, float]:
        """Q_up, V_up, Q_lo and V_lo of a reward. One that is only observed pays as much, or as little, as its means may be."""
        if one.observed:
            assert self.observed is not None
            counts = self.counts
            pays = self.observed.random(counts.setting, counts.stays(), self.reward_range, False, self.delta)
            sides = self.robust(pays.most), self.robust(pays.least)
        else:
            sides = (self.robust(one.reward),) * 2
        return (*sides[0].best(kernels.robust.UPPER), *sides[1].best(kernels.robust.LOWER))

    @cached_property
    def ends(self) -> tuple[tuple[np.ndarray, float, np.ndarray, float], ...]:
        """For each reward Q_up (H, n_outcomes, A), V_up from the start, Q_lo and V_lo from the start."""
        return tuple(map(self._best, self.rewards))

    def width(self, upper: float, lower: float) -> float:
        """How far apart two bounds are, rounded up."""
        return min(self.largest, max(0.0, upper - lower) + self.margin)

    @cached_property
    def widths(self) -> np.ndarray:
        """V_up - V_lo for each reward, (R,), rounded up."""
        return np.array([self.width(up, lo) for _, up, _, lo in self.ends])

    @property
    def epsilon(self) -> float:
        """For each reward the policy that is greedy for Q_lo is certain to be so good."""
        return float(self.widths.max())


def certificate_of_given(
    found: GivenBounds,
    delta: float,
    bound: Bound,
    epsilon: float | None,
    reward_range: tuple[float, float],
    mixed: float | None = None,
) -> Certificate:
    """The certificate of these bounds; `epsilon` is the target, if there is one.

    `mixed` is what was found for all mixtures, if the certificate is to be about these.
    """
    achieved = found.epsilon if mixed is None else mixed
    counts, rewards = found.counts, found.rewards
    prints = tuple((one.name, OBSERVED if one.observed else fingerprint(one.reward)) for one in rewards)
    named = None if found.observed is not None else range_of_all([one.reward for one in rewards], reward_range)
    single = len(rewards) == 1
    low, high = reward_range
    within = () if found.observed is None else (f"rewards lie in [{exact(low)}, {exact(high)}]",)
    return Certificate(
        epsilon=achieved,
        delta=delta,
        bounds=bound.name,
        met=bool(epsilon is not None and achieved <= epsilon),
        target=None if epsilon is None else float(epsilon),
        options=bound_options(bound),
        reward_range=reward_range if named is None else named,
        reward=prints[0][1] if single else SEVERAL,
        transition_delta=found.delta,
        rewards=() if single else prints,
        mixtures=mixed is not None and not single,
        **counts.described(*within),
    )

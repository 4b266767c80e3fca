"""Upper and lower values of one reward over balls around the empirical laws: the arrays behind `kernels.bpi`, and what they say.

    Q_up_h(s,a) = r_up + gamma max_{p in ball} p.V_up_{h+1}      V_up_h(s) = max_a Q_up_h(s,a)
    Q_lo_h(s,a) = r_lo + gamma min_{p in ball} p.V_lo_{h+1}      V_lo_h(s) = max_a Q_lo_h(s,a)

On the event that all laws lie in their balls (`docs/theory.md`, 7.1), V_lo <= value of argmax_a Q_lo <= V* <= V_up at the start.
(Robust dynamic programming over independent balls: V_lo is the smallest value of that policy over all models in the balls, and
V_up the largest optimum.) UCRL2 and KL-UCRL bring them up to date when a phase begins. BPI-UCRL plays by V_up, which it brings up
to date after every episode; V_lo is needed for the stop and the recommendation alone, and computed when somebody asks.
"""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING

import numpy as np

from .. import kernels
from .._checks import checked_array
from ..data.counts import Counts

if TYPE_CHECKING:
    from ..kernels.bpi import Constants

REWARDS = ("known", "deterministic", "random")
ROWS = ("Q", "Q_lo", "u", "radius", "dirty")  # arrays with an entry for each row
NODES = ("V", "settled", "V_lo", "moved")  # with one for each node
KEPT = ("Q", "Q_lo", "V_lo", "u", "radius", "dirty", "moved")
PAID = ("total", "up", "lo")


class ValueBounds:
    """Both values on the counts, which they follow as the counts grow.

    Parameters
    ----------
    counts
        The counts.
    constants
        Of `kernels.bpi`: the setting, and what the balls are.
    rewards
        `"known"`, `"deterministic"` or `"random"`.
    known
        What every pair pays, (1 or H, S, A), if that is known; else empty.
    ended
        What is paid after an episode has terminated, if rewards are observed and that is known; else nan.
    limits
        The smallest and the largest possible value at each step, (H,) each; None if there is nothing to be said.
    """

    def __init__(
        self,
        counts: Counts,
        constants: Constants,
        rewards: str,
        known: np.ndarray,
        ended: float = nan,
        limits: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        self.counts, self.constants, self.outdating_declarations = counts, constants, counts.outdating_declarations
        setting, N, A = counts.setting, counts.capacity, counts.setting.n_actions
        planes, H = setting.planes, setting.horizon
        self.bound_arrays = kernels.bpi.ValueBoundArrays(
            Q=np.zeros((planes, N * A)),
            V=np.zeros((planes, N)),
            settled=np.zeros((planes, N), np.uint8),
            Q_lo=np.zeros((planes, N * A)),
            V_lo=np.zeros((planes, N)),
            u=np.zeros((2, planes, N * A)),
            extremes=np.zeros((2, H + 1)),
            radius=np.zeros(N * A),
            dirty=np.zeros((planes, N * A), np.uint8),
            moved=np.zeros((planes, N), np.uint8),
        )
        self.rewards = kernels.bpi.Rewards(
            kind=REWARDS.index(rewards),
            known=known,
            peak=known.max(axis=2),
            order=np.argsort(known.max(axis=2), axis=1, kind="stable"),
            least=known.min(axis=2),
            order_least=np.argsort(known.min(axis=2), axis=1, kind="stable"),
            total=np.zeros(N * A),
            up=np.ones(N * A),
            lo=np.zeros(N * A),
            ended=ended,
            floor=np.full(H, -inf) if limits is None else limits[0],
            ceiling=np.full(H, inf) if limits is None else limits[1],
        )
        self.gaps = np.zeros(setting.n_outcomes)  # room for the search in a ball
        self._anew: tuple[int, int] | None = None  # the revision of the counts for which V_lo was computed anew
        self.sweep()

    @property
    def prior(self) -> np.ndarray:
        """What the actions of a state without data are chosen by: the reward if it is known, illegal actions below all others."""
        prior, illegal = self.rewards.known, self.counts.illegal
        if len(illegal) and len(prior):
            prior = prior.copy()
            prior[:, : len(illegal)][:, illegal] = -1.0
        return prior

    def fit(self) -> None:
        """Enlarges the arrays to the capacity of the table of counts."""
        arrays, counts = self.bound_arrays, self.counts
        if arrays.V.shape[1] < counts.capacity:
            self.bound_arrays = counts.fitted(arrays, rows=ROWS, nodes=NODES)
            self.fit_rewards()

    def fit_rewards(self) -> None:
        """Enlarges what was observed of rewards to the capacity of the table of counts."""
        before = len(self.rewards.up)
        self.rewards = self.counts.fitted(self.rewards, rows=PAID)
        self.rewards.up[before:] = 1.0

    def begin_with(self, counts: Counts, radius: np.ndarray) -> None:
        """The bounds for counts that were collected before, with these radii."""
        self.counts, self.outdating_declarations = counts, counts.outdating_declarations
        self.fit()
        self.bound_arrays.radius[:] = radius
        self.sweep()

    def sweep(self) -> None:
        """A full backward pass, with the radii as they are."""
        self._anew = None
        kernels.bpi.sweep(self.counts.table, self.bound_arrays, self.rewards, self.constants, self.gaps)

    def follow_below(self) -> None:
        """Brings V_lo up to date from where it was followed to, up to what the searches leave open: 1e-12 of it or so."""
        kernels.bpi.sweep_side(self.counts.table, self.bound_arrays, self.rewards, self.constants, self.gaps, 1)

    def compute_below(self) -> None:
        """Computes V_lo from the counts alone, so that it is the same to the bit however often it was asked for before."""
        if self._anew != self.counts.revision:
            self._anew = self.counts.revision
            kernels.bpi.sweep_anew(self.counts.table, self.bound_arrays, self.rewards, self.constants, self.gaps)

    def outdated_by_declarations(self) -> bool:
        """Whether something was declared of states and actions since this was asked: what is illegal, and what is known."""
        before, self.outdating_declarations = self.outdating_declarations, self.counts.outdating_declarations
        return self.outdating_declarations != before

    def cautious_policy(self) -> np.ndarray:
        """The policy that is greedy for the lower values, (H, S), the first of several maximisers."""
        setting, bound_arrays = self.counts.setting, self.bound_arrays
        lower = bound_arrays._replace(Q=bound_arrays.Q_lo, V=bound_arrays.V_lo)
        node_of, H = self.counts.table.node_of, setting.horizon
        return kernels.greedy.policy(lower, self.prior, setting.n_actions, node_of, H, np.uint64(0))

    def at_the_start(self) -> tuple[float, float]:
        """V_up and V_lo before the first step."""
        up, lo = kernels.bpi.start_values(self.counts.table, self.bound_arrays, self.rewards, self.constants, self.gaps)
        return float(up), float(lo)

    def state(self) -> dict[str, np.ndarray]:
        """The bounds as they stand, for `restore`."""
        N, A = self.counts.n_nodes, self.counts.setting.n_actions
        kept = {name: getattr(self.bound_arrays, name)[..., : N * A if name in ROWS else N].copy() for name in KEPT}
        paid = {name: getattr(self.rewards, name)[: N * A].copy() for name in PAID}
        return {**kept, **paid, "far": self.bound_arrays.extremes.copy(), "settled": self.bound_arrays.settled[:, :N].copy()}

    def restore(self, counts: Counts, state: dict[str, np.ndarray]) -> None:
        """Takes up bounds that `state` gave; raises ValueError if they do not fit these counts."""
        self.counts, self.outdating_declarations, self._anew = counts, counts.outdating_declarations, None
        self.fit()
        N, A, bound_arrays = counts.n_nodes, counts.setting.n_actions, self.bound_arrays
        for array in (*bound_arrays, self.rewards.total, self.rewards.lo):  # whatever was there before
            array[...] = 0
        self.rewards.up[:] = 1.0
        places = [(getattr(bound_arrays, name)[..., : N * A if name in ROWS else N], name) for name in KEPT]
        places += [(getattr(self.rewards, name)[: N * A], name) for name in PAID]
        for place, name in [*places, (bound_arrays.extremes, "far")]:
            limits = (0.0, float(counts.setting.sigma[-1]) * (1 + 1e-9)) if name == "far" else ()
            place[...] = checked_array(state[name], place.dtype, place.shape, "its indices are", *limits)
        if not counts.setting.estimates_start:  # earlier versions kept a radius that was not used
            bound_arrays.radius[0] = 0.0
        settled = checked_array(state["settled"], np.uint8, (len(bound_arrays.V), N), "its indices are")
        kernels.greedy.settle_all(bound_arrays.Q, bound_arrays.V, bound_arrays.settled, A, N, settled)

    def check(self, radius: np.ndarray) -> None:
        """Raises if bounds that were taken from a file are not those of the counts with these radii: all are computed anew."""
        bound_arrays, known, n = self.bound_arrays, self.rewards, self.counts.table.n
        fresh = bound_arrays._replace(**{name: np.zeros_like(array) for name, array in bound_arrays._asdict().items()})
        fresh.radius[:] = radius
        mean = np.divide(known.total, n, out=np.zeros(len(n)), where=n > 0)
        right = np.allclose(bound_arrays.radius, radius, rtol=1e-9, atol=1e-12) and bool(((mean >= 0) & (mean <= 1 + 1e-9)).all())
        if known.kind != kernels.bpi.KNOWN and right:
            A, level = self.counts.setting.n_actions, self.constants.reward_level
            lo, up = np.zeros(len(n)), np.ones(len(n))
            for row in np.flatnonzero(n[A:]) + A:
                x = min(1.0, mean[row])
                fixed = known.kind == kernels.bpi.FIXED
                lo[row], up[row] = (x, x) if fixed else kernels.radii.kl_interval(x, float(n[row]), level)
            right = np.allclose(known.lo, lo, atol=1e-9) and np.allclose(known.up, up, atol=1e-9)
        kernels.bpi.sweep(self.counts.table, fresh, known, self.constants, self.gaps)
        slack = 1e-8 * float(self.counts.setting.sigma[-1])
        names = ("V", "V_lo", "extremes", "Q", "Q_lo")
        if not right or not all(np.allclose(getattr(bound_arrays, x), getattr(fresh, x), rtol=0.0, atol=slack) for x in names):
            raise ValueError("its bounds are not those of its counts.")

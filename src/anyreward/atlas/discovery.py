"""`discover`: which states can be reached within L expected steps, one after the other, with a certified number for each.

The states that can be reached incrementally within L steps (Lim & Auer 2012), here with episodes of H steps and free restarts:

    T        when a state g is reached;  an episode that leaves K before, or does not arrive, is lost with all of its H steps
    tau_K(g) = min over policies  E[min(T, H)] / P(T <= H)       expected steps until arrival, by restarts
    S_L      the smallest set K with the starts in it and with every g for which tau_K(g) <= L

tau_K(g) <= x exactly if the smallest E[min(T, H)] - x P(T <= H) is at most 0, which is one backward pass,

    V_h(s) = 1 + min_a sum p(s'|s,a) f_h(s'),    f_h(s') = -x at g,  H-1-h outside of K,  V_{h+1}(s') in K,    V_H = 0

(steps from 0), with the largest or the smallest expectation over the KL balls for what is certain (`docs/theory.md`, 18).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from ..certificates.intervals import Robust
from ..setting import positive
from ..words import assumed, confidence_level, up

if TYPE_CHECKING:
    from ..data.counts import Counts
    from .atlas import Atlas

PRECISION = 1e-4  # of a certified number of steps, relatively
MOST = 1e6  # a number of steps is certified up to so many times the horizon


class Passes:
    """Backward passes for the number of steps to one state, at the ends of the KL balls.

    Parameters
    ----------
    counts : Counts
    radii : ndarray
        `Bound.kl_radii` with `last_step=True`: arriving with the last step counts.
    most : int
        `Bound.most_successors`.
    """

    def __init__(self, counts: Counts, radii: np.ndarray, most: int) -> None:
        check_terminations(counts.setting)
        self.counts, setting = counts, counts.setting
        self.H, self.S, self.N = setting.horizon, setting.n_states, setting.n_outcomes
        self.robust = Robust(counts, radii, most, np.zeros((1, self.N, setting.n_actions)))
        self.unsure = np.array([s < self.S and counts.is_unsure(s) for s in range(self.N)])
        c = counts.columns()
        self.edges = np.column_stack([c["s"], c["next"] % self.S])[(c["h"] >= 0) & (c["s"] < self.S)]
        self.starts = np.zeros(self.S, bool)  # where an episode can start or, if that is not known, did start
        self.starts[c["next"][c["h"] < 0] if setting.estimates_start else setting.starts[0]] = True
        self.symmetric = setting.structure is None  # whether all states that were never a successor of K are alike

    def run(self, side: float, inside: np.ndarray, goal: int, steps: float) -> tuple[np.ndarray, float]:
        """The policy (H, S) and the smallest E[min(T, H)] - steps P(T <= H), for the worst or the best model of the balls.

        `side` is `UPPER` for the worst, `LOWER` for the best.
        """
        at = np.arange(self.N) % self.S == goal
        stays_in = np.pad(inside, (0, self.N - self.S))  # what has terminated elsewhere is lost
        V, policy = np.zeros(self.N), np.zeros((self.H, self.S), np.int64)
        for h in range(self.H - 1, -1, -1):
            f = np.where(at, -steps, np.where(stays_in, V, self.H - 1.0 - h))
            worth = 1.0 + self.robust.ahead(h, f, side)
            illegal = worth == -inf
            worth[illegal] = inf
            policy[h] = worth[: self.S].argmin(axis=1)
            V = worth.min(axis=1)
            if side == kernels.robust.UPPER and self.unsure.any():  # any action may be the legal one
                V[self.unsure] = np.where(illegal, -inf, worth)[self.unsure].max(axis=1)
        return policy, self.robust.start(np.where(at, -steps, np.where(stays_in, V, float(self.H))), side)

    def slack(self, steps: float) -> float:
        """More than rounding errors."""
        return 1e-11 * (self.H + steps)

    def certain(self, inside: np.ndarray, goal: int, steps: float) -> bool:
        """Whether tau <= steps in all models of the balls, with one policy."""
        return self.run(kernels.robust.UPPER, inside, goal, steps)[1] <= -self.slack(steps)

    def possible(self, inside: np.ndarray, goal: int, steps: float) -> bool:
        """Whether tau <= steps in some model of the balls, or may be."""
        return self.run(kernels.robust.LOWER, inside, goal, steps)[1] <= self.slack(steps)

    def successors(self, inside: np.ndarray) -> np.ndarray:
        """Which states outside of K were seen as successors of states of K, (S,) booleans."""
        found = np.zeros(self.S, bool)
        found[self.edges[inside[self.edges[:, 0]], 1]] = True
        return found & ~inside

    def grown(self, inside: np.ndarray, steps: float) -> np.ndarray:
        """K with all seen successors of K for which tau_K <= steps is possible, once."""
        joining = [g for g in np.flatnonzero(self.successors(inside)) if self.possible(inside, int(g), steps)]
        return inside | np.isin(np.arange(self.S), joining)

    def certainly_inside(self, steps: float) -> np.ndarray:
        """A subset of S_L, (S,) booleans."""
        inside = self.starts.copy()
        while True:
            joining = [g for g in np.flatnonzero(self.successors(inside)) if self.certain(inside, int(g), steps)]
            if not joining:
                return inside
            inside[joining] = True

    def possibly_inside(self, steps: float) -> np.ndarray:
        """A superset of S_L, (S,) booleans."""
        inside = self.starts.copy()
        while True:
            seen = self.successors(inside)
            others = np.flatnonzero(~inside & ~seen)  # which the data do not tell apart, unless a structure does
            joining = [g for g in np.flatnonzero(seen) if self.possible(inside, int(g), steps)]
            asked = others[:1] if self.symmetric else others
            more = [g for g in asked if self.possible(inside, int(g), steps)]
            joining += list(others) if self.symmetric and more else more
            if not joining:
                return inside
            inside[joining] = True

    def steps(self, inside: np.ndarray, goal: int, first: float) -> float:
        """The smallest number of steps, nearly, that is certain for some policy that stays inside; inf if there is none."""
        if not self.counts.setting.estimates_start and set(self.counts.setting.starts[0]) == {goal}:
            return 0.0
        low, high = 0.0, first
        while not self.certain(inside, goal, high):
            low, high = high, 4 * high
            if low > MOST * self.H:
                return inf
        while high - low > PRECISION * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.certain(inside, goal, middle) else (middle, high)
        return high


def check_terminations(setting: Any) -> None:
    """Raises if the states in which episodes terminate are not known apart."""
    if setting.terminal == "end":
        raise ValueError(
            "discovering states needs to know where an episode terminated, but with terminal='end' all terminations are one "
            "state: explore with terminal='outcome'."
        )


@dataclass(frozen=True, eq=False)
class Discovery:
    """Which states can be reached incrementally within so many expected steps. `Atlas.discover` makes it.

        found = atlas.discover(3)
        found.certified                                 # an expected number of steps for each state that has one

    On the certificate's event, all of this at once, with that of all other goals and numbers of steps:

        every state with inside can be reached so, and no state with outside can
        from the start, policy(s) reaches state s within certified[s] expected steps, if restarts are free

    Attributes
    ----------
    steps : float
        L, within how many expected steps.
    inside, outside : ndarray of bool, (S,)
        The states that are certainly reachable so, and those that certainly are not; what is neither is undecided.
    certified : dict of int to float
        For every state that was seen and is not certainly outside: the expected number of steps, at most, of its policy, which
        visits no state with `outside` before it arrives; inf if no number can be certified.
    delta : float
    assumptions : tuple of str
    """

    steps: float
    inside: np.ndarray
    outside: np.ndarray
    certified: dict[int, float]
    delta: float
    assumptions: tuple[str, ...]
    atlas: Atlas = field(repr=False)

    def __eq__(self, other: object) -> bool:
        """Whether both say the same of the same counts."""
        if not isinstance(other, Discovery):
            return NotImplemented
        alike = np.array_equal(self.inside, other.inside) and np.array_equal(self.outside, other.outside)
        mine, theirs = ((it.steps, it.certified, it.delta, it.assumptions) for it in (self, other))
        return alike and mine == theirs and self.atlas == other.atlas

    __hash__ = None  # type: ignore[assignment]

    def policy(self, state: int) -> np.ndarray:
        """The policy (H, S) that goes to a state within its certified number of steps.

        Example:

            atlas.discover(3).policy(16)
        """
        bound = self.certified.get(int(state), inf)
        if bound == inf:
            raise ValueError(f"no number of steps is certified for {self.atlas.called(int(state))}: there is no policy to give.")
        return self.atlas.legal(_passes(self.atlas).run(kernels.robust.UPPER, ~self.outside, int(state), bound)[0])

    def __str__(self) -> str:
        inside, outside = int(self.inside.sum()), int(self.outside.sum())
        sure = f"with probability {confidence_level(self.delta)}"
        undecided = len(self.inside) - inside - outside
        return (
            f"Discovery(within {self.steps:g} steps: {inside} states certainly, {outside} certainly not, {undecided} undecided, "
            f"{sure}{assumed(self.assumptions)})"
        )

    __repr__ = __str__

    def lines(self) -> list[str]:
        """What is certified, a line for each state.

        Example:

            for line in atlas.discover(3).lines():
                print(line)
        """
        ways = sorted(self.certified.items(), key=lambda pair: (pair[1], pair[0]))
        return [
            f"{self.atlas.state_name(s)}: " + ("no number can be certified" if bound == inf else f"within {up(bound, 6)} steps")
            for s, bound in ways
        ]


def _passes(atlas: Atlas) -> Passes:
    bound, delta = atlas.certificate.bound, atlas.certificate.transition_delta
    return Passes(atlas._ordered, atlas.radii(delta, last_step=True), bound.most_successors(atlas.counts.setting))


def discover(atlas: Atlas, steps: Any) -> Discovery:
    """See `Atlas.discover`."""
    if steps is None:
        steps = atlas.source.get("options", {}).get("steps", atlas.counts.setting.horizon)
    steps, passes = positive(steps, "steps"), _passes(atlas)
    inside, possible = passes.certainly_inside(steps), passes.possibly_inside(steps)
    seen = np.zeros(passes.S, bool)
    seen[passes.edges[:, 1]] = True
    listed = np.flatnonzero((seen | passes.starts) & possible)
    certified = {int(g): passes.steps(possible, int(g), steps) for g in listed}
    certificate = atlas.certificate
    return Discovery(steps, inside, ~possible, certified, certificate.delta, certificate.assumptions, atlas)

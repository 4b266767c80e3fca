"""DisCo, incremental discovery: every state that can be reached in L steps (Lim & Auer 2012; Tarbouriech et al. 2020).

A set K of known states grows from the starts, in a form for episodes of H steps, each of which is a restart:

    1. collect m samples of every pair (s,a) with s in K, of each step if transitions depend on it, as far as they can be met:
       play the optimal policy on p_hat for r(s,a) = max(0, 1 - n(s,a)/m) in K, where nothing is worth anything outside of K
    2. every successor g of K that was seen, and for which tau_K(g) <= L in some model of the KL balls, joins K
       (tau_K: `atlas/discovery.py`); go on with 1, or end if none joins

Guarantee, derived here (`docs/theory.md`, 18), a function of the counts alone: `Atlas.discover` gives a certified number of steps
for each state that was found, states that certainly can be reached within L steps, and states that certainly cannot, all at
once with probability 1 - delta. How many are left undecided depends on m, which is the user's.

The originals test a candidate by playing its policy some L^3/eps^3 times (UcbExplore), or bound its steps by constants that are
far away at any affordable m (DisCo: of order L^5 S Gamma A / eps^2 steps in all, from the abstract). They restart whenever they
like; here an attempt that leaves K is lost with the rest of its episode. A changing kernel (Gajane et al. 2019) is left out: it
voids every certificate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._checks import checked_array
from ..atlas.discovery import Passes, check_terminations
from ..data.counts import Counts
from ..setting import Setting, positive, whole_number
from .planned import TINY, PlannedExplorer
from .registry import register


@register("disco")
class Disco(PlannedExplorer):
    """Incremental discovery as ask and tell; it is `finished` when no more states join.

    Parameters
    ----------
    steps
        L, within how many expected steps states are to be reached. By default the horizon.
    samples
        m, how many samples of each pair there have to be before states join.
    setting, delta, bounds, seed, growth
        See `PlannedExplorer`.
    """

    goal = "goals"
    guarantee = "each state that it found within its certified number of steps (discover)"
    status = "certified"
    reference = "Lim & Auer 2012; Tarbouriech et al. 2020"

    def __init__(self, setting: Setting, *, steps: float | None = None, samples: int = 1000, **options: Any) -> None:
        check_terminations(setting)
        self.steps = float(setting.horizon) if steps is None else positive(steps, "steps")
        self.samples = whole_number(samples, "samples")
        if self.samples < 1:
            raise ValueError(f"samples is {samples}: it has to be at least 1.")
        self.known, self._complete = np.zeros(setting.n_states, bool), False
        if not setting.estimates_start:
            self.known[setting.starts[0]] = True
        super().__init__(setting, **options)

    @property
    def finished(self) -> bool:  # type: ignore[override]
        """Whether all samples are there and no state joins."""
        return self._complete

    def pays(self) -> np.ndarray:
        """What is missing of the m samples of each pair with s in K."""
        missing = np.maximum(0.0, 1.0 - self.visits() / self.samples)
        missing[:, : len(self.known)][:, ~self.known] = 0.0
        missing[:, len(self.known) :] = 0.0
        missing[:, self.counts.stays()] = 0.0
        if len(self.counts.illegal):
            missing[:, : len(self.known)][:, self.counts.illegal] = 0.0
        return missing

    def _planned(self, rng: np.random.Generator) -> np.ndarray:
        if self.setting.estimates_start:
            c = self.counts.columns()
            self.known[c["next"][c["h"] < 0]] = True
        policy, value = self._collecting(rng)
        while not value > 0.0 and self.episodes and not self._complete:
            grown = self._passes().grown(self.known, self.steps)
            self._complete = bool((grown == self.known).all())
            self.known = grown
            policy, value = self._collecting(rng)
        return policy

    def _passes(self) -> Passes:
        radii = self.bound.kl_radii(self.counts, self.delta, True)
        return Passes(self.counts, radii, self.bound.most_successors(self.setting))

    def _collecting(self, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        """The policy of 1, (H, n_outcomes), and what it is worth."""
        setting, model, r = self.setting, self.counts.model(), self.pays()
        H, N, known = setting.horizon, setting.n_outcomes, np.pad(self.known, (0, setting.n_outcomes - setting.n_states))
        policy, V = np.zeros((H, N), np.int64), np.zeros(N)
        for h in range(H - 1, -1, -1):
            Q = r[min(h, len(r) - 1)] + model.expect(h, V)
            tie = TINY * rng.random(Q.shape)
            if len(self.counts.illegal):
                tie[: setting.n_states][self.counts.illegal] = -1.0
            policy[h] = (Q + tie).argmax(axis=1)
            V = np.where(known, np.take_along_axis(Q, policy[h][:, None], axis=1)[:, 0], 0.0)
        return policy, float(model.initial @ V)

    def go_on_from(self, counts: Counts) -> None:
        self._complete = False
        super().go_on_from(counts)

    def state(self) -> dict[str, np.ndarray]:
        return {**super().state(), "joined": self.known.astype(np.uint8), "complete": np.array([self._complete], np.uint8)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        self.known = checked_array(state["joined"], np.uint8, self.known.shape, "its known states are", 0, 1).astype(bool)
        self._complete = bool(checked_array(state["complete"], np.uint8, (1,), "its end is", 0, 1)[0])

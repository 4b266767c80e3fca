"""RF-calibrated for shared laws: what is fixed beforehand is how many draws of each law are counted.

If a structure is declared (`Structure`), the calibrated certificate (`certificates.calibrated_laws`) asks for quotas of laws:

Scouting   RF-trajectory explores the laws (`rf_laws`), until scouting has taken a fixed share of what is forecast.
Design     Quotas in proportion to the draws of each law in scouting, as many as the target is forecast to take.
Filling    Episodes go where quotas are furthest from being filled: they play argmax_a W_h(s,a),

               W_h(s,a) = sum_i need(g_i) + sum_s' p(s'|s,a) max_b W_{h+1}(s',b)    over the draws i that count,

           need(g) = exp(-100 (f_g - min f)) / quota_g, f_g the share of the quota of law g that is filled, and 0 if it is full.
           Of each law the first draws after scouting count, as many as its quota.
Attempt    When all quotas are full at the end of an episode, the certificate is computed. If it is larger than the target, larger
           quotas, which were fixed at the same time, are filled for the next attempt, which has a smaller part of delta.
Planning   for any reward, backward induction on the model of the laws, estimated from the counted draws.

Guarantee: that of the certificate (`docs/theory.md`, 15.6). Quotas are functions of what was scouted; draws that count come
after.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np

from .. import kernels
from .._checks import checked_array
from ..certificates.calibrated import CalibratedBound, attempt_delta
from ..certificates.calibrated_laws import LawQuotas
from ..certificates.certificate import Certificate, certificate_of
from ..setting import Setting, positive, shown
from ..shared_laws import draws_before
from .explorer import Explorer, Policies, Request
from .rf_calibrated import EAGER, LOOK, ROOM, SCOUTING, RFCalibrated
from .rf_laws import RFLaws

log = logging.getLogger(__name__)
FIRST_LOOK = 20  # episodes after which scouting first forecasts how many there will be
AIM = 0.97  # of the target that the forecast aims at
LEAST = 12.0  # expected draws below which a law gets no quota
MARGIN = 0.97  # of the expected draws that a quota asks for
STEPS = (
    2.0  # the factor of quotas between two attempts: with a smaller one, the smaller part of delta would cost more than it gains
)
BATCH = 0.005  # the share of the forecast episodes that are played with one policy
ATTEMPTS = 8


class RFCalibratedLaws(Explorer):
    """RF-calibrated over the laws of a declared structure; `explore` takes it for `rf-calibrated` if there is one.

    Parameters
    ----------
    epsilon
        The target, by which scouting and quotas are planned; a tenth of the largest value if it is not given.
    setting, delta, bounds, seed, growth
        See `Explorer`. The bounds are `"calibrated"`.
    """

    name = RFCalibrated.name
    guarantee = RFCalibrated.guarantee
    reference = RFCalibrated.reference
    proved = True
    handles_masks = True
    defaults = RFCalibrated.defaults

    def __init__(
        self, setting: Setting, delta: float = 0.1, bounds: Any = "calibrated", *, epsilon: float | None = None, **options: Any
    ) -> None:
        if not (isinstance(bounds, str) and bounds == CalibratedBound.name):
            raise ValueError(f"bounds is {shown(bounds)}: {type(self).__name__} explores for the bounds 'calibrated'.")
        super().__init__(setting, delta, bounds, **options)
        self.epsilon = float(setting.sigma[-1]) / 10 if epsilon is None else positive(epsilon, "epsilon")
        self.scout = RFLaws(setting, delta=delta, seed=self.seed)
        self.counts = self.scout.counts
        self._look = FIRST_LOOK
        self._first: LawQuotas | None = None  # the quotas of the first attempt, which those of all others follow from
        self._attempt, self._scouted, self._needed, self._until_policy = 0, 0, 0.0, 0
        self._drawn = np.zeros(int(self._laws.tables.offset[-1]), np.int64)  # the draws that count for the present attempt
        self._policy = np.zeros((setting.horizon, setting.n_states), np.int64)

    @property
    def _laws(self) -> Any:
        return self.setting.structure

    @property
    def _filled(self) -> np.ndarray:
        """How many draws of each law count so far, (laws,)."""
        return np.add.reduceat(self._drawn, self._laws.tables.offset[:-1])

    def quotas_of(self, attempt: int) -> LawQuotas:
        """The quotas of an attempt: all of them are functions of the first."""
        assert self._first is not None
        return LawQuotas(tuple(ceil(n * STEPS ** (attempt - 1)) for n in self._first.quotas))

    # --- What to play ---

    def ask(self) -> np.ndarray:
        """The policy of the next episode, (H, S): that of RF-trajectory while scouting, then the one that fills quotas."""
        if self._first is None:
            return self.scout.ask()
        if self._until_policy <= 0:
            self._plan()
        return self._policy

    def ask_many(self, episodes: int, goal: float) -> Request:
        if self._first is None:
            return self.scout.ask_many(min(episodes, max(1, self._look - self.episodes)), -1.0)
        policy = self.ask()
        missing = np.maximum(np.array(self.quotas_of(self._attempt).quotas) - self._filled, 0).max()
        least = ceil(int(missing) / (self.setting.horizon * self._laws.draws))  # so it ends with the episode that fills the last
        many = min(episodes, self._until_policy, max(1, ROOM // policy.size), max(1, least))
        return Policies(np.broadcast_to(policy, (many, *policy.shape)))

    def tell_many(self, request: Request, *outcome: np.ndarray) -> None:
        if self._first is None:
            self.scout.tell_many(request, *outcome)
            self._begin_if_due()
        else:
            self.tell(*outcome)

    def _learn(self, states: np.ndarray, actions: np.ndarray) -> None:
        if self._first is None:
            self.scout._learn(states, actions)
            self._begin_if_due()
            return
        self.counts.add_episodes(states, actions)
        self._until_policy -= len(states)
        self._count(states, actions)

    def _plan(self) -> None:
        """Computes the policy that is expected to meet most of what is missing; it is kept for a while."""
        shared, setting, t = self.counts.shared, self.setting, self._laws.tables
        quota = np.array(self.quotas_of(self._attempt).quotas)
        done = np.where(quota > 0, self._filled / np.maximum(quota, 1), 1.0)
        need = np.where(done < 1.0, np.exp(-EAGER * (done - done.min())) / np.maximum(quota, 1), 0.0)
        charge = (np.append(need, 0.0)[self._laws.law_of] * t.revealed).sum(axis=1)
        p = shared.edge_probabilities(shared.smoothed_outcomes)
        S, A, H = setting.n_states, setting.n_actions, setting.horizon
        V, self._policy = np.zeros((H + 1, S)), np.zeros((H, S), np.int64)
        known = self.counts.table.known
        kernels.shared.greedy(t.edge_first, t.edge_target, p, charge, known, S, A, np.ones(H), V, self._policy)
        self._until_policy = max(1, int(BATCH * self._needed))

    # --- Design ---

    def _begin_if_due(self) -> None:
        """Ends scouting if it has taken its share of what is forecast."""
        t = self.episodes
        if t < self._look:
            return
        self._look = max(t + 1, ceil(LOOK * t))
        each, delta = self.counts.shared.n / t, attempt_delta(self.delta, 1)

        def quotas(episodes: float) -> LawQuotas:
            draws = np.where(self._laws.estimated, each * episodes, 0.0)
            return LawQuotas(tuple(np.where(draws >= LEAST, np.floor(MARGIN * draws), 0).astype(int).tolist()))

        low, high = 1.0, t / SCOUTING
        if quotas(high).forecast(self.counts, delta) > AIM * self.epsilon / 2:
            return
        while high > 1.02 * low:
            middle = (low * high) ** 0.5
            low, high = (middle, high) if quotas(middle).forecast(self.counts, delta) > AIM * self.epsilon / 2 else (low, middle)
        self._first, self._attempt, self._scouted, self._needed = quotas(high), 1, t, high
        log.info("scouted %d episodes; filling the quotas of %d laws takes about %.3g more", t, len(each), high)

    # --- Filling quotas ---

    def _count(self, states: np.ndarray, actions: np.ndarray) -> None:
        """Counts the draws of these episodes, in their order, as far as quotas are not full."""
        episode, code = self.counts.shared.revealed(states, actions)
        law = np.searchsorted(self._laws.tables.offset, code, side="right") - 1
        after = 0  # episodes before this one were read
        while after < len(states) and not self.finished:
            missing = np.maximum(np.array(self.quotas_of(self._attempt).quotas) - self._filled, 0)
            rest = np.flatnonzero(episode >= after)
            kept = rest[draws_before(law[rest]) < missing[law[rest]]]
            self._drawn += np.bincount(code[kept], minlength=len(self._drawn))
            if (np.bincount(law[kept], minlength=len(missing)) < missing).any():
                break
            after = int(episode[kept].max(initial=after)) + 1
            self._certify()

    def _certify(self) -> None:
        """Computes the certificate of an attempt whose quotas are full, keeps it if it is the best, and goes on to the next."""
        own = self.counts.copy()
        own.drawn = self._drawn.copy()
        bound = CalibratedBound(self.quotas_of(self._attempt), (), self._attempt, self.episodes)
        if self.counts.drawn is None or bound(own, self.delta) < self.bound_of(self.bound):
            self.counts.drawn, self.bound = own.drawn, bound
            self._bounds = {}
        self._attempt += 1

    @property
    def own_epsilon(self) -> float | None:
        return 2 * self.error_bound

    @property
    def finished(self) -> bool:  # type: ignore[override]
        """Whether all attempts were made, or the data contradict the structure, so that nothing will ever be certified."""
        return self._attempt > ATTEMPTS or self.counts.shared.refuted

    def certificate(self, epsilon: float | None = None) -> Certificate:
        """What can be certified now; `epsilon` is the target, if there is one."""
        bound: Any = self.bound
        bound = bound if bound.design is None else replace(bound, episodes=self.episodes)
        return certificate_of(self.counts, self.delta, bound, self.bound_of(self.bound), epsilon)

    @property
    def expected(self) -> float | None:  # type: ignore[override]
        return None if self._first is None else self._scouted + self._needed * STEPS ** (self._attempt - 1)

    @property
    def phase(self) -> str:  # type: ignore[override]
        if self.counts.shared.refuted:
            return "the data contradict the structure"
        if self._first is None:
            return "scouting"
        quota = np.array(self.quotas_of(self._attempt).quotas)
        filled, missing = np.minimum(self._filled, quota).sum() / max(1, quota.sum()), int(np.count_nonzero(self._filled < quota))
        return f"attempt {self._attempt}: {filled:.0%} filled, {missing:,} of {np.count_nonzero(quota):,} quotas to go"

    # --- Saving ---

    def state(self) -> dict[str, np.ndarray]:
        if self._first is None:
            return {**self.scout.state(), "look": np.array([self._look])}
        kept: dict[str, np.ndarray] = {}
        if self.counts.drawn is not None:
            bound: Any = self.bound
            kept = {"best": np.array([bound.attempt, bound.episodes]), "best_drawn": self.counts.drawn}
        return {
            **self.counts.state(),
            "look": np.array([self._look, self._scouted, self._attempt, self._until_policy]),
            "needed": np.array([self._needed]),
            "quotas": np.array(self._first.quotas, np.int64),
            "drawn": self._drawn.copy(),
            "policy": self._policy.copy(),
            **kept,
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        damaged, scouting = "its quotas are", "quotas" not in state
        if scouting:
            self.scout.restore(state)
            self.counts, self._bounds = self.scout.counts, {}
            self._look = int(checked_array(state["look"], np.int64, (1,), damaged, 1)[0])
            return
        super().restore(state)
        self.scout.counts = self.counts
        numbers = checked_array(state["look"], np.int64, (4,), damaged, 0).tolist()
        self._look, self._scouted, self._attempt, self._until_policy = numbers
        self._needed = float(checked_array(state["needed"], float, (1,), damaged, 1.0)[0])
        quotas = checked_array(state["quotas"], np.int64, (len(self._laws.sizes),), damaged, 0)
        self._first = LawQuotas(tuple(quotas.tolist()))
        self._first.check(self.setting)
        self._drawn = self._checked_draws(state["drawn"], damaged)
        shape = (self.setting.horizon, self.setting.n_states)
        self._policy = checked_array(state["policy"], np.int64, shape, damaged, 0, self.setting.n_actions - 1).copy()
        if not (1 <= self._attempt <= ATTEMPTS + 1 and 0 < self._scouted <= self.episodes):
            raise ValueError(f"{damaged} damaged.")
        if (self._filled > self.quotas_of(self._attempt).quotas).any():
            raise ValueError(f"{damaged} filled with more than they ask for.")
        if "best" in state:
            k, episodes = checked_array(state["best"], np.int64, (2,), damaged, 1).tolist()
            if not (k < self._attempt and episodes <= self.episodes):
                raise ValueError(f"{damaged} damaged.")
            self.counts.drawn = self._checked_draws(state["best_drawn"], damaged)
            self.bound = CalibratedBound(self.quotas_of(k), (), k, episodes)
            self.bound_of(self.bound)  # raises if these are not its quotas

    def _checked_draws(self, drawn: Any, damaged: str) -> np.ndarray:
        """Draws of laws from a file: not more than the transitions reveal."""
        return checked_array(drawn, np.int64, self._drawn.shape, damaged, 0, self.counts.shared.told.astype(np.int64)).copy()

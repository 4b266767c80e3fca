"""RF-calibrated: reward-free exploration for the calibrated certificate (`bounds="calibrated"`).

The certificate (`certificates.calibrated`, proved in `docs/theory.md`, 14.1, 14.6 and 14.7) needs several times fewer episodes
than others, but the amounts of data that it is computed from have to be fixed before these data are drawn. So exploration has two
phases:

Scouting   RF-trajectory explores, until scouting has taken a fixed share of what the design below is forecast to take.
Design     From what was seen: how many samples of each law, with which successors (`algorithms.designing`).
Filling    Episodes go where quotas are furthest from being filled. Of each law the first samples count, as many as its quota. If
           one lies outside the set of successors, it joins the set, and the law starts again with none.
Attempt    When all quotas are filled, the certificate is computed. If it is larger than the target, larger quotas, which were
           fixed at the same time, are filled for the next attempt, which has a smaller part of delta.
Planning   for any reward, backward induction on the counted samples.

Guarantee: that of the certificate. All designs are functions of what was scouted, and what is counted for them comes after that.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np

from .. import kernels
from .._checks import checked_array
from ..certificates.calibrated import SPARE, CalibratedBound, Design, Shares, attempt_delta
from ..certificates.certificate import Certificate, certificate_of
from ..data.counts import Counts
from ..setting import Setting, positive, shown
from .designing import MOST_DRAWS, Designer, draws_for
from .explorer import Explorer, Policies, Request
from .registry import register
from .rf_trajectory import RFTrajectory

log = logging.getLogger(__name__)
SCOUTING = 0.05  # the share of all episodes that scouting takes
FIRST_LOOK = 200  # episodes after which scouting first forecasts how many there will be
LOOK = 1.25  # the factor of episodes between two forecasts
SECOND, STEPS = 1.2, 1.3  # the factor of quotas between the first two attempts, and between later ones
EAGER = 100.0  # how much more a law counts whose quota is filled less, in the exponent
BATCH = 0.0005  # the share of the episodes of the design that are played with one policy
ROOM = 2_000_000  # entries of policies that are asked for at once


def growth(attempt: int) -> float:
    """How much larger the quotas of an attempt are than those of the first."""
    return 1.0 if attempt == 1 else float(SECOND * STEPS ** (attempt - 2))


@register("rf-calibrated")
class RFCalibrated(Explorer):
    """RF-calibrated as ask and tell.

    Parameters
    ----------
    epsilon
        The target, by which scouting and quotas are planned; a tenth of the largest value if it is not given.
    setting, delta, bounds, seed, growth
        See `Explorer`. The bounds are `"calibrated"`.
    """

    guarantee = "every plan epsilon-optimal once the quotas are filled (calibrated certificate)"
    reference = "docs/theory.md"
    proved = True
    handles_masks = True

    def __init__(
        self, setting: Setting, delta: float = 0.1, bounds: Any = "calibrated", *, epsilon: float | None = None, **options: Any
    ) -> None:
        if not (isinstance(bounds, str) and bounds == CalibratedBound.name):
            raise ValueError(f"bounds is {shown(bounds)}: {type(self).__name__} explores for the bounds 'calibrated'.")
        super().__init__(setting, delta, bounds, **options)
        if draws_for(Shares.together(attempt_delta(self.delta, 1))) > MOST_DRAWS:
            raise ValueError(f"delta is {delta}: the bounds 'calibrated' would have to simulate too much. Use 'tight', or 0.001.")
        self.epsilon = float(setting.sigma[-1]) / 10 if epsilon is None else positive(epsilon, "epsilon")
        self.scout = RFTrajectory(setting, delta=delta, transfer=None if setting.stationary else False, seed=self.seed)
        self.counts = self.scout.counts
        self._scouting = True
        self._look = FIRST_LOOK
        self._best: tuple[Counts, CalibratedBound, float] | None = None  # the smallest certificate so far

    @classmethod
    def defaults(cls, setting: Setting, epsilon: float) -> dict[str, Any]:
        return {"epsilon": epsilon}

    @classmethod
    def for_setting(cls, setting: Setting, options: Mapping[str, Any]) -> type[Explorer]:
        """The form of this algorithm for laws that pairs share, if the setting declares any (`rf_calibrated_laws`)."""
        from .rf_calibrated_laws import RFCalibratedLaws

        return RFCalibratedLaws if setting.structure is not None and cls is RFCalibrated else cls

    # --- What to play ---

    def ask(self) -> np.ndarray:
        """The policy of the next episode, (H, S): RF-trajectory's while scouting, then the one that fills quotas fastest."""
        return self.scout.ask() if self._scouting else self._policy()

    def ask_ahead(self, k: int) -> np.ndarray:
        return self.scout.ask_ahead(k) if self._scouting else self._policy()

    def ask_many(self, episodes: int, goal: float) -> Request:
        if self._scouting:
            return self.scout.ask_many(min(episodes, max(1, self._look - self.episodes)), -1.0)
        setting = self.setting
        policy = self._policy()
        # Not more episodes than filling the quotas takes at least, so that it ends with the episode that fills the last one.
        each = setting.horizon if setting.stationary else 1
        least = ceil(int(np.maximum(self._quota - self._filled, 0).max()) / each)
        many = min(episodes, self._until_policy, max(1, ROOM // policy.size), max(1, least))
        return Policies(np.broadcast_to(policy, (many, setting.horizon, setting.n_outcomes)))

    def tell_many(self, request: Request, *outcome: np.ndarray) -> None:
        if self._scouting:
            self.scout.tell_many(request, *outcome)
            self._plan_if_due()
        else:
            self.tell(*outcome)

    def _learn(self, states: np.ndarray, actions: np.ndarray) -> None:
        if self._scouting:
            self.scout._learn(states, actions)
            self._plan_if_due()
            return
        self.counts.add_episodes(states, actions)
        self._count(states, actions)
        self._until_policy -= len(states)

    # --- Design ---

    def _stream(self, *key: int) -> int:
        """A seed of its own for each purpose: what is simulated for a certificate has no part in any design."""
        return int(np.random.SeedSequence(self.seed, spawn_key=(5, *key)).generate_state(1, np.uint64)[0] >> np.uint64(1))

    def _plan_if_due(self) -> None:
        """Ends scouting if it has taken its share of what is forecast."""
        t = self.episodes
        if t < self._look:
            return
        self._look = max(t + 1, ceil(LOOK * t))
        designer, shares = Designer(self.counts.copy()), Shares.together(attempt_delta(self.delta, 1))
        for ratios in (True, False) if designer.has_ratios else (False,):
            needed = designer.episodes_for(self.epsilon / 2, shares, self._stream(0), t / SCOUTING, ratios)
            if needed is not None:
                break
        found = None if needed is None else designer.forecast(needed, shares, self._stream(0), ratios)
        if needed is None or found is None:
            return
        price = max(1e-9, SPARE * found.dearest)
        draws = draws_for(shares, len(designer.laws.row))
        if (design := designer.design(needed, shares, draws, self._stream(1, 1), price, ratios)) is not None:
            self._begin(design, needed, t)
            apart = designer.tight_episodes_for(self.epsilon / 2, self.delta, most=64 * needed)
            rather = "more than " if apart is None else "about "
            log.info(
                "scouted %d episodes; filling %d quotas takes about %.3g more, tight bounds would take %s%.3g in all",
                t, len(design.step), needed, rather, 64 * needed if apart is None else apart,
            )  # fmt: skip
            if apart is not None and apart < t + needed:
                log.warning("the bounds 'tight' would need fewer episodes here, about %.3g in place of %.3g", apart, t + needed)

    def _begin(self, design: Design, needed: float, scouted: int) -> None:
        """Fixes what is counted from here on."""
        self._scouting, self._needed, self._scouted = False, needed, scouted
        self._planned, self._attempt, self._quota = design, 1, design.quota
        self._law, self._start = np.zeros(0, np.int64), -1
        self._restarts: list[tuple[int, int]] = []
        self._final, self._seen = design, np.zeros(len(design.symbols), np.int64)
        self._filled = np.zeros(len(design.step), np.int64)
        seen = self.counts.columns()
        at, self._starts = seen["h"] < 0, np.zeros(self.setting.n_outcomes, np.int64)
        self._starts[seen["next"][at]] = seen["count"][at]
        self._until_policy = 0
        self._last_policy = np.zeros((self.setting.horizon, self.setting.n_outcomes), np.int64)

    def design_of(self, attempt: int) -> Design:
        """The design of an attempt: all of them are functions of the first."""
        first, shares, larger = self._planned, Shares.together(attempt_delta(self.delta, attempt)), growth(attempt)
        quota = np.ceil(first.quota * larger).astype(np.int64)
        changed = {
            "quota": quota,
            "shares": shares,
            "draws": max(first.draws, draws_for(shares, 10**7)),
            "seed": self._stream(1, attempt),
        }
        return Design(**{**first.to_dict(), **changed, "price": first.price / larger})

    # --- Filling quotas ---

    def _laws(self) -> tuple[np.ndarray, int]:
        """The law of the design of each row of the table of counts, -1 for none; and that of the initial state."""
        design, table, A = self._planned, self.counts.table, self.setting.n_actions
        if len(self._law) == len(table.n):
            return self._law, self._start
        law = np.full(len(table.n), -1, np.int64)
        at = np.flatnonzero(design.step >= 0)
        nodes = table.node_of[np.minimum(design.step[at], len(table.node_of) - 1), design.state[at]].astype(np.int64)
        law[nodes * A + design.action[at]] = at
        start = np.flatnonzero(design.step < 0)
        self._law, self._start = law, int(start[0]) if len(start) else -1
        return self._law, self._start

    def _count(self, states: np.ndarray, actions: np.ndarray) -> None:
        """Counts the samples of these episodes, in their order, as far as quotas are not filled."""
        law, start = self._laws()
        episode, step = 0, -1
        while episode < len(states):
            final = self._final
            episode, step, i = kernels.quotas.count(
                self.counts.table.node_of, self.setting.n_actions, states, actions, episode, step,
                law, start, final.first, final.symbols, self._quota, self._seen, self._filled,
            )  # fmt: skip
            if i == kernels.quotas.FILLED:
                self._certify(self._starts + self._starts_of(states[:episode]))
            elif i >= 0:
                self._restart(int(i), int(states[episode, step + 1]))
                step += 1
        self._starts += self._starts_of(states)

    def _starts_of(self, states: np.ndarray) -> np.ndarray:
        """How many of these episodes started in each state, (S,)."""
        return np.bincount(states[:, 0], minlength=self.setting.n_outcomes)

    def _restart(self, law: int, outcome: int) -> None:
        """A sample outside the set of a law: it joins the set, and the law starts again."""
        self._restarts.append((law, outcome))
        place = int(self._final.first[law + 1])
        self._seen = np.insert(self._seen, place, 0)
        self._final, _ = self._planned.restarted(np.array(self._restarts))
        self._seen[self._final.first[law] : place + 1] = 0
        self._filled[law] = 0

    def _policy(self) -> np.ndarray:
        """The policy that is expected to meet most of what is missing, (H, S); it is kept for a while."""
        if self._until_policy > 0:
            return self._last_policy
        setting, table = self.setting, self.counts.table
        A, quota = setting.n_actions, self._quota
        done = np.minimum(1.0, self._filled / quota)
        gain = np.where(done < 1, np.exp(-EAGER * (done - done.min())) / quota, 0.0)
        law, _ = self._laws()
        need = np.where(law >= 0, gain[law], 0.0)
        planes, N = setting.planes, len(table.state)
        best = np.zeros((planes, N), np.uint32)
        kernels.quotas.occupancy(
            table, A, np.ones(setting.horizon), need, np.zeros((planes, N)), best, np.zeros((planes, N)), np.zeros(N * A)
        )
        nodes = np.broadcast_to(table.node_of, (setting.horizon + 1, table.node_of.shape[1]))[: setting.horizon]
        steps = np.minimum(np.arange(setting.horizon), planes - 1)
        self._last_policy = best[steps[:, None], nodes].astype(np.int64)
        self._until_policy = max(1, int(BATCH * self._needed))
        return self._last_policy

    # --- Certificates ---

    def _certify(self, starts: np.ndarray) -> None:
        """Computes the certificate of an attempt whose quotas are filled, and goes on to the next attempt.

        `starts` (S,) is where all episodes so far started.
        """
        design, final, restarts = self.design_of(self._attempt), self._final, tuple(self._restarts)
        bound = CalibratedBound(design, restarts, self._attempt, int(starts.sum()))
        self._keep(bound, final, self._seen.copy(), starts)
        self._attempt += 1
        if not self.finished:
            self._quota = self.design_of(self._attempt).quota

    def _keep(self, bound: CalibratedBound, final: Design, seen: np.ndarray, starts: np.ndarray) -> None:
        """Keeps a certificate if it is the best so far."""
        counted = self._counted(final, seen, starts)
        error = bound(counted, self.delta)
        if self._best is None or error < self._best[2]:
            self._best, self._best_data = (counted, bound, error), (seen, starts)

    def _counted(self, final: Design, seen: np.ndarray, starts: np.ndarray) -> Counts:
        """The counted samples as counts. A known initial state has all episodes, an estimated one those that count."""
        counts, row = Counts(self.setting), final.row_of_symbol
        some = seen > 0
        row, symbols, many = row[some], final.symbols[some], seen[some]
        flows = np.stack([final.step[row], final.state[row], final.action[row], symbols, many], axis=1)
        if not self.setting.estimates_start:
            at = np.flatnonzero(starts)
            flows = np.concatenate([flows, np.stack([0 * at - 1, 0 * at, 0 * at, at, starts[at]], axis=1)])
        counts.declare(self.counts.declarations())
        counts.selected = len(self._restarts) > 0
        counts.add_flows(np.ascontiguousarray(flows, dtype=np.int64))
        return counts

    @property
    def certified(self) -> Counts:
        """The counted samples of the best attempt; before there is one, everything that was seen."""
        return self.counts if self._best is None else self._best[0]

    @property
    def error_bound(self) -> float:
        """That of the best attempt so far; the trivial one before."""
        return self.bound(self.counts, self.delta) if self._best is None else self._best[2]

    @property
    def own_epsilon(self) -> float | None:
        return 2 * self.error_bound

    @property
    def finished(self) -> bool:  # type: ignore[override]
        """Whether all attempts were made: another one would have too small a part of delta to be simulated."""
        if self._scouting:
            return False
        return draws_for(Shares.together(attempt_delta(self.delta, self._attempt))) > MOST_DRAWS

    def reached(self, goal: float) -> bool:
        return self._best is not None and (self._best[2] <= goal or self.finished)

    def certificate(self, epsilon: float | None = None) -> Certificate:
        """What can be certified now; `epsilon` is the target, if there is one."""
        bound = self.bound if self._best is None else replace(self._best[1], episodes=self.episodes)
        return certificate_of(self.certified, self.delta, bound, self.error_bound, epsilon)

    @property
    def expected(self) -> float | None:  # type: ignore[override]
        return None if self._scouting else self._scouted + self._needed * growth(self._attempt)

    @property
    def phase(self) -> str:  # type: ignore[override]
        if self._scouting:
            return "scouting"
        quota = self._quota
        filled = float(np.minimum(self._filled, quota).sum() / quota.sum())
        missing = int(np.count_nonzero(self._filled < quota))
        return f"attempt {self._attempt}: {filled:.0%} filled, {missing:,} of {len(quota):,} quotas to go"

    # --- Saving ---

    def state(self) -> dict[str, np.ndarray]:
        if self._scouting:
            return {**self.scout.state(), "phase": np.array([self._look])}
        design, best = self._planned.to_dict(), self._best
        numbers = [self._look, self._scouted, self._attempt, self._until_policy]
        kept: dict[str, np.ndarray] = {}
        if best is not None:
            bound = best[1]
            kept = {"best": np.array([bound.attempt, len(bound.restarts)])}
            kept["best_seen"], kept["best_starts"] = self._best_data
        return {
            **self.counts.state(),
            "phase": np.array(numbers, np.int64),
            "needed": np.array([self._needed]),
            **{f"design_{name}": np.atleast_1d(value) for name, value in design.items()},
            "restarts": np.array(self._restarts, np.int64).reshape(-1, 2),
            "seen": self._seen.copy(),
            "policy": self._last_policy.copy(),
            **kept,
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        damaged = "its quotas are"
        self._scouting, self._best = "seen" not in state, None
        if self._scouting:
            self.scout.restore(state)
            self.counts = self.scout.counts
            self._look = int(checked_array(state["phase"], np.int64, (1,), damaged, 1)[0])
            return
        self.counts = self.scout.counts = Counts.from_state(self.setting, state, False)
        look, scouted, attempt, until = checked_array(state["phase"], np.int64, (4,), damaged, 0).tolist()
        needed = float(checked_array(state["needed"], float, (1,), damaged, 1.0)[0])
        columns = {name.removeprefix("design_"): state[name] for name in state if name.startswith("design_")}
        scalars = {name: int(columns[name][0]) for name in ("draws", "seed", "max_restarts")}
        price = float(columns["price"][0]) if "price" in columns else 0.0
        design = Design.from_dict({**columns, **scalars, "price": price, "ratios": bool(columns.get("ratios", [False])[0])})
        design.check(self.setting)
        if not (1 <= attempt <= 100 and 0 < scouted <= self.episodes and design.delta <= attempt_delta(self.delta, 1)):
            raise ValueError(f"{damaged} damaged.")
        self._begin(design, needed, scouted)
        self._look, self._attempt, self._until_policy = look, attempt, until
        self._quota = self.design_of(attempt - self.finished).quota
        restarts = checked_array(state["restarts"], np.int64, (None, 2), damaged, 0)
        self._restarts = [(int(law), int(outcome)) for law, outcome in restarts]
        self._final, _ = design.restarted(restarts)
        self._seen = checked_array(state["seen"], np.int64, self._final.symbols.shape, damaged, 0).copy()
        self._filled = np.bincount(self._final.row_of_symbol, self._seen, len(design.step)).astype(np.int64)
        shape = (self.setting.horizon, self.setting.n_outcomes)
        self._last_policy = checked_array(state["policy"], np.int64, shape, damaged, 0, self.setting.n_actions - 1).copy()
        if (self._filled > self._quota).any():
            raise ValueError(f"{damaged} filled with more than they ask for.")
        if "best" in state:
            k, many = checked_array(state["best"], np.int64, (2,), damaged, 0).tolist()
            final, _ = design.restarted(restarts[:many])
            seen = checked_array(state["best_seen"], np.int64, final.symbols.shape, damaged, 0).copy()
            starts = checked_array(state["best_starts"], np.int64, self._starts.shape, damaged, 0).copy()
            if not 1 <= k < attempt or (starts > self._starts).any():
                raise ValueError(f"{damaged} damaged.")
            self._keep(
                CalibratedBound(self.design_of(k), tuple(self._restarts[:many]), k, int(starts.sum())), final, seen, starts
            )

"""Designs of calibrated certificates: how many samples of which law, and with which successors, from what scouting has seen.

Nothing here has a part in what is proved: a design may be made in any way whatever, as long as it is fixed before the samples
that it counts are drawn. A bad design costs episodes.

- *Quotas* are the expected visits of a virtual exploration of the scouted model, which goes where the certificate charges most,
  as RF-trajectory does; its length is the smallest at which the simulated bound is forecast to reach the target.
- *Sets* are the successors that were seen: at any step, since transitions often depend little on it; and of a pair that was seen
  rarely, those of the other actions in its state, if pairs that were seen often have such successors.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf, log
from typing import NamedTuple

import numpy as np

from .. import kernels
from ..certificates.bounds import relevant_laws, weights
from ..certificates.calibrated import Calibrated, Design, Shares, forecast_bound, forecast_by_union
from ..data.counts import Counts
from .rf_trajectory import RFTrajectory

GROWTH = 1.05  # of the virtual exploration
LEAST = 12.0  # expected visits below which a law gets no quota: so few samples say nothing
RARE = 400  # samples of a pair, at all steps, up to which successors of other actions may join its set ...
LIKELY, PRIOR = 0.02, 1.0  # ... if they belong there with this probability; how many missed ones are assumed beforehand
MARGIN = 0.97  # of the expected visits that a quota asks for, since visits vary
AIM = 0.97  # of the target that the forecast aims at, since what comes out varies by one or two percent
BUDGET = 0.8  # how much each law counts in the common budget for mass outside the sets
FORECAST, LEAST_DRAWS, DRAWS = 800, 4000, 10_000  # draws for a forecast, and for the certificate if nothing else asks for more
RATIO_FORECAST = 400  # draws for a forecast by likelihood ratios
MOST_STAGES = 5_000  # passes of stages in a draw, beyond which likelihood ratios would take minutes
MOST_DRAWS = 110_000  # beyond which it would take too long: four attempts at delta = 0.1, and one at 0.001


def draws_for(shares: Shares, rows: int = 1) -> int:
    """How many draws bound the quantile well: the rarer what is bounded the more, and fewer if there are many rows."""
    return max(LEAST_DRAWS, min(DRAWS, 10**7 // max(1, rows)), ceil(60.0 / (shares.quantile + shares.support)))


class Laws(NamedTuple):
    """Which laws scouting has seen, and what it expects of them. Row 0 is the law of the initial state, if it is estimated."""

    row: np.ndarray  # (M,) rows of the table of counts
    step: np.ndarray  # (M,) 0 if stationary, -1 for the initial state
    state: np.ndarray
    action: np.ndarray
    first: np.ndarray  # (M + 1,)
    symbols: np.ndarray  # the sets, one after the other, each from the most frequent successor to the rarest
    unseen: float  # about how many successors of all pairs were not seen yet, by those seen once and twice (Chao's estimator)


def scouted(counts: Counts) -> Laws:
    """The laws that were seen and have to be estimated, with sets."""
    setting, table = counts.setting, counts.table
    A = setting.n_actions
    columns = counts.columns()
    h, s, a, x, many = (columns[name].astype(np.int64) for name in ("h", "s", "a", "next", "count"))
    marks = table.known.reshape(-1, A)
    known = np.zeros(len(h), bool) if not len(marks) else (h >= 0) & (marks[s, a] & 3 != 0)
    steps = setting.horizon if setting.arrival_rewards else setting.horizon - 1
    kept = ~known & ((h < steps) | setting.stationary) & ((h >= 0) | setting.estimates_start)
    h, s, a, x, many = (column[kept] for column in (h, s, a, x, many))
    start = h < 0
    keys, place = np.unique(np.stack([h, np.where(start, 0, s), np.where(start, 0, a)]), axis=1, return_inverse=True)
    place = place.ravel()
    step, state, action = keys
    nodes = table.node_of[np.minimum(np.maximum(step, 0), len(table.node_of) - 1), state].astype(np.int64)
    rows = np.where(step < 0, 0, nodes * A + action)
    sets: list[np.ndarray] = []
    by_pair: dict[tuple[int, int], dict[int, int]] = {}
    starts: dict[int, int] = {}
    for i in range(len(h)):
        seen = starts if h[i] < 0 else by_pair.setdefault((int(s[i]), int(a[i])), {})
        seen[int(x[i])] = seen.get(int(x[i]), 0) + int(many[i])
    likely = other_successors(by_pair, A)
    for i in range(len(step)):
        own = starts if step[i] < 0 else dict(by_pair[int(state[i]), int(action[i])])
        if step[i] >= 0 and likely(sum(own.values())):
            for b in range(A):
                for other in by_pair.get((int(state[i]), b), {}):
                    own.setdefault(other, 0)
        sets.append(np.array(sorted(own, key=lambda z: (-own[z], z)), np.int64))
    first = np.concatenate([[0], np.cumsum([len(part) for part in sets])]).astype(np.int64)
    times = [n for seen in by_pair.values() for n in seen.values()]
    once, twice = times.count(1), times.count(2)
    unseen = 0.5 * once * (once - 1) / (twice + 1)
    return Laws(rows, step, state, action, first, np.concatenate(sets) if sets else np.zeros(0, np.int64), unseen)


def other_successors(by_pair: dict[tuple[int, int], dict[int, int]], A: int) -> Callable[[int], bool]:
    """Whether a pair with so many samples is likely to lead where only other actions of its state were seen to lead.

    Pairs that were seen often tell: of the successors of the other actions they have some themselves, with frequencies f, of
    which n samples would have missed the share (1 - f)^n; the others they do not have.
    """
    found, without = [], 0
    enough = min(RARE, np.median([sum(seen.values()) for seen in by_pair.values()])) if by_pair else RARE
    for (s, a), seen in by_pair.items():
        n = sum(seen.values())
        if n >= enough:
            others = {x for b in range(A) if b != a for x in by_pair.get((s, b), ())}
            found += [seen[x] / n for x in others if x in seen]
            without += sum(x not in seen for x in others)
    share = np.log1p(-np.minimum(np.array(found), 1 - 1e-9))

    def likely(n: int) -> bool:
        missed = float(np.exp(n * share).sum()) + PRIOR * 0.99**n
        return n < RARE and missed > LIKELY * (missed + without)

    return likely


class Designer:
    """Makes designs from what scouting has seen.

    Parameters
    ----------
    counts : Counts
        What scouting has seen. It is not changed, and must not change.
    """

    def __init__(self, counts: Counts) -> None:
        self.counts, self.laws = counts, scouted(counts)
        rule = RFTrajectory(counts.setting).rule()
        self.weight = np.ascontiguousarray(rule.weight)
        stages = int(np.maximum(np.diff(self.laws.first) - 1, 0).sum())
        steps = np.count_nonzero(weights(counts.setting)[0]) if counts.setting.stationary else 1
        self.has_ratios = 0 < stages * steps <= MOST_STAGES

    def visits(self, episodes: float) -> np.ndarray:
        """The expected visits of every row of the table after so many episodes of a virtual exploration of the scouted model.

        It always goes where weight_h / n adds up to most, as RF-trajectory does, and looks again when the episodes have grown by
        the factor `GROWTH`.
        """
        setting, table = self.counts.setting, self.counts.table
        A, N, planes, t = setting.n_actions, len(table.state), setting.planes, 0.0
        V, mass, best = np.zeros((planes, N)), np.zeros((planes, N)), np.zeros((planes, N), np.uint32)
        total = np.zeros(N * A)
        while t < episodes:
            more, visits = min(episodes - t, max(1.0, (GROWTH - 1.0) * t)), np.zeros(N * A)
            kernels.quotas.occupancy(table, A, self.weight, 1.0 / np.maximum(0.1, total), V, best, mass, visits)
            total += more * visits
            t += more
        return total

    def design(
        self, episodes: float, shares: Shares, draws: int, seed: int, price: float = 1.0, ratios: bool = False
    ) -> Design | None:
        """The design for so many further episodes; None if no law would be visited often enough."""
        setting, laws = self.counts.setting, self.laws
        visits = self.visits(episodes)[laws.row]
        visits = np.where(laws.step < 0, episodes, visits)
        kept = np.flatnonzero(visits >= LEAST)
        if not len(kept):
            return None
        sizes = np.diff(laws.first)[kept]
        symbols = np.concatenate([laws.symbols[laws.first[i] : laws.first[i + 1]] for i in kept])
        return Design(
            step=laws.step[kept],
            state=laws.state[kept],
            action=laws.action[kept],
            quota=np.maximum(1, np.floor(MARGIN * visits[kept])).astype(np.int64),
            budget=np.full(len(kept), BUDGET),
            first=np.concatenate([[0], np.cumsum(sizes)]),
            symbols=symbols,
            shares=shares,
            draws=draws,
            seed=seed,
            max_restarts=setting.n_outcomes,
            price=price,
            ratios=ratios,
        )

    def forecast(self, episodes: float, shares: Shares, seed: int, ratios: bool = False) -> Calibrated | None:
        """About what so many further episodes would give; None if nothing."""
        design = self.design(episodes, shares, draws_for(shares, len(self.laws.row)), seed, ratios=ratios)
        draws = RATIO_FORECAST if ratios else FORECAST
        return None if design is None else forecast_bound(self.counts, design, min(draws, design.draws), self.laws.unseen)

    def episodes_for(self, error: float, shares: Shares, seed: int, most: float, ratios: bool = False) -> float | None:
        """About how many further episodes bring the error bound down to `error`; None if `most` are not enough."""
        goal, low, high = AIM * error, most / 64, most

        def value(episodes: float) -> float:
            found = self.forecast(episodes, shares, seed, ratios)
            return inf if found is None else found.value

        at, now = high, value(high)
        if now > goal:
            return None
        while high > 1.01 * low:
            middle = (low * high) ** 0.5
            if ratios:  # these take longer; the bound falls about like one over the square root of the episodes
                beyond = 1.004 if now > goal else 1 / 1.004  # on the other side
                middle = min(high / 1.003, max(1.003 * low, at * (now / goal) ** 2 * beyond))
            at, now = middle, value(middle)
            low, high = (middle, high) if now > goal else (low, middle)
        return float(ceil(high))

    def tight_episodes_for(self, error: float, delta: float, most: float) -> float | None:
        """About how many episodes in all the tight bounds would take; None if more than `most`."""
        low, high = 1.0, most
        if self._tight(high, delta) > error:
            return None
        while high > 1.1 * low:
            middle = (low * high) ** 0.5
            low, high = (middle, high) if self._tight(middle, delta) > error else (low, middle)
        return float(ceil(high))

    def _tight(self, episodes: float, delta: float) -> float:
        """About the tight bound of a virtual exploration of the scouted model, without transfer.

        The joint bound of all rows of a trajectory, if there is one, takes about log A + 2 nats for a row, in place of log(laws /
        delta): this is within 7% of the bound itself on our environments.
        """
        setting, shares = self.counts.setting, Shares.of(delta)
        design = self.design(episodes, shares, draws_for(shares), 0)
        if design is None:
            return float(setting.sigma[-1])
        nats = log(max(1, relevant_laws(setting)) / delta)
        if not setting.stationary:
            nats = min(nats, log(setting.n_actions) + 2.0)
        return forecast_by_union(self.counts, design, nats)

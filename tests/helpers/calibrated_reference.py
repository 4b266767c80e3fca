"""The calibrated certificate in plain loops: written for the reader, slow on purpose, to be compared with. Steps are from 0."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import xlogy
from scipy.stats import gamma, norm

import anyreward as ar
from anyreward.certificates.calibrated import Design, Shares

START = (-1, 0, 0)
Law = tuple[int, int, int]  # step (0 if stationary), state, action; START for the initial state


class Charge(NamedTuple):
    """What a row costs."""

    c: float  # KL divergence
    g: float  # total variation
    t: float  # how far the successors' distribution may be from the empirical one


# --- Deviances ---


def kl(x: float, q: float) -> float:
    """kl(x, q) of two Bernoulli distributions."""
    if (q == 0.0 and x > 0.0) or (q == 1.0 and x < 1.0):
        return math.inf
    return float(xlogy(x, x) - xlogy(x, q) + xlogy(1 - x, 1 - x) - xlogy(1 - x, 1 - q))


def deviance(N: Sequence[float], p: Sequence[float]) -> float:
    """m KL(N/m, p)."""
    m = sum(N)
    return float(sum(n * math.log(n / (m * q)) if q > 0 else math.inf for n, q in zip(N, p, strict=True) if n > 0))


def limit_of(k: int, tail: float) -> float:
    """The limit on the deviance of a law on k outcomes."""
    return (k - 1) * math.log(2) + float(gamma.isf(tail, k - 1)) if k > 1 else 0.0


def range_of(x: float, c: float) -> tuple[float, float]:
    """The smallest and the largest q with kl(x, q) <= c."""
    low = 0.0 if x == 0.0 else brentq(lambda q: kl(x, q) - c, 1e-300, x, xtol=1e-15)
    high = 1.0 if x == 1.0 else brentq(lambda q: kl(x, q) - c, x, 1 - 1e-16, xtol=1e-15)
    return low, high


def lower_end(q: float, c: float) -> float:
    """The smallest z with kl(z, q) <= c."""
    return 0.0 if q <= 0.0 or kl(0.0, q) <= c else brentq(lambda z: kl(z, q) - c, 0.0, q, xtol=1e-15)


def shifts(seen: float, trials: float, least: float, limit: float, brackets: Sequence[float]) -> list[float]:
    """The lattice shift of a stage in each bracket; infinite where there is none."""
    out = []
    low, high = range_of(seen / trials, limit / trials) if trials > 0 else (0.0, 1.0)
    for bracket in brackets:
        x = min(bracket, limit)
        k = [math.floor(least * lower_end(q, x / least)) - 1 if least >= 1 else -1 for q in (low, 1 - high)]
        out.append(math.sqrt(1 / k[0] + 1 / k[1]) if min(k) >= 1 else math.inf)
    return out


def stages(N: Sequence[float], limit: float, brackets: Sequence[float]) -> list[list[float]]:
    """The lattice shifts of all stages of a row with counts N, in the order of its set."""
    m, left, out = sum(N), float(sum(N)), []
    for k in range(len(N) - 1):
        least = m if k == 0 else math.floor(m * lower_end(range_of(left / m, limit / m)[0], limit / m))
        out.append(shifts(N[k], left, least, limit, brackets))
        left -= N[k]
    return out


def tail_bound(x: float, shift: Sequence[float], brackets: Sequence[float]) -> float:
    """The bound on the probability that a stage has a deviance of at least x, by the normal law or by Chernoff."""
    s = next(s for s, end in zip(shift, brackets, strict=True) if x <= end)
    return min(1.0, 2 * float(norm.cdf(s - math.sqrt(2 * x))), 2 * math.exp(-x))


# --- The functional ---


class Reference:
    """A design with its counts, as dictionaries."""

    def __init__(self, counts: ar.Counts, design: Design) -> None:
        self.counts, self.design, self.setting = counts, design, counts.setting
        self.laws: list[Law] = list(zip(design.step.tolist(), design.state.tolist(), design.action.tolist(), strict=True))
        columns = counts.columns()
        self.seen: dict[Law, dict[int, int]] = {law: {} for law in self.laws}
        for h, s, a, x, n in zip(*(columns[name].tolist() for name in ("h", "s", "a", "next", "count")), strict=True):
            law = START if h < 0 else (h, s, a)
            if law in self.seen:
                self.seen[law][x] = n
        self.sets = {law: design.symbols[design.first[i] : design.first[i + 1]].tolist() for i, law in enumerate(self.laws)}
        self.clean = {law for law in self.laws if self.sets[law] and set(self.seen[law]) <= set(self.sets[law])}
        gamma_, H = self.setting.discount, self.setting.horizon
        behind = 0 if self.setting.arrival_rewards else 1  # the reward of step j depends on the laws of steps l <= j - behind
        self.times = {h: [j for j in range(H) if j - behind >= h] for h in range(-1, H)}
        if not self.setting.estimates_start:
            self.times[-1] = []
        self.w = {h: sum(gamma_**j for j in times) for h, times in self.times.items()}

    def outcomes(self, law: Law) -> list[int]:
        """The set of a calibrated row, or what was seen of another."""
        return self.sets[law] if law in self.clean else sorted(self.seen[law])

    def p(self, law: Law) -> dict[int, float]:
        total = sum(self.seen[law].values())
        return {x: self.seen[law].get(x, 0) / total for x in self.outcomes(law)}

    def law_at(self, h: int, s: int, a: int) -> Law:
        return (0 if self.setting.stationary else h, s, a)

    def stays(self, s: int) -> bool:
        return s in self.counts.stays()

    def actions(self, s: int) -> list[int]:
        illegal = self.counts.illegal
        return [a for a in range(self.setting.n_actions) if not (len(illegal) and illegal[s, a])]

    def is_unknown(self, h: int, s: int) -> bool:
        return not all(self.law_at(h, s, a) in self.seen for a in self.actions(s))

    def phi(self, lam: Sequence[float], charges: Mapping[Law, Charge]) -> float:
        """The functional for given multipliers, all of them positive or all 0, and charges."""
        gamma_, H = self.setting.discount, self.setting.horizon
        used = sorted({j for times in self.times.values() for j in times})

        def pay(h: int, law: Law, values: dict[int, float]) -> float:
            c, g, t = charges[law]
            kappa = sum(gamma_**j / (4 * lam[j]) if lam[j] > 0 else math.inf for j in self.times[h])
            charge = min(kappa * c if c > 0 else 0.0, self.w[h] * g)
            return min(self.w[h], charge + tilted(values, self.p(law), t))

        V = dict.fromkeys(range(self.setting.n_outcomes), 0.0)
        for h in range(H - 1, -1, -1):
            before, V = V, {}
            for s in range(self.setting.n_outcomes):
                if self.stays(s):
                    V[s] = 0.0
                elif self.is_unknown(h, s):
                    V[s] = self.w[h]
                else:
                    laws = [self.law_at(h, s, a) for a in self.actions(s)]
                    V[s] = max(pay(h, law, {x: before[x] for x in self.outcomes(law)}) for law in laws)
        constant = sum(gamma_**j * lam[j] / 2 for j in used)
        if not self.setting.estimates_start:
            return constant + sum(p * V[s] for s, p in zip(*(part.tolist() for part in self.setting.starts), strict=True))
        if START not in self.seen:
            return constant + self.w[-1]
        return constant + pay(-1, START, {x: V[x] for x in self.outcomes(START)})

    def reach(self, target: Law) -> float:
        """The largest expected weight of a row over policies, up to the first state that is unknown."""
        if target == START:
            return self.w[-1]
        V = dict.fromkeys(range(self.setting.n_outcomes), 0.0)
        for h in range(self.setting.horizon - 1, -1, -1):
            before, V = V, {}
            for s in range(self.setting.n_outcomes):
                V[s] = 0.0
                if not self.stays(s) and not self.is_unknown(h, s):
                    for a in self.actions(s):
                        law = self.law_at(h, s, a)
                        gain = self.w[h] if law == target else 0.0
                        V[s] = max(V[s], gain + sum(p * before[x] for x, p in self.p(law).items()))
        if not self.setting.estimates_start:
            return float(sum(p * V[s] for s, p in zip(*self.setting.starts, strict=True)))
        return sum(p * V[x] for x, p in self.p(START).items()) if START in self.seen else 0.0

    def missing(self, restarts: int = 0) -> float:
        """The part for mass outside the sets; restarts are of the first row."""
        design, price = self.design, 0.0
        budget = -math.log(design.shares.support) - restarts * math.log(1 - design.budget[0])
        for i, law in enumerate(self.laws):
            possible = self.setting.n_states if law == START else self.setting.n_outcomes
            if self.sets[law] and law not in self.clean:
                budget -= math.log(1 - design.budget[i])
            elif law in self.clean and len(self.sets[law]) < possible:
                price = max(price, self.reach(law) / (design.budget[i] * design.quota[i]))
        return budget * price


def tilted(values: Mapping[int, float], p: Mapping[int, float], t: float) -> float:
    """The largest expectation of values over distributions on the same outcomes within t of p: take from the lowest first."""
    left, total, top = t, 0.0, max(values.values())
    for x in sorted(values, key=lambda x: values[x]):
        moved = min(left, p[x])
        total += (p[x] - moved) * values[x] + moved * top
        left -= moved
    return total


def whole_design(
    counts: ar.Counts,
    shares: Shares,
    extra: Mapping[Law, Sequence[int]] | None = None,
    union: Sequence[Law] = (),
    budget: float = 0.9,
    **options: Any,
) -> Design:
    """The design that counts fill: every law that has data and is not known, with what was seen, and `extra`, as its set."""
    setting, columns = counts.setting, counts.columns()
    rows: dict[Law, dict[int, int]] = {}
    for h, s, a, x, n in zip(*(columns[name].tolist() for name in ("h", "s", "a", "next", "count")), strict=True):
        illegal = len(counts.illegal) > 0 and s < setting.n_states and counts.illegal[s, a]
        if h < 0 and setting.estimates_start:
            rows.setdefault(START, {})[x] = n
        elif h >= 0 and s not in counts.stays() and not illegal:
            rows.setdefault((h, s, a), {})[x] = n
    sets = [[] if law in union else [*rows[law], *(extra or {}).get(law, ())] for law in rows]
    step, state, action = np.array(list(rows)).T
    return Design(
        step, state, action,
        quota=np.array([sum(seen.values()) for seen in rows.values()]),
        budget=np.full(len(rows), budget),
        first=np.cumsum([0, *map(len, sets)]),
        symbols=np.array([x for one in sets for x in one], int),
        shares=shares,
        **options,
    )  # fmt: skip

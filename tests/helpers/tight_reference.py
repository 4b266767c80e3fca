"""The tight certificate in plain loops and 50 digits: written for the reader, slow on purpose, to be compared with.

Steps count from 0. What is logarithmic or a root is a Decimal, so nothing here is rounded where a float would be.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

import anyreward as ar
from anyreward import kernels
from anyreward.certificates.bounds import TightBoundDetails

from .reference import known_start

HALF = Decimal("0.5")
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")
Law = tuple[int, int, int]  # step, state, action


def in_50_digits(function: Callable[Arguments, Value]) -> Callable[Arguments, Value]:
    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Value:
        with localcontext(prec=50):
            return function(*args, **kwargs)

    return call


# --- Thresholds ---


@cache
def stirling_coefficients() -> list[Fraction]:
    """B_2k / (2k (2k - 1)) of Stirling's series, as fractions."""
    B = [Fraction(1)]
    for m in range(1, 41):
        B.append(-sum((math.comb(m + 1, k) * B[k] for k in range(m)), Fraction(0)) / (m + 1))
    return [B[2 * k] / (2 * k * (2 * k - 1)) for k in range(1, 21)]


@cache
@in_50_digits
def log_gamma(x: Decimal) -> Decimal:
    """log Gamma(x) for x > 0: Stirling's series where it is good to 40 digits, reached by Gamma(x) = Gamma(x + 1) / x."""
    x, shift = Decimal(x), Decimal(1)
    while x < 50:
        shift *= x
        x += 1
    series = sum(Decimal(b.numerator) / Decimal(b.denominator) / x ** (2 * k + 1) for k, b in enumerate(stirling_coefficients()))
    return (x - HALF) * x.ln() - x + (2 * PI).ln() / 2 + series - shift.ln()


@in_50_digits
def fit(N: Sequence) -> Decimal:
    """sum_k N_k log(N_k / n): the log likelihood under the empirical law."""
    logs = {k: (Decimal(k) / sum(map(int, N))).ln() for k in set(map(int, N))}
    return sum((k * logs[k] for k in map(int, N)), Decimal(0))


@in_50_digits
def log_dirichlet(N: Sequence, m: int) -> Decimal:
    """The log probability of a sequence with counts N > 0 under Dirichlet(1/2) on m symbols."""
    return log_normaliser(sum(N), m) + sum(log_gamma(int(k) + HALF) - log_gamma(HALF) for k in N)


@in_50_digits
def log_normaliser(n: int, m: int) -> Decimal:
    """The part of it that depends on n and m alone."""
    return log_gamma(m * HALF) - log_gamma(int(n) + m * HALF)


@in_50_digits
def psi_size(N: Sequence, K: int) -> Decimal:
    """For laws of at most K successors; N are the counts of those that were seen."""
    return fit(N) - log_dirichlet(N, K)


@in_50_digits
def psi_support(N: Sequence, S: int, terms: int = 60) -> Decimal:
    """Size k with weight 2^-k / (1 - 2^-S), a uniform k-subset, Dirichlet(1/2) on it; the sum ends after `terms` sizes."""
    K, n, weights = len(N), sum(N), 1 - Decimal(2) ** -S
    mixture = Decimal(0)  # over the probability that Dirichlet(1/2) on what was seen gives
    for k in range(K, min(S, K + terms - 1) + 1):
        contain = Decimal(math.perm(k, K)) / Decimal(math.perm(S, K))  # C(S-K, k-K) / C(S, k)
        mixture += Decimal(2) ** -k / weights * contain * (log_normaliser(n, k) - log_normaliser(n, K)).exp()
    return fit(N) - log_dirichlet(N, K) - mixture.ln()


@in_50_digits
def psi_mixed(one: Decimal, other: Decimal) -> Decimal:
    """Half of one martingale, half of the other."""
    low, high = min(one, other), max(one, other)
    return low - ((1 + (low - high).exp()) / 2).ln()


def relevant(setting: ar.Setting) -> Iterator[Law | None]:
    """The laws that values from the start can depend on, as (h, s, a); the start draw is None."""
    S, A, steps = setting.n_states, setting.n_actions, steps_that_matter(setting)
    law = known_start(setting)
    if law is None:
        yield None
    if setting.stationary:
        yield from itertools.product([0] if steps else [], range(S), range(A))
    else:
        for h, s, a in itertools.product(range(steps), range(S), range(A)):
            if h > 0 or law is None or law[s] > 0:
                yield h, s, a


def steps_that_matter(setting: ar.Setting) -> int:
    """The last transition matters to rewards r(h, s, a, s') only."""
    return setting.horizon - (not setting.arrival_rewards)


@in_50_digits
def radius(
    N: Sequence, setting: ar.Setting, delta: float, K: int | None = None, evidence: Decimal | None = None, start: bool = False
) -> Decimal | None:
    """The KL radius of a law with counts N, (S,): log(laws / delta) + psi, over n; None without data."""
    seen = [int(k) for k in N if k]
    if not seen:
        return None
    psi = psi_size(seen, min(K, setting.n_states)) if K and not start else psi_support(seen, setting.n_states)
    if evidence is not None and not start:
        psi = psi_mixed(psi, fit(seen) - evidence)
    level = (Decimal(len(list(relevant(setting)))) / Decimal(delta)).ln()
    return max(Decimal(0), level + psi) / sum(seen)


def on_radii(setting: ar.Setting, delta: float) -> float:
    """What `TightBound` spends of delta on radii: all but the tenth for the joint bound, where transitions depend on the step."""
    return delta if setting.stationary else 0.9 * delta


# --- Total variation in a KL ball ---


@in_50_digits
def kl(x: Decimal, q: Decimal) -> Decimal:
    """The binary relative entropy."""
    left = x * (x / q).ln() if x else Decimal(0)
    return left + (1 - x) * ((1 - x) / (1 - q)).ln() if x < 1 else left


@in_50_digits
def kl_up(x: Decimal | float, c: Decimal | float, digits: int = 30) -> Decimal:
    """max{q >= x : kl(x, q) <= c} by bisection."""
    x, c = Decimal(x), Decimal(c)
    if x == 0:
        return 1 - (-c).exp()
    low, high = x, Decimal(1)
    while high - low > (high - x) * Decimal(10) ** -digits and low < 1:
        middle = (low + high) / 2
        low, high = (middle, high) if middle < 1 and kl(x, middle) <= c else (low, middle)
    return low


@in_50_digits
def tv_radius(N: Sequence, c: Decimal | float, unseen: bool, digits: int = 30) -> Decimal:
    """The largest TV(p_hat, p) with KL(p_hat, p) <= c, over all events made of what was seen."""
    best, n = kl_up(0, c) if unseen else Decimal(0), int(sum(N))
    sums = {sum(part) for size in range(1, len(N)) for part in itertools.combinations(map(int, N), size)}
    return max([best, *(kl_up(Decimal(x) / n, c, digits) - Decimal(x) / n for x in sums)])


# --- The trajectory certificate ---


class Problem:
    """Dense counts with radii, as `trajectory` and `theorem` read them; Decimals, exact from the floats they were."""

    def __init__(self, counts: ar.Counts, radii: np.ndarray, tv: np.ndarray) -> None:
        setting = counts.setting
        self.S, self.A, self.H, self.steps = setting.n_states, setting.n_actions, setting.horizon, steps_that_matter(setting)
        self.gamma, law = Decimal(setting.discount), known_start(setting)
        self.law = None if law is None else [Decimal(float(p)) for p in law]  # of the start, if it is known
        self.arrival = setting.arrival_rewards
        self.starts, self.n = dense(counts)
        self.c, self.tau = (self._by_pair(per_row(counts, values)) for values in (radii, tv))
        self.c_start, self.tau_start = (Decimal(float(x[0])) if self.starts.sum() else None for x in (radii, tv))

    def _by_pair(self, values: np.ndarray) -> list[list[list[Any]]]:
        """[h][s][a], None without data."""
        visited = self.n.sum(-1) > 0
        return [[[Decimal(float(values[at])) if visited[at] else None for at in row] for row in layer] for layer in (
            [[(h, s, a) for a in range(self.A)] for s in range(self.S)] for h in range(self.H)
        )]  # fmt: skip

    def times_behind(self, h: int) -> range:
        """The times whose reward comes after transition h; the start draw is transition -1."""
        return range(h if self.arrival and h >= 0 else h + 1, self.H)

    def left(self, h: int) -> Decimal:
        """The most that can be earned after transition h."""
        return sum((self.gamma**j for j in self.times_behind(h)), Decimal(0))

    def p(self, h: int, s: int, a: int, x: int) -> Any:
        visits = int(self.n[h, s, a].sum())
        return Decimal(int(self.n[h, s, a, x])) / visits if visits else Decimal(0)

    def p_start(self, s: int) -> Decimal:
        return Decimal(int(self.starts[s])) / int(self.starts.sum()) if self.starts.sum() else Decimal(0)


@dataclass(frozen=True)
class Joint:
    """The joint bound of all rows of a trajectory; `actions` and `surcharge` leave out a part of it, to see that it is missed."""

    u: float = 0.0
    level: float = 0.0  # log(laws / delta_2)
    log_joint: float = 0.0  # log(1 / delta_1)
    actions: bool = True  # log A at every row
    surcharge: bool = True  # log 2 for every law that may follow a stop, itself included

    @classmethod
    def of(cls, counts: ar.Counts, details: TightBoundDetails, delta: float) -> Joint:
        """Of a bound that spends a tenth of delta on it."""
        laws = len(list(relevant(counts.setting)))
        return cls(details.u, math.log(laws / (0.9 * delta)), -math.log(0.1 * delta))

    def kl_cost(self, kappa: Decimal, c: Decimal, n: int) -> Decimal:
        """The cost of a row but for log A: u (eta psi + kl(eta, 1/2)), and the rest of (kappa + u) KL by its radius."""
        u, level = Decimal(self.u), Decimal(self.level)
        eta = min(1 / (1 + (-level).exp()), (kappa + u) / (u * n))
        return u * (eta * (n * c - level) + kl(eta, HALF)) + (kappa + u - eta * n * u) * c


APART = Joint()


def trajectory(problem: Problem, lam: Sequence, joint: Joint = APART) -> tuple[Decimal, dict[Law | None, str]]:
    """Phi for multipliers lam_0 ... lam_{H-1}, and the choice 'stop', 'tv' or 'kl' of every (h, s, a) and of the start draw.

    All multipliers 0 means the TV recursion: nothing is charged by its KL radius.
    """
    S, A, H, u = problem.S, problem.A, problem.H, Decimal(joint.u)
    lam = [Decimal(float(x)) for x in lam]

    def cost(h: int, c: Decimal | None, tau: Any, ahead: Any, n: int) -> tuple[str, Decimal]:
        later = (problem.steps - h) * Decimal(2).ln() if joint.surcharge else 0
        options = [("stop", problem.left(h) + u * later)]
        if c is not None:
            if u:
                ahead += u * Decimal(A).ln() if h >= 0 and joint.actions else 0
            options.append(("tv", problem.left(h) * tau + u * (c + Decimal(2).ln()) + ahead))
            if any(lam):
                kappa = sum(problem.gamma**j / (4 * lam[j]) for j in problem.times_behind(h))
                options.append(("kl", (joint.kl_cost(kappa, c, n) if u else kappa * c) + ahead))
        return min(options, key=lambda option: option[1])

    W = np.full((H + 1, S, A), Decimal(0), dtype=object)
    choice: dict[Law | None, str] = {}
    for h in reversed(range(problem.steps)):
        for s, a in itertools.product(range(S), range(A)):
            ahead = sum(problem.p(h, s, a, x) * max(W[h + 1, x]) for x in range(S))
            n = int(problem.n[h, s, a].sum())
            choice[h, s, a], W[h, s, a] = cost(h, problem.c[h][s][a], problem.tau[h][s][a], ahead, n)
    if problem.law is None:
        ahead = sum(problem.p_start(s) * max(W[0, s]) for s in range(S))
        choice[None], value = cost(-1, problem.c_start, problem.tau_start, ahead, int(problem.starts.sum()))
    else:
        value = sum((p * max(W[0, s]) for s, p in enumerate(problem.law)), Decimal(0))
    first = -1 if problem.law is None else 0
    constant = sum(problem.gamma**j * lam[j] / 2 for j in problem.times_behind(first)) + u * Decimal(joint.log_joint)
    return value + constant, choice


def theorem(problem: Problem, policy: np.ndarray, choice: dict[Law | None, str]) -> Decimal:
    """The exact right-hand side of the theorem for a policy (H, S) and a division into stops, TV-pairs and KL-pairs.

    sum_j gamma^j sqrt(E_hat[KL charged before time j] / 2) + E_hat[TV charged] + E_hat[stops], in the empirical model.
    """
    total, charged = Decimal(0), [Decimal(0)] * problem.H  # KL that stands before each time

    def through(h: int, mass: Decimal, kind: str, c: Any, tau: Any) -> Decimal:
        """Charges `mass` for passing a law; returns what goes on."""
        nonlocal total
        if kind == "stop":
            total += mass * problem.left(h)
            return Decimal(0)
        if kind == "tv":
            total += mass * problem.left(h) * tau
        else:
            for j in problem.times_behind(h):
                charged[j] += mass * c
        return mass

    alive = problem.law
    if alive is None:
        goes_on = through(-1, Decimal(1), choice[None], problem.c_start, problem.tau_start)
        alive = [goes_on * problem.p_start(s) for s in range(problem.S)]
    for h in range(problem.steps):
        coming = [Decimal(0)] * problem.S
        for s, mass in enumerate(alive):
            a = int(policy[h, s])
            goes_on = through(h, mass, choice[h, s, a], problem.c[h][s][a], problem.tau[h][s][a])
            coming = [there + goes_on * problem.p(h, s, a, x) for x, there in enumerate(coming)]
        alive = coming
    return total + sum(problem.gamma**j * (charged[j] / 2).sqrt() for j in range(problem.H))


def dense(counts: ar.Counts) -> tuple[np.ndarray, np.ndarray]:
    """Start draws (S,) and visits (H, S, A, S); when stationary every step has the pooled ones."""
    setting, columns = counts.setting, counts.columns()
    S, A, H = setting.n_states, setting.n_actions, setting.horizon
    starts, n = np.zeros(S, int), np.zeros((H, S, A, S), int)
    for h, s, a, x, count in zip(*(columns[name] for name in ("h", "s", "a", "next", "count")), strict=True):
        if h < 0:
            starts[x] += count
        elif setting.stationary:
            n[:, s, a, x] += count
        else:
            n[h, s, a, x] += count
    return starts, n


def per_row(counts: ar.Counts, values: np.ndarray) -> np.ndarray:
    """What the kernels keep for the rows of the table, as (H, S, A); 0 without data."""
    setting, node_of = counts.setting, counts.table.node_of
    H, S, A = setting.horizon, setting.n_states, setting.n_actions
    nodes = np.broadcast_to(node_of, (H + 1, S))[:H] if setting.stationary else node_of[:H]
    rows = nodes[..., None].astype(int) * A + np.arange(A)
    return np.where(nodes[..., None] > 0, values[rows], 0.0)


# --- Transfer ---


class Transfer:
    """Evidence of every (h, s, a, s'), one transition after the other.

    Each is predicted by the counts of all steps as they were at the last booking; bookings come after the first episode and
    then whenever the episodes have grown by 3%.
    """

    def __init__(self, setting: ar.Setting) -> None:
        self.S, self.episodes, self.booked_at = setting.n_states, 0, 0
        self.evidence: dict[tuple[int, ...], Decimal] = {}  # of every (h, s, a, s')
        self.seen: dict[tuple[int, int], dict[int, int]] = {}  # of every (s, a), how often each s'
        self.pool: dict[tuple[int, int], dict[int, int]] = {}  # the same at the last booking

    @in_50_digits
    def add(self, states: np.ndarray, actions: np.ndarray) -> None:
        for h, a in enumerate(actions):
            pair, x = (int(states[h]), int(a)), int(states[h + 1])
            law = self.pool.get(pair, {})
            predicted = (law.get(x, 0) + Decimal(1) / (2 * self.S)) / (sum(law.values()) + HALF)
            edge = (h, *pair, x)
            self.evidence[edge] = self.evidence.get(edge, Decimal(0)) + predicted.ln()
            law = self.seen.setdefault(pair, {})
            law[x] = law.get(x, 0) + 1
        self.episodes += 1
        if self.episodes >= max(self.booked_at + 1, math.ceil(1.03 * self.booked_at)):
            self.pool, self.booked_at = {pair: dict(law) for pair, law in self.seen.items()}, self.episodes


# --- The library's kernels, for counts given as a list ---


def lib_psi_support(N: Sequence, S: int) -> float:
    return kernels.radii.psi_support(np.array(N, float), 0, len(N), float(sum(N)), S)


def lib_psi_size(N: Sequence, K: int) -> float:
    return kernels.radii.psi_size(np.array(N, float), 0, len(N), float(sum(N)), K)


def lib_tv_radius(N: Sequence, c: float, unseen: bool) -> float:
    scratch = np.zeros(1 << kernels.radii.ENUMERATED)
    return kernels.radii.tv_radius(np.array(N, float), 0, len(N), float(sum(N)), c, unseen, scratch)

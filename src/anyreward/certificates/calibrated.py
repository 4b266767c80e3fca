"""The calibrated certificate: an error bound for data whose amounts were fixed beforehand (`docs/theory.md`, 14.1 and 14.9).

A `Design` says, before the first sample is counted, how many samples each law gets and which successors are expected. When
exactly these samples have been counted, the law of the worst error under every model that they allow can be simulated, and
`calibrated_bound` takes a quantile of it. There is no union bound over laws, which makes the bound several times smaller than
`TightBound`; but it holds for this design and at this one moment, not at all times.

**What it guarantees.** With probability at least 1 - delta, either the quotas of the design are never filled, or for all policies
and all rewards in [0, 1] at once the value from the start in the empirical model of the counted samples is within Phi of the true
value. The design, its seed included, has to be fixed before, and the counted samples of a law are its first ones after that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from math import ceil, exp, fsum, inf, log, log1p
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from .. import kernels
from ..data.counts import LARGEST_COUNT, Counts
from ..setting import Setting, nearest, probability, real_number, shown, whole_number
from .bounds import BOUNDS, error_of_first_reward, weights
from .calibrated_laws import LawQuotas
from .deviances import brackets, deviance_limit

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..kernels.calibrated import Charges, Laws, Model
    from ..kernels.calibrated_ratios import Grid, Stages

MARKS = 3  # kernels.table.STAYS | ILLEGAL: nothing has to be estimated
TYPICAL = 64  # draws whose average charges the multipliers are tuned to
COARSE = 20  # how many scales of multipliers are tried for the average draw, each half the previous one
# How multipliers are found in a draw: multiples of those for the average draw, and how far each step goes that improves the best
# of them. Steps get shorter, as the worst policy can jump to and fro. 0 means charges by total variation alone.
ROUGH = ((1.0,), (0.5,))  # in every draw ...
REFINED = ((0.0, 0.25, 0.5, 1.0), (0.6, 0.53, 0.46, 0.39, 0.31, 0.24, 0.17, 0.1))  # ... and where it decides the result
FORECAST = 2**40  # the number of the first draw of a forecast: certificates never use these
SPARE = 1.15  # how much larger than forecast the price of a design is
POINTS = (12, 40)  # of the grid of likelihood ratios between 0 and 1, in every draw and where it decides the result ...
TANGENTS = (1, 2)  # ... and the tangents that bound what a stage of a law may be in a draw
SCALES = tuple(0.16 * 0.5**k for k in range(9))  # of the grids that are tried
CHUNK = 64  # draws that a thread computes before it asks for more
WHOLE = ("step", "state", "action", "quota", "first", "symbols")
NUMBERS = ("draws", "seed", "max_restarts")


@dataclass(frozen=True)
class Shares:
    """How delta is divided among the five ways in which a calibrated certificate can fail.

    Parameters
    ----------
    quantile : float
        The level of the simulated quantile. In a design with a price, the part of it that restarts do not take anything from.
    deviance : float
        For the limits on the deviance of every calibrated row, which the simulated laws are computed from.
    support : float
        For the mass outside the sets. It may be 0 if every set has all outcomes. In a design with a price it adds to the level.
    draws : float
        For the error of the simulation.
    union : float
        For rows that a union bound covers. If it is 0, such rows count as unknown.
    """

    quantile: float
    deviance: float
    support: float
    draws: float
    union: float

    def __post_init__(self) -> None:
        for field in fields(self):
            value = real_number(getattr(self, field.name), f"the share {field.name}")
            if value != 0.0 or field.name not in ("support", "union"):
                value = probability(value, f"the share {field.name}")
            object.__setattr__(self, field.name, value)
        if not self.delta < 1.0:
            raise ValueError(f"the shares of delta add up to {self.delta:g}: they have to stay below 1.")

    @classmethod
    def of(cls, delta: float) -> Shares:
        """The usual division: most of delta for the quantile."""
        delta = probability(delta, "delta") * (1 - 1e-15)
        return cls(0.82 * delta, 0.05 * delta, 0.05 * delta, 0.03 * delta, 0.05 * delta)

    @classmethod
    def together(cls, delta: float) -> Shares:
        """The usual division for a design with a price: the shares for the quantile and the support are spent together."""
        delta = probability(delta, "delta") * (1 - 1e-15)
        return cls(0.35 * delta, 0.04 * delta, 0.56 * delta, 0.03 * delta, 0.02 * delta)

    @property
    def delta(self) -> float:
        """Their sum: the probability with which the certificate may fail."""
        return fsum(getattr(self, field.name) for field in fields(self))


@dataclass(frozen=True, eq=False)
class Design:
    """Everything about a calibrated certificate that is fixed before the first sample is counted.

    Each of its M rows is a law: of a step, state and action, of a state and an action if the setting is stationary, or of the
    initial state. Laws without a row are not estimated; a state in which they can be used is unknown.

    Parameters
    ----------
    step, state, action : array_like of int, (M,)
        Which law it is. The step is 0 if the setting is stationary. The law of the initial state has step -1, state 0, action 0.
    quota : array_like of int, (M,)
        How many samples are counted.
    budget : array_like of float, (M,)
        How much a row counts in the common budget for mass outside the sets, between 0 and 1. Close to 1, the bound on that mass
        is small, and a sample outside the set costs much: log(1/(1 - budget)).
    first : array_like of int, (M + 1,)
        The set of row i is `symbols[first[i]:first[i + 1]]`. An empty set means that a union bound covers the row.
    symbols : array_like of int
        The outcomes in the sets, in the order in which the chain rule takes them.
    shares : Shares
        The division of delta.
    draws : int, default 2000
        The number of simulated draws.
    seed : int, default 0
        The seed of the simulation. It must have no part in making the design.
    max_restarts : int, default 0
        How often a row may start again after a sample outside its set, which then joins the set. A row that has no restart left
        is covered by the union bound instead.
    price : float, default 0
        The largest cost of a nat of the common budget that is expected. If the counted samples show a larger one, the bound
        becomes larger in proportion. With a price, mass outside the sets is simulated together with the deviances, which makes
        the bound smaller; with 0 it is charged apart.
    ratios : bool, default False
        Whether the worst error is simulated by likelihood ratios (`docs/theory.md`, 14.10 and 14.12), which takes
        longer. The bound is then smaller, unless a union bound covers much. Otherwise it is bounded by deviances.
    """

    step: np.ndarray
    state: np.ndarray
    action: np.ndarray
    quota: np.ndarray
    budget: np.ndarray
    first: np.ndarray
    symbols: np.ndarray
    shares: Shares
    draws: int = 2000
    seed: int = 0
    max_restarts: int = 0
    price: float = 0.0
    ratios: bool = False

    def __post_init__(self) -> None:
        for name in (*WHOLE, "budget"):
            object.__setattr__(self, name, frozen(getattr(self, name), name, float if name == "budget" else np.int64))
        for name in NUMBERS:
            object.__setattr__(self, name, whole_number(getattr(self, name), name))
        if not isinstance(self.shares, Shares):
            raise ValueError(f"shares is {shown(self.shares)}: it has to be a Shares, such as Shares.of(0.1).")
        self._check_rows()
        if not 1 <= self.draws <= 10**7:
            raise ValueError(f"draws is {self.draws}: it has to be from 1 to 10,000,000.")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed is {self.seed}: it has to be from 0 to 2^63 - 1.")
        if self.max_restarts < 0:
            raise ValueError(f"max_restarts is {self.max_restarts}: it cannot be negative.")
        object.__setattr__(self, "price", real_number(self.price, "price"))
        if not 0.0 <= self.price < inf:
            raise ValueError(f"price is {self.price}: it has to be a finite number, at least 0.")
        if not isinstance(self.ratios, bool | np.bool_):
            raise ValueError(f"ratios is {shown(self.ratios)}: it has to be True or False.")
        object.__setattr__(self, "ratios", bool(self.ratios))
        if self.rank > self.draws:
            raise ValueError(
                f"draws is {self.draws}: with the shares {self.shares.quantile:g} for the quantile and {self.shares.draws:g} for "
                "the simulation, that is too few to bound the quantile."
            )

    def _check_rows(self) -> None:
        """Raises if the arrays of rows do not fit together."""
        M = len(self.step)
        for name, size in (("state", M), ("action", M), ("quota", M), ("budget", M), ("first", M + 1)):
            if len(getattr(self, name)) != size:
                raise ValueError(f"{name} of the design has {len(getattr(self, name))} entries: {size} are needed.")
        if M == 0:
            raise ValueError("the design has no rows: at least one law needs a quota.")
        if self.first[0] != 0 or self.first[-1] != len(self.symbols) or (np.diff(self.first) < 0).any():
            raise ValueError("first of the design has to rise from 0 to the number of symbols.")
        if not (self.budget.min() > 0.0 and self.budget.max() < 1.0):
            raise ValueError(f"a budget of the design is {shown(outlier(self.budget))}: it has to be strictly between 0 and 1.")
        if self.quota.min() < 1 or float(self.quota.sum(dtype=float)) > LARGEST_COUNT:
            raise ValueError("the quotas of the design have to be at least 1, and to sum to at most 2^53.")
        if self.step.min() < -1 or min(self.state.min(), self.action.min()) < 0 or (len(self.symbols) and self.symbols.min() < 0):
            raise ValueError("a step of the design is below -1, or a state, action or symbol is negative.")
        if ((self.step == -1) & ((self.state != 0) | (self.action != 0))).any():
            raise ValueError("the law of the initial state, step -1 of the design, has to have state 0 and action 0.")
        order = np.lexsort((self.action, self.state, self.step))
        same = np.logical_and.reduce([np.diff(x[order]) == 0 for x in (self.step, self.state, self.action)])
        if same.any():
            raise ValueError(f"the design has {self.name(int(order[same.argmax()]))} twice: a law has one quota.")
        row = self.row_of_symbol
        order = np.lexsort((self.symbols, row))
        same = (np.diff(self.symbols[order]) == 0) & (np.diff(row[order]) == 0)
        if same.any():
            i = int(order[same.argmax()])
            raise ValueError(f"the set of {self.name(int(row[i]))} has outcome {self.symbols[i]} twice: list it once.")

    @property
    def delta(self) -> float:
        """The probability with which the certificate may fail."""
        return self.shares.delta

    @property
    def size(self) -> np.ndarray:
        """The number of outcomes in the set of each row, (M,); 0 if a union bound covers it."""
        return np.diff(self.first)

    @property
    def row_of_symbol(self) -> np.ndarray:
        """For each of the `symbols`, the row in whose set it is."""
        return np.repeat(np.arange(len(self.step)), self.size)

    @property
    def log_laws(self) -> float:
        """What the union bound takes for each row: the logarithm of their number over its share of delta, inf without one."""
        return log(len(self.step) / self.shares.union) if self.shares.union else inf

    @cached_property
    def rank(self) -> int:
        """Which of the simulated values, in increasing order and from 1, is taken if nothing is outside; see `order_rank`."""
        return order_rank(self.draws, self.level(), self.shares.draws)

    @property
    def deviance_tail(self) -> float:
        """The probability with which each of the limits on deviances may be exceeded: one for each calibrated row.

        With likelihood ratios each stage of a row has one, too. That of a law on two outcomes is the row's.
        """
        size = self.size
        events = np.where(size > 2, size, size > 0) if self.ratios else size > 0
        return self.shares.deviance / max(1, int(events.sum()))

    def level(self, outside: float = 0.0) -> float:
        """The level of the simulated quantile, if rows with samples outside their sets have taken so many nats of the budget."""
        shares = self.shares
        return shares.quantile + shares.support * exp(-outside) * (1 - 1e-12) if self.price else shares.quantile

    def missed(self, uniform: np.ndarray, outside: float) -> np.ndarray:
        """Draws of what the budget bounds, in nats, from uniform numbers.

        P(missed >= x) = level / (quantile + support e^(x - outside)).
        """
        with np.errstate(divide="ignore"):
            odds = (self.level(outside) / uniform - self.shares.quantile) / np.float64(self.shares.support)
            return np.maximum(0.0, outside + np.log(odds)) * (1 + 1e-12)

    def budget_for(self, outside: float) -> float:
        """What the budget bounds, in nats, on the event of the certificate."""
        shares = self.shares
        if not shares.support:
            return inf
        return outside + log((1.0 - shares.quantile if self.price else 1.0) / shares.support)

    def name(self, row: int) -> str:
        """A row in words, for messages."""
        if self.step[row] == -1:
            return "the law of the initial state"
        return f"the law of state {self.state[row]} with action {self.action[row]} at step {self.step[row]}"

    def check(self, setting: Setting) -> None:
        """Raises if a row or a set does not fit a setting."""
        if setting.structure is not None:
            raise ValueError("the design has quotas of pairs, but a structure is declared: give quotas of its laws.")
        steps = 1 if setting.stationary else setting.horizon
        for values, most, what in (
            (self.step, steps - 1, "step"),
            (self.state, setting.n_states - 1, "state"),
            (self.action, setting.n_actions - 1, "action"),
            (self.symbols, setting.n_outcomes - 1, "outcome"),
        ):
            if len(values) and values.max() > most:
                raise ValueError(f"the design has {what} {values.max()}: in this setting they go to {most}.")
        starts = self.step == -1
        if starts.any() and not setting.estimates_start:
            raise ValueError("the design has the law of the initial state, but the setting says what it is: leave it out.")
        if (self.symbols[starts[self.row_of_symbol]] >= setting.n_states).any():
            raise ValueError("the set of the law of the initial state has an outcome in which no episode can start.")
        if setting.absorbing_states or setting.illegal_actions:
            known = np.isin(self.state, setting.absorbing_states)
            pairs = np.array(setting.illegal_actions, np.int64).reshape(-1, 2)
            known |= np.isin(self.state * setting.n_actions + self.action, pairs[:, 0] * setting.n_actions + pairs[:, 1])
            refuse_known(self, known & ~starts)

    def to_dict(self) -> dict[str, Any]:
        """The design as plain arrays and numbers, for files."""
        about: dict[str, Any] = {name: getattr(self, name) for name in (*WHOLE, "budget", *NUMBERS)}
        shares = np.array([getattr(self.shares, field.name) for field in fields(Shares)])
        return {**about, "shares": shares, "price": self.price, **({"ratios": True} if self.ratios else {})}

    @classmethod
    def from_dict(cls, about: dict[str, Any]) -> Design:
        """The design that `to_dict` gave. Raises if it is not one."""
        wanted = (*WHOLE, "budget", *NUMBERS, "shares")
        missing = next((name for name in wanted if name not in about), None)
        if missing is not None:
            raise ValueError(f"the design has no {missing}: it needs {', '.join(wanted)}.")
        later = ("price", "ratios")  # older designs have none
        unknown = next((name for name in about if name not in (*wanted, *later)), None)
        if unknown is not None:
            raise ValueError(f"the design has {shown(unknown)}{nearest(str(unknown), wanted)}.")
        shares = frozen(about["shares"], "shares", float)
        if len(shares) != len(fields(Shares)):
            raise ValueError(f"the design has {len(shares)} shares of delta: {len(fields(Shares))} are needed.")
        return cls(**{**about, "shares": Shares(*shares.tolist())})

    def digest(self) -> str:
        """A SHA-256 fingerprint of the whole design."""
        about = self.to_dict()
        sha = hashlib.sha256(json.dumps({name: about[name] for name in NUMBERS}, sort_keys=True).encode())
        for name in (*WHOLE, "budget", "shares"):
            column = np.ascontiguousarray(about[name], "<i8" if name in WHOLE else "<f8")
            sha.update(f"{name} {len(column)}".encode() + column.tobytes())
        if self.price:
            sha.update(f"price {self.price.hex()}".encode())
        if self.ratios:
            sha.update(b"ratios")
        return sha.hexdigest()

    @classmethod
    def of_quotas(
        cls,
        setting: Setting,
        quotas: ArrayLike,
        delta: float,
        successors: ArrayLike | None = None,
        starts: int = 0,
        seed: int = 0,
    ) -> Design:
        """The design of amounts of data that were fixed beforehand.

        Parameters
        ----------
        setting : Setting
        quotas : array_like of int, (H, S, A), or (S, A) if stationary
            How many samples of each law are counted; 0 for laws that are not sampled, which stay unknown.
        delta : float
            The probability with which the certificate may fail.
        successors : array_like of bool, (S, A, outcomes) or (H, S, A, outcomes), optional
            Which outcomes were expected beforehand. Fewer make the certificate smaller, if no others turn up. All, unless given.
        starts : int, default 0
            How many initial states are counted, if their distribution is estimated.
        seed : int, default 0
            The seed of the simulation.
        """
        S, A, outcomes = setting.n_states, setting.n_actions, setting.n_outcomes
        shape = (S, A) if setting.stationary else (setting.horizon, S, A)
        amounts = np.asarray(quotas)
        if amounts.shape != shape or amounts.dtype.kind not in "iu" or amounts.min(initial=0) < 0:
            raise ValueError(f"quotas has the shape {amounts.shape}: whole numbers of shape {shape} are needed, none negative.")
        amounts = amounts.reshape(-1, S, A).astype(np.int64)
        allowed = np.ones((*amounts.shape, outcomes), bool)
        if successors is not None:
            given = np.asarray(successors)
            if given.dtype != bool or given.shape not in ((S, A, outcomes), allowed.shape):
                raise ValueError(f"successors has the shape {given.shape}: booleans of shape {(S, A, outcomes)} are needed.")
            allowed = np.broadcast_to(given, allowed.shape)
        step, state, action = np.nonzero(amounts)
        sets = [np.flatnonzero(allowed[at]) for at in zip(step, state, action, strict=True)]
        quota = amounts[step, state, action]
        if setting.estimates_start and starts:
            step, state, action = (np.append(-1, step), np.append(0, state), np.append(0, action))
            sets, quota = [np.arange(S), *sets], np.append(whole_number(starts, "starts"), quota)
        shares = Shares.of(delta)
        return cls(
            step=step,
            state=state,
            action=action,
            quota=quota,
            budget=np.full(len(step), 0.9),
            first=np.concatenate([[0], np.cumsum([len(one) for one in sets])]).astype(np.int64),
            symbols=np.concatenate(sets) if sets else np.zeros(0, np.int64),
            shares=shares,
            draws=max(4000, ceil(60 / shares.quantile)),
            seed=seed,
        )

    def restarted(self, restarts: ArrayLike) -> tuple[Design, np.ndarray]:
        """The design whose sets have the symbols of restarts, each at the end of its set, and how often each row restarted.

        Parameters
        ----------
        restarts : array_like of int, (n, 2)
            The row that started again and the symbol that joined its set, in the order in which it happened.
        """
        array = np.asarray(restarts)
        if array.size == 0:
            return self, np.zeros(len(self.step), np.int64)
        if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
            raise ValueError("restarts have to be rows of two whole numbers, the row of the design and the symbol.")
        row, symbol = array.astype(np.int64).T
        if row.min() < 0 or row.max() >= len(self.step) or (self.size[row] == 0).any():
            raise ValueError("a restart is of a row that the design does not have, or that has no set.")
        times = np.bincount(row, minlength=len(self.step))
        if times.max() > self.max_restarts:
            raise ValueError(
                f"{self.name(int(times.argmax()))} has {times.max()} restarts: max_restarts of the design is {self.max_restarts}."
            )
        owner, symbols = np.append(self.row_of_symbol, row), np.append(self.symbols, symbol)
        order = np.argsort(owner, kind="stable")
        first = np.concatenate([[0], np.cumsum(self.size + times)])
        changed = {**self.to_dict(), "first": first, "symbols": symbols[order], "shares": self.shares}
        return Design(**changed), times


@dataclass(frozen=True)
class Calibrated:
    """A calibrated error bound and what it was computed from.

    Attributes
    ----------
    value : float
        The error bound Phi.
    quantile : float
        The part of it that was simulated; with mass outside the sets, if the design has a price.
    missing : float
        The rest: for mass outside the sets or, if the design has a price, for what that did not cover.
    mean : float
        The mean of the simulated values.
    violated : int
        How many calibrated rows have samples outside their sets, so that a union bound covers them.
    rank : int
        Which of the simulated values is taken if no sample is outside its set.
    multipliers : ndarray, (H,)
        The multipliers lambda that fit the average draw; 0 if it was simulated by likelihood ratios.
    dearest : float
        The largest cost of a nat of the common budget for mass outside the sets.
    """

    value: float
    quantile: float
    missing: float
    mean: float
    violated: int
    rank: int
    multipliers: np.ndarray
    dearest: float


def calibrated_bound(counts: Counts, design: Design, restarts: ArrayLike = ()) -> Calibrated:
    """The error bound Phi of counts that a design asked for, with the parts that it consists of.

    Parameters
    ----------
    counts : Counts
        Every law of the design has to have exactly its quota of samples. All other laws are taken for unknown.
    design : Design
    restarts : array_like of int, (n, 2), optional
        Which rows started again, with the symbol that joined the set, in the order in which it happened: the first sample
        outside the set. The counts have the samples since the last restart.
    """
    final, times = design.restarted(restarts)
    return _compute(counts, final, times)


def forecast_bound(counts: Counts, design: Design, draws: int, restarts: float = 0.0) -> Calibrated:
    """The error bound that counts would give if every law of the design had its quota, with the frequencies that they have now.

    It is a forecast, for making designs, and no certificate: from fewer draws than the design has. Laws that have no data yet
    count as unknown, and so many rows are expected to start again. It has random numbers of its own, so that the seed of a design
    stays fresh.
    """
    return _compute(counts, design, np.zeros(len(design.step), np.int64), (draws, restarts))


def forecast_by_union(counts: Counts, design: Design, log_laws: float) -> float:
    """As `forecast_bound`, about which error bound a union bound over all rows would give: `log_laws` is log(rows / delta)."""
    setting, sets = counts.setting, np.zeros(len(design.step) + 1, np.int64)
    problem = assemble(counts, replace(design, first=sets, symbols=sets[:0]), sets[:-1], scaled=True)
    charges = _union(problem, setting, log_laws)
    return smallest(problem.model, _laws(problem, design), charges, setting)[0]


@lru_cache(1000)
def order_rank(draws: int, level: float, failure: float) -> int:
    """The smallest r with P(Bin(draws, 1 - level) >= r) <= failure; draws + 1 if there is none.

    With at least the probability 1 - failure, the r-th smallest of that many independent draws is then at least the (1 - level)
    quantile of their law.
    """
    total, ratio = 0.0, log1p(-level) - log(level)
    term = draws * log1p(-level)  # log P(Bin = r), from r = draws downwards
    for r in range(draws, -1, -1):
        total += float(np.exp(term))
        if total * (1 + 1e-9) > failure:
            return r + 1
        term += log(r / (draws - r + 1)) - ratio if r else 0.0
    return 0


class Problem(NamedTuple):
    """What the kernels are given. Row 0 is the law of the initial state; the other rows are those of known and usable states."""

    model: Model
    row: np.ndarray  # (R,) the row of the design, -1 if there is none
    node: np.ndarray  # (R,) the node of each row
    seen: np.ndarray  # (E,) the count of each edge
    m: np.ndarray  # (R,) the samples of each row
    calibrated: np.ndarray  # the calibrated rows without samples outside their sets
    union: np.ndarray  # the rows that a union bound covers
    incomplete: np.ndarray  # (R,) whether a row is calibrated and its set may miss something
    violated: np.ndarray  # (M,) whether a row of the design has samples outside its set


def _compute(counts: Counts, design: Design, restarts: np.ndarray, forecast: tuple[int, float] | None = None) -> Calibrated:
    """The bound; or a forecast, with the number of draws and of restarts."""
    setting, scaled = counts.setting, forecast is not None
    problem = assemble(counts, design, restarts, scaled)
    charges = _union(problem, setting, design.log_laws)
    outside = -fsum((restarts + problem.violated) * np.log1p(-design.budget))
    most = _dearest(problem, design)
    first, J = 0, design.draws
    if forecast is not None:
        design, first, J = replace(design, price=max(1e-9, SPARE * most)), FORECAST, forecast[0]
        outside -= forecast[1] * float(np.log1p(-design.budget).mean())
    # Which rows are complete is a matter of their sets, and must not be one of what was counted inside.
    some = bool(((design.size > 0) & ~problem.violated & (design.size < _possible(design, setting))).any())
    simulated = _simulate_ratios if design.ratios else _simulate
    values, quantile, multipliers = simulated(problem, charges, setting, design, outside, some, first, J)
    if design.price:
        missing = quantile * (most / design.price - 1.0) if most > design.price else 0.0
    else:
        missing = design.budget_for(outside) * most if most > 0.0 else 0.0
    w, w_start = weights(setting)
    trivial = w_start or float(w[0])
    # Every term is positive and at most `trivial`, so each rounding changes the result by at most 2^-53 of that. By likelihood
    # ratios there are more terms, which may be up to H + 1 times as large where L < 1.
    widest, H = int(np.diff(problem.model.edges).max(initial=1)), setting.horizon
    rounding = (64 * (H + 1) if design.ratios else 2) * (widest + 32) * (H + 1) * 2.0**-53
    value = min(trivial, (quantile + missing) * (1 + rounding) + rounding * trivial)
    value = (value + error_of_first_reward(counts)) * (1 + 2.0**-50)
    violated = int(np.count_nonzero(problem.violated))
    return Calibrated(value, quantile, missing, float(np.mean(values)), violated, design.rank, multipliers, most)


def _possible(design: Design, setting: Setting) -> np.ndarray:
    """How many outcomes each row of a design can have."""
    return np.where(design.step < 0, setting.n_states, setting.n_outcomes)


def _check_marks(counts: Counts, design: Design) -> None:
    """Raises if a law of the design need not be estimated, by what was declared."""
    known = counts.table.known
    if len(known):
        refuse_known(design, (known[design.state * counts.setting.n_actions + design.action] & MARKS != 0) & (design.step >= 0))


def refuse_known(design: Design, known: np.ndarray) -> None:
    """Raises if there is a known row."""
    if known.any():
        raise ValueError(
            f"the design has {design.name(int(known.argmax()))}, which is known to be absorbing or illegal: leave it out."
        )


def _samples(
    counts: Counts, design: Design, restarts: np.ndarray, scaled: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The edges of the rows of a design: row, outcome and count of each, by row; samples and whether it is violated by row.

    The edges of a calibrated row that is not violated are its set, in order; those of other rows are what was seen.
    """
    setting, M = counts.setting, len(design.step)
    S, A = setting.n_outcomes, setting.n_actions
    columns = counts.columns()
    keys = np.where(design.step < 0, -1, (design.step * S + design.state) * A + design.action)
    found = np.where(columns["h"] < 0, -1, (columns["h"] * S + columns["s"]) * A + columns["a"])
    row = lookup(keys, np.arange(M), found, -1)
    row, symbol, seen = row[row >= 0], columns["next"][row >= 0], columns["count"][row >= 0].astype(float)
    n = np.bincount(row, seen, M)
    m = design.quota.astype(float)
    if scaled:
        seen, m = seen * (m / np.maximum(n, 1.0))[row], np.where(n > 0, m, 0.0)
    elif (n != m).any():
        i = int((n != m).argmax())
        raise ValueError(
            f"{design.name(i)} has {int(n[i]):,} counted samples, and its quota is {design.quota[i]:,}: nothing is certified "
            "unless every law of the design has exactly its quota."
        )
    owner = design.row_of_symbol
    inside = np.isin(row * S + symbol, owner * S + design.symbols)
    violated = np.zeros(M, bool)
    violated[row[~inside]] = True
    violated &= design.size > 0
    early = violated & (restarts < design.max_restarts)
    if early.any() and not scaled:
        i = int(early.argmax())
        raise ValueError(
            f"{design.name(i)} has a sample outside its set after {restarts[i]} of {design.max_restarts} restarts: it has to "
            "start again before anything is certified."
        )
    clean = (design.size > 0) & ~violated & (m > 0)
    listed, other = clean[owner], ~clean[row]
    in_set = lookup(row * S + symbol, seen, owner[listed] * S + design.symbols[listed], 0.0)
    rows = np.concatenate([owner[listed], row[other]])
    order = np.argsort(rows, kind="stable")
    symbols, seen = np.concatenate([design.symbols[listed], symbol[other]]), np.concatenate([in_set, seen[other]])
    return rows[order], symbols[order], seen[order], m, violated


def lookup(keys: np.ndarray, values: np.ndarray, wanted: np.ndarray, missing: Any) -> np.ndarray:
    """The values of the wanted keys, which are unique; `missing` where there is no such key."""
    if not len(keys):
        return np.full(len(wanted), missing)
    order = np.argsort(keys)
    place = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    return np.where(keys[place] == wanted, values[place], missing)


def assemble(counts: Counts, design: Design, restarts: np.ndarray, scaled: bool = False) -> Problem:
    """The arrays of the kernels. States some of whose actions have no row, and are not known, appear only as unknown ones.

    `restarts` (M,) says how often each row started again. With `scaled`, counts are rescaled to the quotas.
    """
    design.check(counts.setting)
    _check_marks(counts, design)
    row, symbol, seen, m, violated = _samples(counts, design, restarts, scaled)
    setting, S = counts.setting, counts.setting.n_outcomes
    w, w_start = weights(setting)
    T = int(np.count_nonzero(w))
    by_step = not setting.stationary
    starts, start_p = setting.starts
    place = np.where(design.step < 0, -1, design.step * S + design.state)  # of rows: where they are used ...
    ahead = (design.step[row] + 1) * by_step * S + symbol  # ... and of edges: where they lead
    first_places = starts if len(starts) else symbol[design.step[row] == -1]
    nodes, depth = _usable(
        counts, np.where(design.step < T if by_step else T > 0, place, -1)[m > 0], place[row], ahead, first_places, T
    )

    node = lookup(nodes, np.arange(len(nodes)), place, -1)
    used = np.flatnonzero((node >= 0) & (m > 0))
    used = used[np.lexsort((design.action[used], node[used]))]
    start = np.flatnonzero((design.step == -1) & (m > 0))
    chosen = np.concatenate([start if len(start) else [-1], used]).astype(np.int64)
    there = chosen >= 0
    size = np.bincount(row, minlength=len(m))
    width = np.where(there, size[chosen], 0)
    edges = np.concatenate([[0], np.cumsum(width)])
    edge = np.arange(edges[-1]) + np.repeat((np.cumsum(size) - size)[chosen] - edges[:-1], width)

    layer = np.searchsorted(depth, np.arange(T + 1)) if by_step else np.array([0, len(nodes)])
    number = np.arange(len(nodes)) - (layer[depth] if by_step else 0)
    stays = np.zeros(S, bool)
    stays[counts.stays()] = True

    def slots(places: np.ndarray) -> np.ndarray:
        """Where the values of places are in the plane of their step."""
        slot = lookup(nodes, kernels.calibrated.FIRST + number, places, kernels.calibrated.UNKNOWN)
        known = stays[places % S] | (places >= T * S if by_step else False)  # after the last step, nothing costs anything
        return np.where(known, kernels.calibrated.ABSORBING, slot).astype(np.uint32)

    planes = [*(2 + np.diff(layer)), 2] if by_step else [2 + len(nodes)] * (T + 1)
    model = kernels.calibrated.Model(
        w=w[:T],
        w_start=w_start,
        plane=np.cumsum([0, *planes]).astype(np.int64),
        nodes=layer.astype(np.int64),
        ends=np.searchsorted(depth, np.arange(T), "right").astype(np.int64),
        rows=np.cumsum([1, *np.bincount(node[used], minlength=len(nodes))]).astype(np.int64),
        edges=edges.astype(np.int64),
        slot=slots(ahead[edge]),
        p=seen[edge] / np.repeat(np.where(there, m[chosen], 1.0), width),
        start_slot=slots(starts),
        start_p=start_p,
    )
    calibrated = there & (design.size[chosen] > 0) & ~violated[chosen]
    possible = _possible(design, setting)[chosen]
    return Problem(
        model,
        row=chosen,
        node=np.where(there, node[chosen], 0),
        seen=seen[edge],
        m=np.where(there, m[chosen], 1.0),
        calibrated=np.flatnonzero(calibrated),
        union=np.flatnonzero(there & ~calibrated),
        incomplete=calibrated & (design.size[chosen] < possible),
        violated=violated,
    )


def _usable(
    counts: Counts, owned: np.ndarray, source: np.ndarray, target: np.ndarray, starts: np.ndarray, T: int
) -> tuple[np.ndarray, np.ndarray]:
    """The places that can be reached before step T and all of whose actions have rows or are known, with the steps until then.

    A place is a state, plus S times the step if laws depend on it. `owned` has the place of each row, negative if it has none;
    edges lead from `source` to `target`. The result is in the order of the steps.
    """
    known = counts.table.known.reshape(-1, counts.setting.n_actions)
    places, many = np.unique(owned[owned >= 0], return_counts=True)
    needed = counts.setting.n_actions
    if len(known):
        needed = np.count_nonzero(known[places % counts.setting.n_outcomes] & MARKS == 0, axis=1)
    places = places[many == needed]
    number = np.arange(len(places))
    tail, head = lookup(places, number, source, -1), lookup(places, number, target, -1)
    tail, head = tail[(tail >= 0) & (head >= 0)], head[(tail >= 0) & (head >= 0)]
    depth = np.full(len(places), T)
    reached = lookup(places, number, starts, -1)
    depth[reached[reached >= 0]] = 0
    for h in range(T - 1):
        new = head[depth[tail] == h]
        depth[new] = np.minimum(depth[new], h + 1)
    order = np.argsort(depth, kind="stable")[: np.count_nonzero(depth < T)]
    return places[order], depth[order]


def _laws(problem: Problem, design: Design) -> Laws:
    """The laws that dominate the deviances of the calibrated rows."""
    rows, tail = problem.calibrated, design.deviance_tail
    size = np.diff(problem.model.edges)[rows]
    limits = {int(k): deviance_limit(int(k), tail) for k in np.unique(size)}
    limit = np.array([limits[int(k)] for k in size])
    ends = brackets(float(limit.max(initial=1.0)))
    stages = np.concatenate([[0], np.cumsum(size - 1)]).astype(np.int64)
    laws = kernels.calibrated.Laws(
        row=rows,
        m=problem.m[rows],
        limit=limit,
        tau=np.zeros(len(rows)),
        stages=stages,
        shift=np.zeros((int(stages[-1]), len(ends))),
        bracket=ends,
    )
    kernels.calibrated.all_laws(problem.model.edges, problem.seen, laws)
    return laws


def _union(problem: Problem, setting: Setting, log_laws: float) -> Charges:
    """The charges of the rows that a union bound covers; `log_laws` is log(rows / delta), inf if they have no delta."""
    R = len(problem.m)
    charges = kernels.calibrated.Charges(np.zeros(R), np.zeros(R), np.zeros(R))
    kernels.calibrated.union_charges(
        problem.model.edges, problem.seen, problem.m, problem.union, setting.n_outcomes, log_laws, charges
    )
    return charges


def _dearest(problem: Problem, design: Design) -> float:
    """The largest expected cost of a nat of the common budget for mass outside the sets: that of the row where it costs most."""
    price = problem.incomplete / (design.budget[problem.row] * problem.m)
    bounds = np.zeros(len(price))
    kernels.calibrated.reach_bounds(problem.model, bounds)
    order = np.argsort(-price * bounds, kind="stable")
    return float(kernels.calibrated.most_missed(problem.model, price, bounds, order, problem.node))


def smallest(model: Model, laws: Laws, charges: Charges, setting: Setting) -> tuple[float, np.ndarray]:
    """The smallest phi that was found for given charges, with its multipliers (H,)."""
    H, behind = setting.horizon, int(model.w_start > 0.0) + int(setting.arrival_rewards)
    times = H - 1 + behind  # behind: how many laws the reward of time 0 depends on
    shape, scales = np.sqrt((np.arange(H) + behind) / max(1, times)), np.append(0.0, 2.0 * 0.5 ** np.arange(COARSE))
    out, discounts = np.zeros(1), setting.discount ** np.arange(H)
    multipliers = kernels.calibrated.simulate(
        model, laws, charges, discounts, setting.arrival_rewards, shape * (times > 0), scales, np.array(REFINED[1]),
        0, np.array([-1]), out, np.zeros(1),
    )  # fmt: skip
    return float(out[0]), multipliers


def _stages(problem: Problem, design: Design) -> Stages:
    """The stages of the calibrated rows, with what their limit says about each."""
    rows, edges = problem.calibrated, problem.model.edges
    limit = deviance_limit(2, design.deviance_tail)
    ends = brackets(limit)
    many = np.zeros(len(edges) - 1, np.int64)
    many[rows] = np.diff(edges)[rows] - 1
    first = np.concatenate([[0], np.cumsum(many)])
    Q = int(first[-1])
    stages = kernels.calibrated_ratios.Stages(
        row=rows,
        m=problem.m[rows],
        first=first,
        low=np.zeros(Q),
        high=np.ones(Q),
        least=np.zeros(Q),
        shift=np.full((Q, len(ends)), inf),
        bracket=ends,
        limit=limit,
    )
    kernels.calibrated_ratios.all_stages(edges, problem.seen, stages)
    return stages


def ratio_grid(scale: float, points: int) -> Grid:
    """The ratios 0 ... 1 ... 2 at which values are kept, closest at 1, and a few more; `points` are from 0 to 1."""
    step = np.arcsinh(1.0 / scale) / points
    below = scale * np.sinh(step * np.arange(points - 1, 0, -1))
    x = np.concatenate([[0.0], 1.0 - below, [1.0], 1.0 + below[::-1], [2.0, 3.0, 5.0, 9.0]])
    return kernels.calibrated_ratios.Grid(x, 1.0 / np.diff(x), points)


def _simulate_ratios(
    problem: Problem, charges: Charges, setting: Setting, design: Design, outside: float, some: bool, first: int, J: int
) -> tuple[np.ndarray, float, np.ndarray]:
    """As `_simulate`, by likelihood ratios. There are no multipliers. Any grid and any tangents are valid in any draw."""
    stages = _stages(problem, design)

    def phi(numbers: np.ndarray, scale: float, fine: bool) -> tuple[np.ndarray, np.ndarray]:
        out, spare = np.zeros((2, len(numbers)))
        grid = ratio_grid(scale, POINTS[fine])
        kernels.calibrated_ratios.simulate(
            problem.model, charges, stages, grid, TANGENTS[fine], design.seed, first + numbers, out, spare
        )
        return out, spare

    scales = [min(SCALES, key=lambda scale: float(phi(J + np.arange(2), scale, fine)[0].sum())) for fine in (False, True)]
    values, quantile = _order_statistic(
        lambda numbers, fine: phi(numbers, scales[fine], fine), design, outside, some, J
    )  # fmt: skip
    return values, quantile, np.zeros(setting.horizon)


def _simulate(
    problem: Problem, charges: Charges, setting: Setting, design: Design, outside: float, some: bool, first: int, J: int
) -> tuple[np.ndarray, float, np.ndarray]:
    """Simulated values of the functional, (J,), the order statistic, and the multipliers that were tuned.

    J is the number of draws; if it is smaller than that of the design, the order statistic is about the same quantile. The draws
    have the numbers `first`, `first` + 1, ... If the design has a price, the order statistic is that of the sums with the cost of
    what `some` sets miss.

    Any multipliers are valid in any draw. All draws begin with those that fit the average draw.
    """
    model, laws = problem.model, _laws(problem, design)
    discounts = setting.discount ** np.arange(setting.horizon)
    typical = charges._replace(c=charges.c.copy(), g=charges.g.copy(), t=charges.t.copy())
    kernels.calibrated.mean_charges(design.seed, first + J + np.arange(TYPICAL), laws, typical)
    _, multipliers = smallest(model, laws, typical, setting)

    def phi(numbers: np.ndarray, fine: bool) -> tuple[np.ndarray, np.ndarray]:
        own = charges._replace(c=charges.c.copy(), g=charges.g.copy(), t=charges.t.copy())
        out, spare = np.zeros((2, len(numbers)))
        how = REFINED if fine else ROUGH
        about = discounts, setting.arrival_rewards, multipliers, *map(np.array, how), design.seed, first + numbers
        kernels.calibrated.simulate(model, laws, own, *about, out, spare)
        return out, spare

    values, quantile = _order_statistic(phi, design, outside, some, J)
    return values, quantile, multipliers


def _order_statistic(
    phi: Callable[[np.ndarray, bool], tuple[np.ndarray, np.ndarray]], design: Design, outside: float, some: bool, J: int
) -> tuple[np.ndarray, float]:
    """Rough values of J draws, and the order statistic that the design asks for.

    `phi` (numbers of draws, whether to refine) gives the values of draws and a uniform number of each. The draws above the order
    statistic decide it: they get refined values, until no draw above it is left without.
    """
    level = design.level(outside)
    rank = design.rank if level == design.level() else order_rank(design.draws, level, design.shares.draws)
    if design.draws > J:  # a forecast
        rank = ceil(rank * J / design.draws)

    def part(numbers: np.ndarray, fine: bool) -> np.ndarray:
        out, spare = phi(numbers, fine)
        return np.stack([out, design.price * design.missed(spare, outside) if design.price and some else 0.0 * spare])

    with ThreadPoolExecutor(kernels.processors()) as pool:

        def all_of(numbers: np.ndarray, fine: bool) -> np.ndarray:
            chunks = [numbers[i : i + CHUNK] for i in range(0, len(numbers), CHUNK)]
            return np.concatenate(list(pool.map(part, chunks, [fine] * len(chunks))), axis=1)

        values, missing = all_of(np.arange(J), False)
        best, rough = values + missing, np.ones(J, bool)
        while True:
            deciding = np.argsort(best, kind="stable")[rank - 1 :]
            deciding = deciding[rough[deciding]]
            if not len(deciding):
                return values, float(np.sort(best)[rank - 1]) if rank <= J else inf
            refined = all_of(deciding, True).sum(axis=0)  # either of the two is valid
            best[deciding], rough[deciding] = np.minimum(best[deciding], refined), False


def frozen(values: Any, name: str, kind: Any) -> np.ndarray:
    """A column of a design as an array that cannot be changed. Raises if it does not hold numbers of that kind."""
    array = np.asarray(values)
    if array.size == 0 and array.ndim == 1:
        array = array.astype(kind)
    if array.ndim != 1 or array.dtype.kind not in ("iu" if kind is np.int64 else "iuf"):
        what = "whole numbers" if kind is np.int64 else "numbers"
        raise ValueError(f"{name} of the design has to be a list of {what}.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} of the design has an entry that is not a finite number.")
    if array.dtype == np.uint64 and len(array) and array.max() >= 2**63:
        raise ValueError(f"{name} of the design has an entry that is too large: {array.max()}.")
    array = np.array(array, kind)
    array.flags.writeable = False
    return array


def outlier(values: np.ndarray) -> float:
    """The entry that is furthest from one half."""
    return float(values[np.abs(values - 0.5).argmax()])


FIRST, LATER = 0.7, 0.3  # the share of delta of the first attempt, and the factor from one attempt to the next


def attempt_delta(delta: float, attempt: int) -> float:
    """The part of delta that an attempt takes, counted from 1: all of them together take delta at most.

    Attempt 0 is the only one, and takes all of it.
    """
    return delta if attempt == 0 else FIRST * LATER ** (attempt - 1) * delta


@dataclass(frozen=True)
class CalibratedBound:
    """The calibrated error bound of a design whose quotas are filled (`docs/theory.md`, 14.1 and 14.5).

    Parameters
    ----------
    design : Design, LawQuotas or dict, optional
        What was fixed before the first counted sample, or its `to_dict`. Without a design nothing is known.
    restarts : list of (int, int)
        Which rows of the design started again, each with the outcome that joined its set, in the order in which it happened.
    attempt : int, default 1
        The number of the attempt, or 0 if there is only one. Each has its own part of delta, `attempt_delta`.
    episodes : int, default 0
        How many episodes `explore` played in all, scouting included. 0 if the data are from elsewhere: that the design was fixed
        before them is then an assumption, which is printed.
    """

    name: ClassVar[str] = "calibrated"
    design: Design | LawQuotas | dict[str, Any] | None = None
    restarts: Any = ()
    attempt: int = 1
    episodes: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.design, dict):
            over_laws = set(self.design) == {"laws"}
            object.__setattr__(self, "design", LawQuotas(self.design["laws"]) if over_laws else Design.from_dict(self.design))
        elif not isinstance(self.design, Design | LawQuotas | None):
            raise ValueError(f"design is {shown(self.design)}: it has to be a Design, which says what is counted.")
        for name, least in (("attempt", 0), ("episodes", 0)):
            value = whole_number(getattr(self, name), name)
            if value < least:
                raise ValueError(f"{name} is {value}: it has to be at least {least}.")
            object.__setattr__(self, name, value)
        if self.attempt > 100:
            raise ValueError(f"attempt is {self.attempt}: nothing would be left of delta.")
        listed = isinstance(self.restarts, list | tuple | np.ndarray)
        if not listed or any(np.shape(pair) != (2,) for pair in self.restarts):
            raise ValueError(
                f"restarts is {shown(self.restarts)}: it has to be a list of pairs, a row of the design and an outcome."
            )
        pairs = tuple((whole_number(row, "a restart"), whole_number(x, "a restart")) for row, x in self.restarts)
        object.__setattr__(self, "restarts", pairs)
        if self.design is None and pairs:
            raise ValueError("restarts are given, but no design whose rows could start again.")
        if pairs:
            self.known_design.restarted(np.array(pairs))

    @property
    def _plan(self) -> Design | LawQuotas:
        assert isinstance(self.design, Design | LawQuotas)
        return self.design

    @property
    def known_design(self) -> Design:
        """The design. Raises if there is none."""
        if not isinstance(self.design, Design):
            raise ValueError("the bounds 'calibrated' need a design, which says what is counted: explore, or give one.")
        return self.design

    @property
    def options(self) -> dict[str, Any]:
        """The options from which the same bound is made again, as plain lists and numbers."""
        about: Any = None
        if self.design is not None:
            about = {name: x.tolist() if isinstance(x, np.ndarray) else x for name, x in self._plan.to_dict().items()}
        restarts = [list(pair) for pair in self.restarts]
        return {"design": about, "restarts": restarts, "attempt": self.attempt, "episodes": self.episodes}

    def __call__(self, counts: Counts, delta: float) -> float:
        """The error bound Phi. Raises if a quota is not filled exactly, or the design takes too much of delta."""
        w, w_start = weights(counts.setting)
        if self.design is None:
            return (w_start or float(w[0])) + error_of_first_reward(counts)
        most = attempt_delta(probability(delta, "delta"), self.attempt)
        if isinstance(self.design, LawQuotas):
            return self.design.error_bound(counts, most)
        design = self.known_design
        if design.delta > most:
            raise ValueError(f"the design takes {design.delta:g} of delta: its attempt has {most:g}.")
        return calibrated_bound(counts, design, np.array(self.restarts, np.int64).reshape(-1, 2)).value

    def kl_radii(self, counts: Counts, delta: float, last_step: bool = False) -> np.ndarray:
        """The KL radius of each row of the table, 0 without data, on the event of the certificate: at no further delta.

        If the design takes more of delta than its attempt may, as when only a part of delta is asked for, nothing is known.
        Otherwise, two bounds on m KL(p_hat, p) hold (`docs/theory.md`, 14.8). That of the union bound is for rows whose
        samples are those of their only block; the sum of the limit of the deviance within the set and of the common budget for
        mass outside the sets is for all calibrated rows. Rows that are not in the design are unknown.
        """
        if counts.setting.structure is not None:
            quotas = self.design or LawQuotas((0,) * len(counts.setting.structure.sizes))
            if isinstance(quotas, LawQuotas):
                return quotas.radii(counts, attempt_delta(probability(delta, "delta"), self.attempt))[0]
        radii = np.zeros(len(counts.table.n))
        if self.design is None or self.known_design.delta > attempt_delta(probability(delta, "delta"), self.attempt):
            radii[counts.table.n > 0] = kernels.radii.NOTHING_KNOWN
            return np.where(counts.known_rows(), 0.0, radii)
        setting, A = counts.setting, counts.setting.n_actions
        final, times = self.known_design.restarted(np.array(self.restarts, np.int64).reshape(-1, 2))
        owner, _, seen, m, violated = _samples(counts, final, times, scaled=False)
        some, by_union = seen > 0, np.full(len(m), inf)
        if final.shares.union:
            edges = np.concatenate([[0], np.cumsum(np.bincount(owner[some], minlength=len(m)))])
            charges = kernels.calibrated.Charges(by_union, np.zeros(len(m)), np.zeros(len(m)))
            kernels.calibrated.union_charges(
                edges, seen[some], m, np.arange(len(m)), setting.n_outcomes, final.log_laws, charges
            )  # fmt: skip
        layer = np.minimum(np.maximum(final.step, 0), len(counts.table.node_of) - 1)
        node = counts.table.node_of[layer, final.state].astype(np.int64)
        row = np.where(final.step < 0, 0, node * A + final.action)
        one_block = (times == 0) if final.max_restarts in (0, setting.n_outcomes) else np.zeros(len(row), bool)
        size, tail = final.size, final.deviance_tail
        limits = {int(k): deviance_limit(int(k), tail) for k in np.unique(size) if k > 0}
        outside = final.budget_for(-fsum((times + violated) * np.log1p(-final.budget)))
        complete = size == _possible(final, setting)
        with_set = np.array([limits.get(int(k), inf) for k in size]) + np.where(complete, 0.0, outside / final.budget)
        by_set = np.where((size > 0) & ~violated, with_set * (1 + 1e-12) / m, inf)
        radii[counts.table.n > 0] = kernels.radii.NOTHING_KNOWN
        allowed = np.where(one_block | violated | (size == 0), by_union, inf)
        radii[row] = np.minimum(kernels.radii.NOTHING_KNOWN, np.minimum(allowed, by_set))
        return np.where(counts.known_rows(), 0.0, radii)

    def most_successors(self, setting: Setting) -> int:
        """The number of outcomes: nothing is assumed about successors."""
        return setting.n_outcomes

    def check(self, counts: Counts) -> None:
        """Raises if the design does not fit the setting."""
        if self.design is not None:
            self._plan.check(counts.setting)

    def assumptions(self, setting: Setting) -> tuple[str, ...]:
        """That the design came before the data, unless `explore` made it."""
        what = "the quotas of laws" if isinstance(self.design, LawQuotas) else "the quotas and their sets"
        return () if self.design is None or self.episodes else (f"{what} were fixed before the counted samples",)

    def __str__(self) -> str:
        if self.design is None:
            return "calibrated bounds, whose quotas are not filled yet"
        design, attempt = self._plan, f"attempt {self.attempt} with " if self.attempt else ""
        if isinstance(design, LawQuotas):
            laws = np.count_nonzero(design.quotas)
            return (
                f"calibrated bounds, {attempt}quotas {design.digest()[:12]} for {laws:,} shared law{'' if laws == 1 else 's'}; "
                f"plans use the {sum(design.quotas):,} counted draws"
            )
        return (
            f"calibrated bounds, {attempt}quotas {design.digest()[:12]} for {len(design.step):,} laws, "
            f"{design.draws:,} draws from seed {design.seed}; plans use the {int(design.quota.sum()):,} counted transitions"
        )


BOUNDS[CalibratedBound.name] = CalibratedBound

"""States of many parts, too many to number: a certificate, and values of policies, from counts of the parts alone.

Ten machines with four levels of wear have a million joint states, thirty have 10^18. If each part's next value depends on its own
value and on the action, there are few laws, and every episode has a draw of one for each part and step:

    plant = Factored(sizes=(4,) * 30, n_actions=31, horizon=20, start=(0,) * 30, law=lambda i, level, a: (level, a == i + 1))
    counts = plant.counts()
    counts.add(states, actions)                  # (B, 21, 30) and (B, 20), from a log or a simulator
    certificate = counts.certify(delta=0.1)
    certificate.evaluate(policy, reward)         # an interval for any policy of the joint state and any reward

**What it guarantees** (`docs/theory.md`, 15.7). With probability at least 1 - delta, for every policy of the joint state and
every reward r_h(s, a) in [0, 1] of the joint state at once, the value in the model in which every law is the empirical one is
within Phi = epsilon / 2 of the true value. `decoupled` computes Phi.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, log
from operator import index
from typing import Any, NamedTuple

import numpy as np

from .. import kernels
from .._checks import called
from ..setting import probability, real_number, shown, whole_number
from ..shared_laws import MOST_EDGES, draws_before
from ..words import assumed, confidence_level, up
from .betting import mean_interval
from .decoupled import Kind, behind, smallest_error
from .deviances import deviance_quantile
from .law_radii import law_radius, law_tv

FALSE_ALARM = 1e-6  # the probability of ever withdrawing a declaration that is true


class Factored:
    """States of parts that move independently, given their own values and the action, and where episodes start.

        # eight machines with three levels of wear; action 0 runs all, action i + 1 services machine i
        parts = anyreward.Factored([3] * 8, n_actions=9, horizon=10, start=[0] * 8,
                                   law=lambda i, wear, action: (wear, action == i + 1))
        counts = parts.counts()                         # then counts.add(states, actions), counts.certify()

    Parameters
    ----------
    sizes : sequence of int
        How many values each part has.
    n_actions : int
    horizon : int
        Steps of an episode.
    start : sequence of int
        The value of each part in which all episodes start.
    law : callable (i, values, a), optional
        The law of the next value of part i where the action is a and `values` is (its value,): any hashable value, the same where
        laws are the same. By default every part, value and action has a law of its own. It is an assumption that parts move
        independently of each other, and as this says.
    discount : float, default 1.0
        gamma: the reward of step h counts gamma^h.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        n_actions: int,
        horizon: int,
        start: Sequence[int],
        law: Callable[[int, tuple[int], int], Hashable] | None = None,
        discount: float = 1.0,
    ) -> None:
        try:
            self.sizes, self.start = tuple(map(index, sizes)), tuple(map(index, start))
        except TypeError:
            raise ValueError(f"sizes is {shown(sizes)} and start is {shown(start)}: lists of whole numbers are needed.") from None
        self.n_actions, self.horizon = whole_number(n_actions, "n_actions"), whole_number(horizon, "horizon")
        self.discount = real_number(discount, "discount")
        if not 0.0 < self.discount <= 1.0:
            raise ValueError(f"discount is {shown(discount)}: it has to be in (0, 1].")
        self.discounts = self.discount ** np.arange(max(1, self.horizon))
        if not self.sizes or min(self.sizes) < 1 or self.n_actions < 1 or self.horizon < 1:
            raise ValueError("sizes, n_actions and horizon have to be at least 1, and there has to be at least one part.")
        if len(self.start) != len(self.sizes) or any(not 0 <= s < n for s, n in zip(self.start, self.sizes, strict=True)):
            raise ValueError(f"start is {shown(start)}: it needs a value of each part, from 0 to its size - 1.")
        if sum(n * n for n in self.sizes) * self.n_actions > MOST_EDGES:
            raise ValueError(f"the parts have more than {MOST_EDGES:,} possible transitions, which are too many.")
        if law is not None and not callable(law):
            raise ValueError(f"law is {shown(law)}: it has to be a function of a part, its values and an action.")
        self.laws: dict[Hashable, int] = {}  # the number of each law
        self.outcomes: list[int] = []  # of each law
        self.keys = [np.zeros((n, self.n_actions), np.int64) for n in self.sizes]  # the law of each part, value and action
        for i, n in enumerate(self.sizes):
            for value in range(n):
                for a in range(self.n_actions):
                    where = f"the law of part {i} with value {value} and action {a}"
                    name = (i, (value,), a) if law is None else called(f"{where} fails", law, i, (value,), a)
                    if not isinstance(name, Hashable):
                        raise ValueError(f"{where} is {shown(name)}: it has to be hashable, such as a tuple.")
                    self.keys[i][value, a] = g = self.laws.setdefault(name, len(self.laws))
                    if g == len(self.outcomes):
                        self.outcomes.append(n)
                    elif self.outcomes[g] != n:
                        raise ValueError(
                            f"the law {shown(name)} is one of parts of {n} and of {self.outcomes[g]} values: parts that share a "
                            "law have equally many."
                        )
        self._kinds = self._grouped()

    def _grouped(self) -> list[Kind]:
        """The parts that need a backward pass of their own; parts that are alike in all respects need one together."""
        usual = []  # the column of laws that most actions have
        for keys in self.keys:
            columns, times = np.unique(keys, axis=1, return_counts=True)
            usual.append(columns[:, times.argmax()])
        unusual = np.array([(keys != column[:, None]).any(axis=0) for keys, column in zip(self.keys, usual, strict=True)])
        share = unusual / np.maximum(1, unusual.sum(axis=0))  # b_i(a), which sum to 1 at most
        many: dict[Any, int] = {}
        for i, keys in enumerate(self.keys):
            choices = sorted({(tuple(keys[:, a].tolist()), float(share[i, a])) for a in range(self.n_actions)})
            alike = (self.start[i], tuple(choices))
            many[alike] = many.get(alike, 0) + 1
        return [
            Kind(n, start, np.array([column for column, _ in choices]).T, np.array([b for _, b in choices]))
            for (start, choices), n in many.items()
        ]

    def counts(self, quotas: Mapping[Hashable, int] | None = None) -> FactoredCounts:
        """No counts yet, of episodes that are to come.

        Parameters
        ----------
        quotas : mapping from laws to int, optional
            How many draws of each law are counted, its first ones: calibrated bounds, which say nothing before all quotas are
            full, and then need a half to a third of the episodes. It has to be fixed before these draws; a law that is left out
            stays unknown.
        """
        return FactoredCounts(self, quotas)


class FactoredCounts:
    """How often each part went from each value, under each action, to each next value.

    Attributes
    ----------
    episodes : int
    moves : list of ndarray, (values, actions, values)
        Of each part.
    """

    def __init__(self, model: Factored, quotas: Mapping[Hashable, int] | None = None) -> None:
        self.model, self.episodes = model, 0
        self.moves = [np.zeros((n, model.n_actions, n), np.int64) for n in model.sizes]
        self._drawn = np.zeros((len(model.laws), max(model.sizes)), np.int64)  # the draws that count
        self._quota: np.ndarray | None = None
        if quotas is not None:
            if not isinstance(quotas, Mapping) or not all(law in model.laws for law in quotas):
                raise ValueError(f"quotas is {shown(quotas)}: it has to be a mapping from laws to their numbers of draws.")
            self._quota = np.zeros(len(model.laws), np.int64)
            for law, n in quotas.items():
                quota = whole_number(n, f"the quota of the law {shown(law)}")
                if not 0 <= quota < 2**53:
                    raise ValueError(f"the quota of the law {shown(law)} is {shown(n)}: it has to be from 0 to 2^53 - 1.")
                self._quota[model.laws[law]] = quota

    @property
    def seen(self) -> dict[Hashable, np.ndarray]:
        """How often each outcome of each law was counted."""
        return {law: self._drawn[g, : self.model.outcomes[g]].copy() for law, g in self.model.laws.items()}

    @property
    def full(self) -> bool:
        """Whether all quotas are full; True without quotas."""
        return self._quota is None or bool((self._drawn.sum(axis=1) >= self._quota).all())

    def add(self, states: Any, actions: Any) -> None:
        """Counts episodes, in the order in which they were played. Everything is checked before anything is counted.

        Parameters
        ----------
        states : array_like of int, (B, H+1, parts) or (H+1, parts)
        actions : array_like of int, (B, H) or (H,)
        """
        model = self.model
        m, H = len(model.sizes), model.horizon
        s, a = _whole(states, "states"), _whole(actions, "actions")
        s, a = (s[None], a[None]) if s.ndim == 2 and a.ndim == 1 else (s, a)
        if a.ndim != 2 or a.shape[1:] != (H,) or s.shape != (len(a), H + 1, m):
            raise ValueError(
                f"states have shape {s.shape} and actions {a.shape}: B episodes of horizon {H} with {m} parts have shapes "
                f"(B, {H + 1}, {m}) and (B, {H})."
            )
        wrong = (s < 0) | (s >= np.array(model.sizes))
        if wrong.any():
            b, h, i = np.argwhere(wrong)[0]
            raise ValueError(f"states[{b}, {h}, {i}] is {s[b, h, i]}: part {i} has values from 0 to {model.sizes[i] - 1}.")
        if ((a < 0) | (a >= model.n_actions)).any():
            raise ValueError(f"an action is outside 0 to {model.n_actions - 1}: {a.min()} or {a.max()}.")
        if (s[:, 0] != model.start).any():
            b = int((s[:, 0] != model.start).any(axis=1).argmax())
            raise ValueError(f"episode {b} starts in {shown(s[b, 0].tolist())}: all have to start in {shown(list(model.start))}.")
        law = np.stack([model.keys[i][s[:, :-1, i], a] for i in range(m)], axis=-1).reshape(-1)
        x = s[:, 1:].reshape(-1)  # both in the order of episodes, steps and parts
        if self._quota is not None:
            kept = draws_before(law) < (self._quota - self._drawn.sum(axis=1))[law]
            law, x = law[kept], x[kept]
        np.add.at(self._drawn, (law, x), 1)
        for i, moves in enumerate(self.moves):
            np.add.at(moves, (s[:, :-1, i], a, s[:, 1:, i]), 1)
        self.episodes += len(a)

    @property
    def log_evidence(self) -> float:
        """The logarithm of the e-value against the declaration that laws are shared: it tests this on all draws that were added.

        Whether parts move independently of each other is not tested.
        """
        from ..data.alarm import log_evidence_of  # with SciPy, which takes a while

        parts, model = [], self.model
        contexts: list[list[np.ndarray]] = [[] for _ in model.laws]
        for keys, moves in zip(model.keys, self.moves, strict=True):
            for g, N in zip(keys.reshape(-1), moves.reshape(-1, moves.shape[-1]), strict=True):
                contexts[g].append(N)
        for own in contexts:
            visited = [N for N in own if N.any()]
            if len(own) > 1 and len(own[0]) > 1:
                parts.append(log_evidence_of(np.array(visited), len(own) - len(visited)) if visited else 0.0)
        return float(np.logaddexp.reduce(parts) - log(len(parts))) if parts else -inf

    def certify(self, delta: float = 0.1) -> FactoredCertificate:
        """The certificate of these counts. With quotas, it says nothing before all of them are full.

        Parameters
        ----------
        delta : float, default 0.1
            The probability that it may be wrong.
        """
        model, q = self.model, np.zeros(self._drawn.shape)
        delta, n = probability(delta, "delta"), self._drawn.sum(axis=1)
        for g, K in enumerate(model.outcomes):
            q[g, :K] = self._drawn[g, :K] / n[g] if n[g] else 1.0 / K
        refuted = self.log_evidence >= -log(FALSE_ALARM)
        bound = float(behind(model.discounts)[0])
        if self.full and not refuted:
            bound = smallest_error(model._kinds, q, *self._radii(delta), model.horizon, model.discount)
        return FactoredCertificate(2.0 * bound, delta, model, self.episodes, self._quota is not None, refuted, q)

    def _radii(self, delta: float) -> tuple[np.ndarray, np.ndarray]:
        """The KL and total variation radius of every law."""
        estimated = np.array(self.model.outcomes) > 1
        if self._quota is not None:
            estimated &= self._quota > 0
        radii, tv = np.full(len(estimated), kernels.radii.NOTHING_KNOWN), np.ones(len(estimated))
        laws = max(1, int(estimated.sum()))
        for g, K in enumerate(self.model.outcomes):
            seen = self._drawn[g, :K].astype(float)
            if K == 1:
                radii[g] = tv[g] = 0.0
            elif estimated[g] and seen.any():
                fixed = self._quota is not None
                radii[g] = (
                    deviance_quantile(seen, delta / laws) / seen.sum() * (1 + 1e-14)
                    if fixed
                    else law_radius(seen, log(laws / delta))
                )
                tv[g] = law_tv(seen, radii[g])
        return radii, tv


class FactoredValue(NamedTuple):
    """The value of a policy: in the empirical model, estimated, and an interval for the true one."""

    lower: float
    value: float
    upper: float


@dataclass(frozen=True, eq=False)
class FactoredCertificate:
    """A proved epsilon for the empirical model of many parts, for every policy and every reward in [0, 1] at once.

    Attributes
    ----------
    epsilon : float
        Whatever is best in the empirical model is this close to optimal, in units of reward; values are within epsilon / 2.
    delta : float
        The probability that this may be false.
    model : Factored
    episodes : int
    calibrated : bool
        Whether amounts of draws were fixed beforehand (`Factored.counts`).
    refuted : bool
        Whether the data contradict the declaration: then it says nothing.
    laws : ndarray, (laws, outcomes)
        The empirical distribution of every law, uniform without data.
    """

    epsilon: float
    delta: float
    model: Factored
    episodes: int
    calibrated: bool
    refuted: bool
    laws: np.ndarray

    @property
    def says_nothing(self) -> bool:
        """Whether epsilon is trivial."""
        return self.epsilon >= self.model.discounts.sum()

    def evaluate(
        self,
        policy: Callable[[int, np.ndarray], Any],
        reward: Callable[[int, np.ndarray, np.ndarray], Any],
        episodes: int = 10_000,
        delta: float = 0.01,
        seed: int = 0,
    ) -> FactoredValue:
        """The value of a policy for a reward, from episodes of the empirical model; none are played in the environment.

        With probability at least 1 - self.delta - delta, the true value is between `lower` and `upper`. The first part is shared
        by all policies, the second is for this one, which must not depend on the simulated episodes.

        Parameters
        ----------
        policy : callable (h, states)
            The actions (B,) in joint states (B, parts) at step h.
        reward : callable (h, states, actions)
            What is paid for them, (B,), between 0 and 1.
        episodes : int, default 10,000
            How many are simulated.
        delta : float, default 0.01
            The probability that the simulation misses the value in the empirical model.
        seed : int, default 0
        """
        model, B = self.model, whole_number(episodes, "episodes")
        delta = probability(delta, "delta")
        if B < 1:
            raise ValueError(f"episodes is {B}: at least one has to be simulated.")
        rng, returns = np.random.default_rng(seed), np.zeros(B)
        states, steps = np.tile(np.array(model.start), (B, 1)), self.laws.cumsum(axis=1)
        last = np.array(model.outcomes) - 1
        for h in range(model.horizon):
            actions = _whole(policy(h, states.copy()), "the actions of the policy")
            if actions.shape != (B,) or ((actions < 0) | (actions >= model.n_actions)).any():
                raise ValueError(
                    f"the policy has to return {B} actions from 0 to {model.n_actions - 1}, at step {h} it does not."
                )
            paid = np.asarray(reward(h, states.copy(), actions), dtype=float)
            if paid.shape != (B,) or not ((paid >= 0.0) & (paid <= 1.0)).all():
                raise ValueError(f"the reward has to return {B} numbers from 0 to 1, not so at step {h}.")
            returns += model.discounts[h] * paid
            for i, keys in enumerate(model.keys):
                law = keys[states[:, i], actions]
                states[:, i] = np.minimum((rng.random(B)[:, None] >= steps[law]).sum(axis=1), last[law])
        H, m = model.horizon, len(model.sizes)
        most = float(model.discounts.sum())
        lower, upper = mean_interval(np.minimum(returns, most), delta, 0.0, most)
        # Sums of rewards, and probabilities of single outcomes, are rounded.
        slack = self.epsilon / 2 + 2.0**-50 * H * H * m * max(model.outcomes)
        return FactoredValue(max(0.0, lower - slack), float(returns.mean()), min(most, upper + slack))

    def __str__(self) -> str:
        model, kind = self.model, "calibrated" if self.calibrated else "tight"
        why = ": the data contradict the declaration" if self.refuted else ""
        horizon = f"horizon {model.horizon}" + ("" if model.discount == 1.0 else f", discount {model.discount:g}")
        return (
            f"epsilon {up(self.epsilon)}{f' (which says nothing{why})' if self.says_nothing else ''} with probability "
            f"{confidence_level(self.delta)}, any reward of a step, state and action in [0, 1], {horizon}, {kind} "
            f"bounds, {self.episodes:,} episodes{assumed(self.assumptions)}"
        )

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Everything that is assumed, as phrases."""
        model = self.model
        laws = "one law" if len(model.laws) == 1 else f"{len(model.laws):,} laws"
        said = [f"{len(model.sizes)} parts move independently, by {laws}, as declared"]
        alike = len(set(model.start)) == 1
        said += ["every episode starts " + (f"with all parts at {model.start[0]}" if alike else f"in {shown(list(model.start))}")]
        return (*said, "the quotas of laws were fixed before the counted samples") if self.calibrated else tuple(said)


def _whole(values: Any, name: str) -> np.ndarray:
    """An array of whole numbers as int64."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} are {array.dtype}: they have to be whole numbers.")
    return array.astype(np.int64)

"""Plans under constraints: the expected costs are certain to be within their limits.

For limits D_j on costs d_j, candidates are policies pi_i with certified lower values L_i of the reward and certified upper values
D_ij of the costs, all on one event. A linear program mixes them,

    max Σ_i α_i L_i   such that   Σ_i α_i D_ij <= c_j for all j,   Σ_i α_i = 1,  α >= 0,

and its multipliers mu make new candidates: the plans for r - Σ_j mu_j d_j (column generation). A mixture is drawn once an
episode. Its expected costs are certainly within the limits, and its value is certainly at least Σ α_i L_i, because both are
linear in α. Every mu >= 0 bounds the constrained optimum: V_up(r - Σ mu_j d_j) + Σ mu_j c_j (`docs/theory.md`, 17.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import fsum, inf, nextafter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..rewards.combining import combined, on_arrival, range_of
from ..rewards.forms import OWN, ArrivalReward, Reward, reward_of_setting
from ..setting import real_number, shown, whole_number
from ..words import assumed, confidence_level, down, exact, interval, up
from .plan import Interval, Plan
from .scoring import Scoring, scoring_of

if TYPE_CHECKING:
    from ..kernels.planning import Choice
    from .atlas import Atlas

ROUNDS = 40  # of column generation; most problems need fewer than ten
SIGNS = {"<=": 1.0, ">=": -1.0}


class Constraint(NamedTuple):
    """A limit on the expected sum of a cost in an episode: sign * cost <= sign * limit.

    Attributes
    ----------
    name : str
    sign : float
        1 for at most, -1 for at least.
    limit : float
    scoring : Scoring
        The cost as it is given.
    """

    name: str
    sign: float
    limit: float
    scoring: Scoring

    def __str__(self) -> str:
        return f"{self.name} {'<=' if self.sign > 0 else '>='} {exact(self.limit)}"


@dataclass(frozen=True, eq=False)
class ConstrainedPlan:
    """A plan whose expected costs are certain to be within their limits. `Atlas.plan` makes it of `subject_to`.

        plan = atlas.plan(reward, subject_to=[("action == 1", "<=", 18)])
        plan.draw(seed=0).act(observation, step)    # draw a policy when an episode begins, and play it to its end
        plan.run(env, episodes=100)                 # draws one for each episode

    It is one policy, or a mixture of few: when an episode begins, one of `plans` is drawn with the probabilities `weights`.
    On the certificate's event, together with everything else that is certified on it,

        the true expected sum of every cost, of the draw and of the episode together, is within its limit, and
        lower <= true value of the mixture <= the optimum under these constraints <= upper.

    The last inequality says something if some policy meets the constraints, as the plan does. What is certain is the *expected*
    cost: neither that of a single episode, nor that of one of the policies of a mixture.

    Attributes
    ----------
    plans : tuple of Plan
    weights : tuple of float
        They sum to one.
    value, lower, upper : float
        Of the reward: in the empirical model, and the certified bounds.
    costs : tuple of Interval
        The expected sum of each cost, with certified bounds.
    constraints : tuple of Constraint
    delta : float
    assumptions : tuple of str
    """

    plans: tuple[Plan, ...]
    weights: tuple[float, ...]
    value: float
    lower: float
    upper: float
    costs: tuple[Interval, ...]
    constraints: tuple[Constraint, ...]
    delta: float
    assumptions: tuple[str, ...]
    atlas: Atlas = field(repr=False)

    def __eq__(self, other: object) -> bool:
        """Whether both mix the same plans within the same limits, with the same bounds."""
        if not isinstance(other, ConstrainedPlan):
            return NotImplemented
        mine, theirs = (
            (it.plans, it.weights, it.value, it.lower, it.upper, it.costs, [c[:3] for c in it.constraints], it.assumptions)
            for it in (self, other)
        )
        paid = zip(self.constraints, other.constraints, strict=False)
        return mine == theirs and self.delta == other.delta and all(a.scoring.pays_as(b.scoring) for a, b in paid)

    __hash__ = None  # type: ignore[assignment]

    @property
    def regret_bound(self) -> float:
        """The largest possible difference between the optimum under the constraints and the value of the plan."""
        return self.upper - self.lower

    def draw(self, seed: int | np.random.Generator = 0) -> Plan:
        """The policy to play in an episode, drawn with the probabilities `weights`. Draw again for the next episode.

        Example:

            plan = atlas.plan(reward, subject_to=[("action == 1", "<=", 18)])
            action = plan.draw(seed=0).act(observation, step=0)
        """
        rng = np.random.default_rng(seed)
        return self.plans[int(rng.choice(len(self.plans), p=self.weights))]

    def run(self, env: Any, episodes: int = 1, *, reward: Any = None, seed: int = 0, **adapter: Any) -> np.ndarray:
        """Plays the plan, drawing a policy for each episode, and returns what was earned in each; arguments as for `Plan.run`.

        Example:

            atlas.plan(reward, subject_to=[("action == 1", "<=", 18)]).run(env, episodes=100)
        """
        episodes = whole_number(episodes, "episodes")
        if episodes < 0:
            raise ValueError(f"episodes is {episodes}: it cannot be negative.")
        which = np.random.default_rng([whole_number(seed, "seed"), len(self.plans)]).choice(
            len(self.plans), size=episodes, p=self.weights
        )
        earned = np.zeros(episodes)
        for i, plan in enumerate(self.plans):
            mine = which == i
            earned[mine] = plan.run(env, int(mine.sum()), reward=reward, seed=seed + i, **adapter)
        return earned

    def _repr_html_(self) -> str:
        from ..pages import result_card

        return result_card(self)

    def __str__(self) -> str:
        sure = f"{interval(self.lower, self.upper)} with probability {confidence_level(self.delta)}"
        many = "one policy" if len(self.plans) == 1 else f"a mixture of {len(self.plans)} policies"
        within = "; ".join(
            f"{interval(cost.lower, cost.upper)} for {constraint}"
            for cost, constraint in zip(self.costs, self.constraints, strict=True)
        )
        return f"ConstrainedPlan(value {self.value:.4g} in {sure}, {many}, expected costs in {within}{assumed(self.assumptions)})"

    __repr__ = __str__


def refuse_constrained(*plans: Any) -> None:
    """Raises if one of these is a `ConstrainedPlan`, where a single policy is needed."""
    if any(isinstance(plan, ConstrainedPlan) for plan in plans):
        raise ValueError(
            "this is a plan under constraints, which may be a mixture: give one of its plans, each of which is a policy."
        )


class Candidate(NamedTuple):
    """A policy with what is certified of it: its plan for the reward, and the interval of each cost."""

    plan: Plan
    costs: tuple[Interval, ...]
    most: tuple[float, ...]  # the certified upper value of each sign * cost


class Constrained:
    """Planning for one reward under constraints."""

    def __init__(self, atlas: Atlas, scoring: Scoring, constraints: Sequence[Constraint]) -> None:
        self.atlas, self.scoring, self.constraints = atlas, scoring, tuple(constraints)
        self.scales = np.array([max(abs(c.scoring.lowest), abs(c.scoring.highest), 1e-9) for c in constraints])
        # Limits far beyond all that a cost can be say the same as nearer ones, and linear programs can do with these.
        self.limits = np.clip([c.sign * c.limit for c in constraints], -2 * self.scales, 2 * self.scales)
        self.candidates: list[Candidate] = []
        self.upper = self.optimum = inf  # of the value under the constraints, and without them

    def plan(self) -> ConstrainedPlan:
        """The best certified mixture that column generation finds. Raises if no policy can be certified to be within limits."""
        self._add(np.zeros(len(self.limits)), 1.0)
        for j in range(len(self.limits)):
            self._add(np.eye(len(self.limits))[j], 0.0)
        self._meet()
        for _ in range(ROUNDS):
            mu = self._mixed()[1]
            before = len(self.candidates), self.upper
            self._add(mu, 1.0)
            if (len(self.candidates), self.upper) == before:
                break
        return self._made(self._mixed()[0])

    def _add(self, mu: np.ndarray, share: float) -> None:
        """Adds the plans for share * r - Σ mu_j sign_j d_j, the plain and the cautious one, and improves the upper bound."""
        factors = [share, *(-mu * [c.sign for c in self.constraints])]
        rewards = [self.scoring.pays.average, *(c.scoring.pays.average for c in self.constraints)]
        setting = self.atlas.counts.setting
        r = combined(factors, rewards, (setting.horizon, setting.n_outcomes, setting.n_actions))
        scoring = scoring_of(self.atlas, r, range_of(r))
        made = [self.atlas._plan(scoring, cautious, False) for cautious in (False, True)]
        if share == 1.0:
            bound = min(plan.upper for plan in made) + fsum(mu * self.limits)
            self.upper = min(self.upper, bound + 1e-12 * (abs(bound) + float(mu @ self.scales)))
            self.optimum = self.upper if not mu.any() else self.optimum
        for plan in made:
            if not any(plan._plays_as(c.plan) for c in self.candidates):
                self.candidates.append(self._candidate(plan.choice))

    def _candidate(self, policy: Choice) -> Candidate:
        atlas, delta = self.atlas, self.atlas.certificate.delta
        low, value, high = atlas._evaluate(policy, self.scoring)
        said = atlas._assumptions(self.scoring)
        costs = tuple(Interval(*atlas._evaluate(policy, c.scoring), delta, said) for c in self.constraints)
        most = tuple(cost.upper if c.sign > 0 else -cost.lower for cost, c in zip(costs, self.constraints, strict=True))
        return Candidate(Plan(policy, value, low, high, self.scoring.reward_range, delta, said, atlas, self.scoring), costs, most)

    @property
    def _most(self) -> np.ndarray:
        """The certified upper values of all candidates, (J, I)."""
        return np.array([c.most for c in self.candidates]).T

    def _meet(self) -> None:
        """Adds candidates until some mixture is within all limits. Raises if none is found."""
        from scipy.optimize import linprog

        for _ in range(ROUNDS):
            D = self._most
            best = linprog(
                [0.0] * D.shape[1] + [1.0],
                np.column_stack([D / self.scales[:, None], -np.ones(len(D))]),
                self.limits / self.scales,
                [[1.0] * D.shape[1] + [0.0]],
                [1.0],
                [(0, None)] * D.shape[1] + [(None, None)],
            )
            if best.x[-1] <= -1e-9:
                return
            before = len(self.candidates)
            self._add(-np.asarray(best.ineqlin.marginals) / self.scales, 0.0)
            if len(self.candidates) == before:
                break
        if best.x[-1] <= 0 and self._safe(best.x[:-1]) is not None:
            return
        alone = [(c, float(D[j].min())) for j, c in enumerate(self.constraints)]
        said = [
            f"{'the smallest' if c.sign > 0 else 'the largest'} {c.name} that can be certified is "
            f"{up(least) if c.sign > 0 else down(-least)}"
            for c, least in alone
        ]
        impossible = [text for text, (c, least) in zip(said, alone, strict=True) if least > c.sign * c.limit]
        if impossible:
            raise ValueError(f"no plan can be certified to meet subject_to: {', and '.join(impossible)}; explore further.")
        raise ValueError(f"no plan was found that is certain to meet all of subject_to at once: {', '.join(said)}, each alone.")

    def _safe(self, weights: np.ndarray) -> np.ndarray | None:
        """Weights that sum to one without the tiny ones, if they are within all limits in spite of rounding; otherwise None."""
        weights = np.where(weights > 1e-9, weights, 0.0)
        weights = weights / fsum(weights)
        return weights if all(self._cost(weights, j) <= self.limits[j] for j in range(len(self.limits))) else None

    def _cost(self, weights: np.ndarray, j: int) -> float:
        """The certified upper value of sign * cost j of a mixture, rounded up."""
        terms = weights * self._most[j]
        return nextafter(fsum(terms) + 4e-16 * float(np.abs(terms).sum()), inf) if (weights > 0).sum() > 1 else fsum(terms)

    def _mixed(self) -> tuple[np.ndarray, np.ndarray]:
        """The best weights of the candidates so far, within all limits, and the multipliers of the limits."""
        from scipy.optimize import linprog

        D, L = self._most, np.array([c.plan.lower for c in self.candidates])
        mu, found = np.zeros(len(D)), []
        for margin in (0.0, 1e-12, 1e-10, 1e-8, 1e-6):
            limits = self.limits / self.scales - margin
            best = linprog(-L, D / self.scales[:, None], limits, np.ones((1, len(L))), [1.0])
            if best.x is None:
                continue
            if margin == 0.0:
                mu = np.maximum(0.0, -np.asarray(best.ineqlin.marginals)) / self.scales
            weights = self._safe(best.x)
            if weights is not None:
                found.append(weights)
                break
        pure = [i for i in range(len(L)) if (D[:, i] <= self.limits).all()]
        if pure:  # one policy rather than a mixture that is no better
            found.append(np.eye(len(L))[max(pure, key=lambda i: L[i])])
        if not found:
            raise ValueError(
                "subject_to can only just be met: no mixture is within all limits in spite of rounding; allow a little more."
            )
        return max(reversed(found), key=lambda w: float(w @ L)), mu

    def _made(self, weights: np.ndarray) -> ConstrainedPlan:
        chosen = np.flatnonzero(weights)
        parts, w = [self.candidates[i] for i in chosen], weights[chosen]

        def mean(values: Sequence[float], sign: float = 0.0) -> float:
            """The average, moved outward by `sign` times its rounding."""
            if len(values) == 1:
                return float(values[0])
            return fsum(w * values) + sign * 4e-16 * float(np.abs(w * values).sum())

        delta, costs = self.atlas.certificate.delta, []
        for j, c in enumerate(self.constraints):
            low, middle, high = (mean([part.costs[j][k] for part in parts], k - 1.0) for k in range(3))
            costs.append(Interval(low, middle, high, delta, self.atlas._assumptions(c.scoring)))
        plans = [part.plan for part in parts]
        lower, value = mean([p.lower for p in plans], -1.0), mean([p.value for p in plans])
        upper = max(lower, self.upper)
        plans = [replace(p, upper=max(p.lower, self.optimum)) for p in plans]
        said = self.atlas._assumptions(self.scoring)
        return ConstrainedPlan(
            tuple(plans), tuple(map(float, w)), value, lower, upper, tuple(costs), self.constraints, delta, said, self.atlas
        )


def plan_subject_to(atlas: Atlas, reward: Reward, reward_range: tuple[float, float] | None, subject_to: Any) -> ConstrainedPlan:
    """See `Atlas.plan`."""
    given = [given_constraint(i, entry) for i, entry in enumerate(as_entries(subject_to))]
    setting, numbering = atlas.counts.setting, atlas.numbering
    scoring = scoring_of(atlas, reward, reward_range)
    if scoring.own:
        raise ValueError("subject_to is for rewards that are given: leave it out, or give the reward instead of 'own'.")
    r = scoring.pays.average
    costs = [reward_of_setting(cost, setting, None, numbering) for _, cost, _, _ in given]
    if any(isinstance(x, ArrivalReward) for x in (r, *costs)):  # one event for all of them: that of rewards on arrival
        shape = setting.horizon, setting.n_outcomes, setting.n_actions
        scoring = scoring_of(atlas, on_arrival(r, shape), reward_range)
        costs = [on_arrival(cost, shape) for cost in costs]
    constraints = [
        Constraint(name, SIGNS[sign], limit, scoring_of(atlas, cost, range_of(cost)))
        for (name, _, sign, limit), cost in zip(given, costs, strict=True)
    ]
    return Constrained(atlas, scoring, constraints).plan()


def as_entries(subject_to: Any) -> list[Any]:
    """The constraints as a list of at least one."""
    if not isinstance(subject_to, list | tuple) or not subject_to:
        raise ValueError(f"subject_to is {shown(subject_to)}: it has to be a list such as [(cost, '<=', 3.0)].")
    return list(subject_to)


def given_constraint(i: int, entry: Any) -> tuple[str, Reward, str, float]:
    """Name, cost, sign and limit of a constraint."""
    if not isinstance(entry, tuple | list) or len(entry) != 3 or not isinstance(entry[1], str) or entry[1] not in SIGNS:
        raise ValueError(f"subject_to[{i}] is {shown(entry)}: it has to be (cost, '<=', limit) or (cost, '>=', limit).")
    cost, sign, limit = entry[0], entry[1], real_number(entry[2], f"the limit of subject_to[{i}]")
    if not np.isfinite(limit):
        raise ValueError(f"the limit of subject_to[{i}] is {limit}: it has to be a finite number.")
    if isinstance(cost, str) and cost == OWN:
        raise ValueError(f"the cost of subject_to[{i}] is 'own': give the cost itself, as an expression, an array or a function.")
    return cost if isinstance(cost, str) else f"cost {i + 1}", cost, sign, limit

"""What makes the interval of a plan wide: `Atlas.explain`.

Let pi_up be the policy that is best in the most favourable models of the balls, p_up their laws, and pi the plan, p_lo the least
favourable laws for it. Along trajectories of the empirical model, until the first row without data,

    V_up - V^pi_up = E^pi_up sum_h gamma^h (p_up - p_hat) V_up_{h+1} (s_h, a_h)
    V^pi - V_lo    = E^pi    sum_h gamma^h (p_hat - p_lo) V_lo_{h+1} (s_h, a_h)

where V^pi is the value in the empirical model; at a row without data, all that may follow is charged to it. Every term is at
least 0 and belongs to one row: what that row adds to the interval. The width of the interval is the sum of all charges less
V^pi - V^pi_up, by how much the plan is better than pi_up in the empirical model (`docs/theory.md`, 20.4).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from ..certificates.law_radii import law_radii
from ..planning import each_action
from ..rewards.forms import ArrivalReward, paid
from ..words import up
from .plan import Plan
from .scoring import LEAST, MOST

if TYPE_CHECKING:
    from ..certificates.intervals import Robust
    from ..kernels.planning import Choice
    from .atlas import Atlas
    from .scoring import Scoring

SHOWN = 10  # charges in the text
LONGEST = 1e15  # more episodes than anybody will play


@dataclass(frozen=True)
class Charge:
    """What one row adds to the width of an interval.

    Attributes
    ----------
    what : str
        The row in words, with the names of its state and action, or of its law.
    step, state, action : int or None
        The row. The step is None where steps are pooled; all are None for a law and for the initial state.
    law : str or None
        The law, with a declared structure.
    charge : float
        In units of the reward.
    share : float
        The same as a share of all charges.
    visits : int
        How often it was observed.
    """

    what: str
    step: int | None
    state: int | None
    action: int | None
    law: str | None
    charge: float
    share: float
    visits: int


@dataclass(frozen=True)
class Explanation:
    """What makes the interval of a plan wide, and what would make it narrow.

        found = atlas.explain(reward)
        found.charges[0]                                # the law that widens the interval most
        found.episodes_to_halve

    Attributes
    ----------
    plan : Plan
        The plan, whose `regret_bound` is the width that is certified.
    width : float
        The width of the interval of robust planning. The certified one is narrower where another bound cuts it off.
    gained : float
        By how much the plan is better in the empirical model than the policy that might be best: the charges add up to `width`
        and this.
    charges : tuple of Charge
        The largest first. Rows that add nothing are left out.
    episodes_to_halve : float or None
        A forecast, not a guarantee: about how many further episodes that are explored for this reward would halve the width;
        None if that is not in sight. It is low where data are thin, since other policies then come to matter.
    """

    plan: Plan = field(repr=False)
    width: float
    gained: float
    charges: tuple[Charge, ...]
    episodes_to_halve: float | None

    def _repr_html_(self) -> str:
        from ..pages import result_card

        return result_card(self)

    def __str__(self) -> str:
        head = f"the interval of the plan is {up(self.plan.regret_bound)} wide"
        if self.plan.regret_bound < 0.99 * self.width:
            head += f" ({up(self.width)} by robust planning, of which the following speaks)"
        lines = [f"{head}; what makes it wide:"]
        for one in self.charges[:SHOWN]:
            seen = "never seen" if one.visits == 0 else f"seen {one.visits:,} time{'s' if one.visits > 1 else ''}"
            lines.append(f"{one.share:6.1%}  {one.what}, {seen}")
        rest = self.charges[SHOWN:]
        if rest:
            lines.append(f"{sum(one.share for one in rest):6.1%}  {len(rest):,} others")
        if not self.charges:
            lines.append("   nothing")
        n = self.episodes_to_halve
        about = "none yet" if n is None else f"about {n:.2g} more episodes (a low estimate)"
        lines.append(f"forecast: {about} for half of that, explored for this reward")
        return "\n".join(lines)

    def to_pandas(self) -> Any:
        """The charges as a pandas data frame with one row for each.

        Example:

            atlas.explain(reward).to_pandas().head()
        """
        try:
            import pandas as pd
        except ImportError:
            raise ValueError("pandas is not installed: pip install pandas.") from None
        return pd.DataFrame([vars(one) for one in self.charges], columns=list(Charge.__dataclass_fields__))


def explain(atlas: Atlas, plan: Plan) -> Explanation:
    """What makes the interval of a plan wide; see `Atlas.explain`."""
    scoring, counts, model = plan.scoring, atlas.counts, atlas._model
    setting = counts.setting
    if scoring.own:
        raise ValueError("reward is 'own', which is only observed: explain a reward that is given.")
    robust = kernels.robust
    most, least = atlas._robust(scoring, MOST), atlas._robust(scoring, LEAST)
    rows, start, values, ends = [], 0.0, [], []
    for sign, ball, policy in ((1.0, most, most.chosen(robust.UPPER)), (-1.0, least, plan._extended)):
        charged, V, mean = charges_of(atlas, scoring, ball, sign, policy)
        rows.append(charged)
        values.append(float(model.initial @ mean))
        ends.append(ball._start(V[None], sign))
        if setting.estimates_start:
            start += max(0.0, sign * ends[-1] - sign * float(model.initial @ V))
    found = sorted(rows_of(atlas, np.concatenate(rows, axis=1), start), key=lambda row: -row[5])
    total = sum(charge for *_, charge, _, _ in found)
    charges = [Charge(what, step, s, a, law, charge, charge / total, int(n)) for what, step, s, a, law, charge, n, _ in found]
    forecast = episodes_to_halve(np.array([(charge, n, d) for *_, charge, n, d in found]).reshape(-1, 3))
    return Explanation(plan, ends[0] - ends[1], values[1] - values[0], tuple(charges), forecast)


def charges_of(
    atlas: Atlas, scoring: Scoring, ball: Robust, sign: float, policy: Choice
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is charged to each row where a policy gets in the empirical model, for the upper (1) or the lower (-1) end.

    Five rows of numbers: step, state, action, charge and probability. Also V of the first step, in the extreme model and in the
    empirical one.
    """
    setting, model, average = atlas.counts.setting, atlas._model, scoring.pays.average
    N, A, H, gamma = setting.n_outcomes, setting.n_actions, setting.horizon, setting.discount
    pay = model.pay(average, H) if isinstance(average, ArrivalReward) else paid(average)
    absorbing = np.zeros(N, bool)
    absorbing[atlas.counts.stays()] = True
    gets, mass = [], model.initial
    for h, actions in enumerate(each_action(policy, H, N, A)):
        s = np.flatnonzero(mass)
        a, here = actions[s], mass[s]
        seen = model.is_seen_at(h, s, a)
        gets.append((s, a, here, seen))
        goes_on = np.zeros(N)
        goes_on[s] = np.where(seen | absorbing[s], here, 0.0)
        mass = model.push(h, goes_on, actions)
    V_next, mean_next, found = np.zeros(N), np.zeros(N), []
    for (h, V), (_, mean) in zip(ball.each(sign, policy), atlas._induct(scoring, policy).each(), strict=True):
        s, a, here, seen = gets[h]
        stands = np.where(seen, model.expect_at(h, V_next, s, a), model.expect_at(h, mean_next, s, a))
        each = sign * (V[s] - model.pay_at(pay, h, s, a) - gamma * stands)
        charge = gamma**h * here * np.where(absorbing[s], 0.0, np.maximum(0.0, each))
        found.append(np.stack([np.full(len(s), float(h)), s, a, charge, here]))
        V_next, mean_next = V, mean  # a reward that is given has no base
    return np.concatenate(found, axis=1), V_next, mean_next


Row = tuple[str, int | None, int | None, int | None, str | None, float, float, float]


def rows_of(atlas: Atlas, charged: np.ndarray, start: float) -> list[Row]:
    """What is charged to each row: its words, step, state, action and law, the charge, how often it was and would be visited.

    Rows that are charged nothing, up to rounding, are left out.
    """
    setting, counts = atlas.counts.setting, atlas.counts
    S, A = setting.n_states, setting.n_actions
    charged = charged[:, charged[1] < S]
    pooled = setting.stationary if setting.structure is None else not counts.shared.laws.step_dependent
    step, state, action = charged[:3].astype(np.int64)
    keys, which = np.unique(((0 if pooled else step) * S + state) * A + action, return_inverse=True)
    charges = np.bincount(which, charged[3], len(keys))
    visits = np.bincount(which, charged[4], len(keys)) / 2  # half of the further episodes for either policy
    least = 1e-12 * (charges.sum() + start)
    rows: list[Row] = []
    if start > least:
        rows.append(("the initial state", None, None, None, None, start, float(counts.episodes), 1.0))
    if setting.structure is not None:
        return rows + laws_of(atlas, keys, charges, visits, least)
    keys, charges, visits = (x[charges > least] for x in (keys, charges, visits))
    h, s, a = keys // (S * A), keys // A % S, keys % A
    for row in zip(*(x.tolist() for x in (h, s, a, charges, counts.visits_of(h, s, a), visits)), strict=True):
        at = "" if setting.stationary else f"at step {row[0]}, "
        what = f"{at}{atlas.called(row[1])}, action {atlas.action_name(row[2])}"
        rows.append((what, None if setting.stationary else row[0], row[1], row[2], None, row[3], float(row[4]), row[5]))
    return rows


def laws_of(atlas: Atlas, pairs: np.ndarray, charge: np.ndarray, visit: np.ndarray, least: float) -> list[Row]:
    """`rows_of` for the laws of a declared structure: the charge of each of some pairs is divided among its laws like its radius.

    Laws without data share the charges of their pairs equally.
    """
    shared = atlas.counts.shared
    laws, t = shared.laws, shared.tables
    radius = np.append(law_radii(atlas.counts, 1.0)[0], 0.0)
    blank = np.append(~shared.has_data | shared.refuted, False)
    drawn = laws.law_of[pairs]
    weight = np.where(blank[drawn].any(axis=1, keepdims=True), blank[drawn].astype(float), radius[drawn]) * (drawn >= 0)
    sums = weight.sum(axis=1, keepdims=True)
    weight = np.divide(weight, sums, out=np.zeros_like(weight), where=sums > 0)
    each, often = np.zeros(len(shared.n) + 1), np.zeros(len(shared.n) + 1)
    np.add.at(each, drawn, charge[:, None] * weight)
    np.add.at(often, drawn, visit[:, None] * t.revealed[pairs])
    return [
        (f"the law {laws.names[g]}", None, None, None, laws.names[g], float(each[g]), float(shared.n[g]), float(often[g]))
        for g in np.flatnonzero(each[:-1] > least).tolist()
    ]


def episodes_to_halve(rows: np.ndarray) -> float | None:
    """After about how many episodes charges, (M, 3) rows of charge, visits so far and visits an episode, are half as large.

    A charge falls like the square root of the visits.
    """
    if not len(rows):
        return None
    charge, n, more = rows.T
    n = np.maximum(n, 1.0)

    def left(episodes: float) -> float:
        return float((charge * np.sqrt(n / (n + episodes * more))).sum())

    low, high, half = 0.0, 1.0, charge.sum() / 2
    while left(high) > half:
        low, high = high, 2 * high
        if high > LONGEST:
            return None
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if left(middle) > half else (low, middle)
    return high

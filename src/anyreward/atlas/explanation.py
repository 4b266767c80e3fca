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
from ..planning import as_array
from ..rewards.forms import ArrivalReward
from ..words import up
from .plan import Plan
from .scoring import LEAST, MOST

if TYPE_CHECKING:
    from .atlas import Atlas

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
    setting, average = counts.setting, plan.scoring.pays.average
    if scoring.own:
        raise ValueError("reward is 'own', which is only observed: explain a reward that is given.")
    N, A, H, gamma = setting.n_outcomes, setting.n_actions, setting.horizon, setting.discount
    most, least = atlas._robust(scoring, MOST), atlas._robust(scoring, LEAST)
    robust = kernels.robust
    V_up, Q_up, *_ = most.sweep(robust.UPPER, V=H + 1, Q=H)
    optimistic = Q_up.argmax(axis=2)
    policy = as_array(plan._extended, N, A)
    V_lo, Q_lo, *_ = least.sweep(robust.LOWER, policy, V=H + 1, Q=H)
    pay = average if not isinstance(average, ArrivalReward) else model.dense_pay(average, H)
    absorbing = np.isin(np.arange(N), counts.stays())
    known = np.broadcast_to(atlas._seen | absorbing[:, None], (H, N, A))
    charges, visits = np.zeros((H, N, A)), np.zeros((H, N, A))
    everywhere, start, values = np.arange(N), 0.0, []
    for sign, pi, Q, V in ((1.0, optimistic, Q_up, V_up), (-1.0, policy, Q_lo, V_lo)):
        mean = atlas._induct(scoring, pi).V  # a reward that is given has no base
        values.append(float(model.initial @ mean[0]))
        if setting.estimates_start:
            start += max(0.0, sign * (most if sign > 0 else least)._start(V, sign) - sign * float(model.initial @ V[0]))
        mass = model.initial.copy()
        for h in range(H):
            here, seen = (h, everywhere, pi[h]), known[h, everywhere, pi[h]] & ~absorbing
            stands = pay[h] + gamma * model.expect(h, V[h + 1])
            without = sign * (Q[here] - (pay[h] + gamma * model.expect(h, mean[h + 1]))[everywhere, pi[h]])
            each = np.where(seen, sign * (Q[here] - stands[everywhere, pi[h]]), np.where(absorbing, 0.0, without))
            charges[here] += gamma**h * mass * np.maximum(0.0, each)
            visits[here] += mass / 2  # half of the further episodes for either policy
            mass = model.push(h, np.where(seen | absorbing, mass, 0.0), pi[h])
    width = most._start(V_up, robust.UPPER) - least._start(V_lo, robust.LOWER)
    rows = rows_of(atlas, charges, visits, start)
    total = sum(charge for *_, charge, _, _ in rows)
    found = [
        Charge(what, step, s, a, law, charge, charge / total, int(n))
        for what, step, s, a, law, charge, n, _ in sorted(rows, key=lambda row: -row[5])
    ]
    forecast = episodes_to_halve(np.array([(charge, n, d) for *_, charge, n, d in rows]).reshape(-1, 3))
    return Explanation(plan, width, values[1] - values[0], tuple(found), forecast)


Row = tuple[str, int | None, int | None, int | None, str | None, float, float, float]


def rows_of(atlas: Atlas, charges: np.ndarray, visits: np.ndarray, start: float) -> list[Row]:
    """What is charged to each row: its words, step, state, action and law, the charge, how often it was and would be visited.

    Rows that are charged nothing, up to rounding, are left out.
    """
    setting, counts = atlas.counts.setting, atlas.counts
    S = setting.n_states
    charges, visits = charges[:, :S], visits[:, :S]
    least = 1e-12 * (charges.sum() + start)
    rows: list[Row] = []
    if start > least:
        rows.append(("the initial state", None, None, None, None, start, float(counts.episodes), 1.0))
    if setting.structure is not None:
        return rows + laws_of(atlas, charges, visits, least)
    if setting.stationary:
        charges, visits = charges.sum(axis=0, keepdims=True), visits.sum(axis=0, keepdims=True)
    n = counts.n().reshape(charges.shape)
    for h, s, a in np.argwhere(charges > least).tolist():
        at = "" if setting.stationary else f"at step {h}, "
        what = f"{at}{atlas.called(s)}, action {atlas.action_name(a)}"
        step = None if setting.stationary else h
        rows.append((what, step, s, a, None, float(charges[h, s, a]), float(n[h, s, a]), float(visits[h, s, a])))
    return rows


def laws_of(atlas: Atlas, charges: np.ndarray, visits: np.ndarray, least: float) -> list[Row]:
    """`rows_of` for the laws of a declared structure: each pair's charge is divided among its laws like its radius.

    Laws without data share the charges of their pairs equally.
    """
    shared = atlas.counts.shared
    laws, t = shared.laws, shared.tables
    charge, visit = ((x if laws.step_dependent else x.sum(axis=0)).reshape(-1) for x in (charges, visits))
    radius = np.append(law_radii(atlas.counts, 1.0)[0], 0.0)
    blank = np.append(~shared.has_data | shared.refuted, False)
    drawn = laws.law_of
    weight = np.where(blank[drawn].any(axis=1, keepdims=True), blank[drawn].astype(float), radius[drawn]) * (drawn >= 0)
    sums = weight.sum(axis=1, keepdims=True)
    weight = np.divide(weight, sums, out=np.zeros_like(weight), where=sums > 0)
    each, often = np.zeros(len(shared.n) + 1), np.zeros(len(shared.n) + 1)
    np.add.at(each, drawn, charge[:, None] * weight)
    np.add.at(often, drawn, visit[:, None] * t.revealed)
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

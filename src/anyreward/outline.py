"""What a plan does, in a few lines: the states that matter first, equal stretches of steps merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .atlas.atlas import Atlas
    from .atlas.plan import Plan

THIN = 20  # an action that was seen fewer times in a state is marked: its consequences are little known
ANY = -1  # stands for an action where all are equally good
ARROWS = {
    "left": "←", "right": "→", "up": "↑", "down": "↓", "west": "←", "east": "→", "north": "↑", "south": "↓",
    "stay": "○", "wait": "○", "noop": "○", "no-op": "○",
}  # fmt: skip


class Stretch(NamedTuple):
    """Steps at which a plan does the same in one state.

    Attributes
    ----------
    first, last : int
        The first and the last step.
    action : int
        `ANY` if all actions that were seen there are equally good in the empirical model.
    seen : int
        How often the action was seen in the state, at the step at which it was seen least.
    thin : bool
        Whether the plan relies on few data there (`is_thin`).
    """

    first: int
    last: int
    action: int
    seen: int
    thin: bool

    @property
    def steps(self) -> str:
        """The steps in words: "step 3", "steps 0–12"."""
        return f"step {self.first}" if self.first == self.last else f"steps {self.first}–{self.last}"


class Line(NamedTuple):
    """What a plan does in one state.

    Attributes
    ----------
    state : int
    time : float
        The expected number of steps of an episode that the plan spends there, in the empirical model.
    stretches : tuple of Stretch
        What it does at the steps at which it may get there; for a state in which it never gets, at the steps at which the state
        was visited.
    """

    state: int
    time: float
    stretches: tuple[Stretch, ...]


class Outline:
    """What a plan does in every state in which it may get, or that was visited.

    Attributes
    ----------
    states : list of int
        Those states; first those in which the plan spends most time, then those that were visited most.
    going : int
        The number of those in which the plan may get, in the empirical model. They come first.
    """

    def __init__(self, plan: Plan) -> None:
        counts, self._plan = plan.atlas.counts, plan
        self._time = np.zeros(counts.setting.n_states)
        for _, reach in plan.each_reach():
            self._time += reach[: len(self._time)]
        relevant = self._time > 0
        relevant[met(plan)[1]] = True
        if counts.setting.terminal == "end":  # nothing is played after an episode has terminated
            relevant[-1] = False
        order = np.lexsort((-counts.state_visits(), -self._time))
        self.states = order[relevant[order]].tolist()
        self.going = int((self._time[self.states] > 0).sum())

    def lines(self, start: int = 0, stop: int | None = None) -> list[Line]:
        """The lines of some of the states, from the one in place `start` to the one before `stop`."""
        states = np.array(self.states[start:stop], int)
        time, stretches = self._time[states].tolist(), self._stretches(states)
        return [Line(s, spent, parts) for s, spent, parts in zip(states.tolist(), time, stretches, strict=True)]

    def time_in(self, start: int, stop: int) -> float:
        """The time that the plan spends in those states, in expected steps of an episode."""
        return float(self._time[self.states[start:stop]].sum())

    def _stretches(self, states: np.ndarray) -> list[tuple[Stretch, ...]]:
        """For some states the steps that matter there, with equal actions merged."""
        plan, setting = self._plan, self._plan.atlas.counts.setting
        H, S, K = setting.horizon, setting.n_states, len(states)
        reach, policy = np.zeros((H, K)), np.zeros((H, K), int)
        for h, mass in plan.each_reach():
            reach[h] = mass[states]
        for h, played in enumerate(plan.each_action()):
            policy[h] = played[states]
        place = np.full(S, K)
        place[states] = np.arange(K)
        visited = np.zeros((H, K + 1), bool)
        steps, where = met(plan)
        visited[slice(None) if setting.stationary else steps, place[where]] = True
        relevant = np.where(self._time[states] > 0, reach > 0, visited[:, :K])
        actions = np.where(plan.indifferent_in(states), ANY, policy)
        seen = plan.atlas.counts.visits_of(np.arange(H)[:, None], states, policy)
        thin = (seen < THIN) & np.array([unknown[states] for _, unknown in each_unknown(plan)])[::-1]
        found = []
        for k in range(K):
            steps = np.flatnonzero(relevant[:, k])
            starts = np.flatnonzero(np.diff(actions[steps, k], prepend=ANY - 1))
            found.append(
                tuple(
                    Stretch(
                        int(part[0]),
                        int(part[-1]),
                        int(actions[part[0], k]),
                        int(seen[part, k].min()),
                        bool(thin[part, k].any()),
                    )
                    for part in np.split(steps, starts[1:])
                )
            )
        return found


def met(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """The steps and states at which an action was seen; all steps are 0 if transitions are stationary."""
    columns = plan.atlas.counts.columns()
    moves = (columns["h"] >= 0) & (columns["s"] < plan.atlas.counts.setting.n_states)
    return columns["h"][moves], columns["s"][moves]


def each_unknown(plan: Plan) -> Iterator[tuple[int, np.ndarray]]:
    """From which states, (S,), the value is unknown, step by step from the last.

    It is known, for example, at the last step if the reward is a given one of the state and action, and in states that are known
    never to be left.
    """
    for h, lower, upper in plan.each_bounds():
        yield h, upper - lower > 1e-9 * (plan.scoring.highest - plan.scoring.lowest)


def is_thin(plan: Plan) -> np.ndarray:
    """Where a plan relies on few data, (H, S): its action was seen fewer than `THIN` times, and what follows is unknown."""
    return (plan.visits < THIN) & np.array([unknown for _, unknown in each_unknown(plan)])[::-1]


def thin_time(plan: Plan) -> float:
    """The expected number of steps of an episode at which the plan relies on few data (`is_thin`), in the empirical model."""
    counts, setting = plan.atlas.counts, plan.atlas.counts.setting
    where, total = [], 0.0
    for (h, reach), actions in zip(plan.each_reach(), plan.each_action(), strict=True):
        s = np.flatnonzero(reach[: setting.n_states])
        few = counts.visits_of(np.full(len(s), h), s, actions[s]) < THIN
        where.append((s[few], reach[s[few]]))
    for h, unknown in each_unknown(plan):
        s, mass = where[h]
        total += float(mass[unknown[s]].sum())
    return total


def action_words(atlas: Atlas, a: int) -> str:
    """What an action is called, with an arrow if it is a direction."""
    name = "any" if a == ANY else atlas.action_name(a)
    arrow = name if a == ANY else sign(atlas, a)
    return name if arrow == name else f"{arrow} {name}"


def sign(atlas: Atlas, a: int) -> str:
    """An action as an arrow if it is a direction, otherwise its name."""
    arrows = atlas.source.get("arrows") or ""
    name = atlas.action_name(a)
    return arrows[a] if a < len(arrows) else ARROWS.get(name.lower(), name)


def cells(plan: Plan, n_cells: int) -> list[tuple[str, bool]]:
    """What a plan does in each cell of a grid, at the step at which it is most likely to be there.

    A pair for each of the first `n_cells` states: the sign of the action, a dot if no action was ever played there, and whether
    the plan may get there at all; where it never gets, the sign is that of step 0.
    """
    likely, goes = plan.reach.argmax(axis=0), plan.reach.max(axis=0) > 0
    actions = plan.policy[np.where(goes, likely, 0), np.arange(plan.policy.shape[1])]
    played = plan.atlas.counts.n().reshape(-1, *plan.atlas.counts.n().shape[-2:]).sum(axis=(0, 2)) > 0
    signs = [sign(plan.atlas, a) for a in range(plan.atlas.counts.setting.n_actions)]
    return [(signs[actions[s]] if played[s] else "·", bool(goes[s])) for s in range(n_cells)]

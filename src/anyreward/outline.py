"""What a plan does, in a few lines: the states that matter first, equal stretches of steps merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
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
        counts, reach = plan.atlas.counts, plan.reach
        self._time = reach.sum(axis=0)
        met = np.broadcast_to(counts.n().sum(axis=-1) > 0, reach.shape)
        self._relevant = np.where(self._time > 0, reach > 0, met)
        if counts.setting.terminal == "end":  # nothing is played after an episode has terminated
            self._relevant[:, -1] = False
        self._actions = np.where(plan.indifferent, ANY, plan.policy)
        self._seen, self._thin = plan.visits, is_thin(plan)
        order = np.lexsort((-counts.state_visits(), -self._time))
        self.states = order[self._relevant[:, order].any(axis=0)].tolist()
        self.going = int((self._time[self.states] > 0).sum())

    def lines(self, start: int = 0, stop: int | None = None) -> list[Line]:
        """The lines of some of the states, from the one in place `start` to the one before `stop`."""
        return [Line(s, float(self._time[s]), self._stretches(s)) for s in self.states[start:stop]]

    def time_in(self, start: int, stop: int) -> float:
        """The time that the plan spends in those states, in expected steps of an episode."""
        return float(self._time[self.states[start:stop]].sum())

    def _stretches(self, s: int) -> tuple[Stretch, ...]:
        """The steps that matter in a state, with equal actions merged."""
        steps, actions = np.flatnonzero(self._relevant[:, s]), self._actions[:, s]
        starts = np.flatnonzero(np.diff(actions[steps], prepend=ANY - 1))
        return tuple(
            Stretch(
                int(part[0]),
                int(part[-1]),
                int(actions[part[0]]),
                int(self._seen[part, s].min()),
                bool(self._thin[part, s].any()),
            )
            for part in np.split(steps, starts[1:])
        )


def is_thin(plan: Plan) -> np.ndarray:
    """Where a plan relies on few data, (H, S): its action was seen fewer than `THIN` times, and the value from there is unknown.

    The value is known, for example, at the last step if the reward is a given one of the state and action, and in states that are
    known never to be left.
    """
    unknown = plan.upper_V[:-1] - plan.lower_V[:-1] > 1e-9 * (plan.scoring.highest - plan.scoring.lowest)
    return (plan.visits < THIN) & unknown


def thin_time(plan: Plan) -> float:
    """The expected number of steps of an episode at which the plan relies on few data (`is_thin`), in the empirical model."""
    return float(plan.reach[is_thin(plan)].sum())


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

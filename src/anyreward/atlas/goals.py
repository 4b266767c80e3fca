"""`reach`: policies for goals, with certified probabilities and numbers of steps.

A goal is an automaton that reads the states of an episode (`automata`). Values are those of pairs of an outcome s and a memory q,

    V_h(s, q) = max_a  cost(q) + Σ p(s'|s, a) [pays(q, s') + γ V_{h+1}(s', step(q, s'))],   V_H(s, q) = final(q),

in the empirical model, and with the smallest or largest expectation over the KL balls for certified bounds: same laws, same
event, no further delta (`docs/theory.md`, 18.1 and 18.2).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import fsum, inf
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from ..certificates.intervals import Robust
from ..kernels.robust import LOWER, UPPER
from ..playing.lanes import legal_action
from ..setting import boolean
from ..words import assumed, confidence_level, interval, up
from .automata import Automaton, avoiding, reaching, states_of
from .plan import Interval

if TYPE_CHECKING:
    from .atlas import Atlas

SLOW = 1e-7  # what a step costs, in probability, so that of equally likely ways the faster one is taken
PRECISION = 1e-4  # of the certified number of steps, relatively


@dataclass(frozen=True, eq=False)
class GoalPlan:
    """A policy for a goal, with certified bounds. `Atlas.reach` and `Atlas.avoid` make them.

        plan = atlas.reach("state == 30")
        player = plan.player()              # when an episode begins
        player.act(observation)             # the environment's own action, for each observation in turn

    On the certificate's event, all of this at once, for all goals:

        value.lower <= true probability that the policy meets the goal <= value.upper <= best

    and no policy whatever meets it with a probability above `best`. With free restarts, an episode that does not arrive is
    followed by another one: the expected number of steps until arrival is then at most `steps`.

    Attributes
    ----------
    policies : ndarray of int, (H, memories, S)
        The action for each step, memory and state. The array is made when it is first asked for.
    value : Interval
        The probability of meeting the goal; for a reward machine, the expected sum of what it pays.
    best : float
        An upper bound for all policies.
    steps : float or None
        The certified number of steps until arrival, inf if none can be certified; None for goals that are not about arriving.
    delta : float
    assumptions : tuple of str
    automaton : Automaton
    atlas : Atlas
    memoryless : bool
    """

    chosen: np.ndarray = field(repr=False)  # (H, memories, K): the actions in the states `kept` ...
    kept: np.ndarray = field(repr=False)
    first: np.ndarray = field(repr=False)  # (S,): ... and elsewhere, at all steps: all actions are equally good there
    value: Interval
    best: float
    steps: float | None
    delta: float
    assumptions: tuple[str, ...]
    automaton: Automaton = field(repr=False)
    atlas: Atlas = field(repr=False)
    memoryless: bool = False

    def __eq__(self, other: object) -> bool:
        """Whether both are the same policy for the same goal, with the same bounds, from the same counts."""
        if not isinstance(other, GoalPlan):
            return NotImplemented
        arrays = all(np.array_equal(a, b) for a, b in zip(self._arrays, other._arrays, strict=True))
        return arrays and self._facts == other._facts and self.atlas == other.atlas

    __hash__ = None  # type: ignore[assignment]

    @property
    def _arrays(self) -> tuple[np.ndarray, ...]:
        return (self.chosen, self.kept, self.first, *self.automaton.table(len(self.first)))

    @property
    def _facts(self) -> tuple[Any, ...]:
        said = self.best, self.steps, self.delta, self.assumptions, self.memoryless
        return (self.value, *said, self.automaton.start, self.automaton.accepting)

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle keeps: of an automaton what it does in these states, since functions of one's own cannot be pickled."""
        return {**self.__dict__, "automaton": self.automaton.tabulated(len(self.first))}

    @property
    def policy(self) -> np.ndarray:
        """The policy, (H, S), if it is `memoryless`: as long as anything is undecided, the memory is the one at the start."""
        if not self.memoryless:
            raise ValueError(
                "the policy for this goal needs a memory, which a table of steps and states has not: play it by its player."
            )
        return self.policies[:, self.automaton.start]

    @cached_property
    def policies(self) -> np.ndarray:
        found = np.empty((*self.chosen.shape[:2], len(self.first)), np.int32)
        found[:] = self.first
        found[:, :, self.kept] = self.chosen
        return found

    def player(self) -> Player:
        """What plays one episode and remembers what was read.

        Example:

            player = atlas.reach("state == 30").player()
            action = player.act(observation)
        """
        return Player(self)

    def _repr_html_(self) -> str:
        from ..pages import interval_bar, result_card

        chance = self.steps is not None or self.automaton.pays is None
        return result_card(self, interval_bar(self.value.lower, self.value.upper, 0.0, 1.0, self.value.value) if chance else None)

    def __str__(self) -> str:
        sure = f"{interval(self.value.lower, self.value.upper)} with probability {confidence_level(self.delta)}"
        what = "value" if self.automaton.pays is not None else "probability"
        steps = "" if self.steps is None else f", within {up(self.steps)} expected steps if restarts are free"
        steps = ", no number of steps can be certified" if self.steps == inf else steps
        most = f"no policy above {up(self.best)}"
        return f"GoalPlan({what} {self.value.value:.4g} in {sure}{steps}; {most}{assumed(self.assumptions)})"

    __repr__ = __str__


class Player:
    """Plays one episode of a `GoalPlan`."""

    def __init__(self, plan: GoalPlan) -> None:
        self._plan, self._h = plan, 0
        self._memory = plan.automaton.start

    def act(self, observation: Any, action_mask: Any = None) -> Any:
        """The environment's own action for the next observation, the initial one first; `action_mask` as for `Plan.act`."""
        plan, numbering = self._plan, self._plan.atlas.numbering
        if self._h >= len(plan.chosen):
            raise ValueError(f"the episode is over after {self._h} actions: make another player for the next one.")
        s = numbering.state(observation)
        self._memory = plan.automaton.step(self._memory, s)
        place = int(np.searchsorted(plan.kept, s))
        known = place < len(plan.kept) and plan.kept[place] == s
        action = int(plan.chosen[self._h, self._memory, place] if known else plan.first[s])
        self._h += 1
        return numbering.action(legal_action(action, action_mask, numbering, s))


def alike(atlas: Atlas, read: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The outcomes that were visited, and one for each kind of the others: of one kind are those where all of `read` are equal.

    Nothing is known of where the others lead, so that those of one kind have the same values. In order; also the new number of
    each that is kept, and how many it stands for. With a structure all are kept: it says where others lead.
    """
    counts, setting = atlas.counts, atlas.counts.setting
    table, visited = counts.model_table, np.zeros(setting.n_outcomes, bool)
    visited[table.state[1 : table.used[kernels.table.NODES]]] = True
    visited[setting.starts[0] if not setting.estimates_start else []] = True
    visited[:] |= setting.structure is not None
    others = np.flatnonzero(~visited)
    kind = np.zeros(len(others), np.int64)
    for row in read:
        values, each = np.unique(row[others], return_inverse=True)
        if len(values) > 1:
            kind = np.unique(kind * len(values) + each, return_inverse=True)[1]
    _, first, many = np.unique(kind, return_index=True, return_counts=True)
    kept = np.concatenate([np.flatnonzero(visited), others[first]])
    stands_for = np.concatenate([np.ones(int(visited.sum())), many])
    order, number = np.argsort(kept), np.zeros(setting.n_outcomes, np.int64)
    number[kept[order]] = np.arange(len(kept))
    return kept[order], number, stands_for[order]


class Product:
    """Outcomes times memories: values of a policy or of the best actions, in the empirical model or at the ends of the balls.

    Outcomes that were never visited and are read alike are one (`alike`).
    """

    def __init__(self, atlas: Atlas, automaton: Automaton) -> None:
        self.atlas, self.automaton = atlas, automaton
        setting = atlas.counts.setting
        S, N = setting.n_states, setting.n_outcomes
        ahead, pays = automaton.table(S)
        if setting.terminal == "end":
            raise ValueError(
                "goals need to know where an episode terminated, but with terminal='end' all terminations are one state: "
                "explore with terminal='outcome'. (A log has to have a column of next states.)"
            )
        if setting.terminal == "state":  # an episode that has terminated is taken to stay where it is
            again, at = ahead[ahead, np.arange(S)] != ahead, np.arange(S)
            if (again | (pays[ahead, at] != 0.0)).any():
                s = int(np.argwhere(again | (pays[ahead, at] != 0.0))[0, 1])
                raise ValueError(
                    f"the automaton changes, or is paid, again when it reads {atlas.called(s)} twice, which does not suit "
                    "terminal='state', where an episode that has terminated stays where it is: explore with terminal='outcome'."
                )
        over, stays = np.arange(N) >= (S if setting.terminal == "outcome" else N), np.zeros(N, bool)
        stays[atlas.counts.stays()] = True
        read = [*np.tile(ahead, N // S), *np.tile(pays, N // S), over, stays]
        self.kept, number, many = alike(atlas, read)
        self.ahead = np.stack([row[self.kept] for row in read[: automaton.size]])
        self.pays = np.stack([row[self.kept] for row in read[automaton.size : -2]])
        self.over = over[self.kept]  # where an episode has ended: nothing is read there any more
        self.states = int(np.searchsorted(self.kept, S))  # the first ones are states, the others terminations
        self.final = np.isin(np.arange(automaton.size), list(automaton.accepting)).astype(float)
        self.discount = setting.discount if automaton.pays is not None else 1.0
        certificate = atlas.certificate
        radii = atlas.radii(certificate.transition_delta, True)  # arriving with the last step counts: its laws matter
        most = certificate.bound.most_successors(setting)
        self.model = atlas._model.of_fewer(self.kept, number, many)
        table = atlas._ordered.model_table
        table = table._replace(state=number[table.state].astype(np.uint32), known=self.model.places.known)
        self.radius = float(radii.flat[0])
        balls = Robust(atlas._ordered, radii, most, np.zeros((1, 1, 1)))
        self.robust = balls.of_fewer(table, self.model)
        self.starts = number[setting.starts[0]] if not setting.estimates_start else np.zeros(0, int)
        self.unsure = np.array([s < S and atlas.counts.is_unsure(s) for s in self.kept.tolist()])
        illegal = atlas.counts.illegal if len(atlas.counts.illegal) else np.zeros((S, setting.n_actions), bool)
        self.first = (~illegal).argmax(axis=1)  # the first action that is legal in a state, as far as that is known
        self.illegal = np.concatenate([illegal[self.kept[: self.states]], np.zeros((N, setting.n_actions), bool)])[
            : len(self.over)
        ]

    def allowed(self, h: int) -> np.ndarray:
        """The actions that plans choose among at step h, as other plans do: those that were seen, where any was."""
        (begin, state, _, stays), seen = self.model.places, self.model.rows.seen.reshape(-1, self.illegal.shape[1])
        here, found = slice(*begin[min(h, len(begin) - 2) :][:2]), np.zeros_like(self.illegal)
        found[state[here]] = seen[here]
        found[stays] = True
        return (found | ~found.any(axis=1, keepdims=True)) & ~self.illegal

    def values(
        self,
        side: float | None,
        policies: np.ndarray | None = None,
        cost: np.ndarray | None = None,
        pays: np.ndarray | None = None,
        final: np.ndarray | None = None,
        seen: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Policies (H, memories, kept), those that are given or the best, and V (memories, kept) of step 0.

        Parameters
        ----------
        side : float or None
            `UPPER` or `LOWER`, or None for the empirical model.
        policies : ndarray of int, optional
        cost : ndarray, (memories,), optional
            What is earned by each action before the episode is over, by the memory.
        pays, final : ndarray, optional
            In place of those of the automaton.
        seen : bool
            Whether only actions are chosen that were seen, where any was.
        """
        setting, Q, N = self.atlas.counts.setting, self.automaton.size, len(self.over)
        pays = self.pays if pays is None else pays
        V = np.repeat((self.final if final is None else final)[:, None], N, axis=1)
        chosen = np.zeros((setting.horizon, Q, N), np.int64)
        for h in range(setting.horizon - 1, -1, -1):
            below, allowed = V.copy(), self.allowed(h) if seen else ~self.illegal
            for q in range(Q):
                f = pays[q] + self.discount * below[self.ahead[q], np.arange(N)]
                worth = self.model.expect(h, f) if side is None else self.robust.ahead(h, f, side)
                worth = worth + (0.0 if cost is None else cost[q])
                choice = np.where(allowed, worth, -inf)
                chosen[h, q] = choice.argmax(axis=1) if policies is None else policies[h, q]
                V[q] = worth[np.arange(N), chosen[h, q]]
                if side is not None and self.unsure.any():  # any action may be the legal one
                    V[q, self.unsure] = side * (side * worth[self.unsure]).max(axis=1)
                V[q, self.over] = below[q, self.over]
        return chosen, V

    def start(self, V: np.ndarray, side: float | None, pays: np.ndarray | None = None) -> float:
        """The value before the initial state is read."""
        q, setting = self.automaton.start, self.atlas.counts.setting
        first = (self.pays if pays is None else pays)[q] + V[self.ahead[q], np.arange(len(self.over))]
        if side is None:
            return float(self.model.initial @ first)
        if setting.estimates_start:
            return float(kernels.robust.start(self.robust.table, self.radius, first[: self.states], side))
        return fsum(setting.starts[1] * first[self.starts])

    def plan(self, cautious: bool, arrival: int | None) -> GoalPlan:
        """The policy for the automaton; `arrival` is the memory of having arrived, if the goal is about that."""
        setting, atlas = self.atlas.counts.setting, self.atlas
        H = setting.horizon
        cost = None if arrival is None else np.where(np.arange(self.automaton.size) < arrival, -SLOW / H, 0.0)
        chosen = self.values(LOWER)[0] if cautious else self.values(None, cost=cost, seen=True)[0]
        chosen = self._legal(chosen)
        low, value, high = (self.start(self.values(side, chosen)[1], side) for side in (LOWER, None, UPPER))
        best = self.start(self.values(UPPER)[1], UPPER)
        total, least = 1.0 + float((self.discount ** np.arange(H)).sum()), 0.0  # the start, and then the states of each step
        slack, most = 1e-12 * total * max(1.0, float(np.abs(self.pays).max())), 1.0
        if self.automaton.pays is not None:
            least, most = (total * min(0.0, self.pays.min()) - slack, total * max(0.0, self.pays.max()) + slack)
        low, high, best = max(least, low - slack), min(most, high + slack), min(most, best + slack)
        delta, said = atlas.certificate.delta, atlas.certificate.assumptions
        steps = None if arrival is None else self.steps(chosen, arrival, low)
        found = Interval(low, min(most, max(least, value)), max(low, high), delta, said)
        others = np.arange(self.automaton.size) != self.automaton.start
        forgetful = bool((self.ahead[others] == np.flatnonzero(others)[:, None]).all())
        kept = self.kept[: self.states]
        return GoalPlan(
            chosen[:, :, : self.states],
            kept,
            self.first,
            found,
            max(best, low),
            steps,
            delta,
            said,
            self.automaton,
            atlas,
            forgetful,
        )

    def _legal(self, chosen: np.ndarray) -> np.ndarray:
        """Policies (H, memories, kept) that are legal where that is known."""
        chosen = chosen.astype(np.int32)
        if len(self.atlas.counts.illegal):
            kept, everywhere = self.kept[: self.states], self.first.copy()
            for h, q in np.ndindex(*chosen.shape[:2]):
                everywhere[kept] = chosen[h, q, : self.states]
                chosen[h, q, : self.states] = self.atlas.legal(everywhere[None])[0, kept]
        return chosen

    def steps(self, chosen: np.ndarray, arrival: int, lowest: float) -> float:
        """The smallest λ, nearly, such that E[min(T, H)] <= λ P(T <= H) in all models of the balls; inf if there is none.

        T is when the goal is reached. Failing takes the rest of the episode.
        """
        H = self.atlas.counts.setting.horizon
        if lowest <= 0:
            return inf
        waiting = np.where(np.arange(self.automaton.size) == arrival, 0.0, 1.0)

        def holds(bound: float) -> bool:
            """Whether the largest E[min(T, H)] - bound P(T <= H) is at most 0."""
            final = np.where(np.arange(self.automaton.size) == arrival, -bound, 0.0)
            V = self._waited(chosen, waiting, final)
            return self.start(V, UPPER, np.zeros_like(self.pays)) <= -1e-11 * (H + bound)

        low, high = 0.0, H / lowest * (1 + 1e-9)
        if not holds(high):
            return inf
        while high - low > PRECISION * high:
            middle = (low + high) / 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high

    def _waited(self, chosen: np.ndarray, waiting: np.ndarray, final: np.ndarray) -> np.ndarray:
        """The largest values of `final` plus one for each step of an episode in which the goal has not been reached."""
        H = self.atlas.counts.setting.horizon
        if not self.over.any():
            return self.values(UPPER, chosen, waiting, np.zeros_like(self.pays), final)[1]
        # An episode that has ended without arriving is counted with all of its H steps: what is left is paid when it ends.
        V = np.repeat(final[:, None], len(self.over), axis=1)
        for h in range(H - 1, -1, -1):
            below = V.copy()
            for q in range(self.automaton.size):
                worth = self.robust.ahead(h, below[self.ahead[q], np.arange(len(self.over))], UPPER) + waiting[q]
                V[q] = worth[np.arange(len(self.over)), chosen[h, q]]
                if self.unsure.any():
                    V[q, self.unsure] = worth[self.unsure].max(axis=1)
                V[q, self.over] = below[q, self.over] + waiting[q]
        return V


def reach(atlas: Atlas, goal: Any, avoid: Any, cautious: bool) -> GoalPlan:
    """See `Atlas.reach`."""
    cautious = boolean(cautious, "cautious")
    if isinstance(goal, Automaton):
        if avoid is not None:
            raise ValueError("avoid is given, but goal is an automaton: let it remember what is to be avoided.")
        return Product(atlas, goal).plan(cautious, None)
    in_turn = goal if isinstance(goal, tuple) else (goal,)
    if not 1 <= len(in_turn) <= 60:
        raise ValueError(f"goal is a tuple of {len(in_turn)} goals: it has to be from 1 to 60.")
    S = atlas.counts.setting.n_states
    goals = [states_of(atlas, each, "goal") for each in in_turn]
    avoided = np.zeros(S, bool) if avoid is None else states_of(atlas, avoid, "avoid")
    both = avoided & np.any(goals, axis=0)
    if both.any():
        raise ValueError(f"{atlas.called(int(both.argmax()))} is in goal and in avoid: it can be in one of them only.")
    return Product(atlas, reaching(goals, avoided)).plan(cautious, len(goals))


def avoid(atlas: Atlas, states: Any, cautious: bool) -> GoalPlan:
    """See `Atlas.avoid`."""
    return Product(atlas, avoiding(states_of(atlas, states, "states"))).plan(boolean(cautious, "cautious"), None)

"""`Plan`: a policy for one reward, with certified bounds, that can act; `Interval`: a value with certified bounds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from .. import kernels
from ..planning import Values, as_array, as_policy, each_action
from ..playing.lanes import legal_action
from ..playing.rollouts import rollouts
from ..rewards.combining import range_of
from ..setting import whole_number
from ..words import assumed, confidence_level, interval, up
from .scoring import LEAST, MOST, Scoring, earnings, scoring_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..kernels.planning import Choice
    from .atlas import Atlas


class Bounds(NamedTuple):
    """A value between a lower and an upper bound."""

    lower: float
    value: float
    upper: float


class Interval(Bounds):
    """The value of a policy, with certified bounds: a named tuple (lower, value, upper) that also knows when it holds.

        lower, value, upper = interval = atlas.evaluate(policy, reward)
        print(interval)                                         # with its probability, and all that it assumes

    Attributes
    ----------
    lower : float
    value : float
        The value in the empirical model.
    upper : float
    delta : float
        The true value lies between `lower` and `upper` with probability at least 1 - delta ...
    assumptions : tuple of str
        ... if all of these assumptions are true.
    """

    delta: float
    assumptions: tuple[str, ...]

    def __new__(cls, lower: float, value: float, upper: float, delta: float, assumptions: tuple[str, ...]) -> Self:
        it = super().__new__(cls, lower, value, upper)
        it.delta, it.assumptions = delta, assumptions
        return it

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (*self, self.delta, self.assumptions)

    def _repr_html_(self) -> str:
        from ..pages import result_card

        return result_card(self)

    def __str__(self) -> str:
        sure = f"{interval(self.lower, self.upper)} with probability {confidence_level(self.delta)}"
        return f"{self.value:.4g} in {sure}{assumed(self.assumptions)}"


@dataclass(frozen=True, eq=False)
class Plan:
    """A policy for one reward, with certified bounds on its value and on the optimum. `Atlas.plan` makes plans.

        plan.act(observation, step)         # the environment's own observation and action
        plan.run(env, episodes=100)         # what was earned in each episode
        plan.to_pandas()                    # what it does in each state, with names, counts and values

    On the certificate's event,

        lower <= true value of the policy <= true optimum <= upper.

    This holds for every plan made from the same counts at once: any number of rewards may be asked for, chosen after seeing the
    data, and no further delta is spent. *Proof.* The event says that every true law lies in its KL ball, and
    does not mention rewards. `lower` is the smallest value of the policy, and `upper` the largest optimum, over all models
    in the balls.

    A plan for the environment's own reward has an event of its own, of the same probability (`Atlas.plan`).

    Attributes
    ----------
    policy : ndarray of int, (H, S)
        The action at each step and state: optimal in the empirical model or, if `cautious` was asked for, with the best
        guaranteed value. The array is made when it is first asked for.
    choice : Choice
        The policy as compiled passes take it: actions where something was seen, and one number for each step elsewhere.
    value : float
        The value of the policy from the start in the empirical model.
    lower, upper : float
        The certified bounds.
    reward_range : (float, float)
        The range of the reward.
    delta : float
        The bounds hold with probability at least 1 - delta ...
    assumptions : tuple of str
        ... if all of these assumptions are true.
    atlas : Atlas
        What the plan was made from.
    scoring : Scoring
        The reward, as the atlas sees it.
    only_seen : bool
        Whether it was asked to choose no action that was never seen where another one was.
    """

    choice: Choice = field(repr=False)
    value: float
    lower: float
    upper: float
    reward_range: tuple[float, float]
    delta: float
    assumptions: tuple[str, ...]
    atlas: Atlas = field(repr=False)
    scoring: Scoring = field(repr=False)
    only_seen: bool = False

    @cached_property
    def policy(self) -> np.ndarray:
        setting = self.atlas.counts.setting
        return as_array(self.choice, setting.n_outcomes, setting.n_actions)[:, : setting.n_states]

    @property
    def after_end(self) -> np.ndarray | None:
        """What the plan names where an episode has terminated, for each step and state, (H, S); None if it makes no difference.

        Nothing is played then. With `terminal="outcome"`, a reward that depends on the action is paid for the one that is named.
        """
        return self.on_outcomes[:, self.atlas.counts.setting.n_states :] if len(self.choice.ended) else None

    @property
    def on_outcomes(self) -> np.ndarray:
        """The policy with what it names after an end, as `Atlas.evaluate` takes it: (H, 2 S), or (H, S) without `after_end`."""
        setting = self.atlas.counts.setting
        whole = as_array(self._extended, setting.n_outcomes, setting.n_actions)
        return whole if len(self.choice.ended) else whole[:, : setting.n_states]

    def playing(self, policy: np.ndarray) -> Plan:
        """This plan with another policy, (H, S), to be played; its bounds are not those of that policy.

        Example:

            plan.playing(policy).run(env, episodes=10)
        """
        setting = self.atlas.counts.setting
        checked = as_policy(policy, setting.n_states, setting.n_actions, setting.horizon)
        return replace(self, choice=kernels.planning.as_choice(checked), only_seen=False)

    @property
    def regret_bound(self) -> float:
        """The largest possible difference between the optimum and the value of the policy: upper - lower."""
        return self.upper - self.lower

    @cached_property
    def untried(self) -> int:
        """At how many visited steps and states the policy names an action that was never seen there, though another one was.

        Of pooled steps, each counts: a state is visited at every step if it was at any. See the notes of `Atlas.plan`.

        Example:

            plan.untried                        # 0, unless the reward depends on the action
        """
        setting, (begin, state, *_), total = self.atlas.counts.setting, self.atlas._model.places, 0
        seen = self.atlas._model.rows.seen.reshape(-1, setting.n_actions)
        for h, actions in enumerate(self.each_action()):
            layer = min(h, len(begin) - 2)
            here = np.arange(begin[layer], begin[layer + 1])
            here = here[state[here] < setting.n_states]
            total += int((seen[here].any(axis=1) & ~seen[here, actions[state[here]]]).sum())
        return total

    @property
    def said_of_unseen(self) -> str:
        """What is to be said about actions that were never seen, a sentence; empty if the plan just names none.

        Example:

            atlas.plan(reward, only_seen=True).said_of_unseen
        """
        if self.only_seen:
            return f"no action that was never seen where another one was; it loses at most {up(self.regret_bound)}"
        if not self.untried:
            return ""
        places = "1 visited step and state" if self.untried == 1 else f"{self.untried:,} visited steps and states"
        return f"an action that was never seen there at {places}, where another one was"

    @cached_property
    def terms(self) -> dict[str, Interval]:
        """The value of the policy split by the named terms of its reward (`anyreward.term`), with certified bounds.

        Factors are part of a term, so that the values add up to `value`. All bounds hold at once, on the event of the plan
        (`docs/theory.md`, 17.2). Empty if the reward has no terms.
        """
        found = {}
        for name, reward in self.scoring.terms.items():
            scoring = scoring_of(self.atlas, reward, range_of(reward))
            found[name] = Interval(*self.atlas._evaluate(self.choice, scoring), self.delta, self.assumptions)
        return found

    def act(self, observation: Any, step: int, action_mask: Any = None) -> Any:
        """The environment's own action for one of its observations.

            action = plan.act(observation, step=0)

        Parameters
        ----------
        observation
            As the environment gives it; for a model with numbered states, the number.
        step : int
            The number of actions that were played in this episode already, from 0 to H - 1.
        action_mask : array_like of bool, (A,), optional
            Which actions are legal now. If the action of the plan is not, which can only be in a state that was never visited,
            legal action number a mod k is returned, as when exploring.
        """
        h, s = whole_number(step, "step"), self.atlas.numbering.state(observation)
        setting = self.atlas.counts.setting
        if not 0 <= h < setting.horizon:
            raise ValueError(f"step is {h}: an episode has the steps 0 to {setting.horizon - 1}.")
        if not 0 <= s < setting.n_states:
            raise ValueError(f"the observation is in state {s}: states go from 0 to {setting.n_states - 1}.")
        a = kernels.planning.action_of(self.choice, h, s, setting.n_outcomes, setting.n_actions)
        return self.atlas.numbering.action(legal_action(a, action_mask, self.atlas.numbering, s))

    @cached_property
    def V(self) -> np.ndarray:
        """The value of the policy from each step and state in the empirical model, (H + 1, S); the last row is 0."""
        return self._values.V[:, : self.atlas.counts.setting.n_states]

    @cached_property
    def _values(self) -> Values:
        """The values of the policy in the empirical model, for all outcomes."""
        return self.atlas._induct(self.scoring, self._extended)

    @cached_property
    def indifferent(self) -> np.ndarray:
        """Where all actions that were seen, at least two, are equally good in the empirical model, (H, S)."""
        return self.indifferent_in(np.arange(self.atlas.counts.setting.n_states))

    def indifferent_in(self, states: np.ndarray) -> np.ndarray:
        """`indifferent` in some states, (H, K).

        Example:

            plan.indifferent_in(np.array([15, 16]))
        """
        setting, model = self.atlas.counts.setting, self.atlas._model
        A, found = setting.n_actions, np.zeros((setting.horizon, len(states)), bool)
        s, a = np.repeat(states, A), np.tile(np.arange(A), len(states))
        for h, Q in self._values.each_Q(states):
            seen = model.is_seen_at(h, s, a).reshape(-1, A)
            best, worst = np.where(seen, Q, -np.inf).max(axis=1), np.where(seen, Q, np.inf).min(axis=1)
            found[h] = (seen.sum(axis=1) > 1) & (best - worst <= 1e-12 * (1 + np.abs(best)))
        return found

    @cached_property
    def lower_V(self) -> np.ndarray:
        """A lower bound on the true value of the policy from each step and state, (H + 1, S)."""
        low = self.atlas._robust(self.scoring, LEAST).state_values(kernels.robust.LOWER, self._extended)
        return np.maximum(low[:, : self.atlas.counts.setting.n_states], self._left * self.reward_range[0]) - self.scoring.slack

    @cached_property
    def upper_V(self) -> np.ndarray:
        """An upper bound on the true optimum from each step and state, (H + 1, S).

        Together: on the event of the plan, lower_V <= true value of the policy <= true optimum <= upper_V in all steps and
        states at once; with `paid_once`, in those that can be reached.
        """
        high = self.atlas._robust(self.scoring, MOST).state_values(kernels.robust.UPPER)
        return np.minimum(high[:, : self.atlas.counts.setting.n_states], self._left * self.reward_range[1]) + self.scoring.slack

    def each_bounds(self) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """The rows of `lower_V` and of `upper_V`, step by step from the last.

        Example:

            widths = {step: upper[15] - lower[15] for step, lower, upper in plan.each_bounds()}
        """
        S, (low, high), slack = self.atlas.counts.setting.n_states, self.reward_range, self.scoring.slack
        least = self.atlas._robust(self.scoring, LEAST).each(kernels.robust.LOWER, self._extended)
        most = self.atlas._robust(self.scoring, MOST).each(kernels.robust.UPPER)
        for (h, lower), (_, upper) in zip(least, most, strict=True):
            yield h, np.maximum(lower[:S], self._left[h] * low) - slack, np.minimum(upper[:S], self._left[h] * high) + slack

    def each_action(self) -> Iterator[np.ndarray]:
        """The actions of the policy in all outcomes, step by step from the first.

        Example:

            at_the_start = [actions[15] for actions in plan.each_action()]
        """
        setting = self.atlas.counts.setting
        return each_action(self.choice, setting.horizon, setting.n_outcomes, setting.n_actions)

    @property
    def _left(self) -> np.ndarray:
        """The largest sum of discounted weights from each step on, (H + 1, 1)."""
        return self.atlas.counts.setting.sigma[::-1, None]

    @cached_property
    def _extended(self) -> Choice:
        """The policy for all outcomes, terminations included."""
        from .atlas import extended_to_terminations

        return extended_to_terminations(self.atlas.counts, self.choice, self.scoring.pays.average, best=False)

    @cached_property
    def visits(self) -> np.ndarray:
        """How often the policy's action was seen in each step and state, (H, S); at any step if transitions are stationary."""
        H, S = self.policy.shape
        return self.atlas.counts.visits_of(np.arange(H)[:, None], np.arange(S), self.policy)

    @cached_property
    def reach(self) -> np.ndarray:
        """The probability of being in each state at each step under the policy, in the empirical model, (H, S).

        Where episodes may terminate early, the rows sum to less than one.
        """
        return np.stack([mass[: self.atlas.counts.setting.n_states] for _, mass in self.each_reach()])

    def each_reach(self) -> Iterator[tuple[int, np.ndarray]]:
        """The probability of each outcome, step by step from the first.

        Example:

            likely = {step: probability.argmax() for step, probability in plan.each_reach()}
        """
        setting, model = self.atlas.counts.setting, self.atlas._model
        here, sizes = model.initial, (setting.horizon, setting.n_outcomes, setting.n_actions)
        for h, actions in enumerate(each_action(self._extended, *sizes)):
            yield h, here
            here = model.push(h, here, actions)

    def run(self, env: Any, episodes: int = 1, *, reward: Any = None, seed: int = 0, **adapter: Any) -> np.ndarray:
        """Plays the plan in an environment and returns what was earned in each episode, (episodes,).

            plan.run(env, episodes=100).mean()

        Parameters
        ----------
        env
            The environment that was explored, in any of the forms that `explore` takes, or a `gymnasium.vector.VectorEnv` of it.
        episodes : int, default 1
        reward : optional
            What to count: None for the reward that the plan is for, `"own"` for what the environment pays, or any other reward
            in one of the forms of `Atlas.plan`. Rewards are discounted if the setting is.
        seed : int, default 0
            Runs with the same seed are identical, if the environment's `reset` respects its seed.
        **adapter
            Arguments of `Gymnasium` such as `env_args`. How observations become states is known to the plan.
        """
        episodes = whole_number(episodes, "episodes")
        if episodes < 0:
            raise ValueError(f"episodes is {episodes}: it cannot be negative.")
        atlas, found, total = self.atlas, [np.zeros(0)], 0
        setting, earned = atlas.counts.setting, self.scoring.earned if reward is None else earnings(atlas, reward)
        batches = rollouts(setting, atlas.numbering, self.choice, env, seed, adapter)
        while total < episodes:
            found.append(earned(*next(batches), setting.discount))
            total += len(found[-1])
        return np.concatenate(found)[:episodes]

    def to_pandas(self, visited: bool = False) -> Any:
        """What the plan does, as a pandas data frame with one row for each step and state.

            plan.to_pandas(visited=True).head()

        The columns are step, state (its number), name (what the state is called), observation (a value of the observation space
        that belongs to the state, None for the extra state of terminations), action (its name), action_number, seen (how
        often that action was seen there), value, lower and upper (the value from there, with the certified bounds of `lower_V`
        and `upper_V`), and probability (of getting there, in the empirical model).

        Parameters
        ----------
        visited : bool, default False
            Whether to leave out the states that were never visited at that step.
        """
        try:
            import pandas as pd
        except ImportError:
            raise ValueError("pandas is not installed: pip install pandas.") from None
        atlas, setting = self.atlas, self.atlas.counts.setting
        H, A = setting.horizon, setting.n_actions
        step, state = self._visited() if visited else np.indices((H, setting.n_states)).reshape(2, -1)
        ends = np.searchsorted(step, np.arange(H + 1))

        def found(each: Iterable[tuple[int, np.ndarray]], kind: type = float) -> np.ndarray:
            """The entries for these steps and states of what is given step by step."""
            out: np.ndarray = np.empty(len(step), kind)
            for h, row in each:
                out[ends[h] : ends[h + 1]] = row[state[ends[h] : ends[h + 1]]]
            return out

        low = atlas._robust(self.scoring, LEAST).each(kernels.robust.LOWER, self._extended)
        high = atlas._robust(self.scoring, MOST).each(kernels.robust.UPPER)
        values = atlas._induct(self.scoring, self._extended)
        played = found(enumerate(each_action(self._extended, H, setting.n_outcomes, A)), int)
        used = np.unique(state)
        place, numbers = np.searchsorted(used, state), used.tolist()
        observations = np.empty(len(used), object)
        observations[:] = [atlas.numbering.observation(s) for s in numbers]
        return pd.DataFrame(
            {
                "step": step,
                "state": state,
                "name": np.array([atlas.state_name(s) for s in numbers], dtype=object)[place],
                "observation": observations[place].tolist(),
                "action": np.array([atlas.action_name(a) for a in range(A)], dtype=object)[played],
                "action_number": played,
                "seen": atlas.counts.visits_of(step, state, played),
                "value": found(values.each()),
                "lower": np.maximum(found(low), self._left[step, 0] * self.reward_range[0]) - self.scoring.slack,
                "upper": np.minimum(found(high), self._left[step, 0] * self.reward_range[1]) + self.scoring.slack,
                "probability": found(self.each_reach()),
            }
        )

    def _visited(self) -> tuple[np.ndarray, np.ndarray]:
        """The steps and states that were visited, in order; all steps of a visited state if transitions are stationary."""
        setting, (begin, state, *_) = self.atlas.counts.setting, self.atlas._model.places
        some = self.atlas._model.rows.seen.reshape(-1, setting.n_actions).any(axis=1) & (state < setting.n_states)
        state, step = state[some].astype(np.int64), np.repeat(np.arange(len(begin) - 1), np.diff(begin))[some]
        if setting.stationary:
            return np.repeat(np.arange(setting.horizon), len(state)), np.tile(state, setting.horizon)
        return step, state

    def _plays_as(self, other: Plan) -> bool:
        """Whether both are the same policy."""
        setting = self.atlas.counts.setting
        sizes = setting.horizon, setting.n_outcomes, setting.n_actions
        each = (each_action(plan._extended, *sizes) for plan in (self, other))
        return setting == other.atlas.counts.setting and all(np.array_equal(a, b) for a, b in zip(*each, strict=True))

    def plot(self, grid: tuple[int, int] | None = None) -> Any:
        """A Matplotlib figure: the certified interval within what is possible, and what the plan does.

            plan.plot().savefig("plan.png")

        Parameters
        ----------
        grid : (int, int), optional
            Rows and columns, if the states are the cells of a grid, numbered row by row. Known for grid worlds.
        """
        from ..plots import draw_plan

        return draw_plan(self, grid)

    def _repr_html_(self) -> str:
        from ..pages import plan_card

        return plan_card(self)

    def __eq__(self, other: object) -> bool:
        """Whether both have the same policy for the same reward, with the same bounds but for rounding.

        The order in which data were collected decides how sums are rounded, and files have an order of their own.
        """
        if not isinstance(other, Plan):
            return NotImplemented
        mine, theirs = ((plan.reward_range, plan.delta, plan.assumptions) for plan in (self, other))
        numbers = np.array([(plan.value, plan.lower, plan.upper) for plan in (self, other)])
        margin = 1e-12 * float(self._left[0, 0]) * max(map(abs, self.reward_range))
        close = bool((np.abs(numbers[0] - numbers[1]) <= margin).all())
        return close and mine == theirs and self._plays_as(other) and self.scoring.pays_as(other.scoring)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        H, S = self.atlas.counts.setting.horizon, self.atlas.counts.setting.n_states
        sure = f"{interval(self.lower, self.upper)} with probability {confidence_level(self.delta)}"
        unseen = f", with {self.said_of_unseen}" if self.said_of_unseen else ""
        return f"Plan(value {self.value:.4g} in {sure}, policy for {H} steps and {S} states{unseen}{assumed(self.assumptions)})"

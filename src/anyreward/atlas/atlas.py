"""`Atlas`: the result of an exploration, from which to plan for any reward."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np

from .. import kernels
from .._files import as_path, file_lock
from ..certificates.calibrated import CalibratedBound
from ..certificates.certificate import Certificate, certify
from ..certificates.intervals import Robust
from ..data.counts import Counts
from ..data.empirical import EmpiricalModel
from ..data.numbering import TERMINATED, Numbering
from ..planning import Values, as_policy, induct
from ..rewards.forms import UNIT, ArrivalReward, Reward, core
from ..rewards.given import Given
from ..rewards.observed import ObservedRewards
from .plan import Bounds, Interval, Plan
from .recording import Recording
from .scoring import AVERAGE, LEAST, MOST, Scoring, scoring_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike

    from ..kernels.planning import Choice
    from .constrained import ConstrainedPlan
    from .discovery import Discovery
    from .explanation import Explanation
    from .goals import GoalPlan
    from .tradeoff import TradeOff
    from .verification import Verification
    from .watching import Drift

COUNTS = "counts:"  # prefix of the digest of the counts, for runs that have an identifier
SAME = "the merged runs are of the same environment"  # an assumption that is printed


@dataclass(frozen=True, eq=False)
class Atlas:
    """The result of an exploration: counts and their certificate, from which to plan for any reward.

        atlas = anyreward.explore(env, horizon=20, epsilon=2.0)
        plan = atlas.plan(reward)                       # a policy, and bounds on its value
        atlas.evaluate(policy, reward)                  # bounds on the value of a policy of your own
        atlas.save("chain.atlas")
        anyreward.load("chain.atlas") | other_atlas     # merged and certified again

    An atlas is made by `explore`, `load` and `merge`, or from counts of your own: ``Atlas(counts, certify(counts))``.

    Attributes
    ----------
    counts : Counts
    certificate : Certificate
    history : tuple of (int, float)
        Pairs (episodes, certified epsilon) during the exploration.
    source : dict
        How the data were collected: environment, algorithm, options.
    runs : tuple of str
        Identifiers of the separate runs that it contains; merging uses them to refuse counting a run twice.
    policy : ndarray of int, (H, S), or None
        The recommended policy, if the exploration was for one reward.
    paid : ObservedRewards or None
        The rewards that the environment paid, if any.
    recording : Recording or None
        The episodes themselves, if they were recorded.
    recorded : tuple of int
        The number of recorded episodes of each run.
    reward : ndarray, ArrivalReward or None
        The reward that the exploration was for, if it was one known reward.
    numbering : Numbering
        How observations and actions are numbered, and what they are called.
    own_reward : ndarray or None
        The reward of the model that was explored, if it has one: what `"own"` stands for. What an environment pays is observed
        instead (`paid`).
    rewards : tuple of Given
        The rewards that the exploration was for, with their names, if they were several.
    """

    counts: Counts
    certificate: Certificate
    history: tuple[tuple[int, float], ...] = ()
    source: dict[str, Any] = field(default_factory=dict)
    runs: tuple[str, ...] = ()
    policy: np.ndarray | None = None
    paid: ObservedRewards | None = None
    recording: Recording | None = None
    recorded: tuple[int, ...] = ()
    reward: np.ndarray | ArrivalReward | None = None
    numbering: Numbering = None  # type: ignore[assignment]  # numbers without names unless it is given
    own_reward: np.ndarray | None = None
    rewards: tuple[Given, ...] = ()
    extend: ClassVar[Callable[..., Atlas]]  # `exploring.extend`, which knows who plays

    def __post_init__(self) -> None:
        if self.numbering is None:
            object.__setattr__(self, "numbering", self.counts.numbering or Numbering.of_setting(self.counts.setting))
        if self.paid is None:
            object.__setattr__(self, "paid", self.counts.paid)
        if not self.source:
            object.__setattr__(self, "source", dict(self.counts.source))
        if self.policy is not None:
            object.__setattr__(self, "policy", self.legal(self.policy[:, : self.counts.setting.n_states]))
        if self.recording is not None and not self.recorded:
            object.__setattr__(self, "recorded", (len(self.recording.states),))
        object.__setattr__(self, "certificate", replace(self.certificate, numbering=self.numbering))
        digest = self.certificate.digest
        if not self.runs:  # imported data are identified by their counts alone
            object.__setattr__(self, "runs", (digest,))
        elif digest not in self.runs and COUNTS + digest not in self.runs:
            object.__setattr__(self, "runs", (*self.runs, COUNTS + digest))

    @property
    def episodes(self) -> int:
        """The number of episodes that were played."""
        return self.certificate.played

    def state_name(self, s: int) -> str:
        """What state number s is called; numbers beyond the states are terminations (`Setting.terminal`).

        Example:

            atlas.state_name(15)            # "15", unless the state has a name
        """
        setting = self.counts.setting
        if s >= setting.n_states:
            return f"terminated in {self.numbering.state_name(s - setting.n_states)}"
        return TERMINATED if setting.terminal == "end" and s == setting.n_states - 1 else self.numbering.state_name(s)

    def called(self, s: int) -> str:
        """A state for messages: its number, with its name if that says more.

        Example:

            atlas.called(15)                # "state 15"
        """
        name = self.state_name(s)
        return f"state {s}" if name == str(s) else f"state {s} ({name})"

    def action_name(self, a: int) -> str:
        """What action number a is called.

        Example:

            atlas.action_name(1)            # "right"
        """
        return self.numbering.action_name(a)

    @property
    def error_bound(self) -> float:
        """E-bar at the start: the bound on the value error of every policy under every reward. epsilon is twice that."""
        return self.certificate.error_bound

    @overload
    def plan(
        self, reward: Reward, reward_range: tuple[float, float] | None = None, cautious: bool = False, rewards: str | None = None,
        stationary_rewards: bool = False, allow_unseen: bool = False, paid_once: bool = False, subject_to: None = None,
        only_seen: bool = False,
    ) -> Plan: ...  # fmt: skip

    @overload
    def plan(
        self, reward: Reward, reward_range: tuple[float, float] | None = None, *, subject_to: Sequence[tuple[Reward, str, float]]
    ) -> ConstrainedPlan: ...

    def plan(
        self,
        reward: Reward,
        reward_range: tuple[float, float] | None = None,
        cautious: bool = False,
        rewards: str | None = None,
        stationary_rewards: bool = False,
        allow_unseen: bool = False,
        paid_once: bool = False,
        subject_to: Sequence[tuple[Reward, str, float]] | None = None,
        only_seen: bool = False,
    ) -> Plan | ConstrainedPlan:
        """The optimal policy of the empirical model for a reward, with certified bounds.

            plan = atlas.plan("state == 30")                        # an expression, an array, a function or a file
            plan.lower, plan.value, plan.upper

        Parameters
        ----------
        reward : array_like, callable, mapping or str
            An array (S,), (S, A) or (H, S, A), or a function (h, s, a) -> float; or a reward on arrival: an array (S, A, S) or
            (H, S, A, S), a function (h, s, a, s_next) -> float or a sparse table (`rewards.forms`). An expression such as `"state
            == 30"` (`rewards.expressions`) or the name of a file (`rewards.files`). A sum of named terms (`anyreward.term`), by
            which `Plan.terms` splits the value. `"own"` is the reward that the environment itself paid while it was explored, or
            that of the model.
        reward_range : (float, float), optional
            The range of the reward, (0, 1) by default, or that of a sum of terms. With another range, value and bounds are in
            the units of the reward, and the error bound for all rewards is multiplied by the width of the range. For `"own"`: the
            range of the rewards that the environment can pay. A transition that was never observed may pay anything in it.
        cautious : bool, default False
            Return the policy with the best guaranteed value instead: its smallest value over all models that the data allow is
            largest.
        rewards : {"random", "deterministic"}, optional
            For `"own"` only. "random", the default: nothing is assumed. The mean reward of each step, state and action lies in a
            KL interval (`docs/theory.md`, 9.6). Half of delta is spent on these means and half on the transitions, so
            the bounds of the plan hold with probability at least 1 - delta. "deterministic": you know that the same transition
            always pays the same, so one observation is enough. Data that contradict this are refused.
        stationary_rewards : bool, default False
            For `"own"` only: whether you know that rewards do not depend on the step. Stationary transitions do not imply it.
        allow_unseen : bool, default False
            Whether the plan may choose an action that was never seen in a state and step where others were. By default it does
            so only where the reward depends on the action and alone asks for it, see the notes; `Plan.untried` counts how often.
        paid_once : bool, default False
            For `"own"` only: whether you know that at most one reward of an episode is not zero, as in a game that is won or lost
            at its end. Values then lie between the smallest and the largest reward (or 0), whatever the number of steps. Data
            that contradict this are refused.
        subject_to : list of (cost, "<=" or ">=", limit), optional
            Constraints: the plan's expected sum of each cost, a reward of any form and range, is then *certain* to be within
            its limit. The result is a `ConstrainedPlan`: one policy, or a mixture of few that is drawn once an episode. If no
            plan can be certified to meet a limit, the error says what the best limit is that can.
        only_seen : bool, default False
            Never choose an action that was never seen where another one was, whatever it costs. The plan then need not be
            epsilon-optimal; its `regret_bound`, which it prints, bounds what it loses.

        Returns
        -------
        Plan or ConstrainedPlan

        Notes
        -----
        The bounds are those of robust planning over the KL balls, cut off by the error bound for all rewards and by the smallest
        and largest value that the reward allows at all. For a reward on arrival, from an atlas that was certified without them,
        the balls are those of an event that covers the last step too: such bounds hold at once among themselves, with the same
        probability. So do the bounds of plans for `"own"`, for the same `rewards`; together with those of plans for given
        rewards, they hold at once with probability at least 1 - 2 delta.

        **Actions that were never seen.** In the empirical model an action without data leads anywhere, which may look good. The
        plan therefore chooses the best of the actions that were seen in that state (at that step, if transitions depend on it),
        as long as there is one. A reward that is given and does not depend on the action never asks for another one. If it does
        depend on the action, there are two exceptions, which the promise that plans are epsilon-optimal asks for. At the last
        step nothing follows, so the value of an action is its reward: all actions are compared, and the seen ones are preferred
        among equals. And if epsilon needs unseen actions, the plan is optimal in the model in which they lead to the worst state,
        and names one only where what it pays at once makes up for that (`docs/theory.md`, 6). A plan that names one prints at how
        many steps and states (`Plan.untried`); with `only_seen` no plan does. The bounds are about the policy
        that is returned in any case. A cautious plan maximises what is guaranteed: it chooses an unseen action only where the
        reward alone makes that guarantee more than any seen one does.

        **Given rewards.** An atlas that was explored for given rewards promises plans for them that are certain to be
        epsilon-optimal. Where the optimal policy of the empirical model is not certain to be so good, but the cautious plan is,
        that one is returned.

        **Episodes that terminate.** With `terminal="outcome"`, a reward that depends on the action is paid, after an episode has
        terminated, for an action that the plan names in that state, which is the one that pays best (`Plan.after_end`). So what
        a certificate promises is kept for such rewards, too. A policy (H, S) of your own names what it plays in that state.
        """
        for name, value in (("cautious", cautious), ("allow_unseen", allow_unseen), ("only_seen", only_seen)):
            if not isinstance(value, bool):
                raise ValueError(f"{name} is {value!r}: it has to be True or False.")
        if only_seen and (cautious or allow_unseen):
            other = "cautious" if cautious else "allow_unseen"
            raise ValueError(f"only_seen and {other} are both given, but such a plan may choose unseen actions: leave one out.")
        if subject_to is not None:
            if cautious or allow_unseen or only_seen:
                raise ValueError(
                    "subject_to tries plain and cautious plans itself: leave out cautious, allow_unseen and only_seen."
                )
            if rewards is not None or stationary_rewards or paid_once:
                raise ValueError("subject_to is for rewards that are given: leave out what is assumed of observed ones.")
            from .constrained import plan_subject_to

            return plan_subject_to(self, reward, reward_range, subject_to)
        scoring = scoring_of(self, reward, reward_range, rewards, stationary_rewards, paid_once)
        if only_seen:
            return self._plan(scoring, cautious, allow_unseen, only_seen=True)
        plan, promised = self._plan(scoring, cautious, allow_unseen), self.certificate.promised
        if promised is not None and not cautious and plan.regret_bound > promised:
            careful = self._plan(scoring, True, allow_unseen)
            plan = careful if careful.regret_bound <= promised else plan
        return plan

    def _plan(self, scoring: Scoring, cautious: bool, allow_unseen: bool, only_seen: bool = False) -> Plan:
        """The plan for a scoring; arguments as for `plan`."""
        model, setting, average = self._model, self.counts.setting, scoring.pays.average
        most = self._robust(scoring, MOST)
        least = self._robust(scoring, LEAST) if scoring.own else most
        highest = min(scoring.highest, most.of(None, kernels.robust.UPPER) + scoring.slack)

        @cache
        def worst() -> Values:
            """The optimum if what was never tried leads to the worst state."""
            return self._induct(scoring, worst=True)

        def bounded(found: Values | Choice) -> Plan:
            """The plan with this policy and its bounds; its values in the empirical model may be known."""
            chosen = found.choice if isinstance(found, Values) else found
            chosen = extended_to_terminations(self.counts, chosen, average, best=True)
            known = isinstance(found, Values) and setting.n_outcomes == setting.n_states
            V = found.start if known else self._induct(scoring, chosen).start  # type: ignore[union-attr]
            floor = float(model.initial @ V)
            guaranteed = least.of(chosen, kernels.robust.LOWER) - scoring.slack
            lower = max(scoring.lowest, floor - scoring.error, guaranteed)
            value = min(scoring.highest, max(scoring.lowest, floor))  # rounding may have moved it outside
            upper = highest
            if highest > guaranteed + scoring.error:  # otherwise the worst completion, whose optimum is more, makes no difference
                upper = min(highest, float(model.initial @ worst().start) + scoring.error)
            delta, assumed = self.certificate.delta, self._assumptions(scoring)
            ends, within = (lower, max(lower, value, upper)), scoring.reward_range
            return Plan(chosen, value, *ends, within, delta, assumed, self, scoring, only_seen)

        if cautious or allow_unseen:
            return bounded(least.chosen(kernels.robust.LOWER) if cautious else self._induct(scoring))
        last = only_seen or scoring.own or isinstance(average, ArrivalReward)  # whether the last step needs data too
        plan = bounded(self._induct(scoring, prefers_seen=True, last=last))
        if only_seen or plan.regret_bound <= 2 * scoring.error:
            return plan
        return bounded(worst().choice)  # which keeps the promise

    def reach(self, goal: Any, avoid: Any = None, cautious: bool = False) -> GoalPlan:
        """The policy that is most likely to arrive at a goal within H steps, with certified bounds.

            atlas.reach("state == 30")                          # a probability, and a certified number of steps
            atlas.reach("state == 30", avoid=[3, 4])            # before any of these states
            atlas.reach(("state == 20", "state == 5"))          # one after the other
            atlas.reach(anyreward.Automaton(3, step=..., accepting=[2]))

        Parameters
        ----------
        goal : states, tuple of states, or Automaton
            States are a number, a list of numbers, (S,) truth values, or an expression of the state. A tuple of them is
            reached in that order. Arriving with the last step counts, and so does a state in which the episode terminates. An
            automaton reads all states of an episode.
        avoid : states, optional
            What must not be visited before.
        cautious : bool, default False
            Choose the policy whose guaranteed probability is largest.

        Returns
        -------
        GoalPlan
            Its bounds hold on the certificate's event for laws of all steps, the last one too, with those of all other goals and
            of rewards on arrival at once (`docs/theory.md`, 18.1).
        """
        from .goals import reach

        return reach(self, goal, avoid, cautious)

    def avoid(self, states: Any, cautious: bool = False) -> GoalPlan:
        """The policy that is most likely never to visit some states in an episode, with certified bounds; see `reach`.

        Example:

            atlas.avoid("state == 0").value                 # the probability that state 0 is never visited
        """
        from .goals import avoid

        return avoid(self, states, cautious)

    def discover(self, steps: float | None = None) -> Discovery:
        """Which states can be reached within so many expected steps, one after the other, with a certified number for each.

            found = atlas.discover(13)        # 21 states certainly, 8 certainly not, 2 undecided
            found.certified[20]               # state 20 is reached within so many expected steps, if restarts are free
            found.policy(20)                  # by this policy, (H, S)

        A state counts if a policy that stays among states which count reaches it (Lim & Auer 2012); episodes that leave them
        before, or do not arrive, are restarted after H steps. The algorithm `"disco"` collects what this takes.

        Parameters
        ----------
        steps : float, optional
            Within how many; by default what "disco" was given, or the horizon.

        Returns
        -------
        Discovery
            Everything in it holds at once, on the event of `reach` (`docs/theory.md`, 18).
        """
        from .discovery import discover

        return discover(self, steps)

    def trade_off(self, first: Reward, second: Reward, points: int = 9) -> TradeOff:
        """What can be had of a second reward for so much of a first one: plans for sums of both, and what no policy can exceed.

            curve = atlas.trade_off("state == 30", "action == 0")
            curve.plot()                      # each plan as a box in which its two values certainly lie, and the outer line
            curve.most(3.0)                   # no policy worth 3.0 of the first is worth more than this of the second

        Parameters
        ----------
        first, second : reward
            Given rewards of any form and range. A cost is a reward with the other sign.
        points : int, default 9
            How many plans, for shares of the second reward from 0 to 1.

        Returns
        -------
        TradeOff
            Everything in it holds at once, on the certificate's event (`docs/theory.md`, 17.3).
        """
        from .tradeoff import trade_off

        return trade_off(self, first, second, points)

    @cached_property
    def _seen(self) -> np.ndarray:
        """Which actions were seen in each state: (H, n_outcomes, A) booleans, or (1, n_outcomes, A) if stationary."""
        setting = self.counts.setting
        shape = (-1, setting.n_states, setting.n_actions)
        if setting.structure is not None:  # an action was seen where its laws were
            return self.counts.shared.known_pairs.reshape(shape)
        n = self.counts.n().reshape(shape) > 0
        return np.pad(n, ((0, 0), (0, setting.n_outcomes - setting.n_states), (0, 0)))

    def _assumptions(self, scoring: Scoring) -> tuple[str, ...]:
        """The assumptions of a certified interval: those of the certificate, and what is assumed of the reward."""
        return tuple(dict.fromkeys((*self.certificate.assumptions, *scoring.assumed)))

    def legal(self, policy: np.ndarray) -> np.ndarray:
        """A policy with every illegal action a replaced by legal action number a mod k, where k actions are legal in that state.

            atlas.legal(policy)                             # what is really played where `policy` names an illegal action

        In a state that was never visited the legal actions are unknown; nothing is replaced there, and certified intervals allow
        for any.

        Parameters
        ----------
        policy : ndarray, (H, S) or (H, S, A)
        """
        illegal = self.counts.illegal
        if not len(illegal):
            return policy
        A = self.counts.setting.n_actions
        allowed = ~illegal
        order = np.argsort(illegal, axis=1, kind="stable")  # the legal actions first
        instead = np.take_along_axis(order, np.arange(A)[None] % np.maximum(allowed.sum(axis=1, keepdims=True), 1), axis=1)
        instead = np.where(allowed, np.arange(A), instead)  # (S, A)
        if policy.ndim == 2:
            return instead[np.arange(len(instead))[None], policy]
        moved = np.zeros_like(policy)
        for a in range(A):
            moved[:, np.arange(len(instead)), instead[:, a]] += policy[:, :, a]
        return moved

    def evaluate(
        self,
        policy: ArrayLike | Plan,
        reward: Reward,
        reward_range: tuple[float, float] | None = None,
        rewards: str | None = None,
        stationary_rewards: bool = False,
        paid_once: bool = False,
    ) -> Interval:
        """The value of any policy under any reward, with certified bounds.

            lower, value, upper = atlas.evaluate(policy, "state == 30")

        Parameters
        ----------
        policy : Plan or array_like
            A plan of this atlas, (H, S) actions, or (H, S, A) probabilities of actions.
        reward, reward_range, rewards, stationary_rewards, paid_once
            As in `plan`.

        Returns
        -------
        Interval
            All such intervals, for all policies and given rewards, hold at once on the certificate's event (see `Plan`).
            Intervals for `"own"` hold on the event of plans for it.
        """
        scoring = scoring_of(self, reward, reward_range, rewards, stationary_rewards, paid_once)
        if isinstance(policy, Plan):  # of this atlas, its states and actions are known to be those of this one
            policy = policy.choice if policy.atlas is self else policy.on_outcomes
        return Interval(*self._evaluate(policy, scoring), self.certificate.delta, self._assumptions(scoring))

    def _evaluate(self, policy: ArrayLike | Choice, scoring: Scoring) -> Bounds:
        """The value of a policy for a scoring, with certified bounds."""
        model, setting, average = self._model, self.counts.setting, scoring.pays.average
        S, N = setting.n_states, setting.n_outcomes
        whole = not isinstance(policy, tuple) and N > S and np.ndim(policy) in (2, 3) and np.shape(policy)[1] == N
        if isinstance(policy, kernels.planning.Choice):
            pi = extended_to_terminations(self.counts, policy, average, best=False)
        elif whole:
            states = as_policy(policy, N, setting.n_actions, setting.horizon)
            pi = np.concatenate([self.legal(states[:, :S]), states[:, S:]], axis=1)
        else:
            states = as_policy(policy, S, setting.n_actions, setting.horizon)
            pi = extended_to_terminations(self.counts, self.legal(states), average, best=False)
        value = float(model.initial @ self._induct(scoring, pi).start)
        value = min(scoring.highest, max(scoring.lowest, value))  # rounding may have moved it outside
        lower = self._robust(scoring, LEAST).of(pi, kernels.robust.LOWER) - scoring.slack
        upper = self._robust(scoring, MOST).of(pi, kernels.robust.UPPER) + scoring.slack
        lower, upper = max(scoring.lowest, value - scoring.error, lower), min(scoring.highest, value + scoring.error, upper)
        return Bounds(lower, value, max(lower, upper))

    def verify(
        self,
        plan: Plan | ArrayLike,
        env: Any,
        episodes: int | None = None,
        *,
        max_seconds: float | None = None,
        width: float | None = None,
        reward: Reward = None,
        reward_range: tuple[float, float] | None = None,
        rewards: str | None = None,
        stationary_rewards: bool = False,
        paid_once: bool = False,
        against: Plan | ArrayLike | None = None,
        also: Mapping[str, Reward] | None = None,
        delta: float | None = None,
        attempt: int | None = None,
        seed: int = 0,
        progress: bool | None = None,
        **adapter: Any,
    ) -> Verification:
        """Plays a plan on fresh episodes, and bounds its true value by what it earns and by what was explored.

            atlas.verify(plan, env, episodes=2000)                  # its value
            atlas.verify(plan, env, episodes=2000, against=other)   # by how much it is better than another one

        Parameters
        ----------
        plan : Plan or array_like of int, (H, S)
            What to play. It has to be fixed before its first episode, and so has the reward.
        env
            The environment that was explored, in any of the forms that `explore` takes, or a `gymnasium.vector.VectorEnv` of it.
        episodes, max_seconds, width : optional
            When to stop: after so many episodes, so many seconds, or when the interval by playing is that narrow; whichever comes
            first. The interval holds at all times at once, so you may also stop with Ctrl-C.
        reward, reward_range, rewards, stationary_rewards, paid_once : optional
            By which reward to score the episodes, as in `plan`; that of the plan unless it is given.
        against : Plan or array_like of int, (H, S), optional
            Another plan. The result is then the value of `plan` minus that of `against`, under the same reward: both are played
            in pairs of episodes that begin with the same seed.
        also : mapping of str to reward, optional
            Further rewards, in the same range, to be scored on the same episodes (`Verification.scores`).
        delta : float, optional
            The result may fail with at most this probability, that of the certificate unless it is given. Half of it is spent on
            the model and half on the playing, where the rewards share it.
        attempt : int, optional
            If you try several plans and believe the best: the number k of this try, from 1. The playing then gets the share
            1/(k (k + 1)) of its half, so that the intervals by playing of all tries hold at once.
        seed : int, default 0
            Of the episodes. Exploration uses none of these seeds. Verifying twice with the same seed plays the same episodes.
        progress : bool, optional
            Whether to show a progress bar; None shows it on a terminal, after two seconds.
        **adapter
            Arguments of `Gymnasium`, such as `env_args`.

        Returns
        -------
        Verification
            An `Interval` with more details. Its proof is in `docs/theory.md`, 12.1.
        """
        from .constrained import refuse_constrained
        from .verification import verify

        refuse_constrained(plan, against)
        return verify(
            self, plan, env, episodes=episodes, max_seconds=max_seconds, width=width, reward=reward, reward_range=reward_range,
            known=(rewards, stationary_rewards, paid_once), against=against, also=also, delta=delta, attempt=attempt, seed=seed,
            progress=progress, adapter=adapter,
        )  # fmt: skip

    def watch(self, new_data: Any, alpha: float = 0.01, **how: Any) -> Drift:
        """Whether the environment is still the one that was explored: an alarm that compares new data with the atlas, law by law.

            found = atlas.watch(new_counts)                   # or another atlas, or (states, actions)
            found.changed, found.p                            # a false alarm has probability at most alpha, whenever one looks
            print(found)                                      # with the laws of which there is most evidence, by name
            atlas.watch(log, episode="id", state="where", action="what")    # a log, by its columns

        Parameters
        ----------
        new_data : Counts, Atlas, (array_like, array_like) or data frame
            Data that were collected after those of the atlas, and are not part of it: counts or an atlas in the same setting, the
            states (B, H+1) and actions (B, H) of whole episodes, a table of transitions h, s, a, next, or a log. Look as often
            as you like at all new data so far. Batches that are looked at on their own are alarms of their own, each with its
            alpha.
        alpha : float, default 0.01
            The probability of ever raising a false alarm.
        **how
            For a log: the arguments of `Counts.from_dataframe` that say what its columns are. The horizon, states and actions
            are those of the atlas.

        Returns
        -------
        Drift
            The proof is in `docs/theory.md`, 16.2.
        """
        from .watching import watch

        return watch(self, new_data, alpha, how)

    def explain(self, reward: Reward, reward_range: tuple[float, float] | None = None, cautious: bool = False) -> Explanation:
        """What makes the interval of a plan wide: which steps, states and actions, or which laws of a declared structure.

            print(atlas.explain("state == 30"))                     # the largest charges, with names
            atlas.explain("state == 30").episodes_to_halve          # a forecast

        Parameters
        ----------
        reward, reward_range, cautious
            As in `plan`; the reward has to be given. `"own"` is that of a model.

        Returns
        -------
        Explanation
        """
        from .explanation import explain

        return explain(self, self.plan(reward, reward_range, cautious))

    @cached_property
    def behaviour(self) -> np.ndarray:
        """What was done, as a policy: the frequency of each action at each step and state, (H, S, A).

        In a state where no action was taken (at that step, unless steps are pooled), all actions that may be legal are equally
        likely. It is a policy like any other: `evaluate` gives a certified interval for the value that it would
        have if it were played. It estimates what was done on average; if different episodes were played differently, no single
        policy is exactly what was done (`docs/off-policy.md`).
        """
        setting, illegal, taken = self.counts.setting, self.counts.illegal, self.counts.taken
        n = self.counts.n().reshape(-1, setting.n_states, setting.n_actions)
        np.add.at(n, tuple(taken[:, :3].T), taken[:, 3])
        n = np.broadcast_to(n, (setting.horizon, *n.shape[1:]))
        free = ~illegal if len(illegal) else np.ones(n.shape[1:], bool)
        played = np.where(n.any(axis=2, keepdims=True), n, free)
        return played / played.sum(axis=2, keepdims=True)

    def improvement(self, plan: Plan, against: ArrayLike | None = None) -> Interval:
        """By how much a plan is better than another policy, for the reward of the plan, with certified bounds.

            plan = atlas.plan("own")
            atlas.improvement(plan).lower           # better than what was done by at least this, with probability 1 - delta

        Parameters
        ----------
        plan : Plan
            A plan of this atlas.
        against : array_like, (H, S) or (H, S, A), optional
            The other policy; by default `behaviour`, the frequencies with which actions were taken (`docs/theory.md`, 9.5).

        Returns
        -------
        Interval
            Of the value of the plan less the value of the other policy. It holds on the event of the plan, at once with all
            other intervals for the same reward: the lower end is the lower bound of the one less the upper bound of the other.
            `value` is the difference in the empirical model.
        """
        from .constrained import refuse_constrained

        refuse_constrained(plan, against)
        if not isinstance(plan, Plan) or plan.atlas.certificate != self.certificate:
            raise ValueError("the plan is not of this atlas: make one from it.")
        new = self._evaluate(plan.choice, plan.scoring)
        old = self._evaluate(self.behaviour if against is None else against, plan.scoring)
        lower = max(new.lower, plan.lower) - old.upper
        ends = np.nextafter(lower, -np.inf), np.nextafter(new.upper - old.lower, np.inf)
        return Interval(float(ends[0]), new.value - old.value, float(ends[1]), plan.delta, plan.assumptions)

    @cached_property
    def _model(self) -> EmpiricalModel:
        """The empirical model, computed once."""
        return self.counts.model()

    @cached_property
    def _ordered(self) -> Counts:
        """The counts from which balls are computed, so that plans are the same, to the bit, after saving and loading."""
        return self.counts.in_order()

    @cached_property
    def _balls(self) -> dict[tuple[float, bool], Robust]:
        """Balls that were computed already, by delta and by whether the event covers the last step."""
        return {}

    def _balls_of(self, delta: float, last_step: bool) -> Robust:
        """The KL balls of all rows for a delta, and whether the event covers the laws of the last step; computed once."""
        if (delta, last_step) not in self._balls:
            bound = self.certificate.bound
            radii, most = bound.kl_radii(self._ordered, delta, last_step), bound.most_successors(self.counts.setting)
            self._balls[delta, last_step] = Robust(self._ordered, radii, most)
        return self._balls[delta, last_step]

    def radii(self, delta: float, last_step: bool) -> np.ndarray:
        """The KL radii of all rows for a delta, and whether the event covers the laws of the last step; computed once.

        Example:

            atlas.radii(0.1, last_step=False).max()
        """
        return self._balls_of(delta, last_step).radii

    def _robust(self, scoring: Scoring, which: int) -> Robust:
        """Robust planning for the lower (`LEAST`) or upper (`MOST`) bound of a reward, over the balls for its delta."""
        reward = scoring.pays[:3][which]
        balls = self._balls_of(scoring.delta, isinstance(reward, ArrivalReward))
        return balls.paying(reward, scoring.pays.base[which], scoring.ends)

    def _induct(
        self,
        scoring: Scoring,
        policy: np.ndarray | Choice | None = None,
        prefers_seen: bool = False,
        last: bool = True,
        worst: bool = False,
    ) -> Values:
        """Backward induction for a reward in the empirical model; arguments as for `planning.induct`."""
        setting, pays = self.counts.setting, scoring.pays
        beyond = pays.base[AVERAGE] * setting.sigma[::-1]  # what the constant of the reward adds up to from each step on
        limits = None if scoring.ends == (-inf, inf) else (scoring.ends[0] - beyond[:-1], scoring.ends[1] - beyond[:-1])
        return induct(
            self._model, pays.average, setting.horizon, setting.discount, policy, prefers_seen, last, limits, False, worst, beyond
        )

    def __or__(self, other: Atlas) -> Atlas:
        """Both atlases merged; see `merge`."""
        return self.merge(other) if isinstance(other, Atlas) else NotImplemented

    def merge(self, other: Atlas, same_environment: bool = False) -> Atlas:
        """Both atlases together: the counts are added and certified again. ``a | b`` does the same.

            one = anyreward.explore(env, horizon=20, max_episodes=100, seed=1)
            other = anyreward.explore(env, horizon=20, max_episodes=100, seed=2)
            one.merge(other).episodes                       # 200

        The merged certificate is valid if it was decided which runs to merge before they were seen, or if all runs are merged:
        with the runs in a row, the samples of each law are still independent draws. Choosing runs by how they
        turned out voids it, and so does counting a run twice, which is refused.

        Parameters
        ----------
        other : Atlas
            Of the same environment, setting, delta and error bound.
        same_environment : bool, default False
            Whether you know that both are of the same environment. It is needed only if this cannot be verified: `explore` keeps
            a fingerprint of the environment, but imported data have none, nor has an environment of your own, of which only the
            class is known.
        """
        if not isinstance(other, Atlas):
            raise ValueError(f"a {type(other).__name__} cannot be merged with an atlas: make an atlas of it first.")
        mine, theirs = self.certificate, other.certificate
        if not (mine.every_reward and theirs.every_reward):
            raise ValueError(
                "an atlas certified for one reward or for several cannot be merged: certify its counts for every reward first."
            )
        if CalibratedBound.name in (mine.bounds, theirs.bounds):
            raise ValueError(
                "an atlas with calibrated bounds cannot be merged: its certificate is about the design of its own run."
            )
        for name in ("delta", "bounds", "options"):
            if getattr(mine, name) != getattr(theirs, name):
                raise ValueError(f"atlases with {name} {getattr(mine, name)} and {getattr(theirs, name)} cannot be merged.")
        if shared_runs(self.runs, other.runs):
            raise ValueError("these atlases share a run: counting the same episodes twice would void the certificate.")
        if self.counts.setting != other.counts.setting:
            one, two = asdict(self.counts.setting), asdict(other.counts.setting)
            differ = ", ".join(
                f"{name} ({str(one[name])[:40]} and {str(two[name])[:40]})" for name in one if one[name] != two[name]
            )
            raise ValueError(f"atlases of different settings cannot be merged, they differ in {differ}: explore both alike.")
        prints = self.source.get("fingerprint"), other.source.get("fingerprint")
        names = [atlas.source.get("env", "data of unknown origin") for atlas in (self, other)]
        if None not in prints and prints[0] != prints[1]:
            raise ValueError(
                f"these atlases are of different environments, {names[0]} and {names[1]} (their fingerprints "
                "differ): they cannot be merged."
            )
        if None in prints and not same_environment:
            unknown = names[prints.index(None)]
            raise ValueError(
                f"it cannot be verified that these atlases are of the same environment: {unknown} has no fingerprint. "
                "If you know that it is the same, pass same_environment=True."
            )
        if self.numbering != other.numbering:
            raise ValueError(
                "these atlases cannot be merged: their states or actions were numbered or named differently, for instance in the "
                "order in which they appeared."
            )
        counts = self.counts + other.counts
        alike = mine.reward_range == theirs.reward_range
        target = mine.target if mine.target == theirs.target and alike else None
        certificate = certify(counts, mine.delta, mine.bounds, target, mine.reward_range if alike else UNIT, **mine.options)
        said = (*certificate.assumed, *mine.assumed, *theirs.assumed, *((SAME,) if None in prints else ()))
        certificate = replace(certificate, assumed=tuple(dict.fromkeys(said)))
        paid = None if self.paid is None or other.paid is None else self.paid + other.paid
        recording = None
        if self.recording is not None and other.recording is not None:
            recording = Recording(*(np.concatenate(parts) for parts in zip(self.recording, other.recording, strict=True)))
        kept = ("grid", "arrows", "env", *(() if None in prints else ("fingerprint",)))
        source = {"merged": [self.source, other.source]} | {k: v for k, v in self.source.items() if k in kept}
        recorded = self.recorded + other.recorded if recording is not None else ()
        runs = self.runs + other.runs
        own = self.own_reward if np.array_equal(self.own_reward, other.own_reward) else None  # type: ignore[arg-type]
        return Atlas(counts, certificate, (), source, runs, None, paid, recording, recorded, None, self.numbering, own)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves the atlas as a Parquet file, which `load` reads.

            atlas.save("chain.atlas")
            atlas = anyreward.load("chain.atlas")

        Its table has the columns h, s, a, next and count, with h = -1 for initial states. The column `evidence` is added if the
        counts have transfer evidence (`Counts`), and columns of observed rewards if the environment paid any. Everything else is
        inside the same file, where Parquet readers do not look (`atlas.container`). The file is written completely or not at all;
        an older file of that name stays until then.
        """
        path = as_path(path)
        with file_lock(path):
            self._write(path, {}, {})

    def _write(self, path: Path, progress: dict[str, Any], state: dict[str, np.ndarray]) -> None:
        """Saves the atlas together with what is needed to resume the exploration."""
        from .format import write

        write(self, path, progress, state)

    def export(self, path: str | os.PathLike[str], empirical: bool = False) -> None:
        """Writes the model for other checkers, such as Storm and PRISM: an interval model that contains every KL ball.

            atlas.export("chain.drn")           # the true model is in it with probability 1 - delta
            atlas.export("chain.drn", empirical=True)

        Parameters
        ----------
        path : path
            A name that ends in .drn, Storm's explicit format, or in .umb, which needs the package umbi.
        empirical : bool, default False
            Write the empirical model, with its probabilities, instead.

        Notes
        -----
        Labels are the names of the states, in letters, digits and underscores. If transitions depend on the step, a state of the
        file is a state at a step. If the initial state is random, there is a state in front, and one more step
        (`docs/theory.md`, 19.1).
        """
        from .exporting import export

        export(self, as_path(path), empirical)

    def plot(self, grid: tuple[int, int] | None = None) -> Any:
        """A Matplotlib figure: the visits of each state, and the certified epsilon over time.

            atlas.plot().savefig("visits.png")

        Parameters
        ----------
        grid : (int, int), optional
            Rows and columns, if the states are the cells of a grid, numbered row by row. Known for grid worlds.
        """
        from ..plots import draw_atlas

        return draw_atlas(self, grid)

    def to_minari(self, dataset_id: str, **options: Any) -> Any:
        """Stores the recorded episodes as a Minari dataset and returns it; see `recording.to_minari`.

            atlas = anyreward.explore(env, horizon=20, max_episodes=100, record=True)
            dataset = atlas.to_minari("chain/explored-v0")

        The exploration must have been asked to `record` them.
        """
        from .recording import to_minari

        return to_minari(self, dataset_id, **options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atlas) and self.certificate == other.certificate and self.counts == other.counts

    __hash__ = None  # type: ignore[assignment]  # counts are mutable

    def __repr__(self) -> str:
        return f"Atlas({self.certificate})"

    def _repr_html_(self) -> str:
        from ..pages import atlas_card

        return atlas_card(self)


def extended_to_terminations(counts: Counts, policy: Any, reward: np.ndarray | ArrivalReward, best: bool) -> Any:
    """Extends a policy for states, (H, S) or a `Choice`, to all outcomes of a setting with `terminal="outcome"`.

    After an episode has terminated no action is taken, but a reward may depend on the action. With `best=False` the policy keeps
    naming the action of the state in which the episode terminated; with `best=True` it names, in each step and state, the action
    that pays best, which is never less. A `Choice` that names actions there already keeps them.
    """
    setting = counts.setting
    S, N, A, H = setting.n_states, setting.n_outcomes, setting.n_actions, setting.horizon
    if N == S or (isinstance(policy, kernels.planning.Choice) and policy.ended.shape[1]):
        return policy
    paid = best_at_ends(reward, S, N, A) if best else None
    if isinstance(policy, np.ndarray):
        return np.concatenate([policy, policy if paid is None else np.broadcast_to(paid, (H, N - S))], axis=1)
    return policy._replace(ended=np.zeros((0, N - S), np.int64) if paid is None else paid)


def best_at_ends(reward: np.ndarray | ArrivalReward, S: int, N: int, A: int) -> np.ndarray | None:
    """The action that pays best in each of the last outcomes, which stay where they are, (steps, S); None if none pays more."""
    if isinstance(reward, ArrivalReward):
        pairs, stay = np.arange(S * A, N * A), np.repeat(np.arange(S, N), A)
        paid = np.stack([reward.at(h, pairs, stay).reshape(S, A) for h in range(reward.shape[0])])
    else:
        pay = core(reward)
        paid = pay[:, -min(S, pay.shape[1]) :]
    if (paid == paid[..., :1]).all():
        return None
    return np.broadcast_to(paid.argmax(axis=2), (len(paid), N - S)).copy()


def shared_runs(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two atlases may contain the same run.

    Explorations have unique identifiers, and are different runs even if their counts happen to be the same. Imported data are
    identified by their counts alone, which may be those of an exploration.
    """
    mine, theirs = ({run for run in runs if not run.startswith(COUNTS)} for runs in (one, other))
    return bool(mine & theirs or any(COUNTS + run in other for run in mine) or any(COUNTS + run in one for run in theirs))

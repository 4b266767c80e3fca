"""`TabularMDP`: a Markov decision process with finitely many states and actions whose transition probabilities are known."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from ..setting import TOLERANCE, Setting, real_number, shown, whole_number
from .numbering import Names, Numbering
from .spaces import Whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from ..kernels.planning import Choice, Kinds, Pay, Places, Rows
    from ..kernels.simulate import Model
    from ..rewards.forms import ArrivalReward
    from ..structure import Structure

MAX_ENTRIES = 2**28  # the largest transition table: two gigabytes


def check_size(entries: int, name: str) -> None:
    """Raises if a transition table would be too large for memory. Call it before the table is filled."""
    if entries > MAX_ENTRIES:
        raise ValueError(f"{name} would have a transition table of {entries:,} entries: at most {MAX_ENTRIES:,} are possible.")


class TabularMDP:
    """A model whose transition probabilities are known: to simulate, to explore and to plan in.

        mdp = TabularMDP(P, initial=0)                # P: (S, A, S) or (H, S, A, S)
        atlas = anyreward.explore(mdp, horizon=20, epsilon=2.0)
        states, actions = mdp.rollout(policy, episodes=100)

    Parameters
    ----------
    P : array_like, (S, A, S) or (H, S, A, S)
        Transition probabilities; with a first axis H if they depend on the step. Rows have to sum to one up to 1e-9; they are
        then rescaled.
    initial : int or array_like, (S,), default 0
        The state in which every episode starts, or the distribution of the initial state.
    reward : array_like, optional
        The model's own reward: (S,), (S, A) or (H, S, A), any finite numbers. Exploration does not need it.
    state_names, action_names : list of str, mapping from numbers to names, or Enum class, optional
        What states and actions are called in tables and pictures.

    Attributes
    ----------
    n_states, n_actions : int
    n_steps : int or None
        The number of steps for which transitions are given, or None if they do not depend on the step.
    initial : ndarray, (S,)
        The distribution of the initial state.
    reward : ndarray or None
        The model's own reward.
    numbering : Numbering
        The names of states and actions.
    name : str
        A description for printing.
    grid : (int, int) or None
        Rows and columns, if the states are the cells of a grid: for plots.
    arrows : str or None
        One character for each action, for plots on a grid.
    structure : Structure or None
        What may be declared of this model: `explore(mdp, ..., structure="own")`. Nothing else uses it.

    Notes
    -----
    Only successors of positive probability are stored. If P would be too large, pass lists of successors to `from_sparse`.
    """

    numbering: Numbering

    def __init__(
        self,
        P: ArrayLike,
        initial: Any = 0,
        reward: ArrayLike | None = None,
        *,
        state_names: Names | None = None,
        action_names: Names | None = None,
    ) -> None:
        P = np.asarray(P, dtype=float)
        if P.ndim not in (3, 4) or P.shape[-1] != P.shape[-3] or 0 in P.shape:
            raise ValueError(f"P has shape {P.shape}: it has to be (S, A, S) or (H, S, A, S).")
        _check_rows(P, "P")
        width = int(np.count_nonzero(P, axis=-1).max())
        # The largest probabilities come first; the sort is stable, so that the same P always gives the same simulation.
        successors = np.argsort(-P, axis=-1, kind="stable")[..., :width]
        self._build(successors, np.take_along_axis(P, successors, axis=-1), initial, reward)
        self.numbering = self.numbering.named(state_names, action_names)

    @classmethod
    def from_sparse(
        cls,
        successors: ArrayLike,
        probabilities: ArrayLike,
        initial: Any = 0,
        reward: ArrayLike | None = None,
        *,
        state_names: Names | None = None,
        action_names: Names | None = None,
    ) -> TabularMDP:
        """A model from lists of successors, for models whose dense array P would be too large.

            # two states; action 0 stays, action 1 changes the state with probability 0.9
            TabularMDP.from_sparse([[[0, 1], [0, 1]], [[1, 0], [1, 0]]], [[[1, 0], [0.1, 0.9]], [[1, 0], [0.1, 0.9]]])

        Parameters
        ----------
        successors : array_like of int, (S, A, K) or (H, S, A, K)
            The possible successors of each state-action pair.
        probabilities : array_like, of the same shape
            Their probabilities. Pad shorter lists with entries of probability 0.
        initial, reward, state_names, action_names
            As in `TabularMDP`.
        """
        successors, probabilities = np.asarray(successors), np.asarray(probabilities, dtype=float)
        if successors.shape != probabilities.shape or successors.ndim not in (3, 4) or 0 in successors.shape:
            raise ValueError(
                f"successors have shape {successors.shape} and probabilities {probabilities.shape}: "
                "both have to be (S, A, K) or (H, S, A, K)."
            )
        S = successors.shape[-3]
        if not np.issubdtype(successors.dtype, np.integer):
            raise ValueError(f"successors are {successors.dtype}: they have to be whole numbers.")
        bad = np.argwhere((successors < 0) | (successors >= S))
        if len(bad):
            at = tuple(bad[0])
            raise ValueError(f"successors{_at(at)} is {successors[at]}: states go from 0 to {S - 1}.")
        _check_rows(probabilities, "probabilities")
        order = np.argsort(-probabilities, axis=-1, kind="stable")
        self = cls.__new__(cls)
        successors = np.take_along_axis(successors, order, axis=-1)
        self._build(successors, np.take_along_axis(probabilities, order, axis=-1), initial, reward)
        self.numbering = self.numbering.named(state_names, action_names)
        return self

    def _build(self, successors: np.ndarray, p: np.ndarray, initial: Any, reward: ArrayLike | None) -> None:
        """Stores the model. `successors` and `p` are (S, A, K) or (H, S, A, K), in decreasing order of probability."""
        self.n_steps: int | None = p.shape[0] if p.ndim == 4 else None
        p = p / p.sum(-1, keepdims=True)
        if p.ndim == 3:
            p, successors = p[None], successors[None]
        # Padding repeats the last real successor, so that rounding in a draw can never lead to an impossible successor.
        last = np.take_along_axis(successors, np.maximum((p > 0).sum(-1, keepdims=True) - 1, 0), axis=-1)
        self._successors = np.where(p > 0, successors, last).astype(np.int32)
        self._probabilities = np.ascontiguousarray(p)
        self.n_states, self.n_actions = int(p.shape[1]), int(p.shape[2])
        self.initial = self._start_law(initial)
        self.reward = None if reward is None else self._checked_reward(reward)
        self.name = "a known model"
        self.numbering = Numbering(Whole(self.n_states, 0), Whole(self.n_actions, 0))
        self.grid: tuple[int, int] | None = None
        self.arrows: str | None = None
        self.structure: Structure | None = None
        self.played_by: Callable[..., bool] | None = None  # in place of `environments.tabular.play`, by those who note more

    def _start_law(self, initial: Any) -> np.ndarray:
        """The distribution of the initial state, (S,), from a state or a distribution."""
        law = np.zeros(self.n_states)
        if np.ndim(initial) == 0:
            s = whole_number(initial, "initial")
            if not 0 <= s < self.n_states:
                raise ValueError(f"initial is {s}: states go from 0 to {self.n_states - 1}.")
            law[s] = 1.0
            return law
        law = np.asarray(initial, dtype=float)
        if law.shape != (self.n_states,):
            raise ValueError(f"initial has shape {law.shape}: it has to be a state or a distribution, ({self.n_states},).")
        if not np.isfinite(law).all() or (law < 0).any() or abs(law.sum() - 1) > TOLERANCE:
            raise ValueError("initial is not a distribution: its entries have to be non-negative and to sum to one.")
        return law / law.sum()

    def _checked_reward(self, reward: ArrayLike) -> np.ndarray:
        """The model's own reward as an array. Raises if its shape or an entry is wrong."""
        try:
            r = np.asarray(reward, dtype=float)
        except (TypeError, ValueError):
            raise ValueError(
                f"reward is a {type(reward).__name__}: a model's own reward has to be an array of numbers."
            ) from None
        S, A = self.n_states, self.n_actions
        if r.shape not in ((S,), (S, A)) and not (r.ndim == 3 and r.shape[1:] == (S, A)):
            raise ValueError(f"reward has shape {r.shape}: it has to be ({S},), ({S}, {A}) or (H, {S}, {A}).")
        if not np.isfinite(r).all():
            raise ValueError(f"reward{_at(np.argwhere(~np.isfinite(r))[0])} is not a finite number.")
        return r

    def __repr__(self) -> str:
        steps = "stationary" if self.n_steps is None else f"{self.n_steps} steps"
        return f"TabularMDP({self.n_states} states, {self.n_actions} actions, {steps})"

    @property
    def initial_state(self) -> int | None:
        """The initial state, or None if it is random."""
        return int(self.initial.argmax()) if self.initial.max() == 1.0 else None

    def digest(self) -> str:
        """A SHA-256 fingerprint of the transition probabilities and the start.

        Example:

            mdp.digest() == anyreward.envs.double_chain().digest()
        """
        sha = hashlib.sha256(repr((self._probabilities.shape, self.n_steps)).encode())
        for array in (self._successors, self._probabilities, self.initial):
            sha.update(np.ascontiguousarray(array).tobytes())
        return sha.hexdigest()

    def setting(
        self,
        horizon: int,
        discount: float = 1.0,
        stationary: bool = False,
        arrival_rewards: bool = False,
        absorbing_states: tuple[int, ...] = (),
        initial: ArrayLike | None = None,
    ) -> Setting:
        """The setting in which this model is explored. Raises if the model contradicts it.

            setting = mdp.setting(horizon=20, stationary=True)
            explorer = anyreward.RFTrajectory(setting)

        Parameters
        ----------
        horizon : int
        discount : float, default 1.0
        stationary : bool, default False
        arrival_rewards : bool, default False
        absorbing_states : tuple of int, default ()
            See `Setting`.
        initial : array_like, optional
            The distribution of a random initial state, if it is to count as known: `TabularMDP.initial`. None: it is estimated.
        """
        setting = Setting(
            n_states=self.n_states,
            n_actions=self.n_actions,
            horizon=horizon,
            discount=discount,
            stationary=stationary,
            initial_state=self.initial_state if initial is None else None,
            arrival_rewards=arrival_rewards,
            absorbing_states=absorbing_states,
            initial=() if initial is None else initial,  # type: ignore[arg-type]  # Setting turns any form into pairs
        )
        if initial is not None:
            given = np.zeros(self.n_states)
            given[setting.starts[0]] = setting.starts[1]
            off = np.abs(given - self.initial)
            if off.max() > TOLERANCE:
                s = int(off.argmax())
                true = self.initial[s]
                text = f"initial has the probability {given[s]:g} for state {s}, but in this model it is {true:g}."
                raise ValueError(self.numbering.names_in(text))
        for s in setting.absorbing_states:
            if (self._successors[:, s] != s).any():
                raise ValueError(f"absorbing_states has {s}, but this model can leave that state.")
        self.check_horizon(setting.horizon)
        if stationary and self.n_steps is not None:
            raise ValueError("stationary is True but the transitions of this model depend on the step: use stationary=False.")
        return setting

    def check_horizon(self, horizon: int) -> None:
        """Raises if the model has no transition probabilities for that many steps."""
        if self.n_steps is not None and horizon > self.n_steps:
            raise ValueError(f"horizon is {horizon} but this model has transitions for {self.n_steps} steps only.")

    @cached_property
    def model(self) -> Model:
        """The arrays that the compiled loops simulate from."""
        starts = np.flatnonzero(self.initial)
        return kernels.simulate.Model(
            self._probabilities.shape,
            self._successors.reshape(-1),
            self._probabilities.reshape(-1),
            _cumulative(self._probabilities).reshape(-1),
            starts.astype(np.int32),
            self.initial[starts],
            _cumulative(self.initial[starts]),
        )

    @cached_property
    def places(self) -> Places:
        """All states, of all steps if transitions depend on the step, for planning."""
        T, S = self._probabilities.shape[:2]
        nothing = np.zeros(0, np.uint8), np.zeros(0, np.int32)
        return kernels.planning.Places(np.arange(T + 1) * S, np.tile(np.arange(S, dtype=np.int32), T), *nothing)

    @cached_property
    def rows(self) -> Rows:
        """The transitions of all steps, for planning."""
        K = self._probabilities.shape[-1]
        first = np.arange(0, self._probabilities.size + 1, K)
        return kernels.planning.Rows(first, self._successors.reshape(-1), self._probabilities.reshape(-1), np.zeros(0, bool))

    @cached_property
    def kinds(self) -> Kinds:
        """The kinds of rows, for planning; none if few rows are alike, or if they depend on the step."""
        first, target, p, _ = self.rows
        most = min(4096, (len(first) - 1) // 16) if self.n_steps is None else 0
        return kernels.planning.kinds_in(first, target, p, self.n_actions, most)

    def pay(self, reward: ArrivalReward, horizon: int, worst: bool = False) -> Pay:
        """The expectation of a reward on arrival, for planning. Every pair has transitions, so `worst` changes nothing."""
        same = self.n_steps is None and reward.shape[0] == 1
        each = np.stack([self.expect_pay(h, reward) for h in range(1 if same else horizon)])
        return kernels.planning.Pay(each, np.zeros((0, 0)))

    def expect(self, h: int, V: np.ndarray) -> np.ndarray:
        """The expectation of V(s') over the successors of each state-action pair at step h: V is (S,), the result (S, A)."""
        out = np.empty((self.n_states, self.n_actions))
        kernels.planning.expect(self.places, self.rows, h, np.ascontiguousarray(V, float), 0.0, out)
        return out

    def expect_pay(self, h: int, reward: ArrivalReward) -> np.ndarray:
        """The expectation of a reward on arrival for each state-action pair at step h, (S, A)."""
        t = 0 if self.n_steps is None else h
        pairs = np.arange(self.n_states * self.n_actions).reshape(self.n_states, self.n_actions, 1)
        return (self._probabilities[t] * reward.at(h, pairs, self._successors[t].astype(np.int64))).sum(-1)

    def dense(self) -> np.ndarray:
        """The transition probabilities as a dense array P, (S, A, S), or (H, S, A, S) if they depend on the step.

        Example:

            mdp.dense()[15, 1, 16]                          # 0.9: from state 15, action 1 leads to state 16
        """
        T, S, A, K = self._probabilities.shape
        P = np.zeros((T, S, A, S))
        t, s, a, _ = np.ogrid[:T, :S, :A, :K]
        np.add.at(P, (t, s, a, self._successors), self._probabilities)
        return P if self.n_steps is not None else P[0]

    def with_goal(self, goal: Any, horizon: int, price: float, cost: ArrayLike = 1.0) -> TabularMDP:
        """A stochastic shortest path problem as a model for all algorithms: the goal is absorbing, and costs become a reward.

            way = env.with_goal(30, horizon=40, price=40.0)
            plan = anyreward.explore(way, 40, max_episodes=200, absorbing_states=(30,)).plan("own")
            cost = 40 + 40.0 - (1 + 40.0) * plan.value

        The cost of a policy is the expected sum of `cost` until the goal, plus `price` if it has not arrived after H - 1
        transitions. With c = 0 in the goal, the reward is (1 - c)/(1 + price), and price/(1 + price) more in the goal at the last
        step. It lies in [0, 1], and a policy with the value V has the cost H + price - (1 + price) V. So a policy that is
        epsilon-optimal for the reward is (1 + price) epsilon-optimal for that cost.

        Guarantees. Suppose that some policy which is optimal for the endless problem needs at most tau expected steps to the goal
        **from every state**. With H = `theory.horizon_for_goal(tau, epsilon)` and price = tau:

        - the smallest cost here is at most epsilon/4 larger than the smallest expected cost until the goal;
        - whoever follows a policy of this problem for H steps and that policy afterwards, where costs are at most tau from
          anywhere, pays at most the cost of the former.

        Hence a policy that is 3 epsilon / (4 (1 + price))-optimal here is epsilon-optimal there, if followed by that policy.
        Pitfalls: tau for the start alone is not enough; with a price that is too small, never to arrive is optimal; where costs
        are 0 a cheap policy may never arrive, and no tau exists: make them at least some c_min. If an episode may be given up
        and started again for free, there is no price to pay, and `Atlas.reach` and `Atlas.discover` certify the number of steps.

        Parameters
        ----------
        goal : int, list of int or (S,) array of bool
        horizon : int
        price : float
            What it costs not to arrive, at least 0: an upper bound on what is still to pay then.
        cost : array_like, (S,), (S, A) or a number, default 1
            What an action costs, in [0, 1]. Costs of the goal do not count.

        Returns
        -------
        TabularMDP
            With a reward (H, S, A). Names are kept; a declared structure is not, as it may speak of the goal.
        """
        S, A, H = self.n_states, self.n_actions, whole_number(horizon, "horizon")
        self.check_horizon(H)
        if H < 1:
            raise ValueError(f"horizon is {H}: it has to be at least 1.")
        if not 0.0 <= real_number(price, "price") < np.inf:
            raise ValueError(f"price is {price}: it has to be at least 0, and finite.")
        try:
            c = np.asarray(cost, float)
            c = np.array(np.broadcast_to(c[:, None] if c.shape == (S,) else c, (S, A)))
        except (TypeError, ValueError):
            raise ValueError(f"cost is {shown(cost)}: it has to be a number, ({S},) or ({S}, {A}).") from None
        if not ((c >= 0) & (c <= 1)).all():
            bad = np.argwhere(~((c >= 0) & (c <= 1)))[0]
            raise ValueError(f"cost{_at(bad)} is {c[tuple(bad)]}: costs have to be in [0, 1]. Divide them by the largest one.")
        there, given = np.zeros(S, bool), np.asarray(goal)
        if given.dtype == bool and given.shape == (S,):
            there = given
        elif given.dtype.kind in "iu" and given.ndim <= 1 and given.size and 0 <= given.min() <= given.max() < S:
            there[given] = True
        if not there.any():
            raise ValueError(f"goal is {shown(goal)}: it has to be states from 0 to {S - 1}, or {S} truth values.")
        successors = np.where(there[:, None, None], np.arange(S)[:, None, None], self._successors)
        c[there] = 0.0
        reward = np.repeat((1.0 - c)[None] / (1.0 + price), H, axis=0)
        reward[-1, there] = 1.0
        steps = slice(None) if self.n_steps is not None else 0
        made = TabularMDP.from_sparse(successors[steps], self._probabilities[steps], self.initial, reward)
        made.numbering, made.grid, made.arrows = self.numbering, self.grid, self.arrows
        made.name = f"{self.name} with a goal"
        return made

    def play_each(self, policies: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Plays one episode with each of the policies (B, H, S): returns states (B, H+1) and actions (B, H).
        Nothing is checked.
        """
        B, H, _ = policies.shape
        states, actions = np.empty((B, H + 1), np.int64), np.empty((B, H), np.int64)
        nobody = kernels.planning.as_choice(np.zeros((0, 0), np.int32))
        each = np.ascontiguousarray(policies, np.int32)
        kernels.simulate.rollout_each(self.model, each, nobody, rng, states, actions)
        return states, actions

    def draw(self, times: np.ndarray, starts: int, rng: np.random.Generator) -> np.ndarray:
        """Samples successors of every state-action pair directly, as a generative model does.

        Parameters
        ----------
        times : ndarray of int, (1, S, A) or (H, S, A)
            The number of samples of each pair.
        starts : int
            The number of samples of the initial state.
        rng : numpy.random.Generator

        Returns
        -------
        ndarray of int, (M, 5)
            Rows (h, s, a, next, count); initial states have h = -1.
        """
        S, A = self.n_states, self.n_actions
        flat = times.reshape(-1)
        taken = np.flatnonzero(flat)
        h, pair = np.divmod(taken, S * A)
        t = np.minimum(h, len(self._probabilities) - 1)
        successors = self._successors.reshape(len(self._successors), S * A, -1)[t, pair]
        drawn = rng.multinomial(flat[taken], self._probabilities.reshape(len(self._probabilities), S * A, -1)[t, pair])
        i, k = np.nonzero(drawn)
        moves = np.column_stack([h[i], pair[i] // A, pair[i] % A, successors[i, k], drawn[i, k]])
        states = np.flatnonzero(self.initial)
        began = rng.multinomial(starts, self.initial[states])
        first = np.column_stack([np.full(len(states), -1), np.zeros((len(states), 2), np.int64), states, began])
        return np.concatenate([first[began > 0], moves]).astype(np.int64)

    def rollout(
        self, policy: ArrayLike, episodes: int = 1, seed: int | np.random.Generator | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Simulates episodes under a policy.

            states, actions = mdp.rollout(plan.policy, episodes=100, seed=0)

        Parameters
        ----------
        policy : array_like of int, (H, S)
            The action at each step and state.
        episodes : int, default 1
        seed : int, numpy.random.Generator or None, default None
            None: every call draws different episodes. An int: every call draws the same episodes, so do not count them twice,
            which would void a certificate. A generator is advanced by exactly the draws of these episodes.

        Returns
        -------
        states : ndarray of int, (episodes, H+1)
        actions : ndarray of int, (episodes, H)
        """
        choice = kernels.planning.as_choice(checked_policy(policy, self.n_states, self.n_actions))
        self.check_horizon(len(choice.array))
        if whole_number(episodes, "episodes") < 0:
            raise ValueError(f"episodes is {episodes}: it cannot be negative.")
        if not isinstance(seed, np.random.Generator | int | np.integer | None):
            raise ValueError(f"seed is {shown(seed)}: it has to be a whole number, a NumPy generator, or None.")
        return self.play(choice, len(choice.array), episodes, np.random.default_rng(seed))

    def play(self, choice: Choice, horizon: int, episodes: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Plays episodes under a policy as compiled passes take it: states (episodes, H+1) and actions (episodes, H).
        Nothing is checked.
        """
        states, actions = np.empty((episodes, horizon + 1), np.int64), np.empty((episodes, horizon), np.int64)
        kernels.simulate.rollout(self.model, choice, rng, states, actions)
        return states, actions


def checked_policy(policy: ArrayLike, S: int, A: int, horizon: int | None = None) -> np.ndarray:
    """A deterministic policy as (H, S) integers of 32 or 64 bits. Raises if the shape or an action is wrong."""
    pi = np.asarray(policy)
    H = pi.shape[0] if horizon is None and pi.ndim else horizon
    if pi.shape != (H, S) or pi.dtype.kind not in "iu":
        raise ValueError(f"policy has shape {pi.shape} of {pi.dtype}: it has to be ({H or 'H'}, {S}) whole numbers.")
    bad = (pi < 0) | (pi >= A)
    if bad.any():
        at = np.argwhere(bad)[0]
        raise ValueError(f"policy{_at(at)} is {pi[tuple(at)]}: actions go from 0 to {A - 1}.")
    return np.ascontiguousarray(pi, None if pi.dtype == np.int32 else np.int64)


def _check_rows(p: np.ndarray, name: str) -> None:
    """Raises if the last axis of an array does not hold probabilities that sum to one."""
    for wrong, what in ((~np.isfinite(p), "not a finite number"), (p < 0, "negative: probabilities cannot be")):
        if wrong.any():
            at = np.argwhere(wrong)[0]
            raise ValueError(f"{name}{_at(at)} is {p[tuple(at)]}, {what}.")
    total = p.sum(-1)
    off = np.argwhere(np.abs(total - 1) > TOLERANCE)
    if len(off):
        value = total[tuple(off[0])]
        raise ValueError(f"{name}{_at(off[0])} sums to {value:.12g}: the probabilities of a row have to sum to one.")


def _cumulative(p: np.ndarray) -> np.ndarray:
    """Cumulative sums along the last axis that reach exactly 1 at the last positive entry."""
    cumulative = np.cumsum(p, axis=-1)
    tail = np.flip(np.cumsum(np.flip(p, -1), axis=-1), -1) - p  # the mass after each entry
    cumulative[(tail <= 0) & (cumulative > 0)] = 1.0
    return np.minimum(cumulative, 1.0)


def _at(index: Any) -> str:
    """An index as it is written in Python: "[0, 3]"."""
    return "[" + ", ".join(str(int(i)) for i in index) + "]"

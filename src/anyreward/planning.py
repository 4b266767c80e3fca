"""Exact planning by backward induction: the optimal policy of a model, or the value of a given policy.

The model is a `TabularMDP`, an array of transition probabilities, or the empirical model of counts. Both functions compute

    Q_h(s,a) = r_h(s,a) + gamma sum_s' p_h(s'|s,a) V_{h+1}(s'),    V_H = 0    (steps h = 0, ..., H-1),

where V_h(s) = max_a Q_h(s,a) for the optimum and V_h(s) = sum_a pi_h(a|s) Q_h(s,a) for a policy pi.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cache, cached_property, partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from . import kernels
from .cancellation import blocks, in_blocks
from .data.tabular import TabularMDP, checked_policy
from .rewards.forms import ArrivalReward, Reward, as_reward, own_copy, paid
from .setting import whole_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike

    from .kernels.planning import Choice, Found, Kinds, Pay, Places, Rows, Task

MANY = 2**16  # rows from which on a step is worth a second thread
FEW_STEPS = 8  # in which it does not pay to find out which rows are alike
BLOCK = 2**24  # sums over transitions after which it is time to ask whether a pass is still wanted: some 20 ms


class Transitions(Protocol):
    """The interface that planning needs of a model. `TabularMDP` and `EmpiricalModel` implement it."""

    n_states: int
    n_actions: int
    initial: np.ndarray  # (S,): the distribution of the initial state

    def check_horizon(self, horizon: int) -> None:
        """Raises if the model has no transition probabilities for that many steps."""

    @property
    def places(self) -> Places:
        """The states of each step that have transitions of their own."""

    @property
    def rows(self) -> Rows:
        """Their transitions."""

    def pay(self, reward: ArrivalReward, horizon: int, worst: bool = False) -> Pay:
        """The expectation of a reward on arrival, which is all that planning needs of it; `worst` is that of `induct`."""


class Values:
    """The result of planning.

    It can be unpacked, ``Q, V, policy = backward_induction(...)``. What is large is computed when it is first asked for.

    Attributes
    ----------
    Q : ndarray, (H, S, A)
        Action values.
    V : ndarray, (H + 1, S)
        State values; the last row is 0.
    policy : ndarray
        (H, S) integers: the optimal policy, or the deterministic policy that was evaluated. (H, S, A) probabilities if a
        stochastic policy was evaluated.
    start : ndarray, (S,)
        The first row of V.
    choice : Choice
        The policy as compiled passes take it, for which nothing is stored where nothing was seen.
    """

    def __init__(
        self, model: Transitions, task: Task, policy: np.ndarray | Choice | None, keep: bool, beyond: np.ndarray | None = None
    ) -> None:
        """Plans for a task, or for a policy that has been checked; `beyond`, (H + 1,), is added to the values of each step."""
        self._model, self._task, self._policy = model, task, policy
        self._beyond = np.zeros(len(task.low) + 1) if beyond is None else beyond
        made = self._pass(len(self._beyond) if keep else 2)
        if keep:
            self.V = made.found.V + self._beyond[:, None]
        self.start = made.found.V[0] + self._beyond[0]
        self._mixed = made.mixed if made.mixed.size else None
        self.choice = made.given if policy is not None else chosen_in(made, task.pay, task.low, task.high)

    @cached_property
    def V(self) -> np.ndarray:
        return self._pass(V=len(self._task.low) + 1).found.V + self._beyond[:, None]

    @cached_property
    def Q(self) -> np.ndarray:
        return self._pass(Q=len(self._task.low)).found.Q

    @cached_property
    def policy(self) -> np.ndarray:
        return self._mixed if self._mixed is not None else as_array(self.choice, self._model.n_states, self._model.n_actions)

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.Q, self.V, self.policy))

    def __getitem__(self, i: int) -> np.ndarray:
        return getattr(self, ("Q", "V", "policy")[i])

    def __len__(self) -> int:
        return 3

    def each(self) -> Iterator[tuple[int, np.ndarray]]:
        """V step by step from the last: the step and the values of all states, which are overwritten by later ones."""
        for h, found in self._each():
            yield h, found.V[h % 2] + self._beyond[h]

    def each_Q(self, states: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Q of an empirical model in some states, (K, A), step by step from the last, except that no action is illegal."""
        task, A = self._task, self._model.n_actions
        model: Any = self._model
        s, a = np.repeat(states, A), np.tile(np.arange(A), len(states))
        for h, found in self._each():
            worth = model.expect_at(h, found.V[(h + 1) % 2], s, a)
            q = model.pay_at(task.pay, h, s, a) + task.discount * worth
            yield h, np.minimum(task.high[h], np.maximum(task.low[h], q)).reshape(-1, A)

    def _each(self) -> Iterator[tuple[int, Found]]:
        """Step by step from the last: the values of this step and of the next one."""
        made = prepared(self._model, self._model.places, len(self._task.low), self._policy)
        for h, _ in blocks(len(self._task.low) - 1, 0, 1):
            self._step(h, made, None)
            yield h, made.found

    def _pass(self, V: int = 2, Q: int = 0) -> Pass:
        """All steps; that many rows of V and Q are kept."""
        model, task, last = self._model, self._task, len(self._task.low) - 1
        made, most = prepared(model, model.places, last + 1, self._policy, V, Q), int(np.diff(model.places.begin).max())
        alone = most * model.n_actions < MANY or kernels.processors() == 1
        kinds = self._kinds(Q)
        if kinds is not None:
            self._pass_alike(kinds, made.found)
            return made
        if alone and not made.mixed.size:
            best = np.empty(model.n_actions)
            compiled = partial(kernels.planning.induct, model.places, model.rows, task, made.given, made.found, best)
            in_blocks(compiled, last, 0, BLOCK // made.size)
            return made
        with nullcontext() if alone else ThreadPoolExecutor(kernels.processors()) as pool:
            for h, _ in blocks(last, 0, 1):
                self._step(h, made, pool)
        return made

    def _kinds(self, Q: int) -> Kinds | None:
        """The kinds of rows, if the best of all actions is all that is asked for, and if there are few kinds and many rows."""
        task, model = self._task, self._model
        if Q or self._policy is not None or len(task.low) < FEW_STEPS or not isinstance(model, TabularMDP):
            return None
        if model.n_states * model.n_actions < MANY or task.prefers_seen or len(task.pay.visited):
            return None
        if not (np.isneginf(task.low).all() and np.isposinf(task.high).all()):
            return None
        return model.kinds if len(model.kinds.kind) else None

    def _pass_alike(self, kinds: Kinds, found: Found) -> None:
        """`_pass`, for rows of few kinds, by as many threads as there are processors."""
        pay, V, workers = self._task.pay.everywhere, found.V, kernels.processors()
        ends = np.linspace(0, self._model.n_states, workers + 1).astype(int).tolist()
        with ThreadPoolExecutor(workers) as pool:
            for h, _ in blocks(len(self._task.low) - 1, 0, 1):

                def work(i: int, h: int = h) -> None:
                    kernels.planning.inside_alike(
                        kinds, pay[min(h, len(pay) - 1)], self._task.discount, V[(h + 1) % len(V)], V[h % len(V)],
                        found.chosen[h % len(found.chosen)], ends[i], ends[i + 1],
                    )  # fmt: skip

                list(map(work, range(workers)) if workers == 1 else pool.map(work, range(workers)))

    def _step(self, h: int, made: Pass, pool: ThreadPoolExecutor | None) -> None:
        """One step, by as many threads as there are processors if there is a pool of them."""
        (places, given, mixed, found, _), rows, task, A = made, self._model.rows, self._task, self._model.n_actions
        ahead = found.V[(h + 1) % len(found.V)]
        mean = float(ahead.mean() if mixed.size else kernels.planning.mean_ahead(places, rows, task, h, ahead))
        kernels.planning.outside(places, task, given, h, mean, found)
        layer = min(h, len(places.begin) - 2)
        parts = 1 if pool is None else kernels.processors()
        ends = np.linspace(places.begin[layer], places.begin[layer + 1], parts + 1).astype(int).tolist()

        def work(i: int) -> None:
            kernels.planning.part(places, rows, task, given, h, mean, found, np.empty(A), ends[i], ends[i + 1])

        list(map(work, range(parts)) if pool is None else pool.map(work, range(parts)))
        if mixed.size:
            Q = found.Q[h % len(found.Q)]
            found.V[h % len(found.V)] = (mixed[h] * np.where(mixed[h] > 0, Q, 0.0)).sum(axis=1)


class Pass(NamedTuple):
    """What a compiled pass over the steps follows and writes to."""

    places: Places
    given: Choice  # the policy to follow; an empty one if the best is to be found, or with `mixed`
    mixed: np.ndarray  # (H, S, A): the probabilities of actions to follow, or (0, 0, 0)
    found: Found
    size: int  # about how many states and transitions a step has


def prepared(model: Transitions, places: Places, H: int, policy: np.ndarray | Choice | None, V: int = 2, Q: int = 0) -> Pass:
    """A pass over H steps of a model, for the best actions or for a policy that has been checked.

    A policy is (H, S), (H, S, A) or a `Choice`. That many rows of V and Q are kept.
    """
    S, A, planes = model.n_states, model.n_actions, H if len(places.begin) == 2 else 1
    given, mixed = nobody(), np.zeros((0, 0, 0))
    if isinstance(policy, np.ndarray) and policy.ndim == 3:
        mixed, Q = np.ascontiguousarray(policy), max(1, Q)
    elif policy is not None:
        given = kernels.planning.as_choice(policy) if isinstance(policy, np.ndarray) else policy
    chosen, ahead = np.zeros((planes, len(places.state)), np.int32), np.zeros(H)
    found = kernels.planning.Found(np.zeros((V, S)), np.zeros((Q, S, A)), chosen, ahead, np.zeros(S, np.int64), np.empty(S))
    size = model.n_states + len(model.rows.target) // (len(model.places.begin) - 1) + 1
    return Pass(places, given, mixed, found, size)


@cache
def nobody() -> Choice:
    """A policy that says nothing, for passes that are to find the best one."""
    return kernels.planning.as_choice(np.zeros((0, 0), np.int32))


def chosen_in(made: Pass, pay: Pay, low: np.ndarray, high: np.ndarray) -> Choice:
    """What a pass chose, as a policy for other passes."""
    places, found = made.places, made.found
    return nobody()._replace(
        chosen=found.chosen, begin=places.begin, state=places.state, known=places.known, everywhere=pay.everywhere,
        ahead=found.ahead, low=low, high=high,
    )  # fmt: skip


def as_array(choice: Choice, S: int, A: int) -> np.ndarray:
    """A policy as an array (H, S)."""
    H, M = max(len(choice.array), len(choice.ahead)), choice.chosen.shape[1]
    if not choice.ended.shape[1]:
        if len(choice.array):
            return choice.array
        if M * len(choice.chosen) == H * S:  # every state has a place at every step
            return choice.chosen.reshape(H, S)
    out = np.empty((H, S), np.int32)
    kernels.planning.act_always(choice, A, out)
    return out


def backward_induction(model: ArrayLike | Transitions, reward: Reward, horizon: int, discount: float = 1.0) -> Values:
    """The optimum from everywhere and an optimal policy of a model, computed exactly.

        Q, V, policy = anyreward.backward_induction(mdp, reward, horizon=20)
        V[0] @ mdp.initial                                      # the optimum from the start

    Parameters
    ----------
    model : TabularMDP or array_like
        The model, or its transition probabilities P, (S, A, S), or (H, S, A, S) if they depend on the step.
    reward : array_like, callable, mapping or str
        Any form that `anyreward.rewards.forms` describes, for example an array (S,), (S, A) or (H, S, A). Any finite numbers.
    horizon : int
        The number of steps H, at least 1.
    discount : float, default 1.0
        gamma.

    Returns
    -------
    Values
        `Q` (H, S, A), `V` (H + 1, S) and `policy` (H, S). Among equally good actions the policy takes the one with the smallest
        number.
    """
    transitions = _transitions(model, horizon)
    r = as_reward(reward, transitions.n_states, transitions.n_actions, horizon)
    return induct(transitions, own_copy(r), horizon, discount, keep=True)


def evaluate_policy(
    model: ArrayLike | Transitions, policy: ArrayLike, reward: Reward, horizon: int, discount: float = 1.0
) -> Values:
    """The values of a given policy in a model, computed exactly.

        anyreward.evaluate_policy(mdp, policy, reward, horizon=20).V[0] @ mdp.initial       # its value from the start

    Parameters
    ----------
    model : TabularMDP or array_like
        The model, or its transition probabilities P, (S, A, S), or (H, S, A, S) if they depend on the step.
    policy : array_like
        (H, S) actions, or (H, S, A) probabilities of actions.
    reward, horizon, discount
        As in `backward_induction`.

    Returns
    -------
    Values
        `Q` (H, S, A), `V` (H + 1, S) and the policy itself.
    """
    transitions = _transitions(model, horizon)
    pi = as_policy(policy, transitions.n_states, transitions.n_actions, horizon)
    r = as_reward(reward, transitions.n_states, transitions.n_actions, horizon)
    return induct(transitions, own_copy(r), horizon, discount, pi, keep=True)


def each_action(choice: Choice, horizon: int, S: int, A: int) -> Iterator[np.ndarray]:
    """The actions of a policy in all states, (S,), from the first step to the last; they are overwritten by later ones."""
    out = np.empty(S, np.int64)
    for h in range(horizon):
        kernels.planning.act(choice, h, A, out)
        yield out


def induct(
    model: Transitions,
    reward: np.ndarray | ArrivalReward,
    horizon: int,
    discount: float,
    policy: np.ndarray | Choice | None = None,
    prefers_seen: bool = False,
    last: bool = True,
    limits: tuple[np.ndarray, np.ndarray] | None = None,
    keep: bool = False,
    worst: bool = False,
    beyond: np.ndarray | None = None,
) -> Values:
    """Backward induction for the optimum, or for a policy; reward and policy have been checked.

    With `prefers_seen` the optimum is that of the policies that choose an action that was seen in every state that has one; at
    the last step only if `last`, but there too a seen one is preferred among equals.

    With `worst` the optimum is that of a model in which a pair without data leads to the worst state, in place of a uniform one,
    and pays the least that a reward on arrival can pay; among equals an action that was seen is preferred. With `limits`, (H,)
    each, values at each step are cut off there; `beyond`, (H + 1,), is added to them afterwards. `keep` says whether V is wanted.
    """
    task = kernels.planning.Task(
        pay=model.pay(reward, horizon, worst) if isinstance(reward, ArrivalReward) else paid(reward),
        discount=float(discount),
        low=np.full(horizon, -inf) if limits is None else np.array(limits[0], float),
        high=np.full(horizon, inf) if limits is None else np.array(limits[1], float),
        prefers_seen=prefers_seen or worst,
        only_seen=np.array([not worst and (last or h + 1 < horizon) for h in range(horizon)]),
        worst=worst,
    )
    return Values(model, task, policy, keep, beyond)


def _transitions(model: ArrayLike | Transitions, horizon: int) -> Transitions:
    """The model as an object with the methods of `Transitions`, checked against the horizon."""
    if whole_number(horizon, "horizon") < 1:
        raise ValueError(f"horizon is {horizon}: it has to be at least 1.")
    transitions: Transitions = model if hasattr(model, "rows") else TabularMDP(model)  # type: ignore[assignment]
    transitions.check_horizon(horizon)
    return transitions


def as_policy(policy: ArrayLike, S: int, A: int, horizon: int) -> np.ndarray:
    """A checked policy: (H, S) actions, or (H, S, A) probabilities of actions."""
    pi = np.asarray(policy)
    if pi.ndim != 3:
        return checked_policy(pi, S, A, horizon)
    pi = pi.astype(float)
    if pi.shape != (horizon, S, A):
        raise ValueError(f"policy has shape {pi.shape}: it has to be ({horizon}, {S}) or ({horizon}, {S}, {A}).")
    wrong = np.argwhere(~((pi >= 0).all(-1) & (np.abs(pi.sum(-1) - 1) <= 1e-9)))
    if len(wrong):
        h, s = wrong[0]
        raise ValueError(f"policy[{h}, {s}] is not a distribution over actions: it is {pi[h, s]}.")
    return pi / pi.sum(-1, keepdims=True)

"""Exact planning by backward induction: the optimal policy of a model, or the value of a given policy.

The model is a `TabularMDP`, an array of transition probabilities, or the empirical model of counts. Both functions compute

    Q_h(s,a) = r_h(s,a) + gamma sum_s' p_h(s'|s,a) V_{h+1}(s'),    V_H = 0    (steps h = 0, ..., H-1),

where V_h(s) = max_a Q_h(s,a) for the optimum and V_h(s) = sum_a pi_h(a|s) Q_h(s,a) for a policy pi.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from . import kernels
from .data.tabular import TabularMDP, checked_policy
from .rewards.forms import ArrivalReward, Reward, as_reward
from .setting import whole_number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .kernels.planning import Rows

MANY = 2**18  # rows from which on a step is worth a second thread


class Transitions(Protocol):
    """The interface that planning needs of a model. `TabularMDP` and `EmpiricalModel` implement it."""

    n_states: int
    n_actions: int
    initial: np.ndarray  # (S,): the distribution of the initial state

    def check_horizon(self, horizon: int) -> None:
        """Raises if the model has no transition probabilities for that many steps."""

    @property
    def rows(self) -> Rows:
        """The transitions of all steps, as the compiled pass takes them."""

    def expect_pay(self, h: int, reward: ArrivalReward) -> np.ndarray:
        """The expectation of a reward on arrival for each state-action pair at step h, (S, A)."""


class Values(NamedTuple):
    """The result of planning.

    Attributes
    ----------
    Q : ndarray, (H, S, A)
        Action values.
    V : ndarray, (H + 1, S)
        State values; the last row is 0.
    policy : ndarray
        (H, S) integers: the optimal policy, or the deterministic policy that was evaluated. (H, S, A) probabilities if a
        stochastic policy was evaluated.
    """

    Q: np.ndarray
    V: np.ndarray
    policy: np.ndarray


def backward_induction(model: ArrayLike | Transitions, reward: Reward, horizon: int, discount: float = 1.0) -> Values:
    """The optimal values and an optimal policy of a model, computed exactly.

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
    return induct(transitions, r, horizon, discount)


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
    return induct(transitions, r, horizon, discount, pi)


def induct(
    model: Transitions,
    reward: np.ndarray | ArrivalReward,
    horizon: int,
    discount: float,
    policy: np.ndarray | None = None,
    seen: np.ndarray | None = None,
    last: bool = True,
    limits: tuple[np.ndarray, np.ndarray] | None = None,
) -> Values:
    """Backward induction for the optimum, or for a policy; reward and policy have been checked.

    With `seen`, (H, S, A) or (1, S, A) booleans, the optimum is that of the policies that choose an action that was seen in every
    state that has one; at the last step only if `last`, but there too a seen one is preferred among equals.

    With `limits`, (H,) each, values at each step are cut off there.
    """
    S, A = model.n_states, model.n_actions
    r = mean_reward(model, reward, horizon)
    Task = kernels.planning.Task
    Q, V, chosen = np.empty((horizon, S, A)), np.zeros((horizon + 1, S)), np.zeros((horizon, S), np.int64)
    mixed = policy if policy is not None and policy.ndim == 3 else None
    task = Task(
        reward=np.require(r[:1] if r.strides[0] == 0 else r, float, ["C", "W"]),  # compiled for writable arrays in C order
        discount=float(discount),
        low=np.full(horizon, -inf) if limits is None else np.array(limits[0], float),
        high=np.full(horizon, inf) if limits is None else np.array(limits[1], float),
        illegal=getattr(model, "illegal", np.zeros((0, 0), bool)),  # only empirical models have any
        seen=np.zeros((0, 0, 0), bool) if seen is None else np.require(seen, bool, ["C", "W"]),
        only_seen=np.array([last or h + 1 < horizon for h in range(horizon)]),
        policy=np.zeros((0, 0), np.int64) if policy is None or mixed is not None else np.require(policy, np.int64, ["C", "W"]),
    )
    workers = kernels.processors()
    if mixed is None and (workers == 1 or S * A < MANY):
        kernels.planning.induct(model.rows, task, Q, V, chosen)
        return Values(Q, V, chosen if policy is None else policy)
    bounds = np.linspace(0, S, workers + 1).astype(int).tolist()
    with ThreadPoolExecutor(workers) as pool:
        for h in range(horizon - 1, -1, -1):
            every = model.rows, task, h, float(V[h + 1].mean()), Q, V, chosen
            list(pool.map(lambda i, every=every: kernels.planning.part(*every, bounds[i], bounds[i + 1]), range(workers)))
            if mixed is not None:
                V[h] = (mixed[h] * np.where(mixed[h] > 0, Q[h], 0.0)).sum(axis=1)
    return Values(Q, V, chosen if policy is None else policy)


def mean_reward(model: Transitions, reward: np.ndarray | ArrivalReward, horizon: int) -> np.ndarray:
    """A reward as (H, S, A). A reward on arrival becomes its expectation in the model, which is all that planning needs."""
    if isinstance(reward, ArrivalReward):
        return np.stack([model.expect_pay(h, reward) for h in range(horizon)])
    return reward


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

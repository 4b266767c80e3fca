"""Random sparse models (Garnet problems)."""

from __future__ import annotations

import numpy as np

from ..data.tabular import TabularMDP, check_size
from .registry import register


@register("garnet")
def garnet(n_states: int, n_actions: int, branching: int, seed: int = 0, horizon: int | None = None) -> TabularMDP:
    """A random sparse model (Garnet problem).

        mdp = anyreward.envs.garnet(n_states=20, n_actions=3, branching=3, seed=1)

    Each pair (s, a) has `branching` different successors, drawn uniformly from all states, whose probabilities are uniform on the
    simplex. The initial state is state 0. The reward of a pair is uniform in [0, 1].

    Parameters
    ----------
    n_states, n_actions
        Sizes, at least 1.
    branching
        Number of successors of each pair, from 1 to n_states.
    seed
        Seed of the model.
    horizon
        None for stationary transitions. Otherwise each of that many steps has transitions of its own.
    """
    if not 1 <= branching <= n_states:
        raise ValueError(f"branching is {branching}: it has to be from 1 to n_states, here {n_states}.")
    if n_actions < 1 or (horizon is not None and horizon < 1):
        raise ValueError(f"n_actions is {n_actions} and horizon {horizon}: both have to be at least 1.")
    check_size((horizon or 1) * n_states * n_actions * n_states, "garnet")
    rng = np.random.default_rng(seed)
    shape = (n_states, n_actions) if horizon is None else (horizon, n_states, n_actions)
    successors = rng.permuted(np.broadcast_to(np.arange(n_states), (*shape, n_states)), axis=-1)[..., :branching]
    probabilities = rng.dirichlet(np.ones(branching), shape)
    return TabularMDP.from_sparse(successors, probabilities, initial=0, reward=rng.random((n_states, n_actions)))

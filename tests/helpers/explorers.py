"""Explorers of every kind, the episodes that they are told, and their counts and indices as dense arrays."""

from typing import Any

import numpy as np

import anyreward as ar
from anyreward.algorithms import make_explorer
from anyreward.environments.tabular import play as play_model

from .problems import random_mdp


def advanced(explorer: Any, mdp: ar.TabularMDP, episodes: int, rng: np.random.Generator) -> Any:
    end = explorer.episodes + episodes
    while explorer.episodes < end:
        play_model(explorer, mdp, rng, end - explorer.episodes, 0.0)
    return explorer


def moves(explorer: Any) -> np.ndarray:
    """n[h, s, a, x]; all steps in h = 0 when stationary."""
    setting, c = explorer.setting, explorer.counts.columns()
    S, A, H = setting.n_states, setting.n_actions, setting.horizon
    n = np.zeros((H, S, A, S), int)
    real = c["h"] >= 0
    np.add.at(n, tuple(c[k][real] for k in ("h", "s", "a", "next")), c["count"][real])
    return n.sum(axis=0, keepdims=True) if setting.stationary else n


FALSE_ALARM = 1e-7  # of each statistical test here


def played(mdp: ar.TabularMDP, setting: ar.Setting, episodes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Episodes of uniform actions on a model: states (B, H+1), actions (B, H)."""
    rng = np.random.default_rng(seed)
    policies = rng.integers(0, setting.n_actions, (episodes, setting.horizon, setting.n_states))
    return mdp.play_each(policies, rng)


def counted(states: np.ndarray, actions: np.ndarray, setting: ar.Setting) -> np.ndarray:
    """n[h, s, a, x], or n[s, a, x] of all steps together when stationary, as the references want it."""
    S, A, H = setting.n_states, setting.n_actions, setting.horizon
    n = np.zeros((H, S, A, S), int)
    np.add.at(n, (np.arange(H), states[:, :-1], actions, states[:, 1:]), 1)
    return n.sum(axis=0) if setting.stationary else n


def counts_of(explorer: Any) -> np.ndarray:
    """The same from what an explorer has counted."""
    setting, columns = explorer.setting, explorer.counts.columns()
    S, A, H = setting.n_states, setting.n_actions, setting.horizon
    n = np.zeros((H, S, A, S), int)
    moves = columns["h"] >= 0
    np.add.at(n, tuple(columns[k][moves] for k in ("h", "s", "a", "next")), columns["count"][moves])
    return n.sum(axis=0) if setting.stationary else n


def lower(explorer: Any, blank: float = 0.0) -> np.ndarray:
    return explorer.dense(explorer._indices.Q_lo, np.full(explorer.setting.horizon, blank))


def phased(name: str, setting: ar.Setting, r: np.ndarray, delta: float = 0.2, **options: Any) -> Any:
    kind: Any = ar.ALGORITHMS[name]
    more = {"budget": 20_000} if name == "kl-ucrl" else {}
    return kind(setting, r, delta=delta, **more, **options)


def both_sides(explorer: Any) -> np.ndarray:
    """Q_up and Q_lo, (H, S, A), nan where there was no data when the phase began."""
    H, S, A = explorer.setting.horizon, explorer.setting.n_states, explorer.setting.n_actions
    node_of, bound_arrays = explorer.counts.table.node_of, explorer._values.bound_arrays
    out = np.full((2, H, S, A), np.nan)
    for h, s in np.ndindex(H, S):
        node, plane = int(node_of[min(h, len(node_of) - 1), s]), min(h, len(bound_arrays.V) - 1)
        if node and bound_arrays.settled[plane, node]:
            out[:, h, s] = [Q[plane, node * A : node * A + A] for Q in (bound_arrays.Q, bound_arrays.Q_lo)]
    return out


def truth(mdp: ar.TabularMDP, r: np.ndarray, setting: ar.Setting) -> Any:
    return ar.backward_induction(mdp, r, setting.horizon, setting.discount)


def loss_of(mdp: ar.TabularMDP, r: np.ndarray, policy: np.ndarray, setting: ar.Setting) -> float:
    best, own = truth(mdp, r, setting), ar.evaluate_policy(mdp, policy, r, setting.horizon, setting.discount)
    return float(mdp.initial @ (best.V[0] - own.V[0]))


RANDOM_START = ar.Setting(n_states=3, n_actions=2, horizon=3)
FIXED_START = ar.Setting(n_states=3, n_actions=2, horizon=3, initial_state=0)
REWARD = np.array([0.0, 0.3, 1.0])


def some(name: str, setting: ar.Setting, **options: Any) -> Any:
    return make_explorer(name, setting, options, own_reward=REWARD, max_episodes=60)


def told(explorer: Any, episodes: int = 60) -> Any:
    rng, mdp = np.random.default_rng(0), random_mdp(3, 2, seed=0, random_start=explorer.setting.estimates_start)
    for _ in range(episodes):
        explorer.tell(*mdp.rollout(explorer.ask(), seed=rng))
    return explorer

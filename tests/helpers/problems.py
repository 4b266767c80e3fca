"""Problems to test with: settings, models and episodes, drawn at random under a seed."""

import numpy as np
from hypothesis import strategies as st

import anyreward as ar
from anyreward.testing import random_episodes


def random_mdp(S: int, A: int, seed: int, H: int | None = None, random_start: bool = False) -> ar.TabularMDP:
    """Transitions uniform on the simplex, for each step its own if H is given."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(S), (S, A) if H is None else (H, S, A))
    return ar.TabularMDP(P, initial=rng.dirichlet(np.ones(S)) if random_start else 0, reward=rng.random((S, A)))


def by_step(mdp: ar.TabularMDP, horizon: int) -> np.ndarray:
    """The transitions of each step, (H, S, A, S)."""
    P = mdp.dense()
    return P[:horizon] if P.ndim == 4 else np.broadcast_to(P, (horizon, *P.shape))


def rows(counts: ar.Counts) -> set[tuple[int, ...]]:
    """The counts as a set of (h, s, a, next, count)."""
    columns = counts.columns()
    return set(zip(*(columns[name].tolist() for name in ("h", "s", "a", "next", "count")), strict=True))


@st.composite
def settings(draw: st.DrawFn, max_states: int = 4, max_actions: int = 3, max_horizon: int = 4) -> ar.Setting:
    S = draw(st.integers(1, max_states))
    start = draw(st.none() | st.integers(0, S - 1) | st.lists(st.integers(0, 5), min_size=S, max_size=S).filter(any))
    weights = start if isinstance(start, list) else []  # of a known distribution
    return ar.Setting(
        n_states=S,
        n_actions=draw(st.integers(1, max_actions)),
        horizon=draw(st.integers(1, max_horizon)),
        discount=draw(st.sampled_from([1.0, 0.9]) | st.floats(0.05, 1.0)),
        stationary=draw(st.booleans()),
        initial_state=start if isinstance(start, int) else None,
        initial=tuple((s, weight / sum(weights)) for s, weight in enumerate(weights)),
    )


@st.composite
def data(draw: st.DrawFn, max_episodes: int = 40) -> tuple[ar.Setting, np.ndarray, np.ndarray]:
    """A setting with episodes of it: setting, states (B, H+1), actions (B, H)."""
    setting = draw(settings())
    return setting, *random_episodes(setting, draw(st.integers(0, max_episodes)), draw(st.integers(0, 2**32)))


deltas = st.floats(1e-6, 1 - 1e-6)
seeds = st.integers(0, 2**32)


def newest(name: str) -> str:
    """The id of the newest version of an environment, since older ones warn: Taxi-v3 in Gymnasium 1.2, Taxi-v4 in 1.4."""
    import gymnasium

    return max((spec.id for spec in gymnasium.registry.values() if spec.name == name), key=lambda i: int(i.rpartition("-v")[2]))

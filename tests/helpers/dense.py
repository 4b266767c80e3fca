"""Dense problems and counts for the tests of the slow references."""

import numpy as np

from . import rivals as rivals
from .reference import q_values

H, S, A = 4, 3, 2


def random_problem(seed: int, H: int = H, S: int = S, A: int = A, stationary: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Transitions (H, S, A, S) and rewards (H, S, A)."""
    rng = np.random.default_rng(seed)
    P = np.broadcast_to(rng.dirichlet(np.ones(S), (S, A)), (H, S, A, S)) if stationary else rng.dirichlet(np.ones(S), (H, S, A))
    return np.array(P), rng.random((H, S, A))


def sampled(P: np.ndarray, visits: int, seed: int, stationary: bool = False) -> np.ndarray:
    """Counts with `visits` draws of every pair, (H, S, A, S), or pooled with as many draws of all steps together."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(visits, P[0] if stationary else P)


def random_counts(seed: int, stationary: bool = False, most: int = 200) -> np.ndarray:
    """Any counts: from none to `most` visits a pair."""
    rng = np.random.default_rng(seed)
    shape = (S, A) if stationary else (H, S, A)
    return rng.multinomial(rng.integers(0, 3, shape) * rng.integers(0, most, shape), rng.dirichlet(np.ones(S), shape))


def layered(n: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same problem with states (h, s): counts (HS, A, HS), rewards (H, HS, A); where the last step leads is of no value."""
    H, S, A = r.shape
    big, reward = np.zeros((H, S, A, H, S), int), np.zeros((H, H, S, A))
    for h in range(H):
        big[h, :, :, (h + 1) % H] = n[h]
        reward[h, h] = r[h]
    return big.reshape(H * S, A, H * S), reward.reshape(H, H * S, A)


def layers(Q: np.ndarray, H: int, S: int) -> np.ndarray:
    """Of Q (H, HS, A) what belongs to the layer of each step, (H, S, A)."""
    return np.array([Q[h].reshape(H, S, -1)[h] for h in range(H)])


def policy_value(P: np.ndarray, policy: np.ndarray | None, r: np.ndarray, gamma: float = 1.0) -> np.ndarray:
    return q_values(P, policy, r, gamma)[1]

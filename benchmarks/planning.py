"""How fast exact planning is: backward induction beside SciPy's sparse matrices and, if it is installed, QuantEcon.

    python benchmarks/planning.py               # CPU time of one plan, the best of five, and how many times faster ours is

All of them compute V and a policy. Ours computes Q only when it is asked for. On the largest grid many rows are alike, which a
plan finds out once for each model (`TabularMDP.kinds`); the best of five does not contain that: it takes about 25 ms there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse

import anyreward as ar

PROBLEMS = {
    "double chain, H = 20": (ar.envs.double_chain, 20),
    "grid 21 x 21, H = 20": (ar.envs.grid_world, 20),
    "grid 100 x 100, H = 50": (lambda: ar.envs.grid_world(100, 100, start=(50, 50), goal=(80, 80)), 50),
    "grid 500 x 500, H = 50": (lambda: ar.envs.grid_world(500, 500, start=(250, 250), goal=(300, 300)), 50),
}


def cpu_time(plan: Callable[[], Any]) -> float:
    """CPU seconds of a plan, the best of five, after one that compiles."""
    plan()
    found = []
    for _ in range(5):
        begin = time.process_time()
        plan()
        found.append(time.process_time() - begin)
    return min(found)


def with_scipy(P: sparse.csr_array, reward: np.ndarray, H: int) -> np.ndarray:
    """The optimal values of all steps, and a policy, by sparse matrix products."""
    S, A = reward.shape
    V, policy = np.zeros((H + 1, S)), np.empty((H, S), int)
    for h in range(H - 1, -1, -1):
        Q = reward + (P @ V[h + 1]).reshape(S, A)
        policy[h], V[h] = Q.argmax(axis=1), Q.max(axis=1)
    return V


def with_quantecon(P: sparse.csr_array, reward: np.ndarray, H: int) -> Callable[[], np.ndarray] | None:
    """The same by QuantEcon's backward induction over state-action pairs, if it is installed."""
    try:
        from quantecon.markov import DiscreteDP, backward_induction
    except ImportError:
        return None
    S, A = reward.shape
    states, actions = np.divmod(np.arange(S * A), A)
    problem = DiscreteDP(reward.reshape(-1), sparse.csr_matrix(P), 1.0, states, actions)
    return lambda: backward_induction(problem, H)[0]


def main() -> None:
    table = Table("problem", "ours", "SciPy", "times", "QuantEcon", "times")
    for title, (make, H) in PROBLEMS.items():
        mdp = make()
        rows, reward = mdp.rows, mdp.reward
        P = sparse.csr_array((rows.p, rows.target, rows.first), (mdp.n_states * mdp.n_actions, mdp.n_states))
        values = ar.backward_induction(mdp, reward, H).V
        others = [lambda P=P, reward=reward, H=H: with_scipy(P, reward, H), with_quantecon(P, reward, H)]
        ours, cells = cpu_time(lambda mdp=mdp, reward=reward, H=H: ar.backward_induction(mdp, reward, H)), []
        for other in others:
            if other is None:
                cells += ["not installed", ""]
                continue
            np.testing.assert_allclose(other(), values, rtol=1e-9)
            seconds = cpu_time(other)
            cells += [f"{1e3 * seconds:.3g} ms", f"{seconds / ours:.1f} x"]
        table.add_row(title, f"{1e3 * ours:.3g} ms", *cells)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()

"""How far certificates are from the limit: the episodes at which the true worst error is small enough.

    python benchmarks/limits.py                     # all problems: more than an hour
    python benchmarks/limits.py chain frozen-lake   # or some of them

For each problem, by step and stationary, and for each epsilon, the table has the episodes until epsilon is certified for every
plan and every reward, delta = 0.1: by the paper's bound; by the tight bound without and with its joint bound of a trajectory; by
calibrated bounds; and with the structure that the environment declares. The paper's bound and the tight ones compute the
exploring policy anew whenever the episodes have grown by 3%.

The last column is the limit: the episodes of the same exploration after which the empirical model errs by at most epsilon/2 about
every policy and every reward, *computed from the true model*. No certificate can be sooner and true. The largest error is looked
for by coordinate ascent over the policy, step by step, and the reward, from several starts. It is a local maximum, so the limit
is at least what the column says.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from math import sqrt
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse

import anyreward as ar
from anyreward.algorithms import Explorer
from anyreward.certificates.bounds import TightBound

H, DELTA = 20, 0.1
Explorer.looks_can_wait = False  # levels are read off histories, which then have a look every 3%
LEVELS = (0.5, 0.2, 0.1, 0.05)
MOST_LAWS = 5_000  # beyond, the simulation of calibrated bounds takes too long
STARTS, ROUNDS = 6, 30  # of the ascent


def frozen_lake() -> ar.TabularMDP:
    """FrozenLake's transitions as a model; its holes and its goal are states that are known never to be left."""
    import gymnasium

    inner: Any = gymnasium.make("FrozenLake-v1").unwrapped
    P = np.zeros((16, 4, 16))
    for s, a in np.ndindex(16, 4):
        for p, s_next, _, _ in inner.P[s][a]:
            P[s, a, s_next] += p
    return ar.TabularMDP(P, initial=0)


PROBLEMS: dict[str, tuple[str, Callable[[], ar.TabularMDP], tuple[int, ...]]] = {  # title, model, absorbing states
    "chain": ("double chain, 31 states", ar.envs.double_chain, ()),
    "frozen-lake": ("FrozenLake, 16 states", frozen_lake, (5, 7, 11, 12, 15)),
    "garnet": ("garnet, 20 states, 3 actions, 3 successors", lambda: ar.envs.garnet(20, 3, 3, seed=1), ()),
    "inventory": ("inventory, 21 states", ar.envs.inventory, ()),
    "grid": ("grid world, 21 x 21", ar.envs.grid_world, ()),
}


def matrices(expect: Callable[[int, np.ndarray], np.ndarray], layers: int, S: int) -> list[sparse.csr_array]:
    """The transitions of a model as sparse matrices (S A, S), one for each layer."""
    columns = [np.stack([expect(h, row).reshape(-1) for row in np.eye(S)], axis=1) for h in range(layers)]
    return [sparse.csr_array(matrix) for matrix in columns]


class WorstError:
    """Looks for the policy and the reward about which an empirical model errs most."""

    def __init__(self, mdp: ar.TabularMDP, seed: int = 0) -> None:
        self.S, self.A, self.start = mdp.n_states, mdp.n_actions, int(mdp.initial.argmax())
        self.true = [sparse.csr_array(mdp.dense().reshape(-1, self.S))]
        self.rng, self.kept = np.random.default_rng(seed), list[np.ndarray]()

    def visits(self, model: list[sparse.csr_array], policy: np.ndarray) -> np.ndarray:
        """The probability of each state at each step, (H, S), under a policy (H, S)."""
        d, s = np.zeros((H, self.S)), np.arange(self.S)
        d[0, self.start] = 1.0
        for h in range(H - 1):
            d[h + 1] = model[min(h, len(model) - 1)][s * self.A + policy[h]].T @ d[h]
        return d

    def improved(self, models: tuple[list[sparse.csr_array], ...], policy: np.ndarray, sign: float) -> tuple[np.ndarray, float]:
        """A policy with a larger error, if there is one nearby, and that error.

        The reward is the one that is worst for the given policy; `sign` says which of the two models has the larger value.
        """
        visits = [self.visits(model, policy) for model in models]
        reward = sign * (visits[0] - visits[1]) > 0.0
        V, policy = [np.zeros(self.S) for _ in models], policy.copy()
        for h in range(H - 1, -1, -1):  # the error is linear in the actions of one step, given those of the others
            Q = [
                reward[h][:, None] + (model[min(h, len(model) - 1)] @ v).reshape(self.S, self.A)
                for model, v in zip(models, V, strict=True)
            ]
            gain = sign * (visits[0][h][:, None] * Q[0] - visits[1][h][:, None] * Q[1])
            now = gain[np.arange(self.S), policy[h]]
            policy[h] = np.where(gain.max(axis=1) > now + 1e-15, gain.argmax(axis=1), policy[h])
            V = [q[np.arange(self.S), policy[h]] for q in Q]
        visits = [self.visits(model, policy) for model in models]
        return policy, float(np.maximum(sign * (visits[0] - visits[1]), 0.0).sum())

    def __call__(self, counts: ar.Counts) -> float:
        """The largest error that was found, a lower bound on the worst one."""
        model = counts.model()
        models = matrices(model.expect, 1 if counts.setting.stationary else H - 1, self.S), self.true
        worst, best = 0.0, None
        starts = [*self.kept[-2:], *(self.rng.integers(self.A, size=(H, self.S)) for _ in range(STARTS - 2))]
        rewards = (np.repeat((self.rng.random((H, self.S)) < 0.2)[..., None], self.A, 2).astype(float) for _ in range(2))
        starts += [ar.backward_induction(model, reward, H).policy for reward in rewards]
        for policy in starts:
            for sign in (1.0, -1.0):
                here, before = policy, -1.0
                for _ in range(ROUNDS):
                    here, error = self.improved(models, here, sign)
                    if error > worst:
                        worst, best = error, here
                    if error <= before * (1 + 1e-4):
                        break
                    before = error
        if best is not None:
            self.kept.append(best)
        return worst


def limit(explored: Callable[[int], ar.Atlas], worst: WorstError, goal: float, guess: int) -> int:
    """The number of episodes, up to 3%, at which the worst error falls below `goal`."""

    @cache
    def error(episodes: int) -> float:
        return worst(explored(episodes).counts)

    low = high = max(1, guess)
    while error(high) > goal:
        low, high = high, 2 * high
    while low > 1 and error(low) <= goal:
        low, high = low // 2, low
    while high > 1.03 * low + 1:
        middle = int(sqrt(low * high)) if low else high // 2
        low, high = (low, middle) if error(middle) <= goal else (middle, high)
    return high


def rows(name: str, stationary: bool) -> list[list[str]]:
    """The rows of the table for a problem: one for each epsilon."""
    _, make, absorbing = PROBLEMS[name]
    mdp = make()
    how: dict[str, Any] = {"stationary": stationary, "absorbing_states": absorbing, "progress": False}

    def history(algorithm: str, bounds: Any) -> list[tuple[int, float]]:
        return ar.explore(mdp, H, LEVELS[-1] * H, DELTA, algorithm, bounds, replan="geometric", **how).history

    histories = [
        history("rf-ucrl", "paper"),
        history("rf-trajectory", TightBound(joint=False)),
        history("rf-trajectory", "tight"),
    ]
    laws = mdp.n_states * mdp.n_actions * (1 if stationary else H - 1)
    worst, found, guess = WorstError(mdp), [], 200
    for level in LEVELS:
        certified = [next(t for t, epsilon in each if epsilon <= level * H) for each in histories]
        calibrated = None
        if laws <= MOST_LAWS:
            atlas = ar.explore(mdp, H, level * H, DELTA, bounds="calibrated", max_episodes=4 * certified[2], **how)
            calibrated = atlas.episodes if atlas.certificate.met else None
        declared = None
        if stationary and mdp.structure is not None:
            declared = ar.explore(mdp, H, level * H, DELTA, structure="own", progress=False).episodes
        guess = limit(
            lambda t: ar.explore(mdp, H, None, DELTA, max_episodes=t, replan="geometric", **how), worst, level * H / 2, guess
        )
        best = min(x for x in (*certified, calibrated) if x is not None)
        cells = [*certified, calibrated, declared, guess]
        found.append([f"{level:g} H", *("-" if x is None else f"{x:,}" for x in cells), f"{best / guess:.1f}"])
    return found


def main() -> None:
    console = Console(width=150)
    for name in sys.argv[1:] or PROBLEMS:
        for stationary in (False, True):
            columns = ("ε", "paper", "tight, rows apart", "tight", "calibrated", "declared", "limit", "best / limit")
            table = Table(*columns, title=f"{PROBLEMS[name][0]}, {'stationary' if stationary else 'step-dependent'}")
            for row in rows(name, stationary):
                table.add_row(*row)
            console.print(table)


if __name__ == "__main__":
    main()

"""How many episodes a certificate takes: the paper's bound, each ingredient added in turn, and tight. Measured, not extrapolated.

    python benchmarks/episodes.py            # the double chain and the 21 x 21 grid, a few minutes
    python benchmarks/episodes.py chain      # or one of them
    python benchmarks/episodes.py ends       # what it costs to assume nothing about where episodes end, and of rewards

One exploration to the smallest epsilon serves all of them: the certificate is looked at whenever the episodes have grown by 3%,
and the policy is computed anew as often. The last line is what `explore` does by default, which takes longer and needs fewer
episodes: it changes the policy after every episode.

Below each table stands the price of the confidence set itself: the largest value error that an adversary who may choose the
model inside the KL balls, the reward and the policy was found to reach. No bound from the balls alone can be smaller. The joint
bound of a trajectory knows more than the balls, and can be.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.table import Table

import anyreward as ar
from anyreward.algorithms import Explorer
from anyreward.certificates.bounds import TightBound
from anyreward.certificates.error_index import ErrorIndex
from anyreward.data.empirical import EmpiricalModel
from anyreward.words import interval

H, DELTA = 20, 0.1
Explorer.looks_can_wait = False  # levels are read off histories, which then have a look every 3%
RADII = {"threshold": "paper", "transfer": False}
INGREDIENTS = [  # name, algorithm, bound, for which settings
    ("paper: RF-UCRL", "rf-ucrl", "paper", (False, True)),
    ("half-span, laws that matter", "rf-ucrl", TightBound(trajectory=False, exact_tv=False, **RADII), (False, True)),
    ("+ exact TV radius", "rf-ucrl", TightBound(trajectory=False, **RADII), (False, True)),
    ("+ trajectory certificate", "rf-trajectory", TightBound(**RADII), (False, True)),
    ("+ support-adaptive radius", "rf-trajectory", TightBound(transfer=False), (False, True)),
    ("+ transfer between steps", "rf-trajectory", TightBound(joint=False), (False,)),
    ("+ joint bound of a trajectory: tight", "rf-trajectory", "tight", (False,)),
    ("tight, number of successors known", "rf-trajectory", "known", (False, True)),
]


def measure(
    mdp: ar.TabularMDP, levels: list[float], successors: int, stationary: bool
) -> Iterator[tuple[str, list[int], ar.Atlas]]:
    """For each ingredient, the episodes after which each level of epsilon/H is certified."""
    for name, algorithm, bounds, settings in INGREDIENTS:
        if stationary in settings:
            bound = TightBound(max_successors=successors) if bounds == "known" else bounds
            atlas = ar.explore(
                mdp, H, levels[-1] * H, DELTA, algorithm, bound, stationary=stationary, replan="geometric", progress=False
            )
            yield name, [next(t for t, epsilon in atlas.history if epsilon <= level * H) for level in levels], atlas
    each = [ar.explore(mdp, H, level * H, DELTA, stationary=stationary, progress=False) for level in levels]
    yield "tight, the default of explore", [atlas.episodes for atlas in each], each[-1]
    if stationary or mdp.n_states < 100:  # 33,000 laws would be simulated for an hour
        each = [
            ar.explore(mdp, H, level * H, DELTA, bounds="calibrated", stationary=stationary, progress=False) for level in levels
        ]
        yield "calibrated", [atlas.episodes for atlas in each], each[-1]


class Adversary:
    """Looks for a model inside the KL balls of an atlas, a reward and a policy with a large value error."""

    def __init__(self, atlas: ar.Atlas) -> None:
        setting, counts = atlas.counts.setting, atlas.counts
        S, A = setting.n_states, setting.n_actions
        self.S, self.A, self.start, self.steps = S, A, setting.initial_state, 1 if setting.stationary else H
        c = counts.columns()
        move = c["h"] >= 0
        h, s, a, target, count = (c[k][move] for k in ("h", "s", "a", "next", "count"))
        which = np.unique(np.stack([h, s, a]), axis=1, return_inverse=True)[1]
        slot = np.arange(len(which)) - np.searchsorted(which, which)
        self.q = np.zeros((self.steps, S, A, slot.max() + 1))
        self.target = np.zeros(self.q.shape, int)
        n = counts.n().reshape(self.steps, S, A)
        self.q[h, s, a, slot], self.target[h, s, a, slot] = count / n[h, s, a], target
        self.visited = n > 0
        table = counts.table
        radii = atlas.certificate.bound.kl_radii(counts, DELTA).reshape(-1, A)
        self.c = np.zeros((self.steps, S, A))
        for layer in range(self.steps):
            node = table.node_of[layer]
            self.c[layer][node > 0] = radii[node[node > 0]]

    def worst_rows(self, t: int, V: np.ndarray, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The laws in the balls that make V smallest, (S, K), and the mass (S,) that goes to the state of the smallest V."""
        s = np.arange(self.S)
        q, c = self.q[t, s, policy], self.c[t, s, policy]
        g = V[self.target[t, s, policy]] - V.min()
        seen = q > 0
        low, high = np.full(self.S, -40.0), np.full(self.S, 12.0)  # log u
        for _ in range(60):
            u = np.exp((low + high) / 2)[:, None]
            theta = (q * np.log(u + g)).sum(1) + np.log(np.maximum((q / (u + g)).sum(1), 1e-300))
            low, high = np.where(theta > c, (low + high) / 2, low), np.where(theta > c, high, (low + high) / 2)
        u = np.exp(high)[:, None]
        p = np.where(seen, q / (u + g), 0.0)
        p /= np.maximum(p.sum(1, keepdims=True), 1e-300)
        kl = np.where(seen, q * np.log(np.where(seen, q, 1) / np.where(seen, p, 1)), 0.0).sum(1)
        z = np.where(self.visited[t, s, policy], -np.expm1(np.minimum(kl - c, 0.0)), 1.0)  # unused radius: leave the seen ones
        return p * (1 - z)[:, None], z

    def attack(self, policy: np.ndarray, reward: np.ndarray, rounds: int = 12) -> float:
        """The largest error reached from a policy (H, S) and a reward (H, S), improving model and reward in turn."""
        best, s = 0.0, np.arange(self.S)
        hats = self.laws([(self.q[min(h, self.steps - 1), s, policy[h]], np.zeros(self.S), 0) for h in range(H)], policy)
        for _ in range(rounds):
            V, model = np.zeros(self.S), []
            for h in range(H - 1, -1, -1):
                p, z = self.worst_rows(min(h, self.steps - 1), V, policy[h])
                model.append((p, z, int(V.argmin())))
                target = self.target[min(h, self.steps - 1), s, policy[h]]
                V = reward[h] + (p * V[target]).sum(1) + z * V.min()
            gaps = hats - self.laws(model[::-1], policy)
            error = np.maximum(gaps, 0).sum()
            if error <= best * (1 + 1e-6):
                break
            best, reward = error, (gaps > 0).astype(float)
        return best

    def laws(self, model: list, policy: np.ndarray) -> np.ndarray:
        """The laws of the states, (H, S). Rows without data are left at once in the empirical model: their mass is lost."""
        d, s = np.zeros((H, self.S)), np.arange(self.S)
        d[0, self.start] = 1.0
        for h in range(H - 1):
            p, z, worst = model[h]
            np.add.at(d[h + 1], self.target[min(h, self.steps - 1), s, policy[h]], d[h][:, None] * p)
            d[h + 1, worst] += (d[h] * z).sum()
        return d

    def largest(self, explorer_policy: np.ndarray, model: EmpiricalModel, tries: int) -> float:
        """The best of several attacks: from the exploring policy and from optimal policies of random rewards."""
        rng, best = np.random.default_rng(0), 0.0
        for i in range(tries):
            reward = rng.random((H, self.S)) < rng.random()
            policy = explorer_policy if i < 3 else ar.backward_induction(model, np.repeat(reward[..., None], self.A, 2), H).policy
            best = max(best, self.attack(policy, reward.astype(float)))
        return best


def ends(console: Console) -> None:
    """FrozenLake as shipped: episodes and the interval of the plan for its own reward, by what is assumed."""
    import gymnasium

    inner = gymnasium.make("FrozenLake-v1").unwrapped
    S, A = inner.observation_space.n, inner.action_space.n
    P, pay = np.zeros((S, A, S)), np.zeros((S, A))
    for s, a in np.ndindex(S, A):
        for p, s_next, r, _ in inner.P[s][a]:
            P[s, a, s_next] += p
            pay[s, a] += p * r * (s != s_next)  # nothing is paid for staying where an episode has ended
    best = ar.backward_induction(P, pay, H).V[0, 0]
    table = Table(
        "assumed of ends", "episodes", "times", "assumed of rewards", "interval for its own reward", "true value", "optimum"
    )
    least = 0
    for terminal, name in (("state", "always where once"), ("end", "nothing, all alike"), ("outcome", "nothing (default)")):
        atlas = ar.explore("FrozenLake-v1", H, 4.0, DELTA, stationary=True, initial_state=0, terminal=terminal, progress=False)
        least = least or atlas.episodes
        for assumed, what in (
            ({}, "nothing (default)"),
            ({"rewards": "deterministic"}, "deterministic"),
            ({"rewards": "deterministic", "stationary_rewards": True}, "deterministic, alike at every step"),
        ):
            plan = atlas.plan("own", **assumed)
            value = ar.evaluate_policy(P, plan.policy[:, :S], pay, H).V[0, 0]
            first = [name, f"{atlas.episodes:,}", f"{atlas.episodes / least:.2f}"] if not assumed else ["", "", ""]
            table.add_row(*first, what, interval(plan.lower, plan.upper, 3), f"{value:.4f}", f"{best:.4f}")
    console.print(table)


def main() -> None:
    console = Console(width=150)
    if sys.argv[1:] == ["ends"]:
        return ends(console)
    problems = {
        "chain": ("double chain, L = 31", ar.envs.double_chain(), [0.5, 0.2, 0.1, 0.05], 2, 500, 40),
        "grid": ("grid world, 21 x 21", ar.envs.grid_world(), [0.5, 0.2, 0.1], 4, 2000, 8),
    }
    for key in sys.argv[1:] or problems:
        title, mdp, levels, successors, asked, tries = problems[key]
        for stationary in (False, True):
            kind = "stationary" if stationary else "step-dependent"
            table = Table(
                "certificate", *(f"ε = {x:g} H" for x in levels), f"fewer at {0.1:g} H", "seconds", title=f"{title}, {kind}"
            )
            at, paper = levels.index(0.1), 0
            start = time.perf_counter()
            for name, episodes, atlas in measure(mdp, levels, successors, stationary):
                paper = paper or episodes[at]
                seconds, start = time.perf_counter() - start, time.perf_counter()
                row = [f"{t:,}" for t in episodes]
                table.add_row(name, *row, f"{paper / episodes[at]:,.0f} x", f"{seconds:.1f}")
                if name.startswith("+ support" if stationary else "+ joint"):
                    tight, tight_atlas = episodes[at], atlas
            console.print(table)
            verdict = "[green]met[/]" if paper >= asked * tight else "[red]missed[/]"
            console.print(
                f"tight needs {paper / tight:,.0f} times fewer episodes than the paper at 0.1 H (asked for: {asked} {verdict})"
            )
            counts = tight_atlas.counts
            exploring = ErrorIndex(counts, ar.RFTrajectory(counts.setting).rule()).dense().argmax(axis=2)
            found = Adversary(tight_atlas).largest(exploring, counts.model(), tries)
            alone = TightBound(joint=False)(counts, TightBound().radii_delta(counts.setting, DELTA))
            console.print(
                f"price of the balls: an adversary inside them reaches {found:.4f}; the error bound from the balls alone is "
                f"{alone:.4f} ({alone / found:.2f} times as much), that of the certificate {tight_atlas.error_bound:.4f}\n"
            )


if __name__ == "__main__":
    main()

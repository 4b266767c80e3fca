"""What fixed amounts of draws are worth where laws are shared, and what can be certified of states that are too many to number.

    python benchmarks/laws.py          # both tables of docs/structure.md, some minutes

Fixed amounts   Episodes until epsilon is certified for every plan and every reward with a declared structure, by tight and by
                calibrated bounds, scouting included: means of six seeds, delta = 0.1, H = 20.
Many machines   epsilon for states of 10 and of 30 machines that wear alike and are serviced at random: eight laws. The amounts of
                the last column are what so many episodes have, or a little less, as the first 200 of them let one expect.
"""

from __future__ import annotations

import statistics

import numpy as np
from five_minutes import plant, plant_structure
from rich.console import Console
from rich.table import Table

import anyreward as ar

H, DELTA, SEEDS = 20, 0.1, 6
WEAR = np.array(((0.85, 0.12, 0.02, 0.01), (0.0, 0.8, 0.15, 0.05), (0.0, 0.0, 0.75, 0.25), (0.0, 0.0, 0.0, 1.0)))
REPAIR = np.array(((1.0, 0.0, 0.0, 0.0), (0.9, 0.1, 0.0, 0.0), (0.8, 0.1, 0.1, 0.0), (0.7, 0.0, 0.0, 0.3)))


def fixed_amounts(console: Console) -> None:
    """Episodes until epsilon, with few laws."""
    table = Table("", "ε/H", "tight", "calibrated", "ratio", title="Fixed amounts of draws")
    problems = {
        "double chain": (ar.envs.double_chain(), "own", (0.1, 0.05, 0.02)),
        "plant": (plant(), plant_structure(), (0.2, 0.1)),
        "inventory": (ar.envs.inventory(), "own", (0.2, 0.1)),
    }
    for name, (mdp, structure, levels) in problems.items():
        for level in levels:
            took = [
                statistics.mean(
                    ar.explore(mdp, H, level * H, DELTA, bounds=bounds, structure=structure, seed=seed, progress=False).episodes
                    for seed in range(SEEDS)
                )
                for bounds in ("tight", "calibrated")
            ]
            table.add_row(name, f"{level:g}", *(f"{episodes:,.0f}" for episodes in took), f"{took[0] / took[1]:.1f}")
    console.print(table)


def serviced_at_random(machines: int, episodes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Levels (episodes, H + 1, machines) and actions (episodes, H), of which 0 services none."""
    rng, laws = np.random.default_rng(seed), np.stack([WEAR, REPAIR]).cumsum(axis=2)
    levels, actions = np.zeros((episodes, H + 1, machines), int), rng.integers(0, machines + 1, (episodes, H))
    for h in range(H):
        serviced = (actions[:, h, None] == np.arange(1, machines + 1)).astype(int)
        levels[:, h + 1] = (rng.random((episodes, machines, 1)) > laws[serviced, levels[:, h]]).sum(axis=-1)
    return levels, actions


def many_machines(console: Console) -> None:
    """Epsilon of states that cannot be numbered."""
    table = Table("machines", "episodes", "tight", "fixed amounts", title="ε/H of many machines")
    for machines, sizes in ((10, (1_000, 5_000)), (30, (1_000, 5_000, 50_000))):
        world = ar.Factored((4,) * machines, machines + 1, H, (0,) * machines, lambda i, level, a: (level, a == i + 1))
        for episodes in sizes:
            first, log = world.counts(), world.counts()
            first.add(*serviced_at_random(machines, 200, seed=1))
            quotas = {law: int(0.95 * (episodes / 200 - 1) * n.sum()) for law, n in first.seen.items()}
            fixed, played = world.counts(quotas), serviced_at_random(machines, episodes, seed=2)
            log.add(*played)
            fixed.add(played[0][200:], played[1][200:])
            epsilons = [counts.certify(delta=DELTA).epsilon / H for counts in (log, fixed)]
            table.add_row(str(machines), f"{episodes:,}", *(f"{epsilon:.3f}" for epsilon in epsilons))
    console.print(table)


if __name__ == "__main__":
    console = Console(width=110)
    fixed_amounts(console)
    many_machines(console)

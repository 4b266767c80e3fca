"""Structures that several tests declare, and slow transcriptions of what follows from one."""

import itertools
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

import anyreward as ar

# Of the plant: from each level, by the law of a machine that runs and of one that is serviced.
RUN = ((0.85, 0.12, 0.02, 0.01), (0, 0.8, 0.15, 0.05), (0, 0, 0.75, 0.25), (0, 0, 0, 1))
SERVICE = ((1, 0, 0, 0), (0.9, 0.1, 0, 0), (0.8, 0.1, 0.1, 0), (0.7, 0, 0, 0.3))


def chain(length: int = 31) -> ar.Structure:
    """The double chain: one law for each action."""
    return ar.Structure(law=lambda s, a: a, outcomes=(-1, 1), successor=lambda s, a, x: min(max(s + x, 0), length - 1))


def walk(length: int) -> ar.Structure:
    """A walk on a line with steps of -1, 0 and 1: at the ends, two of them stay."""
    return ar.Structure(law=lambda s, a: "step", outcomes=(-1, 0, 1), successor=lambda s, a, x: min(max(s + x, 0), length - 1))


def walk_model(length: int, p: tuple[float, ...] = (0.4, 0.2, 0.4), start: int | None = None) -> ar.TabularMDP:
    P = np.zeros((length, 1, length))
    for s, (x, q) in itertools.product(range(length), zip((-1, 0, 1), p, strict=True)):
        P[s, 0, min(max(s + x, 0), length - 1)] += q
    return ar.TabularMDP(P, initial=length // 2 if start is None else start)


def queue(room: int) -> ar.Structure:
    """A queue with arrivals and services, which are lost where there is no room and nobody to serve.

    The state is 2 * length + 1 if somebody left in the last step, 2 * length otherwise.
    """
    return ar.Structure.drawn(
        laws=[lambda s, a: "arrival", lambda s, a: "service"],
        outcomes=[(0, 1), (0, 1)],
        successor=lambda s, a, arrived, served: queue_after(room, s, arrived, served),
    )


def queue_after(room: int, s: int, arrived: int, served: int) -> int:
    left = int(served and s >= 2)
    return 2 * min(room, s // 2 - left + arrived) + left


def plant() -> ar.Structure:
    """Three machines that wear alike, with levels 0 to 3; action 0 runs all of them, action i + 1 services machine i."""
    return ar.Structure.factored((4, 4, 4), law=lambda i, level, a: (level, a == i + 1))


def plant_model() -> ar.TabularMDP:
    P = np.zeros((64, 4, 64))
    for s, a in itertools.product(range(64), range(4)):
        levels = np.unravel_index(s, (4, 4, 4))
        laws = [SERVICE[v] if a == i + 1 else RUN[v] for i, v in enumerate(levels)]
        for x in itertools.product(range(4), repeat=3):
            P[s, a, np.ravel_multi_index(x, (4, 4, 4))] += np.prod([law[k] for law, k in zip(laws, x, strict=True)])
    return ar.TabularMDP(P, initial=0)


def slow_law_counts(
    structure_of: Callable[[int, int], Any], columns: dict[str, np.ndarray]
) -> tuple[dict[Hashable, dict[Any, int]], Callable[[int, int], dict[int, float] | None]]:
    """Counts of each law by plain loops: {law: {outcome: times}}, and p_hat(s'|s,a).

    `structure_of(s, a)` lists the draws of a pair as (law, outcomes) and gives the successor of a tuple of outcomes.
    """
    counts: dict[Hashable, dict[Any, int]] = {}
    flows = list(zip(*(columns[name].tolist() for name in ("h", "s", "a", "next", "count")), strict=True))
    for h, s, a, then, times in flows:
        if h < 0:
            continue
        draws, successor = structure_of(s, a)
        all_x = list(itertools.product(*(outcomes for _, outcomes in draws)))
        for i, (law, _) in enumerate(draws):
            told = {t: {x[i] for x in all_x if successor(x) == t} for t in map(successor, all_x)}
            if all(len(values) == 1 for values in told.values()):
                (x,) = told[then]
                counts.setdefault(law, {}).setdefault(x, 0)
                counts[law][x] += times

    def p_hat(s: int, a: int) -> dict[int, float] | None:
        draws, successor = structure_of(s, a)
        p: dict[int, float] = {}
        for x in itertools.product(*(outcomes for _, outcomes in draws)):
            q = 1.0
            for (law, _), value in zip(draws, x, strict=True):
                seen = counts.get(law, {})
                if not seen:
                    return None
                q *= seen.get(value, 0) / sum(seen.values())
            p[successor(x)] = p.get(successor(x), 0.0) + q
        return p

    return counts, p_hat

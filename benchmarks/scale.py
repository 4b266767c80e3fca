"""How exploring, looking, planning and memory grow with the problem, and how fast exact planning is beside others.

    python benchmarks/scale.py                  # grids of 10^3 to 10^6 states, H from 10 to 100, and the fitted exponents
    python benchmarks/scale.py --planner        # backward induction beside SciPy and QuantEcon (`benchmarks/planning.py`)

Every row is measured in a process of its own: CPU seconds, of which the first use of compiled code is no part, and the largest
resident memory. A transition is one step of `explore`; a look is one computation of the certificate; a plan is `Atlas.plan` with
its interval; a page is the report of a plan in HTML. Bytes per pair are those by which the process grew for a loaded atlas with
its plan, per visited pair (Linux). An exponent b means that the quantity grows like the number of states to the power b at
H = 100, or like H to the power b at the largest number of states.

QuantEcon is not needed by anything else. For its column: pip install quantecon.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

EPISODES = 3_000
SIDES, HORIZONS = (32, 100, 316, 1_000), (10, 32, 100)
GOALS = {"plan": 2.0, "memory": 2.0}  # CPU seconds and GB, for a million states and H = 100
SECONDS = ("look", "plan", "evaluate", "explain", "page")
COLUMNS = ("transition", *SECONDS, "bytes per pair", "memory")


def resident() -> float:
    """The largest resident memory of this process so far, in bytes."""
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def resident_now() -> float:
    """The resident memory of this process, in bytes."""
    return resource.getpagesize() * float(Path("/proc/self/statm").read_text().split()[1])


def measured(side: int, horizon: int, stationary: bool) -> dict[str, float]:
    """The row of one problem."""
    import anyreward as ar
    from anyreward.pages import plan_page

    def cpu(work: Callable[[], Any], times: int = 3) -> tuple[float, Any]:
        seconds = []
        for _ in range(times):
            begin = time.process_time()
            result = work()
            seconds.append(time.process_time() - begin)
        return min(seconds), result

    def explored(size: int, steps: int, episodes: int) -> Any:
        world = ar.envs.grid_world(size, size, start=(size // 2, size // 2), goal=(size // 2 + 1, size // 2 + 1))
        begin = time.process_time()
        atlas = ar.explore(world, steps, max_episodes=episodes, stationary=stationary, replan="geometric", progress=False)
        return atlas, time.process_time() - begin

    def goal(size: int) -> np.ndarray:
        reward = np.zeros(size * size)
        reward[(size // 2 + 1) * (size + 1)] = 1.0
        return reward

    small, _ = explored(5, 5, 50)  # so that everything is compiled
    small.evaluate(small.plan(goal(5)), goal(5))
    small.explain(goal(5))
    plan_page(small.plan(goal(5)), "")
    atlas, exploring = explored(side, horizon, EPISODES)
    certificate, pairs = atlas.certificate, atlas.counts.visited_pairs
    with tempfile.TemporaryDirectory() as folder:
        atlas.save(Path(folder) / "it.atlas")
        del atlas
        before = resident_now()
        atlas = ar.load(Path(folder) / "it.atlas")
    look, _ = cpu(lambda: ar.certify(atlas.counts, certificate.delta, certificate.bounds), 1)
    plan, made = cpu(lambda: atlas.plan(goal(side)))
    evaluate, _ = cpu(lambda: atlas.evaluate(made, goal(side)))
    grown = resident_now() - before
    explain, _ = cpu(lambda: atlas.explain(goal(side)), 1)
    page, _ = cpu(lambda: plan_page(made, ""), 1)
    return {
        "transition": exploring / (EPISODES * horizon),
        "look": look,
        "plan": plan,
        "evaluate": evaluate,
        "explain": explain,
        "page": page,
        "bytes per pair": grown / pairs,
        "memory": resident() / 1e9,
    }


def in_a_process(side: int, horizon: int, stationary: bool) -> dict[str, float]:
    """`measured`, in a process of its own."""
    command = [sys.executable, __file__, "--row", str(side), str(horizon), str(int(stationary))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def exponent(sizes: list[int], values: list[float]) -> float:
    """The slope of a line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(values, 1e-12)), 1)[0])


def scale() -> None:
    console = Console(width=120)
    for stationary in (True, False):
        table = Table("states", "H", *COLUMNS, title="stationary" if stationary else "step-dependent")
        rows: dict[tuple[int, int], dict[str, float]] = {}
        sizes = [(side, HORIZONS[-1]) for side in SIDES] + [(SIDES[-1], horizon) for horizon in HORIZONS[:-1]]
        for side, horizon in sizes:
            row = rows[side, horizon] = in_a_process(side, horizon, stationary)
            table.add_row(
                f"{side**2:,}", str(horizon), f"{1e9 * row['transition']:.0f} ns", *(f"{row[x]:.3g} s" for x in SECONDS),
                f"{row['bytes per pair']:,.0f}", f"{row['memory']:.2f} GB",
            )  # fmt: skip
        in_states = [exponent([n**2 for n in SIDES], [rows[n, HORIZONS[-1]][x] for n in SIDES]) for x in COLUMNS]
        in_steps = [exponent(list(HORIZONS), [rows[SIDES[-1], h][x] for h in HORIZONS]) for x in COLUMNS]
        table.add_section()
        table.add_row("exponent", "S", *(f"{b:.2f}" for b in in_states))
        table.add_row("", "H", *(f"{b:.2f}" for b in in_steps))
        largest = rows[SIDES[-1], HORIZONS[-1]]
        table.add_row("goal", "", *(f"{GOALS[x]:g}" if x in GOALS else "" for x in COLUMNS))
        console.print(table)
        for name, most in GOALS.items():
            console.print(f"{name}: {largest[name]:.3g}, goal {most:g}: {'met' if largest[name] <= most else 'NOT MET'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--planner", action="store_true", help="only the planner, beside others")
    parser.add_argument("--row", nargs=3, type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.row:
        print(json.dumps(measured(given.row[0], given.row[1], bool(given.row[2]))))
        return
    if not given.planner:
        scale()
    import planning

    planning.main()


if __name__ == "__main__":
    main()

"""All algorithms on RiverSwim, DeepSea, NRoom and Taxi, with significance tests, and their speed on the double chain.

    python benchmarks/side_by_side.py                      # tables; --pictures docs draws the error curves into that folder
    python benchmarks/side_by_side.py --problems deep-sea

The same as `anyreward compare --algorithms all` on each of these models. A line has the means over the runs: the value error for
the model's own reward, and how many other algorithms have a larger one; the same for the worst of 20 other rewards; the states
that were visited; the algorithm's own epsilon and that of our certificate. "Beats" is by a permutation test for all pairs at once
at the level 5%. `psrl`, which draws a dense model for every episode, is left out on Taxi.
"""

import argparse
from pathlib import Path

import anyreward as ar
from anyreward.experiments import compare

EPISODES, SEEDS = 1_000, 6
PROBLEMS = {
    "river-swim": (lambda: ar.envs.river_swim(), 20),
    "deep-sea": (lambda: ar.envs.deep_sea(8, slip=0.125), 8),
    "n-room": (lambda: ar.envs.n_room(3, 3), 15),
    "taxi": (lambda: ar.envs.taxi(2, 2, 0.1), 10),
}
COLUMNS = ("error", "beats", "worst error", "beats there", "states", "own ε", "our ε")
SPEED, SLOW = "double-chain", {"psrl": 500}  # episodes on the chain where 5,000 take too long


def cell(value: object) -> str:
    """A mean to three digits."""
    value = getattr(value, "mean", value)
    return "–" if value is None else str(value) if isinstance(value, int) else f"{value:.3g}"


def table(rows: list[dict[str, object]], columns: tuple[str, ...]) -> None:
    print(f"| algorithm | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    for row in rows:
        print(f"| `{row['algorithm']}` | {' | '.join(cell(row[column]) for column in columns)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", default=",".join([*PROBLEMS, SPEED]))
    parser.add_argument("--pictures", type=Path, help="draw the error curves into this folder")
    given = parser.parse_args()
    for name in given.problems.split(","):
        if name == SPEED:
            print(f"\n{name}: transitions a second of CPU time, H = 20, 5000 episodes, one run")
            for entry in compare.all_algorithms():
                run = compare.one_run(ar.envs.double_chain(), entry, 1, SLOW.get(entry, 5_000), 20)
                print(f"| `{entry}` | {run.per_second / 1e6:.3g} million |", flush=True)
            continue
        build, H = PROBLEMS[name]
        algorithms = [entry for entry in compare.all_algorithms() if name != "taxi" or entry != "psrl"]
        runs = compare.compare(build(), algorithms, EPISODES, SEEDS, H)
        print(f"\n{name}, H = {H}, {EPISODES} episodes, {SEEDS} runs, V* = {runs[0].best:.3g}", flush=True)
        table(compare.summary(runs), COLUMNS)
        if given.pictures is not None:
            title = f"{name}, H = {H}, {SEEDS} runs"
            compare.save_picture(given.pictures / f"side-by-side-{name}.png", runs, title)


if __name__ == "__main__":
    main()

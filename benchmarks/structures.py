"""What a declared structure costs: CPU time of an exploration, as a ratio to the same number of episodes without one.

    python benchmarks/structures.py [--rounds N]

Where nothing is shared, a structure should cost nothing: the first line is to be near 1. Each line is one call of
`anyreward.explore` on the double chain, from the first episode to the atlas; rounds alternate, and the best ones count.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import anyreward as ar

H, EPISODES, LENGTH = 20, 100_000, 31


def after(s: int, a: int, x: int) -> int:
    return min(max(s + x, 0), LENGTH - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="of which the best counts")
    rounds = parser.parse_args().rounds
    warnings.simplefilter("ignore")
    mdp = ar.envs.double_chain(length=LENGTH)
    apart = ar.Structure(law=lambda s, a: (s, a), outcomes=(-1, 1), successor=after)
    lines: dict[str, dict[str, Any]] = {
        "without a structure": {"stationary": True},
        "a law for each pair": {"structure": apart},
        "two laws": {"structure": "own"},
    }

    def seconds(options: dict[str, Any]) -> float:
        begin = time.process_time()
        ar.explore(mdp, H, epsilon=1e-3, max_episodes=EPISODES, progress=False, **options)
        return time.process_time() - begin

    for options in lines.values():  # to compile
        seconds(options)
    best = {name: float("inf") for name in lines}
    for _ in range(rounds):
        for name, options in lines.items():
            best[name] = min(best[name], seconds(options))
    flat = best["without a structure"]
    for name, took in best.items():
        print(f"{name:20} {took:7.3f} s of CPU, {took / flat:5.2f} times", flush=True)


if __name__ == "__main__":
    main()

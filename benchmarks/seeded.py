"""Hundreds of seeded explorations over all algorithms, for showing that a change of the code changed no result.

    python benchmarks/seeded.py > before.txt      # in one checkout
    python benchmarks/seeded.py before.txt        # in the other: says which runs differ, and exits with 1 if any does

Each run prints one line. The counts are compared exactly, what is certified to 12 digits.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyreward as ar

MODELS: dict[str, Any] = {
    "chain": lambda: ar.envs.double_chain(length=7),
    "long chain": lambda: ar.envs.double_chain(),
    "grid": lambda: ar.envs.grid_world(rows=4, cols=4, start=(1, 1), goal=(3, 3)),
    "stock": lambda: ar.envs.make("inventory"),
    "garnet": lambda: ar.envs.garnet(n_states=8, n_actions=3, branching=2, seed=5),
}
SHORT = ("chain", "grid", "stock", "garnet")
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "rf-trajectory": [{}, {"replan": "every"}, {"replan": "geometric"}, {"discount": 0.8}, {"bounds": "paper"}],
    "rf-ucrl": [{}, {"replan": "every"}, {"replan": "geometric"}, {"clip": False, "bounds": "paper"}, {"bounds": "paper"}],
    "bpi-ucrl": [{}, {"bounds": "paper"}, {"rewards": "random"}, {"rewards": "observed"}, {"discount": 0.8}],
    "fiechter": [{}, {"variant": "published"}],
    "ucbvi": [{}, {"bonus": "hoeffding"}, {"scale": 0.05}, {"scale": 0.05, "bonus": "hoeffding"}],
    "euler": [{}, {"variant": "published"}, {"scale": 0.05}],
    "opt-qlearning": [{}, {"sharp": True}, {"scale": 0.05}],
    "even-dar": [{}, {"discount": 0.8}, {"scale": 0.2}],
    "bpi-ucbvi": [{}, {"scale": 0.02}],
    "rf-express": [{}, {"scale": 0.02}],
    "ucrl2": [{}, {"scale": 0.1}, {"discount": 0.8}],
    "kl-ucrl": [{}, {"scale": 0.1}],
}


def runs() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in sorted(ar.ALGORITHMS):
        for options, model, stationary in itertools.product(VARIANTS.get(name, [{}]), SHORT, (False, True)):
            for seed in (0, 1) if options in ({}, {"scale": 0.05}, {"replan": "every"}) else (0,):
                arguments = {"algorithm": name, "stationary": stationary, "seed": seed, **options}
                yield model, arguments
    for name in sorted(ar.ALGORITHMS):  # a difference in the last bit shows in a long run with small bonuses
        if any("scale" in options for options in VARIANTS.get(name, ())):
            yield "long chain", {"algorithm": name, "seed": 3, "scale": 0.0001}


def digest(model: str, arguments: dict[str, Any]) -> str:
    mdp, most = MODELS[model](), 60 if arguments["algorithm"] == "jin2020" else 400
    horizon, most = (20, 8000) if model == "long chain" else (6, most)
    paid = {"reward": mdp.reward} if "rewards" in arguments else {}  # what the model pays, for those that observe it
    atlas = ar.explore(mdp, horizon, max_episodes=most, **arguments, **paid)
    own = atlas.source["own"]["epsilon"]
    return f"{atlas.counts.digest()[:24]} {atlas.certificate.epsilon:.12g} {own if own is None else format(own, '.12g')}"


def main() -> int:
    warnings.simplefilter("ignore")
    lines = {}
    for model, arguments in runs():
        key = " ".join([model, *(f"{name}={value}" for name, value in arguments.items())])
        lines[key] = digest(model, arguments)
        if len(sys.argv) == 1:
            print(f"{key}\t{lines[key]}", flush=True)
    if len(sys.argv) == 1:
        return 0
    before = dict(line.split("\t") for line in Path(sys.argv[1]).read_text().splitlines())
    different = [key for key in before if lines.get(key) != before[key]]
    for key in different:
        print(f"{key}\n  before {before[key]}\n  now    {lines.get(key)}")
    print(f"{len(before)} runs, {len(different)} of them different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

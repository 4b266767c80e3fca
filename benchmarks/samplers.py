"""Which sampler serves the certificate best: epsilon of the tight certificate after the same number of episodes.

    python benchmarks/samplers.py
    python benchmarks/samplers.py --seeds 20 --problems double-chain,n-room --samplers rf-trajectory,ucb-zero:scale=0.001

Those that plan in NumPy (info-gain, coverage, maxent) take long and have to be asked for. On taxi there are twice as many
episodes, and of those that make passes over all pairs only the simplest one.

For each problem: the mean epsilon of every sampler with its standard error, the CPU time of an episode, and by a permutation test
on the runs with the same seeds, for all pairs of samplers at once, which of them are better or worse than the first one at the
level 5% (that takes at least six seeds).
"""

import argparse
import time

import numpy as np

import anyreward as ar
from anyreward.algorithms import make_explorer
from anyreward.environments.tabular import play
from anyreward.experiments.compare import parse_algorithm
from anyreward.experiments.statistics import permutation_test

EPISODES = 20_000
PROBLEMS = {  # the model, the horizon, and how many times EPISODES there are
    "double-chain": (lambda: ar.envs.double_chain(), 20, 1),
    "grid-world": (lambda: ar.envs.grid_world(7, 7, start=(3, 3), goal=(6, 6)), 12, 1),
    "garnet": (lambda: ar.envs.garnet(30, 3, 3), 12, 1),
    "river-swim": (lambda: ar.envs.river_swim(10), 20, 1),
    "deep-sea": (lambda: ar.envs.deep_sea(8, slip=0.125), 8, 1),
    "n-room": (lambda: ar.envs.n_room(3, 3), 15, 1),
    "taxi": (lambda: ar.envs.taxi(2, 2, 0.1), 10, 2),  # of many pairs
}
SAMPLERS = (
    "rf-trajectory", "rf-trajectory:replan='every'", "ucb-zero:scale=0.001", "count",
    "count:bonus='inverse'", "count:bonus='log'", "ent-game", "rf-linear:scale=0.1", "e3:samples=100", "random",
)  # fmt: skip
QUICK = ("rf-trajectory", "ucb-zero:scale=0.001", "count", "random")


def run(sampler: str, problem: str, seed: int, episodes: int) -> tuple[float, float]:
    """The certified epsilon, and the CPU time of an episode."""
    build, H, _ = PROBLEMS[problem]
    mdp, (name, options) = build(), parse_algorithm(sampler)
    known = None if mdp.initial_state is not None else mdp.initial
    explorer = make_explorer(name, mdp.setting(H, initial=known), {"seed": seed, **options}, max_episodes=episodes)
    rng, begin = np.random.default_rng([seed, 1]), time.process_time()
    while explorer.episodes < episodes:
        play(explorer, mdp, rng, episodes - explorer.episodes)
    took = time.process_time() - begin
    return ar.certify(explorer.counts, delta=0.1).epsilon, took / episodes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=EPISODES, help="on taxi, twice as many")
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--samplers", default=",".join(SAMPLERS))
    given = parser.parse_args()
    asked = given.samplers.split(",")
    for sampler in asked:  # so that compiling is not timed
        run(sampler, "double-chain", 0, 50)
    for problem in given.problems.split(","):
        _, H, times = PROBLEMS[problem]
        episodes = times * given.episodes
        samplers = [name for name in asked if times == 1 or name in QUICK]
        results = np.array([[run(name, problem, seed, episodes) for name in samplers] for seed in range(given.seeds)])
        epsilons, took = results[..., 0], results[..., 1].mean(axis=0)
        print(f"{problem}, H = {H}, {episodes} episodes, {given.seeds} seeds", flush=True)
        p = permutation_test(epsilons.T) if given.seeds > 1 else np.ones((len(samplers),) * 2)
        for i in np.argsort(epsilons.mean(axis=0)):
            error = epsilons[:, i].std(ddof=1) / np.sqrt(given.seeds) if given.seeds > 1 else 0.0
            verdict = "better" if p[i, 0] <= 0.05 else "worse" if p[0, i] <= 0.05 else ""
            numbers = f"{epsilons[:, i].mean():8.3f} +- {error:.3f} {took[i] * 1e6:9.1f} us"
            print(f"    {samplers[i]:32} {numbers}  {verdict}", flush=True)


if __name__ == "__main__":
    main()

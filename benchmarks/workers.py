"""One exploration on many simulators: how much faster it is, how many more episodes it takes, and what a step costs.

    python benchmarks/workers.py                     # all three tables of docs/workers.md, about ten minutes
    python benchmarks/workers.py --only overhead     # one of them: throughput, episodes, overhead

Throughput   Steps a second with N workers against one, in batches of eight: of a simulator that sleeps for a millisecond in every
             step, so that two cores suffice for eight of them, and of two that compute. Starting the workers is not counted.
Episodes     How many episodes are certified to a target, in batches of B against one by one.
Overhead     The time of one step in one process, beside that of the environment itself. All are CPU time, the best of several
             rounds that alternate.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from math import ceil
from typing import Any

import gymnasium
import numpy as np
from rich.console import Console
from rich.table import Table

import anyreward as ar
from anyreward.algorithms import RFTrajectory
from anyreward.environments.gymnasium import GymnasiumEnvironment

WORKERS, BATCHES, ROUNDS, SEEDS = (1, 2, 4, 8), (1, 8, 64), 7, 3


class Sleeping(gymnasium.Env[int, int]):
    """A walk on 20 states, of which every step takes a millisecond and no processor."""

    def __init__(self, seconds: float = 1e-3) -> None:
        self.observation_space, self.action_space = gymnasium.spaces.Discrete(20), gymnasium.spaces.Discrete(2)
        self.seconds, self.s = seconds, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.s = 0
        return self.s, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        time.sleep(self.seconds)
        forward = self.np_random.random() < (0.9 if action else 0.2)
        self.s = min(19, self.s + 1) if forward else max(0, self.s - 1)
        return self.s, 0.0, False, False, {}


# name: what is explored, its horizon, episodes with one worker
SIMULATORS: dict[str, tuple[Any, int, int]] = {
    "sleeps for 1 ms": (Sleeping, 20, 256),
    "FrozenLake-v1": ("FrozenLake-v1", 20, 4_000),
    "Taxi-v3": ("Taxi-v3", 50, 1_600),
}


def throughput(console: Console) -> None:
    """Steps a second for every number of workers."""
    table = Table("simulator", "N", "steps a second", "against one process", title="Throughput, B = 8")
    for name, (env, H, episodes) in SIMULATORS.items():
        one = rate(env, H, episodes)
        table.add_row(name, "in this process", f"{one:,.0f}", "1.0 ×")
        for N in WORKERS:
            many = rate(env, H, episodes * (min(N, 4) if env is Sleeping else 1), workers=N)
            table.add_row(name, str(N), f"{many:,.0f}", f"{many / one:.1f} ×")
    console.print(table)


def rate(env: Any, H: int, episodes: int, **options: Any) -> float:
    """Steps a second from the first look, when everything has started, to the last."""
    looks: list[tuple[float, int]] = []
    options = {"batch": 8, "stationary": True, "max_episodes": episodes, **options}
    ar.explore(env, H, progress=lambda t, _: looks.append((time.perf_counter(), t)), **options)
    (begin, first), (end, last) = next(look for look in looks if look[1] >= 8), looks[-1]
    return (last - first) * H / (end - begin)


# name: a model, its setting, epsilon, whether stationary
TARGETS: dict[str, tuple[Callable[[], ar.TabularMDP], int, float, bool]] = {
    "double chain, 15 states": (lambda: ar.envs.double_chain(15), 20, 4.0, False),
    "double chain, 15 states, stationary": (lambda: ar.envs.double_chain(15), 20, 4.0, True),
}


def episodes(console: Console) -> None:
    """Episodes until a target is certified, for every size of a batch; the certificate is looked at where batches end."""
    table = Table("", *(f"B = {B}" for B in BATCHES), *(f"B = {B}, more" for B in BATCHES[1:]), title="Episodes to certify")
    for name, (make, H, epsilon, stationary) in TARGETS.items():
        took = [statistics.mean(certified(make(), H, epsilon, stationary, B, seed) for seed in range(SEEDS)) for B in BATCHES]
        table.add_row(name, *(f"{t:,.0f}" for t in took), *(f"{t / took[0] - 1:+.1%}" for t in took[1:]))
    for env, H, epsilon in (("FrozenLake-v1", 20, 4.0),):
        took = [
            statistics.mean(
                ar.explore(env, H, epsilon, stationary=True, batch=B, seed=seed, progress=False).episodes for seed in range(SEEDS)
            )
            for B in BATCHES
        ]
        table.add_row(f"{env}, stationary", *(f"{t:,.0f}" for t in took), *(f"{t / took[0] - 1:+.1%}" for t in took[1:]))
    console.print(table)


def certified(mdp: ar.TabularMDP, H: int, epsilon: float, stationary: bool, B: int, seed: int) -> int:
    """What `explore` does in batches, with a model in place of simulators: looks whenever episodes have grown by 1%."""
    explorer = RFTrajectory(mdp.setting(H, stationary=stationary), seed=seed)
    rng, look = np.random.default_rng(seed), B
    while True:
        explorer.tell(*mdp.play_each(np.stack([explorer.ask_ahead(k) for k in range(B)]), rng))
        if explorer.episodes >= look:
            if explorer.error_bound <= epsilon / 2:
                return explorer.episodes
            look = ceil(1.01 * explorer.episodes)


def overhead(console: Console) -> None:
    """Microseconds a step, beside those of the environment itself."""
    table = Table("", "environment", "exploration", "on top of it", title="µs a step, one process")
    for name, H in (("FrozenLake-v1", 20), ("Taxi-v3", 50)):
        own, whole = step_times(name, H)
        table.add_row(name, f"{1e6 * (whole - own):.1f}", f"{1e6 * whole:.1f}", f"{1e6 * own:.1f}")
    console.print(table)


class Scripted(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Writes down what an environment answers, and then answers the same again at once."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.answers: list[Any] = []
        self.again: Any = None

    def _say(self, ask: Callable[[], Any]) -> Any:
        self.answers.append(ask())
        return self.answers[-1]

    def reset(self, **options: Any) -> Any:
        return self._say(lambda: self.env.reset(**options)) if self.again is None else next(self.again)

    def step(self, action: Any) -> Any:
        return self._say(lambda: self.env.step(action)) if self.again is None else next(self.again)


def step_times(name: str, H: int) -> tuple[float, float]:
    """CPU seconds for a step of exploration without the time of the environment, and with it.

    The environment's own time is what is saved by an environment that has its answers ready. (Called in a loop of its own, with
    everything in the caches of the processor, it would look up to twice as fast as it is in any program.)
    """
    scripted, best = Scripted(gymnasium.make(name)), [np.inf, np.inf]
    time_of(scripted, H)
    for _ in range(ROUNDS):
        scripted.again = iter(scripted.answers)
        best = [min(pair) for pair in zip(best, (time_of(scripted, H), time_of(gymnasium.make(name), H)), strict=True)]
    steps = sum(len(answer) == 5 for answer in scripted.answers)
    return best[0] / steps, best[1] / steps


def time_of(env: gymnasium.Env[Any, Any], H: int, episodes: int = 640) -> float:
    """CPU seconds of the first episodes of an exploration: the same ones every time."""
    environment = GymnasiumEnvironment(ar.Gymnasium(env), H, stationary=True)
    explorer = RFTrajectory(environment.setting)
    explorer.counts.numbering = environment.numbering
    begin = time.process_time()
    while explorer.episodes < episodes:
        environment.play(explorer, episodes - explorer.episodes, -1.0)
    return time.process_time() - begin


def main() -> None:
    parts = {"throughput": throughput, "episodes": episodes, "overhead": overhead}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=parts)
    only = parser.parse_args().only
    warnings.simplefilter("ignore")  # what Gymnasium has against versions
    for name, part in parts.items():
        if only in (None, name):
            part(Console())


if __name__ == "__main__":
    main()

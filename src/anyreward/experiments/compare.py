"""Algorithms side by side on a known model: how well they learn about its reward, about other rewards, and how fast.

For each algorithm and seed, at several numbers of episodes: the value error |V_hat*(s_1; r) - V*(s_1; r)| of planning on the
algorithm's counts, for the model's own reward and, as the worst case, for a panel of 20 random rewards. At the end: the number of
states visited, the speed in transitions a second, what the algorithm's own theorem guarantees, and what our certificate says
about its counts. Means over the seeds have 95% bootstrap intervals. If asked for, the gap of the policy of every episode is kept
as well (`mistakes`).
"""

from __future__ import annotations

import ast
import csv
import io
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .._files import replace_file
from ..algorithms.registry import ALGORITHMS, make_explorer
from ..certificates.certificate import certify
from ..data.tabular import TabularMDP
from ..environments.tabular import play
from ..executors import pool
from ..planning import backward_induction
from ..plots import save_figure
from ..setting import nearest, shown
from .mistakes import Gaps, mistakes
from .statistics import bootstrap_interval, permutation_test

PANEL = 20  # number of random rewards
LOOKS = 12  # points of an error curve
LEVEL = 0.05  # familywise level of the test which of two errors is smaller
WARM = 200  # episodes of a throw-away run before the clock starts, so that compiling is not timed
# With their proven constants, these algorithms explore like the random policy at such budgets. With bonuses scaled down, as they
# are used in practice, they learn something, but have no guarantee of their own.
PRACTICAL = (
    "rf-express:scale=0.0001",
    "bpi-ucbvi:scale=0.0001",
    "ucbvi:scale=0.0001",
    "euler:scale=0.0001",
    "ucrl2:scale=0.01",
    "kl-ucrl:scale=0.001",
    "opt-qlearning:scale=0.001",
)
GROUPS = {
    "reward-free": "tab:blue",
    "generative": "tab:purple",
    "baseline": "tab:gray",
    "best policy": "tab:green",
    "regret": "tab:red",
    "PAC-MDP": "tab:orange",
    "several rewards": "tab:cyan",
    "entropy": "tab:pink",
    "goals": "tab:olive",
}


@dataclass(frozen=True)
class Run:
    """The result of one algorithm with one seed."""

    algorithm: str  # with its options, see `parse_algorithm`
    seed: int
    episodes: list[int]  # numbers of episodes at which the errors were measured
    error: list[float]  # value error for the model's reward, at each of them
    worst: list[float]  # largest value error over the panel of random rewards
    covered: int  # number of states visited
    per_second: float  # transitions a second
    own: float | None  # epsilon that the algorithm's own theorem guarantees, None if there is none
    ours: float  # epsilon that our certificate gives for its counts
    best: float = 0.0  # the optimum for the model's reward
    gaps: np.ndarray | None = field(default=None, compare=False)  # V* - V^pi of every episode, if they were kept


def panel(mdp: TabularMDP, horizon: int, size: int = PANEL) -> list[np.ndarray]:
    """Random rewards, (S, A) arrays: half of them uniform in [0, 1] everywhere, half of them 1 in one state and 0 elsewhere.

    They depend on the model's size alone, so that all algorithms and seeds are compared on the same rewards.
    """
    rng = np.random.default_rng(12345)
    dense = [rng.random((mdp.n_states, mdp.n_actions)) for _ in range(size - size // 2)]
    goals = rng.choice(mdp.n_states, size // 2, replace=mdp.n_states < size // 2)
    return dense + [np.repeat((np.arange(mdp.n_states) == goal)[:, None].astype(float), mdp.n_actions, axis=1) for goal in goals]


def parse_algorithm(entry: str) -> tuple[str, dict[str, Any]]:
    """The name and the options of an algorithm, from a text such as `ucbvi` or `ucbvi:scale=0.0001+bonus=hoeffding`."""
    name, _, rest = entry.partition(":")
    if name not in ALGORITHMS:
        raise ValueError(f"there is no algorithm {shown(name)}{nearest(name, ALGORITHMS)}.")
    options: dict[str, Any] = {}
    for pair in filter(None, rest.split("+")):
        key, equals, text = pair.partition("=")
        if not equals or not key.isidentifier():
            raise ValueError(f"{shown(entry)} is not an algorithm with options: write it as name:option=value+option=value.")
        try:
            options[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            options[key] = text
    return name, options


def goal_of(entry: str) -> str:
    """What an algorithm is for (reward-free, best policy, regret, ...), from a text such as `ucbvi:scale=0.0001`."""
    return ALGORITHMS[parse_algorithm(entry)[0]].goal


def one_run(
    mdp: TabularMDP,
    algorithm: str,
    seed: int,
    episodes: int,
    horizon: int,
    delta: float = 0.1,
    stationary: bool = False,
    gaps: bool = False,
) -> Run:
    """Explore with one algorithm and measure its errors along the way; only the exploration is timed.

    Parameters
    ----------
    mdp
        The model, with a reward.
    algorithm
        A name with options, see `parse_algorithm`.
    seed, episodes, horizon, delta, stationary, gaps
        As for `compare`.
    """
    name, options = parse_algorithm(algorithm)
    setting = mdp.setting(horizon, stationary=stationary)

    def make(budget: int) -> Any:
        given = {"delta": delta, "seed": seed, **options}
        return make_explorer(name, setting, given, own_reward=mdp.reward, max_episodes=budget)

    kept = Gaps(mdp, np.asarray(mdp.reward), horizon) if gaps else None

    def explored(explorer: Any, rng: np.random.Generator, end: int, noted: Gaps | None = None) -> float:
        start = time.process_time()
        while explorer.episodes < end:
            if noted is None:
                play(explorer, mdp, rng, end - explorer.episodes)
            else:
                noted.play(explorer, rng, end - explorer.episodes)
        return time.process_time() - start

    explored(make(WARM), np.random.default_rng(seed), WARM)
    explorer, rng = make(episodes), np.random.default_rng(seed)
    rewards = [mdp.reward, *panel(mdp, horizon)]
    truth = [float(mdp.initial @ backward_induction(mdp, r, horizon).V[0]) for r in rewards]
    looks = sorted({int(t) for t in np.geomspace(min(100, episodes), episodes, LOOKS).round()})
    error, worst, took = [], [], 0.0
    for t in looks:
        took += explored(explorer, rng, t, kept)
        model = explorer.counts.model()
        values = [float(model.initial @ backward_induction(model, r, horizon).V[0]) for r in rewards]
        off = [abs(value - best) for value, best in zip(values, truth, strict=True)]
        error.append(off[0])
        worst.append(max(off[1:]))
    covered = int((explorer.counts.state_visits() > 0).sum())
    ours = certify(explorer.counts, delta).epsilon
    speed = episodes * horizon / max(took, 1e-9)
    own, all_gaps = explorer.own_epsilon, None if kept is None else kept.all
    return Run(algorithm, seed, looks, error, worst, covered, speed, own, float(ours), truth[0], all_gaps)


def all_algorithms() -> list[str]:
    """All algorithms, and some of them again with bonuses scaled down, as they are used in practice."""
    return [*ALGORITHMS, *PRACTICAL]


def compare(
    mdp: TabularMDP,
    algorithms: Sequence[str] | None = None,
    episodes: int = 20_000,
    seeds: int = 10,
    horizon: int = 20,
    delta: float = 0.1,
    stationary: bool = False,
    seed: int = 0,
    executor: Executor | None = None,
    workers: int = 1,
    progress: Any = None,
    gaps: bool = False,
) -> list[Run]:
    """Run several algorithms on one model, each with several seeds.

    Parameters
    ----------
    mdp
        The model to explore, with a reward.
    algorithms
        Names with options, see `parse_algorithm`. None: `all_algorithms`.
    episodes
        Number of episodes of each run.
    seeds
        Number of runs of each algorithm. Run k has the same seed for all algorithms.
    horizon
        Number of steps of an episode.
    delta
        Probability with which each guarantee may fail.
    stationary
        Whether to assume that transitions do not depend on the step.
    seed
        The seeds of the runs are derived from it.
    executor
        Where to run, like the executors of `concurrent.futures`. None: in this process, or in `workers` processes.
    workers
        Number of processes, if no executor is given.
    progress
        Called with each `Run` when it is done.
    gaps
        Whether to keep V* - V^pi of the policy of every episode; the speed is then that of noting them, too.

    Returns
    -------
    list of Run
        Sorted by algorithm, then by seed.
    """
    names = all_algorithms() if algorithms is None else list(algorithms)
    for name in names:
        parse_algorithm(name)
    if mdp.reward is None:
        raise ValueError("the environment has no reward of its own, which a comparison needs.")
    if episodes < 1 or seeds < 1:
        raise ValueError(f"episodes and seeds are {episodes} and {seeds}: both have to be at least 1.")
    numbers = [int(child.generate_state(1)[0]) for child in np.random.SeedSequence(seed).spawn(seeds)]
    jobs = [(name, number) for name in names for number in numbers]
    if executor is None and workers > 1:
        with pool(workers) as own:
            return compare(mdp, names, episodes, seeds, horizon, delta, stationary, seed, own, 1, progress, gaps)
    results = []
    pending = [] if executor is None else [
        executor.submit(one_run, mdp, name, number, episodes, horizon, delta, stationary, gaps) for name, number in jobs
    ]  # fmt: skip
    for i, (name, number) in enumerate(jobs):
        given = mdp, name, number, episodes, horizon, delta, stationary, gaps
        run = one_run(*given) if executor is None else pending[i].result()
        results.append(run)
        if progress is not None:
            progress(run)
    return results


def summary(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The rows of the result table: one for each algorithm, in the order in which they were run.

    "beats" is how many other algorithms have a larger error for the model's reward, "beats there" how many have a larger worst
    error, by a permutation test that holds for all pairs at once at the level 5% (`statistics.permutation_test`). Both are None
    with a single run.
    """
    rows: list[dict[str, Any]] = []
    names = list(dict.fromkeys(run.algorithm for run in runs))
    seeds = sum(run.algorithm == names[0] for run in runs)
    beaten: list[Any] = [None, None]
    if seeds > 1:
        of = {name: [run for run in runs if run.algorithm == name] for name in names}
        finals = [np.array([[getattr(run, kind)[-1] for run in of[name]] for name in names]) for kind in ("error", "worst")]
        beaten = [(permutation_test(values) <= LEVEL).sum(axis=1) for values in finals]
    for k, name in enumerate(names):
        mine = [run for run in runs if run.algorithm == name]
        own = [run.own for run in mine if run.own is not None]
        rows.append(
            {
                "algorithm": name,
                "goal": goal_of(name),
                "error": bootstrap_interval([run.error[-1] for run in mine]),
                "beats": None if beaten[0] is None else int(beaten[0][k]),
                "worst error": bootstrap_interval([run.worst[-1] for run in mine]),
                "beats there": None if beaten[1] is None else int(beaten[1][k]),
                "states": bootstrap_interval([run.covered for run in mine]),
                "transitions/s": bootstrap_interval([run.per_second for run in mine]),
                "own ε": bootstrap_interval(own) if len(own) == len(mine) else None,
                "our ε": bootstrap_interval([run.ours for run in mine]),
            }
        )
        lost = [run.gaps for run in mine if run.gaps is not None]
        if lost:
            known = not np.isnan(np.concatenate(lost)).any()
            bad = [float(mistakes(gaps, mine[0].best / 10)) for gaps in lost]
            rows[-1]["regret"] = bootstrap_interval([gaps.sum() for gaps in lost]) if known else None
            rows[-1]["bad episodes"] = bootstrap_interval(bad) if known else None
    return rows


def save_table(path: Path, runs: Sequence[Run]) -> None:
    """Write a CSV file with one line for each run, with its errors at the last episode."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    heads = ["algorithm", "seed", "episodes", "error", "worst_error", "states", "transitions_per_second", "own", "ours"]
    writer.writerow(heads + ["regret", "bad_episodes"] * any(run.gaps is not None for run in runs))
    for run in runs:
        last = run.episodes[-1], run.error[-1], run.worst[-1], run.covered, run.per_second, run.own, run.ours
        lost = () if run.gaps is None else (run.gaps.sum(), mistakes(run.gaps, run.best / 10))
        writer.writerow([run.algorithm, run.seed, *last, *lost])
    replace_file(path, buffer.getvalue().encode())


def styles_of(runs: Sequence[Run]) -> dict[str, dict[str, Any]]:
    """How each algorithm is drawn: a colour for its goal, and a line of its own among those with that goal."""
    lines = ["-", "--", ":", "-.", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)), (0, (9, 3)), (0, (1, 4)), (0, (6, 2, 1, 2, 1, 2))]
    used: dict[str, int] = {}
    styles: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(run.algorithm for run in runs):
        goal = goal_of(name)
        styles[name] = {"linestyle": lines[used.get(goal, 0) % len(lines)], "color": GROUPS.get(goal, "black")}
        used[goal] = used.get(goal, 0) + 1
    return styles


def save_picture(path: Path, runs: Sequence[Run], title: str) -> None:
    """Draw the errors against the number of episodes, with 95% bootstrap intervals.

    On the left the error for the model's own reward, on the right the worst error over the panel.
    """
    from matplotlib.figure import Figure

    styles = styles_of(runs)
    columns = 1 + (len(styles) - 1) // 22  # of the legend, which would be cut off otherwise
    figure = Figure(figsize=(11 + 2.2 * columns, 6), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for name, style in styles.items():
        mine = [run for run in runs if run.algorithm == name]
        for axis, kind in zip(axes, ("error", "worst"), strict=True):
            bands = [bootstrap_interval([getattr(run, kind)[i] for run in mine], 300) for i in range(len(mine[0].episodes))]
            t = mine[0].episodes
            axis.plot(t, [b.mean for b in bands], label=name, **style)
            axis.fill_between(t, [b.low for b in bands], [b.high for b in bands], color=style["color"], alpha=0.1, linewidth=0)
    for axis, text in zip(axes, ("its own reward", "the worst of 20 other rewards"), strict=True):
        axis.set(xscale="log", yscale="log", xlabel="episodes", title=f"Value error for {text}")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("|V̂* − V*| at the start, mean and 95% band")
    used = {goal_of(name) for name in styles}
    colours = {goal: GROUPS[goal].removeprefix("tab:") for goal in GROUPS if goal in used}
    key = "\n".join(f"{colour}: {goal}" for goal, colour in colours.items())
    axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, title=key, ncols=columns)
    figure.suptitle(title)
    save_figure(path, figure)

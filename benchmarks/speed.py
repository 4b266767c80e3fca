"""How fast exploration is: CPU time against fixed targets, or against another checkout of the package.

    python benchmarks/speed.py                    # every line with its target; exits with 1 if a target is missed
    python benchmarks/speed.py --against PATH     # and the same lines with the package in PATH/src: before, after, ratio
    python benchmarks/speed.py --lines ucbvi,euler --rounds 30        # some lines only, and more rounds

A line is one call of `anyreward.explore` from the first episode to the atlas, with nothing subtracted. Its time is the CPU time
of the process (`time.process_time`), which other processes on the machine do not add to, as they would to the wall clock. It is
the best of several rounds; the rounds of all lines are interleaved, so that a machine that is slower for a while is slower for
all of them. Compiling comes first and is not counted. Everything runs on one core.

Targets are numbers of transitions per second, or ratios to one of two references that are measured in the same run: pure
simulation of the same model under a fixed policy, compiled by Numba, and the same algorithm in plain NumPy. Both references are
in this file.

Each checkout runs in a process of its own, which gets one line at a time from this one, so that the rounds of the two checkouts
alternate. Compiled code is cached beside this file and not in the checkouts.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from rich.console import Console
from rich.table import Table

import anyreward as ar

H = 20
SLOWER = 0.03  # what counts as slower than another checkout
HERE = Path(__file__).resolve()
ONE_CORE = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}  # threads that wait take CPU time, too
MODELS: dict[str, Callable[[], ar.TabularMDP]] = {
    "chain": lambda: ar.envs.double_chain(),
    "grid": lambda: ar.envs.grid_world(),
    "large grid": lambda: ar.envs.grid_world(300, 300, start=(150, 150)),
}


class Line(NamedTuple):
    """One thing that is measured, and what is asked of it."""

    name: str
    model: str
    options: dict[str, Any]  # of `explore`
    rate: float = 0.0  # asked for: transitions per second
    pure: float = np.inf  # asked for: at most so many times the CPU time of pure simulation
    plain: tuple[str, float] | None = None  # asked for: so many times the speed of this algorithm in plain NumPy
    episodes: int | None = None  # None: as many as take about as long as all other lines


def lines() -> list[Line]:
    """Every algorithm on the double chain with the paper's bounds; then what else is promised."""
    rates = {"bpi-ucrl": 1.5e6, "mdp-gape": 500_000}  # mdp-gape: two convex problems for every pair after every episode
    rates["psrl"] = 10_000  # a draw of the whole model, 38,440 gamma variates, before every episode
    paper = {"bounds": "paper"}
    asked: dict[str, dict[str, Any]] = {
        "rf-ucrl": {"pure": 6.0, "episodes": 2_000_000},
        "bpi-ucrl": {"plain": ("bpi-ucrl", 500.0)},
        "generative": {"episodes": 500_000},  # all draws between two looks at once: a short run consists of looks
    }
    found = []
    for name, kind in ar.ALGORITHMS.items():  # those that divide a budget among parts take long to begin
        if name == "rf-calibrated":  # has bounds of its own, and says nothing of a number of episodes
            continue
        more = {"episodes": 50_000} if kind.needs_budget else asked.get(name, {})
        found.append(Line(name, "chain", {"algorithm": name, **paper}, rates.get(name, 1e6), **more))
    rf, bpi = {"algorithm": "rf-ucrl", **paper}, {"algorithm": "bpi-ucrl", **paper}
    tight, pooled = {"bounds": "tight"}, {"stationary": True}
    return [
        *found,
        Line("rf-ucrl, a pass after every episode", "chain", {**rf, "replan": "every"}, 1e6, 16.0, ("rf-ucrl", 200.0)),
        Line("rf-ucrl, geometric passes", "chain", {**rf, "replan": "geometric"}, 1e9, episodes=10**9),
        Line("rf-ucrl, pooled, every episode", "chain", {**rf, **pooled, "clip": False, "replan": "every"}, 1e6),
        Line("bpi-ucrl, pooled", "chain", {**bpi, **pooled}, 600_000),
        Line("rf-trajectory, tight bounds", "chain", {"algorithm": "rf-trajectory", **tight}, 5e6, episodes=500_000),
        Line("bpi-ucrl, tight bounds", "chain", {"algorithm": "bpi-ucrl", **tight}, 100_000),
        Line("rf-ucrl on 21 x 21 fields", "grid", rf, 1e6, 25.0),
        Line("rf-ucrl on 300 x 300 fields", "large grid", rf, 1e6, 25.0),
        Line("bpi-ucrl on 21 x 21 fields", "grid", bpi, 10_000, plain=("bpi-ucrl", 100.0)),
    ]


# The references


@numba.njit(error_model="numpy")
def walk(successors, cumulative, policy, s0, episodes, rng, ends):
    """Plays episodes of a policy (H, S) on rows (S, A, K) and counts where they end."""
    for _ in range(episodes):
        s = s0
        for h in range(len(policy)):
            a, k, u = policy[h, s], 0, rng.random()
            while u >= cumulative[s, a, k]:
                k += 1
            s = successors[s, a, k]
        ends[s] += 1


def rows(mdp: ar.TabularMDP) -> tuple[np.ndarray, np.ndarray]:
    """Successors and their probabilities, (S, A, K) each."""
    shape = mdp.model.shape[1:]
    return mdp.model.successors.reshape(shape), mdp.model.probabilities.reshape(shape)


def pure_simulation(mdp: ar.TabularMDP) -> Callable[[int], None]:
    """A fixed policy, nothing learned."""
    successors, P = rows(mdp)
    policy = np.random.default_rng(1).integers(0, mdp.n_actions, (H, mdp.n_states))
    cumulative, ends, rng = P.cumsum(axis=-1), np.zeros(mdp.n_states, np.int64), np.random.default_rng(0)
    cumulative[..., -1] = 1.0
    return lambda episodes: walk(successors, cumulative, policy, mdp.initial_state, episodes, rng, ends)


def plain_rf_ucrl(mdp: ar.TabularMDP, delta: float = 0.1) -> Callable[[int], None]:
    """RF-UCRL as one writes it down: dense arrays, a full backward pass after every episode."""
    P, S, A, rng = mdp.dense(), mdp.n_states, mdp.n_actions, np.random.default_rng(0)
    n_next = np.zeros((H, S, A, S))
    policy = np.zeros((H, S), dtype=int)

    def play(episodes: int) -> None:
        for _ in range(episodes):
            s = mdp.initial_state
            for h in range(H):
                a = policy[h, s]
                s_next = rng.choice(S, p=P[s, a])
                n_next[h, s, a, s_next] += 1
                s = s_next
            n = n_next.sum(-1)
            p_hat = np.where(n[..., None] > 0, n_next / np.maximum(n, 1)[..., None], 1 / S)
            beta = np.log(2 * S * A * H / delta) + (S - 1) * np.log(np.e * (1 + n / (S - 1)))
            E = np.zeros((S, A))
            for h in range(H - 1, -1, -1):
                cap = H - 1 - h
                bonus = np.where(n[h] > 0, cap * np.sqrt(2 * beta[h] / np.maximum(n[h], 1)), np.inf if cap else 0.0)
                E = np.minimum(cap, bonus + p_hat[h] @ E.max(axis=1))
                policy[h] = E.argmax(axis=1)

    return play


def plain_bpi_ucrl(mdp: ar.TabularMDP, delta: float = 0.1) -> Callable[[int], None]:
    """BPI-UCRL in NumPy, vectorised over the pairs of a step: a bisection for every ball, both bounds after every episode."""
    S, A, rng = mdp.n_states, mdp.n_actions, np.random.default_rng(0)
    succ, P = rows(mdp)
    n_next = np.zeros((H, S, A, succ.shape[2]))
    policy = np.zeros((H, S), dtype=int)

    def gap(q: np.ndarray, g: np.ndarray, c: np.ndarray) -> np.ndarray:
        mean = (q * g).sum(-1)
        high = mean / np.expm1(c) + 1e-100
        low = 1e-18 * high
        for _ in range(50):
            u = np.sqrt(low * high)
            ratio = g / u[..., None]
            theta = (q * np.log1p(ratio)).sum(-1) + np.log(np.maximum((q / (1 + ratio)).sum(-1), 1e-300))
            low, high = np.where(theta > c, u, low), np.where(theta > c, high, u)
        return np.clip(high * np.expm1((q * np.log1p(g / high[..., None])).sum(-1) - c), 0, mean)

    def play(episodes: int) -> None:
        for _ in range(episodes):
            s = mdp.initial_state
            for h in range(H):
                a = policy[h, s]
                k = rng.choice(succ.shape[2], p=P[s, a])
                n_next[h, s, a, k] += 1
                s = succ[s, a, k]
            n = n_next.sum(-1)
            beta = np.log(2 * S * A * H / delta) + (S - 1) * np.log(np.e * (1 + n / (S - 1)))
            up, lo = np.zeros(S), np.zeros(S)
            for h in range(H - 1, -1, -1):
                q, c = n_next[h] / np.maximum(n[h], 1)[..., None], beta[h] / np.maximum(n[h], 1)
                seen = n[h] > 0
                q_up = mdp.reward + up.max() - np.where(seen, gap(q, up.max() - up[succ], c), 0)
                q_lo = mdp.reward + lo.min() + np.where(seen, gap(q, lo[succ] - lo.min(), c), 0)
                policy[h], up, lo = q_up.argmax(1), q_up.max(1), q_lo.max(1)

    return play


REFERENCES: dict[str, Callable[[ar.TabularMDP], Callable[[int], None]]] = {
    "pure simulation": pure_simulation,
    "plain NumPy rf-ucrl": plain_rf_ucrl,
    "plain NumPy bpi-ucrl": plain_bpi_ucrl,
}


# One checkout, in a process of its own


def cpu_time(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


def serve() -> None:
    """Answers each line of standard input, a JSON list (kind, model, options, episodes), with the CPU time that it took."""
    models = {name: make() for name, make in MODELS.items()}
    references: dict[tuple[str, str], Callable[[int], None]] = {}

    def run(kind: str, model: str, options: dict[str, Any], episodes: int) -> object:
        if kind == "explore":
            return ar.explore(models[model], H, max_episodes=episodes, progress=False, **options)
        return references[kind, model](episodes)

    answers, sys.stdout = sys.stdout, sys.stderr  # whatever else is printed is no answer
    print(json.dumps(ar.__file__), file=answers, flush=True)
    for question in sys.stdin:
        kind, model, options, episodes = json.loads(question)
        if kind != "explore" and (kind, model) not in references:
            references[kind, model] = REFERENCES[kind](models[model])
        took = cpu_time(lambda q=(kind, model, options, episodes): run(*q))
        print(json.dumps(took), file=answers, flush=True)


class Checkout:
    """The package in `path`/src, in a process that measures lines."""

    def __init__(self, path: Path) -> None:
        cache = HERE.parent / "__pycache__" / "numba"
        environment = {
            **os.environ,
            "PYTHONPATH": str(path / "src"),
            "NUMBA_CACHE_DIR": str(cache),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.process = subprocess.Popen(
            [sys.executable, str(HERE), "--serve"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        package = Path(self._answer())
        if not package.is_relative_to(path.resolve()):
            raise SystemExit(f"{path} has no src/anyreward: {package} would be measured instead.")

    def _answer(self) -> Any:
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit("the process that measures has ended, see above.")
        return json.loads(answer)

    def cpu_time(self, kind: str, model: str, options: dict[str, Any], episodes: int) -> float:
        print(json.dumps((kind, model, options, episodes)), file=self.process.stdin, flush=True)
        return self._answer()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


# All of it


def enough(run: Callable[[int], float], seconds: float) -> int:
    """How many episodes take about so many CPU seconds; whatever has to be compiled is compiled by the first call."""
    episodes = 1
    run(episodes)
    while (took := run(episodes)) < seconds / 4:
        episodes *= 4
    return max(1, round(episodes * seconds / took))


Times = dict[tuple[str, str], list[float]]  # of a reference by its name and model, of a line by its name and ""


def measure(todo: list[Line], after: Checkout, before: Checkout | None, rounds: int, seconds: float) -> tuple[Times, Times]:
    """CPU seconds per episode in every round, with this checkout and with the other one."""
    jobs: dict[tuple[str, str], tuple[str, str, dict[str, Any]]] = {}
    for line in todo:
        for reference in ("pure simulation", *((f"plain NumPy {line.plain[0]}",) if line.plain else ())):
            jobs[reference, line.model] = reference, line.model, {}
    jobs |= {(line.name, ""): ("explore", line.model, line.options) for line in todo}
    counts = {(line.name, ""): line.episodes for line in todo if line.episodes is not None}
    both = {key: [after] if before is None or key[1] else [before, after] for key in jobs}
    for key, job in jobs.items():
        if key not in counts:
            counts[key] = enough(lambda episodes, job=job: after.cpu_time(*job, episodes), seconds)
        for checkout in both[key]:
            checkout.cpu_time(*job, counts[key])  # to compile
    times: dict[Checkout | None, Times] = {checkout: {key: [] for key in jobs} for checkout in (after, before)}
    for r in range(rounds):
        for key, job in jobs.items():
            for checkout in both[key][:: 1 if r % 2 else -1]:
                times[checkout][key].append(checkout.cpu_time(*job, counts[key]) / counts[key])
    return times[after], times[before]


def table_of_targets(todo: list[Line], times: Times) -> tuple[Table, bool]:
    """All lines with what is asked of them, and whether all of that is met."""
    best = {key: min(rounds) for key, rounds in times.items()}
    table = Table("H = 20", "transitions/s", "times simulation", "times plain NumPy", "asked for", "")
    good = True
    for (name, model), t in best.items():
        if model:
            table.add_row(f"{name}, {model}", f"{H / t:,.0f}", "", "", "", "")
    for line in todo:
        t = best[line.name, ""]
        slower = t / best["pure simulation", line.model]
        met, asked, faster = H / t >= line.rate and slower <= line.pure, [f"{line.rate:,.0f}/s"], ""
        if np.isfinite(line.pure):
            asked.append(f"at most {line.pure:g} times simulation")
        if line.plain is not None:
            ratio = best[f"plain NumPy {line.plain[0]}", line.model] / t
            met, faster = met and ratio >= line.plain[1], f"{ratio:,.0f}"
            asked.append(f"{line.plain[1]:g} times plain NumPy")
        good = good and met
        table.add_row(line.name, f"{H / t:,.0f}", f"{1 / slower:.3g}", faster, ", ".join(asked), verdict(met))
    return table, good


def table_of_ratios(todo: list[Line], after: Times, before: Times) -> Table:
    """All lines with both checkouts. On a busy machine either ratio alone can be wrong: slower is what both say."""
    table = Table("transitions/s", "before", "after", "after / before", "median of rounds", "")
    for line in todo:
        old, new = before[line.name, ""], after[line.name, ""]
        ratio, median = min(old) / min(new), float(np.median(np.array(old) / np.array(new)))
        said = f"[red]slower by more than {SLOWER:.0%}[/]" if max(ratio, median) < 1 - SLOWER else ""
        table.add_row(line.name, f"{H / min(old):,.0f}", f"{H / min(new):,.0f}", f"{ratio:.3f}", f"{median:.3f}", said)
    return table


def planning() -> list[tuple[str, float, float]]:
    """What comes after exploring, on 21 x 21 fields: CPU seconds, and how many are allowed."""
    grid = MODELS["grid"]()
    atlas = ar.explore(grid, H, max_episodes=10**6, replan="geometric", progress=False)
    return [
        ("one tight certificate", min(cpu_time(lambda: ar.certify(atlas.counts)) for _ in range(4)), 1.0),
        ("one plan with its interval", min(cpu_time(lambda: atlas.plan(grid.reward)) for _ in range(6)), 0.2),
    ]


def gymnasium_overhead(episodes: int = 3_000, rounds: int = 3) -> tuple[float, float]:
    """CPU seconds per step of FrozenLake alone, and of exploring it: the same actions, with and without the library."""
    import gymnasium

    class Recorder(gymnasium.Wrapper):
        """Writes down what is played."""

        def __init__(self, env: gymnasium.Env) -> None:
            super().__init__(env)
            self.played: list[list[int]] = []

        def reset(self, **options: Any) -> Any:
            self.played.append([])
            return self.env.reset(**options)

        def step(self, action: Any) -> Any:
            self.played[-1].append(action)
            return self.env.step(action)

    best_alone, best_explored = np.inf, np.inf
    for r in range(rounds + 1):
        env = Recorder(gymnasium.make("FrozenLake-v1"))
        options = {"algorithm": "rf-trajectory", "bounds": "paper", "stationary": True, "progress": False}
        explored = cpu_time(lambda env=env, options=options: ar.explore(env, 100, max_episodes=episodes, **options))

        def replay(env: Any = env.env, played: list[list[int]] = env.played) -> None:
            for t, actions in enumerate(played):
                env.reset(seed=t) if t % 32 == 0 else env.reset()
                for action in actions:
                    if env.step(action)[2]:  # other draws than the first time: it may end earlier
                        env.reset()

        alone, steps = cpu_time(replay), sum(map(len, env.played))
        if r:
            best_alone, best_explored = min(best_alone, alone / steps), min(best_explored, explored / steps)
    return best_alone, best_explored


def algorithms_of(checkout: Path) -> list[str]:
    """The names of the algorithms that a checkout has."""
    code = "import anyreward, json; print(json.dumps(list(anyreward.ALGORITHMS)))"
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    return json.loads(subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout)


def verdict(met: bool) -> str:
    return "[green]met[/]" if met else "[red]missed[/]"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, metavar="PATH", help="another checkout, with the package in PATH/src")
    parser.add_argument("--lines", help="only the lines with these names, with commas between them")
    parser.add_argument("--rounds", type=int, default=15, help="of which the best counts")
    parser.add_argument("--seconds", type=float, default=0.2, help="CPU time of one line in one round")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return 0
    console, todo = Console(width=150), lines()
    if arguments.lines:
        names = arguments.lines.split(",")
        unknown = set(names) - {line.name for line in todo}
        if unknown:
            parser.error(f"there is no line {', '.join(unknown)}: there are {'; '.join(line.name for line in todo)}")
        todo = [line for line in todo if line.name in names]
    if arguments.against is not None:  # what is new here has nothing to be compared with
        known = algorithms_of(arguments.against)
        todo = [line for line in todo if line.options["algorithm"] in known]
    after = Checkout(HERE.parents[1])
    before = None if arguments.against is None else Checkout(arguments.against)
    times, times_before = measure(todo, after, before, arguments.rounds, arguments.seconds)
    for checkout in (after, before):
        if checkout is not None:
            checkout.close()
    table, good = table_of_targets(todo, times)
    console.print(table)
    if before is not None:
        console.print(table_of_ratios(todo, times, times_before))
    if not arguments.lines:
        for name, took, most in planning():
            console.print(
                f"{name} on 21 x 21 fields: {1000 * took:.0f} ms (asked for: {1000 * most:.0f} ms) {verdict(took <= most)}"
            )
            good = good and took <= most
        alone, explored = gymnasium_overhead()
        console.print(
            f"FrozenLake-v1 through Gymnasium: {1e6 * alone:.1f} us per step alone, {1e6 * explored:.1f} us while it is explored "
            f"(asked for: at most 2 times) {verdict(explored <= 2 * alone)}"
        )
        good = good and explored <= 2 * alone
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

"""How fast exploration is, as ratios to pure simulation and to a plain NumPy implementation, all measured in this run.

    python benchmarks/speed.py

Every line is the best of several short rounds; the rounds of all lines are interleaved, so that a machine that is busy
for a while slows all of them alike. Everything is compiled beforehand. One core.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

import anyreward as ar
from anyreward import kernels
from anyreward.environments.tabular import play as play_model

H = 20
ROUNDS = 30


def plain_rf_ucrl(mdp: ar.TabularMDP, delta: float, rng: np.random.Generator) -> Callable[[int], None]:
    """RF-UCRL as one writes it down: dense arrays, a full backward pass after every episode."""
    P, S, A = mdp.dense(), mdp.n_states, mdp.n_actions
    n_next = np.zeros((H, S, A, S))
    policy = np.zeros((H, S), dtype=int)

    def episodes(count: int) -> None:
        for _ in range(count):
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

    return episodes


def plain_bpi_ucrl(mdp: ar.TabularMDP, delta: float, rng: np.random.Generator) -> Callable[[int], None]:
    """BPI-UCRL in NumPy, vectorised over the pairs of a step: a bisection for every ball, both bounds after every episode."""
    S, A = mdp.n_states, mdp.n_actions
    succ, P = mdp._successors[0], mdp._probabilities[0]
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

    def episodes(count: int) -> None:
        for _ in range(count):
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

    return episodes


def bpi(mdp: ar.TabularMDP, bounds: str) -> Callable[[int], None]:
    """BPI-UCRL of the library, going on from round to round."""
    explorer = ar.BPIUCRL(mdp.setting(H), mdp.reward, bounds=bounds)
    return advancing(explorer, mdp)


def explorer(mdp: ar.TabularMDP, replan: str) -> Callable[[int], None]:
    """RF-UCRL of the library, going on from round to round."""
    return advancing(ar.RFUCRL(mdp.setting(H), bounds="paper", replan=replan), mdp)


def advancing(explorer: ar.Explorer, mdp: ar.TabularMDP) -> Callable[[int], None]:
    rng = np.random.default_rng(0)

    def episodes(count: int) -> None:
        end = explorer.episodes + count
        while explorer.episodes < end:
            play_model(explorer, mdp, rng, end - explorer.episodes, -1.0)

    return episodes


def simulation(mdp: ar.TabularMDP) -> Callable[[int], None]:
    """A fixed policy, nothing learned."""
    policy = np.random.default_rng(1).integers(0, mdp.n_actions, (H, mdp.n_states))
    rng, ends = np.random.default_rng(0), np.zeros(mdp.n_states, np.int64)
    return lambda count: kernels.simulate.visits(mdp.model, policy, rng, count, ends)


def best_times(jobs: dict[str, tuple[Callable[[int], None], int]], rounds: int = ROUNDS) -> dict[str, float]:
    """Seconds an episode, the best of interleaved rounds; one more round comes first, to compile and to warm up."""
    best = dict.fromkeys(jobs, np.inf)
    for r in range(rounds + 1):
        for name, (job, count) in jobs.items():
            start = time.perf_counter()
            job(count)
            if r:
                best[name] = min(best[name], (time.perf_counter() - start) / count)
    return best


def main() -> None:
    console = Console(width=110)
    chain, grid, large = ar.envs.double_chain(), ar.envs.grid_world(), ar.envs.grid_world(300, 300, start=(150, 150))
    seconds = best_times(
        {
            "pure simulation": (simulation(chain), 20_000),
            'RF-UCRL, replan="path"': (explorer(chain, "path"), 10_000),
            'RF-UCRL, replan="every"': (explorer(chain, "every"), 4_000),
            "plain NumPy RF-UCRL": (plain_rf_ucrl(chain, 0.1, np.random.default_rng(0)), 20),
        }
    )
    pure, plain = seconds["pure simulation"], seconds["plain NumPy RF-UCRL"]
    table = Table("double chain, L = 31, H = 20", "transitions/s", "of pure simulation", "times plain NumPy", "asked for")
    asked = {
        'RF-UCRL, replan="path"': (seconds['RF-UCRL, replan="path"'] <= 5 * pure, "1/5 of pure"),
        'RF-UCRL, replan="every"': (
            seconds['RF-UCRL, replan="every"'] <= min(16 * pure, plain / 200),
            "1/16 of pure, 200 times plain",
        ),
    }
    for name, t in seconds.items():
        met, text = asked.get(name, (True, ""))
        table.add_row(name, f"{H / t:,.0f}", f"1/{t / pure:.1f}", f"{plain / t:,.1f}", f"{text} {verdict(met)}" if text else "")
    console.print(table)

    start = time.perf_counter()
    atlas = ar.explore(chain, H, algorithm="rf-ucrl", bounds="paper", max_episodes=10**9, replan="geometric")
    took = time.perf_counter() - start
    console.print(
        f'replan="geometric": {atlas.episodes:,} episodes in {took:.2f} s, certified to {atlas.certificate.epsilon / H:.3f} H '
        f"(asked for: under 20 s {verdict(took < 20)})"
    )

    seconds = best_times({"21 x 21": (explorer(grid, "path"), 2_000), "300 x 300": (explorer(large, "path"), 2_000)})
    ratio = seconds["300 x 300"] / seconds["21 x 21"]
    console.print(
        f'replan="path" on grids: an episode on 300 x 300 costs {ratio:.2f} times one on 21 x 21 '
        f"(asked for: at most 2 {verdict(ratio <= 2)})"
    )

    for name, mdp, counts, asked_for in (("double chain", chain, (300, 2), 500), ("21 x 21 grid", grid, (60, 1), 100)):
        jobs = {bounds: (bpi(mdp, bounds), counts[0]) for bounds in ("paper", "tight")}
        seconds = best_times(jobs | {"plain": (plain_bpi_ucrl(mdp, 0.1, np.random.default_rng(0)), counts[1])}, rounds=6)
        ratio = seconds["plain"] / seconds["paper"]
        console.print(
            f"BPI-UCRL on the {name}: {H / seconds['paper']:,.0f} transitions/s, {H / seconds['tight']:,.0f} with tight bounds; "
            f"plain NumPy {H / seconds['plain']:,.0f}; {ratio:,.0f} times (asked for: {asked_for} {verdict(ratio >= asked_for)})"
        )

    pooled = chain.setting(H, stationary=True)
    rf, best = ar.RFUCRL(pooled, clip=False, replan="every"), ar.BPIUCRL(pooled, chain.reward, bounds="paper")
    seconds = best_times({"rf": (advancing(rf, chain), 3_000), "bpi": (advancing(best, chain), 200)}, rounds=10)
    console.print(
        f"pooled counts, as in the paper's experiments: {H / seconds['rf']:,.0f} transitions/s of RF-UCRL with a full pass after "
        f"every episode, {H / seconds['bpi']:,.0f} of BPI-UCRL (the authors' scripts: 19,000 and 280)"
    )

    speeds = {}
    for bounds in ("paper", "tight"):
        ar.explore(chain, H, bounds=bounds, max_episodes=1000)
        speeds[bounds] = 500_000 / min(
            timed(lambda b=bounds: ar.explore(chain, H, bounds=b, max_episodes=500_000)) for _ in range(3)
        )
    ratio = speeds["tight"] / speeds["paper"]
    console.print(
        f'explore with replan="path": {speeds["tight"]:,.0f} episodes/s with tight bounds, {speeds["paper"]:,.0f} with paper, '
        f"{ratio:.2f} of them (asked for: 0.5 {verdict(ratio >= 0.5)})"
    )
    atlas = ar.explore(grid, H, max_episodes=10**6, replan="geometric")
    took = timed(lambda: ar.certify(atlas.counts))
    console.print(f"one tight certificate on the 21 x 21 grid: {took:.3f} s (asked for: under 1 s {verdict(took < 1)})")
    took = min(timed(lambda: atlas.plan(grid.reward)) for _ in range(5))
    console.print(f"one plan with its interval on the 21 x 21 grid: {1000 * took:.0f} ms")

    table = Table("double chain, 20,000 episodes", "transitions/s", "asked for")
    speeds = {name: rival(chain, name) for name in ar.ALGORITHMS}
    for name, speed in speeds.items():
        least = speeds["bpi-ucrl"] if name in ("bpi-ucrl", "kl-ucrl") else 1e6  # KL-based: BPI-UCRL's speed
        table.add_row(name, f"{speed:,.0f}", f"{least:,.0f} {verdict(speed >= least)}")
    console.print(table)

    environment, own = gymnasium_overhead()
    console.print(
        f"FrozenLake-v1 through Gymnasium: {1e6 * environment:.1f} us a step in the environment, {1e6 * own:.1f} us in anyreward "
        f"(asked for: below the environment's {verdict(own < environment)})"
    )


def rival(mdp: ar.TabularMDP, name: str, episodes: int = 20_000, rounds: int = 3) -> float:
    """Transitions a second of an algorithm from its first episode on, the best of several runs; constructing it is included."""
    kind, best = ar.ALGORITHMS[name], np.inf
    for r in range(rounds + 1):
        options = ({"reward": mdp.reward} if kind.needs_reward else {}) | ({"budget": episodes} if kind.needs_budget else {})
        took = timed(lambda options=options: advancing(kind(mdp.setting(H), **options), mdp)(episodes))
        if r:
            best = min(best, took)
    return episodes * H / best


def gymnasium_overhead(episodes: int = 1_600, rounds: int = 5) -> tuple[float, float]:
    """Seconds a step that the environment takes, and that exploring it adds: the same episodes, with and without an explorer."""
    from anyreward.environments.audit import audited_environment
    from anyreward.environments.base import Environment

    simulator, _ = audited_environment("FrozenLake-v1", 100, True, seed=0)
    explorer = ar.RFTrajectory(simulator.setting(1.0, True, False, None))
    world, env, step = Environment(simulator, explorer.setting, 0, True), simulator.env, simulator.env.step
    best_env, best_all = np.inf, np.inf
    for r in range(rounds + 1):
        begin = explorer.episodes
        took = timed(lambda end=begin + episodes: play_on(world, explorer, end))
        recorded = [actions for _, actions, _, _ in simulator.record[begin:]]
        steps = sum(map(len, recorded))

        def replay(recorded: list[list[int]] = recorded) -> None:
            for t, actions in enumerate(recorded):
                env.reset(seed=t) if t % 32 == 0 else env.reset()
                for a in actions:
                    if step(a)[2]:  # other draws than the first time: it may end earlier
                        env.reset()

        alone = timed(replay)
        if r:
            best_all, best_env = min(best_all, took / steps), min(best_env, alone / steps)
    return best_env, best_all - best_env


def play_on(world: object, explorer: ar.Explorer, end: int) -> None:
    while explorer.episodes < end:
        world.advance(explorer, end - explorer.episodes, -1.0)


def timed(job: Callable[[], object]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def verdict(met: bool) -> str:
    return "[green]met[/]" if met else "[red]missed[/]"


if __name__ == "__main__":
    main()
